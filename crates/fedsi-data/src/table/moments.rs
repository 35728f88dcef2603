//! Count, mean, standard deviation and median of the numbers of one column, of one site and of several.

use serde::{Deserialize, Serialize};

use crate::scale;

/// What a site says of the numbers in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// How many there are.
    pub count: u64,
    /// Their mean; 0 where there are none.
    pub mean: f64,
    /// Their standard deviation, of all of them: divided by their number.
    pub std: f64,
    /// Their median: of an even number the lower of the two in the middle.
    pub median: f64,
}

impl Moments {
    /// Of these numbers, which are sorted by it. Costs sorting them.
    #[must_use]
    pub fn of(values: &mut [f64]) -> Self {
        let Some(last) = values.len().checked_sub(1) else { return Self::default() };
        let (mean, std) = scale::mean_and_deviation(values);
        values.sort_by(f64::total_cmp);
        Self { count: values.len() as u64, mean, std, median: values[last / 2] }
    }

    /// Whether these can be of so many numbers.
    pub(super) fn is_possible(&self, most: u64) -> bool {
        let finite = [self.mean, self.std, self.median].iter().all(|number| number.is_finite());
        finite && self.std >= 0.0 && self.count <= most
    }
}

/// The moments of several sites.
#[derive(Clone, Debug, Default)]
pub(super) struct MergedMoments {
    sites: Vec<Moments>,
}

impl MergedMoments {
    pub(super) fn add(&mut self, moments: Moments) {
        if moments.count > 0 {
            self.sites.push(moments);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.sites.iter().fold(0, |sum, site| sum.saturating_add(site.count))
    }

    /// Mean and standard deviation of the numbers of all sites together: what their own rows would give, but for
    /// rounding. The standard deviation of constants is 1, so that they become 0.
    pub(super) fn mean_and_std(&self) -> (f64, f64) {
        let (Some(first), count) = (self.sites.first(), self.count() as f64) else { return (0.0, 1.0) };
        // From the first site's mean, as a time in seconds since 1970 must keep its digits.
        let shift = |site: &Moments| scale::difference(site.mean, first.mean) * (site.count as f64 / count);
        let mean = first.mean + self.sites.iter().map(shift).sum::<f64>().clamp(f64::MIN, f64::MAX);
        let mean = mean.clamp(f64::MIN, f64::MAX);
        // In units of the largest deviation, because the square of a huge one would be infinite.
        let apart = |site: &Moments| scale::difference(site.mean, mean).abs();
        let largest = self.sites.iter().map(|site| apart(site).max(site.std)).fold(0.0, f64::max);
        if largest <= 4.0 * f64::EPSILON * mean.abs() || largest < f64::MIN_POSITIVE {
            return (mean, largest.max(1.0));
        }
        let part = |site: &Moments| {
            let (within, between) = (site.std / largest, apart(site) / largest);
            (within * within + between * between) * (site.count as f64 / count)
        };
        let variance: f64 = self.sites.iter().map(part).sum();
        (mean, (variance.sqrt() * largest).clamp(f64::MIN_POSITIVE, f64::MAX))
    }

    /// The weighted median of the sites' medians: the smallest one below or at which half of all numbers are counted. It
    /// is the median of all numbers where sites are alike, and always one of theirs.
    pub(super) fn median(&self) -> f64 {
        let mut sorted: Vec<(f64, u64)> = self.sites.iter().map(|site| (site.median, site.count)).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = self.count().div_ceil(2);
        let mut below = 0_u64;
        for (median, count) in sorted {
            below = below.saturating_add(count);
            if below >= half {
                return median;
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_by_hand() {
        let found = Moments::of(&mut [4.0, 1.0, 3.0, 8.0]);
        // Deviations from 4: 0, 3, 1, 4, squares 0 + 9 + 1 + 16 = 26.
        assert_eq!(found, Moments { count: 4, mean: 4.0, std: 6.5_f64.sqrt(), median: 3.0 });
        assert_eq!(Moments::of(&mut []), Moments::default());
    }

    #[test]
    fn merged_moments_are_those_of_all_numbers() {
        let all: Vec<f64> = (0..1000).map(|at| 1.7e9 + f64::from(at * at % 977) / 7.0).collect();
        for sizes in [vec![1000], vec![1, 999], vec![100; 10], vec![3, 500, 0, 497]] {
            let (mut merged, mut rest) = (MergedMoments::default(), all.as_slice());
            for size in sizes {
                let (own, later) = rest.split_at(size);
                merged.add(Moments::of(&mut own.to_vec()));
                rest = later;
            }
            let (mean, std) = merged.mean_and_std();
            let direct = all.iter().map(|value| value - 1.7e9).sum::<f64>() / 1000.0;
            let variance = all.iter().map(|value| (value - 1.7e9 - direct).powi(2)).sum::<f64>() / 1000.0;
            assert!(((mean - 1.7e9) / direct - 1.0).abs() < 1e-6, "{mean}");
            assert!((mean / (1.7e9 + direct) - 1.0).abs() < 1e-12, "{mean}");
            assert!((std / variance.sqrt() - 1.0).abs() < 1e-6, "{std}");
        }
    }

    #[test]
    fn small_numbers_agree_to_the_last_digits() {
        let all: Vec<f64> = (0..600).map(|at| f64::from(at * 31 % 101) / 10.0 - 3.0).collect();
        let mut merged = MergedMoments::default();
        for own in all.chunks(70) {
            merged.add(Moments::of(&mut own.to_vec()));
        }
        let (mean, std) = merged.mean_and_std();
        let direct = all.iter().sum::<f64>() / 600.0;
        let variance = all.iter().map(|value| (value - direct).powi(2)).sum::<f64>() / 600.0;
        assert!((mean - direct).abs() < 1e-12 && (std - variance.sqrt()).abs() < 1e-12, "{mean} {std}");
    }

    #[test]
    fn constants_and_huge_numbers() {
        let mut merged = MergedMoments::default();
        for _ in 0..3 {
            merged.add(Moments::of(&mut [0.1; 7]));
        }
        assert_eq!(merged.mean_and_std(), (0.1, 1.0));
        let mut huge = MergedMoments::default();
        for value in [f64::MAX, f64::MIN, 0.0] {
            huge.add(Moments::of(&mut [value]));
        }
        let (mean, std) = huge.mean_and_std();
        assert!(mean.is_finite() && std.is_finite() && std > 1e300, "{mean} {std}");
        assert_eq!(MergedMoments::default().mean_and_std(), (0.0, 1.0));
    }

    #[test]
    fn the_median_of_sites_counts_their_rows() {
        let mut merged = MergedMoments::default();
        for (median, count) in [(10.0, 1), (1.0, 5), (3.0, 5)] {
            merged.add(Moments { count, median, ..Moments::default() });
        }
        // Counted from below: 5 of 11 at 1, 10 at 3.
        assert_eq!(merged.median(), 3.0);
    }
}
