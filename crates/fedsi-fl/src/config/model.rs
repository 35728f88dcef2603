//! Settings of the network.

use fedsi_nn::LayerSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::range::number;

/// The network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The layers below the head: { linear = N }, { conv = { out = N, kernel = K, stride = 1, padding = 0 } },
    /// { maxpool = N }, { avgpool = N }, "flatten", "relu", "tanh", "sigmoid", "silu", "softplus" or
    /// { leaky-relu = S }. The head, a linear layer with one output a class or target, is added.
    pub body: Vec<LayerSpec>,
    /// Regression: standard deviation of the targets' noise, in units of the standardised targets. 0: estimated from
    /// each client's residuals (on held-out data where validation.fraction > 0, else on its training data).
    pub observation_noise: f64,
}

impl ModelConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let expected = "a finite number, 0 or above";
        number("model.observation_noise", self.observation_noise, |x| x >= 0.0, expected)
    }
}
