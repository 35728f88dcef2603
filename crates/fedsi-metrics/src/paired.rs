//! Whether two methods differ, and by how much, from scores that come in pairs: Student's t-test and interval, and Holm's
//! correction where there are several tests.

use statrs::function::beta::checked_beta_reg;

use crate::Summary;

/// The fewest pairs that are tested. With fewer the test rests on its assumption that differences are normal, which so few
/// cannot show: two differences that are alike by chance would be called significant.
pub const MIN_PAIRS: usize = 5;

/// The outcome of a paired two-sided t-test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedTest {
    /// How many pairs.
    pub pairs: usize,
    /// The mean of the differences.
    pub mean: f64,
    /// `mean / (std / sqrt(pairs))`.
    pub t: f64,
    /// How likely a `t` this far from 0 would be if the two were alike, with `pairs - 1` degrees of freedom.
    pub p: f64,
    /// The 95% confidence interval of the mean difference: `mean` less and plus the 0.975-quantile of Student's t with
    /// `pairs - 1` degrees of freedom times `std / sqrt(pairs)`. It excludes 0 just where `p < 0.05`.
    pub interval: (f64, f64),
}

/// The paired test of these pairs: of the differences, first less second.
///
/// `None` of fewer than [`MIN_PAIRS`], where a value is not finite, and where all differences are the same (up to the
/// rounding of the values): then there is no variance to judge them by.
pub fn paired_t_test(pairs: &[(f64, f64)]) -> Option<PairedTest> {
    if pairs.len() < MIN_PAIRS || pairs.iter().any(|(a, b)| !a.is_finite() || !b.is_finite()) {
        return None;
    }
    let spread = Summary::of(pairs.iter().map(|(a, b)| a - b))?;
    let (count, mean, deviation) = (spread.count, spread.mean, spread.std_dev?);
    let largest = pairs.iter().fold(0.0_f64, |most, (a, b)| most.max(a.abs()).max(b.abs()));
    // Means of scores are off by a few units in the last place. Differences that only differ by that are the same. A
    // deviation that overflowed is none either.
    if !(deviation > ROUNDING * largest && deviation.is_finite()) {
        return None;
    }
    let (error, freedom) = (deviation / (count as f64).sqrt(), (count - 1) as f64);
    let t = mean / error;
    let half = student_half_width(freedom) * error;
    let interval = (mean - half, mean + half);
    Some(PairedTest { pairs: count, mean, t, p: student_p(t, freedom), interval })
}

/// p-values after Holm's correction for how many there are, in their order: where nothing differs, the chance that any of
/// them falls below a level is at most that level.
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let (mut adjusted, mut largest) = (vec![1.0; values.len()], 0.0_f64);
    for (step, &place) in order.iter().enumerate() {
        largest = largest.max((values.len() - step) as f64 * values[place]).min(1.0);
        adjusted[place] = largest;
    }
    adjusted
}

/// What rounding may add to a score, relative to its size.
const ROUNDING: f64 = 64.0 * f64::EPSILON;

/// The probability that Student's t with `freedom` degrees of freedom (above 0) is at least as far from 0 as `t`:
/// `I_x(freedom / 2, 1/2)` with `x = freedom / (freedom + t^2)`.
fn student_p(t: f64, freedom: f64) -> f64 {
    // An error is a freedom or a t outside of the distribution's domain.
    checked_beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t)).unwrap_or(f64::NAN)
}

/// The `t` with `student_p(t, freedom) = 0.05`: half the width of a 95% interval in standard errors. By bisection, to the
/// last digits: it is needed once a test.
pub(crate) fn student_half_width(freedom: f64) -> f64 {
    // One degree of freedom has 12.7, the most; the normal distribution 1.96, the least.
    let (mut low, mut high) = (1.0, 13.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if student_p(middle, freedom) > 0.05 { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance * expected.abs(), "{found} is not {expected}");
    }

    #[test]
    fn two_degrees_of_freedom_have_a_formula() {
        // p = 1 - |t| / sqrt(2 + t^2).
        for t in [0.1, 1.0, 2.5, 4.302_652_729_696_142, 30.0, 1e4] {
            let square: f64 = t * t;
            // The same without cancellation.
            let expected = 2.0 / (2.0 + square) / (1.0 + t / (2.0 + square).sqrt());
            close(student_p(t, 2.0), expected, 1e-12);
            close(student_p(-t, 2.0), expected, 1e-12);
        }
        close(student_p(2.5, 2.0), 0.129_611_720_221_510_8, 1e-12);
    }

    #[test]
    fn known_values() {
        // One degree: the Cauchy distribution, 1 - 2/pi atan(t).
        close(student_p(1.0, 1.0), 0.5, 1e-13);
        // From mpmath, to 17 digits.
        for (t, freedom, p) in [
            (2.0, 9.0, 0.076_552_823_770_701_04),
            (3.25, 9.0, 0.009_997_369_084_021_567),
            (3.0, 4.0, 0.039_941_968_071_718_83),
            (5.5, 29.0, 6.326_920_528_273_318e-6),
            (0.3, 100.0, 0.764_799_880_300_303_5),
        ] {
            close(student_p(t, freedom), p, 1e-12);
        }
        assert_eq!(student_p(0.0, 5.0), 1.0);
    }

    #[test]
    fn many_degrees_are_the_normal_distribution() {
        for p in [0.9, 0.5, 0.1, 0.01, 1e-4] {
            let z = crate::normal::normal_quantile(1.0 - p / 2.0);
            close(student_p(z, 1e7), p, 1e-5);
        }
    }

    /// Pairs with these differences.
    fn pairs(differences: &[f64]) -> Vec<(f64, f64)> {
        differences.iter().map(|&difference| (0.5 + difference, 0.5)).collect()
    }

    #[test]
    fn worked_by_hand() {
        // Differences 1 to 5: mean 3, std sqrt(2.5), t = 3 sqrt(2) with four degrees, where
        // p = 1 - x (3 - x^2) / 2 with x = t / sqrt(4 + t^2) = sqrt(18/22).
        let test = paired_t_test(&[(3.0, 2.0), (2.0, 0.0), (4.0, 1.0), (3.0, -1.0), (5.0, 0.0)]).unwrap();
        close(test.t, 18.0_f64.sqrt(), 1e-14);
        let x = (18.0_f64 / 22.0).sqrt();
        close(test.p, 1.0 - x * (3.0 - x * x) / 2.0, 1e-10);
        assert_eq!((test.pairs, test.mean), (5, 3.0));
        // The 0.975-quantile with four degrees is 2.776, the standard error sqrt(2.5 / 5).
        close(test.interval.0, 3.0 - 2.776_445_105_197_793 * 0.5_f64.sqrt(), 1e-9);
        close(test.interval.1, 3.0 + 2.776_445_105_197_793 * 0.5_f64.sqrt(), 1e-9);
        assert_eq!(paired_t_test(&pairs(&[-1.0, 1.0, 0.0, -2.0, 2.0])).unwrap().p, 1.0);
    }

    #[test]
    fn quantiles_of_tables() {
        for (freedom, t) in
            [(1.0, 12.706_204_736), (4.0, 2.776_445_105), (9.0, 2.262_157_163), (29.0, 2.045_229_642)]
        {
            close(student_half_width(freedom), t, 1e-9);
        }
        close(student_half_width(1e7), crate::HALF_WIDTH_95, 1e-6);
    }

    /// The interval and the test agree on whether there is a difference.
    #[test]
    fn the_interval_excludes_zero_where_p_is_small() {
        for shift in 0..40 {
            let shift = 0.05 * f64::from(shift) - 1.0;
            let test =
                paired_t_test(&pairs(&[shift - 0.4, shift + 0.1, shift, shift + 0.35, shift - 0.2])).unwrap();
            let excludes = test.interval.0 > 0.0 || test.interval.1 < 0.0;
            assert_eq!(excludes, test.p < 0.05, "{test:?}");
        }
    }

    #[test]
    fn holm_s_correction() {
        let found = holm(&[0.01, 0.04, 0.03]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06]) {
            close(*found, expected, 1e-12);
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn few_pairs_have_no_test() {
        for count in 0..MIN_PAIRS {
            let few: Vec<f64> = (0..count).map(|pair| pair as f64).collect();
            assert_eq!(paired_t_test(&pairs(&few)), None, "{count}");
        }
    }

    #[test]
    fn equal_differences_have_no_test() {
        assert_eq!(paired_t_test(&pairs(&[0.0; 6])), None);
        assert_eq!(paired_t_test(&pairs(&[0.5; 6])), None);
        // As scores are: each difference is .01, and each is rounded otherwise.
        let scores = [0.1, 0.2, 0.3, 0.45, 0.6, 0.97];
        let rounded: Vec<(f64, f64)> = scores.iter().map(|score| (score + 0.01, *score)).collect();
        assert!(rounded.iter().any(|(a, b)| a - b != rounded[0].0 - rounded[0].1));
        assert_eq!(paired_t_test(&rounded), None);
    }

    #[test]
    fn what_is_not_finite_has_no_test() {
        for bad in [f64::NAN, f64::INFINITY, f64::MAX] {
            let mut all = pairs(&[0.1, 0.2, 0.3, 0.4, 0.6]);
            all.push((bad, -bad));
            assert_eq!(paired_t_test(&all), None, "{bad}");
        }
    }
}
