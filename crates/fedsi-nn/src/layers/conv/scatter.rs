//! The gradient in the input for several backpropagated rows of one sample, from the slopes that are not zero.
//!
//! At each position the slopes of the active channels, times these channels' kernels, are added to the pixels that the
//! position saw. Pixels are laid out with their channels side by side, so that a line of the kernel is one run of them.
//! Behind max pooling and ReLU most slopes are zero, and this costs a small part of [`Conv2d::input_gradient`].

use pulp::Simd;

use super::Conv2d;
use super::columns::find_active;
use super::kernels::{MOST_LANES, Tiled, tiled_on};
use super::picked::{Factors, PickedRows};
use super::vectors::Vectors;
use crate::Scalar;

/// Memory that is kept from sample to sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScatterScratch<T> {
    /// `[out, line of the kernel, column and channel]`, each line in whole vectors.
    weights: Vec<T>,
    size: Vec<T>,
    /// Active positions of one channel.
    active: Vec<u32>,
    /// Pairs of position and channel with a slope that is not zero, by channel; then channels alone, by position.
    pairs: Vec<[u32; 2]>,
    channels: Vec<u32>,
    /// Where each position's channels begin.
    starts: Vec<u32>,
    factors: Vec<T>,
    /// `[rows, padded height, padded width, channels]`.
    pixels: Vec<T>,
    direct: Vec<T>,
}

/// Values of a line of the kernel over all channels, in whole vectors of 64 bytes: alike on all machines, since it decides
/// which way is taken, and with it the last bits.
const fn line_stride<T>(conv: &Conv2d) -> usize {
    (conv.kernel * conv.channels).next_multiple_of(64 / size_of::<T>())
}

/// Values of a row of pixels, and of what is read beyond.
const fn pixel_stride(conv: &Conv2d) -> usize {
    (conv.channels * conv.padded_plane() + MOST_LANES).next_multiple_of(MOST_LANES)
}

impl Conv2d {
    /// The gradient in the input for `rows` rows of each of some samples: `dy` is `[samples, rows, outputs]`, `dx`
    /// `[samples, rows, inputs]`.
    ///
    /// Cost: for each slope that is not zero in all rows of a sample, one multiplication for each tap and row; where most
    /// are not zero, that of [`Self::input_gradient`].
    pub(crate) fn input_gradient_of_rows<T: Scalar>(
        &self,
        parameters: &[T],
        dy: &[T],
        dx: &mut [T],
        rows: usize,
        scratch: &mut ScatterScratch<T>,
    ) {
        self.input_gradient_of_rows_on(pulp::Arch::new(), parameters, dy, dx, rows, scratch);
    }

    /// The same with other vectors than the widest of this machine, where slopes are few.
    pub(super) fn input_gradient_of_rows_on<T: Scalar>(
        &self,
        arch: pulp::Arch,
        parameters: &[T],
        dy: &[T],
        dx: &mut [T],
        rows: usize,
        scratch: &mut ScatterScratch<T>,
    ) {
        lay_out_weights(self, parameters, &mut scratch.weights);
        let (outputs, inputs) = (rows * self.outputs(), rows * self.inputs());
        for (dy, dx) in dy.chunks_exact(outputs).zip(dx.chunks_exact_mut(inputs)) {
            scratch.find_pairs(self, dy);
            // Reading and writing the pixels costs about as much as two channels do.
            let sparse = (scratch.pairs.len() + 2 * self.positions()) * self.kernel * line_stride::<T>(self);
            if sparse < self.out * self.positions() * self.taps() {
                let work = Scatter { conv: self, dy, dx, rows, scratch };
                tiled_on(arch, Factors(rows), work);
            } else {
                scratch.direct.resize(self.scratch(), T::zero());
                self.input_gradient(parameters, dy, dx, rows, &mut scratch.direct);
            }
        }
    }
}

fn lay_out_weights<T: Scalar>(conv: &Conv2d, parameters: &[T], weights: &mut Vec<T>) {
    let stride = line_stride::<T>(conv);
    weights.clear();
    weights.resize(conv.out * conv.kernel * stride, T::zero());
    for (index, &weight) in parameters[..conv.weights()].iter().enumerate() {
        let (out, tap) = (index / conv.taps(), conv.tap(index % conv.taps()));
        weights[(out * conv.kernel + tap.y) * stride + tap.x * conv.channels + tap.channel] = weight;
    }
}

impl<T: Scalar> ScatterScratch<T> {
    /// Finds where slopes are not zero.
    fn find_pairs(&mut self, conv: &Conv2d, dy: &[T]) {
        self.pairs.clear();
        for channel in 0..conv.out {
            crate::scalar::vectorised(
                #[inline(always)]
                || find_active(conv, dy, channel, &mut self.size, &mut self.active),
            );
            self.pairs.extend(self.active.iter().map(|&position| [position, channel as u32]));
        }
    }

    /// Sorts the pairs by position, and lays their slopes out: `[pairs, width]`, zeros behind the rows.
    #[inline(always)]
    fn pack(&mut self, conv: &Conv2d, dy: &[T], width: usize) {
        self.starts.clear();
        self.starts.resize(conv.positions() + 1, 0);
        for &[position, _] in &self.pairs {
            self.starts[position as usize + 1] += 1;
        }
        for position in 0..conv.positions() {
            self.starts[position + 1] += self.starts[position];
        }
        self.channels.resize(self.pairs.len(), 0);
        self.factors.clear();
        self.factors.resize(self.pairs.len() * width, T::zero());
        for &[position, channel] in &self.pairs {
            let place = self.starts[position as usize] as usize;
            self.starts[position as usize] += 1;
            self.channels[place] = channel;
            let at = channel as usize * conv.positions() + position as usize;
            let factors = &mut self.factors[place * width..][..width];
            for (factor, dy) in factors.iter_mut().zip(dy.chunks_exact(conv.outputs())) {
                *factor = dy[at];
            }
        }
        // Each start has moved to the next one's place.
        self.starts.rotate_right(1);
        self.starts[0] = 0;
    }
}

struct Scatter<'a, T> {
    conv: &'a Conv2d,
    dy: &'a [T],
    dx: &'a mut [T],
    rows: usize,
    scratch: &'a mut ScatterScratch<T>,
}

impl<T: Scalar> Tiled<T> for Scatter<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const BLOCK: usize, const VECTORS: usize, const LANES: usize>(
        self,
        vectors: &Vectors<T, S, LANES>,
    ) {
        let Self { conv, dy, dx, rows, scratch } = self;
        let width = rows.next_multiple_of(BLOCK);
        scratch.pack(conv, dy, width);
        let (line, pitch) = (line_stride::<T>(conv), pixel_stride(conv));
        scratch.pixels.clear();
        scratch.pixels.resize(width * pitch, T::zero());
        for position in 0..conv.positions() {
            let own = scratch.starts[position] as usize..scratch.starts[position + 1] as usize;
            if own.is_empty() {
                continue;
            }
            let (row, column) = (position / conv.out_width, position % conv.out_width);
            let corner = (row * conv.padded_width() + column) * conv.stride * conv.channels;
            let product = PickedRows {
                source: &scratch.weights,
                stride: conv.kernel * line,
                picked: &scratch.channels[own.clone()],
                factors: &scratch.factors[own.start * width..own.end * width],
                width,
            };
            for factor in (0..width).step_by(BLOCK) {
                for y in 0..conv.kernel {
                    let corner = corner + y * conv.padded_width() * conv.channels;
                    let pixels = &mut scratch.pixels[factor * pitch..];
                    let lanes = (conv.kernel * conv.channels).next_multiple_of(LANES);
                    let mut lane = 0;
                    while lane + VECTORS * LANES <= lanes {
                        let place = [factor, y * line + lane, corner + lane];
                        add_tile::<T, S, BLOCK, VECTORS, LANES>(vectors, &product, place, pixels, pitch);
                        lane += VECTORS * LANES;
                    }
                    while lane < lanes {
                        let place = [factor, y * line + lane, corner + lane];
                        add_tile::<T, S, BLOCK, 1, LANES>(vectors, &product, place, pixels, pitch);
                        lane += LANES;
                    }
                }
            }
        }
        for (image, pixels) in dx.chunks_exact_mut(conv.inputs()).zip(scratch.pixels.chunks_exact(pitch)) {
            separate_channels(conv, pixels, image);
        }
    }
}

/// Adds the tile of the product at `[factor, lane]` to the pixels from the third of `place` on.
#[inline(always)]
fn add_tile<T: Scalar, S: Simd, const BLOCK: usize, const VECTORS: usize, const LANES: usize>(
    vectors: &Vectors<T, S, LANES>,
    product: &PickedRows<'_, T>,
    [factor, lane, pixel]: [usize; 3],
    pixels: &mut [T],
    pitch: usize,
) {
    let mut sums = [[vectors.splat(T::zero()); VECTORS]; BLOCK];
    for (sums, pixels) in sums.iter_mut().zip(pixels.chunks_exact(pitch)) {
        let (pixels, _) = pixels[pixel..pixel + VECTORS * LANES].as_chunks();
        for (sum, pixels) in sums.iter_mut().zip(pixels) {
            *sum = vectors.read(pixels);
        }
    }
    let sums = product.tile::<S, BLOCK, VECTORS, LANES>(vectors, factor, lane, sums);
    for (sums, pixels) in sums.iter().zip(pixels.chunks_exact_mut(pitch)) {
        let (pixels, _) = pixels[pixel..pixel + VECTORS * LANES].as_chunks_mut();
        for (&sum, pixels) in sums.iter().zip(pixels) {
            vectors.write(sum, pixels);
        }
    }
}

/// From channels side by side to planes, without the padding.
#[inline(always)]
fn separate_channels<T: Scalar>(conv: &Conv2d, pixels: &[T], image: &mut [T]) {
    for (channel, plane) in image.chunks_exact_mut(conv.height * conv.width).enumerate() {
        for (y, line) in plane.chunks_exact_mut(conv.width).enumerate() {
            let start = ((y + conv.padding) * conv.padded_width() + conv.padding) * conv.channels + channel;
            let pixels = pixels[start..].iter().step_by(conv.channels);
            for (value, &pixel) in line.iter_mut().zip(pixels) {
                *value = pixel;
            }
        }
    }
}
