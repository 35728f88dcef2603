//! How a [`MethodLines`] is drawn: the legend, the panels, and what lies beyond them.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::super::canvas::{INK, LINE, Panel, Pen, Plot, SOFT};
use super::super::method_style::{LETTER_WIDTH, LINE_HEIGHT, MethodStyle, NAME_LETTERS};
use super::WIDTH;
use super::axis::{Axis, Place, Spread};
use super::lines::{LinePanel, LinePoint, MethodLine, MethodLines, SettingValue};
use super::unit_area::UnitArea;
use crate::ReportError;
use fedsi_data::shortened;

/// Title and name of the axis above a panel.
const HEAD: f64 = 44.0;
const HEIGHT: f64 = 180.0;
/// Labels and the name of the axis below it, and some air.
const FOOT: f64 = 56.0;
/// The narrowest panel, its margins included.
const PANEL: f64 = 240.0;
/// Left for labels, and right.
const MARGIN: (f64, f64) = (50.0, 10.0);
/// Between the ends of the axis and its first and last value.
const INSET: f64 = 14.0;
const LABELS: usize = 5;
/// Line and mark of an entry of the legend, before its name.
const KEY: f64 = 40.0;
/// How far points of two methods at the same value lie apart, at most; and those of the first and the last.
const APART: f64 = 5.0;
const ALL_APART: f64 = 24.0;
/// The height of a row for values that lie beyond a panel, and the width of such a value.
const BEYOND: f64 = 19.0;
const BEYOND_WIDTH: f64 = 48.0;
/// Lines without a name.
const UNNAMED: RGBColor = RGBColor(0xb4, 0xb9, 0xc0);
const UNNAMED_WIDTH: f64 = 1.2;

impl MethodLines {
    /// Those with a colour of their own.
    fn named(&self) -> Vec<usize> {
        (0..self.methods.len()).filter(|place| !self.unnamed.contains(place)).collect()
    }

    /// The highlighted method has the first style, the others that are named the following ones in their order. None
    /// without a name.
    fn style(&self, method: usize) -> Option<MethodStyle> {
        let mut named = self.named();
        named.sort_by_key(|&place| self.highlighted != Some(place));
        named.iter().position(|&place| place == method).map(MethodStyle::of)
    }

    /// Entries of the legend, the methods without a name as one: none of it.
    fn entries(&self) -> Vec<Option<usize>> {
        let others = (!self.unnamed.is_empty()).then_some(None);
        self.named().into_iter().map(Some).chain(others).collect()
    }

    fn entry_name(&self, entry: Option<usize>) -> &str {
        match entry {
            Some(place) => self.methods.get(place).map_or("", String::as_str),
            None => &self.unnamed_label,
        }
    }

    fn beside(&self) -> usize {
        self.columns.min(self.panels.len()).max(1)
    }

    fn panel_width(&self) -> f64 {
        (WIDTH / self.beside() as f64).max(PANEL)
    }

    fn width(&self) -> f64 {
        self.panel_width() * self.beside() as f64
    }

    /// Entries of the legend beside each other, and the width of each.
    fn legend_columns(&self) -> (usize, f64) {
        let entries = self.entries();
        let letters = |entry: &Option<usize>| self.entry_name(*entry).chars().take(NAME_LETTERS).count();
        let longest = entries.iter().map(letters).max().unwrap_or(0);
        let entry = KEY + LETTER_WIDTH * longest as f64 + 10.0;
        let columns = ((self.width() / entry).floor() as usize).clamp(1, entries.len().max(1));
        (columns, self.width() / columns as f64)
    }

    fn legend_height(&self) -> f64 {
        (LINE_HEIGHT + 4.0) * self.entries().len().div_ceil(self.legend_columns().0) as f64 + 8.0
    }

    fn draw_legend<DB: DrawingBackend>(&self, on: &UnitArea<'_, DB>) -> Result<(), ReportError> {
        let (columns, width) = self.legend_columns();
        for (place, entry) in self.entries().into_iter().enumerate() {
            let left = width * (place % columns) as f64 + 4.0;
            let middle = (LINE_HEIGHT + 4.0) * ((place / columns) as f64 + 0.5);
            let (from, to) = ((left, middle), (left + KEY - 8.0, middle));
            match entry.and_then(|method| Some((self.style(method)?, self.line_width(method)))) {
                Some((style, line)) => {
                    style.line_of_width(on.area, on.pen, &[on.px(from), on.px(to)], line)?;
                    style.mark(on.area, on.pen, on.px((left + 0.5 * (KEY - 8.0), middle)))?;
                }
                None => on.line(from, to, UNNAMED, UNNAMED_WIDTH)?,
            }
            on.words(
                &shortened(self.entry_name(entry), NAME_LETTERS),
                INK,
                HPos::Left,
                (left + KEY, middle),
            )?;
        }
        Ok(())
    }

    fn line_width(&self, method: usize) -> f64 {
        if self.highlighted == Some(method) { 4.0 } else { 1.6 }
    }

    /// Where a value of the setting lies between the ends of a panel.
    fn x_at(&self, value: f64, (from, to): (f64, f64)) -> f64 {
        let low = self.x.first().map_or(0.0, |x| x.value);
        let high = self.x.last().map_or(1.0, |x| x.value);
        if high <= low {
            return f64::midpoint(from, to);
        }
        from + INSET + (value - low) / (high - low) * (to - from - 2.0 * INSET)
    }

    /// The range of a panel: always that of the highlighted method.
    fn axis(&self, panel: &LinePanel) -> Axis {
        let spreads = |line: &MethodLine| -> Vec<Spread> {
            line.points.iter().flatten().map(|point| (point.value, point.interval)).collect()
        };
        let all: Vec<Spread> = panel.lines.iter().flat_map(spreads).collect();
        let kept = panel.lines.iter().filter(|line| self.highlighted == Some(line.method));
        let kept: Vec<Spread> = kept.flat_map(spreads).collect();
        Axis::around(&all, &kept, panel.unit, (0.0, 1.0))
    }

    /// The lines of a panel that have a name and a point on that side of it.
    fn beyond(&self, panel: &LinePanel, side: Place) -> Vec<usize> {
        let axis = self.axis(panel);
        let is_there = |line: &MethodLine| {
            let is_beyond = |point: &LinePoint| axis.place(point.value) == side;
            !self.unnamed.contains(&line.method) && line.points.iter().flatten().any(is_beyond)
        };
        (0..panel.lines.len()).filter(|&place| is_there(&panel.lines[place])).collect()
    }

    /// Room above and below every panel for values beyond it: as much as one of them needs.
    fn beyond_heights(&self) -> (f64, f64) {
        let most = |side: Place| {
            let rows = self.panels.iter().map(|panel| self.beyond(panel, side).len()).max();
            BEYOND * rows.unwrap_or(0) as f64
        };
        (most(Place::Above), most(Place::Below))
    }

    fn panel_height(&self) -> f64 {
        let (above, below) = self.beyond_heights();
        HEAD + above + HEIGHT + below + FOOT
    }

    fn draw_panel<DB: DrawingBackend>(
        &self,
        on: &UnitArea<'_, DB>,
        panel: &LinePanel,
        (left, top): (f64, f64),
    ) -> Result<(), ReportError> {
        let ends = (left + MARGIN.0, left + self.panel_width() - MARGIN.1);
        let (above, below) = self.beyond_heights();
        let first = top + HEAD + above;
        let last = first + HEIGHT;
        let foot = last + below;
        on.heading(&panel.title, (ends.0, top + 12.0))?;
        on.words(&panel.axis, SOFT, HPos::Left, (ends.0, top + 30.0))?;
        let axis = self.axis(panel).between(last, first);
        for (value, words) in axis.ticks(LABELS) {
            let y = axis.at(value);
            on.line((ends.0, y), (ends.1, y), LINE, 1.0)?;
            on.words(&words, SOFT, HPos::Right, (ends.0 - 6.0, y))?;
        }
        on.line((ends.0, foot), (ends.1, foot), SOFT, 1.0)?;
        for x in &self.x {
            let at = self.x_at(x.value, ends);
            on.line((at, foot), (at, foot + 4.0), SOFT, 1.0)?;
            on.words(&x.label, SOFT, HPos::Center, (at, foot + 14.0))?;
        }
        on.words(&self.x_axis, INK, HPos::Center, (f64::midpoint(ends.0, ends.1), foot + 34.0))?;
        for (row, place) in self.beyond(panel, Place::Above).into_iter().enumerate() {
            let middle = first - BEYOND * (row as f64 + 0.5);
            self.draw_beyond(on, panel, (place, Place::Above), ends, middle)?;
        }
        for (row, place) in self.beyond(panel, Place::Below).into_iter().enumerate() {
            let middle = last + BEYOND * (row as f64 + 0.5) + 1.0;
            self.draw_beyond(on, panel, (place, Place::Below), ends, middle)?;
        }
        self.draw_lines(on, panel, &axis, ends)
    }

    /// The values of one line that lie beyond a panel: its mark and an arrow at the left, and the numbers.
    fn draw_beyond<DB: DrawingBackend>(
        &self,
        on: &UnitArea<'_, DB>,
        panel: &LinePanel,
        (place, side): (usize, Place),
        ends: (f64, f64),
        middle: f64,
    ) -> Result<(), ReportError> {
        let (line, axis) = (&panel.lines[place], self.axis(panel));
        let Some(style) = self.style(line.method) else { return Ok(()) };
        style.mark(on.area, on.pen, on.px((ends.0 - 34.0, middle)))?;
        let down = if side == Place::Below { 1.0 } else { -1.0 };
        on.arrow((ends.0 - 18.0, middle + 4.0 * down), (0.0, down), style.colour())?;
        let mut free = f64::NEG_INFINITY;
        for (x, point) in self.x.iter().zip(&line.points) {
            let Some(point) = point.filter(|point| axis.place(point.value) == side) else { continue };
            let at = self.x_at(x.value, ends);
            // Where values are too near each other only some are written; `about` has them all.
            if at < free {
                continue;
            }
            free = at + BEYOND_WIDTH - 1.0;
            on.words(&panel.unit.short(point.value), SOFT, HPos::Center, (at, middle))?;
        }
        Ok(())
    }

    fn draw_lines<DB: DrawingBackend>(
        &self,
        on: &UnitArea<'_, DB>,
        panel: &LinePanel,
        axis: &Axis,
        ends: (f64, f64),
    ) -> Result<(), ReportError> {
        let (named, unnamed): (Vec<&MethodLine>, Vec<&MethodLine>) =
            panel.lines.iter().partition(|line| !self.unnamed.contains(&line.method));
        for line in unnamed {
            for part in self.parts(line, axis, ends, 0.0) {
                for pair in part.windows(2) {
                    on.line((pair[0].0, pair[0].1), (pair[1].0, pair[1].1), UNNAMED, UNNAMED_WIDTH)?;
                }
                // A point with nothing beside it would not be seen.
                if let [(x, y, _)] = part.as_slice() {
                    on.line((x - 3.0, *y), (x + 3.0, *y), UNNAMED, UNNAMED_WIDTH)?;
                }
            }
        }
        let between = named.len().saturating_sub(1) as f64;
        let apart = (ALL_APART / between.max(1.0)).min(APART);
        // The highlighted one last: above the others.
        let mut order: Vec<(usize, &MethodLine)> = named.into_iter().enumerate().collect();
        order.sort_by_key(|(_, line)| self.highlighted == Some(line.method));
        for (place, line) in order {
            let Some(style) = self.style(line.method) else { continue };
            let shift = apart * (place as f64 - 0.5 * between);
            let parts = self.parts(line, axis, ends, shift);
            for part in parts.iter().filter(|part| part.len() > 1) {
                let path: Vec<(i32, i32)> = part.iter().map(|&(x, y, _)| on.px((x, y))).collect();
                style.line_of_width(on.area, on.pen, &path, self.line_width(line.method))?;
            }
            for &(x, y, point) in parts.iter().flatten() {
                if let Some([low, high]) = point.interval {
                    on.line((x, axis.at(low)), (x, axis.at(high)), style.colour().mix(0.8), 1.2)?;
                }
                style.mark(on.area, on.pen, on.px((x, y)))?;
            }
        }
        Ok(())
    }

    /// Points of a line that are inside, where they lie: a part ends at a point that is beyond the panel or not there.
    fn parts(
        &self,
        line: &MethodLine,
        axis: &Axis,
        ends: (f64, f64),
        shift: f64,
    ) -> Vec<Vec<(f64, f64, LinePoint)>> {
        let at = |(x, point): (&SettingValue, &Option<LinePoint>)| {
            let point = point.filter(|point| !point.value.is_nan())?;
            match axis.place(point.value) {
                Place::Inside(y) => Some((self.x_at(x.value, ends) + shift, y, point)),
                _ => None,
            }
        };
        let points: Vec<Option<(f64, f64, LinePoint)>> = self.x.iter().zip(&line.points).map(at).collect();
        let parts = points.split(Option::is_none).map(|part| part.iter().flatten().copied().collect());
        parts.filter(|part: &Vec<_>| !part.is_empty()).collect()
    }
}

impl Plot for MethodLines {
    fn size(&self) -> (u32, u32) {
        let rows = self.panels.len().div_ceil(self.beside()) as f64;
        let height = self.legend_height() + rows * self.panel_height();
        (self.width().ceil() as u32, height.ceil() as u32)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        _: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let on = UnitArea { area, pen };
        self.draw_legend(&on)?;
        for (place, panel) in self.panels.iter().enumerate() {
            let left = self.panel_width() * (place % self.beside()) as f64;
            let top = self.legend_height() + self.panel_height() * (place / self.beside()) as f64;
            self.draw_panel(&on, panel, (left, top))?;
        }
        Ok(Vec::new())
    }
}
