//! Curves: over rounds, of risk, of coverage.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{Axes, BLUE, INK, ORANGE, Panel, Pen, Plot, VERMILION, failed};
use crate::ReportError;

/// One or a few curves over the same axes.
pub(super) struct Lines<'a> {
    pub(super) axes: Axes<'a>,
    /// Names, shown where there is more than one, and points.
    pub(super) curves: Vec<(&'a str, Vec<(f64, f64)>)>,
    /// A line of what would be perfect.
    pub(super) ideal: Option<[(f64, f64); 2]>,
    /// Whether points are marked.
    pub(super) marked: bool,
}

const COLOURS: [RGBColor; 3] = [BLUE, VERMILION, ORANGE];

impl Plot for Lines<'_> {
    fn size(&self) -> (u32, u32) {
        (460, 330)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        series: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let (mut chart, panel) = self.axes.draw(area, pen)?;
        if let Some(line) = self.ideal {
            pen.ideal(&mut chart, line)?;
        }
        if !series {
            return Ok(vec![panel]);
        }
        for (curve, ((name, points), colour)) in self.curves.iter().zip(COLOURS).enumerate() {
            let points: Vec<(f64, f64)> = points.iter().map(|&point| self.axes.near(point)).collect();
            chart
                .draw_series(LineSeries::new(points.iter().copied(), pen.stroke(colour, 2.0)))
                .map_err(failed)?;
            // A single point is no line.
            if self.marked || points.len() == 1 {
                let dots = points.iter().map(|&point| Circle::new(point, pen.px(3.0), colour.filled()));
                chart.draw_series(dots).map_err(failed)?;
            }
            if self.curves.len() > 1 {
                let (x, y) = chart.plotting_area().get_pixel_range();
                let row = y.start + pen.px(14.0 + 20.0 * curve as f64);
                let end = x.end - pen.px(10.0);
                let style = pen.text(INK, HPos::Right, VPos::Center);
                area.draw_text(name, &style, (end - pen.px(26.0), row)).map_err(failed)?;
                let key = PathElement::new([(end - pen.px(20.0), row), (end, row)], pen.stroke(colour, 3.0));
                area.draw(&key).map_err(failed)?;
            }
        }
        Ok(vec![panel])
    }
}
