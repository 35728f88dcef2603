//! Scores of classification: accuracy, calibration and proper scores.

use crate::classes::{ClassCounts, balanced_accuracy};
use crate::{Bins, Predictions, ReliabilityTable, selective};

/// The smallest probability the logarithm sees: a class given 0 that comes true costs `-ln 1e-12 = 27.6`.
pub const PROBABILITY_FLOOR: f64 = 1e-12;

/// Scores of classification, in the names of `summary.json`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassificationScores {
    /// Share of samples whose most probable class (ties: the lowest) is the label, 0 to 1.
    pub accuracy: f64,
    /// Expected calibration error, `sum_b (n_b/n) |accuracy_b - confidence_b|`.
    pub ece: f64,
    /// Maximum calibration error over bins that hold a sample.
    pub mce: f64,
    /// Maximum calibration error over bins with at least 1% of the samples.
    pub mce_1pct: f64,
    /// Mean over samples of `sum_c (p_c - [c = label])^2`, 0 to 2.
    pub brier: f64,
    /// Mean over samples of `-ln max(p_label, 1e-12)`, in nats.
    pub nll: f64,
    /// AURC: the mean risk over all coverages when the least confident predictions are declined first.
    pub aurc: f64,
    /// The ECE that a perfectly calibrated model with these confidences would have on average.
    pub ece_floor: f64,
    /// The standard deviation of that model's ECE.
    pub ece_floor_std: f64,
    /// The mean recall over the classes that have samples.
    pub balanced_accuracy: f64,
    /// How many samples.
    pub samples: usize,
}

impl<T: Copy + Into<f64>> Predictions<'_, T> {
    /// The scores; `None` without samples. One pass, and O(n log n) for AURC; 16 bytes a sample while it is computed.
    pub fn scores(&self, bins: Bins) -> Option<ClassificationScores> {
        let mut table = ReliabilityTable::new(bins);
        let mut classes = vec![ClassCounts::default(); if self.is_empty() { 0 } else { self.classes() }];
        let mut ranked = Vec::with_capacity(self.len());
        let (mut correct, mut brier, mut nll) = (0_usize, 0.0, 0.0);
        for row in self.rows() {
            let (predicted, confidence) = row.largest();
            let right = predicted == row.label();
            table.record(confidence, right);
            ranked.push((1.0 - confidence, right));
            classes[row.label()].samples += 1;
            classes[row.label()].correct += usize::from(right);
            correct += usize::from(right);
            for (class, &p) in row.probabilities().iter().enumerate() {
                let outcome = if class == row.label() { 1.0 } else { 0.0 };
                let error: f64 = p.into() - outcome;
                brier += error * error;
            }
            nll -= row.probability_of_label().max(PROBABILITY_FLOOR).ln();
        }
        let samples = self.len();
        let n = samples as f64;
        let floor = table.ece_floor()?;
        Some(ClassificationScores {
            accuracy: correct as f64 / n,
            ece: table.ece()?,
            mce: table.mce()?,
            mce_1pct: table.mce_1pct()?,
            brier: brier / n,
            // `0.0 +` so that a perfect predictor scores 0 and not -0.
            nll: 0.0 + nll / n,
            aurc: selective::area(ranked)?,
            ece_floor: floor.mean,
            ece_floor_std: floor.std_dev,
            balanced_accuracy: balanced_accuracy(&classes)?,
            samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(probabilities: &[f64], labels: &[u32], classes: usize) -> ClassificationScores {
        Predictions::new(probabilities, labels, classes).unwrap().scores(Bins::default()).unwrap()
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-14, "{a} is not {b}");
    }

    #[test]
    fn three_samples_worked_by_hand() {
        // Row 0: (0.5, 0.3, 0.2), label 0: right. Brier 0.25 + 0.09 + 0.04 = 0.38. NLL -ln 0.5.
        // Row 1: (0.1, 0.8, 0.1), label 2: wrong. Brier 0.01 + 0.64 + 0.81 = 1.46. NLL -ln 0.1.
        // Row 2: (0.25, 0.25, 0.5), label 2: right. Brier 0.0625 + 0.0625 + 0.25 = 0.375. NLL -ln 0.5.
        // Bins: (0.4, 0.5] holds rows 0 and 2: confidence 0.5, accuracy 1, gap 0.5;
        //       (0.7, 0.8] holds row 1: confidence 0.8, accuracy 0, gap 0.8.
        // ECE = 2/3 * 0.5 + 1/3 * 0.8 = 0.6.
        let s = scores(&[0.5, 0.3, 0.2, 0.1, 0.8, 0.1, 0.25, 0.25, 0.5], &[0, 2, 2], 3);
        assert_eq!(s.samples, 3);
        close(s.accuracy, 2.0 / 3.0);
        close(s.brier, (0.38 + 1.46 + 0.375) / 3.0);
        close(s.nll, (2.0 * 2.0_f64.ln() + 10.0_f64.ln()) / 3.0);
        close(s.ece, 0.6);
        close(s.mce, 0.8);
        close(s.mce_1pct, 0.8);
        // Surest first: row 1 (wrong), then rows 0 and 2 (right) in a tie: risks 1, 1/2, 1/3.
        close(s.aurc, (1.0 + 0.5 + 1.0 / 3.0) / 3.0);
        // Recalls: class 0 one of one, class 2 one of two; class 1 has no sample.
        close(s.balanced_accuracy, 0.75);
        // Two at 0.5: E|right - 1| = 1/2; one at 0.8: 2 * 0.8 * 0.2 = 0.32.
        close(s.ece_floor, 0.82 / 3.0);
        close(s.ece_floor_std, (0.25_f64 + 0.16 - 0.32 * 0.32).sqrt() / 3.0);
    }

    #[test]
    fn the_perfect_predictor() {
        let s = scores(&[1.0, 0.0, 0.0, 1.0], &[0, 1], 2);
        assert_eq!(
            s,
            ClassificationScores {
                accuracy: 1.0,
                ece: 0.0,
                mce: 0.0,
                mce_1pct: 0.0,
                brier: 0.0,
                nll: 0.0,
                aurc: 0.0,
                ece_floor: 0.0,
                ece_floor_std: 0.0,
                balanced_accuracy: 1.0,
                samples: 2
            }
        );
        assert!(s.nll.is_sign_positive());
    }

    #[test]
    fn the_worst_predictor() {
        // Sure and wrong: Brier (0-1)^2 + (1-0)^2 = 2, NLL -ln 1e-12 = 12 ln 10, every gap 1.
        let s = scores(&[1.0, 0.0, 0.0, 1.0], &[1, 0], 2);
        assert_eq!((s.accuracy, s.ece, s.mce, s.brier), (0.0, 1.0, 1.0, 2.0));
        assert_eq!((s.aurc, s.balanced_accuracy), (1.0, 0.0));
        close(s.nll, 12.0 * 10.0_f64.ln());
    }

    #[test]
    fn a_guess_among_equals() {
        // Uniform over four classes: always class 0, right one time in four, confidence 0.25: calibrated.
        // Brier 3 * (1/4)^2 + (3/4)^2 = 12/16 = 0.75; NLL ln 4.
        let s = scores(&[0.25; 16], &[0, 1, 2, 3], 4);
        assert_eq!((s.accuracy, s.ece, s.brier), (0.25, 0.0, 0.75));
        close(s.nll, 4.0_f64.ln());
    }
}
