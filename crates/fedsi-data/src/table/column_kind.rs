//! What the values of a column are.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cell::{DateOrder, boolean, date, is_missing, number};

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnKind {
    /// Numbers.
    Number,
    /// true or false, yes or no.
    Boolean,
    /// Days, with or without a time.
    Date,
    /// One of several texts.
    Category,
}

impl ColumnKind {
    /// The kind in one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Category => "category",
        }
    }
}

impl fmt::Display for ColumnKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a cell of a column of a known kind says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// There is none.
    Missing,
    /// A number, days since 1970-01-01, or 1 for true and 0 for false.
    Number(f64),
    /// A category.
    Text(&'a str),
    /// Something else: it counts as missing.
    Unreadable,
}

/// Reads a cell of a column.
pub(crate) fn read(kind: ColumnKind, order: DateOrder, text: &str) -> Value<'_> {
    if is_missing(text) {
        return Value::Missing;
    }
    let found = match kind {
        ColumnKind::Number => number(text),
        ColumnKind::Boolean => boolean(text).map(|value| f64::from(u8::from(value))),
        ColumnKind::Date => date(text, order),
        ColumnKind::Category => return Value::Text(text),
    };
    found.map_or(Value::Unreadable, Value::Number)
}
