//! How the columns of a table become a network's inputs.

use serde::{Deserialize, Serialize};

use super::cell::DateOrder;
use super::column_kind::{ColumnKind, Value, read};
use crate::scale::Scaling;

/// Most levels of a category that have an input of their own.
pub(super) const MOST_LEVELS: usize = 50;

/// How the columns of a table become a network's inputs: the same at every site, and saved in every model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableEncoding {
    /// The columns that are inputs, in the order of the table.
    pub columns: Vec<ColumnEncoding>,
    /// Columns that could have been inputs, and why they are none.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
}

/// How one column becomes inputs: its value (numbers, dates, booleans) or one input for each category, then one that says
/// whether the value is missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnEncoding {
    /// What the table calls it.
    pub name: String,
    /// What its values are.
    pub kind: ColumnKind,
    /// Dates: whether 3/4/2024 is the third of April.
    pub day_first: bool,
    /// What stands for a missing value: the weighted median of the sites' medians, of booleans the share of true; 0 where
    /// numbers are not standardised and none is missing in training rows.
    pub fill: f64,
    /// Subtracted from numbers and days.
    pub mean: f64,
    /// Divides numbers and days after that.
    pub std: f64,
    /// The categories with an input of their own.
    pub categories: Vec<String>,
    /// Whether an input says that it is another category, as sites had texts that are too rare to be told. Without it, a category that was
    /// never seen is none of the known ones: all its inputs are 0.
    pub other: bool,
    /// Whether an input says that the value is missing, as it was in training rows.
    pub missing: bool,
    /// What is worth knowing of how sites agreed on it.
    #[serde(default)]
    pub note: Option<String>,
}

/// A column that is no input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// What the table calls it.
    pub name: String,
    /// Why.
    pub why: String,
}

impl TableEncoding {
    /// Inputs of the network.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns.iter().map(ColumnEncoding::width).sum()
    }

    /// The names of the inputs: the column's own, with what the input says of it where there are several.
    #[must_use]
    pub fn feature_names(&self) -> Vec<String> {
        self.columns.iter().flat_map(ColumnEncoding::feature_names).collect()
    }

    /// The names of the columns.
    #[must_use]
    pub fn column_names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// Appends the inputs of one row of cells, in the order of the columns; cells that are not there are missing. Answers
    /// the positions of columns whose cell cannot be read: it counts as missing.
    pub fn encode<S: AsRef<str>>(&self, cells: &[S], inputs: &mut Vec<f32>) -> Vec<usize> {
        let mut unreadable = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            let text = cells.get(at).map_or("", AsRef::as_ref);
            if !column.encode(text, inputs) {
                unreadable.push(at);
            }
        }
        unreadable
    }

    /// Mean and standard deviation of every input: 0 and 1 where it is as it is.
    #[must_use]
    pub fn scaling(&self) -> Scaling {
        let mut scaling = Scaling { mean: Vec::new(), std: Vec::new() };
        for column in &self.columns {
            let scaled = column.is_scaled();
            for feature in 0..column.width() {
                let own = scaled && feature == 0;
                scaling.mean.push(if own { column.mean } else { 0.0 });
                scaling.std.push(if own { column.std } else { 1.0 });
            }
        }
        scaling
    }

    /// Whether nothing but the names of the columns decides it: numbers as they are, none missing, no column left out.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let plain = |column: &ColumnEncoding| {
            let unscaled = (column.mean, column.std, column.fill) == (0.0, 1.0, 0.0);
            column.kind == ColumnKind::Number && !column.missing && unscaled
        };
        self.left_out.is_empty() && self.columns.iter().all(plain)
    }

    /// Whether an encoding that was read from a file can be used: names once each, numbers finite.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let mut seen = std::collections::HashSet::new();
        self.columns.iter().all(|column| {
            let numbers = [column.mean, column.fill, column.std].iter().all(|number| number.is_finite());
            let levels = column.categories.len() <= MOST_LEVELS
                && (column.kind == ColumnKind::Category || column.categories.is_empty());
            seen.insert(&column.name) && numbers && column.std > 0.0 && levels
        })
    }
}

impl ColumnEncoding {
    /// A column of numbers as they are.
    #[must_use]
    pub fn number(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: ColumnKind::Number,
            day_first: true,
            fill: 0.0,
            mean: 0.0,
            std: 1.0,
            categories: Vec::new(),
            other: false,
            missing: false,
            note: None,
        }
    }

    /// Inputs that the column becomes.
    #[must_use]
    pub fn width(&self) -> usize {
        let values = if self.kind == ColumnKind::Category {
            self.categories.len() + usize::from(self.other)
        } else {
            1
        };
        values + usize::from(self.missing)
    }

    /// Whether a cell says that there is no value.
    #[must_use]
    pub fn is_missing(&self, text: &str) -> bool {
        self.read(text) == Value::Missing
    }

    fn feature_names(&self) -> Vec<String> {
        let name = &self.name;
        let mut names: Vec<String> = if self.kind == ColumnKind::Category {
            let levels = self.categories.iter().map(|level| format!("{name}={level}"));
            levels.chain(self.other.then(|| format!("{name} (other)"))).collect()
        } else {
            vec![name.clone()]
        };
        names.extend(self.missing.then(|| format!("{name} (missing)")));
        names
    }

    pub(crate) const fn is_scaled(&self) -> bool {
        matches!(self.kind, ColumnKind::Number | ColumnKind::Date)
    }

    pub(crate) const fn order(&self) -> DateOrder {
        if self.day_first { DateOrder::DayFirst } else { DateOrder::MonthFirst }
    }

    /// What a cell says. A number that is too large for an input is none.
    pub(crate) fn read<'a>(&self, text: &'a str) -> Value<'a> {
        match read(self.kind, self.order(), text) {
            Value::Number(value) if self.mean == 0.0 && self.std == 1.0 && !(value as f32).is_finite() => {
                Value::Unreadable
            }
            value => value,
        }
    }

    /// Appends a cell's inputs; whether it could be read.
    fn encode(&self, text: &str, inputs: &mut Vec<f32>) -> bool {
        let value = self.read(text);
        let there = matches!(value, Value::Number(_) | Value::Text(_));
        match value {
            Value::Text(text) => {
                let found = self.categories.iter().position(|level| level == text);
                let place = found.or(self.other.then_some(self.categories.len()));
                let values = self.categories.len() + usize::from(self.other);
                inputs.extend((0..values).map(|at| f32::from(u8::from(place == Some(at)))));
            }
            Value::Missing | Value::Unreadable if self.kind == ColumnKind::Category => {
                let values = self.categories.len() + usize::from(self.other);
                inputs.extend(std::iter::repeat_n(0.0, values));
            }
            Value::Number(value) => inputs.push(self.scaled(value)),
            Value::Missing | Value::Unreadable => inputs.push(self.scaled(self.fill)),
        }
        if self.missing {
            inputs.push(f32::from(u8::from(!there)));
        }
        value != Value::Unreadable
    }

    fn scaled(&self, value: f64) -> f32 {
        let scaled = (value - self.mean).clamp(f64::MIN, f64::MAX) / self.std;
        scaled.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
    }

    /// How it becomes inputs, in words.
    pub(crate) fn in_words(&self) -> String {
        let scaled = self.is_scaled() && (self.mean, self.std) != (0.0, 1.0);
        let mut words = match self.kind {
            ColumnKind::Number if scaled => "standardised".to_owned(),
            ColumnKind::Number => "as it is".to_owned(),
            ColumnKind::Date if scaled => "days, standardised".to_owned(),
            ColumnKind::Date => "days since 1970".to_owned(),
            ColumnKind::Boolean => "0 or 1".to_owned(),
            ColumnKind::Category => {
                let (count, other) = (self.categories.len(), if self.other { " + other" } else { "" });
                format!("{count} {}{other}", if count == 1 { "category" } else { "categories" })
            }
        };
        if self.missing {
            words.push_str(match self.kind {
                ColumnKind::Category => " + missing",
                ColumnKind::Boolean => ", missing marked",
                ColumnKind::Number | ColumnKind::Date => ", missing: median, marked",
            });
        }
        words
    }
}
