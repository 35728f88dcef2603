//! The memory of a forward pass, and the backward pass.

mod rows;

pub use rows::{LayerRows, RowSink};

use rand::Rng;

use crate::layers::{Layer, PoolKind};
use crate::noise::factorised::Factorised;
use crate::noise::uniform::{Uniform, WeightNoise};
use crate::noise::{Exact, Kind, LayerNoise, Perturb};
use crate::{LayerSet, Network, Scalar};

/// Activations and gradients of a batch, allocated once for the largest batch and reused.
///
/// Memory: one value for each activation of each sample, twice the widest layer for gradients, and the patch
/// matrix of one image for convolutions.
#[derive(Clone, Debug)]
pub struct Tape<T> {
    capacity: usize,
    batch: usize,
    /// `[0]` is the input; each layer that computes something adds one.
    activations: Vec<Vec<T>>,
    /// Which input won, for every output of every max pooling layer.
    winners: Vec<Vec<u32>>,
    /// Gradient in the output of the layer at hand, and room for the gradient in its input.
    gradient: Vec<T>,
    next_gradient: Vec<T>,
    scratch: Vec<T>,
    /// The noise of the last forward pass; empty where it had none.
    noise: Vec<LayerNoise<T>>,
    noisy: bool,
    /// Of [`Self::backward_rows`]; empty before its first call.
    rows: rows::RowMemory<T>,
}

/// Receives what a backward pass finds at each layer with parameters that was asked for.
pub trait GradientSink<T> {
    /// `inputs` and `output_gradient` are row-major, one sample a row. The gradient in the layer's parameters
    /// is a sum over samples of an outer product (linear) or of a sum of outer products (convolution).
    fn layer(&mut self, network: &Network, layer: usize, inputs: &[T], output_gradient: &[T], batch: usize);
}

/// The usual sink: the gradient summed over the batch, in the order of the flat parameters. Layers outside the
/// set asked for keep what they had.
#[derive(Clone, Debug)]
pub struct ParameterGradient<T> {
    values: Vec<T>,
    scratch: Vec<T>,
}

impl<T: Scalar> ParameterGradient<T> {
    /// Zeros, one for each parameter.
    #[must_use]
    pub fn new(network: &Network) -> Self {
        Self {
            values: vec![T::zero(); network.layout().len()],
            scratch: vec![T::zero(); largest_scratch(network)],
        }
    }

    /// The gradient, in the order of the flat parameters.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    pub(crate) fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

impl<T: Scalar> GradientSink<T> for ParameterGradient<T> {
    fn layer(&mut self, network: &Network, layer: usize, inputs: &[T], output_gradient: &[T], batch: usize) {
        let own = &mut self.values[network.layout().of_layer(layer)];
        network.layers[layer].parameter_gradient(inputs, output_gradient, batch, own, &mut self.scratch);
    }
}

fn largest_scratch(network: &Network) -> usize {
    network.layers.iter().map(Layer::scratch).max().unwrap_or(0)
}

impl<T: Scalar> Tape<T> {
    /// Room for batches of up to `capacity` samples.
    #[must_use]
    pub fn new(network: &Network, capacity: usize) -> Self {
        let mut activations = vec![vec![T::zero(); capacity * network.inputs()]];
        let mut winners = Vec::new();
        for (layer, &size) in network.layers.iter().zip(&network.sizes[1..]) {
            let room = if matches!(layer, Layer::Flatten) { None } else { Some(capacity * size) };
            activations.extend(room.map(|room| vec![T::zero(); room]));
            let pools = matches!(layer, Layer::Pool(pool) if pool.kind == PoolKind::Max);
            winners.push(if pools { vec![0; capacity * size] } else { Vec::new() });
        }
        let widest = network.sizes[1..].iter().copied().max().unwrap_or(0);
        Self {
            capacity,
            batch: 0,
            activations,
            winners,
            gradient: vec![T::zero(); capacity * widest],
            next_gradient: vec![T::zero(); capacity * widest],
            scratch: vec![T::zero(); largest_scratch(network)],
            noise: Vec::new(),
            noisy: false,
            rows: rows::RowMemory::default(),
        }
    }

    /// The largest batch there is room for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Samples of the batch at hand.
    #[must_use]
    pub const fn batch(&self) -> usize {
        self.batch
    }

    /// Where to write the inputs of the next batch of `batch` samples.
    ///
    /// # Panics
    /// If the batch is larger than the tape's capacity.
    pub fn inputs_mut(&mut self, network: &Network, batch: usize) -> &mut [T] {
        assert!(batch <= self.capacity, "a batch of {batch} on a tape for {}", self.capacity);
        self.batch = batch;
        &mut self.activations[0][..batch * network.inputs()]
    }

    /// Copies the rows of `inputs` that make the next batch.
    ///
    /// # Panics
    /// If the batch is larger than the tape's capacity.
    pub fn load(&mut self, network: &Network, inputs: &[T], rows: &[u32]) {
        let width = network.inputs();
        let batch = self.inputs_mut(network, rows.len());
        for (to, &row) in batch.chunks_exact_mut(width).zip(rows) {
            to.copy_from_slice(&inputs[row as usize * width..][..width]);
        }
    }

    /// Runs the batch written to [`Self::inputs_mut`] through all layers; returns the outputs (logits, or
    /// regression means).
    pub fn forward(&mut self, network: &Network, parameters: &[T]) -> &[T] {
        self.noisy = false;
        let slot = self.forward_to(network, parameters, network.layers.len(), &mut Exact);
        &self.activations[slot][..self.batch * network.outputs()]
    }

    /// [`Self::forward`] under Gaussian noise on parameters: independent noise for each sample in a linear layer, one draw for the batch in a convolution. A
    /// [`Self::backward`] that follows is the gradient of what these draws gave.
    pub fn forward_noisy(
        &mut self,
        network: &Network,
        parameters: &[T],
        noise: WeightNoise<'_>,
        rng: &mut impl Rng,
    ) -> &[T] {
        self.noisy = true;
        self.noise.resize_with(network.layers.len(), LayerNoise::default);
        let mut noise = Uniform { noise, rng };
        let slot = self.forward_to(network, parameters, network.layers.len(), &mut noise);
        &self.activations[slot][..self.batch * network.outputs()]
    }

    /// [`Self::forward`] with parameters drawn anew: independent normals with the given means and variances. For each
    /// sample on its own in a linear layer, once for the batch in a convolution. [`Self::backward_sampled`] is its
    /// backward pass. Cost: a second product in every linear layer.
    pub fn forward_sampled(
        &mut self,
        network: &Network,
        mean: &[T],
        variance: &[T],
        rng: &mut impl Rng,
    ) -> &[T] {
        self.noisy = true;
        self.noise.resize_with(network.layers.len(), LayerNoise::default);
        let mut noise = Factorised::new(variance, rng);
        let slot = self.forward_to(network, mean, network.layers.len(), &mut noise);
        &self.activations[slot][..self.batch * network.outputs()]
    }

    /// Runs the batch through all layers but the head; returns the features that the head would see.
    pub fn forward_body(&mut self, network: &Network, parameters: &[T]) -> &[T] {
        self.noisy = false;
        let slot = self.forward_to(network, parameters, network.layers.len() - 1, &mut Exact);
        &self.activations[slot][..self.batch * network.features()]
    }

    /// Runs the first `layers` layers; returns the slot of the last activations.
    fn forward_to(
        &mut self,
        network: &Network,
        parameters: &[T],
        layers: usize,
        noise: &mut impl Perturb<T>,
    ) -> usize {
        let batch = self.batch;
        let mut slot = 0;
        for (index, layer) in network.layers[..layers].iter().enumerate() {
            if matches!(layer, Layer::Flatten) {
                continue;
            }
            let (before, after) = self.activations.split_at_mut(slot + 1);
            let x = &before[slot][..batch * network.sizes[index]];
            let y = &mut after[0][..batch * network.sizes[index + 1]];
            let own = network.layout().of_layer(index);
            let drawn = self.noise.get_mut(index);
            match layer {
                Layer::Linear(linear) => {
                    linear.forward(&parameters[own.clone()], x, y, batch);
                    noise.outputs(index, own, linear, drawn, x, y);
                }
                Layer::Conv(conv) => {
                    let used = noise.weights(index, own.clone(), drawn, &parameters[own]);
                    conv.forward(used, x, y, batch, &mut self.scratch);
                }
                Layer::Pool(pool) => pool.forward(x, y, batch, &mut self.winners[index]),
                Layer::Activation(activation) => activation.forward(x, y),
                Layer::Flatten => {}
            }
            slot += 1;
        }
        slot
    }

    /// The outputs of the last [`Self::forward`], and where to write the gradient of the loss in them before
    /// [`Self::backward`].
    pub fn outputs_and_gradient(&mut self, network: &Network) -> (&[T], &mut [T]) {
        let size = self.batch * network.outputs();
        let outputs = self.activations.last().map_or(&[][..], |last| &last[..size]);
        (outputs, &mut self.gradient[..size])
    }

    /// Carries the gradient in the outputs down to the lowest layer of `layers`, handing each layer of the set
    /// that has parameters to `sink`. Layers below the set cost nothing.
    pub fn backward(
        &mut self,
        network: &Network,
        parameters: &[T],
        layers: &LayerSet,
        sink: &mut impl GradientSink<T>,
    ) {
        self.backward_through(network, parameters, None, layers, sink);
    }

    /// [`Self::backward`] after [`Self::forward_sampled`] with the same means and variances: the gradient of what those
    /// draws gave, in the means and in the variances.
    pub fn backward_sampled(
        &mut self,
        network: &Network,
        mean: &[T],
        variance: &[T],
        layers: &LayerSet,
        gradient: &mut ParameterGradient<T>,
        variance_gradient: &mut [T],
    ) {
        self.backward_through(network, mean, Some((variance, &mut *variance_gradient)), layers, gradient);
        for (index, noise) in self.noise.iter().enumerate().filter(|(index, _)| layers.contains(*index)) {
            let own = network.layout().of_layer(index);
            noise.drawn_variance_gradient(&gradient.values()[own.clone()], &mut variance_gradient[own]);
        }
    }

    /// The backward pass; `spread` are the variances that parameters were drawn with, and where their gradient goes.
    fn backward_through(
        &mut self,
        network: &Network,
        parameters: &[T],
        mut spread: Option<(&[T], &mut [T])>,
        layers: &LayerSet,
        sink: &mut impl GradientSink<T>,
    ) {
        let Some(lowest) = layers.lowest() else { return };
        let batch = self.batch;
        let mut slot = self.activations.len() - 1;
        for (index, layer) in network.layers.iter().enumerate().skip(lowest).rev() {
            if matches!(layer, Layer::Flatten) {
                continue;
            }
            let y = &self.activations[slot][..batch * network.sizes[index + 1]];
            let x = &self.activations[slot - 1][..batch * network.sizes[index]];
            slot -= 1;
            let dy = &mut self.gradient[..batch * network.sizes[index + 1]];
            let own = network.layout().of_layer(index);
            let mut noise = self.noise.get_mut(index).filter(|_| self.noisy);
            let trained = layers.contains(index) && !own.is_empty();
            if trained {
                sink.layer(network, index, x, dy, batch);
            }
            if let (Layer::Linear(linear), Some(noise), Some((_, gradient))) =
                (layer, &mut noise, &mut spread)
            {
                noise.find_slopes(dy);
                if trained {
                    noise.variance_gradient(linear, batch, &mut gradient[own.clone()]);
                }
            }
            if index == lowest {
                return;
            }
            if let Layer::Activation(activation) = layer {
                activation.input_gradient(x, y, dy);
                continue;
            }
            let dx = &mut self.next_gradient[..batch * network.sizes[index]];
            match layer {
                Layer::Linear(linear) => {
                    linear.input_gradient(&parameters[own.clone()], dy, dx, batch);
                    match (noise, &spread) {
                        (Some(noise), Some((variance, _))) => {
                            noise.add_factorised_input_gradient(linear, &variance[own], x, dx);
                        }
                        (Some(noise), None) if noise.kind == Kind::Uniform => {
                            noise.add_uniform_input_gradient(linear, x, dy, dx);
                        }
                        _ => {}
                    }
                }
                Layer::Conv(conv) => {
                    let drawn = noise.and_then(|noise| noise.drawn());
                    let used = drawn.unwrap_or(&parameters[own]);
                    conv.input_gradient(used, dy, dx, batch, &mut self.scratch);
                }
                Layer::Pool(pool) => pool.input_gradient(dy, dx, batch, &self.winners[index]),
                Layer::Activation(_) | Layer::Flatten => {}
            }
            std::mem::swap(&mut self.gradient, &mut self.next_gradient);
        }
    }
}
