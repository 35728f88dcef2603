//! The network as posteriors see it: layers on the CPU, large linear algebra on the GPU.

use std::fmt;
use std::sync::Arc;

use fedsi_bayes::{BatchJacobian, EvaluationError, LinearAlgebra, LinearisedNetwork};
use fedsi_nn::{Layout, Network};

use crate::algebra::CudaAlgebra;

/// A network whose posteriors use the GPU's linear algebra.
pub(super) struct CudaLinearised {
    pub(super) network: Arc<Network>,
    pub(super) algebra: Arc<CudaAlgebra>,
}

impl fmt::Debug for CudaLinearised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CudaLinearised").field("network", &self.network).finish_non_exhaustive()
    }
}

impl LinearisedNetwork for CudaLinearised {
    fn layout(&self) -> &Layout {
        self.network.layout()
    }

    fn inputs(&self) -> usize {
        self.network.inputs()
    }

    fn outputs(&self) -> usize {
        self.network.outputs()
    }

    fn forward(&self, parameters: &[f64], inputs: &[f64]) -> Result<Vec<f64>, EvaluationError> {
        LinearisedNetwork::forward(&*self.network, parameters, inputs)
    }

    fn jacobian(
        &self,
        parameters: &[f64],
        inputs: &[f64],
        chosen: &[usize],
    ) -> Result<BatchJacobian, EvaluationError> {
        LinearisedNetwork::jacobian(&*self.network, parameters, inputs, chosen)
    }

    fn as_layered(&self) -> Option<&Network> {
        Some(&self.network)
    }

    fn algebra(&self) -> &dyn LinearAlgebra {
        &*self.algebra
    }
}
