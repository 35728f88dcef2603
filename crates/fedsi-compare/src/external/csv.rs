//! CSV: a column of probabilities for each class, under its name, beside `label`, `client`, `row` and `id`; the same beside the
//! columns that `fedsi data export` writes; and the `predictions.csv` of a run.

use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};

use super::arrays::class_label;
use super::names::{ExportedNames, is};
use super::{ExternalError, ExternalPredictions, ExternalValues};

/// Columns of the truth, of whose a row is, and such as say which row it is: `row` and `id` are read, the others are not.
const TRUTH: [&str; 4] = ["label", "target", "labels", "targets"];
const CLIENT: [&str; 2] = ["client", "clients"];
const NUMBERING: [&str; 4] = ["", "row", "id", "index"];

/// Between these columns a file of fedsi's has its classes.
const BEFORE_CLASSES: &str = "probability";
const AFTER_CLASSES: &str = "entropy";

/// Most columns named in a message.
const MAX_NAMED: usize = 12;

/// Which columns mean what.
struct Columns {
    truth: Option<usize>,
    client: Option<usize>,
    row: Option<usize>,
    id: Option<usize>,
    /// The data's classes, where the columns of classes were found by their names.
    classes: Option<Vec<String>>,
    kind: Kind,
}

enum Kind {
    /// The classes' columns.
    Classes(Vec<usize>),
    /// The mean's and the variance's; the latter may be given as a standard deviation.
    Values { mean: usize, variance: usize, is_deviation: bool },
}

/// Reads a file; `exported` are the names of the data that it predicts, where they are known.
pub(super) fn read(
    path: &Path,
    text: &[u8],
    exported: Option<&ExportedNames>,
) -> Result<ExternalPredictions, ExternalError> {
    let bad = |reason: String| ExternalError::new(path, reason);
    let mut reader =
        ReaderBuilder::new().delimiter(delimiter(text)).trim(Trim::All).flexible(false).from_reader(text);
    let names: Vec<String> =
        reader.headers().map_err(|error| bad(words(&error)))?.iter().map(str::to_owned).collect();
    let columns = Columns::of(path, &names, exported)?;
    let class_names: Option<Vec<String>> = match (&columns.classes, &columns.kind) {
        (Some(classes), _) => Some(classes.clone()),
        (None, Kind::Classes(own)) => Some(own.iter().map(|&column| names[column].clone()).collect()),
        (None, Kind::Values { .. }) => None,
    };
    let mut rows = Rows::new(path, &names, &columns, class_names.as_deref());
    for record in reader.records() {
        let record = record.map_err(|error| bad(words(&error)))?;
        rows.add(&record)?;
    }
    rows.finish()
}

/// The reader's error in our words.
fn words(error: &csv::Error) -> String {
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("line {line} has {len} cells, the header {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => format!("line {line} is broken text, expected UTF-8"),
        _ => error.to_string().replace('\n', " "),
    }
}

/// The separator that the first line has most of.
fn delimiter(text: &[u8]) -> u8 {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let count = |wanted: u8| line.iter().filter(|&&byte| byte == wanted).count();
    // Of equals the last is the greatest: the comma.
    [b'\t', b';', b','].into_iter().max_by_key(|&byte| count(byte)).unwrap_or(b',')
}

impl Columns {
    fn of(path: &Path, names: &[String], exported: Option<&ExportedNames>) -> Result<Self, ExternalError> {
        let bad = |reason: String| Err(ExternalError::new(path, reason));
        if let Some((place, name)) =
            names.iter().enumerate().find(|(place, name)| names[..*place].contains(name))
        {
            return bad(format!("line 1: column {} is named `{name}`, as one before it", place + 1));
        }
        if let Some(outputs) = exported.map(|exported| exported.outputs).filter(|&outputs| outputs > 1) {
            return bad(format!(
                "a CSV file has one mean and one variance a row, and the data has {outputs} targets: give `mean` and \
                 `variance` of shape [rows, {outputs}] as safetensors, NPZ or JSON"
            ));
        }
        let at = |name: &str| names.iter().position(|found| found == name);
        let between = match (at(BEFORE_CLASSES), at(AFTER_CLASSES)) {
            (Some(before), Some(after)) if before < after => Some(before + 1..after),
            _ => None,
        };
        // Of a file of fedsi's the columns are known; in others a name that the table has is the table's.
        let exported = exported.filter(|_| between.is_none());
        let own = |name: &str| at(name).filter(|_| !exported.is_some_and(|exported| exported.has(name)));
        let first = |of: &[&str]| of.iter().find_map(|name| own(name));
        let moved = |name: &str| exported.and_then(|_| at(name));
        let client = moved("fedsi_client").or_else(|| first(&CLIENT));
        let (row, id) = (moved("fedsi_row").or_else(|| own("row")), moved("fedsi_id").or_else(|| own("id")));
        let target = exported.and_then(|exported| exported.target(names));
        let truth = |taken: &[usize]| target.filter(|at| !taken.contains(at)).or_else(|| first(&TRUTH));
        if let (Some(mean), Some((variance, is_deviation))) = (
            at("mean"),
            at("variance")
                .map(|at| (at, false))
                .or_else(|| first(&["deviation", "std"]).map(|at| (at, true))),
        ) {
            let truth = truth(&[mean, variance]);
            let kind = Kind::Values { mean, variance, is_deviation };
            return Ok(Self { truth, client, row, id, classes: None, kind });
        }
        let known = |name: &str| TRUTH.contains(&name) || CLIENT.contains(&name) || NUMBERING.contains(&name);
        if let Some((exported, own)) =
            exported.and_then(|exported| Some((exported, exported.class_columns(names)?)))
        {
            let is_read = |column: usize| own.contains(&column) || known(&names[column]);
            let other = (0..names.len()).find(|&column| !is_read(column) && !exported.writes(&names[column]));
            if let Some(other) = other {
                return bad(format!(
                    "line 1: column `{}` is neither a class nor a column that `fedsi data export` writes: leave it out, or \
                     write the classes {} alone",
                    fedsi_data::display_name(&names[other]),
                    listed(&exported.classes)
                ));
            }
            let (truth, classes) = (truth(&own), Some(exported.classes.clone()));
            return Ok(Self { truth, client, row, id, classes, kind: Kind::Classes(own) });
        }
        let own: Vec<usize> = match between {
            Some(between) => between.collect(),
            None => {
                let truths = TRUTH.iter().filter(|name| at(name).is_some());
                if truths.clone().count() > 1 {
                    let found: Vec<String> = truths.map(|name| format!("`{name}`")).collect();
                    return bad(format!(
                        "line 1 has {}: keep the one with the true class",
                        found.join(" and ")
                    ));
                }
                (0..names.len()).filter(|&column| !known(&names[column])).collect()
            }
        };
        if own.is_empty() {
            return bad(format!(
                "line 1 has no columns of class probabilities: it has {}; expected `label`, `client` (where there are \
                 clients) and a column for each class",
                listed(names)
            ));
        }
        Ok(Self { truth: truth(&own), client, row, id, classes: None, kind: Kind::Classes(own) })
    }
}

/// Names for a message.
fn listed(names: &[String]) -> String {
    let mut text: Vec<String> =
        names.iter().take(MAX_NAMED).map(|name| fedsi_data::display_name(name)).collect();
    if names.len() > MAX_NAMED {
        text.push(format!("{} more", names.len() - MAX_NAMED));
    }
    text.join(", ")
}

/// Rows as they are read.
struct Rows<'a> {
    path: &'a Path,
    names: &'a [String],
    columns: &'a Columns,
    class_names: Option<&'a [String]>,
    count: usize,
    /// Probabilities, or means.
    first: Vec<f64>,
    variance: Vec<f64>,
    labels: Vec<u32>,
    targets: Vec<f64>,
    clients: Vec<String>,
    rows: Vec<String>,
    ids: Vec<String>,
}

impl<'a> Rows<'a> {
    const fn new(
        path: &'a Path,
        names: &'a [String],
        columns: &'a Columns,
        class_names: Option<&'a [String]>,
    ) -> Self {
        Self {
            path,
            names,
            columns,
            class_names,
            count: 0,
            first: Vec::new(),
            variance: Vec::new(),
            labels: Vec::new(),
            targets: Vec::new(),
            clients: Vec::new(),
            rows: Vec::new(),
            ids: Vec::new(),
        }
    }

    /// A cell as a number.
    fn number(&self, record: &StringRecord, column: usize) -> Result<f64, ExternalError> {
        let cell = record.get(column).unwrap_or_default();
        cell.parse().map_err(|_| {
            let line = record.position().map_or(0, csv::Position::line);
            let name = fedsi_data::display_name(&self.names[column]);
            let what = match self.columns.kind {
                Kind::Classes(_) if self.columns.classes.is_some() => "expected a probability",
                Kind::Classes(_) => {
                    "expected a probability: every column but label, target, client, row, id and index is a class's"
                }
                Kind::Values { .. } => "expected a number",
            };
            let cell = fedsi_data::display_name(cell);
            ExternalError::new(self.path, format!("line {line}, column `{name}`: found `{cell}`, {what}"))
        })
    }

    fn add(&mut self, record: &StringRecord) -> Result<(), ExternalError> {
        match &self.columns.kind {
            Kind::Classes(own) => {
                for &column in own {
                    self.first.push(self.number(record, column)?);
                }
                if let Some(column) = self.columns.truth {
                    let label = self.label(record.get(column).unwrap_or_default(), own.len())?;
                    self.labels.push(label);
                }
            }
            &Kind::Values { mean, variance, is_deviation } => {
                self.first.push(self.number(record, mean)?);
                let found = self.number(record, variance)?;
                self.variance.push(if is_deviation { found * found } else { found });
                if let Some(column) = self.columns.truth {
                    self.targets.push(self.number(record, column)?);
                }
            }
        }
        let (columns, cell) =
            (self.columns, |column: usize| record.get(column).unwrap_or_default().to_owned());
        self.clients.extend(columns.client.map(cell));
        self.rows.extend(columns.row.map(cell));
        self.ids.extend(columns.id.map(cell));
        self.count += 1;
        Ok(())
    }

    /// A class by its name, else by its number.
    fn label(&self, cell: &str, classes: usize) -> Result<u32, ExternalError> {
        let names = self.class_names.unwrap_or_default();
        if let Some(place) = names.iter().position(|name| is(name, cell)) {
            return Ok(place as u32);
        }
        match cell.parse::<f64>() {
            Ok(number) => class_label(self.path, self.count, number, classes),
            Err(_) => Err(ExternalError::new(
                self.path,
                format!(
                    "row {}: label `{}` is none of the classes {}, and no number from 0 to {}",
                    self.count,
                    fedsi_data::display_name(cell),
                    listed(names),
                    classes.saturating_sub(1)
                ),
            )),
        }
    }

    fn finish(self) -> Result<ExternalPredictions, ExternalError> {
        if self.count == 0 {
            return Err(ExternalError::new(self.path, "there are no rows below its header"));
        }
        let has_truth = self.columns.truth.is_some();
        let values = match &self.columns.kind {
            Kind::Classes(own) => ExternalValues::Classes {
                classes: own.len(),
                probabilities: self.first,
                labels: has_truth.then_some(self.labels),
            },
            Kind::Values { .. } => ExternalValues::Values {
                outputs: 1,
                mean: self.first,
                variance: self.variance,
                targets: has_truth.then_some(self.targets),
            },
        };
        Ok(ExternalPredictions {
            path: self.path.to_owned(),
            values,
            clients: self.columns.client.map(|_| self.clients),
            rows: self.columns.row.map(|_| self.rows),
            ids: self.columns.id.map(|_| self.ids),
            class_names: self.class_names.map(<[String]>::to_vec),
        })
    }
}
