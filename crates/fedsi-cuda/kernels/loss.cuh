// Losses of a chunk and their gradient in the outputs. A warp takes one sample under one of HEADS heads; `share` is
// 1 / (samples of the batch * HEADS). Losses go to losses[row * HEADS + head].

// -log softmax(outputs)[class]. Exponentials below the smallest normal number are 0, as on the CPU.
template <int WIDTH, int HEADS>
__device__ __forceinline__ void cross_entropy(const float* outputs, float* gradient, const int* classes, const int* rows,
                                              float* losses, int first_row, int samples, float share) {
    typedef Interleaved<WIDTH * HEADS> Layout;
    constexpr float LOG_OF_SMALLEST = -87.33654475f;
    for (int item = warp_index(); item < SAMPLES * HEADS; item += WARPS) {
        const int sample = item % SAMPLES;
        const int head = item / SAMPLES;
        const bool real = sample < samples;
        const int label = real ? __ldg(classes + __ldg(rows + first_row + sample)) : 0;
        float top = __int_as_float(0xff800000);
        for (int i = lane_index(); i < WIDTH; i += 32) {
            top = fmaxf(top, outputs[Layout::at(sample, head * WIDTH + i)]);
        }
        top = warp_max(top);
        float total = 0.0f;
        for (int i = lane_index(); i < WIDTH; i += 32) {
            int at = Layout::at(sample, head * WIDTH + i);
            float logit = outputs[at] - top;
            float exponential = logit < LOG_OF_SMALLEST ? 0.0f : expf(logit);
            gradient[at] = exponential;
            total += exponential;
        }
        total = warp_sum(total);
        for (int i = lane_index(); i < WIDTH; i += 32) {
            int at = Layout::at(sample, head * WIDTH + i);
            float probability = gradient[at] / total;
            gradient[at] = real ? (probability - (i == label ? 1.0f : 0.0f)) * share : 0.0f;
        }
        if (real && lane_index() == 0) {
            float loss = top + logf(total) - outputs[Layout::at(sample, head * WIDTH + label)];
            __stcg(losses + (first_row + sample) * HEADS + head, loss * share);
        }
    }
}

// Sum of squared errors times half a precision.
template <int WIDTH, int HEADS>
__device__ __forceinline__ void gaussian(const float* outputs, float* gradient, const float* targets, const int* rows,
                                         float* losses, int first_row, int samples, float share, float precision) {
    typedef Interleaved<WIDTH * HEADS> Layout;
    for (int item = warp_index(); item < SAMPLES * HEADS; item += WARPS) {
        const int sample = item % SAMPLES;
        const int head = item / SAMPLES;
        const bool real = sample < samples;
        const size_t row = real ? __ldg(rows + first_row + sample) : 0;
        float total = 0.0f;
        for (int i = lane_index(); i < WIDTH; i += 32) {
            int at = Layout::at(sample, head * WIDTH + i);
            float residual = outputs[at] - __ldg(targets + row * WIDTH + i);
            total = fmaf(residual, residual, total);
            gradient[at] = real ? residual * (share * precision) : 0.0f;
        }
        total = warp_sum(total);
        if (real && lane_index() == 0) {
            __stcg(losses + (first_row + sample) * HEADS + head, 0.5f * precision * total * share);
        }
    }
}

// The batch's mean loss, by one warp: sums of every 32nd, then over the warp.
__device__ __forceinline__ void sum_losses(const float* losses, int count, float* result) {
    float sum = 0.0f;
    for (int i = lane_index(); i < count; i += 32) {
        sum += __ldcg(losses + i);
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) {
        *result = sum;
    }
}
