//! Predictions that another tool made, read from JSON, CSV, NPZ or safetensors.
//!
//! - `csv`, `json`, `npz`, `tensors`: a reader a format; `arrays`: what NPZ and safetensors have in common.
//! - `entry`: `NAME=FILE`, one more method of a comparison; `against`: whether its rows are the test rows; `names`: what
//!   `fedsi data export` calls its columns.
//!
//! A file holds class probabilities with labels, or the means and variances of a regression with targets; and, where it
//! says so, whose each row is. Rows are checked when they are scored: see [`fedsi_metrics::Predictions`].

pub(crate) mod against;
mod arrays;
mod csv;
mod entry;
mod json;
pub(crate) mod names;
mod npz;
mod tensors;

use std::fs;
use std::path::{Path, PathBuf};

pub use crate::error::ExternalError;
pub use entry::ExternalMethod;
use names::ExportedNames;

/// What a file predicts.
#[derive(Clone, Debug, PartialEq)]
pub enum ExternalValues {
    /// A probability for each class.
    Classes {
        /// How many classes.
        classes: usize,
        /// Rows x classes.
        probabilities: Vec<f64>,
        /// The class of each row, where the file says it.
        labels: Option<Vec<u32>>,
    },
    /// A mean and a variance for each target.
    Values {
        /// Targets of a row.
        outputs: usize,
        /// Rows x outputs.
        mean: Vec<f64>,
        /// Rows x outputs.
        variance: Vec<f64>,
        /// The true values, where the file says them.
        targets: Option<Vec<f64>>,
    },
}

impl ExternalValues {
    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Classes { classes, probabilities, .. } => {
                probabilities.len().checked_div(*classes).unwrap_or(0)
            }
            Self::Values { outputs, mean, .. } => mean.len().checked_div(*outputs).unwrap_or(0),
        }
    }
}

/// The predictions in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalPredictions {
    /// The file.
    pub path: PathBuf,
    /// What is predicted.
    pub values: ExternalValues,
    /// Whose each row is, where the file says it.
    pub clients: Option<Vec<String>>,
    /// Which row of the data each row is, counted from 0, where the file says it.
    pub rows: Option<Vec<String>>,
    /// The id of each row, where the file says it.
    pub ids: Option<Vec<String>>,
    /// The names of the classes, where the file has them.
    pub class_names: Option<Vec<String>>,
}

/// What a file may be, for messages.
pub(crate) const FORMATS: &str = "expected JSON, CSV, NPZ or safetensors with `probabilities` and `labels` (regression: `mean`, `variance` and `targets`)";

impl ExternalPredictions {
    /// Reads a file of any of the formats: binary ones are known by their first bytes, texts by name or content. Costs the
    /// file's size in memory, and for NPZ what it holds inflated, which is refused where it exceeds the memory at hand.
    ///
    /// # Errors
    /// A file that cannot be read, is of another format, or whose arrays do not fit together.
    pub fn read(path: &Path) -> Result<Self, ExternalError> {
        Self::read_with(path, None)
    }

    /// The same for rows of `fedsi data export`: a CSV file may have the columns that the export writes beside its own.
    pub(crate) fn read_exported(path: &Path, names: &ExportedNames) -> Result<Self, ExternalError> {
        Self::read_with(path, Some(names))
    }

    fn read_with(path: &Path, names: Option<&ExportedNames>) -> Result<Self, ExternalError> {
        let bytes = fs::read(path)
            .map_err(|error| ExternalError::new(path, format!("cannot be read: {error}; {FORMATS}")))?;
        let extension = path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase());
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
        match extension.as_deref() {
            _ if bytes.starts_with(b"PK") => npz::read(path, bytes),
            _ if bytes.starts_with(b"\x93NUMPY") => Err(ExternalError::new(
                path,
                "is an NPY file of one array; save several with numpy.savez(path, probabilities=..., labels=...)",
            )),
            _ if bytes.starts_with(b"PAR1") => {
                Err(ExternalError::new(path, format!("is a Parquet file; {FORMATS}")))
            }
            _ if tensors::is_tensor_file(&bytes) => tensors::read(path, &bytes),
            Some("npz") => npz::read(path, bytes),
            Some("safetensors") => tensors::read(path, &bytes),
            Some("csv" | "tsv" | "txt") => csv::read(path, text, names),
            Some("json") => json::read(path, text),
            _ if matches!(first, Some(b'{' | b'[')) => json::read(path, text),
            _ if is_table(text) => csv::read(path, text, names),
            _ => Err(ExternalError::new(path, format!("is of no known format; {FORMATS}"))),
        }
    }
}

/// Whether bytes look like a table: text whose first line has a separator.
fn is_table(text: &[u8]) -> bool {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    std::str::from_utf8(line).is_ok_and(|line| line.contains([',', ';', '\t']) && !line.contains('\0'))
}

#[cfg(test)]
mod tests;
