//! `fedsi calibrate`.

use std::path::Path;

use fedsi_metrics::{Bins, Predictions};
use serde::Deserialize;
use serde_json::json;

use crate::args::CalibrateArguments;
use crate::output::{BadInput, print_json};

/// The file: other keys are ignored.
#[derive(Debug, Deserialize)]
struct Predicted {
    probabilities: Vec<Vec<f64>>,
    labels: Vec<i64>,
}

pub(crate) fn calibrate(arguments: &CalibrateArguments) -> anyhow::Result<()> {
    let path = &arguments.file;
    let bins = Bins::new(arguments.bins)?;
    let (probabilities, labels, classes) = read(path)?;
    let bad = |error: fedsi_metrics::MetricsError| BadInput(format!("{}: {error}", path.display()));
    let predictions = Predictions::new(&probabilities, &labels, classes).map_err(bad)?;
    let scores = predictions
        .scores(bins)
        .ok_or_else(|| BadInput(format!("{}: there are no predictions in it", path.display())))?;
    let table: Vec<serde_json::Value> = predictions
        .reliability(bins)
        .bins()
        .filter(|bin| !bin.is_empty())
        .map(|bin| {
            json!({
                "lo": bin.lo, "hi": bin.hi, "count": bin.count,
                "confidence": bin.confidence, "accuracy": bin.accuracy,
            })
        })
        .collect();
    print_json(&json!({
        "samples": scores.samples,
        "accuracy": scores.accuracy,
        "ece": scores.ece,
        "mce": scores.mce,
        "mce_1pct": scores.mce_1pct,
        "brier": scores.brier,
        "nll": scores.nll,
        "aurc": scores.aurc,
        "ece_floor": scores.ece_floor,
        "ece_floor_std": scores.ece_floor_std,
        "balanced_accuracy": scores.balanced_accuracy,
        "bins": arguments.bins,
        "table": table,
    }))
}

/// Probabilities row after row, labels, and the number of classes.
fn read(path: &Path) -> Result<(Vec<f64>, Vec<u32>, usize), BadInput> {
    let bad = |reason: String| BadInput(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| bad(format!("cannot be read: {error}")))?;
    let predicted: Predicted = serde_json::from_str(&text)
        .map_err(|error| bad(format!("expected JSON with `probabilities` and `labels`: {error}")))?;
    let classes = predicted.probabilities.first().map_or(0, Vec::len);
    if classes == 0 {
        return Err(bad(
            "`probabilities` is empty; expected a list of rows, a number for each class".to_owned()
        ));
    }
    if let Some(row) = predicted.probabilities.iter().position(|row| row.len() != classes) {
        let found = predicted.probabilities[row].len();
        return Err(bad(format!("row {row} of `probabilities` has {found} numbers, row 0 has {classes}")));
    }
    let (rows, labels) = (predicted.probabilities.len(), predicted.labels.len());
    if rows != labels {
        return Err(bad(format!(
            "{rows} rows of `probabilities` and {labels} `labels`; expected one label a row"
        )));
    }
    let label = |(row, &label): (usize, &i64)| {
        u32::try_from(label).map_err(|_| bad(format!("label {label} of row {row} is not in 0..{classes}")))
    };
    let labels = predicted.labels.iter().enumerate().map(label).collect::<Result<_, _>>()?;
    Ok((predicted.probabilities.concat(), labels, classes))
}
