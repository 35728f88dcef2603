//! Tables as text: for a terminal, in Markdown, in LaTeX.

use std::fmt::Write as _;

use super::{Cell, Differences, Mark, Table};

impl Table {
    fn has_unranked(&self) -> bool {
        self.rows.iter().flatten().any(|cell| cell.mark == Mark::Unranked)
    }

    /// For a terminal of so many columns: notes are broken there, and columns of differences that go beyond are left out
    /// and named.
    pub(super) fn plain(&self, width: usize) -> String {
        let mut text = plain_grid(&self.heading, &self.rows, 1);
        let wrapped = |text: &mut String, note: &str| wrap(text, note, width);
        let unranked = if self.has_unranked() { ", - not ranked" } else { "" };
        let _ = writeln!(text, "\n* best, + second best{unranked}; as observed, which tests nothing");
        for note in self.notes.iter().chain(&self.unranked) {
            wrapped(&mut text, note);
        }
        if let Some(Differences { title, heading, rows, notes }) = &self.differences {
            // From the right, until it fits; the score, the method and the difference stay.
            let mut shown = heading.len();
            let first = |shown: usize| {
                let rows: Vec<Vec<Cell>> = rows.iter().map(|row| row[..shown].to_vec()).collect();
                plain_grid(&heading[..shown], &rows, 2)
            };
            let fits = |grid: &str| grid.lines().all(|line| line.chars().count() <= width);
            while shown > 3 && !fits(&first(shown)) {
                shown -= 1;
            }
            let _ = write!(text, "\n{title}:\n\n{}\n", first(shown));
            notes.iter().for_each(|note| wrapped(&mut text, note));
            if shown < heading.len() {
                wrapped(
                    &mut text,
                    &format!("on the page and in compare.json: {}", heading[shown..].join(", ")),
                );
            }
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

/// A note in lines of at most so many letters, those after the first set in.
fn wrap(text: &mut String, note: &str, width: usize) {
    let mut length = 0;
    for word in note.split(' ') {
        let letters = word.chars().count();
        if length > 0 && length + 1 + letters > width {
            text.push_str("\n  ");
            length = 2;
        } else if length > 0 {
            text.push(' ');
            length += 1;
        }
        text.push_str(word);
        length += letters;
    }
    text.push('\n');
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
