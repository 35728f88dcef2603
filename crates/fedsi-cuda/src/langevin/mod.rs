//! Samples of heads by Langevin dynamics: a client's whole chain in one launch.
//!
//! The chain is that of [`fedsi_nn::Langevin`] on the head alone, with the body's features as inputs
//! ([`crate::forward`] works them out) and the gradient of all rows in every step. The kernel is
//! `extern "C" __global__ void sample_head(const LangevinJob* jobs, LangevinSettings settings)`, launched cooperatively.

mod job;

use std::fmt::Write as _;

use fedsi_nn::Network;

use crate::CudaError;
use crate::kernel::{DeviceLimits, Kernel, Launch};
use crate::training::LossKind;

pub use job::{LangevinJob, LangevinSettings};

/// Threads of a block.
const THREADS: usize = 512;
/// Rows at a time where they are not kept in shared memory.
const STREAMED_ROWS: usize = 64;
/// Fewest rows that are worth keeping there.
const FEWEST_ROWS: usize = 16;

/// The device functions.
const FILES: [&str; 4] = [
    include_str!("../../kernels/random.cuh"),
    include_str!("../../kernels/intrinsics.cuh"),
    include_str!("../../kernels/common.cuh"),
    include_str!("../../kernels/langevin.cuh"),
];

/// The kernel for chains of a network's head. Fast where a block's share of the rows (a thirteenth of a client's on an H200)
/// fits shared memory; it then reads features once for the whole chain.
///
/// # Errors
/// [`CudaError::Unsupported`] for a head of more parameters than an `int` can count, or of more outputs than a few rows of them
/// fit shared memory.
pub fn kernel(network: &Network, limits: &DeviceLimits, loss: LossKind) -> Result<Kernel, CudaError> {
    let (features, outputs) = (network.features(), network.outputs());
    let parameters = (features + 1).saturating_mul(outputs);
    if i32::try_from(parameters.saturating_add(features)).is_err() {
        return Err(CudaError::Unsupported(format!(
            "sample a head of {parameters} parameters; at most {} can be counted",
            i32::MAX
        )));
    }
    let plan = Plan::new(features, outputs, limits.shared_bytes as usize / size_of::<f32>()).ok_or_else(|| {
        CudaError::Unsupported(format!(
            "sample a head of {outputs} outputs: {STREAMED_ROWS} rows of them do not fit {} bytes of shared memory",
            limits.shared_bytes
        ))
    })?;
    let blocks_per_client = limits.blocks_per_client();
    let group = blocks_per_client as usize;
    let mut source = format!(
        "constexpr int THREADS = {THREADS};\nconstexpr int SAMPLES = 4;\nconstexpr int GROUP = {group};\nconstexpr int FEATURES = \
         {features};\nconstexpr int OUTPUTS = {outputs};\nconstexpr bool CROSS_ENTROPY = {};\n",
        loss == LossKind::CrossEntropy
    );
    let _ = writeln!(
        source,
        "constexpr int CHUNK = {};\nconstexpr bool ROWS_IN_SHARED = {};\nconstexpr bool WEIGHTS_IN_SHARED = {};",
        plan.chunk, plan.rows_in_shared, plan.weights_in_shared
    );
    for file in FILES {
        source.push_str(file);
        source.push('\n');
    }
    Ok(Kernel {
        source,
        entry: "sample_head",
        blocks_per_client,
        threads: THREADS as u32,
        shared_bytes: (plan.floats * size_of::<f32>()) as u32,
        workspace: group * parameters + group,
        launch: Launch::Cooperative,
    })
}

/// What is kept in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    chunk: usize,
    rows_in_shared: bool,
    weights_in_shared: bool,
    floats: usize,
}

impl Plan {
    /// As much as fits `room` values: weights and rows, weights alone, or neither.
    fn new(features: usize, outputs: usize, room: usize) -> Option<Self> {
        let padded = outputs.next_multiple_of(4);
        let weights = features.saturating_mul(padded);
        let row = (features | 1).saturating_add(padded + 1);
        // Outputs and loss of a row, its features elsewhere.
        let streamed = STREAMED_ROWS * (padded + 1);
        let resident = room.saturating_sub(weights) / row;
        if resident >= FEWEST_ROWS {
            // More rows than threads would only wait longer for the first of them. A multiple of 4 keeps float4 aligned.
            let chunk = resident.min(THREADS) / 4 * 4;
            let floats = weights + chunk * row;
            return Some(Self { chunk, rows_in_shared: true, weights_in_shared: true, floats });
        }
        let weights_in_shared = weights.saturating_add(streamed) <= room;
        let floats = streamed + if weights_in_shared { weights } else { 0 };
        let plan = Self { chunk: STREAMED_ROWS, rows_in_shared: false, weights_in_shared, floats };
        (floats <= room).then_some(plan)
    }
}
