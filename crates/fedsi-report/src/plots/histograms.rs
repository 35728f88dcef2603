//! Histograms above each other, over one axis.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{Axes, Chart, INK, NAMED, Panel, Pen, Plot, failed, number};
use crate::ReportError;

/// One histogram.
pub(super) struct Histogram<'a> {
    pub(super) name: &'a str,
    pub(super) counts: &'a [usize],
    pub(super) colour: RGBColor,
}

/// Histograms of the same quantity for different groups, each scaled to its own tallest bar: what matters is where a
/// group lies, not how large it is.
pub(super) struct Histograms<'a> {
    pub(super) x_name: &'a str,
    pub(super) x: std::ops::Range<f64>,
    pub(super) histograms: Vec<Histogram<'a>>,
    /// A curve to compare the first histogram with, in shares.
    pub(super) ideal: Vec<(f64, f64)>,
}

const HISTOGRAM_HEIGHT: f64 = 92.0;
const AXIS: f64 = 38.0;

impl Plot for Histograms<'_> {
    fn size(&self) -> (u32, u32) {
        let height = if self.histograms.len() == 1 {
            330.0
        } else {
            HISTOGRAM_HEIGHT * self.histograms.len() as f64 + AXIS
        };
        (460, height as u32)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        series: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let heights = (1..self.histograms.len()).map(|place| pen.px(HISTOGRAM_HEIGHT * place as f64));
        let parts = area.split_by_breakpoints::<i32, i32, Vec<i32>, Vec<i32>>(Vec::new(), heights.collect());
        // All axes before any bar: what the script replaces comes last.
        let mut charts = Vec::new();
        for (place, part) in parts.iter().enumerate() {
            charts.push(self.axes(place + 1 == self.histograms.len()).draw(part, pen)?);
        }
        if series {
            for (place, (histogram, (chart, panel))) in self.histograms.iter().zip(&mut charts).enumerate() {
                let ideal = if place == 0 { &self.ideal[..] } else { &[] };
                self.bars(histogram, ideal, chart, pen)?;
                let (right, top) = panel.corner();
                let label = format!("{}: {}", histogram.name, histogram.counts.iter().sum::<usize>());
                let style = pen.text(INK, HPos::Right, VPos::Center);
                area.draw_text(&label, &style, (right - pen.px(6.0), top + pen.px(9.0))).map_err(failed)?;
            }
        }
        Ok(charts.into_iter().map(|(_, panel)| panel).collect())
    }
}

impl Histograms<'_> {
    /// A panel is 1 high whatever is in it: the script scales a client's bars the same way.
    fn axes(&self, is_last: bool) -> Axes<'_> {
        Axes {
            x: self.x.clone(),
            // Room above the tallest bar for the name.
            y: 0.0..if self.histograms.len() == 1 { 1.2 } else { 1.5 },
            x_name: if is_last { self.x_name } else { "" },
            y_name: "",
            x_label: if is_last { number } else { |_| String::new() },
            y_label: |_| String::new(),
            y_labels: 1,
            space: (if is_last { NAMED.0 } else { 6.0 }, 14.0),
        }
    }

    fn bars<DB: DrawingBackend>(
        &self,
        histogram: &Histogram<'_>,
        ideal: &[(f64, f64)],
        chart: &mut Chart<'_, DB>,
        pen: Pen,
    ) -> Result<(), ReportError> {
        let total = histogram.counts.iter().sum::<usize>().max(1) as f64;
        let shares = histogram.counts.iter().map(|&count| count as f64 / total);
        let top = shares.clone().chain(ideal.iter().map(|&(_, y)| y)).fold(1e-9, f64::max);
        let width = (self.x.end - self.x.start) / histogram.counts.len().max(1) as f64;
        for (bin, share) in shares.enumerate().filter(|(_, share)| *share > 0.0) {
            let left = self.x.start + bin as f64 * width;
            let bar = [(left + 0.06 * width, 0.0), (left + 0.94 * width, share / top)];
            chart.draw_series([Rectangle::new(bar, histogram.colour.mix(0.75).filled())]).map_err(failed)?;
        }
        if !ideal.is_empty() {
            let curve = ideal.iter().map(|&(x, y)| (x, y / top));
            chart.draw_series(LineSeries::new(curve, pen.stroke(INK, 1.5))).map_err(failed)?;
        }
        Ok(())
    }
}
