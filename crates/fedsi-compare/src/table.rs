//! The comparison as a table: for a terminal, a README, a paper, a spreadsheet.

use std::fmt::Write as _;

use fedsi_data::{csv_text, display_name};
use fedsi_metrics::MIN_PAIRS;

use crate::comparison::{Comparison, MethodResult};
use crate::statistics::{Metric, MetricResult};

/// How a table is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Columns of a terminal.
    #[default]
    Plain,
    /// A pipe table.
    Markdown,
    /// booktabs.
    Latex,
    /// A line a method, means and deviations apart, every digit.
    Csv,
}

/// What a cell stands out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    None,
    /// The best of its column.
    Best,
    /// The second best.
    Second,
    /// It has no rank: what it is the mean of is not what the others' are.
    Unranked,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// What it stands out for.
    pub mark: Mark,
}

/// A heading, a row a method, and notes beneath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The columns' names; the first is the method's.
    pub heading: Vec<String>,
    /// A row a method.
    pub rows: Vec<Vec<Cell>>,
    /// Lines beneath: what the marks mean, which test, what else to know.
    pub notes: Vec<String>,
    /// More such lines: which methods are not ranked, and why.
    pub unranked: Vec<String>,
}

impl Comparison {
    /// The table of what is shown.
    #[must_use]
    pub fn table(&self) -> Table {
        let shown: Vec<&Metric> = self.columns(|metric| metric.shown);
        let tested: Vec<&Metric> = self.columns(|metric| metric.tested && self.seeds.len() > 1);
        let mut heading = vec!["method".to_owned()];
        let unit = |metric: &Metric| if metric.is_share && !metric.title.ends_with('%') { " %" } else { "" };
        heading.extend(shown.iter().map(|metric| format!("{}{}", display_name(&metric.title), unit(metric))));
        heading.extend(tested.iter().map(|metric| format!("p {}", display_name(&metric.title))));
        heading.extend(["seconds", "MB"].map(str::to_owned));
        let row = |method: &MethodResult| {
            let mut cells = vec![plain(self.label(method))];
            let result = |metric: &Metric| method.metrics.get(&metric.key);
            let ranked = method.standing.unranked.is_none();
            cells.extend(shown.iter().map(|&metric| score(metric, result(metric), ranked)));
            cells.extend(tested.iter().map(|&metric| plain(p_value(result(metric)))));
            let mean = |values: Vec<f64>| fedsi_metrics::Summary::of(values).map(|spread| spread.mean);
            let seconds = mean(method.runs.iter().map(|run| run.seconds).collect());
            let traffic = |bytes: fedsi_fl::wire::Traffic| (bytes.up + bytes.down) as f64 / 1e6;
            let megabytes = mean(method.runs.iter().map(|run| traffic(run.bytes)).collect());
            cells.extend([seconds, megabytes].map(|value| plain(number(value, 1))));
            cells
        };
        let unranked = self.unranked().iter().map(|why| format!("not ranked: {why}")).collect();
        Table { heading, rows: self.methods.iter().map(row).collect(), notes: self.notes(), unranked }
    }

    fn columns(&self, wanted: impl Fn(&Metric) -> bool) -> Vec<&Metric> {
        self.metrics.iter().filter(|metric| wanted(metric)).collect()
    }

    /// The method's title, how many of its runs there are where some failed, and how many clients were scored where
    /// some were not.
    fn label(&self, method: &MethodResult) -> String {
        let (runs, seeds) = (method.runs.len(), self.seeds.len());
        let title = display_name(&method.title);
        let runs = (runs != seeds).then(|| format!("{runs} of {seeds} runs"));
        let clients =
            method.standing.shortfall().map(|(scored, tested)| format!("{scored} of {tested} clients"));
        let parts: Vec<String> = runs.into_iter().chain(clients).collect();
        if parts.is_empty() { title } else { format!("{title} ({})", parts.join(", ")) }
    }

    /// What a reader must know; the marks are each format's own.
    fn notes(&self) -> Vec<String> {
        let seeds = self.seeds.len();
        let mut notes = vec![match (self.seeds.first(), self.seeds.last()) {
            (Some(first), Some(last)) if first != last => {
                format!("mean ± standard deviation over {seeds} seeds ({first} to {last})")
            }
            (Some(only), _) => format!("one seed ({only}): no deviation, no test"),
            (None, _) => "no seeds".to_owned(),
        }];
        if seeds >= MIN_PAIRS {
            notes.push(
                "p: paired two-sided t-test over seeds against the best of that score; a dash: the best itself, no rank, \
                 or the same difference on every seed"
                    .to_owned(),
            );
        } else if seeds > 1 {
            notes.push(format!("p: too few seeds for a test ({MIN_PAIRS} are needed)"));
        }
        let beside =
            if self.jobs > 1 { format!(", with {} runs side by side", self.jobs) } else { String::new() };
        notes.push(format!("seconds: wall clock of a run{beside}; MB: up and down together, a run"));
        if let Some(tuning) = &self.tuning {
            notes.push(format!(
                "tuned for every method on {:.0}% of the training data, held out: {} rounds, seed {}",
                100.0 * tuning.held_out,
                tuning.rounds,
                tuning.seed
            ));
        }
        notes
    }

    /// The table in a format.
    #[must_use]
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Plain => self.table().plain(),
            Format::Markdown => self.table().markdown(),
            Format::Latex => self.table().latex(),
            Format::Csv => self.csv(),
        }
    }

    /// Every metric's mean, deviation, rank and p-value, for programs.
    fn csv(&self) -> String {
        let mut lines = csv::Writer::from_writer(Vec::new());
        let mut heading: Vec<String> = ["method", "title", "runs"].map(str::to_owned).to_vec();
        for metric in &self.metrics {
            let key = csv_text(&metric.key);
            heading.extend(["mean", "std", "rank", "p"].map(|what| format!("{key}_{what}")));
        }
        heading.extend(["seconds", "bytes_up", "bytes_down"].map(str::to_owned));
        heading.extend(["scored_clients", "tested_clients", "unranked"].map(str::to_owned));
        let mut rows = vec![heading];
        for method in &self.methods {
            let names = [&method.name, &method.title].map(|name| csv_text(name).into_owned());
            let mut row: Vec<String> = names.into_iter().chain([method.runs.len().to_string()]).collect();
            for metric in &self.metrics {
                let result = method.metrics.get(&metric.key);
                let text = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
                let rank = result.and_then(|result| result.rank);
                row.extend([
                    text(result.and_then(|result| result.mean)),
                    text(result.and_then(|result| result.std)),
                    rank.map(|rank| rank.to_string()).unwrap_or_default(),
                    text(result.and_then(|result| result.p)),
                ]);
            }
            let mean = |of: fn(&crate::comparison::RunResult) -> f64| {
                let spread = fedsi_metrics::Summary::of(method.runs.iter().map(of));
                spread.map(|spread| spread.mean.to_string()).unwrap_or_default()
            };
            row.extend([
                mean(|run| run.seconds),
                mean(|run| run.bytes.up as f64),
                mean(|run| run.bytes.down as f64),
            ]);
            let count = |value: Option<usize>| value.map(|value| value.to_string()).unwrap_or_default();
            let standing = &method.standing;
            row.extend([count(standing.scored_clients), count(standing.tested_clients)]);
            row.push(standing.unranked.clone().unwrap_or_default());
            rows.push(row);
        }
        // A writer into memory has nothing to fail at, and all rows are equally long.
        for row in rows {
            let _ = lines.write_record(row);
        }
        lines.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

const fn plain(text: String) -> Cell {
    Cell { text, mark: Mark::None }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// `mean ± std`, with a mark for the first two ranks and for none.
fn score(metric: &Metric, result: Option<&MetricResult>, ranked: bool) -> Cell {
    let Some(result) = result else { return plain("-".to_owned()) };
    let (scale, digits) = if metric.is_share { (100.0, 2) } else { (1.0, 4) };
    let written = |value: Option<f64>| number(value.map(|value| scale * value), digits);
    let mut text = written(result.mean);
    if result.std.is_some() {
        text = format!("{text} ± {}", written(result.std));
    }
    let mark = match result.rank {
        Some(1) => Mark::Best,
        Some(2) => Mark::Second,
        None if !ranked && result.mean.is_some() => Mark::Unranked,
        _ => Mark::None,
    };
    Cell { text, mark }
}

fn p_value(result: Option<&MetricResult>) -> String {
    match result.and_then(|result| result.p) {
        None => "-".to_owned(),
        Some(p) if p < 0.001 => "<0.001".to_owned(),
        Some(p) => format!("{p:.3}"),
    }
}

impl Table {
    fn has_unranked(&self) -> bool {
        self.rows.iter().flatten().any(|cell| cell.mark == Mark::Unranked)
    }

    fn plain(&self) -> String {
        let mark = |cell: &Cell| match cell.mark {
            Mark::None => format!("{}  ", cell.text),
            Mark::Best => format!("{} *", cell.text),
            Mark::Second => format!("{} +", cell.text),
            Mark::Unranked => format!("{} -", cell.text),
        };
        let marked = |column: usize| self.rows.iter().any(|row| row[column].mark != Mark::None);
        let columns: Vec<bool> = (0..self.heading.len()).map(marked).collect();
        // A heading stands over the numbers, not over their marks.
        let heading = self.heading.iter().zip(&columns);
        let heading = heading.map(|(name, &marked)| if marked { format!("{name}  ") } else { name.clone() });
        let mut lines: Vec<Vec<String>> = vec![heading.collect()];
        lines.extend(self.rows.iter().map(|row| {
            let cells = row.iter().zip(&columns);
            cells.map(|(cell, &marked)| if marked { mark(cell) } else { cell.text.clone() }).collect()
        }));
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.heading.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let mut written = format!("{:<width$}", line[0], width = widths[0]);
            for (cell, &width) in line.iter().zip(&widths).skip(1) {
                let _ = write!(written, "  {cell:>width$}");
            }
            let _ = writeln!(text, "{}", written.trim_end());
        }
        let unranked = if self.has_unranked() { ", - not ranked" } else { "" };
        let _ = writeln!(text, "\n* best, + second best{unranked}");
        for note in self.notes.iter().chain(&self.unranked) {
            let _ = writeln!(text, "{note}");
        }
        text
    }

    fn markdown(&self) -> String {
        let escape = |text: &str| {
            let mut safe = String::new();
            for letter in text.chars() {
                if "\\`*_|[]<>#".contains(letter) {
                    safe.push('\\');
                }
                safe.push(if letter == '\n' { ' ' } else { letter });
            }
            safe
        };
        let cell = |cell: &Cell| match cell.mark {
            Mark::None => escape(&cell.text),
            Mark::Best => format!("**{}**", escape(&cell.text)),
            Mark::Second => format!("*{}*", escape(&cell.text)),
            Mark::Unranked => format!("{} –", escape(&cell.text)),
        };
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.heading.iter().map(|name| escape(name)).collect());
        text.push_str(&format!("|:---|{}\n", "---:|".repeat(self.heading.len().saturating_sub(1))));
        for row in &self.rows {
            text.push_str(&line(row.iter().map(cell).collect()));
        }
        let notes: Vec<String> = self.notes.iter().chain(&self.unranked).map(|note| escape(note)).collect();
        let unranked = if self.has_unranked() { "; –: not ranked" } else { "" };
        let _ = writeln!(text, "\n**Bold**: best; *italic*: second best{unranked}. {}.", notes.join(". "));
        text
    }

    fn latex(&self) -> String {
        let mut text = String::from("% \\usepackage{booktabs}\n");
        let _ = writeln!(text, "\\begin{{tabular}}{{l{}}}", "r".repeat(self.heading.len().saturating_sub(1)));
        text.push_str("\\toprule\n");
        let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
        text.push_str(&line(self.heading.iter().map(|name| latex_escape(name)).collect()));
        text.push_str("\\midrule\n");
        for row in &self.rows {
            let cell = |cell: &Cell| match cell.mark {
                Mark::None => latex_escape(&cell.text),
                Mark::Best => format!("\\textbf{{{}}}", latex_escape(&cell.text)),
                Mark::Second => format!("\\underline{{{}}}", latex_escape(&cell.text)),
                Mark::Unranked => format!("{} --", latex_escape(&cell.text)),
            };
            text.push_str(&line(row.iter().map(cell).collect()));
        }
        let unranked = if self.has_unranked() { "; --: not ranked" } else { "" };
        let _ = writeln!(
            text,
            "\\bottomrule\n\\end{{tabular}}\n% Bold: best; underlined: second best{unranked}."
        );
        for note in self.notes.iter().chain(&self.unranked) {
            let _ = writeln!(text, "% {note}");
        }
        text
    }
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

#[cfg(test)]
mod tests;
