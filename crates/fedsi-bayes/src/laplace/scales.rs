//! Predictions under many scales of the prior variances at once, for a search over them.

use rand::Rng;

use super::fitted::Regression;
use super::select::{Selection, Structure};
use crate::error::PosteriorError;
use crate::likelihood::Likelihood;
use crate::outputs::OutputDistribution;
use crate::posterior::{IndependentScales, Spectrum};
use crate::predictive::{ClassProbabilities, Predictive, regression_variance};
use crate::problem::{Problem, check_inputs};

/// The largest scale for which the tolerance holds.
const LARGEST_BOUNDED: f64 = 10.0;

impl Problem<'_> {
    /// The probability of each class for each of the samples `inputs`, under the posteriors of the selection's prior
    /// variances times each of `scales`: `[samples, classes]` for each scale, in their order. What
    /// [`Self::fit_scales`] and [`Laplace::probabilities`](super::Laplace::probabilities) give, with what does not
    /// depend on the scale computed once. A scale of 0 gives the point model's probabilities. `draws` and `rng` matter
    /// to [`Predictive::MonteCarlo`] alone, which takes the same draws for every sample and scale.
    ///
    /// With `tolerance` 0 it is exact. With a positive one no variance comes out too small, rounding aside, and at scales
    /// up to 10 (or the largest asked, if that is less) none too large by more than the tolerance: no variance at all
    /// where the data has few rows that matter (samples times classes less one, compared with the selection's size);
    /// else the mean over 64 combinations of outputs, of samples spread over `inputs`, for which a bound is computed.
    /// Larger scales use the same directions and are less exact: no scale far too large makes a search slow. With many
    /// rows and a selection beyond some 30,000 parameters the tolerance holds for every variance, but at scale 1 only.
    ///
    /// Cost: forming the GGN (or the Gram matrix of the data), an eigendecomposition of the size of the directions
    /// kept, and (selected + outputs x units) x directions multiplications for each sample; for each scale outputs^2 /
    /// 2 x directions more. Independent parameters: selected multiplications for each sample and scale.
    ///
    /// # Errors
    /// As for [`Self::fit`]; inputs that are not whole samples, a scale that is negative or not finite, a likelihood
    /// that is not categorical.
    #[allow(clippy::too_many_arguments, reason = "what is fitted and what is predicted, in one call")]
    pub fn probabilities_at_scales(
        &self,
        selection: &Selection,
        tolerance: f64,
        scales: &[f64],
        inputs: &[f64],
        predictive: Predictive,
        draws: usize,
        rng: &mut dyn Rng,
    ) -> Result<Vec<Vec<f64>>, PosteriorError> {
        if let Likelihood::Gaussian { .. } = self.likelihood() {
            return Err(PosteriorError::Likelihood { what: "class probabilities", likelihood: "Gaussian" });
        }
        let mut link = ClassProbabilities::new(predictive, self.network().outputs(), draws, rng);
        let mut all = vec![Vec::new(); scales.len()];
        self.outputs_at_scales(selection, tolerance, scales, inputs, |scale, outputs| {
            all[scale].extend(link.of(outputs));
        })?;
        Ok(all)
    }

    /// The same for a Gaussian likelihood: mean and variance of an observation of each output, for each scale.
    ///
    /// # Errors
    /// As for [`Self::probabilities_at_scales`]; a likelihood that is not Gaussian.
    pub fn regression_at_scales(
        &self,
        selection: &Selection,
        tolerance: f64,
        scales: &[f64],
        inputs: &[f64],
    ) -> Result<Vec<Regression>, PosteriorError> {
        let Likelihood::Gaussian { noise } = self.likelihood() else {
            return Err(PosteriorError::Likelihood { what: "regression moments", likelihood: "categorical" });
        };
        let mut all = vec![Regression::default(); scales.len()];
        self.outputs_at_scales(selection, tolerance, scales, inputs, |scale, outputs| {
            all[scale].mean.extend_from_slice(&outputs.mean);
            all[scale].variance.extend(regression_variance(outputs, noise));
        })?;
        Ok(all)
    }

    /// `each` has the outputs of a batch of samples for one scale after the other, then those of the next batch.
    fn outputs_at_scales(
        &self,
        selection: &Selection,
        tolerance: f64,
        scales: &[f64],
        inputs: &[f64],
        each: impl FnMut(usize, &OutputDistribution),
    ) -> Result<(), PosteriorError> {
        check_inputs(&**self.network(), inputs)?;
        if !(tolerance >= 0.0 && tolerance.is_finite()) {
            return Err(PosteriorError::Setting { what: "the tolerance", value: tolerance });
        }
        if let Some(&value) = scales.iter().find(|&&scale| !(scale >= 0.0 && scale.is_finite())) {
            return Err(PosteriorError::Setting { what: "a scale of the prior variance", value });
        }
        let (network, parameters) = (&**self.network(), self.parameters());
        let (indices, prior) = (selection.subnetwork.indices(), &selection.prior_variance);
        match &selection.structure {
            Structure::Independent { ggn } => IndependentScales::new(network, indices, prior, ggn)?
                .outputs(network, parameters, inputs, scales, each),
            Structure::Full => {
                let largest = scales.iter().copied().fold(1.0, f64::max).min(LARGEST_BOUNDED);
                Spectrum::new(self, indices, prior, tolerance, largest, inputs)?
                    .outputs(network, parameters, inputs, scales, each)
            }
        }
    }
}
