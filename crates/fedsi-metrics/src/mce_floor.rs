//! What maximum calibration error chance alone gives: the noise floor of MCE.
//!
//! MCE is the largest of several absolute values, so it is above 0 even where every confidence is right, and farther above
//! than ECE: the bin with the fewest samples decides it. Its floor is computed from what a reliability diagram holds, so
//! that it can be computed from stored bins, without the predictions behind them.

use crate::normal_p;

/// Steps of the integral: its error is below a part in 100,000 of the result.
const STEPS: usize = 1_000;

/// Where the integral ends, in standard deviations of the widest bin: beyond it a gap has a probability below 1e-18.
const REACH: f64 = 9.0;

/// The expected largest gap, over bins with at least `minimum_share` of all samples (0.01 for the floor of
/// [`ReliabilityTable::mce_1pct`](crate::ReliabilityTable::mce_1pct)), of a perfectly calibrated model with these
/// confidences. Each bin is the number of its samples and their mean confidence; empty bins may be left out. `None` without
/// samples. Where no bin has that share, all bins that hold a sample count, as they do in `mce_1pct`.
///
/// The gap of a bin of `n` samples with mean confidence `c` is taken as the absolute value of a normal variable with
/// variance `c (1 - c) / n`, independent of the other bins. That variance is the largest that confidences with this mean can
/// have, so the floor is slightly too high rather than too low; of 1,000 to 20,000 samples in ten bins it is within 3% of
/// simulation. The expectation of the maximum is the integral of `1 - prod (2 Phi(x / s) - 1)` over `x`, by Simpson's
/// rule: a thousand error functions a bin, and nothing is random.
///
/// ```
/// use fedsi_metrics::mce_floor;
///
/// // One bin of 100 samples at 0.8: the mean of a half-normal, 0.04 sqrt(2 / pi).
/// let floor = mce_floor([(100, 0.8)], 0.01).unwrap();
/// assert!((floor - 0.031_915).abs() < 1e-6);
/// ```
pub fn mce_floor(bins: impl IntoIterator<Item = (usize, f64)>, minimum_share: f64) -> Option<f64> {
    let bins: Vec<(usize, f64)> = bins.into_iter().filter(|(count, _)| *count > 0).collect();
    let samples: f64 = bins.iter().map(|(count, _)| *count as f64).sum();
    // A quotient, not a product with the share: 7 of 700 is 0.01 to the bit.
    let is_full = |count: usize| count as f64 / samples >= minimum_share;
    let all_are_small = !bins.iter().any(|&(count, _)| is_full(count));
    let deviations: Vec<f64> = bins
        .iter()
        .filter(|&&(count, _)| all_are_small || is_full(count))
        .map(|&(count, confidence)| deviation(count, confidence))
        .collect();
    (!bins.is_empty()).then(|| expected_maximum(&deviations))
}

/// The standard deviation of the accuracy of so many samples, each right with this probability. A row may sum to a
/// little more than 1, and a probability is at most 1.
fn deviation(count: usize, confidence: f64) -> f64 {
    let probability = confidence.clamp(0.0, 1.0);
    (probability * (1.0 - probability) / count as f64).sqrt()
}

/// `E max |X_i|` of independent normal variables with mean 0 and these standard deviations.
fn expected_maximum(deviations: &[f64]) -> f64 {
    // A deviation of 0 is never the largest, and what is not a number is no deviation.
    let deviations: Vec<f64> = deviations.iter().copied().filter(|deviation| *deviation > 0.0).collect();
    let widest = deviations.iter().copied().fold(0.0, f64::max);
    let step = REACH * widest / STEPS as f64;
    // `normal_p` is the probability of a value farther out: 1 - (2 Phi - 1).
    let exceeds = |x: f64| 1.0 - deviations.iter().map(|s| 1.0 - normal_p(x / s)).product::<f64>();
    if deviations.is_empty() {
        return 0.0;
    }
    let weighted = (0..=STEPS).map(|at| {
        let weight = match at {
            0 | STEPS => 1.0,
            _ if at % 2 == 1 => 4.0,
            _ => 2.0,
        };
        weight * exceeds(step * at as f64)
    });
    weighted.sum::<f64>() * step / 3.0
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use fedsi_random::{Purpose, SERVER, Streams};
    use rand::RngExt as _;

    use super::*;
    use crate::{Bins, ReliabilityTable};

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() <= tolerance, "{found} is not {expected}");
    }

    #[test]
    fn known_expectations() {
        // One half-normal; two equal ones, max(|a|, |b|) = (|a + b| + |a - b|) / 2; three.
        let s = (0.8_f64 * 0.2 / 100.0).sqrt();
        close(mce_floor([(100, 0.8)], 0.01).unwrap(), s * (2.0 / PI).sqrt(), 1e-9);
        close(mce_floor([(100, 0.8); 2], 0.01).unwrap(), s * 2.0 / PI.sqrt(), 1e-9);
        close(
            mce_floor([(100, 0.8); 3], 0.01).unwrap(),
            s * 12.0 / PI.powf(1.5) * 2.0_f64.sqrt().recip().atan(),
            1e-9,
        );
        // Beside a wide one a narrow one hardly matters, and the integral does not lose its place.
        close(mce_floor([(100, 0.8), (100_000_000, 0.8)], 0.0).unwrap(), s * (2.0 / PI).sqrt(), 1e-5);
    }

    #[test]
    fn bins_below_the_share_do_not_count() {
        let full = mce_floor([(700, 0.9), (300, 0.6)], 0.01).unwrap();
        let with_small = [(693, 0.9), (300, 0.6), (7, 0.3)];
        // 7 of 1,000 are below 1%; 7 of 700 are exactly 1%.
        close(mce_floor(with_small, 0.01).unwrap(), full, 0.01);
        assert!(mce_floor(with_small, 0.0).unwrap() > 3.0 * full);
        assert!(mce_floor([(693, 0.9), (7, 0.3)], 0.01).unwrap() > 3.0 * full);
        // None is so full: all count.
        assert_eq!(mce_floor([(1, 0.5); 4], 0.5), mce_floor([(1, 0.5); 4], 0.0));
    }

    #[test]
    fn no_samples_and_no_doubt() {
        assert_eq!(mce_floor([], 0.01), None);
        assert_eq!(mce_floor([(0, 0.5), (0, 0.0)], 0.01), None);
        assert_eq!(mce_floor([(5, 1.0), (3, 0.0), (2, 1.000_001)], 0.01), Some(0.0));
        assert_eq!(mce_floor([(5, f64::NAN)], 0.01), Some(0.0));
    }

    /// Models whose confidences are right, drawn: the mean of their `mce_1pct` is within 3% of the floor.
    #[test]
    fn it_is_what_simulation_finds() {
        let streams = Streams::new(17);
        // Samples, and how sure the model is: mostly sure, hardly ever, evenly spread.
        for (case, (samples, power)) in
            [(4_000, 6), (4_000, 2), (1_000, 2), (20_000, 12)].into_iter().enumerate()
        {
            let mut draws = streams.stream(Purpose::Resampling, SERVER, case as u64);
            let confidences: Vec<f64> =
                (0..samples).map(|_| 1.0 - 0.9 * draws.random::<f64>().powi(power)).collect();
            let mut set = || {
                let mut table = ReliabilityTable::new(Bins::default());
                confidences.iter().for_each(|&c| table.record(c, draws.random::<f64>() < c));
                table
            };
            let floor = mce_floor(set().bins().map(|bin| (bin.count, bin.confidence)), 0.01).unwrap();
            let sets = 8_000_000 / samples;
            let drawn = (0..sets).map(|_| set().mce_1pct().unwrap()).sum::<f64>() / sets as f64;
            assert!(
                (floor / drawn - 1.0).abs() < 0.03,
                "{samples} samples, power {power}: floor {floor}, drawn {drawn}"
            );
        }
    }
}
