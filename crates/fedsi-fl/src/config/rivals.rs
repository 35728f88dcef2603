//! Settings of the Bayesian methods beside FedSI.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Distributions of the methods pfedbayes and bpfed: an independent normal for each parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeanFieldConfig {
    /// Standard deviation of the initial means around 0, above 0.
    pub initial_mean: f64,
    /// Initial standard deviation of every parameter, above 0.
    pub initial_deviation: f64,
    /// Draws of all parameters that a prediction averages.
    #[schemars(range(min = 1))]
    pub draws: usize,
}

/// Settings of the method pfedbayes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PfedbayesConfig {
    /// How much the personal distribution is held to the global one, 0 or above; 1 is the evidence lower bound.
    pub zeta: f64,
}

/// Settings of the method bpfed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BpfedConfig {
    /// How much distributions are held to those of the round before, 0 or above; 1 is the evidence lower bound.
    pub zeta: f64,
}

/// Settings of the method fedpop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FedpopConfig {
    /// Langevin steps on the head in a round.
    #[schemars(range(min = 1))]
    pub steps: usize,
    /// How many of them are discarded; fewer than all.
    pub discard: usize,
    /// Step size, above 0. Chains diverge where it is above 4 over the largest curvature.
    pub step: f64,
    /// Prior variance of the head's parameters, above 0.
    pub prior_variance: f64,
    /// Newest samples of the head that a client keeps and predicts with.
    #[schemars(range(min = 1))]
    pub samples: usize,
}

impl MeanFieldConfig {
    /// As published: rho starts at -3, and `ln(1 + e^-3)` is 0.0486.
    pub(crate) const fn published() -> Self {
        Self { initial_mean: 0.1, initial_deviation: 0.048_587_351_573_742, draws: 30 }
    }
}
