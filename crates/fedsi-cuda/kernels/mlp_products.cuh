// The first layer: its products on the tensor cores, and Adam, with weights and moments in registers for the whole training.
//
// A product warp has all 16 units of its block and TILES tiles of 8 features in each half. Lane 4 g + t has of a tile the
// units g, g + 8 and the features 2 t, 2 t + 1, entry 2 (upper unit) + (odd feature): so a tensor core leaves the gradient
// (units x features) in its result, and with feature 2 t in place t and 2 t + 1 in place t + 4 of the sum over features this
// is also how it wants the weights as an operand. Nothing is ever exchanged between lanes.

struct FirstLayer {
    float weight[HALVES * TILES][4];
    float first[HALVES * TILES][4];
    float second[HALVES * TILES][4];
};

// Where a lane's entries lie: its first one, and how far from that the others are (known when this is compiled).
struct Entries {
    int unit;
    int feature;

    __device__ __forceinline__ Entries(int rank, int thread)
        : unit(rank * UNITS + thread % WARP / 4), feature(thread / WARP * WARP_FEATURES + 2 * (thread % 4)) {}

    static __device__ __forceinline__ int unit_offset(int entry) {
        return entry / 2 * 8;
    }

    static __device__ __forceinline__ int feature_offset(int tile, int entry) {
        return tile / TILES * HALF + tile % TILES * TILE + entry % 2;
    }

    // Padding does not exist.
    __device__ __forceinline__ bool exist(int tile, int entry) const {
        return unit + unit_offset(entry) < HIDDEN && feature + feature_offset(tile, entry) < INPUTS;
    }

    // The entry of an array in the order of the flat parameters.
    template <class Value>
    __device__ __forceinline__ Value& of(Value* values, int tile, int entry) const {
        return (values + unit * INPUTS + feature)[unit_offset(entry) * INPUTS + feature_offset(tile, entry)];
    }
};

__device__ __forceinline__ void load_weights(FirstLayer& layer, const float* values) {
    const Entries entries(cluster_rank(), thread_index());
#pragma unroll
    for (int tile = 0; tile < HALVES * TILES; tile++) {
#pragma unroll
        for (int entry = 0; entry < 4; entry++) {
            layer.weight[tile][entry] = entries.exist(tile, entry) ? entries.of(values, tile, entry) : 0.0f;
            layer.first[tile][entry] = 0.0f;
            layer.second[tile][entry] = 0.0f;
        }
    }
}

__device__ __forceinline__ void store_weights(const FirstLayer& layer, float* values) {
    const Entries entries(cluster_rank(), thread_index());
#pragma unroll
    for (int tile = 0; tile < HALVES * TILES; tile++) {
#pragma unroll
        for (int entry = 0; entry < 4; entry++) {
            if (entries.exist(tile, entry)) {
                entries.of(values, tile, entry) = layer.weight[tile][entry];
            }
        }
    }
}

// The prior in the order in which lanes read it: [tile][weights, means][lane], a float4 each. In the network's own order a
// warp's load would touch eight lines for a quarter of the bytes.
__device__ __forceinline__ float4* warp_prior(float* workspace, int rank, int warp) {
    return (float4*)workspace + (rank * PRODUCT_WARPS + warp) * HALVES * TILES * 2 * WARP;
}

__device__ __forceinline__ void pack_prior(const Job& job, float4* packed) {
    const int lane = thread_index() % WARP;
    const Entries entries(cluster_rank(), thread_index());
    for (int tile = 0; tile < HALVES * TILES; tile++) {
        float weight[4];
        float mean[4];
#pragma unroll
        for (int entry = 0; entry < 4; entry++) {
            bool exists = entries.exist(tile, entry);
            weight[entry] = exists ? entries.of(job.prior_weight, tile, entry) : 0.0f;
            mean[entry] = exists ? entries.of(job.prior_mean, tile, entry) : 0.0f;
        }
        packed[(tile * 2) * WARP + lane] = make_float4(weight[0], weight[1], weight[2], weight[3]);
        packed[(tile * 2 + 1) * WARP + lane] = make_float4(mean[0], mean[1], mean[2], mean[3]);
    }
}

// sum[i] += a b[i] for several b, to f32's accuracy; the small products first. One kind of product after the other, so that
// no product waits for the one before it.
template <int COUNT>
__device__ __forceinline__ void multiply_add_all(
    float (&sum)[COUNT][4], const float (&a)[4], const float (&b)[COUNT][2]
) {
    float a_high[4];
    float a_low[4];
    float b_high[COUNT][2];
    float b_low[COUNT][2];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        split(a[i], a_high[i], a_low[i]);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        split(b[i][0], b_high[i][0], b_low[i][0]);
        split(b[i][1], b_high[i][1], b_low[i][1]);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        multiply_add(sum[i], a_low, b_high[i]);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        multiply_add(sum[i], a_high, b_low[i]);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        multiply_add(sum[i], a_high, b_high[i]);
    }
}

// A row of the last tile of samples: rows that the batch does not have are read as its last; their gradients are 0.
__device__ __forceinline__ int last_tile_row(int row_in_tile) {
    int row = (SAMPLE_TILES - 1) * TILE + row_in_tile;
    return row < BATCH ? row : BATCH - 1;
}

// Units x samples, summed over this warp's features, to `partial`.
__device__ __forceinline__ void forward_product(const FirstLayer& layer, Shared& shared, int step) {
    const int thread = thread_index();
    const int warp = thread / WARP;
    const int lane = thread % WARP;
    const int group = lane / 4;
    const int member = lane % 4;
    const int column = warp * WARP_FEATURES + 2 * member;
    const float* rows = shared.inputs + group * ROW + column;
    const float* last_row = shared.inputs + last_tile_row(group) * ROW + column;
    float sum[SAMPLE_TILES][4] = {};
#pragma unroll
    for (int tile = 0; tile < HALVES * TILES; tile++) {
        if (tile % TILES == 0) {
            mbarrier_wait(shared_address(&shared.full[tile / TILES]), step & 1);
        }
        const int offset = tile / TILES * HALF + tile % TILES * TILE;
        float x[SAMPLE_TILES][2];
#pragma unroll
        for (int samples = 0; samples < SAMPLE_TILES; samples++) {
            const float* row = samples + 1 < SAMPLE_TILES ? rows + samples * TILE * ROW : last_row;
            float2 pair = *(const float2*)(row + offset);
            x[samples][0] = pair.x;
            x[samples][1] = pair.y;
        }
        const float(&weight)[4] = layer.weight[tile];
        const float operand[4] = {weight[0], weight[2], weight[1], weight[3]};
        multiply_add_all(sum, operand, x);
    }
    float* partial = shared.partial + warp * BATCH * PARTIAL_ROW + group;
#pragma unroll
    for (int samples = 0; samples < SAMPLE_TILES; samples++) {
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
            int sample = samples * TILE + 2 * member + odd;
            if (sample < BATCH) {
                partial[sample * PARTIAL_ROW] = sum[samples][odd];
                partial[sample * PARTIAL_ROW + 8] = sum[samples][odd + 2];
            }
        }
    }
}

// Units x features of one half, summed over the samples.
__device__ __forceinline__ void gradient_product(
    float (&sum)[TILES][4], const Shared& shared, int warp, int lane, int half
) {
    const int group = lane / 4;
    const int member = lane % 4;
    const int column = half * HALF + warp * WARP_FEATURES + group;
    const float* rows = shared.inputs + member * ROW + column;
    const float* last_row0 = shared.inputs + last_tile_row(member) * ROW + column;
    const float* last_row1 = shared.inputs + last_tile_row(member + 4) * ROW + column;
#pragma unroll
    for (int samples = 0; samples < SAMPLE_TILES; samples++) {
        const bool last = samples + 1 == SAMPLE_TILES;
        const float* row0 = last ? last_row0 : rows + samples * TILE * ROW;
        const float* row1 = last ? last_row1 : rows + (samples * TILE + 4) * ROW;
        float x[TILES][2];
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            x[tile][0] = row0[tile * TILE];
            x[tile][1] = row1[tile * TILE];
        }
        float4 gradient = *(const float4*)(shared.hidden_gradient + (samples * WARP + lane) * 4);
        const float operand[4] = {gradient.x, gradient.y, gradient.z, gradient.w};
        multiply_add_all(sum, operand, x);
    }
}

// Gradient and Adam, one half after the other; tells the cluster when a half of the batch is no longer needed.
__device__ __forceinline__ void descend(
    FirstLayer& layer, Shared& shared, const Job& job, const Adam& adam
) {
    const int thread = thread_index();
    const int warp = thread / WARP;
    const int lane = thread % WARP;
    const float4* prior = PRIOR ? warp_prior(job.workspace, cluster_rank(), warp) : nullptr;
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        float gradient[TILES][4] = {};
        gradient_product(gradient, shared, warp, lane, half);
        __syncwarp();
        if (lane < CLUSTER) {
            mbarrier_arrive_in_block(shared_address(&shared.used[half]), lane);
        }
#pragma unroll
        for (int own = 0; own < TILES; own++) {
            const int tile = half * TILES + own;
            if (PRIOR) {
                float4 pull = __ldcg(prior + (tile * 2) * WARP + lane);
                float4 mean = __ldcg(prior + (tile * 2 + 1) * WARP + lane);
                gradient[own][0] += pull.x * (layer.weight[tile][0] - mean.x);
                gradient[own][1] += pull.y * (layer.weight[tile][1] - mean.y);
                gradient[own][2] += pull.z * (layer.weight[tile][2] - mean.z);
                gradient[own][3] += pull.w * (layer.weight[tile][3] - mean.w);
            }
#pragma unroll
            for (int entry = 0; entry < 4; entry++) {
                adam_step(
                    adam, gradient[own][entry], layer.weight[tile][entry], layer.first[tile][entry],
                    layer.second[tile][entry]
                );
            }
        }
    }
}
