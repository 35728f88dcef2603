//! What a client's own training rows hold, and which values of a new row lie outside.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::cell::day_text;
use super::column_kind::{ColumnKind, Value};
use super::encoding::{ColumnEncoding, TableEncoding};
use super::sheet::Sheet;
use crate::display_name::shortened;

/// Beyond the range, this share of its width on either side: a value there is far outside.
const MARGIN: f64 = 0.5;
/// A date this many days before or after those of training rows is far outside: ten years.
const FAR_DAYS: f64 = 3652.0;
/// Where all training rows have one value, another one is far outside if it differs by more than this share.
const TOLERANCE: f64 = 1e-6;
/// Letters of a text that a reason shows.
const LETTERS: usize = 40;

/// What one column of one client's own training rows holds. Saved in that client's model file only, never sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnRange {
    /// Numbers from the smallest to the largest.
    Numbers {
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
    },
    /// Days since 1970-01-01, from the first to the last.
    Dates {
        /// The first.
        min: f64,
        /// The last.
        max: f64,
    },
    /// All texts there are; of booleans "true" and "false".
    Categories(Vec<String>),
    /// No value at all.
    Nothing,
}

impl ColumnRange {
    /// What the rows of both hold together.
    #[must_use]
    pub(crate) fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Self::Numbers { min, max }, Self::Numbers { min: low, max: high }) => {
                Self::Numbers { min: min.min(low), max: max.max(high) }
            }
            (Self::Dates { min, max }, Self::Dates { min: low, max: high }) => {
                Self::Dates { min: min.min(low), max: max.max(high) }
            }
            (Self::Categories(texts), Self::Categories(others)) => {
                let all: BTreeSet<String> = texts.into_iter().chain(others).collect();
                Self::Categories(all.into_iter().collect())
            }
            (Self::Nothing, other) => other,
            // A column is of one kind at all clients.
            (one, _) => one,
        }
    }
}

/// A value that the client's training rows do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideValue {
    /// The name of its column.
    pub column: String,
    /// What is unusual, in words: "lactate 180: training rows 0.4 to 15".
    pub text: String,
    /// Whether it lies so far outside that the model has no ground to stand on.
    pub far: bool,
}

/// The ranges of a client's training rows: one for each column of the encoding.
pub(crate) fn ranges(
    encoding: &TableEncoding,
    places: &[usize],
    sheet: &Sheet,
    rows: &[u32],
) -> Vec<ColumnRange> {
    let range = |(column, &place): (&ColumnEncoding, &usize)| {
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut texts = BTreeSet::new();
        for &row in rows {
            let cell = sheet.value(row as usize, place);
            match column.read(&cell) {
                Value::Number(value) => (min, max) = (min.min(value), max.max(value)),
                Value::Text(text) if !texts.contains(text) => {
                    texts.insert(text.to_owned());
                }
                Value::Text(_) | Value::Missing | Value::Unreadable => {}
            }
        }
        match column.kind {
            ColumnKind::Category if !texts.is_empty() => ColumnRange::Categories(texts.into_iter().collect()),
            ColumnKind::Number if min <= max => ColumnRange::Numbers { min, max },
            ColumnKind::Date if min <= max => ColumnRange::Dates { min, max },
            ColumnKind::Boolean if min <= max => {
                let words = [(0.0, "false"), (1.0, "true")].into_iter();
                let there = words.filter(|&(value, _)| min <= value && value <= max);
                ColumnRange::Categories(there.map(|(_, word)| word.to_owned()).collect())
            }
            _ => ColumnRange::Nothing,
        }
    };
    encoding.columns.iter().zip(places).map(range).collect()
}

/// The same of rows of cells in the order of the encoding's columns: what a new client's own rows hold.
#[must_use]
pub fn ranges_of(encoding: &TableEncoding, rows: &[&[String]]) -> Vec<ColumnRange> {
    let mut sheet = Sheet::new(encoding.column_names());
    let width = encoding.columns.len();
    for row in rows {
        sheet.push(0, (0..width).map(|at| row.get(at).map_or("", String::as_str)));
    }
    let places: Vec<usize> = (0..width).collect();
    let all: Vec<u32> = (0..rows.len()).filter_map(|row| u32::try_from(row).ok()).collect();
    ranges(encoding, &places, &sheet, &all)
}

impl ColumnEncoding {
    /// Whether a cell has a value of the column's kind: a cell that cannot be read has none, as one that is missing.
    #[must_use]
    pub fn has_value(&self, text: &str) -> bool {
        matches!(self.read(text.trim()), Value::Number(_) | Value::Text(_))
    }

    /// Where the number or date of a cell is: below what training rows have, among it, or above. `None` of other kinds of
    /// values, of cells without one, and where training rows have none.
    #[must_use]
    pub fn side(&self, range: &ColumnRange, text: &str) -> Option<Ordering> {
        let (Value::Number(value), ColumnRange::Numbers { min, max } | ColumnRange::Dates { min, max }) =
            (self.read(text.trim()), range)
        else {
            return None;
        };
        Some(match beyond(value, *min, *max) {
            None => Ordering::Equal,
            Some(_) if value < *min => Ordering::Less,
            Some(_) => Ordering::Greater,
        })
    }
}

/// The values of a row that lie outside what a client has seen, each with a reason in words. A number beyond the
/// range of the client's training rows widened by half its width on each side is far outside; so is any other number than the
/// one that all its rows have, and a date ten years before or after all of them. Categories that it has not seen, cells that cannot be read, and numbers just outside are
/// named and not far. Missing values are nothing unusual.
#[must_use]
pub fn outside(encoding: &TableEncoding, ranges: &[ColumnRange], cells: &[String]) -> Vec<OutsideValue> {
    let mut found = Vec::new();
    for ((column, range), cell) in encoding.columns.iter().zip(ranges).zip(cells) {
        let cell = cell.trim();
        let shown = shortened(cell, LETTERS);
        let mut add = |text: String, far: bool| {
            found.push(OutsideValue { column: column.name.clone(), text, far });
        };
        let name = shortened(&column.name, LETTERS);
        match (column.read(cell), range) {
            (Value::Missing, _) => {}
            (Value::Unreadable, _) => {
                add(format!("{name} \"{shown}\": no {}, taken as missing", column.kind), false);
            }
            (_, ColumnRange::Nothing) => {
                add(format!("{name} {shown}: no training row has a value"), false);
            }
            (Value::Number(value), ColumnRange::Numbers { min, max }) => {
                if let Some(far) = beyond(value, *min, *max) {
                    let range = words(*min, *max, plain);
                    add(format!("{name} {shown}: training rows {range}"), far);
                }
            }
            (Value::Number(value), ColumnRange::Dates { min, max }) => {
                if beyond(value, *min, *max).is_some() {
                    // Rows to predict come after training as a rule: only years that cannot be are far outside.
                    let far = value < min - FAR_DAYS || value > max + FAR_DAYS;
                    let range = words(*min, *max, day_text);
                    add(format!("{name} {shown}: training rows {range}"), far);
                }
            }
            (Value::Number(value), ColumnRange::Categories(known)) => {
                let word = if value == 0.0 { "false" } else { "true" };
                if !known.iter().any(|known| known == word) {
                    add(format!("{name} {shown}: not among the training rows"), false);
                }
            }
            (Value::Text(text), ColumnRange::Categories(known)) => {
                if !known.iter().any(|known| known == text) {
                    add(format!("{name} \"{shown}\": not among the training rows"), false);
                }
            }
            (Value::Text(_), ColumnRange::Numbers { .. } | ColumnRange::Dates { .. }) => {}
        }
    }
    found
}

/// Whether a number is outside a range, and if so, whether far.
fn beyond(value: f64, min: f64, max: f64) -> Option<bool> {
    let width = (max - min).min(f64::MAX);
    if width <= 0.0 {
        let near = (value - min).abs() <= TOLERANCE * min.abs();
        return (!near).then_some(true);
    }
    if (min..=max).contains(&value) {
        return None;
    }
    let margin = MARGIN * width;
    Some(value < min - margin || value > max + margin)
}

fn words(min: f64, max: f64, text: fn(f64) -> String) -> String {
    let (first, last) = (text(min), text(max));
    if first == last { format!("all {first}") } else { format!("{first} to {last}") }
}

/// A number in at most six digits, as short as it can be.
fn plain(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if (1e-4..1e7).contains(&size) {
        let decimals = (5 - size.log10().floor() as i32).clamp(0, 9);
        let text = format!("{value:.*}", decimals as usize);
        if text.contains('.') {
            return text.trim_end_matches('0').trim_end_matches('.').to_owned();
        }
        return text;
    }
    format!("{value:.3e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases =
            [(0.4, "0.4"), (15.0, "15"), (0.1 + 0.2, "0.3"), (1234.5678, "1234.57"), (1e6, "1000000")];
        for (value, expected) in cases {
            assert_eq!(plain(value), expected);
        }
        assert_eq!(plain(1.5e12), "1.500e12");
    }

    #[test]
    fn sides_of_a_range() {
        let range = ColumnRange::Numbers { min: 1.0, max: 3.0 };
        let column = ColumnEncoding::number("x");
        let side = |text: &str| column.side(&range, text);
        assert_eq!(
            [side("0.9"), side("1"), side("3")],
            [Ordering::Less, Ordering::Equal, Ordering::Equal].map(Some)
        );
        assert_eq!(side(" 3.1 "), Some(Ordering::Greater));
        assert_eq!((side(""), side("high"), column.side(&ColumnRange::Nothing, "2")), (None, None, None));
        assert_eq!(["2", "", "NA", "high"].map(|text| column.has_value(text)), [true, false, false, false]);
    }

    #[test]
    fn half_the_width_decides() {
        // 0.4 to 15 is 14.6 wide: far below -6.9 and above 22.3.
        assert_eq!(beyond(15.0, 0.4, 15.0), None);
        assert_eq!(beyond(22.2, 0.4, 15.0), Some(false));
        assert_eq!(beyond(22.4, 0.4, 15.0), Some(true));
        assert_eq!(beyond(-7.0, 0.4, 15.0), Some(true));
        assert_eq!(beyond(3.0, 3.0, 3.0), None);
        assert_eq!(beyond(3.001, 3.0, 3.0), Some(true));
        assert_eq!(beyond(0.0, f64::MIN, f64::MAX), None);
    }
}
