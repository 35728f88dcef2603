//! A score of many methods: a panel a dataset, a row a method, a dot with its interval.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::super::canvas::{BLUE, INK, LINE, Panel, Pen, Plot, SOFT};
use super::super::method_style::{LETTER_WIDTH, NAME_LETTERS};
use super::axis::{Axis, Place, Spread};
use super::unit_area::{UnitArea, standalone, width_of};
use super::{MOST_COLUMNS, MOST_METHODS, MOST_PANELS, Unit, WIDTH, check_count, refused};
use crate::ReportError;
use fedsi_data::shortened;

/// Methods in the same order in all panels, so that a row is read across.
///
/// Every panel has a range of its own. What lies far from the others is an arrow at the panel's edge with its value, and the
/// highlighted method is always inside; its value is a line, and its interval a band, through its panel. A dot without an
/// interval is hollow: how sure it is, is not known.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodDots {
    /// What the figure shows, in a few words: not drawn, but the title of the file.
    pub title: String,
    /// Names of the methods from top to bottom, 1 to [`MOST_METHODS`]; 28 letters of each are drawn.
    pub methods: Vec<String>,
    /// The place in `methods` of the one that the others are seen against.
    pub highlighted: Option<usize>,
    /// 1 to [`MOST_PANELS`].
    pub panels: Vec<DotPanel>,
    /// Panels beside each other, 1 to [`MOST_COLUMNS`]; two are readable on a small screen.
    pub columns: usize,
    /// What the good end of an axis is called: `better`, or of differences from one method that it is that one: `FedSI better`.
    pub better_label: String,
    /// What a dot and its line are: `mean and 95% interval`.
    pub dot_label: String,
    /// What a hollow dot is: `fewer than 5 seeds`. Shown where there is one.
    pub hollow_label: String,
}

/// One panel of a [`MethodDots`].
#[derive(Clone, Debug, PartialEq)]
pub struct DotPanel {
    /// Above it: the dataset.
    pub title: String,
    /// Below it: the score, in about 12 letters.
    pub axis: String,
    /// How its values are written.
    pub unit: Unit,
    /// Which end of the axis is called better.
    pub lower_is_better: bool,
    /// Values farther than this from the highlighted method's are arrows; where nothing is said, those far from all others.
    pub farthest: Option<f64>,
    /// A row for each of the figure's methods, in their order.
    pub rows: Vec<DotRow>,
}

/// What is known of one method.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DotRow {
    /// Its score; NaN is none.
    pub value: Option<f64>,
    /// An interval around it; without one the dot is hollow.
    pub interval: Option<[f64; 2]>,
}

impl DotRow {
    fn value(&self) -> Option<f64> {
        self.value.filter(|value| !value.is_nan())
    }

    fn spread(&self) -> Option<Spread> {
        Some((self.value()?, self.interval))
    }

    fn is_hollow(&self) -> bool {
        self.value().is_some() && self.interval.is_none()
    }
}

const LEGEND: f64 = 22.0;
const TITLE: f64 = 24.0;
const ROW: f64 = 21.0;
/// Labels and the name of the axis, and some air below.
const FOOT: f64 = 54.0;
/// The narrowest panel, its margins included.
const PANEL: f64 = 165.0;
/// Between the edge of a panel and its axis: labels of the axis reach beyond it.
const MARGIN: (f64, f64) = (10.0, 18.0);
const LABELS: usize = 3;
/// Of a dot.
const RADIUS: f64 = 4.0;

impl MethodDots {
    /// The figure as the text of an SVG file.
    ///
    /// # Errors
    /// [`ReportError::Drawing`] for numbers of methods, panels or columns that are not drawn, and for a panel whose rows
    /// are not those of the methods.
    pub fn svg(&self) -> Result<String, ReportError> {
        check_count(&self.title, self.methods.len(), MOST_METHODS, "methods")?;
        check_count(&self.title, self.panels.len(), MOST_PANELS, "panels")?;
        check_count(&self.title, self.columns, MOST_COLUMNS, "columns of panels")?;
        let methods = self.methods.len();
        if let Some(place) = self.highlighted.filter(|&place| place >= methods) {
            return Err(refused(&self.title, &format!("highlights method {place} of {methods}")));
        }
        if let Some(panel) = self.panels.iter().find(|panel| panel.rows.len() != methods) {
            let (title, rows) = (&panel.title, panel.rows.len());
            let found = format!(
                "has {rows} rows in its panel \"{title}\", expected one for each of {methods} methods"
            );
            return Err(refused(&self.title, &found));
        }
        standalone(self, &self.title, &self.about())
    }

    /// What it shows, for those who do not see it: every value in words.
    #[must_use]
    pub fn about(&self) -> String {
        let panels = self.panels.iter().map(|panel| {
            let exact = |value: f64| panel.unit.exact(value);
            let rows = self.methods.iter().zip(&panel.rows).filter_map(|(name, row)| {
                let value = row.value()?;
                let interval = row
                    .interval
                    .map_or(String::new(), |[low, high]| format!(" ({} to {})", exact(low), exact(high)));
                Some(format!("{name} {}{interval}", exact(value)))
            });
            format!("{}, {}: {}", panel.title, panel.axis, rows.collect::<Vec<_>>().join("; "))
        });
        format!("{}. {}.", self.title, panels.collect::<Vec<_>>().join(". "))
    }

    /// Width of the column of names.
    fn names(&self) -> f64 {
        let longest =
            self.methods.iter().map(|name| name.chars().take(NAME_LETTERS).count()).max().unwrap_or(0);
        LETTER_WIDTH * longest as f64 + 8.0
    }

    fn beside(&self) -> usize {
        self.columns.min(self.panels.len()).max(1)
    }

    /// The name of a panel's axis, and its good end.
    fn axis_words(&self, panel: &DotPanel) -> String {
        if panel.lower_is_better {
            format!("{} (\u{2190} {})", panel.axis, self.better_label)
        } else {
            format!("{} ({} \u{2192})", panel.axis, self.better_label)
        }
    }

    /// Width of a panel with its margins: no words run into the next one's.
    fn panel_width(&self) -> f64 {
        let words = |panel: &DotPanel| width_of(&panel.title).max(width_of(&self.axis_words(panel))) + 12.0;
        let words = self.panels.iter().map(words);
        words.fold(((WIDTH - self.names()) / self.beside() as f64).max(PANEL), f64::max)
    }

    fn width(&self) -> f64 {
        self.names() + self.panel_width() * self.beside() as f64
    }

    fn panel_height(&self) -> f64 {
        TITLE + ROW * self.methods.len() as f64 + FOOT
    }

    fn has_hollow(&self) -> bool {
        self.panels.iter().flat_map(|panel| &panel.rows).any(DotRow::is_hollow)
    }

    /// Where the second entry of the legend begins: beside the first or below it.
    fn hollow_at(&self) -> (f64, f64) {
        let beside = 44.0 + width_of(&self.dot_label);
        if beside + 20.0 + width_of(&self.hollow_label) <= self.width() {
            (beside, 0.5 * LEGEND)
        } else {
            (0.0, 1.5 * LEGEND)
        }
    }

    fn legend_height(&self) -> f64 {
        if self.has_hollow() { self.hollow_at().1 + 0.5 * LEGEND } else { LEGEND }
    }

    fn draw_legend<DB: DrawingBackend>(&self, on: &UnitArea<'_, DB>) -> Result<(), ReportError> {
        let middle = 0.5 * LEGEND;
        on.line((6.0, middle), (30.0, middle), SOFT, 2.0)?;
        on.dot((18.0, middle), RADIUS, SOFT)?;
        on.words(&self.dot_label, INK, HPos::Left, (36.0, middle))?;
        if self.has_hollow() {
            let (left, middle) = self.hollow_at();
            on.circle((left + 18.0, middle), RADIUS, SOFT)?;
            on.words(&self.hollow_label, INK, HPos::Left, (left + 28.0, middle))?;
        }
        Ok(())
    }

    /// The names of one row of panels.
    fn draw_names<DB: DrawingBackend>(&self, on: &UnitArea<'_, DB>, top: f64) -> Result<(), ReportError> {
        for (place, name) in self.methods.iter().enumerate() {
            let colour = if self.highlighted == Some(place) { BLUE } else { INK };
            let middle = top + TITLE + ROW * (place as f64 + 0.5);
            on.words(&shortened(name, NAME_LETTERS), colour, HPos::Left, (4.0, middle))?;
        }
        Ok(())
    }

    fn draw_panel<DB: DrawingBackend>(
        &self,
        on: &UnitArea<'_, DB>,
        panel: &DotPanel,
        (left, top): (f64, f64),
    ) -> Result<(), ReportError> {
        let ends = (left + MARGIN.0, left + self.panel_width() - MARGIN.1);
        let highlighted = self.highlighted.and_then(|place| panel.rows.get(place));
        let kept: Vec<Spread> = highlighted.and_then(DotRow::spread).into_iter().collect();
        let is_near = |spread: &Spread| match (panel.farthest, kept.first()) {
            (Some(farthest), Some((centre, _))) => (spread.0 - centre).abs() <= farthest,
            _ => true,
        };
        let own: Vec<Spread> = panel.rows.iter().filter_map(DotRow::spread).filter(is_near).collect();
        let axis = Axis::around(&own, &kept, panel.unit, ends);
        on.heading(&panel.title, (left + 4.0, top + 0.5 * TITLE))?;
        let (first, last) = (top + TITLE, top + TITLE + ROW * panel.rows.len() as f64);
        if let Some((value, interval)) = kept.first() {
            if let Some([low, high]) = interval {
                on.filled((axis.at(*low), first), (axis.at(*high), last), BLUE.mix(0.12))?;
            }
            on.line((axis.at(*value), first), (axis.at(*value), last), BLUE.mix(0.5), 1.0)?;
        }
        for place in 0..panel.rows.len() {
            let middle = first + ROW * (place as f64 + 0.5);
            on.line((ends.0, middle), (ends.1, middle), LINE, 1.0)?;
        }
        on.line((ends.0, last), (ends.1, last), SOFT, 1.0)?;
        for (value, words) in axis.ticks(LABELS) {
            let x = axis.at(value);
            on.line((x, last), (x, last + 4.0), SOFT, 1.0)?;
            on.words(&words, SOFT, HPos::Center, (x, last + 14.0))?;
        }
        on.words(&self.axis_words(panel), INK, HPos::Center, (f64::midpoint(ends.0, ends.1), last + 33.0))?;
        for (place, row) in panel.rows.iter().enumerate() {
            let middle = first + ROW * (place as f64 + 0.5);
            let is_highlighted = self.highlighted == Some(place);
            draw_row(on, row, (&axis, panel.unit, ends), middle, is_highlighted)?;
        }
        Ok(())
    }
}

/// One method's mark: a dot with its interval, or an arrow where it lies beyond the panel.
fn draw_row<DB: DrawingBackend>(
    on: &UnitArea<'_, DB>,
    row: &DotRow,
    (axis, unit, ends): (&Axis, Unit, (f64, f64)),
    middle: f64,
    is_highlighted: bool,
) -> Result<(), ReportError> {
    let (colour, radius, width) = if is_highlighted { (BLUE, 5.0, 3.0) } else { (SOFT, RADIUS, 2.0) };
    let Some(value) = row.value() else { return Ok(()) };
    let x = match axis.place(value) {
        Place::Inside(x) => x,
        outside => return draw_beyond(on, (value, unit, colour), outside, ends, middle),
    };
    match row.interval {
        Some([low, high]) => {
            on.line((axis.at(low), middle), (axis.at(high), middle), colour, width)?;
            on.dot((x, middle), radius, colour)
        }
        None => on.circle((x, middle), radius, colour),
    }
}

/// An arrow at the edge that a value lies beyond, and the value in words.
fn draw_beyond<DB: DrawingBackend>(
    on: &UnitArea<'_, DB>,
    (value, unit, colour): (f64, Unit, RGBColor),
    place: Place,
    ends: (f64, f64),
    middle: f64,
) -> Result<(), ReportError> {
    let words = unit.short(value);
    let reach = 14.0 + width_of(&words);
    let (tip, way, side, text, cover) = if place == Place::Below {
        (ends.0 - 2.0, -1.0, HPos::Left, ends.0 + 10.0, (ends.0, ends.0 + reach))
    } else {
        (ends.1 + 2.0, 1.0, HPos::Right, ends.1 - 10.0, (ends.1 - reach, ends.1))
    };
    on.filled((cover.0, middle - 2.0), (cover.1, middle + 2.0), WHITE)?;
    on.words(&words, colour, side, (text, middle))?;
    on.arrow((tip, middle), (way, 0.0), colour)
}

impl Plot for MethodDots {
    fn size(&self) -> (u32, u32) {
        let rows = self.panels.len().div_ceil(self.beside()) as f64;
        (self.width().ceil() as u32, (self.legend_height() + rows * self.panel_height()).ceil() as u32)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        _: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let on = UnitArea { area, pen };
        self.draw_legend(&on)?;
        for (row, panels) in self.panels.chunks(self.beside()).enumerate() {
            let top = self.legend_height() + self.panel_height() * row as f64;
            self.draw_names(&on, top)?;
            for (column, panel) in panels.iter().enumerate() {
                let left = self.names() + self.panel_width() * column as f64;
                self.draw_panel(&on, panel, (left, top))?;
            }
        }
        Ok(Vec::new())
    }
}
