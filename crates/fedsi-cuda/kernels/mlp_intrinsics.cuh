// PTX that has no CUDA C++ function without headers: tensor cores, mbarriers, bulk copies, stores into other blocks of a
// cluster. Compute capability 9.0.

__device__ __forceinline__ unsigned int shared_address(const void* pointer) {
    return (unsigned int)__cvta_generic_to_shared(pointer);
}

// threadIdx.x and the block's place in its cluster, read anew at each call: what is derived from them then need not stay in
// registers from one call to the next.
__device__ __forceinline__ int thread_index() {
    int index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index;
}

__device__ __forceinline__ int cluster_rank() {
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The address of the same variable in block `rank` of the cluster.
__device__ __forceinline__ unsigned int address_in_block(unsigned int address, int rank) {
    unsigned int remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
}

// Barriers of some of the block's warps, wherever in the code they are (`__syncthreads()` wants all at one place): waits for
// `threads` threads, those that wait and those that only arrive.
__device__ __forceinline__ void barrier_wait(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void barrier_arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// ------------------------------------------------------------------------------------------------ tensor cores

// sum += a b: a is 16 x 8, b is 8 x 8, both of TF32 (f32 whose last 13 bits are not looked at).
__device__ __forceinline__ void multiply_add(float (&sum)[4], const float (&a)[4], const float (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
          "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// A value as the nearest TF32 and the rest, which f32 holds exactly: high low + low high + high high is a product to about
// f32's accuracy.
__device__ __forceinline__ void split(float value, float& high, float& low) {
    high = __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xffffe000u);
    low = value - high;
}

__device__ __forceinline__ float fast_square_root(float value) {
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
}

// ------------------------------------------------------------------------------------------------ mbarriers

__device__ __forceinline__ void mbarrier_initialise(unsigned int barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised mbarriers known to the other blocks and to the copy engine; a cluster barrier must follow.
__device__ __forceinline__ void mbarrier_initialisation_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and lets the phase wait for so many bytes that others bring. They may come before this call.
__device__ __forceinline__ void mbarrier_expect(unsigned int barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives at the barrier of another block. No scope is written: `.release.cluster` would put a fence of the whole GPU (about
// a microsecond while copies are under way) before every arrival, and what is ordered here are reads before copies.
__device__ __forceinline__ void mbarrier_arrive_in_block(unsigned int barrier, int rank) {
    unsigned int remote = address_in_block(barrier, rank);
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
}

// Waits for the end of the phase of this parity: the n-th phase, counted from 0, has parity n % 2.
__device__ __forceinline__ void mbarrier_wait(unsigned int barrier, int parity) {
    asm volatile(
        "{\n"
        "  .reg .pred complete;\n"
        "AGAIN_%=:\n"
        "  mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
        "  @complete bra DONE_%=;\n"
        "  bra AGAIN_%=;\n"
        "DONE_%=:\n"
        "}" ::"r"(barrier), "r"(parity)
        : "memory");
}

// ------------------------------------------------------------------------------------------------ copies

// Copies `bytes` (a multiple of 16, as are the addresses) to the same place of the blocks in `mask`, and counts them on the
// same barrier of each.
__device__ __forceinline__ void copy_to_blocks(
    unsigned int to, const void* from, int bytes, unsigned int barrier, unsigned short mask
) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::
            "r"(to), "l"(from), "r"(bytes), "r"(barrier), "h"(mask)
        : "memory");
}

// Orders this thread's writes to shared memory before copies that start after the next barrier.
__device__ __forceinline__ void fence_before_copies() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Stores into another block's shared memory, counted on that block's barrier: whoever waits there sees them, without a
// fence.
__device__ __forceinline__ void store_in_block(unsigned int remote, float value, unsigned int barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::
            "r"(remote), "f"(value), "r"(barrier)
        : "memory");
}

__device__ __forceinline__ void store4_in_block(unsigned int remote, const float (&values)[4], unsigned int barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::
            "r"(remote), "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3]), "r"(barrier)
        : "memory");
}
