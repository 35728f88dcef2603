//! Plain tables: words to the left, numbers to the right.

use fedsi_data::shortened;

/// Letters of a cell: whatever is put into a table, its lines stay lines.
const LONGEST: usize = 120;

/// Rows of cells under a heading, columns as wide as they need to be.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// How many columns from the left hold words.
    words: usize,
}

impl Table {
    pub(crate) fn new<'a>(words: usize, heading: impl IntoIterator<Item = &'a str>) -> Self {
        Self { rows: vec![heading.into_iter().map(str::to_owned).collect()], words }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| shortened(&cell, LONGEST)).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                // A width given to a format must fit into 16 bits; spaces need not.
                let space = " ".repeat(width.saturating_sub(cell.chars().count()));
                if column < self.words {
                    line.extend([gap, cell, &space]);
                } else {
                    line.extend([gap, &space, cell]);
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Bytes in a unit that reads well.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let mut table = Table::new(1, ["client", "n"]);
        table.row(["a".to_owned(), "10".to_owned()]);
        table.row(["bb".to_owned(), "5".to_owned()]);
        assert_eq!(table.to_string(), "client   n\na       10\nbb       5\n");
    }

    #[test]
    fn a_cell_as_long_as_a_file_stays_a_line() {
        let mut table = Table::new(1, ["client", "n"]);
        table.row(["x\n".repeat(70_000), "1".to_owned()]);
        let text = table.to_string();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= LONGEST + 3) && text.contains('…'));
    }
}
