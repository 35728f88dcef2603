//! A point a method by two of its scores, with whiskers for the deviation over seeds.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{Axes, Panel, Pen, Plot, SOFT, failed};
use super::method_style::{LETTER_WIDTH, LINE_HEIGHT, MethodStyle, NAME_LETTERS, label};
use crate::ReportError;

/// One method: its means, and their deviations over seeds where there are any.
#[derive(Clone)]
pub(super) struct MethodPoint<'a> {
    pub(super) name: &'a str,
    pub(super) style: MethodStyle,
    pub(super) mean: (f64, f64),
    pub(super) deviation: (f64, f64),
}

/// Methods by two of their scores.
pub(super) struct Tradeoff<'a> {
    pub(super) axes: Axes<'a>,
    pub(super) points: Vec<MethodPoint<'a>>,
}

/// A rectangle of pixels: left, top, right, bottom.
type Box4 = (f64, f64, f64, f64);

impl Plot for Tradeoff<'_> {
    fn size(&self) -> (u32, u32) {
        (480, 370)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        series: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let (chart, panel) = self.axes.draw(area, pen)?;
        if !series {
            return Ok(vec![panel]);
        }
        let pixel = |x: f64, y: f64| {
            let Axes { x: across, y: up, .. } = &self.axes;
            chart.backend_coord(&(x.clamp(across.start, across.end), y.clamp(up.start, up.end)))
        };
        let places: Vec<(i32, i32)> =
            self.points.iter().map(|point| pixel(point.mean.0, point.mean.1)).collect();
        let unit = f64::from(pen.px(100.0)) / 100.0;
        let mut lines: Vec<Box4> = Vec::new();
        for point in &self.points {
            let ((x, y), (dx, dy)) = (point.mean, point.deviation);
            let stroke = pen.stroke(point.style.colour().mix(0.7), 1.0);
            let whiskers =
                [(dx, [pixel(x - dx, y), pixel(x + dx, y)]), (dy, [pixel(x, y - dy), pixel(x, y + dy)])];
            for (_, path) in whiskers.into_iter().filter(|(length, _)| *length > 0.0) {
                area.draw(&PathElement::new(path, stroke)).map_err(failed)?;
                let [from, to] = path.map(|(x, y)| (f64::from(x), f64::from(y)));
                let air = 2.0 * unit;
                lines.push((from.0 - air, to.1.min(from.1) - air, to.0 + air, to.1.max(from.1) + air));
            }
        }
        for (point, &place) in self.points.iter().zip(&places) {
            point.style.mark(area, pen, place)?;
        }
        let (columns, rows) = chart.plotting_area().get_pixel_range();
        let frame = [columns.start, rows.start, columns.end, rows.end].map(f64::from);
        let names: Vec<&str> = self.points.iter().map(|point| point.name).collect();
        for (at, &(x, y)) in named(&names, &places, &lines, (frame[0], frame[1], frame[2], frame[3]), unit)
            .into_iter()
            .zip(&places)
        {
            let (name, (left, top, right, bottom)) = at;
            let row = f64::midpoint(top, bottom);
            let near = f64::from(x).clamp(left, right);
            if (near - f64::from(x)).hypot(row - f64::from(y)) > 18.0 * unit {
                let edge = f64::from(y).clamp(top, bottom);
                let path = [(x, y), (near as i32, edge.round() as i32)];
                area.draw(&PathElement::new(path, pen.stroke(SOFT, 1.0))).map_err(failed)?;
            }
            // The side of the name that is next to its mark is where it begins or ends, however wide its letters are.
            let (side, edge) = match f64::midpoint(left, right) - f64::from(x) {
                off if off > 0.25 * (right - left) => (HPos::Left, left + 2.0 * unit),
                off if off < -0.25 * (right - left) => (HPos::Right, right - 2.0 * unit),
                _ => (HPos::Center, f64::midpoint(left, right)),
            };
            label(area, pen, name, side, (edge.round() as i32, row.round() as i32))?;
        }
        Ok(vec![panel])
    }
}

/// A box for each name: near its mark, inside the frame, and where it covers least of the marks, of `lines` and of the
/// names before it.
fn named<'a>(
    names: &[&'a str],
    places: &[(i32, i32)],
    lines: &[Box4],
    frame: Box4,
    unit: f64,
) -> Vec<(&'a str, Box4)> {
    let marks: Vec<Box4> = places
        .iter()
        .map(|&(x, y)| (f64::from(x), f64::from(y)))
        .map(|(x, y)| (x - 6.0 * unit, y - 6.0 * unit, x + 6.0 * unit, y + 6.0 * unit))
        .collect();
    let mut taken: Vec<(&str, Box4)> = Vec::new();
    let mut leaders: Vec<Box4> = Vec::new();
    for (name, &(x, y)) in names.iter().zip(places) {
        let mark = (f64::from(x), f64::from(y));
        let size = (
            unit * (LETTER_WIDTH * name.chars().take(NAME_LETTERS).count() as f64 + 4.0),
            unit * LINE_HEIGHT,
        );
        let cost = |(distance, found): &(f64, Box4)| {
            let on_names: f64 = taken.iter().map(|(_, other)| shared(*found, *other)).sum();
            let on_rest: f64 =
                marks.iter().chain(lines).chain(&leaders).map(|other| shared(*found, *other)).sum();
            let through: f64 = leader(mark, *found, unit)
                .map(|step| taken.iter().map(|(_, other)| shared(step, *other)).sum::<f64>())
                .sum();
            let outside = size.0 * size.1 - shared(*found, frame);
            on_names + on_rest + through + 2.0 * outside + 0.02 * distance * unit
        };
        let best = candidates(mark, size, unit)
            .min_by(|a, b| cost(a).total_cmp(&cost(b)))
            .map_or((0.0, 0.0, 0.0, 0.0), |(_, found)| found);
        leaders.extend(leader(mark, best, unit));
        taken.push((name, best));
    }
    taken
}

/// The line from a mark to its name, as small boxes.
fn leader((x, y): (f64, f64), name: Box4, unit: f64) -> impl Iterator<Item = Box4> {
    let (to_x, to_y) = (x.clamp(name.0, name.2), y.clamp(name.1, name.3));
    (1..12).map(move |step| {
        let share = f64::from(step) / 12.0;
        let (x, y) = (x + share * (to_x - x), y + share * (to_y - y));
        (x - unit, y - unit, x + unit, y + unit)
    })
}

/// Boxes around a mark with their distances, the nearest first: right, left, above, below, then farther out.
fn candidates((x, y): (f64, f64), size: (f64, f64), unit: f64) -> impl Iterator<Item = (f64, Box4)> {
    const AROUND: [(f64, f64); 8] = [
        (1.0, 0.0),
        (-1.0, 0.0),
        (0.0, -1.0),
        (0.0, 1.0),
        (0.8, -0.7),
        (-0.8, -0.7),
        (0.8, 0.7),
        (-0.8, 0.7),
    ];
    let ring = move |step: u32| {
        let distance = 9.0 + 17.0 * f64::from(step);
        AROUND.into_iter().map(move |(dx, dy)| {
            let centre =
                (x + dx * (unit * distance + 0.5 * size.0), y + dy * (unit * distance + 0.5 * size.1));
            let found = (
                centre.0 - 0.5 * size.0,
                centre.1 - 0.5 * size.1,
                centre.0 + 0.5 * size.0,
                centre.1 + 0.5 * size.1,
            );
            (distance, found)
        })
    };
    (0..9).flat_map(ring)
}

/// The area two boxes share.
fn shared(a: Box4, b: Box4) -> f64 {
    (a.2.min(b.2) - a.0.max(b.0)).max(0.0) * (a.3.min(b.3) - a.1.max(b.1)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_crowd_do_not_overlap() {
        let names = ["FedSI-Fac"; 12];
        let places: Vec<(i32, i32)> = (0..12).map(|at| (400 + at % 3, 60 + 2 * at)).collect();
        let found = named(&names, &places, &[], (60.0, 8.0, 500.0, 330.0), 1.0);
        for (at, (_, one)) in found.iter().enumerate() {
            assert!(found[..at].iter().all(|(_, other)| shared(*one, *other) == 0.0), "{at}: {found:?}");
            assert!(one.0 >= 60.0 && one.2 <= 500.0, "{one:?}");
        }
    }
}
