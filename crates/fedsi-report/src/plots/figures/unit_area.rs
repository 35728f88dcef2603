//! Drawing in the units of a figure, and its text.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::super::canvas::{INK, Pen, Plot, failed, paper_svg, valid_xml};
use super::super::method_style::LETTER_WIDTH;
use crate::ReportError;

/// A drawing area whose places are in the figure's units.
pub(super) struct UnitArea<'a, DB: DrawingBackend> {
    pub(super) area: &'a DrawingArea<DB, Shift>,
    pub(super) pen: Pen,
}

/// A place in units: from the left, from the top.
pub(super) type At = (f64, f64);

impl<DB: DrawingBackend> UnitArea<'_, DB> {
    pub(super) fn px(&self, (x, y): At) -> (i32, i32) {
        (self.pen.px(x), self.pen.px(y))
    }

    pub(super) fn words(&self, words: &str, colour: RGBColor, side: HPos, at: At) -> Result<(), ReportError> {
        self.area.draw_text(words, &self.pen.text(colour, side, VPos::Center), self.px(at)).map_err(failed)
    }

    pub(super) fn line(
        &self,
        from: At,
        to: At,
        colour: impl Into<RGBAColor>,
        width: f64,
    ) -> Result<(), ReportError> {
        let path = [self.px(from), self.px(to)];
        self.area.draw(&PathElement::new(path, self.pen.stroke(colour, width))).map_err(failed)
    }

    /// A line of dashes.
    pub(super) fn dashed(&self, from: At, to: At, colour: RGBColor) -> Result<(), ReportError> {
        const DASH: f64 = 4.0;
        const GAP: f64 = 4.0;
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(1e-9);
        let along = |distance: f64| {
            let share = (distance / length).min(1.0);
            (from.0 + share * dx, from.1 + share * dy)
        };
        let mut start = 0.0;
        while start < length {
            self.line(along(start), along(start + DASH), colour, 1.0)?;
            start += DASH + GAP;
        }
        Ok(())
    }

    pub(super) fn filled(&self, from: At, to: At, colour: impl Into<RGBAColor>) -> Result<(), ReportError> {
        let style: RGBAColor = colour.into();
        self.area.draw(&Rectangle::new([self.px(from), self.px(to)], style.filled())).map_err(failed)
    }

    pub(super) fn frame(
        &self,
        from: At,
        to: At,
        colour: impl Into<RGBAColor>,
        width: f64,
    ) -> Result<(), ReportError> {
        let corners = [self.px(from), self.px(to)];
        self.area.draw(&Rectangle::new(corners, self.pen.stroke(colour, width))).map_err(failed)
    }

    pub(super) fn dot(&self, at: At, radius: f64, colour: RGBColor) -> Result<(), ReportError> {
        self.area.draw(&Circle::new(self.px(at), self.pen.px(radius), colour.filled())).map_err(failed)
    }

    /// A hollow dot.
    pub(super) fn circle(&self, at: At, radius: f64, colour: RGBColor) -> Result<(), ReportError> {
        self.area.draw(&Circle::new(self.px(at), self.pen.px(radius), WHITE.filled())).map_err(failed)?;
        let edge = self.pen.stroke(colour, 1.5);
        self.area.draw(&Circle::new(self.px(at), self.pen.px(radius), edge)).map_err(failed)
    }

    /// A triangle with its tip at a place, pointing that way (each of -1, 0, 1): a value lies beyond.
    pub(super) fn arrow(
        &self,
        (x, y): At,
        (dx, dy): (f64, f64),
        colour: RGBColor,
    ) -> Result<(), ReportError> {
        const LENGTH: f64 = 8.0;
        const HALF: f64 = 4.5;
        let base = (x - LENGTH * dx, y - LENGTH * dy);
        let tip = (x, y);
        let corners =
            [tip, (base.0 - HALF * dy, base.1 + HALF * dx), (base.0 + HALF * dy, base.1 - HALF * dx), tip];
        let corners: Vec<(i32, i32)> = corners.map(|corner| self.px(corner)).into();
        self.area.draw(&Polygon::new(corners, colour.filled())).map_err(failed)
    }

    pub(super) fn heading(&self, words: &str, at: At) -> Result<(), ReportError> {
        self.words(words, INK, HPos::Left, at)
    }
}

/// About how wide words are.
pub(super) fn width_of(words: &str) -> f64 {
    LETTER_WIDTH * words.chars().count() as f64
}

/// A figure as the text of an SVG file, with its title and what it shows for those who do not see it.
pub(super) fn standalone(plot: &impl Plot, title: &str, about: &str) -> Result<String, ReportError> {
    let svg = paper_svg(title, plot)?;
    let Some((element, within)) = svg.split_once('>') else {
        return Err(ReportError::Drawing(format!("the figure \"{title}\" has no element")));
    };
    let words = format!("<title>{}</title>\n<desc>{}</desc>", escaped(title), escaped(about));
    Ok(format!("{element} role=\"img\">\n{words}{within}"))
}

/// Text as XML holds it.
fn escaped(text: &str) -> String {
    valid_xml(text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}
