//! A comparison as tables: for a terminal, a README, a paper, a spreadsheet.

mod columns;
mod render;
mod spreadsheet;

use fedsi_data::display_name;
use fedsi_metrics::MIN_PAIRS;

use crate::comparison::{Comparison, MethodResult};
use crate::statistics::{Difference, Direction, Metric, MetricResult};

pub use columns::{Columns, check_columns};

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

/// A heading, a row a method, and notes beneath; then the differences from the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The columns' names; the first is the method's.
    pub heading: Vec<String>,
    /// A row a method.
    pub rows: Vec<Vec<Cell>>,
    /// Lines beneath: what the numbers are, what else to know.
    pub notes: Vec<String>,
    /// More such lines: which methods are not ranked, and why.
    pub unranked: Vec<String>,
    /// Columns that are usually shown and did not fit, by their keys.
    pub left_out: Vec<String>,
    /// Differences, where there are any.
    pub differences: Option<Differences>,
}

/// Differences from the reference, and of ECE from its floor: a row a score and method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differences {
    /// What they are differences from.
    pub title: String,
    /// The columns' names; the first two are the score's and the method's.
    pub heading: Vec<String>,
    /// A row a score and method.
    pub rows: Vec<Vec<Cell>>,
    /// Lines beneath: which interval, which test.
    pub notes: Vec<String>,
}

impl Comparison {
    /// The table with these columns. Differences are of the scores among them, or of all that are tested where not all
    /// fit.
    #[must_use]
    pub fn table(&self, wanted: Columns<'_>) -> Table {
        let labels: Vec<String> = self.methods.iter().map(|method| self.label(method)).collect();
        let (columns, left_out) = self.columns(wanted, &labels);
        let mut heading = vec!["method".to_owned()];
        heading.extend(columns.iter().map(|column| column.title.clone()));
        let row = |(place, label): (usize, String)| {
            let own = columns.iter().filter_map(|column| column.cells.get(place).cloned());
            [plain(label)].into_iter().chain(own).collect()
        };
        let rows = labels.into_iter().enumerate().map(row).collect();
        let unranked = self.unranked().iter().map(|why| format!("not ranked: {why}")).collect();
        let keys: Vec<&str> = columns.iter().map(|column| column.key.as_str()).collect();
        let is_chosen = matches!(wanted, Columns::Only(_)) || !self.columns.is_empty();
        let differences = self.differences(|metric| !is_chosen || keys.contains(&metric.key.as_str()));
        Table { heading, rows, notes: self.notes(&keys), unranked, left_out, differences }
    }

    /// The method's title, how many of its runs there are where some failed, and how many clients were scored where
    /// some were not.
    fn label(&self, method: &MethodResult) -> String {
        let (runs, seeds) = (method.runs.len(), self.seeds.len());
        let title = display_name(&method.title);
        let runs = (runs != seeds).then(|| format!("{runs} of {seeds} runs"));
        let clients =
            method.standing.shortfall().map(|(scored, tested)| format!("{scored} of {tested} clients"));
        let external = method.external.as_ref().map(|_| "external".to_owned());
        let parts: Vec<String> = external.into_iter().chain(runs).chain(clients).collect();
        if parts.is_empty() { title } else { format!("{title} ({})", parts.join(", ")) }
    }

    /// What a reader must know; the marks are each format's own.
    fn notes(&self, keys: &[&str]) -> Vec<String> {
        let seeds = self.seeds.len();
        let mut notes = vec![match (self.seeds.first(), self.seeds.last()) {
            (Some(first), Some(last)) if first != last => {
                format!("mean ± standard deviation over {seeds} seeds ({first} to {last})")
            }
            (Some(only), _) => format!("one seed ({only}): no deviation, no test"),
            (None, _) => "no seeds".to_owned(),
        }];
        if keys.contains(&"ece_floor") {
            notes.push("floor: the ECE that perfect calibration would have by chance".to_owned());
        }
        let beside =
            if self.jobs > 1 { format!(", with {} runs side by side", self.jobs) } else { String::new() };
        let costs = [
            ("seconds", format!("seconds: wall clock of a run{beside}")),
            ("bytes", "MB: up and down together, a run".to_owned()),
        ];
        let costs: Vec<String> =
            costs.into_iter().filter(|(key, _)| keys.contains(key)).map(|(_, note)| note).collect();
        if !costs.is_empty() {
            notes.push(costs.join("; "));
        }
        if self.methods.iter().any(|method| method.external.is_some()) {
            notes.push("external: another tool's predictions of the same test rows".to_owned());
        }
        if let Some(tuning) = &self.tuning {
            let finalists = tuning.finalists.map_or_else(String::new, |finalists| {
                format!(", then the best {} and the defaults {} rounds", finalists.count, finalists.rounds)
            });
            notes.push(format!(
                "tuned for every method on {:.0}% of the training data, held out: {} rounds{finalists}, {}",
                100.0 * tuning.held_out,
                tuning.rounds,
                tuning.seeds_text()
            ));
        }
        notes
    }

    /// Differences of every tested score; none where nothing differs from a reference.
    fn differences(&self, wanted: impl Fn(&Metric) -> bool) -> Option<Differences> {
        let tested = || self.metrics.iter().filter(|metric| metric.tested && wanted(metric));
        let title = display_name(&self.reference()?.title);
        let mut rows = Vec::new();
        for metric in tested() {
            for method in &self.methods {
                let Some(result) = method.metrics.get(&metric.key) else { continue };
                let Some(difference) = &result.difference else { continue };
                let counts = result.against_reference;
                let mut row = difference_row(metric, &metric.title, method, difference);
                // Shares are compared in points.
                if let Some(relative) = difference.relative.filter(|_| !metric.is_share) {
                    row[2].text.push_str(&format!(" ({:+.1}%)", 100.0 * relative));
                }
                row.push(plain(format!("{} / {}", counts.wins, counts.losses)));
                rows.push(row);
            }
        }
        for metric in tested() {
            for method in &self.methods {
                let Some(result) = method.metrics.get(&metric.key) else { continue };
                let Some(above) = &result.above_floor else { continue };
                let mut row = difference_row(metric, &format!("{} over floor", metric.title), method, above);
                row.push(plain("-".to_owned()));
                rows.push(row);
            }
        }
        let names = [
            "score",
            "method",
            "difference",
            "95% interval",
            "p (Holm)",
            "bootstrap 95%",
            "clients better / worse",
        ];
        let mut heading = names.map(str::to_owned).to_vec();
        if self.paired_seeds() < MIN_PAIRS {
            // There is nothing in them.
            heading.drain(INTERVALS);
            rows.iter_mut().for_each(|row: &mut Vec<Cell>| drop(row.drain(INTERVALS)));
        }
        let notes = self.difference_notes(&title);
        (!rows.is_empty()).then(|| Differences {
            title: format!("differences from {title}"),
            heading,
            rows,
            notes,
        })
    }

    /// Which sign of a difference is better.
    fn better_note(&self) -> Option<String> {
        let of = |is_higher: bool| -> Vec<String> {
            let tested = self.metrics.iter().filter(|metric| metric.tested);
            let own = tested.filter(|metric| (metric.direction == Direction::Higher) == is_higher);
            own.map(|metric| display_name(&metric.title)).collect()
        };
        let words = |names: Vec<String>, side: &str| {
            (!names.is_empty()).then(|| format!("{side} 0 is better by {}", names.join(", ")))
        };
        let parts: Vec<String> =
            words(of(true), "above").into_iter().chain(words(of(false), "below")).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn difference_notes(&self, title: &str) -> Vec<String> {
        let mut notes = vec![format!(
            "difference: the method's score less {title}'s, paired by seed, mean over seeds, and as a share of {title}'s; of \
             accuracy in percentage points"
        )];
        notes.extend(self.better_note());
        let seeds = self.paired_seeds();
        if seeds < MIN_PAIRS {
            let plural = if seeds == 1 { "" } else { "s" };
            notes.push(format!("{seeds} seed{plural}: no interval and no test, which need {MIN_PAIRS}"));
            return notes;
        }
        notes.push(
            "95% interval: Student's, paired over seeds, each with clients of its own, not corrected for the number of \
             methods; bootstrap: seeds and clients within them resampled; a dash: the same difference on every seed, or no \
             predictions"
                .to_owned(),
        );
        notes.push(
            "p: paired two-sided t-test over seeds, after Holm's correction for the methods tested by a score".to_owned(),
        );
        let mut results = self.methods.iter().flat_map(|method| method.metrics.values());
        if results.any(|result| result.above_floor.is_some()) {
            notes.push("over floor: ECE less what perfect calibration would have by chance".to_owned());
        }
        notes
    }

    /// The table in a format.
    #[must_use]
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Plain => self.table(Columns::Fit(WIDTH)).plain(WIDTH),
            Format::Markdown => self.table(Columns::Usual).markdown(),
            Format::Latex => self.table(Columns::Usual).latex(),
            Format::Csv => self.csv(),
        }
    }
}

/// Letters of a line in a terminal.
const WIDTH: usize = 80;

/// The columns of differences that few seeds have nothing in: interval, p, bootstrap.
const INTERVALS: std::ops::Range<usize> = 3..6;

const fn plain(text: String) -> Cell {
    Cell { text, mark: Mark::None }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// What values of a score are multiplied by, and how many digits they have.
fn scale(metric: &Metric) -> (f64, usize) {
    match (metric.is_share, metric.key.as_str()) {
        (true, _) => (100.0, 2),
        // A mean over coverages of a few per mille.
        (false, "aurc") => (1.0, 5),
        (false, _) => (1.0, 4),
    }
}

/// `mean ± std`, and a mark for the first two ranks and for none.
fn score(metric: &Metric, result: Option<&MetricResult>, ranked: bool) -> Cell {
    let Some(result) = result else { return plain("-".to_owned()) };
    let (scale, digits) = scale(metric);
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

/// Score, method, difference, interval, p and the bootstrap's interval.
fn difference_row(metric: &Metric, score: &str, method: &MethodResult, found: &Difference) -> Vec<Cell> {
    let (scale, digits) = scale(metric);
    let signed = |value: f64| format!("{:+.digits$}", scale * value);
    let interval = |ends: Option<[f64; 2]>| {
        ends.map_or_else(|| "-".to_owned(), |[low, high]| format!("[{}, {}]", signed(low), signed(high)))
    };
    // With few seeds a bootstrap's is far too narrow; and nothing is tested, whatever an older version wrote down.
    let enough = method.runs.len() >= MIN_PAIRS;
    let bootstrap = found.bootstrap.filter(|_| enough);
    [
        display_name(score),
        display_name(&method.title),
        signed(found.mean),
        interval(found.interval.filter(|_| enough)),
        p_value(found.p_holm.filter(|_| enough)),
        interval(bootstrap),
    ]
    .map(plain)
    .to_vec()
}

/// A p-value as it is printed.
#[must_use]
pub fn p_value(p: Option<f64>) -> String {
    match p {
        None => "-".to_owned(),
        Some(p) if p < 0.001 => "<0.001".to_owned(),
        Some(p) => format!("{p:.3}"),
    }
}

#[cfg(test)]
mod tests;
