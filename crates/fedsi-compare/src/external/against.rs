//! Another tool's rows against a seed's test rows: as many, in the same order, with the same truth.

use std::path::Path;

use fedsi_data::{Federation, Split, Targets, Task, display_name};
use fedsi_fl::client::Predictions;
use fedsi_fl::scores::Scores;
use fedsi_run::{ClientCoverage, ClientScores, Summary, create_folder, prediction_tensors, write_tensors};
use serde_json::json;

use super::names::is;
use super::{ExternalError, ExternalMethod, ExternalPredictions, ExternalValues};
use crate::CompareError;

/// How far a target may differ, relative to its own size and the standard deviation of all: files may have few digits.
const TARGET_TOLERANCE: f64 = 1e-4;

/// The test rows of one seed: clients in their order, each with its samples in theirs.
pub(crate) struct TestRows {
    task: Task,
    class_names: Option<Vec<String>>,
    client_names: Vec<Option<String>>,
    /// Whose each row is.
    owners: Vec<usize>,
    /// Their numbers in the data, and their ids, where they have any.
    rows: Option<Vec<u32>>,
    ids: Option<Vec<String>>,
    labels: Vec<u32>,
    targets: Vec<f64>,
}

impl TestRows {
    /// Of a federation. Costs building every client's test samples once.
    pub(crate) fn of(federation: &dyn Federation) -> Self {
        let mut rows = Self {
            task: federation.task(),
            class_names: federation.class_names().map(<[String]>::to_vec),
            client_names: (0..federation.clients())
                .map(|client| federation.client_name(client).map(str::to_owned))
                .collect(),
            owners: Vec::new(),
            rows: None,
            ids: None,
            labels: Vec::new(),
            targets: Vec::new(),
        };
        for client in 0..federation.clients() {
            let samples = federation.samples(client, Split::Test);
            rows.owners.extend(std::iter::repeat_n(client, samples.count));
            match samples.targets {
                Targets::Classes(labels) => rows.labels.extend(labels),
                Targets::Values(values) => {
                    let outputs = values.len().checked_div(samples.count).unwrap_or(1).max(1);
                    let restored = values.iter().enumerate().map(|(at, &value)| {
                        let stored = f64::from(value);
                        federation
                            .target_scaling()
                            .map_or(stored, |scaling| scaling.restore(at % outputs, stored))
                    });
                    rows.targets.extend(restored);
                }
            }
        }
        let numbers = (0..federation.clients()).map(|client| federation.row_numbers(client, Split::Test));
        let numbers: Option<Vec<&[u32]>> = numbers.collect();
        rows.rows =
            numbers.map(|numbers| numbers.concat()).filter(|rows_of| rows_of.len() == rows.owners.len());
        rows.ids = rows
            .rows
            .as_ref()
            .and_then(|numbers| numbers.iter().map(|&row| federation.row_id(row)).collect());
        rows
    }

    /// Whether a file says more of its rows than how many there are and whose.
    pub(crate) fn identifies(&self, file: &ExternalPredictions) -> bool {
        let truth = match &file.values {
            ExternalValues::Classes { labels, .. } => labels.is_some(),
            ExternalValues::Values { targets, .. } => targets.is_some(),
        };
        truth || (self.rows.is_some() && file.rows.is_some()) || (self.ids.is_some() && file.ids.is_some())
    }

    /// Whether a file's rows have the numbers and ids of these.
    fn same_places(&self, file: &ExternalPredictions) -> Result<(), String> {
        let number = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
        // A number may be written in another way, as 7.0 for 7.
        let same = |own: &str, found: &str| {
            is(own, found) || (number(own).is_some() && number(own) == number(found))
        };
        let rows = self.rows.as_ref().map(|rows| rows.iter().map(u32::to_string).collect::<Vec<_>>());
        for (name, own, found) in [("row", rows.as_ref(), &file.rows), ("id", self.ids.as_ref(), &file.ids)] {
            let (Some(own), Some(found)) = (own, found) else { continue };
            if let Some(at) = own.iter().zip(found).position(|(own, found)| !same(own, found)) {
                return Err(format!(
                    "row {at} has the `{name}` {}, the test row of this seed {}: rows must be in the order that `fedsi data \
                     export` writes for the seed; leave `{name}` out where it says something else",
                    display_name(&found[at]),
                    display_name(&own[at])
                ));
            }
        }
        Ok(())
    }

    /// A file's predictions as those of these rows.
    ///
    /// # Errors
    /// Another number of rows, another task or other classes, a row whose number, id, label, target or client is another
    /// one: the first that differs is named.
    pub(crate) fn align(&self, file: ExternalPredictions) -> Result<Predictions, ExternalError> {
        let path = file.path.clone();
        let bad = |reason: String| ExternalError::new(&path, reason);
        let (found, expected) = (file.values.rows(), self.owners.len());
        if found != expected {
            return Err(bad(format!(
                "{found} rows, and this seed has {expected} test rows; `fedsi data export` writes them in the order that \
                 is expected"
            )));
        }
        if let Some(clients) = &file.clients {
            let same = |(row, name): &(usize, &String)| {
                let owner = self.owners[*row];
                owner.to_string() == **name
                    || self.client_names[owner].as_deref().is_some_and(|own| is(own, name))
            };
            if let Some((row, name)) = clients.iter().enumerate().find(|found| !same(found)) {
                let owner = self.owners[row];
                let own = self.client_names[owner].clone().unwrap_or_else(|| owner.to_string());
                return Err(bad(format!(
                    "row {row} is of client `{}`, the test row of this seed of client `{}`",
                    display_name(name),
                    display_name(&own)
                )));
            }
        }
        self.same_places(&file).map_err(&bad)?;
        match (file.values, self.task) {
            (
                ExternalValues::Classes { classes, probabilities, labels },
                Task::Classification { classes: expected },
            ) => {
                if classes != expected {
                    return Err(bad(format!("{classes} classes, the data has {expected}")));
                }
                let order = self.order(file.class_names.as_deref()).map_err(&bad)?;
                if let Some(labels) = labels {
                    self.same_labels(&labels, &order).map_err(&bad)?;
                }
                fedsi_metrics::Predictions::new(&probabilities, &self.labels, classes)
                    .map_err(|error| bad(error.to_string()))?;
                let rows = probabilities.chunks_exact(classes);
                let probabilities = rows.flat_map(|row| order.iter().map(|&from| row[from] as f32)).collect();
                Ok(Predictions::Classes { classes, probabilities, labels: self.labels.clone() })
            }
            (
                ExternalValues::Values { outputs, mean, variance, targets },
                Task::Regression { outputs: expected },
            ) => {
                if outputs != expected {
                    return Err(bad(format!("{outputs} values a row, the data has {expected}")));
                }
                if let Some(targets) = targets {
                    self.same_targets(&targets, outputs).map_err(&bad)?;
                }
                fedsi_metrics::regression::GaussianPredictions::new(&mean, &variance, &self.targets, outputs)
                    .map_err(|error| bad(error.to_string()))?;
                Ok(Predictions::Values { outputs, mean, variance, targets: self.targets.clone() })
            }
            (ExternalValues::Classes { .. }, Task::Regression { .. }) => {
                Err(bad("class probabilities, and the data's task is regression".to_owned()))
            }
            (ExternalValues::Values { .. }, Task::Classification { .. }) => {
                Err(bad("means and variances, and the data's task is classification".to_owned()))
            }
        }
    }

    /// For each class of the data, its place in the file: by name where the file's columns are those names, else as they
    /// stand, where they are numbers.
    fn order(&self, names: Option<&[String]>) -> Result<Vec<usize>, String> {
        let Task::Classification { classes } = self.task else { return Ok(Vec::new()) };
        let as_they_stand: Vec<usize> = (0..classes).collect();
        let Some(names) = names else { return Ok(as_they_stand) };
        let own =
            self.class_names.clone().unwrap_or_else(|| (0..classes).map(|class| class.to_string()).collect());
        let by_name: Option<Vec<usize>> =
            own.iter().map(|class| names.iter().position(|name| name == class)).collect();
        if let Some(order) = by_name {
            return Ok(order);
        }
        let numbered = names.iter().enumerate().all(|(place, name)| {
            let digits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
            digits.parse() == Ok(place)
        });
        if numbered {
            return Ok(as_they_stand);
        }
        let listed = |names: &[String]| {
            names.iter().take(12).map(|name| display_name(name)).collect::<Vec<_>>().join(", ")
        };
        Err(format!("the columns of classes are {}, the data's classes {}", listed(names), listed(&own)))
    }

    fn same_labels(&self, labels: &[u32], order: &[usize]) -> Result<(), String> {
        let place = |class: u32| order.get(class as usize).copied();
        let differs = |found: &(usize, &u32)| place(self.labels[found.0]) != Some(*found.1 as usize);
        let Some((row, &label)) = labels.iter().enumerate().find(differs) else { return Ok(()) };
        let name = |class: u32| {
            let names = self.class_names.as_ref();
            names
                .and_then(|names| names.get(class as usize))
                .map_or_else(|| class.to_string(), |name| display_name(name))
        };
        let own = order.iter().position(|&at| at == label as usize).map_or(label, |class| class as u32);
        Err(format!(
            "row {row} has the label {}, the test row of this seed {}: rows must be in the order that `fedsi data export` \
             writes for the seed",
            name(own),
            name(self.labels[row])
        ))
    }

    fn same_targets(&self, targets: &[f64], outputs: usize) -> Result<(), String> {
        let deviations: Vec<f64> = (0..outputs).map(|output| self.deviation(output, outputs)).collect();
        let differs = |&(at, target): &(usize, &f64)| {
            let own = self.targets[at];
            let gap = (target - own).abs();
            gap.is_nan() || gap > TARGET_TOLERANCE * (own.abs() + deviations[at % outputs])
        };
        match targets.iter().enumerate().find(differs) {
            None => Ok(()),
            Some((at, target)) => Err(format!(
                "row {} has the target {target}, the test row of this seed {}: rows must be in the order that `fedsi data \
                 export` writes for the seed",
                at / outputs,
                self.targets[at]
            )),
        }
    }

    /// The standard deviation of one of the targets.
    fn deviation(&self, output: usize, outputs: usize) -> f64 {
        let values = || self.targets.iter().skip(output).step_by(outputs);
        let count = values().count().max(1) as f64;
        let mean = values().map(|value| value / count).sum::<f64>();
        values().map(|value| (value - mean).powi(2) / count).sum::<f64>().sqrt()
    }

    /// What a run with these predictions would say of itself.
    pub(crate) fn summary(
        &self,
        method: &ExternalMethod,
        seed: u64,
        predictions: &Predictions,
    ) -> Result<Summary, CompareError> {
        let clients: Vec<ClientScores> = self
            .client_names
            .iter()
            .enumerate()
            .map(|(id, name)| {
                let start = self.owners.partition_point(|&owner| owner < id);
                let end = self.owners.partition_point(|&owner| owner <= id);
                let scores = part(predictions, start..end).scores();
                ClientScores {
                    id,
                    name: name.clone(),
                    samples: end - start,
                    problem: None,
                    novel: false,
                    scores,
                }
            })
            .collect();
        let own: Vec<Scores> =
            clients.iter().filter(|client| client.samples > 0).map(|client| client.scores).collect();
        let scores = predictions.scores().with_mean_accuracy(&own);
        let none = json!({
            "method": method.name, "dataset": "", "size": "", "seed": seed, "rounds": 0, "accuracy": null, "clients": [],
            "seconds": { "train": 0.0, "posterior": 0.0, "evaluate": 0.0, "total": 0.0 }, "bytes": { "up": 0, "down": 0 },
            "peak_rss_bytes": null, "version": env!("CARGO_PKG_VERSION"),
        });
        let none: Summary = serde_json::from_value(none)
            .map_err(|error| CompareError::content(Path::new(&method.file), &error))?;
        Ok(Summary { scores, coverage: Some(ClientCoverage::of(&clients)), clients, ..none })
    }

    /// Keeps predictions in a folder, as a run would: the page is made from there.
    pub(crate) fn write(&self, folder: &Path, predictions: Predictions) -> Result<(), CompareError> {
        create_folder(folder, fedsi_run::Readers::Umask)?;
        let tensors = prediction_tensors(predictions, self.owners.clone());
        Ok(write_tensors(&folder.join("predictions.safetensors"), &tensors, None)?)
    }
}

/// Some rows of predictions.
fn part(predictions: &Predictions, rows: std::ops::Range<usize>) -> Predictions {
    match predictions {
        Predictions::Classes { classes, probabilities, labels } => Predictions::Classes {
            classes: *classes,
            probabilities: probabilities[rows.start * classes..rows.end * classes].to_vec(),
            labels: labels[rows].to_vec(),
        },
        Predictions::Values { outputs, mean, variance, targets } => {
            let rows = rows.start * outputs..rows.end * outputs;
            let of = |values: &[f64]| values[rows.clone()].to_vec();
            Predictions::Values {
                outputs: *outputs,
                mean: of(mean),
                variance: of(variance),
                targets: of(targets),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small targets beside a huge one are still told apart; few digits are enough.
    #[test]
    fn targets_are_compared_by_their_own_size_and_spread() {
        let rows = |targets: &[f64]| TestRows {
            task: Task::Regression { outputs: 1 },
            class_names: None,
            client_names: vec![None],
            owners: vec![0; targets.len()],
            rows: None,
            ids: None,
            labels: Vec::new(),
            targets: targets.to_vec(),
        };
        let own = rows(&[1.0, 2.0, 3.0, 4.0]);
        // The standard deviation is the square root of 1.25, the tolerance of 4 therefore 5.1e-4.
        assert!(own.same_targets(&[1.0001, 2.0, 3.0, 4.0005], 1).is_ok());
        assert!(own.same_targets(&[1.0, 2.0, 3.0, 4.0006], 1).unwrap_err().contains("row 3"));
        assert!(own.same_targets(&[1.0, 2.0, f64::NAN, 4.0], 1).unwrap_err().contains("row 2"));
        // Columns of their own: beside targets in millions those in ones keep their tolerance.
        let two = rows(&[1.0, 1e6, 2.0, 3e6]);
        assert!((two.deviation(0, 2) - 0.5).abs() < 1e-12 && (two.deviation(1, 2) - 1e6).abs() < 1e-6);
        assert!(two.same_targets(&[2.0, 1e6, 1.0, 3e6], 2).unwrap_err().contains("row 0"));
        assert!(two.same_targets(&[1.0, 1e6 + 150.0, 2.0, 3e6], 2).is_ok());
        // Constant zeros must be zeros.
        assert!(rows(&[0.0, 0.0]).same_targets(&[0.0, 1e-9], 1).is_err());
    }
}
