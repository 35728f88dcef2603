// Training of independent normals (mean-field variational inference): what the kernel is given, and a parameter's step.
//
// Deviations are softplus(rho). FOLLOWS, besides what optimizer.cuh needs, is defined before this file: whether the reference
// distribution is trained as well.

struct GaussianJob {
    float* mean;
    float* deviation;
    float* reference_mean;
    float* reference_deviation;
    const float* inputs;
    const void* targets;
    const int* batches;
    float* workspace;
    int* counter;
    float* losses;
    unsigned long long noise_key;
    int steps;
    int batch_stride;
    float weight;
    int inner_steps;
};
static_assert(sizeof(GaussianJob) == 104, "as in Rust");

// Draws of distributions, beside those of training and of chains.
constexpr int GAUSSIAN_DRAWS = 2;

// An optimiser's memory of one kind of values.
struct Moments {
    float* first;
    float* second;
};

// A client's distribution and what is remembered of it, in the order of the network's parameters.
struct GaussianState {
    float* mean;
    float* rho;
    float* variance;
    Moments of_mean;
    Moments of_rho;
    float* reference_mean;
    float* reference_deviation;
    float* reference_rho;
    Moments of_reference_mean;
    Moments of_reference_rho;
};

// ln(1 + e^x), and its derivative. Below -87 the result would be subnormal, and a deviation must not vanish.
__device__ __forceinline__ float softplus(float x, float& slope) {
    const float t = expf(fmaxf(-fabsf(x), -87.0f));
    const float share = 1.0f / (1.0f + t);
    slope = x < 0.0f ? t * share : share;
    return fmaxf(x, 0.0f) + log1pf(t);
}

// The x whose softplus this is.
__device__ __forceinline__ float inverse_softplus(float value) { return value + logf(-expm1f(-value)); }

// e / (2 s); 0 for what does not vary.
__device__ __forceinline__ float half_over(float draw, float deviation) {
    return deviation > 0.0f ? draw / (deviation + deviation) : 0.0f;
}

// The optimiser's step on one value, with its memory in global memory.
__device__ __forceinline__ float stepped(float value, const Moments& moments, size_t p, float gradient, const Step& step) {
    float first = 0.0f;
    float second = 0.0f;
    if (OPTIMIZER != SGD && !step.is_first) {
        first = __ldcg(moments.first + p);
    }
    if (OPTIMIZER == ADAM && !step.is_first) {
        second = __ldcg(moments.second + p);
    }
    descend(value, first, second, gradient, step);
    if (OPTIMIZER != SGD) {
        __stcg(moments.first + p, first);
    }
    if (OPTIMIZER == ADAM) {
        __stcg(moments.second + p, second);
    }
    return value;
}

// What is the same for all parameters at one step.
struct GaussianStep {
    Step own;
    Step reference;
    bool reference_moves;
    float weight;
};

__device__ __forceinline__ GaussianStep gaussian_step_of(const GaussianJob& job, const Settings& settings, const float2* corrections, int step) {
    GaussianStep result;
    result.own = step_of(settings, corrections, step);
    result.reference_moves = FOLLOWS && (step + 1) % job.inner_steps == 0;
    result.reference = step_of(settings, corrections, result.reference_moves ? (step + 1) / job.inner_steps - 1 : 0);
    result.weight = job.weight;
    return result;
}

// One parameter's step, from the loss's gradient in its mean and variance. With d = KL(q || p), m and s of q, n and t of p:
// dd/dm = (m - n) / t^2, dd/ds = s / t^2 - 1 / s; and a variance moves with s as 2 s. The reference then goes down the same
// divergence: dd/dn = (n - m) / t^2, dd/dt = 1 / t - (s^2 + (m - n)^2) / t^3.
__device__ __noinline__ void gaussian_update(const GaussianState& state, size_t p, float in_mean, float in_variance,
                                                const GaussianStep& step) {
    float mean = __ldcg(state.mean + p);
    float rho = __ldcg(state.rho + p);
    float reference_mean = __ldcg(state.reference_mean + p);
    float reference_deviation = __ldcg(state.reference_deviation + p);
    float slope;
    float deviation = softplus(rho, slope);
    const float square = reference_deviation * reference_deviation;
    const float inverse = step.weight / (square * deviation);
    const float precision = inverse * deviation;
    in_mean = fmaf(precision, mean - reference_mean, in_mean);
    const float in_rho = slope * (deviation * (in_variance + in_variance + precision) - inverse * square);
    mean = stepped(mean, state.of_mean, p, in_mean, step.own);
    rho = stepped(rho, state.of_rho, p, in_rho, step.own);
    deviation = softplus(rho, slope);
    const float variance = deviation * deviation;
    __stcg(state.mean + p, mean);
    __stcg(state.rho + p, rho);
    __stcg(state.variance + p, variance);
    if (FOLLOWS && step.reference_moves) {
        float reference_rho = __ldcg(state.reference_rho + p);
        reference_deviation = softplus(reference_rho, slope);
        const float precision_of_reference = 1.0f / reference_deviation;
        const float gap = reference_mean - mean;
        const float gradient = gap * precision_of_reference * precision_of_reference;
        const float in_reference_rho = slope * precision_of_reference *
                                       (1.0f - (variance + gap * gap) * precision_of_reference * precision_of_reference);
        reference_mean = stepped(reference_mean, state.of_reference_mean, p, gradient, step.reference);
        reference_rho = stepped(reference_rho, state.of_reference_rho, p, in_reference_rho, step.reference);
        __stcg(state.reference_mean + p, reference_mean);
        __stcg(state.reference_rho + p, reference_rho);
        __stcg(state.reference_deviation + p, softplus(reference_rho, slope));
    }
}

// Before the first step, for the parameters from `first` to `last`: variances, and rho where they move.
__device__ __forceinline__ void gaussian_begin(const GaussianState& state, const float* deviation, size_t first, size_t last, bool moves,
                                               int rank) {
    for (size_t p = first + rank * THREADS + thread_index(); p < last; p += GROUP * THREADS) {
        const float value = __ldcg(deviation + p);
        __stcg(state.variance + p, value * value);
        if (moves) {
            __stcg(state.rho + p, inverse_softplus(value));
        }
        if (moves && FOLLOWS) {
            __stcg(state.reference_rho + p, inverse_softplus(__ldcg(state.reference_deviation + p)));
        }
    }
}

// After the last step.
__device__ __forceinline__ void gaussian_end(const GaussianState& state, float* deviation, size_t first, size_t last, int rank) {
    for (size_t p = first + rank * THREADS + thread_index(); p < last; p += GROUP * THREADS) {
        float slope;
        deviation[p] = softplus(__ldcg(state.rho + p), slope);
    }
}
