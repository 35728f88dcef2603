//! Two-dimensional convolution: with stride 1 straight from the image ([`direct`]), with larger strides as a
//! matrix product ([`unfolded`]).

mod columns;
mod direct;
mod kernels;
mod picked;
#[cfg(test)]
mod row_tests;
mod scatter;
#[cfg(test)]
mod tests;
mod unfolded;
mod vectors;

pub(crate) use columns::{ColumnScratch, Columns, ConvColumns};
pub(crate) use scatter::ScatterScratch;

use crate::Scalar;
use crate::scalar::{strand_sum, vectorised};

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
    /// The taps of the kernel, channels x kernel x kernel.
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

    const fn padded_width(&self) -> usize {
        self.width + 2 * self.padding
    }

    const fn padded_plane(&self) -> usize {
        (self.height + 2 * self.padding) * self.padded_width()
    }

    /// Values of scratch space, for any batch.
    pub(crate) const fn scratch(&self) -> usize {
        if self.stride == 1 { direct::scratch(self) } else { unfolded::scratch(self) }
    }

    pub(crate) fn forward<T: Scalar>(
        &self,
        parameters: &[T],
        x: &[T],
        y: &mut [T],
        batch: usize,
        scratch: &mut [T],
    ) {
        let (x, y) = (&x[..batch * self.inputs()], &mut y[..batch * self.outputs()]);
        if self.stride == 1 {
            direct::forward(self, parameters, x, y, scratch);
        } else {
            unfolded::forward(self, parameters, x, y, scratch);
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
        let (dy, dx) = (&dy[..batch * self.outputs()], &mut dx[..batch * self.inputs()]);
        if self.stride == 1 {
            direct::input_gradient(self, parameters, dy, dx, scratch);
        } else {
            unfolded::input_gradient(self, parameters, dy, dx, scratch);
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
        let (x, dy) = (&x[..batch * self.inputs()], &dy[..batch * self.outputs()]);
        gradient.fill(T::zero());
        let (weight, bias) = gradient.split_at_mut(self.weights());
        if self.stride == 1 {
            direct::weight_gradient(self, x, dy, weight, scratch);
        } else {
            unfolded::weight_gradient(self, x, dy, weight, scratch);
        }
        for output in dy.chunks_exact(self.outputs()) {
            for (sum, channel) in bias.iter_mut().zip(output.chunks_exact(self.positions())) {
                *sum += total(channel);
            }
        }
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

    /// Where the lines of an image start in the padded one.
    fn padded_lines(&self) -> impl Iterator<Item = usize> + use<> {
        let Self { channels, height, padding, .. } = *self;
        let (plane, width) = (self.padded_plane(), self.padded_width());
        let lines = move |channel| {
            (padding..padding + height).map(move |line| channel * plane + line * width + padding)
        };
        (0..channels).flat_map(lines)
    }
}

/// One weight's place in the kernel.
#[derive(Clone, Copy)]
struct Tap {
    channel: usize,
    y: usize,
    x: usize,
}

/// The sum of the values.
fn total<T: Scalar>(values: &[T]) -> T {
    vectorised(
        #[inline(always)]
        || strand_sum(values, |value| value),
    )
}
