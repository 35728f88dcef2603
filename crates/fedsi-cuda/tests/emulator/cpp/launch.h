// Behind a kernel's source: what the tests call.

namespace cuda_emulation {

template <class... Arguments, size_t... Places>
static void call(void (*kernel)(Arguments...), void** arguments, std::index_sequence<Places...>) {
    kernel(*reinterpret_cast<std::remove_reference_t<Arguments>*>(arguments[Places])...);
}
template <class... Arguments>
static void call(void (*kernel)(Arguments...), void** arguments) {
    call(kernel, arguments, std::index_sequence_for<Arguments...>{});
}
template <class... Arguments>
static constexpr int argument_count(void (*)(Arguments...)) {
    return sizeof...(Arguments);
}

static void invoke_entry(void** arguments) { call(&FEDSI_ENTRY, arguments); }

// Memory that is only taken when it is touched.
static char* reserve(size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

static void prepare(Launch& all, char* stacks, char* shared, size_t shared_stride) {
    size_t per_block = all.block.x;
    all.threads.resize((size_t)all.grid.x * per_block);
    all.blocks.resize(all.grid.x);
    all.clusters.resize((all.grid.x + all.cluster_blocks - 1) / all.cluster_blocks);
    all.alive = all.threads.size();
    Waiting everybody;
    for (size_t b = 0; b < all.grid.x; b++) {
        Block& block = all.blocks[b];
        block.index = {(unsigned int)b, 0, 0};
        block.number = (int)b;
        block.threads = block.alive = (int)per_block;
        block.warps.resize((per_block + LANES - 1) / LANES);
        // Every bit set is no number as a float and -1 as an integer: a read of what nobody wrote shows.
        block.shared = shared + b * shared_stride;
        memset(block.shared, 0xff, shared_stride);
        for (size_t t = 0; t < per_block; t++) {
            Thread& thread = all.threads[b * per_block + t];
            thread.block = &block;
            thread.warp = &block.warps[t / LANES];
            thread.lane = (int)(t % LANES);
            thread.warp->lanes |= 1u << thread.lane;
            thread.number = (int)t;
            thread.index = {(unsigned int)t, 0, 0};
            thread.context.prepare(stacks + (b * per_block + t) * STACK_BYTES, thread_entry);
            everybody.push_back(&thread);
        }
    }
    release(everybody);
}

static void check_guards(Launch& all) {
    for (Block& block : all.blocks) {
        for (size_t i = 0; i < GUARD_BYTES; i++) {
            if ((unsigned char)block.shared[all.shared_bytes + i] != 0xff) {
                all.error = "block " + std::to_string(block.number) + " wrote behind its " + std::to_string(all.shared_bytes) +
                            " bytes of dynamic shared memory, at byte " + std::to_string(all.shared_bytes + i);
                return;
            }
        }
    }
}

} // namespace cuda_emulation

// Runs the kernel. Returns 0, or 1 with the reason in `message`. `order`: 0 threads from the first on, 1 from the last on, else
// shuffled by this seed.
extern "C" __attribute__((visibility("default"))) int fedsi_emulated_launch(
    void** arguments, int argument_count, unsigned int blocks, unsigned int threads, unsigned int shared_bytes, unsigned int cluster_blocks,
    unsigned int order, char* message, size_t capacity) {
    using namespace cuda_emulation;
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> guard(one_at_a_time);
    Launch all;
    all.grid = dim3(blocks);
    all.block = dim3(threads);
    all.shared_bytes = shared_bytes;
    all.cluster_blocks = cluster_blocks;
    all.order = order;
    all.random = order;
    all.invoke = invoke_entry;
    all.arguments = arguments;
    launch = &all;
    size_t stack_bytes = (size_t)blocks * threads * STACK_BYTES;
    size_t shared_stride = (shared_bytes + GUARD_BYTES + 128 + STATIC_SHARED_BYTES + 1023) / 1024 * 1024;
    char* stacks = reserve(stack_bytes);
    char* shared = reserve(shared_stride * blocks);
    if (argument_count != cuda_emulation::argument_count(&FEDSI_ENTRY)) {
        all.error = "the kernel takes " + std::to_string(cuda_emulation::argument_count(&FEDSI_ENTRY)) + " arguments, not " + std::to_string(argument_count);
    } else if (!stacks || !shared) {
        all.error = "no memory for the stacks of " + std::to_string((size_t)blocks * threads) + " threads";
    } else {
        prepare(all, stacks, shared, shared_stride);
        run_until_done();
        if (all.error.empty()) {
            check_guards(all);
        }
        for (Block& block : all.blocks) {
            for (Warp& warp : block.warps) {
                for (Exchange* one : warp.exchanges) {
                    delete one;
                }
            }
        }
    }
    if (stacks) {
        munmap(stacks, stack_bytes);
    }
    if (shared) {
        munmap(shared, shared_stride * blocks);
    }
    launch = nullptr;
    current = nullptr;
    if (all.error.empty()) {
        return 0;
    }
    snprintf(message, capacity, "%s", all.error.c_str());
    return 1;
}
