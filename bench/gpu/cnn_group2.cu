// A FedAvg round of the CNN (6@5x5, pool 2, 16@5x5, pool 2, 400-120-84-10, inputs 3x32x32): ONE kernel for all steps.
// A group of G CTAs a client (G is a run-time number: 13 for ten clients on 132 SMs, 1 for 160 clients).
// Phase 1, by samples: each CTA takes ceil(50/G) samples through forward and backward, four at a time, all
//   activations in shared memory; convolutions as implicit products on tensor cores (3xTF32 or TF32), dense layers
//   by FFMA with the weights streamed from L2. Convolutions' gradients: sums per CTA to global memory.
// Phase 2, by parameters: dense gradients (50 deep) and Adam at once; convolutions: sum of G partials and Adam.
// Two group barriers (through L2) a step. No float atomics.
#include "common.cuh"

constexpr int B = 50, ORD = 64, SC = 4, NT = 512, NWARP = 16, XN = 3072;
constexpr int O_W1 = 0, O_B1 = 450, O_W2 = 456, O_B2 = O_W2 + 2400, O_F1 = O_B2 + 16, O_FB1 = O_F1 + 48000,
              O_F2 = O_FB1 + 120, O_FB2 = O_F2 + 10080, O_F3 = O_FB2 + 84, O_FB3 = O_F3 + 840, P = O_FB3 + 10;
constexpr int PST = (P + 3) / 4 * 4;           // a client's parameters, padded for 16-byte loads
constexpr int NCONV = O_F1;                     // 2872
constexpr int S_A2 = 0, S_H1 = S_A2 + B * 400, S_H2 = S_H1 + B * 120, S_D1 = S_H2 + B * 84, S_D2 = S_D1 + B * 120,
              S_D3 = S_D2 + B * 84, S_LOSS = S_D3 + B * 12, SCR = S_LOSS + 64;
constexpr int PL = 328;                         // a padded 18x18 plane of conv2's output gradient

struct Smem {
    float x[SC * XN];
    float a1[SC * 6 * 196];
    float da1[SC * 6 * 196 + 8];
    float big[2 * 16 * PL];                     // dense padded gradient of conv2 (two samples) / sums of 16 warps
    float4 wf[50 * 32];                         // conv2's weights as split B fragments
    float part[NCONV];
    float4 a2[400], da2[400], h1[120], d1[120], h2[84], d2[84], lg[12], dl[12];
    float ws[NCONV];                            // the convolutions' weights
    int off1[80], off2[160];
    unsigned char c1[SC * 6 * 196], c2[SC * 400];
    float loss[SC];
    int y[SC];
};
static_assert(sizeof(Smem) <= 232448, "too much shared memory");

template <int X3> __device__ __forceinline__ void split(float x, float& hi, float& lo) {
    if (X3) { hi = tf_hi(x); lo = x - hi; } else { hi = uf(fu(x) + 0x1000u); lo = 0.f; }
}
// acc += A B with A, B already split; the small terms are summed apart.
template <int X3> __device__ __forceinline__ void mma3(float (&h)[4], float (&l)[4], const float (&ah)[4], const float (&al)[4], float bh0, float bh1, float bl0, float bl1) {
    if (X3) {
        mma8(l, al[0], al[1], al[2], al[3], bh0, bh1);
        mma8(l, ah[0], ah[1], ah[2], ah[3], bl0, bl1);
    }
    mma8(h, ah[0], ah[1], ah[2], ah[3], bh0, bh1);
}

__device__ __forceinline__ void group_barrier(int* counter, int target, int G) {
    __syncthreads();
    if (G > 1 && threadIdx.x == 0) {
        asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(counter) : "memory");
        int v;
        do { asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(counter) : "memory"); } while (v < target);
    }
    __syncthreads();
}

// Sums four values over the warp; every lane group of 8 ends up with one of them: returns value (lane >> 3).
__device__ __forceinline__ float sum4(float4 v, int lane) {
    bool up = lane & 16;
    float a = up ? v.z : v.x, b = up ? v.w : v.y, c = up ? v.x : v.z, d = up ? v.y : v.w;
    a += __shfl_xor_sync(~0u, c, 16); b += __shfl_xor_sync(~0u, d, 16);
    bool u2 = lane & 8;
    float e = u2 ? b : a, f = u2 ? a : b;
    e += __shfl_xor_sync(~0u, f, 8);
    e += __shfl_xor_sync(~0u, e, 4); e += __shfl_xor_sync(~0u, e, 2); e += __shfl_xor_sync(~0u, e, 1);
    return e;
}

// Activations of a dense layer are kept as [4][N/4] (element i at (i%4) N/4 + i/4), float4 over samples: 16-byte loads of
// the weights then meet consecutive float4 in shared memory.
template <int N> __device__ __forceinline__ int pos(int i) { return N % 4 == 0 ? (i & 3) * (N / 4) + (i >> 2) : i; }
__device__ __forceinline__ void fma4(float4& s, float w, const float4& v) { s.x += w * v.x; s.y += w * v.y; s.z += w * v.z; s.w += w * v.w; }
// y[o] = act(W[o] x + b[o]) for four samples; W [OUT][IN] in global memory; a warp takes Q outputs at a time.
template <int IN, int OUT, int Q, bool RELU> __device__ __forceinline__ void fc_forward(const float* W, const float* bias, const float4* x, float4* y, int warp, int lane) {
    constexpr int I4 = IN / 4, K = (I4 + 31) / 32;
    for (int o0 = warp * Q; o0 < OUT; o0 += NWARP * Q) {
        float4 s[Q], w[Q][K];
#pragma unroll
        for (int q = 0; q < Q; q++)
#pragma unroll
            for (int k = 0; k < K; k++) {
                int i = k * 32 + lane;
                w[q][k] = (i < I4 && o0 + q < OUT) ? __ldcg(reinterpret_cast<const float4*>(W + (o0 + q) * IN) + i) : make_float4(0, 0, 0, 0);
            }
#pragma unroll
        for (int q = 0; q < Q; q++) s[q] = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int k = 0; k < K; k++) {
            int i = k * 32 + lane; i = i < I4 ? i : 0;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float4 v = x[e * I4 + i];
#pragma unroll
                for (int q = 0; q < Q; q++) fma4(s[q], e == 0 ? w[q][k].x : e == 1 ? w[q][k].y : e == 2 ? w[q][k].z : w[q][k].w, v);
            }
        }
#pragma unroll
        for (int q = 0; q < Q; q++) {
            float r = sum4(s[q], lane);
            if (o0 + q < OUT && (lane & 7) == 0) {
                r += __ldcg(bias + o0 + q);
                reinterpret_cast<float*>(y + pos<OUT>(o0 + q))[lane >> 3] = RELU ? fmaxf(r, 0.f) : r;
            }
        }
    }
}
// dx[k] = (x[k] > 0) sum_o W[o][k] d[o]; SPL groups of threads share the outputs, each thread has four inputs.
template <int IN, int OUT, int SPL, int U> __device__ __forceinline__ void fc_backward(const float* W, const float4* d, const float4* x, float4* dx, float4* tmp, int tid) {
    constexpr int I4 = IN / 4, PER = (OUT + SPL - 1) / SPL;
    static_assert(SPL * I4 <= NT, "");
    int part = tid / I4, k = tid % I4;
    if (part < SPL) {
        float4 s[4];
#pragma unroll
        for (int e = 0; e < 4; e++) s[e] = make_float4(0, 0, 0, 0);
        for (int o0 = part * PER; o0 < (part + 1) * PER && o0 < OUT; o0 += U) {
            float4 w[U];
#pragma unroll
            for (int u = 0; u < U; u++) w[u] = (o0 + u < (part + 1) * PER && o0 + u < OUT) ? __ldcg(reinterpret_cast<const float4*>(W + (o0 + u) * IN) + k) : make_float4(0, 0, 0, 0);
#pragma unroll
            for (int u = 0; u < U; u++) {
                float4 v = d[pos<OUT>(o0 + u < OUT ? o0 + u : 0)];
                fma4(s[0], w[u].x, v); fma4(s[1], w[u].y, v); fma4(s[2], w[u].z, v); fma4(s[3], w[u].w, v);
            }
        }
#pragma unroll
        for (int e = 0; e < 4; e++) tmp[part * IN + e * I4 + k] = s[e];
    }
    __syncthreads();
    if (tid < IN) {
        float4 s = tmp[tid];
#pragma unroll
        for (int p = 1; p < SPL; p++) { float4 v = tmp[p * IN + tid]; s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w; }
        float4 a = x[tid];
        s.x = a.x > 0 ? s.x : 0.f; s.y = a.y > 0 ? s.y : 0.f; s.z = a.z > 0 ? s.z : 0.f; s.w = a.w > 0 ? s.w : 0.f;
        dx[tid] = s;
    }
}

__device__ __forceinline__ void adam_global(float* w, float* m, float* v, float g, const Adam& ad, bool first) {
    float ww = __ldcg(w), mm = first ? 0.f : __ldcg(m), vv = first ? 0.f : __ldcg(v);
    adam(ww, mm, vv, g, ad);
    __stcg(w, ww); __stcg(m, mm); __stcg(v, vv);
}

// Phase 2 of a dense layer: eight warps (half a CTA) take all outputs (a 16-row tile each) of one block of 32 inputs;
// deltas [56][120] and activations [56][40] staged in shared memory; gradient on the tensor cores, Adam on the fragment.
// One piece of code with run-time sizes for all layers: straight-line code that runs once a step lives from the
// instruction cache, and a kernel over 128 KB of code fetches all of it again every step.
template <int X3> __device__ __forceinline__ void dense_job(int in, int out, int nb, const float* act, const float* del, int dstride, int cnt, float* w, float* m, float* v,
                                                            const Adam& ad, bool first, float* ds, int half, int warp8, int lane) {
    float* as = ds + 56 * 120;
    const int tid8 = warp8 * 32 + lane, g = lane >> 2, t = lane & 3, o = warp8 * 16 + g;
    const bool busy = warp8 * 16 < out;
    float2 W2[4][2], M2[4][2], V2[4][2];
#pragma unroll
    for (int nt = 0; nt < 4; nt++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int i = nb * 32 + nt * 8 + 2 * t, p = (o + 8 * r) * in + i;
            bool ok = o + 8 * r < out && i < in;
            W2[nt][r] = ok ? __ldcg(reinterpret_cast<const float2*>(w + p)) : make_float2(0, 0);
            M2[nt][r] = ok && !first ? __ldcg(reinterpret_cast<const float2*>(m + p)) : make_float2(0, 0);
            V2[nt][r] = ok && !first ? __ldcg(reinterpret_cast<const float2*>(v + p)) : make_float2(0, 0);
        }
    const uint32_t du = smem_u32(ds), au = smem_u32(as);
    const int d4 = dstride / 4;
#pragma unroll 1
    for (int i = tid8; i < 56 * d4; i += 256) {
        int s = i / d4, c = i - s * d4;
        if (s < cnt) cp16(du + s * 480 + c * 16, del + s * dstride + c * 4); else *reinterpret_cast<float4*>(ds + s * 120 + c * 4) = make_float4(0, 0, 0, 0);
    }
#pragma unroll 1
    for (int i = tid8; i < 56 * 8; i += 256) {
        int s = i >> 3, c = i & 7;
        if (s < cnt && nb * 32 + c * 4 < in) cp16(au + s * 160 + c * 16, act + s * in + nb * 32 + c * 4); else *reinterpret_cast<float4*>(as + s * 40 + c * 4) = make_float4(0, 0, 0, 0);
    }
    cp_commit(); cp_wait<0>();
    asm volatile("bar.sync %0, 256;" ::"r"(1 + half) : "memory");
    if (busy) {
        float h[4][4] = {};
        const float *dp = ds + t * 120 + min(o, out - 1), *dq = ds + t * 120 + min(o + 8, out - 1), *ap = as + t * 40 + g;
#pragma unroll 1
        for (int k = 0; k < 7; k++) {
            float ah[4], al[4];
            split<X3>(dp[k * 960], ah[0], al[0]); split<X3>(dq[k * 960], ah[1], al[1]); split<X3>(dp[k * 960 + 480], ah[2], al[2]); split<X3>(dq[k * 960 + 480], ah[3], al[3]);
#pragma unroll
            for (int nt = 0; nt < 4; nt++) {
                float b0, b1, c0, c1; split<X3>(ap[k * 320 + nt * 8], b0, c0); split<X3>(ap[k * 320 + 160 + nt * 8], b1, c1);
                mma3<X3>(h[nt], h[nt], ah, al, b0, b1, c0, c1);
            }
        }
#pragma unroll
        for (int nt = 0; nt < 4; nt++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                int i = nb * 32 + nt * 8 + 2 * t, p = (o + 8 * r) * in + i;
                adam(W2[nt][r].x, M2[nt][r].x, V2[nt][r].x, h[nt][2 * r], ad);
                adam(W2[nt][r].y, M2[nt][r].y, V2[nt][r].y, h[nt][2 * r + 1], ad);
                if (o + 8 * r < out && i < in) { __stcg(reinterpret_cast<float2*>(w + p), W2[nt][r]); __stcg(reinterpret_cast<float2*>(m + p), M2[nt][r]); __stcg(reinterpret_cast<float2*>(v + p), V2[nt][r]); }
            }
    }
    asm volatile("bar.sync %0, 256;" ::"r"(1 + half) : "memory");
}

// STOP: leave out everything after a stage, to place the time (0: nothing left out).
// bits: 1 conv1 forward, 2 conv2 forward, 4 dense, 8 conv2 dW, 16 conv2 dX, 32 conv1 dW, 64 phase 2, 128 barriers
template <int X3, int SKIP>
__global__ void __launch_bounds__(NT, 1) cnn_round(const float* __restrict__ server, const float* __restrict__ X, const int* __restrict__ Y,
                                                   const int* __restrict__ order, int n, int steps, int G, float* W, float* M, float* V,
                                                   float* scratch, float* cpart, int* counters, float* loss_out) {
    extern __shared__ __align__(128) unsigned char raw[];
    Smem& sm = *reinterpret_cast<Smem*>(raw);
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    const int client = blockIdx.x / G, rank = blockIdx.x % G;
    const float* Xc = X + (size_t)client * n * XN;
    const int* Yc = Y + (size_t)client * n;
    const int* oc = order + (size_t)client * steps * ORD;
    float *w = W + (size_t)client * PST, *m = M + (size_t)client * PST, *v = V + (size_t)client * PST;
    float* scr = scratch + (size_t)client * SCR;
    float* cp = cpart + (size_t)client * G * NCONV;
    int* counter = counters + client * 32;
    int epoch = 0;

    for (int i = rank * NT + tid; i < P; i += G * NT) __stcg(w + i, server[i]);
    if (tid < 80) sm.off1[tid] = tid < 75 ? (tid / 25) * 1024 + (tid % 25 / 5) * 32 + tid % 5 : 0;
    if (tid < 160) sm.off2[tid] = tid < 150 ? (tid / 25) * 196 + (tid % 25 / 5) * 14 + tid % 5 : 0;
    for (int i = tid; i < SC * XN; i += NT) sm.x[i] = 0.f;
    for (int i = tid; i < SC * 6 * 196; i += NT) { sm.a1[i] = 0.f; sm.da1[i] = 0.f; }
    __syncthreads();

    auto load_x = [&](int step, int s0, int ns) {
        const uint32_t dst = smem_u32(sm.x);
        for (int i = tid; i < ns * (XN / 4); i += NT) {
            int s = i / (XN / 4), c = i % (XN / 4);
            int r = __ldg(oc + step * ORD + s0 + s);
            cp16(dst + i * 16, Xc + (size_t)r * XN + c * 4);
        }
        cp_commit();
    };
    {
        int cnt = __ldg(oc + 63), per = (cnt + G - 1) / G, s0 = rank * per;
        load_x(0, s0, max(0, min(SC, min(cnt, s0 + per) - s0)));
    }
    group_barrier(counter, ++epoch * G, G);
    float b1t = 1.f, b2t = 1.f;

    for (int step = 0; step < steps; step++) {
        const int cnt = __ldg(oc + step * ORD + 63), per = (cnt + G - 1) / G;
        const int s_end = min(cnt, rank * per + per);
        for (int i = tid; i < NCONV; i += NT) { sm.part[i] = 0.f; sm.ws[i] = __ldcg(w + i); }
        __syncthreads();
        for (int s0 = rank * per; s0 < s_end; s0 += SC) {
            const int ns = min(SC, s_end - s0);
            // conv2's weights as B fragments for the forward product (k by input channel and tap)
            for (int i = tid; i < 38 * 32; i += NT) {
                int kk = i >> 6, o = ((i >> 5) & 1) * 8 + ((i & 31) >> 2), k0 = 8 * kk + (i & 3);
                float w0 = sm.ws[O_W2 + o * 150 + k0], w1 = k0 + 4 < 150 ? sm.ws[O_W2 + o * 150 + k0 + 4] : 0.f;
                float4 f; split<X3>(w0, f.x, f.z); split<X3>(w1, f.y, f.w);
                if (k0 >= 150) f.x = f.z = 0.f;
                sm.wf[i] = f;
            }
            if (tid < ns) sm.y[tid] = Yc[__ldg(oc + step * ORD + s0 + tid)];
            cp_wait<0>();
            __syncthreads();
            // ---------------------------------------------------- conv1 forward, pool, ReLU: 8 windows x 6 channels a warp
            if (!(SKIP & 1)) {
                float bh[10][2], bl[10][2];
                int off[10][2];
#pragma unroll
                for (int k = 0; k < 10; k++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        int kk = 8 * k + t + 4 * e;
                        off[k][e] = sm.off1[kk];
                        split<X3>(g < 6 && kk < 75 ? sm.ws[O_W1 + g * 75 + kk] : 0.f, bh[k][e], bl[k][e]);
                    }
                float bias0 = t < 3 ? sm.ws[O_B1 + 2 * t] : 0.f, bias1 = t < 3 ? sm.ws[O_B1 + 2 * t + 1] : 0.f;
                const int wins = ns * 196;
                for (int q0 = warp * 8; q0 < wins; q0 += NWARP * 8) {
                    int q = min(q0 + g, wins - 1), s = q / 196, r = q - s * 196, wy = r / 14, wx = r - wy * 14;
                    const float* base = sm.x + s * XN + wy * 64 + wx * 2;
                    float h0[4] = {0, 0, 0, 0}, l0[4] = {0, 0, 0, 0}, h1[4] = {0, 0, 0, 0}, l1[4] = {0, 0, 0, 0};
#pragma unroll
                    for (int k = 0; k < 10; k++) {
                        const float *p = base + off[k][0], *r = base + off[k][1];
                        float ah[4], al[4], ch[4], cl[4];
                        split<X3>(p[0], ah[0], al[0]); split<X3>(p[1], ah[1], al[1]); split<X3>(r[0], ah[2], al[2]); split<X3>(r[1], ah[3], al[3]);
                        split<X3>(p[32], ch[0], cl[0]); split<X3>(p[33], ch[1], cl[1]); split<X3>(r[32], ch[2], cl[2]); split<X3>(r[33], ch[3], cl[3]);
                        mma3<X3>(h0, l0, ah, al, bh[k][0], bh[k][1], bl[k][0], bl[k][1]);
                        mma3<X3>(h1, l1, ch, cl, bh[k][0], bh[k][1], bl[k][0], bl[k][1]);
                    }
                    if (t < 3 && q0 + g < wins) {
#pragma unroll
                        for (int e = 0; e < 2; e++) {
                            float v0 = h0[e] + l0[e], v1 = h0[e + 2] + l0[e + 2], v2 = h1[e] + l1[e], v3 = h1[e + 2] + l1[e + 2];
                            float best = v0; int code = 0;
                            if (v1 > best) { best = v1; code = 1; }
                            if (v2 > best) { best = v2; code = 2; }
                            if (v3 > best) { best = v3; code = 3; }
                            best += e ? bias1 : bias0;
                            int i = (s * 6 + 2 * t + e) * 196 + r;
                            sm.a1[i] = fmaxf(best, 0.f);
                            sm.c1[i] = best > 0.f ? code : 4;
                        }
                    }
                }
            }
            __syncthreads();
            // ---------------------------------------------------- conv2 forward, pool, ReLU: 8 windows x 16 channels a warp
            if (!(SKIP & 2)) {
                const int wins = ns * 25;
                for (int q0 = warp * 8; q0 < wins; q0 += NWARP * 8) {
                    int q = min(q0 + g, wins - 1), s = q / 25, r = q - s * 25, wy = r / 5, wx = r - wy * 5;
                    const float* base = sm.a1 + s * 1176 + wy * 28 + wx * 2;
                    float h[2][2][4], l[2][2][4];
#pragma unroll
                    for (int i = 0; i < 16; i++) { (&h[0][0][0])[i] = 0.f; (&l[0][0][0])[i] = 0.f; }
#pragma unroll 4
                    for (int k = 0; k < 19; k++) {
                        const float *p = base + sm.off2[8 * k + t], *r = base + sm.off2[8 * k + t + 4];
                        float ah[4], al[4], ch[4], cl[4];
                        split<X3>(p[0], ah[0], al[0]); split<X3>(p[1], ah[1], al[1]); split<X3>(r[0], ah[2], al[2]); split<X3>(r[1], ah[3], al[3]);
                        split<X3>(p[14], ch[0], cl[0]); split<X3>(p[15], ch[1], cl[1]); split<X3>(r[14], ch[2], cl[2]); split<X3>(r[15], ch[3], cl[3]);
#pragma unroll
                        for (int nt = 0; nt < 2; nt++) {
                            float4 b = sm.wf[(k * 2 + nt) * 32 + lane];
                            mma3<X3>(h[0][nt], l[0][nt], ah, al, b.x, b.y, b.z, b.w);
                            mma3<X3>(h[1][nt], l[1][nt], ch, cl, b.x, b.y, b.z, b.w);
                        }
                    }
                    if (q0 + g < wins) {
#pragma unroll
                        for (int nt = 0; nt < 2; nt++)
#pragma unroll
                            for (int e = 0; e < 2; e++) {
                                float v0 = h[0][nt][e] + l[0][nt][e], v1 = h[0][nt][e + 2] + l[0][nt][e + 2];
                                float v2 = h[1][nt][e] + l[1][nt][e], v3 = h[1][nt][e + 2] + l[1][nt][e + 2];
                                float best = v0; int code = 0;
                                if (v1 > best) { best = v1; code = 1; }
                                if (v2 > best) { best = v2; code = 2; }
                                if (v3 > best) { best = v3; code = 3; }
                                int c = nt * 8 + 2 * t + e;
                                best += sm.ws[O_B2 + c];
                                reinterpret_cast<float*>(sm.a2 + pos<400>(c * 25 + r))[s] = fmaxf(best, 0.f);
                                sm.c2[s * 400 + c * 25 + r] = best > 0.f ? code : 4;
                            }
                    }
                }
            }
            __syncthreads();
            // conv2's weights for the input gradient (k by tap and output channel); wf is free now
            for (int i = tid; i < 50 * 32; i += NT) {
                int tap = i >> 6, oh = (i >> 5) & 1, c = (i & 31) >> 2, o = oh * 8 + (i & 3);
                float w0 = c < 6 ? sm.ws[O_W2 + o * 150 + c * 25 + tap] : 0.f, w1 = c < 6 ? sm.ws[O_W2 + (o + 4) * 150 + c * 25 + tap] : 0.f;
                float4 f; split<X3>(w0, f.x, f.z); split<X3>(w1, f.y, f.w);
                sm.wf[i] = f;
            }
            if (!(SKIP & 4)) {
                // ------------------------------------------------ dense layers, four samples at once
                float4* tmp = reinterpret_cast<float4*>(sm.big);
                fc_forward<400, 120, 4, true>(w + O_F1, w + O_FB1, sm.a2, sm.h1, warp, lane);
                __syncthreads();
                fc_forward<120, 84, 6, true>(w + O_F2, w + O_FB2, sm.h1, sm.h2, warp, lane);
                __syncthreads();
                fc_forward<84, 10, 1, false>(w + O_F3, w + O_FB3, sm.h2, sm.lg, warp, lane);
                __syncthreads();
                if (tid < SC) {
                    const float* z = reinterpret_cast<const float*>(sm.lg) + tid;
                    float* d = reinterpret_cast<float*>(sm.dl) + tid;
                    float mx = z[0], sum = 0.f, e[10], wgt = tid < ns ? __fdividef(1.f, (float)cnt) : 0.f;
                    int y = sm.y[tid < ns ? tid : 0];
                    for (int c = 1; c < 10; c++) mx = fmaxf(mx, z[c * 4]);
#pragma unroll
                    for (int c = 0; c < 10; c++) { e[c] = expf(z[c * 4] - mx); sum += e[c]; }
                    float inv = 1.f / sum;
#pragma unroll
                    for (int c = 0; c < 10; c++) d[c * 4] = tid < ns ? (e[c] * inv - (c == y ? 1.f : 0.f)) * wgt : 0.f;
                    if (tid < ns) __stcg(scr + S_LOSS + s0 + tid, (logf(sum) + mx - z[y * 4]) * wgt);
                }
                __syncthreads();
                fc_backward<84, 10, 10, 1>(w + O_F3, sm.dl, sm.h2, sm.d2, tmp, tid);
                __syncthreads();
                fc_backward<120, 84, 16, 6>(w + O_F2, sm.d2, sm.h1, sm.d1, tmp, tid);
                __syncthreads();
                fc_backward<400, 120, 5, 12>(w + O_F1, sm.d1, sm.a2, sm.da2, tmp, tid);
            }
            __syncthreads();
            // ---------------------------------------------------- conv2 dW (row 150: the bias): warp = 16 taps x 16 channels
            if (warp == 15 && !(SKIP & 4)) { // what phase 2 needs, by sample: the warp without a share in conv2 dW
                for (int s = 0; s < ns; s++) {
                    int r = s0 + s;
                    for (int i = lane; i < 400; i += 32) __stcg(scr + S_A2 + r * 400 + i, reinterpret_cast<float*>(sm.a2 + pos<400>(i))[s]);
                    for (int i = lane; i < 120; i += 32) { __stcg(scr + S_H1 + r * 120 + i, reinterpret_cast<float*>(sm.h1 + pos<120>(i))[s]); __stcg(scr + S_D1 + r * 120 + i, reinterpret_cast<float*>(sm.d1 + pos<120>(i))[s]); }
                    for (int i = lane; i < 84; i += 32) { __stcg(scr + S_H2 + r * 84 + i, reinterpret_cast<float*>(sm.h2 + pos<84>(i))[s]); __stcg(scr + S_D2 + r * 84 + i, reinterpret_cast<float*>(sm.d2 + pos<84>(i))[s]); }
                    if (lane < 12) __stcg(scr + S_D3 + r * 12 + lane, lane < 10 ? reinterpret_cast<float*>(sm.dl + lane)[s] : 0.f);
                }
            }
            if (!(SKIP & 8)) {
                if (warp < 15) {
                    const int mp = warp % 5, third = warp / 5; // taps 32 mp .. 32 mp + 31; every third group of 8 windows
                    int of[4];
#pragma unroll
                    for (int u = 0; u < 4; u++) of[u] = sm.off2[mp * 32 + u * 8 + g];
                    const bool one = mp == 4 && g == 6; // tap 150 = 4 * 32 + 2 * 8 + 6: the bias
                    float h[2][2][4] = {};
                    const int wins = ns * 25;
                    for (int q0 = third * 8; q0 < wins; q0 += 24) {
                        const float* base[2]; float dh[2][2], dlo[2][2]; int code[2][2];
#pragma unroll
                        for (int e = 0; e < 2; e++) {
                            int qq = q0 + t + 4 * e, q = min(qq, wins - 1), s = q / 25, r = q - s * 25, wy = r / 5, wx = r - wy * 5;
                            base[e] = sm.a1 + s * 1176 + wy * 28 + wx * 2;
#pragma unroll
                            for (int nt = 0; nt < 2; nt++) {
                                int i = (nt * 8 + g) * 25 + r;
                                split<X3>(qq < wins ? reinterpret_cast<const float*>(sm.da2 + pos<400>(i))[s] : 0.f, dh[nt][e], dlo[nt][e]);
                                code[nt][e] = sm.c2[s * 400 + i];
                            }
                        }
#pragma unroll
                        for (int ps = 0; ps < 4; ps++) {
                            const int po = (ps >> 1) * 14 + (ps & 1);
                            float b[2][4];
#pragma unroll
                            for (int nt = 0; nt < 2; nt++) {
                                bool k0 = code[nt][0] == ps, k1 = code[nt][1] == ps;
                                b[nt][0] = k0 ? dh[nt][0] : 0.f; b[nt][1] = k1 ? dh[nt][1] : 0.f; b[nt][2] = k0 ? dlo[nt][0] : 0.f; b[nt][3] = k1 ? dlo[nt][1] : 0.f;
                            }
#pragma unroll
                            for (int mt = 0; mt < 2; mt++) {
                                float ah[4], al[4];
                                split<X3>(mt == 1 && one ? 1.f : base[0][of[2 * mt] + po], ah[0], al[0]); split<X3>(base[0][of[2 * mt + 1] + po], ah[1], al[1]);
                                split<X3>(mt == 1 && one ? 1.f : base[1][of[2 * mt] + po], ah[2], al[2]); split<X3>(base[1][of[2 * mt + 1] + po], ah[3], al[3]);
#pragma unroll
                                for (int nt = 0; nt < 2; nt++) mma3<X3>(h[mt][nt], h[mt][nt], ah, al, b[nt][0], b[nt][1], b[nt][2], b[nt][3]);
                            }
                        }
                    }
#pragma unroll
                    for (int mt = 0; mt < 2; mt++)
#pragma unroll
                        for (int nt = 0; nt < 2; nt++)
#pragma unroll
                            for (int e = 0; e < 4; e++) sm.big[third * 2560 + (nt * 8 + 2 * t + (e & 1)) * 160 + mp * 32 + mt * 16 + g + (e >> 1) * 8] = h[mt][nt][e];
                }
                __syncthreads();
                for (int i = tid; i < 16 * 151; i += NT) {
                    int o = i / 151, tap = i - o * 151, j = o * 160 + tap;
                    float val = sm.big[j] + sm.big[2560 + j] + sm.big[5120 + j];
                    sm.part[tap < 150 ? O_W2 + o * 150 + tap : O_B2 + o] += val;
                }
            }
            // ---------------------------------------------------- conv2 dX, two samples at a time: 32 pixels x 6 channels a warp
            if (!(SKIP & 16)) {
                for (int sh = 0; sh < ns; sh += 2) {
                    const int nh = min(2, ns - sh);
                    __syncthreads();
                    for (int i = tid; i < nh * 16 * PL / 4; i += NT) reinterpret_cast<float4*>(sm.big)[i] = make_float4(0, 0, 0, 0);
                    __syncthreads();
                    for (int i = tid; i < nh * 400; i += NT) {
                        int s = i / 400, c = i % 400, o = c / 25, r = c % 25, code = sm.c2[(sh + s) * 400 + c];
                        if (code < 4) sm.big[(s * 16 + o) * PL + (r / 5 * 2 + (code >> 1) + 4) * 18 + r % 5 * 2 + (code & 1) + 4] = reinterpret_cast<const float*>(sm.da2 + pos<400>(c))[sh + s];
                    }
                    __syncthreads();
                    const int px = nh * 196;
                    for (int q0 = warp * 32; q0 < px; q0 += NWARP * 32) {
                        const float* base[4]; int out[4];
#pragma unroll
                        for (int u = 0; u < 4; u++) {
                            int q = min(q0 + g + 8 * u, px - 1), s = q / 196, r = q - s * 196, y = r / 14, xx = r - y * 14;
                            base[u] = sm.big + s * 16 * PL + t * PL + (y + 4) * 18 + xx + 4;
                            out[u] = (sh + s) * 1176 + r;
                        }
                        float h[2][4] = {}, l[2][4] = {};
#pragma unroll 1
                        for (int ky = 0; ky < 5; ky++) {
#pragma unroll
                        for (int kx = 0; kx < 5; kx++) {
#pragma unroll
                            for (int oh = 0; oh < 2; oh++) {
                                const int o = oh * 8 * PL - kx;
                                float4 b = sm.wf[((ky * 5 + kx) * 2 + oh) * 32 + lane];
#pragma unroll
                                for (int mt = 0; mt < 2; mt++) {
                                    float ah[4], al[4];
                                    split<X3>(base[2 * mt][o], ah[0], al[0]); split<X3>(base[2 * mt + 1][o], ah[1], al[1]);
                                    split<X3>(base[2 * mt][o + 4 * PL], ah[2], al[2]); split<X3>(base[2 * mt + 1][o + 4 * PL], ah[3], al[3]);
                                    mma3<X3>(h[mt], l[mt], ah, al, b.x, b.y, b.z, b.w);
                                }
                            }
                        }
#pragma unroll
                        for (int u = 0; u < 4; u++) base[u] -= 18;
                        }
                        if (t < 3) {
#pragma unroll
                            for (int mt = 0; mt < 2; mt++)
#pragma unroll
                                for (int e = 0; e < 4; e++) {
                                    int u = 2 * mt + (e >> 1);
                                    if (q0 + g + 8 * u < px) {
                                        int i = out[u] + (2 * t + (e & 1)) * 196;
                                        sm.da1[i] = sm.c1[i] < 4 ? h[mt][e] + l[mt][e] : 0.f;
                                    }
                                }
                        }
                    }
                }
            }
            __syncthreads();
            // ---------------------------------------------------- conv1 dW (row 75: the bias): 8 windows a time, all taps
            if (!(SKIP & 32)) {
                int off[5][2];
#pragma unroll
                for (int mt = 0; mt < 5; mt++) { off[mt][0] = sm.off1[mt * 16 + g]; off[mt][1] = sm.off1[mt * 16 + g + 8]; }
                float h[5][4] = {}, l[5][4] = {};
                const int wins = ns * 196;
                for (int q0 = warp * 8; q0 < wins; q0 += NWARP * 8) {
                    const float* base[2]; float dh[2], dlo[2]; int code[2];
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        int qq = q0 + t + 4 * e, q = min(qq, wins - 1), s = q / 196, r = q - s * 196, wy = r / 14, wx = r - wy * 14;
                        base[e] = sm.x + s * XN + wy * 64 + wx * 2;
                        int i = (s * 6 + g) * 196 + r;
                        split<X3>(g < 6 && qq < wins ? sm.da1[i] : 0.f, dh[e], dlo[e]);
                        code[e] = g < 6 ? sm.c1[i] : 4;
                    }
#pragma unroll
                    for (int pos = 0; pos < 4; pos++) {
                        const int po = (pos >> 1) * 32 + (pos & 1);
                        bool k0 = code[0] == pos, k1 = code[1] == pos;
                        float b0 = k0 ? dh[0] : 0.f, b1 = k1 ? dh[1] : 0.f, c0 = k0 ? dlo[0] : 0.f, c1 = k1 ? dlo[1] : 0.f;
#pragma unroll
                        for (int mt = 0; mt < 5; mt++) {
                            float ah[4], al[4];
                            split<X3>(base[0][off[mt][0] + po], ah[0], al[0]); split<X3>(base[1][off[mt][0] + po], ah[2], al[2]);
                            split<X3>(mt == 4 && g == 3 ? 1.f : base[0][off[mt][1] + po], ah[1], al[1]);
                            split<X3>(mt == 4 && g == 3 ? 1.f : base[1][off[mt][1] + po], ah[3], al[3]);
                            mma3<X3>(h[mt], l[mt], ah, al, b0, b1, c0, c1);
                        }
                    }
                }
#pragma unroll
                for (int mt = 0; mt < 5; mt++)
                    *reinterpret_cast<float4*>(sm.big + ((warp * 5 + mt) * 32 + lane) * 4) = make_float4(h[mt][0] + l[mt][0], h[mt][1] + l[mt][1], h[mt][2] + l[mt][2], h[mt][3] + l[mt][3]);
                __syncthreads();
                if (tid < 456) {
                    int ch = tid / 76, tap = tid % 76, mt = tap / 16, r = tap % 16;
                    int ln = (r & 7) * 4 + ch / 2, e = (r >> 3) * 2 + (ch & 1);
                    float sum = 0.f;
#pragma unroll
                    for (int u = 0; u < NWARP; u++) sum += sm.big[((u * 5 + mt) * 32 + ln) * 4 + e];
                    sm.part[tap < 75 ? O_W1 + ch * 75 + tap : O_B1 + ch] += sum;
                }
            }
            __syncthreads();
            if (s0 + SC < s_end) load_x(step, s0 + SC, min(SC, s_end - s0 - SC));
        }
        for (int i = tid; i < NCONV; i += NT) __stcg(cp + rank * NCONV + i, sm.part[i]);
        if (step + 1 < steps) {
            int c2 = __ldg(oc + (step + 1) * ORD + 63), p2 = (c2 + G - 1) / G, s0 = rank * p2;
            load_x(step + 1, s0, max(0, min(SC, min(c2, s0 + p2) - s0)));
        }
        bool first = step == 0;
        if (!(SKIP & 128)) group_barrier(counter, ++epoch * G, G); else __syncthreads();
        // -------------------------------------------------------- phase 2: gradients of dense layers, all of Adam
        b1t *= BETA1; b2t *= BETA2;
        Adam ad = {__fdividef(LR, 1.f - b1t), rsqrtf(1.f - b2t)};
        if (!(SKIP & 64)) {
            const int half = warp >> 3, warp8 = warp & 7;
            float* ds = half ? sm.a1 : sm.big; // a1 and da1 lie side by side: 9416 floats, 8960 are needed
            static_assert(sizeof(sm.a1) + sizeof(sm.da1) >= 8960 * 4 && sizeof(sm.big) >= 8960 * 4, "");
#pragma unroll 1
            for (int job = half * G + rank; job < 13 + 4 + 3; job += 2 * G) {
                int in, out, nb, dst; const float *act, *del; int p;
                if (job < 13) { in = 400; out = 120; nb = job; act = scr + S_A2; del = scr + S_D1; dst = 120; p = O_F1; }
                else if (job < 17) { in = 120; out = 84; nb = job - 13; act = scr + S_H1; del = scr + S_D2; dst = 84; p = O_F2; }
                else { in = 84; out = 10; nb = job - 17; act = scr + S_H2; del = scr + S_D3; dst = 12; p = O_F3; }
                dense_job<X3>(in, out, nb, act, del, dst, cnt, w + p, m + p, v + p, ad, first, ds, half, warp8, lane);
            }
            constexpr int TB = 7, TC = (NCONV + 63) / 64;
#pragma unroll 1
            for (int k = ((1 - half) * G + G - 1 - rank) * 8 + warp8; k < TB + TC; k += 16 * G) { // halves without a job come first
                if (k >= TC) { // dense biases: 120 + 84 + 10 = 214
                    int i = (k - TC) * 32 + lane; const float* d; int st, p;
                    if (i < 120) { d = scr + S_D1 + i; st = 120; p = O_FB1 + i; }
                    else if (i < 204) { d = scr + S_D2 + i - 120; st = 84; p = O_FB2 + i - 120; }
                    else if (i < 214) { d = scr + S_D3 + i - 204; st = 12; p = O_FB3 + i - 204; }
                    else continue;
                    float gr = 0.f;
#pragma unroll 10
                    for (int s = 0; s < cnt; s++) gr += __ldcg(d + s * st);
                    adam_global(w + p, m + p, v + p, gr, ad, first);
                } else {
                    int i = k * 64 + lane * 2;
                    if (i < NCONV) {
                        float2 gr = make_float2(0.f, 0.f);
#pragma unroll 13
                        for (int r = 0; r < G; r++) { float2 q = __ldcg(reinterpret_cast<const float2*>(cp + r * NCONV + i)); gr.x += q.x; gr.y += q.y; }
                        adam_global(w + i, m + i, v + i, gr.x, ad, first);
                        adam_global(w + i + 1, m + i + 1, v + i + 1, gr.y, ad, first);
                    }
                }
            }
            if (loss_out && rank == 0 && tid == 0) {
                float s = 0.f;
                for (int i = 0; i < cnt; i++) s += __ldcg(scr + S_LOSS + i);
                loss_out[(size_t)client * steps + step] = s;
            }
        }
        if (!(SKIP & 128)) group_barrier(counter, ++epoch * G, G); else __syncthreads();
    }
}

#ifndef __CUDACC_RTC__
__global__ void average(const float* __restrict__ models, int clients, int p, float* __restrict__ server, int* counters) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < clients) counters[i * 32] = 0;
    if (i >= p) return;
    float s = 0.f;
    for (int c = 0; c < clients; c++) s += models[(size_t)c * PST + i];
    server[i] = s / clients;
}

// ------------------------------------------------------------------------------------------------- reference
template <class T> static void reference(std::vector<T>& w, const float* X, const int* Y, const int* order, int steps, std::vector<double>& losses) {
    std::vector<T> m(P, 0), v(P, 0), gr(P);
    double p1 = 1, p2 = 1;
    for (int st = 0; st < steps; st++) {
        std::fill(gr.begin(), gr.end(), T(0));
        int cnt = order[st * ORD + 63];
        double loss = 0;
        for (int i = 0; i < cnt; i++) {
            const float* x = X + (size_t)order[st * ORD + i] * XN;
            int y = Y[order[st * ORD + i]];
            std::vector<T> a1(1176), a2(400), h1(120), h2(84), z(10), d3(10), d2(84), d1(120), da2(400), da1(1176, 0);
            std::vector<int> c1(1176), c2(400);
            std::vector<T> row(784);
            for (int o = 0; o < 6; o++) {
                std::fill(row.begin(), row.end(), T(0));
                for (int k = 0; k < 75; k++) { T ww = w[O_W1 + o * 75 + k]; const float* xp = x + k / 25 * 1024 + k % 25 / 5 * 32 + k % 5;
                    for (int yy = 0; yy < 28; yy++) for (int xx = 0; xx < 28; xx++) row[yy * 28 + xx] += ww * xp[yy * 32 + xx]; }
                for (int r = 0; r < 196; r++) { T best = -1e30; int code = 0; for (int c = 0; c < 4; c++) { T q = row[(r / 14 * 2 + c / 2) * 28 + r % 14 * 2 + c % 2]; if (q > best) { best = q; code = c; } }
                    best += w[O_B1 + o]; a1[o * 196 + r] = best > 0 ? best : 0; c1[o * 196 + r] = best > 0 ? code : 4; }
            }
            for (int o = 0; o < 16; o++) {
                std::fill(row.begin(), row.end(), T(0));
                for (int k = 0; k < 150; k++) { T ww = w[O_W2 + o * 150 + k]; const T* xp = a1.data() + k / 25 * 196 + k % 25 / 5 * 14 + k % 5;
                    for (int yy = 0; yy < 10; yy++) for (int xx = 0; xx < 10; xx++) row[yy * 10 + xx] += ww * xp[yy * 14 + xx]; }
                for (int r = 0; r < 25; r++) { T best = -1e30; int code = 0; for (int c = 0; c < 4; c++) { T q = row[(r / 5 * 2 + c / 2) * 10 + r % 5 * 2 + c % 2]; if (q > best) { best = q; code = c; } }
                    best += w[O_B2 + o]; a2[o * 25 + r] = best > 0 ? best : 0; c2[o * 25 + r] = best > 0 ? code : 4; }
            }
            auto fwd = [&](int ow, int ob, std::vector<T>& a, std::vector<T>& h, bool relu) { int in = a.size(); for (size_t o = 0; o < h.size(); o++) { T q = w[ob + o]; for (int k = 0; k < in; k++) q += w[ow + o * in + k] * a[k]; h[o] = relu && q < 0 ? 0 : q; } };
            auto bwd = [&](int ow, int ob, std::vector<T>& a, std::vector<T>& d, std::vector<T>& da) { int in = a.size(); std::fill(da.begin(), da.end(), T(0)); for (size_t o = 0; o < d.size(); o++) { gr[ob + o] += d[o]; for (int k = 0; k < in; k++) { gr[ow + o * in + k] += d[o] * a[k]; da[k] += d[o] * w[ow + o * in + k]; } } for (int k = 0; k < in; k++) if (!(a[k] > 0)) da[k] = 0; };
            fwd(O_F1, O_FB1, a2, h1, true); fwd(O_F2, O_FB2, h1, h2, true); fwd(O_F3, O_FB3, h2, z, false);
            T mx = *std::max_element(z.begin(), z.end()), sum = 0; for (T q : z) sum += std::exp(q - mx);
            loss += (std::log(sum) + mx - z[y]) / cnt;
            for (int c = 0; c < 10; c++) d3[c] = (std::exp(z[c] - mx) / sum - (c == y)) / cnt;
            bwd(O_F3, O_FB3, h2, d3, d2); bwd(O_F2, O_FB2, h1, d2, d1); bwd(O_F1, O_FB1, a2, d1, da2);
            for (int o = 0; o < 16; o++) for (int r = 0; r < 25; r++) if (c2[o * 25 + r] < 4) {
                T d = da2[o * 25 + r]; int code = c2[o * 25 + r], b = (r / 5 * 2 + code / 2) * 14 + r % 5 * 2 + code % 2; gr[O_B2 + o] += d;
                for (int k = 0; k < 150; k++) { int j = b + k / 25 * 196 + k % 25 / 5 * 14 + k % 5; gr[O_W2 + o * 150 + k] += d * a1[j]; da1[j] += d * w[O_W2 + o * 150 + k]; } }
            for (int o = 0; o < 6; o++) for (int r = 0; r < 196; r++) if (c1[o * 196 + r] < 4) {
                T d = da1[o * 196 + r]; int code = c1[o * 196 + r], b = (r / 14 * 2 + code / 2) * 32 + r % 14 * 2 + code % 2; gr[O_B1 + o] += d;
                for (int k = 0; k < 75; k++) gr[O_W1 + o * 75 + k] += d * x[b + k / 25 * 1024 + k % 25 / 5 * 32 + k % 5]; }
        }
        losses.push_back(loss);
        p1 *= 0.9; p2 *= 0.999;
        T rate = LR / (1 - p1), corr = 1 / std::sqrt(1 - p2);
        for (int i = 0; i < P; i++) { m[i] = T(0.9) * m[i] + T(0.1) * gr[i]; v[i] = T(0.999) * v[i] + T(0.001) * gr[i] * gr[i]; w[i] -= rate * m[i] / (std::sqrt(v[i]) * corr + T(1e-8)); }
    }
}

typedef void (*Kernel)(const float*, const float*, const int*, const int*, int, int, int, float*, float*, float*, float*, float*, int*, float*);

int main(int argc, char** argv) {
    bool one = argc > 1 && !strcmp(argv[1], "--one"), quick = one || (argc > 1 && !strcmp(argv[1], "--quick"));
    cudaDeviceProp prop; CK(cudaGetDeviceProperties(&prop, 0));
    const int sms = prop.multiProcessorCount;
    struct V { const char* name; Kernel k; bool full; } variants[] = {
        {"3xtf32", cnn_round<1, 0>, true}, {"tf32", cnn_round<0, 0>, true},
#ifndef FEW
        {"3x no conv1 fwd", cnn_round<1, 1>, false}, {"3x no conv2 fwd", cnn_round<1, 2>, false}, {"3x no dense", cnn_round<1, 4>, false},
        {"3x no conv2 dW", cnn_round<1, 8>, false}, {"3x no conv2 dX", cnn_round<1, 16>, false}, {"3x no conv1 dW", cnn_round<1, 32>, false},
        {"3x no phase 2", cnn_round<1, 64>, false}, {"3x no barriers", cnn_round<1, 128>, false}, {"3x none of these", cnn_round<1, 127>, false},
#endif
    };
    for (auto& v : variants) {
        CK(cudaFuncSetAttribute((const void*)v.k, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(Smem)));
        cudaFuncAttributes fa; CK(cudaFuncGetAttributes(&fa, (const void*)v.k));
        if (v.full) printf("%s: %d registers, %zu local bytes, %zu shared\n", v.name, fa.numRegs, fa.localSizeBytes, sizeof(Smem));
    }
    std::mt19937 rng(1);
    for (int n : {125, 2250}) for (int clients : {10, 40, 160}) {
        if ((quick && clients > 10) || (one && n > 1000)) continue;
        int spe = (n + B - 1) / B, steps = 10 * spe, Gmax = std::max(1, sms / clients);
        std::vector<float> X((size_t)10 * n * XN), server(P);
        std::vector<int> Y((size_t)clients * n), order((size_t)clients * steps * ORD, 0);
        std::uniform_real_distribution<float> u(-1, 1);
        for (auto& x : X) x = u(rng);
        for (int c = 0; c < clients; c++) for (int i = 0; i < n; i++) Y[(size_t)c * n + i] = (5 * c + (int)(rng() % 5)) % 10;
        for (int i = 0; i < P; i++) { int fan = i < O_W2 ? 75 : i < O_F1 ? 150 : i < O_F2 ? 400 : i < O_F3 ? 120 : 84; server[i] = u(rng) / sqrtf(fan); }
        std::vector<int> perm(n);
        for (int c = 0; c < clients; c++) for (int e = 0; e < 10; e++) {
            std::iota(perm.begin(), perm.end(), 0); std::shuffle(perm.begin(), perm.end(), rng);
            for (int s = 0; s < spe; s++) { int* o = &order[((size_t)c * steps + e * spe + s) * ORD]; int cnt = std::min(B, n - s * B); for (int i = 0; i < cnt; i++) o[i] = perm[s * B + i]; o[63] = cnt; }
        }
        float *dX, *dS, *dW, *dM, *dV, *dScr, *dCp, *dL, *dA; int *dY, *dOrd, *dCnt;
        CK(cudaMalloc(&dX, (size_t)clients * n * XN * 4)); CK(cudaMalloc(&dS, P * 4)); CK(cudaMalloc(&dA, P * 4));
        CK(cudaMalloc(&dW, (size_t)clients * PST * 4)); CK(cudaMalloc(&dM, (size_t)clients * PST * 4)); CK(cudaMalloc(&dV, (size_t)clients * PST * 4));
        CK(cudaMalloc(&dScr, (size_t)clients * SCR * 4)); CK(cudaMalloc(&dCp, (size_t)clients * 16 * NCONV * 4)); CK(cudaMalloc(&dL, (size_t)clients * steps * 4));
        CK(cudaMalloc(&dY, Y.size() * 4)); CK(cudaMalloc(&dOrd, order.size() * 4)); CK(cudaMalloc(&dCnt, clients * 128)); CK(cudaMemset(dCnt, 0, clients * 128));
        for (int c = 0; c < clients; c += 10) CK(cudaMemcpy(dX + (size_t)c * n * XN, X.data(), X.size() * 4, cudaMemcpyHostToDevice));
        CK(cudaMemcpy(dS, server.data(), P * 4, cudaMemcpyHostToDevice)); CK(cudaMemcpy(dY, Y.data(), Y.size() * 4, cudaMemcpyHostToDevice));
        CK(cudaMemcpy(dOrd, order.data(), order.size() * 4, cudaMemcpyHostToDevice));
        auto launch = [&](Kernel k, int st, int G, const int* ord, float* l) {
            void* args[] = {&dS, &dX, &dY, &ord, &n, &st, &G, &dW, &dM, &dV, &dScr, &dCp, &dCnt, &l};
            if (G > 1) CK(cudaLaunchCooperativeKernel((const void*)k, dim3(clients * G), dim3(NT), args, sizeof(Smem), 0));
            else CK(cudaLaunchKernel((const void*)k, dim3(clients), dim3(NT), args, sizeof(Smem), 0));
            average<<<(P + 255) / 256, 256>>>(dW, clients, P, dA, dCnt);
            CK(cudaGetLastError());
        };
        if (clients == 10 && !one) for (auto& v : variants) if (v.full) for (int G : {Gmax, 4, 1}) for (int st : {1, 10, 30}) {
            if (G != Gmax && st != 10) continue;
            if (n > 1000 && st > 10) continue;
            std::vector<int> o2((size_t)clients * st * ORD);
            for (int c = 0; c < clients; c++) std::copy_n(&order[(size_t)c * steps * ORD], st * ORD, &o2[(size_t)c * st * ORD]);
            int* dO2; CK(cudaMalloc(&dO2, o2.size() * 4)); CK(cudaMemcpy(dO2, o2.data(), o2.size() * 4, cudaMemcpyHostToDevice));
            std::vector<float> got(P), again(P), ls(st);
            for (int rep = 0; rep < 2; rep++) {
                CK(cudaMemset(dW, 0xff, (size_t)clients * P * 4)); CK(cudaMemset(dM, 0xff, (size_t)clients * P * 4)); CK(cudaMemset(dScr, 0xff, (size_t)clients * SCR * 4));
                launch(v.k, st, G, dO2, dL);
                CK(cudaDeviceSynchronize());
                CK(cudaMemcpy((rep ? again : got).data(), dW + (size_t)3 * PST, P * 4, cudaMemcpyDeviceToHost));
            }
            CK(cudaMemcpy(ls.data(), dL + (size_t)3 * st, st * 4, cudaMemcpyDeviceToHost));
            std::vector<double> rd(server.begin(), server.end()), ld, lf; std::vector<float> rf = server;
            reference(rd, &X[(size_t)3 * n * XN], &Y[(size_t)3 * n], &o2[(size_t)3 * st * ORD], st, ld);
            reference(rf, &X[(size_t)3 * n * XN], &Y[(size_t)3 * n], &o2[(size_t)3 * st * ORD], st, lf);
            double e1 = 0, e2 = 0, nn = 0, dl = 0, dlf = 0, ec = 0, nc = 0;
            for (int i = 0; i < P; i++) { e1 += pow(got[i] - rd[i], 2); e2 += pow(rf[i] - rd[i], 2); nn += pow(rd[i] - server[i], 2); if (i < NCONV) { ec += pow(got[i] - rd[i], 2); nc += pow(rd[i] - server[i], 2); } }
            for (int i = 0; i < st; i++) { dl = std::max(dl, fabs(ls[i] - ld[i])); dlf = std::max(dlf, fabs(lf[i] - ld[i])); }
            printf("check n=%d %-7s G=%d %3d steps: change's error %.2e (conv %.2e; CPU f32: %.2e), loss error %.1e (CPU f32 %.1e), last loss %.5f, same bits %s\n", n, v.name, G, st,
                   sqrt(e1 / nn), sqrt(ec / nc), sqrt(e2 / nn), dl, dlf, ls[st - 1], memcmp(got.data(), again.data(), P * 4) ? "NO" : "yes");
            const char* ln[] = {"c1", "c2", "f1", "f2", "f3"}; int lo[] = {O_W1, O_W2, O_F1, O_F2, O_F3, P};
            printf("   by layer:");
            for (int q = 0; q < 5; q++) { double e = 0, c = 0; int far = 0; for (int i = lo[q]; i < lo[q + 1]; i++) { e += pow(got[i] - rd[i], 2); c += pow(rd[i] - server[i], 2); far += fabs(got[i] - rd[i]) > 1e-4; } printf(" %s %.1e (%d off by > 1e-4)", ln[q], sqrt(e / c), far); }
            printf("\n");
            CK(cudaFree(dO2));
        }
        cudaEvent_t a, b; CK(cudaEventCreate(&a)); CK(cudaEventCreate(&b));
        int* dOrd2; CK(cudaMalloc(&dOrd2, order.size() * 4));
        for (auto& v : variants) {
            if (!v.full && clients > 10) continue;
            std::vector<int> Gs = {Gmax};
            if (v.full && clients == 10 && !one) { Gs.push_back(9); Gs.push_back(7); }
            for (int G : Gs) {
                int reps = n > 1000 ? 3 : 10;
                double best = 1e9, sum = 0, wall = 1e9;
                for (int r = one ? reps : 0; r < reps + 1; r++) {
                    CK(cudaDeviceSynchronize()); double t0 = now();
                    CK(cudaEventRecord(a)); launch_shuffle(r, clients, 10, n, B, dOrd2); launch(v.k, steps, G, dOrd2, nullptr); CK(cudaEventRecord(b)); CK(cudaEventSynchronize(b));
                    double t1 = now() - t0; float ms; CK(cudaEventElapsedTime(&ms, a, b));
                    if (r) { best = std::min(best, (double)ms); wall = std::min(wall, t1 * 1e3); sum += ms; }
                }
                double mac = 2 * 352800 + 3 * 240000 + 3 * 58920;
                printf("cnn n=%d clients=%d G=%d %-18s round %.4f ms (mean %.4f, host wall %.4f), %.2f us a step, %.2f TFLOP/s\n", n, clients, G, v.name, best, sum / reps, wall, best * 1e3 / steps,
                       2 * mac * n * 10 * clients / (best * 1e-3) * 1e-12);
            }
        }
        for (void* p : {(void*)dX, (void*)dS, (void*)dW, (void*)dM, (void*)dV, (void*)dScr, (void*)dCp, (void*)dL, (void*)dY, (void*)dOrd, (void*)dCnt, (void*)dA, (void*)dOrd2}) CK(cudaFree(p));
    }
}
#else
template __global__ void cnn_round<1, 0>(const float*, const float*, const int*, const int*, int, int, int, float*, float*, float*, float*, float*, int*, float*);
#endif
