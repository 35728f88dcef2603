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
        let places: Vec<(i32, i32)> =
            self.dots.iter().map(|&dot| chart.backend_coord(&self.axes.near(dot))).collect();
        let range = chart.plotting_area().get_pixel_range();
        let mut taken: Vec<Label> = Vec::new();
        for (place, name) in &self.named {
            let Some(&dot) = self.dots.get(*place) else { continue };
            let dot = self.axes.near(dot);
            chart.draw_series([Circle::new(dot, pen.px(5.0), VERMILION.filled())]).map_err(failed)?;
            let label = Label::near(places[*place], name, pen, &range, (&places, &taken));
            area.draw_text(name, &pen.text(INK, HPos::Left, VPos::Center), (label.left, label.middle))
                .map_err(failed)?;
            taken.push(label);
        }
        Ok(vec![panel])
    }
}

/// Where a name stands.
struct Label {
    left: i32,
    right: i32,
    middle: i32,
}

/// Half the height of a name, and how far it stands from its dot.
const HALF: f64 = 8.0;
const GAP: f64 = 9.0;
/// About the width of a letter.
const LETTER: f64 = 7.2;

/// What lies in the way of a name: dots, and names that are there already.
type InTheWay<'a> = (&'a [(i32, i32)], &'a [Label]);

impl Label {
    /// The place beside, above or below a dot that covers no dot and no other name; of none such the one that covers least.
    fn near(
        (x, y): (i32, i32),
        name: &str,
        pen: Pen,
        (across, down): &(std::ops::Range<i32>, std::ops::Range<i32>),
        (dots, taken): InTheWay<'_>,
    ) -> Self {
        let width = pen.px(LETTER * name.chars().count() as f64);
        let (gap, half) = (pen.px(GAP), pen.px(HALF));
        let middle = |left: i32, middle: i32| Self { left, right: left + width, middle };
        let rise = gap + half;
        let candidates = [
            middle(x + gap, y),
            middle(x - gap - width, y),
            middle(x - width / 2, y - rise),
            middle(x - width / 2, y + rise),
            middle(x + gap, y - rise),
            middle(x - gap - width, y - rise),
            middle(x + gap, y + rise),
            middle(x - gap - width, y + rise),
            middle(x + gap, y - 2 * rise),
            middle(x - gap - width, y - 2 * rise),
        ];
        let faults = |one: &Self| {
            let covers = |&&(x, y): &&(i32, i32)| {
                x > one.left - half && x < one.right + half && (y - one.middle).abs() < half + pen.px(4.0)
            };
            let meets = |other: &&Self| {
                one.left < other.right
                    && other.left < one.right
                    && (one.middle - other.middle).abs() < 2 * half
            };
            let outside = one.left < across.start
                || one.right > across.end
                || one.middle - half < down.start
                || one.middle + half > down.end;
            dots.iter().filter(covers).count()
                + 5 * taken.iter().filter(meets).count()
                + 1_000 * usize::from(outside)
        };
        let fewest = candidates.into_iter().min_by_key(faults);
        fewest.unwrap_or_else(|| middle(x + gap, y))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_covers_no_dot_and_no_name() {
        let pen = Pen::plain();
        let area = (60..440, 10..290);
        let alone = Label::near((200, 100), "client 3", pen, &area, (&[(200, 100)], &[]));
        assert_eq!((alone.left, alone.middle), (209, 100));
        // A dot to the right: the name goes to the left; at the left edge it goes above.
        let left = Label::near((200, 100), "client 3", pen, &area, (&[(200, 100), (230, 102)], &[]));
        assert!(left.right < 200 && left.middle == 100);
        let above = Label::near((65, 100), "client 3", pen, &area, (&[(65, 100), (95, 102)], &[]));
        assert!(above.middle < 100 && above.left >= 60);
        let second = Label::near((200, 100), "client 4", pen, &area, (&[(200, 100)], &[alone]));
        assert!(second.right < 200);
    }
}
