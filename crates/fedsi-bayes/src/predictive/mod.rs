//! From a Gaussian over the outputs to class probabilities and variances.
//!
//! A classifier's probability is the mean of its softmax under the distribution of its logits,
//! `p = E softmax(f)`, `f ~ N(m, S)`. It has no closed form for more than two classes; [`Predictive`] names the
//! approximations of it. All of them give `softmax(m)` where the covariance is zero.
//!
//! For regression [`regression_variance`] adds the noise. [`spread`] is one number a sample for how uncertain the
//! model is, and [`log_marginal_likelihood`] scores a prior by the training data alone.
//!
//! ```
//! use fedsi_bayes::{OutputDistribution, Predictive, predictive};
//!
//! // Two logits 2 apart, the first with variance 4.
//! let outputs = OutputDistribution { outputs: 2, mean: vec![2.0, 0.0], covariance: vec![4.0, 0.0, 0.0, 0.0] };
//! let mut rng = fedsi_random::Streams::new(1).stream(fedsi_random::Purpose::Initialisation, 0, 0);
//! let point = predictive::probabilities(Predictive::Map, &outputs, 0, &mut rng);
//! let averaged = predictive::probabilities(Predictive::Differences, &outputs, 0, &mut rng);
//! assert!((point[0] - 0.881).abs() < 1e-3);
//! assert!((averaged[0] - 0.777).abs() < 1e-3);
//! ```

mod bridge;
mod evidence;
mod factor;
mod kind;
mod log_sum_exp;
mod monte_carlo;
mod scaled;
mod variance;

#[cfg(test)]
mod tests;

pub use evidence::{log_likelihood, log_marginal_likelihood};
pub use kind::{Predictive, UnknownPredictive};
pub use variance::{regression_variance, spread};

use fedsi_nn::softmax;
use rand::Rng;

use crate::outputs::OutputDistribution;

/// Class probabilities, n x O, each row summing to 1.
///
/// `samples` (at least one is drawn) and `rng` matter to [`Predictive::MonteCarlo`] alone; nothing is drawn for
/// the others. Beside Monte Carlo's `samples * O` exponentials a row, all cost O(O²) a row.
///
/// A row whose mean or covariance is not finite comes out as NaN.
#[must_use]
pub fn probabilities(
    kind: Predictive,
    outputs: &OutputDistribution,
    samples: usize,
    rng: &mut dyn Rng,
) -> Vec<f64> {
    ClassProbabilities::new(kind, outputs.outputs, samples, rng).of(outputs)
}

/// [`probabilities`] of one block of samples after the other, with the same draws for all of them.
#[derive(Debug)]
pub(crate) struct ClassProbabilities {
    kind: Predictive,
    /// Those of Monte Carlo.
    draws: Option<monte_carlo::Draws>,
}

impl ClassProbabilities {
    pub(crate) fn new(kind: Predictive, classes: usize, samples: usize, rng: &mut dyn Rng) -> Self {
        let draws = (kind == Predictive::MonteCarlo && classes > 0)
            .then(|| monte_carlo::Draws::new(classes, samples, rng));
        Self { kind, draws }
    }

    /// Of a block, whose outputs are as many as were said.
    pub(crate) fn of(&mut self, outputs: &OutputDistribution) -> Vec<f64> {
        if outputs.outputs == 0 {
            return Vec::new();
        }
        match (self.kind, &mut self.draws) {
            (Predictive::MonteCarlo, Some(draws)) => {
                by_row(outputs, |mean, covariance, row| draws.average(mean, covariance, row))
            }
            (Predictive::Probit, _) => by_row(outputs, scaled::probit),
            (Predictive::Differences, _) => by_row(outputs, scaled::differences),
            (Predictive::Bridge, _) => by_row(outputs, bridge::bridge),
            (Predictive::Map | Predictive::MonteCarlo, _) => {
                let mut rows = outputs.mean.clone();
                softmax(&mut rows, outputs.outputs);
                rows
            }
        }
    }
}

/// Fills every row by `predict(mean, covariance, row)`.
fn by_row(outputs: &OutputDistribution, mut predict: impl FnMut(&[f64], &[f64], &mut [f64])) -> Vec<f64> {
    let classes = outputs.outputs;
    let mut rows = vec![0.0; outputs.mean.len()];
    let samples = outputs.mean.chunks_exact(classes).zip(outputs.covariance.chunks_exact(classes * classes));
    for ((mean, covariance), row) in samples.zip(rows.chunks_exact_mut(classes)) {
        if mean.iter().chain(covariance).all(|value| value.is_finite()) {
            predict(mean, covariance, row);
        } else {
            row.fill(f64::NAN);
        }
    }
    rows
}

/// A variance that rounding may have left below zero.
fn at_least_zero(variance: f64) -> f64 {
    // Unlike `max`, this keeps NaN.
    if variance < 0.0 { 0.0 } else { variance }
}
