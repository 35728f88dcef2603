// The general design on the MLP 784-100-10: the CNN's scheme (a group of G CTAs a client, weights and moments in L2, phase 1
// by samples, phase 2 by parameters, two barriers through L2), nothing specialised but the list of layers.
#include "common.cuh"
constexpr int IN = 784, HID = 100, OUT = 10, B = 50, ORD = 64, SC = 4, NT = 512, NWARP = 16;
constexpr int P = HID * IN + HID + OUT * HID + OUT, O_F1 = 0, O_FB1 = HID * IN, O_F2 = O_FB1 + HID, O_FB2 = O_F2 + OUT * HID, PST = (P + 3) / 4 * 4;
constexpr int S_H1 = 0, S_D1 = S_H1 + B * HID, S_D2 = S_D1 + B * HID, S_LOSS = S_D2 + B * 12, SCR = S_LOSS + 64;
struct Smem { float4 x[IN], h1[HID], d1[HID], lg[12], dl[12], tmp[1024]; float stage[2][8960]; int y[SC]; };

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
template <int X3> __device__ __forceinline__ void dense_job(int in, int out, int nb, const float* act, const int* rows, const float* del, int dstride, int cnt, float* w, float* m, float* v,
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
        if (s < cnt && nb * 32 + c * 4 < in) cp16(au + s * 160 + c * 16, act + (size_t)(rows ? __ldg(rows + s) : s) * in + nb * 32 + c * 4); else *reinterpret_cast<float4*>(as + s * 40 + c * 4) = make_float4(0, 0, 0, 0);
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


template <int X3> __global__ void __launch_bounds__(NT, 1) mlp_round(const float* __restrict__ server, const float* __restrict__ X, const int* __restrict__ Y, const int* __restrict__ order, int n, int steps, int G,
                                                                     float* W, float* M, float* V, float* scratch, int* counters, float* loss_out) {
    extern __shared__ __align__(128) unsigned char raw[];
    Smem& sm = *reinterpret_cast<Smem*>(raw);
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, client = blockIdx.x / G, rank = blockIdx.x % G;
    const float* Xc = X + (size_t)client * n * IN; const int* Yc = Y + (size_t)client * n; const int* oc = order + (size_t)client * steps * ORD;
    float *w = W + (size_t)client * PST, *m = M + (size_t)client * PST, *v = V + (size_t)client * PST, *scr = scratch + (size_t)client * SCR;
    int* counter = counters + client * 32; int epoch = 0;
    for (int i = rank * NT + tid; i < P; i += G * NT) __stcg(w + i, server[i]);
    group_barrier(counter, ++epoch * G, G);
    float b1t = 1.f, b2t = 1.f;
    for (int step = 0; step < steps; step++) {
        const int* oi = oc + step * ORD; const int cnt = __ldg(oi + 63), per = (cnt + G - 1) / G, s_end = min(cnt, rank * per + per);
        for (int s0 = rank * per; s0 < s_end; s0 += SC) {
            const int ns = min(SC, s_end - s0);
            for (int i = tid; i < SC * (IN / 4); i += NT) { int s = i / (IN / 4), k = i % (IN / 4); float4 q = s < ns ? __ldg(reinterpret_cast<const float4*>(Xc + (size_t)__ldg(oi + s0 + s) * IN) + k) : make_float4(0, 0, 0, 0);
                float* d = reinterpret_cast<float*>(sm.x) + s; d[4 * k] = q.x; d[4 * (IN / 4 + k)] = q.y; d[4 * (IN / 2 + k)] = q.z; d[4 * (3 * IN / 4 + k)] = q.w; }
            if (tid < ns) sm.y[tid] = Yc[__ldg(oi + s0 + tid)];
            __syncthreads();
            fc_forward<IN, HID, 2, true>(w + O_F1, w + O_FB1, sm.x, sm.h1, warp, lane);
            __syncthreads();
            fc_forward<HID, OUT, 1, false>(w + O_F2, w + O_FB2, sm.h1, sm.lg, warp, lane);
            __syncthreads();
            if (tid < SC) {
                const float* z = reinterpret_cast<const float*>(sm.lg) + tid; float* d = reinterpret_cast<float*>(sm.dl) + tid;
                float mx = z[0], sum = 0.f, e[10], wgt = tid < ns ? __fdividef(1.f, (float)cnt) : 0.f; int y = sm.y[tid < ns ? tid : 0];
                for (int c = 1; c < 10; c++) mx = fmaxf(mx, z[c * 4]);
#pragma unroll
                for (int c = 0; c < 10; c++) { e[c] = __expf(z[c * 4] - mx); sum += e[c]; }
                float inv = 1.f / sum;
#pragma unroll
                for (int c = 0; c < 10; c++) d[c * 4] = tid < ns ? (e[c] * inv - (c == y ? 1.f : 0.f)) * wgt : 0.f;
                if (tid < ns) __stcg(scr + S_LOSS + s0 + tid, (__logf(sum) + mx - z[y * 4]) * wgt);
            }
            __syncthreads();
            fc_backward<HID, OUT, 10, 1>(w + O_F2, sm.dl, sm.h1, sm.d1, sm.tmp, tid);
            __syncthreads();
            for (int i = tid; i < ns * HID; i += NT) { int s = i / HID, k = i % HID; __stcg(scr + S_H1 + (s0 + s) * HID + k, reinterpret_cast<float*>(sm.h1 + pos<HID>(k))[s]); __stcg(scr + S_D1 + (s0 + s) * HID + k, reinterpret_cast<float*>(sm.d1 + pos<HID>(k))[s]); }
            for (int i = tid; i < ns * 12; i += NT) { int s = i / 12, k = i % 12; __stcg(scr + S_D2 + (s0 + s) * 12 + k, k < 10 ? reinterpret_cast<float*>(sm.dl + k)[s] : 0.f); }
            __syncthreads();
        }
        group_barrier(counter, ++epoch * G, G);
        b1t *= BETA1; b2t *= BETA2; Adam ad = {__fdividef(LR, 1.f - b1t), rsqrtf(1.f - b2t)}; bool first = step == 0;
        const int half = warp >> 3, warp8 = warp & 7;
#pragma unroll 1
        for (int job = half * G + rank; job < 25 + 4; job += 2 * G) {
            bool a = job < 25; int p = a ? O_F1 : O_F2;
            dense_job<X3>(a ? IN : HID, a ? HID : OUT, a ? job : job - 25, a ? Xc : scr + S_H1, a ? oi : nullptr, a ? scr + S_D1 : scr + S_D2, a ? HID : 12, cnt, w + p, m + p, v + p, ad, first, sm.stage[half], half, warp8, lane);
        }
        for (int k = ((1 - half) * G + G - 1 - rank) * 8 + warp8; k < 4; k += 16 * G) {
            int i = k * 32 + lane; if (i >= HID + OUT) continue;
            const float* d = i < HID ? scr + S_D1 + i : scr + S_D2 + i - HID; int st = i < HID ? HID : 12, p = i < HID ? O_FB1 + i : O_FB2 + i - HID; float gr = 0.f;
#pragma unroll 10
            for (int s = 0; s < cnt; s++) gr += __ldcg(d + s * st);
            adam_global(w + p, m + p, v + p, gr, ad, first);
        }
        if (loss_out && rank == 0 && tid == 0) { float s = 0.f; for (int i = 0; i < cnt; i++) s += __ldcg(scr + S_LOSS + i); loss_out[(size_t)client * steps + step] = s; }
        group_barrier(counter, ++epoch * G, G);
    }
}
__global__ void average(const float* __restrict__ models, int clients, float* __restrict__ server, int* counters) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < clients) counters[i * 32] = 0;
    if (i >= P) return;
    float s = 0.f; for (int c = 0; c < clients; c++) s += models[(size_t)c * PST + i];
    server[i] = s / clients;
}
template <class T> static void reference(std::vector<T>& w, const float* X, const int* Y, const int* order, int steps, std::vector<double>& losses) {
    std::vector<T> m(P, 0), v(P, 0), gr(P), h(HID), dh(HID);
    T *W1 = w.data(), *b1 = W1 + HID * IN, *W2 = b1 + HID, *b2 = W2 + OUT * HID;
    double p1 = 1, p2 = 1;
    for (int st = 0; st < steps; st++) {
        std::fill(gr.begin(), gr.end(), T(0));
        T *gW1 = gr.data(), *gb1 = gW1 + HID * IN, *gW2 = gb1 + HID, *gb2 = gW2 + OUT * HID;
        int cnt = order[st * ORD + 63];
        double loss = 0;
        for (int i = 0; i < cnt; i++) {
            const float* x = X + (size_t)order[st * ORD + i] * IN;
            int y = Y[order[st * ORD + i]];
            for (int k = 0; k < HID; k++) {
                T a = b1[k];
                for (int f = 0; f < IN; f++) a += W1[k * IN + f] * x[f];
                h[k] = a > 0 ? a : 0;
            }
            T z[OUT], mx = -1e30, sum = 0;
            for (int c = 0; c < OUT; c++) { z[c] = b2[c]; for (int k = 0; k < HID; k++) z[c] += W2[c * HID + k] * h[k]; mx = std::max(mx, z[c]); }
            for (int c = 0; c < OUT; c++) sum += std::exp(z[c] - mx);
            loss += (std::log(sum) + mx - z[y]) / cnt;
            std::fill(dh.begin(), dh.end(), T(0));
            for (int c = 0; c < OUT; c++) {
                T d = (std::exp(z[c] - mx) / sum - (c == y)) / cnt;
                gb2[c] += d;
                for (int k = 0; k < HID; k++) { gW2[c * HID + k] += d * h[k]; dh[k] += d * W2[c * HID + k]; }
            }
            for (int k = 0; k < HID; k++) if (h[k] > 0) {
                gb1[k] += dh[k];
                for (int f = 0; f < IN; f++) gW1[k * IN + f] += dh[k] * x[f];
            }
        }
        losses.push_back(loss);
        p1 *= 0.9; p2 *= 0.999;
        T rate = LR / (1 - p1), corr = 1 / std::sqrt(1 - p2);
        for (int i = 0; i < P; i++) {
            m[i] = T(0.9) * m[i] + T(0.1) * gr[i];
            v[i] = T(0.999) * v[i] + T(0.001) * gr[i] * gr[i];
            w[i] -= rate * m[i] / (std::sqrt(v[i]) * corr + T(1e-8));
        }
    }
}


typedef void (*Kernel)(const float*, const float*, const int*, const int*, int, int, int, float*, float*, float*, float*, int*, float*);
int main() {
    cudaDeviceProp prop; CK(cudaGetDeviceProperties(&prop, 0));
    struct Vr { const char* name; Kernel k; } vs[] = {{"3xtf32", mlp_round<1>}, {"tf32", mlp_round<0>}};
    for (auto& v : vs) CK(cudaFuncSetAttribute((const void*)v.k, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(Smem)));
    std::mt19937 rng(1);
    for (int n : {250, 4500}) for (int clients : {10, 40}) {
        int spe = n / B, steps = 10 * spe, G = std::max(1, prop.multiProcessorCount / clients);
        std::vector<float> X((size_t)10 * n * IN), server(P); std::vector<int> Y((size_t)clients * n), order((size_t)clients * steps * ORD, 0), perm(n);
        std::uniform_real_distribution<float> u(-1, 1); for (auto& x : X) x = u(rng); for (int i = 0; i < P; i++) server[i] = u(rng) * (i < O_F2 ? 1 / 28.f : .1f);
        for (int c = 0; c < clients; c++) for (int i = 0; i < n; i++) Y[(size_t)c * n + i] = (5 * c + (int)(rng() % 5)) % 10;
        for (int c = 0; c < clients; c++) for (int e = 0; e < 10; e++) { std::iota(perm.begin(), perm.end(), 0); std::shuffle(perm.begin(), perm.end(), rng); for (int s = 0; s < spe; s++) { int* o = &order[((size_t)c * steps + e * spe + s) * ORD]; for (int i = 0; i < B; i++) o[i] = perm[s * B + i]; o[63] = B; } }
        float *dX, *dS, *dA, *dW, *dM, *dV, *dScr, *dL; int *dY, *dO, *dC; size_t tot = (size_t)clients * PST * 4;
        CK(cudaMalloc(&dX, (size_t)clients * n * IN * 4)); CK(cudaMalloc(&dS, P * 4)); CK(cudaMalloc(&dA, P * 4)); CK(cudaMalloc(&dW, tot)); CK(cudaMalloc(&dM, tot)); CK(cudaMalloc(&dV, tot)); CK(cudaMalloc(&dScr, (size_t)clients * SCR * 4)); CK(cudaMalloc(&dL, (size_t)clients * steps * 4)); CK(cudaMalloc(&dY, Y.size() * 4)); CK(cudaMalloc(&dO, order.size() * 4)); CK(cudaMalloc(&dC, clients * 128)); CK(cudaMemset(dC, 0, clients * 128));
        for (int c = 0; c < clients; c += 10) CK(cudaMemcpy(dX + (size_t)c * n * IN, X.data(), X.size() * 4, cudaMemcpyHostToDevice));
        CK(cudaMemcpy(dS, server.data(), P * 4, cudaMemcpyHostToDevice)); CK(cudaMemcpy(dY, Y.data(), Y.size() * 4, cudaMemcpyHostToDevice)); CK(cudaMemcpy(dO, order.data(), order.size() * 4, cudaMemcpyHostToDevice));
        auto launch = [&](Kernel k, const int* ord, int st, float* l) { void* args[] = {&dS, &dX, &dY, &ord, &n, &st, &G, &dW, &dM, &dV, &dScr, &dC, &l}; CK(cudaLaunchCooperativeKernel((const void*)k, dim3(clients * G), dim3(NT), args, sizeof(Smem), 0)); average<<<(P + 255) / 256, 256>>>(dW, clients, dA, dC); CK(cudaGetLastError()); };
        for (auto& v : vs) {
            if (clients == 10) {
                int st = 20; std::vector<int> o2((size_t)clients * st * ORD); for (int c = 0; c < clients; c++) std::copy_n(&order[(size_t)c * steps * ORD], st * ORD, &o2[(size_t)c * st * ORD]);
                int* d2; CK(cudaMalloc(&d2, o2.size() * 4)); CK(cudaMemcpy(d2, o2.data(), o2.size() * 4, cudaMemcpyHostToDevice)); launch(v.k, d2, st, dL); CK(cudaDeviceSynchronize());
                std::vector<float> got(P); CK(cudaMemcpy(got.data(), dW + 3 * PST, P * 4, cudaMemcpyDeviceToHost)); std::vector<double> rd(server.begin(), server.end()), ld; reference(rd, &X[(size_t)3 * n * IN], &Y[(size_t)3 * n], &o2[(size_t)3 * st * ORD], st, ld);
                double e = 0, c = 0; for (int i = 0; i < P; i++) { e += pow(got[i] - rd[i], 2); c += pow(rd[i] - server[i], 2); } printf("check general n=%d %s 20 steps: change's error %.2e\n", n, v.name, sqrt(e / c)); CK(cudaFree(d2));
            }
            cudaEvent_t a, b; CK(cudaEventCreate(&a)); CK(cudaEventCreate(&b)); float best = 1e9;
            for (int r = 0; r < 6; r++) { CK(cudaEventRecord(a)); launch(v.k, dO, steps, nullptr); CK(cudaEventRecord(b)); CK(cudaEventSynchronize(b)); float t; CK(cudaEventElapsedTime(&t, a, b)); if (r) best = std::min(best, t); }
            printf("mlp general n=%d clients=%d G=%d %-7s round %.4f ms, %.3f us a step\n", n, clients, G, v.name, best, best * 1e3 / steps);
        }
        for (void* p : {(void*)dX, (void*)dS, (void*)dA, (void*)dW, (void*)dM, (void*)dV, (void*)dScr, (void*)dL, (void*)dY, (void*)dO, (void*)dC}) CK(cudaFree(p));
    }
}
