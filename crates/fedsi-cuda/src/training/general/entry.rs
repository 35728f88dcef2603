//! The kernel's function: which device functions run in which order on which buffers.

use super::ENTRY;
use super::memory::{Place, TensorKind, lowest};
use super::source::Source;
use super::stages::{Layout, Work};
use super::tiles::{backward_parts, outputs_at_once};
use crate::training::LossKind;

/// A block barrier, on a line of its own.
const BARRIER: &str = "            __syncthreads();\n";

impl Source<'_> {
    pub(super) fn entry(&self) -> String {
        let mut text = format!(
            "extern \"C\" __global__ void __launch_bounds__(THREADS, 1) {ENTRY}(const Job* jobs, const float2* corrections, Settings settings) {{\n"
        );
        text += &self.variables();
        text += &self.preparation();
        text += "    for (int step = 0; step < job.steps; step++) {\n";
        text += &self.samples();
        text += &self.parameters();
        text += "    }\n";
        text += "    store_parameters(TENSORS, job.values, parameters.values, rank);\n";
        text += "}\n";
        text
    }

    /// Names for everything in memory.
    fn variables(&self) -> String {
        let memory = self.memory;
        let mut text = String::from(
            "    extern __shared__ __align__(128) float shared_memory[];\n    \
             const Job job = jobs[blockIdx.x / GROUP];\n    \
             const int rank = blockIdx.x % GROUP;\n    \
             if (job.steps <= 0) {\n        return;\n    }\n",
        );
        text +=
            &format!("    float* own = job.workspace + {}ll + rank * {}ll;\n", memory.own, memory.own_floats);
        for buffer in &memory.buffers {
            let (name, element) = (&buffer.name, buffer.element);
            let place = match buffer.place {
                Place::Shared(offset) => format!("shared_memory + {offset}"),
                Place::Global(offset) => format!("own + {offset}ll"),
            };
            text += &format!("    {element}* {name} = reinterpret_cast<{element}*>({place});\n");
        }
        if memory.partials_stride > 0 {
            text += &format!(
                "    float* partials = job.workspace + {}ll + rank * {}ll;\n",
                memory.partials, memory.partials_stride,
            );
        }
        text += &format!(
            "    float* losses = job.workspace + {}ll;\n    \
             const Parameters parameters = {{job.workspace, job.workspace + {}ll, job.workspace + {}ll, job.prior_mean, job.prior_weight}};\n    \
             int barriers = 0;\n\n",
            memory.losses, memory.first_moments, memory.second_moments,
        );
        text
    }

    /// Whether inputs arrive while the threads do something else.
    fn inputs_are_async(&self) -> bool {
        let as_it_lies = self.slots[0].layout == Layout::Image { padding: 0 };
        as_it_lies && self.slots[0].count().is_multiple_of(4) && self.memory.is_shared("slot0")
    }

    /// What is done once, before the first step.
    fn preparation(&self) -> String {
        let memory = self.memory;
        let mut text = format!(
            "    zero_floats(shared_memory, {}, thread_index(), THREADS);\n    \
             zero_floats(own, {}ll, thread_index(), THREADS);\n    __syncthreads();\n",
            memory.shared_floats, memory.own_floats,
        );
        text += "    load_parameters(TENSORS, job.values, parameters.values, rank);\n";
        for (index, stage) in self.stages.iter().enumerate() {
            if matches!(stage.work, Work::Convolution { .. }) {
                text += &format!(
                    "    convolution_offsets<Convolution{index}>(offsets{index}, Tiles{index}::ROWS);\n"
                );
            }
        }
        if self.inputs_are_async() {
            text += &load_first_chunk("0", "    ");
        }
        text += "    group_barrier(job.counter, ++barriers * GROUP, GROUP);\n\n";
        text
    }

    /// Phase 1: the block's samples through the network and back.
    fn samples(&self) -> String {
        let is_async = self.inputs_are_async();
        let mut text = String::from(
            "        const int* rows = job.batches + (size_t)step * job.batch_stride;\n        \
             const int count = __ldg(rows + job.batch_stride - 1);\n        \
             const int each = ceil_div(count, GROUP);\n        \
             const int start = rank * each;\n        \
             const int end = min(count, start + each);\n",
        );
        for (index, stage) in self.stages.iter().enumerate() {
            if let Work::Convolution { .. } = stage.work {
                let noisy = self.is_noisy(index);
                let at = self
                    .memory
                    .tensors
                    .iter()
                    .find(|tensor| tensor.stage == index)
                    .map_or(0, |tensor| tensor.at);
                text += &format!(
                    "        stage_convolution<Convolution{index}, {noisy}>(parameters.values + {at}, staged{index}, settings.convolution_noise, job.noise_key, step, {});\n",
                    stage.layer,
                );
            }
        }
        text += "        for (int first = start; first < end; first += SAMPLES) {\n            \
                 const int samples = min(SAMPLES, end - first);\n";
        if is_async {
            text += "            async_copy_wait<0>();\n";
        } else {
            text += "            load_inputs<Slot0, false>(job.inputs, rows + first, slot0, samples);\n";
        }
        text += BARRIER;
        for index in 0..self.stages.len() {
            text += &self.forward(index);
            text += BARRIER;
        }
        text += &self.loss();
        text += BARRIER;
        for index in (lowest(self.moves)..self.stages.len()).rev() {
            text += &self.backward(index);
            text += BARRIER;
        }
        for rows in &self.memory.rows {
            let (stage, next) = (rows.stage, rows.stage + 1);
            if let Some(activations) = rows.activations {
                text += &format!(
                    "            store_rows<Slot{stage}::COUNT>(slot{stage}, job.workspace + {activations}ll, first, samples);\n"
                );
            }
            text += &format!(
                "            store_rows<Slot{next}::COUNT>(gradient{next}, job.workspace + {}ll, first, samples);\n",
                rows.slopes,
            );
        }
        text += BARRIER;
        if is_async {
            text += "            if (first + SAMPLES < end) {\n                \
                     load_inputs<Slot0, true>(job.inputs, rows + first + SAMPLES, slot0, min(SAMPLES, end - first - SAMPLES));\n                \
                     async_copy_commit();\n            }\n";
        }
        text += "        }\n";
        if self.memory.partials_stride > 0 {
            text += &format!(
                "        if (start >= end) {{\n            zero_floats(partials, {}, thread_index(), THREADS);\n        }}\n",
                self.memory.partials_stride,
            );
        }
        text += "        group_barrier(job.counter, ++barriers * GROUP, GROUP);\n\n";
        text
    }

    /// Whether there is noise on a stage's parameters.
    fn is_noisy(&self, stage: usize) -> bool {
        self.request.weight_noise && self.moves[stage]
    }

    /// The noise argument of a linear stage.
    fn noise(&self, stage: usize) -> String {
        if self.is_noisy(stage) {
            format!("LinearNoise{{factors{stage}, norms{stage}, norms{stage} + SAMPLES}}")
        } else {
            "LinearNoise{nullptr, nullptr, nullptr}".to_owned()
        }
    }

    /// Where the weights and the biases of a linear stage are.
    fn weights(&self, stage: usize) -> (usize, usize) {
        let at = |kind: TensorKind| {
            let mut tensors = self.memory.tensors.iter();
            tensors.find(|tensor| tensor.stage == stage && tensor.kind == kind).map_or(0, |tensor| tensor.at)
        };
        (at(TensorKind::Weight), at(TensorKind::Bias))
    }

    fn forward(&self, index: usize) -> String {
        let stage = &self.stages[index];
        let (function, next) = (&stage.function, index + 1);
        match &stage.work {
            Work::Linear { inputs, outputs } => {
                let (weight, bias) = self.weights(index);
                let noisy = self.is_noisy(index);
                let noise = self.noise(index);
                let mut text = String::new();
                if noisy {
                    text += &format!(
                        "            linear_noise<{inputs}, {outputs}>(slot{index}, {noise}, settings.weight_noise, job.noise_key, step, {}, first);\n{BARRIER}",
                        stage.layer,
                    );
                }
                text += &format!(
                    "            linear_forward<{inputs}, {outputs}, {}, {function}, {noisy}>(parameters.values + {weight}, parameters.values + {bias}, slot{index}, slot{next}, {noise});\n",
                    outputs_at_once(*outputs),
                );
                text
            }
            Work::Convolution { pooled, .. } => {
                let winners = winners(index, *pooled);
                format!(
                    "            convolution_forward<Convolution{index}, Slot{next}, {function}>(slot{index}, staged{index}, offsets{index}, slot{next}, {winners}, samples);\n"
                )
            }
            Work::MaxPool(_) => format!(
                "            max_pool_forward<Pooling{index}>(slot{index}, slot{next}, winners{index}, samples);\n"
            ),
            Work::AveragePool(_) => {
                format!(
                    "            average_pool_forward<Pooling{index}>(slot{index}, slot{next}, samples);\n"
                )
            }
            Work::Activation(function) => {
                format!(
                    "            activation_forward<Slot{index}, {function}>(slot{index}, slot{next}, samples);\n"
                )
            }
        }
    }

    fn loss(&self) -> String {
        let last = self.stages.len();
        let heads = self.request.heads;
        let width = self.slots[last].count() / heads;
        let share = format!("1.0f / (count * {heads})");
        match self.request.loss {
            LossKind::CrossEntropy => format!(
                "            cross_entropy<{width}, {heads}>(slot{last}, gradient{last}, static_cast<const int*>(job.targets), rows, losses, first, samples, {share});\n"
            ),
            LossKind::Gaussian => format!(
                "            gaussian<{width}, {heads}>(slot{last}, gradient{last}, static_cast<const float*>(job.targets), rows, losses, first, samples, {share}, settings.precision);\n"
            ),
        }
    }

    fn backward(&self, index: usize) -> String {
        let next = index + 1;
        let below = index.checked_sub(1).map_or("Identity", |below| self.stages[below].function.as_str());
        // The gradient in the inputs of the lowest stage that moves is nobody's.
        let is_last = index == lowest(self.moves);
        let mut text = String::new();
        match &self.stages[index].work {
            Work::Linear { inputs, outputs } if !is_last => {
                let noisy = self.is_noisy(index);
                let noise = self.noise(index);
                if noisy {
                    text += &format!(
                        "            linear_noise_pull<{outputs}>(gradient{next}, {noise});\n{BARRIER}"
                    );
                }
                text += &format!(
                    "            linear_backward<{inputs}, {outputs}, {}, {below}, {noisy}>(parameters.values + {}, gradient{next}, slot{index}, gradient{index}, scratch, {noise});\n",
                    backward_parts(*inputs, *outputs),
                    self.weights(index).0,
                );
            }
            Work::Linear { .. } => {}
            Work::Convolution { pooled, .. } => {
                let winners = winners(index, *pooled);
                if self.moves[index] {
                    let offset = self.memory.partials_of_stage[index];
                    text += &format!(
                        "            convolution_weight_gradient<Convolution{index}, Slot{next}::Gradient, Tiles{index}>(slot{index}, gradient{next}, {winners}, offsets{index}, partials + {offset}, scratch, samples, first == start);\n"
                    );
                }
                if !is_last {
                    let (pass, _) = self.convolution(index).input_gradient(self.memory.scratch_limit);
                    text += &format!(
                        "            convolution_input_gradient<Convolution{index}, Slot{next}::Gradient, {below}, {pass}>(slot{index}, staged{index}, gradient{next}, {winners}, gradient{index}, scratch, samples);\n"
                    );
                }
            }
            Work::MaxPool(_) => {
                text += &format!(
                    "            pool_backward<Pooling{index}, {below}, true>(slot{index}, gradient{next}, gradient{index}, winners{index}, samples);\n"
                );
            }
            Work::AveragePool(_) => {
                text += &format!(
                    "            pool_backward<Pooling{index}, {below}, false>(slot{index}, gradient{next}, gradient{index}, nullptr, samples);\n"
                );
            }
            Work::Activation(function) => {
                text += &format!(
                    "            activation_backward<Slot{index}, {function}, {below}>(slot{index}, slot{next}, gradient{next}, gradient{index}, samples);\n"
                );
            }
        }
        text
    }

    /// Phase 2: gradients by parameters, and the optimiser's step on each.
    fn parameters(&self) -> String {
        let moving = |kind: fn(TensorKind) -> bool| {
            self.memory.tensors.iter().any(|tensor| self.moves[tensor.stage] && kind(tensor.kind))
        };
        let mut text = String::from("        const Step now = step_of(settings, corrections, step);\n");
        if moving(|kind| kind == TensorKind::Weight) {
            text += &format!(
                "        step_linear_layers<{}, LINEAR_JOBS>(LINEAR_LAYERS, job, rows, count, rank, parameters, now, stage);\n",
                self.memory.rows.len(),
            );
        }
        if moving(|kind| kind != TensorKind::Weight) {
            text += "        step_summed_parameters<sizeof(SUMMED) / sizeof(SUMMED[0]), SUMMED_TASKS>(SUMMED, job.workspace, count, rank, parameters, now);\n";
        }
        text += &format!(
            "        if (rank == GROUP - 1 && warp_index() == WARPS - 1) {{\n            \
             sum_losses(losses, count * {}, job.losses + step);\n        }}\n",
            self.request.heads,
        );
        // Not before phase 2, whose own copies would wait for these.
        if self.inputs_are_async() {
            text += "        if (step + 1 < job.steps) {\n";
            text += &load_first_chunk("step + 1", "            ");
            text += "        }\n";
        }
        text += "        group_barrier(job.counter, ++barriers * GROUP, GROUP);\n";
        text
    }
}

/// Which position of each window won, where the convolution pools.
fn winners(stage: usize, pooled: bool) -> String {
    if pooled { format!("winners{stage}") } else { "nullptr".to_owned() }
}

/// Starts the copies of a step's first chunk.
fn load_first_chunk(step: &str, indent: &str) -> String {
    format!(
        "{indent}const Chunk chunk = first_chunk(job, {step}, rank);\n\
         {indent}load_inputs<Slot0, true>(job.inputs, chunk.rows, slot0, chunk.samples);\n\
         {indent}async_copy_commit();\n"
    )
}
