//! Predictions beside what is true, and their scores.

use fedsi_data::Task;
use fedsi_metrics::Bins;
use fedsi_metrics::regression::GaussianPredictions;

use thiserror::Error;

use crate::scores::Scores;

/// Predictions for some test samples, beside what is true.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictions {
    /// A probability for each class.
    Classes {
        /// How many classes.
        classes: usize,
        /// Samples x classes, rows summing to 1.
        probabilities: Vec<f32>,
        /// The true classes.
        labels: Vec<u32>,
    },
    /// A Gaussian for each target, in the data's own units.
    Values {
        /// How many targets a sample has.
        outputs: usize,
        /// Samples x outputs, in f64 because a target may be a year, or seconds since 1970.
        mean: Vec<f64>,
        /// Samples x outputs.
        variance: Vec<f64>,
        /// The true values.
        targets: Vec<f64>,
    },
}

/// Predictions of another task than were expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("predictions of {found:?} among those of {expected:?}")]
pub struct OtherTask {
    /// The task that was expected.
    pub expected: Task,
    /// The task that was found.
    pub found: Task,
}

impl Predictions {
    /// No predictions yet.
    #[must_use]
    pub const fn none(task: Task) -> Self {
        match task {
            Task::Classification { classes } => {
                Self::Classes { classes, probabilities: Vec::new(), labels: Vec::new() }
            }
            Task::Regression { outputs } => {
                Self::Values { outputs, mean: Vec::new(), variance: Vec::new(), targets: Vec::new() }
            }
        }
    }

    /// How many samples were predicted.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Classes { labels, .. } => labels.len(),
            Self::Values { outputs, targets, .. } => targets.len() / *outputs,
        }
    }

    /// Whether nothing was predicted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every prediction is finite.
    #[must_use]
    pub fn are_finite(&self) -> bool {
        match self {
            Self::Classes { probabilities, .. } => probabilities.iter().all(|p| p.is_finite()),
            Self::Values { mean, variance, .. } => mean.iter().chain(variance).all(|x| x.is_finite()),
        }
    }

    /// Adds another client's predictions of the same task.
    ///
    /// # Errors
    /// Predictions of another task; nothing is added.
    pub fn append(&mut self, other: Self) -> Result<(), OtherTask> {
        match (self, other) {
            (
                Self::Classes { classes, probabilities, labels },
                Self::Classes { classes: same, probabilities: more, labels: more_labels },
            ) if *classes == same => {
                probabilities.extend(more);
                labels.extend(more_labels);
                Ok(())
            }
            (
                Self::Values { outputs, mean, variance, targets },
                Self::Values { outputs: same, mean: more, variance: more_variance, targets: more_targets },
            ) if *outputs == same => {
                mean.extend(more);
                variance.extend(more_variance);
                targets.extend(more_targets);
                Ok(())
            }
            (own, other) => Err(OtherTask { expected: own.task(), found: other.task() }),
        }
    }

    /// What is predicted.
    #[must_use]
    pub const fn task(&self) -> Task {
        match self {
            Self::Classes { classes, .. } => Task::Classification { classes: *classes },
            Self::Values { outputs, .. } => Task::Regression { outputs: *outputs },
        }
    }

    /// The scores of all these predictions together; empty scores where there are none, or where they are not
    /// finite.
    #[must_use]
    pub fn scores(&self) -> Scores {
        match self {
            Self::Classes { classes, probabilities, labels } => {
                let predictions = fedsi_metrics::Predictions::new(probabilities, labels, *classes);
                Scores::classification(predictions.ok().and_then(|found| found.scores(Bins::default())))
            }
            Self::Values { outputs, mean, variance, targets } => {
                let predictions = GaussianPredictions::new(mean, variance, targets, *outputs);
                Scores::regression(predictions.ok().and_then(|found| found.scores()))
            }
        }
    }
}
