//! What a run left in its folder.

use std::fs;
use std::path::{Path, PathBuf};

use fedsi_fl::predict::Predictions;
use fedsi_fl::record::{RoundRecord, Summary};

use crate::ReportError;

/// What a run wrote, read.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// `summary.json`.
    pub summary: Summary,
    /// `metrics.jsonl`.
    pub rounds: Vec<RoundRecord>,
    /// `config.toml`, as text.
    pub config: String,
    /// `predictions.safetensors`.
    pub predictions: Predictions,
}

impl RunFiles {
    /// Reads a run's files beside its summary.
    ///
    /// # Errors
    /// A file that is missing or is not what a run writes.
    pub fn read(folder: &Path, summary: Summary) -> Result<Self, ReportError> {
        let path = folder.join("metrics.jsonl");
        let rounds = text(&path)?
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .map_err(content(&path))?;
        let config = text(&folder.join("config.toml"))?;
        let path = folder.join("predictions.safetensors");
        let bytes = fs::read(&path).map_err(|source| ReportError::File { path: path.clone(), source })?;
        let predictions = fedsi_fl::read_predictions(&bytes).map_err(content(&path))?;
        Ok(Self { summary, rounds, config, predictions })
    }
}

fn text(path: &Path) -> Result<String, ReportError> {
    fs::read_to_string(path).map_err(|source| ReportError::File { path: path.to_owned(), source })
}

fn content<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> ReportError + '_ {
    move |error| ReportError::Content { path: PathBuf::from(path), reason: error.to_string() }
}
