//! From a personal model to predictions and their scores.

use fedsi_data::{Samples, Targets, Task};
use fedsi_metrics::Bins;
use fedsi_metrics::regression::GaussianPredictions;

use crate::executor::LocalData;
use crate::record::{Scores, Validation};
use crate::work::Trade;

/// Smallest standard deviation of regression noise, in units of the standardised targets: a client that fits
/// its samples exactly is not certain of the next one.
const SMALLEST_NOISE: f64 = 1e-3;

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

    /// Whether every prediction is a number.
    #[must_use]
    pub fn are_finite(&self) -> bool {
        match self {
            Self::Classes { probabilities, .. } => probabilities.iter().all(|p| p.is_finite()),
            Self::Values { mean, variance, .. } => mean.iter().chain(variance).all(|x| x.is_finite()),
        }
    }

    /// Adds another client's predictions of the same task.
    pub fn append(&mut self, other: Self) {
        match (self, other) {
            (
                Self::Classes { probabilities, labels, .. },
                Self::Classes { probabilities: more, labels: more_labels, .. },
            ) => {
                probabilities.extend(more);
                labels.extend(more_labels);
            }
            (
                Self::Values { mean, variance, targets, .. },
                Self::Values { mean: more, variance: more_variance, targets: more_targets, .. },
            ) => {
                mean.extend(more);
                variance.extend(more_variance);
                targets.extend(more_targets);
            }
            // One run has one task.
            (Self::Classes { .. }, Self::Values { .. }) | (Self::Values { .. }, Self::Classes { .. }) => {}
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

/// The predictions of a personal model on the client's test samples.
///
/// A point model of regression knows its noise from its own residuals, on held-out data where there is some.
#[must_use]
pub fn predict(
    trade: &Trade,
    task: Task,
    parameters: &[f32],
    noise: f64,
    data: &LocalData,
    test: &Samples,
    scaling: Option<&fedsi_data::Scaling>,
) -> Predictions {
    let outputs = trade.outputs(parameters, &test.inputs);
    match (task, &test.targets) {
        (Task::Classification { classes }, Targets::Classes(labels)) => Predictions::Classes {
            classes,
            probabilities: probabilities(&outputs, classes).into_iter().map(|p| p as f32).collect(),
            labels: labels.clone(),
        },
        (Task::Regression { outputs: width }, Targets::Values(targets)) => {
            let known = if data.held_out.count > 0 { &data.held_out } else { &data.train };
            let noise = if noise > 0.0 {
                vec![noise; width]
            } else {
                residual_noise(trade, parameters, known, width)
            };
            let restore = |values: &[f32]| -> Vec<f64> {
                let own_unit = |(index, &value): (usize, &f32)| {
                    scaling.map_or(f64::from(value), |s| s.restore(index % width, f64::from(value)))
                };
                values.iter().enumerate().map(own_unit).collect()
            };
            let variance = (0..targets.len()).map(|index| {
                let stored = noise[index % width] * noise[index % width];
                scaling.map_or(stored, |s| s.restore_variance(index % width, stored))
            });
            Predictions::Values {
                outputs: width,
                mean: restore(&outputs),
                variance: variance.collect(),
                targets: restore(targets),
            }
        }
        // Data and task were opened together.
        (Task::Classification { .. }, Targets::Values(_))
        | (Task::Regression { .. }, Targets::Classes(_)) => Predictions::none(task),
    }
}

/// The class probabilities of rows of logits, in f64.
fn probabilities(logits: &[f32], classes: usize) -> Vec<f64> {
    let mut values: Vec<f64> = logits.iter().map(|&logit| f64::from(logit)).collect();
    fedsi_nn::softmax(&mut values, classes);
    values
}

/// Root mean square of the residuals, for each target.
fn residual_noise(trade: &Trade, parameters: &[f32], samples: &Samples, width: usize) -> Vec<f64> {
    let outputs = trade.outputs(parameters, &samples.inputs);
    let Targets::Values(targets) = &samples.targets else { return vec![1.0; width] };
    let mut squares = vec![0.0; width];
    for (index, (&output, &target)) in outputs.iter().zip(targets).enumerate() {
        squares[index % width] += f64::from(output - target).powi(2);
    }
    let root = |square: f64| (square / samples.count.max(1) as f64).sqrt().max(SMALLEST_NOISE);
    squares.into_iter().map(root).collect()
}

/// How a model does on data its client held out; none without such data.
#[must_use]
pub fn validate(trade: &Trade, task: Task, parameters: &[f32], held_out: &Samples) -> Option<Validation> {
    if held_out.count == 0 {
        return None;
    }
    let outputs = trade.outputs(parameters, &held_out.inputs);
    let empty = Validation { samples: held_out.count, ..Validation::default() };
    Some(match (task, &held_out.targets) {
        (Task::Classification { classes }, Targets::Classes(labels)) => {
            let probabilities = probabilities(&outputs, classes);
            let scores = fedsi_metrics::Predictions::new(&probabilities, labels, classes)
                .ok()
                .and_then(|found| found.scores(Bins::default()));
            Validation { accuracy: scores.map(|s| s.accuracy), nll: scores.map(|s| s.nll), ..empty }
        }
        (_, Targets::Values(targets)) => {
            let square: f64 = outputs.iter().zip(targets).map(|(&a, &b)| f64::from(a - b).powi(2)).sum();
            Validation { rmse: Some((square / targets.len().max(1) as f64).sqrt()), ..empty }
        }
        (Task::Regression { .. }, Targets::Classes(_)) => empty,
    })
}
