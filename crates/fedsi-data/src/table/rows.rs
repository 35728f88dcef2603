//! Tables: which columns are what, and their rows.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::cell::{DateOrder, date, is_missing, is_missing_target, number};
use super::csv_file::{column, read_csv};
use super::parquet;
use super::sheet::Sheet;
use super::site::SummarySettings;
use crate::error::{DataError, quoted, shown};
use crate::scale::Range;
use crate::spec::{FilesSpec, PartitionSpec, TaskKind};

/// Rows that are left out are named up to so many.
const NAMED_LINES: usize = 3;
/// Up to so many different numbers may be classes, and more where each has so many rows on average.
const MANY_NUMBERS: usize = 20;
const ROWS_OF_A_CLASS: usize = 20;

/// Whether a file is a table.
pub(crate) fn is_table(path: &Path) -> bool {
    has_ending(path, "csv") || has_ending(path, "parquet")
}

/// Reads all cells of a table.
pub(crate) fn read_sheet(path: &Path) -> Result<Sheet, DataError> {
    if has_ending(path, "parquet") { parquet::read(path) } else { read_csv(path) }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|own| own.eq_ignore_ascii_case(ending))
}

/// Training rows, then test rows, and what each column is.
#[derive(Debug)]
pub(crate) struct TableRows {
    pub(crate) sheet: Sheet,
    /// The training file's name.
    pub(crate) file: String,
    /// The columns that may become inputs.
    pub(crate) inputs: Vec<usize>,
    pub(crate) settings: SummarySettings,
    /// The columns of the targets.
    pub(crate) targets: Vec<usize>,
    pub(crate) client: Option<usize>,
    pub(crate) id: Option<usize>,
    pub(crate) group: Option<usize>,
    pub(crate) time: Option<usize>,
    /// What columns are that are no inputs: "target", "client" and so on, with their names.
    pub(crate) roles: Vec<(String, String)>,
    /// Which rows are used; those without a target or client are not.
    pub(crate) kept: Vec<bool>,
    /// What is worth knowing of the rows.
    pub(crate) notes: Vec<String>,
    /// How many rows, the first ones, are the training file's.
    pub(crate) train_rows: usize,
}

/// The targets of a table's rows; those of rows that are not kept mean nothing.
#[derive(Debug)]
pub(crate) enum TableTargets {
    Named(Vec<String>),
    Values(Vec<f64>, usize),
}

/// Reads the training table and, where there is one, the test table.
pub(crate) fn read_tables(
    spec: &FilesSpec,
    partition: &PartitionSpec,
) -> Result<(TableRows, TableTargets), DataError> {
    let mut sheet = read_sheet(&spec.train)?;
    let train_rows = sheet.rows();
    let mut rows = columns(&sheet, spec, partition)?;
    if !spec.test.as_os_str().is_empty() {
        let test = read_sheet(&spec.test)?;
        let mut places = Vec::with_capacity(sheet.header.len());
        let place_of: HashMap<&str, usize> =
            test.header.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let needed: HashSet<usize> =
            rows.inputs.iter().chain(&rows.targets).chain(&rows.client).copied().collect();
        for (at, name) in sheet.header.iter().enumerate() {
            let place = place_of.get(name.as_str()).copied();
            if place.is_none() && needed.contains(&at) {
                let found = format!("the columns {}", quoted(&test.header.join(", ")));
                let expected = format!("those of the training file, {} among them", quoted(name));
                return Err(DataError::malformed(
                    &spec.test,
                    "line 1",
                    found,
                    expected,
                    "make both files alike",
                ));
            }
            places.push(place);
        }
        sheet.append(&test, &places);
    }
    rows.train_rows = train_rows;
    rows.kept = vec![true; sheet.rows()];
    rows.sheet = sheet;
    let targets = rows.read_targets(spec)?;
    rows.drop_rows_without_client(spec)?;
    if spec.strict {
        rows.refuse_unreadable()?;
    }
    Ok((rows, targets))
}

/// What each column of the training table is.
fn columns(sheet: &Sheet, spec: &FilesSpec, partition: &PartitionSpec) -> Result<TableRows, DataError> {
    let (path, names) = (spec.train.as_path(), &sheet.header);
    let optional = |name: &str| if name.is_empty() { Ok(None) } else { column(path, names, name).map(Some) };
    let targets = target_columns(path, names, spec)?;
    let (client, id) = (optional(&spec.client)?, optional(&spec.id)?);
    let (group, time) = (optional(&partition.group)?, optional(&partition.time)?);
    let mut roles: Vec<(String, String)> =
        targets.iter().map(|&at| ("target".to_owned(), names[at].clone())).collect();
    for (role, place) in [("client", client), ("id", id), ("group", group), ("time", time)] {
        roles.extend(place.map(|at| (role.to_owned(), names[at].clone())));
    }
    let mut listed = vec![spec.columns.is_empty(); names.len()];
    for name in &spec.columns {
        let at = column(path, names, name)?;
        if targets.contains(&at) || spec.ignore.contains(name) {
            let expected = "columns that are neither the target nor in data.files.ignore";
            return Err(DataError::setting("data.files.columns", quoted(name), expected));
        }
        listed[at] = true;
    }
    for name in &spec.ignore {
        listed[column(path, names, name)?] = false;
    }
    for at in targets.iter().copied().chain(client).chain(id).chain(group).chain(time) {
        listed[at] = false;
    }
    let inputs: Vec<usize> = (0..names.len()).filter(|&at| listed[at]).collect();
    if inputs.is_empty() {
        let found = format!("{} rows of 0 features", sheet.rows());
        let advice =
            "add a column that is neither target, client nor left out by data.files.columns and ignore";
        return Err(DataError::malformed(path, "the inputs", found, "at least one feature", advice));
    }
    let settings = SummarySettings {
        standardize: spec.standardize,
        strict: spec.strict,
        listed: !spec.columns.is_empty(),
    };
    let file = path.file_name().map(|name| shown(Path::new(name))).unwrap_or_default();
    let (kept, notes, sheet) = (Vec::new(), Vec::new(), Sheet::default());
    Ok(TableRows {
        sheet,
        file,
        inputs,
        settings,
        targets,
        client,
        id,
        group,
        time,
        roles,
        kept,
        notes,
        train_rows: 0,
    })
}

fn target_columns(path: &Path, names: &[String], spec: &FilesSpec) -> Result<Vec<usize>, DataError> {
    if spec.task == TaskKind::Classification || names.contains(&spec.target) {
        return Ok(vec![column(path, names, &spec.target)?]);
    }
    spec.target.split(',').map(str::trim).map(|name| column(path, names, name)).collect()
}

impl TableRows {
    /// The names of the columns that may become inputs.
    pub(crate) fn input_names(&self) -> Vec<String> {
        self.inputs.iter().map(|&at| self.sheet.header[at].clone()).collect()
    }

    /// The names of the columns of the targets.
    pub(crate) fn target_names(&self) -> Vec<String> {
        self.targets.iter().map(|&at| self.sheet.header[at].clone()).collect()
    }

    /// For each row a number that rows with the same value in the column of groups share; a row without a value stands by
    /// itself.
    pub(crate) fn groups(&self) -> Option<Vec<u32>> {
        let at = self.group?;
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut next = 0;
        let mut group = |row: usize| {
            let cell = self.sheet.cell(row, at);
            let known = if is_missing(cell) { None } else { numbers.get(cell).copied() };
            known.unwrap_or_else(|| {
                let number = next;
                next += 1;
                if !is_missing(cell) {
                    numbers.insert(cell, number);
                }
                number
            })
        };
        Some((0..self.sheet.rows()).map(&mut group).collect())
    }

    /// When each row is from: days or numbers. Rows without a time that can be read are older than all others.
    pub(crate) fn times(&self) -> Result<Option<Vec<f64>>, DataError> {
        let Some(at) = self.time else { return Ok(None) };
        let as_dates = |order: DateOrder| -> Vec<Option<f64>> {
            (0..self.sheet.rows()).map(|row| date(self.sheet.cell(row, at), order)).collect()
        };
        let numbers: Vec<Option<f64>> =
            (0..self.sheet.rows()).map(|row| number(&self.sheet.value(row, at))).collect();
        let (days, months) = (as_dates(DateOrder::DayFirst), as_dates(DateOrder::MonthFirst));
        let readable = |times: &[Option<f64>]| times.iter().flatten().count();
        let dates = if readable(&days) >= readable(&months) { days } else { months };
        let times = if readable(&numbers) >= readable(&dates) { numbers } else { dates };
        if readable(&times) * 2 <= self.sheet.rows() {
            let found = format!("{} of {} cells with a time", readable(&times), self.sheet.rows());
            let place = format!("column {}", quoted(&self.sheet.header[at]));
            let advice = "name a column of dates (2024-03-15) or numbers in partition.time";
            return Err(DataError::malformed(&self.sheet.path(0), place, found, "dates or numbers", advice));
        }
        Ok(Some(times.into_iter().map(|time| time.unwrap_or(f64::NEG_INFINITY)).collect()))
    }

    fn place(&self, row: usize, column: usize) -> String {
        format!("line {}, column {}", self.sheet.line(row), quoted(&self.sheet.header[column]))
    }

    /// Reads targets; rows without one are left out, or refused.
    fn read_targets(&mut self, spec: &FilesSpec) -> Result<TableTargets, DataError> {
        let columns = self.targets.clone();
        let range = Range::of_files(spec.standardize);
        let mut texts = Vec::new();
        let mut values = Vec::new();
        let mut dropped = Vec::new();
        for row in 0..self.sheet.rows() {
            let mut there = true;
            for &at in &columns {
                let cell = self.sheet.value(row, at);
                if spec.task == TaskKind::Regression {
                    let value = number(&cell).filter(|&value| range.holds(value));
                    there &= value.is_some();
                    if value.is_none() && spec.strict {
                        let advice =
                            "fill or remove such rows, or set data.files.strict=false, which leaves them out";
                        let (path, place) = (self.sheet.path(row), self.place(row, at));
                        return Err(DataError::malformed(
                            &path,
                            place,
                            quoted(&cell),
                            range.expected(),
                            advice,
                        ));
                    }
                    values.push(value.unwrap_or(0.0));
                } else {
                    let cell = self.sheet.cell(row, at);
                    let missing = is_missing_target(cell) && !spec.classes.iter().any(|class| class == cell);
                    there &= !missing;
                    if cell.is_empty() && spec.strict {
                        let (path, place) = (self.sheet.path(row), self.place(row, at));
                        let advice = "fill the cell or remove the row, or set data.files.strict=false, which leaves it out";
                        return Err(DataError::malformed(&path, place, "an empty cell", "a value", advice));
                    }
                    texts.push(cell.to_owned());
                }
            }
            if !there && !spec.strict {
                dropped.push(row);
            }
        }
        let target = self.roles.iter().find(|(role, _)| role == "target").map(|(_, name)| name.clone());
        self.drop_rows(&dropped, &format!("no target in column {}", quoted(&target.unwrap_or_default())));
        if !self.kept.contains(&true) {
            let text = |row: usize| columns.iter().find(|&&at| !is_missing_target(self.sheet.cell(row, at)));
            let first = (0..self.sheet.rows()).find_map(|row| text(row).map(|&at| (row, at)));
            if let Some((row, at)) = first {
                let (path, place) = (self.sheet.path(row), self.place(row, at));
                let advice =
                    "name a column of numbers in data.files.target, or set data.files.task=classification";
                let found = quoted(self.sheet.cell(row, at));
                return Err(DataError::malformed(&path, place, found, range.expected(), advice));
            }
            let found = format!("no target in any of {} rows", self.sheet.rows());
            let advice = "name the column to predict in data.files.target";
            return Err(DataError::malformed(&spec.train, "the targets", found, "targets", advice));
        }
        if spec.task == TaskKind::Regression {
            return Ok(TableTargets::Values(values, columns.len()));
        }
        if spec.classes.is_empty() {
            self.ask_about_numbers(spec)?;
        }
        Ok(TableTargets::Named(texts))
    }

    /// Many different numbers are no classes unless somebody says so: fractions where all targets are numbers, and many of
    /// them where nine in ten are, such as with a word for some that are not known.
    fn ask_about_numbers(&self, spec: &FilesSpec) -> Result<(), DataError> {
        let Some(&at) = self.targets.first() else { return Ok(()) };
        let (mut rows, mut numbers) = (0_usize, 0_usize);
        let mut different: HashMap<u64, f64> = HashMap::new();
        for row in (0..self.sheet.rows()).filter(|&row| self.kept[row]) {
            let cell = self.sheet.value(row, at);
            if is_missing(&cell) {
                continue;
            }
            rows += 1;
            if let Some(value) = number(&cell) {
                numbers += 1;
                different.insert(value.to_bits(), value);
            }
        }
        let count = different.len();
        let fractions = different.values().any(|value| value.fract() != 0.0);
        let many = count > MANY_NUMBERS && (fractions || count * ROWS_OF_A_CLASS > numbers);
        let asks = if numbers == rows { fractions || many } else { numbers * 10 >= rows * 9 && many };
        if !asks {
            return Ok(());
        }
        let found = if numbers == rows {
            format!("{count} different numbers in {rows} rows")
        } else {
            format!("{count} different numbers in {numbers} of {rows} rows")
        };
        let place = format!("column {}", quoted(&spec.target));
        let expected = "classes, as data.files.task = \"classification\" says";
        let advice = "is it a number to predict? set data.files.task=regression; are they classes? list them in \
                      data.files.classes";
        Err(DataError::malformed(&spec.train, place, found, expected, advice))
    }

    fn drop_rows_without_client(&mut self, spec: &FilesSpec) -> Result<(), DataError> {
        let Some(at) = self.client else { return Ok(()) };
        let missing: Vec<usize> = (0..self.sheet.rows())
            .filter(|&row| self.kept[row] && self.sheet.cell(row, at).is_empty())
            .collect();
        let Some(&first) = missing.first() else { return Ok(()) };
        if spec.strict {
            let (path, place) = (self.sheet.path(first), self.place(first, at));
            let advice =
                "fill the cell or remove the row, or set data.files.strict=false, which leaves it out";
            return Err(DataError::malformed(&path, place, "an empty cell", "a value", advice));
        }
        self.drop_rows(&missing, &format!("no client in column {}", quoted(&spec.client)));
        Ok(())
    }

    /// Leaves rows out, and says so.
    fn drop_rows(&mut self, rows: &[usize], why: &str) {
        for &row in rows {
            self.kept[row] = false;
        }
        let lines: Vec<String> =
            rows.iter().take(NAMED_LINES).map(|&row| self.sheet.line(row).to_string()).collect();
        let more = if rows.len() > NAMED_LINES { ", ..." } else { "" };
        match rows.len() {
            0 => {}
            1 => self.notes.push(format!("1 row is left out, {why}: line {}", lines.join(", "))),
            count => {
                self.notes
                    .push(format!("{count} rows are left out, {why}: lines {}{more}", lines.join(", ")));
            }
        }
    }

    /// The first input that is no number in range.
    fn refuse_unreadable(&self) -> Result<(), DataError> {
        let range = Range::of_files(self.settings.standardize);
        for row in 0..self.sheet.rows() {
            for &at in &self.inputs {
                let cell = self.sheet.value(row, at);
                if !number(&cell).is_some_and(|value| range.holds(value)) {
                    let advice = if is_missing(&cell) {
                        "fill or remove such rows, or set data.files.strict=false, which encodes missing values"
                    } else {
                        "fill or remove such rows, or set data.files.strict=false, which encodes texts"
                    };
                    let (path, place) = (self.sheet.path(row), self.place(row, at));
                    return Err(DataError::malformed(&path, place, quoted(&cell), range.expected(), advice));
                }
            }
        }
        Ok(())
    }
}
