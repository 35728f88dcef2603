//! Where everything lies: a block's buffers in shared memory as far as they fit, the rest and what a client's blocks share in
//! the workspace.

use fedsi_nn::Network;

use super::stages::{Slot, Stage, Work};
use super::tiles::{self, Convolution, LinearJob, WeightGradient};
use super::{SAMPLES, THREADS};
use crate::kernel::DeviceLimits;
use crate::training::{OptimizerKind, TrainingRequest};

/// Floats of a cache line, to which parts of the workspace are aligned.
const LINE: usize = 32;

/// A buffer of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    /// Its variable in the kernel.
    pub(super) name: String,
    /// What it is an array of.
    pub(super) element: &'static str,
    floats: usize,
    pub(super) place: Place,
}

/// Where a buffer is, as an offset in floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In shared memory.
    Shared(usize),
    /// In the block's part of the workspace.
    Global(usize),
}

/// A tensor among the parameters as the kernel keeps them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor {
    /// Stage it belongs to.
    pub(super) stage: usize,
    pub(super) kind: TensorKind,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Floats from row to row.
    pub(super) stride: usize,
    /// Offset in the kernel's order.
    pub(super) at: usize,
    /// Offset in the network's.
    pub(super) index: usize,
}

/// What a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorKind {
    /// Weights of a linear layer.
    Weight,
    /// Biases of a linear layer.
    Bias,
    /// Weights and biases of a convolution.
    Convolution,
}

/// What phase 2 reads of a linear layer that moves, as offsets into the workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) stage: usize,
    /// None: the inputs of the network, as they lie in the client's data.
    pub(super) activations: Option<usize>,
    pub(super) slopes: usize,
}

/// All places and sizes.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) buffers: Vec<Buffer>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) rows: Vec<Rows>,
    /// Samples of a batch that phase 2 stages at a time.
    pub(super) depth: usize,
    /// Floats of scratch that the choice of tiles may count on.
    pub(super) scratch_limit: usize,
    pub(super) shared_floats: usize,
    /// Floats of the parameters in the kernel's order, from the start of the workspace on.
    pub(super) parameters: usize,
    /// Offsets into the workspace.
    pub(super) first_moments: usize,
    pub(super) second_moments: usize,
    pub(super) losses: usize,
    pub(super) partials: usize,
    pub(super) own: usize,
    /// Floats of one block's gradients of convolutions, and where each stage's begin.
    pub(super) partials_stride: usize,
    pub(super) partials_of_stage: Vec<usize>,
    /// Floats of one block's buffers outside shared memory.
    pub(super) own_floats: usize,
    /// Floats of the whole workspace.
    pub(super) workspace: usize,
}

/// Floats that phase 2 stages for both halves of a block.
const fn stage_floats(depth: usize) -> usize {
    2 * depth * LinearJob::STAGED_FOR_SAMPLE
}

impl Memory {
    pub(super) fn new(
        request: &TrainingRequest<'_>,
        limits: &DeviceLimits,
        stages: &[Stage],
        slots: &[Slot],
        moves: &[bool],
        group: usize,
    ) -> Self {
        let shared_limit = limits.shared_bytes as usize / 4;
        // The whole of the usual batch at a time where shared memory is large, and room for larger tiles.
        let (depth, scratch_limit) = match limits.shared_bytes {
            200_000.. => (56, 21_000),
            120_000.. => (56, stage_floats(56)),
            _ => (24, stage_floats(24)),
        };
        let mut buffers = buffers(request, stages, slots, moves, scratch_limit);
        let scratch = scratch_floats(stages, slots, moves, scratch_limit);
        let shared_floats = place(&mut buffers, stage_floats(depth), scratch, shared_limit);
        let own_floats = end_of(&buffers, |place| match place {
            Place::Global(start) => Some(start),
            Place::Shared(_) => None,
        });

        let (tensors, parameters) = tensors(request.network, stages);
        let mut workspace = parameters.next_multiple_of(LINE);
        let mut take = |floats: usize| {
            let start = workspace;
            workspace += floats.next_multiple_of(LINE);
            start
        };
        let moments = |wanted: bool| if wanted { parameters } else { 0 };
        let first_moments = take(moments(request.optimizer != OptimizerKind::Sgd));
        let second_moments = take(moments(request.optimizer == OptimizerKind::Adam));
        let losses = take(request.batch * request.heads);
        let mut rows = Vec::new();
        let mut partials_of_stage = vec![0; stages.len()];
        let mut partials_stride = 0;
        for (index, stage) in stages.iter().enumerate().filter(|&(index, _)| moves[index]) {
            match stage.work {
                Work::Linear { inputs, outputs } => {
                    // Rows of inputs that are no multiple of 16 bytes cannot be copied in such pieces.
                    let direct = index == 0 && inputs.is_multiple_of(4);
                    let activations = (!direct).then(|| take(request.batch * inputs.next_multiple_of(4)));
                    let slopes = take(request.batch * outputs.next_multiple_of(4));
                    rows.push(Rows { stage: index, activations, slopes });
                }
                Work::Convolution { spec, .. } => {
                    let convolution = Convolution::new(&slots[index].shape, spec);
                    partials_of_stage[index] = partials_stride;
                    partials_stride += convolution.parameters();
                }
                Work::MaxPool(_) | Work::AveragePool(_) | Work::Activation(_) => {}
            }
        }
        let partials_stride = partials_stride.next_multiple_of(LINE);
        let partials = take(group * partials_stride);
        let own_floats = own_floats.next_multiple_of(LINE);
        let own = take(group * own_floats);
        Self {
            buffers,
            tensors,
            rows,
            depth,
            scratch_limit,
            shared_floats,
            parameters,
            first_moments,
            second_moments,
            losses,
            partials,
            own,
            partials_stride,
            partials_of_stage,
            own_floats,
            workspace,
        }
    }

    /// Whether a buffer lies in shared memory.
    pub(super) fn is_shared(&self, name: &str) -> bool {
        self.buffers.iter().any(|buffer| buffer.name == name && matches!(buffer.place, Place::Shared(_)))
    }
}

/// The stage whose gradient is the last one wanted: the lowest that moves.
pub(super) fn lowest(moves: &[bool]) -> usize {
    moves.iter().position(|&moves| moves).unwrap_or(moves.len())
}

/// All buffers of a block but scratch, not yet placed.
fn buffers(
    request: &TrainingRequest<'_>,
    stages: &[Stage],
    slots: &[Slot],
    moves: &[bool],
    scratch_limit: usize,
) -> Vec<Buffer> {
    let mut buffers = Vec::new();
    let mut add = |name: String, element: &'static str, floats: usize| {
        buffers.push(Buffer { name, element, floats: floats.next_multiple_of(4), place: Place::Global(0) });
    };
    let lowest = lowest(moves);
    for (index, slot) in slots.iter().enumerate() {
        add(format!("slot{index}"), "float", slot.floats());
        // The loss writes its gradient whether or not anything moves.
        if index > lowest || index == stages.len() {
            add(format!("gradient{index}"), "float", slot.gradient_floats());
        }
    }
    for (index, stage) in stages.iter().enumerate() {
        let after = &slots[index + 1];
        match stage.work {
            Work::Linear { .. } if request.weight_noise && moves[index] => {
                add(format!("factors{index}"), "float", after.floats());
                add(format!("norms{index}"), "float", 2 * SAMPLES);
            }
            Work::Convolution { spec, pooled } => {
                let convolution = Convolution::new(&slots[index].shape, spec);
                add(format!("staged{index}"), "float", convolution.staged());
                add(format!("offsets{index}"), "int", convolution.weight_gradient(scratch_limit).rows);
                if pooled {
                    add(format!("winners{index}"), "unsigned char", (SAMPLES * after.count()).div_ceil(4));
                }
            }
            Work::MaxPool(_) => add(format!("winners{index}"), "int", SAMPLES * after.count()),
            Work::Linear { .. } | Work::AveragePool(_) | Work::Activation(_) => {}
        }
    }
    buffers
}

/// Floats of scratch that the backward pass wants.
fn scratch_floats(stages: &[Stage], slots: &[Slot], moves: &[bool], limit: usize) -> usize {
    let lowest = lowest(moves);
    let of_stage = |(index, stage): (usize, &Stage)| match stage.work {
        _ if index < lowest => 0,
        Work::Linear { inputs, outputs } => tiles::backward_scratch(inputs, outputs),
        Work::Convolution { spec, .. } => {
            let convolution = Convolution::new(&slots[index].shape, spec);
            let WeightGradient { scratch, .. } = convolution.weight_gradient(limit);
            if index > lowest { scratch.max(convolution.input_gradient(limit).1) } else { scratch }
        }
        Work::MaxPool(_) | Work::AveragePool(_) | Work::Activation(_) => 0,
    };
    stages.iter().enumerate().map(of_stage).max().unwrap_or(0)
}

/// Places what phase 2 stages, scratch and all buffers; returns the floats of shared memory used. Phase 2 and scratch share
/// their place unless scratch is too large for shared memory. Small buffers come first: most fit.
fn place(buffers: &mut Vec<Buffer>, stage: usize, scratch: usize, limit: usize) -> usize {
    let together = stage.max(scratch);
    let fits = together <= limit;
    let mut shared = if fits { together } else { stage };
    let mut global = 0;
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.sort_by_key(|&index| buffers[index].floats);
    for index in order {
        let buffer = &mut buffers[index];
        if shared + buffer.floats <= limit {
            buffer.place = Place::Shared(shared);
            shared += buffer.floats;
        } else {
            buffer.place = Place::Global(global);
            global += buffer.floats;
        }
    }
    buffers.push(Buffer {
        name: "stage".to_owned(),
        element: "float",
        floats: stage,
        place: Place::Shared(0),
    });
    let place = if fits { Place::Shared(0) } else { Place::Global(global) };
    buffers.push(Buffer { name: "scratch".to_owned(), element: "float", floats: scratch, place });
    shared
}

/// The end of the last buffer among those whose start `start_of` tells.
fn end_of(buffers: &[Buffer], start_of: impl Fn(Place) -> Option<usize>) -> usize {
    buffers
        .iter()
        .filter_map(|buffer| start_of(buffer.place).map(|start| start + buffer.floats))
        .max()
        .unwrap_or(0)
}

/// The parameters' places in the kernel's order, and how many floats that takes. Weights and biases of a convolution follow
/// one another as in the network's order; rows of a linear layer are padded.
fn tensors(network: &Network, stages: &[Stage]) -> (Vec<Tensor>, usize) {
    let mut tensors = Vec::new();
    let mut total: usize = 0;
    for (stage, Stage { work, layer, .. }) in stages.iter().enumerate() {
        let range = network.layout().of_layer(*layer);
        let mut add = |kind: TensorKind, rows: usize, columns: usize, stride: usize, index: usize| {
            total = total.next_multiple_of(4);
            tensors.push(Tensor { stage, kind, rows, columns, stride, at: total, index });
            total += rows * stride;
        };
        match *work {
            Work::Linear { inputs, outputs } => {
                add(TensorKind::Weight, outputs, inputs, inputs.next_multiple_of(4), range.start);
                add(TensorKind::Bias, 1, outputs, outputs, range.start + outputs * inputs);
            }
            Work::Convolution { .. } => {
                add(TensorKind::Convolution, 1, range.len(), range.len(), range.start)
            }
            Work::MaxPool(_) | Work::AveragePool(_) | Work::Activation(_) => {}
        }
    }
    (tensors, total.next_multiple_of(4))
}

const _: () = assert!(THREADS == 512, "a half of a block has the eight warps that phase 2's jobs take");
