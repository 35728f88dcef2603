// The other layers of a network whose parameters are normals: convolutions with drawn weights, backward passes, losses.
//
// Gradients are [sample of the chunk][value].

// A convolution's weights and biases of this step, drawn by every block for itself.
__device__ __forceinline__ void draw_weights(const GaussianState& state, size_t at, int count, float* drawn, unsigned long long key,
                                             int step, int layer) {
    for (int block = thread_index(); block * 4 < count; block += THREADS) {
        const float4 four = four_normals(key, step, layer, block, GAUSSIAN_DRAWS);
        const float draws[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int p = block * 4 + q;
            if (p < count) {
                drawn[p] = fmaf(sqrtf(__ldcg(state.variance + at + p)), draws[q], __ldcg(state.mean + at + p));
            }
        }
    }
}

// Adds the chunk's part of the gradient in a convolution's weights and biases to the block's. A weight is one thread's, a bias
// one warp's, in every chunk.
template <class Shape>
__device__ __forceinline__ void convolution_part(const float* x, const float* dy, float* part, int samples, bool is_first) {
    constexpr int WEIGHTS = Shape::OUT * Shape::TAPS;
    for (int weight = thread_index(); weight < WEIGHTS; weight += THREADS) {
        const int out = weight / Shape::TAPS;
        const int channel = weight % Shape::TAPS / (Shape::KERNEL * Shape::KERNEL);
        const int tap = weight % (Shape::KERNEL * Shape::KERNEL);
        float sum = 0.0f;
        for (int s = 0; s < samples; s++) {
            const float* plane = x + (size_t)s * Shape::INPUTS + channel * Shape::HEIGHT * Shape::WIDTH;
            const float* slopes = dy + s * Shape::OUTPUTS + out * Shape::PIXELS;
#pragma unroll 1
            for (int row = 0; row < Shape::OUT_HEIGHT; row++) {
                const int line = row * Shape::STRIDE + tap / Shape::KERNEL - Shape::PADDING;
                if (line < 0 || line >= Shape::HEIGHT) {
                    continue;
                }
#pragma unroll 4
                for (int place = 0; place < Shape::OUT_WIDTH; place++) {
                    const int column = place * Shape::STRIDE + tap % Shape::KERNEL - Shape::PADDING;
                    if (column >= 0 && column < Shape::WIDTH) {
                        sum = fmaf(slopes[row * Shape::OUT_WIDTH + place], plane[line * Shape::WIDTH + column], sum);
                    }
                }
            }
        }
        __stcg(part + weight, is_first ? sum : __ldcg(part + weight) + sum);
    }
    for (int out = warp_index(); out < Shape::OUT; out += WARPS) {
        float sum = 0.0f;
        for (int i = lane_index(); i < samples * Shape::PIXELS; i += 32) {
            sum += dy[i / Shape::PIXELS * Shape::OUTPUTS + out * Shape::PIXELS + i % Shape::PIXELS];
        }
        sum = warp_sum(sum);
        if (lane_index() == 0) {
            __stcg(part + WEIGHTS + out, is_first ? sum : __ldcg(part + WEIGHTS + out) + sum);
        }
    }
}

// dx of a convolution: a thread takes an input.
template <class Shape>
__device__ __forceinline__ void convolution_backward(const float* drawn, const float* dy, float* dx, int samples) {
    for (int item = thread_index(); item < samples * Shape::INPUTS; item += THREADS) {
        const int s = item / Shape::INPUTS;
        const int input = item % Shape::INPUTS;
        const int channel = input / (Shape::HEIGHT * Shape::WIDTH);
        const int line = input % (Shape::HEIGHT * Shape::WIDTH) / Shape::WIDTH + Shape::PADDING;
        const int column = input % Shape::WIDTH + Shape::PADDING;
        float sum = 0.0f;
#pragma unroll 1
        for (int tap = 0; tap < Shape::KERNEL * Shape::KERNEL; tap++) {
            const int down = line - tap / Shape::KERNEL;
            const int across = column - tap % Shape::KERNEL;
            if (down < 0 || across < 0 || down % Shape::STRIDE != 0 || across % Shape::STRIDE != 0) {
                continue;
            }
            const int row = down / Shape::STRIDE;
            const int place = across / Shape::STRIDE;
            if (row >= Shape::OUT_HEIGHT || place >= Shape::OUT_WIDTH) {
                continue;
            }
            const float* slopes = dy + s * Shape::OUTPUTS + row * Shape::OUT_WIDTH + place;
            const float* weights = drawn + channel * Shape::KERNEL * Shape::KERNEL + tap;
#pragma unroll 4
            for (int out = 0; out < Shape::OUT; out++) {
                sum = fmaf(weights[out * Shape::TAPS], slopes[out * Shape::PIXELS], sum);
            }
        }
        dx[item] = sum;
    }
}

// Phase 2 of a convolution: the blocks' parts of the gradient, summed in order. A drawn weight moves with its variance as
// e / (2 s).
__device__ __forceinline__ void convolution_steps(const GaussianState& state, size_t at, int count, const float* parts, size_t stride,
                                                  int blocks, int turn, unsigned long long key, int layer, int number,
                                                  const GaussianStep& step) {
    for (int p = turn * THREADS + thread_index(); p < count; p += GROUP * THREADS) {
        float sum = 0.0f;
        for (int block = 0; block < blocks; block++) {
            sum += __ldcg(parts + block * stride + p);
        }
        const float draw = one_normal(key, number, layer, p, GAUSSIAN_DRAWS);
        const float deviation = sqrtf(__ldcg(state.variance + at + p));
        gaussian_update(state, at + p, sum, sum * half_over(draw, deviation), step);
    }
}

// dx of max pooling (by its winners) or average pooling: a thread takes an input and adds up the windows that hold it.
template <class Shape, bool MAXIMUM>
__device__ __forceinline__ void window_backward(const float* dy, float* dx, const int* winners, int samples) {
    for (int item = thread_index(); item < samples * Shape::INPUTS; item += THREADS) {
        const int s = item / Shape::INPUTS;
        const int input = item % Shape::INPUTS;
        const int channel = input / (Shape::HEIGHT * Shape::WIDTH);
        const int line = input % (Shape::HEIGHT * Shape::WIDTH) / Shape::WIDTH;
        const int column = input % Shape::WIDTH;
        const int first_row = line < Shape::KERNEL ? 0 : (line - Shape::KERNEL) / Shape::STRIDE + 1;
        const int first_place = column < Shape::KERNEL ? 0 : (column - Shape::KERNEL) / Shape::STRIDE + 1;
        const int last_row = min(line / Shape::STRIDE, Shape::OUT_HEIGHT - 1);
        const int last_place = min(column / Shape::STRIDE, Shape::OUT_WIDTH - 1);
        float sum = 0.0f;
        for (int row = first_row; row <= last_row; row++) {
            for (int place = first_place; place <= last_place; place++) {
                const int output = s * Shape::OUTPUTS + channel * Shape::PIXELS + row * Shape::OUT_WIDTH + place;
                if (MAXIMUM) {
                    sum += winners[output] == input ? dy[output] : 0.0f;
                } else {
                    sum += dy[output] * (1.0f / (Shape::KERNEL * Shape::KERNEL));
                }
            }
        }
        dx[item] = sum;
    }
}

// The gradient through an activation, in place; x and y are those of the chunk's first sample on.
template <int COUNT, class Function>
__device__ __forceinline__ void function_backward(const float* x, const float* y, float* gradient, int samples) {
    for (int i = thread_index(); i < samples * COUNT; i += THREADS) {
        gradient[i] = Function::gradient(gradient[i], x[i], y[i]);
    }
}

// The loss's gradient in a chunk's outputs, and each sample's share of the mean loss: a warp takes a sample.
template <int OUTPUTS, bool CROSS_ENTROPY>
__device__ __forceinline__ void drawn_loss(const float* outputs, float* gradient, const void* targets, const int* rows, float* losses,
                                           int first, int samples, float share, float precision) {
    constexpr float LOG_OF_SMALLEST = -87.33654475f;
    for (int s = warp_index(); s < samples; s += WARPS) {
        const float* own = outputs + (size_t)(first + s) * OUTPUTS;
        float* slopes = gradient + s * OUTPUTS;
        const size_t row = __ldg(rows + first + s);
        float loss;
        if (CROSS_ENTROPY) {
            const int label = __ldg(static_cast<const int*>(targets) + row);
            float top = own[0];
            for (int i = lane_index(); i < OUTPUTS; i += 32) {
                top = fmaxf(top, own[i]);
            }
            top = warp_max(top);
            float total = 0.0f;
            for (int i = lane_index(); i < OUTPUTS; i += 32) {
                total += own[i] - top < LOG_OF_SMALLEST ? 0.0f : expf(own[i] - top);
            }
            total = warp_sum(total);
            for (int i = lane_index(); i < OUTPUTS; i += 32) {
                const float exponential = own[i] - top < LOG_OF_SMALLEST ? 0.0f : expf(own[i] - top);
                slopes[i] = (exponential / total - (i == label ? 1.0f : 0.0f)) * share;
            }
            loss = top + logf(total) - own[label];
        } else {
            const float* wanted = static_cast<const float*>(targets) + row * OUTPUTS;
            float total = 0.0f;
            for (int i = lane_index(); i < OUTPUTS; i += 32) {
                const float residual = own[i] - __ldg(wanted + i);
                total = fmaf(residual, residual, total);
                slopes[i] = residual * (share * precision);
            }
            loss = 0.5f * precision * warp_sum(total);
        }
        if (lane_index() == 0) {
            __stcg(losses + first + s, loss * share);
        }
    }
}

// The batch's mean loss, by one warp: sums of every 32nd, then over the warp.
__device__ __forceinline__ void drawn_mean_loss(const float* losses, int count, float* result) {
    float sum = 0.0f;
    for (int i = lane_index(); i < count; i += 32) {
        sum += __ldcg(losses + i);
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) {
        *result = sum;
    }
}
