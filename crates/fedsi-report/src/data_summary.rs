//! `data.json`: which columns of a table were used, and how.

use std::path::Path;

use fedsi_data::display_name;
use serde::Deserialize;
use serde_json::Value;

/// Lines shown of each list.
const MAX_LINES: usize = 200;

/// What a run says of the table that it was made from. Read as far as it is there: whoever writes it may add to it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct DataSummary {
    /// The training file's name.
    pub(crate) file: String,
    /// Inputs of the network.
    pub(crate) inputs: usize,
    /// Columns that are something else than inputs: what, and their names.
    pub(crate) roles: Vec<(String, String)>,
    /// The columns that are inputs.
    pub(crate) columns: Vec<UsedColumn>,
    pub(crate) left_out: Vec<LeftOut>,
    /// What to look at.
    pub(crate) warnings: Vec<String>,
    /// How many cells could not be read, or a list of them.
    bad_cells: Value,
    first_bad_cells: Vec<BadCell>,
}

/// A column that is an input.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct UsedColumn {
    pub(crate) name: String,
    kind: Value,
    pub(crate) missing: usize,
    pub(crate) distinct: usize,
    pub(crate) encoding: String,
    note: Option<String>,
}

/// A column that is none, and why.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct LeftOut {
    pub(crate) name: String,
    pub(crate) why: String,
}

/// A cell that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct BadCell {
    file: String,
    line: u64,
    column: String,
    found: String,
    remedy: String,
}

impl DataSummary {
    /// The run's; none where it has none, or where it cannot be read: a page can do without.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read(folder.join("data.json")).ok()?;
        let mut found: Self = serde_json::from_slice(&text).ok()?;
        found.columns.truncate(MAX_LINES);
        found.left_out.truncate(MAX_LINES);
        found.warnings.truncate(MAX_LINES);
        let names = found.columns.iter_mut().map(|column| &mut column.name);
        let names = names.chain(found.left_out.iter_mut().map(|column| &mut column.name));
        // From here on they are only shown.
        names.for_each(|name| *name = display_name(name));
        Some(found).filter(|found| !found.columns.is_empty() || !found.left_out.is_empty())
    }

    /// How many cells could not be read.
    pub(crate) fn bad_cells(&self) -> u64 {
        match &self.bad_cells {
            Value::Array(all) => all.len() as u64,
            count => count.as_u64().unwrap_or(0),
        }
    }

    /// The first of them, a line each.
    pub(crate) fn bad_cell_lines(&self) -> Vec<String> {
        let words = |cell: &BadCell| {
            let found = fedsi_data::shortened(&cell.found, 40);
            format!(
                "{}, line {}, {}: “{found}”; {}",
                cell.file,
                cell.line,
                display_name(&cell.column),
                cell.remedy
            )
        };
        self.first_bad_cells.iter().take(10).map(words).collect()
    }

    /// Whether there is anything to note of a column.
    pub(crate) fn has_notes(&self) -> bool {
        self.columns.iter().any(|column| !column.note().is_empty())
    }

    /// What the other columns are for, in a line.
    pub(crate) fn roles_in_words(&self) -> String {
        let words: Vec<String> =
            self.roles.iter().map(|(role, name)| format!("{role}: {}", display_name(name))).collect();
        words.join("; ")
    }
}

impl UsedColumn {
    /// What its values are, in a word.
    pub(crate) fn kind(&self) -> String {
        self.kind.as_str().map_or_else(String::new, str::to_owned)
    }

    /// What is worth knowing of it.
    pub(crate) fn note(&self) -> &str {
        self.note.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<DataSummary> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data.json"), text).unwrap();
        DataSummary::read(folder.path())
    }

    #[test]
    fn it_is_read_as_far_as_it_is_there() {
        let text = r#"{"file": "patients.csv", "rows": [10, 5], "inputs": 4, "roles": [["target", "outcome"]],
            "columns": [{"name": "age", "kind": "number", "missing": 3, "distinct": 60, "encoding": "standardised", "note": null}],
            "left_out": [{"name": "patient_id", "why": "it looks like an identifier"}], "warnings": ["look"],
            "bad_cells": 2, "first_bad_cells": [{"file": "a.csv", "line": 7, "column": "age", "found": "old", "remedy": "write a number"}]}"#;
        // As it is written by runs.
        serde_json::from_str::<fedsi_data::DataSummary>(text).unwrap();
        let whole = read(text).unwrap();
        assert_eq!(whole.left_out[0].why, "it looks like an identifier");
        assert_eq!((whole.columns[0].kind().as_str(), whole.columns[0].note()), ("number", ""));
        assert!(!whole.has_notes());
        assert_eq!((whole.bad_cells(), whole.roles_in_words().as_str()), (2, "target: outcome"));
        assert_eq!(whole.bad_cell_lines(), ["a.csv, line 7, age: “old”; write a number"]);
        let less = read(r#"{"columns": [{"name": "age"}], "bad_cells": [1, 2, 3]}"#).unwrap();
        assert_eq!((less.bad_cells(), less.columns[0].missing), (3, 0));
        for nothing in ["{}", "[]", "{", r#"{"columns": 3}"#] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }
}
