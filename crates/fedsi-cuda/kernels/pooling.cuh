// Pooling over square windows that lie wholly within the image, as layers of their own. Gradients are gathered by input, so
// that windows may overlap: each input adds up its windows' in order.

template <class In_, class Out_, int WINDOW_, int STRIDE_>
struct Pooling {
    typedef In_ In;
    typedef Out_ Out;
    static constexpr int WINDOW = WINDOW_;
    static constexpr int STRIDE = STRIDE_;
    static constexpr int HEIGHT = (In::HEIGHT - WINDOW) / STRIDE + 1;
    static constexpr int WIDTH = (In::WIDTH - WINDOW) / STRIDE + 1;
    static constexpr int OUTPUTS = In::CHANNELS * HEIGHT * WIDTH;
};

// `winners` receives which pixel of its channel each output came from: the first of equals.
template <class Pool>
__device__ __forceinline__ void max_pool_forward(const float* x, float* y, int* winners, int samples) {
    typedef typename Pool::In In;
    for (int i = thread_index(); i < samples * Pool::OUTPUTS; i += THREADS) {
        int sample = i / Pool::OUTPUTS;
        int output = i - sample * Pool::OUTPUTS;
        int channel = output / (Pool::HEIGHT * Pool::WIDTH);
        int place = output - channel * (Pool::HEIGHT * Pool::WIDTH);
        int corner = place / Pool::WIDTH * Pool::STRIDE * In::WIDTH + place % Pool::WIDTH * Pool::STRIDE;
        const int first = channel * In::HEIGHT * In::WIDTH;
        float best = x[In::at(sample, first + corner)];
        int winner = corner;
        for (int row = 0; row < Pool::WINDOW; row++) {
            for (int column = 0; column < Pool::WINDOW; column++) {
                int pixel = corner + row * In::WIDTH + column;
                float value = x[In::at(sample, first + pixel)];
                if (value > best) {
                    best = value;
                    winner = pixel;
                }
            }
        }
        y[Pool::Out::at(sample, output)] = best;
        winners[i] = winner;
    }
}

template <class Pool>
__device__ __forceinline__ void average_pool_forward(const float* x, float* y, int samples) {
    typedef typename Pool::In In;
    for (int i = thread_index(); i < samples * Pool::OUTPUTS; i += THREADS) {
        int sample = i / Pool::OUTPUTS;
        int output = i - sample * Pool::OUTPUTS;
        int channel = output / (Pool::HEIGHT * Pool::WIDTH);
        int place = output - channel * (Pool::HEIGHT * Pool::WIDTH);
        int corner = channel * In::HEIGHT * In::WIDTH + place / Pool::WIDTH * Pool::STRIDE * In::WIDTH +
                     place % Pool::WIDTH * Pool::STRIDE;
        float sum = 0.0f;
        for (int row = 0; row < Pool::WINDOW; row++) {
            for (int column = 0; column < Pool::WINDOW; column++) {
                sum += x[In::at(sample, corner + row * In::WIDTH + column)];
            }
        }
        y[Pool::Out::at(sample, output)] = sum * (1.0f / (Pool::WINDOW * Pool::WINDOW));
    }
}

// dx of max pooling (MAXIMUM) or average pooling, through Below, the activation that x came out of.
template <class Pool, class Below, bool MAXIMUM>
__device__ __forceinline__ void pool_backward(const float* x, const float* dy, float* dx, const int* winners, int samples) {
    typedef typename Pool::In In;
    for (int i = thread_index(); i < samples * In::COUNT; i += THREADS) {
        int sample = i / In::COUNT;
        int input = i - sample * In::COUNT;
        int channel = input / (In::HEIGHT * In::WIDTH);
        int pixel = input - channel * (In::HEIGHT * In::WIDTH);
        int y = pixel / In::WIDTH;
        int column = pixel - y * In::WIDTH;
        // Windows that hold the pixel: those from the first that reaches it to the last that starts at or before it.
        int first_row = y < Pool::WINDOW ? 0 : (y - Pool::WINDOW) / Pool::STRIDE + 1;
        int first_column = column < Pool::WINDOW ? 0 : (column - Pool::WINDOW) / Pool::STRIDE + 1;
        int last_row = min(y / Pool::STRIDE, Pool::HEIGHT - 1);
        int last_column = min(column / Pool::STRIDE, Pool::WIDTH - 1);
        float sum = 0.0f;
        for (int row = first_row; row <= last_row; row++) {
            for (int place = first_column; place <= last_column; place++) {
                int output = (channel * Pool::HEIGHT + row) * Pool::WIDTH + place;
                float slope = dy[Pool::Out::Gradient::at(sample, output)];
                if (MAXIMUM) {
                    sum += winners[sample * Pool::OUTPUTS + output] == pixel ? slope : 0.0f;
                } else {
                    sum += slope * (1.0f / (Pool::WINDOW * Pool::WINDOW));
                }
            }
        }
        dx[In::Gradient::at(sample, input)] = Below::gradient(sum, 0.0f, x[In::at(sample, input)]);
    }
}
