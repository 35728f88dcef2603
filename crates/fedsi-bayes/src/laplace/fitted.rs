//! A fitted posterior and its predictions.

use std::sync::Arc;

use rand::Rng;

use crate::error::PosteriorError;
use crate::likelihood::Likelihood;
use crate::network::{LinearisedNetwork, length};
use crate::outputs::OutputDistribution;
use crate::posterior::{Factors, Posterior};
use crate::predictive::{
    ClassProbabilities, Predictive, log_marginal_likelihood, regression_variance, spread,
};
use crate::problem::{check_inputs, check_parameters};
use crate::selection::Explanation;

/// Samples predicted at a time: their covariances of outputs are held at once.
const ROWS: usize = 2048;

/// A Laplace posterior together with what it was fitted to: it predicts with that network at those parameters and
/// with no other. A clone shares both.
#[derive(Clone, Debug)]
pub struct Laplace {
    pub(super) network: Arc<dyn LinearisedNetwork>,
    pub(super) parameters: Arc<[f64]>,
    pub(super) likelihood: Likelihood,
    pub(super) posterior: Posterior,
    pub(super) explanation: Explanation,
    pub(super) evidence: Option<Evidence>,
}

/// What a log marginal likelihood needs beyond the posterior.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evidence {
    pub(super) log_likelihood: f64,
    pub(super) prior_quadratic: f64,
}

/// What a posterior is stored as, besides its network and parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct LaplaceParts {
    /// What the outputs mean.
    pub likelihood: Likelihood,
    /// The posterior in factors.
    pub factors: Factors,
    /// Where its parameters lie.
    pub explanation: Explanation,
}

/// Mean and variance of an observation of each output: `[samples, outputs]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Regression {
    /// The network's outputs.
    pub mean: Vec<f64>,
    /// Their variance, the noise included.
    pub variance: Vec<f64>,
}

impl Laplace {
    /// The posterior that was stored as `parts`, over the network and parameters it was fitted to. Its predictions are
    /// equal to the bit to those of the one that was stored; it has no log marginal likelihood.
    ///
    /// # Errors
    /// Lengths, indices or variances that do not fit each other or the network.
    pub fn from_parts(
        network: Arc<dyn LinearisedNetwork>,
        parameters: impl Into<Arc<[f64]>>,
        parts: LaplaceParts,
    ) -> Result<Self, PosteriorError> {
        let posterior = Posterior::from_factors(&*network, parts.factors)?;
        Self::from_posterior(network, parameters, parts.likelihood, posterior, parts.explanation)
    }

    /// A posterior with its network and parameters.
    ///
    /// # Errors
    /// Parameters or a noise that do not fit the network; a posterior of another network.
    pub fn from_posterior(
        network: Arc<dyn LinearisedNetwork>,
        parameters: impl Into<Arc<[f64]>>,
        likelihood: Likelihood,
        posterior: Posterior,
        explanation: Explanation,
    ) -> Result<Self, PosteriorError> {
        let parameters = parameters.into();
        check_parameters(&*network, &parameters)?;
        likelihood.check(network.outputs())?;
        posterior.check_network(&*network)?;
        Ok(Self { network, parameters, likelihood, posterior, explanation, evidence: None })
    }

    /// What it can be stored as. Cost: a copy of the factors.
    #[must_use]
    pub fn parts(&self) -> LaplaceParts {
        LaplaceParts {
            likelihood: self.likelihood.clone(),
            factors: self.posterior.factors(),
            explanation: self.explanation.clone(),
        }
    }

    /// The network it was fitted to.
    #[must_use]
    pub const fn network(&self) -> &Arc<dyn LinearisedNetwork> {
        &self.network
    }

    /// The parameters at which the network is linearised: all of them.
    #[must_use]
    pub const fn parameters(&self) -> &Arc<[f64]> {
        &self.parameters
    }

    /// What the outputs mean.
    #[must_use]
    pub const fn likelihood(&self) -> &Likelihood {
        &self.likelihood
    }

    /// The Gaussian over the selected parameters.
    #[must_use]
    pub const fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// Where these lie, and how many have curvature.
    #[must_use]
    pub const fn explanation(&self) -> &Explanation {
        &self.explanation
    }

    /// The posterior and its explanation, without network and parameters.
    #[must_use]
    pub fn into_posterior(self) -> (Posterior, Explanation) {
        (self.posterior, self.explanation)
    }

    /// Laplace's approximation of the log probability of the training data under the prior; none where the problem had
    /// no targets, or the posterior comes from a file.
    #[must_use]
    pub fn log_marginal_likelihood(&self) -> Option<f64> {
        let ratio = self.posterior.log_determinant_ratio();
        self.evidence.map(|e| log_marginal_likelihood(e.log_likelihood, ratio, e.prior_quadratic))
    }

    /// The distribution of the linearised network's outputs for each of the samples `inputs`.
    ///
    /// Cost for each sample: one backward pass an output, and (selected + outputs x units) x rank multiplications.
    /// Memory: the result, outputs squared for each sample.
    ///
    /// # Errors
    /// Inputs that are not whole samples; a network that cannot be evaluated.
    pub fn outputs(&self, inputs: &[f64]) -> Result<OutputDistribution, PosteriorError> {
        check_inputs(&*self.network, inputs)?;
        self.posterior.outputs(&*self.network, &self.parameters, inputs)
    }

    /// The probability of each class for each sample: `[samples, classes]`. `draws` and `rng` matter to
    /// [`Predictive::MonteCarlo`] alone, which takes the same draws for every sample.
    ///
    /// Cost: as for [`Self::outputs`], in blocks of samples.
    ///
    /// # Errors
    /// As for [`Self::outputs`]; a likelihood that is not categorical.
    pub fn probabilities(
        &self,
        inputs: &[f64],
        predictive: Predictive,
        draws: usize,
        rng: &mut dyn Rng,
    ) -> Result<Vec<f64>, PosteriorError> {
        if let Likelihood::Gaussian { .. } = self.likelihood {
            return Err(PosteriorError::Likelihood { what: "class probabilities", likelihood: "Gaussian" });
        }
        let classes = self.network.outputs();
        let mut link = ClassProbabilities::new(predictive, classes, draws, rng);
        let mut all = Vec::with_capacity(inputs.len() / self.network.inputs() * classes);
        self.for_each_block(inputs, |outputs| all.extend(link.of(outputs)))?;
        Ok(all)
    }

    /// Mean and variance of an observation of each output for each sample.
    ///
    /// Cost: as for [`Self::outputs`], in blocks of samples.
    ///
    /// # Errors
    /// As for [`Self::outputs`]; a likelihood that is not Gaussian.
    pub fn regression(&self, inputs: &[f64]) -> Result<Regression, PosteriorError> {
        let Likelihood::Gaussian { noise } = &self.likelihood else {
            return Err(PosteriorError::Likelihood { what: "regression moments", likelihood: "categorical" });
        };
        let mut all = Regression::default();
        self.for_each_block(inputs, |outputs| {
            all.mean.extend_from_slice(&outputs.mean);
            all.variance.extend(regression_variance(outputs, noise));
        })?;
        Ok(all)
    }

    /// One number a sample for how uncertain the model is of it: the trace of the outputs' covariance, for classes
    /// without what all logits have in common (a softmax does not depend on it), and without observation noise.
    ///
    /// Cost: as for [`Self::outputs`], in blocks of samples.
    ///
    /// # Errors
    /// As for [`Self::outputs`].
    pub fn spread(&self, inputs: &[f64]) -> Result<Vec<f64>, PosteriorError> {
        let width = self.network.outputs();
        let mut all = Vec::with_capacity(inputs.len() / self.network.inputs());
        self.for_each_block(inputs, |outputs| match self.likelihood {
            Likelihood::Categorical => all.extend(spread(outputs)),
            Likelihood::Gaussian { .. } => {
                let variances = regression_variance(outputs, &[0.0]);
                all.extend(variances.chunks_exact(width).map(|row| row.iter().sum::<f64>()));
            }
        })?;
        Ok(all)
    }

    fn for_each_block(
        &self,
        inputs: &[f64],
        mut each: impl FnMut(&OutputDistribution),
    ) -> Result<(), PosteriorError> {
        check_inputs(&*self.network, inputs)?;
        for rows in inputs.chunks(ROWS * self.network.inputs()) {
            let outputs = self.posterior.outputs(&*self.network, &self.parameters, rows)?;
            length("predicted samples", rows.len() / self.network.inputs(), outputs.len())?;
            each(&outputs);
        }
        Ok(())
    }
}
