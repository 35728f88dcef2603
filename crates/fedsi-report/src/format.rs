//! Numbers as people read them.

/// A number with a comma every three digits.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 && digit.is_ascii_digit() {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the largest unit that leaves a number above 1.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut unit = "B";
    for larger in ["kB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") }
}

/// `one thing` or `N things`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{} {thing}s", grouped(count as f64)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [1.0, 999.0, 1000.0, 78_500.0, 1_234_567.0].map(grouped),
            ["1", "999", "1,000", "78,500", "1,234,567"]
        );
        assert_eq!([0, 999, 1000, 12_345_678].map(bytes), ["0 B", "999 B", "1.0 kB", "12.3 MB"]);
        assert_eq!([counted(1, "client"), counted(1000, "client")], ["1 client", "1,000 clients"]);
    }
}
