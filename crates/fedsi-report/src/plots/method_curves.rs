//! A curve a method over the same axes, each named where it ends.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{Axes, Panel, Pen, Plot, SOFT, failed};
use super::method_style::{LINE_HEIGHT, MethodStyle, label, names_width, spread};
use crate::ReportError;

/// One method's curve.
pub(super) struct MethodCurve<'a> {
    pub(super) name: &'a str,
    pub(super) style: MethodStyle,
    pub(super) points: Vec<(f64, f64)>,
}

/// Curves over the same axes.
pub(super) struct MethodCurves<'a> {
    pub(super) axes: Axes<'a>,
    pub(super) curves: Vec<MethodCurve<'a>>,
}

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 340.0;
/// Between the end of the axes and a name.
const LEADER: f64 = 38.0;

impl Plot for MethodCurves<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, HEIGHT as u32)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        series: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let room = names_width(self.curves.iter().map(|curve| curve.name), 4.0, WIDTH);
        let (left, _) = area.split_horizontally(pen.px(WIDTH - room - LEADER + 14.0));
        let (chart, panel) = self.axes.draw(&left, pen)?;
        if !series {
            return Ok(vec![panel]);
        }
        let top = self.axes.y.end;
        let pixels = |&(x, y): &(f64, f64)| chart.backend_coord(&(x, y.clamp(self.axes.y.start, top)));
        let lines: Vec<Vec<(i32, i32)>> =
            self.curves.iter().map(|curve| curve.points.iter().map(pixels).collect()).collect();
        for (curve, line) in self.curves.iter().zip(&lines) {
            curve.style.line(area, pen, line)?;
        }
        let (columns, rows) = chart.plotting_area().get_pixel_range();
        let ends: Vec<(i32, i32)> =
            lines.iter().map(|line| line.last().copied().unwrap_or((columns.end, rows.end))).collect();
        let wanted: Vec<i32> = ends.iter().map(|end| end.1).collect();
        let half = pen.px(0.5 * LINE_HEIGHT);
        let names = spread(&wanted, pen.px(LINE_HEIGHT), rows.start + half, rows.end + half);
        for ((curve, &end), &row) in self.curves.iter().zip(&ends).zip(&names) {
            let from = columns.end + pen.px(LEADER - 18.0);
            let path = [(end.0 + pen.px(6.0), end.1), (from, row)];
            area.draw(&PathElement::new(path, pen.stroke(SOFT.mix(0.5), 1.0))).map_err(failed)?;
            curve.style.mark(area, pen, end)?;
            curve.style.mark(area, pen, (from + pen.px(7.0), row))?;
            label(area, pen, curve.name, HPos::Left, (from + pen.px(17.0), row))?;
        }
        Ok(vec![panel])
    }
}
