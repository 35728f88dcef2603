// Linear layers whose outputs are drawn: y + sqrt(v) e with v = V x^2 + u, V and u the variances of weights and biases. With
// c = dy e / (2 sqrt(v)), the gradient in an output's variance, the gradient in V is c' x^2, in u the sum of c, and the input's
// gradient gains 2 x (c V).
//
// Values are [row of the batch][value] in global memory. What other blocks wrote is read past L1.

// Outputs that a warp works out together in the forward pass.
constexpr int DRAWN_TOGETHER = 4;
// Outputs whose gradients are staged in shared memory at a time.
constexpr int STAGED_OUTPUTS = 128;
// Outputs and rows of a tile of phase 2; its inputs are one a thread.
constexpr int TILE_OUTPUTS = 8;
constexpr int TILE_ROWS = 64;

// Shared memory of a block. The union's two uses are not at the same time.
struct GaussianShared {
    // A thread's own sums of phase 2: read back one by one, so that the long code of a parameter's step is there once.
    float in_mean[TILE_OUTPUTS][THREADS];
    float in_variance[TILE_OUTPUTS][THREADS];
    union {
        struct {
            float4 slopes[STAGED_OUTPUTS];   // of SAMPLES samples
            float4 variance_slopes[STAGED_OUTPUTS];
        } staged;
        struct {
            float slopes[TILE_ROWS][TILE_OUTPUTS];
            float variance_slopes[TILE_ROWS][TILE_OUTPUTS];
        } tile;
    };
};

struct DrawnLayer {
    const float* mean;     // weights, then biases
    const float* variance; // theirs
    unsigned long long key;
    int step;
    int layer;
};

// Up to SAMPLES rows from row `first` of the batch on. `factors` receives e / (2 sqrt(v)).
template <int INPUTS, int OUTPUTS>
__device__ __forceinline__ void drawn_linear_forward(const DrawnLayer& drawn, const float* x, float* y, float* factors, int first,
                                                     int samples) {
    const int lane = lane_index();
    const float* rows[SAMPLES];
#pragma unroll
    for (int s = 0; s < SAMPLES; s++) {
        rows[s] = x + (size_t)(first + min(s, samples - 1)) * INPUTS;
    }
    for (int output = warp_index() * DRAWN_TOGETHER; output < OUTPUTS; output += WARPS * DRAWN_TOGETHER) {
        float means[DRAWN_TOGETHER][SAMPLES];
        float variances[DRAWN_TOGETHER][SAMPLES];
#pragma unroll
        for (int q = 0; q < DRAWN_TOGETHER; q++) {
#pragma unroll
            for (int s = 0; s < SAMPLES; s++) {
                means[q][s] = 0.0f;
                variances[q][s] = 0.0f;
            }
        }
        for (int input = lane; input < INPUTS; input += 32) {
            float values[SAMPLES];
#pragma unroll
            for (int s = 0; s < SAMPLES; s++) {
                values[s] = rows[s][input];
            }
#pragma unroll
            for (int q = 0; q < DRAWN_TOGETHER; q++) {
                // Past the last output its weights are read once more, and the sums are not used.
                const size_t at = (size_t)min(output + q, OUTPUTS - 1) * INPUTS + input;
                const float mean = __ldcg(drawn.mean + at);
                const float variance = __ldcg(drawn.variance + at);
#pragma unroll
                for (int s = 0; s < SAMPLES; s++) {
                    means[q][s] = fmaf(mean, values[s], means[q][s]);
                    variances[q][s] = fmaf(variance, values[s] * values[s], variances[q][s]);
                }
            }
        }
        // Lane q SAMPLES + s draws output q of sample s.
        float mean = 0.0f;
        float variance = 0.0f;
#pragma unroll
        for (int q = 0; q < DRAWN_TOGETHER; q++) {
#pragma unroll
            for (int s = 0; s < SAMPLES; s++) {
                const float sum = warp_sum(means[q][s]);
                const float spread = warp_sum(variances[q][s]);
                mean = lane == q * SAMPLES + s ? sum : mean;
                variance = lane == q * SAMPLES + s ? spread : variance;
            }
        }
        const int own = output + lane / SAMPLES;
        const int s = lane % SAMPLES;
        if (lane < DRAWN_TOGETHER * SAMPLES && own < OUTPUTS && s < samples) {
            const size_t bias = (size_t)OUTPUTS * INPUTS + own;
            const int at = (first + s) * OUTPUTS + own;
            const float deviation = sqrtf(variance + __ldcg(drawn.variance + bias));
            const float draw = one_normal(drawn.key, drawn.step, drawn.layer, at, GAUSSIAN_DRAWS);
            y[at] = fmaf(deviation, draw, mean + __ldcg(drawn.mean + bias));
            factors[at] = half_over(draw, deviation);
        }
    }
}

// The gradient dy of SAMPLES samples [sample][output] for phase 2: itself, and that in the outputs' variances in place of factors.
template <int OUTPUTS>
__device__ __forceinline__ void keep_slopes(const float* dy, float* slopes, float* variance_slopes, int first, int samples) {
    for (int i = thread_index(); i < samples * OUTPUTS; i += THREADS) {
        const size_t at = (size_t)first * OUTPUTS + i;
        slopes[at] = dy[i];
        variance_slopes[at] *= dy[i];
    }
}

// dx [sample][input] from the slopes that were kept: a thread takes an input of all samples.
template <int INPUTS, int OUTPUTS>
__device__ __forceinline__ void drawn_linear_backward(const DrawnLayer& drawn, const float* x, const float* slopes,
                                                      const float* variance_slopes, float* dx, int first, int samples,
                                                      GaussianShared& shared) {
    for (int start = 0; start < INPUTS; start += THREADS) {
        const int input = start + thread_index();
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float4 pull = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int tile = 0; tile < OUTPUTS; tile += STAGED_OUTPUTS) {
            const int outputs = min(STAGED_OUTPUTS, OUTPUTS - tile);
            __syncthreads();
            for (int i = thread_index(); i < outputs * SAMPLES; i += THREADS) {
                const int s = i / outputs;
                const int output = i % outputs;
                const size_t at = (size_t)(first + s) * OUTPUTS + tile + output;
                reinterpret_cast<float*>(shared.staged.slopes + output)[s] = s < samples ? slopes[at] : 0.0f;
                reinterpret_cast<float*>(shared.staged.variance_slopes + output)[s] = s < samples ? variance_slopes[at] : 0.0f;
            }
            __syncthreads();
            if (input < INPUTS) {
                for (int output = 0; output < outputs; output++) {
                    const size_t at = (size_t)(tile + output) * INPUTS + input;
                    add_product(sum, __ldcg(drawn.mean + at), shared.staged.slopes[output]);
                    add_product(pull, __ldcg(drawn.variance + at), shared.staged.variance_slopes[output]);
                }
            }
        }
        if (input < INPUTS) {
            const float sums[SAMPLES] = {sum.x, sum.y, sum.z, sum.w};
            const float pulls[SAMPLES] = {pull.x, pull.y, pull.z, pull.w};
#pragma unroll
            for (int s = 0; s < SAMPLES; s++) {
                if (s < samples) {
                    const float value = x[(size_t)(first + s) * INPUTS + input];
                    dx[s * INPUTS + input] = fmaf(value + value, pulls[s], sums[s]);
                }
            }
        }
    }
}

// Phase 2 of a linear layer: tiles of TILE_OUTPUTS outputs and THREADS inputs, `count` rows deep, every GROUP-th from `turn` on;
// then the biases. `at` is where its parameters begin.
template <int INPUTS, int OUTPUTS>
__device__ __forceinline__ void drawn_linear_steps(const GaussianState& state, size_t at, const float* x, const float* slopes,
                                                   const float* variance_slopes, int count, int turn, const GaussianStep& step,
                                                   GaussianShared& shared) {
    constexpr int ACROSS = ceil_div(INPUTS, THREADS);
    constexpr int TILES = ACROSS * ceil_div(OUTPUTS, TILE_OUTPUTS);
    for (int tile = turn; tile < TILES; tile += GROUP) {
        const int input = tile % ACROSS * THREADS + thread_index();
        const int output = tile / ACROSS * TILE_OUTPUTS;
        float in_mean[TILE_OUTPUTS];
        float in_variance[TILE_OUTPUTS];
#pragma unroll
        for (int q = 0; q < TILE_OUTPUTS; q++) {
            in_mean[q] = 0.0f;
            in_variance[q] = 0.0f;
        }
        for (int first = 0; first < count; first += TILE_ROWS) {
            const int rows = min(TILE_ROWS, count - first);
            __syncthreads();
            for (int i = thread_index(); i < rows * TILE_OUTPUTS; i += THREADS) {
                const int row = i / TILE_OUTPUTS;
                const int q = i % TILE_OUTPUTS;
                const size_t from = (size_t)(first + row) * OUTPUTS + output + q;
                shared.tile.slopes[row][q] = output + q < OUTPUTS ? __ldcg(slopes + from) : 0.0f;
                shared.tile.variance_slopes[row][q] = output + q < OUTPUTS ? __ldcg(variance_slopes + from) : 0.0f;
            }
            __syncthreads();
            if (input < INPUTS) {
                for (int row = 0; row < rows; row++) {
                    const float value = __ldcg(x + (size_t)(first + row) * INPUTS + input);
#pragma unroll
                    for (int q = 0; q < TILE_OUTPUTS; q++) {
                        in_mean[q] = fmaf(value, shared.tile.slopes[row][q], in_mean[q]);
                        in_variance[q] = fmaf(value * value, shared.tile.variance_slopes[row][q], in_variance[q]);
                    }
                }
            }
        }
        if (input < INPUTS) {
            const int thread = thread_index();
#pragma unroll
            for (int q = 0; q < TILE_OUTPUTS; q++) {
                shared.in_mean[q][thread] = in_mean[q];
                shared.in_variance[q][thread] = in_variance[q];
            }
            const int outputs = min(TILE_OUTPUTS, OUTPUTS - output);
#pragma unroll 1
            for (int q = 0; q < outputs; q++) {
                gaussian_update(state, at + (size_t)(output + q) * INPUTS + input, shared.in_mean[q][thread],
                                shared.in_variance[q][thread], step);
            }
        }
    }
    // The biases go to the last blocks, which have fewest tiles.
    for (int output = (GROUP - 1 - turn) * THREADS + thread_index(); output < OUTPUTS; output += GROUP * THREADS) {
        float in_mean = 0.0f;
        float in_variance = 0.0f;
        for (int row = 0; row < count; row++) {
            in_mean += __ldcg(slopes + (size_t)row * OUTPUTS + output);
            in_variance += __ldcg(variance_slopes + (size_t)row * OUTPUTS + output);
        }
        gaussian_update(state, at + (size_t)OUTPUTS * INPUTS + output, in_mean, in_variance, step);
    }
}
