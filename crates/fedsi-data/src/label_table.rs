//! A table of who holds how many samples of which class.

use std::fmt;

use crate::display_name::shortened;
use crate::federation::{Federation, Split};

/// Letters of a name that do not push the columns apart.
const LETTERS: usize = 12;

/// Samples per client and class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelTable {
    /// The names of the classes, or their numbers; empty for a regression.
    pub classes: Vec<String>,
    /// The clients, in order.
    pub clients: Vec<LabelRow>,
}

/// One client's line of a [`LabelTable`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRow {
    /// The client's name, or its number.
    pub client: String,
    /// Samples in all: for training, for testing.
    pub samples: [usize; 2],
    /// Training samples of each class.
    pub train: Vec<usize>,
    /// Test samples of each class.
    pub test: Vec<usize>,
}

/// Counts the samples of every client. Costs no inputs.
#[must_use]
pub fn label_table(federation: &dyn Federation) -> LabelTable {
    let clients: Vec<LabelRow> = (0..federation.clients())
        .map(|client| LabelRow {
            client: federation.client_name(client).map_or_else(|| client.to_string(), str::to_owned),
            samples: [Split::Train, Split::Test].map(|split| federation.count(client, split)),
            train: federation.label_counts(client, Split::Train),
            test: federation.label_counts(client, Split::Test),
        })
        .collect();
    let classes = clients.first().map_or(0, |row| row.train.len());
    let classes = match federation.class_names() {
        Some(names) => names.to_vec(),
        None => (0..classes).map(|class| class.to_string()).collect(),
    };
    LabelTable { classes, clients }
}

impl fmt::Display for LabelTable {
    /// One line per client, `train/test` per class, a dot for none, in aligned columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = |train: usize, test: usize| {
            if train + test == 0 { "·".to_owned() } else { format!("{train}/{test}") }
        };
        let mut lines = vec![vec!["client".to_owned(), "all".to_owned()]];
        lines[0].extend(self.classes.iter().map(|name| shortened(name, LETTERS)));
        for row in &self.clients {
            let mut line = vec![shortened(&row.client, LETTERS), pair(row.samples[0], row.samples[1])];
            line.extend(row.train.iter().zip(&row.test).map(|(&train, &test)| pair(train, test)));
            lines.push(line);
        }
        let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|at| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max())
            .map(Option::unwrap_or_default)
            .collect();
        for line in &lines {
            let cells = line.iter().zip(&widths).enumerate();
            let text: Vec<String> = cells
                .map(
                    |(at, (cell, &width))| {
                        if at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                    },
                )
                .collect();
            writeln!(f, "{}", text.join("  ").trim_end())?;
        }
        write!(f, "samples are train/test")
    }
}

#[cfg(test)]
mod tests {
    use crate::{DataSpec, PartitionSpec, Size};

    #[test]
    fn the_table_reads_well() {
        let partition = PartitionSpec { clients: 2, ..PartitionSpec::labels(10, 20, 80) };
        let data = DataSpec::defaults("digits", Size::Small);
        let federation = crate::open(&data, &partition, 1).unwrap();
        let text = super::label_table(federation.as_ref()).to_string();
        let expected = "\
client      all      0      1      2      3      4      5      6      7      8      9
0       100/400  20/80  20/80  20/80  20/80  20/80      ·      ·      ·      ·      ·
1       100/400      ·      ·      ·      ·      ·  20/80  20/80  20/80  20/80  20/80
samples are train/test";
        assert_eq!(text, expected);
    }
}
