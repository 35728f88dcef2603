//! The prior variance of personal posteriors, chosen by the federation on training data that clients set aside.
//!
//! A posterior is as wide as its prior allows, and how wide it should be differs between data: the best value on
//! Fashion-MNIST is twice that on MNIST. The marginal likelihood cannot tell: personal models sit at the prior's
//! mean, where it always prefers no variance at all. So for the first [`SHARE_OF_ROUNDS`] of the rounds every
//! client sets [`ASIDE`] of its training data aside. Then that round's participants personalise a model on the
//! rest, say how well posteriors of several prior variances predict what was set aside, and the server takes the
//! variance that does best on all of it. The remaining rounds train on everything.
//!
//! It costs one round's worth of tuning and posteriors, and an upload of a few numbers. Test data is not touched.

use serde::{Deserialize, Serialize};

use crate::infer::Structure;

/// Share of its training data that a client sets aside until the prior variance is chosen.
pub const ASIDE: f64 = 0.2;

/// Share of the rounds after which it is chosen.
pub const SHARE_OF_ROUNDS: f64 = 0.8;

/// Tried variances, in units of [`start`].
const SCALES: [f64; 12] = [0.01, 0.03, 0.07, 0.15, 0.25, 0.4, 0.6, 0.8, 1.1, 1.5, 2.2, 4.0];

/// One line of the record of the round that chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Samples that had been set aside.
    pub samples: usize,
    /// The prior variances tried.
    pub prior_variances: Vec<f64>,
    /// Mean negative log likelihood of those samples under each.
    pub nll: Vec<f64>,
    /// The variance chosen.
    pub chosen: f64,
}

/// The round after which the variance is chosen.
#[must_use]
pub fn last_round_with_data_aside(rounds: usize) -> u64 {
    ((rounds as f64 * SHARE_OF_ROUNDS).floor() as u64).max(1)
}

/// The variance where the search starts, and what is used where there was nothing to choose by. Independent
/// variances of a whole body add up to far more than the correlated ones of a twentieth of it.
#[must_use]
pub const fn start(structure: &Structure) -> f64 {
    match structure {
        Structure::Subnetwork { .. } => 1.5,
        Structure::Diagonal => 0.06,
    }
}

/// The variances to try, ascending.
#[must_use]
pub fn candidates(structure: &Structure) -> Vec<f64> {
    SCALES.iter().map(|scale| scale * start(structure)).collect()
}

impl Calibration {
    /// Pools what clients report, each its number of samples and summed losses; none where nobody had a sample.
    #[must_use]
    pub fn of(prior_variances: Vec<f64>, reports: &[(usize, Vec<f64>)]) -> Option<Self> {
        let samples: usize = reports.iter().map(|(samples, _)| samples).sum();
        if samples == 0 {
            return None;
        }
        let pooled =
            |index: usize| reports.iter().map(|(_, losses)| losses[index]).sum::<f64>() / samples as f64;
        let nll: Vec<f64> = (0..prior_variances.len()).map(pooled).collect();
        let chosen = minimum(&prior_variances, &nll)?;
        Some(Self { samples, prior_variances, nll, chosen })
    }
}

/// Where a parabola in the logarithm of the variance through the best candidate and its neighbours is lowest.
/// Losses on a few hundred samples are flat and noisy: between candidates it does not jump.
fn minimum(variances: &[f64], losses: &[f64]) -> Option<f64> {
    let finite = (0..variances.len()).filter(|&index| losses[index].is_finite());
    let best = finite.min_by(|&a, &b| losses[a].total_cmp(&losses[b]))?;
    let inner = best > 0 && best + 1 < variances.len();
    if !inner || !losses[best - 1].is_finite() || !losses[best + 1].is_finite() {
        return Some(variances[best]);
    }
    let x = |index: usize| variances[index].ln();
    let (left, right) = (x(best - 1) - x(best), x(best + 1) - x(best));
    let (below, above) = (losses[best - 1] - losses[best], losses[best + 1] - losses[best]);
    // loss = a x^2 + b x around the best candidate.
    let a = (above / right - below / left) / (right - left);
    let b = above / right - a * right;
    let shift = if a > 0.0 { (-b / (2.0 * a)).clamp(left, right) } else { 0.0 };
    Some((x(best) + shift).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola_in_the_logarithm_is_found_exactly() {
        let variances = candidates(&Structure::Diagonal);
        let losses: Vec<f64> = variances.iter().map(|v| 0.3 + 0.1 * (v / 0.08).ln().powi(2)).collect();
        let found = minimum(&variances, &losses).unwrap();
        assert!((found / 0.08 - 1.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn at_the_edge_the_edge_is_taken_and_what_is_not_finite_is_not() {
        assert_eq!(minimum(&[1.0, 2.0, 3.0], &[0.1, 0.2, 0.3]), Some(1.0));
        assert_eq!(minimum(&[1.0, 2.0, 3.0], &[0.3, 0.2, 0.1]), Some(3.0));
        assert_eq!(minimum(&[1.0, 2.0, 3.0], &[f64::NAN, 0.2, 0.3]), Some(2.0));
        assert_eq!(minimum(&[1.0, 2.0], &[f64::NAN, f64::NAN]), None);
    }

    #[test]
    fn reports_are_pooled_by_samples() {
        let reports = [(1, vec![5.0, 1.0]), (3, vec![3.0, 3.0])];
        let calibration = Calibration::of(vec![1.0, 2.0], &reports).unwrap();
        assert_eq!((calibration.samples, calibration.chosen), (4, 2.0));
        assert_eq!(calibration.nll, [2.0, 1.0]);
        assert_eq!(Calibration::of(vec![1.0], &[(0, vec![0.0])]), None);
        assert_eq!(Calibration::of(vec![1.0], &[]), None);
    }

    #[test]
    fn every_run_has_a_round_to_choose_in() {
        assert_eq!([1, 2, 10, 150].map(last_round_with_data_aside), [1, 1, 8, 120]);
    }
}
