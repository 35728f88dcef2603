//! Client-level differential privacy: the shared part reveals almost nothing about whether any one client took part.
//!
//! The server clips what each participant changed and adds Gaussian noise to the sum (`McMahan` et al. 2018). The server
//! itself is trusted; personal parts never leave their clients and have no noise. What it means for means and variances
//! is in docs/privacy.md.

mod accountant;
mod fft;
mod loss;
mod renyi;

pub use accountant::Accountant;

use fedsi_random::{ChaCha20Rng, Purpose, SecretKey};
use rand::RngExt as _;
use rand_distr::{Distribution as _, StandardNormal};

use super::admission::MAX_VALUE;
use super::robust::distance;
use crate::parameters::{Gaussian, SharedParameters};
use crate::wire::{Upload, Variances};

/// How far one round may move a standard deviation, as a factor either way. It acts after the noise, so it costs no
/// privacy, and keeps noise from making a variance negative, or a prior that fixes the parameter.
const MAX_CHANGE: f64 = 2.0;

/// Relative error of norms and of sums of millions of values that is allowed for: what is clipped is shorter by as much.
const ROUNDING: f64 = 1e-9;

/// How clients are hidden, and how much of them may have become known.
#[derive(Clone, Debug, PartialEq)]
pub struct Privacy {
    /// Who takes part, and what becomes of their updates.
    pub mechanism: Mechanism,
    /// What counts epsilon.
    pub accountant: Accountant,
}

/// The participants of a round and the noisy mean of their clipped updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mechanism {
    /// The chance with which each client takes part in a round, independently of all others.
    pub sampled: f64,
    /// What sums are divided by: the expected number of participants, whoever comes.
    pub expected: f64,
    /// Largest norm of what a participant changes.
    pub clip: f64,
    /// Standard deviation of the noise on the sum of all changes, in units of `clip`.
    pub noise: f64,
}

impl Mechanism {
    /// The participants of a round among `clients` clients, ascending; there may be none.
    #[must_use]
    pub fn participants(&self, key: &SecretKey, round: u64, clients: usize) -> Vec<usize> {
        let mut rng = key.stream(Purpose::Participants, round);
        (0..clients).filter(|_| rng.random::<f64>() < self.sampled).collect()
    }

    /// The server's values moved by participants' clipped changes over their expected number, with noise; and, where they
    /// sent variances (`variances_are_due`), its standard deviations likewise. Who sent nothing that can be used changes
    /// nothing; where nobody did there is still noise.
    ///
    /// A participant's change is one vector: differences of values, and relative changes of standard deviations (0 where
    /// it sent none). In a round with variances each half is clipped to `clip / sqrt(2)`, so that neither crowds out the
    /// other and the whole is at most `clip` long; in the others values have it all. Every coordinate has the same noise,
    /// of standard deviation `noise * clip / expected`.
    ///
    /// Cost: two passes over each upload and a normal draw a coordinate.
    #[must_use]
    pub fn merge(
        &self,
        key: &SecretKey,
        round: u64,
        uploads: &[&Upload],
        before: &SharedParameters,
        variances_are_due: bool,
    ) -> SharedParameters {
        let mut rng = key.stream(Purpose::Privacy, round);
        let moving_variance = before.variance().filter(|_| variances_are_due);
        let most = if moving_variance.is_some() { self.clip / std::f64::consts::SQRT_2 } else { self.clip };
        let own = before.values();
        let mut change = vec![0.0; own.len()];
        for upload in uploads {
            let scale = clip_factor(distance(&upload.shared, own), most);
            for (sum, (&value, &from)) in change.iter_mut().zip(upload.shared.iter().zip(own)) {
                *sum += scale * (f64::from(value) - f64::from(from));
            }
        }
        self.add_noise(&mut change, &mut rng);
        // After the noise, so that it tells nothing: values that clients can still work with, however loud it is.
        let moved =
            |(&from, change): (&f32, &f64)| ((f64::from(from) + change) as f32).clamp(-MAX_VALUE, MAX_VALUE);
        let mean: Vec<f32> = own.iter().zip(&change).map(moved).collect();
        let Some(variance) = moving_variance else {
            return match before {
                SharedParameters::Point(_) => SharedParameters::Point(mean),
                SharedParameters::Gaussian(gaussian) => {
                    let variance = gaussian.variance.clone();
                    SharedParameters::Gaussian(Gaussian { mean, variance })
                }
            };
        };

        change.fill(0.0);
        for upload in uploads {
            let relative = |(index, sent): (usize, f32)| {
                (index, (f64::from(sent) / f64::from(variance[index])).sqrt() - 1.0)
            };
            let changes = || upload.variances.iter().flat_map(Variances::pairs).map(relative);
            let norm = changes().map(|(_, change)| change * change).sum::<f64>().sqrt();
            let scale = clip_factor(norm, most);
            changes().for_each(|(index, one)| change[index] += scale * one);
        }
        self.add_noise(&mut change, &mut rng);
        let widened = |(&from, change): (&f32, &f64)| {
            let factor = (1.0 + change).clamp(1.0 / MAX_CHANGE, MAX_CHANGE);
            ((f64::from(from) * factor * factor) as f32).clamp(f32::MIN_POSITIVE, f32::MAX)
        };
        let variance = variance.iter().zip(&change).map(widened).collect();
        SharedParameters::Gaussian(Gaussian { mean, variance })
    }

    /// From a sum over participants to their mean, with noise.
    fn add_noise(&self, sums: &mut [f64], rng: &mut ChaCha20Rng) {
        let deviation = self.noise * self.clip;
        for sum in sums {
            let draw: f64 = StandardNormal.sample(rng);
            *sum = (*sum + deviation * draw) / self.expected;
        }
    }
}

/// What a vector of this norm is multiplied with to be at most so long, whatever rounding does.
fn clip_factor(norm: f64, most: f64) -> f64 {
    let most = most * (1.0 - ROUNDING);
    if norm <= most { 1.0 } else { most / norm }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(client: usize, shared: Vec<f32>, variances: Option<Vec<f32>>) -> Upload {
        let variances = variances.map(|values| Variances { selected: None, values });
        Upload { round: 1, client, samples: 1, loss: None, shared, variances }
    }

    const KEY: SecretKey = SecretKey::from_bytes([5; 32]);

    /// Where this many participants are expected.
    fn mechanism(expected: f64, clip: f64, noise: f64) -> Mechanism {
        Mechanism { sampled: 0.5, expected, clip, noise }
    }

    fn merge(mechanism: Mechanism, uploads: &[Upload], before: &SharedParameters) -> SharedParameters {
        mechanism.merge(&KEY, 1, &uploads.iter().collect::<Vec<_>>(), before, true)
    }

    /// Without noise (which no config allows) it is the mean of what was clipped.
    #[test]
    fn changes_are_clipped_and_averaged() {
        let before = SharedParameters::Point(vec![1.0, 1.0]);
        let uploads = [upload(0, vec![1.0, 6.0], None), upload(1, vec![1.5, 1.0], None)];
        let found = merge(mechanism(2.0, 1.0, 0.0), &uploads, &before);
        assert_eq!(found, SharedParameters::Point(vec![1.25, 1.5]), "(0, 5) became (0, 1), (0.5, 0) stayed");
    }

    /// Values and deviations are clipped apart; a parameter that nobody speaks of keeps its variance.
    #[test]
    fn deviations_move_by_their_relative_change() {
        let before = SharedParameters::Gaussian(Gaussian::uniform(vec![0.0; 3], 4.0));
        let variances = Variances { selected: Some(vec![1]), values: vec![3.24] }; // 1.8 of 2
        let one = Upload { variances: Some(variances), ..upload(0, vec![0.0, 0.1, 0.0], None) };
        let found = merge(mechanism(2.0, 1.0, 0.0), &[one.clone(), Upload { client: 1, ..one }], &before);
        assert_eq!(found.values(), [0.0, 0.1, 0.0]);
        let variance = found.variance().unwrap();
        assert_eq!((variance[0], variance[2]), (4.0, 4.0));
        assert!((variance[1] - 3.24).abs() < 1e-6, "{variance:?}");
        // All three at a tenth of their deviation: a change of 0.9 sqrt(3), clipped to sqrt(1/2).
        let narrow = upload(0, vec![0.0; 3], Some(vec![0.04; 3]));
        let narrow = merge(mechanism(1.0, 1.0, 0.0), &[narrow], &before);
        let narrow = narrow.variance().unwrap();
        let factor = 1.0 - (0.5_f64 / 3.0).sqrt();
        assert!(narrow.iter().all(|v| (f64::from(*v) - 4.0 * factor * factor).abs() < 1e-6), "{narrow:?}");
    }

    /// No update of any size moves the result by more than its share of the clip.
    #[test]
    fn one_client_moves_the_sum_by_the_clip_at_most() {
        let before = SharedParameters::Gaussian(Gaussian::uniform(vec![0.0; 2], 1.0));
        let calm = upload(0, vec![0.1, 0.0], Some(vec![1.0; 2]));
        let sum = |last: Upload| {
            let found = merge(mechanism(2.0, 0.5, 0.0), &[calm.clone(), last], &before);
            let relative = found.variance().unwrap().iter().map(|&v| f64::from(v).sqrt() - 1.0);
            found.values().iter().copied().map(f64::from).chain(relative).map(|x| 2.0 * x).collect::<Vec<_>>()
        };
        let without = sum(upload(1, vec![0.0; 2], Some(vec![1.0; 2])));
        let with = sum(upload(1, vec![1e9, -1e12], Some(vec![1e-30, 1e4])));
        let norm = without.iter().zip(with).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        assert!(norm <= 0.5 * (1.0 + 1e-6) && norm > 0.49, "{norm}");
    }

    #[test]
    fn noise_has_its_deviation_and_follows_from_key_and_round() {
        let size = 40_000;
        let before = SharedParameters::Gaussian(Gaussian::uniform(vec![0.0; size], 1.0));
        let still = |client| upload(client, vec![0.0; size], Some(vec![1.0; size]));
        let uploads = [still(0), still(1), still(2), still(3)];
        let found = merge(mechanism(4.0, 0.2, 1.5), &uploads, &before);
        // 1.5 * 0.2 / 4 participants, on values and on relative deviations.
        let deviation = |values: &[f64]| (values.iter().map(|x| x * x).sum::<f64>() / size as f64).sqrt();
        let values: Vec<f64> = found.values().iter().map(|&x| f64::from(x)).collect();
        let relative: Vec<f64> =
            found.variance().unwrap().iter().map(|&v| f64::from(v).sqrt() - 1.0).collect();
        for found in [deviation(&values), deviation(&relative)] {
            assert!((found / 0.075 - 1.0).abs() < 0.02, "{found}");
        }
        let alike = values.iter().zip(&relative).map(|(a, b)| a * b).sum::<f64>() / size as f64;
        assert!(alike.abs() < 3e-4, "values and deviations have the same noise: {alike}");
        assert_eq!(
            found,
            merge(mechanism(4.0, 0.2, 1.5), &uploads, &before),
            "the same round, the same noise"
        );
        let refs: Vec<&Upload> = uploads.iter().collect();
        let mechanism = mechanism(4.0, 0.2, 1.5);
        assert_ne!(found, mechanism.merge(&KEY, 2, &refs, &before, true));
        let other = SecretKey::from_bytes([6; 32]);
        assert_ne!(found, mechanism.merge(&other, 1, &refs, &before, true), "another key, another noise");
    }

    /// Sums are divided by the expected number, so that nobody's absence makes the others count more.
    #[test]
    fn who_comes_changes_no_other_share() {
        let before = SharedParameters::Point(vec![0.0]);
        let uploads = [upload(0, vec![1.0], None), upload(1, vec![1.0], None), upload(2, vec![1.0], None)];
        let moved = |uploads: &[Upload]| merge(mechanism(2.0, 1.0, 0.0), uploads, &before).values()[0];
        assert_eq!([moved(&[]), moved(&uploads[..1]), moved(&uploads)], [0.0, 0.5, 1.5]);
        let noise = |uploads: &[Upload]| merge(mechanism(2.0, 1.0, 1.0), uploads, &before).values()[0];
        assert!(
            noise(&[]) != 0.0 && (noise(&uploads[..1]) - noise(&[]) - 0.5).abs() < 1e-6,
            "the same noise"
        );
    }

    /// Values stay such that clients can train on them, whatever the noise.
    #[test]
    fn values_stay_usable() {
        let before = SharedParameters::Point(vec![MAX_VALUE; 50]);
        let found = merge(mechanism(1e-3, 1e30, 1e6), &[], &before);
        assert!(found.values().iter().all(|value| value.abs() <= MAX_VALUE));
    }

    /// However loud the noise, a variance stays one.
    #[test]
    fn variances_stay_variances() {
        let mut shared = SharedParameters::Gaussian(Gaussian::uniform(vec![0.0; 200], 1e-30));
        for round in 1..=60 {
            let one = Upload { round, ..upload(0, vec![0.0; 200], Some(vec![1e-30; 200])) };
            shared = mechanism(1.0, 10.0, 100.0).merge(&KEY, round, &[&one], &shared, true);
            assert!(
                shared.variance().iter().copied().flatten().all(|v| v.is_finite() && *v > 0.0),
                "round {round}"
            );
        }
    }
}
