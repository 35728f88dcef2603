//! Curvature of single parameters.

use std::ops::Range;

use fedsi_nn::{GradientSink, LayerSet, Network, ParameterGradient, Tape, vectorised};

use crate::dense::{multiply_add, rows, strided_mut};
use crate::error::PosteriorError;
use crate::likelihood::Likelihood;
use crate::network::jacobian_of;
use crate::problem::Problem;

/// Values one batch may take.
const BATCH_VALUES: usize = 1 << 22;

/// Samples of the largest batch.
const LARGEST_BATCH: usize = 256;

/// The curvature and the sensitivity of each parameter of a range by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Curvature {
    /// The diagonal of the generalised Gauss-Newton matrix, summed over the data (with `1 / noise^2`). A sum of
    /// squares: exactly 0 for a parameter without influence.
    pub ggn: Vec<f64>,
    /// The sum over samples and outputs of the squared derivative of the output in the parameter.
    pub jacobian: Vec<f64>,
}

impl Curvature {
    /// For the parameters `range` (indices into the flat parameters), over the problem's samples.
    ///
    /// Cost: a backward pass for each output; in a linear layer two matrix products, of squared inputs with
    /// squared backpropagated outputs; in a convolution the gradient of every output of every sample. For a network
    /// of another library, its dense Jacobian in the range.
    ///
    /// # Errors
    /// A range beyond the parameters; a network that cannot be evaluated.
    pub fn diagonal(problem: &Problem<'_>, range: Range<usize>) -> Result<Self, PosteriorError> {
        let parameters = problem.network().layout().len();
        if range.start > range.end || range.end > parameters {
            return Err(PosteriorError::Range { start: range.start, end: range.end, parameters });
        }
        match problem.network().as_layered() {
            Some(network) => Ok(by_layers(network, problem, range)),
            None => by_columns(problem, &range.collect::<Vec<_>>()),
        }
    }

    /// For ascending flat indices, a value for each. Cost: as for [`Self::diagonal`] from the first to the last of
    /// them; for a network of another library, its Jacobian in these alone.
    pub(crate) fn of_indices(problem: &Problem<'_>, indices: &[usize]) -> Result<Self, PosteriorError> {
        let (Some(&first), Some(&last)) = (indices.first(), indices.last()) else {
            return Ok(Self { ggn: Vec::new(), jacobian: Vec::new() });
        };
        if problem.network().as_layered().is_none() {
            return by_columns(problem, indices);
        }
        let whole = Self::diagonal(problem, first..last + 1)?;
        let of = |values: &[f64]| indices.iter().map(|&index| values[index - first]).collect();
        Ok(Self { ggn: of(&whole.ggn), jacobian: of(&whole.jacobian) })
    }
}

/// By the structure of the layers.
fn by_layers(network: &Network, problem: &Problem<'_>, range: Range<usize>) -> Curvature {
    let (parameters, inputs) = (problem.parameters(), problem.inputs());
    let likelihood = problem.likelihood();
    let layout = network.layout();
    let layers = network.layers_where(|layer| {
        let own = layout.of_layer(layer);
        own.start < range.end && range.start < own.end
    });
    let mut sums = Sums::new(network, likelihood, &layers, &range);
    let sample = network.activations() + sums.layers.iter().map(|own| own.values).sum::<usize>();
    let capacity = (BATCH_VALUES / sample.max(1)).clamp(1, LARGEST_BATCH);
    let mut tape = Tape::new(network, capacity.min(inputs.len() / network.inputs()).max(1));
    let width = network.outputs();
    for batch in inputs.chunks(tape.capacity() * network.inputs()) {
        let samples = batch.len() / network.inputs();
        tape.inputs_mut(network, samples).copy_from_slice(batch);
        sums.factors = likelihood.factors(tape.forward(network, parameters), width);
        for output in 0..width {
            let (_, gradient) = tape.outputs_and_gradient(network);
            gradient.fill(0.0);
            for row in gradient.chunks_exact_mut(width) {
                row[output] = 1.0;
            }
            sums.output = output;
            tape.backward(network, parameters, &layers, &mut sums);
        }
    }
    Curvature { ggn: sums.ggn, jacobian: sums.jacobian }
}

/// By the dense Jacobian of a network whose layers are not known: blocks of columns, batches of samples, so that no
/// block has more than [`BATCH_VALUES`].
fn by_columns(problem: &Problem<'_>, indices: &[usize]) -> Result<Curvature, PosteriorError> {
    let network = &**problem.network();
    let likelihood = problem.likelihood();
    let width = network.outputs();
    let mut found = Curvature { ggn: vec![0.0; indices.len()], jacobian: vec![0.0; indices.len()] };
    let breadth = (BATCH_VALUES / width).clamp(1, indices.len().max(1));
    let samples = (BATCH_VALUES / (width * breadth)).clamp(1, LARGEST_BATCH);
    for (block, chosen) in indices.chunks(breadth).enumerate() {
        let (size, place) = (chosen.len(), block * breadth);
        for batch in problem.inputs().chunks(samples * network.inputs()) {
            let jacobian = jacobian_of(network, problem.parameters(), batch, chosen)?;
            let factors = likelihood.factors(&jacobian.outputs, width);
            let weights = Some((&factors[..], likelihood.rows(width)));
            for (weights, sums) in [(weights, &mut found.ggn), (None, &mut found.jacobian)] {
                for row in squares(&jacobian.derivatives, size, width, weights).chunks_exact(size) {
                    for (sum, square) in sums[place..][..size].iter_mut().zip(row) {
                        *sum += square;
                    }
                }
            }
        }
    }
    Ok(found)
}

/// Sums squares over samples, once a layer has been seen for every output.
struct Sums {
    range: Range<usize>,
    outputs: usize,
    rows: usize,
    output: usize,
    /// The likelihood's factors of the batch: `[samples, rows, outputs]`.
    factors: Vec<f64>,
    layers: Vec<Seen>,
    gradient: ParameterGradient<f64>,
    ggn: Vec<f64>,
    jacobian: Vec<f64>,
}

/// One layer's derivatives so far.
struct Seen {
    layer: usize,
    /// The layer's parameters.
    own: Range<usize>,
    /// Outputs and inputs of a linear layer.
    linear: Option<(usize, usize)>,
    /// What is kept for one sample, over all outputs.
    values: usize,
    /// `[samples, outputs, ...]`: backpropagated outputs of a linear layer, gradients of a convolution.
    kept: Vec<f64>,
}

impl Sums {
    fn new(network: &Network, likelihood: &Likelihood, layers: &LayerSet, range: &Range<usize>) -> Self {
        let layout = network.layout();
        let outputs = network.outputs();
        let weights = layout.tensors().iter().filter(|tensor| tensor.shape.len() > 1);
        let layers = weights.filter(|weight| layers.contains(weight.layer)).map(|weight| {
            let own = layout.of_layer(weight.layer);
            let linear = match weight.shape[..] {
                [outputs, inputs] => Some((outputs, inputs)),
                _ => None,
            };
            let values = outputs * linear.map_or(own.len(), |(height, _)| height);
            Seen { layer: weight.layer, own, linear, values, kept: Vec::new() }
        });
        Self {
            range: range.clone(),
            outputs,
            rows: likelihood.rows(outputs),
            output: 0,
            factors: Vec::new(),
            layers: layers.collect(),
            gradient: ParameterGradient::new(network),
            ggn: vec![0.0; range.len()],
            jacobian: vec![0.0; range.len()],
        }
    }
}

impl GradientSink<f64> for Sums {
    fn layer(&mut self, network: &Network, layer: usize, inputs: &[f64], slopes: &[f64], batch: usize) {
        let outputs = self.outputs;
        let Some(seen) = self.layers.iter_mut().find(|seen| seen.layer == layer) else { return };
        seen.kept.resize(batch * seen.values, 0.0);
        let size = seen.values / outputs;
        let images = inputs.chunks_exact(inputs.len() / batch).zip(slopes.chunks_exact(slopes.len() / batch));
        for (sample, (image, slopes)) in images.enumerate() {
            let kept = &mut seen.kept[(sample * outputs + self.output) * size..][..size];
            if seen.linear.is_some() {
                kept.copy_from_slice(slopes);
            } else {
                self.gradient.layer(network, layer, image, slopes, 1);
                kept.copy_from_slice(&self.gradient.values()[seen.own.clone()]);
            }
        }
        if self.output + 1 < outputs {
            return;
        }
        // Squared lengths of the rows of J and of F J, for each sample: `[samples, size]`.
        let plain = squares(&seen.kept, size, outputs, None);
        let weighted = squares(&seen.kept, size, outputs, Some((&self.factors, self.rows)));
        for (squares, sums) in [(weighted, &mut self.ggn), (plain, &mut self.jacobian)] {
            match seen.linear {
                Some((height, width)) => {
                    let squared: Vec<f64> = inputs.iter().map(|x| x * x).collect();
                    add_linear(sums, &self.range, seen.own.start, (height, width), &squares, &squared, batch);
                }
                None => {
                    for row in squares.chunks_exact(size) {
                        add_overlap(sums, &self.range, seen.own.start, row);
                    }
                }
            }
        }
    }
}

/// For each sample and each of `size` places, the sum of squares over outputs, or over the rows of the factor.
fn squares(kept: &[f64], size: usize, outputs: usize, factors: Option<(&[f64], usize)>) -> Vec<f64> {
    let samples = kept.len() / (size * outputs);
    let mut sums = vec![0.0; samples * size];
    let mut row = vec![0.0; size];
    for (sample, (sums, kept)) in
        sums.chunks_exact_mut(size).zip(kept.chunks_exact(size * outputs)).enumerate()
    {
        vectorised(
            #[inline(always)]
            || match factors {
                None => {
                    for values in kept.chunks_exact(size) {
                        for (sum, &value) in sums.iter_mut().zip(values) {
                            *sum += value * value;
                        }
                    }
                }
                Some((factors, rows)) => {
                    for factor in factors[sample * rows * outputs..][..rows * outputs].chunks_exact(outputs) {
                        row.fill(0.0);
                        for (&weight, values) in factor.iter().zip(kept.chunks_exact(size)) {
                            if weight != 0.0 {
                                for (sum, &value) in row.iter_mut().zip(values) {
                                    *sum += weight * value;
                                }
                            }
                        }
                        for (sum, &value) in sums.iter_mut().zip(&row) {
                            *sum += value * value;
                        }
                    }
                }
            },
        );
    }
    sums
}

/// Adds `squares' inputs` to the weights of a linear layer that lie in the range, and the sum over samples of
/// `squares` to its biases.
fn add_linear(
    sums: &mut [f64],
    range: &Range<usize>,
    start: usize,
    (height, width): (usize, usize),
    squares: &[f64],
    inputs: &[f64],
    batch: usize,
) {
    let weights = start + height * width;
    // Units with a weight in the range, then the part of the range that they cover.
    let first = range.start.max(start).min(weights).saturating_sub(start) / width;
    let last = (range.end.max(start).min(weights) - start).div_ceil(width);
    if last > first {
        let count = last - first;
        let squares = rows(squares, batch, height).submatrix(0, first, batch, count);
        let inputs = rows(inputs, batch, width);
        let whole = start + first * width..start + last * width;
        if range.start <= whole.start && whole.end <= range.end {
            let into = &mut sums[whole.start - range.start..whole.end - range.start];
            multiply_add(strided_mut(into, count, width, width), 1.0, squares.transpose(), inputs);
        } else {
            let mut product = vec![0.0; count * width];
            multiply_add(strided_mut(&mut product, count, width, width), 1.0, squares.transpose(), inputs);
            add_overlap(sums, range, whole.start, &product);
        }
    }
    for row in squares.chunks_exact(height) {
        add_overlap(sums, range, weights, row);
    }
}

/// Adds `values`, which belong to the parameters from `start` on, to those of them in the range.
fn add_overlap(sums: &mut [f64], range: &Range<usize>, start: usize, values: &[f64]) {
    let first = range.start.max(start);
    let end = range.end.min(start + values.len());
    if first < end {
        let into = &mut sums[first - range.start..end - range.start];
        for (sum, &value) in into.iter_mut().zip(&values[first - start..end - start]) {
            *sum += value;
        }
    }
}
