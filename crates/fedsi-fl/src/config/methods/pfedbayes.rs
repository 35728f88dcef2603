//! Settings of pFedBayes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::config::range::{number, whole};

/// Settings of the method pfedbayes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PfedbayesConfig {
    /// How much the personal distribution is held to the global one, 0 or above; 1 is the evidence lower bound.
    pub zeta: f64,
    /// Steps on the personal distribution for each step on the client's copy of the global one, at least 1; 5 in the
    /// public code.
    #[schemars(range(min = 1))]
    pub inner_steps: usize,
}

impl PfedbayesConfig {
    /// As published, the inner steps as in its public code.
    pub(in crate::config) const DEFAULTS: Self = Self { zeta: 10.0, inner_steps: 5 };

    pub(in crate::config) fn check(&self) -> Result<(), ConfigError> {
        number("pfedbayes.zeta", self.zeta, |x| x >= 0.0, "a finite number, 0 or above")?;
        whole("pfedbayes.inner_steps", self.inner_steps, 1..=1 << 20, "between 1 and 1048576 steps")
    }
}
