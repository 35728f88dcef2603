//! Plots of predictions that came in a file: calibration of classes or of intervals.

use fedsi_metrics::regression::GaussianPredictions;
use fedsi_metrics::{Bins, Predictions};

use super::canvas::{BLUE, VERMILION};
use super::histograms::{Histogram, Histograms};
use super::lines::Lines;
use super::reliability::Reliability;
use super::uncertainty::{interval_coverage, residual_histogram};
use super::{Axes, Drawing, NAMED, drawing, number, percent};
use crate::ReportError;
use crate::series::{COVERAGES, RESIDUALS, ValueSeries};

/// Bins of a histogram of confidences.
const CONFIDENCE_BINS: usize = 20;

/// A plot with its heading and what it shows.
pub(crate) struct Captioned {
    pub(crate) title: &'static str,
    pub(crate) plot: Drawing,
    pub(crate) caption: &'static str,
}

/// The plots of predicted classes.
pub(crate) fn class_plots(rows: &Predictions<'_, f64>, bins: Bins) -> Result<Vec<Captioned>, ReportError> {
    let bins: Vec<_> = rows.reliability(bins).bins().collect();
    let about = "Reliability diagram: accuracy by confidence, over a histogram of confidences";
    let reliability = Captioned {
        title: "Reliability",
        plot: drawing("reliability", about, false, &Reliability { bins: &bins })?,
        caption: "Predictions grouped by confidence. Blue: how many of a group were right. Orange frame: the gap to how many \
                  should have been, filled where too few were. Good: every blue bar ends on the dashed line. A gap over a \
                  group with few predictions weighs little.",
    };
    Ok(vec![reliability, risk(rows)?, confidence(rows)?])
}

fn risk(rows: &Predictions<'_, f64>) -> Result<Captioned, ReportError> {
    let curve = rows.risk_coverage();
    let at = |step: usize| {
        let coverage = step as f64 / COVERAGES as f64;
        curve.as_ref().map(|curve| (coverage, curve.at_coverage(coverage).risk))
    };
    let points: Vec<(f64, f64)> = (1..=COVERAGES).filter_map(at).collect();
    let top = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let all = points.last().map_or(0.0, |point| point.1);
    let axes = Axes {
        x: 0.0..1.0,
        y: 0.0..(1.08 * top).max(0.01),
        x_name: "coverage: share of samples answered",
        y_name: "wrong answers among them",
        x_label: percent,
        y_label: percent,
        y_labels: 6,
        space: NAMED,
    };
    let about = format!("Risk-coverage curve: {:.1}% wrong when all are answered", 100.0 * all);
    let lines = Lines { axes, curves: vec![("all", points)], ideal: None, marked: false };
    Ok(Captioned {
        title: "Risk and coverage",
        plot: drawing("risk-coverage", &about, false, &lines)?,
        caption: "The error rate if only the most confident share of samples is answered and the rest left to a person. \
                  Good: close to zero for most coverages, rising only at the right end. A flat curve means that confidence \
                  is uninformative.",
    })
}

fn confidence(rows: &Predictions<'_, f64>) -> Result<Captioned, ReportError> {
    let (mut right, mut wrong) = (vec![0; CONFIDENCE_BINS], vec![0; CONFIDENCE_BINS]);
    for row in rows.rows() {
        // `as` saturates.
        let bin = ((row.confidence() * CONFIDENCE_BINS as f64) as usize).min(CONFIDENCE_BINS - 1);
        if row.is_correct() { right[bin] += 1 } else { wrong[bin] += 1 }
    }
    let histograms = Histograms {
        x_name: "confidence: probability of the predicted class",
        x: 0.0..1.0,
        histograms: vec![
            Histogram { name: "right", counts: &right, colour: BLUE },
            Histogram { name: "wrong", counts: &wrong, colour: VERMILION },
        ],
        ideal: Vec::new(),
    };
    let counts = [&right, &wrong].map(|counts| counts.iter().sum::<usize>());
    let about = format!("Histograms of confidence: {} right and {} wrong predictions", counts[0], counts[1]);
    Ok(Captioned {
        title: "Confidence of right and wrong",
        plot: drawing("confidence", &about, false, &histograms)?,
        caption: "How confident right and wrong predictions are, each group scaled to its tallest bar. Good: wrong ones lie \
                  far to the left of the right ones.",
    })
}

/// The plots of predicted values.
pub(crate) fn value_plots(
    rows: &GaussianPredictions<'_>,
    [mean, variance, targets]: [&[f64]; 3],
) -> Result<Vec<Captioned>, ReportError> {
    let series = ValueSeries::of(mean, variance, targets, rows.outputs())
        .map_err(|error| ReportError::Drawing(error.to_string()))?;
    let intervals = Captioned {
        title: "Intervals",
        plot: interval_coverage(&series, "all", false)?,
        caption: "How many targets lie inside the interval of each level. Good: on the dashed line. Below it, intervals are \
                  too narrow; above it, too wide.",
    };
    let histograms = residual_histogram(&series, "(target - mean) / standard deviation");
    let about = format!(
        "Histogram of {} errors over predicted deviations, beside the normal curve, from {} to {}",
        targets.len(),
        number(&-RESIDUALS),
        number(&RESIDUALS)
    );
    let residuals = Captioned {
        title: "Errors in predicted deviations",
        plot: drawing("residuals", &about, false, &histograms)?,
        caption: "Errors divided by the predicted standard deviation. Good: bars follow the curve. Wider than it, the model \
                  is too sure of itself. Errors beyond four deviations are counted in the outer bars.",
    };
    Ok(vec![intervals, residuals])
}
