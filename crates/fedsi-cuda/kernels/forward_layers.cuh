// Layers on a tile of rows, values as [row][channel][row of the image][column]: forward passes of any network.
//
// A block does a layer together; the caller puts barriers between layers. Parameters are those of the network's own order.

// A convolution's or pooling's geometry.
template <int CHANNELS_, int HEIGHT_, int WIDTH_, int OUT_, int KERNEL_, int STRIDE_, int PADDING_>
struct Windows {
    static constexpr int CHANNELS = CHANNELS_;
    static constexpr int HEIGHT = HEIGHT_;
    static constexpr int WIDTH = WIDTH_;
    static constexpr int OUT = OUT_;
    static constexpr int KERNEL = KERNEL_;
    static constexpr int STRIDE = STRIDE_;
    static constexpr int PADDING = PADDING_;
    static constexpr int OUT_HEIGHT = (HEIGHT + 2 * PADDING - KERNEL) / STRIDE + 1;
    static constexpr int OUT_WIDTH = (WIDTH + 2 * PADDING - KERNEL) / STRIDE + 1;
    static constexpr int PIXELS = OUT_HEIGHT * OUT_WIDTH;
    static constexpr int INPUTS = CHANNELS * HEIGHT * WIDTH;
    static constexpr int OUTPUTS = OUT * PIXELS;
    static constexpr int TAPS = CHANNELS * KERNEL * KERNEL;
};

// Outputs that a warp (linear) or a thread (convolution) works out together, from one load of the inputs.
constexpr int TOGETHER = 4;

// y = Function(x W' + b) for ROWS rows, of which `rows` are stored. Lanes share the sum over the inputs.
template <int ROWS, int INPUTS, int OUTPUTS, class Function>
__device__ __forceinline__ void forward_linear(const float* x, float* y, const float* weights, const float* bias, int rows) {
    const int lane = lane_index();
    for (int first = warp_index() * TOGETHER; first < OUTPUTS; first += WARPS * TOGETHER) {
        float sums[TOGETHER][ROWS];
#pragma unroll
        for (int q = 0; q < TOGETHER; q++) {
#pragma unroll
            for (int row = 0; row < ROWS; row++) {
                sums[q][row] = 0.0f;
            }
        }
#pragma unroll 2
        for (int input = lane; input < INPUTS; input += 32) {
            float values[ROWS];
#pragma unroll
            for (int row = 0; row < ROWS; row++) {
                values[row] = x[row * INPUTS + input];
            }
#pragma unroll
            for (int q = 0; q < TOGETHER; q++) {
                // Past the last output its weights are read once more, and the sum is not stored.
                const float weight = __ldg(weights + (size_t)min(first + q, OUTPUTS - 1) * INPUTS + input);
#pragma unroll
                for (int row = 0; row < ROWS; row++) {
                    sums[q][row] = fmaf(weight, values[row], sums[q][row]);
                }
            }
        }
#pragma unroll
        for (int q = 0; q < TOGETHER; q++) {
#pragma unroll
            for (int row = 0; row < ROWS; row++) {
                const float sum = warp_sum(sums[q][row]);
                if (lane == (q * ROWS + row) % 32 && first + q < OUTPUTS && row < rows) {
                    y[row * OUTPUTS + first + q] = Function::forward(sum + __ldg(bias + first + q));
                }
            }
        }
    }
}

// One output pixel of TOGETHER channels a thread.
template <class Shape, class Function>
__device__ __forceinline__ void forward_convolution(const float* x, float* y, const float* weights, const float* bias, int rows) {
    constexpr int GROUPS = ceil_div(Shape::OUT, TOGETHER);
    constexpr int ITEMS = GROUPS * Shape::PIXELS;
    for (int item = thread_index(); item < rows * ITEMS; item += THREADS) {
        const int row = item / ITEMS;
        const int first = item % ITEMS / Shape::PIXELS * TOGETHER;
        const int pixel = item % Shape::PIXELS;
        const int top = pixel / Shape::OUT_WIDTH * Shape::STRIDE - Shape::PADDING;
        const int left = pixel % Shape::OUT_WIDTH * Shape::STRIDE - Shape::PADDING;
        float sums[TOGETHER];
#pragma unroll
        for (int q = 0; q < TOGETHER; q++) {
            sums[q] = bias[min(first + q, Shape::OUT - 1)];
        }
        const float* filters[TOGETHER];
#pragma unroll
        for (int q = 0; q < TOGETHER; q++) {
            filters[q] = weights + min(first + q, Shape::OUT - 1) * Shape::TAPS;
        }
#pragma unroll 1
        for (int down = 0; down < Shape::CHANNELS * Shape::KERNEL; down++) {
            // A row of a channel's kernel.
            const int line = top + down % Shape::KERNEL;
            if (line < 0 || line >= Shape::HEIGHT) {
                continue;
            }
            const float* pixels = x + row * Shape::INPUTS + (down / Shape::KERNEL * Shape::HEIGHT + line) * Shape::WIDTH;
#pragma unroll 4
            for (int across = 0; across < Shape::KERNEL; across++) {
                const int column = left + across;
                const float value = column >= 0 && column < Shape::WIDTH ? pixels[column] : 0.0f;
#pragma unroll
                for (int q = 0; q < TOGETHER; q++) {
                    sums[q] = fmaf(value, filters[q][down * Shape::KERNEL + across], sums[q]);
                }
            }
        }
#pragma unroll
        for (int q = 0; q < TOGETHER; q++) {
            if (first + q < Shape::OUT) {
                y[row * Shape::OUTPUTS + (first + q) * Shape::PIXELS + pixel] = Function::forward(sums[q]);
            }
        }
    }
}

// `winners` receives which input of its row each output came from, the first of equals; may be null.
template <class Shape>
__device__ __forceinline__ void forward_max_pool(const float* x, float* y, int* winners, int rows) {
    for (int item = thread_index(); item < rows * Shape::OUTPUTS; item += THREADS) {
        const int row = item / Shape::OUTPUTS;
        const int output = item % Shape::OUTPUTS;
        const int pixel = output % Shape::PIXELS;
        const int corner = output / Shape::PIXELS * Shape::HEIGHT * Shape::WIDTH +
                           pixel / Shape::OUT_WIDTH * Shape::STRIDE * Shape::WIDTH + pixel % Shape::OUT_WIDTH * Shape::STRIDE;
        const float* image = x + row * Shape::INPUTS;
        int winner = corner;
        float best = image[corner];
#pragma unroll 4
        for (int tap = 1; tap < Shape::KERNEL * Shape::KERNEL; tap++) {
            const int place = corner + tap / Shape::KERNEL * Shape::WIDTH + tap % Shape::KERNEL;
            if (image[place] > best) {
                best = image[place];
                winner = place;
            }
        }
        y[item] = best;
        if (winners) {
            winners[item] = winner;
        }
    }
}

template <class Shape>
__device__ __forceinline__ void forward_average_pool(const float* x, float* y, int rows) {
    for (int item = thread_index(); item < rows * Shape::OUTPUTS; item += THREADS) {
        const int row = item / Shape::OUTPUTS;
        const int output = item % Shape::OUTPUTS;
        const int pixel = output % Shape::PIXELS;
        const int corner = output / Shape::PIXELS * Shape::HEIGHT * Shape::WIDTH +
                           pixel / Shape::OUT_WIDTH * Shape::STRIDE * Shape::WIDTH + pixel % Shape::OUT_WIDTH * Shape::STRIDE;
        const float* image = x + row * Shape::INPUTS;
        float sum = 0.0f;
#pragma unroll 4
        for (int tap = 0; tap < Shape::KERNEL * Shape::KERNEL; tap++) {
            sum += image[corner + tap / Shape::KERNEL * Shape::WIDTH + tap % Shape::KERNEL];
        }
        y[item] = sum * (1.0f / (Shape::KERNEL * Shape::KERNEL));
    }
}

// An activation as a layer of its own.
template <int COUNT, class Function>
__device__ __forceinline__ void forward_activation(const float* x, float* y, int rows) {
    for (int item = thread_index(); item < rows * COUNT; item += THREADS) {
        y[item] = Function::forward(x[item]);
    }
}
