//! Which plots a comparison has, and what each is drawn from.

use fedsi_compare::Comparison;
use fedsi_compare::comparison::{MethodResult, RunResult};
use fedsi_compare::statistics::{Metric, Standing};
use fedsi_metrics::Summary as Spread;

use super::canvas::{Axes, Drawing, NAMED, drawing, number, percent, whole};
use super::looks::Look;
use super::overlay::{Curve, Overlay};
use super::small::Small;
use super::tally::{Row, Tallies};
use super::tradeoff::{Spot, Tradeoff};
use crate::ReportError;
use crate::comparison::gathered::{Calibration, Gathered, Points};

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
    /// Wins and losses, by score.
    pub(crate) wins: Vec<Titled>,
    /// A diagram a method.
    pub(crate) calibration: Vec<Titled>,
    pub(crate) loss: Option<Drawing>,
    pub(crate) held_out: Option<Drawing>,
    /// The main score against what it cost.
    pub(crate) cost: Vec<Titled>,
}

impl ComparePlots {
    pub(crate) fn of(comparison: &Comparison, gathered: &[Gathered]) -> Result<Self, ReportError> {
        let held_out = if comparison.metrics.first().is_some_and(|metric| metric.is_share) {
            ("held-out accuracy", percent as fn(&f64) -> String)
        } else {
            ("held-out RMSE", number as fn(&f64) -> String)
        };
        Ok(Self {
            tradeoff: tradeoff(comparison)?,
            wins: wins(comparison)?,
            calibration: calibration(comparison, gathered)?,
            loss: overlay("learning-curves", ("training loss", number), comparison, gathered, |one| {
                &one.loss
            })?,
            held_out: overlay("held-out-curves", held_out, comparison, gathered, |one| &one.held_out)?,
            cost: cost(comparison)?,
        })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Drawing> {
        let Self { tradeoff, wins, calibration, loss, held_out, cost } = self;
        let titled = [tradeoff, wins, calibration, cost].into_iter().flatten().map(|one| &one.plot);
        titled.chain([loss, held_out].into_iter().flatten())
    }
}

/// The look of a method is that of its place in the list.
fn looks(comparison: &Comparison) -> impl Iterator<Item = (Look, &MethodResult)> {
    comparison.methods.iter().enumerate().map(|(place, method)| (Look::of(place), method))
}

fn standing<'a>(method: &'a MethodResult, metric: &Metric) -> Option<&'a Standing> {
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

/// Methods by two scores.
fn spots<'a>(comparison: &'a Comparison, x: &Metric, y: &Metric) -> Vec<Spot<'a>> {
    let spot = |(look, method): (Look, &'a MethodResult)| {
        let (x, y) = (standing(method, x)?, standing(method, y)?);
        let deviation = (x.std.unwrap_or(0.0), y.std.unwrap_or(0.0));
        Some(Spot { name: &method.title, look, mean: (x.mean?, y.mean?), deviation })
    };
    looks(comparison).filter_map(spot).collect()
}

fn scatter(
    name: &str,
    spots: Vec<Spot<'_>>,
    (x_name, x_label): (&str, fn(&f64) -> String),
    (y_name, y_label): (&str, fn(&f64) -> String),
) -> Result<Drawing, ReportError> {
    let x = around(spots.iter().map(|spot| (spot.mean.0, spot.deviation.0)));
    let y = around(spots.iter().map(|spot| (spot.mean.1, spot.deviation.1)));
    let places = spots
        .iter()
        .map(|spot| format!("{} {} and {}", spot.name, x_label(&spot.mean.0), y_label(&spot.mean.1)));
    let about =
        format!("{y_name} against {x_name}, a point a method: {}", places.collect::<Vec<_>>().join("; "));
    let axes = Axes { x, y, x_name, y_name, x_label, y_label, y_labels: 6, space: NAMED };
    drawing(name, &about, false, &Tradeoff { axes, spots })
}

/// The main score against NLL.
fn tradeoff(comparison: &Comparison) -> Result<Vec<Titled>, ReportError> {
    let main = comparison.metrics.first();
    let nll = comparison.metrics.iter().find(|metric| metric.key == "nll");
    let (Some(main), Some(nll)) = (main, nll) else { return Ok(Vec::new()) };
    let all = spots(comparison, main, nll);
    if all.len() < 2 {
        return Ok(Vec::new());
    }
    let (x, y) = ((main.title.as_str(), labels(main)), ("NLL, nats a sample", labels(nll)));
    let mut order: Vec<&Spot<'_>> = all.iter().collect();
    order.sort_by(|a, b| a.mean.1.total_cmp(&b.mean.1));
    let better: Vec<Spot<'_>> = order.iter().take(all.len().div_ceil(2)).map(|&spot| spot.clone()).collect();
    let width = |spots: &[Spot<'_>], of: fn(&Spot<'_>) -> f64| {
        Spread::of(spots.iter().map(of)).map_or(0.0, |spread| spread.max - spread.min)
    };
    let is_crowded = better.len() > 2
        && width(&all, |spot| spot.mean.1) > 4.0 * width(&better, |spot| spot.mean.1)
        && width(&all, |spot| spot.mean.0) > 2.0 * width(&better, |spot| spot.mean.0);
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

/// Wins and losses by each tested score.
fn wins(comparison: &Comparison) -> Result<Vec<Titled>, ReportError> {
    let mut made = Vec::new();
    for metric in comparison.metrics.iter().filter(|metric| metric.tested) {
        let best = looks(comparison).find(|(_, method)| {
            standing(method, metric)
                .is_some_and(|found| found.rank == Some(1) && found.p.is_none() && is_blank(found))
        });
        let Some((_, best)) = best else { continue };
        let row = |(look, method)| row(metric, best, look, method);
        let rows: Vec<Row<'_>> = looks(comparison).map(row).collect();
        if rows.iter().all(|row| row.counts.is_none()) {
            continue;
        }
        let words = rows.iter().filter_map(|row| {
            let [wins, ties, losses] = row.counts?;
            Some(format!("{} wins {wins}, ties {ties}, loses {losses}", row.name))
        });
        let words: Vec<String> = words.collect();
        let about = format!("Against {}, the best by {}: {}", best.title, metric.title, words.join("; "));
        let axis = format!("clients of all seeds, {} against {}", metric.title, best.title);
        made.push(Titled {
            title: format!("By {}, against {}", metric.title, best.title),
            plot: drawing(&format!("wins-{}", metric.key), &about, false, &Tallies { rows, axis: &axis })?,
            note: String::new(),
        });
    }
    Ok(made)
}

/// Whether nothing was counted against another method.
const fn is_blank(found: &Standing) -> bool {
    found.against_best.wins + found.against_best.losses + found.against_best.ties == 0
}

fn row<'a>(metric: &Metric, best: &MethodResult, look: Look, method: &'a MethodResult) -> Row<'a> {
    let counts = standing(method, metric).filter(|found| !is_blank(found)).map(|found| {
        let tally = found.against_best;
        [tally.wins, tally.ties, tally.losses]
    });
    let instead = match (method.name == best.name, method.runs.is_empty()) {
        (true, _) => "the best: the others are counted against it",
        (false, true) => "no runs",
        (false, false) => "nothing to count",
    };
    Row { name: &method.title, look, counts, instead }
}

/// A small diagram for every method with predictions.
fn calibration(comparison: &Comparison, gathered: &[Gathered]) -> Result<Vec<Titled>, ReportError> {
    let mut made = Vec::new();
    for (method, found) in comparison.methods.iter().zip(gathered) {
        let Some(calibration) = &found.calibration else { continue };
        let (name, note, small) = match calibration {
            Calibration::Reliability { bins, ece } => {
                (format!("reliability-{}", method.name), format!("ECE {ece:.3}"), Small::Reliability(bins))
            }
            Calibration::Coverage { points, inside } => {
                let note = format!("{:.0}% inside the 90% interval", 100.0 * inside);
                (format!("coverage-{}", method.name), note, Small::Coverage(points))
            }
        };
        let runs = crate::words::counted(found.runs, "run");
        let about = match small {
            Small::Reliability(_) => {
                format!("Reliability diagram of {}, {runs} pooled: {note}", method.title)
            }
            Small::Coverage(_) => format!("Coverage of {}'s intervals, {runs} pooled: {note}", method.title),
        };
        let plot = drawing(&file_name(&name), &about, false, &small)?;
        made.push(Titled { title: method.title.clone(), plot, note });
    }
    Ok(made)
}

/// A file's name from a method's: `compare.json` may say anything.
fn file_name(name: &str) -> String {
    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}

/// A curve over rounds for every method that has one.
fn overlay(
    name: &str,
    (axis, label): (&str, fn(&f64) -> String),
    comparison: &Comparison,
    gathered: &[Gathered],
    of: impl Fn(&Gathered) -> &Points,
) -> Result<Option<Drawing>, ReportError> {
    let curves = looks(comparison).zip(gathered).filter(|(_, found)| !of(found).is_empty());
    let curves: Vec<Curve<'_>> = curves
        .map(|((look, method), found)| Curve { name: &method.title, look, points: of(found).clone() })
        .collect();
    if curves.is_empty() {
        return Ok(None);
    }
    let highest = |curve: &Curve<'_>| curve.points.iter().map(|point| point.1).fold(0.0, f64::max);
    let tops: Vec<f64> = curves.iter().map(highest).collect();
    // One method that starts far above the others would press them to the ground.
    let usual = fedsi_metrics::quantile(&tops, 0.5).unwrap_or(1.0);
    let top = tops.iter().copied().fold(1e-6, f64::max).min(3.0 * usual.max(1e-6));
    let last = curves.iter().filter_map(|curve| curve.points.last()).map(|point| point.0).fold(1.0, f64::max);
    let ends =
        curves.iter().filter_map(|curve| Some(format!("{} {}", curve.name, label(&curve.points.last()?.1))));
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
    drawing(name, &about, false, &Overlay { axes, curves }).map(Some)
}

/// What a run cost.
type Cost = fn(&RunResult) -> f64;

/// The main score against seconds and against traffic.
fn cost(comparison: &Comparison) -> Result<Vec<Titled>, ReportError> {
    let Some(main) = comparison.metrics.first() else { return Ok(Vec::new()) };
    let megabytes = |run: &RunResult| (run.bytes.up + run.bytes.down) as f64 / 1e6;
    let seconds = |run: &RunResult| run.seconds;
    let kinds: [(&str, &str, &str, Cost); 2] = [
        ("cost-seconds", "seconds", "seconds of a run, wall clock", seconds),
        ("cost-bytes", "traffic", "MB of a run, up and down", megabytes),
    ];
    let mut made = Vec::new();
    for (name, title, axis, of) in kinds {
        let spot = |(look, method): (Look, _)| {
            let method: &MethodResult = method;
            let found = standing(method, main)?;
            let spread = Spread::of(method.runs.iter().map(of))?;
            let deviation = (spread.std_dev.unwrap_or(0.0), found.std.unwrap_or(0.0));
            Some((look, method, (spread.mean, found.mean?), deviation))
        };
        let spots: Vec<Spot<'_>> = looks(comparison)
            .filter_map(spot)
            .map(|(look, method, mean, deviation)| Spot { name: &method.title, look, mean, deviation })
            .collect();
        if spots.len() < 2 || spots.iter().all(|spot| spot.mean.0 == 0.0) {
            continue;
        }
        made.push(Titled {
            title: format!("{} against {title}", capital(&main.title)),
            plot: scatter(name, spots, (axis, number), (&main.title, labels(main)))?,
            note: String::new(),
        });
    }
    Ok(made)
}
