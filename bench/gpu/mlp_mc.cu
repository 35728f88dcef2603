// A FedAvg round of an MLP 784-100-10: ONE kernel for all steps, one cluster of 7 CTAs a client.
// CTA r owns hidden units [16r, 16r+16) (100 padded to 112); its warp w owns features [112w, 112w+112).
// Weights and both Adam moments stay in REGISTERS for the whole round: the C fragment of the gradient product
// is, after a permutation of k, the A fragment of the forward product. The batch (50 x 784) is in shared memory,
// gathered row by row with bulk copies (TMA) by the eighth warp, one half of the features after the other, as soon as
// the product warps of all seven CTAs have used them (mbarriers, 49 arrivals): each CTA fetches a seventh of the rows
// and multicasts them to the cluster. That warp also does the head's gradient and biases.
// Per step: 2 block barriers; partial logits (50 x 10) go to every CTA with st.async on its mbarrier: no fence.
#include "common.cuh"

constexpr int IN = 784, HID = 100, OUT = 10, B = 50, CL = 7, NW = 7, TPW = 14, XS = 792, PS = 20;
constexpr int P = HID * IN + HID + OUT * HID + OUT;
constexpr int ORD = 64; // an order row: 50 indices, [63] = how many are real

struct Smem {
    float xs[B * XS];
    float part[NW * B * PS];
    float lbuf[2][CL][B * 12];
    float hs[B * 16];
    float dls[B * 12];
    float dhf[7 * 32 * 4];
    float w2s[10 * 16];
    float b1s[16], b2s[16];
    float losses[64];
    int idx[4][ORD];
    int ys[4][ORD];
    unsigned long long full[2], used[2], logits[2]; // mbarriers
};
static_assert(sizeof(Smem) <= 232448, "too much shared memory");

// Features of tile j (of 14) of a warp: 56 in each half of the 784.
#define FEAT(j) (((j) / 7) * 392 + warp * 56 + ((j) % 7) * 8)
constexpr int HALF = IN / 2, HALF_BYTES = HALF * 4;
template <int X3> __device__ __forceinline__ void split(float x, float& hi, float& lo) {
    if (X3) { hi = tf_hi(x); lo = x - hi; } else { hi = uf(fu(x) + 0x1000u); lo = 0.f; }
}

// SKIP: a bit mask of stages left out to place the time (1: forward products, 2: gradient products, 4: Adam of the
// first layer, 8: the gather, 16: the cluster barrier).
template <int X3, int SKIP>
__global__ void __launch_bounds__(256, 1) mlp_round(const float* __restrict__ server, const float* __restrict__ X,
                                                    const int* __restrict__ Y, const int* __restrict__ order, int n,
                                                    int steps, float* __restrict__ out, float* __restrict__ loss) {
    extern __shared__ __align__(128) unsigned char raw[];
    Smem& sm = *reinterpret_cast<Smem*>(raw);
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    const int rank = cluster_rank(), client = cluster_id();
    const float* Xc = X + (size_t)client * n * IN;
    const int* Yc = Y + (size_t)client * n;
    const int* oc = order + (size_t)client * steps * ORD;
    float* oP = out + (size_t)client * P;
    const int h0 = rank * 16;

    const uint32_t full0 = smem_u32(sm.full), used0 = smem_u32(sm.used), logits0 = smem_u32(sm.logits);
    if (tid == 0) {
        for (int i = 0; i < 2; i++) { mbar_init(full0 + 8 * i, 1); mbar_init(used0 + 8 * i, NW * CL); mbar_init(logits0 + 8 * i, 1); }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    for (int i = tid; i < 7 * 32 * 4; i += 256) sm.dhf[i] = 0.f;
    for (int i = tid; i < 160; i += 256) {
        int c = i / 16, h = h0 + i % 16;
        sm.w2s[i] = h < HID ? server[HID * IN + HID + c * HID + h] : 0.f;
    }
    if (tid < 16) sm.b1s[tid] = h0 + tid < HID ? server[HID * IN + h0 + tid] : 0.f;
    if (tid < 10) sm.b2s[tid] = server[HID * IN + HID + OUT * HID + tid];
    if (tid < ORD) {
        for (int st = 0; st < 2; st++) {
            int i = st < steps ? oc[st * ORD + tid] : 0;
            sm.idx[st][tid] = i;
            sm.ys[st][tid] = tid < B ? Yc[i] : 0;
        }
    }
    __syncthreads();
    cluster_arrive();
    cluster_wait();

    if (warp < NW) {
        // ---------------------------------------------------------------- the seven product warps
        float w[TPW][4], m[TPW][4], v[TPW][4];
#pragma unroll
        for (int j = 0; j < TPW; j++) {
            int f = FEAT(j) + 2 * t;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int h = h0 + g + (e >> 1) * 8;
                w[j][e] = h < HID ? server[h * IN + f + (e & 1)] : 0.f;
                m[j][e] = v[j][e] = 0.f;
            }
        }
        float b1t = 1.f, b2t = 1.f;
        const float* xf = sm.xs + g * XS + warp * 56 + 2 * t;          // forward: sample 8j+g, features 2t, 2t+1
        const float* xf_last = sm.xs + (g < 2 ? 48 + g : 49) * XS + warp * 56 + 2 * t;
        const float* xb = sm.xs + t * XS + warp * 56 + g;              // gradient: samples 8k+t, 8k+t+4, feature g
        const float* xb_last0 = sm.xs + (t < 2 ? 48 + t : 49) * XS + warp * 56 + g;
        const float* xb_last1 = sm.xs + 49 * XS + warp * 56 + g;
        const int s = tid >> 2, q = tid & 3;                            // the head: thread (sample, quarter)

        for (int step = 0; step < steps; step++) {
            // ---- forward: [16 hidden x 56 samples] over this warp's 112 features
            float acc[7][4];
#pragma unroll
            for (int j = 0; j < 7; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) acc[j][e] = 0.f;
            if (!(SKIP & 8)) mbar_wait(full0, step & 1);
            if (!(SKIP & 1)) {
#pragma unroll
                for (int j = 0; j < TPW; j++) {
                    if (j == 7 && !(SKIP & 8)) mbar_wait(full0 + 8, step & 1);
                    const int fo = (j / 7) * HALF + (j % 7) * 8;
                    float ah[4], al[4];
                    float we[4] = {w[j][0], w[j][2], w[j][1], w[j][3]};
                    if (SKIP & 32) { // weight noise, drawn where it is used
                        float4 z = normals(philox(make_uint4(j * 256 + tid, rank, step, client), 1234u, 5678u));
                        we[0] += 0.01f * z.x; we[1] += 0.01f * z.y; we[2] += 0.01f * z.z; we[3] += 0.01f * z.w;
                    }
#pragma unroll
                    for (int e = 0; e < 4; e++) split<X3>(we[e], ah[e], al[e]);
                    float bh[7][2], bl[7][2];
#pragma unroll
                    for (int k = 0; k < 7; k++) {
                        float2 x = *reinterpret_cast<const float2*>(k < 6 ? xf + k * 8 * XS + fo : xf_last + fo);
                        split<X3>(x.x, bh[k][0], bl[k][0]);
                        split<X3>(x.y, bh[k][1], bl[k][1]);
                    }
                    if (X3) {
#pragma unroll
                        for (int k = 0; k < 7; k++) mma8(acc[k], al[0], al[1], al[2], al[3], bh[k][0], bh[k][1]);
#pragma unroll
                        for (int k = 0; k < 7; k++) mma8(acc[k], ah[0], ah[1], ah[2], ah[3], bl[k][0], bl[k][1]);
                    }
#pragma unroll
                    for (int k = 0; k < 7; k++) mma8(acc[k], ah[0], ah[1], ah[2], ah[3], bh[k][0], bh[k][1]);
                }
            } else if (!(SKIP & 8)) mbar_wait(full0 + 8, step & 1);
            // ---- partial sums to shared memory: part[warp][sample][hidden]
            {
                float* p = sm.part + warp * B * PS;
#pragma unroll
                for (int k = 0; k < 7; k++) {
                    int s0 = 8 * k + 2 * t;
                    if (k < 6 || t == 0) {
                        p[s0 * PS + g] = acc[k][0];
                        p[(s0 + 1) * PS + g] = acc[k][1];
                        p[s0 * PS + g + 8] = acc[k][2];
                        p[(s0 + 1) * PS + g + 8] = acc[k][3];
                    }
                }
            }
            __syncthreads(); // A
            const int slot = step & 3;
            const int cnt = sm.idx[slot][63];
            float4 h = {0.f, 0.f, 0.f, 0.f};
            if (tid < 4 * B) {
                h = *reinterpret_cast<const float4*>(sm.b1s + 4 * q);
#pragma unroll
                for (int u = 0; u < NW; u++) {
                    float4 p = *reinterpret_cast<const float4*>(sm.part + (u * B + s) * PS + 4 * q);
                    h.x += p.x; h.y += p.y; h.z += p.z; h.w += p.w;
                }
                h.x = fmaxf(h.x, 0.f); h.y = fmaxf(h.y, 0.f); h.z = fmaxf(h.z, 0.f); h.w = fmaxf(h.w, 0.f);
                *reinterpret_cast<float4*>(sm.hs + s * 16 + 4 * q) = h;
                float lg[12]; lg[10] = lg[11] = 0.f;
#pragma unroll
                for (int c = 0; c < 10; c++) {
                    float4 ww = *reinterpret_cast<const float4*>(sm.w2s + c * 16 + 4 * q);
                    lg[c] = h.x * ww.x + h.y * ww.y + h.z * ww.z + h.w * ww.w;
                }
                unsigned mask = tid < 192 ? 0xffffffffu : 0x000000ffu; // warp 6 has 8 such threads
#pragma unroll
                for (int c = 0; c < 10; c++) lg[c] += __shfl_xor_sync(mask, lg[c], 1);
#pragma unroll
                for (int c = 0; c < 10; c++) lg[c] += __shfl_xor_sync(mask, lg[c], 2);
                uint32_t a = smem_u32(&sm.lbuf[step & 1][rank][s * 12]), lb = logits0 + 8 * (step & 1);
#pragma unroll
                for (int d = 0; d < 2; d++) {
                    int dst = q + 4 * d;
                    if (dst < CL) {
                        uint32_t r = mapa(a, dst), rb = mapa(lb, dst);
#pragma unroll
                        for (int c = 0; c < 3; c++) st_async4(r + c * 16, lg[4 * c], lg[4 * c + 1], lg[4 * c + 2], lg[4 * c + 3], rb);
                    }
                }
            }
            mbar_wait(logits0 + 8 * (step & 1), (step >> 1) & 1);
            if (tid < 4 * B) {
                unsigned mask = tid < 192 ? 0xffffffffu : 0x000000ffu;
                float z[3];
                int y = sm.ys[slot][s];
#pragma unroll
                for (int i = 0; i < 3; i++) {
                    int c = q + 4 * i;
                    if (c < 10) {
                        float a = sm.b2s[c];
#pragma unroll
                        for (int u = 0; u < CL; u++) a += sm.lbuf[step & 1][u][s * 12 + c];
                        z[i] = a;
                    } else z[i] = -INFINITY;
                }
                float mx = fmaxf(z[0], fmaxf(z[1], z[2]));
                mx = fmaxf(mx, __shfl_xor_sync(mask, mx, 1));
                mx = fmaxf(mx, __shfl_xor_sync(mask, mx, 2));
                float e[3], sum = 0.f;
#pragma unroll
                for (int i = 0; i < 3; i++) { e[i] = expf(z[i] - mx); sum += e[i]; }
                sum += __shfl_xor_sync(mask, sum, 1);
                sum += __shfl_xor_sync(mask, sum, 2);
                float inv = __fdividef(1.f, sum), wgt = s < cnt ? __fdividef(1.f, (float)cnt) : 0.f;
                float d[3];
#pragma unroll
                for (int i = 0; i < 3; i++) {
                    int c = q + 4 * i;
                    d[i] = (e[i] * inv - (c == y ? 1.f : 0.f)) * wgt;
                    if (c < 10) sm.dls[s * 12 + c] = d[i];
                    if (c == y) sm.losses[s] = (logf(sum) + mx - z[i]) * wgt;
                }
                float4 dh = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
                for (int c = 0; c < 10; c++) {
                    float dc = __shfl_sync(mask, d[c >> 2], (lane & ~3) | (c & 3));
                    float4 ww = *reinterpret_cast<const float4*>(sm.w2s + c * 16 + 4 * q);
                    dh.x += dc * ww.x; dh.y += dc * ww.y; dh.z += dc * ww.z; dh.w += dc * ww.w;
                }
                dh.x = h.x > 0.f ? dh.x : 0.f; dh.y = h.y > 0.f ? dh.y : 0.f;
                dh.z = h.z > 0.f ? dh.z : 0.f; dh.w = h.w > 0.f ? dh.w : 0.f;
                // to the A fragments' order: hidden 4q+i: g = (4q+i)%8, row half q>>1
                int base = ((s >> 3) * 32 + (4 * (q & 1)) * 4 + (s & 3)) * 4 + (q >> 1) + 2 * ((s >> 2) & 1);
                sm.dhf[base] = dh.x; sm.dhf[base + 16] = dh.y; sm.dhf[base + 32] = dh.z; sm.dhf[base + 48] = dh.w;
            }
            __syncthreads(); // D
            // ---- the first layer's gradient, 56 features at a time, and Adam on the fragment
            b1t *= BETA1; b2t *= BETA2;
            Adam ad = {__fdividef(LR, 1.f - b1t), rsqrtf(1.f - b2t)};
#pragma unroll
            for (int half = 0; half < 2; half++) {
#pragma unroll
                for (int j = 0; j < 7; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) acc[j][e] = 0.f;
                if (!(SKIP & 2)) {
#pragma unroll
                    for (int k = 0; k < 7; k++) {
                        float4 a = *reinterpret_cast<const float4*>(sm.dhf + (k * 32 + lane) * 4);
                        float ah[4], al[4];
                        split<X3>(a.x, ah[0], al[0]);
                        split<X3>(a.y, ah[1], al[1]);
                        split<X3>(a.z, ah[2], al[2]);
                        split<X3>(a.w, ah[3], al[3]);
                        float bh[7][2], bl[7][2];
#pragma unroll
                        for (int j = 0; j < 7; j++) {
                            int f = half * HALF + j * 8;
                            float x0 = k < 6 ? xb[k * 8 * XS + f] : xb_last0[f];
                            float x1 = k < 6 ? xb[(k * 8 + 4) * XS + f] : xb_last1[f];
                            split<X3>(x0, bh[j][0], bl[j][0]);
                            split<X3>(x1, bh[j][1], bl[j][1]);
                        }
                        if (X3) {
#pragma unroll
                            for (int j = 0; j < 7; j++) mma8(acc[j], al[0], al[1], al[2], al[3], bh[j][0], bh[j][1]);
#pragma unroll
                            for (int j = 0; j < 7; j++) mma8(acc[j], ah[0], ah[1], ah[2], ah[3], bl[j][0], bl[j][1]);
                        }
#pragma unroll
                        for (int j = 0; j < 7; j++) mma8(acc[j], ah[0], ah[1], ah[2], ah[3], bh[j][0], bh[j][1]);
                    }
                }
                __syncwarp();
                if (lane < CL) mbar_arrive_remote(used0 + 8 * half, lane);
                if (!(SKIP & 4)) {
#pragma unroll
                    for (int j = 0; j < 7; j++)
#pragma unroll
                        for (int e = 0; e < 4; e++) adam(w[half * 7 + j][e], m[half * 7 + j][e], v[half * 7 + j][e], acc[j][e], ad);
                } else {
#pragma unroll
                    for (int j = 0; j < 7; j++)
#pragma unroll
                        for (int e = 0; e < 4; e++) w[half * 7 + j][e] += 1e-9f * acc[j][e] + m[half * 7 + j][e] + v[half * 7 + j][e];
                }
            }
        }
#pragma unroll
        for (int j = 0; j < TPW; j++) {
            int f = FEAT(j) + 2 * t;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int h = h0 + g + (e >> 1) * 8;
                if (h < HID) oP[h * IN + f + (e & 1)] = w[j][e];
            }
        }
    } else {
        // ---------------------------------------------------------------- the head's warp: biases, head, indices
        const int hid = lane & 15, c0 = (lane >> 4) * 5;
        float w2[5], m2[5], v2[5], b1 = sm.b1s[hid], mb1 = 0.f, vb1 = 0.f;
        float b2 = lane < 10 ? sm.b2s[lane] : 0.f, mb2 = 0.f, vb2 = 0.f;
#pragma unroll
        for (int c = 0; c < 5; c++) { w2[c] = sm.w2s[(c0 + c) * 16 + hid]; m2[c] = v2[c] = 0.f; }
        float b1t = 1.f, b2t = 1.f;
        const uint32_t xs_u = smem_u32(sm.xs);
        auto gather = [&](int slot, int half) { // one row a lane and copy
            if (SKIP & 8) return;
            if (lane == 0) mbar_expect(full0 + 8 * half, B * HALF_BYTES);
            __syncwarp();
            int row = rank + CL * lane;
            if (row < B) bulk_multicast(xs_u + (row * XS + half * HALF) * 4, Xc + (size_t)sm.idx[slot][row] * IN + half * HALF, HALF_BYTES, full0 + 8 * half, (1 << CL) - 1);
        };
        gather(0, 0);
        gather(0, 1);
        for (int step = 0; step < steps; step++) {
            if (lane == 0) mbar_expect(logits0 + 8 * (step & 1), CL * B * 12 * 4);
            __syncthreads(); // A
            __syncthreads(); // D
            int nxt = step + 2;
            int i0 = 0, i1 = 0;
            if (nxt < steps) { i0 = oc[nxt * ORD + lane]; i1 = oc[nxt * ORD + 32 + lane]; }
            b1t *= BETA1; b2t *= BETA2;
            Adam ad = {__fdividef(LR, 1.f - b1t), rsqrtf(1.f - b2t)};
            float gw[5] = {0, 0, 0, 0, 0}, gb2 = 0.f, gb1 = 0.f;
            mbar_wait(used0, step & 1);
            if (step + 1 < steps) gather((step + 1) & 3, 0);
#pragma unroll 10
            for (int s = 0; s < B; s++) {
                float hv = sm.hs[s * 16 + hid];
#pragma unroll
                for (int c = 0; c < 5; c++) gw[c] += hv * sm.dls[s * 12 + c0 + c];
            }
            mbar_wait(used0 + 8, step & 1);
            if (step + 1 < steps) gather((step + 1) & 3, 1);
            if (lane < 10) {
#pragma unroll 10
                for (int s = 0; s < B; s++) gb2 += sm.dls[s * 12 + lane];
            }
            if (lane < 16) {
#pragma unroll 10
                for (int s = 0; s < B; s++)
                    gb1 += sm.dhf[((s >> 3) * 32 + (hid & 7) * 4 + (s & 3)) * 4 + (hid >> 3) + 2 * ((s >> 2) & 1)];
            }
            if (loss && rank == 0) {
                float l = sm.losses[lane] + (lane + 32 < B ? sm.losses[lane + 32] : 0.f);
                for (int o = 16; o; o >>= 1) l += __shfl_xor_sync(0xffffffffu, l, o);
                if (lane == 0) loss[(size_t)client * steps + step] = l;
            }
#pragma unroll
            for (int c = 0; c < 5; c++) {
                adam(w2[c], m2[c], v2[c], gw[c], ad);
                sm.w2s[(c0 + c) * 16 + hid] = w2[c];
            }
            adam(b1, mb1, vb1, gb1, ad);
            if (lane < 16) sm.b1s[hid] = b1;
            adam(b2, mb2, vb2, gb2, ad);
            if (lane < 10) sm.b2s[lane] = b2;
            sm.idx[nxt & 3][lane] = i0;
            sm.idx[nxt & 3][lane + 32] = i1;
            sm.ys[nxt & 3][lane] = Yc[i0];
            if (lane + 32 < B) sm.ys[nxt & 3][lane + 32] = Yc[i1];
        }
        if (h0 + hid < HID) {
#pragma unroll
            for (int c = 0; c < 5; c++) oP[HID * IN + HID + (c0 + c) * HID + h0 + hid] = w2[c];
            if (lane < 16) oP[HID * IN + h0 + hid] = b1;
        }
        if (rank == 0 && lane < 10) oP[HID * IN + HID + OUT * HID + lane] = b2;
    }
    cluster_arrive();
    cluster_wait();
}

#ifndef __CUDACC_RTC__
// The average of the clients' models, sums in a fixed order.
__global__ void average(const float* __restrict__ models, int clients, int p, float* __restrict__ server) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p) return;
    float s = 0.f;
    for (int c = 0; c < clients; c++) s += models[(size_t)c * p + i];
    server[i] = s / clients;
}

// ------------------------------------------------------------------------------------------------- reference
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

typedef void (*Kernel)(const float*, const float*, const int*, const int*, int, int, float*, float*);

int main(int argc, char** argv) {
    bool one = argc > 1 && !strcmp(argv[1], "--one"), quick = one || (argc > 1 && !strcmp(argv[1], "--quick"));
    cudaDeviceProp prop; CK(cudaGetDeviceProperties(&prop, 0));
    printf("%s, %d SMs, L2 %d MB, smem/block %zu\n", prop.name, prop.multiProcessorCount, prop.l2CacheSize >> 20, prop.sharedMemPerBlockOptin);
    struct V { const char* name; Kernel k; bool full; } variants[] = {
        {"3xtf32", mlp_round<1, 0>, true}, {"tf32", mlp_round<0, 0>, true},
        {"3xtf32 weight noise", mlp_round<1, 32>, false},
#ifndef FEW
        {"3xtf32 no fwd", mlp_round<1, 1>, false}, {"3xtf32 no grad", mlp_round<1, 2>, false},
        {"3xtf32 no adam", mlp_round<1, 4>, false}, {"3xtf32 no gather", mlp_round<1, 8>, false},
        {"3xtf32 no products", mlp_round<1, 3>, false},
        {"nothing but barriers", mlp_round<1, 15>, false}, {"tf32 no gather", mlp_round<0, 8>, false},
#endif
    };
    auto config = [&](int clients, cudaLaunchConfig_t& c, cudaLaunchAttribute* at) {
        c = {}; c.gridDim = dim3(clients * CL); c.blockDim = dim3(256); c.dynamicSmemBytes = sizeof(Smem);
        at[0].id = cudaLaunchAttributeClusterDimension; at[0].val.clusterDim.x = CL; at[0].val.clusterDim.y = 1; at[0].val.clusterDim.z = 1;
        c.attrs = at; c.numAttrs = 1;
    };
    for (auto& v : variants) {
        CK(cudaFuncSetAttribute((const void*)v.k, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(Smem)));
        cudaFuncAttributes fa; CK(cudaFuncGetAttributes(&fa, (const void*)v.k));
        cudaLaunchConfig_t c; cudaLaunchAttribute at[1]; config(10, c, at);
        int nc = 0; CK(cudaOccupancyMaxActiveClusters(&nc, (const void*)v.k, &c));
        if (v.full) printf("%s: %d registers, %zu local bytes, %zu shared, %d clusters at once\n", v.name, fa.numRegs, fa.localSizeBytes, sizeof(Smem), nc);
    }
    std::mt19937 rng(1);
    for (int n : {250, 4500}) {
        for (int clients : {10, 15, 40, 160}) {
            if ((quick && clients > 10) || (one && n > 1000)) continue;
            int spe = (n + B - 1) / B, steps = 10 * spe;
            std::vector<float> X((size_t)10 * n * IN), server(P);
            std::vector<int> Y((size_t)clients * n), order((size_t)clients * steps * ORD, 0);
            std::uniform_real_distribution<float> u(-1, 1);
            for (auto& x : X) x = u(rng);
            for (int c = 0; c < clients; c++) for (int i = 0; i < n; i++) Y[(size_t)c * n + i] = (5 * c + (int)(rng() % 5)) % 10;
            for (int i = 0; i < P; i++) server[i] = u(rng) * (i < HID * IN + HID ? 1 / 28.f : 0.1f);
            std::vector<int> perm(n);
            for (int c = 0; c < clients; c++) for (int e = 0; e < 10; e++) {
                std::iota(perm.begin(), perm.end(), 0); std::shuffle(perm.begin(), perm.end(), rng);
                for (int s = 0; s < spe; s++) {
                    int* o = &order[((size_t)c * steps + e * spe + s) * ORD];
                    int cnt = std::min(B, n - s * B);
                    for (int i = 0; i < cnt; i++) o[i] = perm[s * B + i];
                    o[63] = cnt;
                }
            }
            float *dX, *dS, *dO, *dL, *dA; int *dY, *dOrd;
            CK(cudaMalloc(&dX, (size_t)clients * n * IN * 4)); CK(cudaMalloc(&dS, P * 4)); CK(cudaMalloc(&dA, P * 4)); CK(cudaMalloc(&dO, (size_t)clients * P * 4));
            CK(cudaMalloc(&dL, (size_t)clients * steps * 4)); CK(cudaMalloc(&dY, Y.size() * 4)); CK(cudaMalloc(&dOrd, order.size() * 4));
            for (int c = 0; c < clients; c += 5) CK(cudaMemcpy(dX + (size_t)c * n * IN, X.data() + (c % 10 && c + 10 > clients ? X.size() / 2 : 0), X.size() / 2 * 4, cudaMemcpyHostToDevice));
            CK(cudaMemcpy(dS, server.data(), P * 4, cudaMemcpyHostToDevice));
            CK(cudaMemcpy(dY, Y.data(), Y.size() * 4, cudaMemcpyHostToDevice));
            CK(cudaMemcpy(dOrd, order.data(), order.size() * 4, cudaMemcpyHostToDevice));
            int* dOrdUse = dOrd;
            auto launch = [&](Kernel k, int st, float* l) {
                cudaLaunchConfig_t c; cudaLaunchAttribute at[1]; config(clients, c, at);
                CK(cudaLaunchKernelEx(&c, k, (const float*)dS, (const float*)dX, (const int*)dY, (const int*)(l ? dOrd : dOrdUse), n, st, dO, l));
                average<<<(P + 255) / 256, 256>>>(dO, clients, P, dA);
                CK(cudaGetLastError());
            };
            if (clients == 10 && !one) { // correctness: client 3 after 1, 10, 50 steps. order's stride is `steps`: use a copy.
                for (auto& v : variants) if (v.full) for (int st : {1, 10, 50}) {
                    std::vector<int> o2((size_t)clients * st * ORD);
                    for (int c = 0; c < clients; c++) std::copy_n(&order[(size_t)c * steps * ORD], st * ORD, &o2[(size_t)c * st * ORD]);
                    int* dO2; CK(cudaMalloc(&dO2, o2.size() * 4)); CK(cudaMemcpy(dO2, o2.data(), o2.size() * 4, cudaMemcpyHostToDevice));
                    std::vector<float> got(P), again(P), ls(st);
                    for (int rep = 0; rep < 2; rep++) {
                        CK(cudaMemset(dO, 0xff, (size_t)clients * P * 4));
                        cudaLaunchConfig_t c; cudaLaunchAttribute at[1]; config(clients, c, at);
                        CK(cudaLaunchKernelEx(&c, v.k, (const float*)dS, (const float*)dX, (const int*)dY, (const int*)dO2, n, st, dO, dL));
                        CK(cudaDeviceSynchronize());
                        CK(cudaMemcpy((rep ? again : got).data(), dO + (size_t)3 * P, P * 4, cudaMemcpyDeviceToHost));
                    }
                    CK(cudaMemcpy(ls.data(), dL + (size_t)3 * st, st * 4, cudaMemcpyDeviceToHost));
                    std::vector<double> rd(server.begin(), server.end()), ld, lf; std::vector<float> rf = server;
                    reference(rd, &X[(size_t)3 * n * IN], &Y[(size_t)3 * n], &o2[(size_t)3 * st * ORD], st, ld);
                    reference(rf, &X[(size_t)3 * n * IN], &Y[(size_t)3 * n], &o2[(size_t)3 * st * ORD], st, lf);
                    double e1 = 0, e2 = 0, nn = 0, dl = 0, dlf = 0;
                    for (int i = 0; i < P; i++) { e1 += pow(got[i] - rd[i], 2); e2 += pow(rf[i] - rd[i], 2); nn += pow(rd[i] - server[i], 2); }
                    for (int i = 0; i < st; i++) { dl = std::max(dl, fabs(ls[i] - ld[i])); dlf = std::max(dlf, fabs(lf[i] - ld[i])); }
                    printf("check n=%d %-8s %3d steps: change's error %.2e (CPU f32: %.2e), loss error %.1e (CPU f32 %.1e), last loss %.5f, same bits %s\n",
                           n, v.name, st, sqrt(e1 / nn), sqrt(e2 / nn), dl, dlf, ls[st - 1], memcmp(got.data(), again.data(), P * 4) ? "NO" : "yes");
                    CK(cudaFree(dO2));
                }
            }
            cudaEvent_t a, b; CK(cudaEventCreate(&a)); CK(cudaEventCreate(&b));
            int* dOrd2; CK(cudaMalloc(&dOrd2, order.size() * 4)); dOrdUse = dOrd2;
            if (!one) { // shuffled orders made on the device: check they are permutations
                launch_shuffle(7, clients, 10, n, B, dOrd2); std::vector<int> o(order.size()); CK(cudaMemcpy(o.data(), dOrd2, o.size() * 4, cudaMemcpyDeviceToHost)); bool ok = true;
                for (int c = 0; c < clients * 10; c++) { std::vector<char> seen(n, 0); int total = 0; for (int s = 0; s < spe; s++) { const int* r = &o[((size_t)c * spe + s) * ORD]; for (int i = 0; i < r[63]; i++) { ok &= !seen[r[i]]; seen[r[i]] = 1; total++; } } ok &= total == n; }
                float best = 1e9; for (int r = 0; r < 5; r++) { CK(cudaEventRecord(a)); launch_shuffle(r, clients, 10, n, B, dOrd2); CK(cudaEventRecord(b)); CK(cudaEventSynchronize(b)); float t; CK(cudaEventElapsedTime(&t, a, b)); best = std::min(best, t); }
                printf("shuffle on the device n=%d clients=%d: %s, %.4f ms\n", n, clients, ok ? "permutations" : "WRONG", best);
            }
            for (auto& v : variants) {
                if (!v.full && (clients > 10)) continue;
                int reps = n > 1000 ? 5 : 20;
                double best = 1e9, wall = 1e9, sum = 0;
                for (int r = one ? reps + 1 : 0; r < reps + 2; r++) {
                    CK(cudaDeviceSynchronize());
                    double t0 = now();
                    CK(cudaEventRecord(a)); launch_shuffle(r, clients, 10, n, B, dOrd2); launch(v.k, steps, nullptr); CK(cudaEventRecord(b)); CK(cudaEventSynchronize(b));
                    double t1 = now() - t0; float ms; CK(cudaEventElapsedTime(&ms, a, b));
                    if (r >= 2) { best = std::min(best, (double)ms); wall = std::min(wall, t1 * 1e3); sum += ms; }
                }
                printf("mlp n=%d clients=%d %-22s round %.4f ms (mean %.4f, host wall %.4f), %.3f us a step, %.2f TFLOP/s\n", n, clients, v.name, best, sum / reps, wall,
                       best * 1e3 / steps, 2.0 * (2.0 * HID * IN + 3 * HID * OUT) * n * 10 * clients / (best * 1e-3) * 1e-12);
            }
            for (void* p : {(void*)dX, (void*)dS, (void*)dO, (void*)dL, (void*)dY, (void*)dOrd, (void*)dA, (void*)dOrd2}) CK(cudaFree(p));
        }
    }
}
#else
template __global__ void mlp_round<1, 0>(const float*, const float*, const int*, const int*, int, int, float*, float*);
#endif
