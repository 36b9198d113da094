#include "agents/gpu/gpu_mem.h"

#include <poll.h>
#include <string.h>

#include "agents/gpu/gpu_series.h"
#include "common/jsonx.h"
#include "common/util.h"

enum {
    SAMPLES = 9,
    PIECES = 8,
    WARM_UP = 3, /* with PIECES an odd number of reads: see inspect_read */
    COPY_THREADS = 256,
    LOAD_PIECES = 400,
    LOAD_MS = 150,
    RESERVE_SHARE = 8,
    MAX_CHUNKS = 64,
    CONTENT_PASSES = 2
};
_Static_assert((PIECES + WARM_UP) % 2 == 1, "an even number of reads cancels out");

static const size_t buffer_max_bytes = (size_t)2 << 30, align_bytes = (size_t)1 << 20;
static const size_t chunk_bytes = (size_t)8 << 30;
/* Left to the driver when all memory is tested; at most this share on small GPUs. */
static const size_t reserve_bytes = (size_t)512 << 20;

struct buffers {
    uint64_t src, dst;
    size_t bytes;
    uint32_t sum; /* of the source's content */
};

/* --- the pieces of work ----------------------------------------------------------------------- */

static unsigned blocks(const struct gpu_dev *dev)
{
    return (unsigned)dev->sm_count * GPU_DEV_BLOCKS_PER_SM;
}

static int copy_by_sm(struct gpu_dev *dev, void *ctx, struct err *err)
{
    struct buffers *b = ctx;
    uint64_t vectors = b->bytes / PTX_VECTOR_BYTES;
    void *args[] = {&b->dst, &b->src, &vectors};
    uint64_t grid = (vectors + COPY_THREADS - 1) / COPY_THREADS;
    return gpu_dev_launch(dev, PTX_COPY, (unsigned)grid, COPY_THREADS, 0, args, err);
}

static int read_by_sm(struct gpu_dev *dev, void *ctx, struct err *err)
{
    struct buffers *b = ctx;
    uint64_t vectors = b->bytes / PTX_VECTOR_BYTES;
    void *args[] = {&b->src, &vectors, &dev->result};
    return gpu_dev_launch(dev, PTX_READ, blocks(dev), GPU_DEV_THREADS, 0, args, err);
}

static int copy_by_driver(struct gpu_dev *dev, void *ctx, struct err *err)
{
    struct buffers *b = ctx;
    int result = dev->cuda.copy_on_device(b->dst, b->src, b->bytes, dev->stream);
    return gpu_dev_check(dev, result, "cuMemcpyDtoDAsync", err);
}

static int prepare_copy(struct gpu_dev *dev, void *ctx, uint32_t seed, struct err *err)
{
    struct buffers *b = ctx;
    return gpu_dev_fill(dev, b->src, b->bytes, seed, NULL, err) ||
                   gpu_dev_fill(dev, b->dst, b->bytes, ~seed, NULL, err)
               ? -1
               : 0;
}

static int inspect_copy(struct gpu_dev *dev, void *ctx, uint32_t seed, struct gpu_dev_diff *diff,
                        struct err *err)
{
    struct buffers *b = ctx;
    return gpu_dev_verify(dev, b->dst, b->bytes, seed, diff, err);
}

static int prepare_read(struct gpu_dev *dev, void *ctx, uint32_t seed, struct err *err)
{
    static const uint64_t zero[2] = {0, 0};
    struct buffers *b = ctx;
    return gpu_dev_fill(dev, b->src, b->bytes, seed, &b->sum, err) ||
                   gpu_dev_result_set(dev, zero, err)
               ? -1
               : 0;
}

/* Every read adds the same sum by exclusive or, so that an odd number of them leaves it. */
static int inspect_read(struct gpu_dev *dev, void *ctx, uint32_t seed, struct gpu_dev_diff *diff,
                        struct err *err)
{
    (void)seed;
    const struct buffers *b = ctx;
    uint64_t words[2];
    if (gpu_dev_result_get(dev, words, err) != 0)
        return -1;
    *diff = (struct gpu_dev_diff){.compared_bytes = b->bytes,
                                  .wrong_words = (uint32_t)words[0] != b->sum};
    return 0;
}

/* --- bandwidth -------------------------------------------------------------------------------- */

static int measure_bandwidth(struct gpu_job *job, struct gpu_dev *dev, struct buffers *b,
                             struct err *err)
{
    double bytes = (double)b->bytes;
    struct gpu_series rows[] = {
        {.quantity = "memory_copy_bandwidth",
         .path = "sm",
         .method = "own copy kernel, bytes read plus bytes written",
         .bytes = 2 * bytes,
         .work = copy_by_sm,
         .prepare = prepare_copy,
         .inspect = inspect_copy},
        {.quantity = "memory_read_bandwidth",
         .path = "sm",
         .method = "own read kernel",
         .bytes = bytes,
         .work = read_by_sm,
         .prepare = prepare_read,
         .inspect = inspect_read},
        {.quantity = "memory_driver_bandwidth",
         .path = "driver",
         .method = "cuMemcpyDtoDAsync, bytes read plus bytes written",
         .bytes = 2 * bytes,
         .work = copy_by_driver,
         .prepare = prepare_copy,
         .inspect = inspect_copy},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rows[i].buffer_bytes = b->bytes;
        rows[i].samples = SAMPLES;
        rows[i].pieces = PIECES;
        rows[i].warm_up = WARM_UP;
        rows[i].ctx = b;
        if (gpu_series_run(job, dev, &rows[i], err) != 0)
            return -1;
    }
    return 0;
}

static int load(struct gpu_job *job, struct gpu_dev *dev, struct buffers *b,
                gpu_mem_under_load *under_load, void *ctx, struct err *err)
{
    gpu_job_step(job, "state under load");
    for (unsigned i = 0; i < LOAD_PIECES; i++)
        if (copy_by_sm(dev, b, err) != 0)
            return -1;
    poll(NULL, 0, LOAD_MS);
    under_load(job, ctx);
    return gpu_dev_wait(dev, err);
}

/* --- content of all memory -------------------------------------------------------------------- */

struct chunk {
    uint64_t ptr;
    size_t bytes;
};

/* Takes what is free but a reserve, in pieces; what cannot be had is left out. */
static size_t take_all(struct gpu_dev *dev, struct chunk chunks[MAX_CHUNKS], size_t free_bytes)
{
    size_t reserve =
        reserve_bytes < free_bytes / RESERVE_SHARE ? reserve_bytes : free_bytes / RESERVE_SHARE;
    size_t left = free_bytes - reserve, count = 0;
    while (left >= align_bytes && count < MAX_CHUNKS) {
        size_t bytes = (left < chunk_bytes ? left : chunk_bytes) & ~(align_bytes - 1);
        struct err ignored = {0};
        const char *cause = dev->cause;
        if (gpu_dev_alloc(dev, &chunks[count].ptr, bytes, &ignored) != 0) {
            dev->cause = cause;
            break;
        }
        chunks[count++].bytes = bytes;
        left -= bytes;
    }
    return count;
}

static int compare_all(struct gpu_dev *dev, const struct chunk chunks[], size_t count,
                       struct gpu_dev_diff *all, struct err *err)
{
    for (uint32_t pass = 0; pass < CONTENT_PASSES; pass++) {
        uint32_t turn = pass ? ~0u : 0;
        for (size_t i = 0; i < count; i++)
            if (gpu_dev_fill(dev, chunks[i].ptr, chunks[i].bytes, turn ^ (uint32_t)i, NULL, err))
                return -1;
        for (size_t i = 0; i < count; i++) {
            struct gpu_dev_diff diff;
            if (gpu_dev_verify(dev, chunks[i].ptr, chunks[i].bytes, turn ^ (uint32_t)i, &diff, err))
                return -1;
            if (diff.wrong_words && !all->wrong_words)
                all->first_bad_byte = i * chunk_bytes + diff.first_bad_byte;
            all->wrong_words += diff.wrong_words;
            all->compared_bytes += pass ? 0 : diff.compared_bytes;
        }
    }
    return 0;
}

static void emit_content(struct gpu_job *job, const struct gpu_dev_diff *all, size_t total_bytes)
{
    double bytes = (double)all->compared_bytes;
    bool wrong = all->wrong_words > 0;
    json_t *conditions = json_object(), *proof = json_object();
    jsonx_set_int(conditions, "total_bytes", (int64_t)total_bytes);
    jsonx_set_int(conditions, "passes", CONTENT_PASSES);
    jsonx_set_str(proof, "path", "sm");
    jsonx_set_int(proof, "compared", (int64_t)all->compared_bytes);
    jsonx_set_int(proof, "mismatches", (int64_t)all->wrong_words);
    AUTO(free_str) char *reason = NULL;
    if (wrong) {
        jsonx_set_int(proof, "first_bad", (int64_t)all->first_bad_byte);
        reason = str_printf("%llu words of the GPU's memory did not keep what was written",
                            (unsigned long long)all->wrong_words);
    }
    gpu_job_emit(job, (struct evidence){.quantity = "memory_data",
                                        .unit = "B",
                                        .samples = &bytes,
                                        .sample_count = !wrong,
                                        .conditions = conditions,
                                        .proof = proof,
                                        .outcome = wrong ? EVIDENCE_FAILED : EVIDENCE_MEASURED,
                                        .cause = wrong ? "gpu-memory-error" : NULL,
                                        .reason = reason});
}

static int measure_content(struct gpu_job *job, struct gpu_dev *dev, struct err *err)
{
    struct chunk chunks[MAX_CHUNKS] = {{0}};
    struct gpu_dev_diff all = {0};
    size_t free_bytes = 0, total_bytes = 0;
    gpu_job_step(job, "content of all memory");
    if (gpu_dev_check(dev, dev->cuda.mem_info(&free_bytes, &total_bytes), "cuMemGetInfo", err) != 0)
        return -1;
    size_t count = take_all(dev, chunks, free_bytes);
    int rc = compare_all(dev, chunks, count, &all, err);
    for (size_t i = 0; i < count; i++)
        gpu_dev_free(dev, &chunks[i].ptr);
    if (rc != 0)
        return -1;
    if (all.compared_bytes == 0)
        gpu_job_absent(job, "memory_data", "B", "gpu-busy", "no memory of the GPU is free");
    else
        emit_content(job, &all, total_bytes);
    return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int open_buffers(struct gpu_dev *dev, struct buffers *b, struct err *err)
{
    if (gpu_dev_buffer_bytes(dev, buffer_max_bytes, align_bytes, &b->bytes, err) != 0)
        return -1;
    return gpu_dev_alloc(dev, &b->src, b->bytes, err) || gpu_dev_alloc(dev, &b->dst, b->bytes, err)
               ? -1
               : 0;
}

int gpu_mem_measure(struct gpu_job *job, struct gpu_dev *dev, gpu_mem_under_load *under_load,
                    void *ctx, struct err *err)
{
    struct buffers b = {0};
    int rc = open_buffers(dev, &b, err);
    if (rc == 0)
        rc = measure_bandwidth(job, dev, &b, err);
    if (rc == 0 && under_load)
        rc = load(job, dev, &b, under_load, ctx, err);
    gpu_dev_free(dev, &b.src);
    gpu_dev_free(dev, &b.dst);
    return rc == 0 ? measure_content(job, dev, err) : -1;
}
