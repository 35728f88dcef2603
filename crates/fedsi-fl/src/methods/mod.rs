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
mod lg_fedavg;
mod local;

use crate::config::{Config, ConfigError};
use crate::part::Part;

/// Every method, in the order in which they are listed to a person.
pub const METHODS: &[&Method] = &[
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
}

impl Phase {
    /// A round's local work: `training.rate`.
    #[must_use]
    pub const fn train(part: Part, epochs: usize, config: &Config) -> Self {
        Self { part, epochs, rate: config.training.rate }
    }

    /// The final tuning: `tuning.epochs` at `tuning.rate`.
    #[must_use]
    pub const fn tune(part: Part, config: &Config) -> Self {
        Self { part, epochs: config.tuning.epochs, rate: config.tuning.rate }
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
