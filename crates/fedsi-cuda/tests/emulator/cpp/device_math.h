// Functions of CUDA's device library that the host's does not have. Approximate ones are exact here.

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline unsigned int min(unsigned int a, unsigned int b) { return a < b ? a : b; }
static inline unsigned int max(unsigned int a, unsigned int b) { return a > b ? a : b; }
static inline unsigned int min(unsigned int a, int b) { return min(a, (unsigned int)b); }
static inline unsigned int max(unsigned int a, int b) { return max(a, (unsigned int)b); }
static inline unsigned int min(int a, unsigned int b) { return min((unsigned int)a, b); }
static inline unsigned int max(int a, unsigned int b) { return max((unsigned int)a, b); }
static inline long long min(long long a, long long b) { return a < b ? a : b; }
static inline long long max(long long a, long long b) { return a > b ? a : b; }
static inline size_t min(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t max(size_t a, size_t b) { return a > b ? a : b; }
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

template <class To, class From>
static inline To cuda_emulation_bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "the same size");
    To result;
    memcpy(&result, &value, sizeof result);
    return result;
}
static inline unsigned int __float_as_uint(float value) { return cuda_emulation_bits<unsigned int>(value); }
static inline int __float_as_int(float value) { return cuda_emulation_bits<int>(value); }
static inline float __uint_as_float(unsigned int bits) { return cuda_emulation_bits<float>(bits); }
static inline float __int_as_float(int bits) { return cuda_emulation_bits<float>(bits); }

static inline unsigned int __umulhi(unsigned int a, unsigned int b) { return (unsigned int)((unsigned long long)a * b >> 32); }
static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __popc(unsigned int bits) { return __builtin_popcount(bits); }
static inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
static inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz((unsigned int)bits); }
static inline int __ffs(int bits) { return __builtin_ffs(bits); }

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __frsqrt_rn(float a) { return 1.0f / sqrtf(a); }
static inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
static inline double rsqrt(double a) { return 1.0 / sqrt(a); }
// The C library declares these names for itself.
#define __expf(a) expf(a)
#define __logf(a) logf(a)
#define __sinf(a) sinf(a)
#define __cosf(a) cosf(a)
static inline float __saturatef(float a) { return fminf(fmaxf(a, 0.0f), 1.0f); }
#define __sincosf(a, sine, cosine) sincosf(a, sine, cosine)
static inline void sincospif(float a, float* sine, float* cosine) {
    *sine = (float)sin(M_PI * (double)a);
    *cosine = (float)cos(M_PI * (double)a);
}
static inline float sinpif(float a) { return (float)sin(M_PI * (double)a); }
static inline float cospif(float a) { return (float)cos(M_PI * (double)a); }
static inline float normcdff(float a) { return (float)(0.5 * erfc(-(double)a * M_SQRT1_2)); }
static inline int __float2int_rn(float a) { return (int)lrintf(a); }
static inline int __float2int_rd(float a) { return (int)floorf(a); }
static inline float __int2float_rn(int a) { return (float)a; }

// cvt.rna.tf32.f32: the nearest TF32, ties away from 0.
static inline float round_to_tf32(float value) { return __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xffffe000u); }
// sqrt.approx
static inline float sqrt_fast(float a) { return sqrtf(a); }
