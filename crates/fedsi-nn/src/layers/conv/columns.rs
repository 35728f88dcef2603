//! Derivatives of several backpropagated rows of one sample in chosen parameters.
//!
//! Of row r the derivative in the weight of channel o and tap t is `Σ_p slopes[r][o][p] patches[p][t]` over positions p.
//! All rows are summed at once, and only over positions at which a row differs from zero: behind a max pooling layer
//! that is a quarter of them or less, behind a ReLU half of these. What the kernel sees at these positions is laid out
//! once for all channels and rows; its last value is 1, for the bias.

use pulp::Simd;

use super::Conv2d;
use super::kernels::{MOST_LANES, Tiled, tiled_on};
use super::picked::{Factors, MOST_FACTORS, PickedRows};
use super::vectors::Vectors;
use crate::Scalar;

/// Values copied at once while patches are laid out: runs of up to so many take one read and one write.
const RUN: usize = 8;

/// The position has no patch yet.
const NONE: u32 = u32::MAX;

/// Chosen parameters of a convolution, by output channel.
#[derive(Clone, Debug)]
pub(crate) struct ConvColumns {
    conv: Conv2d,
    channels: Vec<ChannelColumns>,
}

#[derive(Clone, Debug)]
struct ChannelColumns {
    channel: usize,
    /// Taps of the kernel; for the bias, their number.
    taps: Vec<u32>,
    /// Which of the chosen parameters each is.
    places: Vec<u32>,
}

impl ConvColumns {
    /// For ascending indices into the layer's parameters, weight before bias.
    pub(crate) fn new(conv: Conv2d, indices: &[usize]) -> Self {
        let mut channels: Vec<ChannelColumns> = (0..conv.out)
            .map(|channel| ChannelColumns { channel, taps: Vec::new(), places: Vec::new() })
            .collect();
        for (place, &index) in indices.iter().enumerate() {
            let (channel, tap) = match index.checked_sub(conv.weights()) {
                Some(channel) => (channel, conv.taps()),
                None => (index / conv.taps(), index % conv.taps()),
            };
            channels[channel].taps.push(tap as u32);
            channels[channel].places.push(place as u32);
        }
        channels.retain(|own| !own.taps.is_empty());
        Self { conv, channels }
    }

    /// Writes the derivatives of some rows in the chosen parameters. `image` is the layer's input for one sample, `slopes`
    /// are `[rows, outputs]`.
    ///
    /// Cost: for each chosen weight a multiplication for each row and each position at which the slopes of its channel
    /// are not all zero; a pass over the slopes.
    pub(crate) fn derivatives<T: Scalar>(
        &self,
        image: &[T],
        slopes: &[T],
        into: Columns<'_, T>,
        scratch: &mut ColumnScratch<T>,
    ) {
        self.derivatives_on(pulp::Arch::new(), image, slopes, into, scratch);
    }

    /// The same with other vectors than the widest of this machine.
    pub(super) fn derivatives_on<T: Scalar>(
        &self,
        arch: pulp::Arch,
        image: &[T],
        slopes: &[T],
        into: Columns<'_, T>,
        scratch: &mut ColumnScratch<T>,
    ) {
        let rows = slopes.len() / self.conv.outputs();
        let work = Derivatives { chosen: self, image, slopes, rows, into, scratch };
        tiled_on(arch, Factors(rows), work);
    }
}

/// Where the columns of some rows go: row r to `values[r * stride..]`.
#[derive(Debug)]
pub(crate) struct Columns<'a, T> {
    pub(crate) values: &'a mut [T],
    pub(crate) stride: usize,
}

/// Memory that is kept from sample to sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnScratch<T> {
    padded: Vec<T>,
    /// What the kernel sees, a row for each position that was asked for.
    patches: Vec<T>,
    /// Which row of the patches a position has.
    row_of: Vec<u32>,
    /// The sum over rows of a channel's absolute slopes.
    size: Vec<T>,
    /// Active positions of a channel, then the rows of their patches.
    picked: Vec<u32>,
    factors: Vec<T>,
    /// The chosen taps alone, where they are few.
    packed: Vec<T>,
    sums: Vec<T>,
}

struct Derivatives<'a, T> {
    chosen: &'a ConvColumns,
    image: &'a [T],
    slopes: &'a [T],
    rows: usize,
    into: Columns<'a, T>,
    scratch: &'a mut ColumnScratch<T>,
}

/// Length of a patch: the taps and the 1 of the bias, in whole vectors of any width.
const fn patch_stride(conv: &Conv2d) -> usize {
    (conv.taps() + 1).next_multiple_of(MOST_LANES)
}

impl<T: Scalar> Tiled<T> for Derivatives<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const BLOCK: usize, const VECTORS: usize, const LANES: usize>(
        self,
        vectors: &Vectors<T, S, LANES>,
    ) {
        let Self { chosen, image, slopes, rows, into, scratch } = self;
        let conv = &chosen.conv;
        let stride = patch_stride(conv);
        let width = rows.next_multiple_of(BLOCK);
        pad(conv, image, &mut scratch.padded);
        scratch.row_of.clear();
        scratch.row_of.resize(conv.positions(), NONE);
        scratch.sums.resize((rows + MOST_FACTORS) * stride, T::zero());
        let mut patches = 0;
        for own in &chosen.channels {
            find_active(conv, slopes, own.channel, &mut scratch.size, &mut scratch.picked);
            pack_factors(conv, slopes, own.channel, &scratch.picked, width, &mut scratch.factors);
            for position in &mut scratch.picked {
                let row = &mut scratch.row_of[*position as usize];
                if *row == NONE {
                    *row = patches;
                    let start = patches as usize * stride;
                    if scratch.patches.len() < start + stride + RUN {
                        scratch.patches.resize(start + stride + RUN, T::zero());
                    }
                    lay_out(conv, &scratch.padded, *position as usize, &mut scratch.patches[start..]);
                    patches += 1;
                }
                *position = *row;
            }
            // Taps as they lie in the patches, or moved together where that leaves less than half of them.
            let few = 2 * own.taps.len() <= conv.taps();
            if few {
                pack_taps(&scratch.patches, stride, &own.taps, &mut scratch.picked, &mut scratch.packed);
            }
            let count = if few { own.taps.len() } else { conv.taps() + 1 };
            let stride = if few { own.taps.len().next_multiple_of(MOST_LANES) } else { stride };
            let source = if few { &scratch.packed } else { &scratch.patches };
            let (picked, factors) = (&scratch.picked, &scratch.factors);
            let product = PickedRows { source, stride, picked, factors, width };
            for factor in (0..width).step_by(BLOCK) {
                let sums = &mut scratch.sums[factor * stride..];
                let lanes = count.next_multiple_of(LANES);
                let mut lane = 0;
                while lane + VECTORS * LANES <= lanes {
                    sum_tile::<T, S, BLOCK, VECTORS, LANES>(vectors, &product, factor, lane, sums);
                    lane += VECTORS * LANES;
                }
                while lane < lanes {
                    sum_tile::<T, S, BLOCK, 1, LANES>(vectors, &product, factor, lane, sums);
                    lane += LANES;
                }
            }
            for (row, sums) in scratch.sums.chunks_exact(stride).take(rows).enumerate() {
                let into = &mut into.values[row * into.stride..];
                if few {
                    for (&place, &sum) in own.places.iter().zip(sums) {
                        into[place as usize] = sum;
                    }
                } else {
                    for (&place, &tap) in own.places.iter().zip(&own.taps) {
                        into[place as usize] = sums[tap as usize];
                    }
                }
            }
        }
    }
}

/// One tile of sums, from zero.
#[inline(always)]
fn sum_tile<T: Scalar, S: Simd, const BLOCK: usize, const VECTORS: usize, const LANES: usize>(
    vectors: &Vectors<T, S, LANES>,
    product: &PickedRows<'_, T>,
    factor: usize,
    lane: usize,
    sums: &mut [T],
) {
    let zeros = [[vectors.splat(T::zero()); VECTORS]; BLOCK];
    let tile = product.tile::<S, BLOCK, VECTORS, LANES>(vectors, factor, lane, zeros);
    for (sums, tile) in sums.chunks_exact_mut(product.stride).zip(tile) {
        let (sums, _) = sums[lane..lane + VECTORS * LANES].as_chunks_mut();
        for (sums, vector) in sums.iter_mut().zip(tile) {
            vectors.write(vector, sums);
        }
    }
}

/// Copies an image into padded planes. Behind the last plane there is room for a run that begins in it.
#[inline(always)]
fn pad<T: Scalar>(conv: &Conv2d, image: &[T], padded: &mut Vec<T>) {
    padded.clear();
    padded.resize(conv.channels * conv.padded_plane() + RUN, T::zero());
    for (line, at) in image.chunks_exact(conv.width).zip(conv.padded_lines()) {
        padded[at..at + conv.width].copy_from_slice(line);
    }
}

/// The positions at which the slopes of `channel` are not all zero, ascending.
#[inline(always)]
pub(super) fn find_active<T: Scalar>(
    conv: &Conv2d,
    slopes: &[T],
    channel: usize,
    size: &mut Vec<T>,
    positions: &mut Vec<u32>,
) {
    size.clear();
    size.resize(conv.positions(), T::zero());
    for row in slopes.chunks_exact(conv.outputs()) {
        // A sum, not a maximum: it keeps what is not a number.
        for (size, &slope) in size.iter_mut().zip(&row[channel * conv.positions()..]) {
            *size += num_traits::Float::abs(slope);
        }
    }
    positions.clear();
    for (position, size) in size.iter().enumerate() {
        if *size != T::zero() {
            positions.push(position as u32);
        }
    }
}

/// The slopes of `channel` at the active positions: `[positions, width]`, zeros behind the rows.
#[inline(always)]
fn pack_factors<T: Scalar>(
    conv: &Conv2d,
    slopes: &[T],
    channel: usize,
    positions: &[u32],
    width: usize,
    factors: &mut Vec<T>,
) {
    factors.clear();
    factors.resize(positions.len() * width, T::zero());
    for (row, slopes) in slopes.chunks_exact(conv.outputs()).enumerate() {
        let slopes = &slopes[channel * conv.positions()..][..conv.positions()];
        for (factors, &position) in factors.chunks_exact_mut(width).zip(positions) {
            factors[row] = slopes[position as usize];
        }
    }
}

/// What the kernel sees at a position, then the bias's 1. Writes up to [`RUN`] values beyond.
#[inline(always)]
fn lay_out<T: Scalar>(conv: &Conv2d, padded: &[T], position: usize, patch: &mut [T]) {
    let (row, column) = (position / conv.out_width, position % conv.out_width);
    let corner = (row * conv.padded_width() + column) * conv.stride;
    for channel in 0..conv.channels {
        for line in 0..conv.kernel {
            let from = &padded[channel * conv.padded_plane() + corner + line * conv.padded_width()..];
            let to = &mut patch[(channel * conv.kernel + line) * conv.kernel..];
            if conv.kernel <= RUN {
                // What is too much is overwritten by the next run.
                if let (Some(to), Some(from)) = (to.first_chunk_mut::<RUN>(), from.first_chunk()) {
                    *to = *from;
                }
            } else {
                to[..conv.kernel].copy_from_slice(&from[..conv.kernel]);
            }
        }
    }
    patch[conv.taps()] = T::one();
}

/// Moves the chosen taps of the picked patches together, and picks the result.
#[inline(always)]
fn pack_taps<T: Scalar>(patches: &[T], stride: usize, taps: &[u32], picked: &mut [u32], packed: &mut Vec<T>) {
    let width = taps.len().next_multiple_of(MOST_LANES);
    packed.resize(packed.len().max(picked.len() * width), T::zero());
    for ((number, row), packed) in picked.iter_mut().enumerate().zip(packed.chunks_exact_mut(width)) {
        let patch = &patches[*row as usize * stride..][..stride];
        for (packed, &tap) in packed.iter_mut().zip(taps) {
            *packed = patch[tap as usize];
        }
        *row = number as u32;
    }
}
