//! JSON: an object with `probabilities` and `labels`, or `mean`, `variance` and `targets`. Other keys are ignored.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::arrays::class_label;
use super::{ExternalError, ExternalPredictions, ExternalValues};

/// What is read of the file.
#[derive(Deserialize)]
struct File {
    probabilities: Option<Vec<Vec<f64>>>,
    labels: Option<Vec<f64>>,
    mean: Option<Vec<Row>>,
    variance: Option<Vec<Row>>,
    targets: Option<Vec<Row>>,
    client: Option<Value>,
    clients: Option<Value>,
    row: Option<Value>,
    id: Option<Value>,
}

/// One value, or one for each output.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, or a list of numbers")]
enum Row {
    One(f64),
    Several(Vec<f64>),
}

impl Row {
    fn values(&self) -> &[f64] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

pub(super) fn read(path: &Path, text: &[u8]) -> Result<ExternalPredictions, ExternalError> {
    let bad = |reason: String| ExternalError::new(path, reason);
    let file: File = serde_json::from_slice(text)
        .map_err(|error| bad(format!("expected JSON with `probabilities` and `labels`: {error}")))?;
    let (values, rows) = match (&file.probabilities, &file.mean) {
        (Some(rows), _) => (classes(path, rows, file.labels.as_deref())?, rows.len()),
        (None, Some(mean)) => {
            (regression(path, mean, file.variance.as_deref(), file.targets.as_deref())?, mean.len())
        }
        (None, None) => {
            return Err(bad(
                "has no `probabilities` (a list of rows) and no `mean`; expected JSON with `probabilities` and `labels`"
                    .to_owned(),
            ));
        }
    };
    let clients = [file.client, file.clients].into_iter().flatten().find_map(|value| names(&value));
    let [row_numbers, ids] = [file.row, file.id].map(|value| value.as_ref().and_then(names));
    for (name, list) in [("client", &clients), ("row", &row_numbers), ("id", &ids)] {
        if let Some(found) = list.as_ref().map(Vec::len).filter(|&found| found != rows) {
            return Err(bad(format!("`{name}` has {found} values for {rows} rows")));
        }
    }
    Ok(ExternalPredictions {
        path: path.to_owned(),
        values,
        clients,
        rows: row_numbers,
        ids,
        class_names: None,
    })
}

/// A list of numbers and texts as names; anything else under that key is somebody's own.
fn names(value: &Value) -> Option<Vec<String>> {
    let name = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    value.as_array()?.iter().map(name).collect()
}

fn classes(path: &Path, rows: &[Vec<f64>], labels: Option<&[f64]>) -> Result<ExternalValues, ExternalError> {
    let bad = |reason: String| ExternalError::new(path, reason);
    let classes = rows.first().map_or(0, Vec::len);
    if classes == 0 {
        return Err(bad(
            "`probabilities` is empty; expected a list of rows, a number for each class".to_owned()
        ));
    }
    if let Some(row) = rows.iter().position(|row| row.len() != classes) {
        let found = rows[row].len();
        return Err(bad(format!("row {row} of `probabilities` has {found} numbers, row 0 has {classes}")));
    }
    let labels = labels.map(|labels| {
        if rows.len() != labels.len() {
            return Err(bad(format!(
                "{} rows of `probabilities` and {} `labels`; expected one label a row",
                rows.len(),
                labels.len()
            )));
        }
        let label = |(row, &label): (usize, &f64)| class_label(path, row, label, classes);
        labels.iter().enumerate().map(label).collect()
    });
    Ok(ExternalValues::Classes { classes, probabilities: rows.concat(), labels: labels.transpose()? })
}

fn regression(
    path: &Path,
    mean: &[Row],
    variance: Option<&[Row]>,
    targets: Option<&[Row]>,
) -> Result<ExternalValues, ExternalError> {
    let bad = |reason: String| ExternalError::new(path, reason);
    let outputs = mean.first().map_or(0, |row| row.values().len());
    if outputs == 0 {
        return Err(bad("`mean` is empty; expected a value a row".to_owned()));
    }
    let flat = |name: &str, rows: &[Row]| {
        if let Some(row) = rows.iter().position(|row| row.values().len() != outputs) {
            return Err(bad(format!(
                "row {row} of `{name}` has not {outputs} values, as row 0 of `mean` has"
            )));
        }
        if rows.len() != mean.len() {
            return Err(bad(format!("`{name}` has {} rows, `mean` {}", rows.len(), mean.len())));
        }
        Ok(rows.iter().flat_map(Row::values).copied().collect::<Vec<f64>>())
    };
    let variance = variance.ok_or_else(|| bad("has `mean` and no `variance` beside it".to_owned()))?;
    Ok(ExternalValues::Values {
        outputs,
        mean: flat("mean", mean)?,
        variance: flat("variance", variance)?,
        targets: targets.map(|targets| flat("targets", targets)).transpose()?,
    })
}
