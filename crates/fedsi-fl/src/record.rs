//! What a run tells of itself: a line a round (`metrics.jsonl`) and the end (`summary.json`).

use fedsi_metrics::regression;
use serde::{Deserialize, Serialize};

use crate::calibrate::Calibration;
use crate::exclusion::Tally;
pub use crate::exclusion::{Exclusion, LeftOut};
use crate::infer::SubnetworkRecord;

/// One line of `metrics.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Counted from 1.
    pub round: u64,
    /// Mean training loss a sample over the last local epoch, averaged over the participants that were used.
    pub train_loss: Option<f64>,
    /// Scores on held-out training data, where `validation.fraction` is above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
    /// What participants' posteriors were like, for the methods that infer one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnetwork: Option<SubnetworkRecord>,
    /// How the prior variance of personal models was chosen, in the round that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Wall clock by phase.
    pub seconds: RoundSeconds,
    /// Who was drawn.
    pub participants: Vec<usize>,
    /// Whose update was not used, and why.
    pub left_out: Vec<LeftOut>,
    /// Whether too few updates could be used, and the server kept what it had.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skipped: bool,
    /// What the rounds so far may have told of any one client at most, where there is privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// What travelled.
    pub bytes: Traffic,
}

/// For serde: whether to leave a flag out.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde's own signature
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Scores of the round's participants, after their local work, on training data they held out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Held-out samples.
    pub samples: usize,
    /// Share of right classes (classification).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Mean negative log likelihood of the right classes (classification).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nll: Option<f64>,
    /// Root of the mean squared error, in units of the standardised targets (regression).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
}

/// Wall clock of a round, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundSeconds {
    /// Local training: the round's work less its posteriors.
    pub train: f64,
    /// Posteriors: their share of what all clients did, times the wall clock of that; and, in the round that does,
    /// choosing their prior variance.
    pub posterior: f64,
    /// Everything the server does.
    pub aggregate: f64,
}

/// Bytes of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// From clients to the server.
    pub up: u64,
    /// From the server to clients.
    pub down: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.up += other.up;
        self.down += other.down;
    }
}

/// `summary.json`: written last, so that its presence means a complete run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The method's name.
    pub method: String,
    /// The dataset's name.
    pub dataset: String,
    /// small or large.
    pub size: String,
    /// The run's seed.
    pub seed: u64,
    /// Rounds trained.
    pub rounds: usize,
    /// Accuracy is the mean over clients; everything else is pooled over all test predictions.
    #[serde(flatten)]
    pub scores: Scores,
    /// Every client on its own.
    pub clients: Vec<ClientScores>,
    /// What the personal models' posteriors are like, for the methods that infer one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posterior: Option<PosteriorSummary>,
    /// Wall clock.
    pub seconds: Seconds,
    /// What travelled, all rounds together.
    pub bytes: Traffic,
    /// Updates that were left out by kind, and rounds that were skipped.
    #[serde(default, skip_serializing_if = "Tally::is_empty")]
    pub trouble: Tally,
    /// What the shared part may tell of any one client at most, where there is privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// The chance that it tells more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// The most memory the process held; null where the system does not tell.
    pub peak_rss_bytes: Option<u64>,
    /// Version of fedsi.
    pub version: String,
}

/// The posteriors of all personal models, summed up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PosteriorSummary {
    /// What they are.
    #[serde(default)]
    pub kind: PosteriorKind,
    /// Parameters that have a distribution, mean over clients.
    pub parameters: f64,
    /// Mean posterior variance.
    pub variance: f64,
    /// What is known of a Gaussian that was inferred from the curvature.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub laplace: Option<LaplaceSummary>,
}

/// What a posterior is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PosteriorKind {
    /// A Gaussian over some parameters, inferred from the curvature.
    #[default]
    Laplace,
    /// An independent normal for each parameter, trained.
    MeanField,
    /// Samples of the head.
    Samples,
}

/// What is known of Gaussians that were inferred from the curvature.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaplaceSummary {
    /// The mean share of parameters that the data says nothing about.
    pub zero_curvature: f64,
    /// Mean rank of what the data adds to the prior.
    pub rank: f64,
    /// The worst factor, less one, by which a variance may be too large.
    pub certificate: f64,
    /// Mean prior variance.
    pub prior_variance: f64,
}

impl PosteriorSummary {
    /// Of one posterior that was not inferred from the curvature.
    pub(crate) const fn plain(kind: PosteriorKind, parameters: usize, variance: f64) -> Self {
        Self { kind, parameters: parameters as f64, variance, laplace: None }
    }

    /// Of these posteriors; none where there are none.
    pub(crate) fn of(all: &[Self]) -> Option<Self> {
        let first = all.first()?;
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        let known: Vec<LaplaceSummary> = all.iter().filter_map(|one| one.laplace).collect();
        let laplace = |of: fn(&LaplaceSummary) -> f64| known.iter().map(of).sum::<f64>() / known.len() as f64;
        Some(Self {
            kind: first.kind,
            parameters: mean(|one| one.parameters),
            variance: mean(|one| one.variance),
            laplace: (!known.is_empty()).then(|| LaplaceSummary {
                zero_curvature: laplace(|one| one.zero_curvature),
                rank: laplace(|one| one.rank),
                certificate: known.iter().map(|one| one.certificate).fold(0.0, f64::max),
                prior_variance: laplace(|one| one.prior_variance),
            }),
        })
    }
}

/// One client's scores on its test data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientScores {
    /// Counted from 0.
    pub id: usize,
    /// The client's name, where the data has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its test samples; without any, or with a model that diverged, its scores are null.
    pub samples: usize,
    /// Its scores.
    #[serde(flatten)]
    pub scores: Scores,
}

impl ClientScores {
    /// The client's number, with its name where it has one, fit for a terminal.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.name {
            None => self.id.to_string(),
            Some(name) => format!("{} {}", self.id, fedsi_data::printable(name)),
        }
    }
}

/// Scores by task; null where there was nothing to score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scores {
    /// Of predicted classes.
    Classification {
        /// Share of right classes, 0 to 1.
        #[serde(deserialize_with = "present")]
        accuracy: Option<f64>,
        /// Expected calibration error, ten bins.
        ece: Option<f64>,
        /// Largest gap of a non-empty bin.
        mce: Option<f64>,
        /// Brier score, summed over classes.
        brier: Option<f64>,
        /// Mean negative log likelihood.
        nll: Option<f64>,
        /// Largest gap of a bin with at least 1% of the samples.
        mce_1pct: Option<f64>,
    },
    /// Of predicted values, in the data's own units.
    Regression {
        /// Root of the mean squared error.
        #[serde(deserialize_with = "present")]
        rmse: Option<f64>,
        /// Mean absolute error.
        mae: Option<f64>,
        /// Mean negative log likelihood of a Gaussian.
        nll: Option<f64>,
        /// Share of targets within the central 50% interval.
        coverage_50: Option<f64>,
        /// Within the central 80% interval.
        coverage_80: Option<f64>,
        /// Within the central 90% interval.
        coverage_90: Option<f64>,
        /// Within the central 95% interval.
        coverage_95: Option<f64>,
    },
}

/// A key that may be null but must be there: it tells the two kinds of scores apart.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(value)
}

impl Scores {
    /// Of predicted classes.
    #[must_use]
    pub fn classification(scores: Option<fedsi_metrics::Scores>) -> Self {
        let value = |of: fn(&fedsi_metrics::Scores) -> f64| scores.as_ref().map(of);
        Self::Classification {
            accuracy: value(|scores| scores.accuracy),
            ece: value(|scores| scores.ece),
            mce: value(|scores| scores.mce),
            brier: value(|scores| scores.brier),
            nll: value(|scores| scores.nll),
            mce_1pct: value(|scores| scores.mce_1pct),
        }
    }

    /// Of predicted values.
    #[must_use]
    pub fn regression(scores: Option<regression::Scores>) -> Self {
        let value = |of: fn(&regression::Scores) -> f64| scores.as_ref().map(of);
        Self::Regression {
            rmse: value(|scores| scores.rmse),
            mae: value(|scores| scores.mae),
            nll: value(|scores| scores.nll),
            coverage_50: value(|scores| scores.coverage[0]),
            coverage_80: value(|scores| scores.coverage[1]),
            coverage_90: value(|scores| scores.coverage[2]),
            coverage_95: value(|scores| scores.coverage[3]),
        }
    }

    /// The scores by name, the main one first, for tables and pages.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        match *self {
            Self::Classification { accuracy, ece, mce, brier, nll, .. } => vec![
                Figure::share("accuracy", accuracy),
                Figure::number("ECE", ece),
                Figure::number("MCE", mce),
                Figure::number("Brier", brier),
                Figure::number("NLL", nll),
            ],
            Self::Regression { rmse, mae, nll, coverage_50, coverage_80, coverage_90, coverage_95 } => vec![
                Figure::number("RMSE", rmse),
                Figure::number("MAE", mae),
                Figure::number("NLL", nll),
                Figure::share("in 50%", coverage_50),
                Figure::share("in 80%", coverage_80),
                Figure::share("in 90%", coverage_90),
                Figure::share("in 95%", coverage_95),
            ],
        }
    }

    /// The same scores with another accuracy; those of a regression have none.
    #[must_use]
    pub const fn with_accuracy(mut self, value: Option<f64>) -> Self {
        if let Self::Classification { accuracy, .. } = &mut self {
            *accuracy = value;
        }
        self
    }

    /// Mean negative log likelihood.
    #[must_use]
    pub const fn nll(&self) -> Option<f64> {
        match self {
            Self::Classification { nll, .. } | Self::Regression { nll, .. } => *nll,
        }
    }

    /// Share of right classes.
    #[must_use]
    pub const fn accuracy(&self) -> Option<f64> {
        match self {
            Self::Classification { accuracy, .. } => *accuracy,
            Self::Regression { .. } => None,
        }
    }
}

/// One score with its name; written as a person reads it, `-` where there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: &'static str,
    /// Its value.
    pub value: Option<f64>,
    /// Whether it is a share of one, written as a percentage.
    pub is_share: bool,
}

impl Figure {
    const fn share(name: &'static str, value: Option<f64>) -> Self {
        Self { name, value, is_share: true }
    }

    const fn number(name: &'static str, value: Option<f64>) -> Self {
        Self { name, value, is_share: false }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.value {
            None => f.pad("-"),
            Some(value) if self.is_share => f.pad(&format!("{:.2}%", 100.0 * value)),
            Some(value) => f.pad(&format!("{value:.4}")),
        }
    }
}

/// Wall clock of a run, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    /// The rounds, less their posteriors.
    pub train: f64,
    /// The rounds' posteriors.
    pub posterior: f64,
    /// Personalising, final posteriors and predicting.
    pub evaluate: f64,
    /// Everything, reading the data included.
    pub total: f64,
}
