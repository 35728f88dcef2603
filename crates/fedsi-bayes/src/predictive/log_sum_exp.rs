//! Sums of exponentials without overflow.

/// The largest value m, and `ln sum exp(x - m)`: their sum is `ln sum exp(x)`. Terms of minus infinity add nothing.
pub(super) fn log_sum_exp(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let top = values.clone().fold(f64::NEG_INFINITY, f64::max);
    (top, values.map(|value| (value - top).exp()).sum::<f64>().ln())
}
