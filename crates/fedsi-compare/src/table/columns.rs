//! Which columns a table has: the scores under their names in `summary.json`, and what runs cost.

use fedsi_data::display_name;
use fedsi_fl::config::hint;
use fedsi_fl::scores::Scores;

use super::{Cell, Mark, number, plain, score};
use crate::CompareError;
use crate::comparison::{Comparison, MethodResult, RunResult};
use crate::statistics::{Metric, metrics};

/// Which columns a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns<'a> {
    /// Those that the comparison was asked for, or all that are usually shown.
    Usual,
    /// As many of the usual ones, by importance, as fit into so many letters; those that were asked for whatever they take.
    Fit(usize),
    /// These.
    Only(&'a [String]),
}

/// Columns beside the scores.
const FLOOR: &str = "ece_floor";
const SECONDS: &str = "seconds";
const BYTES: &str = "bytes";
const SCORED: &str = "scored_clients";
const ACCURACY_ALL: &str = "accuracy_all";

/// What comes first where not everything fits; what is not listed comes last, in its order.
const IMPORTANCE: [&str; 9] =
    ["accuracy", "ece", FLOOR, "nll", "rmse", "mae", "coverage_90", "balanced_accuracy", SECONDS];

/// A column: its key, its name over it, and a cell a method.
pub(super) struct Column {
    pub(super) key: String,
    pub(super) title: String,
    pub(super) cells: Vec<Cell>,
}

/// The keys of all columns that a table of any task may have.
fn known() -> Vec<String> {
    let kinds = [Scores::classification(None), Scores::regression(None)];
    let mut all: Vec<String> = kinds.iter().flat_map(metrics).map(|metric| metric.key).collect();
    all.extend([FLOOR, SECONDS, BYTES, SCORED, ACCURACY_ALL].map(str::to_owned));
    let mut seen = Vec::new();
    all.retain(|key| {
        !seen.contains(key) && {
            seen.push(key.clone());
            true
        }
    });
    all
}

/// Whether tables can have these columns.
///
/// # Errors
/// The first name that no table has, with the nearest one and all of them.
pub fn check_columns(names: &[String]) -> Result<(), CompareError> {
    let known = known();
    match names.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(CompareError::Column {
            name: name.clone(),
            hint: hint(name, known.iter().map(String::as_str)),
            known: known.join(", "),
        }),
    }
}

impl Comparison {
    /// The columns that are asked for, by their keys, and those that are usually shown and are not.
    pub(super) fn columns(&self, wanted: Columns<'_>, methods: &[String]) -> (Vec<Column>, Vec<String>) {
        let chosen = match wanted {
            Columns::Only(names) => names,
            Columns::Usual | Columns::Fit(_) => &self.columns,
        };
        if !chosen.is_empty() {
            return (chosen.iter().map(|key| self.column(key)).collect(), Vec::new());
        }
        let usual = self.usual();
        let Columns::Fit(width) = wanted else {
            return (usual.iter().map(|key| self.column(key)).collect(), Vec::new());
        };
        let place = |key: &String| IMPORTANCE.iter().position(|own| own == key).unwrap_or(IMPORTANCE.len());
        let mut order: Vec<&String> = usual.iter().collect();
        order.sort_by_key(|key| place(key));
        let longest = methods.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(6);
        let (mut taken, mut left) = (longest, Vec::new());
        let mut shown: Vec<Column> = Vec::new();
        for key in order {
            let column = self.column(key);
            let needed = 2 + column.width();
            if shown.is_empty() || taken + needed <= width {
                taken += needed;
                shown.push(column);
            } else {
                left.push(key.clone());
            }
        }
        let at = |key: &String| usual.iter().position(|own| own == key);
        shown.sort_by_key(|column| at(&column.key));
        left.sort_by_key(at);
        (shown, left)
    }

    /// The keys of the columns that are usually shown, in their order.
    fn usual(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for metric in self.metrics.iter().filter(|metric| metric.shown) {
            keys.push(metric.key.clone());
            let has_floor = |method: &MethodResult| {
                method.metrics.get(&metric.key).is_some_and(|one| one.floor.is_some())
            };
            if metric.key == "ece" && self.methods.iter().any(has_floor) {
                keys.push(FLOOR.to_owned());
            }
        }
        keys.extend([SECONDS, BYTES].map(str::to_owned));
        keys
    }

    fn column(&self, key: &str) -> Column {
        let mean = |values: Vec<f64>| fedsi_metrics::Summary::of(values).map(|spread| spread.mean);
        let of_runs = |method: &MethodResult, of: fn(&RunResult) -> Option<f64>| {
            mean(method.runs.iter().filter_map(of).collect())
        };
        let megabytes = |run: &RunResult| run.bytes.map(|bytes| (bytes.up as f64 + bytes.down as f64) / 1e6);
        let (title, cells): (String, Vec<Cell>) = match key {
            FLOOR => {
                let floor = |method: &MethodResult| method.metrics.get("ece").and_then(|one| one.floor);
                ("floor".to_owned(), self.cells(|method| number(floor(method), 4)))
            }
            SECONDS => {
                ("seconds".to_owned(), self.cells(|method| number(of_runs(method, |run| run.seconds), 1)))
            }
            BYTES => ("MB".to_owned(), self.cells(|method| number(of_runs(method, megabytes), 1))),
            SCORED => {
                let count = |method: &MethodResult| {
                    method.standing.scored_clients.map_or_else(|| "-".to_owned(), |count| count.to_string())
                };
                ("clients scored".to_owned(), self.cells(count))
            }
            ACCURACY_ALL => {
                let all = |method: &MethodResult| {
                    number(method.standing.accuracy_all.map(|share| 100.0 * share), 2)
                };
                ("accuracy of all %".to_owned(), self.cells(all))
            }
            _ => match self.metrics.iter().find(|metric| metric.key == key) {
                Some(metric) => (heading(metric), self.scores(metric)),
                None => (key.to_owned(), self.cells(|_| "-".to_owned())),
            },
        };
        Column { key: key.to_owned(), title, cells }
    }

    fn cells(&self, text: impl Fn(&MethodResult) -> String) -> Vec<Cell> {
        self.methods.iter().map(|method| plain(text(method))).collect()
    }

    fn scores(&self, metric: &Metric) -> Vec<Cell> {
        let of = |method: &MethodResult| {
            score(metric, method.metrics.get(&metric.key), method.standing.unranked.is_none())
        };
        self.methods.iter().map(of).collect()
    }
}

/// A score's name over a column.
fn heading(metric: &Metric) -> String {
    let unit = if metric.is_share && !metric.title.ends_with('%') { " %" } else { "" };
    format!("{}{unit}", display_name(&metric.title))
}

impl Column {
    /// Letters that it takes in a terminal.
    fn width(&self) -> usize {
        let marked = self.cells.iter().any(|cell| cell.mark != Mark::None);
        let longest = self.cells.iter().map(|cell| cell.text.chars().count()).max().unwrap_or(0);
        longest.max(self.title.chars().count()) + if marked { 2 } else { 0 }
    }
}
