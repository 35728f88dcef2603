//! Tables of numbers as shades.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{BLUE, INK, LINE, Panel, Pen, Plot, SOFT, failed};
use crate::ReportError;
use fedsi_data::shortened;

/// Rows and columns of shades, from none (0) to full (the largest value).
pub(super) struct Heatmap<'a> {
    /// Row after row.
    pub(super) values: &'a [f64],
    pub(super) columns: usize,
    /// Names beside rows and below columns; none for pixels.
    pub(super) row_names: Vec<String>,
    pub(super) column_names: Vec<String>,
    pub(super) row_axis: &'a str,
    pub(super) column_axis: &'a str,
    /// What full shade is, in words.
    pub(super) full: String,
    /// Whether numbers are written into the cells.
    pub(super) numbered: bool,
}

const WIDTH: f64 = 460.0;
/// Room for the names of rows, at least and at most.
const LEFT: (f64, f64) = (76.0, 196.0);
/// Letters of a name that are drawn.
const LETTERS: usize = 32;
/// About the width of a letter.
const LETTER: f64 = 7.4;
const RIGHT: f64 = 18.0;
const TOP: f64 = 10.0;
/// Below the names of columns: the axes' names, and what shades mean.
const FOOT: f64 = 48.0;
/// How high a map of pixels may be.
const MAX_MAP_HEIGHT: f64 = 424.0;

impl Heatmap<'_> {
    fn rows(&self) -> usize {
        self.values.len() / self.columns.max(1)
    }

    /// Width and height of a cell.
    fn cell(&self) -> (f64, f64) {
        let width = (WIDTH - self.left() - RIGHT) / self.columns.max(1) as f64;
        // Pixels are square, and as many as there are fit in both directions; rows of a table are as high as their names.
        if self.row_names.is_empty() {
            let side = width.min(MAX_MAP_HEIGHT / self.rows().max(1) as f64);
            return (side, side);
        }
        (width, (300.0 / self.rows().max(1) as f64).clamp(8.0, 24.0))
    }

    fn left(&self) -> f64 {
        if self.row_names.is_empty() {
            return RIGHT;
        }
        (LETTER * longest(&self.row_names) as f64 + 18.0).clamp(LEFT.0, LEFT.1)
    }

    /// Whether names of columns are wider than the columns: then they stand upright.
    fn is_upright(&self) -> bool {
        LETTER * longest(&self.column_names) as f64 > self.cell().0
    }

    /// Room for the names of columns.
    fn names_height(&self) -> f64 {
        if self.column_names.is_empty() {
            0.0
        } else if self.is_upright() {
            LETTER * longest(&self.column_names) as f64 + 10.0
        } else {
            18.0
        }
    }
}

/// Letters of the longest name, as far as they are drawn.
fn longest(names: &[String]) -> usize {
    names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(LETTERS)
}

impl Plot for Heatmap<'_> {
    fn size(&self) -> (u32, u32) {
        let height = TOP + self.rows() as f64 * self.cell().1 + self.names_height() + FOOT;
        (WIDTH as u32, height.ceil() as u32)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        _: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let ((width, height), rows) = (self.cell(), self.rows());
        let largest = self.values.iter().copied().fold(0.0, f64::max);
        let x = |column: usize| pen.px(self.left() + column as f64 * width);
        let y = |row: usize| pen.px(TOP + row as f64 * height);
        for (place, &value) in self.values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
            let (row, column) = (place / self.columns, place % self.columns);
            let shade = (value / largest).clamp(0.0, 1.0);
            // Numbers stay readable in ink on the darkest shade.
            let shade = if self.numbered { 0.55 * shade } else { shade };
            let corners = [(x(column), y(row)), (x(column + 1), y(row + 1))];
            area.draw(&Rectangle::new(corners, BLUE.mix(shade).filled())).map_err(failed)?;
            if self.numbered {
                let middle = ((x(column) + x(column + 1)) / 2, (y(row) + y(row + 1)) / 2);
                let style = pen.text(INK, HPos::Center, VPos::Center);
                area.draw_text(&format!("{value:.0}"), &style, middle).map_err(failed)?;
            }
        }
        let frame = [(x(0), y(0)), (x(self.columns), y(rows))];
        area.draw(&Rectangle::new(frame, pen.stroke(LINE, 1.0))).map_err(failed)?;
        let soft = |side| pen.text(SOFT, side, VPos::Center);
        // `as` saturates.
        let row_letters = ((self.left() - 16.0) / LETTER) as usize;
        // Names at a distance that keeps them apart.
        let every = (16.0 / height).ceil() as usize;
        for (row, name) in self.row_names.iter().enumerate().step_by(every.max(1)) {
            let middle = (y(row) + y(row + 1)) / 2;
            let place = (x(0) - pen.px(8.0), middle);
            area.draw_text(&shortened(name, row_letters), &soft(HPos::Right), place).map_err(failed)?;
        }
        let every = (18.0 / width).ceil().max(1.0) as usize;
        let upright = self.is_upright();
        for (column, name) in self.column_names.iter().enumerate().step_by(every) {
            let middle = (x(column) + x(column + 1)) / 2;
            let name = shortened(name, LETTERS);
            if upright {
                let style = soft(HPos::Left).transform(FontTransform::Rotate90);
                area.draw_text(&name, &style, (middle, y(rows) + pen.px(6.0))).map_err(failed)?;
            } else {
                area.draw_text(&name, &soft(HPos::Center), (middle, y(rows) + pen.px(14.0)))
                    .map_err(failed)?;
            }
        }
        let ink = |side| pen.text(INK, side, VPos::Center);
        let low = y(rows) + pen.px(self.names_height() + 16.0);
        // A map that is high and narrow leaves no room for words below it alone.
        let middle = (pen.px(f64::midpoint(self.left(), WIDTH - RIGHT)), low);
        area.draw_text(self.column_axis, &ink(HPos::Center), middle).map_err(failed)?;
        area.draw_text(self.row_axis, &ink(HPos::Left), (pen.px(8.0), low)).map_err(failed)?;
        self.key(area, pen, low + pen.px(20.0))
    }
}

impl Heatmap<'_> {
    /// What the shades mean.
    fn key<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        y: i32,
    ) -> Result<Vec<Panel>, ReportError> {
        let left = pen.px(self.left());
        let soft = pen.text(SOFT, HPos::Left, VPos::Center);
        area.draw_text("0", &soft, (left, y)).map_err(failed)?;
        for step in 0..10 {
            let start = left + pen.px(14.0 + 10.0 * f64::from(step));
            let corners = [(start, y - pen.px(5.0)), (start + pen.px(10.0), y + pen.px(5.0))];
            let shade = f64::from(step + 1) / 10.0 * if self.numbered { 0.55 } else { 1.0 };
            area.draw(&Rectangle::new(corners, BLUE.mix(shade).filled())).map_err(failed)?;
        }
        area.draw_text(&self.full, &soft, (left + pen.px(122.0), y)).map_err(failed)?;
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_fit_whatever_their_shape() {
        for (rows, columns) in [(1, 1), (64, 1), (1, 64), (64, 64), (60, 2), (50, 60), (0, 3)] {
            let values = vec![1.0; rows * columns];
            for row_names in [Vec::new(), vec!["a".repeat(1000); rows.min(50)]] {
                let heat = Heatmap {
                    values: &values,
                    columns,
                    column_names: row_names.clone(),
                    row_names,
                    row_axis: "",
                    column_axis: "",
                    full: String::new(),
                    numbered: false,
                };
                let (width, height) = heat.size();
                assert!(width <= 460 && height <= 820, "{rows} x {columns}: {width} x {height}");
            }
        }
    }
}
