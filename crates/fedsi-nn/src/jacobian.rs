//! Derivatives of the outputs in chosen parameters, sample by sample.
//!
//! A Laplace posterior over a subnetwork needs `J`, the outputs' derivatives in the S selected parameters:
//! never all R of them. [`Tape::backward_rows`] carries all outputs of a sample back at once and gives, at every layer,
//! the inputs `x` and the backpropagated outputs `G`; in a linear layer the derivative in the weight (h, d) is just
//! `G[h] x[d]`, and in a convolution a sum of such products over positions. [`LayerColumns`] multiplies these factors out
//! for chosen parameters of a layer, [`columns`] for those of a network.

use std::ops::Range;

use crate::layers::{ColumnScratch, Columns, ConvColumns, Layer, Linear};
use crate::tape::{LayerRows, RowSink};
use crate::{Network, Scalar, Tape};

/// The Jacobian of the outputs in the parameters `selected` (ascending indices into the flat parameters), for
/// the batch last run by [`Tape::forward`]: `[batch, outputs, selected]`, row-major.
///
/// Cost: one backward pass without weight gradients for each output, plus that of [`LayerColumns::derivatives`] for every
/// sample. Memory: the result.
#[must_use]
pub fn columns<T: Scalar>(
    tape: &mut Tape<T>,
    network: &Network,
    parameters: &[T],
    selected: &[usize],
) -> Vec<T> {
    let (layout, outputs) = (network.layout(), network.outputs());
    let touched = network.layers_where(|layer| !within(selected, layout.of_layer(layer)).is_empty());
    let layers = (0..network.layers.len()).filter(|&layer| touched.contains(layer));
    let layers = layers.map(|layer| {
        let (range, places) = (layout.of_layer(layer), within(selected, layout.of_layer(layer)));
        let own: Vec<usize> = selected[places.clone()].iter().map(|index| index - range.start).collect();
        (places.start, LayerColumns::new(network, layer, &own))
    });
    let mut sink = ColumnSink {
        width: selected.len(),
        values: vec![T::zero(); tape.batch() * outputs * selected.len()],
        layers: layers.collect(),
    };
    let seeds = output_seeds(tape.batch(), outputs);
    tape.backward_rows(network, parameters, &seeds, &touched, &mut sink);
    sink.values
}

/// Seeds of [`Tape::backward_rows`] for every output by itself: `[batch, outputs, outputs]`, an identity a sample.
#[must_use]
pub fn output_seeds<T: Scalar>(batch: usize, outputs: usize) -> Vec<T> {
    let mut seeds = vec![T::zero(); batch * outputs * outputs];
    for sample in seeds.chunks_exact_mut((outputs * outputs).max(1)) {
        for seed in sample.iter_mut().step_by(outputs + 1) {
            *seed = T::one();
        }
    }
    seeds
}

/// Which of the ascending `selected` lie in the range.
fn within(selected: &[usize], range: Range<usize>) -> Range<usize> {
    let first = selected.partition_point(|&index| index < range.start);
    first..selected.partition_point(|&index| index < range.end)
}

/// Chosen parameters of one layer, prepared so that derivatives in them are quick for many samples.
#[derive(Clone, Debug)]
pub struct LayerColumns<T> {
    layer: usize,
    chosen: Chosen,
    scratch: ColumnScratch<T>,
}

#[derive(Clone, Debug)]
enum Chosen {
    Linear {
        linear: Linear,
        indices: Vec<usize>,
    },
    Conv(ConvColumns),
    /// A layer without parameters.
    Nothing,
}

impl<T: Scalar> LayerColumns<T> {
    /// For ascending indices that count within the layer, weight before bias.
    #[must_use]
    pub fn new(network: &Network, layer: usize, indices: &[usize]) -> Self {
        let chosen = match &network.layers[layer] {
            Layer::Linear(linear) => Chosen::Linear { linear: *linear, indices: indices.to_vec() },
            Layer::Conv(conv) => Chosen::Conv(ConvColumns::new(*conv, indices)),
            Layer::Pool(_) | Layer::Activation(_) | Layer::Flatten => Chosen::Nothing,
        };
        Self { layer, chosen, scratch: ColumnScratch::default() }
    }

    /// Writes the derivatives of some backpropagated rows of one sample: those of row r, in the order of the indices, to
    /// `into[r * stride..]`. `input` is the layer's input for the sample, `slopes` the rows at its outputs,
    /// `[rows, outputs]`, as [`RowSink::layer`] has them.
    ///
    /// Cost: one multiplication for each row and index in a linear layer; in a convolution one for each row, index and
    /// position at which the slopes are not all zero.
    pub fn derivatives(&mut self, input: &[T], slopes: &[T], into: &mut [T], stride: usize) {
        match &self.chosen {
            Chosen::Linear { linear, indices } => {
                for (row, slopes) in slopes.chunks_exact(linear.outputs).enumerate() {
                    for (value, &index) in into[row * stride..].iter_mut().zip(indices) {
                        *value = linear.derivative(input, slopes, index);
                    }
                }
            }
            Chosen::Conv(columns) => {
                columns.derivatives(input, slopes, Columns { values: into, stride }, &mut self.scratch);
            }
            Chosen::Nothing => {}
        }
    }
}

struct ColumnSink<T> {
    /// Chosen parameters of the network.
    width: usize,
    values: Vec<T>,
    /// For each layer its first column.
    layers: Vec<(usize, LayerColumns<T>)>,
}

impl<T: Scalar> RowSink<T> for ColumnSink<T> {
    fn layer(&mut self, network: &Network, layer: usize, found: LayerRows<'_, T>) {
        let own = self.layers.iter_mut().find(|(_, columns)| columns.layer == layer);
        let Some((first, columns)) = own else { return };
        let LayerRows { samples, rows, inputs, slopes } = found;
        let images = inputs.chunks_exact(network.sizes[layer]);
        let slopes = slopes.chunks_exact(rows * network.sizes[layer + 1]);
        for (sample, (input, slopes)) in samples.zip(images.zip(slopes)) {
            let into = &mut self.values[sample * rows * self.width + *first..];
            columns.derivatives(input, slopes, into, self.width);
        }
    }
}
