/* The host path: GPU to host memory to GPU, and pageable memory.  docs/stages/shm.md.
 *
 * It is what two GPUs have when they cannot reach each other, and the baseline that P2P and NVLink
 * are held against.  A GPU that is alone goes to itself. */
#include <stdlib.h>
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "agents/gpu/gpu_host.h"
#include "agents/gpu/gpu_series.h"
#include "agents/stages/stage.h"
#include "common/jsonx.h"
#include "common/util.h"

enum { GPU_MS = 60000, SLOTS = 2, SAMPLES = 5, PIECES = 4, WARM_UP = 1 };

#define STAGE_NAME "shm"

static const size_t buffer_max_bytes = (size_t)128 << 20, slot_bytes = (size_t)4 << 20;

/* Two slots of pinned host memory; while one is filled from the first GPU, the other is emptied
 * into the second. */
struct staged {
    struct gpu_dev *to; /* the second GPU; the first one again when it goes to itself */
    uint64_t src, dst;
    size_t bytes;
    void *slots;
    struct cuda_event *filled[SLOTS], *emptied[SLOTS];
};

static int queue_slot(struct gpu_dev *from, struct staged *s, size_t at, bool reused,
                      struct err *err)
{
    const struct cuda *c = &from->cuda;
    size_t slot = at / slot_bytes % SLOTS;
    char *host = (char *)s->slots + slot * slot_bytes;
    int result = reused ? c->stream_wait(from->stream, s->emptied[slot], 0) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = c->copy_to_host(host, s->src + at, slot_bytes, from->stream);
    if (result == CUDA_SUCCESS)
        result = c->event_record(s->filled[slot], from->stream);
    if (result == CUDA_SUCCESS)
        result = c->ctx_set(s->to->ctx);
    if (result == CUDA_SUCCESS)
        result = c->stream_wait(s->to->second, s->filled[slot], 0);
    if (result == CUDA_SUCCESS)
        result = c->copy_to_device(s->dst + at, host, slot_bytes, s->to->second);
    if (result == CUDA_SUCCESS)
        result = c->event_record(s->emptied[slot], s->to->second);
    int back = c->ctx_set(from->ctx);
    return gpu_dev_check(from, result != CUDA_SUCCESS ? result : back, "staging through the host",
                         err);
}

static int copy_staged(struct gpu_dev *from, void *ctx, struct err *err)
{
    struct staged *s = ctx;
    for (size_t at = 0; at < s->bytes; at += slot_bytes)
        if (queue_slot(from, s, at, at >= SLOTS * slot_bytes, err) != 0)
            return -1;
    /* The piece has ended when the last slots are empty. */
    for (size_t i = 0; i < SLOTS; i++)
        if (gpu_dev_check(from, from->cuda.stream_wait(from->stream, s->emptied[i], 0),
                          "cuStreamWaitEvent", err))
            return -1;
    return 0;
}

/* Work of the second GPU needs its context. */
static int on_target(struct gpu_dev *from, struct staged *s, uint32_t seed,
                     struct gpu_dev_diff *diff, struct err *err)
{
    const struct cuda *c = &from->cuda;
    if (gpu_dev_check(from, c->ctx_set(s->to->ctx), "cuCtxSetCurrent", err) != 0)
        return -1;
    int rc = diff ? gpu_dev_verify(s->to, s->dst, s->bytes, seed, diff, err)
                  : gpu_dev_fill(s->to, s->dst, s->bytes, ~seed, NULL, err);
    int result = c->ctx_set(from->ctx);
    return rc ? rc : gpu_dev_check(from, result, "cuCtxSetCurrent", err);
}

static int prepare(struct gpu_dev *from, void *ctx, uint32_t seed, struct err *err)
{
    struct staged *s = ctx;
    if (gpu_dev_fill(from, s->src, s->bytes, seed, NULL, err) != 0)
        return -1;
    return on_target(from, s, seed, NULL, err);
}

static int inspect(struct gpu_dev *from, void *ctx, uint32_t seed, struct gpu_dev_diff *diff,
                   struct err *err)
{
    return on_target(from, ctx, seed, diff, err);
}

static int open_staged(struct gpu_dev *from, struct staged *s, struct err *err)
{
    const struct cuda *c = &from->cuda;
    int result = c->host_alloc(&s->slots, SLOTS * slot_bytes, CUDA_HOST_PORTABLE);
    if (result == CUDA_SUCCESS)
        memset(s->slots, 0, SLOTS * slot_bytes);
    for (size_t i = 0; i < SLOTS && result == CUDA_SUCCESS; i++)
        result = c->event_create(&s->filled[i], 0);
    if (result == CUDA_SUCCESS)
        result = c->ctx_set(s->to->ctx);
    for (size_t i = 0; i < SLOTS && result == CUDA_SUCCESS; i++)
        result = c->event_create(&s->emptied[i], 0);
    if (result == CUDA_SUCCESS)
        result = c->mem_alloc(&s->dst, s->bytes);
    int back = c->ctx_set(from->ctx);
    if (gpu_dev_check(from, result != CUDA_SUCCESS ? result : back, "buffers of the host path",
                      err))
        return -1;
    return gpu_dev_alloc(from, &s->src, s->bytes, err);
}

static void close_staged(struct gpu_dev *from, struct staged *s)
{
    const struct cuda *c = &from->cuda;
    gpu_dev_free(from, &s->src);
    gpu_dev_free(from, &s->dst);
    for (size_t i = 0; i < SLOTS; i++) {
        if (s->filled[i])
            (void)c->event_destroy(s->filled[i]);
        if (s->emptied[i])
            (void)c->event_destroy(s->emptied[i]);
    }
    if (s->slots)
        (void)c->host_free(s->slots);
}

static int measure_pair(struct gpu_job *job, struct gpu_dev *from, struct gpu_dev *to,
                        int64_t to_index, struct err *err)
{
    struct staged s = {.to = to};
    AUTO(free_str) char *subject = str_printf("%s>gpu:%lld", job->subject, (long long)to_index);
    int rc = gpu_dev_buffer_bytes(from, buffer_max_bytes, slot_bytes, &s.bytes, err);
    if (rc == 0)
        rc = open_staged(from, &s, err);
    if (rc == 0) {
        struct gpu_series series = {.subject = subject,
                                    .quantity = "host_path_bandwidth",
                                    .path = "pinned host memory",
                                    .method = "copy engines, two slots of 4 MiB",
                                    .bytes = (double)s.bytes,
                                    .buffer_bytes = s.bytes,
                                    .samples = SAMPLES,
                                    .pieces = PIECES,
                                    .warm_up = WARM_UP,
                                    .work = copy_staged,
                                    .prepare = prepare,
                                    .inspect = inspect,
                                    .ctx = &s};
        rc = gpu_series_run(job, from, &series, err);
    }
    close_staged(from, &s);
    return rc;
}

static int measure_pairs(struct gpu_job *job, struct gpu_dev *from, struct err *err)
{
    size_t count = json_array_size(job->gpus);
    if (count == 1)
        return measure_pair(job, from, from, job->index, err);
    for (size_t i = 0; i < count; i++) {
        const json_t *gpu = json_array_get(job->gpus, i);
        int64_t index = jsonx_int_or(gpu, "index", (int64_t)i);
        if (index == job->index)
            continue;
        struct gpu_dev to;
        gpu_job_step(job, "context of the second GPU");
        if (gpu_dev_open(&to, jsonx_str_or(gpu, "bdf", ""), job->deadline_ms, err) != 0) {
            from->cause = to.cause;
            return -1;
        }
        int rc = gpu_dev_check(from, from->cuda.ctx_set(from->ctx), "cuCtxSetCurrent", err);
        if (rc == 0)
            rc = measure_pair(job, from, &to, index, err);
        gpu_dev_close(&to);
        (void)from->cuda.ctx_set(from->ctx);
        if (rc != 0)
            return -1;
    }
    return 0;
}

static int measure_pageable(struct gpu_job *job, struct gpu_dev *dev, struct err *err)
{
    struct gpu_host h = {0};
    size_t bytes = 0;
    int rc = gpu_dev_buffer_bytes(dev, buffer_max_bytes, slot_bytes, &bytes, err);
    if (rc == 0)
        rc = gpu_host_open(&h, dev, bytes, false, err);
    if (rc == 0)
        rc =
            gpu_host_measure(job, dev, &h, "h2d_pageable_bandwidth", "d2h_pageable_bandwidth", err);
    gpu_host_close(&h, dev);
    return rc;
}

static int task(struct gpu_job *job, struct err *err)
{
    struct gpu_dev dev;
    gpu_job_step(job, "CUDA context");
    gpu_host_bind(job->root, gpu_host_numa_node(job->root, job->bdf));
    if (gpu_dev_open(&dev, job->bdf, job->deadline_ms, err) != 0) {
        job->cause = dev.cause;
        return -1;
    }
    job->simulated = job->simulated || dev.cuda.simulated;
    int rc = measure_pageable(job, &dev, err);
    if (rc == 0)
        rc = measure_pairs(job, &dev, err);
    job->cause = dev.cause;
    gpu_dev_close(&dev);
    return rc;
}

static int emit_shm(struct stage_ctx *ctx, struct err *err)
{
    static const struct {
        const char *quantity, *key;
    } rows[] = {{"shm_size", "size_bytes"}, {"shm_free", "free_bytes"}};
    json_auto_t *memory = facts_memory(stage_root(ctx));
    const json_t *shm = json_object_get(memory, "shm");
    bool known = json_is_object(shm);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        double value = (double)jsonx_int_or(shm, rows[i].key, 0);
        struct evidence e = {.stage = STAGE_NAME,
                             .subject = stage_node(ctx),
                             .quantity = rows[i].quantity,
                             .unit = "B",
                             .samples = &value,
                             .sample_count = known,
                             .outcome = known ? EVIDENCE_MEASURED : EVIDENCE_NOT_MEASURED,
                             .reason = known ? NULL : "/dev/shm is not a mounted tmpfs"};
        if (stage_evidence(ctx, &e, err) != 0)
            return -1;
    }
    return 0;
}

static int run(struct stage_ctx *ctx, const json_t *params, json_t **data, struct err *err)
{
    static const char *const no_keys[] = {NULL};
    if (jsonx_only_keys(params, "stage " STAGE_NAME, no_keys, err) != 0) {
        err->kind = ERR_USAGE;
        return -1;
    }
    if (emit_shm(ctx, err) != 0)
        return -1;
    return gpu_job_all(ctx, STAGE_NAME, task, false, GPU_MS, params, data, err);
}

const struct stage stage_shm = {
    .name = STAGE_NAME,
    .summary = "the path between GPUs through host memory, pageable copies, size of /dev/shm",
    .run = run,
};
