//! What calibration error chance alone gives: the noise floor of ECE.
//!
//! ECE is a mean of absolute values, so it is above 0 even where every confidence is right: the share of right answers in
//! a bin scatters around its mean confidence. How far is known from the confidences alone. An ECE without its floor
//! misleads: 0.007 on 4,000 samples is perfect calibration, and on 50,000 it is not.
//!
//! There is no debiased ECE here on purpose. The bias of `|accuracy - confidence|` depends on the true gap: it is the floor
//! where the gap is 0 and vanishes where the gap is large against the noise. Subtracting the floor overcorrects a
//! model that is off, and resampling (estimating the bias at the observed gap) removes about half of it where the model
//! is calibrated. ECE beside its floor, and a test of their difference, claim no more than is known.

use std::f64::consts::{LN_2, PI};

use statrs::function::gamma::ln_gamma;

use crate::ReliabilityTable;

/// The calibration error of a model whose confidences are all right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EceFloor {
    /// Its expectation.
    pub mean: f64,
    /// Its standard deviation over outcomes.
    pub std_dev: f64,
}

/// From this variance on the number of right answers is normal to four digits.
const NORMAL: f64 = 1_000.0;

/// Below this probability a binomial distribution is Poisson's to the digits that are computed.
const POISSON: f64 = 1e-6;

impl ReliabilityTable {
    /// The expected calibration error of a perfectly calibrated model with these confidences; `None` without samples.
    ///
    /// Each sample is right with the probability of its confidence, independently of the others, so the number of right
    /// answers of a bin is Poisson-binomial with variance `sum c (1 - c)`, and ECE is the mean over bins of its absolute
    /// deviation. That deviation is taken of the binomial distribution with the same mean and variance, in closed form (de
    /// Moivre's): exact where a bin has one confidence, within a percent or two in bins of a tenth, and the
    /// normal `sqrt(2 v / pi)` where there are many samples. Costs a few logarithms a bin, and is not random.
    pub fn ece_floor(&self) -> Option<EceFloor> {
        let (mut mean, mut variance) = (0.0, 0.0);
        for (rare, own) in self.spreads() {
            let deviation = mean_absolute_deviation(rare, own);
            mean += deviation;
            // The variance of an absolute value is the second moment less the squared mean.
            variance += (own - deviation * deviation).max(0.0);
        }
        let samples = self.samples() as f64;
        (samples > 0.0).then(|| EceFloor { mean: mean / samples, std_dev: variance.sqrt() / samples })
    }
}

/// `E|S - E S|` of a sum of independent outcomes, each 0 or 1, with this mean and this variance. Right and wrong answers
/// deviate alike: the mean is that of the rarer.
fn mean_absolute_deviation(rare: f64, variance: f64) -> f64 {
    // Not `<=`: what is not a number is no deviation either.
    if !(variance > 0.0 && rare > 0.0) {
        return 0.0;
    }
    let normal = (2.0 * variance / PI).sqrt();
    if variance >= NORMAL {
        return normal;
    }
    // The binomial distribution with this mean and variance: `trials p = rare`, `rare (1 - p) = variance`.
    let p = 1.0 - variance / rare;
    let below = rare.floor();
    let logarithm = if p < POISSON {
        (below + 1.0) * rare.ln() - rare - ln_gamma(below + 1.0)
    } else {
        let trials = rare / p;
        let choices = ln_gamma(trials + 1.0) - ln_gamma(below + 2.0) - ln_gamma(trials - below);
        (below + 1.0).ln() + choices + (below + 1.0) * p.ln() + (trials - below) * (-p).ln_1p()
    };
    // No absolute deviation is above the standard one.
    (LN_2 + logarithm).exp().min(variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bins;

    fn table(confidences: &[f64], bins: usize) -> ReliabilityTable {
        let mut table = ReliabilityTable::new(Bins::new(bins).unwrap());
        confidences.iter().for_each(|&confidence| table.record(confidence, true));
        table
    }

    fn floor(confidences: &[f64]) -> EceFloor {
        table(confidences, 10).ece_floor().unwrap()
    }

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance * expected.abs(), "{found} is not {expected}");
    }

    #[test]
    fn worked_by_hand() {
        // One sample at 0.9: right with 0.9 (gap 0.1), wrong with 0.1 (gap 0.9): 0.18 on average, second moment
        // 0.9 * 0.01 + 0.1 * 0.81 = 0.09.
        let one = floor(&[0.9]);
        close(one.mean, 0.18, 1e-12);
        close(one.std_dev, (0.09_f64 - 0.18 * 0.18).sqrt(), 1e-12);
        // Two at 0.5: 0, 1 or 2 right with 1/4, 1/2, 1/4: the gap is 1/2, 0, 1/2.
        let two = floor(&[0.5, 0.5]);
        close(two.mean, 0.25, 1e-12);
        close(two.std_dev, 0.25, 1e-12);
        // Bins add up: (0.18 + 2 * 0.25) / 3.
        close(floor(&[0.9, 0.5, 0.5]).mean, 0.68 / 3.0, 1e-12);
        // Sure of everything: there is nothing to deviate.
        assert_eq!(floor(&[1.0; 5]), EceFloor { mean: 0.0, std_dev: 0.0 });
        assert_eq!(table(&[], 10).ece_floor(), None);
    }

    #[test]
    fn outcomes_do_not_matter_and_many_samples_are_normal() {
        let mut wrong = ReliabilityTable::new(Bins::default());
        (0..3).for_each(|_| wrong.record(0.7, false));
        assert_eq!(wrong.ece_floor(), table(&[0.7; 3], 10).ece_floor());
        // On both sides of the change to the normal formula.
        for count in [4_700, 4_800] {
            let found = floor(&vec![0.7; count]);
            let n = count as f64;
            close(found.mean, (2.0 * 0.21 / (PI * n)).sqrt(), 2e-4);
            close(found.std_dev, (0.21 * (1.0 - 2.0 / PI) / n).sqrt(), 1e-3);
        }
    }

    /// What a sum of rare outcomes comes to is Poisson's, where `E|X - 0.5| = exp(-0.5)`.
    #[test]
    fn rare_outcomes() {
        let mut sure = ReliabilityTable::new(Bins::default());
        (0..5_000_000).for_each(|_| sure.record(1.0 - 1e-7, true));
        close(sure.ece_floor().unwrap().mean, (-0.5_f64).exp() / 5e6, 1e-6);
    }

    /// The same multiplier as Knuth's MMIX, for a test that needs no good numbers.
    struct Draws(u64);

    impl Draws {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    /// Monte Carlo: many sets of outcomes with these confidences, each scored.
    fn drawn(confidences: &[f64], bins: usize, sets: usize) -> (f64, f64) {
        let mut draws = Draws(7);
        let scores = (0..sets).map(|_| {
            let mut table = ReliabilityTable::new(Bins::new(bins).unwrap());
            confidences.iter().for_each(|&confidence| table.record(confidence, draws.next() < confidence));
            table.ece().unwrap()
        });
        let spread = crate::Summary::of(scores).unwrap();
        (spread.mean, spread.std_dev.unwrap())
    }

    #[test]
    fn it_is_what_monte_carlo_finds() {
        let mut draws = Draws(3);
        // Mostly sure, as networks are: few samples of a client, many of a run; other numbers of bins. The wider a bin, the
        // less its confidences are alike.
        let mut sure = |count: usize, power: i32| -> Vec<f64> {
            (0..count).map(|_| 1.0 - 0.9 * draws.next().powi(power)).collect()
        };
        let cases = [
            (sure(40, 8), 10),
            (sure(150, 8), 10),
            (sure(150, 30), 10),
            (sure(2_000, 8), 10),
            (sure(300, 2), 10),
            (sure(300, 8), 15),
            (sure(300, 8), 5),
        ];
        for (confidences, bins) in cases {
            let found = table(&confidences, bins).ece_floor().unwrap();
            let (mean, std_dev) = drawn(&confidences, bins, 20_000_000 / confidences.len().max(1_000) / 5);
            let about =
                format!("{} samples, {bins} bins: {found:?}, drawn {mean} and {std_dev}", confidences.len());
            assert!((found.mean / mean - 1.0).abs() < 0.02, "{about}");
            assert!((found.std_dev / std_dev - 1.0).abs() < 0.05, "{about}");
        }
    }
}
