//! The two inner loops of a convolution with stride 1. Both keep a tile of sums in vector registers and read
//! the image in place: what a tap of the kernel sees is a contiguous run of it.

use std::marker::PhantomData;
use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::vectors::{Vector, Vectors};
use crate::Scalar;

/// Vectors of positions a tile of [`Correlation`] spans: two, so that every weight read is used twice.
const VECTORS: usize = 2;

/// The most lanes a vector has, in values.
pub(super) const MOST_LANES: usize = 16;

/// The most positions a tile spans.
pub(super) const MOST_POSITIONS: usize = VECTORS * MOST_LANES;

/// The most channels a tile spans.
pub(super) const MOST_CHANNELS: usize = 8;

/// Work that runs in tiles of `BLOCK` channels, by [`VECTORS`] vectors of positions or by `TAPS` taps.
pub(super) trait Tiled<T: Scalar> {
    /// Marked `#[inline(always)]`, as all it calls, so that it is compiled for the vectors of `S`.
    fn run<S: Simd, const BLOCK: usize, const TAPS: usize, const LANES: usize>(
        self,
        vectors: &Vectors<T, S, LANES>,
    );
}

/// Chooses the shape of the tiles.
pub(super) trait Tiles {
    /// Runs `work` in tiles that fill the registers. Marked `#[inline(always)]`, as [`Tiled::run`].
    fn run<T: Scalar, S: Simd, const LANES: usize>(self, work: impl Tiled<T>, vectors: &Vectors<T, S, LANES>);
}

/// Tiles that waste the fewest of so many channels.
pub(super) struct Channels(pub(super) usize);

/// Runs `work` in tiles that fill the registers of this machine and waste the fewest of `channels` channels.
pub(super) fn tiled<T: Scalar>(channels: usize, work: impl Tiled<T>) {
    tiled_on(pulp::Arch::new(), Channels(channels), work);
}

/// The same with tiles of another shape, or with other vectors than the widest of this machine.
pub(super) fn tiled_on<T: Scalar>(arch: pulp::Arch, tiles: impl Tiles, work: impl Tiled<T>) {
    arch.dispatch(Dispatch { work, tiles, scalar: PhantomData });
}

struct Dispatch<T, W, C> {
    work: W,
    tiles: C,
    scalar: PhantomData<T>,
}

impl<T: Scalar, W: Tiled<T>, C: Tiles> WithSimd for Dispatch<T, W, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // The conditions are constants: one of the branches is left.
        if const { lanes::<T, S>() == 16 } {
            self.with_lanes::<S, 16>(simd);
        } else if const { lanes::<T, S>() == 8 } {
            self.with_lanes::<S, 8>(simd);
        } else if const { lanes::<T, S>() == 4 } {
            self.with_lanes::<S, 4>(simd);
        } else if const { lanes::<T, S>() == 2 } {
            self.with_lanes::<S, 2>(simd);
        } else {
            self.with_lanes::<S, 1>(simd);
        }
    }
}

impl<T: Scalar, W: Tiled<T>, C: Tiles> Dispatch<T, W, C> {
    #[inline(always)]
    fn with_lanes<S: Simd, const LANES: usize>(self, simd: S) {
        self.tiles.run(self.work, &Vectors::<T, S, LANES>::new(simd));
    }
}

impl Tiles for Channels {
    /// Of the 32 registers of AVX-512 (16 elsewhere) up to 24 (12) hold sums, the others what is read.
    #[inline(always)]
    fn run<T: Scalar, S: Simd, const LANES: usize>(
        self,
        work: impl Tiled<T>,
        vectors: &Vectors<T, S, LANES>,
    ) {
        let wasted = |block| self.0.next_multiple_of(block) - self.0;
        if const { S::REGISTER_COUNT >= 32 } {
            if wasted(8) <= wasted(6).min(wasted(4)) {
                work.run::<S, 8, 3, LANES>(vectors);
            } else if wasted(6) <= wasted(4) {
                work.run::<S, 6, 4, LANES>(vectors);
            } else {
                work.run::<S, 4, 6, LANES>(vectors);
            }
        } else if wasted(6) <= wasted(4) {
            work.run::<S, 6, 2, LANES>(vectors);
        } else {
            work.run::<S, 4, 3, LANES>(vectors);
        }
    }
}

const fn lanes<T: Scalar, S: Simd>() -> usize {
    size_of::<Vector<T, S>>() / size_of::<T>()
}

/// A kernel that slides over planes laid out one after another. The ends of a line and the start of the next are
/// one run of values, and positions count along that run: those between the lines are computed and dropped.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// Planes the kernel reads.
    pub(super) channels: usize,
    pub(super) kernel: usize,
    /// Distance between planes.
    pub(super) plane: usize,
    /// Distance between lines of a plane.
    pub(super) pitch: usize,
    pub(super) positions: usize,
}

impl Window {
    pub(super) const fn taps(&self) -> usize {
        self.channels * self.kernel * self.kernel
    }

    /// Distance between rows of sums: the positions, in whole tiles.
    pub(super) const fn stride(&self) -> usize {
        self.positions.next_multiple_of(MOST_POSITIONS)
    }

    /// How far the last tap of a plane lies beyond its first.
    pub(super) const fn reach(&self) -> usize {
        (self.kernel - 1) * (self.pitch + 1)
    }

    /// Values of the planes, and of what tiles read beyond them.
    pub(super) const fn source(&self) -> usize {
        (self.channels * self.plane + MOST_POSITIONS).next_multiple_of(MOST_LANES)
    }

    /// Where in the planes tap `(channel, ky, kx)` reads for the first position.
    #[inline(always)]
    fn origin(&self, tap: usize) -> usize {
        let (line, column) = (tap / self.kernel, tap % self.kernel);
        line / self.kernel * self.plane + line % self.kernel * self.pitch + column
    }
}

/// `sums[o][p] = b[o] + Σ w[o][ky][c][kx] source[c * plane + ky * pitch + kx + p]`, in tiles.
pub(super) struct Correlation<'a, T> {
    pub(super) window: Window,
    /// For each block of channels the b, then the w: `[ky][c][kx][channel]`.
    pub(super) packed: &'a [T],
    pub(super) source: &'a [T],
    /// The part of every plane that may differ from zero.
    pub(super) live: Range<usize>,
}

impl<T: Scalar> Correlation<'_, T> {
    #[inline(always)]
    pub(super) fn run<S: Simd, const BLOCK: usize, const LANES: usize>(
        &self,
        vectors: &Vectors<T, S, LANES>,
        sums: &mut [T],
    ) {
        let (window, stride) = (self.window, self.window.stride());
        let (packed, _) = self.packed.as_chunks::<BLOCK>();
        let blocks = packed.chunks_exact(1 + window.taps());
        for (packed, sums) in blocks.zip(sums.chunks_exact_mut(BLOCK * stride)) {
            for start in (0..window.positions).step_by(VECTORS * LANES) {
                let tile = self.tile(vectors, packed, start);
                for (sums, tile) in sums.chunks_exact_mut(stride).zip(tile) {
                    let (sums, _) = sums[start..start + VECTORS * LANES].as_chunks_mut();
                    for (sums, vector) in sums.iter_mut().zip(tile) {
                        vectors.write(vector, sums);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const BLOCK: usize, const LANES: usize>(
        &self,
        vectors: &Vectors<T, S, LANES>,
        packed: &[[T; BLOCK]],
        start: usize,
    ) -> [[Vector<T, S>; VECTORS]; BLOCK] {
        let Window { channels, kernel, plane, pitch, .. } = self.window;
        let mut sums = [[vectors.splat(T::zero()); VECTORS]; BLOCK];
        for (sums, &bias) in sums.iter_mut().zip(&packed[0]) {
            *sums = [vectors.splat(bias); VECTORS];
        }
        let weights = &packed[1..];
        for line in self.lines(start, VECTORS * LANES) {
            let weights = &weights[line * channels * kernel..][..channels * kernel];
            for (channel, weights) in weights.chunks_exact(kernel).enumerate() {
                let source = &self.source[channel * plane + line * pitch + start..];
                let source = &source[..kernel - 1 + VECTORS * LANES];
                for (weights, source) in weights.iter().zip(source.windows(VECTORS * LANES)) {
                    let (source, _) = source.as_chunks::<LANES>();
                    let source = [vectors.read(&source[0]), vectors.read(&source[1])];
                    for (sums, &weight) in sums.iter_mut().zip(weights) {
                        let weight = vectors.splat(weight);
                        for (sum, source) in sums.iter_mut().zip(source) {
                            *sum = vectors.multiply_add(weight, source, *sum);
                        }
                    }
                }
            }
        }
        sums
    }

    /// Lines of the kernel that see anything but zeros from the positions of a tile.
    #[inline(always)]
    fn lines(&self, start: usize, positions: usize) -> Range<usize> {
        let Window { kernel, pitch, .. } = self.window;
        let last = start + positions - 1 + kernel - 1;
        let end = self.live.end.saturating_sub(start).div_ceil(pitch).min(kernel);
        let first = self.live.start.saturating_sub(last).div_ceil(pitch).min(end);
        first..end
    }
}

/// How often [`Products`] goes over the positions: twice with AVX2, where each pass takes every other vector. Then a lane
/// of a pass sums the same products in the same order as a lane of AVX-512, which has twice as many, and both give the
/// same bits. It costs as many products as one pass, and loads and stores of sums twice.
const fn passes<T>(lanes: usize) -> usize {
    if lanes * size_of::<T>() == 32 { 2 } else { 1 }
}

/// `gradient[o][tap] += Σ factors[s][o][p] source[s][origin(tap) + p]` over samples s and positions p, in tiles.
pub(super) struct Products<'a, T> {
    pub(super) window: Window,
    pub(super) samples: usize,
    /// For each sample, each block of channels and each vector of positions: `[channel][lane]`.
    pub(super) factors: &'a [T],
    /// The planes, sample after sample.
    pub(super) sources: &'a [T],
}

impl<T: Scalar> Products<'_, T> {
    #[inline(always)]
    pub(super) fn run<S: Simd, const BLOCK: usize, const TAPS: usize, const LANES: usize>(
        &self,
        vectors: &Vectors<T, S, LANES>,
        gradient: &mut [T],
    ) {
        let taps = self.window.taps();
        for (block, rows) in gradient.chunks_mut(BLOCK * taps).enumerate() {
            for first in (0..taps).step_by(TAPS) {
                let mut tile = self.tile::<S, BLOCK, TAPS, LANES>(vectors, block, first, 0);
                if const { passes::<T>(LANES) == 2 } {
                    let other = self.tile::<S, BLOCK, TAPS, LANES>(vectors, block, first, 1);
                    for (sum, other) in tile.as_flattened_mut().iter_mut().zip(other.as_flattened()) {
                        *sum = vectors.add(*sum, *other);
                    }
                }
                for (row, tile) in rows.chunks_exact_mut(taps).zip(tile) {
                    for (sum, vector) in row[first..].iter_mut().zip(tile) {
                        *sum += vectors.sum(vector);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const BLOCK: usize, const TAPS: usize, const LANES: usize>(
        &self,
        vectors: &Vectors<T, S, LANES>,
        block: usize,
        first: usize,
        pass: usize,
    ) -> [[Vector<T, S>; TAPS]; BLOCK] {
        let steps = self.window.positions.div_ceil(LANES);
        let mut sums = [[vectors.splat(T::zero()); TAPS]; BLOCK];
        let (factors, _) = self.factors.as_chunks::<LANES>();
        let (factors, _) = factors.as_chunks::<BLOCK>();
        let factors = factors.chunks_exact(factors.len() / self.samples);
        for (factors, source) in factors.zip(self.sources.chunks_exact(self.window.source())) {
            let mut runs: [&[[T; LANES]]; TAPS] = [&[]; TAPS];
            for (tap, run) in runs.iter_mut().enumerate() {
                // Taps beyond the last repeat it, and what they sum is dropped.
                let origin = self.window.origin((first + tap).min(self.window.taps() - 1));
                (*run, _) = source[origin..origin + steps * LANES].as_chunks();
            }
            let own = factors[block * steps..][..steps].iter().enumerate();
            for (step, factors) in own.skip(pass).step_by(const { passes::<T>(LANES) }) {
                let mut values = [vectors.splat(T::zero()); TAPS];
                for (values, run) in values.iter_mut().zip(&runs) {
                    *values = vectors.read(&run[step]);
                }
                for (sums, factors) in sums.iter_mut().zip(factors) {
                    let factor = vectors.read(factors);
                    for (sum, values) in sums.iter_mut().zip(values) {
                        *sum = vectors.multiply_add(factor, values, *sum);
                    }
                }
            }
        }
        sums
    }
}
