//! A few numbers summarised in one line: over clients, over seeds.

/// Mean, spread and order statistics of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many values.
    pub count: usize,
    /// `sum x / n`.
    pub mean: f64,
    /// The sample standard deviation `sqrt(sum (x - mean)^2 / (n - 1))`; one value has none.
    pub std_dev: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of any number of values; `None` of none. A NaN among them makes `mean` and `std_dev` NaN.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        let count = values.len();
        if count == 0 {
            return None;
        }
        // Two passes: the second sees small numbers, so nothing cancels. Sorted first, so that the order in
        // which clients came does not show in the last bit.
        values.sort_unstable_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
        Some(Self {
            count,
            mean,
            std_dev: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
            min: values[0],
            median: sorted_quantile(&values, 0.5),
            max: values[count - 1],
        })
    }
}

/// The `q`-quantile of `values` (any order), interpolated linearly between neighbours (as
/// `numpy.quantile` does).
///
/// `q` is held to [0, 1]. `None` of no values, or where `q` is NaN. O(n log n).
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    if values.is_empty() || q.is_nan() {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted_quantile(&sorted, q.clamp(0.0, 1.0)))
}

/// The mean of the lowest tenth of `values` (any order), at least one of them, and how many those are: what the clients
/// with the lowest accuracy get. Those without a number do not count; `None` where there are none. O(n log n).
pub fn worst_tenth(values: impl IntoIterator<Item = f64>) -> Option<(f64, usize)> {
    let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = sorted.len().div_ceil(10);
    (count > 0).then(|| (sorted[..count].iter().sum::<f64>() / count as f64, count))
}

/// `sorted` is not empty and `q` lies in [0, 1].
fn sorted_quantile(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    below + (above - below) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_by_hand() {
        // Mean 20/4 = 5; squares 9 + 1 + 1 + 9 = 20, over 3; sorted 2 4 6 8, median 5.
        let s = Summary::of([8.0, 2.0, 6.0, 4.0]).unwrap();
        assert_eq!((s.count, s.mean, s.min, s.median, s.max), (4, 5.0, 2.0, 5.0, 8.0));
        assert_eq!(s.std_dev, Some((20.0_f64 / 3.0).sqrt()));
    }

    #[test]
    fn one_value_has_no_spread_and_none_has_no_summary() {
        let s = Summary::of([0.3]).unwrap();
        assert_eq!((s.mean, s.std_dev, s.min, s.median, s.max), (0.3, None, 0.3, 0.3, 0.3));
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn a_large_offset_costs_no_digits() {
        let s = Summary::of([1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]).unwrap();
        // Deviations -6, -3, 3, 6: 90 over 3.
        assert_eq!(s.std_dev, Some(30.0_f64.sqrt()));
    }

    #[test]
    fn quantiles_between_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        // Position 0.25 * 3 = 0.75: three quarters of the way from 1 to 2.
        assert_eq!(quantile(&values, 0.25), Some(1.75));
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(quantile(&values, 7.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&values, f64::NAN), None);
    }

    #[test]
    fn the_worst_tenth() {
        assert_eq!(worst_tenth([0.9, 0.4, 0.8]), Some((0.4, 1)));
        // Eleven values: two of them.
        let values = (0..11).map(|value| f64::from(value) / 10.0).rev();
        assert_eq!(worst_tenth(values), Some((0.05, 2)));
        assert_eq!(worst_tenth([f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn order_and_shift_do_not_matter(mut values in prop::collection::vec(-10.0..10.0_f64, 2..30)) {
            let before = Summary::of(values.iter().copied()).unwrap();
            values.reverse();
            prop_assert_eq!(Summary::of(values.iter().copied()).unwrap(), before);
            let shifted = Summary::of(values.iter().map(|x| 3.0 * x + 5.0)).unwrap();
            prop_assert!((shifted.mean - (3.0 * before.mean + 5.0)).abs() < 1e-12);
            prop_assert!((shifted.std_dev.unwrap() - 3.0 * before.std_dev.unwrap()).abs() < 1e-12);
            prop_assert!(before.min <= before.median && before.median <= before.max);
            prop_assert!(before.min <= before.mean + 1e-12 && before.mean <= before.max + 1e-12);
        }
    }
}
