//! Statistics of methods that ran on the same seeds.
//!
//! A seed gives every method the same clients with the same samples, so scores come in pairs: differences are
//! tested, not means. With few seeds the test has little power: a large p-value is no proof of equality. With fewer than
//! five there is no test.

use std::collections::{BTreeMap, BTreeSet};

use fedsi_fl::scores::Scores;
use fedsi_metrics::paired_t_test;
use fedsi_run::Summary;
use serde::{Deserialize, Serialize};

use crate::standing::standings;

/// Which way a score is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// The nearer to this value the better: the coverage of an interval.
    Nearest(f64),
}

impl Direction {
    /// The score turned so that lower is better.
    #[must_use]
    pub fn loss(self, score: f64) -> f64 {
        match self {
            Self::Higher => -score,
            Self::Lower => score,
            Self::Nearest(target) => (score - target).abs(),
        }
    }
}

/// A score that methods are compared by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its key in `summary.json`.
    pub key: String,
    /// Its name in a table.
    pub title: String,
    /// Which way is better.
    pub direction: Direction,
    /// Whether it is a share of one, shown as a percentage.
    pub is_share: bool,
    /// Whether tables show it.
    pub shown: bool,
    /// Whether tables show the test of it.
    pub tested: bool,
}

/// How a method does by one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricResult {
    /// The mean over seeds; null where nothing was scored.
    pub mean: Option<f64>,
    /// The standard deviation over seeds, with n - 1; null of fewer than two.
    pub std: Option<f64>,
    /// 1 is best, equals share a rank. Null where the method lacks a seed or a client that another was scored on: such
    /// means do not compare.
    pub rank: Option<usize>,
    /// The paired two-sided t-test over seeds against the best method. Null for that method itself, for one without a
    /// rank, with fewer than [five](fedsi_metrics::MIN_PAIRS) seeds, and where the difference is the same on every seed.
    pub p: Option<f64>,
    /// Over pairs of seed and client: how often it is better than the best method, worse, or the same. All 0 for that
    /// method itself and for one without a rank.
    pub against_best: WinLossTie,
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

/// A metric, and where it stands in scores.
type Entry = (Metric, Option<f64>);

/// The metrics of these scores with their values, the main one first.
fn entries(scores: &Scores) -> Vec<Entry> {
    let entry = |key: &str, title: &str, direction, value| {
        let metric = Metric {
            key: key.to_owned(),
            title: title.to_owned(),
            direction,
            is_share: false,
            shown: true,
            tested: false,
        };
        (metric, value)
    };
    let share = |(metric, value): Entry| (Metric { is_share: true, ..metric }, value);
    let hidden = |(metric, value): Entry| (Metric { shown: false, ..metric }, value);
    let tested = |(metric, value): Entry| (Metric { tested: true, ..metric }, value);
    match *scores {
        Scores::Classification { accuracy, ece, mce, brier, nll, mce_1pct } => vec![
            tested(share(entry("accuracy", "accuracy", Direction::Higher, accuracy))),
            entry("ece", "ECE", Direction::Lower, ece),
            entry("mce", "MCE", Direction::Lower, mce),
            entry("brier", "Brier", Direction::Lower, brier),
            tested(entry("nll", "NLL", Direction::Lower, nll)),
            hidden(entry("mce_1pct", "MCE 1%", Direction::Lower, mce_1pct)),
        ],
        Scores::Regression { rmse, mae, nll, coverage_50, coverage_80, coverage_90, coverage_95 } => {
            let coverage =
                |key, title, level, value| share(entry(key, title, Direction::Nearest(level), value));
            vec![
                tested(entry("rmse", "RMSE", Direction::Lower, rmse)),
                entry("mae", "MAE", Direction::Lower, mae),
                tested(entry("nll", "NLL", Direction::Lower, nll)),
                hidden(coverage("coverage_50", "in 50%", 0.50, coverage_50)),
                hidden(coverage("coverage_80", "in 80%", 0.80, coverage_80)),
                coverage("coverage_90", "in 90%", 0.90, coverage_90),
                hidden(coverage("coverage_95", "in 95%", 0.95, coverage_95)),
            ]
        }
    }
}

/// The metrics of these scores, the main one first.
#[must_use]
pub fn metrics(scores: &Scores) -> Vec<Metric> {
    entries(scores).into_iter().map(|(metric, _)| metric).collect()
}

/// The score of this metric; one that is not finite is none.
fn value(scores: &Scores, key: &str) -> Option<f64> {
    entries(scores).into_iter().find(|(metric, _)| metric.key == key)?.1.filter(|value| value.is_finite())
}

/// How each method stands by each of `metrics`; `methods` has each method's complete runs. The order of methods
/// decides only which of equals the others are tested against: the first.
#[must_use]
pub fn metric_results(metrics: &[Metric], methods: &[Vec<Summary>]) -> Vec<BTreeMap<String, MetricResult>> {
    let comparable: Vec<bool> =
        standings(methods).iter().map(|standing| standing.unranked.is_none()).collect();
    let mut all = vec![BTreeMap::new(); methods.len()];
    for metric in metrics {
        for (of_method, result) in all.iter_mut().zip(by_metric(metric, methods, &comparable)) {
            of_method.insert(metric.key.clone(), result);
        }
    }
    all
}

fn by_metric(metric: &Metric, methods: &[Vec<Summary>], comparable: &[bool]) -> Vec<MetricResult> {
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
    // The first of equals: `min_by` keeps it.
    let best = (0..methods.len())
        .filter_map(|index| Some((index, loss[index]?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(index, _)| index);
    let result = |index: usize| {
        let spread = spreads[index];
        let better = |own: f64| loss.iter().flatten().filter(|&&other| other < own).count();
        let rank = loss[index].map(|own| 1 + better(own));
        let best_other = best.filter(|&best| best != index && rank.is_some());
        MetricResult {
            mean: spread.map(|spread| spread.mean),
            std: spread.and_then(|spread| spread.std_dev),
            rank,
            p: best_other.and_then(|best| test(metric.direction, &scores[index], &scores[best])),
            against_best: best_other
                .map(|best| tally(metric, &methods[index], &methods[best]))
                .unwrap_or_default(),
        }
    };
    (0..methods.len()).map(result).collect()
}

/// The paired test over seeds; both have the same.
fn test(direction: Direction, own: &BTreeMap<u64, f64>, best: &BTreeMap<u64, f64>) -> Option<f64> {
    let pair = |(seed, score): (&u64, &f64)| Some((direction.loss(*score), direction.loss(*best.get(seed)?)));
    let pairs: Vec<(f64, f64)> = own.iter().filter_map(pair).collect();
    Some(paired_t_test(&pairs)?.p)
}

/// Who is better, client by client, over the seeds that both have.
fn tally(metric: &Metric, own: &[Summary], best: &[Summary]) -> WinLossTie {
    let mut tally = WinLossTie::default();
    for run in own {
        let Some(other) = best.iter().find(|other| other.seed == run.seed) else { continue };
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
pub(crate) mod tests {
    use super::*;
    use fedsi_fl::wire::Traffic;
    use fedsi_run::{ClientScores, Seconds};

    pub(crate) fn scores(accuracy: f64, nll: f64) -> Scores {
        let rest = Some(0.1);
        Scores::Classification {
            accuracy: Some(accuracy),
            ece: rest,
            mce: rest,
            brier: rest,
            nll: Some(nll),
            mce_1pct: None,
        }
    }

    /// A run with these scores, and clients with these accuracies.
    pub(crate) fn run(seed: u64, scores_of_run: Scores, clients: &[f64]) -> Summary {
        let client = |(id, &accuracy): (usize, &f64)| ClientScores {
            id,
            name: None,
            samples: 10,
            problem: None,
            scores: scores(accuracy, 0.5),
        };
        Summary {
            method: String::new(),
            dataset: "digits".to_owned(),
            size: "small".to_owned(),
            seed,
            rounds: 2,
            scores: scores_of_run,
            coverage: None,
            clients: clients.iter().enumerate().map(client).collect(),
            posterior: None,
            seconds: Seconds { total: 4.0, ..Seconds::default() },
            bytes: Traffic { up: 1_000_000, down: 2_000_000 },
            trouble: fedsi_fl::simulation::Tally::default(),
            epsilon: None,
            delta: None,
            peak_rss_bytes: None,
            device: None,
            cpu: None,
            version: "0".to_owned(),
            run: None,
            files: BTreeMap::new(),
        }
    }

    fn close(found: Option<f64>, expected: f64) {
        assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?} is not {expected}");
    }

    #[test]
    fn worked_by_hand() {
        // Accuracies .91 .93 .95 .97 .99 (mean .95, std sqrt(.001)) against .90 .91 .92 .93 .94 (mean .92): differences
        // .01 to .05, so t = 3 sqrt(2) with four degrees, p = 1 - x (3 - x^2) / 2 with x = sqrt(18/22).
        let steps = [1, 2, 3, 4, 5];
        let worse = |seed: u64| run(seed, scores(0.89 + 0.01 * seed as f64, 0.3), &[0.8, 0.9]);
        let better = |seed: u64| run(seed, scores(0.89 + 0.02 * seed as f64, 0.4), &[0.8, 0.7]);
        let methods = [steps.map(worse).to_vec(), steps.map(better).to_vec()];
        let found = metric_results(&metrics(&methods[0][0].scores), &methods);
        let (worse, better) = (&found[0]["accuracy"], &found[1]["accuracy"]);
        assert_eq!((worse.rank, better.rank, better.p), (Some(2), Some(1), None));
        close(better.mean, 0.95);
        close(better.std, 0.001_f64.sqrt());
        let x = (18.0_f64 / 22.0).sqrt();
        assert!((worse.p.unwrap() - (1.0 - x * (3.0 - x * x) / 2.0)).abs() < 1e-9, "{worse:?}");
        assert_eq!(worse.against_best, WinLossTie { wins: 5, losses: 0, ties: 5 });
        // NLL: lower is better. The same difference on every seed has no variance, so no test.
        assert_eq!((found[0]["nll"].rank, found[1]["nll"].rank, found[1]["nll"].p), (Some(1), Some(2), None));
        // ECE: the same everywhere; both are best.
        assert_eq!((found[0]["ece"].rank, found[1]["ece"].rank, found[1]["ece"].p), (Some(1), Some(1), None));
        // Nothing scored.
        assert_eq!((found[0]["mce_1pct"].mean, found[0]["mce_1pct"].rank), (None, None));
    }

    #[test]
    fn few_seeds_have_no_test() {
        for count in 1..5_u64 {
            let method =
                |rate: f64| (1..=count).map(move |seed| run(seed, scores(rate * seed as f64, 0.3), &[]));
            let methods = [method(0.1).collect::<Vec<_>>(), method(0.2).collect()];
            let found = metric_results(&metrics(&methods[0][0].scores), &methods);
            let worse = &found[0]["accuracy"];
            assert_eq!((worse.rank, worse.p), (Some(2), None), "{count} seeds");
        }
    }

    #[test]
    fn a_score_that_is_not_finite_is_none() {
        let methods = [
            vec![run(1, scores(0.9, f64::NAN), &[]), run(2, scores(0.9, 0.1), &[])],
            vec![run(1, scores(0.8, 0.4), &[]), run(2, scores(0.8, 0.4), &[])],
        ];
        let found = metric_results(&metrics(&methods[0][0].scores), &methods);
        assert_eq!((found[0]["nll"].mean, found[0]["nll"].rank), (Some(0.1), None));
        assert_eq!(found[1]["nll"].rank, Some(1));
    }

    #[test]
    fn one_seed_has_no_spread_and_no_test() {
        let methods = [vec![run(1, scores(0.9, 0.3), &[])], vec![run(1, scores(0.8, 0.4), &[])]];
        let found = metric_results(&metrics(&methods[0][0].scores), &methods);
        assert_eq!(
            (found[1]["accuracy"].std, found[1]["accuracy"].p, found[1]["accuracy"].rank),
            (None, None, Some(2))
        );
    }

    #[test]
    fn fewer_seeds_have_no_rank_and_no_test() {
        let steps = [1, 2, 3, 4, 5, 6];
        let all = steps.map(|seed| run(seed, scores(0.7 + 0.001 * (seed * seed) as f64, 0.4), &[0.5]));
        let few = steps[1..].iter().map(|&seed| run(seed, scores(0.99, 0.1), &[0.9]));
        let methods = [few.collect(), all.to_vec(), vec![]];
        let found = metric_results(&metrics(&methods[1][0].scores), &methods);
        let of = |method: usize| (found[method]["accuracy"].rank, found[method]["accuracy"].p);
        assert_eq!([of(0), of(1), of(2)], [(None, None), (Some(1), None), (None, None)]);
        assert_eq!(found[0]["accuracy"].against_best, WinLossTie::default());
        assert_eq!(found[2]["accuracy"].mean, None);
    }

    #[test]
    fn coverage_is_best_near_its_level() {
        let covered = |seed, value| {
            let coverage = Scores::Regression {
                rmse: Some(1.0),
                mae: Some(1.0),
                nll: Some(1.0),
                coverage_50: None,
                coverage_80: None,
                coverage_90: Some(value),
                coverage_95: None,
            };
            run(seed, coverage, &[])
        };
        // Means .90 and .96: the first is nearer to .9, though not on every seed.
        let values = [[0.82, 0.98, 0.84, 0.97, 0.89], [0.95, 0.97, 0.96, 0.97, 0.95]];
        let method = |values: [f64; 5]| (1..).zip(values).map(|(seed, value)| covered(seed, value)).collect();
        let methods: [Vec<Summary>; 2] = values.map(method);
        let found = metric_results(&metrics(&methods[0][0].scores), &methods);
        let [first, second] = [0, 1].map(|method: usize| &found[method]["coverage_90"]);
        assert_eq!((first.rank, second.rank), (Some(1), Some(2)));
        // Differences of distances: -.03 -.01 0 0 .04, mean 0: t = 0.
        close(second.p, 1.0);
    }
}
