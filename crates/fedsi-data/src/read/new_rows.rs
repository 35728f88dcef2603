//! Rows of a table that come after training.

use std::collections::HashMap;
use std::path::Path;

use super::inputs::InputForm;
use crate::display_name::display_name;
use crate::error::{DataError, quoted};
use crate::scale::Range;
use crate::spec::TaskKind;
use crate::table::{BadCell, Sheet, TableEncoding, column, is_missing_target, number, read_sheet};

/// Cells that cannot be read are listed up to so many.
const LISTED: usize = 10;

/// The cells of a table whose rows became inputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputTable {
    /// The names of all columns of the file.
    pub header: Vec<String>,
    /// Every column of the file as it is written: rows x columns.
    pub cells: Vec<Vec<String>>,
    /// Whose row each is, where the file has the client column.
    pub clients: Option<Vec<String>>,
    /// The cells that became inputs, in the order of the encoding's columns: for [`outside`](crate::outside). Empty where
    /// the model has no encoding of a table.
    pub used: Vec<Vec<String>>,
    /// The line of each row in the file, the header being line 1.
    pub lines: Vec<u64>,
    /// Cells that could not be read: they count as missing.
    pub bad_cells: usize,
    /// The first of them.
    pub first_bad_cells: Vec<BadCell>,
    /// Rows without a target that were left out.
    pub left_out: usize,
}

/// Columns to read as targets, and as what.
#[derive(Clone, Copy)]
pub(super) struct WantedTargets<'a> {
    pub(super) columns: &'a [&'a str],
    pub(super) task: TaskKind,
    /// The names of the classes, where they have any.
    pub(super) class_names: &'a [String],
}

/// What is read of a table.
#[derive(Default)]
pub(super) struct NewRows {
    pub(super) count: usize,
    /// Rows x features, ready for the network.
    pub(super) inputs: Vec<f32>,
    /// Classes as written.
    pub(super) labels: Vec<String>,
    /// Regression: rows x outputs.
    pub(super) values: Vec<f64>,
    pub(super) table: InputTable,
}

/// Reads a table's rows for a network that is trained already. Columns are found by their names, in any order, beside any
/// others.
pub(super) fn read(
    path: &Path,
    form: &InputForm<'_>,
    targets: Option<WantedTargets<'_>>,
) -> Result<NewRows, DataError> {
    let sheet = read_sheet(path)?;
    let strict = form.encoding.is_none() || form.files.is_some_and(|files| files.strict);
    let mut rows = NewRows::default();
    let kept = match targets {
        None => (0..sheet.rows()).collect(),
        Some(wanted) => read_targets(path, &sheet, wanted, form.range(), strict, &mut rows)?,
    };
    rows.count = kept.len();
    rows.table.lines = kept.iter().map(|&row| sheet.line(row)).collect();
    rows.table.left_out = sheet.rows() - kept.len();
    match form.encoding {
        Some(encoding) => encoded(path, &sheet, encoding, form, strict, &kept, &mut rows)?,
        None => rows.inputs = form.table_inputs(path, &features(path, &sheet, form, &kept)?)?,
    }
    let own = form.files.filter(|_| !form.pixels);
    if let Some(files) = own {
        let width = sheet.header.len();
        let cells = |row: &usize| (0..width).map(|at| sheet.cell(*row, at).to_owned()).collect();
        rows.table.cells = kept.iter().map(cells).collect();
        let client = sheet.header.iter().position(|name| *name == files.client && !name.is_empty());
        rows.table.clients =
            client.map(|at| kept.iter().map(|&row| sheet.cell(row, at).to_owned()).collect());
        rows.table.header = sheet.header;
    }
    Ok(rows)
}

fn place(sheet: &Sheet, row: usize, column: usize) -> String {
    format!("line {}, column {}", sheet.line(row), quoted(&sheet.header[column]))
}

/// Reads targets; answers which rows have one. Where that is not asked for, all must.
fn read_targets(
    path: &Path,
    sheet: &Sheet,
    wanted: WantedTargets<'_>,
    range: Range,
    strict: bool,
    rows: &mut NewRows,
) -> Result<Vec<usize>, DataError> {
    let columns =
        wanted.columns.iter().map(|name| column(path, &sheet.header, name)).collect::<Result<Vec<_>, _>>()?;
    let mut kept = Vec::new();
    for row in 0..sheet.rows() {
        let values: Vec<Option<f64>> = match wanted.task {
            TaskKind::Regression => {
                let value = |&at: &usize| number(&sheet.value(row, at)).filter(|&value| range.holds(value));
                columns.iter().map(value).collect()
            }
            TaskKind::Classification => {
                let there = |&at: &usize| {
                    let cell = sheet.cell(row, at);
                    let named = wanted.class_names.iter().any(|name| name == cell);
                    (named || !(cell.is_empty() || (!strict && is_missing_target(cell)))).then_some(0.0)
                };
                columns.iter().map(there).collect()
            }
        };
        match values.iter().position(Option::is_none) {
            Some(_) if !strict => continue,
            Some(at) => {
                let (place, cell) = (place(sheet, row, columns[at]), sheet.cell(row, columns[at]));
                let (found, expected) = match wanted.task {
                    TaskKind::Regression => (quoted(cell), range.expected()),
                    TaskKind::Classification => ("an empty cell".to_owned(), "a value"),
                };
                let advice = "fill the cell or remove the row";
                return Err(DataError::malformed(path, place, found, expected, advice));
            }
            None => kept.push(row),
        }
        match wanted.task {
            TaskKind::Regression => rows.values.extend(values.into_iter().flatten()),
            TaskKind::Classification => {
                rows.labels.extend(columns.iter().map(|&at| sheet.cell(row, at).to_owned()));
            }
        }
    }
    if kept.is_empty() {
        let found = format!("no target in any of {} rows", sheet.rows());
        let expected = format!("values in column {}", quoted(wanted.columns.first().unwrap_or(&"")));
        return Err(DataError::malformed(path, "the targets", found, expected, "fill the column"));
    }
    Ok(kept)
}

/// Encodes rows as the training rows were.
fn encoded(
    path: &Path,
    sheet: &Sheet,
    encoding: &TableEncoding,
    form: &InputForm<'_>,
    strict: bool,
    kept: &[usize],
    rows: &mut NewRows,
) -> Result<(), DataError> {
    if encoding.width() != form.features() {
        let found = format!("an encoding of {} inputs", encoding.width());
        let expected = format!("{}, as the network has", form.features());
        return Err(DataError::malformed(
            path,
            "the inputs",
            found,
            expected,
            "use the run's own model files",
        ));
    }
    let names: HashMap<&String, usize> =
        sheet.header.iter().enumerate().map(|(at, name)| (name, at)).collect();
    let mut places = Vec::with_capacity(encoding.columns.len());
    for column in &encoding.columns {
        let Some(&at) = names.get(&column.name) else {
            let found = format!("the columns {}", quoted(&sheet.header.join(", ")));
            let expected = format!("a column {}, as in training", quoted(&column.name));
            let advice = "add it, with empty cells where nothing is known";
            return Err(DataError::malformed(path, "line 1", found, expected, advice));
        };
        places.push(at);
    }
    for &row in kept {
        let cells: Vec<String> = places.iter().map(|&at| sheet.value(row, at).into_owned()).collect();
        if strict {
            let readable = |cell: &String| number(cell).is_some_and(|value| form.range().holds(value));
            if let Some(at) = cells.iter().position(|cell| !readable(cell)) {
                let place = place(sheet, row, places[at]);
                let advice = "fill or remove such rows, and encode texts as numbers";
                let expected = form.range().expected();
                return Err(DataError::malformed(path, place, quoted(&cells[at]), expected, advice));
            }
        }
        for at in encoding.encode(&cells, &mut rows.inputs) {
            rows.table.bad_cells += 1;
            if rows.table.first_bad_cells.len() < LISTED {
                rows.table.first_bad_cells.push(BadCell {
                    file: path
                        .file_name()
                        .map(|name| name.to_string_lossy().into_owned())
                        .unwrap_or_default(),
                    line: sheet.line(row),
                    column: encoding.columns[at].name.clone(),
                    found: display_name(&cells[at]),
                    remedy: format!("write a {}, or leave the cell empty", encoding.columns[at].kind),
                });
            }
        }
        rows.table.used.push(cells);
    }
    Ok(())
}

/// Numbers of a table, rows x features, with what messages about them need.
pub(super) struct Features {
    pub(super) columns: Vec<String>,
    pub(super) values: Vec<f64>,
    pub(super) lines: Vec<u64>,
}

/// The numbers of a table for a network that knows no encoding: all of them must be there.
fn features(path: &Path, sheet: &Sheet, form: &InputForm<'_>, kept: &[usize]) -> Result<Features, DataError> {
    let names = &sheet.header;
    let places: Vec<usize> = match form.columns {
        Some(known) => {
            // Tables may have a hundred thousand columns: each is looked up at once.
            let places: HashMap<&String, usize> =
                names.iter().enumerate().map(|(at, name)| (name, at)).collect();
            let place =
                |name: &String| places.get(name).copied().map_or_else(|| column(path, names, name), Ok);
            known.iter().map(place).collect::<Result<_, _>>()?
        }
        None => {
            refuse_numbers(path, names)?;
            let aside = form.aside();
            (0..names.len()).filter(|&at| !aside.contains(&names[at].as_str())).collect()
        }
    };
    let range = form.range();
    let mut values = Vec::with_capacity(kept.len() * places.len());
    for &row in kept {
        for &at in &places {
            let cell = sheet.value(row, at);
            let value = number(&cell).filter(|&value| range.holds(value)).ok_or_else(|| {
                let advice = "fill or remove such rows, and encode texts as numbers";
                DataError::malformed(path, place(sheet, row, at), quoted(&cell), range.expected(), advice)
            })?;
            values.push(value);
        }
    }
    let columns = places.iter().map(|&at| names[at].clone()).collect();
    Ok(Features { columns, values, lines: kept.iter().map(|&row| sheet.line(row)).collect() })
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
