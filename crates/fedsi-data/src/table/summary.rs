//! What is used of a table and how: for people, before training and on pages.

use serde::{Deserialize, Serialize};

use super::column_kind::ColumnKind;
use super::encoding::LeftOut;

/// What is used of a table and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataSummary {
    /// The training file's name.
    pub file: String,
    /// Rows that are used: for training, for testing.
    pub rows: [usize; 2],
    /// Inputs of the network.
    pub inputs: usize,
    /// What is predicted, and the columns that are something else than inputs: "target", "client", "id", "group", "time"
    /// with their names.
    pub roles: Vec<(String, String)>,
    /// The columns that are inputs.
    pub columns: Vec<UsedColumn>,
    /// Columns that are none, and why.
    pub left_out: Vec<LeftOut>,
    /// What to look at, with what to do about it.
    pub warnings: Vec<String>,
    /// Cells that could not be read: they count as missing.
    pub bad_cells: usize,
    /// The first of them.
    pub first_bad_cells: Vec<BadCell>,
}

/// A column that is an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsedColumn {
    /// What the table calls it.
    pub name: String,
    /// What its values are.
    pub kind: ColumnKind,
    /// Rows without a value that can be read, of all that are used.
    pub missing: usize,
    /// Different values in training rows.
    pub distinct: usize,
    /// How it becomes inputs, in words.
    pub encoding: String,
    /// What is worth knowing of it.
    pub note: Option<String>,
}

/// A cell that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadCell {
    /// The file's name.
    pub file: String,
    /// The line of the file, the header being line 1; of a Parquet file the row, counted the same way.
    pub line: u64,
    /// The column.
    pub column: String,
    /// What is there.
    pub found: String,
    /// What to do.
    pub remedy: String,
}
