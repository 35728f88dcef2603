// The eighth warp: batches, random draws, the biases and the head's weights. All of it happens while the product warps
// multiply.

// A parameter with its moments and its prior.
struct Parameter {
    float value;
    float first;
    float second;
    float prior_weight;
    float prior_mean;
};

__device__ __forceinline__ Parameter load_parameter(const Job& job, int place, bool real) {
    Parameter parameter = {};
    if (real) {
        parameter.value = job.values[place];
        if (PRIOR) {
            parameter.prior_weight = job.prior_weight[place];
            parameter.prior_mean = job.prior_mean[place];
        }
    }
    return parameter;
}

__device__ __forceinline__ void step_parameter(Parameter& parameter, float gradient, const Adam& adam) {
    if (PRIOR) {
        gradient += parameter.prior_weight * (parameter.value - parameter.prior_mean);
    }
    adam_step(adam, gradient, parameter.value, parameter.first, parameter.second);
}

// A step's batch on its way from global to shared memory: rows first, labels once the rows are there, each asked for well
// before it is needed.
struct ComingBatch {
    static constexpr int PLACES = divide_up(SAMPLE_TILES * TILE, WARP); // of a lane
    int rows[PLACES];
    int labels[PLACES];
    int count;
    float2 correction;

    __device__ __forceinline__ void load_rows(const Job& job, const float2* corrections, int lane, int step) {
        // Beyond the last step: any batch that exists; nobody uses it.
        const int known = step < job.steps ? step : job.steps - 1;
        const int* entries = job.batches + (size_t)known * job.batch_stride;
#pragma unroll
        for (int i = 0; i < PLACES; i++) {
            int place = lane + i * WARP;
            rows[i] = place < BATCH ? entries[place] : 0;
        }
        count = entries[job.batch_stride - 1];
        correction = corrections[known];
    }

    __device__ __forceinline__ void load_labels(const Job& job) {
        const int* all = (const int*)job.targets;
#pragma unroll
        for (int i = 0; i < PLACES; i++) {
            labels[i] = all[rows[i]];
        }
    }

    __device__ __forceinline__ void store(Batch& batch, float beta1, float first_scale, int lane) const {
#pragma unroll
        for (int i = 0; i < PLACES; i++) {
            int place = lane + i * WARP;
            if (place < SAMPLE_TILES * TILE) {
                batch.rows[place] = rows[i];
                batch.labels[place] = labels[i];
            }
        }
        if (lane == 0) {
            batch.count = count;
            // See `Adam`. The first step's scale is 1 / sqrt(1 - beta2) to f32's accuracy; 1 - beta2 in f32 would not be.
            batch.rate = correction.x * (1.0f - beta1);
            batch.scale = correction.y / first_scale;
        }
    }
};

// Starts the copies of a half of a batch: each block fetches some of the rows, for all blocks of the cluster.
__device__ __forceinline__ void copy_half(Shared& shared, const float* inputs, int rank, int lane, int step, int half) {
    const Batch& batch = shared.batches[step & 1];
    const int bytes = half_features(half) * (int)sizeof(float);
    const unsigned int barrier = shared_address(&shared.full[half]);
    if (lane == 0) {
        mbarrier_expect(barrier, BATCH * bytes);
    }
    __syncwarp();
    for (int place = rank + CLUSTER * lane; place < BATCH; place += CLUSTER * WARP) {
        const float* from = inputs + (size_t)batch.rows[place] * INPUTS + half * HALF;
        unsigned int to = shared_address(shared.inputs + place * ROW + half * HALF);
        copy_to_blocks(to, from, bytes, barrier, (1 << CLUSTER) - 1);
    }
}

// sigma |(x, 1)| of the rows that this block fetched, for all blocks: the noise in the first layer's outputs is that times a
// draw. The batch has to be there.
__device__ __forceinline__ void send_input_norms(Shared& shared, float deviation, int rank, int lane) {
#pragma unroll 2
    for (int place = rank; place < BATCH; place += CLUSTER) {
        const float4* row = (const float4*)(shared.inputs + place * ROW);
        float sum = 0.0f;
#pragma unroll
        for (int i = lane; i < INPUTS / 4; i += WARP) {
            float4 x = row[i];
            sum = fmaf(x.x, x.x, fmaf(x.y, x.y, fmaf(x.z, x.z, fmaf(x.w, x.w, sum))));
        }
#pragma unroll
        for (int distance = WARP / 2; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(ALL_LANES, sum, distance);
        }
        if (lane < CLUSTER) {
            unsigned int remote = address_in_block(shared_address(shared.input_norms + place), lane);
            unsigned int barrier = address_in_block(shared_address(&shared.noise), lane);
            store_in_block(remote, deviation * sqrtf(1.0f + sum), barrier);
        }
    }
}

// The head's draws are the same in all blocks; each block makes some of them and sends them to all. Four have one counter.
constexpr int LOGIT_COUNTERS = HEAD_NOISE ? divide_up(BATCH * CLASSES, 4) : 0;
constexpr int LANE_COUNTERS = HEAD_NOISE ? divide_up(LOGIT_COUNTERS, CLUSTER * WARP) : 1;

__device__ __forceinline__ int logit_counter(int rank, int lane, int i) {
    return rank + CLUSTER * (lane + WARP * i);
}

// This lane's share of the head's draws at a step.
__device__ __forceinline__ void draw_logits(
    float (&draws)[LANE_COUNTERS][4], unsigned long long key, int rank, int lane, int step
) {
#pragma unroll
    for (int i = 0; i < LANE_COUNTERS; i++) {
        float4 four = four_normals(key, step, HEAD_LAYER, logit_counter(rank, lane, i));
        draws[i][0] = four.x;
        draws[i][1] = four.y;
        draws[i][2] = four.z;
        draws[i][3] = four.w;
    }
}

__device__ __forceinline__ void send_logit_draws(
    Shared& shared, const float (&draws)[LANE_COUNTERS][4], int rank, int lane
) {
#pragma unroll
    for (int i = 0; i < LANE_COUNTERS; i++) {
        int counter = logit_counter(rank, lane, i);
        for (int block = 0; block < CLUSTER && counter < LOGIT_COUNTERS; block++) {
            unsigned int remote = address_in_block(shared_address(shared.logit_draws + 4 * counter), block);
            store4_in_block(remote, draws[i], address_in_block(shared_address(&shared.noise), block));
        }
    }
}

// The gradient of the head's weights from unit lane % 16: the classes of this half of the warp.
__device__ __forceinline__ void weight2_gradient(float (&gradient)[LANE_CLASSES], const Shared& shared, int lane) {
    const int unit = lane % UNITS;
    const int half = lane / UNITS;
    // Each half of the warp takes every other sample, for all classes: fewer and wider loads than half of the classes each.
    float sum[LOGIT_ROW] = {};
#pragma unroll 5
    for (int sample = half; sample < BATCH; sample += 2) {
        float hidden = shared.hidden[sample * UNITS + unit];
#pragma unroll
        for (int column = 0; column < LOGIT_ROW; column += 4) {
            float4 slope = *(const float4*)(shared.logit_gradient + sample * LOGIT_ROW + column);
            sum[column] += hidden * slope.x;
            sum[column + 1] += hidden * slope.y;
            sum[column + 2] += hidden * slope.z;
            sum[column + 3] += hidden * slope.w;
        }
    }
#pragma unroll
    for (int column = 0; column < 2 * LANE_CLASSES; column++) {
        sum[column] += __shfl_xor_sync(ALL_LANES, sum[column], UNITS);
    }
#pragma unroll
    for (int i = 0; i < LANE_CLASSES; i++) {
        gradient[i] = half == 0 ? sum[i] : sum[LANE_CLASSES + i];
    }
}

// The batch's mean loss.
__device__ __forceinline__ void write_loss(const Shared& shared, float* to, int lane) {
    float sum = 0.0f;
    for (int sample = lane; sample < BATCH; sample += WARP) {
        sum += shared.losses[sample];
    }
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(ALL_LANES, sum, distance);
    }
    if (lane == 0) {
        *to = sum;
    }
}

// Everything that the helper warp does in a training. Lane l has unit l % 16 and half of the classes.
__device__ __forceinline__ void help(
    Shared& shared, const Job job, const float2* corrections, const Settings& settings, int rank, int lane
) {
    const int unit = lane % UNITS;
    const int own_unit = rank * UNITS + unit;
    const int first_class = lane / UNITS * LANE_CLASSES;
    Parameter bias1 = load_parameter(job, BIAS1 + own_unit, own_unit < HIDDEN);
    Parameter bias2 = load_parameter(job, BIAS2 + lane, lane < CLASSES);
    Parameter weight2[LANE_CLASSES];
#pragma unroll
    for (int i = 0; i < LANE_CLASSES; i++) {
        int label = first_class + i;
        weight2[i] = load_parameter(job, WEIGHT2 + label * HIDDEN + own_unit, own_unit < HIDDEN && label < CLASSES);
    }

    float draws[LANE_COUNTERS][4];
    if (HEAD_NOISE) {
        draw_logits(draws, job.noise_key, rank, lane, 0);
    }
    const float first_scale = corrections[0].y;
    ComingBatch coming;
    for (int step = 0; step < 2; step++) {
        coming.load_rows(job, corrections, lane, step);
        coming.load_labels(job);
        coming.store(shared.batches[step], settings.beta1, first_scale, lane);
    }
    __syncwarp();
    for (int half = 0; half < HALVES; half++) {
        copy_half(shared, job.inputs, rank, lane, 0, half);
    }

    for (int step = 0; step < job.steps; step++) {
        const bool more = step + 1 < job.steps;
        if (WEIGHT_NOISE) {
            if (lane == 0) {
                const int values = BATCH + 4 * LOGIT_COUNTERS;
                mbarrier_expect(shared_address(&shared.noise), values * (int)sizeof(float));
            }
            // Once the batch is there, nobody reads the last step's noise any more (`mlp.cu`).
            for (int half = 0; half < HALVES; half++) {
                mbarrier_wait(shared_address(&shared.full[half]), step & 1);
            }
            if (HEAD_NOISE) {
                send_logit_draws(shared, draws, rank, lane);
            }
            send_input_norms(shared, settings.weight_noise, rank, lane);
        }
        if (lane == 0) {
            mbarrier_expect(shared_address(&shared.exchanged), CLUSTER * BATCH * LOGIT_ROW * (int)sizeof(float));
        }
        barrier_arrive(SUMS_AND_HEAD, THREADS);
        barrier_wait(HEAD_GRADIENTS, THREADS);

        const Batch& batch = shared.batches[step & 1];
        const Adam adam = {batch.rate, batch.scale, settings.beta1, settings.beta2, settings.epsilon};
        coming.load_rows(job, corrections, lane, step + 2);
        if (HEAD_NOISE) {
            draw_logits(draws, job.noise_key, rank, lane, step + 1);
        }
        mbarrier_wait(shared_address(&shared.used[0]), step & 1);
        if (more) {
            copy_half(shared, job.inputs, rank, lane, step + 1, 0);
        }
        coming.load_labels(job);

        if (TRAIN_HEAD) {
            float gradient[LANE_CLASSES];
            weight2_gradient(gradient, shared, lane);
#pragma unroll
            for (int i = 0; i < LANE_CLASSES; i++) {
                step_parameter(weight2[i], gradient[i], adam);
                if (first_class + i < CLASSES) {
                    shared.weight2[(first_class + i) * UNITS + unit] = weight2[i].value;
                }
            }
        }

        if (HALVES == 2) {
            mbarrier_wait(shared_address(&shared.used[1]), step & 1);
            if (more) {
                copy_half(shared, job.inputs, rank, lane, step + 1, 1);
            }
        }

        if (TRAIN_HEAD && lane < CLASSES) {
            float gradient = 0.0f;
#pragma unroll 10
            for (int sample = 0; sample < BATCH; sample++) {
                gradient += shared.logit_gradient[sample * LOGIT_ROW + lane];
            }
            step_parameter(bias2, gradient, adam);
            shared.bias2[lane] = bias2.value;
        }
        if (lane < UNITS) {
            float gradient = 0.0f;
#pragma unroll 10
            for (int sample = 0; sample < BATCH; sample++) {
                gradient += shared.hidden_gradient[gradient_place(sample, unit)];
            }
            step_parameter(bias1, gradient, adam);
            shared.bias1[unit] = bias1.value;
        }
        if (rank == 0 && job.losses) {
            write_loss(shared, job.losses + step, lane);
        }
        coming.store(shared.batches[step & 1], settings.beta1, first_scale, lane);
        __syncwarp();
    }

    if (own_unit < HIDDEN) {
        if (lane < UNITS) {
            job.values[BIAS1 + own_unit] = bias1.value;
        }
        if (TRAIN_HEAD) {
#pragma unroll
            for (int i = 0; i < LANE_CLASSES; i++) {
                int label = first_class + i;
                if (label < CLASSES) {
                    job.values[WEIGHT2 + label * HIDDEN + own_unit] = weight2[i].value;
                }
            }
        }
    }
    if (TRAIN_HEAD && rank == 0 && lane < CLASSES) {
        job.values[BIAS2 + lane] = bias2.value;
    }
}
