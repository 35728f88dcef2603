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
mod modes;
mod pfedbayes;
mod procedure;
mod traffic;
mod uncertainty;
mod unprotected;

pub use check::ProcedureError;
pub use modes::Modes;
pub use procedure::{Objective, Participation, Phase, Prior, Procedure, Reference, WarmStart};
pub use uncertainty::{
    Laplace, MeanField, PosteriorSpec, PosteriorStructure, PriorVariance, Samples, StructureError,
    Uncertainty,
};
pub use unprotected::Unprotected;

use fedsi_data::DatasetDefaults;

use crate::config::{Config, ConfigError, DeclaredSetting, Profile};

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
    /// The settings beside the learning rate that tuning tries, in this order: its own, and how much noise it trains under
    /// (another of its own, where its noise is one).
    pub tuned: [TunedSetting; 2],
    /// The method under a config's settings.
    pub declare: fn(&Config) -> Procedure,
    /// How its defaults differ from those that all methods have on a dataset.
    pub defaults: fn(&mut Config, &DatasetDefaults),
    /// The learning rate of local training that suits the other settings, where the method has a rule: in its own defaults,
    /// and where nobody says otherwise.
    pub learning_rate: Option<fn(&Config) -> f64>,
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
        tuned: [TunedSetting::MORE_RATES, TunedSetting::WEIGHT_NOISE],
        declare: |_| Procedure::default(),
        defaults: |_, _| {},
        learning_rate: None,
        paper: None,
        settings: &[],
    };
}

impl Method {
    /// Sets the learning rate by the method's rule, where it has one; the paper's settings have one rate.
    pub(crate) fn suit_learning_rate(&self, config: &mut Config) {
        if let (Some(rule), Profile::Calibrated) = (self.learning_rate, config.profile) {
            config.training.learning_rate = rule(config);
        }
    }
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
    pub const TUNING_RATE: Self = Self { key: "tuning.learning_rate", values: [3e-4, 1e-3, 3e-3] };

    /// Noise on the weights in training, for methods that train points.
    pub const WEIGHT_NOISE: Self = Self { key: "training.weight_noise", values: [0.0, 0.1, 0.3] };

    /// More learning rates, for methods that have no setting of their own. One of them has been tried with the first
    /// ones, as the defaults of other methods' settings have been: the same number of new trials.
    pub const MORE_RATES: Self = Self { key: "training.learning_rate", values: [1e-4, 1e-3, 1e-2] };

    /// The deviations that a mean field starts with.
    const MEAN_FIELD_NOISE: Self = Self {
        key: "mean_field.initial_deviation",
        values: [0.016_195_783_857_914, 0.048_587_351_573_742, 0.145_762_054_721_226],
    };
}

/// The one of these methods that a name means: its own, or its own or its title in other letters, as publications write
/// it (`FedSI`), where that is one method's alone.
pub(crate) fn meant<'a>(methods: impl Iterator<Item = &'a Method> + Clone, name: &str) -> Option<&'a Method> {
    let is_alike =
        |method: &&Method| method.name.eq_ignore_ascii_case(name) || method.title.eq_ignore_ascii_case(name);
    let exact = methods.clone().find(|method| method.name == name);
    let mut alike = methods.filter(is_alike);
    exact.or_else(|| alike.next().filter(|_| alike.next().is_none()))
}

/// The method of this name, in small or capital letters.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn find(name: &str) -> Result<&'static Method, ConfigError> {
    meant(METHODS.iter().copied(), name).ok_or_else(|| ConfigError::UnknownMethod {
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
                let tuning: usize =
                    procedure.personalise.iter().filter(trains).map(|phase| phase.epochs).sum();
                assert!([0, 7].contains(&tuning), "{}: {tuning} epochs of tuning", method.name);
            }
        }
    }

    #[test]
    fn an_unknown_method_is_answered_with_the_nearest() {
        let error = find("fedbabo").unwrap_err().to_string();
        assert!(error.contains("did you mean `fedbabu`?"), "{error}");
        assert_eq!(find("fedrep").unwrap().title, "FedRep");
        for (name, method) in [("FedSI", "fedsi"), ("LG-FedAvg", "lg-fedavg"), ("PFEDBAYES", "pfedbayes")] {
            assert_eq!(find(name).unwrap().name, method);
        }
        assert!(find("Fed SI").is_err() && find("").is_err());
    }

    #[test]
    fn letters_do_not_matter_where_one_method_is_meant() {
        let named = |name, title| Method { name, title, ..Method::EMPTY };
        let all = [named("Own", "x"), named("own", "y"), named("other", "OWN 2")];
        let name = |wanted: &str| meant(all.iter(), wanted).map(|method| method.name);
        assert_eq!([name("own"), name("Own"), name("own 2")], [Some("own"), Some("Own"), Some("other")]);
        assert_eq!(name("OWN"), None, "two methods are alike");
    }
}
