// Training of linear - ReLU - linear with Adam on a cross-entropy: one cluster of blocks a client takes it through all its
// steps.
//
// A block has 16 hidden units. Seven warps hold the weights of these units and Adam's moments in registers from the first
// step to the last and do the products of the first layer (`mlp_products.cuh`), in f32's accuracy by three TF32 products
// each. The eighth (`mlp_helper.cuh`) fetches the next batch while they work and has the biases and the head. The batch is
// in shared memory, every row fetched by one block for the whole cluster. A step has two waits of a block's warps for
// each other and one exchange between blocks, of the logits (`mlp_head.cuh`).
//
// Every sum has a fixed order and no result depends on which block or client is faster: the same bits in every run.
//
// Why buffers that other blocks write (`inputs`, `logits`, `input_norms`, `logit_draws`) need no second copy: a block writes
// those of step n + 1 only once it has seen all product warps of the cluster arrive at `used` for step n, or data that was
// sent after that; they arrive there after the barrier behind their last reads of step n's.

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    train(const Job* jobs, const float2* corrections, const Settings settings) {
    extern __shared__ __align__(128) unsigned char dynamic_shared[];
    Shared& shared = *(Shared*)dynamic_shared;
    const int thread = threadIdx.x;
    const int warp = thread / WARP;
    const int lane = thread % WARP;
    const int rank = cluster_rank();
    const Job& job = jobs[blockIdx.x / CLUSTER];
    if (job.steps <= 0) {
        return; // all blocks of the cluster do
    }

    // All zeros: padding of units, features and samples stays so.
    for (int i = thread; i < SHARED_BYTES / (int)sizeof(float4); i += THREADS) {
        ((float4*)dynamic_shared)[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    __syncthreads();
    if (thread == 0) {
        for (int half = 0; half < 2; half++) {
            mbarrier_initialise(shared_address(&shared.full[half]), 1);
            mbarrier_initialise(shared_address(&shared.used[half]), PRODUCT_WARPS * CLUSTER);
        }
        mbarrier_initialise(shared_address(&shared.exchanged), 1);
        mbarrier_initialise(shared_address(&shared.noise), 1);
        mbarrier_initialisation_fence();
    }
    for (int i = thread; i < CLASSES * UNITS; i += THREADS) {
        int label = i / UNITS;
        int unit = rank * UNITS + i % UNITS;
        shared.weight2[i] = unit < HIDDEN ? job.values[WEIGHT2 + label * HIDDEN + unit] : 0.0f;
    }
    if (thread < UNITS && rank * UNITS + thread < HIDDEN) {
        shared.bias1[thread] = job.values[BIAS1 + rank * UNITS + thread];
    }
    if (thread < CLASSES) {
        shared.bias2[thread] = job.values[BIAS2 + thread];
    }
    if (thread == 0) {
        shared.noise_key = job.noise_key;
    }
    fence_before_copies();
    __syncthreads();
    cluster_barrier();

    if (warp == HELPER_WARP) {
        help(shared, job, corrections, settings, rank, lane);
    } else {
        FirstLayer layer;
        load_weights(layer, job.values);
        if (PRIOR) {
            pack_prior(job, warp_prior(job.workspace, rank, warp));
        }
        const int steps = job.steps;
        if (WEIGHT_NOISE) {
            draw_units(shared, 0);
        }
        for (int step = 0; step < steps; step++) {
            const Batch& batch = shared.batches[step & 1];
            forward_product(layer, shared, step);
            barrier_wait(SUMS_AND_HEAD, THREADS);
            head(shared, batch, settings.weight_noise, step);
            barrier_arrive(HEAD_GRADIENTS, THREADS);
            barrier_wait(GRADIENTS, PRODUCT_THREADS);
            const Adam adam = {batch.rate, batch.scale, settings.beta1, settings.beta2, settings.epsilon};
            descend(layer, shared, jobs[blockIdx.x / CLUSTER], adam);
        }
        store_weights(layer, jobs[blockIdx.x / CLUSTER].values);
    }
    cluster_barrier(); // no block may leave while others still write into its shared memory
}
