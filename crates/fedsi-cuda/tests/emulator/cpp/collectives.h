// What the lanes of a warp do together, barriers, and what blocks of a client or a cluster do together.

namespace cuda_emulation {

// Hands `count` words over and waits until all lanes of the mask have; returns the words of all lanes.
static unsigned int (*exchange(const char* operation, unsigned int mask, const unsigned int* words, int count, int line))[EXCHANGED_WORDS] {
    Warp& warp = *current->warp;
    unsigned int own = 1u << current->lane;
    if (!(mask & own)) {
        fail(line, "lane %d calls %s with a mask (%08x) that does not name it", current->lane, operation, mask);
    }
    Exchange* found = nullptr;
    for (Exchange* one : warp.exchanges) {
        if (one->mask == mask) {
            found = one;
        } else if (one->arrived != 0 && (one->mask & mask)) {
            fail(line, "%s with the mask %08x, while lanes wait for it in %s with the mask %08x", operation, mask, one->operation, one->mask);
        }
    }
    if (!found) {
        found = new Exchange();
        found->mask = mask;
        warp.exchanges.push_back(found);
    }
    if (found->arrived == 0) {
        found->operation = operation;
    } else if (strcmp(found->operation, operation) != 0) {
        fail(line, "lane %d calls %s where other lanes of its warp call %s", current->lane, operation, found->operation);
    }
    int turn = found->turn;
    memcpy(found->words[turn][current->lane], words, count * sizeof(unsigned int));
    found->arrived |= own;
    if (found->arrived == (mask & warp.lanes)) {
        found->arrived = 0;
        found->turn = 1 - turn;
        release(found->waiting);
    } else {
        wait_in(found->waiting, operation, current->number / LANES, line);
    }
    return found->words[turn];
}

template <class T>
static T shuffle(const char* operation, unsigned int mask, T value, int source, int line) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "values of 4 or 8 bytes");
    unsigned int words[2] = {0, 0};
    memcpy(words, &value, sizeof(T));
    auto all = exchange(operation, mask, words, sizeof(T) / 4, line);
    if (!((mask & current->warp->lanes) >> source & 1)) {
        fail(line, "%s reads lane %d, which is not in the mask %08x or does not exist", operation, source, mask);
    }
    T result;
    memcpy(&result, all[source], sizeof(T));
    return result;
}

} // namespace cuda_emulation

#define FEDSI_LINE int line = __builtin_LINE()

static inline void __syncthreads(FEDSI_LINE) { cuda_emulation::barrier_arrive(0, 0, true, "__syncthreads", line); }
static inline void __syncwarp(unsigned int mask = 0xffffffffu, FEDSI_LINE) {
    unsigned int nothing = 0;
    cuda_emulation::exchange("__syncwarp", mask, &nothing, 1, line);
}

// Lanes outside the section of `width` lanes read themselves, as on the device.
template <class T>
static inline T __shfl_sync(unsigned int mask, T value, int source, int width = 32, FEDSI_LINE) {
    int lane = cuda_emulation::current->lane;
    return cuda_emulation::shuffle("__shfl_sync", mask, value, (lane & ~(width - 1)) | (source & (width - 1)), line);
}
template <class T>
static inline T __shfl_xor_sync(unsigned int mask, T value, int bits, int width = 32, FEDSI_LINE) {
    int lane = cuda_emulation::current->lane;
    int source = lane ^ bits;
    return cuda_emulation::shuffle("__shfl_xor_sync", mask, value, source / width > lane / width ? lane : source, line);
}
template <class T>
static inline T __shfl_down_sync(unsigned int mask, T value, int delta, int width = 32, FEDSI_LINE) {
    int lane = cuda_emulation::current->lane;
    return cuda_emulation::shuffle("__shfl_down_sync", mask, value, (lane & (width - 1)) + delta < width ? lane + delta : lane, line);
}
template <class T>
static inline T __shfl_up_sync(unsigned int mask, T value, int delta, int width = 32, FEDSI_LINE) {
    int lane = cuda_emulation::current->lane;
    return cuda_emulation::shuffle("__shfl_up_sync", mask, value, (lane & (width - 1)) >= delta ? lane - delta : lane, line);
}
static inline unsigned int __ballot_sync(unsigned int mask, int predicate, FEDSI_LINE) {
    unsigned int word = predicate != 0;
    auto all = cuda_emulation::exchange("__ballot_sync", mask, &word, 1, line);
    unsigned int result = 0;
    for (int lane = 0; lane < cuda_emulation::LANES; lane++) {
        if ((mask & cuda_emulation::current->warp->lanes) >> lane & 1) {
            result |= all[lane][0] << lane;
        }
    }
    return result;
}
static inline int __any_sync(unsigned int mask, int predicate, FEDSI_LINE) { return __ballot_sync(mask, predicate, line) != 0; }
static inline int __all_sync(unsigned int mask, int predicate, FEDSI_LINE) {
    return __ballot_sync(mask, predicate, line) == (mask & cuda_emulation::current->warp->lanes);
}
// The lanes that exist: threads of a warp are together at every collective here.
static inline unsigned int __activemask() { return cuda_emulation::current->warp->lanes; }

// bar.sync and bar.arrive with a number of threads.
static inline void named_barrier(int number, int threads, FEDSI_LINE) {
    cuda_emulation::barrier_arrive(number, threads, true, "named barrier", line);
}
static inline void named_barrier_arrive(int number, int threads, FEDSI_LINE) {
    cuda_emulation::barrier_arrive(number, threads, false, "named barrier", line);
}

// All blocks of a client wait for each other: each adds 1 to the counter and waits until it is `target`.
static inline void group_barrier(int* counter, int target, int, FEDSI_LINE) {
    __syncthreads(line);
    if (cuda_emulation::current->number == 0) {
        *counter += 1;
        cuda_emulation::wait_for_value(counter, target, "group_barrier to reach", line);
    }
    __syncthreads(line);
}

// mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32, `c += a b`. The device reads the upper 19 bits of an operand.
static inline float cuda_emulation_tf32(unsigned int bits) {
    float value;
    bits &= 0xffffe000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline void mma_m16n8k8(float (&c)[4], const float (&a)[4], const float (&b)[2], FEDSI_LINE) {
    unsigned int words[6];
    memcpy(words, a, sizeof a);
    memcpy(words + 4, b, sizeof b);
    auto all = cuda_emulation::exchange("mma m16n8k8", 0xffffffffu, words, 6, line);
    int group = cuda_emulation::current->lane >> 2;
    int member = cuda_emulation::current->lane & 3;
    for (int i = 0; i < 4; i++) {
        int upper = i >> 1; // rows 0 to 7, or 8 to 15
        int column = 2 * member + (i & 1);
        double sum = c[i];
        for (int k = 0; k < 8; k++) {
            float left = cuda_emulation_tf32(all[4 * group + (k & 3)][upper + 2 * (k >> 2)]);
            float right = cuda_emulation_tf32(all[4 * column + (k & 3)][4 + (k >> 2)]);
            sum += (double)left * (double)right;
        }
        c[i] = (float)sum;
    }
}

// Blocks of a cluster. Addresses in shared memory are 32 bits as on the device: the rank in the cluster, then the place.
static inline unsigned int cluster_rank() { return cuda_emulation::current->block->number % cuda_emulation::launch->cluster_blocks; }
static inline unsigned int cluster_id() { return cuda_emulation::current->block->number / cuda_emulation::launch->cluster_blocks; }
static inline void cluster_arrive() {
    using namespace cuda_emulation;
    Cluster& cluster = launch->clusters[cluster_id()];
    if (++cluster.arrived == (int)(launch->cluster_blocks * launch->block.x)) {
        cluster.arrived = 0;
        cluster.phase++;
        release(cluster.waiting);
    }
}
static inline void cluster_wait(FEDSI_LINE) {
    using namespace cuda_emulation;
    Cluster& cluster = launch->clusters[cluster_id()];
    int& own = current->cluster_phase;
    own++;
    while (cluster.phase < own) {
        wait_in(cluster.waiting, "cluster barrier", own, line);
    }
}
