//! Settings of `LG-FedAvg`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::config::range::number;

/// Settings of the method lg-fedavg.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LgFedavgConfig {
    /// Share of the rounds, 0 up to but not including 1, that are FedAvg's: from its network all clients then start. 0: from
    /// the random initial network.
    pub warm_start: f64,
}

impl LgFedavgConfig {
    /// Three quarters of the rounds: the publication starts from a network that `FedAvg` has trained, here within the same
    /// budget; docs/baselines.md tells how the share was chosen.
    pub(in crate::config) const DEFAULTS: Self = Self { warm_start: 0.75 };

    pub(in crate::config) fn check(&self) -> Result<(), ConfigError> {
        let share = "a share of the rounds, 0 up to but not including 1";
        number("lg_fedavg.warm_start", self.warm_start, |x| (0.0..1.0).contains(&x), share)
    }
}
