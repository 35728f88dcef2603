//! Predictions with their scores: of all rows, and of every client where clients are known.

use fedsi_compare::external::ExternalError;
use fedsi_compare::{ExternalPredictions, ExternalValues};
use fedsi_fl::scores::Scores;
use fedsi_metrics::regression::GaussianPredictions;
use fedsi_metrics::{Bins, Predictions, ReliabilityBin};
use fedsi_report::{CalibratedClient, CalibratedRows};
use fedsi_run::MAX_CLASSES;
use serde_json::{Map, Value, json};

use crate::output::BadInput;

/// What a file's predictions come to.
pub(crate) struct Scored<'a> {
    pub(super) rows: CalibratedRows<'a>,
    pub(super) samples: usize,
    pub(super) scores: Scores,
    /// In the order in which the file names them.
    pub(super) clients: Vec<CalibratedClient>,
    pub(super) bins: Bins,
}

impl<'a> Scored<'a> {
    /// Scores a file's predictions. Costs a pass over the rows, and a copy of them where there are clients.
    pub(crate) fn of(file: &'a ExternalPredictions, bins: Bins) -> Result<Self, BadInput> {
        let bad = |reason: String| BadInput(ExternalError { path: file.path.clone(), reason }.to_string());
        let words = |error: fedsi_metrics::MetricsError| bad(error.to_string());
        let missing = |what: &str| bad(format!("there are no {what} in it, so that nothing can be scored"));
        let samples = file.values.rows();
        let (rows, scores) = match &file.values {
            ExternalValues::Classes { classes, probabilities, labels } => {
                let labels = labels.as_ref().ok_or_else(|| missing("`labels` (CSV: `label`)"))?;
                let rows = Predictions::new(probabilities, labels, *classes).map_err(words)?;
                let scores = Scores::classification(rows.scores(bins));
                let names = file.class_names.as_deref().unwrap_or_default();
                (CalibratedRows::Classes { rows, names }, scores)
            }
            ExternalValues::Values { outputs, mean, variance, targets } => {
                let targets = targets.as_ref().ok_or_else(|| missing("`targets` (CSV: `target`)"))?;
                let rows = GaussianPredictions::new(mean, variance, targets, *outputs).map_err(words)?;
                let scores = Scores::regression(rows.scores());
                (CalibratedRows::Values { rows, mean, variance, targets }, scores)
            }
        };
        if samples == 0 {
            return Err(bad("there are no predictions in it".to_owned()));
        }
        let clients = match &file.clients {
            None => Vec::new(),
            Some(owners) => clients(&file.values, owners, bins).map_err(words)?,
        };
        Ok(Self { rows, samples, scores, clients, bins })
    }

    /// One object, in the names of `summary.json`.
    pub(crate) fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("samples".to_owned(), json!(self.samples));
        extend(&mut object, &self.scores);
        if let CalibratedRows::Classes { rows, names } = &self.rows {
            object.insert("bins".to_owned(), json!(self.bins.count()));
            let table: Vec<Value> = self.reliability().iter().map(bin).collect();
            object.insert("table".to_owned(), Value::Array(table));
            if rows.classes() <= MAX_CLASSES {
                object.insert("classes".to_owned(), classes(rows, names));
            }
        }
        if !self.clients.is_empty() {
            let clients = self.clients.iter().enumerate().map(|(place, client)| {
                let mut object = Map::new();
                // A number is a client's own; another name stands beside its place.
                match client.name.parse::<u64>() {
                    Ok(id) => object.insert("id".to_owned(), json!(id)),
                    Err(_) => {
                        object.insert("id".to_owned(), json!(place));
                        object.insert("name".to_owned(), json!(client.name))
                    }
                };
                object.insert("samples".to_owned(), json!(client.samples));
                extend(&mut object, &client.scores);
                Value::Object(object)
            });
            object.insert("clients".to_owned(), clients.collect());
            let over_clients = self.clients.iter().filter_map(|client| client.scores.accuracy());
            if let Some(mean) = fedsi_metrics::Summary::of(over_clients) {
                object.insert("accuracy_client_mean".to_owned(), json!(mean.mean));
            }
        }
        Value::Object(object)
    }

    /// The bins that hold predictions.
    pub(super) fn reliability(&self) -> Vec<ReliabilityBin> {
        match &self.rows {
            CalibratedRows::Classes { rows, .. } => {
                rows.reliability(self.bins).bins().filter(|bin| !bin.is_empty()).collect()
            }
            CalibratedRows::Values { .. } => Vec::new(),
        }
    }
}

fn extend(object: &mut Map<String, Value>, scores: &Scores) {
    if let Ok(Value::Object(scores)) = serde_json::to_value(scores) {
        object.extend(scores);
    }
}

fn bin(bin: &ReliabilityBin) -> Value {
    json!({
        "lo": bin.lo, "hi": bin.hi, "count": bin.count,
        "confidence": bin.confidence, "accuracy": bin.accuracy,
    })
}

fn classes(rows: &Predictions<'_, f64>, names: &[String]) -> Value {
    let of = |(class, counts): (usize, fedsi_metrics::ClassCounts)| {
        let name = names.get(class).cloned().unwrap_or_else(|| class.to_string());
        json!({
            "name": name, "samples": counts.samples, "precision": counts.precision(), "recall": counts.recall(),
        })
    };
    rows.class_counts().into_iter().enumerate().map(of).collect()
}

/// Every client's scores, in the order of their first rows.
fn clients(
    values: &ExternalValues,
    owners: &[String],
    bins: Bins,
) -> Result<Vec<CalibratedClient>, fedsi_metrics::MetricsError> {
    let mut places = std::collections::HashMap::new();
    let mut rows: Vec<(&String, Vec<usize>)> = Vec::new();
    for (row, owner) in owners.iter().enumerate() {
        let place = *places.entry(owner).or_insert_with(|| {
            rows.push((owner, Vec::new()));
            rows.len() - 1
        });
        rows[place].1.push(row);
    }
    let of = |(name, rows): (&String, Vec<usize>)| {
        let pick = |values: &[f64], width: usize| -> Vec<f64> {
            rows.iter().flat_map(|&row| values[row * width..(row + 1) * width].iter().copied()).collect()
        };
        let scores = match values {
            ExternalValues::Classes { classes, probabilities, labels } => {
                let labels = labels.as_deref().unwrap_or_default();
                let labels: Vec<u32> = rows.iter().map(|&row| labels[row]).collect();
                let own = pick(probabilities, *classes);
                Scores::classification(Predictions::new(&own, &labels, *classes)?.scores(bins))
            }
            ExternalValues::Values { outputs, mean, variance, targets } => {
                let all = [mean.as_slice(), variance, targets.as_deref().unwrap_or_default()];
                let [mean, variance, targets] = all.map(|values| pick(values, *outputs));
                Scores::regression(GaussianPredictions::new(&mean, &variance, &targets, *outputs)?.scores())
            }
        };
        Ok(CalibratedClient { name: name.clone(), samples: rows.len(), scores })
    };
    rows.into_iter().map(of).collect()
}
