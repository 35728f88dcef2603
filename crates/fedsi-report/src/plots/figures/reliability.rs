//! Reliability diagrams in a grid: a row a dataset, a column a method.

use fedsi_metrics::ReliabilityBin;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::super::canvas::{BLUE, INK, LINE, Panel, Pen, Plot, SOFT, VERMILION};
use super::super::reliability::{FAINT, is_faint};
use super::unit_area::{At, UnitArea, standalone};
use super::{WIDTH, check_count, refused};
use crate::ReportError;
use fedsi_data::shortened;

/// Accuracy by confidence of some methods on some datasets, each over a histogram of its confidences.
///
/// Gaps between accuracy and mean confidence are framed, and filled where the model is overconfident. Bins with fewer than 1% of
/// the samples are faint: they show chance. With up to three columns it is readable on a small screen.
#[derive(Clone, Debug, PartialEq)]
pub struct ReliabilityPanels {
    /// What the figure shows, in a few words: not drawn, but the title of the file.
    pub title: String,
    /// Names of the columns, 1 to [`ReliabilityPanels::MOST_COLUMNS`].
    pub columns: Vec<String>,
    /// 1 to [`ReliabilityPanels::MOST_ROWS`].
    pub rows: Vec<ReliabilityRow>,
}

/// The diagrams of one dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct ReliabilityRow {
    /// The dataset.
    pub title: String,
    /// A cell for each of the figure's columns; none where there are no runs with the rounds of the figure.
    pub cells: Vec<Option<ReliabilityCell>>,
}

/// One diagram.
#[derive(Clone, Debug, PartialEq)]
pub struct ReliabilityCell {
    /// From the lowest confidence to the highest: those of a
    /// [`ReliabilityTable`](fedsi_metrics::ReliabilityTable), or read from a file.
    pub bins: Vec<ReliabilityBin>,
    /// The calibration error that is written above it.
    pub ece: f64,
    /// What chance alone gives, beside it.
    pub floor: Option<f64>,
}

const LEGEND: f64 = 44.0;
/// The dataset's name above its diagrams.
const ROW_TITLE: f64 = 26.0;
/// A line of text above a diagram.
const TEXT: f64 = 18.0;
const DIAGRAM: f64 = 130.0;
const HISTOGRAM: f64 = 34.0;
/// Between the two.
const GAP: f64 = 5.0;
/// Labels below the histogram, and some air.
const FOOT: f64 = 34.0;
/// Left of the first diagram, for labels.
const LEFT: f64 = 36.0;
/// Between diagrams.
const BETWEEN: f64 = 18.0;
/// The width of a diagram with what is between it and the next, at least and at most.
const CELL: (f64, f64) = (140.0, 200.0);

impl ReliabilityPanels {
    /// The most columns.
    pub const MOST_COLUMNS: usize = 6;
    /// The most rows.
    pub const MOST_ROWS: usize = 6;

    /// The figure as the text of an SVG file.
    ///
    /// # Errors
    /// [`ReportError::Drawing`] for numbers of columns or rows that are not drawn, and for a row whose cells are not
    /// those of the columns.
    pub fn svg(&self) -> Result<String, ReportError> {
        check_count(&self.title, self.columns.len(), Self::MOST_COLUMNS, "columns")?;
        check_count(&self.title, self.rows.len(), Self::MOST_ROWS, "rows")?;
        let expected = self.columns.len();
        if let Some(row) = self.rows.iter().find(|row| row.cells.len() != expected) {
            let (title, cells) = (&row.title, row.cells.len());
            let found = format!(
                "has {cells} cells in its row \"{title}\", expected one for each of {expected} columns"
            );
            return Err(refused(&self.title, &found));
        }
        standalone(self, &self.title, &self.about())
    }

    /// What it shows, for those who do not see it: the calibration error of every cell.
    #[must_use]
    pub fn about(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let cells = self.columns.iter().zip(&row.cells).filter_map(|(column, cell)| {
                let cell = cell.as_ref()?;
                let floor = cell.floor.map_or(String::new(), |floor| format!(" (floor {floor:.4})"));
                Some(format!("{column} ECE {:.4}{floor}", cell.ece))
            });
            format!("{}: {}", row.title, cells.collect::<Vec<_>>().join(", "))
        });
        format!("{}. {}.", self.title, rows.collect::<Vec<_>>().join(". "))
    }

    fn cell_width(&self) -> f64 {
        let columns = self.columns.len().max(1) as f64;
        ((WIDTH - LEFT) / columns).clamp(CELL.0, CELL.1)
    }

    fn width(&self) -> f64 {
        (LEFT + self.cell_width() * self.columns.len() as f64).max(WIDTH)
    }

    /// Lines of text above a diagram: the method, its ECE and, where any has one, the floor.
    fn lines_above(&self) -> f64 {
        let has_floor =
            self.rows.iter().flat_map(|row| row.cells.iter().flatten()).any(|cell| cell.floor.is_some());
        if has_floor { 3.0 } else { 2.0 }
    }

    fn row_height(&self) -> f64 {
        ROW_TITLE + TEXT * self.lines_above() + DIAGRAM + GAP + HISTOGRAM + FOOT
    }

    fn draw_legend<DB: DrawingBackend>(on: &UnitArea<'_, DB>) -> Result<(), ReportError> {
        on.filled((4.0, 5.0), (16.0, 17.0), BLUE.mix(0.75))?;
        on.words("accuracy", INK, HPos::Left, (22.0, 11.0))?;
        on.filled((104.0, 5.0), (116.0, 17.0), VERMILION.mix(0.35))?;
        on.frame((104.0, 5.0), (116.0, 17.0), VERMILION, 1.5)?;
        on.words("gap to confidence", INK, HPos::Left, (122.0, 11.0))?;
        on.dashed((268.0, 11.0), (296.0, 11.0), SOFT)?;
        on.words("calibrated", INK, HPos::Left, (302.0, 11.0))?;
        on.words("Faint: under 1% of samples. Below: share of samples.", SOFT, HPos::Left, (4.0, 31.0))
    }

    /// One diagram over its histogram; `left` and `top` are the upper left corner of the diagram itself.
    fn draw_cell<DB: DrawingBackend>(
        &self,
        on: &UnitArea<'_, DB>,
        cell: &ReliabilityCell,
        (left, top): At,
    ) -> Result<(), ReportError> {
        let width = self.cell_width() - BETWEEN;
        let bottom = top + DIAGRAM;
        let (histogram_top, histogram_bottom) = (bottom + GAP, bottom + GAP + HISTOGRAM);
        let x = |share: f64| left + width * share.clamp(0.0, 1.0);
        let y = |share: f64| bottom - DIAGRAM * share.clamp(0.0, 1.0);
        for share in [0.0, 0.5, 1.0] {
            on.line((left, y(share)), (left + width, y(share)), LINE, 1.0)?;
        }
        let total: usize = cell.bins.iter().map(|bin| bin.count).sum();
        for bin in cell.bins.iter().filter(|bin| !bin.is_empty()) {
            let (from, to) = (x(bin.lo) + 1.0, x(bin.hi) - 1.0);
            let weight = if is_faint(bin, total) { FAINT } else { 1.0 };
            on.filled((from, y(bin.accuracy)), (to, bottom), BLUE.mix(0.75 * weight))?;
            let gap = ((from, y(bin.confidence)), (to, y(bin.accuracy)));
            if bin.confidence > bin.accuracy {
                on.filled(gap.0, gap.1, VERMILION.mix(0.35 * weight))?;
            }
            on.frame(gap.0, gap.1, VERMILION.mix(weight), 1.5)?;
            let share = bin.count as f64 / total as f64;
            let height = HISTOGRAM * share.clamp(0.0, 1.0);
            on.filled((from, histogram_bottom - height), (to, histogram_bottom), BLUE.mix(0.75))?;
        }
        on.dashed((left, bottom), (left + width, top), SOFT)?;
        for (high, low) in [(top, bottom), (histogram_top, histogram_bottom)] {
            on.line((left, high), (left, low), SOFT, 1.0)?;
            on.line((left, low), (left + width, low), SOFT, 1.0)?;
        }
        let labels = histogram_bottom + 12.0;
        on.words("0", SOFT, HPos::Left, (left, labels))?;
        on.words("1", SOFT, HPos::Right, (left + width, labels))
    }

    fn draw_row<DB: DrawingBackend>(
        &self,
        on: &UnitArea<'_, DB>,
        row: &ReliabilityRow,
        top: f64,
    ) -> Result<(), ReportError> {
        on.line((0.0, top), (self.width(), top), LINE, 1.0)?;
        on.heading(&shortened(&row.title, 60), (4.0, top + 0.5 * ROW_TITLE))?;
        let diagram = top + ROW_TITLE + TEXT * self.lines_above();
        for (place, (column, cell)) in self.columns.iter().zip(&row.cells).enumerate() {
            let left = LEFT + self.cell_width() * place as f64;
            let line = |place: f64| (left, top + ROW_TITLE + TEXT * (place + 0.5) - 3.0);
            on.words(&shortened(column, 22), INK, HPos::Left, line(0.0))?;
            let Some(cell) = cell else {
                on.words("no such runs", SOFT, HPos::Left, line(1.0))?;
                continue;
            };
            on.words(&format!("ECE {:.4}", cell.ece), INK, HPos::Left, line(1.0))?;
            if let Some(floor) = cell.floor {
                on.words(&format!("floor {floor:.4}"), SOFT, HPos::Left, line(2.0))?;
            }
            self.draw_cell(on, cell, (left, diagram))?;
        }
        for (share, words) in [(0.0, "0"), (0.5, "0.5"), (1.0, "1")] {
            let y = diagram + DIAGRAM * (1.0 - share);
            on.words(words, SOFT, HPos::Right, (LEFT - 5.0, y))?;
        }
        let labels = diagram + DIAGRAM + GAP + HISTOGRAM + 12.0;
        let width = self.cell_width() - BETWEEN;
        for column in 0..self.columns.len() {
            let middle = LEFT + self.cell_width() * column as f64 + 0.5 * width;
            if row.cells.get(column).is_some_and(Option::is_some) {
                on.words("confidence", INK, HPos::Center, (middle, labels))?;
            }
        }
        Ok(())
    }
}

impl Plot for ReliabilityPanels {
    fn size(&self) -> (u32, u32) {
        let height = LEGEND + self.row_height() * self.rows.len() as f64;
        (self.width().ceil() as u32, height.ceil() as u32)
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        pen: Pen,
        _: bool,
    ) -> Result<Vec<Panel>, ReportError> {
        let on = UnitArea { area, pen };
        Self::draw_legend(&on)?;
        for (place, row) in self.rows.iter().enumerate() {
            self.draw_row(&on, row, LEGEND + self.row_height() * place as f64)?;
        }
        Ok(Vec::new())
    }
}
