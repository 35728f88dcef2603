//! PyTorch's default initialisation.

use rand::{Rng, RngExt as _};

use crate::{Network, Scalar};

impl Network {
    /// Draws parameters as PyTorch's `Linear` and `Conv2d` do by default: weights and biases uniform in
    /// ±1/sqrt(fan in). Weight before bias, layer after layer, one draw a parameter.
    #[must_use]
    pub fn initialise<T: Scalar>(&self, rng: &mut impl Rng) -> Vec<T> {
        let mut parameters = Vec::with_capacity(self.layout().len());
        let mut bound = 0.0;
        for tensor in self.layout().tensors() {
            // A bias has its weight's bound, and always follows it.
            if tensor.shape.len() > 1 {
                let fan_in: usize = tensor.shape[1..].iter().product();
                bound = 1.0 / (fan_in as f64).sqrt();
            }
            parameters.extend(
                tensor.range.clone().map(|_| T::of(bound * (2.0 * f64::from(rng.random::<f32>()) - 1.0))),
            );
        }
        parameters
    }
}
