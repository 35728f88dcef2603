//! What is kept of a run: everything that tables and figures need, without its folder.

use std::collections::BTreeMap;
use std::path::Path;

use fedsi_fl::client::Predictions;
use fedsi_metrics::Bins;
use fedsi_run::saved::verify_digest;
use fedsi_run::{ScoreDetails, Summary, read_predictions};
use serde::{Deserialize, Serialize};
use toml::Value;

use crate::PaperError;
use crate::plan::PaperRun;

/// The file of a run's test predictions.
const PREDICTIONS: &str = "predictions.safetensors";

/// A run as `results.json` holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The setting's name.
    pub setting: String,
    /// The row's name.
    pub row: String,
    /// What its settings had on top of the defaults of its version.
    pub settings: BTreeMap<String, Value>,
    /// SHA-256 of all settings that decided its results, defaults too.
    pub config_sha256: String,
    /// Ten bins of confidence, all test predictions together: how many, their mean confidence, their accuracy.
    pub bins: Vec<(usize, f64, f64)>,
    /// The error rate when the least confident fifth of the test predictions is declined.
    pub error_at_80: Option<f64>,
    /// How well entropy and strangeness tell other inputs from a client's own, where that was measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub strange_inputs: BTreeMap<String, StrangeInputs>,
    /// What the run says of itself, without classes and intervals.
    pub summary: Summary,
}

/// Areas under the ROC curve, means over clients: 1 is always told, 0.5 never.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StrangeInputs {
    /// By the entropy of predictions.
    pub entropy: Option<f64>,
    /// By strangeness.
    pub strangeness: Option<f64>,
}

impl RunRecord {
    /// Of a complete run in its folder. Costs reading and sorting its predictions.
    ///
    /// # Errors
    /// Predictions that are missing or damaged.
    pub fn read(run: &PaperRun, folder: &Path, summary: &Summary) -> Result<Self, PaperError> {
        let path = folder.join(PREDICTIONS);
        let bytes = std::fs::read(&path).map_err(|error| PaperError::content(&path, &error))?;
        if !verify_digest(&summary.files, PREDICTIONS, &bytes) {
            return Err(PaperError::content(&path, &"its bytes are not those that the run wrote"));
        }
        let predictions = read_predictions(&bytes).map_err(|error| PaperError::content(&path, &error))?;
        let (bins, error_at_80) = match &predictions {
            Predictions::Classes { classes, probabilities, labels } => {
                let all = fedsi_metrics::Predictions::new(probabilities, labels, *classes)
                    .map_err(|error| PaperError::content(&path, &error))?;
                let table = all.reliability(Bins::default());
                let bins = table.bins().map(|bin| (bin.count, bin.confidence, bin.accuracy));
                (bins.collect(), all.risk_coverage().map(|curve| curve.at_coverage(0.8).risk))
            }
            Predictions::Values { .. } => (Vec::new(), None),
        };
        let summary = Summary {
            details: ScoreDetails {
                overconfidence: summary.details.overconfidence,
                majority_accuracy: summary.details.majority_accuracy,
                worst_tenth_accuracy: summary.details.worst_tenth_accuracy,
                ..ScoreDetails::default()
            },
            classes: Vec::new(),
            files: BTreeMap::new(),
            ..summary.clone()
        };
        Ok(Self {
            setting: run.setting.clone(),
            row: run.entry.id.to_owned(),
            settings: run.values.clone(),
            config_sha256: run.config_sha256.clone(),
            bins,
            error_at_80,
            strange_inputs: BTreeMap::new(),
            summary,
        })
    }

    /// Whether this is the run that is planned.
    #[must_use]
    pub fn is_of(&self, run: &PaperRun) -> bool {
        self.has_settings_of(run) && self.config_sha256 == run.config_sha256
    }

    /// Whether this is the run that is planned, but for defaults that may have changed since.
    #[must_use]
    pub fn has_settings_of(&self, run: &PaperRun) -> bool {
        self.setting == run.setting
            && self.row == run.entry.id
            && self.summary.seed == run.planned.seed
            && self.settings == run.values
    }

    /// Whether both are the same row on the same seed under the same settings.
    #[must_use]
    pub fn is_same_run(&self, other: &Self) -> bool {
        self.setting == other.setting
            && self.row == other.row
            && self.summary.seed == other.summary.seed
            && self.settings == other.settings
    }
}
