//! The scores that methods are compared by, and which way each is better.

use fedsi_fl::scores::Scores;
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

    /// How far a score is from another: their difference, or that of their distances from where they should be.
    #[must_use]
    pub fn difference(self, score: f64, other: f64) -> f64 {
        self.subtracted(score) - self.subtracted(other)
    }

    /// The score as it is subtracted from another: as it is, or its distance from where it should be.
    pub(crate) fn subtracted(self, score: f64) -> f64 {
        match self {
            Self::Higher | Self::Lower => score,
            Self::Nearest(_) => self.loss(score),
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
    /// Whether differences of it are tested.
    pub tested: bool,
}

impl Metric {
    /// Its value among these scores; one that is not finite is none.
    #[must_use]
    pub fn value(&self, scores: &Scores) -> Option<f64> {
        value(scores, &self.key)
    }
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
        Scores::Classification {
            accuracy, ece, mce, brier, nll, mce_1pct, aurc, balanced_accuracy, ..
        } => vec![
            tested(share(entry("accuracy", "accuracy", Direction::Higher, accuracy))),
            tested(entry("ece", "ECE", Direction::Lower, ece)),
            tested(entry("brier", "Brier", Direction::Lower, brier)),
            tested(entry("nll", "NLL", Direction::Lower, nll)),
            tested(entry("aurc", "AURC", Direction::Lower, aurc)),
            // Of bins with at least 1% of the samples: the other is often the gap of a single one.
            entry("mce_1pct", "MCE 1%", Direction::Lower, mce_1pct),
            hidden(entry("mce", "MCE", Direction::Lower, mce)),
            hidden(share(entry("balanced_accuracy", "balanced", Direction::Higher, balanced_accuracy))),
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
pub(crate) fn value(scores: &Scores, key: &str) -> Option<f64> {
    entries(scores).into_iter().find(|(metric, _)| metric.key == key)?.1.filter(|value| value.is_finite())
}

/// The ECE that perfect calibration would have by chance, where these scores say it.
#[must_use]
pub fn ece_floor(scores: &Scores) -> Option<f64> {
    match *scores {
        Scores::Classification { ece_floor, .. } => ece_floor.filter(|floor| floor.is_finite()),
        Scores::Regression { .. } => None,
    }
}
