//! Predictions as rows of a CSV or JSON file.

use std::path::Path;

use fedsi_data::csv_text;
use fedsi_metrics::HALF_WIDTH_95;
use fedsi_run::saved::{AbstentionGoal, Predicted, SavedModel, SavedRun, Threshold, most_probable};
use serde::Serialize;
use serde_json::{Value, json};

use super::client::ChosenClient;

/// Everything that is written.
pub(super) struct Sheet<'a> {
    pub(super) run: &'a SavedRun,
    /// None: a new client.
    pub(super) client: Option<&'a ChosenClient>,
    pub(super) fit: Option<&'a Path>,
    pub(super) model: &'a SavedModel,
    /// Names of the rows, where they have any.
    pub(super) names: Option<&'a [String]>,
    pub(super) predicted: &'a Predicted,
    pub(super) goal: Option<(AbstentionGoal, Threshold)>,
    /// How strange each row is; none where the model does not know.
    pub(super) strangeness: Option<&'a [f64]>,
    /// Why to abstain on each row, where the question was asked: empty for an answer.
    pub(super) abstain: Option<&'a [Reasons]>,
}

/// Why to abstain on a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reasons {
    /// The prediction is too uncertain.
    pub(super) uncertain: bool,
    /// The input is too strange.
    pub(super) strange: bool,
}

impl Reasons {
    const fn any(self) -> bool {
        self.uncertain || self.strange
    }

    const fn as_str(self) -> &'static str {
        match (self.uncertain, self.strange) {
            (false, false) => "",
            (true, false) => "uncertain",
            (false, true) => "strange",
            (true, true) => "uncertain and strange",
        }
    }
}

/// A row's number, or the name of its file.
#[derive(Serialize)]
#[serde(untagged)]
enum Key<'a> {
    Number(usize),
    Name(&'a str),
}

/// The prediction for a row. Probabilities stay single, so that they print as short as they are.
#[derive(Serialize)]
struct Class<'a> {
    row: Key<'a>,
    class: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    probability: f32,
    entropy: f64,
    strangeness: Option<f64>,
    variance: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    abstain: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    probabilities: &'a [f32],
}

/// The prediction of a row's targets, one after another.
#[derive(Serialize)]
struct Values<'a> {
    row: Key<'a>,
    mean: &'a [f64],
    deviation: Vec<f64>,
    variance: &'a [f64],
    low: Vec<f64>,
    high: Vec<f64>,
    strangeness: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    abstain: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Row<'a> {
    Class(Class<'a>),
    Values(Values<'a>),
}

impl<'a> Sheet<'a> {
    fn row(&self, at: usize) -> Row<'a> {
        let row = match self.names {
            Some(names) => Key::Name(&names[at]),
            None => Key::Number(at),
        };
        let strangeness = self.strangeness.map(|all| all[at]);
        let abstain = self.abstain.map(|abstain| abstain[at].any());
        let reason = self.abstain.map(|abstain| abstain[at].as_str());
        match self.predicted {
            Predicted::Classes { classes, probabilities, variance } => {
                let probabilities = &probabilities[at * classes..(at + 1) * classes];
                let (class, probability) = most_probable(probabilities);
                Row::Class(Class {
                    row,
                    class,
                    name: self.model.class_names().map(|names| names[class].as_str()),
                    probability,
                    entropy: fedsi_metrics::entropy(probabilities),
                    strangeness,
                    variance: variance[at],
                    abstain,
                    reason,
                    probabilities,
                })
            }
            Predicted::Values { outputs, mean, variance } => {
                let range = at * outputs..(at + 1) * outputs;
                let (mean, variance) = (&mean[range.clone()], &variance[range]);
                let deviation: Vec<f64> = variance.iter().map(|variance| variance.sqrt()).collect();
                let end = |sign: f64| -> Vec<f64> {
                    mean.iter().zip(&deviation).map(|(mean, d)| mean + sign * HALF_WIDTH_95 * d).collect()
                };
                let (low, high) = (end(-1.0), end(1.0));
                Row::Values(Values {
                    row,
                    mean,
                    deviation,
                    variance,
                    low,
                    high,
                    strangeness,
                    abstain,
                    reason,
                })
            }
        }
    }

    /// The names of a regression's targets after `mean`, `deviation`, ...; nothing for a single one.
    fn suffixes(&self, outputs: usize) -> Vec<String> {
        let names: Vec<&str> = self.run.config().data.files.target.split(',').map(str::trim).collect();
        match outputs {
            1 => vec![String::new()],
            _ if names.len() == outputs => names.iter().map(|name| format!("_{name}")).collect(),
            _ => (0..outputs).map(|target| format!("_{target}")).collect(),
        }
    }

    fn header(&self) -> Vec<String> {
        let mut header = vec!["row".to_owned()];
        let abstain = self.abstain.map(|_| ["abstain", "reason"].map(str::to_owned)).into_iter().flatten();
        match self.predicted {
            Predicted::Classes { classes, .. } => {
                header.push("class".to_owned());
                header.extend(self.model.class_names().map(|_| "name".to_owned()));
                header.extend(["probability", "entropy", "strangeness", "variance"].map(str::to_owned));
                header.extend(abstain);
                header.extend((0..*classes).map(|class| format!("p{class}")));
            }
            Predicted::Values { outputs, .. } => {
                for suffix in self.suffixes(*outputs) {
                    let names = ["mean", "deviation", "variance", "low", "high"];
                    header.extend(names.map(|name| format!("{name}{suffix}")));
                }
                header.push("strangeness".to_owned());
                header.extend(abstain);
            }
        }
        header
    }

    /// CSV: a header, then a row a sample.
    pub(super) fn csv(&self) -> anyhow::Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Names come from data and files; all else is a number or a word of ours.
        writer.write_record(self.header().iter().map(|name| csv_text(name).into_owned()))?;
        let key = |key: Key<'_>| match key {
            Key::Number(number) => number.to_string(),
            Key::Name(name) => csv_text(name).into_owned(),
        };
        for at in 0..self.predicted.len() {
            // `Debug`, because `Display` writes a tiny number with all its zeros.
            let number = |value: f64| format!("{value:?}");
            let known = |value: Option<f64>| value.map(number).unwrap_or_default();
            let abstention = |abstain: Option<bool>, reason: Option<&str>| {
                let cells =
                    abstain.zip(reason).map(|(abstain, reason)| [abstain.to_string(), reason.to_owned()]);
                cells.into_iter().flatten()
            };
            let cells = match self.row(at) {
                Row::Class(row) => {
                    let mut cells = vec![key(row.row), row.class.to_string()];
                    cells.extend(row.name.map(|name| csv_text(name).into_owned()));
                    cells.extend([
                        format!("{:?}", row.probability),
                        number(row.entropy),
                        known(row.strangeness),
                        number(row.variance),
                    ]);
                    cells.extend(abstention(row.abstain, row.reason));
                    cells.extend(row.probabilities.iter().map(|probability| format!("{probability:?}")));
                    cells
                }
                Row::Values(row) => {
                    let mut cells = vec![key(row.row)];
                    for target in 0..row.mean.len() {
                        let lists = [row.mean, &row.deviation, row.variance, &row.low, &row.high];
                        cells.extend(lists.map(|list| number(list[target])));
                    }
                    cells.push(known(row.strangeness));
                    cells.extend(abstention(row.abstain, row.reason));
                    cells
                }
            };
            writer.write_record(cells)?;
        }
        let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
        Ok(String::from_utf8(bytes)?)
    }

    /// JSON: what was used, then `rows`, a line each.
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
            "threshold": self.threshold(),
        });
        if let Value::Object(head) = &mut head {
            head.retain(|key, value| key == "client" || !value.is_null());
        }
        let head = serde_json::to_string_pretty(&head)?;
        let rows: Result<Vec<String>, _> =
            (0..self.predicted.len()).map(|at| serde_json::to_string(&self.row(at))).collect();
        let head = head.strip_suffix("\n}").unwrap_or(&head);
        Ok(format!("{head},\n  \"rows\": [\n    {}\n  ]\n}}\n", rows?.join(",\n    ")))
    }

    fn threshold(&self) -> Option<Value> {
        let (goal, threshold) = self.goal?;
        let (wanted, share) = match goal {
            AbstentionGoal::Coverage(share) => ("coverage", share),
            AbstentionGoal::Risk(share) => ("risk", share),
        };
        let (kind, value) = match self.predicted {
            Predicted::Classes { .. } => {
                ("probability", threshold.uncertainty.map(|uncertainty| 1.0 - uncertainty))
            }
            Predicted::Values { .. } => ("deviation", threshold.uncertainty),
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
