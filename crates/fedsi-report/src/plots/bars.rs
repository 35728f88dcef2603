//! Named bars, side to side.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{BLUE, INK, LINE, Panel, Pen, Plot, SOFT, failed};
use crate::ReportError;
use fedsi_data::shortened;

/// One bar: its name, its length, and the same in words.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) length: f64,
    pub(super) words: String,
}

/// Bars that share an axis from 0 to `full`.
pub(super) struct Bars<'a> {
    pub(super) axis: &'a str,
    pub(super) bars: Vec<Bar>,
    pub(super) full: f64,
}

/// Bars of a plot: what shows more sums the rest up in the last.
pub(super) const MAX_BARS: usize = 24;

/// Letters of a bar's name that fit.
const LETTERS: usize = 14;
const LEFT: f64 = 108.0;
const ROW: f64 = 38.0;
const WIDTH: f64 = 460.0;

impl Plot for Bars<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (ROW * self.bars.len() as f64 + 40.0) as u32)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        _: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let full = WIDTH - LEFT - 18.0;
        let bottom = ROW * self.bars.len() as f64 + 6.0;
        let axis = [(pen.px(LEFT), pen.px(6.0)), (pen.px(LEFT), pen.px(bottom))];
        area.draw(&PathElement::new(axis, pen.stroke(SOFT, 1.0))).map_err(failed)?;
        for (row, bar) in self.bars.iter().enumerate() {
            let top = 6.0 + ROW * row as f64;
            let name = pen.text(INK, HPos::Right, VPos::Center);
            area.draw_text(
                &shortened(&bar.name, LETTERS),
                &name,
                (pen.px(LEFT - 8.0), pen.px(top + 0.5 * ROW)),
            )
            .map_err(failed)?;
            let length = full * (bar.length / self.full).clamp(0.0, 1.0);
            let place = |x: f64, y: f64| (pen.px(x), pen.px(y));
            let ground = [place(LEFT, top + 22.0), place(LEFT + full, top + 32.0)];
            area.draw(&Rectangle::new(ground, LINE.mix(0.6).filled())).map_err(failed)?;
            let shown = [place(LEFT, top + 22.0), place(LEFT + length, top + 32.0)];
            area.draw(&Rectangle::new(shown, BLUE.filled())).map_err(failed)?;
            let words = pen.text(SOFT, HPos::Left, VPos::Center);
            area.draw_text(&bar.words, &words, place(LEFT + 6.0, top + 11.0)).map_err(failed)?;
        }
        let ink = pen.text(INK, HPos::Center, VPos::Center);
        area.draw_text(self.axis, &ink, (pen.px(LEFT + 0.5 * full), pen.px(bottom + 16.0)))
            .map_err(failed)?;
        Ok(Vec::new())
    }
}
