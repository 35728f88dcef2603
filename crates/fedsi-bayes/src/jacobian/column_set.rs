//! Where the selected parameters lie in the network.

use std::ops::Range;

use fedsi_nn::{LayerSet, Network};

/// The selected parameters, sorted by what they do: first those of linear layers, unit by unit, then those of
/// convolutions. This is the order of *columns* in this crate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnSet {
    /// Linear layers with a selected parameter.
    pub(crate) linear: Vec<LinearLayer>,
    /// Units (outputs of a linear layer) with a selected parameter, layer by layer.
    pub(crate) units: Vec<Unit>,
    /// Convolutions with a selected parameter.
    pub(crate) convolutions: Vec<Convolution>,
    /// For each column, the position of its parameter in the list of selected ones.
    pub(crate) order: Vec<usize>,
    /// Columns of linear layers; the rest is of convolutions.
    pub(crate) structured: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinearLayer {
    pub(crate) layer: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Which of [`ColumnSet::units`] are its own.
    pub(crate) units: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unit {
    /// Which output of its layer it is.
    pub(crate) output: usize,
    /// The inputs whose weights are selected, ascending.
    pub(crate) inputs: Vec<usize>,
    /// Whether its bias is selected: its last column.
    pub(crate) bias: bool,
    pub(crate) columns: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Convolution {
    pub(crate) layer: usize,
    /// The layer's parameters.
    pub(crate) range: Range<usize>,
    /// Selected parameters, as indices into the layer's own.
    pub(crate) indices: Vec<usize>,
    pub(crate) columns: Range<usize>,
}

impl ColumnSet {
    /// Sorts `selected`, ascending indices into the flat parameters.
    pub(crate) fn new(network: &Network, selected: &[usize]) -> Self {
        let layout = network.layout();
        let mut found = Self {
            linear: Vec::new(),
            units: Vec::new(),
            convolutions: Vec::new(),
            order: Vec::with_capacity(selected.len()),
            structured: 0,
        };
        let mut convolutions = Vec::new();
        for weight in layout.tensors().iter().filter(|tensor| tensor.shape.len() > 1) {
            let range = layout.of_layer(weight.layer);
            let first = selected.partition_point(|&index| index < range.start);
            let end = selected.partition_point(|&index| index < range.end);
            if first == end {
                continue;
            }
            if let [outputs, inputs] = weight.shape[..] {
                let layer = LinearLayer { layer: weight.layer, inputs, outputs, units: 0..0 };
                found.push_linear(layer, &selected[first..end], first, range.start);
            } else {
                convolutions.push((weight.layer, range, first..end));
            }
        }
        found.structured = found.order.len();
        for (layer, range, positions) in convolutions {
            let columns = found.order.len()..found.order.len() + positions.len();
            let indices = selected[positions.clone()].iter().map(|&index| index - range.start).collect();
            found.order.extend(positions);
            found.convolutions.push(Convolution { layer, range, indices, columns });
        }
        found
    }

    /// `selected` are the layer's, the first of them at `position` of all; its parameters begin at `start`.
    fn push_linear(&mut self, mut layer: LinearLayer, selected: &[usize], position: usize, start: usize) {
        let weights = start + layer.inputs * layer.outputs;
        let split = selected.partition_point(|&index| index < weights);
        let (mut weight, mut bias) = (0, split);
        let first = self.units.len();
        for output in 0..layer.outputs {
            let row = start + output * layer.inputs;
            let column = self.order.len();
            let mut inputs = Vec::new();
            while weight < split && selected[weight] < row + layer.inputs {
                inputs.push(selected[weight] - row);
                self.order.push(position + weight);
                weight += 1;
            }
            let has_bias = selected.get(bias).is_some_and(|&index| index == weights + output);
            if has_bias {
                self.order.push(position + bias);
                bias += 1;
            }
            let columns = column..self.order.len();
            if !columns.is_empty() {
                self.units.push(Unit { output, inputs, bias: has_bias, columns });
            }
        }
        layer.units = first..self.units.len();
        self.linear.push(layer);
    }

    /// Number of selected parameters.
    pub(crate) fn columns(&self) -> usize {
        self.order.len()
    }

    /// Columns of convolutions.
    pub(crate) fn unstructured(&self) -> usize {
        self.order.len() - self.structured
    }

    /// The layers it touches.
    pub(crate) fn layers(&self, network: &Network) -> LayerSet {
        network.layers_where(|layer| {
            self.linear.iter().any(|own| own.layer == layer)
                || self.convolutions.iter().any(|own| own.layer == layer)
        })
    }

    /// Those columns that `keep` names.
    pub(crate) fn restrict(&self, keep: &[bool]) -> Self {
        let mut less = Self {
            linear: Vec::new(),
            units: Vec::new(),
            convolutions: Vec::new(),
            order: self.order.iter().zip(keep).filter(|(_, keep)| **keep).map(|(&place, _)| place).collect(),
            structured: keep[..self.structured].iter().filter(|&&keep| keep).count(),
        };
        let mut column = 0;
        for layer in &self.linear {
            let first = less.units.len();
            for unit in &self.units[layer.units.clone()] {
                let keep = &keep[unit.columns.clone()];
                let kept = unit.inputs.iter().zip(keep).filter(|(_, keep)| **keep);
                let inputs: Vec<usize> = kept.map(|(&input, _)| input).collect();
                let bias = unit.bias && keep[keep.len() - 1];
                let columns = column..column + inputs.len() + usize::from(bias);
                column = columns.end;
                if !columns.is_empty() {
                    less.units.push(Unit { output: unit.output, inputs, bias, columns });
                }
            }
            if less.units.len() > first {
                less.linear.push(LinearLayer { units: first..less.units.len(), ..layer.clone() });
            }
        }
        for own in &self.convolutions {
            let kept = own.indices.iter().zip(&keep[own.columns.clone()]).filter(|(_, keep)| **keep);
            let indices: Vec<usize> = kept.map(|(&index, _)| index).collect();
            let columns = column..column + indices.len();
            column = columns.end;
            if !columns.is_empty() {
                less.convolutions.push(Convolution { indices, columns, ..own.clone() });
            }
        }
        less
    }

    /// One value for each column from one for each selected parameter.
    pub(crate) fn sorted(&self, values: &[f64]) -> Vec<f64> {
        self.order.iter().map(|&position| values[position]).collect()
    }
}
