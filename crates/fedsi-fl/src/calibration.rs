//! What the federation chooses on training data that clients set aside: what is chosen, what is tried, what a client found.

use fedsi_data::Task;
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
    /// Where the effect of averages is measured: the temperature that was best for modes by themselves when they were chosen,
    /// on the samples that they set aside until the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_alone: Option<f64>,
}

impl Calibration {
    /// Whether nothing was chosen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What the logarithms of averages over modes are divided by, or of regression's Gaussians the variance multiplied. Only
    /// where it was measured in a regression: the rule that stands for measuring is of classes.
    #[must_use]
    pub fn average_temperature(&self, task: Task) -> f64 {
        let chosen = match task {
            Task::Classification { .. } => self.mixture_temperature,
            Task::Regression { .. } => self.temperature_alone.and(self.mixture_temperature),
        };
        chosen.unwrap_or(1.0)
    }

    /// Whether all that is chosen are finite numbers above 0.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let sound = |value: &f64| value.is_finite() && *value > 0.0;
        let Self { prior_variance, temperature, mixture_temperature, temperature_alone } = self;
        [prior_variance, temperature, mixture_temperature, temperature_alone].into_iter().flatten().all(sound)
    }
}

/// Fewest samples of a part that has some in common with its neighbours: a quarter of fewer says too little.
pub(crate) const SHARING: usize = 200;

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
    /// Temperatures of averages over modes, ascending: of the average of every two neighbouring modes on what both set
    /// aside, and then of each of the two by itself on the same samples.
    AverageTemperatures(Vec<f64>),
}

impl Candidates {
    /// The values.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        match self {
            Self::PriorVariances(values) | Self::Temperatures(values) | Self::AverageTemperatures(values) => {
                values
            }
        }
    }

    /// How many scores answer them.
    #[must_use]
    pub fn scores(&self) -> usize {
        match self {
            Self::PriorVariances(values) | Self::Temperatures(values) => values.len(),
            Self::AverageTemperatures(values) => 2 * values.len(),
        }
    }

    /// Whether there are not too many, all of them finite and none below 0; temperatures above it.
    #[must_use]
    pub fn are_sound(&self) -> bool {
        let sound = |value: &f64| match self {
            Self::PriorVariances(_) => value.is_finite() && *value >= 0.0,
            Self::Temperatures(_) | Self::AverageTemperatures(_) => value.is_finite() && *value > 0.0,
        };
        self.values().len() <= MAX_CANDIDATES && self.values().iter().all(sound)
    }

    /// What is chosen among them, for messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PriorVariances(_) => "prior variance",
            Self::Temperatures(_) => "temperature",
            Self::AverageTemperatures(_) => "temperature of averages",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_for_averages_is_of_classes_and_a_measurement_of_all() {
        let (classes, values) = (Task::Classification { classes: 3 }, Task::Regression { outputs: 1 });
        let rule = Calibration { mixture_temperature: Some(0.9), ..Calibration::default() };
        assert_eq!([classes, values].map(|task| rule.average_temperature(task)), [0.9, 1.0]);
        let measured = Calibration { temperature_alone: Some(1.1), ..rule };
        assert_eq!([classes, values].map(|task| measured.average_temperature(task)), [0.9, 0.9]);
        assert!(measured.is_sound() && !Calibration { temperature_alone: Some(0.0), ..rule }.is_sound());
        assert_eq!(Candidates::AverageTemperatures(vec![0.5, 1.0]).scores(), 4);
    }
}
