//! What a method knows of parameters beyond their values: declarations, as data.

use std::ops::Range;

use fedsi_bayes::{Predictive, RuleName, RuleNameError, Rules, SelectionError};
use fedsi_nn::Layout;
use thiserror::Error;

use crate::config::{Config, FinalPrior, PosteriorName, VarianceAverage};
use crate::parameters::Part;

/// What is known of parameters beyond their values, and how predictions average over it.
#[derive(Clone, Debug, PartialEq)]
pub enum Uncertainty {
    /// Nothing: points are shared, points predict.
    None,
    /// A Gaussian that is inferred after training, from the curvature there.
    Laplace(Laplace),
    /// An independent normal for each parameter, trained as such.
    MeanField(MeanField),
    /// Samples of the kept head; the shared part is a point.
    Samples(Samples),
}

/// A Gaussian over the shared part: after its phases every participant infers a posterior, the server averages
/// variances as well as values, and a personal model predicts with a posterior of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Laplace {
    /// Which parameters a participant infers a distribution of.
    pub structure: PosteriorStructure,
    /// The variance of every parameter before the first round, and of those that nobody selected in the last.
    pub alpha: f64,
    /// What is averaged of participants' variances.
    pub variance_average: VarianceAverage,
    /// Participants infer a posterior in every so many rounds.
    pub posterior_interval: u64,
    /// How exact the posteriors of personal models are.
    pub tolerance: f64,
    /// How exact participants' posteriors are.
    pub round_tolerance: f64,
    /// The prior variance of a personal model's posterior.
    pub personal_prior: FinalPrior,
    /// From a distribution of outputs to a prediction.
    pub predictive: Predictive,
    /// Draws of a predictive that samples.
    pub draws: usize,
}

impl Laplace {
    /// By the settings of `[fedsi]`: over a subnetwork that `fedsi.rule` selects, or over all.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let settings = &config.fedsi;
        let structure = match settings.posterior {
            PosteriorName::Subnetwork | PosteriorName::None => {
                let (rule, share) = (settings.rule.clone(), settings.subnetwork);
                PosteriorStructure::Subnetwork { rule, share }
            }
            PosteriorName::Whole => PosteriorStructure::Whole,
        };
        Self {
            structure,
            alpha: settings.alpha,
            variance_average: settings.variance_average,
            posterior_interval: settings.posterior_interval,
            tolerance: settings.tolerance,
            round_tolerance: settings.round_tolerance,
            personal_prior: settings.prior_variance,
            predictive: settings.predictive,
            draws: settings.draws,
        }
    }
}

/// Which parameters have a distribution, of which form.
#[derive(Clone, Debug, PartialEq)]
pub enum PosteriorStructure {
    /// The selected few, with their full covariance.
    Subnetwork {
        /// How they are selected.
        rule: RuleName,
        /// How many: a share of the part.
        share: f64,
    },
    /// All of the part, with their full covariance.
    Whole,
    /// All of the part, independent of each other.
    Diagonal,
}

impl PosteriorStructure {
    /// How many of `candidates` parameters have a distribution (rules by layer name have a size of their own).
    #[must_use]
    pub fn size(&self, candidates: usize) -> usize {
        match self {
            Self::Subnetwork { share, .. } => ((share * candidates as f64).round() as usize).max(1),
            Self::Whole | Self::Diagonal => candidates,
        }
    }

    /// How many of the parameters in `range` are selected this way, known before any of them is trained.
    ///
    /// # Errors
    /// A rule that does not exist, no parameters, or layers that are not among them.
    pub fn check(
        &self,
        layout: &Layout,
        range: Range<usize>,
        rules: &Rules,
    ) -> Result<usize, StructureError> {
        let size = self.size(range.len());
        match self {
            Self::Subnetwork { rule, .. } => Ok(rules.find(rule)?.check(layout, range, size)?),
            Self::Whole | Self::Diagonal if range.is_empty() => {
                Err(SelectionError::Empty { candidates: 0 }.into())
            }
            Self::Whole | Self::Diagonal => Ok(size),
        }
    }

    /// The prior variance where the federation's search starts, and what is used where there was nothing to choose by.
    /// A random subnetwork is a sketch of the whole body: the same predictions at a prior variance larger by the share
    /// that was left out.
    #[must_use]
    pub const fn typical_prior_variance(&self) -> f64 {
        match self {
            Self::Subnetwork { .. } => 1.5,
            Self::Whole => 0.075,
            Self::Diagonal => 0.06,
        }
    }
}

/// Why a posterior's structure cannot be had.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum StructureError {
    /// No such rule.
    #[error(transparent)]
    Rule(#[from] RuleNameError),
    /// The rule cannot select so many of these parameters.
    #[error(transparent)]
    Selection(#[from] SelectionError),
}

/// A posterior to be inferred after training, as data: part of a client's work.
#[derive(Clone, Debug, PartialEq)]
pub struct PosteriorSpec {
    /// Where parameters may be selected.
    pub part: Part,
    /// Which of them have a distribution, of which form.
    pub structure: PosteriorStructure,
    /// Their variance before the client's data is seen.
    pub prior: PriorVariance,
    /// How exact the covariance is: 0 is exact, eps keeps every variance within a factor 1 + eps.
    pub tolerance: f64,
}

/// The prior variance of a posterior.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PriorVariance {
    /// The server's variances, one a parameter.
    Server,
    /// The same for all.
    Fixed(f64),
}

/// An independent normal for each parameter. The server averages means and standard deviations; a personal model's
/// predictions are averaged over draws of all its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanField {
    /// Standard deviation of the initial means around 0.
    pub initial_mean: f64,
    /// Initial standard deviation of every parameter.
    pub initial_deviation: f64,
    /// Draws that a prediction averages.
    pub draws: usize,
}

impl MeanField {
    /// By the settings of `[mean_field]`.
    #[must_use]
    pub const fn of(config: &Config) -> Self {
        let settings = &config.mean_field;
        Self {
            initial_mean: settings.initial_mean,
            initial_deviation: settings.initial_deviation,
            draws: settings.draws,
        }
    }
}

/// Samples of the kept head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Samples {
    /// How many a client keeps: the newest. Predictions average them.
    pub count: usize,
    /// Variance of every parameter of the head before the data: what a client that was never drawn samples from.
    pub prior_variance: f64,
}
