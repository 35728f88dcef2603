//! The reliability diagram over its histogram of confidences.

use fedsi_metrics::ReliabilityBin;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::canvas::{Axes, BLUE, LABELLED, NAMED, Panel, Pen, Plot, VERMILION, failed, percent};
use crate::ReportError;

/// Accuracy against confidence, and how many predictions stand behind each bar.
pub(super) struct Reliability<'a> {
    pub(super) bins: &'a [ReliabilityBin],
}

/// Where the histogram begins.
const CUT: f64 = 300.0;

/// How much of its colour a bin with few predictions keeps.
pub(super) const FAINT: f64 = 0.25;

/// Whether a bin has fewer than 1% of the predictions.
pub(super) fn is_faint(bin: &ReliabilityBin, total: usize) -> bool {
    bin.count < total.div_ceil(100)
}

impl Plot for Reliability<'_> {
    fn size(&self) -> (u32, u32) {
        (460, 450)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        series: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let (above, below) = area.split_vertically(pen.px(CUT));
        let upper = Axes {
            x: 0.0..1.0,
            y: 0.0..1.0,
            x_name: "",
            y_name: "accuracy",
            x_label: percent,
            y_label: percent,
            y_labels: 6,
            space: LABELLED,
        };
        let lower =
            Axes { x_name: "confidence", y_name: "share", y_labels: 3, space: NAMED, ..upper_like(&upper) };
        let (mut diagram, diagram_panel) = upper.draw(&above, pen)?;
        let (mut histogram, histogram_panel) = lower.draw(&below, pen)?;
        pen.ideal(&mut diagram, [(0.0, 0.0), (1.0, 1.0)])?;
        let panels = vec![diagram_panel, histogram_panel];
        let total: usize = self.bins.iter().map(|bin| bin.count).sum();
        if !series || total == 0 {
            return Ok(panels);
        }
        for bin in self.bins.iter().filter(|bin| !bin.is_empty()) {
            let (lo, hi) = (bin.lo + 0.004, bin.hi - 0.004);
            // Few predictions show chance: they are there, and draw no eye.
            let weight = if is_faint(bin, total) { FAINT } else { 1.0 };
            let bar = Rectangle::new([(lo, 0.0), (hi, bin.accuracy)], BLUE.mix(0.75 * weight).filled());
            diagram.draw_series([bar]).map_err(failed)?;
            let (low, high) = (bin.accuracy.min(bin.confidence), bin.accuracy.max(bin.confidence));
            let gap = [(lo, low), (hi, high)];
            // Above the bar a gap is what the model promised and did not keep; within it, the bar shows through.
            if bin.confidence > bin.accuracy {
                let fill = VERMILION.mix(0.35 * weight).filled();
                diagram.draw_series([Rectangle::new(gap, fill)]).map_err(failed)?;
            }
            let frame = pen.stroke(VERMILION.mix(weight), 1.5);
            diagram.draw_series([Rectangle::new(gap, frame)]).map_err(failed)?;
            let share = bin.count as f64 / total as f64;
            let bar = Rectangle::new([(lo, 0.0), (hi, share)], BLUE.mix(0.75).filled());
            histogram.draw_series([bar]).map_err(failed)?;
        }
        Ok(panels)
    }
}

/// Axes over the same ranges.
fn upper_like<'a>(axes: &Axes<'a>) -> Axes<'a> {
    Axes { x: axes.x.clone(), y: axes.y.clone(), ..*axes }
}
