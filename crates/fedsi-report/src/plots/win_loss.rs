//! Wins, ties and losses against the reference.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{BLUE, INK, LINE, Panel, Pen, Plot, SOFT, VERMILION, failed};
use super::method_style::{LETTER_WIDTH, MethodStyle, label, names_width};
use crate::ReportError;

/// One method against the reference; none is the reference itself, or a method without anything to count.
pub(super) struct WinLossRow<'a> {
    pub(super) name: &'a str,
    pub(super) style: MethodStyle,
    pub(super) counts: Option<[usize; 3]>,
    /// Said in place of counts.
    pub(super) instead: &'a str,
}

/// A bar a method: wins from the left, losses from the right, ties between.
pub(super) struct WinLossBars<'a> {
    pub(super) rows: Vec<WinLossRow<'a>>,
    pub(super) axis: &'a str,
}

const WIDTH: f64 = 480.0;
const ROW: f64 = 28.0;

impl Plot for WinLossBars<'_> {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (ROW * self.rows.len() as f64 + 52.0) as u32)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        _: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let left = names_width(self.rows.iter().map(|row| row.name), 30.0, WIDTH);
        let right = WIDTH - 12.0;
        let place = |x: f64, y: f64| (pen.px(x), pen.px(y));
        let bottom = 26.0 + ROW * self.rows.len() as f64;
        let soft = |side| pen.text(SOFT, side, VPos::Center);
        let middle = f64::midpoint(left, right);
        let words =
            [("wins", HPos::Left, left), ("half", HPos::Center, middle), ("losses", HPos::Right, right)];
        for (words, side, x) in words {
            area.draw_text(words, &soft(side), place(x, 12.0)).map_err(failed)?;
        }
        for (at, row) in self.rows.iter().enumerate() {
            let top = 26.0 + ROW * at as f64;
            row.style.mark(area, pen, place(10.0, top + 0.5 * ROW))?;
            label(area, pen, row.name, HPos::Left, place(22.0, top + 0.5 * ROW))?;
            let total: usize = row.counts.iter().flatten().sum();
            let Some(counts) = row.counts.filter(|_| total > 0) else {
                let at = place(left, top + 0.5 * ROW);
                area.draw_text(row.instead, &soft(HPos::Left), at).map_err(failed)?;
                continue;
            };
            // As many wins as losses: no difference. The line shows between the bars.
            for edge in [top, top + ROW - 4.0] {
                let half = [place(middle, edge), place(middle, edge + 4.0)];
                area.draw(&PathElement::new(half, pen.stroke(SOFT, 1.0))).map_err(failed)?;
            }
            let mut x = left;
            for (count, colour) in counts.into_iter().zip([BLUE.mix(0.55), LINE.mix(1.0), VERMILION.mix(0.5)])
            {
                let width = (right - left) * count as f64 / total as f64;
                if count > 0 {
                    let bar = [place(x, top + 4.0), place(x + width, top + ROW - 4.0)];
                    area.draw(&Rectangle::new(bar, colour.filled())).map_err(failed)?;
                }
                let words = count.to_string();
                if width > LETTER_WIDTH * words.len() as f64 + 8.0 {
                    let style = pen.text(INK, HPos::Center, VPos::Center);
                    let at = place(x + 0.5 * width, top + 0.5 * ROW);
                    area.draw_text(&words, &style, at).map_err(failed)?;
                }
                x += width;
            }
        }
        let ink = pen.text(INK, HPos::Center, VPos::Center);
        area.draw_text(self.axis, &ink, place(middle, bottom + 14.0)).map_err(failed)?;
        Ok(Vec::new())
    }
}
