//! Units of inputs and targets.

use crate::federation::Scaling;

/// A byte of an image, scaled to [-1, 1].
pub(crate) fn byte_to_unit(byte: u8) -> f32 {
    f32::from(byte) / 127.5 - 1.0
}

/// Brings each column to mean 0 and standard deviation 1 over the given rows; all rows are changed.
pub(crate) fn standardize(values: &mut [f32], width: usize, rows: &[u32]) -> Scaling {
    let count = rows.len().max(1) as f64;
    let row = |values: &[f32], at: u32| -> Vec<f64> {
        values[at as usize * width..(at as usize + 1) * width].iter().map(|&value| f64::from(value)).collect()
    };
    let mut mean = vec![0.0; width];
    for &at in rows {
        for (sum, value) in mean.iter_mut().zip(row(values, at)) {
            *sum += value / count;
        }
    }
    // A second pass instead of sums of squares: a column such as a year keeps its digits.
    let mut variance = vec![0.0; width];
    for &at in rows {
        for ((sum, value), mean) in variance.iter_mut().zip(row(values, at)).zip(&mean) {
            *sum += (value - mean) * (value - mean) / count;
        }
    }
    // A constant column becomes 0, and stays 0 in sight of rounding.
    let constant = |variance: f64, mean: f64| variance.sqrt() <= 1e-7 * mean.abs().max(f64::MIN_POSITIVE);
    let std: Vec<f64> = variance
        .iter()
        .zip(&mean)
        .map(|(&variance, &mean)| if constant(variance, mean) { 1.0 } else { variance.sqrt() })
        .collect();
    let scaling = Scaling { mean, std };
    apply(&scaling, values);
    scaling
}

/// Standardises rows with given statistics.
pub(crate) fn apply(scaling: &Scaling, values: &mut [f32]) {
    for row in values.chunks_exact_mut(scaling.mean.len().max(1)) {
        for (value, (mean, std)) in row.iter_mut().zip(scaling.mean.iter().zip(&scaling.std)) {
            let scaled = (f64::from(*value) - mean) / std;
            *value = scaled.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_span_the_unit_interval() {
        assert_eq!((byte_to_unit(0), byte_to_unit(255)), (-1.0, 1.0));
    }

    #[test]
    fn statistics_come_from_the_given_rows_alone() {
        let mut values = vec![1.0, 5.0, 3.0, 5.0, 100.0, 5.0];
        let scaling = standardize(&mut values, 2, &[0, 1]);
        assert_eq!(scaling, Scaling { mean: vec![2.0, 5.0], std: vec![1.0, 1.0] });
        assert_eq!(values, [-1.0, 0.0, 1.0, 0.0, 98.0, 0.0]);
        assert_eq!(scaling.restore(0, 98.0), 100.0);
    }

    #[test]
    fn huge_values_stay_finite() {
        let mut values = vec![f32::MAX, -f32::MAX, 0.0];
        standardize(&mut values, 1, &[0, 1, 2]);
        assert!(values.iter().all(|value| value.is_finite()));
    }
}
