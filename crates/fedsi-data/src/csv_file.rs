//! CSV files with a header: opening them, their columns, and what can be wrong with them.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use csv::{Reader, ReaderBuilder};

use crate::error::{DataError, one_line, quoted};
use crate::file::open_file;

/// Opens a CSV file with a header.
pub(crate) fn open_csv(path: &Path) -> Result<Reader<File>, DataError> {
    let (file, _) = open_file(path)?;
    Ok(ReaderBuilder::new().has_headers(true).trim(csv::Trim::All).from_reader(file))
}

/// The names of the columns, each of them once.
pub(crate) fn headers(path: &Path, reader: &mut Reader<File>) -> Result<Vec<String>, DataError> {
    let record = reader.headers().map_err(|error| csv_error(path, error))?;
    // Spreadsheets begin their files with a byte order mark that is not part of the first name.
    let names: Vec<String> =
        record.iter().map(|name| name.trim_start_matches('\u{feff}').trim().to_owned()).collect();
    let mut seen = HashSet::with_capacity(names.len());
    for name in &names {
        if !seen.insert(name.as_str()) {
            let found = format!("column {} twice", quoted(name));
            return Err(DataError::malformed(
                path,
                "line 1",
                found,
                "each column once",
                "rename one of them, or begin the file with a header",
            ));
        }
    }
    if names.is_empty() {
        let advice = "begin the file with the names of its columns";
        return Err(DataError::malformed(path, "line 1", "an empty file", "a header", advice));
    }
    Ok(names)
}

/// Where a column stands.
pub(crate) fn column(path: &Path, names: &[String], wanted: &str) -> Result<usize, DataError> {
    names.iter().position(|name| name == wanted).ok_or_else(|| {
        let found = format!("the columns {}", quoted(&names.join(", ")));
        let expected = format!("a column {}", quoted(wanted));
        DataError::malformed(
            path,
            "line 1",
            found,
            expected,
            "name an existing column, or begin with a header",
        )
    })
}

/// An error of the CSV reader in our words.
pub(crate) fn csv_error(path: &Path, error: csv::Error) -> DataError {
    let line = error.position().map_or(0, csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(source) => DataError::io("read", path, source),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => DataError::malformed(
            path,
            format!("line {line}"),
            format!("{len} cells"),
            format!("{expected_len}, as in the header"),
            "complete the row, or quote cells that contain commas",
        ),
        csv::ErrorKind::Utf8 { .. } => DataError::malformed(
            path,
            format!("line {line}"),
            "broken text",
            "UTF-8",
            "save the file as UTF-8",
        ),
        other => {
            let found = one_line(&format!("{other:?}"));
            DataError::malformed(path, format!("line {line}"), found, "a CSV row", "correct the row")
        }
    }
}
