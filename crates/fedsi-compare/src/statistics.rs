//! Statistics of methods that ran on the same seeds.
//!
//! A seed gives every method the same clients with the same samples, so scores come in pairs: differences are
//! tested, not means. With few seeds the test has little power: a large p-value is no proof of equality, and two seeds may
//! differ by the same amount by chance.

use std::collections::BTreeMap;

use fedsi_fl::scores::Scores;
use fedsi_metrics::paired_t_test;
use fedsi_run::Summary;
use serde::{Deserialize, Serialize};

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
    /// 1 is best, equals share a rank. Null where the method has fewer scored seeds than another: means over
    /// other seeds do not compare.
    pub rank: Option<usize>,
    /// The paired two-sided t-test over seeds against the best method; null for that method itself, and with
    /// fewer than two seeds in common.
    pub p: Option<f64>,
    /// Over pairs of seed and client: how often it is better than the best method, worse, or the same.
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

/// The score of this metric.
fn value(scores: &Scores, key: &str) -> Option<f64> {
    entries(scores).into_iter().find(|(metric, _)| metric.key == key)?.1
}

/// How each method stands by each of `metrics`; `methods` has each method's complete runs. The order of methods
/// decides only which of equals the others are tested against: the first.
#[must_use]
pub fn metric_results(metrics: &[Metric], methods: &[Vec<Summary>]) -> Vec<BTreeMap<String, MetricResult>> {
    let mut all = vec![BTreeMap::new(); methods.len()];
    for metric in metrics {
        for (of_method, result) in all.iter_mut().zip(by_metric(metric, methods)) {
            of_method.insert(metric.key.clone(), result);
        }
    }
    all
}

fn by_metric(metric: &Metric, methods: &[Vec<Summary>]) -> Vec<MetricResult> {
    let scored = |runs: &Vec<Summary>| -> Vec<(u64, f64)> {
        runs.iter().filter_map(|run| Some((run.seed, value(&run.scores, &metric.key)?))).collect()
    };
    let scores: Vec<Vec<(u64, f64)>> = methods.iter().map(scored).collect();
    let most = scores.iter().map(Vec::len).max().unwrap_or(0);
    let spread =
        |scores: &Vec<(u64, f64)>| fedsi_metrics::Summary::of(scores.iter().map(|&(_, score)| score));
    let spreads: Vec<_> = scores.iter().map(spread).collect();
    let ranked = spreads.iter().map(|spread| spread.filter(|spread| spread.count == most));
    let loss: Vec<Option<f64>> =
        ranked.map(|spread| spread.map(|spread| metric.direction.loss(spread.mean))).collect();
    // The first of equals: `min_by` keeps it.
    let best = (0..methods.len())
        .filter_map(|index| Some((index, loss[index]?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(index, _)| index);
    let result = |index: usize| {
        let spread = spreads[index];
        let better = |own: f64| loss.iter().flatten().filter(|&&other| other < own).count();
        let best_other = best.filter(|&best| best != index);
        MetricResult {
            mean: spread.map(|spread| spread.mean),
            std: spread.and_then(|spread| spread.std_dev),
            rank: loss[index].map(|own| 1 + better(own)),
            p: best_other.and_then(|best| test(metric.direction, &scores[index], &scores[best])),
            against_best: best_other
                .map(|best| tally(metric, &methods[index], &methods[best]))
                .unwrap_or_default(),
        }
    };
    (0..methods.len()).map(result).collect()
}

/// The paired test over the seeds that both have.
fn test(direction: Direction, own: &[(u64, f64)], best: &[(u64, f64)]) -> Option<f64> {
    let difference = |&(seed, score): &(u64, f64)| {
        let (_, other) = best.iter().find(|(other, _)| *other == seed)?;
        Some(direction.loss(score) - direction.loss(*other))
    };
    let differences: Vec<f64> = own.iter().filter_map(difference).collect();
    Some(paired_t_test(&differences)?.p)
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
            scores: scores(accuracy, 0.5),
        };
        Summary {
            method: String::new(),
            dataset: "digits".to_owned(),
            size: "small".to_owned(),
            seed,
            rounds: 2,
            scores: scores_of_run,
            clients: clients.iter().enumerate().map(client).collect(),
            posterior: None,
            seconds: Seconds { total: 4.0, ..Seconds::default() },
            bytes: Traffic { up: 1_000_000, down: 2_000_000 },
            trouble: fedsi_fl::simulation::Tally::default(),
            epsilon: None,
            delta: None,
            peak_rss_bytes: None,
            version: "0".to_owned(),
        }
    }

    fn close(found: Option<f64>, expected: f64) {
        assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?} is not {expected}");
    }

    #[test]
    fn worked_by_hand() {
        // Accuracies .90 .92 .94 (mean .92, std .02) against .89 .90 .91 (mean .90, std .01): differences
        // .01 .02 .03, so t = 2 sqrt(3) with two degrees, p = 1 - sqrt(12/14).
        let methods = [
            vec![
                run(1, scores(0.89, 0.3), &[0.8, 0.9]),
                run(2, scores(0.90, 0.3), &[]),
                run(3, scores(0.91, 0.3), &[]),
            ],
            vec![
                run(1, scores(0.90, 0.4), &[0.8, 0.7]),
                run(2, scores(0.92, 0.4), &[]),
                run(3, scores(0.94, 0.4), &[]),
            ],
        ];
        let found = metric_results(&metrics(&methods[0][0].scores), &methods);
        let (worse, better) = (&found[0]["accuracy"], &found[1]["accuracy"]);
        assert_eq!((worse.rank, better.rank, better.p), (Some(2), Some(1), None));
        close(better.mean, 0.92);
        close(better.std, 0.02);
        close(worse.std, 0.01);
        close(worse.p, 1.0 - (12.0_f64 / 14.0).sqrt());
        assert_eq!(worse.against_best, WinLossTie { wins: 1, losses: 0, ties: 1 });
        // NLL: lower is better, and the same difference on every seed is beyond doubt.
        assert_eq!((found[0]["nll"].rank, found[1]["nll"].rank), (Some(1), Some(2)));
        close(found[1]["nll"].p, 0.0);
        // ECE: the same everywhere; both are best, and the second is tested against the first.
        assert_eq!(
            (found[0]["ece"].rank, found[1]["ece"].rank, found[1]["ece"].p),
            (Some(1), Some(1), Some(1.0))
        );
        // Nothing scored.
        assert_eq!((found[0]["mce_1pct"].mean, found[0]["mce_1pct"].rank), (None, None));
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
    fn fewer_seeds_have_no_rank_but_a_test_over_those_in_common() {
        let methods = [
            vec![run(1, scores(0.99, 0.1), &[]), run(3, scores(0.98, 0.1), &[])],
            vec![run(1, scores(0.7, 0.4), &[]), run(2, scores(0.7, 0.4), &[]), run(3, scores(0.8, 0.4), &[])],
            vec![],
        ];
        let found = metric_results(&metrics(&methods[0][0].scores), &methods);
        assert_eq!(
            (found[0]["accuracy"].rank, found[1]["accuracy"].rank, found[2]["accuracy"].rank),
            (None, Some(1), None)
        );
        assert!(found[0]["accuracy"].p.is_some());
        assert_eq!((found[2]["accuracy"].mean, found[2]["accuracy"].p), (None, None));
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
        let methods = [vec![covered(1, 0.82), covered(2, 0.98)], vec![covered(1, 0.95), covered(2, 0.97)]];
        let found = metric_results(&metrics(&methods[0][0].scores), &methods);
        let [first, second] = [0, 1].map(|method: usize| &found[method]["coverage_90"]);
        assert_eq!((first.rank, second.rank), (Some(1), Some(2)));
        // Differences of distances: .05 - .08 and .07 - .08, t = -2 with one degree.
        close(second.p, 1.0 - std::f64::consts::FRAC_2_PI * 2.0_f64.atan());
    }
}
