//! What holds of every set of predictions.

use fedsi_metrics::{Bins, ClassificationScores, Predictions, auroc};
use proptest::prelude::*;

const CLASSES: usize = 4;

/// Rows of probabilities on a grid of eighths, so that ties, edges, zeros and ones are all common.
fn samples() -> impl Strategy<Value = Vec<([f64; CLASSES], u32)>> {
    let row = (0..=8_u32, 0..=8_u32, 0..=8_u32).prop_map(|(a, b, c)| {
        let mut cuts = [a, b, c];
        cuts.sort_unstable();
        [cuts[0], cuts[1] - cuts[0], cuts[2] - cuts[1], 8 - cuts[2]].map(|part| f64::from(part) / 8.0)
    });
    prop::collection::vec((row, 0..CLASSES as u32), 1..60)
}

fn split(samples: &[([f64; CLASSES], u32)]) -> (Vec<f64>, Vec<u32>) {
    (samples.iter().flat_map(|s| s.0).collect(), samples.iter().map(|s| s.1).collect())
}

proptest! {
    #[test]
    fn scores_stay_in_their_ranges(samples in samples(), bins in 1..40_usize) {
        let (p, labels) = split(&samples);
        let predictions = Predictions::new(&p, &labels, CLASSES).unwrap();
        let s = predictions.scores(Bins::new(bins).unwrap()).unwrap();
        prop_assert!((0.0..=1.0).contains(&s.accuracy));
        prop_assert!(0.0 <= s.ece && s.ece <= s.mce + 1e-15 && s.mce <= 1.0);
        prop_assert!(s.mce_1pct <= s.mce);
        prop_assert!((0.0..=2.0).contains(&s.brier));
        prop_assert!(s.nll >= 0.0 && s.nll <= 12.0 * 10.0_f64.ln() + 1e-12);
        prop_assert_eq!(s.samples, samples.len());
        prop_assert_eq!(Some(s.accuracy), predictions.accuracy());
        let ln_classes = (CLASSES as f64).ln();
        prop_assert!(predictions.entropies().iter().all(|h| (0.0..=ln_classes + 1e-12).contains(h)));
        // One bin: ECE is the distance of accuracy and mean confidence, and so the smallest over finer bins.
        let one = predictions.scores(Bins::new(1).unwrap()).unwrap();
        prop_assert!(one.ece <= s.ece + 1e-12);
        prop_assert!((one.ece - one.mce).abs() < 1e-15);
    }

    /// Eighths add exactly, so everything but the logarithms must agree to the last bit.
    #[test]
    fn the_order_of_samples_does_not_matter(samples in samples(), turn in 0..60_usize) {
        let mut turned = samples.clone();
        turned.rotate_left(turn % samples.len());
        turned.reverse();
        let ((p, l), (q, m)) = (split(&samples), split(&turned));
        let (a, b) = (Predictions::new(&p, &l, CLASSES).unwrap(), Predictions::new(&q, &m, CLASSES).unwrap());
        let (s, t) = (a.scores(Bins::default()).unwrap(), b.scores(Bins::default()).unwrap());
        prop_assert!((s.nll - t.nll).abs() < 1e-12);
        // The logarithms are compared above; put equal, the rest must match to the bit.
        prop_assert_eq!(s, ClassificationScores { nll: s.nll, ..t });
        prop_assert_eq!(a.risk_coverage(), b.risk_coverage());
    }

    /// Every sample twice: no mean, share or curve moves.
    #[test]
    fn doubling_the_samples_changes_nothing(samples in samples()) {
        let mut twice = samples.clone();
        twice.extend_from_slice(&samples);
        let ((p, l), (q, m)) = (split(&samples), split(&twice));
        let score = |p: &[f64], l: &[u32]| Predictions::new(p, l, CLASSES).unwrap().scores(Bins::default()).unwrap();
        let (s, t) = (score(&p, &l), score(&q, &m));
        for (a, b) in [(s.accuracy, t.accuracy), (s.ece, t.ece), (s.mce, t.mce), (s.brier, t.brier), (s.nll, t.nll)] {
            prop_assert!((a - b).abs() < 1e-12);
        }
    }

    /// Full coverage has the error rate as its risk, and the area lies between the extremes of the curve.
    #[test]
    fn the_risk_curve_ends_at_the_error_rate(samples in samples()) {
        let (p, labels) = split(&samples);
        let predictions = Predictions::new(&p, &labels, CLASSES).unwrap();
        let curve = predictions.risk_coverage().unwrap();
        let last = curve.points().last().unwrap();
        prop_assert_eq!(last.coverage, 1.0);
        prop_assert!((last.risk - (1.0 - predictions.accuracy().unwrap())).abs() < 1e-12);
        prop_assert!(curve.points().iter().all(|point| (0.0..=1.0).contains(&point.risk)));
        let risks = || curve.points().iter().map(|point| point.risk);
        prop_assert!(risks().fold(1.0, f64::min) <= curve.area() + 1e-12);
        prop_assert!(curve.area() <= risks().fold(0.0, f64::max) + 1e-12);
    }

    /// A strictly rising change of the scores (exact here: a power of two and a shift) keeps every rank.
    #[test]
    fn auroc_sees_ranks_only(
        negatives in prop::collection::vec(-8..8_i32, 1..30),
        positives in prop::collection::vec(-8..8_i32, 1..30),
    ) {
        let map = |values: &[i32], f: fn(f64) -> f64| values.iter().map(|&v| f(f64::from(v))).collect::<Vec<f64>>();
        let plain = auroc(&map(&negatives, |v| v), &map(&positives, |v| v)).unwrap();
        let risen = auroc(&map(&negatives, |v| 4.0 * v + 1.0), &map(&positives, |v| 4.0 * v + 1.0)).unwrap();
        prop_assert_eq!(plain, risen);
    }
}
