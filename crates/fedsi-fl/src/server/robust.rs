//! Averages that a few wrong updates cannot move far: the median and the trimmed mean of each parameter, and updates
//! shortened to a norm.
//!
//! With m updates of which b are arbitrary, the median stays within the range of the honest ones while b < m/2, the
//! trimmed mean while b is at most the number cut at each end. Shortening bounds what each update can add.

use std::borrow::Cow;

use fedsi_nn::vectorised;

/// How the values that participants have for a parameter become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RobustEstimator {
    /// The (weighted) mean.
    Mean,
    /// The middle value, or the mean of the two in the middle.
    Median,
    /// The mean of what is left when this share is cut at each end, rounded up to whole updates. At least one is left of
    /// an odd number, two of an even one.
    TrimmedMean(f64),
}

impl RobustEstimator {
    /// How many of `count` sorted values do not count at each end.
    fn cut(self, count: usize) -> usize {
        let most = count.saturating_sub(1) / 2;
        match self {
            Self::Mean => 0,
            Self::Median => most,
            // 0.1 of 30 is 3, whatever the last bit says.
            Self::TrimmedMean(share) => ((share * count as f64 - 1e-9).ceil().max(0.0) as usize).min(most),
        }
    }

    /// Of these values, which it sorts. All alike: that value, to the bit.
    fn of(self, values: &mut [f32]) -> f64 {
        values.sort_unstable_by(f32::total_cmp);
        let cut = self.cut(values.len());
        let kept = &values[cut..values.len() - cut];
        let sum: f64 = kept.iter().map(|&value| f64::from(value)).sum();
        sum / kept.len() as f64
    }

    /// Parameter by parameter over the rows, one a participant. A NaN is no value; where a parameter has none, neither
    /// has the result. Does not depend on the order of the rows.
    ///
    /// Cost: a sort of each column, gathered block by block.
    pub(crate) fn of_columns<R: AsRef<[f32]>>(self, rows: &[R], size: usize) -> Vec<f64> {
        let mut estimates = Vec::with_capacity(size);
        let mut block = vec![f32::NAN; BLOCK * rows.len()];
        for start in (0..size).step_by(BLOCK) {
            let width = BLOCK.min(size - start);
            // Read along the rows, written as columns: both stay in the nearest caches.
            for (at, row) in rows.iter().enumerate() {
                for (column, &value) in row.as_ref()[start..start + width].iter().enumerate() {
                    block[column * rows.len() + at] = value;
                }
            }
            for column in block.chunks_mut(rows.len()).take(width) {
                let known = gather(column);
                estimates.push(if known == 0 { f64::NAN } else { self.of(&mut column[..known]) });
            }
        }
        estimates
    }
}

/// Columns gathered at a time.
const BLOCK: usize = 512;

/// Moves what is a number to the front, and says how many there are.
fn gather(column: &mut [f32]) -> usize {
    let mut known = 0;
    for at in 0..column.len() {
        if !column[at].is_nan() {
            column.swap(known, at);
            known += 1;
        }
    }
    known
}

/// The norm of the difference, in f64.
pub(crate) fn distance(values: &[f32], from: &[f32]) -> f64 {
    let square = |(&a, &b): (&f32, &f32)| (f64::from(a) - f64::from(b)).powi(2);
    values.iter().zip(from).map(square).sum::<f64>().sqrt()
}

/// The norm, in f64.
pub(crate) fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt()
}

/// Strands of a sum that run side by side in vector registers.
const STRANDS: usize = 16;

/// The same up to rounding, summed in strands: an order that is fixed too, and many times faster. Where norms are only
/// compared, not multiplied with.
pub(crate) fn quick_distance(values: &[f32], from: &[f32]) -> f64 {
    let square = |a: f32, b: f32| (f64::from(a) - f64::from(b)).powi(2);
    vectorised(
        #[inline(always)]
        || {
            let mut strands = [0.0_f64; STRANDS];
            let (values, rest) = values.as_chunks::<STRANDS>();
            let (from, rest_from) = from.as_chunks::<STRANDS>();
            for (values, from) in values.iter().zip(from) {
                for ((strand, &a), &b) in strands.iter_mut().zip(values).zip(from) {
                    *strand += square(a, b);
                }
            }
            let rest = rest.iter().zip(rest_from).map(|(&a, &b)| square(a, b));
            (strands.iter().sum::<f64>() + rest.sum::<f64>()).sqrt()
        },
    )
}

/// The values, moved towards `from` until they are at most `clip` away; 0: as they are. What is near enough is untouched
/// to the bit.
pub(crate) fn clipped<'a>(values: &'a [f32], from: &[f32], clip: f64) -> Cow<'a, [f32]> {
    if clip == 0.0 {
        return Cow::Borrowed(values);
    }
    let norm = distance(values, from);
    if norm <= clip {
        return Cow::Borrowed(values);
    }
    let scale = clip / norm;
    let nearer = |(&value, &from): (&f32, &f32)| {
        let from = f64::from(from);
        (from + scale * (f64::from(value) - from)) as f32
    };
    Cow::Owned(values.iter().zip(from).map(nearer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: [RobustEstimator; 4] = [
        RobustEstimator::Median,
        RobustEstimator::TrimmedMean(0.0),
        RobustEstimator::TrimmedMean(0.1),
        RobustEstimator::TrimmedMean(0.34),
    ];

    fn of(rule: RobustEstimator, rows: &[Vec<f32>]) -> Vec<f64> {
        rule.of_columns(rows, rows[0].len())
    }

    #[test]
    fn medians_and_trimmed_means_are_what_they_are_called() {
        let rows = [vec![1.0, 9.0], vec![3.0, 1.0], vec![2.0, f32::NAN], vec![50.0, f32::NAN]];
        assert_eq!(of(RobustEstimator::Median, &rows), [2.5, 5.0]);
        assert_eq!(
            of(RobustEstimator::TrimmedMean(0.1), &rows),
            [2.5, 5.0],
            "one cut at each end; of two none"
        );
        assert_eq!(of(RobustEstimator::TrimmedMean(0.0), &rows), [14.0, 5.0]);
        assert!(
            of(RobustEstimator::Median, &[vec![f32::NAN], vec![f32::NAN]])[0].is_nan(),
            "nobody has a value"
        );
        let cut = |share, count| RobustEstimator::TrimmedMean(share).cut(count);
        assert_eq!(
            [(0.1, 10), (0.1, 30), (0.1, 11), (0.49, 3), (0.49, 4)].map(|(s, c)| cut(s, c)),
            [1, 3, 2, 1, 1]
        );
    }

    #[test]
    fn clipping_shortens_and_keeps_the_direction() {
        let found = clipped(&[3.0, 5.0], &[0.0, 1.0], 2.5);
        assert_eq!(&*found, [1.5, 3.0]);
        assert!((distance(&found, &[0.0, 1.0]) - 2.5).abs() < 1e-6);
    }

    /// Longer than a block, so that blocks are put together rightly.
    #[test]
    fn every_parameter_is_its_own_column() {
        let row = |shift: usize| (0..2 * BLOCK + 7).map(|i| (i + shift) as f32).collect::<Vec<_>>();
        let centre = of(RobustEstimator::Median, &[row(0), row(4), row(1)]);
        assert!(centre.iter().enumerate().all(|(i, &x)| x == (i + 1) as f64));
    }

    fn rows(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Vec<f32>>> {
        proptest::collection::vec(proptest::collection::vec(-100.0_f32..100.0, 5), count)
    }

    #[test]
    fn the_quick_distance_is_the_distance() {
        let row = |seed: usize| -> Vec<f32> {
            (0..1000 + seed).map(|index| ((index * 31 + seed * 17) % 97) as f32 * 0.37).collect()
        };
        for (one, other) in [(row(3), row(3)), (row(0), row(5)), (row(1), row(16)), (vec![], vec![])] {
            let other = &other[..one.len()];
            let (exact, quick) = (distance(&one, other), quick_distance(&one, other));
            assert!((exact - quick).abs() <= 1e-12 * exact, "{exact} {quick}");
        }
    }

    proptest! {
        #[test]
        fn the_order_of_clients_does_not_matter(all in rows(1..9)) {
            let reversed: Vec<Vec<f32>> = all.iter().rev().cloned().collect();
            for rule in RULES {
                prop_assert_eq!(of(rule, &all), of(rule, &reversed));
            }
        }

        #[test]
        fn equal_updates_average_to_themselves(row in proptest::collection::vec(-100.0_f32..100.0, 5), count in 1_usize..9) {
            for rule in RULES {
                let centre = of(rule, &vec![row.clone(); count]);
                prop_assert!(centre.iter().zip(&row).all(|(a, b)| *a as f32 == *b));
            }
        }

        /// One lie of any size among at least three leaves the result within what the honest ones say.
        #[test]
        fn one_outlier_moves_nothing_beyond_the_honest_range(honest in rows(2..9), lie in any::<f32>(), at in 0_usize..9) {
            prop_assume!(!lie.is_nan());
            let mut all = honest.clone();
            all.insert(at.min(honest.len()), vec![lie; 5]);
            for rule in [RobustEstimator::Median, RobustEstimator::TrimmedMean(0.1), RobustEstimator::TrimmedMean(0.34)] {
                for (column, centre) in of(rule, &all).into_iter().enumerate() {
                    let values = honest.iter().map(|row| f64::from(row[column]));
                    let (low, high) = values.fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
                    prop_assert!(centre >= low - 1e-9 && centre <= high + 1e-9, "{:?}: {}", rule, centre);
                }
            }
        }

        #[test]
        fn nothing_trimmed_is_the_mean(all in rows(1..9)) {
            for (column, centre) in of(RobustEstimator::TrimmedMean(0.0), &all).into_iter().enumerate() {
                let mean = all.iter().map(|row| f64::from(row[column])).sum::<f64>() / all.len() as f64;
                prop_assert!((centre - mean).abs() < 1e-9);
            }
        }

        #[test]
        fn small_updates_are_not_touched_and_large_ones_end_at_the_norm(
            row in proptest::collection::vec(-10.0_f32..10.0, 5), from in proptest::collection::vec(-10.0_f32..10.0, 5),
            clip in 0.1_f64..100.0,
        ) {
            let found = clipped(&row, &from, clip);
            if distance(&row, &from) <= clip {
                prop_assert_eq!(&*found, &row[..]);
            } else {
                prop_assert!((distance(&found, &from) / clip - 1.0).abs() < 1e-3);
            }
            prop_assert_eq!(&*clipped(&row, &from, 0.0), &row[..], "0 is no bound");
        }
    }
}
