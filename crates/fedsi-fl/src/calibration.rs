//! What the federation chooses on training data that clients set aside: what is chosen, what is tried, what a client found.

use serde::{Deserialize, Serialize};

/// What the federation has chosen; none of what is given, or not chosen yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The prior variance of personal models' posteriors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior_variance: Option<f64>,
    /// What every mode's logits are divided by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// What the logarithms of the modes' average are divided by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixture_temperature: Option<f64>,
}

impl Calibration {
    /// Whether nothing was chosen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether all that is chosen are finite numbers above 0.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let sound = |value: &f64| value.is_finite() && *value > 0.0;
        let Self { prior_variance, temperature, mixture_temperature } = self;
        [prior_variance, temperature, mixture_temperature].into_iter().flatten().all(sound)
    }
}

/// Most candidates that a client scores at once.
const MAX_CANDIDATES: usize = 256;

/// Values that clients are to score on the data they set aside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Candidates {
    /// Prior variances of personal posteriors, ascending; 0 is a point model.
    PriorVariances(Vec<f64>),
    /// Temperatures, ascending.
    Temperatures(Vec<f64>),
}

impl Candidates {
    /// The values.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        match self {
            Self::PriorVariances(values) | Self::Temperatures(values) => values,
        }
    }

    /// Whether there are not too many, all of them finite and none below 0; temperatures above it.
    #[must_use]
    pub fn are_sound(&self) -> bool {
        let sound = |value: &f64| match self {
            Self::PriorVariances(_) => value.is_finite() && *value >= 0.0,
            Self::Temperatures(_) => value.is_finite() && *value > 0.0,
        };
        self.values().len() <= MAX_CANDIDATES && self.values().iter().all(sound)
    }

    /// What is chosen among them, for messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PriorVariances(_) => "prior variance",
            Self::Temperatures(_) => "temperature",
        }
    }
}

/// What one client found of one candidate: sums over the samples it set aside. Finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CandidateScore {
    /// Negative log likelihood.
    pub loss: f64,
    /// Confidence less the number of right classes: above 0 where the models are too sure. 0 in a regression.
    pub excess: f64,
}

impl CandidateScore {
    /// Whether all of it are finite numbers of at most this size.
    #[must_use]
    pub fn is_within(&self, largest: f64) -> bool {
        self.loss.abs() <= largest && self.excess.abs() <= largest
    }
}
