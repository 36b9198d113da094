#include "fabric/collective/pattern.h"

#include <string.h>

/* Enough to spread neighbouring inputs over all bits (a multiply-xorshift finalizer). */
static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

void pattern_result_clear(struct pattern_result *r)
{
    *r = (struct pattern_result){.first_bad = UINT64_MAX};
}

static inline uint64_t stream_word(uint64_t seed, uint64_t index)
{
    return mix(seed + index * 0xa0761d6478bd642fu);
}

void pattern_bytes_fill(uint64_t seed, uint64_t offset, void *out, size_t len)
{
    uint8_t *o = out;
    while (len) {
        uint64_t word = stream_word(seed, offset / 8);
        size_t skip = offset % 8, n = 8 - skip;
        n = n < len ? n : len;
        if (n == 8)
            memcpy(o, &word, 8);
        else
            memcpy(o, (const uint8_t *)&word + skip, n);
        o += n;
        offset += n;
        len -= n;
    }
}

static void note_bad(struct pattern_result *r, uint64_t position)
{
    if (r->mismatches++ == 0)
        r->first_bad = position;
}

void pattern_bytes_check(uint64_t seed, uint64_t offset, const void *data, size_t len,
                         struct pattern_result *r)
{
    const uint8_t *d = data;
    r->compared += len;
    while (len) {
        uint64_t word = stream_word(seed, offset / 8);
        size_t skip = offset % 8, n = 8 - skip;
        n = n < len ? n : len;
        const uint8_t *want = (const uint8_t *)&word + skip;
        if (memcmp(d, want, n) != 0)
            for (size_t i = 0; i < n; i++)
                if (d[i] != want[i])
                    note_bad(r, offset + i);
        d += n;
        offset += n;
        len -= n;
    }
}

static inline int32_t value_of(const struct pattern *p, size_t i)
{
    return (int32_t)(mix(p->seed ^ (uint64_t)i * 0x2545f4914f6cdd1du) & (uint64_t)p->value_mask);
}

static inline int32_t offset_of(const struct pattern *p, uint32_t rank, size_t i)
{
    uint64_t key = (uint64_t)rank << 32 | (i % PATTERN_PERIOD);
    return (int32_t)(mix(~p->seed + key) & (uint64_t)p->value_mask);
}

void pattern_init(struct pattern *p, uint64_t seed, uint32_t ranks, enum reduce_dtype dtype)
{
    *p = (struct pattern){.seed = mix(seed), .ranks = ranks, .dtype = dtype};
    /* f32 holds integers exactly up to 2^24; a sum is below ranks * 2 * (mask + 1). */
    int bits = 23;
    while (bits > 8 && ((uint64_t)ranks << (bits + 1)) > (1u << 24))
        bits--;
    p->value_mask = (int32_t)(1u << bits) - 1;
    for (uint32_t r = 0; r < ranks; r++)
        for (size_t i = 0; i < PATTERN_PERIOD; i++)
            p->sums[i] += offset_of(p, r, i);
}

void pattern_fill(const struct pattern *p, uint32_t rank, void *out, size_t count)
{
    int32_t offsets[PATTERN_PERIOD];
    for (size_t i = 0; i < PATTERN_PERIOD; i++)
        offsets[i] = offset_of(p, rank, i);
    float *f = out;
    int32_t *n = out;
    for (size_t i = 0; i < count; i++) {
        int32_t v = value_of(p, i) + offsets[i % PATTERN_PERIOD];
        if (p->dtype == REDUCE_F32)
            f[i] = (float)v;
        else
            n[i] = v;
    }
}

void pattern_check(const struct pattern *p, const void *sum, size_t count, struct pattern_result *r)
{
    pattern_result_clear(r);
    r->compared = count;
    const uint32_t *got = sum;
    for (size_t i = 0; i < count; i++) {
        int32_t want = (int32_t)p->ranks * value_of(p, i) + p->sums[i % PATTERN_PERIOD];
        uint32_t bits = (uint32_t)want;
        float f = (float)want;
        if (p->dtype == REDUCE_F32)
            memcpy(&bits, &f, sizeof bits);
        if (got[i] != bits)
            note_bad(r, i);
    }
}
