//! Settings for clients that fail or lie, and for privacy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::number;
use super::{Config, ConfigError, FinalPrior, NamedPrior, Weighting};

/// What happens to participants, simulated: shares of them, 0 to 1, together at most 1. The same clients fail in the
/// same rounds for every method and number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultsConfig {
    /// Share that never answers, and does not work either.
    pub drop: f64,
    /// Share that works but answers past the round's deadline.
    pub straggle: f64,
    /// Share whose message arrives damaged, in one of the ways docs/faults.md lists.
    pub corrupt: f64,
}

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

/// How participants' updates become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AggregateName {
    /// The (weighted) mean.
    Mean,
    /// The median of each parameter.
    Median,
    /// The mean of each parameter without the lowest and highest values.
    TrimmedMean,
}

impl AggregateName {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::TrimmedMean => "trimmed-mean",
        }
    }
}

impl FaultsConfig {
    /// Nobody fails.
    pub(crate) const NONE: Self = Self { drop: 0.0, straggle: 0.0, corrupt: 0.0 };

    /// Whether anybody may fail.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.drop + self.straggle + self.corrupt > 0.0
    }
}

impl PrivacyConfig {
    /// No privacy.
    pub(crate) const NONE: Self = Self { noise: 0.0, clip: 0.0, delta: 1e-5 };

    /// Whether there is any noise.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.noise > 0.0
    }
}

impl Config {
    pub(super) fn check_trouble(&self) -> Result<(), ConfigError> {
        let Self { faults, federation, .. } = self;
        let share = "a share from 0 to 1";
        for (key, value) in [
            ("faults.drop", faults.drop),
            ("faults.straggle", faults.straggle),
            ("faults.corrupt", faults.corrupt),
        ] {
            number(key, value, |x| (0.0..=1.0).contains(&x), share)?;
        }
        let all = faults.drop + faults.straggle + faults.corrupt;
        let together = "with faults.drop and faults.straggle it must be at most 1";
        // Shares such as 0.7 + 0.2 + 0.1 may miss 1 by a rounding.
        number("faults.corrupt", faults.corrupt, |_| all <= 1.0 + 1e-12, together)?;
        let trim = "a share from 0 up to, not including, 0.5";
        number("federation.trim", federation.trim, |x| (0.0..0.5).contains(&x), trim)?;
        let bound = "a finite number, 0 (none) or above";
        number("federation.clip", federation.clip, |x| x >= 0.0, bound)?;
        number(
            "federation.largest",
            federation.largest,
            |x| x == 0.0 || x >= 1.0,
            "0 (none), or at least 1",
        )?;
        if federation.weighting == Weighting::Samples && federation.aggregate != AggregateName::Mean {
            return Err(ConfigError::Value {
                key: "federation.weighting",
                found: "samples".to_owned(),
                expected: format!(
                    "federation.aggregate = \"{}\" counts all participants alike; use uniform",
                    federation.aggregate.as_str()
                ),
            });
        }
        self.check_privacy()
    }

    fn check_privacy(&self) -> Result<(), ConfigError> {
        let Self { privacy, federation, .. } = self;
        let noise = "0 (no privacy), or a number from 0.01 to 1e6";
        number("privacy.noise", privacy.noise, |x| x == 0.0 || (0.01..=1e6).contains(&x), noise)?;
        number("privacy.clip", privacy.clip, |x| x >= 0.0, "a finite number, 0 or above")?;
        number("privacy.delta", privacy.delta, |x| x > 0.0 && x < 1.0, "a number above 0 and below 1")?;
        if !privacy.is_on() {
            return Ok(());
        }
        let clipped = "privacy.noise needs a norm, above 0, that updates are clipped to";
        number("privacy.clip", privacy.clip, |x| x > 0.0, clipped)?;
        let refuse = |key, found: &str, expected: &str| {
            let (found, expected) = (found.to_owned(), expected.to_owned());
            Err(ConfigError::Value { key, found, expected })
        };
        if federation.aggregate != AggregateName::Mean {
            let found = federation.aggregate.as_str();
            return refuse(
                "federation.aggregate",
                found,
                "privacy.noise is worked out for the mean; use mean",
            );
        }
        if federation.weighting != Weighting::Uniform {
            let expected = "privacy.noise needs participants that count alike; use uniform";
            return refuse("federation.weighting", "samples", expected);
        }
        let twice = "privacy.clip clips already; use 0";
        number("federation.clip", federation.clip, |x| x == 0.0, twice)?;
        let infers = ["fedsi", "fedsi-fac"].contains(&self.method.as_str());
        if infers && self.fedsi.prior_variance == FinalPrior::Named(NamedPrior::Auto) {
            let expected = "choosing it would tell of clients' data without noise; with privacy.noise give a number, \
                            as in fedsi.prior_variance=1";
            return refuse("fedsi.prior_variance", "auto", expected);
        }
        Ok(())
    }
}
