// Counter-based random draws: Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011) and normals of it.
//
// Draw `index` of layer `layer` at step `step` is component `index % 4` of the block with the counter
// (index / 4, layer, step, purpose), under the client's key: a draw does not depend on which thread makes it.

__device__ __forceinline__ uint4 philox(uint4 counter, unsigned long long key) {
    unsigned int key0 = (unsigned int)key;
    unsigned int key1 = (unsigned int)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned int high0 = __umulhi(0xD2511F53u, counter.x);
        unsigned int low0 = 0xD2511F53u * counter.x;
        unsigned int high1 = __umulhi(0xCD9E8D57u, counter.z);
        unsigned int low1 = 0xCD9E8D57u * counter.z;
        counter = make_uint4(high1 ^ counter.y ^ key0, low1, high0 ^ counter.w ^ key1, low0);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

// Four standard normals by Box and Muller's transform. A uniform is (bits + 1/2) / 2^32, which f32 rounds into (0, 1].
__device__ __forceinline__ float4 normals(uint4 bits) {
    const float unit = 2.3283064365386963e-10f;
    float radius0 = sqrtf(-2.0f * logf(fmaf((float)bits.x, unit, 0.5f * unit)));
    float radius1 = sqrtf(-2.0f * logf(fmaf((float)bits.z, unit, 0.5f * unit)));
    float sine0, cosine0, sine1, cosine1;
    sincospif(2.0f * unit * (float)bits.y, &sine0, &cosine0);
    sincospif(2.0f * unit * (float)bits.w, &sine1, &cosine1);
    return make_float4(radius0 * cosine0, radius0 * sine0, radius1 * cosine1, radius1 * sine1);
}

// Draws 4 block .. 4 block + 3 of a layer at a step.
__device__ __forceinline__ float4 four_normals(unsigned long long key, int step, int layer, int block, int purpose = 0) {
    return normals(philox(make_uint4(block, layer, step, purpose), key));
}

// Draw `index` of a layer at a step.
__device__ __forceinline__ float one_normal(unsigned long long key, int step, int layer, int index, int purpose = 0) {
    float4 all = four_normals(key, step, layer, index >> 2, purpose);
    return (index & 2) ? ((index & 1) ? all.w : all.z) : ((index & 1) ? all.y : all.x);
}
