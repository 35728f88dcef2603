// Linear layers on a chunk of samples: outputs, noise on them, gradient in the inputs. Weights are [OUTPUTS][4 QUARTER] in
// global memory (rows padded with zeros to a multiple of 4) and are streamed from L2, where all blocks of a client find them.

// Gaussian noise of a linear layer's parameters, as it reaches the outputs: output o of a sample gains
// deviation |(x, 1)| e_o. `factors` (as the layer's outputs) are deviation e_o, `norms` are |(x, 1)| of each sample.
struct LinearNoise {
    float* factors;
    float* norms;
    float* pulls;
};

// Draws the noise of samples `first_row` onwards of the batch. A barrier has to follow.
template <int INPUTS, int OUTPUTS>
__device__ __forceinline__ void linear_noise(const float* x, const LinearNoise& noise, float deviation, unsigned long long key,
                                             int step, int layer, int first_row) {
    for (int i = thread_index(); i < SAMPLES * OUTPUTS; i += THREADS) {
        int sample = i / OUTPUTS;
        int output = i - sample * OUTPUTS;
        float draw = one_normal(key, step, layer, (first_row + sample) * OUTPUTS + output);
        noise.factors[Interleaved<OUTPUTS>::at(sample, output)] = deviation * draw;
    }
    if (warp_index() < SAMPLES) {
        float sum = 0.0f;
        for (int i = lane_index(); i < INPUTS; i += 32) {
            float value = x[Interleaved<INPUTS>::at(warp_index(), i)];
            sum = fmaf(value, value, sum);
        }
        sum = warp_sum(sum);
        if (lane_index() == 0) {
            noise.norms[warp_index()] = sqrtf(1.0f + sum);
        }
    }
}

// y = Function(W x + b), with noise where NOISY. A warp takes AT_ONCE outputs at a time, its lanes share the inputs.
template <int INPUTS, int OUTPUTS, int AT_ONCE, class Function, bool NOISY>
__device__ __forceinline__ void linear_forward(const float* weights, const float* bias, const float* x, float* y,
                                               const LinearNoise& noise) {
    constexpr int QUARTER = Interleaved<INPUTS>::QUARTER;
    constexpr int ROUNDS = ceil_div(QUARTER, 32);
    // Rounds whose weights are loaded together: as many loads in flight as registers allow.
    constexpr int TOGETHER = ROUNDS * AT_ONCE <= 16 ? ROUNDS : (AT_ONCE >= 16 ? 1 : 16 / AT_ONCE);
    const int lane = lane_index();
    const float4* inputs = reinterpret_cast<const float4*>(x);
#pragma unroll 1
    for (int first = warp_index() * AT_ONCE; first < OUTPUTS; first += WARPS * AT_ONCE) {
        float4 sums[AT_ONCE];
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++) {
            sums[q] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
#pragma unroll 1
        for (int start = 0; start < ROUNDS; start += TOGETHER) {
            float4 row[AT_ONCE][TOGETHER];
#pragma unroll
            for (int q = 0; q < AT_ONCE; q++) {
#pragma unroll
                for (int k = 0; k < TOGETHER; k++) {
                    int i = (start + k) * 32 + lane;
                    bool inside = i < QUARTER && first + q < OUTPUTS;
                    const float4* source = reinterpret_cast<const float4*>(weights) + (size_t)(first + q) * QUARTER + i;
                    row[q][k] = inside ? __ldcg(source) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                }
            }
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) {
                int i = (start + k) * 32 + lane;
                i = i < QUARTER ? i : 0;
#pragma unroll
                for (int component = 0; component < 4; component++) {
                    float4 values = inputs[component * QUARTER + i];
#pragma unroll
                    for (int q = 0; q < AT_ONCE; q++) {
                        float weight = component == 0   ? row[q][k].x
                                       : component == 1 ? row[q][k].y
                                       : component == 2 ? row[q][k].z
                                                        : row[q][k].w;
                        add_product(sums[q], weight, values);
                    }
                }
            }
        }
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++) {
            float sum = warp_sum_of_four(sums[q]);
            if (first + q < OUTPUTS && (lane & 7) == 0) {
                int sample = lane >> 3;
                int at = Interleaved<OUTPUTS>::at(sample, first + q);
                sum += __ldcg(bias + first + q);
                if (NOISY) {
                    sum = fmaf(noise.norms[sample], noise.factors[at], sum);
                }
                y[at] = Function::forward(sum);
            }
        }
    }
}

// How the noise pulls each sample's inputs: dx gains x pull, pull = sum_o dy_o deviation e_o / |(x, 1)|. A barrier has to
// follow.
template <int OUTPUTS>
__device__ __forceinline__ void linear_noise_pull(const float* dy, const LinearNoise& noise) {
    if (warp_index() < SAMPLES) {
        float sum = 0.0f;
        for (int i = lane_index(); i < OUTPUTS; i += 32) {
            int at = Interleaved<OUTPUTS>::at(warp_index(), i);
            sum = fmaf(dy[at], noise.factors[at], sum);
        }
        sum = warp_sum(sum);
        if (lane_index() == 0) {
            noise.pulls[warp_index()] = sum / noise.norms[warp_index()];
        }
    }
}

template <class Below, bool NOISY>
__device__ __forceinline__ float4 linear_input_gradient(float4 sum, float4 x, const LinearNoise& noise) {
    if (NOISY) {
        sum.x = fmaf(noise.pulls[0], x.x, sum.x);
        sum.y = fmaf(noise.pulls[1], x.y, sum.y);
        sum.z = fmaf(noise.pulls[2], x.z, sum.z);
        sum.w = fmaf(noise.pulls[3], x.w, sum.w);
    }
    sum.x = Below::gradient(sum.x, 0.0f, x.x);
    sum.y = Below::gradient(sum.y, 0.0f, x.y);
    sum.z = Below::gradient(sum.z, 0.0f, x.z);
    sum.w = Below::gradient(sum.w, 0.0f, x.w);
    return sum;
}

// dx = W' dy, through Below, the activation that x came out of. A thread takes four neighbouring inputs; PARTS groups of
// threads share the outputs, and their sums meet in `scratch` (PARTS * 16 QUARTER floats, none for one part).
template <int INPUTS, int OUTPUTS, int PARTS, class Below, bool NOISY>
__device__ __forceinline__ void linear_backward(const float* weights, const float* dy, const float* x, float* dx,
                                                float* scratch, const LinearNoise& noise) {
    constexpr int QUARTER = Interleaved<INPUTS>::QUARTER;
    constexpr int EACH = ceil_div(OUTPUTS, PARTS);
    constexpr int TOGETHER = EACH < 12 ? EACH : 12;
    static_assert(PARTS == 1 || PARTS * QUARTER <= THREADS, "a thread has one place in one part");
    const float4* slopes = reinterpret_cast<const float4*>(dy);
    const float4* values = reinterpret_cast<const float4*>(x);
    float4* result = reinterpret_cast<float4*>(dx);
    float4* sums_of_parts = reinterpret_cast<float4*>(scratch);
    const int part = PARTS == 1 ? 0 : thread_index() / QUARTER;
    const int end = min((part + 1) * EACH, OUTPUTS);
    for (int k = thread_index() - part * QUARTER; k < QUARTER && part < PARTS; k += THREADS) {
        float4 sums[4];
#pragma unroll
        for (int component = 0; component < 4; component++) {
            sums[component] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
#pragma unroll 1
        for (int first = part * EACH; first < end; first += TOGETHER) {
            float4 row[TOGETHER];
#pragma unroll
            for (int u = 0; u < TOGETHER; u++) {
                const float4* source = reinterpret_cast<const float4*>(weights) + (size_t)(first + u) * QUARTER + k;
                row[u] = first + u < end ? __ldcg(source) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
#pragma unroll
            for (int u = 0; u < TOGETHER; u++) {
                float4 slope = slopes[Interleaved<OUTPUTS>::place(first + u < OUTPUTS ? first + u : 0)];
                add_product(sums[0], row[u].x, slope);
                add_product(sums[1], row[u].y, slope);
                add_product(sums[2], row[u].z, slope);
                add_product(sums[3], row[u].w, slope);
            }
        }
#pragma unroll
        for (int component = 0; component < 4; component++) {
            int place = component * QUARTER + k;
            if (PARTS == 1) {
                result[place] = linear_input_gradient<Below, NOISY>(sums[component], values[place], noise);
            } else {
                sums_of_parts[part * 4 * QUARTER + place] = sums[component];
            }
        }
    }
    if (PARTS > 1) {
        __syncthreads();
        for (int place = thread_index(); place < 4 * QUARTER; place += THREADS) {
            float4 sum = sums_of_parts[place];
#pragma unroll
            for (int p = 1; p < PARTS; p++) {
                float4 more = sums_of_parts[p * 4 * QUARTER + place];
                sum.x += more.x;
                sum.y += more.y;
                sum.z += more.z;
                sum.w += more.w;
            }
            result[place] = linear_input_gradient<Below, NOISY>(sum, values[place], noise);
        }
    }
}

// Hands a chunk's values to all blocks of the client: rows of 4 QUARTER values, zero past the last.
template <int COUNT>
__device__ __forceinline__ void store_rows(const float* values, float* rows, int first_row, int samples) {
    constexpr int QUARTER = Interleaved<COUNT>::QUARTER;
    for (int i = thread_index(); i < SAMPLES * QUARTER; i += THREADS) {
        int sample = i % SAMPLES;
        int quad = i / SAMPLES;
        if (sample < samples) {
            float4 four;
            four.x = values[quad * SAMPLES + sample];
            four.y = 4 * quad + 1 < COUNT ? values[(QUARTER + quad) * SAMPLES + sample] : 0.0f;
            four.z = 4 * quad + 2 < COUNT ? values[(2 * QUARTER + quad) * SAMPLES + sample] : 0.0f;
            four.w = 4 * quad + 3 < COUNT ? values[(3 * QUARTER + quad) * SAMPLES + sample] : 0.0f;
            __stcg(reinterpret_cast<float4*>(rows) + (size_t)(first_row + sample) * QUARTER + quad, four);
        }
    }
}
