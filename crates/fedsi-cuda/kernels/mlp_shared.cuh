// How linear - ReLU - linear is divided over a cluster of blocks, and what a block has in shared memory.
//
// The generator (src/training/mlp.rs) writes before this: INPUTS, HIDDEN, CLASSES, BATCH (largest batch), CLUSTER (blocks),
// FIRST_LAYER and HEAD_LAYER (indices in the network's list), TRAIN_HEAD, PRIOR, WEIGHT_NOISE, SHARED_BYTES.

constexpr int WARP = 32;
constexpr unsigned int ALL_LANES = 0xffffffffu;
constexpr int PRODUCT_WARPS = 7;
constexpr int HELPER_WARP = PRODUCT_WARPS;
constexpr int THREADS = (PRODUCT_WARPS + 1) * WARP;

// Barriers of a block; 0 is that of `__syncthreads()`.
constexpr int SUMS_AND_HEAD = 1;  // product warps wait for each other's sums, and for the helper's batch, biases and head
constexpr int GRADIENTS = 2;      // product warps wait for each other's gradients in the hidden units
constexpr int HEAD_GRADIENTS = 3; // the helper waits for these and those in the logits
constexpr int PRODUCT_THREADS = PRODUCT_WARPS * WARP;

__host__ __device__ constexpr int divide_up(int a, int b) {
    return (a + b - 1) / b;
}

// A block has 16 hidden units: the rows of a tensor core's product.
constexpr int UNITS = 16;
static_assert(CLUSTER * UNITS >= HIDDEN && CLUSTER <= 8, "hidden units do not fit a cluster of portable size");

// Samples come in tiles of 8, four threads a sample in the head.
constexpr int TILE = 8;
constexpr int SAMPLE_TILES = divide_up(BATCH, TILE);
static_assert(SAMPLE_TILES <= PRODUCT_WARPS, "the head has four threads a sample");

// Features come in tiles of 8, dealt to the product warps; in two halves, so that the next batch's first half is copied
// while the second half of this one is still in use.
constexpr int FEATURE_TILES = divide_up(INPUTS, TILE);
constexpr int HALVES = FEATURE_TILES > PRODUCT_WARPS ? 2 : 1;
constexpr int TILES = divide_up(FEATURE_TILES, HALVES * PRODUCT_WARPS); // of a warp in a half
constexpr int WARP_FEATURES = TILES * TILE;                             // of a warp in a half
constexpr int HALF = PRODUCT_WARPS * WARP_FEATURES;
constexpr int PADDED_INPUTS = HALVES * HALF;
static_assert(INPUTS % 4 == 0, "rows are copied in pieces of 16 bytes");
static_assert(HALVES * TILES <= 14, "weights and moments do not fit the registers");

__host__ __device__ constexpr int half_features(int half) {
    return half == 0 ? (INPUTS < HALF ? INPUTS : HALF) : INPUTS - HALF;
}

// Stride of a sample: 8 or 24 modulo 32, so that neither product's loads conflict in the 32 banks.
constexpr int ROW = PADDED_INPUTS % 16 == 8 ? PADDED_INPUTS : PADDED_INPUTS + 8;

// Stride of a sample in the partial sums over features; 4 more than it needs, against bank conflicts.
constexpr int PARTIAL_ROW = UNITS + 4;

// The head's noise needs |hidden|^2, which travels beside the logits. Stores to other blocks have 16 bytes.
constexpr bool HEAD_NOISE = WEIGHT_NOISE && TRAIN_HEAD;
constexpr int LOGIT_ROW = divide_up(CLASSES + (HEAD_NOISE ? 1 : 0), 4) * 4;
constexpr int THREAD_CLASSES = divide_up(CLASSES, 4); // of each of a sample's four threads: q, q + 4, ...
constexpr int LANE_CLASSES = divide_up(CLASSES, 2);   // of the head's gradient, by half a warp
static_assert(CLASSES <= WARP, "a lane has a class's bias");

// Places in the flat parameters.
constexpr int BIAS1 = HIDDEN * INPUTS;
constexpr int WEIGHT2 = BIAS1 + HIDDEN;
constexpr int BIAS2 = WEIGHT2 + CLASSES * HIDDEN;

// What the helper warp prepares for a step.
struct Batch {
    int rows[SAMPLE_TILES * TILE];
    int labels[SAMPLE_TILES * TILE];
    int count;
    float rate;  // of Adam, for the moments as they are kept here (`Adam`)
    float scale;
    int unused;
};

struct Shared {
    float inputs[BATCH * ROW];
    float partial[PRODUCT_WARPS * BATCH * PARTIAL_ROW]; // [warp][sample][unit]
    float logits[CLUSTER * BATCH * LOGIT_ROW];          // [block][sample][class]: every block's part of the sums
    float hidden[BATCH * UNITS];
    float hidden_gradient[SAMPLE_TILES * WARP * 4]; // in the order of the tensor core's operand
    float logit_gradient[BATCH * LOGIT_ROW];
    float weight2[LOGIT_ROW * UNITS];
    float bias1[UNITS];
    float bias2[WARP];
    float losses[SAMPLE_TILES * TILE];
    float unit_draws[WEIGHT_NOISE ? BATCH * UNITS : 4];
    float logit_draws[HEAD_NOISE ? divide_up(BATCH * CLASSES, 4) * 4 : 4];
    float input_norms[SAMPLE_TILES * TILE]; // standard deviations of the noise in the first layer
    Batch batches[2];
    unsigned long long noise_key;
    unsigned long long unused;
    // mbarriers
    unsigned long long full[2];    // a half of the batch is there
    unsigned long long used[2];    // all product warps of the cluster have done with it
    unsigned long long exchanged;  // every block's partial logits are there
    unsigned long long noise;      // every block's part of `input_norms` and `logit_draws` is there
};
static_assert(sizeof(Shared) == SHARED_BYTES, "src/training/mlp.rs counts the shared memory otherwise");

// Adam's step. The moments are kept as sums, m / (1 - beta1) and v / (1 - beta2), which takes two products less a weight;
// `rate` and `scale` make up for it.
struct Adam {
    float rate;
    float scale;
    float beta1;
    float beta2;
    float epsilon;
};

__device__ __forceinline__ void adam_step(const Adam& adam, float gradient, float& value, float& first, float& second) {
    first = fmaf(adam.beta1, first, gradient);
    second = fmaf(adam.beta2, second, gradient * gradient);
    value -= __fdividef(adam.rate * first, fmaf(fast_square_root(second), adam.scale, adam.epsilon));
}

// Where unit and sample lie in `hidden_gradient`: lane 4 (unit % 8) + sample % 4 has units u, u + 8 and samples s, s + 4.
__device__ __forceinline__ int gradient_place(int sample, int unit) {
    int lane = 4 * (unit % 8) + sample % 4;
    int entry = unit / 8 + 2 * ((sample / 4) % 2);
    return (sample / TILE * WARP + lane) * 4 + entry;
}
