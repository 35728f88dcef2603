//! Tables as text: for a README, and for a paper.

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextTable {
    /// The columns' names; the first is that of the rows.
    pub heading: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<TextCell>>,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextCell {
    /// What it says.
    pub text: String,
    /// Whether it stands out: the best of its column.
    pub is_best: bool,
}

impl From<String> for TextCell {
    fn from(text: String) -> Self {
        Self { text, is_best: false }
    }
}

impl TextTable {
    /// Columns of a terminal; the best of a column has a star.
    #[must_use]
    pub fn plain(&self) -> String {
        let text = |cell: &TextCell| if cell.is_best { format!("*{}", cell.text) } else { cell.text.clone() };
        let rows: Vec<Vec<String>> = std::iter::once(self.heading.clone())
            .chain(self.rows.iter().map(|row| row.iter().map(text).collect()))
            .collect();
        let width = |place: usize| {
            rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.chars().count()).max()
        };
        let mut all = String::new();
        for row in &rows {
            for (place, cell) in row.iter().enumerate() {
                let width = width(place).unwrap_or(0);
                let padded = if place == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
                all.push_str(&padded);
            }
            all.push('\n');
        }
        all
    }

    /// A pipe table, numbers to the right.
    #[must_use]
    pub fn markdown(&self) -> String {
        let escaped = |text: &str| text.replace('|', "\\|");
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut all = line(self.heading.iter().map(|title| escaped(title)).collect());
        let rule: Vec<&str> =
            (0..self.heading.len()).map(|place| if place == 0 { ":---" } else { "---:" }).collect();
        all.push_str(&format!("|{}|\n", rule.join("|")));
        for row in &self.rows {
            let cell = |cell: &TextCell| {
                let text = escaped(&cell.text);
                if cell.is_best { format!("**{text}**") } else { text }
            };
            all.push_str(&line(row.iter().map(cell).collect()));
        }
        all
    }

    /// A booktabs tabular.
    #[must_use]
    pub fn latex(&self) -> String {
        let columns = "r".repeat(self.heading.len().saturating_sub(1));
        let line = |cells: Vec<String>| format!("  {} \\\\\n", cells.join(" & "));
        let packages = "% needs \\usepackage{booktabs,amssymb}\n";
        let mut all = format!("{packages}\\begin{{tabular}}{{l{columns}}}\n  \\toprule\n");
        all.push_str(&line(self.heading.iter().map(|title| latex(title)).collect()));
        all.push_str("  \\midrule\n");
        for row in &self.rows {
            let cell = |cell: &TextCell| {
                let text = latex(&cell.text);
                if cell.is_best { format!("\\textbf{{{text}}}") } else { text }
            };
            all.push_str(&line(row.iter().map(cell).collect()));
        }
        all.push_str("  \\bottomrule\n\\end{tabular}\n");
        all
    }
}

/// Text as LaTeX prints it.
fn latex(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '%' | '&' | '#' | '_' | '{' | '}' | '$' => {
                all.push('\\');
                all.push(letter);
            }
            '±' => all.push_str("$\\pm$"),
            '†' => all.push_str("$^\\dagger$"),
            '▲' => all.push_str("$^\\blacktriangle$"),
            '▼' => all.push_str("$^\\blacktriangledown$"),
            '≥' => all.push_str("$\\geq$"),
            '\\' => all.push_str("\\textbackslash{}"),
            '~' => all.push_str("\\textasciitilde{}"),
            '^' => all.push_str("\\textasciicircum{}"),
            other => all.push(other),
        }
    }
    all
}

/// A score as tables show it: accuracy in percent.
#[must_use]
pub fn number(score: &str, value: f64) -> String {
    match score {
        "accuracy" => format!("{:.2}", 100.0 * value),
        "mce" | "mce_1pct" => format!("{value:.3}"),
        "aurc" => format!("{value:.5}"),
        _ => format!("{value:.4}"),
    }
}

/// A score's name in tables.
#[must_use]
pub fn score_title(score: &str) -> &'static str {
    match score {
        "accuracy" => "accuracy %",
        "ece" => "ECE",
        "mce" => "MCE",
        "mce_1pct" => "MCE, bins ≥ 1%",
        "brier" => "Brier",
        "nll" => "NLL",
        "aurc" => "AURC",
        _ => "score",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_escape_what_their_format_reads() {
        let table = TextTable {
            heading: vec!["method".to_owned(), "a|b %".to_owned()],
            rows: vec![vec![
                "FedSI_1".to_owned().into(),
                TextCell { text: "96.1 ± 0.2†".to_owned(), is_best: true },
            ]],
        };
        assert_eq!(table.markdown(), "| method | a\\|b % |\n|:---|---:|\n| FedSI_1 | **96.1 ± 0.2†** |\n");
        let latex = table.latex();
        assert!(latex.contains("FedSI\\_1 & \\textbf{96.1 $\\pm$ 0.2$^\\dagger$} \\\\"), "{latex}");
        assert!(latex.starts_with("% needs \\usepackage{booktabs,amssymb}\n\\begin{tabular}{lr}"), "{latex}");
    }

    #[test]
    fn scores_have_the_digits_that_tell_methods_apart() {
        assert_eq!(number("accuracy", 0.96127), "96.13");
        assert_eq!(number("aurc", 0.003_184), "0.00318");
        assert_eq!(number("nll", 0.12956), "0.1296");
    }
}
