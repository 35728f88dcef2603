// Functions applied to every value alike. `gradient` turns the gradient in the output y into that in the input x.
// Identity, Relu, Tanh and Sigmoid differentiate from y alone: a layer can apply them to its outputs at once, and x need not
// be kept.

struct Identity {
    static __device__ __forceinline__ float forward(float x) { return x; }
    static __device__ __forceinline__ float gradient(float dy, float, float) { return dy; }
};

struct Relu {
    static __device__ __forceinline__ float forward(float x) { return x > 0.0f ? x : 0.0f; }
    static __device__ __forceinline__ float gradient(float dy, float, float y) { return y > 0.0f ? dy : 0.0f; }
};

// SLOPE is the bits of the slope as f32.
template <int SLOPE>
struct LeakyRelu {
    static __device__ __forceinline__ float forward(float x) { return x > 0.0f ? x : __int_as_float(SLOPE) * x; }
    static __device__ __forceinline__ float gradient(float dy, float x, float) {
        return x > 0.0f ? dy : __int_as_float(SLOPE) * dy;
    }
};

struct Tanh {
    static __device__ __forceinline__ float forward(float x) { return tanhf(x); }
    static __device__ __forceinline__ float gradient(float dy, float, float y) { return dy * (1.0f - y * y); }
};

struct Sigmoid {
    static __device__ __forceinline__ float forward(float x) { return 1.0f / (1.0f + expf(-x)); }
    static __device__ __forceinline__ float gradient(float dy, float, float y) { return dy * (y * (1.0f - y)); }
};

struct Silu {
    static __device__ __forceinline__ float forward(float x) { return x * Sigmoid::forward(x); }
    static __device__ __forceinline__ float gradient(float dy, float x, float) {
        float s = Sigmoid::forward(x);
        return dy * (s + x * s * (1.0f - s));
    }
};

struct Softplus {
    static __device__ __forceinline__ float forward(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
    static __device__ __forceinline__ float gradient(float dy, float x, float) { return dy * Sigmoid::forward(x); }
};

struct Gelu {
    // The normal distribution function.
    static __device__ __forceinline__ float below(float x) { return 0.5f * erfcf(-0.70710678118654752f * x); }
    static __device__ __forceinline__ float forward(float x) { return x * below(x); }
    static __device__ __forceinline__ float gradient(float dy, float x, float) {
        return dy * (below(x) + x * 0.39894228040143268f * expf(-0.5f * x * x));
    }
};

// An activation as a layer of its own: x and y are kept.
template <class Layout, class Function>
__device__ __forceinline__ void activation_forward(const float* x, float* y, int samples) {
    for (int i = thread_index(); i < samples * Layout::COUNT; i += THREADS) {
        int sample = i / Layout::COUNT;
        int at = Layout::at(sample, i - sample * Layout::COUNT);
        y[at] = Function::forward(x[at]);
    }
}

// Below is the activation that x came out of, where a layer has applied it itself.
template <class Layout, class Function, class Below>
__device__ __forceinline__ void activation_backward(const float* x, const float* y, const float* dy, float* dx, int samples) {
    typedef typename Layout::Gradient Gradient;
    for (int i = thread_index(); i < samples * Layout::COUNT; i += THREADS) {
        int sample = i / Layout::COUNT;
        int index = i - sample * Layout::COUNT;
        int at = Layout::at(sample, index);
        int place = Gradient::at(sample, index);
        dx[place] = Below::gradient(Function::gradient(dy[place], x[at], y[at]), 0.0f, x[at]);
    }
}
