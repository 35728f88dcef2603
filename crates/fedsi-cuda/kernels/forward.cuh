// Outputs or features of many rows: what a kernel of src/forward is given, and the way of rows into a block and out of it.

struct ForwardJob {
    const float* values;
    const float* inputs;
    float* outputs;
    float* workspace;
    int rows;
    int unused;
};
static_assert(sizeof(ForwardJob) == 40, "as in Rust");

// `count` values one after another.
__device__ __forceinline__ void copy_values(const float* from, float* to, int count) {
    for (int i = thread_index(); i < count; i += THREADS) {
        to[i] = from[i];
    }
}
