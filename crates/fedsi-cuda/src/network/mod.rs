//! A network of `fedsi-nn`'s layers whose training and outputs are computed on a GPU, for several clients at once.

mod forward;
mod gaussian;
mod kernels;
mod langevin;
mod linearised;
mod point;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use fedsi_bayes::LinearisedNetwork;
use fedsi_fl::network::{
    Batches, ClientNetwork, GaussianTrained, GaussianTraining, HeadSampling, NativeNetwork, NetworkFailure,
    PointTraining, TrainingError,
};
use fedsi_fl::parameters::{Gaussian, HeadSamples};
use fedsi_nn::{Layout, Network};
use fedsi_random::ChaCha8Rng;

use crate::CudaError;
use crate::arena::Arenas;
use crate::device::{Device, lock};
use crate::dispatcher::Dispatcher;
use crate::training::LossKind;
use forward::ForwardKey;
use gaussian::GaussianKey;
use kernels::{Corrections, Kernels};
use linearised::CudaLinearised;
use point::PointKey;

/// The network of the clients of one run, on a GPU that other runs may use as well.
pub struct CudaNetwork {
    device: Arc<Device>,
    dispatcher: Arc<Dispatcher>,
    /// The same on the CPU: its layout, initial values, and what posteriors need.
    native: NativeNetwork,
    network: Arc<Network>,
    /// The last layer as a network on the body's features.
    head: Network,
    point_kernels: Kernels<PointKey>,
    forward_kernels: Kernels<ForwardKey>,
    langevin_kernels: Kernels<LossKind>,
    gaussian_kernels: Kernels<GaussianKey>,
    /// The network under so many heads.
    wide: Mutex<HashMap<usize, Arc<Network>>>,
    corrections: Corrections,
    arenas: Arenas,
}

impl fmt::Debug for CudaNetwork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CudaNetwork").field("device", &self.device).finish_non_exhaustive()
    }
}

impl CudaNetwork {
    /// Clients train this network on this GPU.
    ///
    /// # Errors
    /// A GPU that gives no queue of work.
    pub fn new(device: &Arc<Device>, network: Network) -> Result<Self, CudaError> {
        Ok(Self {
            dispatcher: Arc::new(Dispatcher::new(device)?),
            head: network.head(),
            native: NativeNetwork::new(network.clone()),
            network: Arc::new(network),
            point_kernels: Kernels::default(),
            forward_kernels: Kernels::default(),
            langevin_kernels: Kernels::default(),
            gaussian_kernels: Kernels::default(),
            wide: Mutex::default(),
            corrections: Corrections::default(),
            arenas: Arenas::default(),
            device: Arc::clone(device),
        })
    }

    /// What joins its clients' work into launches.
    pub(crate) const fn dispatcher(&self) -> &Arc<Dispatcher> {
        &self.dispatcher
    }

    /// Remembers a failure of the GPU: what a client could not do because of it is not the client's fault.
    fn noted<T>(&self, result: Result<T, CudaError>) -> Result<T, CudaError> {
        result.inspect_err(|error| self.dispatcher.note_failure(error))
    }

    /// The network under so many heads side by side.
    fn under_heads(&self, heads: usize) -> Result<Arc<Network>, CudaError> {
        if let Some(found) = lock(&self.wide).get(&heads) {
            return Ok(Arc::clone(found));
        }
        let wide = self.network.under_heads(heads).map_err(|error| {
            CudaError::Unsupported(format!("train a body under {heads} heads at once: {error}"))
        })?;
        Ok(Arc::clone(lock(&self.wide).entry(heads).or_insert_with(|| Arc::new(wide))))
    }

    /// The GPU.
    #[must_use]
    pub const fn device(&self) -> &Arc<Device> {
        &self.device
    }
}

impl ClientNetwork for CudaNetwork {
    fn layout(&self) -> &Layout {
        self.network.layout()
    }

    fn input_size(&self) -> usize {
        self.network.inputs()
    }

    fn output_size(&self) -> usize {
        self.network.outputs()
    }

    /// The CPU's, so that runs on both start from the same values.
    fn initialise(&self, rng: &mut ChaCha8Rng) -> Vec<f32> {
        self.native.initialise(rng)
    }

    fn outputs(&self, values: &[f32], inputs: &[f32]) -> Result<Vec<f32>, NetworkFailure> {
        Ok(self.noted(self.forward_rows(ForwardKey::Outputs, values, inputs))?)
    }

    fn features(&self, values: &[f32], inputs: &[f32]) -> Result<Vec<f32>, NetworkFailure> {
        Ok(self.noted(self.forward_rows(ForwardKey::Features, values, inputs))?)
    }

    fn outputs_of_heads(
        &self,
        values: &[f32],
        heads: &[f32],
        inputs: &[f32],
    ) -> Result<Vec<Vec<f32>>, NetworkFailure> {
        Ok(self.noted(self.forward_heads(values, heads, inputs))?)
    }

    fn linearised(&self) -> Arc<dyn LinearisedNetwork> {
        let Some(algebra) = self.device.algebra() else { return self.native.linearised() };
        Arc::new(CudaLinearised { network: Arc::clone(&self.network), algebra: Arc::clone(algebra) })
    }

    fn train(
        &self,
        training: &PointTraining<'_>,
        values: &mut [f32],
        batches: &mut Batches<'_>,
    ) -> Result<f64, NetworkFailure> {
        Ok(self.noted(self.train_points(training, values, batches))?)
    }

    fn train_gaussian(
        &self,
        training: &GaussianTraining<'_>,
        gaussian: &mut Gaussian,
        batches: &mut Batches<'_>,
    ) -> Result<GaussianTrained, TrainingError> {
        Ok(self.noted(self.train_distribution(training, gaussian, batches))?)
    }

    fn sample_head(
        &self,
        sampling: &HeadSampling<'_>,
        head: &mut HeadSamples,
        rng: &mut ChaCha8Rng,
    ) -> Result<f64, TrainingError> {
        Ok(self.noted(self.sample_chain(sampling, head, rng))?)
    }

    fn train_body_under_heads(
        &self,
        training: &PointTraining<'_>,
        values: &mut [f32],
        heads: &[f32],
        batches: &mut Batches<'_>,
    ) -> Result<f64, TrainingError> {
        Ok(self.noted(self.train_under_heads(training, values, heads, batches))?)
    }
}

impl From<CudaError> for TrainingError {
    fn from(error: CudaError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<CudaError> for NetworkFailure {
    fn from(error: CudaError) -> Self {
        Self { kind: Some("CudaError".to_owned()), source: Box::new(error) }
    }
}
