//! Settings of `BPFed`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::config::range::number;

/// Settings of the method bpfed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BpfedConfig {
    /// How much distributions are held to those of the round before, 0 or above; 1 is the evidence lower bound.
    pub zeta: f64,
}

impl BpfedConfig {
    pub(in crate::config) const DEFAULTS: Self = Self { zeta: 1.0 };

    pub(in crate::config) fn check(&self) -> Result<(), ConfigError> {
        number("bpfed.zeta", self.zeta, |x| x >= 0.0, "a finite number, 0 or above")
    }
}
