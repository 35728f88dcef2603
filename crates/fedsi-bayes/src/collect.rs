//! Running the network and keeping what its Jacobian is made of.

use std::ops::Range;

use fedsi_nn::jacobian::{LayerColumns, output_seeds};
use fedsi_nn::{LayerRows, LayerSet, Network, RowSink, Tape};

use crate::dense::{multiply, rows, rows_mut};
use crate::error::PosteriorError;
use crate::jacobian::{ColumnSet, WeightedJacobian};
use crate::likelihood::Likelihood;
use crate::network::{LinearisedNetwork, jacobian_of};

/// Values one batch may take, in activations and in factors of the Jacobian.
const BATCH_VALUES: usize = 1 << 22;

/// The columns of these parameters of a network.
pub(crate) fn columns_of(network: &dyn LinearisedNetwork, selected: &[usize]) -> ColumnSet {
    ColumnSet::new(network.layout(), network.as_layered(), selected)
}

/// Computes Jacobians batch by batch.
pub(crate) struct Collector<'a> {
    network: &'a dyn LinearisedNetwork,
    parameters: &'a [f64],
    subnetwork: &'a ColumnSet,
    /// Samples of a batch.
    capacity: usize,
    source: Source<'a>,
}

/// Where derivatives come from.
enum Source<'a> {
    /// From the layers, in factors.
    Layers(Box<LayerSource<'a>>),
    /// From [`LinearisedNetwork::jacobian`], for these parameters.
    Dense { indices: Vec<usize> },
}

impl<'a> Collector<'a> {
    /// For batches of at most `largest` samples, fewer where memory would not suffice.
    pub(crate) fn new(
        network: &'a dyn LinearisedNetwork,
        parameters: &'a [f64],
        subnetwork: &'a ColumnSet,
        largest: usize,
    ) -> Self {
        let gains = subnetwork.units.len() + subnetwork.unstructured();
        let rows = network.outputs() * gains;
        let layered = network.as_layered();
        let sample = match layered {
            Some(layered) => layered.activations() + subnetwork.structured + rows,
            // The block before and after weighting.
            None => network.inputs() + 2 * rows,
        };
        let capacity = (BATCH_VALUES / sample.max(1)).clamp(1, largest.max(1));
        let source = match layered {
            Some(network) => Source::Layers(Box::new(LayerSource {
                network,
                layers: subnetwork.layers(network),
                tape: Tape::new(network, capacity),
                convolutions: subnetwork
                    .blocks
                    .iter()
                    .map(|own| LayerColumns::new(network, own.layer, &own.indices))
                    .collect(),
            })),
            None => Source::Dense { indices: subnetwork.dense_indices() },
        };
        Self { network, parameters, subnetwork, capacity, source }
    }

    /// The inputs in batches that fit.
    pub(crate) fn batches<'b>(&self, inputs: &'b [f64]) -> impl Iterator<Item = &'b [f64]> + use<'b> {
        inputs.chunks(self.capacity * self.network.inputs())
    }

    /// Runs a batch; returns its outputs and its Jacobian, rows weighted by the likelihood's factor (without a
    /// likelihood: one row an output), columns by `scale`.
    pub(crate) fn collect(
        &mut self,
        inputs: &[f64],
        likelihood: Option<&Likelihood>,
        scale: Option<&[f64]>,
    ) -> Result<(Vec<f64>, WeightedJacobian), PosteriorError> {
        let (parameters, subnetwork) = (self.parameters, self.subnetwork);
        match &mut self.source {
            Source::Layers(source) => Ok(source.collect(parameters, subnetwork, inputs, likelihood, scale)),
            Source::Dense { indices } => {
                let found = jacobian_of(self.network, parameters, inputs, indices)?;
                let width = self.network.outputs();
                let jacobian = weighted(&found.derivatives, &found.outputs, width, likelihood, scale);
                Ok((found.outputs, jacobian))
            }
        }
    }
}

/// A dense Jacobian `[samples, outputs, columns]`, weighted.
fn weighted(
    derivatives: &[f64],
    outputs: &[f64],
    width: usize,
    likelihood: Option<&Likelihood>,
    scale: Option<&[f64]>,
) -> WeightedJacobian {
    let samples = outputs.len() / width;
    let columns = derivatives.len().checked_div(outputs.len()).unwrap_or(0);
    let (count, mut dense) = match likelihood {
        None => (width, derivatives.to_vec()),
        Some(likelihood) => {
            let count = likelihood.rows(width);
            let mut dense = vec![0.0; samples * count * columns];
            if !dense.is_empty() {
                let factors = likelihood.factors(outputs, width);
                let own = factors.chunks_exact(count * width).zip(derivatives.chunks_exact(width * columns));
                for (into, (factor, derivatives)) in dense.chunks_exact_mut(count * columns).zip(own) {
                    let (factor, derivatives) =
                        (rows(factor, count, width), rows(derivatives, width, columns));
                    multiply(rows_mut(into, count, columns), factor, derivatives);
                }
            }
            (count, dense)
        }
    };
    if let Some(scale) = scale {
        for row in dense.chunks_exact_mut(columns.max(1)) {
            for (value, scale) in row.iter_mut().zip(scale) {
                *value *= scale;
            }
        }
    }
    let offsets = (0..=samples).map(|sample| sample * count).collect();
    WeightedJacobian { offsets, inputs: Vec::new(), places: Vec::new(), gains: Vec::new(), dense }
}

/// A network of known layers.
struct LayerSource<'a> {
    network: &'a Network,
    /// Those with a selected parameter.
    layers: LayerSet,
    tape: Tape<f64>,
    /// For each of the subnetwork's blocks.
    convolutions: Vec<LayerColumns<f64>>,
}

impl LayerSource<'_> {
    /// The outputs and the Jacobian of a batch, in factors.
    fn collect(
        &mut self,
        parameters: &[f64],
        subnetwork: &ColumnSet,
        inputs: &[f64],
        likelihood: Option<&Likelihood>,
        scale: Option<&[f64]>,
    ) -> (Vec<f64>, WeightedJacobian) {
        let network = self.network;
        let samples = inputs.len() / network.inputs();
        let width = network.outputs();
        self.tape.inputs_mut(network, samples).copy_from_slice(inputs);
        let outputs = self.tape.forward(network, parameters).to_vec();
        let (rows, seeds) = match likelihood {
            Some(likelihood) => (likelihood.rows(width), likelihood.factors(&outputs, width)),
            None => (width, output_seeds(samples, width)),
        };
        let total = samples * rows;
        let places = subnetwork.shared_inputs(scale);
        let mut inputs: Vec<Vec<f64>> = Vec::new();
        for (unit, &place) in subnetwork.units.iter().zip(&places) {
            if place == inputs.len() {
                inputs.push(vec![0.0; samples * unit.columns.len()]);
            }
        }
        let mut sink = Sink {
            subnetwork,
            scale,
            convolutions: &mut self.convolutions,
            found: WeightedJacobian {
                offsets: (0..=samples).map(|sample| sample * rows).collect(),
                inputs,
                places,
                gains: vec![0.0; total * subnetwork.units.len()],
                dense: vec![0.0; total * subnetwork.unstructured()],
            },
        };
        self.tape.backward_rows(network, parameters, &seeds, &self.layers, &mut sink);
        (outputs, sink.found)
    }
}

struct Sink<'a> {
    subnetwork: &'a ColumnSet,
    scale: Option<&'a [f64]>,
    convolutions: &'a mut [LayerColumns<f64>],
    found: WeightedJacobian,
}

impl RowSink<f64> for Sink<'_> {
    fn layer(&mut self, _: &Network, layer: usize, found: LayerRows<'_, f64>) {
        if let Some(index) = self.subnetwork.linear.iter().position(|own| own.layer == layer) {
            self.keep_inputs(index, found.samples.clone(), found.inputs);
            let own = &self.subnetwork.linear[index];
            let units = self.subnetwork.units.len();
            let first = found.samples.start * found.rows;
            let gains = self.found.gains[first * units..].chunks_exact_mut(units);
            for (gains, slopes) in gains.zip(found.slopes.chunks_exact(own.outputs)) {
                let gains = &mut gains[own.units.clone()];
                for (gain, unit) in gains.iter_mut().zip(&self.subnetwork.units[own.units.clone()]) {
                    *gain = slopes[unit.output];
                }
            }
        } else if let Some(index) = self.subnetwork.blocks.iter().position(|own| own.layer == layer) {
            self.keep_convolution(index, found);
        }
    }
}

impl Sink<'_> {
    fn keep_inputs(&mut self, index: usize, samples: Range<usize>, inputs: &[f64]) {
        let layer = &self.subnetwork.linear[index];
        let mut done = None;
        for index in layer.units.clone() {
            let (unit, place) = (&self.subnetwork.units[index], self.found.places[index]);
            if done.replace(place) == Some(place) {
                continue;
            }
            let width = unit.columns.len();
            let kept = self.found.inputs[place][samples.start * width..].chunks_exact_mut(width);
            for (x, kept) in inputs.chunks_exact(layer.inputs).zip(kept) {
                for (value, &input) in kept.iter_mut().zip(&unit.inputs) {
                    *value = x[input];
                }
                if unit.bias {
                    kept[width - 1] = 1.0;
                }
                if let Some(scale) = self.scale {
                    for (value, scale) in kept.iter_mut().zip(&scale[unit.columns.clone()]) {
                        *value *= scale;
                    }
                }
            }
        }
    }

    fn keep_convolution(&mut self, index: usize, found: LayerRows<'_, f64>) {
        let own = &self.subnetwork.blocks[index];
        let LayerRows { samples, rows, inputs, slopes } = found;
        let width = self.subnetwork.unstructured();
        let place = own.columns.start - self.subnetwork.structured;
        let images = inputs.chunks_exact(inputs.len() / samples.len());
        let slopes = slopes.chunks_exact(slopes.len() / samples.len());
        for (sample, (image, slopes)) in samples.zip(images.zip(slopes)) {
            let dense = &mut self.found.dense[sample * rows * width..][..rows * width];
            self.convolutions[index].derivatives(image, slopes, &mut dense[place..], width);
            if let Some(scale) = self.scale {
                for row in dense.chunks_exact_mut(width) {
                    let kept = row[place..].iter_mut();
                    for (value, scale) in kept.zip(&scale[own.columns.clone()]) {
                        *value *= scale;
                    }
                }
            }
        }
    }
}
