//! Tables as text: for a terminal, in Markdown, in LaTeX.

use std::fmt::Write as _;

use super::{Cell, Differences, Mark, Table};

impl Table {
    fn has_unranked(&self) -> bool {
        self.rows.iter().flatten().any(|cell| cell.mark == Mark::Unranked)
    }

    pub(super) fn plain(&self) -> String {
        let mut text = plain_grid(&self.heading, &self.rows, 1);
        let unranked = if self.has_unranked() { ", - not ranked" } else { "" };
        let _ = writeln!(text, "\n* best, + second best{unranked}; as observed, which tests nothing");
        for note in self.notes.iter().chain(&self.unranked) {
            let _ = writeln!(text, "{note}");
        }
        if let Some(Differences { title, heading, rows, notes }) = &self.differences {
            let _ = write!(text, "\n{title}:\n\n{}\n", plain_grid(heading, rows, 2));
            notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
        }
        text
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = markdown_grid(&self.heading, &self.rows, 1);
        let notes: Vec<String> =
            self.notes.iter().chain(&self.unranked).map(|note| markdown_escape(note)).collect();
        let unranked = if self.has_unranked() { "; –: not ranked" } else { "" };
        let _ = writeln!(
            text,
            "\n**Bold**: best; *italic*: second best{unranked}; as observed, which tests nothing. {}.",
            notes.join(". ")
        );
        if let Some(Differences { title, heading, rows, notes }) = &self.differences {
            let notes: Vec<String> = notes.iter().map(|note| markdown_escape(note)).collect();
            let _ = write!(text, "\n{}:\n\n", markdown_escape(title));
            let _ = writeln!(text, "{}\n{}.", markdown_grid(heading, rows, 2), notes.join(". "));
        }
        text
    }

    pub(super) fn latex(&self) -> String {
        let mut text = String::from("% \\usepackage{booktabs}\n");
        text.push_str(&latex_grid(&self.heading, &self.rows, 1));
        let unranked = if self.has_unranked() { "; --: not ranked" } else { "" };
        let _ = writeln!(
            text,
            "% Bold: best; underlined: second best{unranked}; as observed, which tests nothing."
        );
        for note in self.notes.iter().chain(&self.unranked) {
            let _ = writeln!(text, "% {note}");
        }
        if let Some(Differences { title, heading, rows, notes }) = &self.differences {
            let _ = write!(text, "% {title}\n{}", latex_grid(heading, rows, 2));
            notes.iter().for_each(|note| text.push_str(&format!("% {note}\n")));
        }
        text
    }
}

/// Columns as wide as they need to be: this many of words, then numbers to the right.
fn plain_grid(heading: &[String], rows: &[Vec<Cell>], words: usize) -> String {
    let mark = |cell: &Cell| match cell.mark {
        Mark::None => format!("{}  ", cell.text),
        Mark::Best => format!("{} *", cell.text),
        Mark::Second => format!("{} +", cell.text),
        Mark::Unranked => format!("{} -", cell.text),
    };
    let marked = |column: usize| rows.iter().any(|row| row[column].mark != Mark::None);
    let columns: Vec<bool> = (0..heading.len()).map(marked).collect();
    // A heading stands over the numbers, not over their marks.
    let names = heading.iter().zip(&columns);
    let names = names.map(|(name, &marked)| if marked { format!("{name}  ") } else { name.clone() });
    let mut lines: Vec<Vec<String>> = vec![names.collect()];
    lines.extend(rows.iter().map(|row| {
        let cells = row.iter().zip(&columns);
        cells.map(|(cell, &marked)| if marked { mark(cell) } else { cell.text.clone() }).collect()
    }));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut written = String::new();
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            let between = if column == 0 { "" } else { "  " };
            let _ = if column < words {
                write!(written, "{between}{cell:<width$}")
            } else {
                write!(written, "{between}{cell:>width$}")
            };
        }
        let _ = writeln!(text, "{}", written.trim_end());
    }
    text
}

fn markdown_escape(text: &str) -> String {
    let mut safe = String::new();
    for letter in text.chars() {
        if "\\`*_|[]<>#".contains(letter) {
            safe.push('\\');
        }
        safe.push(if letter == '\n' { ' ' } else { letter });
    }
    safe
}

fn markdown_grid(heading: &[String], rows: &[Vec<Cell>], words: usize) -> String {
    let cell = |cell: &Cell| match cell.mark {
        Mark::None => markdown_escape(&cell.text),
        Mark::Best => format!("**{}**", markdown_escape(&cell.text)),
        Mark::Second => format!("*{}*", markdown_escape(&cell.text)),
        Mark::Unranked => format!("{} –", markdown_escape(&cell.text)),
    };
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(heading.iter().map(|name| markdown_escape(name)).collect());
    let numbers = heading.len().saturating_sub(words);
    text.push_str(&format!("|{}{}\n", ":---|".repeat(words), "---:|".repeat(numbers)));
    for row in rows {
        text.push_str(&line(row.iter().map(cell).collect()));
    }
    text
}

fn latex_grid(heading: &[String], rows: &[Vec<Cell>], words: usize) -> String {
    let numbers = heading.len().saturating_sub(words);
    let mut text = format!("\\begin{{tabular}}{{{}{}}}\n", "l".repeat(words), "r".repeat(numbers));
    text.push_str("\\toprule\n");
    let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
    text.push_str(&line(heading.iter().map(|name| latex_escape(name)).collect()));
    text.push_str("\\midrule\n");
    for row in rows {
        let cell = |cell: &Cell| match cell.mark {
            Mark::None => latex_escape(&cell.text),
            Mark::Best => format!("\\textbf{{{}}}", latex_escape(&cell.text)),
            Mark::Second => format!("\\underline{{{}}}", latex_escape(&cell.text)),
            Mark::Unranked => format!("{} --", latex_escape(&cell.text)),
        };
        text.push_str(&line(row.iter().map(cell).collect()));
    }
    text.push_str("\\bottomrule\n\\end{tabular}\n");
    text
}

/// Text as LaTeX prints it.
fn latex_escape(text: &str) -> String {
    let mut safe = String::new();
    for letter in text.chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                safe.push('\\');
                safe.push(letter);
            }
            '~' => safe.push_str("\\textasciitilde{}"),
            '^' => safe.push_str("\\textasciicircum{}"),
            '\\' => safe.push_str("\\textbackslash{}"),
            '<' => safe.push_str("$<$"),
            '>' => safe.push_str("$>$"),
            '±' => safe.push_str("$\\pm$"),
            '\n' => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}
