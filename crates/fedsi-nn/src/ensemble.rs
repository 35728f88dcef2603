//! One body under several heads, as one network with a wide head: what the body learns is then the mean over the heads,
//! at the cost of one pass.

use crate::{LayerSpec, Network, NetworkError, Scalar};

impl Network {
    /// The same body under `heads` heads side by side: outputs of a sample are those of the first head, then of the
    /// second, and so on. A `Trainer` of it needs `with_heads`.
    ///
    /// # Errors
    /// More outputs than a network may have.
    pub fn under_heads(&self, heads: usize) -> Result<Self, NetworkError> {
        let mut specs = self.specs().to_vec();
        if let Some(last) = specs.last_mut() {
            *last = LayerSpec::Linear(heads * self.outputs());
        }
        Self::new(self.input_shape(), &specs)
    }

    /// The wide head's parameters from those of the heads, one after another.
    #[must_use]
    pub fn join_heads<T: Scalar>(&self, heads: &[T]) -> Vec<T> {
        let weights = self.outputs() * self.features();
        let each = || heads.chunks_exact(weights + self.outputs());
        each()
            .flat_map(|head| &head[..weights])
            .chain(each().flat_map(|head| &head[weights..]))
            .copied()
            .collect()
    }
}
