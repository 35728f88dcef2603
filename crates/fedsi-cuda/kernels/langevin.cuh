// A chain of unadjusted Langevin steps on a linear layer: all steps of a client in one launch, with the gradient of all rows.
//
// A group of blocks works on a client. A step has two phases, with a barrier after each: by rows (outputs, the loss's gradient in
// them, each block's part of the gradient in the parameters) and by parameters (the sum of these parts in order, the step).
//
// Defined before this file: THREADS, GROUP, FEATURES, OUTPUTS, CROSS_ENTROPY, CHUNK (rows at a time), ROWS_IN_SHARED,
// WEIGHTS_IN_SHARED.

struct LangevinJob {
    float* values;
    const float* features;
    const void* targets;
    float* samples;
    float* workspace;
    int* counter;
    float* loss;
    unsigned long long noise_key;
    int rows;
    int unused;
};
static_assert(sizeof(LangevinJob) == 72, "as in Rust");

struct LangevinSettings {
    float step;
    float prior_precision;
    float weight;
    float precision;
    int steps;
    int discard;
    int thin;
};
static_assert(sizeof(LangevinSettings) == 28, "as in Rust");

// Outputs that a thread works out together, from one load of a feature.
constexpr int QUAD = 4;
constexpr int QUADS = ceil_div(OUTPUTS, QUAD);
constexpr int PARAMETERS = (FEATURES + 1) * OUTPUTS;
// Rows in shared memory are an odd number of values apart: lanes that read the same feature of neighbouring rows read other banks.
constexpr int ROW_STRIDE = ROWS_IN_SHARED ? (FEATURES | 1) : FEATURES;
// A block's part of the gradient: [output][feature], the biases' behind the features.
constexpr int PART_WIDTH = FEATURES + 1;
constexpr int PART = OUTPUTS * PART_WIDTH;
// Draws of chains, beside those of training.
constexpr int LANGEVIN_DRAWS = 1;

struct LangevinMemory {
    float4* weights; // [feature][quad], where they are in shared memory
    float4* slopes;  // [row of the chunk][quad]: outputs, then the loss's gradient in them
    float* losses;   // [row of the chunk]
    float* rows;     // [row of the chunk][ROW_STRIDE], where they are in shared memory
};

__device__ __forceinline__ LangevinMemory langevin_memory(float* shared) {
    LangevinMemory memory;
    memory.weights = reinterpret_cast<float4*>(shared);
    memory.slopes = memory.weights + (WEIGHTS_IN_SHARED ? FEATURES * QUADS : 0);
    memory.losses = reinterpret_cast<float*>(memory.slopes + CHUNK * QUADS);
    memory.rows = memory.losses + CHUNK;
    return memory;
}

// Four outputs' weights of a feature; 0 past the last output.
__device__ __forceinline__ float4 weights_of(const float* values, int feature, int quad) {
    float4 weights;
    weights.x = __ldcg(values + (size_t)(quad * QUAD) * FEATURES + feature);
    weights.y = quad * QUAD + 1 < OUTPUTS ? __ldcg(values + (size_t)(quad * QUAD + 1) * FEATURES + feature) : 0.0f;
    weights.z = quad * QUAD + 2 < OUTPUTS ? __ldcg(values + (size_t)(quad * QUAD + 2) * FEATURES + feature) : 0.0f;
    weights.w = quad * QUAD + 3 < OUTPUTS ? __ldcg(values + (size_t)(quad * QUAD + 3) * FEATURES + feature) : 0.0f;
    return weights;
}

__device__ __forceinline__ float bias_of(const float* values, int output) {
    return output < OUTPUTS ? __ldcg(values + (size_t)OUTPUTS * FEATURES + output) : 0.0f;
}

// Outputs of a chunk: a thread takes four of one row.
__device__ __forceinline__ void langevin_outputs(const LangevinMemory& memory, const float* values, const float* rows, int count) {
    for (int item = thread_index(); item < count * QUADS; item += THREADS) {
        const int row = item % count;
        const int quad = item / count;
        float4 sum = make_float4(bias_of(values, quad * QUAD), bias_of(values, quad * QUAD + 1), bias_of(values, quad * QUAD + 2),
                                 bias_of(values, quad * QUAD + 3));
        for (int feature = 0; feature < FEATURES; feature++) {
            const float4 weights =
                WEIGHTS_IN_SHARED ? memory.weights[feature * QUADS + quad] : weights_of(values, feature, quad);
            add_product(sum, rows[(size_t)row * ROW_STRIDE + feature], weights);
        }
        memory.slopes[row * QUADS + quad] = sum;
    }
}

// The loss's gradient in the outputs of a chunk, in their place: a thread takes a row.
__device__ __forceinline__ void langevin_slopes(const LangevinMemory& memory, const void* targets, int first, int count,
                                                float precision) {
    constexpr float LOG_OF_SMALLEST = -87.33654475f;
    for (int row = thread_index(); row < count; row += THREADS) {
        float* outputs = reinterpret_cast<float*>(memory.slopes + row * QUADS);
        float loss = 0.0f;
        if (CROSS_ENTROPY) {
            const int label = __ldg(static_cast<const int*>(targets) + first + row);
            float top = outputs[0];
            for (int i = 1; i < OUTPUTS; i++) {
                top = fmaxf(top, outputs[i]);
            }
            const float of_label = outputs[label];
            float total = 0.0f;
            for (int i = 0; i < OUTPUTS; i++) {
                const float logit = outputs[i] - top;
                outputs[i] = logit < LOG_OF_SMALLEST ? 0.0f : expf(logit);
                total += outputs[i];
            }
            for (int i = 0; i < OUTPUTS; i++) {
                outputs[i] = outputs[i] / total - (i == label ? 1.0f : 0.0f);
            }
            loss = top + logf(total) - of_label;
        } else {
            const float* wanted = static_cast<const float*>(targets) + (size_t)(first + row) * OUTPUTS;
            for (int i = 0; i < OUTPUTS; i++) {
                const float residual = outputs[i] - __ldg(wanted + i);
                loss = fmaf(0.5f * precision * residual, residual, loss);
                outputs[i] = residual * precision;
            }
        }
        memory.losses[row] = loss;
    }
}

// Adds a chunk's part of the gradient: a thread takes a feature (or the biases) and four outputs.
__device__ __forceinline__ void langevin_gradient(const LangevinMemory& memory, const float* rows, int count, bool is_first,
                                                  float* part) {
    for (int item = thread_index(); item < PART_WIDTH * QUADS; item += THREADS) {
        const int feature = item % PART_WIDTH;
        const int quad = item / PART_WIDTH;
        const bool bias = feature == FEATURES;
        float sums[QUAD] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int row = 0; row < count; row++) {
            const float value = bias ? 1.0f : rows[(size_t)row * ROW_STRIDE + feature];
            const float4 slopes = memory.slopes[row * QUADS + quad];
            sums[0] = fmaf(value, slopes.x, sums[0]);
            sums[1] = fmaf(value, slopes.y, sums[1]);
            sums[2] = fmaf(value, slopes.z, sums[2]);
            sums[3] = fmaf(value, slopes.w, sums[3]);
        }
#pragma unroll
        for (int q = 0; q < QUAD; q++) {
            const int output = quad * QUAD + q;
            if (output < OUTPUTS) {
                // This thread alone writes the entry, in this phase of every step.
                float* entry = part + (size_t)output * PART_WIDTH + feature;
                __stcg(entry, is_first ? sums[q] : __ldcg(entry) + sums[q]);
            }
        }
    }
}

// Adds a chunk's losses, by the first warp: sums of every 32nd, then over the warp.
__device__ __forceinline__ void langevin_loss(const LangevinMemory& memory, int count, bool is_first, float* total) {
    if (warp_index() == 0) {
        float sum = 0.0f;
        for (int row = lane_index(); row < count; row += 32) {
            sum += memory.losses[row];
        }
        sum = warp_sum(sum);
        if (lane_index() == 0) {
            __stcg(total, is_first ? sum : __ldcg(total) + sum);
        }
    }
}

// The parameters' step, spread over the group; `parts` blocks had rows.
__device__ __forceinline__ void langevin_step(const LangevinJob& job, const LangevinSettings& settings, int rank, int parts, int step,
                                              float* kept) {
    const float half = 0.5f * settings.step;
    const float spread = sqrtf(settings.step);
    for (int p = rank * THREADS + thread_index(); p < PARAMETERS; p += GROUP * THREADS) {
        const bool bias = p >= OUTPUTS * FEATURES;
        const int output = bias ? p - OUTPUTS * FEATURES : p / FEATURES;
        const int feature = bias ? FEATURES : p % FEATURES;
        float sum = 0.0f;
        for (int part = 0; part < parts; part++) {
            sum += __ldcg(job.workspace + (size_t)part * PART + (size_t)output * PART_WIDTH + feature);
        }
        const float value = __ldcg(job.values + p);
        const float drift = value - half * (settings.weight * sum + settings.prior_precision * value);
        const float next = fmaf(spread, one_normal(job.noise_key, step, 0, p, LANGEVIN_DRAWS), drift);
        __stcg(job.values + p, next);
        if (kept) {
            kept[p] = next;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) sample_head(const LangevinJob* jobs, LangevinSettings settings) {
    extern __shared__ __align__(16) float shared[];
    const LangevinMemory memory = langevin_memory(shared);
    const LangevinJob job = jobs[blockIdx.x / GROUP];
    const int rank = blockIdx.x % GROUP;
    const int share = ceil_div(job.rows, GROUP);
    const int begin = min(job.rows, rank * share);
    const int end = min(job.rows, begin + share);
    const int parts = share == 0 ? 0 : ceil_div(job.rows, share);
    // Rows that fit stay in shared memory for the whole chain.
    const bool stays = end - begin <= CHUNK;
    float* part = job.workspace + (size_t)rank * PART;
    float* losses = job.workspace + (size_t)GROUP * PART;
    int barriers = 0;
    for (int step = 0; step < settings.steps; step++) {
        const bool is_last = step + 1 == settings.steps;
        if (WEIGHTS_IN_SHARED) {
            for (int item = thread_index(); item < FEATURES * QUADS; item += THREADS) {
                memory.weights[item % FEATURES * QUADS + item / FEATURES] = weights_of(job.values, item % FEATURES, item / FEATURES);
            }
        }
        for (int first = begin; first < end; first += CHUNK) {
            const int count = min(CHUNK, end - first);
            const float* source = job.features + (size_t)first * FEATURES;
            if (ROWS_IN_SHARED && (step == 0 || !stays)) {
                for (int i = thread_index(); i < count * FEATURES; i += THREADS) {
                    memory.rows[i / FEATURES * ROW_STRIDE + i % FEATURES] = __ldg(source + i);
                }
            }
            const float* rows = ROWS_IN_SHARED ? memory.rows : source;
            __syncthreads();
            langevin_outputs(memory, job.values, rows, count);
            __syncthreads();
            langevin_slopes(memory, job.targets, first, count, settings.precision);
            __syncthreads();
            langevin_gradient(memory, rows, count, first == begin, part);
            if (is_last) {
                langevin_loss(memory, count, first == begin, losses + rank);
            }
            __syncthreads();
        }
        group_barrier(job.counter, ++barriers * GROUP, GROUP);
        const int after = step + 1 - settings.discard;
        const bool keeps = after > 0 && after % settings.thin == 0;
        float* kept = keeps ? job.samples + (size_t)(after / settings.thin - 1) * PARAMETERS : nullptr;
        langevin_step(job, settings, rank, parts, step, kept);
        if (is_last && rank == 0 && thread_index() == 0) {
            float sum = 0.0f;
            for (int other = 0; other < parts; other++) {
                sum += __ldcg(losses + other);
            }
            *job.loss = sum / (float)max(job.rows, 1);
        }
        group_barrier(job.counter, ++barriers * GROUP, GROUP);
    }
}
