//! Which parameters of a problem have a distribution.

use std::ops::Range;

use rand::Rng;

use super::LaplaceError;
use crate::curvature::Curvature;
use crate::problem::Problem;
use crate::selection::{Candidates, Explanation, SelectionError, SelectionRule, Subnetwork};

/// Independent normal priors of a range of the flat parameters: those that may have a distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    range: Range<usize>,
    variance: Vec<f64>,
    mean: Option<Vec<f64>>,
}

impl Prior {
    /// The same variance for every parameter of the range; means of 0.
    #[must_use]
    pub fn isotropic(range: Range<usize>, variance: f64) -> Self {
        Self { variance: vec![variance; range.len()], range, mean: None }
    }

    /// A variance for each parameter of the range; means of 0.
    #[must_use]
    pub const fn diagonal(range: Range<usize>, variance: Vec<f64>) -> Self {
        Self { range, variance, mean: None }
    }

    /// The same with a mean for each parameter of the range. Only a log marginal likelihood depends on it.
    #[must_use]
    pub fn with_mean(mut self, mean: Vec<f64>) -> Self {
        self.mean = Some(mean);
        self
    }

    /// The parameters it is over: flat indices.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The values of `all`, one for each parameter of the range, at `indices`.
    fn at(&self, all: &[f64], indices: &[usize]) -> Vec<f64> {
        indices.iter().map(|&index| all[index - self.range.start]).collect()
    }

    fn check(&self, problem: &Problem<'_>) -> Result<(), SelectionError> {
        let (range, parameters) = (self.range(), problem.network().layout().len());
        if range.start > range.end || range.end > parameters {
            return Err(SelectionError::Range { range, parameters });
        }
        let arrays = [("prior variance", Some(&self.variance)), ("prior mean", self.mean.as_ref())];
        for (array, values) in arrays {
            if let Some(found) = values.map(Vec::len).filter(|&found| found != range.len()) {
                return Err(SelectionError::Length { array, expected: range.len(), found });
            }
        }
        Ok(())
    }
}

/// How parameters of a selection depend on each other.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Structure {
    /// By a full covariance.
    Full,
    /// Not at all; each has this curvature.
    Independent { ggn: Vec<f64> },
}

/// Parameters that are to have a distribution, with their prior.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    pub(super) subnetwork: Subnetwork,
    pub(super) prior_variance: Vec<f64>,
    pub(super) prior_mean: Option<Vec<f64>>,
    pub(super) structure: Structure,
    /// What the parameters were chosen from.
    range: Range<usize>,
    curvature: Option<Curvature>,
}

impl Selection {
    /// The chosen parameters.
    #[must_use]
    pub const fn subnetwork(&self) -> &Subnetwork {
        &self.subnetwork
    }

    /// The prior variance of each of them.
    #[must_use]
    pub fn prior_variance(&self) -> &[f64] {
        &self.prior_variance
    }

    /// The curvature of every parameter of the prior's range; none where no rule needed it.
    #[must_use]
    pub const fn curvature(&self) -> Option<&Curvature> {
        self.curvature.as_ref()
    }

    /// Where they lie, and how many have curvature, which a fit tells.
    pub(super) fn explain(&self, problem: &Problem<'_>, without_curvature: usize) -> Explanation {
        self.subnetwork.explain(problem.network().layout(), without_curvature, self.range.clone())
    }

    fn new(prior: &Prior, subnetwork: Subnetwork, curvature: Option<Curvature>) -> Self {
        let indices = subnetwork.indices();
        Self {
            prior_variance: prior.at(&prior.variance, indices),
            prior_mean: prior.mean.as_ref().map(|mean| prior.at(mean, indices)),
            range: prior.range(),
            structure: Structure::Full,
            subnetwork,
            curvature,
        }
    }
}

impl Problem<'_> {
    /// `size` parameters of the prior's range, by a rule, with their full covariance.
    ///
    /// Cost: the rule and, where it uses curvature, the diagonal of the GGN over the range (a backward pass for each output).
    ///
    /// # Errors
    /// A prior that does not fit the network, a size or rule that cannot be followed; a network that cannot be
    /// evaluated.
    pub fn choose(
        &self,
        prior: &Prior,
        rule: &dyn SelectionRule,
        size: usize,
        rng: &mut dyn Rng,
    ) -> Result<Selection, LaplaceError> {
        prior.check(self)?;
        let range = prior.range();
        let used = rule.uses_curvature();
        let curvature =
            if used { Curvature::diagonal(self, range.clone())? } else { Curvature::unknown(range.len()) };
        let layout = self.network().layout();
        let candidates =
            Candidates::new(layout, range.clone(), &curvature, &prior.variance, self.parameters())?;
        let chosen = rule.select(&candidates, size, rng)?;
        // A rule of somebody else's may have checked its indices against another range.
        let subnetwork = Subnetwork::new(chosen.into_indices(), range)?;
        Ok(Selection::new(prior, subnetwork, used.then_some(curvature)))
    }

    /// The parameters `indices` (ascending flat indices within the prior's range), with their full covariance.
    ///
    /// # Errors
    /// Indices that do not ascend or lie outside the range, a prior that does not fit the network.
    pub fn choose_indices(&self, prior: &Prior, indices: Vec<usize>) -> Result<Selection, LaplaceError> {
        prior.check(self)?;
        let subnetwork = Subnetwork::new(indices, prior.range())?;
        Ok(Selection::new(prior, subnetwork, None))
    }

    /// All parameters of the prior's range, with their full covariance.
    ///
    /// With a tolerance, a [fit](Self::fit) keeps the directions that the data determines, a few dozen to a few hundred
    /// numbers for each parameter; without, as many as the data has rows (samples times classes less one).
    ///
    /// # Errors
    /// A prior that does not fit the network, an empty range.
    pub fn choose_all(&self, prior: &Prior) -> Result<Selection, LaplaceError> {
        prior.check(self)?;
        let range = prior.range();
        let subnetwork = Subnetwork::all(range.clone())?;
        // For its checks of the prior variances.
        let (layout, unknown) = (self.network().layout(), Curvature::unknown(range.len()));
        Candidates::new(layout, range, &unknown, &prior.variance, self.parameters())?;
        Ok(Selection::new(prior, subnetwork, None))
    }

    /// The parameters of a selection, independent of each other: each has its own curvature alone.
    ///
    /// Cost: the diagonal of the GGN at these parameters, unless a rule needed it; the fit that follows costs next to nothing.
    ///
    /// # Errors
    /// A network that cannot be evaluated.
    pub fn independent(&self, selection: Selection) -> Result<Selection, LaplaceError> {
        let indices = selection.subnetwork.indices();
        let ggn = match &selection.curvature {
            Some(known) => indices.iter().map(|&index| known.ggn[index - selection.range.start]).collect(),
            None => Curvature::of_indices(self, indices)?.ggn,
        };
        Ok(Selection { structure: Structure::Independent { ggn }, ..selection })
    }

    /// All parameters of the prior's range, independent of each other.
    ///
    /// Cost: the diagonal of the GGN over the range; the fit that follows costs next to nothing.
    ///
    /// # Errors
    /// As for [`Self::choose_all`] and [`Self::independent`].
    pub fn choose_independent(&self, prior: &Prior) -> Result<Selection, LaplaceError> {
        self.independent(self.choose_all(prior)?)
    }
}
