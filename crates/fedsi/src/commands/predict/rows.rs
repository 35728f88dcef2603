//! Predictions as rows of a CSV or JSON file: what was given first, then what is said of it.

use std::collections::HashSet;
use std::path::Path;

use fedsi_data::{InputRows, Task, csv_text};
use fedsi_metrics::entropy;
use fedsi_run::saved::{AbstentionGoal, SavedModel, SavedRun, most_probable};
use fedsi_run::{class_columns, six_digits, target_suffixes};
use serde_json::{Map, Value, json};

use super::answer::{Answer, Found, Prediction};
use super::client::ChosenClient;

/// Columns of classifications that are not named after classes.
const CLASS_COLUMNS: [&str; 7] =
    ["class", "probability", "entropy", "strangeness", "abstain", "reason", "set"];

/// Everything that is written.
pub(super) struct Sheet<'a> {
    pub(super) run: &'a SavedRun,
    /// The client that all rows went to, where `--client` named it.
    pub(super) client: Option<&'a ChosenClient>,
    pub(super) fit: Option<&'a Path>,
    /// Any of the models: what they predict is the same.
    pub(super) model: &'a SavedModel,
    pub(super) inputs: &'a InputRows,
    pub(super) answers: &'a [Answer],
    pub(super) found: &'a [Found],
    pub(super) goal: Option<AbstentionGoal>,
}

impl Sheet<'_> {
    fn class_name(&self, class: usize) -> String {
        match self.model.class_names() {
            Some(names) => names[class].clone(),
            None => class.to_string(),
        }
    }

    /// The classes' names, where rows are classified.
    fn classes(&self) -> Option<Vec<String>> {
        match self.model.task() {
            Task::Classification { classes } => {
                Some((0..classes).map(|class| self.class_name(class)).collect())
            }
            Task::Regression { .. } => None,
        }
    }

    /// The columns that were given, under their names; one that has the name of a column of ours has ` (input)` behind it.
    fn given(&self, own: &[String]) -> Vec<String> {
        let Some(table) = &self.inputs.table else { return vec!["row".to_owned()] };
        let mut taken: HashSet<String> = own.iter().chain(&table.header).cloned().collect();
        let mut free = |name: &String| {
            let mut free = name.clone();
            while own.contains(&free) || (free != *name && taken.contains(&free)) {
                free.push_str(" (input)");
            }
            taken.insert(free.clone());
            free
        };
        table.header.iter().map(&mut free).collect()
    }

    /// The cells that were given.
    fn given_cells(&self, at: usize) -> Vec<String> {
        match (&self.inputs.table, &self.inputs.names) {
            (Some(table), _) => table.cells[at].iter().map(|cell| csv_text(cell).into_owned()).collect(),
            (None, Some(names)) => vec![csv_text(&names[at]).into_owned()],
            (None, None) => vec![at.to_string()],
        }
    }

    /// The header: what was given, and what is said of it. Says once where names had to be changed.
    fn header(&self) -> Vec<String> {
        let fixed = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let Some(classes) = self.classes() else {
            let mut own = Vec::new();
            for suffix in target_suffixes(self.run.config(), self.outputs()) {
                own.extend(["mean", "deviation", "low", "high"].map(|name| format!("{name}{suffix}")));
            }
            own.extend(fixed(&["strangeness", "abstain", "reason"]));
            return self.beside(self.given(&own), own);
        };
        let given = self.given(&fixed(&CLASS_COLUMNS));
        let taken: Vec<&str> = given.iter().map(String::as_str).chain(CLASS_COLUMNS).collect();
        let columns = class_columns(&classes, &taken);
        let renamed: Vec<&str> = columns
            .iter()
            .zip(&classes)
            .filter(|(column, class)| column != class)
            .map(|(column, _)| column.as_str())
            .collect();
        if !renamed.is_empty() {
            tracing::warn!(
                "classes with the names of other columns: their probabilities are in {}",
                quoted(&renamed)
            );
        }
        let mut own = fixed(&CLASS_COLUMNS[..2]);
        own.extend(columns);
        own.extend(fixed(&CLASS_COLUMNS[2..6]));
        own.extend(self.has_sets().then(|| "set".to_owned()));
        self.beside(given, own)
    }

    fn beside(&self, given: Vec<String>, own: Vec<String>) -> Vec<String> {
        if let Some(table) = &self.inputs.table {
            let changed: Vec<&str> =
                given.iter().zip(&table.header).filter(|(a, b)| a != b).map(|(a, _)| a.as_str()).collect();
            if !changed.is_empty() {
                tracing::warn!(
                    "columns of the input with the names of predicted ones are called {}",
                    quoted(&changed)
                );
            }
        }
        given.into_iter().chain(own).collect()
    }

    fn outputs(&self) -> usize {
        match self.model.task() {
            Task::Regression { outputs } => outputs,
            Task::Classification { classes } => classes,
        }
    }

    fn has_sets(&self) -> bool {
        self.answers.iter().any(|answer| matches!(answer.prediction, Prediction::Class { set: Some(_), .. }))
    }

    /// The names of a set's classes.
    fn set(&self, set: &[usize]) -> Vec<String> {
        set.iter().map(|&class| self.class_name(class)).collect()
    }

    /// CSV: a header, then a row a sample, numbers of six digits.
    pub(super) fn csv(&self) -> anyhow::Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Names come from data and files; all else is a number or a word of ours.
        writer.write_record(self.header().iter().map(|name| csv_text(name).into_owned()))?;
        for (at, answer) in self.answers.iter().enumerate() {
            let mut cells = self.given_cells(at);
            let mut set_cell = None;
            match &answer.prediction {
                Prediction::Class { probabilities, set, .. } => {
                    let (class, probability) = most_probable(probabilities);
                    cells.push(csv_text(&self.class_name(class)).into_owned());
                    cells.push(six_digits(f64::from(probability)));
                    cells.extend(probabilities.iter().map(|&one| six_digits(f64::from(one))));
                    cells.push(six_digits(entropy(probabilities)));
                    set_cell = set.as_ref().map(|set| csv_text(&self.set(set).join("|")).into_owned());
                }
                Prediction::Values { mean, variance, low, high } => {
                    for target in 0..mean.len() {
                        let numbers = [mean[target], variance[target].sqrt(), low[target], high[target]];
                        cells.extend(numbers.map(six_digits));
                    }
                }
                Prediction::Nothing => {
                    let empty = match self.classes() {
                        Some(classes) => classes.len() + 3,
                        None => 4 * self.outputs(),
                    };
                    cells.extend(std::iter::repeat_n(String::new(), empty));
                    set_cell = self.has_sets().then(String::new);
                }
            }
            cells.push(answer.strangeness.map(six_digits).unwrap_or_default());
            cells.extend([answer.abstain.to_string(), csv_text(&answer.reason).into_owned()]);
            cells.extend(set_cell);
            writer.write_record(cells)?;
        }
        let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
        Ok(String::from_utf8(bytes)?)
    }

    /// JSON: what was used, then `rows`, a line each, numbers as they are.
    pub(super) fn json(&self) -> anyhow::Result<String> {
        let config = self.run.config();
        let mut head = json!({
            "run": self.run.path().display().to_string(),
            "method": config.method,
            "dataset": fedsi_run::dataset_name(config),
            "client": self.client.map(|client| client.id),
            "client_name": self.client.and_then(|client| client.name.as_deref()),
            "client_by": self.client.map(|client| client.by.as_str()),
            "client_with_that_id": self.client.and_then(|client| client.with_that_id),
            "fit": self.fit.map(|path| path.display().to_string()),
            "class_names": self.model.class_names(),
        });
        // Of one model at the top, of several in a list with the client of each.
        match self.found {
            [one] => {
                head["threshold"] = self.threshold(one).into();
                head["conformal"] = calibration(one).into();
            }
            several => {
                let of = |found: &Found| {
                    let (threshold, conformal) = (self.threshold(found), calibration(found));
                    json!({ "client": found.client, "rows": found.rows, "threshold": threshold, "conformal": conformal })
                };
                head["models"] = several.iter().map(of).collect();
            }
        }
        if let Value::Object(head) = &mut head {
            head.retain(|key, value| key == "client" || !value.is_null());
        }
        let head = serde_json::to_string_pretty(&head)?;
        let rows: Result<Vec<String>, _> =
            (0..self.answers.len()).map(|at| serde_json::to_string(&self.row(at))).collect();
        let head = head.strip_suffix("\n}").unwrap_or(&head);
        Ok(format!("{head},\n  \"rows\": [\n    {}\n  ]\n}}\n", rows?.join(",\n    ")))
    }

    fn row(&self, at: usize) -> Value {
        let answer = &self.answers[at];
        let mut row = Map::new();
        let mut put = |key: &str, value: Value| drop(row.insert(key.to_owned(), value));
        put("row", self.inputs.names.as_ref().map_or_else(|| at.into(), |names| names[at].clone().into()));
        if let Some(table) = &self.inputs.table {
            let cells =
                table.header.iter().cloned().zip(table.cells[at].iter().map(|cell| cell.clone().into()));
            put("input", Value::Object(cells.collect()));
        }
        if self.client.is_none() {
            put("client", answer.client.into());
        }
        match &answer.prediction {
            Prediction::Class { probabilities, variance, set } => {
                let (class, probability) = most_probable(probabilities);
                put("class", class.into());
                if self.model.class_names().is_some() {
                    put("name", self.class_name(class).into());
                }
                put("probability", single(probability));
                put("entropy", entropy(probabilities).into());
                put("variance", (*variance).into());
                put("probabilities", probabilities.iter().map(|&one| single(one)).collect());
                if let Some(set) = set {
                    put("set", self.set(set).into());
                }
            }
            Prediction::Values { mean, variance, low, high } => {
                let deviation: Vec<f64> = variance.iter().map(|variance| variance.sqrt()).collect();
                put("mean", mean.as_slice().into());
                put("deviation", deviation.into());
                put("variance", variance.as_slice().into());
                put("low", low.as_slice().into());
                put("high", high.as_slice().into());
            }
            Prediction::Nothing => {}
        }
        put("strangeness", answer.strangeness.into());
        put("abstain", answer.abstain.into());
        put("reason", answer.reason.as_str().into());
        Value::Object(row)
    }

    fn threshold(&self, found: &Found) -> Option<Value> {
        let (goal, threshold) = self.goal.zip(found.threshold)?;
        let (wanted, share) = match goal {
            AbstentionGoal::Coverage(share) => ("coverage", share),
            AbstentionGoal::Risk(share) => ("risk", share),
        };
        let (kind, value) = match self.classes() {
            Some(_) => ("probability", threshold.uncertainty.map(|uncertainty| 1.0 - uncertainty)),
            None => ("deviation", threshold.uncertainty),
        };
        Some(json!({
            "wanted": { wanted: share },
            kind: value,
            "coverage": threshold.coverage,
            "risk": threshold.risk,
            "samples": threshold.samples,
            "judged": threshold.judged.map(|judged| json!({
                "coverage": judged.coverage(),
                "risk": judged.risk().filter(|_| threshold.risk.is_some()),
            })),
        }))
    }
}

fn calibration(found: &Found) -> Option<Value> {
    let own = found.calibration.as_ref()?;
    Some(json!({
        "level": own.level,
        "thresholds": own.thresholds,
        "samples": own.samples,
        "client": own.client,
    }))
}

/// A number of single precision, as short as it is.
fn single(value: f32) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> =
        names.iter().map(|name| format!("\"{}\"", fedsi_data::display_name(name))).collect();
    quoted.join(", ")
}
