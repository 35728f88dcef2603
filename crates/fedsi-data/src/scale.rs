//! Units of inputs and targets.

/// How columns were brought to mean 0 and standard deviation 1: `stored = (value - mean) / std`.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Scaling {
    /// The mean of each column over all training rows.
    pub mean: Vec<f64>,
    /// The standard deviation of each column over all training rows; 1 for a constant column.
    pub std: Vec<f64>,
}

impl Scaling {
    /// A stored value of `column` in the data's own unit.
    #[must_use]
    pub fn restore(&self, column: usize, stored: f64) -> f64 {
        stored * self.std[column] + self.mean[column]
    }

    /// A variance in stored units, in the square of the data's own unit.
    #[must_use]
    pub fn restore_variance(&self, column: usize, stored: f64) -> f64 {
        stored * self.std[column] * self.std[column]
    }
}

/// A byte of an image, scaled to [-1, 1].
pub(crate) fn byte_to_unit(byte: u8) -> f32 {
    f32::from(byte) / 127.5 - 1.0
}

/// The same of a shade that may lie between two bytes.
pub(crate) fn shade_to_unit(shade: f64) -> f32 {
    shade as f32 / 127.5 - 1.0
}

/// Which numbers a file may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// Those that are finite as `f32`.
    Single,
    /// Those that are finite as `f64`, because they are standardised before they become `f32`.
    Double,
}

impl Range {
    pub(crate) const fn of_files(standardized: bool) -> Self {
        if standardized { Self::Double } else { Self::Single }
    }

    pub(crate) const fn holds(self, value: f64) -> bool {
        match self {
            Self::Single => (value as f32).is_finite(),
            Self::Double => value.is_finite(),
        }
    }

    /// What a message says was expected.
    pub(crate) const fn expected(self) -> &'static str {
        match self {
            Self::Single => "a finite number within the range of 32-bit floats",
            Self::Double => "a finite number",
        }
    }
}

/// Mean and standard deviation of each column over the given rows.
///
/// Everything is counted from the first of these rows, so that a column such as a time in seconds since 1970 keeps its
/// digits, and one that is constant has exactly this constant as its mean.
pub(crate) fn statistics(values: &[f64], width: usize, rows: &[u32]) -> Scaling {
    let Some(&first) = rows.first() else { return Scaling { mean: vec![0.0; width], std: vec![1.0; width] } };
    let count = rows.len() as f64;
    let row = |at: u32| &values[at as usize * width..(at as usize + 1) * width];
    let mut mean = vec![0.0; width];
    for &at in rows {
        for ((sum, value), origin) in mean.iter_mut().zip(row(at)).zip(row(first)) {
            *sum += difference(*value, *origin) / count;
        }
    }
    for (mean, origin) in mean.iter_mut().zip(row(first)) {
        *mean += origin;
    }
    // In units of the largest deviation, because the square of a huge one would be infinite.
    let mut largest = vec![0.0_f64; width];
    for &at in rows {
        for ((largest, value), mean) in largest.iter_mut().zip(row(at)).zip(&mean) {
            *largest = largest.max(difference(*value, *mean).abs());
        }
    }
    let mut variance = vec![0.0; width];
    for &at in rows {
        for (((sum, value), mean), largest) in variance.iter_mut().zip(row(at)).zip(&mean).zip(&largest) {
            let deviation = difference(*value, *mean) / largest.max(f64::MIN_POSITIVE);
            *sum += deviation * deviation / count;
        }
    }
    let std = variance.iter().zip(&mean).zip(&largest).map(|((variance, mean), &largest)| {
        // What differs in the last bits alone is constant: it becomes 0, or nearly so.
        let constant = largest <= 4.0 * f64::EPSILON * mean.abs() || largest < f64::MIN_POSITIVE;
        if constant { largest.max(1.0) } else { variance.sqrt() * largest }
    });
    Scaling { std: std.collect(), mean }
}

/// Mean and standard deviation of the numbers of one column; 0 where all are the same.
pub(crate) fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let rows: Vec<u32> = (0..values.len() as u32).collect();
    let Scaling { mean, std } = statistics(values, 1, &rows);
    let (mean, std) = (mean.first().copied().unwrap_or(0.0), std.first().copied().unwrap_or(0.0));
    let largest = values.iter().map(|&value| difference(value, mean).abs()).fold(0.0, f64::max);
    // What is constant has a standard deviation of 1 there; the largest deviation is never below the true one.
    (mean, std.min(largest))
}

/// A difference of finite numbers, finite.
pub(crate) fn difference(value: f64, origin: f64) -> f64 {
    (value - origin).clamp(f64::MIN, f64::MAX)
}

/// Rows as `f32`: standardised with given statistics and kept finite, or as they are.
pub(crate) fn to_singles(scaling: Option<&Scaling>, values: &[f64]) -> Vec<f32> {
    let Some(scaling) = scaling else { return values.iter().map(|&value| value as f32).collect() };
    let columns = scaling.mean.iter().zip(&scaling.std).cycle();
    let scaled = values.iter().zip(columns).map(|(&value, (&mean, &std))| {
        let scaled = difference(value, mean) / std;
        scaled.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
    });
    scaled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standardized(values: &[f64], width: usize, rows: &[u32]) -> (Vec<f32>, Scaling) {
        let scaling = statistics(values, width, rows);
        (to_singles(Some(&scaling), values), scaling)
    }

    #[test]
    fn bytes_span_the_unit_interval() {
        assert_eq!((byte_to_unit(0), byte_to_unit(255)), (-1.0, 1.0));
    }

    #[test]
    fn statistics_come_from_the_given_rows_alone() {
        let (values, scaling) = standardized(&[1.0, 5.0, 3.0, 5.0, 100.0, 5.0], 2, &[0, 1]);
        assert_eq!(scaling, Scaling { mean: vec![2.0, 5.0], std: vec![1.0, 1.0] });
        assert_eq!(values, [-1.0, 0.0, 1.0, 0.0, 98.0, 0.0]);
        assert_eq!(scaling.restore(0, 98.0), 100.0);
    }

    #[test]
    fn a_large_offset_costs_no_digits() {
        for offset in [1.7e9, -1.7e12, 1.7e15] {
            let times: Vec<f64> = (0..60).map(|second| offset + f64::from(second)).collect();
            let rows: Vec<u32> = (0..60).collect();
            let (values, scaling) = standardized(&times, 1, &rows);
            let std = (f64::from(60 * 60 - 1) / 12.0).sqrt();
            assert!((scaling.std[0] / std - 1.0).abs() < 1e-6, "{offset}: {}", scaling.std[0]);
            for pair in values.windows(2) {
                assert!((f64::from(pair[1] - pair[0]) * std - 1.0).abs() < 1e-5, "{offset}: {pair:?}");
            }
        }
    }

    #[test]
    fn a_constant_column_becomes_zero() {
        for constant in [0.0, 0.1, 1.7e9, -1e300, 1e-320] {
            let (values, scaling) = standardized(&[constant; 7], 1, &[0, 1, 2, 3, 4, 5, 6]);
            assert_eq!(scaling, Scaling { mean: vec![constant], std: vec![1.0] });
            assert_eq!(values, [0.0; 7]);
        }
        let (values, _) = standardized(&[0.1 + 0.2, 0.3, 0.3], 1, &[0, 1, 2]);
        assert!(values.iter().all(|value| value.abs() < 1e-15), "differences of the last bit: {values:?}");
    }

    #[test]
    fn huge_values_stay_finite() {
        let (values, _) = standardized(&[1e300, -1e300, 0.0], 1, &[0, 1, 2]);
        for (value, expected) in values.iter().zip([1.5_f32.sqrt(), -1.5_f32.sqrt(), 0.0]) {
            assert!((value - expected).abs() < 1e-6, "{values:?}");
        }
        let (values, scaling) = standardized(&[f64::MAX, f64::MIN, 0.0], 1, &[0, 1, 2]);
        assert!(values.iter().all(|value| value.is_finite()), "{values:?}");
        assert!(scaling.mean[0].is_finite() && scaling.std[0].is_finite(), "{scaling:?}");
        let (values, _) = standardized(&[1.0, 2.0, 1e300, -1e300], 1, &[0, 1]);
        assert_eq!(values[2..], [f32::MAX, f32::MIN]);
    }
}
