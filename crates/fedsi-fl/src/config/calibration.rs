//! Settings of calibration: a temperature for every method, and the data by which the federation chooses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::range::number;

/// How predictions are calibrated, for every method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationConfig {
    /// What logits are divided by: 1 for nothing, another number above 0, or "auto" (chosen by the federation on data
    /// set aside). Where predictions are averages, their logarithms are divided; in a regression it is a factor of the
    /// variance.
    pub temperature: Temperature,
    /// Share of each client's training data, above 0 and at most 0.5, that it sets aside for the first four fifths of
    /// the rounds, where the federation chooses a temperature or a prior variance. With fedsi.modes above 1 each mode
    /// sets another part aside.
    pub fraction: f64,
    /// Whether a client's predictions are over the classes that it has training samples of alone: all other classes have
    /// probability 0, also where one turns up later. For every method; not for a regression.
    pub own_classes: bool,
}

/// A temperature.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number above 0 or \"auto\"")]
pub enum Temperature {
    /// The same whatever the data.
    Fixed(f64),
    /// By name.
    Named(NamedTemperature),
}

/// A temperature by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NamedTemperature {
    /// Chosen by the federation on training data that clients set aside.
    Auto,
}

impl Temperature {
    /// Chosen by the federation.
    pub const AUTO: Self = Self::Named(NamedTemperature::Auto);
}

impl CalibrationConfig {
    /// No temperature, all classes; a fifth set aside where something is chosen.
    pub(super) const DEFAULTS: Self =
        Self { temperature: Temperature::Fixed(1.0), fraction: 0.2, own_classes: false };

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if let Temperature::Fixed(temperature) = self.temperature {
            let range = "a number from 0.001 to 1000, or \"auto\"";
            number("calibration.temperature", temperature, |x| (1e-3..=1e3).contains(&x), range)?;
        }
        let share = "a share above 0 and at most 0.5";
        number("calibration.fraction", self.fraction, |x| x > 0.0 && x <= 0.5, share)
    }
}
