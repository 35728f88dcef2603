// Shared by the prototypes: error checks, mma.sync wrappers, cp.async, cluster primitives, a host RNG.
#pragma once
#ifndef __CUDACC_RTC__
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <cmath>
#include <vector>
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <cstring>
#include <chrono>
#include <cuda_runtime.h>
#else // NVRTC brings no host headers
typedef unsigned int uint32_t;
typedef unsigned short uint16_t;
#define INFINITY __int_as_float(0x7f800000)
#endif

#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("CUDA error %s at %s:%d: %s\n", #x, __FILE__, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)

constexpr float LR = 1e-3f, BETA1 = 0.9f, BETA2 = 0.999f, EPS = 1e-8f;

__device__ __forceinline__ uint32_t fu(float x) { return __float_as_uint(x); }
__device__ __forceinline__ float uf(uint32_t x) { return __uint_as_float(x); }
// Round to the nearest TF32 (ties away), the remainder exact. TRUNC: cut instead, one instruction less, up to 4 times the error.
#ifdef TRUNC
__device__ __forceinline__ float tf_hi(float x) { return uf(fu(x) & 0xffffe000u); }
#else
__device__ __forceinline__ float tf_hi(float x) { return uf((fu(x) + 0x1000u) & 0xffffe000u); }
#endif

__device__ __forceinline__ void mma8(float (&c)[4], float a0, float a1, float a2, float a3, float b0, float b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(fu(a0)), "r"(fu(a1)), "r"(fu(a2)), "r"(fu(a3)), "r"(fu(b0)), "r"(fu(b1)));
}

__device__ __forceinline__ uint32_t smem_u32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void cp16(uint32_t dst, const void* src) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
__device__ __forceinline__ void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void cp_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

__device__ __forceinline__ uint32_t cluster_rank() { uint32_t r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ uint32_t cluster_id() { uint32_t r; asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(r)); return r; }
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ uint32_t mapa(uint32_t addr, uint32_t rank) {
    uint32_t r; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(addr), "r"(rank)); return r;
}
__device__ __forceinline__ void st_cluster2(uint32_t addr, float a, float b) {
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1,%2};" ::"r"(addr), "f"(a), "f"(b) : "memory");
}

__device__ __forceinline__ float sqrt_fast(float x) { float r; asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
struct Adam { float rate, corr; };
__device__ __forceinline__ void adam(float& w, float& m, float& v, float g, const Adam& a) {
    m = BETA1 * m + (1.0f - BETA1) * g;
    v = BETA2 * v + (1.0f - BETA2) * g * g;
    w -= __fdividef(a.rate * m, sqrt_fast(v) * a.corr + EPS);
}

#ifndef __CUDACC_RTC__
inline double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
#endif

// Philox4x32-10 and four standard normals of it (Box-Muller).
__device__ __forceinline__ uint4 philox(uint4 c, uint32_t k0, uint32_t k1) {
#pragma unroll
    for (int r = 0; r < 10; r++) {
        uint32_t h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    return c;
}
__device__ __forceinline__ float4 normals(uint4 r) {
    const float s = 2.3283064e-10f;
    float a = sqrtf(-2.f * __logf(((float)r.x + 1.f) * s)), b = sqrtf(-2.f * __logf(((float)r.z + 1.f) * s)), s0, c0, s1, c1;
    __sincosf(6.2831853f * s * (float)r.y, &s0, &c0); __sincosf(6.2831853f * s * (float)r.w, &s1, &c1);
    return make_float4(a * c0, a * s0, b * c1, b * s1);
}

// mbarriers, bulk copies (TMA) and asynchronous stores into another CTA's shared memory.
__device__ __forceinline__ void mbar_init(uint32_t b, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(count) : "memory"); }
__device__ __forceinline__ void mbar_arrive(uint32_t b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
__device__ __forceinline__ void mbar_expect(uint32_t b, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory"); }
__device__ __forceinline__ void mbar_wait(uint32_t b, int parity) {
    asm volatile("{\n .reg .pred p;\n L_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @p bra D_%=;\n bra L_%=;\n D_%=:\n}" ::"r"(b), "r"(parity) : "memory");
}
__device__ __forceinline__ void bulk_load(uint32_t dst, const void* src, int bytes, uint32_t bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void st_async2(uint32_t addr, float a, float b, uint32_t bar) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1,%2}, [%3];" ::"r"(addr), "f"(a), "f"(b), "r"(bar) : "memory");
}
__device__ __forceinline__ void st_async4(uint32_t addr, float a, float b, float c, float d, uint32_t bar) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(addr), "f"(a), "f"(b), "f"(c), "f"(d), "r"(bar) : "memory");
}
__device__ __forceinline__ void bulk_multicast(uint32_t dst, const void* src, int bytes, uint32_t bar, uint16_t mask) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(dst), "l"(src), "r"(bytes), "r"(bar), "h"(mask) : "memory");
}
// As CUTLASS does it (default scope): an explicit .release.cluster puts a MEMBAR.ALL.GPU (about 1 us) before every arrival.
__device__ __forceinline__ void mbar_arrive_remote(uint32_t b, uint32_t cta) {
    asm volatile("{\n .reg .b32 r;\n mapa.shared::cluster.u32 r, %0, %1;\n mbarrier.arrive.shared::cluster.b64 _, [r];\n}" ::"r"(b), "r"(cta) : "memory");
}

// Orders of all clients and epochs on the device: one block sorts (random key, index) pairs in shared memory. n <= 8192.
__device__ __forceinline__ unsigned long long mix64(unsigned long long z) {
    z += 0x9e3779b97f4a7c15ull; z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull; z = (z ^ (z >> 27)) * 0x94d049bb133111ebull; return z ^ (z >> 31);
}
__global__ void __launch_bounds__(1024) shuffle_orders(unsigned long long seed, int n, int n2, int batch, int spe, int* order) {
    extern __shared__ unsigned long long keys[];
    for (int i = threadIdx.x; i < n2; i += blockDim.x) keys[i] = i < n ? (mix64(seed ^ mix64(((unsigned long long)blockIdx.x << 32) | i)) & 0xffffffff00000000ull) | i : ~0ull;
    __syncthreads();
    for (int k = 2; k <= n2; k <<= 1)
        for (int j = k >> 1; j > 0; j >>= 1) {
            for (int p = threadIdx.x; p < n2 / 2; p += blockDim.x) {
                int a = 2 * p - (p & (j - 1)), b = a + j; // a has bit j clear
                unsigned long long x = keys[a], y = keys[b];
                if ((x > y) == ((a & k) == 0)) { keys[a] = y; keys[b] = x; }
            }
            __syncthreads();
        }
    int* o = order + (size_t)blockIdx.x * spe * 64;
    for (int i = threadIdx.x; i < spe * 64; i += blockDim.x) {
        int s = i >> 6, q = i & 63, cnt = min(batch, n - s * batch);
        o[i] = q < cnt ? (int)(unsigned)keys[s * batch + q] : q == 63 ? cnt : 0;
    }
}
#ifndef __CUDACC_RTC__
inline void launch_shuffle(unsigned long long seed, int clients, int epochs, int n, int batch, int* order) {
    int n2 = 1; while (n2 < n) n2 *= 2;
    static bool set = false; if (!set) { CK(cudaFuncSetAttribute((const void*)shuffle_orders, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536)); set = true; }
    shuffle_orders<<<clients * epochs, 1024, n2 * 8>>>(seed, n, n2, batch, (n + batch - 1) / batch, order);
}
#endif
