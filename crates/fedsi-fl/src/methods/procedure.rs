//! What a method does, as data: any executor can carry it out.

use std::ops::Range;

use fedsi_bayes::{Predictive, RuleName, RuleNameError, Rules, SelectionError};
use fedsi_nn::Layout;
use thiserror::Error;

use super::Unprotected;
use crate::config::{Config, FinalPrior, NamedPrior, VarianceAverage};
use crate::parameters::Part;

/// What travels, what a client keeps, what it does in a round and at the end, and what is known of parameters beyond
/// their values.
#[derive(Clone, Debug, PartialEq)]
pub struct Procedure {
    /// What the server holds, sends and averages.
    pub shared: Part,
    /// What a client keeps from one of its rounds to the next.
    pub kept: Part,
    /// Who trains in a round.
    pub participation: Participation,
    /// The local training of a round, in order.
    pub local: Vec<Phase>,
    /// What turns the newest shared part and the kept part into the personal model that is evaluated.
    pub personalise: Vec<Phase>,
    /// What is known of parameters beyond their values.
    pub uncertainty: Uncertainty,
}

/// Who trains in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Participation {
    /// A random sample of `federation.participants` clients.
    Sampled,
    /// Every client.
    Everyone,
}

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
    /// By the settings of `[fedsi]`: over a subnetwork that `fedsi.rule` selects.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let settings = &config.fedsi;
        let (rule, share) = (settings.rule.clone(), settings.subnetwork);
        Self {
            structure: PosteriorStructure::Subnetwork { rule, share },
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
    /// All of the part, independent of each other.
    Diagonal,
}

impl PosteriorStructure {
    /// How many of `candidates` parameters have a distribution (rules by layer name have a size of their own).
    #[must_use]
    pub fn size(&self, candidates: usize) -> usize {
        match self {
            Self::Subnetwork { share, .. } => ((share * candidates as f64).round() as usize).max(1),
            Self::Diagonal => candidates,
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
            Self::Diagonal if range.is_empty() => Err(SelectionError::Empty { candidates: 0 }.into()),
            Self::Diagonal => Ok(size),
        }
    }

    /// The prior variance where the federation's search starts, and what is used where there was nothing to choose by.
    /// Independent variances of a whole body add up to far more than the correlated ones of a twentieth of it.
    #[must_use]
    pub const fn typical_prior_variance(&self) -> f64 {
        match self {
            Self::Subnetwork { .. } => 1.5,
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

/// Training of one part of the network for some epochs, with a fresh optimiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// What moves; the rest is frozen.
    pub part: Part,
    /// Passes over the client's training data.
    pub epochs: usize,
    /// Learning rate; the step size where the objective is to sample.
    pub rate: f64,
    /// What is minimised, or sampled from.
    pub objective: Objective,
}

/// What a phase of local training minimises, or samples from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// The mean loss of point values.
    Point {
        /// What is known before the data.
        prior: Prior,
        /// Standard deviation of Gaussian noise on the parameters that move: the loss is then its mean under that
        /// noise. 0 for none.
        weight_noise: f64,
    },
    /// Of a distribution q: `E_q[mean loss] + weight/n KL(q || reference)`.
    Variational {
        /// What the distribution is held to.
        reference: Reference,
        /// How much: 1 is the evidence lower bound.
        weight: f64,
    },
    /// Draws from the posterior: a step of Langevin dynamics an epoch, on all data.
    Sample {
        /// First steps that are discarded; the others are kept.
        discard: usize,
        /// Samples that are kept in all, older ones included: the newest.
        keep: usize,
        /// Variance of every parameter before the data.
        prior_variance: f64,
    },
    /// The mean loss of point values, averaged over the samples of the head that the phase before drew.
    OverSamples,
}

/// What is known of the parameters that a phase trains, before the client's data: a Gaussian around where they
/// start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prior {
    /// Nothing.
    Flat,
    /// The server's variances over the shared part; nothing of other parameters.
    Server,
}

/// What a trained distribution is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The distribution it starts from.
    Start,
    /// A copy of the server's, which follows: every step also brings it nearer to the trained one, and it is what is
    /// sent back.
    Server,
}

impl Phase {
    /// A round's local training: `training.learning_rate`, under `training.weight_noise`.
    #[must_use]
    pub const fn train(part: Part, epochs: usize, config: &Config) -> Self {
        let objective = Objective::Point { prior: Prior::Flat, weight_noise: config.training.weight_noise };
        Self { part, epochs, rate: config.training.learning_rate, objective }
    }

    /// The final tuning: `tuning.epochs` at `tuning.learning_rate`.
    #[must_use]
    pub const fn tune(part: Part, config: &Config) -> Self {
        let (epochs, rate) = (config.tuning.epochs, config.tuning.learning_rate);
        Self { part, epochs, rate, objective: Objective::POINT }
    }

    /// The same with another objective.
    #[must_use]
    pub const fn with_objective(mut self, objective: Objective) -> Self {
        self.objective = objective;
        self
    }
}

impl Objective {
    /// The mean loss and nothing else.
    pub const POINT: Self = Self::Point { prior: Prior::Flat, weight_noise: 0.0 };
}

impl Procedure {
    /// The Gaussian that is inferred after training, where one is.
    #[must_use]
    pub const fn laplace(&self) -> Option<&Laplace> {
        match &self.uncertainty {
            Uncertainty::Laplace(laplace) => Some(laplace),
            Uncertainty::None | Uncertainty::MeanField(_) | Uncertainty::Samples(_) => None,
        }
    }

    /// What a participant infers in a round: under the server's prior.
    #[must_use]
    pub fn round_posterior(&self) -> Option<PosteriorSpec> {
        let laplace = self.laplace()?;
        Some(self.posterior(laplace, PriorVariance::Server, laplace.round_tolerance))
    }

    /// The posterior of a personal model; `chosen` is the prior variance that the federation found, if it looked for one.
    #[must_use]
    pub fn personal_posterior(&self, chosen: Option<f64>) -> Option<PosteriorSpec> {
        let laplace = self.laplace()?;
        let prior = match laplace.personal_prior {
            FinalPrior::Fixed(variance) => PriorVariance::Fixed(variance),
            FinalPrior::Named(NamedPrior::Server) => PriorVariance::Server,
            FinalPrior::Named(NamedPrior::Auto) => {
                PriorVariance::Fixed(chosen.unwrap_or_else(|| laplace.structure.typical_prior_variance()))
            }
        };
        Some(self.posterior(laplace, prior, laplace.tolerance))
    }

    /// Whether the federation chooses the prior variance of personal models on data that clients set aside.
    #[must_use]
    pub fn searches_prior_variance(&self) -> bool {
        self.unprotected() == Some(Unprotected::PriorSearch)
    }

    /// Whether all local training of a round is of values, not of distributions or samples.
    #[must_use]
    pub fn trains_points(&self) -> bool {
        self.local.iter().all(|phase| matches!(phase.objective, Objective::Point { .. }))
    }

    fn posterior(&self, laplace: &Laplace, prior: PriorVariance, tolerance: f64) -> PosteriorSpec {
        PosteriorSpec { part: self.shared, structure: laplace.structure.clone(), prior, tolerance }
    }

    /// What a client that joins after training does: as everyone does at the end, or, where nobody tunes
    /// anything then, trains what others have kept and it has not (everything, where nothing is kept), in the way they
    /// did.
    #[must_use]
    pub fn join_phases(&self, config: &Config) -> Vec<Phase> {
        if !self.personalise.is_empty() {
            return self.personalise.clone();
        }
        let part = if self.kept == Part::Nothing { Part::All } else { self.kept };
        let tune = Phase::tune(part, config);
        match &self.uncertainty {
            // A checked declaration has variational phases alone.
            Uncertainty::MeanField(_) => {
                let objectives = self.local.iter().map(|phase| tune.with_objective(phase.objective));
                objectives.take(1).collect()
            }
            // Its tuning epochs bring the chain to where it should be; then it fills the store.
            Uncertainty::Samples(samples) => {
                let sampling = |phase: &Phase| match phase.objective {
                    Objective::Sample { prior_variance, .. } => {
                        let (discard, keep) = (tune.epochs, samples.count);
                        let objective = Objective::Sample { discard, keep, prior_variance };
                        Some(Phase { part, epochs: tune.epochs + keep, rate: phase.rate, objective })
                    }
                    Objective::Point { .. } | Objective::Variational { .. } | Objective::OverSamples => None,
                };
                self.local.iter().find_map(sampling).into_iter().collect()
            }
            Uncertainty::None | Uncertainty::Laplace(_) => vec![tune],
        }
    }
}
