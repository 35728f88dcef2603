//! Gaussian noise on weights while training.
//!
//! Training under noise minimises `E[loss(theta + sigma z)]`, z standard normal: parameters that a wide
//! neighbourhood of does well, not just a point. A fresh z for every step would cost as many normal draws as there
//! are parameters; for a linear layer it is enough to draw what the noise does to the outputs (the local
//! reparameterisation of Kingma, Salimans and Welling 2015): independent for each sample and output,
//! `y + sigma |(x, 1)| e`, one draw an output, and with less variance in the gradient. A convolution has few
//! weights and shares them over positions, so there the weights themselves are drawn, once a step.

use rand::Rng;
use rand_distr::{Distribution as _, StandardNormal};

use crate::Scalar;
use crate::layers::Linear;
use crate::scalar::vectorised;

/// What one layer's noise was in the last noisy forward pass; the way back needs it.
#[derive(Clone, Debug)]
pub(crate) enum LayerNoise<T> {
    /// The layer has no noise.
    None,
    /// A linear layer: for every output of every sample `sigma e`, and for every sample `|(x, 1)|`.
    Outputs { scaled: Vec<T>, norms: Vec<T> },
    /// A convolution: the parameters that were used.
    Weights(Vec<T>),
}

impl<T: Scalar> LayerNoise<T> {
    /// Draws a linear layer's noise for inputs `x` and adds it to the outputs `y`.
    pub(crate) fn perturb_outputs(
        &mut self,
        linear: &Linear,
        deviation: f64,
        x: &[T],
        y: &mut [T],
        rng: &mut impl Rng,
    ) {
        if !matches!(self, Self::Outputs { .. }) {
            *self = Self::Outputs { scaled: Vec::new(), norms: Vec::new() };
        }
        let Self::Outputs { scaled, norms } = self else { return };
        scaled.clear();
        scaled.extend(y.iter().map(|_| {
            let draw: f64 = StandardNormal.sample(rng);
            T::of(deviation * draw)
        }));
        norms.clear();
        vectorised(
            #[inline(always)]
            || {
                let samples = x.chunks_exact(linear.inputs).zip(y.chunks_exact_mut(linear.outputs));
                for ((x, y), scaled) in samples.zip(scaled.chunks_exact(linear.outputs)) {
                    let norm = num_traits::Float::sqrt(T::one() + square_sum(x));
                    norms.push(norm);
                    for (y, &scaled) in y.iter_mut().zip(scaled) {
                        *y += norm * scaled;
                    }
                }
            },
        );
    }

    /// Draws a layer's parameters around `parameters`, and returns them.
    pub(crate) fn perturb_weights(&mut self, deviation: f64, parameters: &[T], rng: &mut impl Rng) -> &[T] {
        if !matches!(self, Self::Weights(_)) {
            *self = Self::Weights(Vec::new());
        }
        let Self::Weights(drawn) = self else { return &[] };
        drawn.clear();
        drawn.extend(parameters.iter().map(|&parameter| {
            let draw: f64 = StandardNormal.sample(rng);
            parameter + T::of(deviation * draw)
        }));
        drawn
    }

    /// Adds to `dx` how a linear layer's noise depends on its inputs: `d(sigma |(x, 1)| e)/dx = sigma e x / |(x, 1)|`.
    pub(crate) fn add_input_gradient(&self, linear: &Linear, x: &[T], dy: &[T], dx: &mut [T]) {
        let Self::Outputs { scaled, norms } = self else { return };
        let samples = x.chunks_exact(linear.inputs).zip(dx.chunks_exact_mut(linear.inputs));
        let outputs = dy.chunks_exact(linear.outputs).zip(scaled.chunks_exact(linear.outputs));
        for (((x, dx), (dy, scaled)), &norm) in samples.zip(outputs).zip(norms) {
            let pull = dy.iter().zip(scaled).fold(T::zero(), |sum, (&dy, &scaled)| sum + dy * scaled) / norm;
            for (dx, &x) in dx.iter_mut().zip(x) {
                *dx += pull * x;
            }
        }
    }
}

/// A sum of squares in sixteen strands, so that it runs in vector registers; the order is fixed.
#[inline(always)]
fn square_sum<T: Scalar>(values: &[T]) -> T {
    let mut strands = [T::zero(); 16];
    let blocks = values.chunks_exact(16);
    let rest = blocks.remainder();
    for block in blocks {
        for (strand, &value) in strands.iter_mut().zip(block) {
            *strand += value * value;
        }
    }
    let head = strands.iter().fold(T::zero(), |a, &b| a + b);
    rest.iter().fold(head, |a, &b| a + b * b)
}
