//! What a comparison shows against its reference: differences with their intervals, and wins and losses.

use fedsi_compare::Comparison;
use fedsi_compare::comparison::MethodResult;
use fedsi_compare::statistics::{Difference, Direction, Metric};
use fedsi_data::display_name;

use super::canvas::drawing;
use super::compare::{Titled, file_name, metric_result, styles};
use super::forest::{Finding, Forest, ForestRow};
use super::method_style::MethodStyle;
use super::win_loss::{WinLossBars, WinLossRow};
use crate::ReportError;

/// A corrected p-value below this is called significant.
pub(crate) const LEVEL: f64 = 0.05;

/// Whether a difference is significant after correction, and which way.
pub(super) fn finding(metric: &Metric, found: &Difference) -> Finding {
    match found.p_holm {
        Some(p) if p < LEVEL && is_better(metric, found.mean) => Finding::Better,
        Some(p) if p < LEVEL => Finding::Worse,
        _ => Finding::Open,
    }
}

/// Whether a difference of this sign is an improvement.
pub(crate) fn is_better(metric: &Metric, difference: f64) -> bool {
    match metric.direction {
        Direction::Higher => difference > 0.0,
        Direction::Lower | Direction::Nearest(_) => difference < 0.0,
    }
}

/// Each seed's difference, from the scores of runs.
fn by_seed(metric: &Metric, method: &MethodResult, reference: &MethodResult) -> Vec<f64> {
    let score = |run: &fedsi_compare::comparison::RunResult| metric.value(&run.scores);
    let of = |run: &fedsi_compare::comparison::RunResult| {
        let other = reference.runs.iter().find(|other| other.seed == run.seed)?;
        Some(metric.direction.difference(score(run)?, score(other)?))
    };
    method.runs.iter().filter_map(of).collect()
}

fn points(value: f64) -> String {
    format!("{:+.2}", 100.0 * value)
}

fn plain(value: f64) -> String {
    format!("{value:+.4}")
}

fn finer(value: f64) -> String {
    format!("{value:+.5}")
}

/// How differences of a score are written.
fn labels(metric: &Metric) -> fn(f64) -> String {
    match (metric.is_share, metric.key.as_str()) {
        (true, _) => points,
        (false, "aurc") => finer,
        (false, _) => plain,
    }
}

/// A plot of differences for each tested score.
pub(super) fn differences(comparison: &Comparison) -> Result<Vec<Titled>, ReportError> {
    let Some(reference) = comparison.reference() else { return Ok(Vec::new()) };
    let title = display_name(&reference.title);
    let mut made = Vec::new();
    for metric in comparison.metrics.iter().filter(|metric| metric.tested) {
        let label = labels(metric);
        let row = |(style, method): (MethodStyle, _)| {
            let method: &MethodResult = method;
            let found = metric_result(method, metric)?.difference.as_ref()?;
            Some(ForestRow {
                name: &method.title,
                style,
                mean: found.mean,
                interval: found.interval,
                seeds: by_seed(metric, method, reference),
                finding: finding(metric, found),
                words: label(found.mean),
            })
        };
        let rows: Vec<ForestRow<'_>> = styles(comparison).filter_map(row).collect();
        if rows.is_empty() {
            continue;
        }
        let score = display_name(&metric.title);
        let words = rows.iter().map(|row| {
            let interval = row.interval.map_or_else(String::new, |[low, high]| {
                format!(", 95% interval {} to {}", label(low), label(high))
            });
            format!("{} {}{interval}", display_name(row.name), row.words)
        });
        let about = format!("{score} less that of {title}: {}", words.collect::<Vec<_>>().join("; "));
        let unit = if metric.is_share { ", percentage points" } else { "" };
        let axis = format!("{score} less {title}'s{unit}");
        let sides = if is_better(metric, 1.0) { ["worse", "better"] } else { ["better", "worse"] };
        made.push(Titled {
            title: format!("{} less {title}'s", super::compare::capital(&score)),
            plot: drawing(
                &file_name(&format!("differences-{}", metric.key)),
                &about,
                false,
                &Forest { rows, axis: &axis, sides, label },
            )?,
            note: String::new(),
        });
    }
    Ok(made)
}

/// Scores whose wins and losses are drawn.
fn is_counted(comparison: &Comparison, metric: &Metric) -> bool {
    let is_main = comparison.metrics.first().is_some_and(|main| main.key == metric.key);
    metric.tested && (is_main || metric.key == "nll")
}

/// Wins and losses against the reference, by the main score and by NLL.
pub(super) fn wins(comparison: &Comparison) -> Result<Vec<Titled>, ReportError> {
    let Some(reference) = comparison.reference() else { return Ok(Vec::new()) };
    let mut made = Vec::new();
    for metric in comparison.metrics.iter().filter(|metric| is_counted(comparison, metric)) {
        let row = |(style, method)| row(metric, reference, style, method);
        let rows: Vec<WinLossRow<'_>> = styles(comparison).map(row).collect();
        if rows.iter().all(|row| row.counts.is_none()) {
            continue;
        }
        let words = rows.iter().filter_map(|row| {
            let [wins, ties, losses] = row.counts?;
            Some(format!("{} wins {wins}, ties {ties}, loses {losses}", display_name(row.name)))
        });
        let words: Vec<String> = words.collect();
        let [title, score] = [&reference.title, &metric.title].map(|name| display_name(name));
        let about = format!("Against {title}, by {score}: {}", words.join("; "));
        let axis = format!("clients of all seeds, {score} against {title}");
        made.push(Titled {
            title: format!("Clients by {score}, against {title}"),
            plot: drawing(
                &file_name(&format!("wins-{}", metric.key)),
                &about,
                false,
                &WinLossBars { rows, axis: &axis },
            )?,
            note: String::new(),
        });
    }
    Ok(made)
}

fn row<'a>(
    metric: &Metric,
    reference: &MethodResult,
    style: MethodStyle,
    method: &'a MethodResult,
) -> WinLossRow<'a> {
    let counts = metric_result(method, metric).filter(|found| found.difference.is_some()).map(|found| {
        let counts = found.against_reference;
        [counts.wins, counts.ties, counts.losses]
    });
    let instead = match (method.name == reference.name, method.runs.is_empty()) {
        (true, _) => "the others are counted against it",
        (false, true) => "no runs",
        (false, false) if method.standing.unranked.is_some() => "not ranked",
        (false, false) => "nothing to count",
    };
    WinLossRow { name: &method.title, style, counts, instead }
}
