//! The two precisions layers run in.

use num_traits::{Float, NumAssign};

/// `f32` (training) or `f64` (posteriors, golden values). Sealed: layers are tested in these two.
pub trait Scalar:
    private::Sealed + faer::traits::RealField + Float + NumAssign + Default + Send + Sync + 'static
{
    /// The nearest value of this precision.
    fn of(value: f64) -> Self;
    /// This value in double precision.
    fn double(self) -> f64;
    /// `ln(1 + e^x)` and its derivative `1 / (1 + e^-x)`, exact to a few units in the last place for every finite x,
    /// in a form that runs in vector registers.
    fn softplus(self) -> (Self, Self);
    /// The x whose softplus this is, for values above 0.
    fn inverse_softplus(self) -> Self;
    /// The probability that a standard normal variable is below this value.
    fn normal_distribution(self) -> Self;
}

impl Scalar for f32 {
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    fn of(value: f64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn double(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn softplus(self) -> (Self, Self) {
        // With t = e^-|x|: max(x, 0) + ln(1 + t), and 1/(1 + t) or t/(1 + t). The system's exp and ln are calls, which
        // do not vectorise; the range here is half of theirs.
        let t = exp_of_negative(-self.abs());
        // One division for 1/(1 + t) and 1/(2 + t): divisions are most of the cost.
        let inverse = 1.0 / ((1.0 + t) * (2.0 + t));
        let share = (2.0 + t) * inverse;
        let log = ln_1p((t * (1.0 + t)) * inverse);
        (self.max(0.0) + log, if self < 0.0 { t * share } else { share })
    }
    #[inline(always)]
    fn inverse_softplus(self) -> Self {
        // ln(e^s - 1) is ln(s) + s/2 + s^2/24 - ..., and soon s itself. The exponent's bits give the logarithm to 0.06,
        // and each Newton step squares what is left.
        let log = (self.to_bits() as f32 * (1.0 / 8_388_608.0) - 126.942_696) * std::f32::consts::LN_2;
        let mut x = if self < 3.0 { log + 0.5 * self } else { self };
        for _ in 0..4 {
            let (value, slope) = x.softplus();
            x -= (value - self) / slope;
        }
        x
    }
    #[inline(always)]
    fn normal_distribution(self) -> Self {
        // The complement keeps its digits far to the left.
        0.5 * libm::erfcf(-self * std::f32::consts::FRAC_1_SQRT_2)
    }
}

impl Scalar for f64 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn double(self) -> f64 {
        self
    }
    #[inline(always)]
    fn softplus(self) -> (Self, Self) {
        let t = (-self.abs()).exp();
        (self.max(0.0) + t.ln_1p(), if self < 0.0 { t / (1.0 + t) } else { 1.0 / (1.0 + t) })
    }
    #[inline(always)]
    fn inverse_softplus(self) -> Self {
        self + (-(-self).exp_m1()).ln()
    }
    #[inline(always)]
    fn normal_distribution(self) -> Self {
        0.5 * libm::erfc(-self * std::f64::consts::FRAC_1_SQRT_2)
    }
}

/// `e^x` for x at most 0: `2^n e^r` with `|r| <= ln(2)/2`, the latter by its series.
#[inline(always)]
fn exp_of_negative(x: f32) -> f32 {
    // Adding this rounds to a whole number, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Below that the result is subnormal.
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let r = x - whole * LN_2_HIGH - whole * LN_2_LOW;
    // Pairs first: short chains of operations that wait for each other.
    let square = r * r;
    let low = (1.0 + r) + square * (0.5 + r * (1.0 / 6.0));
    let high = (1.0 / 24.0 + r * (1.0 / 120.0)) + square * (1.0 / 720.0 + r * (1.0 / 5040.0));
    let series = low + square * square * high;
    series * f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()))
}

/// `ln(1 + t)` for t from 0 to 1, given `s = t / (2 + t)`: `2 artanh(s)` by its series.
#[inline(always)]
fn ln_1p(s: f32) -> f32 {
    let q = s * s;
    let square = q * q;
    let low = (1.0 + q * (1.0 / 3.0)) + square * (0.2 + q * (1.0 / 7.0));
    let high = (1.0 / 9.0 + q * (1.0 / 11.0)) + square * (1.0 / 13.0 + q * (1.0 / 15.0));
    (s + s) * (low + square * square * high)
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// Runs a loop compiled for the widest vectors of this machine (AVX-512, AVX2 or the baseline), chosen at run
/// time, so that a portable binary loses nothing. The arithmetic is that of the source: vectors of any width
/// give the same bits as long as the loop has no reduction.
///
/// Mark the closure `#[inline(always)]`: one that is only called, not inlined, is compiled for the baseline.
///
/// Worth it even for loops that do not vectorise: a matrix product leaves the upper halves of the vector
/// registers in use, and baseline (SSE) code that follows pays for merging with them at every instruction.
/// Measured: with softmax and loss in here a step of the paper's MLP went from about 0.30 to 0.21 ms.
#[inline(always)]
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// The sum of a function of the values in sixteen strands, so that it runs in vector registers; the order is fixed.
#[inline(always)]
pub(crate) fn strand_sum<T: Scalar>(values: &[T], of: impl Fn(T) -> T) -> T {
    let mut strands = [T::zero(); 16];
    let blocks = values.chunks_exact(16);
    let rest = blocks.remainder();
    for block in blocks {
        for (strand, &value) in strands.iter_mut().zip(block) {
            *strand += of(value);
        }
    }
    let head = strands.iter().fold(T::zero(), |a, &b| a + b);
    rest.iter().fold(head, |a, &b| a + of(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over the whole range, in f32 as in f64.
    #[test]
    fn softplus_and_its_slope_are_exact() {
        for step in -80_000..=80_000 {
            let x = f64::from(step) * 1e-3;
            let (value, slope) = x.softplus();
            let (near, near_slope) = (x as f32).softplus();
            let x = f64::from(x as f32);
            let (exact, exact_slope) = x.softplus();
            assert!((f64::from(near) / exact - 1.0).abs() < 5e-7, "softplus({x}) is {exact}, found {near}");
            assert!((f64::from(near_slope) / exact_slope - 1.0).abs() < 5e-7, "its slope at {x}");
            assert!(value > 0.0 && slope > 0.0 && slope <= 1.0);
        }
        assert_eq!(0.0_f64.softplus(), (std::f64::consts::LN_2, 0.5));
        assert_eq!(200.0_f32.softplus(), (200.0, 1.0));
        let (value, slope) = (-200.0_f32).softplus();
        assert!(value > 0.0 && slope > 0.0, "a deviation never vanishes: {value}, {slope}");
    }

    /// Against tables of the normal distribution.
    #[test]
    fn the_normal_distribution_is_that_of_tables() {
        for (x, expected) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_543),
            (-1.0, 0.158_655_253_931_457),
            (-3.0, 0.001_349_898_031_630),
        ] {
            assert!((f64::normal_distribution(x) - expected).abs() < 1e-14, "{x}");
            assert!((f64::from((x as f32).normal_distribution()) - expected).abs() < 1e-7, "{x} in f32");
        }
        assert!((-30.0_f64).normal_distribution() > 0.0);
    }

    #[test]
    fn the_inverse_of_softplus_is_one() {
        let deviations = (-80..=40).map(|power| 10_f64.powf(f64::from(power) / 10.0));
        for deviation in deviations.chain([0.5, 1.0, 2.0, 2.999, 3.0, 3.001]) {
            let (near, exact) = ((deviation as f32).inverse_softplus(), deviation.inverse_softplus());
            assert!((exact.softplus().0 / deviation - 1.0).abs() < 1e-12, "{deviation} in f64");
            let back = f64::from(near.softplus().0) / deviation;
            assert!((back - 1.0).abs() < 3e-6, "{deviation}: {near}, expected {exact}");
        }
    }
}
