//! The training kernel for any network: its source is generated from the list of layers.
//!
//! A group of blocks works on one client through all its steps, in one launch. The client's parameters and the optimiser's
//! memory stay in global memory, i.e. in L2. A step has two phases, with a barrier of the group after each:
//!
//! 1. By samples: every block takes its share of the batch, four samples at a time, forward and backward through the network,
//!    with all activations in its shared memory.
//! 2. By parameters: every block takes its share of the parameters, sums their gradient over the batch, and makes the
//!    optimiser's step while it has them in registers.
//!
//! Nothing is summed by atomics: sums have a fixed order, and the number of blocks in a group depends on the GPU alone, so that
//! a client's result does not depend on the other clients of a launch.

mod entry;
mod memory;
mod source;
mod stages;
mod tiles;

use fedsi_fl::parameters::Part;

use self::memory::Memory;
use self::source::Source;
use self::stages::Work;
use super::TrainingRequest;
use crate::CudaError;
use crate::kernel::{DeviceLimits, Kernel, Launch};

/// Threads of a block.
const THREADS: usize = 512;
/// Warps of a block.
const WARPS: usize = THREADS / 32;
/// Samples that a block takes through the network at a time.
const SAMPLES: usize = 4;
/// The kernel's function.
const ENTRY: &str = "train";

/// The kernel for a request on a GPU: its source, and what it needs at launch. Fast where the activations of four samples fit
/// shared memory; what does not fit is kept in the workspace, and read through the caches.
///
/// # Errors
/// [`CudaError::Unsupported`] for outputs that the heads do not divide, an empty batch, or a layer of more values than an
/// `int` can count.
pub fn kernel(request: &TrainingRequest<'_>, limits: &DeviceLimits) -> Result<Kernel, CudaError> {
    let network = request.network;
    if request.batch == 0 || request.heads == 0 || !network.outputs().is_multiple_of(request.heads) {
        return Err(CudaError::Unsupported(format!(
            "train on batches of {} samples with {} outputs under {} heads: a batch has at least one sample, and the heads \
             have equally many outputs",
            request.batch,
            network.outputs(),
            request.heads,
        )));
    }
    let (stages, slots) = stages::stages(network);
    let part = match request.part {
        Part::Nothing => network.layers_where(|_| false),
        Part::Body => network.body_layers(),
        Part::Head => network.head_layer(),
        Part::All => network.all_layers(),
    };
    let has_parameters = |work: &Work| matches!(work, Work::Linear { .. } | Work::Convolution { .. });
    let moves: Vec<bool> =
        stages.iter().map(|stage| has_parameters(&stage.work) && part.contains(stage.layer)).collect();
    let blocks_per_client = limits.blocks_per_client();
    let group = blocks_per_client as usize;
    let memory = Memory::new(request, limits, &stages, &slots, &moves, group);
    let largest = slots.iter().map(stages::Slot::floats).max().unwrap_or(0).max(memory.parameters);
    if i32::try_from(largest.max(request.batch * request.heads)).is_err() {
        return Err(CudaError::Unsupported(format!(
            "train a network with {largest} parameters or values of four samples of a layer; at most {} can be counted",
            i32::MAX,
        )));
    }
    let source = Source { request, stages: &stages, slots: &slots, moves: &moves, memory: &memory, group };
    Ok(Kernel {
        source: source.text(),
        entry: ENTRY,
        blocks_per_client,
        threads: THREADS as u32,
        shared_bytes: (memory.shared_floats * 4) as u32,
        workspace: memory.workspace,
        launch: Launch::Cooperative,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use fedsi_nn::{ConvSpec, LayerSpec, Network, PoolSpec};

    use super::*;
    use crate::training::{LossKind, OptimizerKind};

    /// The convolutional network of the paper's experiments on CIFAR-10.
    fn network() -> Network {
        let conv = |out| LayerSpec::Conv(ConvSpec { out, kernel: 5, stride: 1, padding: 0 });
        let pool = || LayerSpec::MaxPool(PoolSpec::square(2));
        let (relu, linear) = (|| LayerSpec::Relu, LayerSpec::Linear);
        let layers = [
            conv(6),
            relu(),
            pool(),
            conv(16),
            relu(),
            pool(),
            LayerSpec::Flatten,
            linear(120),
            relu(),
            linear(84),
            relu(),
            linear(10),
        ];
        Network::new(&[3, 32, 32], &layers).unwrap()
    }

    fn request(network: &Network) -> TrainingRequest<'_> {
        TrainingRequest {
            network,
            part: Part::All,
            loss: LossKind::CrossEntropy,
            optimizer: OptimizerKind::Adam,
            prior: false,
            weight_noise: false,
            heads: 1,
            batch: 50,
        }
    }

    #[test]
    fn the_papers_network_fits_the_shared_memory_of_an_h200() {
        let network = network();
        let kernel = kernel(&request(&network), &DeviceLimits::H200).unwrap();
        assert_eq!((kernel.blocks_per_client, kernel.threads), (13, 512));
        assert!(kernel.shared_bytes <= DeviceLimits::H200.shared_bytes, "{} bytes", kernel.shared_bytes);
        assert!(!kernel.source.contains("(own + "), "a buffer of a block is in global memory");
    }

    #[test]
    fn a_group_depends_on_the_gpu_alone() {
        let network = network();
        for (multiprocessors, blocks) in [(132, 13), (108, 10), (46, 4), (6, 1)] {
            let limits = DeviceLimits { multiprocessors, shared_bytes: 101_376, architecture: 86 };
            let kernel = kernel(&request(&network), &limits).unwrap();
            assert_eq!(kernel.blocks_per_client, blocks);
            assert!(kernel.shared_bytes <= limits.shared_bytes, "{} bytes", kernel.shared_bytes);
        }
    }
}
