//! What a run left in its folder.

use std::fs;
use std::path::{Path, PathBuf};

use fedsi_fl::record::{RoundRecord, Summary};
use safetensors::SafeTensors;

use crate::ReportError;

/// The files of a complete run, read.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// `summary.json`.
    pub summary: Summary,
    /// `metrics.jsonl`.
    pub rounds: Vec<RoundRecord>,
    /// `config.toml`, as text.
    pub config: String,
    /// `predictions.safetensors`.
    pub predictions: Predicted,
}

/// The test predictions of all clients.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicted {
    /// Probabilities (samples x classes) and labels.
    Classes {
        /// How many classes.
        classes: usize,
        /// Row after row.
        probabilities: Vec<f32>,
        /// One a row.
        labels: Vec<u32>,
    },
    /// Means, variances and true values (samples x outputs).
    Values {
        /// How many values a sample has.
        outputs: usize,
        /// Row after row.
        mean: Vec<f32>,
        /// Row after row.
        variance: Vec<f32>,
        /// Row after row.
        targets: Vec<f32>,
    },
}

impl RunFiles {
    /// Reads a complete run's files.
    ///
    /// # Errors
    /// A file that is missing or is not what a run writes.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let path = folder.join("summary.json");
        let summary = serde_json::from_str(&text(&path)?).map_err(content(&path))?;
        let path = folder.join("metrics.jsonl");
        let rounds = text(&path)?
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .map_err(content(&path))?;
        let config = text(&folder.join("config.toml"))?;
        let path = folder.join("predictions.safetensors");
        let bytes = fs::read(&path).map_err(|source| ReportError::File { path: path.clone(), source })?;
        let predictions = predicted(&bytes).map_err(content(&path))?;
        Ok(Self { summary, rounds, config, predictions })
    }
}

fn text(path: &Path) -> Result<String, ReportError> {
    fs::read_to_string(path).map_err(|source| ReportError::File { path: path.to_owned(), source })
}

fn content<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> ReportError + '_ {
    move |error| ReportError::Content { path: PathBuf::from(path), reason: error.to_string() }
}

fn predicted(bytes: &[u8]) -> Result<Predicted, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let find = |name: &str| tensors.tensor(name).map_err(|error| format!("{name}: {error}"));
    let floats = |name: &str| -> Result<Vec<f32>, String> {
        Ok(find(name)?.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
    };
    let columns = |name: &str| {
        find(name)?.shape().get(1).copied().filter(|&c| c > 0).ok_or(format!("{name}: no columns"))
    };
    if tensors.tensor("probabilities").is_ok() {
        let labels =
            find("labels")?.data().as_chunks::<8>().0.iter().map(|&bytes| i64::from_le_bytes(bytes) as u32);
        return Ok(Predicted::Classes {
            classes: columns("probabilities")?,
            probabilities: floats("probabilities")?,
            labels: labels.collect(),
        });
    }
    Ok(Predicted::Values {
        outputs: columns("mean")?,
        mean: floats("mean")?,
        variance: floats("variance")?,
        targets: floats("targets")?,
    })
}
