//! Training of independent normals (mean-field variational inference), as [`fedsi_nn::VariationalTrainer`] does it: all steps
//! of a client in one launch.
//!
//! The kernel is `extern "C" __global__ void train_gaussian(const GaussianJob* jobs, const float2* corrections,
//! Settings settings)`, launched cooperatively; corrections are [`crate::training::Correction`]s of all steps. A group of
//! blocks works on one client. A step has two phases, with a barrier of the group after each: by samples (draws, forward and
//! backward; activations in the workspace, i.e. in L2) and by parameters (gradients summed over the batch in a fixed order,
//! divergence, optimisers).

mod job;
mod source;

use fedsi_fl::parameters::Part;
use fedsi_nn::Network;

use crate::CudaError;
use crate::forward::layers::{check_sizes, layers};
use crate::kernel::{DeviceLimits, Kernel, Launch};
use crate::training::{LossKind, OptimizerKind};

pub use job::GaussianJob;

/// Threads of a block.
const THREADS: usize = 512;
/// Samples that a block takes through the network at a time.
const SAMPLES: usize = 4;

/// Training of a Gaussian as a kernel sees it: what is fixed when it is compiled.
#[derive(Clone, Copy, Debug)]
pub struct GaussianRequest<'a> {
    /// The layers.
    pub network: &'a Network,
    /// What moves; the rest is drawn from a distribution that stays.
    pub part: Part,
    /// What is minimised.
    pub loss: LossKind,
    /// Which optimiser; means and spreads have one each.
    pub optimizer: OptimizerKind,
    /// Whether the reference is trained as well.
    pub follows: bool,
    /// Samples of the largest batch.
    pub batch: usize,
}

/// The kernel for a request on a GPU.
///
/// # Errors
/// [`CudaError::Unsupported`] for nothing that moves, an empty batch, or layers of more values than an `int` can count.
pub fn kernel(request: &GaussianRequest<'_>, limits: &DeviceLimits) -> Result<Kernel, CudaError> {
    let network = request.network;
    let part = match request.part {
        Part::Nothing => network.layers_where(|_| false),
        Part::Body => network.body_layers(),
        Part::Head => network.head_layer(),
        Part::All => network.all_layers(),
    };
    if request.batch == 0 || part.lowest().is_none() {
        return Err(CudaError::Unsupported(format!(
            "train {:?} of a distribution on batches of {} samples: something has to move, and a batch has at least one sample",
            request.part, request.batch,
        )));
    }
    let layers = layers(network);
    check_sizes(&layers, request.batch.max(SAMPLES))?;
    let blocks_per_client = limits.blocks_per_client();
    let (source, workspace) = source::source(request, &layers, &part, blocks_per_client as usize);
    Ok(Kernel {
        source,
        entry: "train_gaussian",
        blocks_per_client,
        threads: THREADS as u32,
        shared_bytes: 0,
        workspace,
        launch: Launch::Cooperative,
    })
}
