//! Parameters that are independent normals, each with its own mean and variance.
//!
//! An output of a linear layer is then normal with mean `W x + b` and variance `v = V x^2 + u`, where V and u are the
//! variances of weights and biases: it is drawn as `y + sqrt(v) e`. With `c = dy e / (2 sqrt(v))`, the gradient in an
//! output's variance, the gradient in V is `c' x^2`, in u the sum of c, and the input's gradient gains `2 x (c V)`. All
//! of it costs what the deterministic layer costs once more.

use std::ops::Range;

use num_traits::Float;
use rand::Rng;

use super::normals::Normals;
use super::{Kind, LayerNoise, Perturb};
use crate::Scalar;
use crate::gemm::{Rows, product};
use crate::layers::Linear;
use crate::scalar::vectorised;

/// A variance for each parameter of the network, in the order of the flat parameters.
pub(crate) struct Factorised<'a, T> {
    variance: &'a [T],
    /// Thousands of draws a step: a generator that is quicker than the streams it is seeded from.
    normals: Normals,
}

impl<'a, T> Factorised<'a, T> {
    pub(crate) fn new(variance: &'a [T], seed: &mut impl Rng) -> Self {
        Self { variance, normals: Normals::new(seed) }
    }
}

impl<T: Scalar> Perturb<T> for Factorised<'_, T> {
    fn outputs(
        &mut self,
        _: usize,
        own: Range<usize>,
        linear: &Linear,
        noise: Option<&mut LayerNoise<T>>,
        x: &[T],
        y: &mut [T],
    ) {
        if let Some(noise) = noise {
            noise.perturb_outputs(linear, &self.variance[own], x, y, &mut self.normals);
        }
    }

    fn weights<'a>(
        &mut self,
        _: usize,
        own: Range<usize>,
        noise: Option<&'a mut LayerNoise<T>>,
        parameters: &'a [T],
    ) -> &'a [T] {
        let Some(noise) = noise else { return parameters };
        noise.kind = Kind::Weights;
        noise.drawn.resize(parameters.len(), T::zero());
        noise.slopes.resize(parameters.len(), T::zero());
        self.normals.fill(&mut noise.slopes);
        let (drawn, slopes, variance) = (&mut noise.drawn, &mut noise.slopes, &self.variance[own]);
        vectorised(
            #[inline(always)]
            || {
                let found = drawn.iter_mut().zip(slopes.iter_mut());
                for ((&mean, &variance), (drawn, slope)) in parameters.iter().zip(variance).zip(found) {
                    let (draw, deviation) = (*slope, Float::sqrt(variance));
                    *drawn = mean + deviation * draw;
                    *slope = half_over(draw, deviation);
                }
            },
        );
        &noise.drawn
    }
}

/// `e / (2 s)`; 0 for what does not vary.
#[inline(always)]
fn half_over<T: Scalar>(draw: T, deviation: T) -> T {
    if deviation > T::zero() { draw / (deviation + deviation) } else { T::zero() }
}

impl<T: Scalar> LayerNoise<T> {
    /// Draws a linear layer's outputs around `y`.
    fn perturb_outputs(
        &mut self,
        linear: &Linear,
        variance: &[T],
        x: &[T],
        y: &mut [T],
        normals: &mut Normals,
    ) {
        self.kind = Kind::Factorised;
        let Self { factors, squares, slopes, .. } = self;
        let batch = y.len() / linear.outputs;
        factors.resize(y.len(), T::zero());
        normals.fill(factors);
        squares.resize(x.len(), T::zero());
        slopes.resize(y.len(), T::zero());
        vectorised(
            #[inline(always)]
            || squares.iter_mut().zip(x).for_each(|(square, &x)| *square = x * x),
        );
        linear.forward(variance, squares, slopes, batch);
        vectorised(
            #[inline(always)]
            || {
                for ((y, factor), &variance) in y.iter_mut().zip(factors).zip(&*slopes) {
                    let (draw, deviation) = (*factor, Float::sqrt(variance));
                    *y += deviation * draw;
                    *factor = half_over(draw, deviation);
                }
            },
        );
    }

    /// Once the gradient in the outputs is known: the gradient in their variances.
    pub(crate) fn find_slopes(&mut self, dy: &[T]) {
        let Self { factors, slopes, .. } = self;
        vectorised(
            #[inline(always)]
            || {
                for ((slope, &factor), &dy) in slopes.iter_mut().zip(&*factors).zip(dy) {
                    *slope = factor * dy;
                }
            },
        );
    }

    /// Writes the gradient in a linear layer's variances; [`Self::find_slopes`] comes before.
    pub(crate) fn variance_gradient(&self, linear: &Linear, batch: usize, gradient: &mut [T]) {
        linear.parameter_gradient(&self.squares, &self.slopes, batch, gradient);
    }

    /// Writes the gradient in the variances of drawn weights, from the gradient in these weights.
    pub(crate) fn drawn_variance_gradient(&self, weight_gradient: &[T], gradient: &mut [T]) {
        if self.kind == Kind::Weights {
            for ((gradient, &slope), &weight) in gradient.iter_mut().zip(&self.slopes).zip(weight_gradient) {
                *gradient = slope * weight;
            }
        }
    }

    /// Adds to `dx` how a linear layer's draw depends on its inputs. The squares of the inputs are gone after that.
    pub(crate) fn add_factorised_input_gradient(
        &mut self,
        linear: &Linear,
        variance: &[T],
        x: &[T],
        dx: &mut [T],
    ) {
        let batch = x.len() / linear.inputs;
        let Self { squares, slopes, .. } = self;
        let variance = Rows::new(variance, linear.outputs, linear.inputs);
        product(squares, Rows::new(slopes, batch, linear.outputs), variance, false);
        vectorised(
            #[inline(always)]
            || {
                for ((dx, &x), &pull) in dx.iter_mut().zip(x).zip(&*squares) {
                    *dx += (x + x) * pull;
                }
            },
        );
    }
}
