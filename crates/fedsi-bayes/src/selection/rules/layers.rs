//! A rule that takes whole layers.

use std::ops::Range;
use std::sync::Arc;

use fedsi_nn::{Layout, Tensor};
use rand::Rng;

use crate::selection::{Candidates, SelectionError, SelectionRule, Subnetwork};

/// All parameters of the named layers (`0`) and tensors (`0.weight`), in PyTorch's naming; the size that is asked for
/// does not apply.
#[derive(Clone, Debug)]
pub struct Layers {
    text: String,
    names: Vec<String>,
}

impl Layers {
    /// The name, without its arguments.
    pub(super) const NAME: &str = "layers";

    /// How it is written.
    pub(super) const USAGE: &str = "layers:NAME,...";

    /// See [`SelectionRule::summary`].
    pub(super) const SUMMARY: &str = "All parameters of the named layers or tensors, in PyTorch's naming, such as \
         layers:0,3.weight; the size does not apply.";

    /// Of these layers and tensors; none for an empty list or name.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Option<Self> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.is_empty() || names.iter().any(String::is_empty) {
            return None;
        }
        Some(Self { text: format!("{}:{}", Self::NAME, names.join(",")), names })
    }

    /// From the names behind `layers:`, separated by commas.
    pub(super) fn parse(list: &str) -> Option<Arc<dyn SelectionRule>> {
        let rule = Self::new(list.split(',').map(str::trim))?;
        Some(Arc::new(rule))
    }

    fn of(&self, layout: &Layout, range: Range<usize>) -> Result<Subnetwork, SelectionError> {
        // A tensor that is a candidate only in part cannot be taken whole.
        let tensors: Vec<(&str, &Tensor)> = layout
            .tensors()
            .iter()
            .filter(|tensor| range.start <= tensor.range.start && tensor.range.end <= range.end)
            .map(|tensor| (tensor.layer_name(), tensor))
            .collect();
        let known = |name: &String| {
            tensors.iter().any(|(layer, tensor)| *layer == name.as_str() || tensor.name == *name)
        };
        if let Some(name) = self.names.iter().find(|name| !known(name)) {
            let mut known: Vec<String> = tensors.iter().map(|(layer, _)| (*layer).to_owned()).collect();
            known.dedup();
            known.extend(tensors.iter().map(|(_, tensor)| tensor.name.clone()));
            return Err(SelectionError::UnknownLayer { name: name.clone(), known });
        }
        let named = |layer: &str, tensor: &Tensor| {
            self.names.iter().any(|name| name == layer || *name == tensor.name)
        };
        let indices = tensors
            .iter()
            .filter(|(layer, tensor)| named(layer, tensor))
            .flat_map(|(_, tensor)| tensor.range.clone())
            .collect();
        Subnetwork::new(indices, range)
    }
}

impl SelectionRule for Layers {
    fn name(&self) -> &str {
        &self.text
    }

    fn summary(&self) -> &str {
        Self::SUMMARY
    }

    fn has_own_size(&self) -> bool {
        true
    }

    fn uses_curvature(&self) -> bool {
        false
    }

    fn check(&self, layout: &Layout, range: Range<usize>, _: usize) -> Result<usize, SelectionError> {
        self.of(layout, range).map(|found| found.len())
    }

    fn select(
        &self,
        candidates: &Candidates<'_>,
        _: usize,
        _: &mut dyn Rng,
    ) -> Result<Subnetwork, SelectionError> {
        self.of(candidates.layout(), candidates.range())
    }
}
