//! Settings of differential privacy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::range::number;
use super::{AggregateName, ConfigError, FederationConfig, Weighting};

/// Client-level differential privacy of the shared part. Personal parts never leave their client, and have no noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrivacyConfig {
    /// Noise multiplier, at least 0.01: standard deviation of the noise on the sum of updates over privacy.clip. 0:
    /// no privacy.
    pub noise: f64,
    /// Largest norm of an update's difference from the server's values, above 0 where there is noise: longer ones are
    /// shortened.
    pub clip: f64,
    /// The chance, above 0 and below 1, that the bound epsilon does not hold; well below one over the clients.
    pub delta: f64,
}

impl PrivacyConfig {
    /// No privacy.
    pub(crate) const NONE: Self = Self { noise: 0.0, clip: 0.0, delta: 1e-5 };

    /// Whether there is any noise.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.noise > 0.0
    }

    /// The noise is worked out for a plain mean of clipped updates and nothing else.
    pub(super) fn check(&self, federation: &FederationConfig) -> Result<(), ConfigError> {
        let noise = "0 (no privacy), or a number from 0.01 to 1e6";
        number("privacy.noise", self.noise, |x| x == 0.0 || (0.01..=1e6).contains(&x), noise)?;
        number("privacy.clip", self.clip, |x| x >= 0.0, "a finite number, 0 or above")?;
        number("privacy.delta", self.delta, |x| x > 0.0 && x < 1.0, "a number above 0 and below 1")?;
        if !self.is_on() {
            return Ok(());
        }
        let clipped = "privacy.noise needs a norm, above 0, that updates are clipped to";
        number("privacy.clip", self.clip, |x| x > 0.0, clipped)?;
        if federation.aggregate != AggregateName::Mean {
            let expected = "privacy.noise is worked out for the mean; use mean";
            return Err(ConfigError::value("federation.aggregate", federation.aggregate.as_str(), expected));
        }
        if federation.weighting != Weighting::Uniform {
            let expected = "privacy.noise needs participants that count alike; use uniform";
            return Err(ConfigError::value("federation.weighting", "samples", expected));
        }
        let twice = "privacy.clip clips already; use 0";
        number("federation.clip", federation.clip, |x| x == 0.0, twice)
    }
}
