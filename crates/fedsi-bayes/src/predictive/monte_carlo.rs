//! The softmax averaged over draws of the logits.

use fedsi_nn::softmax;
use rand::Rng;
use rand_distr::{Distribution as _, StandardNormal};

use super::factor::CentredFactor;

/// Standard normal draws, the same for every sample, so that a sample's probabilities do not depend on which
/// samples came before it. They come in pairs z and -z, which cancels the odd part of the error.
#[derive(Debug)]
pub(super) struct Draws {
    samples: usize,
    /// One row of normals a pair.
    normals: Vec<f64>,
    factor: CentredFactor,
    shift: Vec<f64>,
    logits: Vec<f64>,
}

impl Draws {
    /// Draws `classes` normals for each pair of `samples` (at least one sample).
    pub(super) fn new(classes: usize, samples: usize, rng: &mut dyn Rng) -> Self {
        let samples = samples.max(1);
        Self {
            samples,
            normals: StandardNormal.sample_iter(rng).take(samples.div_ceil(2) * classes).collect(),
            factor: CentredFactor::new(classes),
            shift: vec![0.0; classes],
            logits: vec![0.0; classes],
        }
    }

    /// The mean of `softmax(mean + L z)` over the draws. `samples * O` exponentials, no allocation.
    pub(super) fn average(&mut self, mean: &[f64], covariance: &[f64], row: &mut [f64]) {
        let classes = mean.len();
        self.factor.factorise(covariance);
        if self.factor.columns().next().is_none() {
            // No variance: every draw is the mean.
            row.copy_from_slice(mean);
            softmax(row, classes);
            return;
        }
        row.fill(0.0);
        for (pair, normals) in self.normals.chunks_exact(classes).enumerate() {
            self.shift.fill(0.0);
            for (column, normal) in self.factor.columns().zip(normals) {
                for (shift, entry) in self.shift.iter_mut().zip(column) {
                    *shift += normal * entry;
                }
            }
            for ((logit, mean), shift) in self.logits.iter_mut().zip(mean).zip(&self.shift) {
                *logit = mean + shift;
            }
            add_softmax(&mut self.logits, row);
            // An odd number of draws leaves the last z without its mirror image.
            if 2 * pair + 1 < self.samples {
                for ((logit, mean), shift) in self.logits.iter_mut().zip(mean).zip(&self.shift) {
                    *logit = mean - shift;
                }
                add_softmax(&mut self.logits, row);
            }
        }
        let total: f64 = row.iter().sum();
        for value in row {
            *value /= total;
        }
    }
}

/// `sums += softmax(logits)`; overwrites the logits. One division and no logarithm, unlike the network's own
/// softmax: this is the inner loop of the average.
fn add_softmax(logits: &mut [f64], sums: &mut [f64]) {
    let top = logits.iter().fold(f64::NEG_INFINITY, |top, &logit| if logit > top { logit } else { top });
    let mut total = 0.0;
    for logit in logits.iter_mut() {
        *logit = (*logit - top).exp();
        total += *logit;
    }
    let share = 1.0 / total;
    for (sum, exponential) in sums.iter_mut().zip(logits) {
        *sum += *exponential * share;
    }
}
