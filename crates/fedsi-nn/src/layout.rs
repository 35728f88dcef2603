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

impl Tensor {
    /// The name of its layer: what comes before the last dot of its own, `0` for `0.weight`.
    #[must_use]
    pub fn layer_name(&self) -> &str {
        self.name.rsplit_once('.').map_or(&*self.name, |(layer, _)| layer)
    }
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
    /// The layout of a network of another library: its tensors by name (`fc1.weight`) and shape, in the order of its
    /// flat parameters. Neighbours with the same [`Tensor::layer_name`] are one layer; the last layer is the head.
    #[must_use]
    pub fn of_tensors<S: Into<String>>(tensors: impl IntoIterator<Item = (S, Vec<usize>)>) -> Self {
        let mut layout = Self::default();
        for (name, shape) in tensors {
            // Saturates: a size beyond counting is refused where memory is wanted for it.
            let size = shape.iter().fold(1, |size: usize, &side| size.saturating_mul(side));
            let range = layout.total..layout.total.saturating_add(size);
            let range_end = range.end;
            let mut tensor = Tensor { name: name.into(), shape, range, layer: 0 };
            if let Some(last) = layout.tensors.last() {
                let same = last.layer_name() == tensor.layer_name();
                tensor.layer = last.layer + usize::from(!same);
                if !same {
                    layout.start_head();
                }
            }
            layout.total = range_end;
            layout.tensors.push(tensor);
        }
        layout
    }

    pub(crate) fn push(&mut self, layer: usize, name: &str, shape: Vec<usize>) {
        // A network's layers, and their number, are limited so that nothing here overflows.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_of_named_tensors_has_layers_and_a_head() {
        let tensors = [
            ("fc1.weight", vec![3, 2]),
            ("fc1.bias", vec![3]),
            ("scale", vec![1]),
            ("out.weight", vec![1, 3]),
        ];
        let layout = Layout::of_tensors(tensors);
        assert_eq!((layout.len(), layout.body(), layout.head()), (13, 0..10, 10..13));
        let layers: Vec<(&str, usize)> =
            layout.tensors().iter().map(|tensor| (tensor.layer_name(), tensor.layer)).collect();
        assert_eq!(layers, [("fc1", 0), ("fc1", 0), ("scale", 1), ("out", 2)]);
        assert_eq!(layout.of_layer(0), 0..9);
        assert!(Layout::of_tensors(Vec::<(String, Vec<usize>)>::new()).is_empty());
    }
}
