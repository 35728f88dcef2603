//! The parameters that may be chosen, and what is known about them.

use std::ops::Range;

use fedsi_nn::Layout;

use super::SelectionError;
use crate::curvature::Curvature;

/// The parameters a subnetwork is chosen from, checked: every array has a value for each of them.
#[derive(Clone, Debug)]
pub struct Candidates<'a> {
    layout: &'a Layout,
    range: Range<usize>,
    curvature: &'a Curvature,
    prior_variance: &'a [f64],
    parameters: &'a [f64],
}

impl<'a> Candidates<'a> {
    /// The parameters of `range` (flat indices; usually the body). `curvature` and `prior_variance` have a
    /// value for each of them, `parameters` are all of the network's.
    ///
    /// Curvature and parameters may be NaN: the built-in rules rank such a parameter last.
    ///
    /// # Errors
    /// A range beyond the network, an array of the wrong length, a prior variance that is not positive.
    pub fn new(
        layout: &'a Layout,
        range: Range<usize>,
        curvature: &'a Curvature,
        prior_variance: &'a [f64],
        parameters: &'a [f64],
    ) -> Result<Self, SelectionError> {
        if range.start > range.end || range.end > layout.len() {
            return Err(SelectionError::Range { range, parameters: layout.len() });
        }
        for (array, found, expected) in [
            ("diagonal curvature", curvature.ggn.len(), range.len()),
            ("summed squared Jacobian", curvature.jacobian.len(), range.len()),
            ("prior variance", prior_variance.len(), range.len()),
            ("parameters", parameters.len(), layout.len()),
        ] {
            if found != expected {
                return Err(SelectionError::Length { array, expected, found });
            }
        }
        let refused = |value: f64| value.is_nan() || value <= 0.0;
        if let Some((offset, &value)) = prior_variance.iter().enumerate().find(|(_, value)| refused(**value))
        {
            return Err(SelectionError::PriorVariance { index: range.start + offset, value });
        }
        Ok(Self { layout, range, curvature, prior_variance, parameters })
    }

    /// The network's layout.
    #[must_use]
    pub const fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// Flat indices of the candidates.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The candidates' curvature.
    #[must_use]
    pub const fn curvature(&self) -> &'a Curvature {
        self.curvature
    }

    /// The prior's variance of each candidate.
    #[must_use]
    pub const fn prior_variance(&self) -> &'a [f64] {
        self.prior_variance
    }

    /// The candidates' own values.
    #[must_use]
    pub fn values(&self) -> &'a [f64] {
        &self.parameters[self.range.clone()]
    }

    /// The marginal posterior variances `v_r = 1/(h_r + 1/g_r)`, as if parameters were independent.
    pub fn marginal_variances(&self) -> impl Iterator<Item = f64> + '_ {
        self.curvature.ggn.iter().zip(self.prior_variance).map(|(h, g)| 1.0 / (h + 1.0 / g))
    }

    /// What each adds, by itself, to the variance of all outputs over the data: `v_r * j_r`.
    pub fn contributions(&self) -> impl Iterator<Item = f64> + '_ {
        self.marginal_variances()
            .zip(&self.curvature.jacobian)
            .map(|(variance, sensitivity)| variance * sensitivity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedsi_nn::{LayerSpec, Network};

    #[test]
    fn only_arrays_that_fit_make_candidates() {
        let network = Network::new(&[1], &[LayerSpec::Linear(2), LayerSpec::Linear(1)]).unwrap();
        let (layout, all) = (network.layout(), [0.0; 7]);
        let curvature = |n, m| Curvature { ggn: vec![1.0; n], jacobian: vec![1.0; m] };
        let refused = |range: Range<usize>, curvature: &Curvature, prior: &[f64], all: &[f64]| {
            Candidates::new(layout, range, curvature, prior, all).unwrap_err().to_string()
        };
        assert!(Candidates::new(layout, 0..4, &curvature(4, 4), &[1.0; 4], &all).is_ok());
        assert_eq!(
            refused(2..8, &curvature(6, 6), &[1.0; 6], &all),
            "the candidates 2..8 do not lie within the network's 7 parameters"
        );
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = 3..2;
        assert!(refused(reversed, &curvature(0, 0), &[], &all).starts_with("the candidates 3..2"));
        assert_eq!(
            refused(0..4, &curvature(3, 4), &[1.0; 4], &all),
            "diagonal curvature: expected 4 values, one a parameter, found 3"
        );
        assert!(refused(0..4, &curvature(4, 5), &[1.0; 4], &all).starts_with("summed squared Jacobian"));
        assert!(refused(0..4, &curvature(4, 4), &[1.0; 7], &all).starts_with("prior variance: expected 4"));
        assert!(refused(0..4, &curvature(4, 4), &[1.0; 4], &all[1..]).starts_with("parameters: expected 7"));
        for bad in [0.0, -1.0, f64::NAN] {
            assert_eq!(
                refused(3..7, &curvature(4, 4), &[1.0, 1.0, bad, 1.0], &all),
                format!("parameter 5: a prior variance must be positive, found {bad}")
            );
        }
    }
}
