//! Predictions from named arrays, as NPZ and safetensors files hold them.

use std::collections::BTreeMap;
use std::path::Path;

use super::{ExternalError, ExternalPredictions, ExternalValues};

/// The arrays that mean something; others are not read.
pub(super) const WANTED: [&str; 8] =
    ["probabilities", "labels", "client", "clients", "row", "mean", "variance", "targets"];

/// An array's shape and numbers, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) values: Vec<f64>,
}

/// Arrays by name.
pub(super) type Arrays = BTreeMap<String, Array>;

/// The predictions among arrays; `held` names all that the file holds, for messages.
pub(super) fn predictions(
    path: &Path,
    mut arrays: Arrays,
    held: &[String],
) -> Result<ExternalPredictions, ExternalError> {
    let bad = |reason: String| ExternalError::new(path, reason);
    let (values, rows) = if let Some(probabilities) = arrays.remove("probabilities") {
        let [rows, classes] = *probabilities.shape.as_slice() else {
            let shape = &probabilities.shape;
            return Err(bad(format!("`probabilities` has the shape {shape:?}, expected [rows, classes]")));
        };
        if rows == 0 || classes == 0 {
            return Err(bad(
                "`probabilities` is empty; expected a row a sample, a number for each class".to_owned()
            ));
        }
        let labels = arrays.remove("labels").map(|labels| class_labels(path, &labels, rows, classes));
        let labels = labels.transpose()?;
        (ExternalValues::Classes { classes, probabilities: probabilities.values, labels }, rows)
    } else if let Some(mean) = arrays.remove("mean") {
        let (rows, outputs) = match *mean.shape.as_slice() {
            [rows] => (rows, 1),
            [rows, outputs] => (rows, outputs),
            _ => {
                return Err(bad(format!(
                    "`mean` has the shape {:?}, expected [rows] or [rows, outputs]",
                    mean.shape
                )));
            }
        };
        if rows == 0 || outputs == 0 {
            return Err(bad("`mean` is empty; expected a row a sample".to_owned()));
        }
        let mut same = |name: &str| match arrays.remove(name) {
            Some(found) if found.values.len() == mean.values.len() => Ok(Some(found.values)),
            Some(found) => {
                Err(bad(format!("`{name}` has the shape {:?}, `mean` {:?}", found.shape, mean.shape)))
            }
            None => Ok(None),
        };
        let variance =
            same("variance")?.ok_or_else(|| bad("has `mean` and no `variance` beside it".to_owned()))?;
        let targets = same("targets")?;
        (ExternalValues::Values { outputs, mean: mean.values, variance, targets }, rows)
    } else {
        return Err(bad(format!(
            "has no `probabilities` (classes) and no `mean` (regression); it holds {}",
            if held.is_empty() { "nothing".to_owned() } else { held.join(", ") }
        )));
    };
    let clients = arrays.remove("client").or_else(|| arrays.remove("clients"));
    let texts = |name: &str, found: Option<Array>| match found {
        Some(found) if found.values.len() != rows => {
            Err(bad(format!("`{name}` has {} values for {rows} rows", found.values.len())))
        }
        found => Ok(found.map(|found| found.values.iter().map(f64::to_string).collect())),
    };
    let (clients, row_numbers) = (texts("client", clients)?, texts("row", arrays.remove("row"))?);
    Ok(ExternalPredictions {
        path: path.to_owned(),
        values,
        clients,
        rows: row_numbers,
        ids: None,
        class_names: None,
    })
}

/// Labels as classes, one a row.
fn class_labels(path: &Path, labels: &Array, rows: usize, classes: usize) -> Result<Vec<u32>, ExternalError> {
    if labels.values.len() != rows {
        let reason = format!(
            "{rows} rows of `probabilities` and {} `labels`; expected one label a row",
            labels.values.len()
        );
        return Err(ExternalError::new(path, reason));
    }
    labels.values.iter().enumerate().map(|(row, &label)| class_label(path, row, label, classes)).collect()
}

/// A number that is a class.
pub(super) fn class_label(path: &Path, row: usize, label: f64, classes: usize) -> Result<u32, ExternalError> {
    if label.fract() == 0.0 && label >= 0.0 && label < classes as f64 {
        return Ok(label as u32);
    }
    let last = classes.saturating_sub(1);
    Err(ExternalError::new(path, format!("row {row}: label {label} is out of range, expected 0 to {last}")))
}
