// Hidden units, logits, loss and the gradient back to the hidden units, by the product warps: four threads a sample, each
// with four of the block's hidden units and a quarter of the classes.
//
// A block has only its own units' part of the logits. It sends that part to all blocks of the cluster; each then adds the
// parts up in the same order, so all have the same bits.

// The sum over a sample's four threads, in all four.
__device__ __forceinline__ float sum_of_four(float value) {
    value += __shfl_xor_sync(ALL_LANES, value, 1);
    value += __shfl_xor_sync(ALL_LANES, value, 2);
    return value;
}

// A thread's draws for the first layer at a step, to where only it reads them.
__device__ __forceinline__ void draw_units(Shared& shared, int step) {
    const int thread = thread_index();
    const int unit = cluster_rank() * UNITS + thread % 4 * 4;
    if (thread / 4 >= BATCH) {
        return;
    }
    // Four draws have one counter; the thread's four start at a counter's first if the units are a multiple of 4.
    const int start = thread / 4 * HIDDEN + unit;
    const unsigned long long key = shared.noise_key;
    float4 four = four_normals(key, step, FIRST_LAYER, start / 4);
    if (HIDDEN % 4 != 0) {
        float4 next = four_normals(key, step, FIRST_LAYER, start / 4 + 1);
        if (start & 1) {
            four = make_float4(four.y, four.z, four.w, next.x);
            next = make_float4(next.y, next.z, next.w, 0.0f);
        }
        if (start & 2) {
            four = make_float4(four.z, four.w, next.x, next.y);
        }
    }
    // Units that are padding stay 0.
    four.x = unit < HIDDEN ? four.x : 0.0f;
    four.y = unit + 1 < HIDDEN ? four.y : 0.0f;
    four.z = unit + 2 < HIDDEN ? four.z : 0.0f;
    four.w = unit + 3 < HIDDEN ? four.w : 0.0f;
    *(float4*)(shared.unit_draws + 4 * thread) = four;
}

// Four of the block's hidden units for a sample, after the ReLU.
__device__ __forceinline__ void hidden_units(float (&hidden)[4], const Shared& shared, int sample, int quarter, int step) {
    float4 bias = *(const float4*)(shared.bias1 + 4 * quarter);
    hidden[0] = bias.x;
    hidden[1] = bias.y;
    hidden[2] = bias.z;
    hidden[3] = bias.w;
#pragma unroll
    for (int warp = 0; warp < PRODUCT_WARPS; warp++) {
        const float* row = shared.partial + (warp * BATCH + sample) * PARTIAL_ROW;
        float4 part = *(const float4*)(row + 4 * quarter);
        hidden[0] += part.x;
        hidden[1] += part.y;
        hidden[2] += part.z;
        hidden[3] += part.w;
    }
    if (WEIGHT_NOISE) {
        mbarrier_wait(shared_address(&shared.noise), step & 1);
        float norm = shared.input_norms[sample];
        float4 draws = *(const float4*)(shared.unit_draws + sample * UNITS + 4 * quarter);
        hidden[0] += norm * draws.x;
        hidden[1] += norm * draws.y;
        hidden[2] += norm * draws.z;
        hidden[3] += norm * draws.w;
    }
#pragma unroll
    for (int unit = 0; unit < 4; unit++) {
        hidden[unit] = fmaxf(hidden[unit], 0.0f);
    }
}

// Column `column` of what is exchanged: a class's logit, then |hidden|^2 if the head has noise; this thread's part.
__device__ __forceinline__ float exchanged_value(const float (&hidden)[4], const Shared& shared, int quarter, int column) {
    if (column < CLASSES) {
        float4 weight = *(const float4*)(shared.weight2 + column * UNITS + 4 * quarter);
        return hidden[0] * weight.x + hidden[1] * weight.y + hidden[2] * weight.z + hidden[3] * weight.w;
    }
    if (HEAD_NOISE && column == CLASSES) {
        return hidden[0] * hidden[0] + hidden[1] * hidden[1] + hidden[2] * hidden[2] + hidden[3] * hidden[3];
    }
    return 0.0f;
}

// Sends the block's part of a sample's logits to all blocks; each of the four threads serves two of them.
__device__ __forceinline__ void send_logits(
    const float (&hidden)[4], const Shared& shared, int sample, bool real, int quarter, int rank
) {
    unsigned int remote[2];
    unsigned int remote_barrier[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int block = quarter + 4 * i < CLUSTER ? quarter + 4 * i : rank;
        remote[i] = address_in_block(shared_address(shared.logits + (rank * BATCH + sample) * LOGIT_ROW), block);
        remote_barrier[i] = address_in_block(shared_address(&shared.exchanged), block);
    }
#pragma unroll
    for (int column = 0; column < LOGIT_ROW; column += 4) {
        float values[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            values[i] = sum_of_four(exchanged_value(hidden, shared, quarter, column + i));
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (real && quarter + 4 * i < CLUSTER) {
                store4_in_block(remote[i] + column * sizeof(float), values, remote_barrier[i]);
            }
        }
    }
}

// The sum of all blocks' parts of a column.
__device__ __forceinline__ float received_sum(const Shared& shared, int sample, int column) {
    float sum = 0.0f;
#pragma unroll
    for (int block = 0; block < CLUSTER; block++) {
        sum += shared.logits[(block * BATCH + sample) * LOGIT_ROW + column];
    }
    return sum;
}

// From the sums of the first layer to the gradient in them. Writes `hidden`, `logit_gradient`, `losses` and
// `hidden_gradient`.
__device__ __forceinline__ void head(Shared& shared, const Batch& batch, float deviation, int step) {
    const int thread = thread_index();
    const int rank = cluster_rank();
    const int lane = thread % WARP;
    const int quarter = thread % 4;
    // Threads without a sample repeat the last one's, so that all lanes shuffle; they write nothing.
    const bool real = thread / 4 < BATCH;
    const int sample = real ? thread / 4 : BATCH - 1;

    float hidden[4];
    hidden_units(hidden, shared, sample, quarter, step);
    if (TRAIN_HEAD && real) {
        float4 units = make_float4(hidden[0], hidden[1], hidden[2], hidden[3]);
        *(float4*)(shared.hidden + sample * UNITS + 4 * quarter) = units;
    }
    send_logits(hidden, shared, sample, real, quarter, rank);
    if (WEIGHT_NOISE) {
        draw_units(shared, step + 1); // while the others' logits are on their way
    }
    mbarrier_wait(shared_address(&shared.exchanged), step & 1);

    const float minus_infinity = __int_as_float(0xff800000);
    float logit[THREAD_CLASSES];
    float noise[THREAD_CLASSES]; // sigma e
    float norm = HEAD_NOISE ? sqrtf(1.0f + received_sum(shared, sample, CLASSES)) : 1.0f;
    float largest = minus_infinity;
#pragma unroll
    for (int i = 0; i < THREAD_CLASSES; i++) {
        int label = quarter + 4 * i;
        logit[i] = minus_infinity;
        noise[i] = 0.0f;
        if (label < CLASSES) {
            logit[i] = shared.bias2[label] + received_sum(shared, sample, label);
            if (HEAD_NOISE) {
                noise[i] = deviation * shared.logit_draws[sample * CLASSES + label];
                logit[i] += norm * noise[i];
            }
        }
        largest = fmaxf(largest, logit[i]);
    }
    largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 2));

    float exponential[THREAD_CLASSES];
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < THREAD_CLASSES; i++) {
        exponential[i] = expf(logit[i] - largest);
        total += exponential[i];
    }
    total = sum_of_four(total);

    // Mean over the batch. Places beyond a short batch have another sample, which counts nothing, whatever its values.
    const bool counts = sample < batch.count;
    const float share = __fdividef(1.0f, (float)batch.count);
    const float inverse = __fdividef(1.0f, total);
    const int truth = batch.labels[sample];
    float gradient[THREAD_CLASSES];
#pragma unroll
    for (int i = 0; i < THREAD_CLASSES; i++) {
        int label = quarter + 4 * i;
        float slope = (exponential[i] * inverse - (label == truth ? 1.0f : 0.0f)) * share;
        gradient[i] = counts ? slope : 0.0f;
        if (TRAIN_HEAD && real && label < CLASSES) {
            shared.logit_gradient[sample * LOGIT_ROW + label] = gradient[i];
        }
        if (real && label == truth) {
            shared.losses[sample] = counts ? (logf(total) + largest - logit[i]) * share : 0.0f;
        }
    }

    float hidden_gradient[4] = {};
#pragma unroll
    for (int label = 0; label < CLASSES; label++) {
        float slope = __shfl_sync(ALL_LANES, gradient[label / 4], (lane & ~3) | (label % 4));
        float4 weight = *(const float4*)(shared.weight2 + label * UNITS + 4 * quarter);
        hidden_gradient[0] += slope * weight.x;
        hidden_gradient[1] += slope * weight.y;
        hidden_gradient[2] += slope * weight.z;
        hidden_gradient[3] += slope * weight.w;
    }
    if (HEAD_NOISE) {
        // The noise grows with |(hidden, 1)|: d(sigma |(h, 1)| e) / dh = sigma e h / |(h, 1)|.
        float pull = 0.0f;
#pragma unroll
        for (int i = 0; i < THREAD_CLASSES; i++) {
            pull += gradient[i] * noise[i];
        }
        pull = sum_of_four(pull) / norm;
#pragma unroll
        for (int unit = 0; unit < 4; unit++) {
            hidden_gradient[unit] += pull * hidden[unit];
        }
    }
#pragma unroll
    for (int unit = 0; unit < 4; unit++) {
        if (real) {
            int place = gradient_place(sample, 4 * quarter + unit);
            shared.hidden_gradient[place] = hidden[unit] > 0.0f ? hidden_gradient[unit] : 0.0f;
        }
    }
}
