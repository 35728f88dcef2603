//! CSV files with a header: their delimiter, columns and rows, and what can be wrong with them.

use std::collections::HashSet;
use std::path::Path;

use csv::{ByteRecord, Reader, ReaderBuilder, StringRecord};

use super::sheet::Sheet;
use crate::error::{DataError, one_line, quoted};
use crate::file::read_file;

/// What may stand between cells.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// How much of a file is looked at to find its delimiter.
const LOOKED_AT: usize = 1 << 16;
const RECORDS_LOOKED_AT: usize = 50;

/// Reads a CSV file with a header. The delimiter is found by itself; quotes, CRLF and a byte order mark are understood, and
/// with semicolons or tabs between cells numbers may have decimal commas.
pub(crate) fn read_csv(path: &Path) -> Result<Sheet, DataError> {
    let bytes = read_file(path)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let delimiter = delimiter(bytes);
    let mut reader = reader(bytes, delimiter, false);
    let mut lines = Lines { bytes, at: 0, line: 1 };
    let header = match reader.headers() {
        Ok(record) => headers(path, record)?,
        Err(error) => return Err(csv_error(path, error, &mut lines)),
    };
    let mut sheet = Sheet::new(header);
    let mut record = StringRecord::new();
    loop {
        match reader.read_record(&mut record) {
            Err(error) => return Err(csv_error(path, error, &mut lines)),
            Ok(false) => break,
            Ok(true) => {
                let start = record.position().map_or(0, csv::Position::byte);
                sheet.push(lines.of(start), record.iter());
            }
        }
    }
    sheet.end_file(path.to_path_buf(), matches!(delimiter, b';' | b'\t'));
    if sheet.rows() == 0 {
        return Err(DataError::malformed(path, "line 2", "the end of the file", "a row", "add rows of data"));
    }
    Ok(sheet)
}

fn reader(bytes: &[u8], delimiter: u8, flexible: bool) -> Reader<&[u8]> {
    let mut builder = ReaderBuilder::new();
    builder.has_headers(true).delimiter(delimiter).flexible(flexible).trim(csv::Trim::All).from_reader(bytes)
}

/// The delimiter that divides the header and most of the first rows into the same number of cells; of several such the one
/// that makes most cells.
fn delimiter(bytes: &[u8]) -> u8 {
    let start = &bytes[..bytes.len().min(LOOKED_AT)];
    let likeness = |delimiter: u8| {
        let mut reader = reader(start, delimiter, true);
        let cells = reader.byte_headers().map_or(0, ByteRecord::len);
        let mut record = ByteRecord::new();
        let (mut same, mut all) = (0_usize, 0_usize);
        while all < RECORDS_LOOKED_AT && matches!(reader.read_byte_record(&mut record), Ok(true)) {
            // The last record may be cut off.
            if start.len() < bytes.len() && reader.position().byte() as usize >= start.len() {
                break;
            }
            all += 1;
            same += usize::from(record.len() == cells);
        }
        // Whether it divides anything, the share of like rows in percent, and cells.
        (cells > 1, (100 * same).checked_div(all).unwrap_or(0), cells)
    };
    let mut best = (DELIMITERS[0], likeness(DELIMITERS[0]));
    for delimiter in &DELIMITERS[1..] {
        let found = likeness(*delimiter);
        if found > best.1 {
            best = (*delimiter, found);
        }
    }
    best.0
}

/// Counts lines up to where a record starts: with CRLF the reader's own count lags behind.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line of what starts at this byte, the first being line 1. Starts must not decrease.
    fn of(&mut self, start: u64) -> u64 {
        let mut end = usize::try_from(start).unwrap_or(usize::MAX).clamp(self.at, self.bytes.len());
        while self.bytes.get(end).is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
            end += 1;
        }
        let next = |at: usize| self.bytes.get(at + 1).copied();
        let ends_line = |at: &usize| match self.bytes[*at] {
            b'\n' => true,
            b'\r' => next(*at) != Some(b'\n'),
            _ => false,
        };
        self.line += (self.at..end).filter(ends_line).count() as u64;
        self.at = end;
        self.line
    }
}

/// The names of the columns, each of them once.
fn headers(path: &Path, record: &StringRecord) -> Result<Vec<String>, DataError> {
    let names: Vec<String> = record.iter().map(|name| name.trim().to_owned()).collect();
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
        let likeness = |name: &&String| strsim::jaro_winkler(wanted, name);
        let alike = names.iter().filter(|name| likeness(name) > 0.75);
        let nearest = alike.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let hint = nearest.map(|name| format!(" (did you mean {}?)", quoted(name))).unwrap_or_default();
        let expected = format!("a column {}{hint}", quoted(wanted));
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
fn csv_error(path: &Path, error: csv::Error, lines: &mut Lines<'_>) -> DataError {
    let line = error.position().map_or(1, |position| lines.of(position.byte()));
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
