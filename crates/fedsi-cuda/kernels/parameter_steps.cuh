// Phase 2 of a step, by parameters: gradients of linear layers from the rows that all blocks have stored, sums of the blocks'
// gradients of convolutions, and the optimiser's step on each while it is in registers.
//
// One piece of code with run-time sizes serves all layers: it runs once a step, and would otherwise be fetched anew each time.
// DEPTH (samples staged at a time, a multiple of 8) is defined before this file.

// A linear layer that moves. Offsets count floats: of `workspace`, but for the inputs of the network.
struct LinearLayer {
    int inputs;
    int outputs;
    // A job is 16 `output_warps` outputs by 32 `input_warps` inputs: a tile of 16 by 32 for each of up to eight warps, laid
    // out so that layers with few outputs make few jobs.
    int output_warps;
    int input_warps;
    // Samples' inputs of the layer, rows of 4 ceil(inputs / 4); -1 where they are the inputs of the network.
    long long activations;
    // The loss's gradients in the outputs, rows of 4 ceil(outputs / 4).
    long long slopes;
    // Of the weights among the kernel's parameters, and among the network's.
    long long at;
    long long index;
    // Jobs of the layers before.
    int first_job;
};

// Parameters whose gradient is a plain sum of `terms` rows (0: of the batch's samples).
struct SummedParameters {
    int count;
    int terms;
    long long source;
    long long stride;
    long long at;
    long long index;
    // Tasks of 32 parameters before.
    int first_task;
};

constexpr int TILE_INPUTS = 32;
constexpr int TILE_OUTPUTS = 16;
// Floats that a job stages for a sample: at most 8 by 1, or 2 by 4 tiles, each side with 8 floats more, so that lanes meet
// different banks.
constexpr int STAGED_FOR_SAMPLE = 8 * TILE_OUTPUTS + TILE_INPUTS + 16;
constexpr int STAGE = DEPTH * STAGED_FOR_SAMPLE;
constexpr int HALF = THREADS / 2;
static_assert(HALF == 256, "a job is that of eight warps");

// A job: the gradient of some inputs by some outputs, and the step on these weights, by half of a block. `rows` are the
// batch's rows of `activations` where those are the network's inputs, else null.
__device__ __forceinline__ void linear_job(const LinearLayer& layer, int block, const float* activations, const int* rows,
                                           const float* slopes, int count, const Parameters& parameters, const Step& step,
                                           float* stage, int half) {
    const int input_stride = round_up(layer.inputs, 4);
    const int slope_stride = round_up(layer.outputs, 4);
    const int job_inputs = TILE_INPUTS * layer.input_warps;
    const int job_outputs = TILE_OUTPUTS * layer.output_warps;
    const int input_blocks = ceil_div(input_stride, job_inputs);
    const int job_input = block % input_blocks * job_inputs;
    const int job_output = block / input_blocks * job_outputs;
    const int staged_outputs = min(job_outputs, slope_stride - job_output);
    const int staged_inputs = min(job_inputs, input_stride - job_input);
    const int slope_row = job_outputs + 8;
    const int input_row = job_inputs + 8;
    const int thread = thread_index() - half * HALF;
    const int g = lane_index() >> 2;
    const int t = lane_index() & 3;
    const int warp = thread >> 5;
    // Where the warp's tile is within the job.
    const int warp_output = warp % layer.output_warps * TILE_OUTPUTS;
    const int warp_input = warp / layer.output_warps * TILE_INPUTS;
    const int first_output = job_output + warp_output;
    const int first_input = job_input + warp_input;
    const bool busy = warp_output < staged_outputs && warp_input < staged_inputs;
    float* staged_slopes = stage;
    float* staged_activations = stage + DEPTH * slope_row;

    // Weights and moments first: they arrive while the products are computed.
    float2 values[4][2];
    float2 first_moments[4][2];
    float2 second_moments[4][2];
#pragma unroll
    for (int n = 0; n < 4; n++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int output = first_output + g + 8 * r;
            int input = first_input + n * 8 + 2 * t;
            bool inside = busy && output < layer.outputs && input < input_stride;
            long long at = layer.at + (long long)output * input_stride + input;
            values[n][r] = make_float2(0.0f, 0.0f);
            first_moments[n][r] = make_float2(0.0f, 0.0f);
            second_moments[n][r] = make_float2(0.0f, 0.0f);
            if (inside) {
                values[n][r] = __ldcg(reinterpret_cast<const float2*>(parameters.values + at));
            }
            if (OPTIMIZER != SGD && inside && !step.is_first) {
                first_moments[n][r] = __ldcg(reinterpret_cast<const float2*>(parameters.first_moments + at));
            }
            if (OPTIMIZER == ADAM && inside && !step.is_first) {
                second_moments[n][r] = __ldcg(reinterpret_cast<const float2*>(parameters.second_moments + at));
            }
        }
    }

    float sums[4][4] = {};
#pragma unroll 1
    for (int start = 0; start < count; start += DEPTH) {
        const int depth = min(DEPTH, count - start);
        const int padded_depth = round_up(depth, 8);
        const int slope_quads = staged_outputs / 4;
        const int input_quads = job_inputs / 4;
#pragma unroll 1
        for (int i = thread; i < padded_depth * slope_quads; i += HALF) {
            int sample = i / slope_quads;
            int quad = i - sample * slope_quads;
            float* target = staged_slopes + sample * slope_row + quad * 4;
            if (sample < depth) {
                async_copy16(target, slopes + (long long)(start + sample) * slope_stride + job_output + quad * 4);
            } else {
                *reinterpret_cast<float4*>(target) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
        }
#pragma unroll 1
        for (int i = thread; i < padded_depth * input_quads; i += HALF) {
            int sample = i / input_quads;
            int quad = i - sample * input_quads;
            float* target = staged_activations + sample * input_row + quad * 4;
            if (sample < depth && quad * 4 < staged_inputs) {
                long long row = rows ? __ldg(rows + start + sample) : start + sample;
                async_copy16(target, activations + row * input_stride + job_input + quad * 4);
            } else {
                *reinterpret_cast<float4*>(target) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
        }
        async_copy_commit();
        async_copy_wait<0>();
        named_barrier(1 + half, HALF);
        if (busy) {
            // Rows past the last output repeat it and are not stored.
            const float* upper = staged_slopes + t * slope_row + min(warp_output + g, staged_outputs - 1);
            const float* lower = staged_slopes + t * slope_row + min(warp_output + g + 8, staged_outputs - 1);
            const float* inputs = staged_activations + t * input_row + warp_input + g;
#pragma unroll 1
            for (int k = 0; k < padded_depth; k += 8) {
                Split<4> a;
                a.set(0, upper[k * slope_row]);
                a.set(1, lower[k * slope_row]);
                a.set(2, upper[(k + 4) * slope_row]);
                a.set(3, lower[(k + 4) * slope_row]);
#pragma unroll
                for (int n = 0; n < 4; n++) {
                    Split<2> b;
                    b.set(0, inputs[k * input_row + n * 8]);
                    b.set(1, inputs[(k + 4) * input_row + n * 8]);
                    multiply_add(sums[n], sums[n], a, b);
                }
            }
        }
        named_barrier(1 + half, HALF);
    }

#pragma unroll
    for (int n = 0; n < 4; n++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int output = first_output + g + 8 * r;
            int input = first_input + n * 8 + 2 * t;
            if (!busy || output >= layer.outputs || input >= layer.inputs) {
                continue;
            }
            bool both = input + 1 < layer.inputs;
            float2 gradient = make_float2(sums[n][2 * r], sums[n][2 * r + 1]);
            if (PRIOR) {
                long long index = layer.index + (long long)output * layer.inputs + input;
                gradient.x += prior_gradient(parameters, values[n][r].x, index);
                gradient.y += both ? prior_gradient(parameters, values[n][r].y, index + 1) : 0.0f;
            }
            descend(values[n][r].x, first_moments[n][r].x, second_moments[n][r].x, gradient.x, step);
            if (both) {
                descend(values[n][r].y, first_moments[n][r].y, second_moments[n][r].y, gradient.y, step);
            }
            long long at = layer.at + (long long)output * input_stride + input;
            __stcg(reinterpret_cast<float2*>(parameters.values + at), values[n][r]);
            if (OPTIMIZER != SGD) {
                __stcg(reinterpret_cast<float2*>(parameters.first_moments + at), first_moments[n][r]);
            }
            if (OPTIMIZER == ADAM) {
                __stcg(reinterpret_cast<float2*>(parameters.second_moments + at), second_moments[n][r]);
            }
        }
    }
}

// All linear layers' jobs, dealt out to the halves of the client's blocks.
template <int LAYERS, int JOBS>
__device__ __forceinline__ void step_linear_layers(const LinearLayer (&layers)[LAYERS], const Job& job, const int* rows,
                                                   int count, int rank, const Parameters& parameters, const Step& step,
                                                   float* stage) {
    const int half = warp_index() / (WARPS / 2);
#pragma unroll 1
    for (int number = half * GROUP + rank; number < JOBS; number += 2 * GROUP) {
        int which = 0;
        while (which + 1 < LAYERS && layers[which + 1].first_job <= number) {
            which++;
        }
        const LinearLayer layer = layers[which];
        const bool network_inputs = layer.activations < 0;
        const float* activations = network_inputs ? job.inputs : job.workspace + layer.activations;
        linear_job(layer, number - layer.first_job, activations, network_inputs ? rows : nullptr,
                   job.workspace + layer.slopes, count, parameters, step, stage + half * STAGE, half);
    }
}

// All parameters whose gradients are plain sums, 32 a warp; the halves of blocks that have no job above come first.
template <int RUNS, int TASKS>
__device__ __forceinline__ void step_summed_parameters(const SummedParameters (&runs)[RUNS], const float* workspace, int count,
                                                       int rank, const Parameters& parameters, const Step& step) {
    const int half = warp_index() / (WARPS / 2);
    const int position = (1 - half) * GROUP + GROUP - 1 - rank;
#pragma unroll 1
    for (int task = position * (WARPS / 2) + warp_index() % (WARPS / 2); task < TASKS; task += WARPS * GROUP) {
        int which = 0;
        while (which + 1 < RUNS && runs[which + 1].first_task <= task) {
            which++;
        }
        const SummedParameters run = runs[which];
        const int i = (task - run.first_task) * 32 + lane_index();
        if (i < run.count) {
            const int terms = run.terms > 0 ? run.terms : count;
            const float* source = workspace + run.source + i;
            float gradient = 0.0f;
#pragma unroll 8
            for (int term = 0; term < terms; term++) {
                gradient += __ldcg(source + term * run.stride);
            }
            descend_in_memory(parameters, run.at + i, run.index + i, gradient, step);
        }
    }
}
