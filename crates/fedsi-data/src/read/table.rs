//! CSV tables with a header.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;

use csv::{Reader, StringRecord};

use crate::csv_file::{column, csv_error, headers, open_csv};
use crate::error::{DataError, quoted};
use crate::scale::Range;
use crate::spec::{FilesSpec, TaskKind};

/// The rows of a table: numbers as features, texts as targets and clients.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) count: usize,
    /// Names of the feature columns, in the order of the file.
    pub(crate) columns: Vec<String>,
    /// Rows x features.
    pub(crate) features: Vec<f64>,
    /// Classification: the class of each row as written.
    pub(crate) labels: Vec<String>,
    /// Regression: rows x outputs.
    pub(crate) values: Vec<f64>,
    /// Whose row it is, where a column says so.
    pub(crate) clients: Vec<String>,
}

/// Reads a table: every column that is neither target nor client is a feature.
pub(crate) fn read(path: &Path, spec: &FilesSpec, range: Range) -> Result<Rows, DataError> {
    let mut reader = open_csv(path)?;
    let names = headers(path, &mut reader)?;
    let targets: Vec<usize> = match spec.task {
        TaskKind::Classification => vec![column(path, &names, &spec.target)?],
        TaskKind::Regression if names.contains(&spec.target) => vec![column(path, &names, &spec.target)?],
        TaskKind::Regression => {
            let wanted = spec.target.split(',').map(str::trim);
            wanted.map(|name| column(path, &names, name)).collect::<Result<_, _>>()?
        }
    };
    let client = if spec.client.is_empty() { None } else { Some(column(path, &names, &spec.client)?) };
    let features: Vec<usize> =
        (0..names.len()).filter(|at| !targets.contains(at) && client != Some(*at)).collect();
    read_rows(path, reader, &names, &Columns { features, targets, client, task: Some(spec.task) }, range)
}

/// What is wanted of a table that comes after training.
pub(crate) struct Wanted<'a> {
    /// The features in the order of training, where they have names; else all columns that are nothing else.
    pub(crate) features: Option<&'a [String]>,
    /// Columns that may be there and are no features.
    pub(crate) aside: &'a [&'a str],
    /// Columns to read as targets, and as what.
    pub(crate) targets: Option<(&'a [&'a str], TaskKind)>,
}

/// Reads inputs, and targets where they are wanted, of a model that is trained already. Features are found by name.
pub(crate) fn read_wanted(path: &Path, wanted: &Wanted<'_>, range: Range) -> Result<Rows, DataError> {
    let mut reader = open_csv(path)?;
    let names = headers(path, &mut reader)?;
    let is_aside = |name: &String| wanted.aside.contains(&name.as_str());
    let features = match wanted.features {
        Some(known) => {
            // Tables may have a hundred thousand columns: each is looked up at once.
            let all: HashSet<&String> = known.iter().collect();
            let unknown = names.iter().find(|name| !all.contains(name) && !is_aside(name));
            if let Some(unknown) = unknown {
                let found = format!("column {}", quoted(unknown));
                let expected = format!("those of the training data, {}", quoted(&known.join(", ")));
                let advice = "remove the column, or rename it as in training";
                return Err(DataError::malformed(path, "line 1", found, expected, advice));
            }
            let places: HashMap<&String, usize> =
                names.iter().enumerate().map(|(at, name)| (name, at)).collect();
            let place =
                |name: &String| places.get(name).copied().map_or_else(|| column(path, &names, name), Ok);
            known.iter().map(place).collect::<Result<_, _>>()?
        }
        None => {
            refuse_numbers(path, &names)?;
            (0..names.len()).filter(|&at| !is_aside(&names[at])).collect()
        }
    };
    let (targets, task) = match wanted.targets {
        None => (Vec::new(), None),
        Some((targets, task)) => {
            let places: Result<_, _> = targets.iter().map(|name| column(path, &names, name)).collect();
            (places?, Some(task))
        }
    };
    read_rows(path, reader, &names, &Columns { features, targets, client: None, task }, range)
}

/// A first line of numbers is data, unless they count the columns: nobody should miss it silently.
fn refuse_numbers(path: &Path, names: &[String]) -> Result<(), DataError> {
    let numbers: Option<Vec<f64>> = names.iter().map(|name| name.parse().ok()).collect();
    match numbers {
        Some(numbers) if !numbers.windows(2).all(|pair| pair[1] - pair[0] == 1.0) => {
            let advice = "begin the file with the names of its columns";
            Err(DataError::malformed(path, "line 1", "numbers", "a header", advice))
        }
        _ => Ok(()),
    }
}

/// What each column of a table is.
struct Columns {
    features: Vec<usize>,
    targets: Vec<usize>,
    client: Option<usize>,
    task: Option<TaskKind>,
}

fn read_rows(
    path: &Path,
    mut reader: Reader<File>,
    names: &[String],
    columns: &Columns,
    range: Range,
) -> Result<Rows, DataError> {
    let mut rows =
        Rows { columns: columns.features.iter().map(|&at| names[at].clone()).collect(), ..Rows::default() };
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| csv_error(path, error))? {
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |at: usize| record.get(at).unwrap_or_default();
        let place = |at: usize| format!("line {line}, column {}", quoted(&names[at]));
        let number = |at: usize| {
            let value = cell(at).parse().unwrap_or(f64::NAN);
            if range.holds(value) {
                return Ok(value);
            }
            let advice = "fill or remove such rows, and encode texts as numbers";
            Err(DataError::malformed(path, place(at), quoted(cell(at)), range.expected(), advice))
        };
        let text = |at: usize| {
            if cell(at).is_empty() {
                let advice = "fill the cell or remove the row";
                return Err(DataError::malformed(path, place(at), "an empty cell", "a value", advice));
            }
            Ok(cell(at).to_owned())
        };
        for &at in &columns.features {
            rows.features.push(number(at)?);
        }
        for &at in &columns.targets {
            match columns.task {
                Some(TaskKind::Regression) => rows.values.push(number(at)?),
                Some(TaskKind::Classification) | None => rows.labels.push(text(at)?),
            }
        }
        if let Some(at) = columns.client {
            rows.clients.push(text(at)?);
        }
        rows.count += 1;
    }
    if rows.count == 0 {
        return Err(DataError::malformed(path, "line 2", "the end of the file", "a row", "add rows of data"));
    }
    Ok(rows)
}
