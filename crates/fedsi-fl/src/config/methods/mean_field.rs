//! Settings of trained distributions, shared by pFedBayes and `BPFed`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::config::range::{number, whole};

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

impl MeanFieldConfig {
    /// As published: rho starts at -3, and `ln(1 + e^-3)` is 0.0486.
    pub(in crate::config) const DEFAULTS: Self =
        Self { initial_mean: 0.1, initial_deviation: 0.048_587_351_573_742, draws: 30 };

    pub(in crate::config) fn check(&self) -> Result<(), ConfigError> {
        // Squares of deviations travel in single precision.
        let single = "a number from 1e-15 to 1e15";
        for (key, value) in [
            ("mean_field.initial_mean", self.initial_mean),
            ("mean_field.initial_deviation", self.initial_deviation),
        ] {
            number(key, value, |x| (1e-15..=1e15).contains(&x), single)?;
        }
        whole("mean_field.draws", self.draws, 1..=1 << 20, "between 1 and 1048576 draws")
    }
}
