//! Figures for papers and for pages in Markdown: standalone SVG text from plain data, whatever it was made from.
//!
//! - [`MethodDots`]: a score of many methods on several datasets, each a dot with its interval.
//! - [`MethodLines`]: a score of some methods over the values of a setting.
//! - [`ReliabilityPanels`]: reliability diagrams of some methods on several datasets.
//!
//! They look as the plots of runs and comparisons do: the same letters, Okabe and Ito's colours, nothing told by
//! colour alone. The background is white and opaque, so that they are read in light and in dark pages. With one or two
//! columns of panels a figure is about 480 units wide, readable on a screen of 390 pixels; three columns are for print.
//!
//! Drawing costs some milliseconds and the memory of the text (tens of kB). Equal figures give equal text.
//!
//! ```
//! use fedsi_report::figures::{DotPanel, DotRow, MethodDots, Unit};
//!
//! let row = |value: f64| DotRow { value: Some(value), interval: Some([value - 0.01, value + 0.01]) };
//! let figure = MethodDots {
//!     title: "Accuracy by method".to_owned(),
//!     methods: vec!["FedAvg".to_owned(), "FedSI".to_owned()],
//!     highlighted: Some(1),
//!     panels: vec![DotPanel {
//!         title: "MNIST".to_owned(),
//!         axis: "accuracy".to_owned(),
//!         unit: Unit::Percent,
//!         farthest: None,
//!         lower_is_better: false,
//!         rows: vec![row(0.9), row(0.95)],
//!     }],
//!     columns: 1,
//!     better_label: "better".to_owned(),
//!     dot_label: "mean and 95% interval".to_owned(),
//!     hollow_label: "fewer than 5 seeds".to_owned(),
//! };
//! assert!(figure.svg()?.starts_with("<svg"));
//! assert!(figure.about().contains("FedSI 95.00% (94.00% to 96.00%)"));
//! # Ok::<(), fedsi_report::ReportError>(())
//! ```

mod axis;
mod dots;
mod lines;
mod lines_drawing;
mod reliability;
#[cfg(test)]
mod tests;
mod unit_area;

pub use axis::Unit;
pub use dots::{DotPanel, DotRow, MethodDots};
pub use lines::{LinePanel, LinePoint, MethodLine, MethodLines, SettingValue};
pub use reliability::{ReliabilityCell, ReliabilityPanels, ReliabilityRow};

use crate::ReportError;

/// The most methods a figure shows: more cannot be told apart.
pub const MOST_METHODS: usize = 20;

/// The most panels of a figure of dots or lines.
pub const MOST_PANELS: usize = 6;

/// The most panels beside each other in a figure of dots or lines.
pub const MOST_COLUMNS: usize = 3;

/// The width that is readable on a small screen: text of 13.5 is 10 pixels high on one of 390.
const WIDTH: f64 = 480.0;

/// A figure that cannot be drawn from this: says what was found, and what was expected.
fn refused(figure: &str, found: &str) -> ReportError {
    ReportError::Drawing(format!("the figure \"{figure}\" {found}"))
}

/// Checks a count against the range that can be drawn.
fn check_count(figure: &str, found: usize, most: usize, things: &str) -> Result<(), ReportError> {
    if (1..=most).contains(&found) {
        return Ok(());
    }
    Err(refused(figure, &format!("has {found} {things}, expected 1 to {most}")))
}
