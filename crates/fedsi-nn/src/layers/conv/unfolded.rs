//! Strided convolution as a matrix product: what each tap of the kernel sees is laid out as a row of a matrix
//! (im2col), one sample at a time so that it stays in the cache. Cost: the product, and writing and reading the
//! image once for every place in the kernel.

use super::Conv2d;
use crate::Scalar;
use crate::gemm::{Rows, product};
use crate::scalar::vectorised;

/// Values of scratch space: the patch matrix and a padded image.
pub(super) const fn scratch(conv: &Conv2d) -> usize {
    conv.taps() * conv.positions() + conv.channels * conv.padded_plane()
}

pub(super) fn forward<T: Scalar>(conv: &Conv2d, parameters: &[T], x: &[T], y: &mut [T], scratch: &mut [T]) {
    let (weight, bias) = parameters.split_at(conv.weights());
    let weight = Rows::new(weight, conv.out, conv.taps());
    let (patches, padded) = split(conv, scratch);
    for (image, output) in x.chunks_exact(conv.inputs()).zip(y.chunks_exact_mut(conv.outputs())) {
        unfold(conv, image, patches, padded);
        for (channel, &bias) in output.chunks_exact_mut(conv.positions()).zip(bias) {
            channel.fill(bias);
        }
        product(output, weight, Rows::new(patches, conv.taps(), conv.positions()), true);
    }
}

pub(super) fn input_gradient<T: Scalar>(
    conv: &Conv2d,
    parameters: &[T],
    dy: &[T],
    dx: &mut [T],
    scratch: &mut [T],
) {
    let weight = Rows::new(parameters, conv.out, conv.taps());
    let (patches, padded) = split(conv, scratch);
    for (output, image) in dy.chunks_exact(conv.outputs()).zip(dx.chunks_exact_mut(conv.inputs())) {
        product(patches, weight.t(), Rows::new(output, conv.out, conv.positions()), false);
        fold(conv, patches, image, padded);
    }
}

/// Adds to `gradient`.
pub(super) fn weight_gradient<T: Scalar>(
    conv: &Conv2d,
    x: &[T],
    dy: &[T],
    gradient: &mut [T],
    scratch: &mut [T],
) {
    let (patches, padded) = split(conv, scratch);
    for (image, output) in x.chunks_exact(conv.inputs()).zip(dy.chunks_exact(conv.outputs())) {
        unfold(conv, image, patches, padded);
        let patches = Rows::new(patches, conv.taps(), conv.positions());
        product(gradient, Rows::new(output, conv.out, conv.positions()), patches.t(), true);
    }
}

fn split<'a, T>(conv: &Conv2d, scratch: &'a mut [T]) -> (&'a mut [T], &'a mut [T]) {
    let (patches, rest) = scratch.split_at_mut(conv.taps() * conv.positions());
    (patches, &mut rest[..conv.channels * conv.padded_plane()])
}

/// im2col: row (channel, ky, kx) of `patches` holds what that tap of the kernel sees at every position.
fn unfold<T: Scalar>(conv: &Conv2d, image: &[T], patches: &mut [T], padded: &mut [T]) {
    let source = if conv.padding == 0 {
        image
    } else {
        padded.fill(T::zero());
        let lines = conv.padded_lines().zip(image.chunks_exact(conv.width));
        for (at, line) in lines {
            padded[at..at + conv.width].copy_from_slice(line);
        }
        padded
    };
    vectorised(
        #[inline(always)]
        || {
            for (row, line) in patches.chunks_exact_mut(conv.positions()).enumerate() {
                let lines = source[conv.origin(row)..].chunks(conv.stride * conv.padded_width());
                for (target, source) in line.chunks_exact_mut(conv.out_width).zip(lines) {
                    for (value, &pixel) in target.iter_mut().zip(source.iter().step_by(conv.stride)) {
                        *value = pixel;
                    }
                }
            }
        },
    );
}

/// col2im, the transpose of [`unfold`]: adds what every tap brings to the pixels it read.
fn fold<T: Scalar>(conv: &Conv2d, patches: &[T], image: &mut [T], padded: &mut [T]) {
    let target = if conv.padding == 0 { &mut *image } else { &mut *padded };
    target.fill(T::zero());
    vectorised(
        #[inline(always)]
        || {
            for (row, line) in patches.chunks_exact(conv.positions()).enumerate() {
                let lines = target[conv.origin(row)..].chunks_mut(conv.stride * conv.padded_width());
                for (values, target) in line.chunks_exact(conv.out_width).zip(lines) {
                    for (pixel, &value) in target.iter_mut().step_by(conv.stride).zip(values) {
                        *pixel += value;
                    }
                }
            }
        },
    );
    if conv.padding > 0 {
        for (line, at) in image.chunks_exact_mut(conv.width).zip(conv.padded_lines()) {
            line.copy_from_slice(&padded[at..at + conv.width]);
        }
    }
}
