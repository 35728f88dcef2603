//! Gaussian noise of one standard deviation on all parameters, or of another one on those of convolutions.
//!
//! Training under it minimises `E[loss(theta + sigma z)]`, z standard normal: parameters that a wide neighbourhood of
//! does well, not just a point. An output of a linear layer is then `y + sigma |(x, 1)| e`.

use std::ops::Range;

use rand::Rng;
use rand_distr::{Distribution as _, StandardNormal};

use super::{Kind, LayerNoise, Perturb};
use crate::layers::Linear;
use crate::scalar::{strand_sum, vectorised};
use crate::{LayerSet, Scalar};

/// Gaussian noise on the parameters of some layers.
#[derive(Clone, Copy, Debug)]
pub struct WeightNoise<'a> {
    /// Which layers, frozen or not.
    pub layers: &'a LayerSet,
    /// Its standard deviation in linear layers.
    pub deviation: f64,
    /// Its standard deviation in convolutions: a weight there is used at every place, so that noise on it does not average
    /// out over the inputs of a unit.
    pub convolution_deviation: f64,
}

/// Draws of it.
pub(crate) struct Uniform<'a, R> {
    pub(crate) noise: WeightNoise<'a>,
    pub(crate) rng: &'a mut R,
}

impl<T: Scalar, R: Rng> Perturb<T> for Uniform<'_, R> {
    fn outputs(
        &mut self,
        layer: usize,
        _: Range<usize>,
        linear: &Linear,
        noise: Option<&mut LayerNoise<T>>,
        x: &[T],
        y: &mut [T],
    ) {
        match noise {
            Some(noise) if self.noise.layers.contains(layer) => {
                noise.perturb_uniformly(linear, self.noise.deviation, x, y, self.rng);
            }
            Some(noise) => noise.kind = Kind::None,
            None => {}
        }
    }

    fn weights<'a>(
        &mut self,
        layer: usize,
        _: Range<usize>,
        noise: Option<&'a mut LayerNoise<T>>,
        parameters: &'a [T],
    ) -> &'a [T] {
        match noise {
            Some(noise) if self.noise.layers.contains(layer) && self.noise.convolution_deviation > 0.0 => {
                noise.kind = Kind::Weights;
                noise.drawn.clear();
                noise.drawn.extend(parameters.iter().map(|&parameter| {
                    let draw: f64 = StandardNormal.sample(self.rng);
                    parameter + T::of(self.noise.convolution_deviation * draw)
                }));
                &noise.drawn
            }
            Some(noise) => {
                noise.kind = Kind::None;
                parameters
            }
            None => parameters,
        }
    }
}

impl<T: Scalar> LayerNoise<T> {
    /// Draws a linear layer's noise for inputs `x` and adds it to the outputs `y`.
    fn perturb_uniformly(
        &mut self,
        linear: &Linear,
        deviation: f64,
        x: &[T],
        y: &mut [T],
        rng: &mut impl Rng,
    ) {
        self.kind = Kind::Uniform;
        let Self { factors, norms, .. } = self;
        factors.clear();
        factors.extend(y.iter().map(|_| {
            let draw: f64 = StandardNormal.sample(rng);
            T::of(deviation * draw)
        }));
        norms.clear();
        vectorised(
            #[inline(always)]
            || {
                let samples = x.chunks_exact(linear.inputs).zip(y.chunks_exact_mut(linear.outputs));
                for ((x, y), factors) in samples.zip(factors.chunks_exact(linear.outputs)) {
                    let norm = num_traits::Float::sqrt(T::one() + strand_sum(x, |x| x * x));
                    norms.push(norm);
                    for (y, &factor) in y.iter_mut().zip(factors) {
                        *y += norm * factor;
                    }
                }
            },
        );
    }

    /// Adds to `dx` how a linear layer's noise depends on its inputs: `d(sigma |(x, 1)| e)/dx = sigma e x / |(x, 1)|`.
    pub(crate) fn add_uniform_input_gradient(&self, linear: &Linear, x: &[T], dy: &[T], dx: &mut [T]) {
        let samples = x.chunks_exact(linear.inputs).zip(dx.chunks_exact_mut(linear.inputs));
        let outputs = dy.chunks_exact(linear.outputs).zip(self.factors.chunks_exact(linear.outputs));
        for (((x, dx), (dy, factors)), &norm) in samples.zip(outputs).zip(&self.norms) {
            let pull = dy.iter().zip(factors).fold(T::zero(), |sum, (&dy, &factor)| sum + dy * factor) / norm;
            for (dx, &x) in dx.iter_mut().zip(x) {
                *dx += pull * x;
            }
        }
    }
}
