//! Curvature of single parameters.

use std::ops::Range;

use fedsi_nn::jacobian::{LayerColumns, output_seeds};
use fedsi_nn::{LayerRows, LayerSet, Network, RowSink, Tape, vectorised};

use crate::dense::{multiply_add, rows, strided_mut};
use crate::error::PosteriorError;
use crate::likelihood::Likelihood;
use crate::network::jacobian_of;
use crate::problem::Problem;

/// Values one batch may take.
const BATCH_VALUES: usize = 1 << 22;

/// Samples of the largest batch.
const LARGEST_BATCH: usize = 256;

/// Parameters whose squares are summed together: their rows stay in the nearest cache.
const TILE: usize = 256;

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
    /// squared backpropagated outputs; in a convolution the derivatives of every output of every sample. For a network
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

    /// Of so many parameters, of which nothing was computed.
    pub(crate) fn unknown(parameters: usize) -> Self {
        Self { ggn: vec![f64::NAN; parameters], jacobian: vec![f64::NAN; parameters] }
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
    let sample = network.activations() + sums.layers.iter().map(Seen::values).sum::<usize>();
    let capacity = (BATCH_VALUES / sample.max(1)).clamp(1, LARGEST_BATCH);
    let mut tape = Tape::new(network, capacity.min(inputs.len() / network.inputs()).max(1));
    let width = network.outputs();
    for batch in inputs.chunks(tape.capacity() * network.inputs()) {
        let samples = batch.len() / network.inputs();
        tape.inputs_mut(network, samples).copy_from_slice(batch);
        sums.factors = likelihood.factors(tape.forward(network, parameters), width);
        let seeds = output_seeds(samples, width);
        tape.backward_rows(network, parameters, &seeds, &layers, &mut sums);
        sums.finish_batch(samples);
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
            let rows = likelihood.rows(width) * width;
            let (ggn, plain) = (&mut found.ggn[place..][..size], &mut found.jacobian[place..][..size]);
            for (sample, own) in jacobian.derivatives.chunks_exact(size * width).enumerate() {
                add_squares(ggn, own, Some((&factors[sample * rows..][..rows], width)));
                add_squares(plain, own, None);
            }
        }
    }
    Ok(found)
}

/// Sums squares over samples.
struct Sums {
    range: Range<usize>,
    outputs: usize,
    rows: usize,
    /// The likelihood's factors of the batch: `[samples, rows, outputs]`.
    factors: Vec<f64>,
    layers: Vec<Seen>,
    ggn: Vec<f64>,
    jacobian: Vec<f64>,
}

/// A layer with parameters in the range.
struct Seen {
    layer: usize,
    /// The layer's parameters.
    own: Range<usize>,
    kind: Kind,
}

enum Kind {
    /// What is kept of a batch until it is whole, for one product of all its samples.
    Linear {
        height: usize,
        width: usize,
        /// Squared inputs: `[samples, width]`.
        inputs: Vec<f64>,
        /// Squared lengths of the rows of J at the units, and of those of F J: `[samples, height]`.
        plain: Vec<f64>,
        weighted: Vec<f64>,
    },
    /// Derivatives of one sample's outputs in the parameters `overlap`, those of the layer that lie in the range.
    Convolution { overlap: Range<usize>, columns: Box<LayerColumns<f64>>, derivatives: Vec<f64> },
}

impl Seen {
    /// Values that are kept of a sample.
    const fn values(&self) -> usize {
        match self.kind {
            Kind::Linear { height, width, .. } => width + 2 * height,
            Kind::Convolution { .. } => 0,
        }
    }
}

impl Sums {
    fn new(network: &Network, likelihood: &Likelihood, layers: &LayerSet, range: &Range<usize>) -> Self {
        let layout = network.layout();
        let outputs = network.outputs();
        let weights = layout.tensors().iter().filter(|tensor| tensor.shape.len() > 1);
        let layers = weights.filter(|weight| layers.contains(weight.layer)).map(|weight| {
            let (layer, own) = (weight.layer, layout.of_layer(weight.layer));
            let kind = if let [height, width] = weight.shape[..] {
                Kind::Linear { height, width, inputs: Vec::new(), plain: Vec::new(), weighted: Vec::new() }
            } else {
                let overlap = own.start.max(range.start)..own.end.min(range.end);
                let indices: Vec<usize> = overlap.clone().map(|index| index - own.start).collect();
                let columns = Box::new(LayerColumns::new(network, layer, &indices));
                Kind::Convolution { overlap, columns, derivatives: vec![0.0; outputs * indices.len()] }
            };
            Seen { layer, own, kind }
        });
        Self {
            range: range.clone(),
            outputs,
            rows: likelihood.rows(outputs),
            factors: Vec::new(),
            layers: layers.collect(),
            ggn: vec![0.0; range.len()],
            jacobian: vec![0.0; range.len()],
        }
    }

    /// Multiplies what was kept of linear layers out.
    fn finish_batch(&mut self, samples: usize) {
        for seen in &mut self.layers {
            if let Kind::Linear { height, width, inputs, plain, weighted } = &mut seen.kind {
                for (squares, sums) in [(weighted, &mut self.ggn), (plain, &mut self.jacobian)] {
                    let shape = (*height, *width);
                    add_linear(sums, &self.range, seen.own.start, shape, squares, inputs, samples);
                    squares.clear();
                }
                inputs.clear();
            }
        }
    }
}

impl RowSink<f64> for Sums {
    fn layer(&mut self, _: &Network, layer: usize, found: LayerRows<'_, f64>) {
        let Some(seen) = self.layers.iter_mut().find(|seen| seen.layer == layer) else { return };
        let LayerRows { samples, inputs, slopes, .. } = found;
        let factors = self.rows * self.outputs;
        let (each_input, each_slopes) = (inputs.len() / samples.len(), slopes.len() / samples.len());
        let values = inputs.chunks_exact(each_input).zip(slopes.chunks_exact(each_slopes));
        for (sample, (input, slopes)) in samples.zip(values) {
            let factor = Some((&self.factors[sample * factors..][..factors], self.outputs));
            match &mut seen.kind {
                Kind::Linear { height, inputs, plain, weighted, .. } => {
                    inputs.extend(input.iter().map(|x| x * x));
                    for (squares, factor) in [(weighted, factor), (plain, None)] {
                        let place = squares.len();
                        squares.resize(place + *height, 0.0);
                        add_squares(&mut squares[place..], slopes, factor);
                    }
                }
                Kind::Convolution { overlap, columns, derivatives } => {
                    columns.derivatives(input, slopes, derivatives, overlap.len());
                    let place = overlap.start - self.range.start..overlap.end - self.range.start;
                    add_squares(&mut self.ggn[place.clone()], derivatives, factor);
                    add_squares(&mut self.jacobian[place], derivatives, None);
                }
            }
        }
    }
}

/// Adds the squared lengths of the columns of J to `sums`, or with a factor F, `[rows, outputs]`, those of F J. J is
/// `[outputs, columns]` of one sample.
fn add_squares(sums: &mut [f64], jacobian: &[f64], factor: Option<(&[f64], usize)>) {
    let columns = sums.len();
    let (mut squares, mut row) = ([0.0; TILE], [0.0; TILE]);
    for (tile, sums) in sums.chunks_mut(TILE).enumerate() {
        let length = sums.len();
        let (squares, row) = (&mut squares[..length], &mut row[..length]);
        vectorised(
            #[inline(always)]
            || {
                squares.fill(0.0);
                let own = jacobian.chunks_exact(columns).map(|values| &values[tile * TILE..][..length]);
                match factor {
                    None => {
                        for values in own {
                            for (sum, &value) in squares.iter_mut().zip(values) {
                                *sum += value * value;
                            }
                        }
                    }
                    Some((factor, outputs)) => {
                        for factor in factor.chunks_exact(outputs) {
                            row.fill(0.0);
                            for (&weight, values) in factor.iter().zip(own.clone()) {
                                if weight != 0.0 {
                                    for (sum, &value) in row.iter_mut().zip(values) {
                                        *sum += weight * value;
                                    }
                                }
                            }
                            for (sum, &value) in squares.iter_mut().zip(&*row) {
                                *sum += value * value;
                            }
                        }
                    }
                }
                for (sum, &square) in sums.iter_mut().zip(&*squares) {
                    *sum += square;
                }
            },
        );
    }
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
