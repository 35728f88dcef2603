//! Fully connected layer: `y = W x + b`.

use crate::Scalar;
use crate::gemm::{Rows, product};
use crate::scalar::vectorised;

/// `inputs -> outputs`; parameters are W `[outputs, inputs]`, then b `[outputs]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Linear {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

impl Linear {
    pub(crate) fn forward<T: Scalar>(&self, parameters: &[T], x: &[T], y: &mut [T], batch: usize) {
        let (weight, bias) = parameters.split_at(self.outputs * self.inputs);
        for row in y[..batch * self.outputs].chunks_exact_mut(self.outputs) {
            row.copy_from_slice(bias);
        }
        let weight = Rows::new(weight, self.outputs, self.inputs);
        product(y, Rows::new(x, batch, self.inputs), weight.t(), true);
    }

    pub(crate) fn input_gradient<T: Scalar>(&self, parameters: &[T], dy: &[T], dx: &mut [T], batch: usize) {
        let weight = Rows::new(parameters, self.outputs, self.inputs);
        product(dx, Rows::new(dy, batch, self.outputs), weight, false);
    }

    pub(crate) fn parameter_gradient<T: Scalar>(&self, x: &[T], dy: &[T], batch: usize, gradient: &mut [T]) {
        let (weight, bias) = gradient.split_at_mut(self.outputs * self.inputs);
        product(weight, Rows::new(dy, batch, self.outputs).t(), Rows::new(x, batch, self.inputs), false);
        bias.fill(T::zero());
        vectorised(
            #[inline(always)]
            || {
                for row in dy[..batch * self.outputs].chunks_exact(self.outputs) {
                    for (sum, &value) in bias.iter_mut().zip(row) {
                        *sum += value;
                    }
                }
            },
        );
    }

    pub(crate) fn derivative<T: Scalar>(&self, x: &[T], dy: &[T], index: usize) -> T {
        let weights = self.outputs * self.inputs;
        if index < weights { dy[index / self.inputs] * x[index % self.inputs] } else { dy[index - weights] }
    }
}
