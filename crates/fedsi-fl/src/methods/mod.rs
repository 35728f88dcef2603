//! The methods, each a declaration of a few lines.
//!
//! A method says what travels between server and clients, what a client keeps, which phases of local work a
//! round has, and which phases personalise a model at the end. The engine does the rest, the same for all.
//!
//! One of your own needs no change here: see [`Registry::with_method`](crate::Registry::with_method).

mod bpfed;
mod check;
mod fedavg;
mod fedavg_ft;
mod fedbabu;
mod fedper;
mod fedpop;
mod fedrep;
mod fedsi;
mod fedsi_fac;
mod lg_fedavg;
mod local;
mod pfedbayes;
mod procedure;
mod traffic;
mod unprotected;

pub use check::ProcedureError;
pub use procedure::{
    Laplace, MeanField, Objective, Participation, Phase, PosteriorSpec, PosteriorStructure, Prior,
    PriorVariance, Procedure, Reference, Samples, StructureError, Uncertainty,
};
pub use unprotected::Unprotected;

use fedsi_data::DatasetDefaults;

use crate::config::{Config, ConfigError, DeclaredSetting};
use crate::parameters::Part;

/// Every method, in the order in which help texts list them.
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
    &pfedbayes::PFEDBAYES,
    &bpfed::BPFED,
    &fedpop::FEDPOP,
];

/// What a method is called, where it comes from and what it does.
///
/// One written elsewhere is a value of this type, `Method { name: ..., declare: ..., ..Method::EMPTY }`, added by
/// [`Registry::with_method`](crate::Registry::with_method).
#[derive(Clone, Copy, Debug)]
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
    /// The setting beside the learning rate that tuning tries, where there is one.
    pub tuned: Option<TunedSetting>,
    /// The method under a config's settings.
    pub declare: fn(&Config) -> Procedure,
    /// How its defaults differ from those that all methods have on a dataset.
    pub defaults: fn(&mut Config, &DatasetDefaults),
    /// The settings of its publication, laid over its defaults, where they differ: the profile `paper`.
    pub paper: Option<fn(&mut Config)>,
    /// The keys of `[method_settings]` that it reads.
    pub settings: &'static [&'static dyn DeclaredSetting],
}

impl Method {
    /// A method that does nothing and has no settings of its own, for `..Method::EMPTY`.
    pub const EMPTY: Self = Self {
        name: "",
        title: "",
        source: "-",
        idea: "",
        evaluated: "",
        tuned: None,
        declare: |_| Procedure {
            shared: Part::Nothing,
            kept: Part::Nothing,
            participation: Participation::Sampled,
            local: vec![],
            personalise: vec![],
            uncertainty: Uncertainty::None,
        },
        defaults: |_, _| {},
        paper: None,
        settings: &[],
    };
}

/// A setting that is tuned on held-out data, and the values that are tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TunedSetting {
    /// Its key in a config.
    pub key: &'static str,
    /// As many for every method: equal budgets.
    pub values: [f64; 3],
}

impl TunedSetting {
    /// The learning rate of the final tuning.
    const TUNING_RATE: Self = Self { key: "tuning.learning_rate", values: [3e-4, 1e-3, 3e-3] };
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
    use fedsi_data::Size;

    /// Equal budgets: every method trains K epochs a round, and tunes F epochs or not at all. Sampling a head comes on
    /// top: its passes stop at the features.
    #[test]
    fn every_method_has_the_same_budget() {
        for epochs in [1, 2, 5, 10] {
            let mut config = Config::defaults("local", "mnist", Size::Small).unwrap();
            (config.training.epochs, config.tuning.epochs) = (epochs, 7);
            for method in METHODS {
                let procedure = (method.declare)(&config);
                let trains = |phase: &&Phase| !matches!(phase.objective, Objective::Sample { .. });
                let local: usize = procedure.local.iter().filter(trains).map(|phase| phase.epochs).sum();
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
