//! Plots of calibration and uncertainty; each is redrawn for the client that is chosen.

use fedsi_metrics::Summary as Spread;

use super::canvas::{BLUE, ORANGE, VERMILION};
use super::histograms::{Histogram, Histograms};
use super::lines::Lines;
use super::reliability::{Reliability, is_faint};
use super::{Axes, Drawing, NAMED, drawing, number, percent, upper_end};
use crate::ReportError;
use crate::series::{COVERAGES, ClassSeries, LEVELS, RESIDUAL_BINS, RESIDUALS, RunSeries, ValueSeries};

/// The plots of a run's uncertainty.
pub(crate) enum UncertaintyPlots {
    /// Of predicted classes.
    Classes { reliability: Drawing, risk: Drawing, entropy: Drawing },
    /// Of predicted values.
    Values { intervals: Drawing, residuals: Drawing, deviation: Drawing },
}

impl UncertaintyPlots {
    pub(crate) fn of(series: &RunSeries) -> Result<Self, ReportError> {
        match series {
            RunSeries::Classes { classes, pooled, clients } => Ok(Self::Classes {
                reliability: reliability(pooled)?,
                risk: risk(pooled, clients)?,
                entropy: entropy(pooled, *classes)?,
            }),
            RunSeries::Values { pooled, clients } => Ok(Self::Values {
                intervals: intervals(pooled)?,
                residuals: residuals(pooled)?,
                deviation: deviation(pooled, clients)?,
            }),
        }
    }

    pub(crate) fn all(&self) -> [&Drawing; 3] {
        match self {
            Self::Classes { reliability, risk, entropy } => [reliability, risk, entropy],
            Self::Values { intervals, residuals, deviation } => [intervals, residuals, deviation],
        }
    }
}

fn reliability(pooled: &ClassSeries) -> Result<Drawing, ReportError> {
    let total = pooled.bins.iter().map(|bin| bin.count).sum();
    let gaps = pooled.bins.iter().filter(|bin| !bin.is_empty() && !is_faint(bin, total));
    let widest = gaps.max_by(|a, b| a.gap().total_cmp(&b.gap()));
    let widest = widest.map_or_else(String::new, |bin| {
        format!(
            "; the widest gap of groups with at least 1% of the predictions: confidence {:.0}%, accuracy {:.0}%",
            100.0 * bin.confidence,
            100.0 * bin.accuracy
        )
    });
    let about =
        format!("Reliability diagram: accuracy by confidence, over a histogram of confidences{widest}");
    drawing("reliability", &about, true, &Reliability { bins: &pooled.bins })
}

fn risk(pooled: &ClassSeries, clients: &[(usize, ClassSeries)]) -> Result<Drawing, ReportError> {
    let points: Vec<(f64, f64)> = curve(&pooled.risk);
    let mut tops: Vec<f64> =
        clients.iter().filter_map(|(_, one)| one.risk.iter().copied().max_by(f64::total_cmp)).collect();
    let own = pooled.risk.iter().copied().fold(0.0, f64::max);
    tops.push(own);
    let axes = Axes {
        x: 0.0..1.0,
        y: 0.0..upper_end(&tops, own.max(0.005)).min(1.0),
        x_name: "share of rows answered, the surest first",
        y_name: "wrong among them",
        x_label: percent,
        y_label: percent,
        y_labels: 6,
        space: NAMED,
    };
    let at = |share: usize| 100.0 * pooled.risk.get(share * COVERAGES / 100 - 1).copied().unwrap_or(0.0);
    let about = format!(
        "Risk-coverage curve: {:.1}% wrong when all are answered, {:.1}% when the surest 80% are",
        at(100),
        at(80)
    );
    let lines = Lines { axes, curves: vec![("all clients", points)], ideal: None, marked: false };
    drawing("risk-coverage", &about, true, &lines)
}

/// Risks at their coverages.
fn curve(risk: &[f64]) -> Vec<(f64, f64)> {
    risk.iter().enumerate().map(|(step, &risk)| ((step + 1) as f64 / COVERAGES as f64, risk)).collect()
}

fn entropy(pooled: &ClassSeries, classes: usize) -> Result<Drawing, ReportError> {
    let names = [("right", BLUE), ("wrong", VERMILION), ("unseen classes", ORANGE)];
    // A group without any is no empty panel.
    let histograms = pooled.entropy_groups().into_iter().map(|group| (&pooled.entropy[group], names[group]));
    let histograms = Histograms {
        x_name: "entropy of the prediction, nats",
        x: 0.0..(classes.max(2) as f64).ln(),
        histograms: histograms.map(|(counts, (name, colour))| Histogram { name, counts, colour }).collect(),
        ideal: Vec::new(),
    };
    let counts = pooled.entropy.each_ref().map(|counts| counts.iter().sum::<usize>());
    let unseen = match counts[2] {
        0 => String::new(),
        count => format!(", {count} of classes the client never saw"),
    };
    let about =
        format!("Histograms of entropy: {} right, {} wrong predictions{unseen}", counts[0], counts[1]);
    drawing("entropy", &about, true, &histograms)
}

fn intervals(pooled: &ValueSeries) -> Result<Drawing, ReportError> {
    interval_coverage(pooled, "all clients", true)
}

/// How many targets lie inside the interval of each level.
pub(super) fn interval_coverage(
    series: &ValueSeries,
    name: &'static str,
    on_page: bool,
) -> Result<Drawing, ReportError> {
    let points: Vec<(f64, f64)> = levels().zip(series.coverage.iter().copied()).collect();
    let axes = Axes {
        x: 0.0..1.0,
        y: 0.0..1.0,
        x_name: "level of the interval",
        y_name: "targets inside",
        x_label: percent,
        y_label: percent,
        y_labels: 6,
        space: NAMED,
    };
    let inside = points.get(17).map_or(0.0, |point| 100.0 * point.1);
    let about = format!("Coverage of predicted intervals: {inside:.0}% of targets lie in the 90% interval");
    let lines =
        Lines { axes, curves: vec![(name, points)], ideal: Some([(0.0, 0.0), (1.0, 1.0)]), marked: true };
    drawing("interval-coverage", &about, on_page, &lines)
}

fn levels() -> impl Iterator<Item = f64> {
    (1..=LEVELS).map(|step| step as f64 / (LEVELS + 1) as f64)
}

fn residuals(pooled: &ValueSeries) -> Result<Drawing, ReportError> {
    drawing(
        "residuals",
        "Histogram of errors over predicted deviations, beside the normal curve",
        true,
        &residual_histogram(pooled, "(target - prediction) / predicted deviation"),
    )
}

/// Errors in predicted standard deviations, beside the normal curve.
pub(super) fn residual_histogram<'a>(series: &'a ValueSeries, x_name: &'static str) -> Histograms<'a> {
    let width = 2.0 * RESIDUALS / RESIDUAL_BINS as f64;
    let normal = (0..=80).map(|step| {
        let z = RESIDUALS * (f64::from(step) / 40.0 - 1.0);
        (z, width * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt())
    });
    Histograms {
        x_name,
        x: -RESIDUALS..RESIDUALS,
        histograms: vec![Histogram { name: "targets", counts: &series.residuals, colour: BLUE }],
        ideal: normal.collect(),
    }
}

fn deviation(pooled: &ValueSeries, clients: &[(usize, ValueSeries)]) -> Result<Drawing, ReportError> {
    let tops = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let all = clients.iter().map(|(_, one)| one).chain([pooled]);
        all.map(|one| one.deviations.iter().map(of).fold(0.0, f64::max)).collect()
    };
    let end = upper_end(&tops(|point| point.0), 1e-9).max(upper_end(&tops(|point| point.1), 1e-9));
    let axes = Axes {
        x: 0.0..end,
        y: 0.0..end,
        x_name: "predicted deviation, in the data's unit",
        y_name: "error found (RMSE)",
        x_label: number,
        y_label: number,
        y_labels: 6,
        space: NAMED,
    };
    let spread = Spread::of(pooled.deviations.iter().map(|point| point.0));
    let range = spread
        .map_or_else(String::new, |found| format!(", from {} to {}", number(&found.min), number(&found.max)));
    let about = format!("Error found against predicted deviation{range}");
    let lines = Lines {
        axes,
        curves: vec![("all clients", pooled.deviations.clone())],
        ideal: Some([(0.0, 0.0), (end, end)]),
        marked: true,
    };
    drawing("error-by-deviation", &about, true, &lines)
}
