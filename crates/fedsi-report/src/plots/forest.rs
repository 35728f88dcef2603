//! Differences from a reference: a row a method, its interval, and each seed.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{BLUE, INK, LINE, Panel, Pen, Plot, SOFT, VERMILION, failed};
use super::method_style::{LETTER_WIDTH, MethodStyle, label, names_width};
use crate::ReportError;

/// Whether a difference is significant, and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Better,
    Worse,
    Open,
}

/// One method's difference.
pub(super) struct ForestRow<'a> {
    pub(super) name: &'a str,
    pub(super) style: MethodStyle,
    pub(super) mean: f64,
    pub(super) interval: Option<[f64; 2]>,
    /// The difference of each seed.
    pub(super) seeds: Vec<f64>,
    pub(super) finding: Finding,
    /// The mean in words.
    pub(super) words: String,
}

/// Rows that share an axis with 0 on it.
pub(super) struct Forest<'a> {
    pub(super) rows: Vec<ForestRow<'a>>,
    pub(super) axis: &'a str,
    /// What lies left and right of 0.
    pub(super) sides: [&'a str; 2],
    pub(super) label: fn(f64) -> String,
}

const WIDTH: f64 = 480.0;
const ROW: f64 = 28.0;
const TOP: f64 = 26.0;
/// Letters of the mean in words.
const WORDS: f64 = 8.5;

/// One that is far off would press the others together: how many times the median reach is shown.
const MOST: f64 = 5.0;

impl Forest<'_> {
    /// The farthest of each side that is shown.
    fn range(&self) -> (f64, f64) {
        let ends = |row: &ForestRow<'_>| row.interval.unwrap_or([row.mean, row.mean]);
        let reach: Vec<f64> =
            self.rows.iter().map(|row| ends(row)[0].abs().max(ends(row)[1].abs())).collect();
        let most = MOST * fedsi_metrics::quantile(&reach, 0.5).unwrap_or(0.0);
        let low = self.rows.iter().map(|row| ends(row)[0]).fold(0.0, f64::min).max(-most);
        let high = self.rows.iter().map(|row| ends(row)[1]).fold(0.0, f64::max).min(most);
        let air = (0.12 * (high - low)).max(1e-9);
        (low - air, high + air)
    }
}

impl Plot for Forest<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (ROW * self.rows.len() as f64 + TOP + 52.0) as u32)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        _: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let left = names_width(self.rows.iter().map(|row| row.name), 30.0, WIDTH);
        let right = WIDTH - LETTER_WIDTH * WORDS - 12.0;
        let (low, high) = self.range();
        let x = |value: f64| left + (right - left) * ((value - low) / (high - low)).clamp(0.0, 1.0);
        let place = |x: f64, y: f64| (pen.px(x), pen.px(y));
        let bottom = TOP + ROW * self.rows.len() as f64;
        let soft = |side| pen.text(SOFT, side, VPos::Center);
        let sides = [(HPos::Left, left), (HPos::Right, right)];
        for (words, (side, at)) in self.sides.iter().zip(sides) {
            area.draw_text(words, &soft(side), place(at, 12.0)).map_err(failed)?;
        }
        let frame = [place(left, bottom), place(right, bottom)];
        area.draw(&PathElement::new(frame, pen.stroke(LINE, 1.0))).map_err(failed)?;
        let zero = [place(x(0.0), TOP), place(x(0.0), bottom + 4.0)];
        area.draw(&PathElement::new(zero, pen.stroke(SOFT, 1.0))).map_err(failed)?;
        for row in self.rows.iter().enumerate() {
            draw_row(area, pen, row, x, right)?;
        }
        for (value, side) in [(low, HPos::Left), (0.0, HPos::Center), (high, HPos::Right)] {
            // No number upon another.
            let is_free = value == 0.0 || (x(value) - x(0.0)).abs() > 60.0;
            if is_free {
                let words = if value == 0.0 { "0".to_owned() } else { (self.label)(value) };
                area.draw_text(&words, &soft(side), place(x(value), bottom + 14.0)).map_err(failed)?;
            }
        }
        let ink = pen.text(INK, HPos::Center, VPos::Center);
        area.draw_text(self.axis, &ink, place(0.5 * WIDTH, bottom + 36.0)).map_err(failed)?;
        Ok(Vec::new())
    }
}

/// Name, seeds, interval, mean, and the mean in words.
fn draw_row<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    pen: Pen,
    (at, row): (usize, &ForestRow<'_>),
    x: impl Fn(f64) -> f64,
    right: f64,
) -> Result<(), ReportError> {
    let place = |x: f64, y: f64| (pen.px(x), pen.px(y));
    let middle = TOP + ROW * (at as f64 + 0.5);
    row.style.mark(area, pen, place(10.0, middle))?;
    label(area, pen, row.name, HPos::Left, place(22.0, middle))?;
    for &seed in &row.seeds {
        let tick = [place(x(seed), middle - 7.0), place(x(seed), middle + 7.0)];
        area.draw(&PathElement::new(tick, pen.stroke(LINE, 1.0))).map_err(failed)?;
    }
    let colour = match row.finding {
        Finding::Better => BLUE,
        Finding::Worse => VERMILION,
        Finding::Open => SOFT,
    };
    if let Some([from, to]) = row.interval {
        let whisker = [place(x(from), middle), place(x(to), middle)];
        area.draw(&PathElement::new(whisker, pen.stroke(colour, 3.0))).map_err(failed)?;
    }
    area.draw(&Circle::new(place(x(row.mean), middle), pen.px(4.0), colour.filled())).map_err(failed)?;
    let words = pen.text(INK, HPos::Right, VPos::Center);
    area.draw_text(&row.words, &words, place(right + LETTER_WIDTH * WORDS, middle)).map_err(failed)
}
