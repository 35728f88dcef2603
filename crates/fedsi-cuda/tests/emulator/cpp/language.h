// CUDA C++ that the host's compiler does not know: keywords, indices, vector types, loads and stores with hints, atomics.

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)

#define threadIdx (cuda_emulation::current->index)
#define blockIdx (cuda_emulation::current->block->index)
#define blockDim (cuda_emulation::launch->block)
#define gridDim (cuda_emulation::launch->grid)
static const int warpSize = 32;

#define FEDSI_VECTOR_TYPES(name, type)                                                              \
    struct alignas(2 * sizeof(type)) name##2 {                                                      \
        type x, y;                                                                                  \
    };                                                                                              \
    struct name##3_packed {                                                                         \
        type x, y, z;                                                                               \
    };                                                                                              \
    struct alignas(sizeof(type) * 4 > 16 ? 16 : sizeof(type) * 4) name##4 {                         \
        type x, y, z, w;                                                                            \
    };                                                                                              \
    static inline name##2 make_##name##2(type x, type y) { return name##2{x, y}; }                  \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return name##4{x, y, z, w}; }
typedef unsigned int cuda_emulation_uint;
FEDSI_VECTOR_TYPES(float, float)
FEDSI_VECTOR_TYPES(double, double)
FEDSI_VECTOR_TYPES(int, int)
FEDSI_VECTOR_TYPES(uint, cuda_emulation_uint)
typedef float3_packed float3;
typedef int3_packed int3;
static inline float3 make_float3(float x, float y, float z) { return float3{x, y, z}; }
static inline int3 make_int3(int x, int y, int z) { return int3{x, y, z}; }
struct alignas(4) uchar4 {
    unsigned char x, y, z, w;
};

namespace cuda_emulation {
// A load of 8 or 16 bytes at an address that is no multiple of its size ends a kernel on the device.
template <class T>
static inline const T* aligned(const T* address, int line) {
    if (reinterpret_cast<uintptr_t>(address) % alignof(T) != 0) {
        fail(line, "an access of %zu bytes at the address %p, which is no multiple of %zu", sizeof(T), (const void*)address, alignof(T));
    }
    return address;
}
static inline char* dynamic_shared() { return current->block->shared; }

// A static variable in shared memory: one for each block and each place in the source (`tag`).
template <class T>
static inline T& static_shared(const void* tag, int line) {
    Block& block = *current->block;
    for (auto& [known, address] : block.variables) {
        if (known == tag) {
            return *reinterpret_cast<T*>(address);
        }
    }
    size_t start = (block.static_used + 127) / 128 * 128;
    block.static_used = start + sizeof(T);
    if (block.static_used > STATIC_SHARED_BYTES) {
        fail(line, "static shared memory of more than %zu bytes", STATIC_SHARED_BYTES);
    }
    char* address = block.shared + (launch->shared_bytes + GUARD_BYTES + 127) / 128 * 128 + start;
    block.variables.emplace_back(tag, address);
    return *reinterpret_cast<T*>(address);
}
constexpr unsigned int RANK_SHIFT = 20; // 1 MB of addresses a block
} // namespace cuda_emulation

static inline size_t __cvta_generic_to_shared(const void* address) {
    using namespace cuda_emulation;
    unsigned int rank = current->block->number % launch->cluster_blocks;
    return ((size_t)rank << RANK_SHIFT) + (size_t)(static_cast<const char*>(address) - current->block->shared);
}
// Where a 32-bit address in shared memory is.
static inline char* shared_pointer(unsigned int address) {
    using namespace cuda_emulation;
    unsigned int first = current->block->number / launch->cluster_blocks * launch->cluster_blocks;
    return launch->blocks[first + (address >> RANK_SHIFT)].shared + (address & ((1u << RANK_SHIFT) - 1));
}

#define FEDSI_LOAD(name)                                               \
    template <class T>                                                 \
    static inline T name(const T* address, FEDSI_LINE) {               \
        return *cuda_emulation::aligned(address, line);                \
    }
FEDSI_LOAD(__ldg)
FEDSI_LOAD(__ldcg)
FEDSI_LOAD(__ldca)
FEDSI_LOAD(__ldcs)
FEDSI_LOAD(__ldcv)
#define FEDSI_STORE(name)                                                        \
    template <class T>                                                           \
    static inline void name(T* address, T value, FEDSI_LINE) {                   \
        *const_cast<T*>(cuda_emulation::aligned(address, line)) = value;         \
    }
FEDSI_STORE(__stcg)
FEDSI_STORE(__stcs)
FEDSI_STORE(__stwb)
FEDSI_STORE(__stwt)

static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

template <class T, class V>
static inline T atomicAdd(T* address, V value) {
    T before = *address;
    *address = before + (T)value;
    return before;
}
template <class T, class V>
static inline T atomicMax(T* address, V value) {
    T before = *address;
    *address = before > (T)value ? before : (T)value;
    return before;
}
template <class T, class V>
static inline T atomicMin(T* address, V value) {
    T before = *address;
    *address = before < (T)value ? before : (T)value;
    return before;
}
template <class T, class V>
static inline T atomicExch(T* address, V value) {
    T before = *address;
    *address = (T)value;
    return before;
}
template <class T, class C, class V>
static inline T atomicCAS(T* address, C compare, V value) {
    T before = *address;
    if (before == (T)compare) {
        *address = (T)value;
    }
    return before;
}

// cp.async of 16, 8 or 4 bytes from global to shared memory: here at once. `valid` bytes are copied, the rest is 0.
static inline void cuda_emulation_copy(void* shared, const void* global, size_t bytes, size_t valid, int line) {
    if ((reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global)) % bytes != 0) {
        cuda_emulation::fail(line, "an asynchronous copy of %zu bytes at an address that is no multiple of it", bytes);
    }
    memcpy(shared, global, valid);
    memset(static_cast<char*>(shared) + valid, 0, bytes - valid);
}
static inline void async_copy16(void* shared, const void* global, FEDSI_LINE) { cuda_emulation_copy(shared, global, 16, 16, line); }
static inline void async_copy8(void* shared, const void* global, FEDSI_LINE) { cuda_emulation_copy(shared, global, 8, 8, line); }
static inline void async_copy4(void* shared, const void* global, FEDSI_LINE) { cuda_emulation_copy(shared, global, 4, 4, line); }
static inline void async_copy_commit() {}
template <int N>
static inline void async_copy_wait() {}
