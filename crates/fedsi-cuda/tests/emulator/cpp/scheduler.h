// Threads of a launch as fibers on one thread of the host: each runs until it waits, then the next one that can go on does.
//
// All blocks of a launch are alive at once, as in a cooperative launch. When nothing can go on, who waits for what is reported.

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <math.h>
#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#define FEDSI_EMULATED 1

struct uint3 {
    unsigned int x, y, z;
};
struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
};

#if defined(__x86_64__)
// Saves the registers that a call preserves on the stack that is left, and takes up another.
extern "C" __attribute__((visibility("hidden"))) void cuda_emulation_switch(void** left, void* taken);
asm(R"(
.text
.globl cuda_emulation_switch
.hidden cuda_emulation_switch
.type cuda_emulation_switch, @function
cuda_emulation_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cuda_emulation_switch, .-cuda_emulation_switch
)");
#endif

namespace cuda_emulation {

constexpr size_t STACK_BYTES = 128 * 1024;
constexpr size_t STATIC_SHARED_BYTES = 64 * 1024;
constexpr size_t GUARD_BYTES = 1024;
constexpr int NAMED_BARRIERS = 16;
constexpr int LANES = 32;

#if defined(__x86_64__)
struct Context {
    void* stack_pointer = nullptr;
    void prepare(char* stack, void (*entry)()) {
        void** top = reinterpret_cast<void**>(stack + STACK_BYTES);
        top[-1] = nullptr; // where a return address would be: `entry` never returns
        top[-2] = reinterpret_cast<void*>(entry);
        for (int saved = 3; saved <= 8; saved++) {
            top[-saved] = nullptr;
        }
        stack_pointer = top - 8;
    }
    void switch_to(Context& other) { cuda_emulation_switch(&stack_pointer, other.stack_pointer); }
};
#else
struct Context {
    ucontext_t state;
    void prepare(char* stack, void (*entry)()) {
        getcontext(&state);
        state.uc_stack.ss_sp = stack;
        state.uc_stack.ss_size = STACK_BYTES;
        state.uc_link = nullptr;
        makecontext(&state, entry, 0);
    }
    void switch_to(Context& other) { swapcontext(&state, &other.state); }
};
#endif

struct Block;
struct Warp;

struct Thread {
    Context context;
    Block* block = nullptr;
    Warp* warp = nullptr;
    uint3 index = {0, 0, 0};
    int number = 0; // in its block
    int lane = 0;
    bool finished = false;
    int cluster_phase = 0; // cluster barriers it has passed
    // What it waits for, where it does.
    const char* waits_for = nullptr;
    long long detail = 0;
    int line = 0;
};

// Threads that wait for the same event.
using Waiting = std::vector<Thread*>;

// One warp-collective operation in progress: the lanes of a mask hand over words and read those of others. Two sets of words
// take turns, since a lane can start the next operation before the others have read, but not the one after it.
constexpr int EXCHANGED_WORDS = 10;
struct Exchange {
    unsigned int mask = 0;
    const char* operation = nullptr;
    int turn = 0;
    unsigned int arrived = 0;
    unsigned int words[2][LANES][EXCHANGED_WORDS];
    Waiting waiting;
};

struct Warp {
    unsigned int lanes = 0; // that exist
    std::vector<Exchange*> exchanges;
};

struct Barrier {
    int arrived = 0;
    int expected = 0;
    Waiting waiting;
};

struct Block {
    uint3 index = {0, 0, 0};
    int number = 0;
    int threads = 0;
    int alive = 0;
    std::vector<Warp> warps;
    Barrier barriers[NAMED_BARRIERS];
    // Shared memory: the dynamic part first, static variables after it.
    char* shared = nullptr;
    size_t static_used = 0;
    std::vector<std::pair<const void*, char*>> variables;
};

// A thread that polls a value in global memory.
struct Poll {
    Thread* thread;
    const volatile int* counter;
    int target;
};

struct Cluster {
    int arrived = 0;
    int phase = 0;
    Waiting waiting;
};

struct Launch {
    dim3 grid, block;
    unsigned int shared_bytes = 0;
    unsigned int cluster_blocks = 1;
    unsigned int order = 0;
    unsigned long long random = 0;
    std::vector<Thread> threads;
    std::vector<Block> blocks;
    std::vector<Cluster> clusters;
    std::vector<Thread*> ready; // a queue: from `next` on
    size_t next = 0;
    std::vector<Poll> polls;
    size_t alive = 0;
    Context scheduler;
    std::string error;
    void (*invoke)(void** arguments) = nullptr;
    void** arguments = nullptr;
};

static Launch* launch = nullptr;
static Thread* current = nullptr;

// Ends the launch with a message; does not return to the thread.
[[noreturn]] __attribute__((format(printf, 2, 3))) static void fail(int line, const char* format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    char place[128];
    snprintf(place, sizeof place, "kernel.cu line %d, block %d, thread %d: ", line, current->block->number, current->number);
    launch->error = std::string(place) + text;
    current->context.switch_to(launch->scheduler);
    abort();
}

// Lets the threads that waited go on, in the order of the launch.
static void release(Waiting& waiting) {
    if (launch->order == 1) {
        std::reverse(waiting.begin(), waiting.end());
    } else if (launch->order > 1) {
        for (size_t left = waiting.size(); left > 1; left--) {
            launch->random = launch->random * 6364136223846793005ull + 1442695040888963407ull;
            std::swap(waiting[left - 1], waiting[(launch->random >> 33) % left]);
        }
    }
    for (Thread* thread : waiting) {
        thread->waits_for = nullptr;
        launch->ready.push_back(thread);
    }
    waiting.clear();
}

// Leaves the current thread until somebody releases it.
static void wait_in(Waiting& waiting, const char* what, long long detail, int line) {
    current->waits_for = what;
    current->detail = detail;
    current->line = line;
    waiting.push_back(current);
    current->context.switch_to(launch->scheduler);
}

// Leaves the current thread until a value in global memory is at least `target`.
static void wait_for_value(const volatile int* counter, int target, const char* what, int line) {
    if (*counter >= target) {
        return;
    }
    current->waits_for = what;
    current->detail = target;
    current->line = line;
    launch->polls.push_back({current, counter, target});
    current->context.switch_to(launch->scheduler);
}

// A barrier of a block: `expected` threads, or all that have not ended where it is 0.
static void barrier_arrive(int number, int expected, bool waits, const char* what, int line) {
    if (number < 0 || number >= NAMED_BARRIERS) {
        fail(line, "%s has the barriers 0 to 15, not %d", what, number);
    }
    Barrier& barrier = current->block->barriers[number];
    if (expected % LANES != 0) {
        fail(line, "%s counts whole warps: %d threads are no multiple of 32", what, expected);
    }
    if (barrier.arrived > 0 && barrier.expected != expected) {
        fail(line, "%s %d is waited at by %d threads in one place and %d in another", what, number, barrier.expected, expected);
    }
    barrier.expected = expected;
    barrier.arrived++;
    int needed = expected == 0 ? current->block->alive : expected;
    if (barrier.arrived > needed) {
        fail(line, "%s %d is for %d threads, and one more came", what, number, needed);
    }
    if (barrier.arrived == needed) {
        barrier.arrived = 0;
        if (waits) {
            // The last one waits its turn too, so that no thread is always ahead of the others.
            current->waits_for = what;
            barrier.waiting.push_back(current);
            release(barrier.waiting);
            current->context.switch_to(launch->scheduler);
        } else {
            release(barrier.waiting);
        }
    } else if (waits) {
        wait_in(barrier.waiting, what, number, line);
    }
}

static void thread_entry() {
    launch->invoke(launch->arguments);
    Block& block = *current->block;
    current->finished = true;
    launch->alive--;
    block.alive--;
    // Threads that have ended do not count at `__syncthreads`.
    Barrier& barrier = block.barriers[0];
    if (barrier.arrived > 0 && barrier.expected == 0 && barrier.arrived == block.alive) {
        barrier.arrived = 0;
        release(barrier.waiting);
    }
    current->context.switch_to(launch->scheduler);
    abort();
}

// Which threads wait where, grouped: the first ones of each group.
static std::string describe_waiting() {
    std::map<std::tuple<int, std::string, long long, int>, std::vector<int>> groups;
    for (Thread& thread : launch->threads) {
        if (!thread.finished) {
            const char* what = thread.waits_for ? thread.waits_for : "nothing";
            groups[{thread.block->number, what, thread.detail, thread.line}].push_back(thread.number);
        }
    }
    std::string text = "deadlock, no thread can go on:";
    int shown = 0;
    for (auto& [key, members] : groups) {
        if (++shown > 12) {
            text += " ...";
            break;
        }
        text += " block " + std::to_string(std::get<0>(key)) + ", " + std::to_string(members.size()) + " threads (" +
                std::to_string(members.front()) + " to " + std::to_string(members.back()) + ") wait for " + std::get<1>(key) + " " +
                std::to_string(std::get<2>(key)) + " in line " + std::to_string(std::get<3>(key)) + ";";
    }
    return text;
}

static void run_until_done() {
    while (launch->error.empty()) {
        if (launch->next == launch->ready.size()) {
            launch->ready.clear();
            launch->next = 0;
            std::vector<Poll> left;
            Waiting reached;
            for (Poll& poll : launch->polls) {
                if (*poll.counter >= poll.target) {
                    reached.push_back(poll.thread);
                } else {
                    left.push_back(poll);
                }
            }
            launch->polls = std::move(left);
            release(reached);
            if (launch->ready.empty()) {
                break;
            }
        }
        if (launch->next > 4096 && launch->next * 2 > launch->ready.size()) {
            launch->ready.erase(launch->ready.begin(), launch->ready.begin() + launch->next);
            launch->next = 0;
        }
        current = launch->ready[launch->next++];
        launch->scheduler.switch_to(current->context);
    }
    if (launch->error.empty() && launch->alive > 0) {
        launch->error = describe_waiting();
    }
}

} // namespace cuda_emulation
