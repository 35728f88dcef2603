//! Where the selected parameters lie in the network.

use std::ops::Range;

use fedsi_nn::{LayerSet, Layout, Network};

/// The selected parameters, sorted by what they do: first those of linear layers, unit by unit, then all others
/// (those of convolutions; all of a network whose layers are not known). This is the order of *columns* in this
/// crate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnSet {
    /// Linear layers with a selected parameter.
    pub(crate) linear: Vec<LinearLayer>,
    /// Units (outputs of a linear layer) with a selected parameter, layer by layer.
    pub(crate) units: Vec<Unit>,
    /// Convolutions with a selected parameter, or the whole of a network whose layers are not known.
    pub(crate) blocks: Vec<DenseBlock>,
    /// For each column, the position of its parameter in the list of selected ones.
    pub(crate) order: Vec<usize>,
    /// Columns of linear layers; the rest is dense.
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
pub(crate) struct DenseBlock {
    /// The layer, where layers are known.
    pub(crate) layer: usize,
    /// The block's parameters, selected or not.
    pub(crate) range: Range<usize>,
    /// Selected parameters, counted from the start of `range`.
    pub(crate) indices: Vec<usize>,
    pub(crate) columns: Range<usize>,
}

impl ColumnSet {
    /// Sorts `selected`, ascending indices into the flat parameters of a network with this layout, whose layers are known or not.
    pub(crate) fn new(layout: &Layout, layers: Option<&Network>, selected: &[usize]) -> Self {
        match layers {
            Some(network) => Self::by_layers(network, selected),
            None => Self::dense(layout.len(), selected),
        }
    }

    /// One dense block of them all.
    fn dense(parameters: usize, selected: &[usize]) -> Self {
        let columns = 0..selected.len();
        let order = columns.clone().collect();
        let block = DenseBlock { layer: 0, range: 0..parameters, indices: selected.to_vec(), columns };
        let blocks = if selected.is_empty() { Vec::new() } else { vec![block] };
        Self { linear: Vec::new(), units: Vec::new(), blocks, order, structured: 0 }
    }

    fn by_layers(network: &Network, selected: &[usize]) -> Self {
        let layout = network.layout();
        let mut found = Self {
            linear: Vec::new(),
            units: Vec::new(),
            blocks: Vec::new(),
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
            found.blocks.push(DenseBlock { layer, range, indices, columns });
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

    /// For each unit, which distinct matrix of inputs is its own, counted from 0: a unit shares that of the one before
    /// it, where both are of one layer, have the same inputs selected and the same scale.
    pub(crate) fn shared_inputs(&self, scale: Option<&[f64]>) -> Vec<usize> {
        let mut places = Vec::with_capacity(self.units.len());
        let mut count = 0;
        for layer in &self.linear {
            let mut before: Option<&Unit> = None;
            for unit in &self.units[layer.units.clone()] {
                let scaled = |unit: &Unit| scale.map(|scale| &scale[unit.columns.clone()]);
                let same = before.is_some_and(|before| {
                    before.bias == unit.bias && before.inputs == unit.inputs && scaled(before) == scaled(unit)
                });
                count += usize::from(!same);
                places.push(count - 1);
                before = Some(unit);
            }
        }
        places
    }

    /// Number of selected parameters.
    pub(crate) fn columns(&self) -> usize {
        self.order.len()
    }

    /// Columns that are not of linear layers.
    pub(crate) fn unstructured(&self) -> usize {
        self.order.len() - self.structured
    }

    /// The layers it touches.
    pub(crate) fn layers(&self, network: &Network) -> LayerSet {
        network.layers_where(|layer| {
            self.linear.iter().any(|own| own.layer == layer)
                || self.blocks.iter().any(|own| own.layer == layer)
        })
    }

    /// Those columns that `keep` names.
    pub(crate) fn restrict(&self, keep: &[bool]) -> Self {
        let mut less = Self {
            linear: Vec::new(),
            units: Vec::new(),
            blocks: Vec::new(),
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
        for own in &self.blocks {
            let kept = own.indices.iter().zip(&keep[own.columns.clone()]).filter(|(_, keep)| **keep);
            let indices: Vec<usize> = kept.map(|(&index, _)| index).collect();
            let columns = column..column + indices.len();
            column = columns.end;
            if !columns.is_empty() {
                less.blocks.push(DenseBlock { indices, columns, ..own.clone() });
            }
        }
        less
    }

    /// Flat indices of the dense columns, in their order.
    pub(crate) fn dense_indices(&self) -> Vec<usize> {
        self.blocks.iter().flat_map(|own| own.indices.iter().map(|&index| own.range.start + index)).collect()
    }

    /// One value for each column from one for each selected parameter.
    pub(crate) fn sorted(&self, values: &[f64]) -> Vec<f64> {
        self.order.iter().map(|&position| values[position]).collect()
    }
}
