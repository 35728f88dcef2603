//! From a personal model to predictions.

use fedsi_bayes::{OutputDistribution, Posterior, Predictive};
use fedsi_data::{Samples, Scaling, Targets, Task};
use fedsi_metrics::Bins;
use fedsi_nn::MeanField;
use fedsi_random::Purpose;

use crate::belief::{Belief, PersonalModel};
use crate::infer::doubles;
use crate::methods::Uncertainty;
use crate::predict::Predictions;
use crate::record::Validation;
use crate::work::Trade;

/// Rows predicted at a time with a posterior: their covariances of outputs, or their outputs under every draw, are held
/// at once.
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
    /// How a belief becomes a prediction.
    pub uncertainty: &'a Uncertainty,
}

impl Predictor<'_> {
    /// The model's predictions on the client's test samples. `noise` is a regression's: [`Trade::noise`] of the client's
    /// own data.
    #[must_use]
    pub fn predict(&self, model: &PersonalModel, noise: &[f64], test: &Samples) -> Predictions {
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
                let (mean, variance) = self.values(model, &test.inputs, noise);
                Predictions::Values {
                    outputs,
                    mean,
                    variance,
                    targets: self.own_units(&doubles(targets), outputs),
                }
            }
            // Data and task were opened together.
            (Task::Classification { .. }, Targets::Values(_))
            | (Task::Regression { .. }, Targets::Classes(_)) => Predictions::none(self.task),
        }
    }

    /// Mean and variance of each target of each row, in the data's own units; `noise` as [`Trade::noise`] says it.
    #[must_use]
    pub fn values(&self, model: &PersonalModel, inputs: &[f32], noise: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let outputs = self.trade.network.outputs();
        let (mean, variance) = self.moments(model, inputs, noise);
        let own_variance = |(index, value): (usize, f64)| {
            self.scaling.map_or(value, |scaling| scaling.restore_variance(index % outputs, value))
        };
        let variance = variance.into_iter().enumerate().map(own_variance).collect();
        (self.own_units(&mean, outputs), variance)
    }

    /// The probability of each class for each row of inputs, averaged over what the model believes.
    #[must_use]
    pub fn probabilities(&self, model: &PersonalModel, inputs: &[f32]) -> Vec<f64> {
        let classes = self.trade.network.outputs();
        let mut all = Vec::with_capacity(inputs.len() / self.trade.network.inputs() * classes);
        match (&model.belief, self.uncertainty) {
            (Belief::Laplace(inferred), Uncertainty::Laplace(laplace)) => {
                self.each_distribution(&inferred.posterior, &model.parameters, inputs, |outputs| {
                    // The same draws for every block: what is said of a sample does not depend on its neighbours.
                    let mut rng = self.trade.streams().stream(Purpose::Prediction, model.client as u64, 0);
                    all.extend(fedsi_bayes::probabilities(
                        laplace.predictive,
                        outputs,
                        laplace.draws,
                        &mut rng,
                    ));
                });
            }
            _ => self.each_block_of_draws(model, inputs, |draws| {
                let mut mean = vec![0.0; draws[0].len()];
                for outputs in draws {
                    let mut shares = doubles(outputs);
                    fedsi_nn::softmax(&mut shares, classes);
                    mean.iter_mut().zip(shares).for_each(|(mean, share)| *mean += share);
                }
                all.extend(mean.into_iter().map(|sum| sum / draws.len() as f64));
            }),
        }
        all
    }

    /// How far the outputs of each row spread over what the model believes: the trace of their covariance, for classes
    /// without what all of them have in common. Zeros for points.
    #[must_use]
    pub fn spread(&self, model: &PersonalModel, inputs: &[f32]) -> Vec<f64> {
        let width = self.trade.network.outputs();
        let classes = matches!(self.task, Task::Classification { .. });
        let mut all = Vec::with_capacity(inputs.len() / self.trade.network.inputs());
        match &model.belief {
            Belief::Laplace(inferred) => {
                self.each_distribution(&inferred.posterior, &model.parameters, inputs, |outputs| {
                    if classes {
                        all.extend(fedsi_bayes::spread(outputs));
                    } else {
                        let variances = fedsi_bayes::regression_variance(outputs, &vec![0.0; width]);
                        all.extend(variances.chunks_exact(width).map(|row| row.iter().sum::<f64>()));
                    }
                });
            }
            Belief::Point | Belief::MeanField { .. } | Belief::Samples { .. } => {
                self.each_block_of_draws(model, inputs, |draws| {
                    let centred: Vec<Vec<f64>> =
                        draws.iter().map(|outputs| centre(doubles(outputs), width, classes)).collect();
                    let (_, variance) = moments_over(&centred);
                    all.extend(variance.chunks_exact(width).map(|row| row.iter().sum::<f64>()));
                });
            }
        }
        all
    }

    /// Mean and variance of each target of each row, in units of the standardised targets; `noise` is the standard
    /// deviation of each target around the network's output.
    fn moments(&self, model: &PersonalModel, inputs: &[f32], noise: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut mean, mut variance) = (Vec::new(), Vec::new());
        match (&model.belief, self.uncertainty) {
            (Belief::Laplace(inferred), Uncertainty::Laplace(how)) if how.predictive != Predictive::Map => {
                self.each_distribution(&inferred.posterior, &model.parameters, inputs, |outputs| {
                    mean.extend_from_slice(&outputs.mean);
                    variance.extend(fedsi_bayes::regression_variance(outputs, noise));
                });
            }
            _ => self.each_block_of_draws(model, inputs, |draws| {
                let draws: Vec<Vec<f64>> = draws.iter().map(|outputs| doubles(outputs)).collect();
                let (block_mean, block_variance) = moments_over(&draws);
                mean.extend(block_mean);
                let noisy = |(index, value): (usize, f64)| value + noise[index % noise.len()].powi(2);
                variance.extend(block_variance.into_iter().enumerate().map(noisy));
            }),
        }
        (mean, variance)
    }

    fn own_units(&self, values: &[f64], width: usize) -> Vec<f64> {
        let restore = |(index, &value): (usize, &f64)| {
            self.scaling.map_or(value, |scaling| scaling.restore(index % width, value))
        };
        values.iter().enumerate().map(restore).collect()
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

    /// The outputs of some rows at a time under every draw of the parameters; one draw of a point. The same draws for
    /// all rows.
    fn each_block_of_draws(&self, model: &PersonalModel, inputs: &[f32], mut each: impl FnMut(&[Vec<f32>])) {
        let trade = self.trade;
        for rows in inputs.chunks(ROWS * trade.network.inputs()) {
            let draws: Vec<Vec<f32>> = match (&model.belief, self.uncertainty) {
                (Belief::MeanField { deviation }, Uncertainty::MeanField(how)) => {
                    let (mean, deviation) = (model.parameters.clone(), deviation.clone());
                    let distribution = MeanField { mean, deviation };
                    let mut rng = trade.streams().stream(Purpose::Prediction, model.client as u64, 0);
                    let mut parameters = Vec::with_capacity(distribution.mean.len());
                    let draw = |_| {
                        distribution.sample_into(&mut parameters, &mut rng);
                        trade.outputs(&parameters, rows)
                    };
                    (0..how.draws).map(draw).collect()
                }
                (Belief::Samples { heads }, _) => {
                    let features = trade.features_of(&model.parameters, rows);
                    let heads = heads.chunks_exact(trade.network.layout().head().len());
                    heads.map(|head| trade.head_outputs(head, &features)).collect()
                }
                _ => vec![trade.outputs(&model.parameters, rows)],
            };
            each(&draws);
        }
    }

    /// How a model does on data its client held out; none without such data.
    #[must_use]
    pub fn validate(&self, model: &PersonalModel, held_out: &Samples) -> Option<Validation> {
        if held_out.count == 0 {
            return None;
        }
        let empty = Validation { samples: held_out.count, ..Validation::default() };
        Some(match (self.task, &held_out.targets) {
            (Task::Classification { classes }, Targets::Classes(labels)) => {
                let probabilities = self.probabilities(model, &held_out.inputs);
                let scores = fedsi_metrics::Predictions::new(&probabilities, labels, classes)
                    .ok()
                    .and_then(|found| found.scores(Bins::default()));
                Validation { accuracy: scores.map(|s| s.accuracy), nll: scores.map(|s| s.nll), ..empty }
            }
            (Task::Regression { outputs }, Targets::Values(targets)) => {
                let (mean, _) = self.moments(model, &held_out.inputs, &vec![0.0; outputs]);
                let square: f64 = mean.iter().zip(targets).map(|(a, &b)| (a - f64::from(b)).powi(2)).sum();
                Validation { rmse: Some((square / targets.len().max(1) as f64).sqrt()), ..empty }
            }
            _ => empty,
        })
    }
}

/// Rows less what their values have in common, where they are logits: softmax does not see it.
fn centre(mut outputs: Vec<f64>, width: usize, classes: bool) -> Vec<f64> {
    if classes {
        for row in outputs.chunks_exact_mut(width) {
            let mean = row.iter().sum::<f64>() / width as f64;
            row.iter_mut().for_each(|value| *value -= mean);
        }
    }
    outputs
}

/// Mean and variance of every value over the draws.
fn moments_over(draws: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let (count, size) = (draws.len() as f64, draws[0].len());
    let (mut mean, mut variance) = (vec![0.0; size], vec![0.0; size]);
    for draw in draws {
        mean.iter_mut().zip(draw).for_each(|(sum, value)| *sum += value / count);
    }
    for draw in draws {
        for ((sum, value), mean) in variance.iter_mut().zip(draw).zip(&mean) {
            *sum += (value - mean).powi(2) / count;
        }
    }
    (mean, variance)
}
