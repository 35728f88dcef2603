// What all layers share: how a chunk's values lie in memory, products of f32 accuracy on tensor cores, sums over a warp.
//
// A block takes SAMPLES samples at a time through the network (a chunk). THREADS, SAMPLES and GROUP (blocks of a client) are
// defined before this file.

constexpr int WARPS = THREADS / 32;
static_assert(SAMPLES == 4, "values of a chunk are read as float4, one component a sample");

__host__ __device__ constexpr int ceil_div(int value, int divisor) { return (value + divisor - 1) / divisor; }
__host__ __device__ constexpr int round_up(int value, int multiple) { return ceil_div(value, multiple) * multiple; }

__device__ __forceinline__ int thread_index() { return threadIdx.x; }
__device__ __forceinline__ int warp_index() { return threadIdx.x >> 5; }
__device__ __forceinline__ int lane_index() { return threadIdx.x & 31; }

// Values as convolutions and pooling read them: [sample][channel][row][column], each image inside a border of PADDING zeros.
// The border is zeroed once, before the first step; nothing writes to it.
template <int CHANNELS_, int HEIGHT_, int WIDTH_, int PADDING_>
struct Image {
    static constexpr int CHANNELS = CHANNELS_;
    static constexpr int HEIGHT = HEIGHT_;
    static constexpr int WIDTH = WIDTH_;
    static constexpr int PADDING = PADDING_;
    static constexpr int COUNT = CHANNELS * HEIGHT * WIDTH;
    static constexpr int ROW = WIDTH + 2 * PADDING;
    static constexpr int PLANE = (HEIGHT + 2 * PADDING) * ROW;
    static constexpr int STRIDE = round_up(CHANNELS * PLANE, 4);
    static constexpr bool INTERLEAVED = false;
    typedef Image<CHANNELS_, HEIGHT_, WIDTH_, 0> Gradient;

    // Where value `index` of a sample is, counted without the border.
    static __device__ __forceinline__ int at(int sample, int index) {
        if constexpr (PADDING == 0) {
            return sample * STRIDE + index;
        } else {
            int channel = index / (HEIGHT * WIDTH);
            int pixel = index - channel * (HEIGHT * WIDTH);
            int y = pixel / WIDTH;
            int x = pixel - y * WIDTH;
            return sample * STRIDE + channel * PLANE + (y + PADDING) * ROW + x + PADDING;
        }
    }
};

// Values as linear layers read them: the four samples' side by side, and value i at place (i % 4) QUARTER + i / 4, so that
// lanes that hold four neighbouring weights each (a 16-byte load) read consecutive float4. Places past the last value are
// zeroed once and stay zero.
template <int COUNT_>
struct Interleaved {
    static constexpr int COUNT = COUNT_;
    static constexpr int QUARTER = ceil_div(COUNT, 4);
    static constexpr bool INTERLEAVED = true;
    typedef Interleaved<COUNT_> Gradient;

    static __device__ __forceinline__ int place(int index) { return (index & 3) * QUARTER + (index >> 2); }
    static __device__ __forceinline__ int at(int sample, int index) { return place(index) * SAMPLES + sample; }
};

// value = high + low, high with the 10 bits of mantissa of TF32 (rounded to nearest), low exact.
__device__ __forceinline__ void split(float value, float& high, float& low) {
    high = __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xffffe000u);
    low = value - high;
}

// An operand of a product, split.
template <int COUNT>
struct Split {
    float high[COUNT];
    float low[COUNT];

    __device__ __forceinline__ void set(int index, float value) { split(value, high[index], low[index]); }
};

// high + low += a b to f32 accuracy: the product of the low parts is below f32's last place.
__device__ __forceinline__ void multiply_add(float (&high)[4], float (&low)[4], const Split<4>& a, const Split<2>& b) {
    mma_m16n8k8(low, a.low, b.high);
    mma_m16n8k8(low, a.high, b.low);
    mma_m16n8k8(high, a.high, b.high);
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance >>= 1) {
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    }
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance >>= 1) {
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
    }
    return value;
}

// Sums four values over the warp at once; a lane returns the sum of component lane / 8.
__device__ __forceinline__ float warp_sum_of_four(float4 values) {
    const int lane = lane_index();
    const bool upper = lane & 16;
    float first = upper ? values.z : values.x;
    float second = upper ? values.w : values.y;
    first += __shfl_xor_sync(0xffffffffu, upper ? values.x : values.z, 16);
    second += __shfl_xor_sync(0xffffffffu, upper ? values.y : values.w, 16);
    const bool odd = lane & 8;
    float sum = odd ? second : first;
    sum += __shfl_xor_sync(0xffffffffu, odd ? first : second, 8);
    sum += __shfl_xor_sync(0xffffffffu, sum, 4);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    return sum;
}

__device__ __forceinline__ void add_product(float4& sum, float factor, const float4& values) {
    sum.x = fmaf(factor, values.x, sum.x);
    sum.y = fmaf(factor, values.y, sum.y);
    sum.z = fmaf(factor, values.z, sum.z);
    sum.w = fmaf(factor, values.w, sum.w);
}

__device__ __forceinline__ void zero_floats(float* values, long long count, int thread, int threads) {
    for (long long i = thread; i < count; i += threads) {
        values[i] = 0.0f;
    }
}
