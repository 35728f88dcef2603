//! The layers: forward, gradient to the input, gradient to the parameters, columns of the Jacobian.
//!
//! Batches are row-major, one sample a row; an image is `[channels, height, width]` within its row. Every
//! function writes into memory it is given.

mod activation;
mod conv;
mod linear;
mod pool;

pub(crate) use activation::Activation;
pub(crate) use conv::{ColumnScratch, Columns, Conv2d, ConvColumns, ScatterScratch};
pub(crate) use linear::Linear;
pub(crate) use pool::{Pool, PoolKind};

use crate::Scalar;

/// A layer with its sizes worked out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Layer {
    Linear(Linear),
    Conv(Conv2d),
    Pool(Pool),
    Activation(Activation),
    /// Changes the shape at most, and no value; its output *is* its input.
    Flatten,
}

impl Layer {
    /// Values of scratch space a convolution needs, for any batch (none for other layers).
    pub(crate) const fn scratch(&self) -> usize {
        match self {
            Self::Conv(conv) => conv.scratch(),
            _ => 0,
        }
    }

    /// Gradient of the loss in the layer's parameters: overwrites `gradient` (weight, then bias).
    pub(crate) fn parameter_gradient<T: Scalar>(
        &self,
        inputs: &[T],
        output_gradient: &[T],
        batch: usize,
        gradient: &mut [T],
        scratch: &mut [T],
    ) {
        match self {
            Self::Linear(linear) => linear.parameter_gradient(inputs, output_gradient, batch, gradient),
            Self::Conv(conv) => conv.parameter_gradient(inputs, output_gradient, batch, gradient, scratch),
            Self::Pool(_) | Self::Activation(_) | Self::Flatten => {}
        }
    }
}
