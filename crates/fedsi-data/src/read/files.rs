//! The user's own files as a pool: tables, and arrays.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::arrays::{Array, MAX_CLASSES, Numbers, checked_product, extension, required, same_rows};
use super::numbered_classes::NumberedClasses;
use super::{npy, tensors};
use crate::error::{DataError, quoted, shown};
use crate::federation::Task;
use crate::file::read_file;
use crate::partition::Owners;
use crate::partition::owned::numbered;
use crate::pool::{Inputs, Pool, PoolInputs, PoolTargets, checked_shape};
use crate::scale::Range;
use crate::spec::{FilesSpec, PartitionSpec, TaskKind};
use crate::table::{TableTargets, is_table, read_tables};

/// Reads the training file and, where there is one, the test file into one pool, training rows first.
pub(crate) fn open_files(spec: &FilesSpec, partition: &PartitionSpec) -> Result<Pool, DataError> {
    let formats = "a .csv, .parquet, .npy or .safetensors file";
    required("data.files.train", &spec.train.to_string_lossy(), formats)?;
    required("data.files.target", &spec.target, "the column, array or file to predict")?;
    let listed = classes_are_listed(spec)?;
    let kind = extension(&spec.train);
    let has_test = !spec.test.as_os_str().is_empty();
    let both_tables = is_table(&spec.train) && is_table(&spec.test);
    if has_test && extension(&spec.test) != kind && !both_tables {
        let expected = format!("a .{kind} file, as data.files.train is");
        return Err(DataError::setting("data.files.test", shown(&spec.test), expected));
    }
    if is_table(&spec.train) {
        return table_pool(spec, partition, listed);
    }
    let part = |path: &Path, split: &str| match kind.as_str() {
        "npy" => from_npy(path, spec, split),
        "safetensors" => from_tensors(path, spec),
        _ => Err(DataError::setting("data.files.train", shown(path), formats)),
    };
    let train = part(&spec.train, "train")?;
    let rows = train.rows;
    let mut all = train;
    if has_test {
        all = all.append(part(&spec.test, "test")?, &spec.test)?;
    }
    all.into_pool(spec, listed, has_test.then_some(rows))
}

/// The files that [`open_files`] reads.
pub(crate) fn input_files(spec: &FilesSpec) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (path, split) in [(&spec.train, "train"), (&spec.test, "test")] {
        if path.as_os_str().is_empty() {
            continue;
        }
        files.push(path.clone());
        if extension(path) == "npy" {
            let beside = [&spec.target, &spec.client].into_iter().filter(|name| !name.is_empty());
            files.extend(beside.map(|name| beside_file(path, name, split)));
        }
    }
    files
}

/// The file of targets or clients beside one of inputs.
fn beside_file(path: &Path, name: &str, split: &str) -> PathBuf {
    path.with_file_name(name.replace("{split}", split))
}

/// The targets of a file, before classes are numbered across files.
enum Wanted {
    Classes(NumberedClasses),
    Values(Vec<f64>, usize),
}

/// One array file's rows.
struct Part {
    rows: usize,
    /// The shape of an input as the file has it.
    shape: Vec<usize>,
    inputs: Inputs<f64>,
    wanted: Wanted,
    clients: Option<Vec<String>>,
}

impl Part {
    /// Appends the test file's rows after checking that the two files are alike.
    fn append(mut self, mut other: Self, path: &Path) -> Result<Self, DataError> {
        let unlike = |found: String, expected: String| {
            DataError::malformed(path, "the test rows", found, expected, "make both files alike")
        };
        if self.shape != other.shape {
            return Err(unlike(
                format!("inputs of shape {:?}", other.shape),
                format!("{:?}, as in the training file", self.shape),
            ));
        }
        match (&mut self.inputs, &mut other.inputs) {
            (Inputs::Bytes(all), Inputs::Bytes(more)) => all.append(more),
            (Inputs::Floats(all), Inputs::Floats(more)) => all.append(more),
            _ => {
                return Err(unlike(
                    "inputs of another type".to_owned(),
                    "bytes in both files or in none".to_owned(),
                ));
            }
        }
        match (&mut self.wanted, other.wanted) {
            (Wanted::Classes(all), Wanted::Classes(more)) => all.append(more),
            (Wanted::Values(all, outputs), Wanted::Values(mut more, others)) if *outputs == others => {
                all.append(&mut more);
            }
            _ => {
                return Err(unlike(
                    "targets of another kind".to_owned(),
                    "those of the training file".to_owned(),
                ));
            }
        }
        if let (Some(all), Some(more)) = (&mut self.clients, &mut other.clients) {
            all.append(more);
        }
        self.rows += other.rows;
        Ok(self)
    }

    fn into_pool(self, spec: &FilesSpec, listed: bool, train_rows: Option<usize>) -> Result<Pool, DataError> {
        let features = checked_product(&self.shape).unwrap_or(0);
        let bad = |found: String, expected: &str, advice| {
            DataError::malformed(&spec.train, "the inputs", found, expected, advice)
        };
        if self.rows == 0 || features == 0 || self.rows > u32::MAX as usize {
            let found = format!("{} rows of {features} features", self.rows);
            return Err(bad(found, "at least one of each, at most 4294967295 rows", "check the file"));
        }
        let shape = checked_shape(&spec.shape, &self.shape)?;
        let (targets, task, class_names) = match self.wanted {
            Wanted::Values(values, outputs) => {
                (PoolTargets::Values(values), Task::Regression { outputs }, None)
            }
            Wanted::Classes(numbered) if listed => {
                let (classes, count) = (numbered.into_labels(), spec.classes.len());
                if let Some(class) = classes.iter().find(|&&class| class as usize >= count) {
                    return Err(unlisted(spec, format!("class {class}")));
                }
                let task = Task::Classification { classes: count };
                (PoolTargets::Classes(classes), task, Some(spec.classes.clone()))
            }
            Wanted::Classes(numbered) => {
                let (labels, classes) = numbered.counted()?;
                (PoolTargets::Classes(labels), Task::Classification { classes }, None)
            }
        };
        Ok(Pool {
            rows: self.rows,
            shape,
            inputs: PoolInputs::Array(self.inputs),
            targets,
            task,
            class_names,
            owners: self.clients.map(|clients| owners(&clients)),
            train_rows,
        })
    }
}

fn owners(clients: &[String]) -> Owners {
    let (names, of_row) = numbered(clients);
    Owners { names, of_row }
}

fn unlisted(spec: &FilesSpec, found: String) -> DataError {
    let expected = format!("one of data.files.classes, {}", quoted(&spec.classes.join(", ")));
    let advice = "add the class to data.files.classes, or remove such rows";
    DataError::malformed(&spec.train, "the targets", found, expected, advice)
}

/// Tables: their columns become inputs when it is known which rows are trained on.
fn table_pool(spec: &FilesSpec, partition: &PartitionSpec, listed: bool) -> Result<Pool, DataError> {
    let (rows, targets) = read_tables(spec, partition)?;
    let count = rows.sheet.rows();
    if count > u32::MAX as usize {
        let found = format!("{count} rows");
        return Err(DataError::malformed(
            &spec.train,
            "the rows",
            found,
            "at most 4294967295 rows",
            "check the file",
        ));
    }
    let (targets, task, class_names) = match targets {
        TableTargets::Values(values, outputs) => {
            (PoolTargets::Values(values), Task::Regression { outputs }, None)
        }
        TableTargets::Named(texts) => {
            let kept = |row: usize| rows.kept[row];
            let names = if listed {
                spec.classes.clone()
            } else {
                let there = texts.iter().enumerate().filter(|(row, _)| kept(*row));
                numbered(&there.map(|(_, text)| text.clone()).collect::<Vec<_>>()).0
            };
            if names.len() > MAX_CLASSES {
                let found = format!("{} different values of column {}", names.len(), quoted(&spec.target));
                let advice = "set data.files.task=regression, or name another column in data.files.target";
                return Err(DataError::malformed(
                    &spec.train,
                    "the targets",
                    found,
                    "at most 65536 classes",
                    advice,
                ));
            }
            let numbers: HashMap<&String, u32> = names.iter().zip(0..).collect();
            let number = |(row, text): (usize, &String)| match numbers.get(text) {
                Some(&class) => Ok(class),
                // Rows that are left out have no class.
                None if !kept(row) => Ok(0),
                None => Err(unlisted(spec, quoted(text))),
            };
            let classes = texts.iter().enumerate().map(number).collect::<Result<Vec<u32>, _>>()?;
            (PoolTargets::Classes(classes), Task::Classification { classes: names.len() }, Some(names))
        }
    };
    let clients = rows.client.map(|at| {
        // Nobody is named by rows that are left out.
        let name = |row: usize| rows.sheet.cell(row, at).to_owned();
        let first = (0..count).find(|&row| rows.kept[row]).unwrap_or(0);
        (0..count).map(|row| name(if rows.kept[row] { row } else { first })).collect::<Vec<_>>()
    });
    let has_test = !spec.test.as_os_str().is_empty();
    Ok(Pool {
        rows: count,
        shape: spec.shape.clone(),
        targets,
        task,
        class_names,
        owners: clients.map(|clients| owners(&clients)),
        train_rows: has_test.then_some(rows.train_rows),
        inputs: PoolInputs::Table(Box::new(rows)),
    })
}

/// Whether the classes are listed, each once, where there are classes.
fn classes_are_listed(spec: &FilesSpec) -> Result<bool, DataError> {
    let refused = |expected: &str| {
        Err(DataError::setting("data.files.classes", quoted(&spec.classes.join(", ")), expected))
    };
    if spec.classes.is_empty() {
        return Ok(false);
    }
    if spec.task == TaskKind::Regression {
        return refused("[], as a regression has no classes");
    }
    let distinct: BTreeSet<&String> = spec.classes.iter().collect();
    if distinct.len() < spec.classes.len() || distinct.len() > MAX_CLASSES {
        return refused("at most 65536 names, each once");
    }
    Ok(true)
}

/// NPY: the target's and the client's files lie beside the inputs; `{split}` in their names is train or test.
fn from_npy(path: &Path, spec: &FilesSpec, split: &str) -> Result<Part, DataError> {
    let beside = |name: &str| npy::read(&beside_file(path, name, split));
    let client = if spec.client.is_empty() { None } else { Some(beside(&spec.client)?) };
    from_arrays(npy::read(path)?, beside(&spec.target)?, client, spec)
}

fn from_tensors(path: &Path, spec: &FilesSpec) -> Result<Part, DataError> {
    let bytes = read_file(path)?;
    let client = if spec.client.is_empty() { None } else { Some(tensors::find(path, &bytes, &spec.client)?) };
    from_arrays(
        tensors::find(path, &bytes, &spec.inputs)?,
        tensors::find(path, &bytes, &spec.target)?,
        client,
        spec,
    )
}

fn from_arrays(
    inputs: Array,
    target: Array,
    client: Option<Array>,
    spec: &FilesSpec,
) -> Result<Part, DataError> {
    same_rows(&inputs, &target)?;
    if let Some(client) = &client {
        same_rows(&inputs, client)?;
    }
    let (rows, shape) = (inputs.rows(), natural_shape(&inputs));
    let range = Range::of_files(spec.standardize);
    let wanted = match spec.task {
        TaskKind::Classification => Wanted::Classes(NumberedClasses::of(target)?),
        TaskKind::Regression => {
            let outputs = target.width();
            if outputs == 0 {
                let expected = "at least one number per row";
                return Err(DataError::malformed(
                    &target.path,
                    target.place,
                    "none",
                    expected,
                    "check the array",
                ));
            }
            Wanted::Values(target.floats(range)?, outputs)
        }
    };
    let clients = client.map(Array::names).transpose()?;
    Ok(Part { rows, shape, inputs: as_inputs(inputs, range)?, wanted, clients })
}

/// The shape of one input: images keep their channels, height and width; everything else is flat.
fn natural_shape(inputs: &Array) -> Vec<usize> {
    match inputs.shape[..] {
        [_, channels, height, width] => vec![channels, height, width],
        [_, height, width] => vec![1, height, width],
        _ => vec![inputs.width()],
    }
}

fn as_inputs(array: Array, range: Range) -> Result<Inputs<f64>, DataError> {
    match array.numbers {
        Numbers::Bytes(bytes) => Ok(Inputs::Bytes(bytes)),
        Numbers::Integers(_) | Numbers::Floats(_) => array.floats(range).map(Inputs::Floats),
    }
}
