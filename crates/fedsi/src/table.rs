//! Plain tables: words to the left, numbers to the right.

use fedsi_data::shortened;

/// Letters of a cell: whatever is put into a table, its lines stay lines.
const LONGEST: usize = 120;

/// Letters that words are not cut below.
const SHORTEST: usize = 12;

/// Letters of a line where nobody says how many there are.
const DEFAULT_WIDTH: usize = 80;

/// No table fits into less.
const NARROWEST: usize = 40;

/// Rows of cells under a heading, columns as wide as they need to be.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// How many columns from the left hold words.
    words: usize,
    /// Whether the last column holds words as well.
    words_last: bool,
}

impl Table {
    pub(crate) fn new<'a>(words: usize, heading: impl IntoIterator<Item = &'a str>) -> Self {
        Self { rows: vec![heading.into_iter().map(str::to_owned).collect()], words, words_last: false }
    }

    /// The same with words in the last column too.
    pub(crate) fn words_last(self) -> Self {
        Self { words_last: true, ..self }
    }

    /// As text of at most `width` letters a line. Words are cut first, to no less than [`SHORTEST`] letters; then columns
    /// are left out from the right, and a last line names them and says where they are: `elsewhere`.
    pub(crate) fn fitted(&self, width: usize, elsewhere: &str) -> String {
        let mut widths = self.widths();
        let total = |widths: &[usize]| widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        // The widest words give way, a letter at a time, as long as that helps.
        while total(&widths) > width {
            let words = widths.iter_mut().take(self.words).filter(|own| **own > SHORTEST);
            let Some(widest) = words.max() else { break };
            *widest -= 1;
        }
        let mut shown = widths.len();
        while shown > 1 && total(&widths[..shown]) > width {
            shown -= 1;
        }
        let mut text = self.lines(&widths[..shown]);
        let heading = self.rows.first().map_or(&[][..], |heading| heading);
        if let Some(left_out) = heading.get(shown..).filter(|left_out| !left_out.is_empty()) {
            text.push_str(&format!(
                "not shown, {width} columns are too few: {}; {elsewhere}\n",
                left_out.join(", ")
            ));
        }
        text
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| shortened(&cell, LONGEST)).collect());
    }
}

impl Table {
    /// What each column needs.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }

    /// The columns of these widths, line by line; what is wider is cut.
    fn lines(&self, widths: &[usize]) -> String {
        let mut text = String::new();
        let last = self.rows.first().map_or(0, Vec::len).saturating_sub(1);
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                let cell = shortened(cell, width);
                // A width given to a format must fit into 16 bits; spaces need not.
                let space = " ".repeat(width.saturating_sub(cell.chars().count()));
                if column < self.words || (self.words_last && column == last) {
                    line.extend([gap, &cell, &space]);
                } else {
                    line.extend([gap, &space, &cell]);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.lines(&self.widths()))
    }
}

/// Letters of a line: those of the terminal that results go to, and 80 where they go elsewhere.
pub(crate) fn line_width() -> usize {
    let terminal = console::Term::stdout();
    let found = if terminal.is_term() { terminal.size_checked() } else { None };
    found.map_or(DEFAULT_WIDTH, |(_, columns)| usize::from(columns).max(NARROWEST))
}

/// Text in lines of at most so many letters, each after `indent` spaces; words are not divided.
pub(crate) fn wrapped(text: &str, width: usize, indent: usize) -> String {
    hanging(text, width, indent, indent)
}

/// The same with another indent of the first line.
pub(crate) fn hanging(text: &str, width: usize, first: usize, further: usize) -> String {
    let (mut lines, mut indent) = (vec![" ".repeat(first)], first);
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| {
            let used = line.chars().count();
            used == indent || used + 1 + word.chars().count() <= width
        });
        match line {
            Some(line) => {
                if line.chars().count() > indent {
                    line.push(' ');
                }
                line.push_str(word);
            }
            None => {
                indent = further;
                lines.push(format!("{}{word}", " ".repeat(indent)));
            }
        }
    }
    format!("{}\n", lines.join("\n"))
}

/// Bytes in a unit that reads well, a thousand times the next smaller, as pages have them.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::DecimalBytes(count).to_string()
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

    fn wide() -> Table {
        let mut table = Table::new(1, ["client", "rows", "accuracy", "ECE"]);
        let cells = |name: &str| [name.to_owned(), "10".to_owned(), "97.12%".to_owned(), "0.0123".to_owned()];
        table.row(cells("a client with a long name"));
        table.row(cells("b"));
        table
    }

    #[test]
    fn a_table_fits_or_says_what_it_leaves_out() {
        assert_eq!(wide().fitted(80, "nowhere"), wide().to_string());
        // 25 + 4 + 8 + 6 and three gaps are 49: words give way first.
        let cut = wide().fitted(40, "nowhere");
        assert!(
            cut.lines().all(|line| line.chars().count() <= 40) && cut.contains("a client with a…  "),
            "{cut}"
        );
        assert!(cut.contains("0.0123") && !cut.contains("not shown"));
        let less = wide().fitted(30, "--json has them");
        assert!(less.ends_with("not shown, 30 columns are too few: ECE; --json has them\n"), "{less}");
        assert!(less.lines().take(3).all(|line| line.chars().count() <= 30), "{less}");
        assert!(wide().fitted(1, "x").starts_with("client\n"), "the first column stays");
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 9, 2), "  one two\n  three\n");
        assert_eq!(wrapped("incomprehensibilities", 9, 2), "  incomprehensibilities\n");
        assert_eq!(wrapped("", 9, 2), "  \n");
        assert_eq!(hanging("one two three four", 9, 0, 2), "one two\n  three\n  four\n");
    }

    #[test]
    fn bytes_are_counted_by_thousands() {
        assert_eq!([999, 12_345_678].map(bytes), ["999 B", "12.35 MB"]);
        assert!(bytes(1_500).ends_with(" kB"), "{}", bytes(1_500));
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
