//! What the columns of a file that was made from `fedsi data export` are called.

use fedsi_data::{Federation, TableEncoding, Task, csv_text};

/// Columns that `fedsi data export` puts before those of the table; where the table has such a name, `fedsi_` is before it.
const PLACES: [&str; 3] = ["client", "row", "id"];

/// The names of the classes, and what `fedsi data export` calls the columns of its tables.
#[derive(Clone, Debug)]
pub(crate) struct ExportedNames {
    /// The classes; of a regression none.
    pub(super) classes: Vec<String>,
    /// Numbers that a regression predicts for a row; 0 for classes.
    pub(super) outputs: usize,
    /// The columns of the targets.
    targets: Vec<String>,
    /// The columns that are inputs.
    inputs: Vec<String>,
}

impl ExportedNames {
    /// Of a federation.
    pub(crate) fn of(federation: &dyn Federation) -> Self {
        let (classes, outputs) = match federation.task() {
            Task::Classification { classes } => {
                let numbers = || (0..classes).map(|class| class.to_string()).collect();
                (federation.class_names().map_or_else(numbers, <[String]>::to_vec), 0)
            }
            Task::Regression { outputs } => (Vec::new(), outputs),
        };
        let roles = federation.data_summary().map(|summary| summary.roles).unwrap_or_default();
        let targets = roles.into_iter().filter(|(role, _)| role == "target").map(|(_, name)| name).collect();
        let inputs = federation.table_encoding().map(TableEncoding::column_names).unwrap_or_default();
        Self { classes, outputs, targets, inputs }
    }

    #[cfg(test)]
    pub(super) const fn new(classes: Vec<String>, targets: Vec<String>, inputs: Vec<String>) -> Self {
        Self { classes, outputs: 0, targets, inputs }
    }

    /// Whether the table has a column of this name, so that the name does not mean what it otherwise does.
    pub(super) fn has(&self, name: &str) -> bool {
        self.targets.iter().chain(&self.inputs).any(|own| is(own, name))
    }

    /// Whether the export writes a column of this name.
    pub(super) fn writes(&self, name: &str) -> bool {
        let place = name.strip_prefix("fedsi_").unwrap_or(name);
        PLACES.contains(&place) || self.has(name)
    }

    /// Where the only target stands in a file.
    pub(super) fn target(&self, columns: &[String]) -> Option<usize> {
        let [target] = self.targets.as_slice() else { return None };
        columns.iter().position(|column| is(target, column))
    }

    /// Where each class stands in a file, if all of them do.
    pub(super) fn class_columns(&self, columns: &[String]) -> Option<Vec<usize>> {
        let place = |class: &String| columns.iter().position(|column| is(class, column));
        let found: Vec<usize> = self.classes.iter().map(place).collect::<Option<_>>()?;
        (!found.is_empty()).then_some(found)
    }
}

/// Whether a cell of a file says this text, as it is or as fedsi writes it.
pub(super) fn is(text: &str, cell: &str) -> bool {
    text == cell || csv_text(text) == cell
}
