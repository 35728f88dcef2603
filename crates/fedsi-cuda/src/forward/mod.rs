//! Outputs and features of many rows under clients' parameters, in f32: predictions, residuals, and what a head is trained
//! on.
//!
//! The kernel is `extern "C" __global__ void forward_rows(const ForwardJob* jobs)`. A block takes a few rows at a time
//! through all layers; values between layers stay in shared memory where a few rows fit.

pub(crate) mod layers;

use std::fmt::Write as _;

use fedsi_nn::Network;

use crate::CudaError;
use crate::kernel::{DeviceLimits, Kernel, Launch};
use crate::memory::Plain;
use layers::{Layer, Work, check_sizes, layers};

/// What is worked out of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForwardKind {
    /// The network's outputs.
    Outputs,
    /// What the head sees: the outputs of the layers below it.
    Features,
}

/// One client's rows. Addresses are of device memory, as integers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardJob {
    /// `float[parameters]`, in the order of the network's layout.
    pub values: u64,
    /// `float[rows][inputs]`.
    pub inputs: u64,
    /// `float[rows][outputs]` or `float[rows][features]`.
    pub outputs: u64,
    /// `float[Kernel::workspace]`; 0 where the kernel needs none.
    pub workspace: u64,
    /// Rows; clients of a launch can have different numbers of them.
    pub rows: i32,
    /// Fills the struct to a multiple of 8 bytes.
    pub unused: i32,
}

// SAFETY: numbers alone, and no gaps: addresses, then two numbers of 4 bytes.
unsafe impl Plain for ForwardJob {}
const _: () = assert!(size_of::<ForwardJob>() == 40, "as in the kernel");

/// Threads of a block.
const THREADS: usize = 256;
/// Blocks of a client: enough for a GPU with few clients; a block without rows ends at once.
const BLOCKS: usize = 64;
/// Bytes of shared memory a block takes at most, so that two or more fit on a multiprocessor.
const SHARED: usize = 96 * 1024;

/// The device functions.
const FILES: [&str; 5] = [
    include_str!("../../kernels/intrinsics.cuh"),
    include_str!("../../kernels/common.cuh"),
    include_str!("../../kernels/activation.cuh"),
    include_str!("../../kernels/forward_layers.cuh"),
    include_str!("../../kernels/forward.cuh"),
];

/// The kernel for a network.
///
/// # Errors
/// A network whose rows have more values than the kernel's indices reach.
pub fn kernel(network: &Network, limits: &DeviceLimits, kind: ForwardKind) -> Result<Kernel, CudaError> {
    let mut layers = layers(network);
    if kind == ForwardKind::Features {
        layers.pop();
    }
    // Values of a row at its widest; two such buffers take turns.
    let widest =
        layers.iter().flat_map(|layer| [layer.inputs, layer.outputs]).fold(network.inputs(), usize::max);
    let room = SHARED.min(limits.shared_bytes as usize) / (2 * size_of::<f32>());
    let in_shared = [8, 4, 2, 1].into_iter().find(|rows| rows * widest <= room);
    let rows = in_shared.unwrap_or(4);
    check_sizes(&layers, rows)?;
    let buffers = 2 * rows * widest;
    let (shared, workspace) = if in_shared.is_some() { (buffers, 0) } else { (0, BLOCKS * buffers) };
    let width = layers.last().map_or(network.inputs(), |last| last.outputs);
    Ok(Kernel {
        source: source(network, &layers, rows, widest, width, in_shared.is_some()),
        entry: "forward_rows",
        blocks_per_client: BLOCKS as u32,
        threads: THREADS as u32,
        shared_bytes: (shared * size_of::<f32>()) as u32,
        workspace,
        launch: Launch::Independent,
    })
}

fn source(
    network: &Network,
    layers: &[Layer],
    rows: usize,
    widest: usize,
    width: usize,
    in_shared: bool,
) -> String {
    let mut text = format!(
        "constexpr int THREADS = {THREADS};\nconstexpr int SAMPLES = 4;\nconstexpr int GROUP = {BLOCKS};\nconstexpr int ROWS = {rows};\n"
    );
    for file in FILES {
        text.push_str(file);
        text.push('\n');
    }
    let inputs = network.inputs();
    let memory = if in_shared {
        "    extern __shared__ __align__(16) float memory[];\n".to_owned()
    } else {
        format!("    float* memory = job.workspace + (size_t)rank * {};\n", 2 * rows * widest)
    };
    let mut calls = String::new();
    let mut slot = 0;
    let mut skip_next = false;
    for (place, layer) in layers.iter().enumerate() {
        if std::mem::take(&mut skip_next) {
            continue;
        }
        // An activation right after a layer with parameters is applied to its outputs at once.
        let function = match (&layer.work, layers.get(place + 1).map(|next| &next.work)) {
            (Work::Linear | Work::Convolution(_), Some(Work::Activation(name))) => {
                skip_next = true;
                name.as_str()
            }
            _ => "Identity",
        };
        let (from, to) = (format!("buffer{slot}"), format!("buffer{}", 1 - slot));
        let parameters = format!("job.values + {}, job.values + {}", layer.parameters.start, layer.bias);
        let call = match &layer.work {
            Work::Linear => {
                let (inputs, outputs) = (layer.inputs, layer.outputs);
                format!(
                    "forward_linear<ROWS, {inputs}, {outputs}, {function}>({from}, {to}, {parameters}, rows)"
                )
            }
            Work::Convolution(shape) => {
                format!("forward_convolution<{shape}, {function}>({from}, {to}, {parameters}, rows)")
            }
            Work::MaxPool(shape) => format!("forward_max_pool<{shape}>({from}, {to}, nullptr, rows)"),
            Work::AveragePool(shape) => format!("forward_average_pool<{shape}>({from}, {to}, rows)"),
            Work::Activation(name) => {
                format!("forward_activation<{}, {name}>({from}, {to}, rows)", layer.outputs)
            }
        };
        let _ = writeln!(calls, "        {call};\n        __syncthreads();");
        slot = 1 - slot;
    }
    let _ = write!(
        text,
        "\nextern \"C\" __global__ void __launch_bounds__(THREADS) forward_rows(const ForwardJob* jobs) {{\n    \
         const ForwardJob job = jobs[blockIdx.x / GROUP];\n    const int rank = blockIdx.x % GROUP;\n{memory}    \
         float* buffer0 = memory;\n    float* buffer1 = memory + ROWS * {widest};\n    \
         for (int first = rank * ROWS; first < job.rows; first += GROUP * ROWS) {{\n        \
         const int rows = min(ROWS, job.rows - first);\n        \
         copy_values(job.inputs + (size_t)first * {inputs}, buffer0, rows * {inputs});\n        __syncthreads();\n{calls}        \
         copy_values(buffer{slot}, job.outputs + (size_t)first * {width}, rows * {width});\n        __syncthreads();\n    }}\n}}\n"
    );
    text
}
