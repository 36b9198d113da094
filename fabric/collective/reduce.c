#include "fabric/collective/reduce.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define REDUCE_HAS_AVX2 1
#endif

typedef void add_fn(void *out, const void *a, const void *b, size_t count);

static void add_f32(void *out, const void *a, const void *b, size_t count)
{
    float *o = out;
    const float *x = a, *y = b;
    for (size_t i = 0; i < count; i++)
        o[i] = x[i] + y[i];
}

/* Unsigned, because wrapping is meant. */
static void add_i32(void *out, const void *a, const void *b, size_t count)
{
    uint32_t *o = out;
    const uint32_t *x = a, *y = b;
    for (size_t i = 0; i < count; i++)
        o[i] = x[i] + y[i];
}

#ifdef REDUCE_HAS_AVX2
__attribute__((target("avx2"))) static void add_f32_avx2(void *out, const void *a, const void *b,
                                                         size_t count)
{
    float *o = out;
    const float *x = a, *y = b;
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m256 s0 = _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i));
        __m256 s1 = _mm256_add_ps(_mm256_loadu_ps(x + i + 8), _mm256_loadu_ps(y + i + 8));
        _mm256_storeu_ps(o + i, s0);
        _mm256_storeu_ps(o + i + 8, s1);
    }
    add_f32(o + i, x + i, y + i, count - i);
}

__attribute__((target("avx2"))) static void add_i32_avx2(void *out, const void *a, const void *b,
                                                         size_t count)
{
    uint32_t *o = out;
    const uint32_t *x = a, *y = b;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i s = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(x + i)),
                                     _mm256_loadu_si256((const __m256i *)(const void *)(y + i)));
        _mm256_storeu_si256((__m256i *)(void *)(o + i), s);
    }
    add_i32(o + i, x + i, y + i, count - i);
}
#endif

static const struct {
    const char *name;
    size_t bytes;
    add_fn *scalar, *avx2;
} dtypes[] = {
    [REDUCE_UNSET] = {.name = NULL},
#ifdef REDUCE_HAS_AVX2
    [REDUCE_F32] = {"f32", 4, add_f32, add_f32_avx2},
    [REDUCE_I32] = {"i32", 4, add_i32, add_i32_avx2},
#else
    [REDUCE_F32] = {"f32", 4, add_f32, add_f32},
    [REDUCE_I32] = {"i32", 4, add_i32, add_i32},
#endif
};
_Static_assert(sizeof dtypes / sizeof *dtypes == REDUCE_DTYPE__COUNT, "one row per dtype");

static bool has_avx2(void)
{
#ifdef REDUCE_HAS_AVX2
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

const char *reduce_dtype_name(enum reduce_dtype dtype)
{
    return dtype < REDUCE_DTYPE__COUNT ? dtypes[dtype].name : NULL;
}

enum reduce_dtype reduce_dtype_find(const char *name)
{
    for (int i = 1; name && i < REDUCE_DTYPE__COUNT; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return (enum reduce_dtype)i;
    return REDUCE_UNSET;
}

size_t reduce_dtype_bytes(enum reduce_dtype dtype)
{
    return dtype < REDUCE_DTYPE__COUNT ? dtypes[dtype].bytes : 0;
}

void reduce_add(enum reduce_dtype dtype, void *out, const void *a, const void *b, size_t count)
{
    (has_avx2() ? dtypes[dtype].avx2 : dtypes[dtype].scalar)(out, a, b, count);
}

void reduce_add_scalar(enum reduce_dtype dtype, void *out, const void *a, const void *b,
                       size_t count)
{
    dtypes[dtype].scalar(out, a, b, count);
}

const char *reduce_kernel_name(void)
{
    return has_avx2() ? "avx2" : "scalar";
}
