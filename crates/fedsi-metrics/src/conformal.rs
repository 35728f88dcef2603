//! Split conformal prediction: sets of classes, or intervals, that hold the truth with a wanted probability.
//!
//! From samples that no fit has used comes the level's quantile of a *nonconformity* score: of a class 1 less its
//! probability, of a value its distance from the mean in predicted standard deviations. A set has every class whose score
//! is at most that quantile, and the most probable one whatever it is; an interval has every value. For a new sample that
//! is exchangeable with those (drawn like them, in any order) the truth is inside with at least the wanted probability,
//! whatever the model (Vovk et al., 2005): on average over samples and calibrations, not for each sample or class.

use std::collections::HashMap;

use crate::regression::GaussianPredictions;
use crate::{MetricsError, Predictions};

/// Folds of a cross-fitted evaluation.
const FOLDS: usize = 10;

/// The fewest samples from which a level is calibrated: `10 / (1 - level)`. The coverage of one calibration on n samples
/// deviates by about `sqrt(level (1 - level) / n)`, which is then at most a third of what may be missed.
pub fn fewest_calibration_samples(level: f64) -> usize {
    // A hair less, because 1 - 0.9 is a hair less than 0.1. `as` saturates.
    (10.0 / (1.0 - level) - 1e-6).ceil().max(1.0) as usize
}

/// The `ceil((n + 1) level)`-th smallest of n scores; `None` where that is above n: then no finite threshold keeps the
/// level. O(n log n).
pub fn conformal_quantile(scores: &[f64], level: f64) -> Option<f64> {
    // A product such as 0.07 * 100 may come out a hair above a whole number: that hair is no sample.
    let rank = (((scores.len() + 1) as f64) * level - 1e-9).ceil().max(1.0) as usize;
    let mut sorted = scores.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(rank - 1).copied()
}

/// Nonconformity of the labels: 1 less the probability of each.
pub fn class_nonconformity<T: Copy + Into<f64>>(predictions: &Predictions<'_, T>) -> Vec<f64> {
    predictions.rows().map(|row| 1.0 - row.probability_of_label()).collect()
}

/// Nonconformity of the targets, samples x outputs: `|y - m| / sqrt(v)`.
pub fn value_nonconformity<T: Copy + Into<f64>>(predictions: &GaussianPredictions<'_, T>) -> Vec<f64> {
    predictions.residuals().map(|(residual, variance)| residual.abs() / variance.sqrt()).collect()
}

/// The classes of a set, ascending: those whose nonconformity is at most `threshold`, and the most probable one.
pub fn conformal_set<T: Copy + Into<f64>>(probabilities: &[T], threshold: f64) -> Vec<usize> {
    let top = most_probable(probabilities);
    let is_in = |&class: &usize| top == Some(class) || 1.0 - probabilities[class].into() <= threshold;
    (0..probabilities.len()).filter(is_in).collect()
}

/// The most probable class, among equals the lowest.
fn most_probable<T: Copy + Into<f64>>(probabilities: &[T]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (class, &probability) in probabilities.iter().enumerate() {
        let probability = probability.into();
        if best.is_none_or(|(_, most)| probability > most) {
            best = Some((class, probability));
        }
    }
    best.map(|(class, _)| class)
}

/// What conformal sets or intervals did for one client on samples that they were not calibrated on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConformalCoverage {
    /// The client.
    pub client: usize,
    /// Its samples.
    pub samples: usize,
    /// How many of them have the truth inside.
    pub covered: usize,
    /// Classes in a set on average, or the mean width of an interval in the target's unit.
    pub mean_size: f64,
    /// Whether its own samples calibrated it; otherwise those of all clients did.
    pub own: bool,
}

impl ConformalCoverage {
    /// The share of samples with the truth inside.
    pub fn coverage(&self) -> f64 {
        self.covered as f64 / self.samples.max(1) as f64
    }
}

/// Judges sets of classes at this level by cross-fitting: samples are dealt into ten folds, and each fold is judged by a
/// threshold from the others. A client with enough samples of its own
/// ([`fewest_calibration_samples`]) is calibrated by those alone, any other by those of all clients; nothing where all of
/// them are too few. In the order in which clients come. Which fold a sample is in depends on its place alone.
/// O(n log n) a fold and client.
///
/// # Errors
/// Owners that are not as many as samples.
pub fn conformal_sets_found<T: Copy + Into<f64>>(
    predictions: &Predictions<'_, T>,
    owners: &[usize],
    level: f64,
) -> Result<Vec<ConformalCoverage>, MetricsError> {
    let scores = class_nonconformity(predictions);
    let rows: Vec<_> = predictions.rows().collect();
    cross_fit(&scores, owners, level, |row, threshold| {
        let set = conformal_set(rows[row].probabilities(), threshold);
        (set.binary_search(&rows[row].label()).is_ok(), set.len() as f64)
    })
}

/// The same of intervals `mean - q deviation` to `mean + q deviation`, for each output by itself.
///
/// # Errors
/// Owners that are not as many as samples.
pub fn conformal_intervals_found<T: Copy + Into<f64>>(
    predictions: &GaussianPredictions<'_, T>,
    owners: &[usize],
    level: f64,
) -> Result<Vec<Vec<ConformalCoverage>>, MetricsError> {
    let (outputs, scores) = (predictions.outputs(), value_nonconformity(predictions));
    let deviations: Vec<f64> = predictions.residuals().map(|(_, variance)| variance.sqrt()).collect();
    let of_output = |output: usize| {
        let own: Vec<f64> = scores.iter().skip(output).step_by(outputs).copied().collect();
        cross_fit(&own, owners, level, |row, threshold| {
            (own[row] <= threshold, 2.0 * threshold * deviations[row * outputs + output])
        })
    };
    (0..outputs).map(of_output).collect()
}

/// `judge` says of a row and a threshold whether the truth is inside, and how large the set is.
fn cross_fit(
    scores: &[f64],
    owners: &[usize],
    level: f64,
    judge: impl Fn(usize, f64) -> (bool, f64),
) -> Result<Vec<ConformalCoverage>, MetricsError> {
    if scores.len() != owners.len() {
        return Err(MetricsError::Unpaired {
            left: "predictions",
            right: "owners",
            left_len: scores.len(),
            right_len: owners.len(),
        });
    }
    let fewest = fewest_calibration_samples(level);
    let all: Vec<usize> = (0..scores.len()).collect();
    // In the order in which clients come.
    let mut place_of: HashMap<usize, usize> = HashMap::new();
    let mut clients: Vec<(usize, Vec<usize>)> = Vec::new();
    for (row, &owner) in owners.iter().enumerate() {
        let place = *place_of.entry(owner).or_insert(clients.len());
        if place == clients.len() {
            clients.push((owner, Vec::new()));
        }
        clients[place].1.push(row);
    }
    // Thresholds from everybody's rows outside of a fold, found once.
    let pooled: Option<Vec<Option<f64>>> =
        (all.len() >= fewest).then(|| fold_thresholds(scores, &all, level));
    let mut found = Vec::with_capacity(clients.len());
    for (client, rows) in clients {
        let own = rows.len() >= fewest;
        let own_thresholds = own.then(|| fold_thresholds(scores, &rows, level));
        let Some(thresholds) = own_thresholds.as_ref().or(pooled.as_ref()) else { continue };
        let (mut covered, mut size) = (0, 0.0);
        for (place, &row) in rows.iter().enumerate() {
            let fold = if own { place } else { row } % FOLDS;
            // So few samples in a fold that no threshold keeps the level: everything is inside.
            let (inside, width) = judge(row, thresholds[fold].unwrap_or(f64::INFINITY));
            covered += usize::from(inside);
            size += width;
        }
        let mean_size = size / rows.len() as f64;
        found.push(ConformalCoverage { client, samples: rows.len(), covered, mean_size, own });
    }
    Ok(found)
}

/// For each fold, the threshold from the rows that are in the others; a row's fold is its place among `rows`.
fn fold_thresholds(scores: &[f64], rows: &[usize], level: f64) -> Vec<Option<f64>> {
    let others = |fold: usize| -> Vec<f64> {
        let rows = rows.iter().enumerate().filter(|(place, _)| place % FOLDS != fold);
        rows.map(|(_, &row)| scores[row]).collect()
    };
    (0..FOLDS).map(|fold| conformal_quantile(&others(fold), level)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same multiplier as Knuth's MMIX, for tests that need no good numbers.
    struct Draws(u64);

    impl Draws {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    #[test]
    fn quantiles_worked_by_hand() {
        let nine = [0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.6, 0.4, 0.5];
        // (9 + 1) 0.9 = 9: the largest of nine; 0.5: the fifth; above 0.9 no threshold does.
        assert_eq!(conformal_quantile(&nine, 0.9), Some(0.9));
        assert_eq!(conformal_quantile(&nine, 0.5), Some(0.5));
        assert_eq!(conformal_quantile(&nine, 0.55), Some(0.6));
        assert_eq!(conformal_quantile(&nine, 0.91), None);
        assert_eq!(conformal_quantile(&[], 0.5), None);
        // 0.07 * 100 is a hair above 7: the seventh of 99, not the eighth.
        let many: Vec<f64> = (1..100).map(f64::from).collect();
        assert_eq!(conformal_quantile(&many, 0.07), Some(7.0));
    }

    #[test]
    fn how_many_are_needed() {
        for (level, needed) in [(0.5, 20), (0.8, 50), (0.9, 100), (0.95, 200), (0.99, 1000)] {
            assert_eq!(fewest_calibration_samples(level), needed, "{level}");
        }
    }

    #[test]
    fn sets_worked_by_hand() {
        let row = [0.5, 0.3, 0.2_f32];
        // 1 - p is 0.5, 0.7, 0.8.
        assert_eq!(conformal_set(&row, 0.75), [0, 1]);
        assert_eq!(conformal_set(&row, 0.1), [0], "never empty");
        assert_eq!(conformal_set(&row, 1.0), [0, 1, 2]);
        assert_eq!(conformal_set(&[0.4, 0.4, 0.2], 0.1), [0], "among equals the lowest");
        // As much as the threshold is inside.
        assert_eq!(conformal_set(&[0.5, 0.25, 0.25], 0.75), [0, 1, 2]);
        assert!(conformal_set::<f64>(&[], 0.5).is_empty());
    }

    #[test]
    fn nonconformity_worked_by_hand() {
        let predictions = Predictions::new(&[0.75, 0.25, 0.5, 0.5], &[1, 0], 2).unwrap();
        assert_eq!(class_nonconformity(&predictions), [0.75, 0.5]);
        let values = GaussianPredictions::new(&[0.0, 1.0], &[4.0, 1.0], &[3.0, 0.5], 1).unwrap();
        assert_eq!(value_nonconformity(&values), [1.5, 0.5]);
    }

    /// A new score is within the quantile of n exchangeable ones with probability `ceil((n + 1) level) / (n + 1)`, exactly.
    #[test]
    fn coverage_is_exact_in_finite_samples() {
        let mut draws = Draws(11);
        for (n, level) in [(19, 0.9), (30, 0.8), (99, 0.95), (24, 0.5)] {
            let repetitions = 20_000;
            let mut covered = 0;
            for _ in 0..repetitions {
                let scores: Vec<f64> = (0..n).map(|_| draws.next()).collect();
                covered += usize::from(draws.next() <= conformal_quantile(&scores, level).unwrap());
            }
            let rank = ((n + 1) as f64 * level - 1e-9).ceil();
            let (found, exact) = (covered as f64 / f64::from(repetitions), rank / (n + 1) as f64);
            let error = (exact * (1.0 - exact) / f64::from(repetitions)).sqrt();
            assert!((found - exact).abs() < 4.0 * error, "{n}, {level}: {found} is not {exact}");
            assert!(exact >= level - 1e-12);
        }
    }

    /// Scores with ties cover more, never less.
    #[test]
    fn ties_cover_more() {
        let mut draws = Draws(5);
        let mut score = || (draws.next() * 4.0).floor();
        let mut covered = 0;
        for _ in 0..5_000 {
            let scores: Vec<f64> = (0..20).map(|_| score()).collect();
            covered += usize::from(score() <= conformal_quantile(&scores, 0.8).unwrap());
        }
        assert!(covered as f64 / 5_000.0 > 0.8, "{covered}");
    }

    /// Predictions of two classes that are too sure of themselves: the truth is drawn with other odds.
    fn overconfident(draws: &mut Draws, count: usize) -> (Vec<f64>, Vec<u32>) {
        let (mut probabilities, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let p = 0.5 + 0.5 * draws.next();
            probabilities.extend([p, 1.0 - p]);
            labels.push(u32::from(draws.next() > 0.5 + 0.4 * (p - 0.5)));
        }
        (probabilities, labels)
    }

    #[test]
    fn cross_fitting_finds_the_wanted_coverage_however_wrong_the_model() {
        let mut draws = Draws(3);
        let (probabilities, labels) = overconfident(&mut draws, 4_000);
        let predictions = Predictions::new(&probabilities, &labels, 2).unwrap();
        assert!(predictions.accuracy().unwrap() < 0.75);
        // Clients 7 and 2 have enough of their own, client 4 has 40 samples.
        let owners: Vec<usize> = (0..4_000)
            .map(|row| match row {
                0..40 => 4,
                _ => 2 + 5 * (row % 2),
            })
            .collect();
        let found = conformal_sets_found(&predictions, &owners, 0.9).unwrap();
        let ids: Vec<_> = found.iter().map(|one| (one.client, one.samples, one.own)).collect();
        assert_eq!(ids, [(4, 40, false), (2, 1980, true), (7, 1980, true)]);
        for one in &found[1..] {
            assert!((one.coverage() - 0.9).abs() < 0.025, "{one:?}");
            assert!(one.mean_size > 1.0 && one.mean_size <= 2.0, "{one:?}");
        }
        // All of them together are too few for a level of 0.999.
        assert!(conformal_sets_found(&predictions, &owners, 0.999).unwrap().is_empty());
        assert!(conformal_sets_found(&predictions, &[1], 0.9).is_err());
    }

    #[test]
    fn intervals_of_each_output_are_judged_by_themselves() {
        let mut draws = Draws(9);
        let count = 1_000;
        // Output 0 deviates by half of what is said, output 1 by three times as much.
        let mut targets = Vec::new();
        for _ in 0..count {
            let mut uniform = |scale: f64| scale * (2.0 * draws.next() - 1.0);
            targets.extend([uniform(0.5), uniform(3.0)]);
        }
        let (means, variances) = (vec![0.0; 2 * count], vec![1.0; 2 * count]);
        let predictions = GaussianPredictions::new(&means, &variances, &targets, 2).unwrap();
        let found = conformal_intervals_found(&predictions, &vec![0; count], 0.8).unwrap();
        for (of_output, half) in found.iter().zip([0.5, 3.0]) {
            let [one] = of_output.as_slice() else { panic!("one client: {of_output:?}") };
            assert!((one.coverage() - 0.8).abs() < 0.03, "{one:?}");
            // The central 80% of a uniform distribution from -half to half is 1.6 half wide.
            assert!((one.mean_size / (1.6 * half) - 1.0).abs() < 0.06, "{one:?}");
        }
    }
}
