// Instructions that CUDA C++ has no function for. Nothing else in these files is assembly, so that the tests can compile
// kernels for a CPU: with FEDSI_EMULATED defined, the emulator's header has defined the same functions.

#ifndef FEDSI_EMULATED

// c += a b on tensor cores: a 16 by 8, b 8 by 8, of which the hardware reads the upper 19 bits of every value (TF32).
// Lane 4 g + t holds a[g][t], a[g + 8][t], a[g][t + 4], a[g + 8][t + 4]; b[t][g], b[t + 4][g];
// c[g][2 t], c[g][2 t + 1], c[g + 8][2 t], c[g + 8][2 t + 1].
__device__ __forceinline__ void mma_m16n8k8(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
          "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// Copies 16 bytes from global to shared memory behind the thread's back; both addresses are multiples of 16.
__device__ __forceinline__ void async_copy16(void* shared_memory, const void* global_memory) {
    unsigned int address = (unsigned int)__cvta_generic_to_shared(shared_memory);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global_memory) : "memory");
}

// Closes a group of the thread's copies.
__device__ __forceinline__ void async_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the last N groups of the thread's copies are under way.
template <int N>
__device__ __forceinline__ void async_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Barrier `number` (1 to 15) of `threads` threads of the block.
__device__ __forceinline__ void named_barrier(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// All blocks of a client wait for each other: each adds 1 to the counter and waits until it is `target`, the number of
// blocks times that of barriers so far. What a block wrote before, all blocks see after.
__device__ __forceinline__ void group_barrier(int* counter, int target, int blocks) {
    __syncthreads();
    if (blocks > 1 && threadIdx.x == 0) {
        asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(counter) : "memory");
        int reached;
        do {
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(reached) : "l"(counter) : "memory");
        } while (reached < target);
    }
    __syncthreads();
}

// The root to 1 unit in the last place.
__device__ __forceinline__ float sqrt_fast(float value) {
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
}

#endif
