//! A comparison for programs: a line a method, every digit.

use fedsi_data::csv_text;

use crate::comparison::{Comparison, MethodResult, RunResult};
use crate::statistics::{Difference, Metric, MetricResult};

impl Comparison {
    /// Every metric's mean, deviation and rank; of those that are tested the difference from the reference with its
    /// intervals and p-values, and of ECE its floor and the difference from that.
    pub(super) fn csv(&self) -> String {
        let mut lines = csv::Writer::from_writer(Vec::new());
        let mut heading: Vec<String> = ["method", "title", "runs"].map(str::to_owned).to_vec();
        self.metrics.iter().for_each(|metric| heading.extend(metric_heading(metric)));
        heading.extend(["reference", "seconds", "bytes_up", "bytes_down"].map(str::to_owned));
        heading.extend(["scored_clients", "tested_clients", "unranked", "external"].map(str::to_owned));
        let mut rows = vec![heading];
        rows.extend(self.methods.iter().map(|method| self.csv_row(method)));
        // A writer into memory has nothing to fail at, and all rows are equally long.
        for row in rows {
            let _ = lines.write_record(row);
        }
        lines.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }

    fn csv_row(&self, method: &MethodResult) -> Vec<String> {
        let names = [&method.name, &method.title].map(|name| csv_text(name).into_owned());
        let mut row: Vec<String> = names.into_iter().chain([method.runs.len().to_string()]).collect();
        for metric in &self.metrics {
            let result = method.metrics.get(&metric.key).cloned().unwrap_or_default();
            row.extend(metric_cells(metric, &result));
        }
        row.push(self.reference.as_deref().map(|name| csv_text(name).into_owned()).unwrap_or_default());
        let mean = |of: fn(&RunResult) -> Option<f64>| {
            text(fedsi_metrics::Summary::of(method.runs.iter().filter_map(of)).map(|spread| spread.mean))
        };
        row.extend([
            mean(|run| run.seconds),
            mean(|run| Some(run.bytes?.up as f64)),
            mean(|run| Some(run.bytes?.down as f64)),
        ]);
        let count = |value: Option<usize>| value.map(|value| value.to_string()).unwrap_or_default();
        let standing = &method.standing;
        row.extend([count(standing.scored_clients), count(standing.tested_clients)]);
        row.push(standing.unranked.clone().unwrap_or_default());
        row.push(method.external.is_some().to_string());
        row
    }
}

/// The columns of a difference.
const DIFFERENCE: [&str; 8] =
    ["difference", "low", "high", "p", "p_holm", "relative", "bootstrap_low", "bootstrap_high"];

fn metric_heading(metric: &Metric) -> Vec<String> {
    let key = csv_text(&metric.key);
    let mut names: Vec<String> = ["mean", "std", "rank"].map(|what| format!("{key}_{what}")).to_vec();
    if metric.tested {
        names.extend(DIFFERENCE.map(|what| format!("{key}_{what}")));
        names.extend(["better", "worse", "equal"].map(|what| format!("{key}_clients_{what}")));
    }
    if metric.key == "ece" {
        names.push("ece_floor".to_owned());
        names.extend(DIFFERENCE[..5].iter().map(|what| format!("ece_over_floor_{what}")));
    }
    names
}

fn metric_cells(metric: &Metric, result: &MetricResult) -> Vec<String> {
    let mut cells = vec![text(result.mean), text(result.std)];
    cells.push(result.rank.map(|rank| rank.to_string()).unwrap_or_default());
    if metric.tested {
        cells.extend(difference_cells(result.difference.as_ref()));
        let counts = result.against_reference;
        let counts = result.difference.map(|_| [counts.wins, counts.losses, counts.ties]);
        cells.extend(counts.map_or_else(Default::default, |counts| counts.map(|count| count.to_string())));
    }
    if metric.key == "ece" {
        cells.push(text(result.floor));
        cells.extend(difference_cells(result.above_floor.as_ref()).into_iter().take(5));
    }
    cells
}

fn difference_cells(found: Option<&Difference>) -> [String; 8] {
    let ends = |of: fn(&Difference) -> Option<[f64; 2]>| found.and_then(of);
    let (own, bootstrap) = (ends(|found| found.interval), ends(|found| found.bootstrap));
    [
        found.map(|found| found.mean),
        own.map(|ends| ends[0]),
        own.map(|ends| ends[1]),
        found.and_then(|found| found.p),
        found.and_then(|found| found.p_holm),
        found.and_then(|found| found.relative),
        bootstrap.map(|ends| ends[0]),
        bootstrap.map(|ends| ends[1]),
    ]
    .map(text)
}

fn text(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}
