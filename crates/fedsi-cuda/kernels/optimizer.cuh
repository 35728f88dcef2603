// The optimiser's step on a parameter, with the pull of a prior: the formulas of fedsi-nn's optim.rs.
//
// OPTIMIZER (one of the three) and PRIOR are defined before this file.

constexpr int SGD = 0;
constexpr int MOMENTUM = 1;
constexpr int ADAM = 2;

// A client's parameters, where the kernel keeps them (each tensor aligned to 16 bytes, rows of linear layers padded with zeros
// to a multiple of 4), and the optimiser's memory of them, laid out alike. At the first step the memory is not read.
struct Parameters {
    float* values;
    float* first_moments;
    float* second_moments;
    const float* prior_mean;
    const float* prior_weight;
};

// What is the same for all parameters at one step.
struct Step {
    float rate;
    float momentum;
    float keep_first;
    float beta2;
    float keep_second;
    float scale;
    float epsilon;
    bool is_first;
};

// The corrections of the first step are rate / (1 - beta1) and 1 / sqrt(1 - beta2): from them 1 - beta is had to f32's
// accuracy, which the difference of f32 numbers would not have.
__device__ __forceinline__ Step step_of(const Settings& settings, const float2* corrections, int step) {
    const float2 first = __ldg(corrections);
    const float2 now = __ldg(corrections + step);
    Step result;
    result.rate = now.x;
    result.momentum = settings.momentum;
    result.keep_first = settings.rate > 0.0f ? settings.rate / first.x : 1.0f - settings.beta1;
    result.beta2 = settings.beta2;
    result.keep_second = 1.0f / (first.y * first.y);
    result.scale = now.y;
    result.epsilon = settings.epsilon;
    result.is_first = step == 0;
    return result;
}

__device__ __forceinline__ void descend(float& value, float& first, float& second, float gradient, const Step& step) {
    if (OPTIMIZER == ADAM) {
        // As on the CPU, where smaller gradients have squares that are slow to compute with.
        gradient = fabsf(gradient) < 1.0842022e-15f ? 0.0f : gradient;
        first = fmaf(gradient - first, step.keep_first, first);
        second = step.beta2 * second + step.keep_second * gradient * gradient;
        value -= __fdividef(step.rate * first, sqrt_fast(second) * step.scale + step.epsilon);
    } else if (OPTIMIZER == MOMENTUM) {
        first = fmaf(step.momentum, first, gradient);
        value = fmaf(-step.rate, first, value);
    } else {
        value = fmaf(-step.rate, gradient, value);
    }
}

// The pull of the prior on parameter `index` of the network's own order.
__device__ __forceinline__ float prior_gradient(const Parameters& parameters, float value, long long index) {
    return __ldg(parameters.prior_weight + index) * (value - __ldg(parameters.prior_mean + index));
}

// One parameter's step in global memory: `at` in the kernel's order, `index` in the network's.
__device__ __forceinline__ void descend_in_memory(const Parameters& parameters, long long at, long long index, float gradient,
                                                  const Step& step) {
    float value = __ldcg(parameters.values + at);
    float first = 0.0f;
    float second = 0.0f;
    if (OPTIMIZER != SGD && !step.is_first) {
        first = __ldcg(parameters.first_moments + at);
    }
    if (OPTIMIZER == ADAM && !step.is_first) {
        second = __ldcg(parameters.second_moments + at);
    }
    if (PRIOR) {
        gradient += prior_gradient(parameters, value, index);
    }
    descend(value, first, second, gradient, step);
    __stcg(parameters.values + at, value);
    if (OPTIMIZER != SGD) {
        __stcg(parameters.first_moments + at, first);
    }
    if (OPTIMIZER == ADAM) {
        __stcg(parameters.second_moments + at, second);
    }
}
