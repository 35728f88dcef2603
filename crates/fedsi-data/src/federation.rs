//! What the rest of fedsi sees of data: clients with samples, materialised on demand.

use serde::{Deserialize, Serialize};

use crate::scale::Scaling;
use crate::spec::TaskKind;
use crate::table::{ColumnRange, DataSummary, TableEncoding};

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Task {
    /// One of `classes` classes.
    Classification {
        /// The number of classes.
        classes: usize,
    },
    /// `outputs` numbers.
    Regression {
        /// The number of numbers predicted for one sample.
        outputs: usize,
    },
}

impl Task {
    /// The task without its size.
    #[must_use]
    pub const fn kind(self) -> TaskKind {
        match self {
            Self::Classification { .. } => TaskKind::Classification,
            Self::Regression { .. } => TaskKind::Regression,
        }
    }
}

/// What is known of the samples' targets.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// The class of each sample, counted from 0.
    Classes(Vec<u32>),
    /// The values of each sample: samples x outputs, row-major, standardised where
    /// [`Federation::target_scaling`] says so.
    Values(Vec<f32>),
}

/// Samples of one client, materialised.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// How many samples there are.
    pub count: usize,
    /// The inputs: samples x features, row-major. Images are scaled to [-1, 1].
    pub inputs: Vec<f32>,
    /// The targets, in the order of the inputs.
    pub targets: Targets,
}

impl Samples {
    /// The samples at these positions, in this order; positions outside are left out. Copies what it selects.
    #[must_use]
    pub fn select(&self, positions: &[usize]) -> Self {
        let positions: Vec<usize> = positions.iter().copied().filter(|&at| at < self.count).collect();
        let targets = match &self.targets {
            Targets::Classes(classes) => Targets::Classes(positions.iter().map(|&at| classes[at]).collect()),
            Targets::Values(values) => Targets::Values(self.rows(values, &positions)),
        };
        Self { count: positions.len(), inputs: self.rows(&self.inputs, &positions), targets }
    }

    /// The samples at `chosen` positions, and all the others in their order. Copies all samples once.
    #[must_use]
    pub fn split(&self, chosen: &[usize]) -> (Self, Self) {
        let mut rest = vec![true; self.count];
        for &at in chosen {
            if let Some(keep) = rest.get_mut(at) {
                *keep = false;
            }
        }
        let rest: Vec<usize> = (0..self.count).filter(|&at| rest[at]).collect();
        (self.select(chosen), self.select(&rest))
    }

    fn rows(&self, values: &[f32], positions: &[usize]) -> Vec<f32> {
        let width = values.len().checked_div(self.count).unwrap_or(0);
        positions.iter().flat_map(|&at| values[at * width..(at + 1) * width].iter().copied()).collect()
    }
}

/// Which of a client's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Those it learns from.
    Train,
    /// Those it is judged by, after training.
    Test,
}

/// Clients and their samples.
///
/// Everything was validated when the federation was opened, so nothing here fails. A client number at or
/// above [`clients`](Self::clients) has no samples.
pub trait Federation: Send + Sync {
    /// The number of clients.
    fn clients(&self) -> usize;

    /// The client's own name, where the data has one.
    fn client_name(&self, client: usize) -> Option<&str>;

    /// The shape of one input: `[channels, height, width]` for images, `[features]` for tables.
    fn input_shape(&self) -> &[usize];

    /// What is predicted.
    fn task(&self) -> Task;

    /// The names of the classes, where they have any.
    fn class_names(&self) -> Option<&[String]>;

    /// How many samples a client has. Costs nothing.
    fn count(&self, client: usize, split: Split) -> usize;

    /// A client's samples. Built again at every call: costs their memory, and the time to copy or draw them.
    fn samples(&self, client: usize, split: Split) -> Samples;

    /// How many samples of each class a client has; empty for regression. Costs no inputs.
    fn label_counts(&self, client: usize, split: Split) -> Vec<usize>;

    /// The numbers of a client's rows within all rows of the data, in the order of its samples; `None` where samples are no
    /// rows of anything. Costs nothing.
    fn row_numbers(&self, _client: usize, _split: Split) -> Option<&[u32]> {
        None
    }

    /// How regression targets were standardised, one column per output; `None` where they are as in the data.
    fn target_scaling(&self) -> Option<&Scaling>;

    /// How inputs were standardised, one column per feature; `None` where they were not.
    fn input_scaling(&self) -> Option<&Scaling> {
        None
    }

    /// Whether its scalings or the encoding of its table come from the rows of all clients together, so that they would tell
    /// of each: as it is where there are any. To be overridden by data whose scalings were fixed beforehand.
    fn pools_rows(&self) -> bool {
        self.input_scaling().is_some()
            || self.target_scaling().is_some()
            || self.table_encoding().is_some_and(|encoding| !encoding.is_plain())
    }

    /// How the columns of a table became inputs, where the data is one.
    fn table_encoding(&self) -> Option<&TableEncoding> {
        None
    }

    /// By what a row of [`row_numbers`](Self::row_numbers) is known: its cell in the column `data.files.id`.
    fn row_id(&self, _row: u32) -> Option<String> {
        None
    }

    /// The cells of a row of a table as text, in the order of the encoding's columns.
    fn row_cells(&self, _row: u32) -> Option<Vec<String>> {
        None
    }

    /// The cells of a row of a table as text in the columns of its targets.
    fn row_targets(&self, _row: u32) -> Option<Vec<String>> {
        None
    }

    /// What each column holds in a client's own training rows, in the order of the encoding's columns. Costs reading them.
    fn column_ranges(&self, _client: usize) -> Option<Vec<ColumnRange>> {
        None
    }

    /// What is used of a table and how, for people.
    fn data_summary(&self) -> Option<DataSummary> {
        None
    }

    /// The names of the inputs, where they are columns of a table.
    fn input_columns(&self) -> Option<&[String]> {
        None
    }

    /// Whether inputs are images of bytes, scaled to [-1, 1].
    fn has_pixels(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        Samples {
            count: 3,
            inputs: vec![0.0, 1.0, 10.0, 11.0, 20.0, 21.0],
            targets: Targets::Classes(vec![5, 6, 7]),
        }
    }

    #[test]
    fn split_keeps_rows_together() {
        let (held, rest) = samples().split(&[1, 99]);
        assert_eq!(held.inputs, [10.0, 11.0]);
        assert_eq!(held.targets, Targets::Classes(vec![6]));
        assert_eq!(rest.inputs, [0.0, 1.0, 20.0, 21.0]);
        assert_eq!(rest.targets, Targets::Classes(vec![5, 7]));
        assert_eq!((held.count, rest.count), (1, 2));
    }

    #[test]
    fn several_outputs_are_selected_together() {
        let samples = Samples { targets: Targets::Values(vec![1., 2., 3., 4., 5., 6.]), ..samples() };
        assert_eq!(samples.select(&[2]).targets, Targets::Values(vec![5., 6.]));
    }
}
