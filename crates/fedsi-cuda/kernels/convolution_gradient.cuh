// Gradients of convolutions on a chunk of samples, as matrix products: in the parameters and in the inputs. `dy` is the
// gradient in the outputs (before their activation, after pooling); under pooling it belongs to each window's winner.

// How the gradient in the parameters is split among warps: M_TILES by N_TILES tiles of 16 taps (the bias is one tap more, whose
// input is 1) by 8 channels are a warp's at a time; where there are fewer such groups than warps, SPLITS warps share the
// positions of each, and their sums meet in `scratch`.
template <class Conv, int M_TILES_, int SPLITS_>
struct WeightGradientTiles {
    static constexpr int M_TILES = M_TILES_;
    static constexpr int N_TILES = Conv::OUT_TILES < 2 ? Conv::OUT_TILES : 2;
    static constexpr int SPLITS = SPLITS_;
    static constexpr int M_GROUPS = ceil_div(ceil_div(Conv::TAPS + 1, 16), M_TILES);
    static constexpr int N_GROUPS = ceil_div(Conv::OUT_TILES, N_TILES);
    // Entries of the table of offsets.
    static constexpr int ROWS = 16 * M_TILES * M_GROUPS;
    static constexpr int SCRATCH_ROW = ROWS + 4;
    static constexpr int BIAS_TILE = Conv::TAPS / 16;
    static constexpr int BIAS_ROW = Conv::TAPS % 16;
};

// Adds to a parameter's sum over the chunks of a step.
__device__ __forceinline__ void add_to_partial(float* partial, float value, bool first_chunk) {
    __stcg(partial, first_chunk ? value : __ldcg(partial) + value);
}

// The chunk's gradient in weights and biases, to `partials` (the block's own, in the order of the layer's parameters).
template <class Conv, class DyLayout, class Tiles>
__device__ __forceinline__ void convolution_weight_gradient(const float* x, const float* dy, const unsigned char* winners,
                                                            const int* offsets, float* partials, float* scratch, int samples,
                                                            bool first_chunk) {
    constexpr int POSITIONS = Conv::POOL * Conv::POOL;
    constexpr int M_TILES = Tiles::M_TILES;
    constexpr int N_TILES = Tiles::N_TILES;
    constexpr int UNITS = Tiles::M_GROUPS * Tiles::N_GROUPS * Tiles::SPLITS;
    const int g = lane_index() >> 2;
    const int t = lane_index() & 3;
    const int total = samples * Conv::PLACES;
#pragma unroll 1
    for (int unit = warp_index(); unit < UNITS; unit += WARPS) {
        const int m_group = unit % Tiles::M_GROUPS;
        const int n_group = unit / Tiles::M_GROUPS % Tiles::N_GROUPS;
        const int part = unit / (Tiles::M_GROUPS * Tiles::N_GROUPS);
        const bool bias_lane = m_group == Tiles::BIAS_TILE / M_TILES && g == Tiles::BIAS_ROW % 8;
        int taps[M_TILES][2];
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
            taps[m][0] = offsets[(m_group * M_TILES + m) * 16 + g];
            taps[m][1] = offsets[(m_group * M_TILES + m) * 16 + g + 8];
        }
        float sums[M_TILES][N_TILES][4] = {};
#pragma unroll 1
        for (int first = part * 8; first < total; first += Tiles::SPLITS * 8) {
            const float* corners[2];
            Split<2> slopes[N_TILES];
            int winner[N_TILES][2];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int wanted = first + t + 4 * e;
                int q = min(wanted, total - 1);
                int sample = q / Conv::PLACES;
                int place = q - sample * Conv::PLACES;
                corners[e] = x + Conv::corner(sample, place);
#pragma unroll
                for (int n = 0; n < N_TILES; n++) {
                    int channel = (n_group * N_TILES + n) * 8 + g;
                    int output = min(channel, Conv::OUT - 1) * Conv::PLACES + place;
                    bool inside = wanted < total && channel < Conv::OUT;
                    slopes[n].set(e, inside ? dy[DyLayout::at(sample, output)] : 0.0f);
                    if (POSITIONS > 1) {
                        winner[n][e] = winners[sample * Conv::OUTPUTS + output];
                    }
                }
            }
#pragma unroll
            for (int position = 0; position < POSITIONS; position++) {
                const int shift = Conv::position(position);
                Split<2> operand[N_TILES];
#pragma unroll
                for (int n = 0; n < N_TILES; n++) {
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        bool here = POSITIONS == 1 || winner[n][e] == position;
                        operand[n].high[e] = here ? slopes[n].high[e] : 0.0f;
                        operand[n].low[e] = here ? slopes[n].low[e] : 0.0f;
                    }
                }
#pragma unroll
                for (int m = 0; m < M_TILES; m++) {
                    const bool bias = m == Tiles::BIAS_TILE % M_TILES && bias_lane;
                    Split<4> inputs;
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        const bool one = half == Tiles::BIAS_ROW / 8 && bias;
                        inputs.set(half, one ? 1.0f : corners[0][taps[m][half] + shift]);
                        inputs.set(half + 2, one ? 1.0f : corners[1][taps[m][half] + shift]);
                    }
#pragma unroll
                    for (int n = 0; n < N_TILES; n++) {
                        multiply_add(sums[m][n], sums[m][n], inputs, operand[n]);
                    }
                }
            }
        }
#pragma unroll
        for (int m = 0; m < M_TILES; m++) {
#pragma unroll
            for (int n = 0; n < N_TILES; n++) {
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    int tap = (m_group * M_TILES + m) * 16 + g + 8 * (c >> 1);
                    int channel = (n_group * N_TILES + n) * 8 + 2 * t + (c & 1);
                    if (channel >= Conv::OUT || tap > Conv::TAPS) {
                        continue;
                    }
                    if (Tiles::SPLITS > 1) {
                        scratch[(part * Conv::OUT_PADDED + channel) * Tiles::SCRATCH_ROW + tap] = sums[m][n][c];
                    } else {
                        int index = tap < Conv::TAPS ? channel * Conv::TAPS + tap : Conv::OUT * Conv::TAPS + channel;
                        add_to_partial(partials + index, sums[m][n][c], first_chunk);
                    }
                }
            }
        }
    }
    if (Tiles::SPLITS > 1) {
        __syncthreads();
        for (int i = thread_index(); i < Conv::OUT * (Conv::TAPS + 1); i += THREADS) {
            int channel = i / (Conv::TAPS + 1);
            int tap = i - channel * (Conv::TAPS + 1);
            float sum = 0.0f;
#pragma unroll
            for (int part = 0; part < Tiles::SPLITS; part++) {
                sum += scratch[(part * Conv::OUT_PADDED + channel) * Tiles::SCRATCH_ROW + tap];
            }
            int index = tap < Conv::TAPS ? channel * Conv::TAPS + tap : Conv::OUT * Conv::TAPS + channel;
            add_to_partial(partials + index, sum, first_chunk);
        }
    }
}

// Gradient planes: the gradient in a sample's outputs of one channel as an image, with zeros between them under a stride and
// around them, so that an input's gradient is a plain sum over the kernel's places.
template <class Conv>
struct GradientPlanes {
    static constexpr int WIDTH = Conv::In::WIDTH + Conv::KERNEL - 1;
    static constexpr int HEIGHT = Conv::In::HEIGHT + Conv::KERNEL - 1;
    static constexpr int BORDER = Conv::KERNEL - 1 - Conv::In::PADDING;
    // 8 more than a multiple of 16: lanes of four channels meet different banks.
    static constexpr int PLANE = round_up(WIDTH * HEIGHT + 8, 16) - 8;
    static constexpr int SAMPLE = Conv::OUT_PADDED * PLANE;
};

// Lays out the planes of `count` samples from `first` on. A barrier has to come before and after.
template <class Conv, class DyLayout>
__device__ __forceinline__ void lay_out_planes(const float* dy, const unsigned char* winners, float* planes, int first,
                                               int count) {
    typedef GradientPlanes<Conv> Planes;
    for (int i = thread_index(); i < count * (Planes::SAMPLE / 4); i += THREADS) {
        reinterpret_cast<float4*>(planes)[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    __syncthreads();
    for (int i = thread_index(); i < count * Conv::OUTPUTS; i += THREADS) {
        int sample = i / Conv::OUTPUTS;
        int output = i - sample * Conv::OUTPUTS;
        int channel = output / Conv::PLACES;
        int place = output - channel * Conv::PLACES;
        int y = place / Conv::WIDTH * Conv::POOL;
        int x = place % Conv::WIDTH * Conv::POOL;
        if (Conv::POOL == 2) {
            int winner = winners[(first + sample) * Conv::OUTPUTS + output];
            y += winner >> 1;
            x += winner & 1;
        }
        int at = (y * Conv::STRIDE + Planes::BORDER) * Planes::WIDTH + x * Conv::STRIDE + Planes::BORDER;
        planes[(sample * Conv::OUT_PADDED + channel) * Planes::PLANE + at] = dy[DyLayout::at(first + sample, output)];
    }
}

// dx, through Below, the activation that x came out of; PASS samples' planes fit `scratch` at a time. A warp takes 32 pixels
// of 8 or 16 input channels, in slots of 8 pixels: lane 4 g + t holds row g of each.
template <class Conv, class DyLayout, class Below, int PASS>
__device__ __forceinline__ void convolution_input_gradient(const float* x, const float* staged, const float* dy,
                                                           const unsigned char* winners, float* dx, float* scratch,
                                                           int samples) {
    typedef typename Conv::In In;
    typedef GradientPlanes<Conv> Planes;
    constexpr int PIXELS = In::HEIGHT * In::WIDTH;
    constexpr int CHANNEL_TILES = ceil_div(In::CHANNELS, 8);
    constexpr int TILES = CHANNEL_TILES < 2 ? 1 : 2;
    constexpr int TILE_GROUPS = ceil_div(CHANNEL_TILES, TILES);
    constexpr int UNROLL = Conv::KERNEL <= 5 ? Conv::KERNEL : 1;
    constexpr int SLOTS = 4;
    constexpr int M_TILES = SLOTS / 2;
    const int g = lane_index() >> 2;
    const int t = lane_index() & 3;
#pragma unroll 1
    for (int first_sample = 0; first_sample < samples; first_sample += PASS) {
        const int count = min(PASS, samples - first_sample);
        __syncthreads();
        lay_out_planes<Conv, DyLayout>(dy, winners, scratch, first_sample, count);
        __syncthreads();
        const int total = count * PIXELS;
        const int items = ceil_div(total, 8 * SLOTS) * TILE_GROUPS;
#pragma unroll 1
        for (int item = warp_index(); item < items; item += WARPS) {
            const int first_channel = item % TILE_GROUPS * TILES * 8;
            const int first = item / TILE_GROUPS * 8 * SLOTS;
            const float* rows[SLOTS];
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) {
                int q = min(first + slot * 8 + g, total - 1);
                int sample = q / PIXELS;
                int pixel = q - sample * PIXELS;
                int row = pixel / In::WIDTH;
                int column = pixel - row * In::WIDTH;
                int at = (row + Conv::KERNEL - 1) * Planes::WIDTH + column + Conv::KERNEL - 1;
                rows[slot] = scratch + (sample * Conv::OUT_PADDED + t) * Planes::PLANE + at;
            }
            const float* weights[TILES];
#pragma unroll
            for (int n = 0; n < TILES; n++) {
                // Columns past the last channel repeat it and are not stored.
                int channel = min(first_channel + n * 8 + g, In::CHANNELS - 1);
                weights[n] = staged + t * Conv::WEIGHT_ROW + channel * Conv::AREA;
            }
            float high[M_TILES][TILES][4] = {};
            float low[M_TILES][TILES][4] = {};
#pragma unroll 1
            for (int ky = 0; ky < Conv::KERNEL; ky++) {
#pragma unroll UNROLL
                for (int kx = 0; kx < Conv::KERNEL; kx++) {
#pragma unroll 2
                    for (int o = 0; o < Conv::OUT_TILES; o++) {
                        Split<2> operand[TILES];
#pragma unroll
                        for (int n = 0; n < TILES; n++) {
                            const int tap = o * 8 * Conv::WEIGHT_ROW + kx;
                            operand[n].set(0, weights[n][tap]);
                            operand[n].set(1, weights[n][tap + 4 * Conv::WEIGHT_ROW]);
                        }
                        const int shift = o * 8 * Planes::PLANE - kx;
#pragma unroll
                        for (int m = 0; m < M_TILES; m++) {
                            Split<4> slopes;
                            slopes.set(0, rows[2 * m][shift]);
                            slopes.set(1, rows[2 * m + 1][shift]);
                            slopes.set(2, rows[2 * m][shift + 4 * Planes::PLANE]);
                            slopes.set(3, rows[2 * m + 1][shift + 4 * Planes::PLANE]);
#pragma unroll
                            for (int n = 0; n < TILES; n++) {
                                multiply_add(high[m][n], low[m][n], slopes, operand[n]);
                            }
                        }
                    }
                }
                // To the next row of the kernel.
#pragma unroll
                for (int slot = 0; slot < SLOTS; slot++) {
                    rows[slot] -= Planes::WIDTH;
                }
#pragma unroll
                for (int n = 0; n < TILES; n++) {
                    weights[n] += Conv::KERNEL;
                }
            }
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) {
                const int q = first + slot * 8 + g;
                const int sample = q / PIXELS;
                const int pixel = q - sample * PIXELS;
#pragma unroll
                for (int n = 0; n < TILES; n++) {
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        int channel = first_channel + n * 8 + 2 * t + e;
                        if (channel < In::CHANNELS && q < total) {
                            int index = channel * PIXELS + pixel;
                            int own = first_sample + sample;
                            float sum = high[slot >> 1][n][2 * (slot & 1) + e] + low[slot >> 1][n][2 * (slot & 1) + e];
                            dx[In::Gradient::at(own, index)] = Below::gradient(sum, 0.0f, x[In::at(own, index)]);
                        }
                    }
                }
            }
        }
    }
}
