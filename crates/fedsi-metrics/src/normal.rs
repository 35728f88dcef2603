//! Quantiles of the standard normal distribution.

/// The `p`-quantile of the standard normal distribution: the `z` with `P(Z <= z) = p`.
///
/// Algorithm AS 241 (M. J. Wichura, "The percentage points of the normal distribution", Applied Statistics 37,
/// 1988), routine PPND16: three rational functions of degree 7, relative accuracy about 1e-16. The limits are
/// `-inf` at 0 and `inf` at 1; outside of [0, 1] it is NaN.
pub fn normal_quantile(p: f64) -> f64 {
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    if p == 1.0 {
        return f64::INFINITY;
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(r, &CENTRE);
    }
    // The nearer tail, so that no digits are lost; a p outside of (0, 1) becomes NaN in the logarithm.
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = (-tail.ln()).sqrt();
    let z = if r <= 5.0 { ratio(r - 1.6, &TAIL) } else { ratio(r - 5.0, &FAR_TAIL) };
    z.copysign(q)
}

/// Numerator and denominator, the highest power first.
type Rational = ([f64; 8], [f64; 8]);

fn ratio(r: f64, (numerator, denominator): &Rational) -> f64 {
    let polynomial = |coefficients: &[f64; 8]| coefficients.iter().fold(0.0, |sum, c| sum * r + c);
    polynomial(numerator) / polynomial(denominator)
}

/// `|p - 1/2| <= 0.425`.
const CENTRE: Rational = (
    [
        2_509.080_928_730_122_7,
        33_430.575_583_588_13,
        67_265.770_927_008_7,
        45_921.953_931_549_87,
        13_731.693_765_509_46,
        1_971.590_950_306_551_3,
        133.141_667_891_784_38,
        3.387_132_872_796_366_5,
    ],
    [
        5_226.495_278_852_854,
        28_729.085_735_721_943,
        39_307.895_800_092_71,
        21_213.794_301_586_597,
        5_394.196_021_424_751,
        687.187_007_492_057_9,
        42.313_330_701_600_91,
        1.0,
    ],
);

/// Tails down to `exp(-25)`.
const TAIL: Rational = (
    [
        7.745_450_142_783_414e-4,
        2.272_384_498_926_918_4e-2,
        0.241_780_725_177_450_6,
        1.270_458_252_452_368_4,
        3.647_848_324_763_204_5,
        5.769_497_221_460_691,
        4.630_337_846_156_546,
        1.423_437_110_749_683_5,
    ],
    [
        1.050_750_071_644_416_9e-9,
        5.475_938_084_995_345e-4,
        1.519_866_656_361_645_7e-2,
        0.148_103_976_427_480_08,
        0.689_767_334_985_1,
        1.676_384_830_183_803_8,
        2.053_191_626_637_759,
        1.0,
    ],
);

/// Tails beyond that.
const FAR_TAIL: Rational = (
    [
        2.010_334_399_292_288_1e-7,
        2.711_555_568_743_487_6e-5,
        1.242_660_947_388_078_4e-3,
        2.653_218_952_657_612_4e-2,
        0.296_560_571_828_504_87,
        1.784_826_539_917_291_3,
        5.463_784_911_164_114,
        6.657_904_643_501_103,
    ],
    [
        2.044_263_103_389_939_8e-15,
        1.421_511_758_316_446e-7,
        1.846_318_317_510_054_8e-5,
        7.868_691_311_456_133e-4,
        1.487_536_129_085_061_5e-2,
        0.136_929_880_922_735_8,
        0.599_832_206_555_888,
        1.0,
    ],
);

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
            (0.975, 1.959_963_984_540_054),
            (0.999, 3.090_232_306_167_813_5),
            (0.025, -1.959_963_984_540_054),
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
