//! Text in CSV files that a spreadsheet may open.

use std::borrow::Cow;

use crate::table::{is_missing, number, with_point};

/// A text as a cell of a CSV file: one that a spreadsheet would take for a formula begins with an apostrophe, as OWASP
/// advises. Numbers, also with a decimal comma, and marks of missing values stay as they are. Every text that comes from data, files or names passes through here; quoting is for the
/// CSV writer.
#[must_use]
pub fn csv_text(text: &str) -> Cow<'_, str> {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    let is_number = || number(text).is_some() || with_point(text).is_some_and(|text| number(&text).is_some());
    if is_formula && !is_missing(text) && !is_number() {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_a_formula_is_text_and_numbers_stay() {
        for text in [
            "=1+1",
            "+cmd|' /C calc'!A0",
            "-x",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "--",
            "-inf",
            "＝1",
            "-1e999",
            "-1,5e999",
            "-1,5+A1",
            "-1,A1",
            "+1,2,3",
        ] {
            assert_eq!(csv_text(text), format!("'{text}"));
        }
        for text in ["", "a", "a=b", "-", "-1", "-1,5", "+1.234,5", "+2.5e-3", "'=1", " =1", "0", "λ"] {
            assert_eq!(csv_text(text), text);
        }
    }
}
