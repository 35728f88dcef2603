//! What a method does, as data: any executor can carry it out.

use fedsi_bayes::Predictive;

use crate::aggregate::SpreadAverage;
use crate::calibrate;
use crate::config::{Config, FinalPrior, NamedPrior};
use crate::infer::{Inference, PriorVariance, Structure};
use crate::part::Part;

/// What travels, what a client keeps, what it does in a round and at the end, and what is known of parameters beyond
/// their values.
#[derive(Clone, Debug, PartialEq)]
pub struct Procedure {
    /// What the server holds, sends and averages.
    pub shared: Part,
    /// What a client keeps from one of its rounds to the next.
    pub kept: Part,
    /// Who works in a round.
    pub workers: Workers,
    /// The local work of a round, in order.
    pub local: Vec<Phase>,
    /// What turns the newest shared part and the kept part into the personal model that is evaluated.
    pub personalise: Vec<Phase>,
    /// What is known of parameters beyond their values.
    pub uncertainty: Uncertainty,
}

/// Who works in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// A random draw of `federation.participants` clients.
    Drawn,
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
    /// Samples of the kept part; the shared part is a point.
    Samples(Samples),
}

/// A Gaussian over the shared part: after its phases every participant infers a posterior, the server averages
/// spreads as well as values, and a personal model predicts with a posterior of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Laplace {
    /// Which parameters a participant infers a distribution of.
    pub structure: Structure,
    /// The variance of every parameter before the first round, and of those that nobody selected in the last.
    pub alpha: f64,
    /// What is averaged of participants' variances.
    pub spread: SpreadAverage,
    /// Participants infer a posterior in every so many rounds.
    pub every: u64,
    /// How exact the posteriors of personal models are.
    pub tolerance: f64,
    /// How exact participants' posteriors are.
    pub round_tolerance: f64,
    /// The prior variance of a personal model's posterior.
    pub last_prior: FinalPrior,
    /// From a distribution of outputs to a prediction.
    pub predictive: Predictive,
    /// Draws of a predictive that samples.
    pub draws: usize,
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
    /// Towards what.
    pub objective: Objective,
}

/// What a phase of local work is after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// The values of least loss.
    Point {
        /// What is known before the data.
        prior: Prior,
        /// Standard deviation of Gaussian noise on the parameters that move: the loss is then its mean under that
        /// noise. 0 for none.
        noise: f64,
    },
    /// The distribution q of least `E_q[mean loss] + weight/n KL(q || reference)`.
    Variational {
        /// What the distribution is held to.
        reference: Reference,
        /// How much: 1 is the evidence lower bound.
        weight: f64,
    },
    /// Draws from the posterior: a step of Langevin dynamics an epoch, on all data.
    Sample {
        /// First steps that are forgotten; the others are kept.
        discard: usize,
        /// Samples that are kept in all, older ones included: the newest.
        keep: usize,
        /// Variance of every parameter before the data.
        prior_variance: f64,
    },
    /// The values of least loss, averaged over the samples of the head that the phase before drew.
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
    /// A round's local work: `training.rate`.
    #[must_use]
    pub const fn train(part: Part, epochs: usize, config: &Config) -> Self {
        Self { part, epochs, rate: config.training.rate, objective: Objective::POINT }
    }

    /// The final tuning: `tuning.epochs` at `tuning.rate`.
    #[must_use]
    pub const fn tune(part: Part, config: &Config) -> Self {
        Self { part, epochs: config.tuning.epochs, rate: config.tuning.rate, objective: Objective::POINT }
    }

    /// The same towards something else.
    #[must_use]
    pub const fn towards(mut self, objective: Objective) -> Self {
        self.objective = objective;
        self
    }
}

impl Objective {
    /// The values of least loss and nothing else.
    pub const POINT: Self = Self::Point { prior: Prior::Flat, noise: 0.0 };
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
    pub fn round_inference(&self) -> Option<Inference> {
        self.inference(PriorVariance::Server, self.laplace()?.round_tolerance)
    }

    /// What a personal model's posterior is; `chosen` is the prior variance that the federation found, if it
    /// looked for one.
    #[must_use]
    pub fn last_inference(&self, chosen: Option<f64>) -> Option<Inference> {
        let laplace = self.laplace()?;
        let prior = match laplace.last_prior {
            FinalPrior::Fixed(variance) => PriorVariance::Fixed(variance),
            FinalPrior::Named(NamedPrior::Server) => PriorVariance::Server,
            FinalPrior::Named(NamedPrior::Auto) => {
                PriorVariance::Fixed(chosen.unwrap_or_else(|| calibrate::start(&laplace.structure)))
            }
        };
        self.inference(prior, laplace.tolerance)
    }

    /// Whether the federation looks for the prior variance of personal models.
    #[must_use]
    pub fn calibrates(&self) -> bool {
        let auto = FinalPrior::Named(NamedPrior::Auto);
        self.laplace().is_some_and(|laplace| laplace.last_prior == auto)
    }

    fn inference(&self, prior: PriorVariance, tolerance: f64) -> Option<Inference> {
        let structure = self.laplace()?.structure.clone();
        Some(Inference { part: self.shared, structure, prior, tolerance })
    }

    /// What a client that joins after training does: as everyone does at the end, or, where nobody tunes
    /// anything then, learns what others have kept and it has not (everything, where nothing is kept), in the way they
    /// did.
    #[must_use]
    pub fn welcome(&self, config: &Config) -> Vec<Phase> {
        if !self.personalise.is_empty() {
            return self.personalise.clone();
        }
        let part = if self.kept == Part::Nothing { Part::All } else { self.kept };
        let tune = Phase::tune(part, config);
        match (&self.uncertainty, self.local.first().map(|phase| (phase.rate, phase.objective))) {
            (Uncertainty::MeanField(_), Some((_, objective))) => vec![tune.towards(objective)],
            // Its tuning epochs bring the chain to where it should be; then it fills the store.
            (Uncertainty::Samples(samples), Some((rate, Objective::Sample { prior_variance, .. }))) => {
                let objective =
                    Objective::Sample { discard: tune.epochs, keep: samples.count, prior_variance };
                let epochs = tune.epochs + samples.count;
                vec![Phase { part, epochs, rate, objective }]
            }
            _ => vec![tune],
        }
    }
}
