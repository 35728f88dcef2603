//! Derivatives of the outputs in chosen parameters, sample by sample.
//!
//! A Laplace posterior over a subnetwork needs `J`, the outputs' derivatives in the S selected parameters:
//! never all R of them. One backward pass an output gives, at every layer, the inputs `x` and the
//! backpropagated output `G`; in a linear layer the derivative in the weight (h, d) is just `G[h] x[d]`, and in
//! a convolution a sum of such products over positions. [`columns`] multiplies these factors out for the
//! selected parameters.

use crate::{GradientSink, LayerSet, Network, Scalar, Tape};

/// Backpropagates each output in turn, over the batch last run by [`Tape::forward`]. `begin` sets
/// the output in `sink`, which then receives every layer of `layers` that has parameters.
///
/// Cost: one backward pass without weight gradients for each output.
fn visit<T: Scalar, S: GradientSink<T>>(
    tape: &mut Tape<T>,
    network: &Network,
    parameters: &[T],
    layers: &LayerSet,
    sink: &mut S,
    mut begin: impl FnMut(&mut S, usize),
) {
    for output in 0..network.outputs() {
        let (_, gradient) = tape.outputs_and_gradient(network);
        gradient.fill(T::zero());
        for row in gradient.chunks_exact_mut(network.outputs()) {
            row[output] = T::one();
        }
        begin(sink, output);
        tape.backward(network, parameters, layers, sink);
    }
}

/// The Jacobian of the outputs in the parameters `selected` (ascending indices into the flat parameters), for
/// the batch last run by [`Tape::forward`]: `[batch, outputs, selected]`, row-major.
///
/// Cost: one backward pass without weight gradients for each output, plus one multiplication for each sample, output and selected weight of a linear layer (or
/// one for each position, in a convolution). Memory: the result.
#[must_use]
pub fn columns<T: Scalar>(
    tape: &mut Tape<T>,
    network: &Network,
    parameters: &[T],
    selected: &[usize],
) -> Vec<T> {
    let layout = network.layout();
    let touched = network.layers_where(|layer| {
        let own = layout.of_layer(layer);
        selected.iter().any(|index| own.contains(index))
    });
    let mut sink = Columns {
        selected,
        outputs: network.outputs(),
        output: 0,
        values: vec![T::zero(); tape.batch() * network.outputs() * selected.len()],
    };
    visit(tape, network, parameters, &touched, &mut sink, |sink, output| sink.output = output);
    sink.values
}

/// Derivatives of one backpropagated output of one sample in some of a layer's parameters: `indices` count
/// within the layer, weight before bias; `input` and `output_gradient` are what a [`GradientSink`] receives for
/// the sample.
///
/// Cost: one multiplication for each index in a linear layer, one for each index and position in a convolution.
pub fn derivatives<T: Scalar>(
    network: &Network,
    layer: usize,
    input: &[T],
    output_gradient: &[T],
    indices: &[usize],
    into: &mut [T],
) {
    for (value, &index) in into.iter_mut().zip(indices) {
        *value = network.layers[layer].derivative(input, output_gradient, index);
    }
}

struct Columns<'a, T> {
    selected: &'a [usize],
    outputs: usize,
    output: usize,
    values: Vec<T>,
}

impl<T: Scalar> GradientSink<T> for Columns<'_, T> {
    fn layer(&mut self, network: &Network, layer: usize, inputs: &[T], output_gradient: &[T], batch: usize) {
        let own = network.layout().of_layer(layer);
        let first = self.selected.partition_point(|&index| index < own.start);
        let end = self.selected.partition_point(|&index| index < own.end);
        let (width, height) = (network.sizes[layer], network.sizes[layer + 1]);
        for sample in 0..batch {
            let x = &inputs[sample * width..][..width];
            let g = &output_gradient[sample * height..][..height];
            let row = (sample * self.outputs + self.output) * self.selected.len();
            let row = &mut self.values[row + first..row + end];
            for (value, &index) in row.iter_mut().zip(&self.selected[first..end]) {
                *value = network.layers[layer].derivative(x, g, index - own.start);
            }
        }
    }
}
