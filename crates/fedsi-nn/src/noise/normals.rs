//! Standard normal numbers by the thousand, in vector registers.
//!
//! Sixteen xoshiro128++ generators side by side and the transform of Box and Muller: no table, no branch. The arithmetic is
//! that of the source in any width of vectors, so the numbers are the same on all machines. They are of single precision
//! and reach 6.5 standard deviations; what lies beyond has a probability of 1e-10.

use rand::Rng;

use crate::Scalar;
use crate::scalar::vectorised;

/// Generators side by side.
const LANES: usize = 16;

type Lanes<T> = [T; LANES];

/// A source of independent standard normal numbers.
pub(crate) struct Normals {
    state: [Lanes<u32>; 4],
}

impl Normals {
    /// Seeded by 256 bytes of `seed`.
    pub(crate) fn new(seed: &mut impl Rng) -> Self {
        let mut state = [[0; LANES]; 4];
        for word in state.as_flattened_mut() {
            *word = seed.next_u32();
        }
        // The one state that a generator never leaves.
        for lane in 0..LANES {
            if state.iter().all(|words| words[lane] == 0) {
                state[0][lane] = 1;
            }
        }
        Self { state }
    }

    /// Overwrites `into` with independent draws.
    pub(crate) fn fill<T: Scalar>(&mut self, into: &mut [T]) {
        vectorised(
            #[inline(always)]
            || {
                for chunk in into.chunks_mut(2 * LANES) {
                    let [first, second] = self.draw();
                    for (value, &draw) in chunk.iter_mut().zip(first.iter().chain(&second)) {
                        *value = T::of(f64::from(draw));
                    }
                }
            },
        );
    }

    /// Twice as many draws as there are generators.
    #[inline(always)]
    fn draw(&mut self) -> [Lanes<f32>; 2] {
        let (radius, angle) = (self.next(), self.next());
        let (mut cosines, mut sines) = ([0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            let radius = (-2.0 * ln_of_unit(radius[lane])).sqrt();
            let (cosine, sine) = point_of_circle(angle[lane]);
            cosines[lane] = radius * cosine;
            sines[lane] = radius * sine;
        }
        [cosines, sines]
    }

    /// xoshiro128++ of Blackman and Vigna, in every lane.
    #[inline(always)]
    fn next(&mut self) -> Lanes<u32> {
        let [a, b, c, d] = &mut self.state;
        let mut numbers = [0; LANES];
        for lane in 0..LANES {
            numbers[lane] = a[lane].wrapping_add(d[lane]).rotate_left(7).wrapping_add(a[lane]);
            let shifted = b[lane] << 9;
            c[lane] ^= a[lane];
            d[lane] ^= b[lane];
            b[lane] ^= c[lane];
            a[lane] ^= d[lane];
            c[lane] ^= shifted;
            d[lane] = d[lane].rotate_left(11);
        }
        numbers
    }
}

/// The logarithm of a number between 0 and 1, of 31 random bits.
#[inline(always)]
fn ln_of_unit(bits: u32) -> f32 {
    const HALF_ROOT: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    let unit = ((bits >> 1) as i32 as f32 + 0.5) * (1.0 / 2_147_483_648.0);
    // unit = 2^n m with m between the roots of 1/2 and of 2, and ln m = 2 artanh((m - 1)/(m + 1)) by its series.
    let shifted = unit.to_bits().wrapping_sub(HALF_ROOT) as i32;
    let power = shifted >> 23;
    let m = f32::from_bits(unit.to_bits().wrapping_sub((power << 23) as u32));
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let series = 1.0 + q * (1.0 / 3.0 + q * (0.2 + q * (1.0 / 7.0 + q * (1.0 / 9.0 + q * (1.0 / 11.0)))));
    power as f32 * std::f32::consts::LN_2 + (s + s) * series
}

/// A point of the unit circle: a quarter by two random bits, the angle within it by the others.
#[inline(always)]
fn point_of_circle(bits: u32) -> (f32, f32) {
    // Between -pi/4 and pi/4, where the series are short.
    let angle = ((bits << 2) as i32 as f32) * (std::f32::consts::FRAC_PI_2 / 4_294_967_296.0);
    let q = angle * angle;
    let sine =
        angle * (1.0 + q * (-1.0 / 6.0 + q * (1.0 / 120.0 + q * (-1.0 / 5040.0 + q * (1.0 / 362_880.0)))));
    let cosine = 1.0 + q * (-0.5 + q * (1.0 / 24.0 + q * (-1.0 / 720.0 + q * (1.0 / 40_320.0))));
    let turned = bits >> 31 == 1;
    let (x, y) = if turned { (-sine, cosine) } else { (cosine, sine) };
    // The other bit turns by half a turn.
    let sign = (bits << 1) & 0x8000_0000;
    (f32::from_bits(x.to_bits() ^ sign), f32::from_bits(y.to_bits() ^ sign))
}

#[cfg(test)]
mod tests {
    use fedsi_random::{Purpose, Streams};

    use super::*;

    const DRAWS: usize = 2_000_000;

    fn draws(seed: u64, count: usize) -> Vec<f64> {
        let mut draws = vec![f64::NAN; count];
        Normals::new(&mut Streams::new(seed).stream(Purpose::Batches, 0, 0)).fill(&mut draws);
        draws
    }

    /// Moments, within four standard errors of those of the normal distribution.
    #[test]
    fn moments_are_those_of_the_normal_distribution() {
        let draws = draws(1, DRAWS);
        // The power, its expectation and its standard deviation.
        for (power, expected, deviation) in
            [(1, 0.0, 1.0), (2, 1.0, 2_f64.sqrt()), (3, 0.0, 15_f64.sqrt()), (4, 3.0, 96_f64.sqrt())]
        {
            let mean = draws.iter().map(|draw| draw.powi(power)).sum::<f64>() / DRAWS as f64;
            let error = deviation / (DRAWS as f64).sqrt();
            assert!((mean - expected).abs() < 4.0 * error, "moment {power}: {mean}, expected {expected}");
        }
    }

    /// The shares below some places, near zero and in the tails.
    #[test]
    fn shares_are_those_of_the_normal_distribution() {
        let draws = draws(2, DRAWS);
        for place in [-4.0, -3.0, -2.0, -1.0, -0.5, -0.1, -0.01, 0.0, 0.01, 0.3, 0.7, 1.5, 2.5, 3.5, 4.2] {
            let expected = f64::normal_distribution(place);
            let found = draws.iter().filter(|&&draw| draw < place).count() as f64 / DRAWS as f64;
            let error = (expected * (1.0 - expected) / DRAWS as f64).sqrt();
            assert!((found - expected).abs() < 4.0 * error, "below {place}: {found}, expected {expected}");
        }
    }

    /// Neither between neighbours, nor between the two numbers of a pair, nor between turns of one generator.
    #[test]
    fn draws_and_their_squares_are_uncorrelated() {
        let draws = draws(3, DRAWS);
        for lag in [1, 2, LANES, 2 * LANES, 4 * LANES] {
            let pairs = draws.iter().zip(&draws[lag..]);
            let count = (DRAWS - lag) as f64;
            let plain = pairs.clone().map(|(a, b)| a * b).sum::<f64>() / count;
            assert!(plain.abs() < 4.0 / count.sqrt(), "lag {lag}: {plain}");
            let squares = pairs.map(|(a, b)| (a * a - 1.0) * (b * b - 1.0)).sum::<f64>() / count;
            assert!(squares.abs() < 8.0 / count.sqrt(), "squares at lag {lag}: {squares}");
        }
    }

    /// The functions inside, beside those of the standard library.
    #[test]
    fn logarithms_and_points_are_exact_to_single_precision() {
        let mut bits = 0_u32;
        for _ in 0..100_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            for bits in [bits, bits >> 20, !(bits >> 20)] {
                let unit = ((bits >> 1) as f32 + 0.5) / 2_147_483_648.0;
                let (found, expected) = (f64::from(ln_of_unit(bits)), f64::from(unit).ln());
                assert!((found - expected).abs() <= 4e-7 * expected.abs(), "ln({unit}): {found}, {expected}");
                let (x, y) = point_of_circle(bits);
                let length = f64::from(x).hypot(f64::from(y));
                assert!((length - 1.0).abs() < 3e-7, "a point at distance {length}");
            }
        }
        assert!(ln_of_unit(u32::MAX) <= 0.0 && ln_of_unit(0).is_finite());
    }

    /// A prefix does not depend on how many are drawn, and a seed gives the same numbers again.
    #[test]
    fn draws_are_repeatable() {
        assert_eq!(draws(4, 77), draws(4, 1000)[..77]);
        assert_ne!(draws(4, 77), draws(5, 77));
    }
}
