//! Calibration in small: one picture a method, to be laid side by side.

use fedsi_metrics::ReliabilityBin;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::canvas::{Axes, BLUE, Panel, Pen, Plot, VERMILION, failed, percent};
use super::reliability::{FAINT, is_faint};
use crate::ReportError;

/// What a method's predictions came to.
pub(super) enum SmallCalibration<'a> {
    /// Accuracy by confidence.
    Reliability(&'a [ReliabilityBin]),
    /// Points of level and share inside.
    Coverage(&'a [(f64, f64)]),
}

/// Where the histogram of confidences begins.
const CUT: f64 = 208.0;

/// The ends of an axis alone: there is no room for more.
fn ends(share: &f64) -> String {
    if *share < 1e-6 || *share > 1.0 - 1e-6 { percent(share) } else { String::new() }
}

/// No label.
const fn blank(_: &f64) -> String {
    String::new()
}

/// A label of an axis.
type Label = fn(&f64) -> String;

impl Plot for SmallCalibration<'_> {
    fn size(&self) -> (u32, u32) {
        match self {
            Self::Reliability(_) => (260, 292),
            Self::Coverage(_) => (260, 246),
        }
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        _: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let axes = |x_name, y_name, (x_label, y_label): (Label, Label), below| Axes {
            x: 0.0..1.0,
            y: 0.0..1.0,
            x_name,
            y_name,
            x_label,
            y_label,
            y_labels: 3,
            space: (below, 62.0),
        };
        let diagonal = [(0.0, 0.0), (1.0, 1.0)];
        match self {
            Self::Reliability(bins) => {
                let (above, below) = area.split_vertically(pen.px(CUT));
                let (mut diagram, upper) = axes("", "accuracy", (blank, percent), 6.0).draw(&above, pen)?;
                let (mut histogram, lower) =
                    axes("confidence", "share", (ends, blank), 36.0).draw(&below, pen)?;
                pen.ideal(&mut diagram, diagonal)?;
                let total = bins.iter().map(|bin| bin.count).sum::<usize>().max(1);
                for bin in bins.iter().filter(|bin| !bin.is_empty()) {
                    let (lo, hi) = (bin.lo + 0.006, bin.hi - 0.006);
                    let share = bin.count as f64 / total as f64;
                    let weight = if is_faint(bin, total) { FAINT } else { 1.0 };
                    let bar = |height: f64, weight: f64| {
                        Rectangle::new([(lo, 0.0), (hi, height)], BLUE.mix(0.75 * weight).filled())
                    };
                    diagram.draw_series([bar(bin.accuracy, weight)]).map_err(failed)?;
                    histogram.draw_series([bar(share, 1.0)]).map_err(failed)?;
                    let (low, high) = (bin.accuracy.min(bin.confidence), bin.accuracy.max(bin.confidence));
                    let gap = [(lo, low), (hi, high)];
                    if bin.confidence > bin.accuracy {
                        let fill = VERMILION.mix(0.35 * weight).filled();
                        diagram.draw_series([Rectangle::new(gap, fill)]).map_err(failed)?;
                    }
                    let frame = pen.stroke(VERMILION.mix(weight), 1.5);
                    diagram.draw_series([Rectangle::new(gap, frame)]).map_err(failed)?;
                }
                Ok(vec![upper, lower])
            }
            Self::Coverage(points) => {
                let (mut chart, panel) =
                    axes("level of the interval", "targets inside", (ends, percent), 36.0).draw(area, pen)?;
                pen.ideal(&mut chart, diagonal)?;
                let line = LineSeries::new(points.iter().copied(), pen.stroke(BLUE, 2.0));
                chart.draw_series(line).map_err(failed)?;
                let dots = points.iter().map(|&point| Circle::new(point, pen.px(2.5), BLUE.filled()));
                chart.draw_series(dots).map_err(failed)?;
                Ok(vec![panel])
            }
        }
    }
}
