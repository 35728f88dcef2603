//! Statistics of methods that ran on the same seeds.
//!
//! A seed gives every method the same clients with the same samples, so scores come in pairs: differences are
//! tested, not means. They are differences from one method that is named before anything is seen, the reference: a test
//! against whichever method came out best would find too much, for the best of several is better than it is by chance too.
//! Ranks describe what was observed and test nothing.
//!
//! The interval that counts is Student's over seeds. Each seed draws its clients, their samples and the network anew, so
//! the difference of a seed is one independent observation of all of that together, and clients of one seed, who share a
//! model, are never taken for independent ones. With the five to twenty seeds there are, its only assumption (differences
//! of means over clients are nearly normal) is milder than that of the bootstrap, whose percentile interval over five
//! seeds has 126 distinct samples to rest on and is about a third too narrow. Where a partition is fixed (clients given
//! by the data), the interval is for that federation, not for others like it.
//!
//! The bootstrap over seeds and clients within them stands beside it as a check that does not assume
//! normality: where the two disagree on whether 0 is excluded, the difference is not established. With fewer
//! than five seeds there is neither test nor interval of Student's. A large p-value is no proof of equality.

use std::collections::{BTreeMap, BTreeSet};

use fedsi_metrics::{PairedTest, holm, paired_t_test};
use fedsi_run::Summary;
use serde::{Deserialize, Serialize};

use crate::metric::value;
pub use crate::metric::{Direction, Metric, ece_floor, metrics};
use crate::standing::standings;

/// How a method does by one metric. Comparisons of 0.1 have ranks only: their tests were against the best method
/// and are not read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricResult {
    /// The mean over seeds; null where nothing was scored.
    pub mean: Option<f64>,
    /// The standard deviation over seeds, with n - 1; null of fewer than two.
    pub std: Option<f64>,
    /// 1 is best, equals share a rank; it describes what was observed. Null where the method lacks a seed or a client that
    /// another was scored on: such means do not compare.
    pub rank: Option<usize>,
    /// Of ECE: what perfect calibration would score by chance, mean over seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// The difference from the reference. Null for the reference itself, and where either has no rank.
    #[serde(default)]
    pub difference: Option<Difference>,
    /// Of ECE: the difference from its own floor. Null where a seed has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above_floor: Option<Difference>,
    /// Over pairs of seed and client: how often it is better than the reference, worse, or the same. All 0 where there is
    /// no difference.
    #[serde(default)]
    pub against_reference: WinLossTie,
}

/// A difference over seeds: the method's score less the reference's. Of a score that should be near a value, the
/// difference of the distances from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The mean over seeds.
    pub mean: f64,
    /// The same as a share of the reference's mean, or of the floor; null where a score is not above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative: Option<f64>,
    /// Student's 95% interval over seeds. Null with fewer than [five](fedsi_metrics::MIN_PAIRS) seeds, and where the
    /// difference is the same on every seed.
    pub interval: Option<[f64; 2]>,
    /// The paired two-sided t-test over seeds; null where there is no interval.
    pub p: Option<f64>,
    /// The same after Holm's correction for all methods that are tested by this score.
    pub p_holm: Option<f64>,
    /// The 95% interval of the bootstrap over seeds and clients within them. Null with one seed, and where
    /// predictions could not be read.
    #[serde(default)]
    pub bootstrap: Option<[f64; 2]>,
}

impl Difference {
    /// Of each seed's difference, from 0.
    fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let spread = fedsi_metrics::Summary::of(pairs.iter().map(|(own, other)| own - other))?;
        let test: Option<PairedTest> = paired_t_test(pairs);
        let is_positive = pairs.iter().all(|(own, other)| *own > 0.0 && *other > 0.0);
        let other = fedsi_metrics::Summary::of(pairs.iter().map(|pair| pair.1)).filter(|_| is_positive);
        Some(Self {
            mean: spread.mean,
            relative: other.map(|other| spread.mean / other.mean),
            interval: test.map(|test| test.interval.into()),
            p: test.map(|test| test.p),
            p_holm: None,
            bootstrap: None,
        })
    }
}

/// Wins, losses and ties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WinLossTie {
    /// Better.
    pub wins: usize,
    /// Worse.
    pub losses: usize,
    /// Equal.
    pub ties: usize,
}

/// How each method stands by each of `metrics`, and how far from the method at `reference`; `methods` has each method's
/// complete runs.
#[must_use]
pub fn metric_results(
    metrics: &[Metric],
    methods: &[Vec<Summary>],
    reference: Option<usize>,
) -> Vec<BTreeMap<String, MetricResult>> {
    let comparable: Vec<bool> =
        standings(methods).iter().map(|standing| standing.unranked.is_none()).collect();
    let mut all = vec![BTreeMap::new(); methods.len()];
    for metric in metrics {
        let mut results = by_metric(metric, methods, &comparable, reference);
        correct(&mut results, |result| result.difference.as_mut());
        correct(&mut results, |result| result.above_floor.as_mut());
        for (of_method, result) in all.iter_mut().zip(results) {
            of_method.insert(metric.key.clone(), result);
        }
    }
    all
}

fn by_metric(
    metric: &Metric,
    methods: &[Vec<Summary>],
    comparable: &[bool],
    reference: Option<usize>,
) -> Vec<MetricResult> {
    let scored = |runs: &Vec<Summary>| -> BTreeMap<u64, f64> {
        runs.iter().filter_map(|run| Some((run.seed, value(&run.scores, &metric.key)?))).collect()
    };
    let scores: Vec<BTreeMap<u64, f64>> = methods.iter().map(scored).collect();
    let seeds: BTreeSet<u64> = scores.iter().flat_map(BTreeMap::keys).copied().collect();
    let spreads: Vec<_> =
        scores.iter().map(|scores| fedsi_metrics::Summary::of(scores.values().copied())).collect();
    let loss = |(index, &comparable): (usize, &bool)| {
        let ranked = comparable && scores[index].len() == seeds.len();
        spreads[index].filter(|_| ranked).map(|spread| metric.direction.loss(spread.mean))
    };
    let loss: Vec<Option<f64>> = comparable.iter().enumerate().map(loss).collect();
    let reference = reference.filter(|&reference| loss.get(reference).is_some_and(Option::is_some));
    let result = |index: usize| {
        let spread = spreads[index];
        let better = |own: f64| loss.iter().flatten().filter(|&&other| other < own).count();
        let rank = loss[index].map(|own| 1 + better(own));
        let other = reference.filter(|&other| other != index && rank.is_some() && metric.tested);
        let floors = if metric.key == "ece" { floors(&methods[index]) } else { Vec::new() };
        let floor = fedsi_metrics::Summary::of(floors.iter().map(|pair| pair.1));
        let has_all = !floors.is_empty() && floors.len() == methods[index].len();
        MetricResult {
            mean: spread.map(|spread| spread.mean),
            std: spread.and_then(|spread| spread.std_dev),
            rank,
            floor: floor.filter(|_| has_all).map(|floor| floor.mean),
            difference: other
                .and_then(|other| Difference::of(&pairs(metric.direction, &scores[index], &scores[other]))),
            above_floor: has_all.then(|| Difference::of(&floors)).flatten(),
            against_reference: other
                .map(|other| tally(metric, &methods[index], &methods[other]))
                .unwrap_or_default(),
        }
    };
    (0..methods.len()).map(result).collect()
}

/// Scores of the seeds that both have, as they are subtracted.
fn pairs(direction: Direction, own: &BTreeMap<u64, f64>, other: &BTreeMap<u64, f64>) -> Vec<(f64, f64)> {
    let both = own.iter().filter_map(|(seed, score)| Some((*score, *other.get(seed)?)));
    both.map(|(own, other)| (direction.subtracted(own), direction.subtracted(other))).collect()
}

/// ECE and its floor, run by run.
fn floors(runs: &[Summary]) -> Vec<(f64, f64)> {
    runs.iter().filter_map(|run| Some((value(&run.scores, "ece")?, ece_floor(&run.scores)?))).collect()
}

/// Holm's correction over all methods that are tested.
fn correct(results: &mut [MetricResult], of: fn(&mut MetricResult) -> Option<&mut Difference>) {
    let mut tested: Vec<&mut Difference> =
        results.iter_mut().filter_map(of).filter(|found| found.p.is_some()).collect();
    let corrected = holm(&tested.iter().filter_map(|found| found.p).collect::<Vec<_>>());
    for (found, p) in tested.iter_mut().zip(corrected) {
        found.p_holm = Some(p);
    }
}

/// Who is better, client by client, over the seeds that both have.
fn tally(metric: &Metric, own: &[Summary], other: &[Summary]) -> WinLossTie {
    let mut tally = WinLossTie::default();
    for run in own {
        let Some(other) = other.iter().find(|other| other.seed == run.seed) else { continue };
        for (client, other_client) in run.clients.iter().zip(&other.clients) {
            let score = |scores| value(scores, &metric.key).map(|score| metric.direction.loss(score));
            let (Some(loss), Some(other_loss)) = (score(&client.scores), score(&other_client.scores)) else {
                continue;
            };
            let count = match loss.total_cmp(&other_loss) {
                std::cmp::Ordering::Less => &mut tally.wins,
                std::cmp::Ordering::Greater => &mut tally.losses,
                std::cmp::Ordering::Equal => &mut tally.ties,
            };
            *count += 1;
        }
    }
    tally
}

#[cfg(test)]
pub(crate) mod tests;
