//! The methods, each a declaration of a few lines.
//!
//! A method says what travels between server and clients, what a client keeps, which phases of local work a
//! round has, and which phases personalise a model at the end. The engine does the rest, the same for all.
//!
//! To add one: write a file beside these with a [`Method`] and list it in [`METHODS`].

mod fedavg;
mod fedavg_ft;
mod fedbabu;
mod fedper;
mod fedrep;
mod fedsi;
mod fedsi_fac;
mod lg_fedavg;
mod local;

use fedsi_bayes::Predictive;

use crate::aggregate::SpreadAverage;
use crate::calibrate;
use crate::config::{Config, ConfigError, FinalPrior, NamedPrior};
use crate::infer::{Inference, PriorVariance, Structure};
use crate::part::Part;

/// Every method, in the order in which they are listed to a person.
pub const METHODS: &[&Method] = &[
    &fedsi::FEDSI,
    &fedsi_fac::FEDSI_FAC,
    &local::LOCAL,
    &fedavg::FEDAVG,
    &fedavg_ft::FEDAVG_FT,
    &fedper::FEDPER,
    &fedrep::FEDREP,
    &fedbabu::FEDBABU,
    &lg_fedavg::LG_FEDAVG,
];

/// What a method is called, where it comes from and what it does.
#[derive(Debug)]
pub struct Method {
    /// The name on the command line.
    pub name: &'static str,
    /// The name in a table.
    pub title: &'static str,
    /// The publication.
    pub source: &'static str,
    /// One sentence: the idea.
    pub idea: &'static str,
    /// Which model is evaluated.
    pub evaluated: &'static str,
    /// The method under a config's settings.
    pub declare: fn(&Config) -> Procedure,
}

/// What a method does, as data: any executor can carry it out.
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
    /// The Gaussian over the shared part; none for point values.
    pub gaussian: Option<Gaussian>,
}

/// A Gaussian over the shared part: after its phases every participant infers a posterior, the server averages
/// spreads as well as values, and a personal model predicts with a posterior of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
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

impl Procedure {
    /// What a participant infers in a round: under the server's prior.
    #[must_use]
    pub fn round_inference(&self) -> Option<Inference> {
        self.inference(PriorVariance::Server, self.gaussian.as_ref()?.round_tolerance)
    }

    /// What a personal model's posterior is; `chosen` is the prior variance that the federation found, if it
    /// looked for one.
    #[must_use]
    pub fn last_inference(&self, chosen: Option<f64>) -> Option<Inference> {
        let gaussian = self.gaussian.as_ref()?;
        let prior = match gaussian.last_prior {
            FinalPrior::Fixed(variance) => PriorVariance::Fixed(variance),
            FinalPrior::Named(NamedPrior::Server) => PriorVariance::Server,
            FinalPrior::Named(NamedPrior::Auto) => {
                PriorVariance::Fixed(chosen.unwrap_or_else(|| calibrate::start(&gaussian.structure)))
            }
        };
        self.inference(prior, gaussian.tolerance)
    }

    /// Whether the federation looks for the prior variance of personal models.
    #[must_use]
    pub fn calibrates(&self) -> bool {
        let auto = FinalPrior::Named(NamedPrior::Auto);
        self.gaussian.as_ref().is_some_and(|gaussian| gaussian.last_prior == auto)
    }

    fn inference(&self, prior: PriorVariance, tolerance: f64) -> Option<Inference> {
        let structure = self.gaussian.as_ref()?.structure.clone();
        Some(Inference { part: self.shared, structure, prior, tolerance })
    }

    /// What a client that joins after training does: as everyone does at the end, or, where nobody tunes
    /// anything then, tunes what others have kept and it has not (everything, where nothing is kept).
    #[must_use]
    pub fn welcome(&self, config: &Config) -> Vec<Phase> {
        match (self.personalise.is_empty(), self.kept) {
            (false, _) => self.personalise.clone(),
            (true, Part::Nothing) => vec![Phase::tune(Part::All, config)],
            (true, kept) => vec![Phase::tune(kept, config)],
        }
    }
}

/// Who works in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// A random draw of `federation.participants` clients.
    Drawn,
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
    /// Learning rate.
    pub rate: f64,
    /// What is known before the data.
    pub prior: Prior,
    /// Standard deviation of Gaussian noise on the parameters that move: the loss is then its mean under that
    /// noise. 0 for none.
    pub noise: f64,
}

/// What is known of the parameters that a phase trains, before the client's data: a Gaussian around where they
/// start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prior {
    /// Nothing.
    Flat,
    /// The server's variances over the shared part; nothing of other parameters.
    Server,
}

impl Phase {
    /// A round's local work: `training.rate`.
    #[must_use]
    pub const fn train(part: Part, epochs: usize, config: &Config) -> Self {
        Self { part, epochs, rate: config.training.rate, prior: Prior::Flat, noise: 0.0 }
    }

    /// The final tuning: `tuning.epochs` at `tuning.rate`.
    #[must_use]
    pub const fn tune(part: Part, config: &Config) -> Self {
        Self { part, epochs: config.tuning.epochs, rate: config.tuning.rate, prior: Prior::Flat, noise: 0.0 }
    }

    /// The same under a prior.
    #[must_use]
    pub const fn under(mut self, prior: Prior) -> Self {
        self.prior = prior;
        self
    }

    /// The same under weight noise.
    #[must_use]
    pub const fn with_noise(mut self, deviation: f64) -> Self {
        self.noise = deviation;
        self
    }
}

/// The method of this name.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn find(name: &str) -> Result<&'static Method, ConfigError> {
    METHODS.iter().copied().find(|method| method.name == name).ok_or_else(|| ConfigError::UnknownMethod {
        name: name.to_owned(),
        hint: crate::config::hint(name, METHODS.iter().map(|method| method.name)),
        known: METHODS.iter().map(|method| method.name).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedsi_data::{DatasetName, Size};

    /// Equal budgets: every method trains K epochs a round, and tunes F epochs or not at all.
    #[test]
    fn every_method_has_the_same_budget() {
        for epochs in [1, 2, 5, 10] {
            let mut config = Config::defaults("local", DatasetName::Mnist, Size::Small);
            (config.training.epochs, config.tuning.epochs) = (epochs, 7);
            for method in METHODS {
                let procedure = (method.declare)(&config);
                let local: usize = procedure.local.iter().map(|phase| phase.epochs).sum();
                assert_eq!(local, epochs, "{}: epochs a round", method.name);
                let tuning: usize = procedure.personalise.iter().map(|phase| phase.epochs).sum();
                assert!([0, 7].contains(&tuning), "{}: {tuning} epochs of tuning", method.name);
            }
        }
    }

    #[test]
    fn an_unknown_method_is_answered_with_the_nearest() {
        let error = find("fedbabo").unwrap_err().to_string();
        assert!(error.contains("did you mean `fedbabu`?"), "{error}");
        assert_eq!(find("fedrep").unwrap().title, "FedRep");
    }
}
