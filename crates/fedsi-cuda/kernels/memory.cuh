// Between the client's memory and the kernel's: parameters before the first and after the last step, inputs of a chunk.

// A tensor between the network's order (from `index` on, rows side by side) and the kernel's (from `at` on, rows of `stride`).
struct Tensor {
    int rows;
    int columns;
    int stride;
    int at;
    int index;
    bool moves;
};

// Copies all tensors of the client into the kernel's order, rows padded with zeros.
template <int TENSORS>
__device__ __forceinline__ void load_parameters(const Tensor (&tensors)[TENSORS], const float* network, float* kernel, int rank) {
#pragma unroll 1
    for (int which = 0; which < TENSORS; which++) {
        const Tensor tensor = tensors[which];
        for (int i = rank * THREADS + thread_index(); i < tensor.rows * tensor.stride; i += GROUP * THREADS) {
            int row = i / tensor.stride;
            int column = i - row * tensor.stride;
            bool inside = column < tensor.columns;
            __stcg(kernel + tensor.at + i, inside ? network[tensor.index + row * tensor.columns + column] : 0.0f);
        }
    }
}

// Copies those that move back.
template <int TENSORS>
__device__ __forceinline__ void store_parameters(const Tensor (&tensors)[TENSORS], float* network, const float* kernel, int rank) {
#pragma unroll 1
    for (int which = 0; which < TENSORS; which++) {
        const Tensor tensor = tensors[which];
        const int count = tensor.moves ? tensor.rows * tensor.columns : 0;
        for (int i = rank * THREADS + thread_index(); i < count; i += GROUP * THREADS) {
            int row = i / tensor.columns;
            int column = i - row * tensor.columns;
            network[tensor.index + i] = __ldcg(kernel + tensor.at + row * tensor.stride + column);
        }
    }
}

// The first samples that a block takes of a step's batch.
struct Chunk {
    const int* rows;
    int samples;
};

__device__ __forceinline__ Chunk first_chunk(const Job& job, int step, int rank) {
    const int* rows = job.batches + (size_t)step * job.batch_stride;
    const int count = __ldg(rows + job.batch_stride - 1);
    const int each = ceil_div(count, GROUP);
    const int start = rank * each;
    return Chunk{rows + start, min(SAMPLES, min(count, start + each) - start)};
}

// The inputs of `samples` samples. ASYNC: behind the threads' backs, where images lie in shared memory as in global memory;
// async_copy_wait and a barrier have to come before they are used.
template <class Layout, bool ASYNC>
__device__ __forceinline__ void load_inputs(const float* inputs, const int* rows, float* x, int samples) {
    constexpr int COUNT = Layout::COUNT;
    if constexpr (ASYNC) {
        for (int i = thread_index(); i < samples * (COUNT / 4); i += THREADS) {
            int sample = i / (COUNT / 4);
            int quad = i - sample * (COUNT / 4);
            const float* source = inputs + (size_t)__ldg(rows + sample) * COUNT + quad * 4;
            async_copy16(x + Layout::at(sample, quad * 4), source);
        }
    } else if constexpr (COUNT % 4 == 0) {
        for (int i = thread_index(); i < samples * (COUNT / 4); i += THREADS) {
            int sample = i / (COUNT / 4);
            int quad = i - sample * (COUNT / 4);
            const float* source = inputs + (size_t)__ldg(rows + sample) * COUNT + quad * 4;
            float4 four = __ldg(reinterpret_cast<const float4*>(source));
            x[Layout::at(sample, quad * 4)] = four.x;
            x[Layout::at(sample, quad * 4 + 1)] = four.y;
            x[Layout::at(sample, quad * 4 + 2)] = four.z;
            x[Layout::at(sample, quad * 4 + 3)] = four.w;
        }
    } else {
        for (int i = thread_index(); i < samples * COUNT; i += THREADS) {
            int sample = i / COUNT;
            int index = i - sample * COUNT;
            x[Layout::at(sample, index)] = __ldg(inputs + (size_t)__ldg(rows + sample) * COUNT + index);
        }
    }
}
