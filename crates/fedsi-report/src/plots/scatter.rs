//! Every client as a dot.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{Axes, BLUE, INK, Panel, Pen, Plot, VERMILION, failed};
use crate::ReportError;

/// Clients by two of their scores; those that stand out are named.
pub(super) struct Scatter<'a> {
    pub(super) axes: Axes<'a>,
    pub(super) dots: Vec<(f64, f64)>,
    /// Places in `dots`, and names.
    pub(super) named: Vec<(usize, String)>,
}

impl Plot for Scatter<'_> {
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
        if !series {
            return Ok(vec![panel]);
        }
        // Many dots lie upon each other: paler ones show where they crowd.
        let opacity = if self.dots.len() > 100 { 0.35 } else { 0.75 };
        let dots = self
            .dots
            .iter()
            .map(|&dot| Circle::new(self.axes.near(dot), pen.px(4.0), BLUE.mix(opacity).filled()));
        chart.draw_series(dots).map_err(failed)?;
        let mut last = i32::MIN / 2;
        for (place, name) in &self.named {
            let Some(&dot) = self.dots.get(*place) else { continue };
            let dot = self.axes.near(dot);
            chart.draw_series([Circle::new(dot, pen.px(5.0), VERMILION.filled())]).map_err(failed)?;
            let (x, y) = chart.backend_coord(&dot);
            let (range, _) = chart.plotting_area().get_pixel_range();
            let is_right = x > (range.start + range.end) / 2;
            let side = if is_right { HPos::Right } else { HPos::Left };
            let shift = if is_right { -pen.px(9.0) } else { pen.px(9.0) };
            // Two names do not lie upon each other.
            let row = if (y - last).abs() < pen.px(15.0) { last + pen.px(15.0) } else { y };
            last = row;
            area.draw_text(name, &pen.text(INK, side, VPos::Center), (x + shift, row)).map_err(failed)?;
        }
        Ok(vec![panel])
    }
}
