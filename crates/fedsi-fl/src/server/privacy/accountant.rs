//! How much the rounds so far may have revealed about one client.
//!
//! Two bounds hold for the same mechanism, a sum in which each client is with chance q, and Gaussian noise: one by Rényi
//! divergences, one by the distribution of the privacy loss. The smaller is reported.

use super::loss::SampledGaussian;
use super::renyi::RenyiCurve;

/// Keeps count for one run: nothing but the number of rounds changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Accountant {
    delta: f64,
    mechanism: SampledGaussian,
    curve: RenyiCurve,
}

impl Accountant {
    /// For rounds in which every client takes part with chance `sampled`, independently, and that add noise of `noise`
    /// times the largest norm to the sum.
    #[must_use]
    pub fn new(sampled: f64, noise: f64, delta: f64) -> Self {
        let curve = RenyiCurve::new(sampled, noise);
        Self { delta, mechanism: SampledGaussian { q: sampled, sigma: noise }, curve }
    }

    /// The bound after so many rounds; 0 after none. Costs some ten milliseconds.
    #[must_use]
    pub fn epsilon(&self, rounds: u64) -> f64 {
        if rounds == 0 {
            return 0.0;
        }
        self.renyi_epsilon(rounds).min(self.mechanism.epsilon(rounds, self.delta))
    }

    /// The bound by Rényi divergences alone, as other programs report it.
    #[must_use]
    pub fn renyi_epsilon(&self, rounds: u64) -> f64 {
        if rounds == 0 { 0.0 } else { self.curve.epsilon(rounds, self.delta) }
    }
}
