//! A score of some methods over the values of a setting: a panel a dataset, a line a method.

use super::unit_area::standalone;
use super::{MOST_COLUMNS, MOST_METHODS, MOST_PANELS, Unit, check_count, refused};
use crate::ReportError;

/// Lines over the same values in all panels, with one legend above them.
///
/// The methods that are named differ by colour, dash and marker; the highlighted one is thicker and drawn last. They lie beside
/// each other where they share a value, so that their intervals do not cover each other. All others are thin grey lines under
/// one entry of the legend: more than a few colours cannot be told apart. What lies far from the rest is written above or
/// below the panel, in a row a method, with an arrow in its colour.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodLines {
    /// What the figure shows, in a few words: not drawn, but the title of the file.
    pub title: String,
    /// Names of the methods, 1 to [`MOST_METHODS`]; 28 letters of each are drawn.
    pub methods: Vec<String>,
    /// The place in `methods` of the one that is drawn thicker.
    pub highlighted: Option<usize>,
    /// The places in `methods` of those that are drawn in grey, without names.
    pub unnamed: Vec<usize>,
    /// What the legend calls them: `other methods`. Shown where there are any.
    pub unnamed_label: String,
    /// Below the panels: the setting, with its unit.
    pub x_axis: String,
    /// The setting's values, ascending.
    pub x: Vec<SettingValue>,
    /// 1 to [`MOST_PANELS`].
    pub panels: Vec<LinePanel>,
    /// Panels beside each other, 1 to [`MOST_COLUMNS`]; two are readable on a small screen.
    pub columns: usize,
}

/// A value of the setting on the axis.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingValue {
    /// Where it lies: distances on the axis are those of the values.
    pub value: f64,
    /// As it is written: `3%`.
    pub label: String,
}

/// One panel of a [`MethodLines`].
#[derive(Clone, Debug, PartialEq)]
pub struct LinePanel {
    /// Above it: the dataset.
    pub title: String,
    /// Below its title: the score.
    pub axis: String,
    /// How its values are written.
    pub unit: Unit,
    /// Those that it has.
    pub lines: Vec<MethodLine>,
}

/// One method's line.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodLine {
    /// The place of its method in the figure's `methods`.
    pub method: usize,
    /// A point for each of the figure's values, where there is one.
    pub points: Vec<Option<LinePoint>>,
}

/// One point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePoint {
    /// The score; NaN is no point.
    pub value: f64,
    /// An interval around it.
    pub interval: Option<[f64; 2]>,
}

impl MethodLines {
    /// The figure as the text of an SVG file.
    ///
    /// # Errors
    /// [`ReportError::Drawing`] for numbers of methods, panels or columns that are not drawn, values that do not ascend,
    /// and lines of unknown methods or without a place for every value.
    pub fn svg(&self) -> Result<String, ReportError> {
        check_count(&self.title, self.methods.len(), MOST_METHODS, "methods")?;
        check_count(&self.title, self.panels.len(), MOST_PANELS, "panels")?;
        check_count(&self.title, self.columns, MOST_COLUMNS, "columns of panels")?;
        check_count(&self.title, self.x.len(), MOST_METHODS, "values of its setting")?;
        let ascend = self.x.windows(2).all(|pair| pair[0].value < pair[1].value);
        if !ascend || self.x.iter().any(|x| !x.value.is_finite()) {
            return Err(refused(&self.title, "has values of its setting that are not finite and ascending"));
        }
        let methods = self.methods.len();
        if let Some(place) = self.highlighted.filter(|&place| place >= methods) {
            return Err(refused(&self.title, &format!("highlights method {place} of {methods}")));
        }
        if self.unnamed.len() == methods {
            return Err(refused(&self.title, "names none of its methods"));
        }
        for (panel, line) in
            self.panels.iter().flat_map(|panel| panel.lines.iter().map(move |line| (panel, line)))
        {
            let (title, points, values) = (&panel.title, line.points.len(), self.x.len());
            if line.method >= methods {
                let found =
                    format!("has a line of method {} of {methods} in its panel \"{title}\"", line.method);
                return Err(refused(&self.title, &found));
            }
            if points != values {
                let found =
                    format!("has a line of {points} points in its panel \"{title}\", expected {values}");
                return Err(refused(&self.title, &found));
            }
        }
        standalone(self, &self.title, &self.about())
    }

    /// What it shows, for those who do not see it: every value in words.
    #[must_use]
    pub fn about(&self) -> String {
        let panels = self.panels.iter().map(|panel| {
            let lines = panel.lines.iter().map(|line| {
                let points = self.x.iter().zip(&line.points).filter_map(|(x, point)| {
                    let point = (*point)?;
                    let interval = point.interval.map_or(String::new(), |[low, high]| {
                        format!(" ({} to {})", panel.unit.exact(low), panel.unit.exact(high))
                    });
                    Some(format!("{}{interval} at {}", panel.unit.exact(point.value), x.label))
                });
                let name = self.methods.get(line.method).map_or("", String::as_str);
                format!("{name} {}", points.collect::<Vec<_>>().join(", "))
            });
            format!("{}, {}: {}", panel.title, panel.axis, lines.collect::<Vec<_>>().join("; "))
        });
        format!("{}, over {}. {}.", self.title, self.x_axis, panels.collect::<Vec<_>>().join(". "))
    }
}
