//! What a method does, as data: any executor can carry it out.

use super::{Laplace, Modes, PosteriorSpec, PriorVariance, ProcedureError, Uncertainty};
use crate::config::{Config, FinalPrior, NamedPrior, PriorScale, Weighting};
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
    /// How much a participant counts in the average, where `federation.weighting` leaves that to the method.
    pub weighting: Weighting,
    /// A first stage in which the whole network is shared, where there is one.
    pub warm_start: Option<WarmStart>,
    /// The local training of a round, in order.
    pub local: Vec<Phase>,
    /// What turns the newest shared part and the kept part into the personal model that is evaluated.
    pub personalise: Vec<Phase>,
    /// What is known of parameters beyond their values.
    pub uncertainty: Uncertainty,
    /// How many networks are trained in turn, whose predictions are averaged.
    pub modes: Modes,
}

/// A first stage of a run: all parameters are shared and nothing is kept, as in `FedAvg`. Then the method's own shared and
/// kept parts count, and who has kept nothing so far starts from the network that the first stage led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmStart {
    /// Rounds of the first stage.
    pub rounds: u64,
    /// Rounds of the run.
    pub of: u64,
}

/// Nothing is shared, kept or trained: for `..Procedure::default()`.
impl Default for Procedure {
    fn default() -> Self {
        Self {
            shared: Part::Nothing,
            kept: Part::Nothing,
            participation: Participation::Sampled,
            weighting: Weighting::Uniform,
            warm_start: None,
            local: Vec::new(),
            personalise: Vec::new(),
            uncertainty: Uncertainty::None,
            modes: Modes::ONE,
        }
    }
}

/// Who trains in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Participation {
    /// A random sample of `federation.participants` clients.
    Sampled,
    /// Every client.
    Everyone,
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
        /// First steps that are discarded.
        discard: usize,
        /// Of the others one in so many is kept.
        thin: usize,
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prior {
    /// Nothing.
    Flat,
    /// The server's variances over the shared part; nothing of other parameters.
    Server(PriorScale),
    /// The same variance for every parameter of the body that moves; nothing of the head.
    Isotropic(f64),
}

/// What a trained distribution is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The distribution it starts from.
    Start,
    /// A copy of the server's, which follows: a step brings it nearer to the trained one, and it is what is sent back.
    Server {
        /// Steps on the trained one for each on the copy.
        inner_steps: usize,
    },
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
        let automatic = |laplace: &Laplace| laplace.personal_prior == FinalPrior::Named(NamedPrior::Auto);
        self.laplace().is_some_and(automatic)
    }

    /// Whether all local training of a round is of values, not of distributions or samples.
    #[must_use]
    pub fn trains_points(&self) -> bool {
        self.local.iter().all(|phase| matches!(phase.objective, Objective::Point { .. }))
    }

    fn posterior(&self, laplace: &Laplace, prior: PriorVariance, tolerance: f64) -> PosteriorSpec {
        PosteriorSpec { part: self.shared, structure: laplace.structure.clone(), prior, tolerance }
    }

    /// What the server shares in this round, counted from 1.
    #[must_use]
    pub fn shared_in(&self, round: u64) -> Part {
        if self.is_warming_up(round) { Part::All } else { self.shared }
    }

    /// What a participant of this round, counted from 1, keeps.
    #[must_use]
    pub fn kept_in(&self, round: u64) -> Part {
        if self.is_warming_up(round) { Part::Nothing } else { self.kept }
    }

    /// What the server holds from the first round to the last.
    #[must_use]
    pub const fn held(&self) -> Part {
        if self.warm_start.is_some() { Part::All } else { self.shared }
    }

    fn is_warming_up(&self, round: u64) -> bool {
        self.warm_start.is_some_and(|stage| round <= stage.rounds)
    }

    /// The same with this part tuned at the end, whatever the method declares: what `tuning.part` asks for.
    ///
    /// # Errors
    /// A part that the method has no way to tune.
    pub fn with_tuning(mut self, part: Part, config: &Config) -> Result<Self, ProcedureError> {
        if matches!(self.uncertainty, Uncertainty::Samples(_)) && part != Part::Head {
            return Err(ProcedureError::TuningOfSamples);
        }
        // A chain that goes on at the end is the head's tuning.
        if matches!(self.uncertainty, Uncertainty::Samples(_)) && !self.personalise.is_empty() {
            return Ok(self);
        }
        // A prior that the method's own tuning has stays.
        let mut own = self.personalise.iter().map(|phase| phase.objective);
        let own = own.rfind(|objective| matches!(objective, Objective::Point { .. }));
        self.personalise = match own {
            Some(objective) => vec![Phase::tune(part, config).with_objective(objective)],
            None => self.tuning_phases(part, config),
        };
        Ok(self)
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
        self.tuning_phases(part, config)
    }

    /// Tuning of this part in the way the method trains.
    fn tuning_phases(&self, part: Part, config: &Config) -> Vec<Phase> {
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
                    Objective::Sample { thin, prior_variance, .. } => {
                        let (discard, keep) = (tune.epochs, samples.count);
                        let objective = Objective::Sample { discard, thin, keep, prior_variance };
                        Some(Phase { part, epochs: tune.epochs + keep * thin, rate: phase.rate, objective })
                    }
                    Objective::Point { .. } | Objective::Variational { .. } | Objective::OverSamples => None,
                };
                self.local.iter().find_map(sampling).into_iter().collect()
            }
            Uncertainty::None | Uncertainty::Laplace(_) => vec![tune],
        }
    }
}
