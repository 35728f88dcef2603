//! Settings of differential privacy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::range::number;
use super::{AggregateName, ConfigError, FederationConfig, WeightingName};

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
    /// The chance, above 0 and below 1, that the bound epsilon does not hold; well below one over the number of clients.
    pub delta: f64,
}

/// What of a run's folder epsilon speaks of, and may be published: the shared part with its noise, and the settings.
pub const COVERED_FILES: [&str; 2] = ["checkpoint/server.safetensors", "config.toml"];

/// What of a run's folder tells of clients without noise, and is for its owner alone: each file or folder, and what it
/// has of them.
pub const UNCOVERED_FILES: [(&str, &str); 13] = [
    ("run.json", "digests of clients' rows, by which a guess can be checked"),
    ("metrics.jsonl", "who took part, losses, whose update was refused and why"),
    ("summary.json", "scores of each client, how many updates were refused"),
    ("report.html", "the same as plots"),
    ("report_data.safetensors", "predictions of clients"),
    ("plots", "the same as plots"),
    ("predictions.safetensors", "predictions for clients' test rows, with their targets"),
    ("predictions.csv", "the same as a table, with the ids of rows"),
    (
        "data.json",
        "counts of missing and of different values over the rows of all clients, cells that could not be read",
    ),
    ("clients", "personal models, which have no noise, and statistics of clients' inputs"),
    ("ood.json", "scores of clients' test rows and of others"),
    ("checkpoint/evaluation.fedsi", "predictions of clients that are evaluated so far"),
    ("checkpoint/round-*.fedsi", "the key of all draws, by which the noise can be removed"),
];

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
        if federation.weighting == WeightingName::Samples {
            let expected = "privacy.noise needs participants that count alike; use uniform";
            return Err(ConfigError::value("federation.weighting", "samples", expected));
        }
        let twice = "privacy.clip clips already; use 0";
        number("federation.clip", federation.clip, |x| x == 0.0, twice)
    }
}
