/* Each GPU by itself: health, memory and arithmetic.  docs/stages/gpu.md. */
#include <stdlib.h>
#include <string.h>

#include "agents/gpu/gpu_compute.h"
#include "agents/gpu/gpu_health.h"
#include "agents/gpu/gpu_klog.h"
#include "agents/gpu/gpu_mem.h"
#include "agents/stages/stage.h"
#include "common/jsonx.h"
#include "common/util.h"

enum { GPU_MS = 60000 };

#define STAGE_NAME "gpu"

struct monitor {
    struct nvml nvml;
    struct nvml_device *device;
};

static void under_load(struct gpu_job *job, void *ctx)
{
    struct monitor *m = ctx;
    gpu_health_throttle(job, &m->nvml, m->device);
}

static void open_monitor(struct gpu_job *job, struct monitor *m)
{
    struct err err = {0};
    gpu_job_step(job, "NVML");
    if (nvml_open(&m->nvml, &err) != 0 || nvml_find(&m->nvml, job->bdf, &m->device, &err) != 0) {
        gpu_job_absent(job, "nvml", "1", "no-gpu-driver", err.text);
        nvml_close(&m->nvml);
        m->device = NULL;
        return;
    }
    job->simulated = job->simulated || m->nvml.simulated;
    gpu_job_number(job, "nvml", "1", 1, NULL);
}

/* A GPU that works for somebody else is left alone. */
static bool is_in_use(struct gpu_job *job, const struct monitor *m)
{
    static const struct {
        const char *quantity, *unit;
    } left_out[] = {{"memory_copy_bandwidth", "B/s"},
                    {"memory_read_bandwidth", "B/s"},
                    {"memory_driver_bandwidth", "B/s"},
                    {"memory_data", "B"},
                    {"compute", "1"},
                    {"throttle", "1"}};
    AUTO(free_str) char *users = m->device ? gpu_health_users(job, &m->nvml, m->device) : NULL;
    if (!users)
        return false;
    AUTO(free_str) char *reason = str_printf("in use by %s; it is not disturbed", users);
    for (size_t i = 0; i < ARRAY_LEN(left_out); i++)
        gpu_job_absent(job, left_out[i].quantity, left_out[i].unit, "gpu-busy", reason);
    return true;
}

static int exercise(struct gpu_job *job, struct monitor *m, struct err *err)
{
    struct gpu_dev dev;
    gpu_job_step(job, "CUDA context");
    if (gpu_dev_open(&dev, job->bdf, job->deadline_ms, err) != 0) {
        job->cause = dev.cause;
        return -1;
    }
    job->simulated = job->simulated || dev.cuda.simulated;
    int rc = gpu_compute_measure(job, &dev, err);
    if (rc == 0)
        rc = gpu_mem_measure(job, &dev, m->device ? under_load : NULL, m, err);
    job->cause = dev.cause;
    gpu_dev_close(&dev);
    return rc;
}

static int task(struct gpu_job *job, struct err *err)
{
    struct monitor m = {0};
    open_monitor(job, &m);
    gpu_health_xids(job);
    int rc = is_in_use(job, &m) ? 0 : exercise(job, &m, err);
    if (m.device)
        gpu_health_emit(job, &m.nvml, m.device); /* after the load: it may have raised them */
    nvml_close(&m.nvml);
    return rc;
}

/* NVSwitches belong to no GPU; their messages are about the node. */
static int emit_sxids(struct stage_ctx *ctx, struct err *err)
{
    struct gpu_klog *log = mem_zero(1, sizeof *log);
    struct err unread = {0};
    json_auto_t *conditions = json_object();
    bool known = gpu_klog_read(stage_root(ctx), log, &unread) == 0;
    double count = 0;
    json_t *lines = json_array();
    size_t held = log->count < GPU_KLOG_MAX_LINES ? log->count : GPU_KLOG_MAX_LINES;
    for (size_t i = 0; i < held; i++)
        if (log->lines[i].is_switch) {
            count++;
            jsonx_append_str(lines, log->lines[i].text);
        }
    jsonx_set(conditions, "lines", lines);
    jsonx_set_bool(conditions, "complete", log->complete);
    free(log);
    struct evidence e = {.stage = STAGE_NAME,
                         .subject = stage_node(ctx),
                         .quantity = "sxid",
                         .unit = "1",
                         .samples = &count,
                         .sample_count = known,
                         .conditions = conditions,
                         .outcome = known ? EVIDENCE_MEASURED : EVIDENCE_NOT_MEASURED,
                         .reason = known ? NULL : unread.text};
    return stage_evidence(ctx, &e, err);
}

static int run(struct stage_ctx *ctx, const json_t *params, json_t **data, struct err *err)
{
    static const char *const no_keys[] = {NULL};
    if (jsonx_only_keys(params, "stage " STAGE_NAME, no_keys, err) != 0) {
        err->kind = ERR_USAGE;
        return -1;
    }
    if (emit_sxids(ctx, err) != 0)
        return -1;
    return gpu_job_all(ctx, STAGE_NAME, task, true, GPU_MS, params, data, err);
}

const struct stage stage_gpu = {
    .name = STAGE_NAME,
    .summary = "each GPU: health counters, memory bandwidth and content, bit-exact arithmetic",
    .run = run,
};
