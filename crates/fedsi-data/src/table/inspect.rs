//! What is used of a table, and what should be looked at before training.

use std::collections::{BTreeMap, HashSet};

use super::column_kind::{ColumnKind, Value};
use super::encoding::{ColumnEncoding, TableEncoding};
use super::giveaway::{Outcome, gives_away};
use super::identifier::{may_name_an_identifier, names_a_client, names_an_identifier};
use super::sheet::Sheet;
use super::summary::{BadCell, DataSummary, UsedColumn};
use crate::display_name::shortened;

/// Cells that cannot be read are listed up to so many, at most a few of a column.
const LISTED_CELLS: usize = 10;
const LISTED_OF_A_COLUMN: usize = 3;
/// Rows from which on values can be told to be all different.
const ENOUGH: usize = 20;
/// Letters of names and texts in warnings.
const LETTERS: usize = 40;
/// Most clients that a column of texts may name to look like one that says whose row it is.
const MOST_CLIENTS: usize = 1000;

/// A table, its encoding, and which of its rows are used.
pub(crate) struct Inspected<'a> {
    pub(crate) sheet: &'a Sheet,
    pub(crate) encoding: &'a TableEncoding,
    /// Where the encoding's columns stand in the table.
    pub(crate) places: &'a [usize],
    pub(crate) train: &'a [u32],
    pub(crate) test: &'a [u32],
    pub(crate) outcome: Outcome<'a>,
    /// Columns that are no inputs, as (role, name).
    pub(crate) roles: &'a [(String, String)],
}

/// Describes what is used, and names what looks wrong. Costs reading every used cell about three times.
pub(crate) fn inspect(table: &Inspected<'_>) -> DataSummary {
    let mut summary = DataSummary {
        rows: [table.train.len(), table.test.len()],
        inputs: table.encoding.width(),
        roles: table.roles.to_vec(),
        left_out: table.encoding.left_out.clone(),
        ..DataSummary::default()
    };
    if table.sheet.has_decimal_commas() {
        summary.warnings.push("numbers are written with decimal commas, and 12,5 is read as 12.5".to_owned());
    }
    let has = |role: &str| table.roles.iter().any(|(own, _)| own == role);
    let left_out = table.encoding.left_out.iter().map(|column| &column.name);
    let left_out = left_out.filter(|name| names_an_identifier(name));
    let ids = table.roles.iter().filter(|(role, _)| role == "id").map(|(_, name)| name);
    if !has("group") && !has("time") {
        summary.warnings.extend(left_out.chain(ids).filter_map(|name| repeated(table, name)));
    }
    let mut unreadable: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, (column, &place)) in table.encoding.columns.iter().zip(table.places).enumerate() {
        let mut missing = 0;
        for &row in table.train.iter().chain(table.test) {
            let cell = table.sheet.value(row as usize, place);
            match column.read(&cell) {
                Value::Number(_) | Value::Text(_) => {}
                Value::Missing => missing += 1,
                Value::Unreadable => {
                    missing += 1;
                    let count = unreadable.entry(at).or_default();
                    *count += 1;
                    if *count <= LISTED_OF_A_COLUMN && summary.first_bad_cells.len() < LISTED_CELLS {
                        summary.first_bad_cells.push(bad_cell(table, column, row, place));
                    }
                }
            }
        }
        let distinct = distinct(table, place);
        let warning = column_warning(table, column, place, distinct, has("client"));
        summary.warnings.extend(warning);
        summary.columns.push(UsedColumn {
            name: column.name.clone(),
            kind: column.kind,
            missing,
            distinct,
            encoding: column.in_words(),
            note: column.note.clone(),
        });
    }
    for (at, count) in unreadable {
        let column = &table.encoding.columns[at];
        summary.bad_cells += count;
        let (name, kind) = (shortened(&column.name, LETTERS), column.kind);
        let cells = if count == 1 { "1 cell is".to_owned() } else { format!("{count} cells are") };
        summary.warnings.push(format!("{name}: {cells} no {kind} and count as missing"));
    }
    summary
}

/// What to do about an identifier that many rows share.
fn repeated(table: &Inspected<'_>, name: &str) -> Option<String> {
    let place = table.sheet.header.iter().position(|column| column == name)?;
    let (rows, distinct) = (table.train.len(), distinct(table, place));
    let name = shortened(name, LETTERS);
    (20 * distinct < 19 * rows).then(|| {
        format!(
            "{name} has {distinct} different values in {rows} training rows: partition.group={name} keeps rows of one {name} \
             together, so that test rows are of others than training rows"
        )
    })
}

fn bad_cell(table: &Inspected<'_>, column: &ColumnEncoding, row: u32, place: usize) -> BadCell {
    let (sheet, row) = (table.sheet, row as usize);
    let path = sheet.path(row);
    let remedy = match column.kind {
        ColumnKind::Date => "write the date as 2024-03-15, or leave the cell empty",
        ColumnKind::Boolean => "write true or false, or leave the cell empty",
        ColumnKind::Number | ColumnKind::Category => "write a number, or leave the cell empty",
    };
    BadCell {
        file: path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        line: sheet.line(row),
        column: column.name.clone(),
        found: shortened(sheet.cell(row, place), LETTERS),
        remedy: remedy.to_owned(),
    }
}

/// Different texts of a column in training rows.
fn distinct(table: &Inspected<'_>, place: usize) -> usize {
    let cells = table.train.iter().map(|&row| table.sheet.cell(row as usize, place));
    cells.filter(|cell| !super::is_missing(cell)).collect::<HashSet<_>>().len()
}

/// What is strange about a column that is used, and what to do.
fn column_warning(
    table: &Inspected<'_>,
    column: &ColumnEncoding,
    place: usize,
    distinct: usize,
    knows_clients: bool,
) -> Option<String> {
    let name = shortened(&column.name, LETTERS);
    let ignore = format!("data.files.ignore={name}");
    let rows = table.train.len();
    if let Some(how) = gives_away(column, place, table.sheet, table.train, table.outcome) {
        return Some(format!("{name} {how}: if it is not known when a prediction is wanted, set {ignore}"));
    }
    if distinct <= 1 && rows > 1 && !column.missing {
        return Some(format!("{name} has the same value in every training row: {ignore} leaves it out"));
    }
    if column.kind == ColumnKind::Category
        && !knows_clients
        && distinct <= MOST_CLIENTS
        && names_a_client(&column.name)
    {
        return Some(format!(
            "{name} looks like the column that says whose row it is: set data.files.client={name}"
        ));
    }
    let all_differ = rows >= ENOUGH && 20 * distinct >= 19 * rows;
    let named = names_an_identifier(&column.name) && rows > 1 && 2 * distinct >= rows;
    let whole = || column.kind != ColumnKind::Number || is_whole(table, column, place);
    if named || (may_name_an_identifier(&column.name) && all_differ && whole()) {
        return Some(format!(
            "{name} looks like an identifier: {ignore} leaves it out, data.files.id={name} shows it beside predictions"
        ));
    }
    if column.kind == ColumnKind::Number && all_differ && is_whole(table, column, place) {
        return Some(format!(
            "{name} has another whole number in nearly every row: if it identifies rows, set {ignore}"
        ));
    }
    (column.kind == ColumnKind::Date).then(|| {
        format!(
            "{name} is a date, and rows to predict come later than training rows: {ignore} leaves it out, unless its trend \
             should count"
        )
    })
}

fn is_whole(table: &Inspected<'_>, column: &ColumnEncoding, place: usize) -> bool {
    table.train.iter().all(|&row| match column.read(&table.sheet.value(row as usize, place)) {
        Value::Number(value) => value.fract() == 0.0,
        _ => true,
    })
}
