//! The text of the kernel: constants, types and tables of one network, and the order in which its stages run.

use super::memory::{Memory, Tensor, TensorKind};
use super::stages::{Slot, Stage, Work};
use super::tiles::{Convolution, LinearJob};
use super::{SAMPLES, THREADS};
use crate::training::{OptimizerKind, TrainingRequest};

/// The device functions, in the order in which they need each other; the constants they are compiled with come before.
const FILES: [&str; 13] = [
    include_str!("../../../kernels/job.cuh"),
    include_str!("../../../kernels/random.cuh"),
    include_str!("../../../kernels/intrinsics.cuh"),
    include_str!("../../../kernels/common.cuh"),
    include_str!("../../../kernels/activation.cuh"),
    include_str!("../../../kernels/linear.cuh"),
    include_str!("../../../kernels/loss.cuh"),
    include_str!("../../../kernels/pooling.cuh"),
    include_str!("../../../kernels/convolution.cuh"),
    include_str!("../../../kernels/convolution_gradient.cuh"),
    include_str!("../../../kernels/optimizer.cuh"),
    include_str!("../../../kernels/parameter_steps.cuh"),
    include_str!("../../../kernels/memory.cuh"),
];

/// What the text is made from.
pub(super) struct Source<'a> {
    pub(super) request: &'a TrainingRequest<'a>,
    pub(super) stages: &'a [Stage],
    pub(super) slots: &'a [Slot],
    pub(super) moves: &'a [bool],
    pub(super) memory: &'a Memory,
    pub(super) group: usize,
}

impl Source<'_> {
    /// The whole translation unit.
    pub(super) fn text(&self) -> String {
        let mut text = self.constants();
        for file in FILES {
            text.push_str(file);
            text.push('\n');
        }
        text.push_str(&self.types());
        text.push_str(&self.tables());
        text.push_str(&self.entry());
        text
    }

    fn constants(&self) -> String {
        let optimizer = match self.request.optimizer {
            OptimizerKind::Sgd => 0,
            OptimizerKind::Momentum => 1,
            OptimizerKind::Adam => 2,
        };
        format!(
            "constexpr int THREADS = {THREADS};\nconstexpr int SAMPLES = {SAMPLES};\nconstexpr int GROUP = {};\n\
             constexpr int DEPTH = {};\nconstexpr int OPTIMIZER = {optimizer};\nconstexpr bool PRIOR = {};\n\n",
            self.group, self.memory.depth, self.request.prior,
        )
    }

    /// Slots and the stages whose sizes device functions take as a type.
    fn types(&self) -> String {
        let mut text = String::new();
        for (index, slot) in self.slots.iter().enumerate() {
            text += &format!("typedef {} Slot{index};\n", slot.type_name());
        }
        for (index, stage) in self.stages.iter().enumerate() {
            let next = index + 1;
            match &stage.work {
                Work::Convolution { spec, pooled } => {
                    let pool = if *pooled { 2 } else { 1 };
                    let tiles = self.convolution(index).weight_gradient(self.memory.scratch_limit);
                    text += &format!(
                        "typedef Convolution<Slot{index}, {}, {}, {}, {pool}> Convolution{index};\n",
                        spec.out, spec.kernel, spec.stride,
                    );
                    text += &format!(
                        "typedef WeightGradientTiles<Convolution{index}, {}, {}> Tiles{index};\n",
                        tiles.m_tiles, tiles.splits,
                    );
                }
                Work::MaxPool(pool) | Work::AveragePool(pool) => {
                    text += &format!(
                        "typedef Pooling<Slot{index}, Slot{next}, {}, {}> Pooling{index};\n",
                        pool.window, pool.stride,
                    );
                }
                Work::Linear { .. } | Work::Activation(_) => {}
            }
        }
        text.push('\n');
        text
    }

    /// Sizes of a stage that is a convolution.
    pub(super) fn convolution(&self, stage: usize) -> Convolution {
        let spec = match self.stages[stage].work {
            Work::Convolution { spec, .. } => spec,
            _ => fedsi_nn::ConvSpec { out: 0, kernel: 1, stride: 1, padding: 0 },
        };
        Convolution::new(&self.slots[stage].shape, spec)
    }

    /// Phase 2's tables, and how much work is in them.
    fn tables(&self) -> String {
        let mut layers = Vec::new();
        let mut jobs = 0;
        let mut runs = Vec::new();
        let mut tasks = 0;
        let mut run = |count: usize, terms: usize, source: usize, stride: usize, at: usize, index: usize| {
            runs.push(format!("    {{{count}, {terms}, {source}, {stride}, {at}, {index}, {tasks}}},\n"));
            tasks += count.div_ceil(32);
        };
        for tensor in self.memory.tensors.iter().filter(|tensor| self.moves[tensor.stage]) {
            let Tensor { stage, kind, rows: outputs, columns, at, index, .. } = *tensor;
            let stored = self.memory.rows.iter().find(|rows| rows.stage == stage);
            let slopes = stored.map_or(0, |rows| rows.slopes);
            match kind {
                TensorKind::Weight => {
                    let activations = match stored.and_then(|rows| rows.activations) {
                        Some(offset) => offset.to_string(),
                        None => "-1".to_owned(),
                    };
                    let job = LinearJob::new(outputs);
                    let LinearJob { output_warps, input_warps } = job;
                    layers.push(format!(
                        "    {{{columns}, {outputs}, {output_warps}, {input_warps}, {activations}, {slopes}, {at}, {index}, {jobs}}},\n"
                    ));
                    jobs += job.count(columns, outputs);
                }
                TensorKind::Bias => run(columns, 0, slopes, columns.next_multiple_of(4), at, index),
                TensorKind::Convolution => {
                    let source = self.memory.partials + self.memory.partials_of_stage[stage];
                    run(columns, self.group, source, self.memory.partials_stride, at, index);
                }
            }
        }
        let tensors: Vec<String> = self
            .memory
            .tensors
            .iter()
            .map(|Tensor { stage, rows, columns, stride, at, index, .. }| {
                format!("    {{{rows}, {columns}, {stride}, {at}, {index}, {}}},\n", self.moves[*stage])
            })
            .collect();
        let mut text =
            format!("__constant__ Tensor TENSORS[{}] = {{\n{}}};\n", tensors.len(), tensors.concat());
        if !layers.is_empty() {
            let (count, rows) = (layers.len(), layers.concat());
            text += &format!("constexpr int LINEAR_JOBS = {jobs};\n");
            text += &format!("__constant__ LinearLayer LINEAR_LAYERS[{count}] = {{\n{rows}}};\n");
        }
        if !runs.is_empty() {
            let (count, rows) = (runs.len(), runs.concat());
            text += &format!("constexpr int SUMMED_TASKS = {tasks};\n");
            text += &format!("__constant__ SummedParameters SUMMED[{count}] = {{\n{rows}}};\n");
        }
        text.push('\n');
        text
    }
}
