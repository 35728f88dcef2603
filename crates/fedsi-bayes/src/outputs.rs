//! The distribution of outputs under a posterior over parameters.

/// A normal distribution of the outputs of each of n samples: the linearised network under a posterior.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutputDistribution {
    /// Outputs of one sample.
    pub outputs: usize,
    /// Logits, or regression means, at the linearisation point: `[n, outputs]`.
    pub mean: Vec<f64>,
    /// Covariance of the outputs, without observation noise: `[n, outputs, outputs]`. Symmetric to the bit, and
    /// positive semidefinite up to rounding.
    pub covariance: Vec<f64>,
}

impl OutputDistribution {
    /// Number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mean.len().checked_div(self.outputs).unwrap_or(0)
    }

    /// Whether there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mean.is_empty()
    }

    /// Mean and covariance of each sample.
    pub fn samples(&self) -> impl Iterator<Item = (&[f64], &[f64])> {
        let width = self.outputs.max(1);
        self.mean.chunks_exact(width).zip(self.covariance.chunks_exact(width * width))
    }
}
