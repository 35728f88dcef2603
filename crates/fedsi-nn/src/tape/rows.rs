//! Several gradients of every sample carried back at once: what Jacobians are made of.

use std::ops::Range;

use super::Tape;
use crate::layers::{Activation, Layer, ScatterScratch};
use crate::scalar::vectorised;
use crate::{LayerSet, Network, Scalar};

/// Values of the gradients that are carried back together: they should stay in the cache.
const BLOCK_VALUES: usize = 1 << 17;

/// Most rows that are carried back together: more do not make the matrix products faster.
const BLOCK_ROWS: usize = 512;

/// Receives what [`Tape::backward_rows`] finds at each layer with parameters that was asked for.
pub trait RowSink<T> {
    /// The rows of some samples at one layer. For one layer samples come in ascending order, each once.
    fn layer(&mut self, network: &Network, layer: usize, found: LayerRows<'_, T>);
}

/// What several gradients of each of some samples became at a layer.
#[derive(Clone, Debug)]
pub struct LayerRows<'a, T> {
    /// Which samples of the batch.
    pub samples: Range<usize>,
    /// Rows of each sample.
    pub rows: usize,
    /// The layer's inputs: `[samples, inputs]`.
    pub inputs: &'a [T],
    /// The gradients in the layer's outputs: `[samples, rows, outputs]`.
    pub slopes: &'a [T],
}

/// Memory of the pass, kept from batch to batch.
#[derive(Clone, Debug, Default)]
pub(super) struct RowMemory<T> {
    gradient: Vec<T>,
    next_gradient: Vec<T>,
    /// An activation's derivatives for one sample.
    derivative: Vec<T>,
    scatter: ScatterScratch<T>,
}

impl<T: Scalar> Tape<T> {
    /// Carries `rows` gradients of each sample's outputs back at once, down to the lowest layer of `layers`, and hands each
    /// layer of the set that has parameters to `sink`. `seeds` are the gradients in the outputs: `[batch, rows, outputs]`.
    /// The forward pass before it is [`Self::forward`], without noise.
    ///
    /// Cost: for each row a backward pass without gradients of parameters; derivatives of activations are found once for all
    /// rows, and convolutions leave slopes out that are zero in all rows of a sample. Memory: gradients of a few samples,
    /// whatever the batch.
    ///
    /// # Panics
    /// If the seeds are not `batch x rows x outputs` values.
    pub fn backward_rows(
        &mut self,
        network: &Network,
        parameters: &[T],
        seeds: &[T],
        layers: &LayerSet,
        sink: &mut impl RowSink<T>,
    ) {
        let (Some(lowest), true) = (layers.lowest(), self.batch > 0) else { return };
        let width = network.outputs();
        let rows = seeds.len() / (self.batch * width);
        assert_eq!(seeds.len(), self.batch * rows * width, "gradients in the outputs of the batch");
        if rows == 0 {
            return;
        }
        let widest = network.sizes[lowest + 1..].iter().copied().max().unwrap_or(0);
        let block = (BLOCK_VALUES / (rows * widest).max(1)).min(BLOCK_ROWS.div_ceil(rows)).max(1);
        let mut memory = std::mem::take(&mut self.rows);
        for values in [&mut memory.gradient, &mut memory.next_gradient] {
            values.resize(values.len().max(block.min(self.batch) * rows * widest), T::zero());
        }
        for first in (0..self.batch).step_by(block) {
            let samples = first..(first + block).min(self.batch);
            let seeds = &seeds[samples.start * rows * width..samples.end * rows * width];
            memory.gradient[..seeds.len()].copy_from_slice(seeds);
            self.carry_back(network, parameters, layers, lowest, samples, rows, &mut memory, sink);
        }
        self.rows = memory;
    }

    #[allow(clippy::too_many_arguments)]
    fn carry_back(
        &self,
        network: &Network,
        parameters: &[T],
        layers: &LayerSet,
        lowest: usize,
        samples: Range<usize>,
        rows: usize,
        memory: &mut RowMemory<T>,
        sink: &mut impl RowSink<T>,
    ) {
        let RowMemory { gradient, next_gradient, derivative, scatter } = memory;
        let total = samples.len() * rows;
        let mut slot = self.activations.len() - 1;
        for (index, layer) in network.layers.iter().enumerate().skip(lowest).rev() {
            if matches!(layer, Layer::Flatten) {
                continue;
            }
            let (width, height) = (network.sizes[index], network.sizes[index + 1]);
            let y = &self.activations[slot][samples.start * height..samples.end * height];
            let x = &self.activations[slot - 1][samples.start * width..samples.end * width];
            slot -= 1;
            let own = network.layout().of_layer(index);
            let dy = &mut gradient[..total * height];
            if layers.contains(index) && !own.is_empty() {
                let found = LayerRows { samples: samples.clone(), rows, inputs: x, slopes: dy };
                sink.layer(network, index, found);
            }
            if index == lowest {
                return;
            }
            let dx = &mut next_gradient[..total * width];
            match layer {
                Layer::Activation(activation) => {
                    let values = x.chunks_exact(width).zip(y.chunks_exact(width));
                    for ((x, y), dy) in values.zip(dy.chunks_exact_mut(rows * width)) {
                        scale_rows(*activation, x, y, dy, derivative);
                    }
                    continue;
                }
                Layer::Linear(linear) => linear.input_gradient(&parameters[own], dy, dx, total),
                Layer::Conv(conv) => {
                    conv.input_gradient_of_rows(&parameters[own], dy, dx, rows, scatter);
                }
                Layer::Pool(pool) => {
                    let all = &self.winners[index];
                    for (row, (dy, dx)) in dy.chunks_exact(height).zip(dx.chunks_exact_mut(width)).enumerate()
                    {
                        let sample = samples.start + row / rows;
                        let winners = all.get(sample * height..(sample + 1) * height).unwrap_or_default();
                        pool.input_gradient(dy, dx, 1, winners);
                    }
                }
                Layer::Flatten => {}
            }
            std::mem::swap(gradient, next_gradient);
        }
    }
}

/// Multiplies each row by the derivatives of an activation at one sample.
fn scale_rows<T: Scalar>(activation: Activation, x: &[T], y: &[T], rows: &mut [T], derivative: &mut Vec<T>) {
    derivative.clear();
    derivative.resize(x.len(), T::one());
    activation.input_gradient(x, y, derivative);
    vectorised(
        #[inline(always)]
        || {
            for row in rows.chunks_exact_mut(x.len()) {
                for (value, &derivative) in row.iter_mut().zip(&*derivative) {
                    *value *= derivative;
                }
            }
        },
    );
}
