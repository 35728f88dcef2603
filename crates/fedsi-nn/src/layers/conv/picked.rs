//! Sums over picked rows of a matrix, for several factors at once: the inner loop of the passes that leave zeros out.

use pulp::Simd;

use super::kernels::{Tiled, Tiles};
use super::vectors::{Vector, Vectors};
use crate::Scalar;

/// `sums[f][lane] += Σ_i factors[i][f] source[picked[i]][lane]`, in the order of i.
///
/// A lane of the result takes one multiplication and addition after the other: its bits depend neither on the width of
/// the vectors nor on which other lanes are computed.
pub(super) struct PickedRows<'a, T> {
    pub(super) source: &'a [T],
    /// Distance between rows of the source.
    pub(super) stride: usize,
    /// Rows of the source, and for each of them `width` factors.
    pub(super) picked: &'a [u32],
    pub(super) factors: &'a [T],
    /// Factors of each row: a multiple of the tile's.
    pub(super) width: usize,
}

impl<T: Scalar> PickedRows<'_, T> {
    /// Adds to a tile of `FACTORS` factors from `factor` on and `VECTORS` vectors from `lane` on.
    #[inline(always)]
    pub(super) fn tile<S: Simd, const FACTORS: usize, const VECTORS: usize, const LANES: usize>(
        &self,
        vectors: &Vectors<T, S, LANES>,
        factor: usize,
        lane: usize,
        mut sums: [[Vector<T, S>; VECTORS]; FACTORS],
    ) -> [[Vector<T, S>; VECTORS]; FACTORS] {
        for (&row, factors) in self.picked.iter().zip(self.factors.chunks_exact(self.width)) {
            let (source, _) = self.source[row as usize * self.stride + lane..][..VECTORS * LANES].as_chunks();
            let mut values = [vectors.splat(T::zero()); VECTORS];
            for (values, source) in values.iter_mut().zip(source) {
                *values = vectors.read(source);
            }
            for (sums, &factor) in sums.iter_mut().zip(&factors[factor..factor + FACTORS]) {
                let factor = vectors.splat(factor);
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = vectors.multiply_add(factor, value, *sum);
                }
            }
        }
        sums
    }
}

/// Tiles for so many factors.
pub(super) struct Factors(pub(super) usize);

/// Factors of a tile: the blocks there are, the largest first.
const WIDE: [usize; 6] = [10, 9, 8, 4, 2, 1];
const NARROW: [usize; 5] = [5, 4, 3, 2, 1];

/// The most factors that rounding up to whole tiles adds.
pub(super) const MOST_FACTORS: usize = WIDE[0];

impl Tiles for Factors {
    /// The block that costs least: a step of a tile is a multiplication for each factor and about as much as one for
    /// reading. Of 32 registers up to 20 (of 16 up to 10) hold sums.
    #[inline(always)]
    fn run<T: Scalar, S: Simd, const LANES: usize>(
        self,
        work: impl Tiled<T>,
        vectors: &Vectors<T, S, LANES>,
    ) {
        let best = |blocks: &[usize]| {
            blocks.iter().copied().min_by_key(|&block| self.0.div_ceil(block) * (block + 1)).unwrap_or(1)
        };
        if const { S::REGISTER_COUNT >= 32 } {
            match best(&WIDE) {
                10 => work.run::<S, 10, 2, LANES>(vectors),
                9 => work.run::<S, 9, 2, LANES>(vectors),
                8 => work.run::<S, 8, 2, LANES>(vectors),
                4 => work.run::<S, 4, 4, LANES>(vectors),
                2 => work.run::<S, 2, 8, LANES>(vectors),
                _ => work.run::<S, 1, 8, LANES>(vectors),
            }
        } else {
            match best(&NARROW) {
                5 => work.run::<S, 5, 2, LANES>(vectors),
                4 => work.run::<S, 4, 2, LANES>(vectors),
                3 => work.run::<S, 3, 3, LANES>(vectors),
                2 => work.run::<S, 2, 4, LANES>(vectors),
                _ => work.run::<S, 1, 6, LANES>(vectors),
            }
        }
    }
}
