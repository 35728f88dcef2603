//! `file`: a CSV that says which sample belongs to whom.

use std::path::Path;

use fedsi_random::Streams;

use super::owned::{gather, numbered};
use super::{ClientRows, Table};
use crate::error::{DataError, quoted};
use crate::federation::Split;
use crate::spec::PartitionSpec;
use crate::table::{column, read_csv};

/// Reads the assignment and gives each sample to its client. Samples that the file does not name are unused.
pub(super) fn assigned(
    table: &Table<'_>,
    spec: &PartitionSpec,
    streams: &Streams,
) -> Result<Vec<ClientRows>, DataError> {
    let path = spec.path.as_path();
    if path.as_os_str().is_empty() {
        let expected = "the path of a CSV with the columns index, client and optionally split";
        return Err(DataError::setting("partition.path", "\"\"", expected));
    }
    let lines = read(path, table)?;
    let given: Vec<String> = lines.iter().map(|line| line.client.clone()).collect();
    let (names, numbers) = numbered(&given);
    let rows = lines.iter().zip(numbers).map(|(line, owner)| (line.index, owner as usize, line.split));
    gather(table, 0, names, rows, spec, streams)
}

struct Line {
    index: u32,
    client: String,
    split: Option<Split>,
}

fn read(path: &Path, table: &Table<'_>) -> Result<Vec<Line>, DataError> {
    let rows = table.rows;
    let sheet = read_csv(path)?;
    let names = &sheet.header;
    let index_column = column(path, names, "index")?;
    let client_column = column(path, names, "client")?;
    let split_column = names.iter().position(|name| name == "split");
    let mut seen = vec![false; rows];
    let mut lines = Vec::new();
    for line in 0..sheet.rows() {
        let number = sheet.line(line);
        let bad = |column: &str, cell: &str, expected: String, advice| {
            DataError::malformed(
                path,
                format!("line {number}, column {column}"),
                quoted(cell),
                expected,
                advice,
            )
        };
        let cell = sheet.cell(line, index_column);
        let index = cell.parse::<u32>().ok().filter(|&index| (index as usize) < rows);
        let Some(index) = index else {
            let expected = format!("a sample's number, 0 to {}", rows.saturating_sub(1));
            return Err(bad("index", cell, expected, "number samples from 0, those for training first"));
        };
        if std::mem::replace(&mut seen[index as usize], true) {
            return Err(bad("index", cell, "each sample once".to_owned(), "remove one of the two lines"));
        }
        let client = sheet.cell(line, client_column);
        if client.is_empty() {
            return Err(bad(
                "client",
                client,
                "a client's name".to_owned(),
                "fill the cell or remove the line",
            ));
        }
        // Where there is a test file, its rows are for testing, whatever the column says.
        let of_test_file = table.train_rows.map(|first| index as usize >= first);
        let split = match split_column.map(|at| sheet.cell(line, at)) {
            None => of_test_file.map(|test| if test { Split::Test } else { Split::Train }),
            Some(cell @ "train") if of_test_file == Some(true) => {
                let advice = "correct the cell, or move the row to data.files.train";
                return Err(bad("split", cell, "test for a row of data.files.test".to_owned(), advice));
            }
            Some("train") => Some(Split::Train),
            Some("test") => Some(Split::Test),
            Some(cell) => return Err(bad("split", cell, "train or test".to_owned(), "correct the cell")),
        };
        if table.keeps(index) {
            lines.push(Line { index, client: client.to_owned(), split });
        }
    }
    Ok(lines)
}
