//! Parquet files.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::{Compression, GzipLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;

use super::cell::{clock_text, day_text};
use super::sheet::Sheet;
use crate::error::{DataError, one_line, quoted};
use crate::file::open_file;

/// Reads a Parquet file: values as text, as a CSV file would have them; missing ones empty. Rows are numbered as lines are,
/// the first being line 2.
pub(crate) fn read(path: &Path) -> Result<Sheet, DataError> {
    // The crate checks what it reads, and still meets damage that it does not expect.
    let read = catch_unwind(AssertUnwindSafe(|| read_rows(path)));
    read.unwrap_or_else(|_| Err(damaged(path, "a damaged file".to_owned())))
}

fn damaged(path: &Path, found: String) -> DataError {
    let advice = "write it again, without encryption and compressed by snappy or gzip, or save it as CSV";
    DataError::malformed(path, "the file", found, "a whole Parquet file", advice)
}

fn read_rows(path: &Path) -> Result<Sheet, DataError> {
    let wrong = |error: ParquetError| damaged(path, quoted(&one_line(&error.to_string())));
    let (file, _) = open_file(path)?;
    let reader = SerializedFileReader::new(file).map_err(wrong)?;
    let chunks = reader.metadata().row_groups().iter().flat_map(RowGroupMetaData::columns);
    let readable = [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP(GzipLevel::default())];
    let mut other = chunks.map(ColumnChunkMetaData::compression).filter(|found| {
        !readable.iter().any(|known| std::mem::discriminant(known) == std::mem::discriminant(found))
    });
    if let Some(compression) = other.next() {
        let name = format!("{compression:?}").to_lowercase();
        let name: String = name.chars().take_while(char::is_ascii_alphanumeric).collect();
        let advice = "write it again with compression=\"snappy\", or save it as CSV";
        let (found, expected) = (format!("compression by {name}"), "none, snappy or gzip");
        return Err(DataError::malformed(path, "the columns", found, expected, advice));
    }
    let schema = reader.metadata().file_metadata().schema_descr();
    let mut names: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for field in schema.root_schema().get_fields() {
        if !field.is_primitive() {
            let found = format!("column {} of lists or groups", quoted(field.name()));
            let advice = "keep columns of single values, or save the table as CSV";
            return Err(DataError::malformed(path, "the columns", found, "single values", advice));
        }
        if !seen.insert(field.name().to_owned()) {
            let found = format!("column {} twice", quoted(field.name()));
            return Err(DataError::malformed(
                path,
                "the columns",
                found,
                "each column once",
                "rename one of them",
            ));
        }
        names.push(field.name().to_owned());
    }
    let (columns, mut sheet) = (names.len(), Sheet::new(names));
    for (row, line) in reader.get_row_iter(None).map_err(wrong)?.zip(2_u64..) {
        let cells: Vec<String> =
            row.map_err(wrong)?.into_columns().iter().map(|(_, field)| text(field)).collect();
        if cells.len() != columns {
            return Err(damaged(path, format!("{} values in row {}", cells.len(), line - 2)));
        }
        sheet.push(line, cells.iter().map(|cell| cell.trim()));
    }
    sheet.end_file(path.to_path_buf(), false);
    if columns == 0 || sheet.rows() == 0 {
        return Err(DataError::malformed(path, "the file", "no rows", "rows of columns", "add rows of data"));
    }
    Ok(sheet)
}

/// A value as a CSV file would have it.
fn text(field: &Field) -> String {
    let moment = |seconds: f64| {
        let days = (seconds / 86_400.0).floor();
        format!("{}T{}", day_text(days), clock_text(seconds - 86_400.0 * days))
    };
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => String::from_utf8_lossy(bytes.data()).into_owned(),
        Field::Float(value) if value.is_nan() => String::new(),
        Field::Double(value) if value.is_nan() => String::new(),
        Field::Float(value) => value.to_string(),
        Field::Double(value) => value.to_string(),
        Field::Date(days) => day_text(f64::from(*days)),
        Field::TimestampMillis(time) => moment(*time as f64 / 1e3),
        Field::TimestampMicros(time) => moment(*time as f64 / 1e6),
        Field::TimeMillis(time) => (f64::from(*time) / 1e3).to_string(),
        Field::TimeMicros(time) => (*time as f64 / 1e6).to_string(),
        other => other.to_string(),
    }
}
