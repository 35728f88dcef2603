//! From a personal model to predictions and their scores.

use fedsi_bayes::{OutputDistribution, Posterior, Predictive};
use fedsi_data::{Samples, Scaling, Targets, Task};
use fedsi_metrics::Bins;
use fedsi_metrics::regression::GaussianPredictions;
use fedsi_random::Purpose;

use crate::infer::{Inferred, doubles};
use crate::methods::Gaussian;
use crate::record::{Scores, Validation};
use crate::work::{LocalData, Trade};

/// A client's own model: parameters and, where its method infers one, a posterior around them.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonalModel {
    /// Whose: the key of its draws.
    pub client: usize,
    /// All parameters.
    pub parameters: Vec<f32>,
    /// The distribution of some of them.
    pub inferred: Option<Inferred>,
}

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

/// Rows predicted at a time with a posterior: their covariances of outputs are held at once.
const ROWS: usize = 2048;

/// How personal models of a run predict.
#[derive(Clone, Copy, Debug)]
pub struct Predictor<'a> {
    /// The network.
    pub trade: &'a Trade,
    /// What is predicted.
    pub task: Task,
    /// How regression targets were standardised.
    pub scaling: Option<&'a Scaling>,
    /// How a posterior becomes a prediction.
    pub gaussian: Option<&'a Gaussian>,
}

impl Predictor<'_> {
    /// The model's predictions on the client's test samples. A regression's noise is known from the residuals
    /// on the client's own `data`, unless the config says it.
    #[must_use]
    pub fn predict(&self, model: &PersonalModel, data: &LocalData, test: &Samples) -> Predictions {
        match (self.task, &test.targets) {
            (Task::Classification { classes }, Targets::Classes(labels)) => Predictions::Classes {
                classes,
                probabilities: self
                    .probabilities(model, &test.inputs)
                    .into_iter()
                    .map(|p| p as f32)
                    .collect(),
                labels: labels.clone(),
            },
            (Task::Regression { outputs }, Targets::Values(targets)) => {
                self.values(model, data, &test.inputs, targets, outputs)
            }
            // Data and task were opened together.
            (Task::Classification { .. }, Targets::Values(_))
            | (Task::Regression { .. }, Targets::Classes(_)) => Predictions::none(self.task),
        }
    }

    /// The probability of each class for each row of inputs, averaged over the posterior where there is one.
    #[must_use]
    pub fn probabilities(&self, model: &PersonalModel, inputs: &[f32]) -> Vec<f64> {
        let classes = self.trade.network.outputs();
        let (Some(inferred), Some(gaussian)) = (&model.inferred, self.gaussian) else {
            return probabilities(&self.trade.outputs(&model.parameters, inputs), classes);
        };
        let mut all = Vec::with_capacity(inputs.len() / self.trade.network.inputs() * classes);
        self.each_distribution(&inferred.posterior, &model.parameters, inputs, |outputs| {
            // The same draws for every block: what is said of a sample does not depend on its neighbours.
            let mut rng = self.trade.streams().stream(Purpose::Prediction, model.client as u64, 0);
            let Gaussian { predictive, draws, .. } = gaussian;
            all.extend(fedsi_bayes::probabilities(*predictive, outputs, *draws, &mut rng));
        });
        all
    }

    /// How far the outputs of each row spread over the posterior: the trace of their covariance, for classes
    /// without what all of them have in common. Zeros without a posterior.
    #[must_use]
    pub fn spread(&self, model: &PersonalModel, inputs: &[f32]) -> Vec<f64> {
        let rows = inputs.len() / self.trade.network.inputs();
        let Some(inferred) = &model.inferred else { return vec![0.0; rows] };
        let mut all = Vec::with_capacity(rows);
        self.each_distribution(&inferred.posterior, &model.parameters, inputs, |outputs| match self.task {
            Task::Classification { .. } => all.extend(fedsi_bayes::spread(outputs)),
            Task::Regression { outputs: width } => {
                let variances = fedsi_bayes::regression_variance(outputs, &vec![0.0; width]);
                all.extend(variances.chunks_exact(width).map(|row| row.iter().sum::<f64>()));
            }
        });
        all
    }

    fn each_distribution(
        &self,
        posterior: &Posterior,
        parameters: &[f32],
        inputs: &[f32],
        mut each: impl FnMut(&OutputDistribution),
    ) {
        let network = &self.trade.network;
        let parameters = doubles(parameters);
        for rows in inputs.chunks(ROWS * network.inputs()) {
            each(&posterior.outputs(network, &parameters, &doubles(rows)));
        }
    }

    fn values(
        &self,
        model: &PersonalModel,
        data: &LocalData,
        inputs: &[f32],
        targets: &[f32],
        width: usize,
    ) -> Predictions {
        let noise = self.trade.noise(&model.parameters, data);
        let (mut mean, mut variance) = (Vec::new(), Vec::new());
        match &model.inferred {
            Some(inferred) if self.gaussian.is_some_and(|how| how.predictive != Predictive::Map) => {
                self.each_distribution(&inferred.posterior, &model.parameters, inputs, |outputs| {
                    mean.extend_from_slice(&outputs.mean);
                    variance.extend(fedsi_bayes::regression_variance(outputs, &noise));
                });
            }
            _ => {
                mean = doubles(&self.trade.outputs(&model.parameters, inputs));
                variance = (0..targets.len()).map(|index| noise[index % width].powi(2)).collect();
            }
        }
        let own_units = |values: &[f64]| -> Vec<f64> {
            let restore = |(index, &value): (usize, &f64)| {
                self.scaling.map_or(value, |scaling| scaling.restore(index % width, value))
            };
            values.iter().enumerate().map(restore).collect()
        };
        let own_variance = |(index, value): (usize, f64)| {
            self.scaling.map_or(value, |scaling| scaling.restore_variance(index % width, value))
        };
        Predictions::Values {
            outputs: width,
            mean: own_units(&mean),
            variance: variance.into_iter().enumerate().map(own_variance).collect(),
            targets: own_units(&doubles(targets)),
        }
    }
}

/// The class probabilities of rows of logits, in f64.
fn probabilities(logits: &[f32], classes: usize) -> Vec<f64> {
    let mut values = doubles(logits);
    fedsi_nn::softmax(&mut values, classes);
    values
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
