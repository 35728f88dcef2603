//! Quantiles of the standard normal distribution.

use std::f64::consts::SQRT_2;

use statrs::function::erf::erfc_inv;

/// Half the width of the central 95% interval of a normal distribution, in standard deviations: its 0.975-quantile.
pub const HALF_WIDTH_95: f64 = 1.959_963_984_540_054;

/// The `p`-quantile of the standard normal distribution: the `z` with `P(Z <= z) = p`. The limits are `-inf` at 0 and
/// `inf` at 1; outside of [0, 1] it is NaN.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    // `0.0 -`, so that the median is 0 and not -0.
    if (0.0..=1.0).contains(&p) { 0.0 - SQRT_2 * erfc_inv(2.0 * p) } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_quantiles() {
        // From tables to 16 digits (and mpmath).
        for (p, z) in [
            (0.5, 0.0),
            (0.75, 0.674_489_750_196_081_7),
            (0.9, 1.281_551_565_544_600_4),
            (0.95, 1.644_853_626_951_472_7),
            (0.975, HALF_WIDTH_95),
            (0.999, 3.090_232_306_167_813_5),
            (0.025, -HALF_WIDTH_95),
            (1e-10, -6.361_340_902_404_056),
            (1e-20, -9.262_340_089_798_408),
        ] {
            let found = normal_quantile(p);
            assert!((found - z).abs() <= 4e-15 * z.abs(), "{p}: {found} is not {z}");
        }
    }

    #[test]
    fn it_is_odd_rising_and_closed_by_infinities() {
        let mut last = f64::NEG_INFINITY;
        for i in 1..1000 {
            let p = f64::from(i) / 1000.0;
            let z = normal_quantile(p);
            assert!(z > last);
            assert!((z + normal_quantile(1.0 - p)).abs() < 1e-13);
            last = z;
        }
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
        assert!(
            normal_quantile(-0.1).is_nan()
                && normal_quantile(1.1).is_nan()
                && normal_quantile(f64::NAN).is_nan()
        );
    }
}
