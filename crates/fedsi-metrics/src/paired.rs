//! Whether two methods differ, from scores that come in pairs: Student's t-test.

use statrs::function::beta::checked_beta_reg;

use crate::Summary;

/// The outcome of a paired two-sided t-test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedTest {
    /// How many pairs.
    pub pairs: usize,
    /// The mean of the differences.
    pub mean: f64,
    /// `mean / (std / sqrt(pairs))`; infinite where all differences are the same and not 0.
    pub t: f64,
    /// How likely a `t` this far from 0 would be if the two were alike, with `pairs - 1` degrees of freedom.
    pub p: f64,
}

/// The paired test of these differences. `None` of fewer than two, or where one is not finite.
///
/// Differences that are all 0 have `p` = 1; differences that are all the same and not 0 have `p` = 0.
pub fn paired_t_test(differences: &[f64]) -> Option<PairedTest> {
    if differences.len() < 2 || !differences.iter().all(|difference| difference.is_finite()) {
        return None;
    }
    let spread = Summary::of(differences.iter().copied())?;
    let (pairs, mean, deviation) = (spread.count, spread.mean, spread.std_dev?);
    let t = if mean == 0.0 { 0.0 } else { mean / (deviation / (pairs as f64).sqrt()) };
    Some(PairedTest { pairs, mean, t, p: student_p(t, (pairs - 1) as f64) })
}

/// The probability that Student's t with `freedom` degrees of freedom (above 0) is at least as far from 0 as `t`:
/// `I_x(freedom / 2, 1/2)` with `x = freedom / (freedom + t^2)`.
fn student_p(t: f64, freedom: f64) -> f64 {
    // The fraction of two infinities would be NaN.
    if t.is_infinite() {
        return 0.0;
    }
    // An error is a freedom or a t outside of the distribution's domain.
    checked_beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t)).unwrap_or(f64::NAN)
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
        assert_eq!(student_p(f64::INFINITY, 5.0), 0.0);
    }

    #[test]
    fn many_degrees_are_the_normal_distribution() {
        for p in [0.9, 0.5, 0.1, 0.01, 1e-4] {
            let z = crate::normal::normal_quantile(1.0 - p / 2.0);
            close(student_p(z, 1e7), p, 1e-5);
        }
    }

    #[test]
    fn worked_by_hand() {
        // Differences 1, 2, 3: mean 2, std 1, t = 2 sqrt(3) with two degrees.
        let test = paired_t_test(&[1.0, 2.0, 3.0]).unwrap();
        close(test.t, 12.0_f64.sqrt(), 1e-15);
        close(test.p, 1.0 - (12.0_f64 / 14.0).sqrt(), 1e-12);
        assert_eq!((test.pairs, test.mean), (3, 2.0));
    }

    #[test]
    fn edges() {
        assert_eq!(paired_t_test(&[0.0, 0.0, 0.0]).unwrap().p, 1.0);
        assert_eq!(paired_t_test(&[0.5, 0.5, 0.5]).unwrap().p, 0.0);
        assert_eq!(paired_t_test(&[-1.0, 1.0]).unwrap().p, 1.0);
        assert_eq!(paired_t_test(&[1.0]), None);
        assert_eq!(paired_t_test(&[]), None);
        assert_eq!(paired_t_test(&[1.0, f64::NAN]), None);
    }
}
