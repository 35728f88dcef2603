//! Two-dimensional convolution as a matrix product: what each tap of the kernel sees is laid out as a row of a
//! matrix (im2col), one sample at a time so that it stays in the cache.
//!
//! With stride 1 the rows are kept as wide as the (padded) image, not as the output: then what a tap sees is one
//! contiguous run of the image, and laying it out is a handful of long copies instead of thousands of short
//! ones. The few positions too many at the end of each line are computed and dropped. Measured on the CIFAR-10
//! network this halves the time of a training step.

use crate::Scalar;
use crate::gemm::{Rows, product};
use crate::scalar::vectorised;

/// Parameters are W `[out, channels, kernel, kernel]`, then b `[out]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conv2d {
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) out: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) out_height: usize,
    pub(crate) out_width: usize,
}

impl Conv2d {
    /// Rows of the patch matrix: the taps of the kernel, channels x kernel x kernel.
    const fn taps(&self) -> usize {
        self.channels * self.kernel * self.kernel
    }

    const fn weights(&self) -> usize {
        self.out * self.taps()
    }

    const fn inputs(&self) -> usize {
        self.channels * self.height * self.width
    }

    const fn positions(&self) -> usize {
        self.out_height * self.out_width
    }

    pub(crate) const fn outputs(&self) -> usize {
        self.out * self.positions()
    }

    /// Whether the patch matrix is as wide as the padded image.
    const fn wide(&self) -> bool {
        self.stride == 1
    }

    const fn padded_width(&self) -> usize {
        self.width + 2 * self.padding
    }

    const fn padded_plane(&self) -> usize {
        (self.height + 2 * self.padding) * self.padded_width()
    }

    /// Distance between lines of the output in the patch matrix.
    const fn pitch(&self) -> usize {
        if self.wide() { self.padded_width() } else { self.out_width }
    }

    /// Columns of the patch matrix.
    const fn columns(&self) -> usize {
        (self.out_height - 1) * self.pitch() + self.out_width
    }

    /// Values of scratch space: the patch matrix, outputs at its pitch, and a padded image.
    pub(crate) const fn scratch(&self) -> usize {
        (self.taps() + self.out) * self.columns() + self.channels * self.padded_plane()
    }

    fn split_scratch<'a, T>(&self, scratch: &'a mut [T]) -> Scratch<'a, T> {
        let (patches, rest) = scratch.split_at_mut(self.taps() * self.columns());
        let (outputs, rest) = rest.split_at_mut(self.out * self.columns());
        Scratch { patches, outputs, padded: &mut rest[..self.channels * self.padded_plane()] }
    }

    pub(crate) fn forward<T: Scalar>(
        &self,
        parameters: &[T],
        x: &[T],
        y: &mut [T],
        batch: usize,
        scratch: &mut [T],
    ) {
        let (weight, bias) = parameters.split_at(self.weights());
        let weight = Rows::new(weight, self.out, self.taps());
        let Scratch { patches, outputs, padded } = self.split_scratch(scratch);
        let samples = x.chunks_exact(self.inputs()).zip(y.chunks_exact_mut(self.outputs()));
        for (image, output) in samples.take(batch) {
            vectorised(
                #[inline(always)]
                || self.unfold(image, patches, padded),
            );
            product(outputs, weight, Rows::new(patches, self.taps(), self.columns()), false);
            let channels =
                output.chunks_exact_mut(self.positions()).zip(outputs.chunks_exact(self.columns()));
            vectorised(
                #[inline(always)]
                || {
                    for ((channel, wide), &bias) in channels.zip(bias) {
                        for (line, from) in
                            channel.chunks_exact_mut(self.out_width).zip(wide.chunks(self.pitch()))
                        {
                            for (value, &from) in line.iter_mut().zip(from) {
                                *value = from + bias;
                            }
                        }
                    }
                },
            );
        }
    }

    pub(crate) fn input_gradient<T: Scalar>(
        &self,
        parameters: &[T],
        dy: &[T],
        dx: &mut [T],
        batch: usize,
        scratch: &mut [T],
    ) {
        let weight = Rows::new(parameters, self.out, self.taps());
        let Scratch { patches, outputs, padded } = self.split_scratch(scratch);
        let samples = dy.chunks_exact(self.outputs()).zip(dx.chunks_exact_mut(self.inputs()));
        for (output, image) in samples.take(batch) {
            vectorised(
                #[inline(always)]
                || self.spread(output, outputs),
            );
            product(patches, weight.t(), Rows::new(outputs, self.out, self.columns()), false);
            self.fold(patches, image, padded);
        }
    }

    pub(crate) fn parameter_gradient<T: Scalar>(
        &self,
        x: &[T],
        dy: &[T],
        batch: usize,
        gradient: &mut [T],
        scratch: &mut [T],
    ) {
        gradient.fill(T::zero());
        let (weight, bias) = gradient.split_at_mut(self.weights());
        let Scratch { patches, outputs, padded } = self.split_scratch(scratch);
        let samples = x.chunks_exact(self.inputs()).zip(dy.chunks_exact(self.outputs()));
        for (image, output) in samples.take(batch) {
            vectorised(
                #[inline(always)]
                || self.unfold(image, patches, padded),
            );
            vectorised(
                #[inline(always)]
                || self.spread(output, outputs),
            );
            let patches = Rows::new(patches, self.taps(), self.columns());
            product(weight, Rows::new(outputs, self.out, self.columns()), patches.t(), true);
            for (sum, channel) in bias.iter_mut().zip(output.chunks_exact(self.positions())) {
                *sum += total(channel);
            }
        }
    }

    pub(crate) fn derivative<T: Scalar>(&self, image: &[T], dy: &[T], index: usize) -> T {
        if index >= self.weights() {
            return total(&dy[(index - self.weights()) * self.positions()..][..self.positions()]);
        }
        let (channel, tap) = (index / self.taps(), self.tap(index % self.taps()));
        let mut sum = T::zero();
        for row in 0..self.out_height {
            let Some(y) = (row * self.stride + tap.y).checked_sub(self.padding) else { continue };
            if y >= self.height {
                break;
            }
            let source = &image[(tap.channel * self.height + y) * self.width..][..self.width];
            let gradients = &dy[channel * self.positions() + row * self.out_width..][..self.out_width];
            for (column, &gradient) in gradients.iter().enumerate() {
                let x = (column * self.stride + tap.x).checked_sub(self.padding);
                sum += x.and_then(|x| source.get(x)).map_or(T::zero(), |&pixel| gradient * pixel);
            }
        }
        sum
    }

    fn tap(&self, row: usize) -> Tap {
        let square = self.kernel * self.kernel;
        Tap { channel: row / square, y: row % square / self.kernel, x: row % self.kernel }
    }

    /// Where in the padded image a tap reads for the first output position.
    fn origin(&self, row: usize) -> usize {
        let tap = self.tap(row);
        tap.channel * self.padded_plane() + tap.y * self.padded_width() + tap.x
    }

    /// im2col: row (channel, ky, kx) of `patches` holds what that tap of the kernel sees at every position.
    #[inline(always)]
    fn unfold<T: Scalar>(&self, image: &[T], patches: &mut [T], padded: &mut [T]) {
        let source = if self.padding == 0 {
            image
        } else {
            self.pad(image, padded);
            padded
        };
        for (row, line) in patches.chunks_exact_mut(self.columns()).enumerate() {
            let source = &source[self.origin(row)..];
            if self.wide() {
                line.copy_from_slice(&source[..line.len()]);
            } else {
                let lines = source.chunks(self.stride * self.padded_width());
                for (target, source) in line.chunks_exact_mut(self.out_width).zip(lines) {
                    for (value, &pixel) in target.iter_mut().zip(source.iter().step_by(self.stride)) {
                        *value = pixel;
                    }
                }
            }
        }
    }

    /// col2im, the transpose of [`Self::unfold`]: adds what every tap brings to the pixels it read.
    fn fold<T: Scalar>(&self, patches: &[T], image: &mut [T], padded: &mut [T]) {
        let target = if self.padding == 0 { &mut *image } else { &mut *padded };
        target.fill(T::zero());
        vectorised(
            #[inline(always)]
            || {
                for (row, line) in patches.chunks_exact(self.columns()).enumerate() {
                    let target = &mut target[self.origin(row)..];
                    if self.wide() {
                        for (pixel, &value) in target.iter_mut().zip(line) {
                            *pixel += value;
                        }
                    } else {
                        let lines = target.chunks_mut(self.stride * self.padded_width());
                        for (values, target) in line.chunks_exact(self.out_width).zip(lines) {
                            for (pixel, &value) in target.iter_mut().step_by(self.stride).zip(values) {
                                *pixel += value;
                            }
                        }
                    }
                }
            },
        );
        if self.padding > 0 {
            for (line, from) in image.chunks_exact_mut(self.width).zip(self.lines(padded)) {
                line.copy_from_slice(from);
            }
        }
    }

    /// Copies the image into the middle of `padded`, zeros around it.
    fn pad<T: Scalar>(&self, image: &[T], padded: &mut [T]) {
        padded.fill(T::zero());
        let planes = padded.chunks_exact_mut(self.padded_plane());
        for (plane, image) in planes.zip(image.chunks_exact(self.height * self.width)) {
            let lines = plane.chunks_exact_mut(self.padded_width()).skip(self.padding);
            for (line, from) in lines.zip(image.chunks_exact(self.width)) {
                line[self.padding..self.padding + self.width].copy_from_slice(from);
            }
        }
    }

    /// The lines of the image within a padded one.
    fn lines<'a, T: Scalar>(&self, padded: &'a [T]) -> impl Iterator<Item = &'a [T]> {
        let Self { padding, height, width, .. } = *self;
        let padded_width = self.padded_width();
        padded.chunks_exact(self.padded_plane()).flat_map(move |plane| {
            let lines = plane.chunks_exact(padded_width).skip(padding).take(height);
            lines.map(move |line| &line[padding..padding + width])
        })
    }

    /// Lays an output's gradient out at the pitch of the patch matrix; the positions too many get zero.
    #[inline(always)]
    fn spread<T: Scalar>(&self, output: &[T], wide: &mut [T]) {
        let channels = output.chunks_exact(self.positions()).zip(wide.chunks_exact_mut(self.columns()));
        for (channel, wide) in channels {
            for (line, to) in channel.chunks_exact(self.out_width).zip(wide.chunks_mut(self.pitch())) {
                let (own, beyond) = to.split_at_mut(self.out_width);
                own.copy_from_slice(line);
                beyond.fill(T::zero());
            }
        }
    }
}

struct Scratch<'a, T> {
    patches: &'a mut [T],
    outputs: &'a mut [T],
    padded: &'a mut [T],
}

/// One weight's place in the kernel.
#[derive(Clone, Copy)]
struct Tap {
    channel: usize,
    y: usize,
    x: usize,
}

/// A sum in sixteen strands, so that it runs in vector registers; the order is fixed.
fn total<T: Scalar>(values: &[T]) -> T {
    vectorised(
        #[inline(always)]
        || {
            let mut strands = [T::zero(); 16];
            let blocks = values.chunks_exact(16);
            let rest = blocks.remainder();
            for block in blocks {
                for (strand, &value) in strands.iter_mut().zip(block) {
                    *strand += value;
                }
            }
            let head = strands.iter().fold(T::zero(), |a, &b| a + b);
            rest.iter().fold(head, |a, &b| a + b)
        },
    )
}
