//! The cells of tables as text, in memory.

use std::borrow::Cow;
use std::path::PathBuf;

use super::cell::with_point;

/// All cells of one or more files with the same columns. Costs the text and eight bytes a cell.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    /// The names of the columns.
    pub(crate) header: Vec<String>,
    text: String,
    /// Where each cell ends, row by row.
    ends: Vec<usize>,
    /// The line of each row in its file.
    lines: Vec<u64>,
    /// The files: up to which row each goes, and whether its numbers may have decimal commas.
    files: Vec<SheetFile>,
}

#[derive(Debug)]
struct SheetFile {
    path: PathBuf,
    end: usize,
    decimal_comma: bool,
}

impl Sheet {
    pub(crate) fn new(header: Vec<String>) -> Self {
        Self { header, ..Self::default() }
    }

    /// Appends a row, which must have as many cells as there are columns.
    pub(crate) fn push<'a>(&mut self, line: u64, cells: impl Iterator<Item = &'a str>) {
        for cell in cells {
            self.text.push_str(cell);
            self.ends.push(self.text.len());
        }
        self.lines.push(line);
    }

    /// Says that all rows up to here come from this file.
    pub(crate) fn end_file(&mut self, path: PathBuf, decimal_comma: bool) {
        self.files.push(SheetFile { path, end: self.rows(), decimal_comma });
    }

    /// Appends the rows of another sheet, in which these columns stand at `places`; those that it lacks are empty.
    pub(crate) fn append(&mut self, other: &Self, places: &[Option<usize>]) {
        let before = self.rows();
        for row in 0..other.rows() {
            for place in places {
                self.text.push_str(place.map_or("", |place| other.cell(row, place)));
                self.ends.push(self.text.len());
            }
            self.lines.push(other.lines[row]);
        }
        self.files.extend(other.files.iter().map(|file| SheetFile {
            path: file.path.clone(),
            end: before + file.end,
            decimal_comma: file.decimal_comma,
        }));
    }

    pub(crate) fn rows(&self) -> usize {
        self.lines.len()
    }

    /// A cell as it is written.
    pub(crate) fn cell(&self, row: usize, column: usize) -> &str {
        let at = row * self.header.len() + column;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start..self.ends[at]]
    }

    /// A cell with a point before decimals, whatever the file has.
    pub(crate) fn value(&self, row: usize, column: usize) -> Cow<'_, str> {
        let cell = self.cell(row, column);
        if self.file(row).is_some_and(|file| file.decimal_comma)
            && let Some(number) = with_point(cell)
        {
            return Cow::Owned(number);
        }
        Cow::Borrowed(cell)
    }

    /// Whether any number has a decimal comma.
    pub(crate) fn has_decimal_commas(&self) -> bool {
        let written = |row: usize| {
            self.file(row).is_some_and(|file| file.decimal_comma)
                && (0..self.header.len()).any(|column| with_point(self.cell(row, column)).is_some())
        };
        (0..self.rows()).any(written)
    }

    /// The line of a row in its file, the header being line 1.
    pub(crate) fn line(&self, row: usize) -> u64 {
        self.lines.get(row).copied().unwrap_or(0)
    }

    /// The file of a row.
    pub(crate) fn path(&self, row: usize) -> PathBuf {
        self.file(row).map(|file| file.path.clone()).unwrap_or_default()
    }

    fn file(&self, row: usize) -> Option<&SheetFile> {
        self.files.iter().find(|file| row < file.end)
    }
}
