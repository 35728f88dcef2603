//! How methods are distinguished in plots: by colour, dash, marker shape and name, so that none of them is needed alone.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{BLUE, GREEN, INK, ORANGE, PURPLE, Pen, SOFT, VERMILION, failed};
use crate::ReportError;
use fedsi_data::shortened;

const COLOURS: [RGBColor; 6] = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SOFT];
/// Dash and gap of the second and the third time that a colour comes.
const DASHES: [(f64, f64); 2] = [(7.0, 4.0), (2.0, 4.0)];
/// Shapes of marks; not a divisor of the number of colours, so that shape and colour part.
const SHAPES: usize = 5;

/// About the width of a letter in the wider fonts that pages are read in.
pub(super) const LETTER_WIDTH: f64 = 7.6;
/// Letters of a method's name that are drawn.
pub(super) const NAME_LETTERS: usize = 28;

/// Width of a column for these names and a gap beside them, at most two fifths of a plot this wide.
pub(super) fn names_width<'a>(names: impl Iterator<Item = &'a str>, gap: f64, width: f64) -> f64 {
    let longest = names.map(|name| name.chars().take(NAME_LETTERS).count()).max().unwrap_or(0);
    (LETTER_WIDTH * longest as f64 + gap).min(0.4 * width)
}
/// The height of a line of text.
pub(super) const LINE_HEIGHT: f64 = 16.0;

/// The style of the method at this place of a comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct MethodStyle {
    place: usize,
}

impl MethodStyle {
    pub(super) const fn of(place: usize) -> Self {
        Self { place }
    }

    pub(super) const fn colour(self) -> RGBColor {
        COLOURS[self.place % COLOURS.len()]
    }

    /// Dash and gap; none is a whole line.
    fn dash(self) -> Option<(f64, f64)> {
        let turn = self.place / COLOURS.len();
        (turn > 0).then(|| DASHES[(turn - 1) % DASHES.len()])
    }

    /// A line through pixels.
    pub(super) fn line<DB: DrawingBackend>(
        self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        points: &[(i32, i32)],
    ) -> Result<(), ReportError> {
        self.line_of_width(area, pen, points, 2.0)
    }

    /// The same, thinner or thicker.
    pub(super) fn line_of_width<DB: DrawingBackend>(
        self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        points: &[(i32, i32)],
        width: f64,
    ) -> Result<(), ReportError> {
        let stroke = pen.stroke(self.colour(), width);
        let Some((on, off)) = self.dash() else {
            return area.draw(&PathElement::new(points.to_vec(), stroke)).map_err(failed);
        };
        for dash in dashes(points, f64::from(pen.px(on)), f64::from(pen.px(off))) {
            area.draw(&PathElement::new(dash, stroke)).map_err(failed)?;
        }
        Ok(())
    }

    /// A mark around a pixel.
    pub(super) fn mark<DB: DrawingBackend>(
        self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        (x, y): (i32, i32),
    ) -> Result<(), ReportError> {
        let fill = self.colour().filled();
        let at = |dx: f64, dy: f64| (x + pen.px(dx), y + pen.px(dy));
        match self.place % SHAPES {
            0 => area.draw(&Circle::new((x, y), pen.px(5.0), fill)),
            1 => area.draw(&Rectangle::new([at(-4.5, -4.5), at(4.5, 4.5)], fill)),
            2 => area.draw(&Polygon::new(vec![at(0.0, -6.0), at(5.5, 4.5), at(-5.5, 4.5)], fill)),
            3 => {
                area.draw(&Polygon::new(vec![at(0.0, -6.5), at(6.0, 0.0), at(0.0, 6.5), at(-6.0, 0.0)], fill))
            }
            _ => area.draw(&Polygon::new(vec![at(0.0, 6.0), at(5.5, -4.5), at(-5.5, -4.5)], fill)),
        }
        .map_err(failed)
    }
}

/// A path cut into dashes.
fn dashes(points: &[(i32, i32)], on: f64, off: f64) -> Vec<Vec<(i32, i32)>> {
    let (mut all, mut current, mut left, mut is_on) = (Vec::new(), Vec::new(), on, true);
    for pair in points.windows(2) {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]].map(|(x, y)| (f64::from(x), f64::from(y)));
        let length = (x1 - x0).hypot(y1 - y0);
        let mut gone = 0.0;
        let place = |gone: f64| {
            let share = if length > 0.0 { gone / length } else { 0.0 };
            ((x0 + share * (x1 - x0)).round() as i32, (y0 + share * (y1 - y0)).round() as i32)
        };
        if is_on && current.is_empty() {
            current.push(place(0.0));
        }
        while length - gone >= left {
            gone += left;
            if is_on {
                current.push(place(gone));
                all.push(std::mem::take(&mut current));
            } else {
                current.push(place(gone));
            }
            is_on = !is_on;
            left = if is_on { on } else { off };
        }
        left -= length - gone;
        if is_on {
            current.push(place(length));
        }
    }
    if current.len() > 1 {
        all.push(current);
    }
    all
}

/// Rows as near to where they are wanted as `gap` between them allows, within `low..high`. In the order given.
pub(super) fn spread(wanted: &[i32], gap: i32, low: i32, high: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&place| wanted[place]);
    let mut rows = vec![0; wanted.len()];
    let mut next = low;
    for &place in &order {
        rows[place] = wanted[place].max(next);
        next = rows[place] + gap;
    }
    // What was pushed past the end goes back up.
    let mut last = high;
    for &place in order.iter().rev() {
        rows[place] = rows[place].min(last);
        last = rows[place] - gap;
    }
    rows
}

/// Text in the ink of the page.
pub(super) fn label<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    pen: Pen,
    words: &str,
    side: HPos,
    at: (i32, i32),
) -> Result<(), ReportError> {
    area.draw_text(&shortened(words, NAME_LETTERS), &pen.text(INK, side, VPos::Center), at).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_part_and_stay_inside() {
        assert_eq!(spread(&[50, 52, 10], 10, 0, 60), [50, 60, 10]);
        assert_eq!(spread(&[58, 59, 60], 10, 0, 60), [40, 50, 60]);
    }

    #[test]
    fn dashes_go_around_corners() {
        let found = dashes(&[(0, 0), (10, 0), (10, 10)], 6.0, 3.0);
        assert_eq!(found, [vec![(0, 0), (6, 0)], vec![(9, 0), (10, 0), (10, 5)], vec![(10, 8), (10, 10)]]);
    }

    #[test]
    fn a_dozen_methods_look_different() {
        let traits = |place: usize| {
            let style = MethodStyle::of(place);
            (style.colour(), style.dash().map(|(on, _)| on as i32), place % SHAPES)
        };
        for one in 0..12 {
            assert!((0..one).all(|other| traits(one) != traits(other)), "{one}");
        }
    }
}
