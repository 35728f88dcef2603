//! Labelled samples of a client that a network was not trained on.

use std::path::Path;

use super::arrays::{Array, extension};
use super::inputs::{InputForm, unknown_ending};
use super::new_rows::{self, InputTable, WantedTargets};
use super::{npy, tensors};
use crate::error::{DataError, quoted};
use crate::federation::{Samples, Targets, Task};
use crate::file::read_file;
use crate::scale;
use crate::scale::Scaling;
use crate::spec::TaskKind;

/// What a trained network says, as far as targets in files must agree with it.
#[derive(Clone, Copy, Debug)]
pub struct TargetForm<'a> {
    /// What is predicted.
    pub task: Task,
    /// The names of the classes, where they have any.
    pub class_names: Option<&'a [String]>,
    /// How regression targets were standardised.
    pub scaling: Option<&'a Scaling>,
}

/// Samples with their targets, ready for a network.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledRows {
    /// The samples.
    pub samples: Samples,
    /// The cells of the table that they come from, where they do and the model was trained on the user's own files.
    pub table: Option<InputTable>,
}

/// Reads samples of one client to learn from: a .csv or .parquet table with the target's column (`label` for the known image
/// datasets), a .safetensors file with the target's array (or `targets`, or `labels`), or .npy arrays of inputs and of
/// `targets`.
///
/// Classes in a table go by their names where they have any, else by their numbers; in arrays by their numbers. Inputs
/// are as for [`read_inputs`](super::read_inputs). Rows of a table without a target are left out and counted, unless
/// `data.files.strict` is set.
///
/// # Errors
/// Where a file cannot be read or does not fit what the network was trained on: its inputs, a class it does not know,
/// another number of targets.
pub fn read_labelled(
    path: &Path,
    targets: Option<&Path>,
    inputs: &InputForm<'_>,
    wanted: &TargetForm<'_>,
) -> Result<LabelledRows, DataError> {
    match (extension(path).as_str(), targets) {
        ("npy", Some(targets)) if extension(targets) == "npy" => {
            from_arrays(npy::read(path)?, npy::read(targets)?, inputs, wanted)
        }
        ("npy", Some(targets)) => Err(unknown_ending(targets, "a .npy file, as the inputs are")),
        ("npy", None) => {
            let advice = "give the file of the targets too";
            Err(DataError::malformed(path, "the targets", "inputs alone", "a second .npy file", advice))
        }
        (_, Some(targets)) => {
            let advice = "leave the second file out";
            let expected = "inputs in a .npy file, as other formats hold their targets";
            Err(DataError::malformed(targets, "the targets", "a second file", expected, advice))
        }
        ("csv" | "parquet", None) => from_table(path, inputs, wanted),
        ("safetensors", None) => {
            let bytes = read_file(path)?;
            let own = inputs.files.map_or("labels", |files| files.target.as_str());
            let targets = tensors::find_any(path, &bytes, &[own, "targets", "labels"])?;
            from_arrays(inputs.find_inputs(path, &bytes)?, targets, inputs, wanted)
        }
        _ => Err(unknown_ending(
            path,
            "samples with their targets: a .csv, .parquet, .safetensors or .npy file",
        )),
    }
}

fn from_table(
    path: &Path,
    inputs: &InputForm<'_>,
    wanted: &TargetForm<'_>,
) -> Result<LabelledRows, DataError> {
    let (task, columns) = match wanted.task {
        Task::Classification { .. } => (TaskKind::Classification, vec![inputs.target_column()]),
        Task::Regression { outputs: 1 } => (TaskKind::Regression, vec![inputs.target_column()]),
        Task::Regression { .. } => (TaskKind::Regression, inputs.target_columns()),
    };
    let names = wanted.class_names.unwrap_or_default();
    let rows =
        new_rows::read(path, inputs, Some(WantedTargets { columns: &columns, task, class_names: names }))?;
    let targets = match wanted.task {
        Task::Regression { .. } => Targets::Values(scale::to_singles(wanted.scaling, &rows.values)),
        Task::Classification { classes } => {
            // Names of the user's own are all there is; those of a known dataset stand beside its numbers.
            let numbered = names.is_empty() || inputs.files.is_none();
            let class = |(row, text): (usize, &String)| {
                let by_number = || text.parse().ok().filter(|&class| numbered && class < classes);
                let found = names.iter().position(|name| name == text).or_else(by_number);
                found.map(|class| class as u32).ok_or_else(|| {
                    let line = rows.table.lines.get(row).copied().unwrap_or(row as u64 + 2);
                    let place = format!("line {line}, column {}", quoted(columns[0]));
                    let known = if names.is_empty() {
                        format!("a class from 0 to {}", classes - 1)
                    } else {
                        format!("one of {}", quoted(&names.join(", ")))
                    };
                    unknown_class(path, place, quoted(text), known)
                })
            };
            Targets::Classes(rows.labels.iter().enumerate().map(class).collect::<Result<_, _>>()?)
        }
    };
    let table = inputs.keeps_cells().then_some(rows.table);
    Ok(LabelledRows { samples: Samples { count: rows.count, inputs: rows.inputs, targets }, table })
}

fn from_arrays(
    array: Array,
    targets: Array,
    inputs: &InputForm<'_>,
    wanted: &TargetForm<'_>,
) -> Result<LabelledRows, DataError> {
    let (path, place) = (targets.path.clone(), targets.place.clone());
    let (count, inputs_of_rows) = inputs.array_inputs(array)?;
    if targets.rows() != count {
        let (found, expected) =
            (format!("{} rows", targets.rows()), format!("{count}, as many as the inputs"));
        let advice = "take both arrays from the same samples";
        return Err(DataError::malformed(&path, place, found, expected, advice));
    }
    let targets = match wanted.task {
        Task::Regression { outputs } if targets.width() != outputs => {
            let found = format!("{} numbers a row", targets.width());
            let expected = format!("{outputs}, as in training");
            return Err(DataError::malformed(&path, place, found, expected, "give all targets and no other"));
        }
        Task::Regression { .. } => {
            Targets::Values(scale::to_singles(wanted.scaling, &targets.floats(inputs.range())?))
        }
        Task::Classification { classes } => {
            let labels = targets.classes()?;
            if let Some(row) = labels.iter().position(|&label| label as usize >= classes) {
                let place = format!("{place}, row {row}");
                let known = format!("a class from 0 to {}", classes - 1);
                return Err(unknown_class(&path, place, labels[row].to_string(), known));
            }
            Targets::Classes(labels)
        }
    };
    Ok(LabelledRows { samples: Samples { count, inputs: inputs_of_rows, targets }, table: None })
}

fn unknown_class(path: &Path, place: String, found: String, expected: String) -> DataError {
    DataError::malformed(path, place, found, expected, "the network knows no other class: remove such rows")
}
