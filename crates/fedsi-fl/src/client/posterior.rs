//! A client's posterior after its training: which parameters have a distribution, and which.

use std::sync::Arc;

use fedsi_bayes::{
    Laplace, LaplaceError, Likelihood, Predictive, Prior, Problem, RuleNameError, Rules, Selection,
    SelectionRule,
};
use fedsi_data::Task;
use fedsi_random::{ChaCha8Rng, Purpose};

use super::calibrate::Predicted;
use super::{Client, ClientError, LocalData};
use crate::methods::{Laplace as MethodLaplace, PosteriorSpec, PosteriorStructure, PriorVariance};
use crate::parameters::{Gaussian, LaplaceParameters, Parameters, doubles, is_finite};

/// Rows of derivatives (samples times outputs, less one) up to which a whole body's posterior is as good as exact.
const WHOLE_ROWS: usize = 5_000;

/// How exact it is then.
const WHOLE_TOLERANCE: f64 = 1e-3;

/// How clients of a method infer posteriors.
#[derive(Clone, Debug)]
pub(super) struct Inference {
    chosen: Chosen,
    predictive: Predictive,
    /// Where the federation's search for a prior variance starts.
    typical_prior_variance: f64,
}

/// Which parameters have a distribution.
#[derive(Clone, Debug)]
enum Chosen {
    /// Those that a rule selects.
    ByRule(Arc<dyn SelectionRule>),
    /// All, with their covariance.
    All,
    /// All, without correlations.
    Independent,
}

impl Inference {
    pub(super) fn new(laplace: &MethodLaplace, rules: &Rules) -> Result<Self, RuleNameError> {
        let chosen = match &laplace.structure {
            PosteriorStructure::Subnetwork { rule, .. } => Chosen::ByRule(rules.find(rule)?),
            PosteriorStructure::Whole => Chosen::All,
            PosteriorStructure::Diagonal => Chosen::Independent,
        };
        let typical_prior_variance = laplace.structure.typical_prior_variance();
        Ok(Self { chosen, predictive: laplace.predictive, typical_prior_variance })
    }

    /// The parameters with a posterior around them.
    fn parameters(&self, mut parameters: Parameters, fit: Laplace) -> Parameters {
        let values = std::mem::take(parameters.values_mut());
        Parameters::Laplace(Box::new(LaplaceParameters { values, fit, predictive: self.predictive }))
    }
}

impl Client {
    /// The parameters with a posterior around them.
    pub(super) fn infer(
        &self,
        spec: &PosteriorSpec,
        parameters: Parameters,
        server: Option<&Gaussian>,
        data: &LocalData,
        rng: &mut ChaCha8Rng,
    ) -> Result<Parameters, ClientError> {
        let fit = self.fit_posterior(spec, parameters.values(), server, data, rng, true)?;
        Ok(self.inference()?.parameters(parameters, fit))
    }

    /// How targets depend on the outputs: in a regression with this noise of each.
    #[must_use]
    pub fn likelihood(&self, observation_noise: Vec<f64>) -> Likelihood {
        match self.task {
            Task::Classification { .. } => Likelihood::Categorical,
            Task::Regression { .. } => Likelihood::Gaussian { noise: observation_noise },
        }
    }

    /// Selects parameters and computes their posterior, in f64. One that is kept in a personal model is within a tolerance, which
    /// makes it smaller; a round uploads the variances alone, and has it exactly where that is faster.
    ///
    /// Cost: a backward pass an output over the samples, twice where a rule uses curvature; and the factorisation.
    pub(super) fn fit_posterior(
        &self,
        spec: &PosteriorSpec,
        values: &[f32],
        server: Option<&Gaussian>,
        data: &LocalData,
        rng: &mut ChaCha8Rng,
        is_kept: bool,
    ) -> Result<Laplace, ClientError> {
        let inputs = doubles(&data.train.inputs);
        let problem = self.problem(values, &inputs, data)?;
        let selection = self.select(&problem, spec, server, rng)?;
        let is_exact = !is_kept && problem.is_exact_faster(&selection);
        let tolerance = if is_exact { 0.0 } else { self.tolerance(spec, data) };
        Ok(problem.fit(&selection, tolerance).map_err(LaplaceError::from)?)
    }

    /// How exact a posterior is. Over a whole body the exact form takes gigabytes; while the data is small, every variance
    /// within a thousandth, with a certified bound, stands for it.
    fn tolerance(&self, spec: &PosteriorSpec, data: &LocalData) -> f64 {
        let rows = data.train.count * self.network.output_size().saturating_sub(1).max(1);
        match spec.structure {
            PosteriorStructure::Whole if rows <= WHOLE_ROWS => WHOLE_TOLERANCE,
            PosteriorStructure::Whole => spec.tolerance.max(WHOLE_TOLERANCE),
            PosteriorStructure::Subnetwork { .. } | PosteriorStructure::Diagonal => spec.tolerance,
        }
    }

    /// What posteriors of several prior variances around the same parameters predict of the samples set aside; 0 is the
    /// points themselves. What does not depend on the prior variance is computed once.
    pub(super) fn predict_prior_variances(
        &self,
        (client, mode): (usize, usize),
        candidates: &[f64],
        parameters: &Parameters,
        data: &LocalData,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<Predicted>, ClientError> {
        let inference = self.inference()?;
        let typical = inference.typical_prior_variance;
        let spec = self.procedure.personal_posterior(None).ok_or(ClientError::NoPosterior)?;
        // Whatever the method's own prior is: candidates are scales of the typical one.
        let spec = PosteriorSpec { prior: PriorVariance::Fixed(typical), ..spec };
        let scales: Vec<f64> = candidates.iter().map(|variance| variance / typical).collect();
        let inputs = doubles(&data.train.inputs);
        let problem = self.problem(parameters.values(), &inputs, data)?;
        let selection = self.select(&problem, &spec, None, rng)?;
        let asked = doubles(&data.set_aside.inputs);
        let tolerance = self.tolerance(&spec, data);
        match self.task {
            Task::Classification { .. } => {
                let (predictive, draws) = (inference.predictive, self.draws());
                let mut rng = self.streams.stream(Purpose::Prediction, client as u64, mode as u64);
                let found = problem.probabilities_at_scales(
                    &selection, tolerance, &scales, &asked, predictive, draws, &mut rng,
                );
                Ok(found.map_err(LaplaceError::from)?.into_iter().map(Predicted::Classes).collect())
            }
            Task::Regression { .. } => {
                let found = problem.regression_at_scales(&selection, tolerance, &scales, &asked);
                let found = found.map_err(LaplaceError::from)?.into_iter();
                Ok(found.map(|one| Predicted::values(one.mean, one.variance)).collect())
            }
        }
    }

    fn inference(&self) -> Result<&Inference, ClientError> {
        self.inference.as_ref().ok_or(ClientError::NoPosterior)
    }

    /// What a posterior is inferred from.
    fn problem<'a>(
        &self,
        values: &[f32],
        inputs: &'a [f64],
        data: &LocalData,
    ) -> Result<Problem<'a>, ClientError> {
        if !is_finite(values) {
            return Err(ClientError::Diverged);
        }
        let likelihood = self.likelihood(self.observation_noise(values, data)?);
        let problem = Problem::new(self.network.linearised(), doubles(values), inputs, likelihood);
        Ok(problem.map_err(LaplaceError::from)?)
    }

    fn select(
        &self,
        problem: &Problem<'_>,
        spec: &PosteriorSpec,
        server: Option<&Gaussian>,
        rng: &mut ChaCha8Rng,
    ) -> Result<Selection, ClientError> {
        let range = spec.part.range(self.network.layout());
        let size = spec.structure.size(range.len());
        let prior = match spec.prior {
            PriorVariance::Fixed(variance) => Prior::isotropic(range, variance),
            PriorVariance::Server => {
                let server = server.ok_or(ClientError::NoServerGaussian)?;
                let variance = doubles(&server.variance[range.clone()]);
                Prior::diagonal(range, variance)
            }
        };
        Ok(match &self.inference()?.chosen {
            Chosen::ByRule(rule) => problem.choose(&prior, &**rule, size, rng)?,
            Chosen::All => problem.choose_all(&prior)?,
            Chosen::Independent => problem.choose_independent(&prior)?,
        })
    }
}
