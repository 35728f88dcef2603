//! The rows of every table: a method under one set of settings.

use fedsi_fl::methods::{Method, find};
use toml::Value;

use crate::assignment::Assignment;
use crate::setting::{Setting, Variation};
use crate::tuned;

/// Where a row's settings come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// FedSI's own defaults, which were searched on seeds 1 to 8 (docs/uncertainty.md).
    Calibrated,
    /// The paper's settings, as far as it says them.
    Paper,
    /// The search that is the same for every method ([`tuned`]), and a temperature that the federation chooses.
    Tuned,
    /// A point method with the benefit of FedSI's search: its weight noise, and a temperature that the federation chooses.
    WeightNoise,
    /// A method for a quarter of the rounds, with what the search that is the same for every method chose at a quarter of the rounds,
    /// and a temperature: methods that are trained past their best at all rounds are not, then.
    Short,
    /// The method's row with predictions over the classes that a client has training samples of alone: what a client gains by
    /// knowing its classes needs no personal model.
    OwnClasses,
    /// One network trained on everybody's data in one place, with weight noise and a temperature too.
    Pooled,
    /// The same network, tuned by each client on its own data, with predictions over its own classes alone: what a client could
    /// have if data were not kept apart.
    PooledOwnClasses,
}

impl Source {
    /// Whether data is in one place: a reference for all rows, and a rival of none.
    #[must_use]
    pub const fn is_pooled(self) -> bool {
        matches!(self, Self::Pooled | Self::PooledOwnClasses)
    }
}

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in files and on the command line.
    pub id: &'static str,
    /// Its name in tables.
    pub title: &'static str,
    /// The method's name.
    pub method: &'static str,
    /// Where its settings come from.
    pub source: Source,
}

/// The row that all others are tested against.
pub const REFERENCE: &str = "fedsi";

/// All rows, in the paper's order; what the paper does not have comes last.
pub const ENTRIES: [Entry; 20] = [
    tuned("local", "Local only"),
    tuned("fedavg", "FedAvg"),
    tuned("fedavg-ft", "FedAvg-FT"),
    tuned("fedbabu", "FedBABU"),
    tuned("fedper", "FedPer"),
    tuned("fedrep", "FedRep"),
    tuned("lg-fedavg", "LG-FedAvg"),
    tuned("pfedbayes", "pFedBayes"),
    tuned("bpfed", "BPFed"),
    tuned("fedpop", "FedPop"),
    entry("fedsi-fac-paper", "FedSI-Fac (paper)", "fedsi-fac", Source::Paper),
    entry("fedsi-fac", "FedSI-Fac (calibrated)", "fedsi-fac", Source::Calibrated),
    entry("fedsi-paper", "FedSI (paper)", "fedsi", Source::Paper),
    entry(REFERENCE, "FedSI (calibrated)", "fedsi", Source::Calibrated),
    entry("fedbabu-noise", "FedBABU + noise", "fedbabu", Source::WeightNoise),
    entry("fedbabu-short", "FedBABU (1/4 rounds)", "fedbabu", Source::Short),
    entry("fedavg-own", "FedAvg (own classes)", "fedavg", Source::OwnClasses),
    entry("fedsi-own", "FedSI (own classes)", "fedsi", Source::OwnClasses),
    entry("pooled", "All data pooled", "local", Source::Pooled),
    entry("pooled-own", "All data pooled (own classes)", "fedavg-ft", Source::PooledOwnClasses),
];

const fn entry(id: &'static str, title: &'static str, method: &'static str, source: Source) -> Entry {
    Entry { id, title, method, source }
}

const fn tuned(id: &'static str, title: &'static str) -> Entry {
    entry(id, title, id, Source::Tuned)
}

/// The row of this name.
#[must_use]
pub fn find_entry(id: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.id == id)
}

impl Entry {
    /// Whether it is ranked and tested against FedSI: not networks of pooled data, and not FedSI itself over own classes alone, which
    /// is compared with others of that kind.
    #[must_use]
    pub fn is_ranked(&self) -> bool {
        !(self.source.is_pooled() || self.is_fedsi_over_own_classes())
    }

    /// FedSI with predictions over a client's own classes alone.
    #[must_use]
    pub fn is_fedsi_over_own_classes(&self) -> bool {
        self.method == "fedsi" && self.source == Source::OwnClasses
    }

    /// The method.
    ///
    /// # Errors
    /// A name that no method has.
    pub fn method(&self) -> Result<&'static Method, fedsi_fl::ConfigError> {
        find(self.method)
    }

    /// Its settings under a table's setting, on top of the defaults.
    #[must_use]
    pub fn values(&self, setting: &Setting) -> Vec<Assignment> {
        let mut values = self.own_values(setting);
        if setting.variation == Variation::NovelClient
            && let Some(part) = self.novel_part()
        {
            values.push(("tuning.part".to_owned(), Value::String(part.to_owned())));
        }
        values
    }

    /// What a novel client adapts, where the method itself would leave everything as it is: a method whose clients own the
    /// whole network or its body adapts all of it, one that shares more the head.
    fn novel_part(&self) -> Option<&'static str> {
        match self.method {
            "local" | "lg-fedavg" | "pfedbayes" => Some("all"),
            "fedavg" | "fedper" | "bpfed" => Some("head"),
            _ => None,
        }
    }

    fn own_values(&self, setting: &Setting) -> Vec<Assignment> {
        let set = |key: &str, value: Value| (key.to_owned(), value);
        let temperature = || set("calibration.temperature", Value::String("auto".to_owned()));
        let noise = || set("training.weight_noise", Value::Float(setting.weight_noise()));
        let fewer_rounds = |times: usize| {
            set("rounds", Value::Integer(i64::try_from((setting.rounds / times).max(1)).unwrap_or(i64::MAX)))
        };
        let own_classes = || set("calibration.own_classes", Value::Boolean(true));
        let pooled = |key: &str| {
            let noise = setting.weight_noise().min(POOLED_NOISE);
            vec![
                set("training.weight_noise", Value::Float(noise)),
                temperature(),
                set(key, Value::Boolean(true)),
                set("federation.participants", Value::Integer(1)),
                fewer_rounds(POOLED_ROUNDS),
            ]
        };
        match self.source {
            Source::Calibrated => vec![set("profile", Value::String("calibrated".to_owned()))],
            Source::Paper => vec![set("profile", Value::String("paper".to_owned()))],
            Source::Tuned => {
                let mut values = tuned::values(&setting.tuned_on, self.method);
                values.push(temperature());
                values
            }
            Source::WeightNoise => vec![noise(), temperature()],
            Source::OwnClasses => {
                let mut values = match self.method {
                    "fedsi" => vec![set("profile", Value::String("calibrated".to_owned()))],
                    method => [tuned::values(&setting.tuned_on, method), vec![temperature()]].concat(),
                };
                values.push(own_classes());
                values
            }
            Source::Short => {
                let mut values = tuned::values(&setting.tuned_on, self.id);
                values.extend([temperature(), fewer_rounds(SHORT_ROUNDS)]);
                values
            }
            Source::Pooled => pooled("partition.pooled"),
            Source::PooledOwnClasses => [pooled("partition.pooled_client"), vec![own_classes()]].concat(),
        }
    }
}

/// The most weight noise where all data is pooled: at FedSI's 0.3 a network whose head is trained too hardly learns. MNIST-small,
/// seed 1, 100 rounds, accuracy on a fifth of the training data: 91.8% without noise, 92.6% at 0.1.
const POOLED_NOISE: f64 = 0.1;

/// So many times fewer rounds where all data is pooled: at the paper's 800 that is 100, a thousand passes over all samples.
const POOLED_ROUNDS: usize = 8;

/// So many times fewer rounds for what is tuned for fewer: at the paper's 800 that is 200, those of the search.
const SHORT_ROUNDS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_there_and_both_profiles() {
        for method in fedsi_fl::methods::METHODS {
            assert!(ENTRIES.iter().any(|entry| entry.method == method.name), "{} has no row", method.name);
        }
        for id in ["fedsi", "fedsi-paper", "fedsi-fac", "fedsi-fac-paper"] {
            assert!(find_entry(id).is_some(), "{id}");
        }
        let mut ids: Vec<&str> = ENTRIES.iter().map(|entry| entry.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ENTRIES.len(), "two rows have one name");
    }
}
