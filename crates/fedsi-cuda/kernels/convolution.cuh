// Convolutions on a chunk of samples as implicit matrix products on tensor cores: sizes, weights, outputs.
//
// A warp's tile is 32 output positions (rows, in four slots of 8: lane 4 g + t holds row g of each) by 8 or 16 output channels
// (columns), summed over taps, i.e. input channels and places of the kernel, 8 at a time. Under 2 by 2 max pooling (POOL = 2)
// the four slots are the four positions of 8 windows, so that a window's maximum is found in a lane's registers, and only
// that is stored, with which position it was.

template <class In_, int OUT_, int KERNEL_, int STRIDE_, int POOL_>
struct Convolution {
    typedef In_ In;
    static constexpr int OUT = OUT_;
    static constexpr int KERNEL = KERNEL_;
    static constexpr int STRIDE = STRIDE_;
    static constexpr int POOL = POOL_;
    static constexpr int AREA = KERNEL * KERNEL;
    static constexpr int TAPS = In::CHANNELS * AREA;
    static constexpr int TAP_STEPS = ceil_div(TAPS, 8);
    // Rows of staged weights: zeros past the last tap; 4 more than a multiple of 8, so that lanes meet different banks.
    static constexpr int WEIGHT_ROW = 8 * TAP_STEPS + 4;
    static constexpr int OUT_TILES = ceil_div(OUT, 8);
    static constexpr int OUT_PADDED = 8 * OUT_TILES;
    static constexpr int HEIGHT = ((In::HEIGHT + 2 * In::PADDING - KERNEL) / STRIDE + 1) / POOL;
    static constexpr int WIDTH = ((In::WIDTH + 2 * In::PADDING - KERNEL) / STRIDE + 1) / POOL;
    // Outputs of a channel: windows, or positions without pooling.
    static constexpr int PLACES = HEIGHT * WIDTH;
    static constexpr int OUTPUTS = OUT * PLACES;
    static constexpr int STAGED_BIAS = OUT_PADDED * WEIGHT_ROW;

    // Where the input of the first tap of position `position` of window `place` lies.
    static __device__ __forceinline__ int corner(int sample, int place) {
        int y = place / WIDTH;
        int x = place - y * WIDTH;
        return sample * In::STRIDE + (y * In::ROW + x) * (POOL * STRIDE);
    }
    static __host__ __device__ constexpr int position(int index) {
        return ((index >> 1) * In::ROW + (index & 1)) * STRIDE;
    }
};

// Where each tap's input lies after that of the first tap; 0 past the last. `count` is a multiple of 16.
template <class Conv>
__device__ __forceinline__ void convolution_offsets(int* offsets, int count) {
    typedef typename Conv::In In;
    for (int tap = thread_index(); tap < count; tap += THREADS) {
        int channel = tap / Conv::AREA;
        int place = tap - channel * Conv::AREA;
        int offset = channel * In::PLANE + place / Conv::KERNEL * In::ROW + place % Conv::KERNEL;
        offsets[tap] = tap < Conv::TAPS ? offset : 0;
    }
}

// Copies weights and biases to where the products read them, with this step's noise. `parameters` are the layer's.
template <class Conv, bool NOISY>
__device__ __forceinline__ void stage_convolution(const float* parameters, float* staged, float deviation,
                                                  unsigned long long key, int step, int layer) {
    // Several loads in flight at a time; draws are long enough without.
#pragma unroll(NOISY ? 1 : 4)
    for (int i = thread_index(); i < Conv::OUT_PADDED * (Conv::WEIGHT_ROW + 1); i += THREADS) {
        bool is_bias = i >= Conv::STAGED_BIAS;
        int out = is_bias ? i - Conv::STAGED_BIAS : i / Conv::WEIGHT_ROW;
        int tap = is_bias ? 0 : i - out * Conv::WEIGHT_ROW;
        int index = is_bias ? Conv::OUT * Conv::TAPS + out : out * Conv::TAPS + tap;
        float value = 0.0f;
        if (out < Conv::OUT && tap < Conv::TAPS) {
            value = __ldcg(parameters + index);
            if (NOISY) {
                value = fmaf(deviation, one_normal(key, step, layer, index), value);
            }
        }
        staged[i] = value;
    }
}

// The weights of 8 taps and 8 output channels as the right operand of a product.
template <class Conv>
__device__ __forceinline__ void load_weights(Split<2>& operand, const float* staged, int tap_step, int tile) {
    const int lane = lane_index();
    const float* row = staged + (tile * 8 + (lane >> 2)) * Conv::WEIGHT_ROW + tap_step * 8 + (lane & 3);
    operand.set(0, row[0]);
    operand.set(1, row[4]);
}

// y = Function(convolution of x), or the maximum of it over windows. `winners` (where POOL = 2) receives which of the four
// positions it was: the first of equals.
template <class Conv, class Out, class Function>
__device__ __forceinline__ void convolution_forward(const float* x, const float* staged, const int* offsets, float* y,
                                                    unsigned char* winners, int samples) {
    constexpr int TILES = Conv::OUT_TILES < 2 ? Conv::OUT_TILES : 2;
    constexpr int TILE_GROUPS = ceil_div(Conv::OUT_TILES, TILES);
    constexpr int ROWS = Conv::POOL == 2 ? 8 : 32;
    const int g = lane_index() >> 2;
    const int t = lane_index() & 3;
    const int total = samples * Conv::PLACES;
    const int items = ceil_div(total, ROWS) * TILE_GROUPS;
#pragma unroll 1
    for (int item = warp_index(); item < items; item += WARPS) {
        const int first_tile = item % TILE_GROUPS * TILES;
        const int first = item / TILE_GROUPS * ROWS;
        const float* rows[4];
        int sample[4];
        int place[4];
#pragma unroll
        for (int slot = 0; slot < 4; slot++) {
            if (Conv::POOL == 2 && slot > 0) {
                rows[slot] = rows[0] + Conv::position(slot);
            } else {
                int q = min(first + slot * 8 + g, total - 1);
                sample[slot] = q / Conv::PLACES;
                place[slot] = q - sample[slot] * Conv::PLACES;
                rows[slot] = x + Conv::corner(sample[slot], place[slot]);
            }
        }
        float high[2][TILES][4] = {};
        float low[2][TILES][4] = {};
#pragma unroll 4
        for (int k = 0; k < Conv::TAP_STEPS; k++) {
            const int near_tap = offsets[8 * k + t];
            const int far_tap = offsets[8 * k + t + 4];
            Split<4> inputs[2];
#pragma unroll
            for (int m = 0; m < 2; m++) {
                inputs[m].set(0, rows[2 * m][near_tap]);
                inputs[m].set(1, rows[2 * m + 1][near_tap]);
                inputs[m].set(2, rows[2 * m][far_tap]);
                inputs[m].set(3, rows[2 * m + 1][far_tap]);
            }
#pragma unroll
            for (int n = 0; n < TILES; n++) {
                // Tiles past the last repeat it and are not stored.
                Split<2> weights;
                load_weights<Conv>(weights, staged, k, min(first_tile + n, Conv::OUT_TILES - 1));
                multiply_add(high[0][n], low[0][n], inputs[0], weights);
                multiply_add(high[1][n], low[1][n], inputs[1], weights);
            }
        }
#pragma unroll
        for (int n = 0; n < TILES; n++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int channel = (first_tile + n) * 8 + 2 * t + e;
                if (channel >= Conv::OUT) {
                    continue;
                }
                const float bias = staged[Conv::STAGED_BIAS + channel];
                float values[4];
#pragma unroll
                for (int slot = 0; slot < 4; slot++) {
                    int c = 2 * (slot & 1) + e;
                    values[slot] = high[slot >> 1][n][c] + low[slot >> 1][n][c];
                }
                if (Conv::POOL == 2) {
                    float best = values[0];
                    int winner = 0;
#pragma unroll
                    for (int slot = 1; slot < 4; slot++) {
                        if (values[slot] > best) {
                            best = values[slot];
                            winner = slot;
                        }
                    }
                    if (first + g < total) {
                        int output = channel * Conv::PLACES + place[0];
                        y[Out::at(sample[0], output)] = Function::forward(best + bias);
                        winners[sample[0] * Conv::OUTPUTS + output] = (unsigned char)winner;
                    }
                } else {
#pragma unroll
                    for (int slot = 0; slot < 4; slot++) {
                        if (first + slot * 8 + g < total) {
                            int at = Out::at(sample[slot], channel * Conv::PLACES + place[slot]);
                            y[at] = Function::forward(values[slot] + bias);
                        }
                    }
                }
            }
        }
    }
}
