//! Which slice of the flat parameters is which tensor.

use std::ops::Range;

/// A named tensor within the flat parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// PyTorch's name: `0.weight`, `0.bias`, ...
    pub name: String,
    /// PyTorch's shape: `[out, in]`, `[out, in, kernel, kernel]` or `[out]`.
    pub shape: Vec<usize>,
    /// Where it lies in the flat parameters, row-major.
    pub range: Range<usize>,
    /// Index of the layer it belongs to.
    pub layer: usize,
}

/// The order of all parameters of a network: layer after layer, weight before bias, as PyTorch has it. The
/// last linear layer is the head; what comes before is the body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<Tensor>,
    body: usize,
    total: usize,
}

impl Layout {
    pub(crate) fn push(&mut self, layer: usize, name: &str, shape: Vec<usize>) {
        let size: usize = shape.iter().product();
        let range = self.total..self.total + size;
        self.tensors.push(Tensor { name: format!("{layer}.{name}"), shape, range, layer });
        self.total += size;
    }

    pub(crate) fn start_head(&mut self) {
        self.body = self.total;
    }

    /// All tensors, in order.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Number of parameters.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.total
    }

    /// Whether there are no parameters (there always are).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The parameters below the head.
    #[must_use]
    pub const fn body(&self) -> Range<usize> {
        0..self.body
    }

    /// The parameters of the last linear layer.
    #[must_use]
    pub const fn head(&self) -> Range<usize> {
        self.body..self.total
    }

    /// The parameters of one layer; empty for a layer without any.
    #[must_use]
    pub fn of_layer(&self, layer: usize) -> Range<usize> {
        let mut own = self.tensors.iter().filter(|tensor| tensor.layer == layer);
        match (own.next(), own.next_back()) {
            (Some(first), Some(last)) => first.range.start..last.range.end,
            (Some(only), None) => only.range.clone(),
            (None, _) => 0..0,
        }
    }
}

/// A set of a network's layers: those that train, or those a Jacobian is wanted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSet {
    members: Vec<bool>,
}

impl LayerSet {
    pub(crate) fn new(members: impl Iterator<Item = bool>) -> Self {
        Self { members: members.collect() }
    }

    /// Whether the set has this layer.
    #[must_use]
    pub fn contains(&self, layer: usize) -> bool {
        self.members.get(layer).copied().unwrap_or(false)
    }

    /// The lowest layer of the set: how far down a gradient must travel.
    #[must_use]
    pub fn lowest(&self) -> Option<usize> {
        self.members.iter().position(|&member| member)
    }

    /// The set's parameters, as few ranges as possible.
    #[must_use]
    pub fn spans(&self, layout: &Layout) -> Vec<Range<usize>> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        for tensor in layout.tensors.iter().filter(|tensor| self.contains(tensor.layer)) {
            match spans.last_mut() {
                Some(last) if last.end == tensor.range.start => last.end = tensor.range.end,
                _ => spans.push(tensor.range.clone()),
            }
        }
        spans
    }
}
