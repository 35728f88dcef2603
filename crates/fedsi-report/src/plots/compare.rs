//! Which plots a comparison has, and what each is drawn from.

use fedsi_compare::Comparison;
use fedsi_compare::comparison::{MethodResult, RunResult};
use fedsi_compare::statistics::{Metric, MetricResult};
use fedsi_data::display_name;
use fedsi_metrics::Summary as Spread;

use super::canvas::{Axes, Drawing, NAMED, drawing, number, percent, whole};
use super::differences::{differences, wins};
use super::method_curves::{MethodCurve, MethodCurves};
use super::method_style::MethodStyle;
use super::small_calibration::SmallCalibration;
use super::tradeoff::{MethodPoint, Tradeoff};
use crate::ReportError;
use crate::method_runs::{Calibration, MethodRuns, Points};

/// Methods that are drawn: more cannot be told apart, and `compare.json` may name any number.
const MAX_METHODS: usize = 40;

/// A plot with its heading on the page.
pub(crate) struct Titled {
    pub(crate) title: String,
    pub(crate) plot: Drawing,
    /// A line beneath that is this plot's own.
    pub(crate) note: String,
}

/// Everything drawn of a comparison.
pub(crate) struct ComparePlots {
    /// The main score against NLL; and the better half alone, where the others crowd it.
    pub(crate) tradeoff: Vec<Titled>,
    /// Differences from the reference, by score.
    pub(crate) differences: Vec<Titled>,
    /// Wins and losses against the reference, by score.
    pub(crate) wins: Vec<Titled>,
    /// A diagram a method.
    pub(crate) calibration: Vec<Titled>,
    pub(crate) loss: Option<Drawing>,
    pub(crate) held_out: Option<Drawing>,
    /// The main score against what it cost.
    pub(crate) cost: Vec<Titled>,
}

impl ComparePlots {
    pub(crate) fn of(comparison: &Comparison, method_runs: &[MethodRuns]) -> Result<Self, ReportError> {
        let held_out = if comparison.metrics.first().is_some_and(|metric| metric.is_share) {
            ("held-out accuracy", percent as fn(&f64) -> String)
        } else {
            ("held-out RMSE", number as fn(&f64) -> String)
        };
        Ok(Self {
            tradeoff: tradeoff(comparison)?,
            differences: differences(comparison)?,
            wins: wins(comparison)?,
            calibration: calibration(comparison, method_runs)?,
            loss: overlay("learning-curves", ("training loss", number), comparison, method_runs, |one| {
                &one.loss
            })?,
            held_out: overlay("held-out-curves", held_out, comparison, method_runs, |one| &one.held_out)?,
            cost: cost(comparison)?,
        })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Drawing> {
        let Self { tradeoff, differences, wins, calibration, loss, held_out, cost } = self;
        let titled =
            [tradeoff, differences, wins, calibration, cost].into_iter().flatten().map(|one| &one.plot);
        titled.chain([loss, held_out].into_iter().flatten())
    }
}

/// The style of a method is that of its place in the list.
pub(super) fn styles(comparison: &Comparison) -> impl Iterator<Item = (MethodStyle, &MethodResult)> {
    let methods = comparison.methods.iter().take(MAX_METHODS).enumerate();
    methods.map(|(place, method)| (MethodStyle::of(place), method))
}

pub(super) fn metric_result<'a>(method: &'a MethodResult, metric: &Metric) -> Option<&'a MetricResult> {
    method.metrics.get(&metric.key)
}

/// A score as an axis is labelled.
fn labels(metric: &Metric) -> fn(&f64) -> String {
    if metric.is_share { percent } else { number }
}

/// A range around values with their deviations, and some air.
fn around(values: impl Iterator<Item = (f64, f64)> + Clone) -> std::ops::Range<f64> {
    let low = values.clone().map(|(mean, deviation)| mean - deviation).fold(f64::INFINITY, f64::min);
    let high = values.map(|(mean, deviation)| mean + deviation).fold(f64::NEG_INFINITY, f64::max);
    if !low.is_finite() || !high.is_finite() {
        return 0.0..1.0;
    }
    let air = (0.1 * (high - low)).max(0.005 * high.abs()).max(1e-6);
    low - air..high + air
}

/// Methods by two scores: those that are ranked. The others' means are of other clients or seeds, and one point beside
/// another says that they compare.
fn points<'a>(comparison: &'a Comparison, x: &Metric, y: &Metric) -> Vec<MethodPoint<'a>> {
    let point = |(style, method): (MethodStyle, &'a MethodResult)| {
        let (x, y) = (metric_result(method, x)?, metric_result(method, y)?);
        let deviation = (x.std.unwrap_or(0.0), y.std.unwrap_or(0.0));
        Some(MethodPoint { name: &method.title, style, mean: (x.mean?, y.mean?), deviation })
    };
    ranked(comparison).filter_map(point).collect()
}

/// The methods that can be ranked, with their styles.
fn ranked(comparison: &Comparison) -> impl Iterator<Item = (MethodStyle, &MethodResult)> {
    styles(comparison).filter(|(_, method)| method.standing.unranked.is_none())
}

fn scatter(
    name: &str,
    points: Vec<MethodPoint<'_>>,
    (x_name, x_label): (&str, fn(&f64) -> String),
    (y_name, y_label): (&str, fn(&f64) -> String),
) -> Result<Drawing, ReportError> {
    let x = around(points.iter().map(|point| (point.mean.0, point.deviation.0)));
    let y = around(points.iter().map(|point| (point.mean.1, point.deviation.1)));
    let places = points.iter().map(|point| {
        format!("{} {} and {}", display_name(point.name), x_label(&point.mean.0), y_label(&point.mean.1))
    });
    let about =
        format!("{y_name} against {x_name}, a point a method: {}", places.collect::<Vec<_>>().join("; "));
    let axes = Axes { x, y, x_name, y_name, x_label, y_label, y_labels: 6, space: NAMED };
    drawing(name, &about, false, &Tradeoff { axes, points })
}

/// The main score against NLL.
fn tradeoff(comparison: &Comparison) -> Result<Vec<Titled>, ReportError> {
    let main = comparison.metrics.first();
    let nll = comparison.metrics.iter().find(|metric| metric.key == "nll");
    let (Some(main), Some(nll)) = (main, nll) else { return Ok(Vec::new()) };
    let all = points(comparison, main, nll);
    if all.len() < 2 {
        return Ok(Vec::new());
    }
    let (x, y) = ((main.title.as_str(), labels(main)), ("NLL, nats a sample", labels(nll)));
    let mut order: Vec<&MethodPoint<'_>> = all.iter().collect();
    order.sort_by(|a, b| a.mean.1.total_cmp(&b.mean.1));
    let better: Vec<MethodPoint<'_>> =
        order.iter().take(all.len().div_ceil(2)).map(|&point| point.clone()).collect();
    let width = |points: &[MethodPoint<'_>], of: fn(&MethodPoint<'_>) -> f64| {
        Spread::of(points.iter().map(of)).map_or(0.0, |spread| spread.max - spread.min)
    };
    let is_crowded = better.len() > 2
        && width(&all, |point| point.mean.1) > 4.0 * width(&better, |point| point.mean.1)
        && width(&all, |point| point.mean.0) > 2.0 * width(&better, |point| point.mean.0);
    let title = format!("{} against NLL", capital(&main.title));
    let mut made = vec![Titled {
        title: title.clone(),
        plot: scatter("tradeoff", all.clone(), x, y)?,
        note: String::new(),
    }];
    if is_crowded {
        made.push(Titled {
            title: format!("{title}: the better half"),
            plot: scatter("tradeoff-close", better, x, y)?,
            note: "The half with the lower NLL, closer.".to_owned(),
        });
    }
    Ok(made)
}

/// A word at the start of a heading.
pub(crate) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A small diagram for every method with predictions.
fn calibration(comparison: &Comparison, method_runs: &[MethodRuns]) -> Result<Vec<Titled>, ReportError> {
    let mut made = Vec::new();
    for (method, found) in comparison.methods.iter().zip(method_runs).take(MAX_METHODS) {
        let Some(calibration) = &found.calibration else { continue };
        let (name, note, small) = match calibration {
            Calibration::Reliability { bins, ece, floor } => (
                format!("reliability-{}", method.name),
                format!("ECE {ece:.4} (floor {floor:.4})"),
                SmallCalibration::Reliability(bins),
            ),
            Calibration::Coverage { points, inside } => {
                let note = format!("{:.0}% inside the 90% interval", 100.0 * inside);
                (format!("coverage-{}", method.name), note, SmallCalibration::Coverage(points))
            }
        };
        let runs = crate::format::counted(found.runs, "run");
        let title = display_name(&method.title);
        let about = match small {
            SmallCalibration::Reliability(_) => {
                format!("Reliability diagram of {title}, {runs} pooled: {note}")
            }
            SmallCalibration::Coverage(_) => {
                format!("Coverage of {title}'s intervals, {runs} pooled: {note}")
            }
        };
        let plot = drawing(&file_name(&name), &about, false, &small)?;
        made.push(Titled { title, plot, note });
    }
    Ok(made)
}

/// A file's name from a method's: `compare.json` may say anything.
pub(super) fn file_name(name: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    name.chars().take(60).map(plain).collect()
}

/// A curve over rounds for every method that has one.
fn overlay(
    name: &str,
    (axis, label): (&str, fn(&f64) -> String),
    comparison: &Comparison,
    method_runs: &[MethodRuns],
    of: impl Fn(&MethodRuns) -> &Points,
) -> Result<Option<Drawing>, ReportError> {
    let curves = styles(comparison).zip(method_runs).filter(|(_, found)| !of(found).is_empty());
    let curves: Vec<MethodCurve<'_>> = curves
        .map(|((style, method), found)| MethodCurve { name: &method.title, style, points: of(found).clone() })
        .collect();
    if curves.is_empty() {
        return Ok(None);
    }
    let highest = |curve: &MethodCurve<'_>| curve.points.iter().map(|point| point.1).fold(0.0, f64::max);
    let tops: Vec<f64> = curves.iter().map(highest).collect();
    // One method that starts far above the others would press them to the ground.
    let usual = fedsi_metrics::quantile(&tops, 0.5).unwrap_or(1.0);
    let top = tops.iter().copied().fold(1e-6, f64::max).min(3.0 * usual.max(1e-6));
    let last = curves.iter().filter_map(|curve| curve.points.last()).map(|point| point.0).fold(1.0, f64::max);
    let ends = curves
        .iter()
        .filter_map(|curve| Some(format!("{} {}", display_name(curve.name), label(&curve.points.last()?.1))));
    let about =
        format!("{axis} over rounds, mean over seeds; at the end: {}", ends.collect::<Vec<_>>().join(", "));
    let axes = Axes {
        x: 0.0..last,
        y: 0.0..1.08 * top,
        x_name: "round",
        y_name: axis,
        x_label: whole,
        y_label: label,
        y_labels: 6,
        space: NAMED,
    };
    drawing(name, &about, false, &MethodCurves { axes, curves }).map(Some)
}

/// What a run cost.
type Cost = fn(&RunResult) -> Option<f64>;

/// The main score against seconds and against traffic.
fn cost(comparison: &Comparison) -> Result<Vec<Titled>, ReportError> {
    let Some(main) = comparison.metrics.first() else { return Ok(Vec::new()) };
    let megabytes = |run: &RunResult| run.bytes.map(|bytes| (bytes.up as f64 + bytes.down as f64) / 1e6);
    let seconds = |run: &RunResult| run.seconds;
    let kinds: [(&str, &str, &str, Cost); 2] = [
        ("cost-seconds", "seconds", "seconds of a run, wall clock", seconds),
        ("cost-bytes", "traffic", "MB of a run, up and down", megabytes),
    ];
    let mut made = Vec::new();
    for (name, title, axis, of) in kinds {
        let point = |(style, method): (MethodStyle, _)| {
            let method: &MethodResult = method;
            let found = metric_result(method, main)?;
            let spread = Spread::of(method.runs.iter().filter_map(of))?;
            let deviation = (spread.std_dev.unwrap_or(0.0), found.std.unwrap_or(0.0));
            Some((style, method, (spread.mean, found.mean?), deviation))
        };
        let points: Vec<MethodPoint<'_>> = ranked(comparison)
            .filter_map(point)
            .map(|(style, method, mean, deviation)| MethodPoint {
                name: &method.title,
                style,
                mean,
                deviation,
            })
            .collect();
        if points.len() < 2 || points.iter().all(|point| point.mean.0 == 0.0) {
            continue;
        }
        made.push(Titled {
            title: format!("{} against {title}", capital(&main.title)),
            plot: scatter(name, points, (axis, number), (&main.title, labels(main)))?,
            note: String::new(),
        });
    }
    Ok(made)
}
