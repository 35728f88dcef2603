//! `summary.json`: what a complete run says of itself.

use fedsi_fl::client::PosteriorSummary;
use fedsi_fl::scores::Scores;
use fedsi_fl::simulation::Tally;
use fedsi_fl::wire::Traffic;
use serde::{Deserialize, Serialize};

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
