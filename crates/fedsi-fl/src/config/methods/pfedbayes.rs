//! Settings of pFedBayes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::config::range::number;

/// Settings of the method pfedbayes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PfedbayesConfig {
    /// How much the personal distribution is held to the global one, 0 or above; 1 is the evidence lower bound.
    pub zeta: f64,
}

impl PfedbayesConfig {
    /// As published.
    pub(in crate::config) const DEFAULTS: Self = Self { zeta: 10.0 };

    pub(in crate::config) fn check(&self) -> Result<(), ConfigError> {
        number("pfedbayes.zeta", self.zeta, |x| x >= 0.0, "a finite number, 0 or above")
    }
}
