//! What the text of one cell says: nothing, a number, a boolean, a date.

/// Texts that stand for a value that is not there, in lower case.
const MISSING: [&str; 8] = ["", "na", "nan", "n/a", "null", "none", "?", "-"];

/// Months in English, by their first three letters.
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Whether a cell says that there is no value: empty, NA, NaN, N/A, null, None, ? or -.
pub(crate) fn is_missing(text: &str) -> bool {
    text.len() <= 4 && MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing))
}

/// The same for a target, where None and - may be the names of classes.
pub(crate) fn is_missing_target(text: &str) -> bool {
    is_missing(text) && text != "-" && !text.eq_ignore_ascii_case("none")
}

/// A finite number.
pub(crate) fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// A number with a comma before its decimals, and perhaps points between its thousands, as it is written with a point.
pub(crate) fn with_point(text: &str) -> Option<String> {
    let (whole, decimals) = text.split_once(',')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (decimals, exponent) = decimals.split_once(['e', 'E']).unwrap_or((decimals, "0"));
    let unsigned = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    let mut groups = unsigned.split('.');
    let first = groups.next().unwrap_or_default();
    if !digits(first) || !digits(decimals) || exponent.parse::<i32>().is_err() {
        return None;
    }
    if !groups.all(|group| group.len() == 3 && digits(group)) {
        return None;
    }
    Some(text.replace('.', "").replace(',', "."))
}

/// true, yes, y or t; false, no, n or f, in any case.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if text.len() > 5 {
        None
    } else if is(["true", "yes", "y", "t"]) {
        Some(true)
    } else if is(["false", "no", "n", "f"]) {
        Some(false)
    } else {
        None
    }
}

/// Which of two numbers before a year is the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateOrder {
    /// 3/4/2024 is the third of April.
    DayFirst,
    /// 3/4/2024 is the fourth of March.
    MonthFirst,
}

/// Days since 1970-01-01, with the time of day as a fraction where there is one: 2024-03-15, 2024/03/15,
/// 2024-03-15T10:30:00Z, 15.03.2024, 15/03/2024 or 03/15/2024, 15 Mar 2024, Mar 15, 2024.
pub(crate) fn date(text: &str, order: DateOrder) -> Option<f64> {
    // Far from any date: no need to look closer at long texts.
    if !(8..=40).contains(&text.len()) || !text.is_ascii() {
        return None;
    }
    let (day, time) = match text.find(':') {
        Some(colon) => {
            let end = text[..colon].rfind(['T', 't', ' '])?;
            (text[..end].trim(), Some(&text[end + 1..]))
        }
        None => (text, None),
    };
    let mut parts = day.split(['-', '/', '.', ' ', ',']).filter(|part| !part.is_empty());
    let (a, b, c) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let number = |part: &str, longest: usize| -> Option<u32> {
        let plain = part.len() <= longest && part.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| part.parse().ok()).flatten()
    };
    let year = |part: &str| if part.len() == 4 { number(part, 4) } else { None };
    let (year, month, day) = if a.len() == 4 && month_name(a).is_none() {
        (year(a)?, month_name(b).or_else(|| number(b, 2))?, number(c, 2)?)
    } else if let Some(month) = month_name(a) {
        (year(c)?, month, number(b, 2)?)
    } else if let Some(month) = month_name(b) {
        (year(c)?, month, number(a, 2)?)
    } else if order == DateOrder::DayFirst || day.contains('.') {
        (year(c)?, number(b, 2)?, number(a, 2)?)
    } else {
        (year(c)?, number(a, 2)?, number(b, 2)?)
    };
    let days = days_since_1970(year, month, day)?;
    Some(days + time.map_or(Some(0.0), time_of_day)?)
}

fn month_name(text: &str) -> Option<u32> {
    let start = text.get(..3).filter(|_| text.len() <= 9 && text.bytes().all(|b| b.is_ascii_alphabetic()))?;
    let at = MONTHS.iter().position(|month| start.eq_ignore_ascii_case(month))?;
    u32::try_from(at + 1).ok()
}

/// The days between 1970-01-01 and a day of the Gregorian calendar.
fn days_since_1970(year: u32, month: u32, day: u32) -> Option<f64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let longest = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) || year == 0 {
        return None;
    }
    // Years that begin in March end with the leap day.
    let (shifted, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let in_year = (153 * month + 2) / 5 + day - 1;
    let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + in_year;
    Some(f64::from(days) - 719_468.0)
}

/// 10:30, 10:30:15.5, with Z or an offset such as +02:00 behind it: the fraction of a day, counted in UTC.
fn time_of_day(text: &str) -> Option<f64> {
    let text = text.trim();
    let (clock, offset) = match text.find(['Z', 'z', '+', '-']) {
        None => (text, 0.0),
        Some(at) => {
            let (clock, zone) = text.split_at(at);
            let hours = |text: &str| -> Option<f64> {
                let (hours, minutes) = match text.split_once(':') {
                    Some(parts) => parts,
                    None if text.len() == 4 => text.split_at(2),
                    None => (text, "0"),
                };
                let (hours, minutes) = (hours.parse::<u8>().ok()?, minutes.parse::<u8>().ok()?);
                (hours < 24 && minutes < 60).then(|| f64::from(hours) + f64::from(minutes) / 60.0)
            };
            let offset = match zone.split_at(1) {
                ("Z" | "z", "") => 0.0,
                ("+", rest) => hours(rest)?,
                ("-", rest) => -hours(rest)?,
                _ => return None,
            };
            (clock.trim(), offset)
        }
    };
    let mut parts = clock.split(':');
    let (hour, minute) = (parts.next()?.parse::<u8>().ok()?, parts.next()?.parse::<u8>().ok()?);
    let second = parts.next().map_or(Some(0.0), number)?;
    if parts.next().is_some() || hour > 24 || minute > 59 || !(0.0..61.0).contains(&second) {
        return None;
    }
    let hours = f64::from(hour) + f64::from(minute) / 60.0 + second / 3600.0 - offset;
    Some(hours / 24.0)
}

/// Seconds of a day as 10:30:15.
pub(crate) fn clock_text(seconds: f64) -> String {
    let whole = seconds.clamp(0.0, 86_399.0) as u32;
    format!("{:02}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

/// A day as 2024-03-15; what lies beyond the calendar's four-digit years as a number of days.
pub(crate) fn day_text(days: f64) -> String {
    let whole = days.floor();
    if !(-719_162.0..=2_932_896.0).contains(&whole) {
        return format!("{days} days");
    }
    let shifted = whole as i64 + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_in_common_forms_are_days() {
        // 2024-03-15 is day 19797 after 1970-01-01 (19723 days up to 2024-01-01, then 31 + 29 + 14).
        for text in [
            "2024-03-15",
            "2024/03/15",
            "2024.3.15",
            "15.03.2024",
            "15 Mar 2024",
            "15-March-2024",
            "Mar 15, 2024",
            "15/03/2024",
        ] {
            assert_eq!(date(text, DateOrder::DayFirst), Some(19_797.0), "{text}");
        }
        assert_eq!(date("03/15/2024", DateOrder::MonthFirst), Some(19_797.0));
        assert_eq!(date("03/15/2024", DateOrder::DayFirst), None);
        assert_eq!(date("1970-01-01", DateOrder::DayFirst), Some(0.0));
        assert_eq!(date("1969-12-31", DateOrder::DayFirst), Some(-1.0));
        assert_eq!(date("2024-02-29", DateOrder::DayFirst), Some(19_782.0));
    }

    #[test]
    fn times_of_day_are_fractions() {
        for (text, expected) in [
            ("2024-03-15T12:00", 19_797.5),
            ("2024-03-15 12:00:00", 19_797.5),
            ("2024-03-15T12:00:00Z", 19_797.5),
            ("2024-03-15T12:00:00+06:00", 19_797.25),
            ("2024-03-15 00:00:00.000-0600", 19_797.25),
        ] {
            assert_eq!(date(text, DateOrder::DayFirst), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "12",
            "2024",
            "2023-02-29",
            "2024-13-01",
            "2024-00-10",
            "32.01.2024",
            "1.2.3.4",
            "2024-03-15T25",
            "2024-03-15 25:00",
            "20240315",
            "15/03/24",
            "Mar 2024",
            "ab-cd-efgh",
            "0000-01-01",
            "1-2-345678",
            "2024-03-15T10:30:00+99:00",
            "é024-03-15",
        ] {
            assert_eq!(date(text, DateOrder::DayFirst), None, "{text}");
        }
    }

    #[test]
    fn days_are_written_as_they_are_read() {
        for day in [-719_162.0, -1.0, 0.0, 58.0, 59.0, 60.0, 19_782.0, 19_783.0, 2_932_896.0] {
            assert_eq!(date(&day_text(day), DateOrder::DayFirst), Some(day), "{}", day_text(day));
        }
        assert_eq!(day_text(19_797.5), "2024-03-15");
    }

    #[test]
    fn commas_before_decimals() {
        for (text, expected) in
            [("12,5", "12.5"), ("-0,25", "-0.25"), ("1.234,5", "1234.5"), ("1,5e-3", "1.5e-3")]
        {
            assert_eq!(with_point(text).as_deref(), Some(expected));
        }
        for text in ["12", "12.5", "a,b", "1,2,3", ",5", "5,", "1.23,4", "12,5 mg"] {
            assert_eq!(with_point(text), None, "{text}");
        }
    }

    #[test]
    fn missing_values_and_booleans() {
        assert!(["", "NA", "nan", "N/A", "NULL", "None", "?", "-"].iter().all(|text| is_missing(text)));
        assert!(!["0", "no", "--", "nada"].iter().any(|text| is_missing(text)));
        assert!(is_missing_target("NA") && !is_missing_target("None") && !is_missing_target("-"));
        assert_eq!(["Yes", "FALSE", "t", "0"].map(boolean), [Some(true), Some(false), Some(true), None]);
        assert_eq!(["1e3", "inf", "NaN", "x"].map(number), [Some(1000.0), None, None, None]);
    }
}
