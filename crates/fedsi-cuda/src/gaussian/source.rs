//! The text of the kernel: constants, the client's memory, and the order in which layers run.

use std::fmt::Write as _;

use fedsi_nn::LayerSet;

use super::{GaussianRequest, SAMPLES, THREADS};
use crate::forward::layers::{Layer, Work};
use crate::training::{LossKind, OptimizerKind};

/// The device functions, in the order in which they need each other.
const FILES: [&str; 10] = [
    include_str!("../../kernels/job.cuh"),
    include_str!("../../kernels/random.cuh"),
    include_str!("../../kernels/intrinsics.cuh"),
    include_str!("../../kernels/common.cuh"),
    include_str!("../../kernels/activation.cuh"),
    include_str!("../../kernels/forward_layers.cuh"),
    include_str!("../../kernels/optimizer.cuh"),
    include_str!("../../kernels/gaussian.cuh"),
    include_str!("../../kernels/gaussian_linear.cuh"),
    include_str!("../../kernels/gaussian_layers.cuh"),
];

/// The translation unit, and how many values of workspace a client needs.
pub(super) fn source(
    request: &GaussianRequest<'_>,
    layers: &[Layer],
    part: &LayerSet,
    group: usize,
) -> (String, usize) {
    let optimizer = match request.optimizer {
        OptimizerKind::Sgd => 0,
        OptimizerKind::Momentum => 1,
        OptimizerKind::Adam => 2,
    };
    let mut text = format!(
        "constexpr int THREADS = {THREADS};\nconstexpr int SAMPLES = {SAMPLES};\nconstexpr int GROUP = {group};\n\
         constexpr int OPTIMIZER = {optimizer};\nconstexpr bool PRIOR = false;\nconstexpr bool FOLLOWS = {};\n\n",
        request.follows
    );
    for file in FILES {
        text.push_str(file);
        text.push('\n');
    }
    let mut entry = Entry { request, layers, part, group, memory: Memory::default() };
    text.push_str(&entry.text());
    (text, entry.memory.floats)
}

/// Declarations of pointers into the client's workspace.
#[derive(Default)]
struct Memory {
    floats: usize,
    text: String,
}

impl Memory {
    /// `float* name`, of all blocks.
    fn shared(&mut self, name: &str, floats: usize) {
        let _ = writeln!(self.text, "    float* const {name} = job.workspace + {}ull;", self.floats);
        self.floats += floats.next_multiple_of(32);
    }

    /// The same, one for each block.
    fn own(&mut self, name: &str, floats: usize, group: usize) {
        let stride = floats.next_multiple_of(32);
        let _ = writeln!(
            self.text,
            "    float* const {name} = job.workspace + {}ull + rank * {stride}ull;",
            self.floats
        );
        self.floats += stride * group;
    }
}

struct Entry<'a> {
    request: &'a GaussianRequest<'a>,
    layers: &'a [Layer],
    part: &'a LayerSet,
    group: usize,
    memory: Memory,
}

impl Entry<'_> {
    fn moves(&self, layer: &Layer) -> bool {
        !layer.parameters.is_empty() && self.part.contains(layer.index)
    }

    /// Place of the lowest layer that moves: no gradient is needed below it.
    fn lowest(&self) -> usize {
        self.layers.iter().position(|layer| self.moves(layer)).unwrap_or(0)
    }

    fn text(&mut self) -> String {
        self.lay_out();
        let (forward, backward) = (self.forward(), self.backward());
        let (draws, steps) = (self.draws(), self.steps());
        let (mut begin, mut end) = (String::new(), String::new());
        for layer in self.layers.iter().filter(|layer| !layer.parameters.is_empty()) {
            let (range, moves) = (&layer.parameters, self.moves(layer));
            let _ = writeln!(
                begin,
                "    gaussian_begin(state, job.deviation, {}, {}, {moves}, rank);",
                range.start, range.end
            );
            if moves {
                let _ = writeln!(
                    end,
                    "    gaussian_end(state, job.deviation, {}, {}, rank);",
                    range.start, range.end
                );
            }
        }
        let inputs = self.layers.first().map_or(0, |first| first.inputs);
        let (outputs, last) = (self.layers.last().map_or(0, |last| last.outputs), self.layers.len());
        let cross_entropy = self.request.loss == LossKind::CrossEntropy;
        let memory = &self.memory.text;
        format!(
            r#"extern "C" __global__ void __launch_bounds__(THREADS, 1)
train_gaussian(const GaussianJob* jobs, const float2* corrections, Settings settings) {{
    __shared__ GaussianShared shared;
    const GaussianJob job = jobs[blockIdx.x / GROUP];
    const int rank = blockIdx.x % GROUP;
{memory}
    int barriers = 0;
{begin}    group_barrier(job.counter, ++barriers * GROUP, GROUP);

    for (int step = 0; step < job.steps; step++) {{
        const int* rows = job.batches + (size_t)step * job.batch_stride;
        const int count = __ldg(rows + job.batch_stride - 1);
        const float share = 1.0f / (float)max(count, 1);
        const int per_block = ceil_div(count, GROUP);
        const int begin = min(count, rank * per_block);
        const int end = min(count, begin + per_block);
        const int blocks = per_block == 0 ? 0 : ceil_div(count, per_block);
{draws}
        for (int first = begin; first < end; first += SAMPLES) {{
            const int samples = min(SAMPLES, end - first);
            for (int i = thread_index(); i < samples * {inputs}; i += THREADS) {{
                const size_t row = __ldg(rows + first + i / {inputs});
                slot0[(size_t)first * {inputs} + i] = __ldg(job.inputs + row * {inputs} + i % {inputs});
            }}
            __syncthreads();
{forward}            drawn_loss<{outputs}, {cross_entropy}>(slot{last}, gradient0, job.targets, rows, losses, first, samples, share, settings.precision);
            __syncthreads();
{backward}        }}
        group_barrier(job.counter, ++barriers * GROUP, GROUP);

        const GaussianStep now = gaussian_step_of(job, settings, corrections, step);
{steps}        if (rank == GROUP - 1 && warp_index() == WARPS - 1) {{
            drawn_mean_loss(losses, count, job.losses + step);
        }}
        group_barrier(job.counter, ++barriers * GROUP, GROUP);
    }}
{end}}}
"#
        )
    }

    /// The client's workspace.
    fn lay_out(&mut self) {
        let Self { request, layers, group, .. } = *self;
        let parameters = request.network.layout().len();
        let with_moments = |memory: &mut Memory, name: &str| {
            let first = if request.optimizer == OptimizerKind::Sgd { 0 } else { parameters };
            let second = if request.optimizer == OptimizerKind::Adam { parameters } else { 0 };
            memory.shared(&format!("{name}_first"), first);
            memory.shared(&format!("{name}_second"), second);
        };
        let memory = &mut self.memory;
        memory.shared("rho", parameters);
        memory.shared("variance", parameters);
        with_moments(memory, "mean");
        with_moments(memory, "rho");
        if request.follows {
            memory.shared("reference_rho", parameters);
            with_moments(memory, "reference_mean");
            with_moments(memory, "reference_rho");
        }
        let reference = if request.follows {
            "reference_rho, {reference_mean_first, reference_mean_second}, {reference_rho_first, reference_rho_second}"
        } else {
            "nullptr, {nullptr, nullptr}, {nullptr, nullptr}"
        };
        let _ = writeln!(
            memory.text,
            "    const GaussianState state = {{job.mean, rho, variance, {{mean_first, mean_second}}, {{rho_first, rho_second}},\n        \
             job.reference_mean, job.reference_deviation, {reference}}};"
        );
        memory.shared("losses", request.batch);
        let widest = layers.iter().flat_map(|layer| [layer.inputs, layer.outputs]).max().unwrap_or(0);
        memory.shared("slot0", request.batch * layers.first().map_or(0, |first| first.inputs));
        memory.own("gradient0", SAMPLES * widest, group);
        memory.own("gradient1", SAMPLES * widest, group);
        for (place, layer) in layers.iter().enumerate() {
            memory.shared(&format!("slot{}", place + 1), request.batch * layer.outputs);
            match layer.work {
                Work::Linear => {
                    memory.shared(&format!("slopes{place}"), request.batch * layer.outputs);
                    memory.shared(&format!("variance_slopes{place}"), request.batch * layer.outputs);
                }
                Work::Convolution(_) => {
                    let count = layer.parameters.len();
                    memory.own(&format!("drawn{place}"), count, group);
                    memory.shared(&format!("parts{place}"), count.next_multiple_of(32) * group);
                }
                Work::MaxPool(_) => {
                    memory.own(&format!("winners{place}"), SAMPLES * layer.outputs, group);
                }
                Work::AveragePool(_) | Work::Activation(_) => {}
            }
        }
    }

    /// Before a step's first sample: what linear layers draw from, and convolutions' weights.
    fn draws(&self) -> String {
        let mut text = String::new();
        for (place, layer) in self.layers.iter().enumerate() {
            let (at, index) = (layer.parameters.start, layer.index);
            let _ = match layer.work {
                Work::Linear => writeln!(
                    text,
                    "        const DrawnLayer layer{place} = {{job.mean + {at}, variance + {at}, job.noise_key, step, {index}}};"
                ),
                Work::Convolution(_) => writeln!(
                    text,
                    "        draw_weights(state, {at}, {}, drawn{place}, job.noise_key, step, {index});",
                    layer.parameters.len()
                ),
                _ => Ok(()),
            };
        }
        text
    }

    fn forward(&self) -> String {
        let mut text = String::new();
        for (place, layer) in self.layers.iter().enumerate() {
            let (inputs, outputs, next) = (layer.inputs, layer.outputs, place + 1);
            let (x, y) = (
                format!("slot{place} + (size_t)first * {inputs}"),
                format!("slot{next} + (size_t)first * {outputs}"),
            );
            let call = match &layer.work {
                Work::Linear => format!(
                    "drawn_linear_forward<{inputs}, {outputs}>(layer{place}, slot{place}, slot{next}, variance_slopes{place}, first, samples)"
                ),
                Work::Convolution(shape) => {
                    let bias = layer.bias - layer.parameters.start;
                    format!(
                        "forward_convolution<{shape}, Identity>({x}, {y}, drawn{place}, drawn{place} + {bias}, samples)"
                    )
                }
                Work::MaxPool(shape) => {
                    format!(
                        "forward_max_pool<{shape}>({x}, {y}, reinterpret_cast<int*>(winners{place}), samples)"
                    )
                }
                Work::AveragePool(shape) => format!("forward_average_pool<{shape}>({x}, {y}, samples)"),
                Work::Activation(name) => format!("forward_activation<{outputs}, {name}>({x}, {y}, samples)"),
            };
            let _ = writeln!(text, "            {call};\n            __syncthreads();");
        }
        text
    }

    /// From the gradient in the outputs, in `gradient0`, down to the lowest layer that moves.
    fn backward(&self) -> String {
        let mut text = String::new();
        let mut current = 0;
        let lowest = self.lowest();
        for (place, layer) in self.layers.iter().enumerate().skip(lowest).rev() {
            let (inputs, outputs, next) = (layer.inputs, layer.outputs, place + 1);
            let (dy, dx) = (format!("gradient{current}"), format!("gradient{}", 1 - current));
            let goes_on = place > lowest;
            let mut calls = Vec::new();
            match &layer.work {
                Work::Linear => {
                    let kept = format!("slopes{place}, variance_slopes{place}");
                    calls.push(format!("keep_slopes<{outputs}>({dy}, {kept}, first, samples)"));
                    if goes_on {
                        calls.push("__syncthreads()".to_owned());
                        calls.push(format!(
                            "drawn_linear_backward<{inputs}, {outputs}>(layer{place}, slot{place}, {kept}, {dx}, first, samples, shared)"
                        ));
                    }
                }
                Work::Convolution(shape) => {
                    if self.moves(layer) {
                        let stride = layer.parameters.len().next_multiple_of(32);
                        calls.push(format!(
                            "convolution_part<{shape}>(slot{place} + (size_t)first * {inputs}, {dy}, parts{place} + rank * {stride}ull, samples, first == begin)"
                        ));
                    }
                    if goes_on {
                        calls.push(format!("convolution_backward<{shape}>(drawn{place}, {dy}, {dx}, samples)"));
                    }
                }
                Work::MaxPool(shape) => {
                    calls.push(format!("window_backward<{shape}, true>({dy}, {dx}, reinterpret_cast<int*>(winners{place}), samples)"));
                }
                Work::AveragePool(shape) => {
                    calls.push(format!("window_backward<{shape}, false>({dy}, {dx}, nullptr, samples)"));
                }
                Work::Activation(name) => calls.push(format!(
                    "function_backward<{outputs}, {name}>(slot{place} + (size_t)first * {inputs}, slot{next} + (size_t)first * {outputs}, {dy}, samples)"
                )),
            }
            for call in calls {
                let _ = writeln!(text, "            {call};");
            }
            text.push_str("            __syncthreads();\n");
            if !matches!(layer.work, Work::Activation(_)) {
                current = 1 - current;
            }
        }
        text
    }

    /// Phase 2. Layers begin at different blocks, so that small ones do not all fall to the first.
    fn steps(&self) -> String {
        let mut text = String::new();
        for (place, layer) in self.layers.iter().enumerate().filter(|(_, layer)| self.moves(layer)) {
            let (inputs, outputs, at) = (layer.inputs, layer.outputs, layer.parameters.start);
            let turn = format!("(rank + {place}) % GROUP");
            let call = match layer.work {
                Work::Linear => format!(
                    "drawn_linear_steps<{inputs}, {outputs}>(state, {at}, slot{place}, slopes{place}, variance_slopes{place}, count, {turn}, now, shared)"
                ),
                _ => {
                    let count = layer.parameters.len();
                    let stride = count.next_multiple_of(32);
                    format!(
                        "convolution_steps(state, {at}, {count}, parts{place}, {stride}, blocks, {turn}, job.noise_key, {}, step, now)",
                        layer.index
                    )
                }
            };
            let _ = writeln!(text, "        {call};");
        }
        text
    }
}
