//! What is said of new rows: a table, and words chosen by intervals.

use std::fmt::Write as _;

use fedsi_data::{display_name, shortened};
use fedsi_fl::client::Predictions;
use fedsi_fl::scores::Scores;
use fedsi_run::ClassScores;
use fedsi_run::saved::SavedRun;
use serde::{Serialize, Serializer};

use super::columns::Note;
use super::drift::DriftTest;
use super::figures::{Estimate, Measure};
use crate::table::{Table, hanging};

/// What a file of figures says it is.
pub(super) const FORMAT: &str = "fedsi-score-1";

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Changes that are named one by one.
const MOST_NAMED: usize = 8;
/// Classes that are listed one by one.
const MOST_CLASSES: usize = 20;

/// One score: of the new rows, of the run's test rows, and how much it differs.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) measure: Measure,
    pub(super) new: Option<Estimate>,
    pub(super) test: Option<Estimate>,
    pub(super) difference: Option<Estimate>,
}

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Content<'a> {
            figure: &'a str,
            new: Option<Estimate>,
            test: Option<Estimate>,
            difference: Option<Estimate>,
        }
        let Self { measure, new, test, difference } = *self;
        Content { figure: measure.key, new, test, difference }.serialize(serializer)
    }
}

/// What is known of rows besides their scores.
#[derive(Debug, Serialize)]
pub(super) struct Rows {
    /// Rows that `fedsi predict` would abstain on.
    pub(super) abstained: usize,
    /// Numbers of rows, from 1, whose prediction is not finite: figures leave them out.
    pub(super) without_prediction: Vec<usize>,
    /// The run's test rows that figures stand beside, and whether they are of the same clients.
    #[serde(rename = "test_rows")]
    pub(super) test: usize,
    pub(super) same_clients: bool,
    /// New rows of clients that have test rows.
    pub(super) compared: usize,
}

/// Everything that is found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    format: &'static str,
    version: &'static str,
    run: String,
    method: String,
    dataset: String,
    /// Rows that were scored.
    rows: usize,
    #[serde(flatten)]
    of_rows: Rows,
    /// All rows together, in the terms of summary.json.
    #[serde(flatten)]
    scores: Scores,
    /// Every class by itself; empty for a regression.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes: Vec<ClassScores>,
    /// Scores with their 95% intervals.
    figures: Vec<Line>,
    /// Tests of whether rows are like the run's; p adjusted for their number.
    drift: Vec<DriftTest>,
    drifted: bool,
    /// What is told of columns and not tested.
    notes: Vec<Note>,
    verdict: Vec<String>,
}

impl Report {
    pub(super) fn new(
        run: &SavedRun,
        predictions: &Predictions,
        names: Option<&[String]>,
        figures: Vec<Line>,
        of_rows: Rows,
        (drift, notes): (Vec<DriftTest>, Vec<Note>),
    ) -> Self {
        let config = run.config();
        let rows = predictions.len();
        let mut report = Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            run: run.path().display().to_string(),
            method: config.method.clone(),
            dataset: fedsi_run::dataset_name(config),
            rows,
            of_rows,
            scores: predictions.scores(),
            classes: ClassScores::of(predictions, names),
            drifted: drift.iter().any(DriftTest::has_drifted),
            figures,
            drift,
            notes,
            verdict: Vec::new(),
        };
        report.verdict = [report.quality()].into_iter().chain(report.drift_words()).collect();
        report
    }

    /// Whether the main scores differ from those on the same clients' test rows, where the intervals of differences say so.
    fn quality(&self) -> String {
        let is_main = |line: &&Line| ["accuracy", "mae", "nll"].contains(&line.measure.key);
        let mains = self.figures.iter().filter(is_main);
        if mains.clone().all(|line| line.difference.is_none()) {
            let why = match (self.of_rows.same_clients, self.of_rows.test) {
                (_, 0) => "the run has no test rows of these clients",
                (false, _) => "none are of this client",
                (true, _) => "these clients need at least 10 new rows and 10 test rows",
            };
            return format!("not compared with the run's test rows: {why}");
        }
        let differs = |line: &&Line| line.difference.is_some_and(|one| one.differs_from_zero());
        let words = |line: &Line| {
            let difference = line.difference?;
            let is_better = (difference.value > 0.0) == line.measure.more_is_better?;
            let number = |value: f64| number(&line.measure, value);
            Some(format!(
                "{} is {} than on the run's test rows, by {} ({} to {})",
                line.measure.title,
                if is_better { "better" } else { "worse" },
                number(difference.value.abs()),
                number(difference.value.abs().min(difference.low.abs()).min(difference.high.abs())),
                number(difference.low.abs().max(difference.high.abs()))
            ))
        };
        let found: Vec<String> = mains.filter(differs).filter_map(words).collect();
        match found.is_empty() {
            true => format!("as good as on the run's test rows, as far as {} rows can tell", self.rows),
            false => found.join("; "),
        }
    }

    fn drift_words(&self) -> Vec<String> {
        let drifted: Vec<&DriftTest> = self.drift.iter().filter(|test| test.has_drifted()).collect();
        if self.drift.is_empty() {
            return vec![
                "nothing to test drift by: the run did not write its test rows' strangeness down".to_owned(),
            ];
        }
        if drifted.is_empty() {
            let tested = self.drift.len();
            return vec![format!("no drift seen in {} rows ({tested} tests)", self.rows)];
        }
        let words = |test: &&DriftTest| {
            format!("drifted: {}: {} (p {})", display_name(&test.of), test.found, p_text(test.adjusted_p))
        };
        let mut lines: Vec<String> = drifted.iter().take(MOST_NAMED).map(words).collect();
        if drifted.len() > MOST_NAMED {
            lines.push(format!("and {} more; --json has them", drifted.len() - MOST_NAMED));
        }
        lines
    }

    /// As a terminal shows it.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{} on {}: {} rows", self.method, shortened(&self.dataset, 40), self.rows);
        let Rows { abstained, without_prediction, .. } = &self.of_rows;
        let share = 100.0 * *abstained as f64 / (self.rows + without_prediction.len()).max(1) as f64;
        let _ = writeln!(text, "abstained: {abstained} ({share:.1}%); figures are of all rows");
        if !without_prediction.is_empty() {
            let _ = writeln!(text, "{}", wrapped(&self.without_words()));
        }
        let _ = writeln!(text);
        let mut table = Table::new(1, ["", "new rows", "95%", "test rows", "95%", "difference"]);
        for line in &self.figures {
            let value =
                |of: Option<Estimate>| of.map_or("-".to_owned(), |of| number(&line.measure, of.value));
            let interval = |of: Option<Estimate>| {
                of.map_or(String::new(), |of| {
                    let low = number(&line.measure, of.low);
                    format!("{} to {}", low.trim_end_matches('%'), number(&line.measure, of.high))
                })
            };
            let difference = line.difference.map_or("-".to_owned(), |of| {
                let sign = if of.value > 0.0 { "+" } else { "" };
                let mark = if of.differs_from_zero() { "*" } else { " " };
                format!("{sign}{}{mark}", number(&line.measure, of.value))
            });
            let title = line.measure.title.to_owned();
            table.row([
                title,
                value(line.new),
                interval(line.new),
                value(line.test),
                interval(line.test),
                difference,
            ]);
        }
        let _ = write!(text, "{table}");
        let _ = writeln!(text, "{}\n", wrapped(&self.footnote()));
        if !self.classes.is_empty() {
            let _ = writeln!(text, "{}", self.class_table());
        }
        for line in &self.verdict {
            let _ = writeln!(text, "{}", wrapped(line));
        }
        for note in self.notes.iter().take(MOST_NAMED) {
            let line = format!("not called drift: {}: {}", display_name(&note.of), note.found);
            let _ = writeln!(text, "{}", wrapped(&line));
        }
        if self.notes.len() > MOST_NAMED {
            let _ = writeln!(text, "and {} more; --json has them", self.notes.len() - MOST_NAMED);
        }
        text
    }

    /// Which rows have no figures.
    fn without_words(&self) -> String {
        let rows = &self.of_rows.without_prediction;
        let mut named: Vec<String> = rows.iter().take(MOST_NAMED).map(usize::to_string).collect();
        if rows.len() > MOST_NAMED {
            named.push(format!("{} more", rows.len() - MOST_NAMED));
        }
        let (noun, verb) = if rows.len() == 1 { ("row", "has") } else { ("rows", "have") };
        format!(
            "but {} {noun} that {verb} no finite prediction, left out of figures: {noun} {}",
            rows.len(),
            named.join(", ")
        )
    }

    /// What stands in the column of test rows.
    fn footnote(&self) -> String {
        let Rows { test, same_clients, compared, .. } = self.of_rows;
        let floor = self.floor();
        if self.figures.iter().all(|line| line.difference.is_none()) {
            let whose = if same_clients { "the same clients" } else { "all clients" };
            return format!("test rows: {test} of {whose}, pooled and not compared{floor}");
        }
        let alone = match self.rows.saturating_sub(compared) {
            0 => String::new(),
            1 => "; 1 new row is of a client without test rows, and not compared".to_owned(),
            alone => format!("; {alone} new rows are of clients without test rows, and not compared"),
        };
        format!(
            "test rows: {test} of the same clients; where there is a difference, each client's mean counts as often as it \
             has new rows; *: the interval of the difference leaves out 0{alone}{floor}"
        )
    }

    fn floor(&self) -> String {
        match self.scores {
            Scores::Classification { ece_floor: Some(floor), .. } => {
                format!("; perfect calibration would have an ECE of {floor:.4} by chance")
            }
            _ => String::new(),
        }
    }

    fn class_table(&self) -> Table {
        let mut table = Table::new(1, ["class", "rows", "precision", "recall"]);
        let share =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{:.1}%", 100.0 * value));
        for class in self.classes.iter().take(MOST_CLASSES) {
            let name = display_name(&class.name);
            table.row([name, class.samples.to_string(), share(class.precision), share(class.recall)]);
        }
        if self.classes.len() > MOST_CLASSES {
            table.row([format!("and {} more: --json", self.classes.len() - MOST_CLASSES)]);
        }
        table
    }
}

fn p_text(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// A score as a person reads it.
fn number(measure: &Measure, value: f64) -> String {
    match measure.is_share {
        true => format!("{:.1}%", 100.0 * value),
        false if value.abs() < 100.0 => format!("{value:.3}"),
        false if value.abs() < 1e5 => format!("{value:.0}"),
        false => format!("{value:.2e}"),
    }
}

/// A long line at the width of a terminal, further lines indented.
fn wrapped(text: &str) -> String {
    hanging(text, WIDTH, 0, 2).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken() {
        let text = wrapped(&"word ".repeat(40));
        assert!(text.lines().count() > 2 && text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  ")), "{text}");
        assert_eq!(wrapped("short"), "short");
    }
}
