//! Random parameters while training.
//!
//! A forward pass may draw the parameters of layers anew, around the values it is given. For a linear layer it is
//! enough to draw what that does to the outputs (the local reparameterisation of Kingma, Salimans and Welling 2015):
//! independent parameters give outputs that are independent normals, one draw an output instead of one a weight, and
//! with less variance in the gradient. A convolution has few weights and shares them over positions, so there the
//! weights themselves are drawn, once a step.
//!
//! - [`uniform`]: one standard deviation for all parameters, which stays as it is.
//! - [`factorised`]: a variance for each parameter, which can be trained too.

pub(crate) mod factorised;
mod normals;
pub(crate) mod uniform;

use std::ops::Range;

use crate::layers::Linear;

/// What one layer's noise was in the last forward pass; the backward pass needs it. Memory is kept from pass to pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerNoise<T> {
    pub(crate) kind: Kind,
    /// For every output of every sample. Uniform: `sigma e`; factorised: `e / (2 s)`, s its standard deviation.
    factors: Vec<T>,
    /// Uniform: `|(x, 1)|` of every sample.
    norms: Vec<T>,
    /// Factorised: the squares of the inputs.
    squares: Vec<T>,
    /// Factorised: the loss's gradient in the variance of every output of every sample, once the backward pass has come
    /// by. Drawn weights: how each depends on its own variance, `e / (2 sigma)`.
    slopes: Vec<T>,
    /// Weights that were used instead of the given ones.
    drawn: Vec<T>,
}

/// How a layer was perturbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not at all.
    #[default]
    None,
    /// A linear layer under one standard deviation.
    Uniform,
    /// A linear layer under a variance for each parameter.
    Factorised,
    /// A convolution with drawn weights.
    Weights,
}

impl<T> LayerNoise<T> {
    /// The weights that were used, where they were drawn.
    pub(crate) fn drawn(&self) -> Option<&[T]> {
        (self.kind == Kind::Weights).then_some(&self.drawn)
    }
}

/// What happens to a layer with parameters in the forward pass. `own` is where its parameters lie.
pub(crate) trait Perturb<T> {
    /// After a linear layer: changes its outputs.
    fn outputs(
        &mut self,
        layer: usize,
        own: Range<usize>,
        linear: &Linear,
        noise: Option<&mut LayerNoise<T>>,
        x: &[T],
        y: &mut [T],
    );
    /// Before a convolution: the parameters to use.
    fn weights<'a>(
        &mut self,
        layer: usize,
        own: Range<usize>,
        noise: Option<&'a mut LayerNoise<T>>,
        parameters: &'a [T],
    ) -> &'a [T];
}

/// Nothing happens.
pub(crate) struct Exact;

impl<T> Perturb<T> for Exact {
    fn outputs(
        &mut self,
        _: usize,
        _: Range<usize>,
        _: &Linear,
        _: Option<&mut LayerNoise<T>>,
        _: &[T],
        _: &mut [T],
    ) {
    }

    fn weights<'a>(
        &mut self,
        _: usize,
        _: Range<usize>,
        _: Option<&'a mut LayerNoise<T>>,
        parameters: &'a [T],
    ) -> &'a [T] {
        parameters
    }
}
