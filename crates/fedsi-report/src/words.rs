//! Shares, points and intervals in words.

/// A share as a percentage with one digit.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// `73.1 to 82.4%`.
pub(crate) fn percent_range([low, high]: [f64; 2]) -> String {
    format!("{:.1} to {:.1}%", 100.0 * low, 100.0 * high)
}

/// A difference of shares in percentage points, with its sign; no sign before a zero.
pub(crate) fn points(difference: f64) -> String {
    let value = 100.0 * difference;
    if value.abs() < 0.05 { "0.0".to_owned() } else { format!("{value:+.1}") }
}

/// `-1.2 to +3.4`.
pub(crate) fn points_range([low, high]: [f64; 2]) -> String {
    format!("{} to {}", points(low), points(high))
}

/// Two numbers with the digits that the wider of them needs.
pub(crate) fn number_range([low, high]: [f64; 2], digits: usize) -> String {
    format!("{low:.digits$} to {high:.digits$}")
}

/// Digits behind the point that show three places of an error: in the data's unit, which may be any.
pub(crate) fn digits_for(value: f64) -> usize {
    let size = value.abs();
    if !size.is_finite() || size == 0.0 {
        return 3;
    }
    // `as` saturates.
    let places = 2 - size.log10().floor() as i32;
    usize::try_from(places).unwrap_or(0).min(8)
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_points_read_well() {
        assert_eq!(
            (percent(0.7791), percent_range([0.731, 0.8239])),
            ("77.9%".to_owned(), "73.1 to 82.4%".to_owned())
        );
        assert_eq!([points(0.021), points(-0.0042), points(0.0001)], ["+2.1", "-0.4", "0.0"]);
        assert_eq!(points_range([-0.012, 0.034]), "-1.2 to +3.4");
    }

    #[test]
    fn errors_keep_three_places_in_any_unit() {
        assert_eq!([0.0123, 1.23, 12.3, 1234.0].map(digits_for), [4, 2, 1, 0]);
        assert_eq!([0.0, f64::NAN, 1e-30].map(digits_for), [3, 3, 8]);
        assert_eq!(number_range([1.0, 2.5], 2), "1.00 to 2.50");
    }

    #[test]
    fn lists_read_well() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!([list(&names[..1]), list(&names[..2]), list(&names)], ["a", "a and b", "a, b and c"]);
    }
}
