/* PCI Express: links and counters while data moves, and how fast it moves.  docs/stages/pcie.md. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "agents/gpu/gpu_host.h"
#include "agents/gpu/gpu_pci.h"
#include "agents/gpu/nvml.h"
#include "agents/stages/stage.h"
#include "common/jsonx.h"
#include "common/util.h"

enum { GPU_MS = 30000, LOAD_MS = 100, LOAD_PIECES = 48, CLASS_NETWORK = 0x02 };

#define STAGE_NAME "pcie"

static const size_t buffer_max_bytes = (size_t)256 << 20, align_bytes = (size_t)1 << 20;

/* State of one GPU's way to the processor before the load. */
struct way {
    char path[GPU_PCI_MAX_PATH][GPU_PCI_BDF_BYTES];
    size_t count;
    bool has_aer[GPU_PCI_MAX_PATH];
    struct gpu_pci_aer aer[GPU_PCI_MAX_PATH];
    bool has_replays;
    unsigned replays;
};

struct link_job {
    struct gpu_job *job;
    struct nvml nvml;
    struct nvml_device *device;
    struct way before;
};

/* --- records ---------------------------------------------------------------------------------- */

static json_t *link_conditions(const char *when, const char *source, double max)
{
    json_t *c = json_object();
    jsonx_set_str(c, "when", when);
    jsonx_set_str(c, "source", source);
    jsonx_set_num(c, "max", max);
    return c;
}

/* The driver's view of the GPU's own link; a virtual machine's sysfs often has none. */
static void emit_gpu_link(struct link_job *l)
{
    static const char when[] = "during a copy";
    struct gpu_job *job = l->job;
    unsigned generation = 0, width = 0, max_generation = 0, max_width = 0;
    const struct nvml *n = &l->nvml;
    int result = l->device ? n->link_generation(l->device, &generation) : NVML_NOT_SUPPORTED;
    if (result == NVML_OK)
        result = n->link_width(l->device, &width);
    if (result == NVML_OK)
        result = n->max_link_generation(l->device, &max_generation);
    if (result == NVML_OK)
        result = n->max_link_width(l->device, &max_width);
    if (result != NVML_OK) {
        const char *text = l->device ? n->error_string(result) : "NVML does not answer";
        gpu_job_absent(job, "pcie_generation", "1", NULL, text);
        gpu_job_absent(job, "pcie_width", "1", NULL, text);
        return;
    }
    gpu_job_number(job, "pcie_generation", "1", generation,
                   link_conditions(when, "NVML", max_generation));
    gpu_job_number(job, "pcie_width", "1", width, link_conditions(when, "NVML", max_width));
}

/* A link above the GPU (a switch's upstream port) or of another device. */
static int link_records(const char *when, const struct gpu_pci_link *link, struct evidence out[2],
                        double values[2])
{
    const double max[] = {gpu_pci_generation(link->max_speed_gts), link->max_width};
    static const char *const quantities[] = {"pcie_generation", "pcie_width"};
    values[0] = gpu_pci_generation(link->speed_gts);
    values[1] = link->width;
    for (size_t i = 0; i < 2; i++)
        out[i] = (struct evidence){.quantity = quantities[i],
                                   .unit = "1",
                                   .samples = &values[i],
                                   .sample_count = 1,
                                   .conditions = link_conditions(when, "sysfs", max[i]),
                                   .outcome = EVIDENCE_MEASURED};
    return 2;
}

static void emit_links_above(struct link_job *l)
{
    for (size_t i = 1; i < l->before.count; i++) {
        struct gpu_pci_link link;
        struct evidence records[2];
        double values[2];
        if (!gpu_pci_read_link(l->job->root, l->before.path[i], &link))
            continue;
        AUTO(free_str)
        char *subject = str_printf("%s/pci:%s", l->job->node, l->before.path[i]);
        int count = link_records("during a copy", &link, records, values);
        for (int k = 0; k < count; k++) {
            records[k].subject = subject;
            gpu_job_emit(l->job, records[k]);
        }
    }
}

static void emit_delta(struct gpu_job *job, const char *subject, const char *quantity,
                       double before, double after)
{
    double delta = after - before;
    json_t *conditions = json_object();
    jsonx_set_num(conditions, "total", after);
    gpu_job_emit(job, (struct evidence){.subject = subject,
                                        .quantity = quantity,
                                        .unit = "1",
                                        .samples = &delta,
                                        .sample_count = 1,
                                        .conditions = conditions,
                                        .outcome = EVIDENCE_MEASURED});
}

static void emit_aer(struct gpu_job *job, const char *subject, const struct gpu_pci_aer *a,
                     const struct gpu_pci_aer *b)
{
    emit_delta(job, subject, "aer_correctable", a->correctable, b->correctable);
    emit_delta(job, subject, "aer_nonfatal", a->nonfatal, b->nonfatal);
    emit_delta(job, subject, "aer_fatal", a->fatal, b->fatal);
}

static void emit_counters(struct link_job *l)
{
    struct gpu_job *job = l->job;
    unsigned replays = 0;
    if (l->before.has_replays && l->nvml.replays(l->device, &replays) == NVML_OK)
        emit_delta(job, NULL, "pcie_replays", l->before.replays, replays);
    else
        gpu_job_absent(job, "pcie_replays", "1", NULL, "NVML has no replay counter of this GPU");
    for (size_t i = 0; i < l->before.count; i++) {
        struct gpu_pci_aer after;
        AUTO(free_str)
        char *subject =
            i ? str_printf("%s/pci:%s", job->node, l->before.path[i]) : str_dup(job->subject);
        if (l->before.has_aer[i] && gpu_pci_read_aer(job->root, l->before.path[i], &after))
            emit_aer(job, subject, &l->before.aer[i], &after);
        else if (i == 0)
            gpu_job_absent(job, "aer_fatal", "1", NULL,
                           "the kernel shows no AER counters of this GPU (virtual machine, or AER "
                           "is not native)");
    }
}

/* --- one GPU ---------------------------------------------------------------------------------- */

static void read_before(struct link_job *l)
{
    struct way *w = &l->before;
    w->count = gpu_pci_path(l->job->root, l->job->bdf, w->path);
    for (size_t i = 0; i < w->count; i++)
        w->has_aer[i] = gpu_pci_read_aer(l->job->root, w->path[i], &w->aer[i]);
    w->has_replays =
        l->device && l->nvml.replays && l->nvml.replays(l->device, &w->replays) == NVML_OK;
}

/* Links fall to a lower generation while idle: they are read while copies run both ways. */
static int load_and_read(struct link_job *l, struct gpu_dev *dev, struct gpu_host *h,
                         struct err *err)
{
    gpu_job_step(l->job, "links during a copy");
    for (unsigned i = 0; i < LOAD_PIECES; i++)
        if (gpu_host_to_device(dev, h, err) != 0)
            return -1;
    poll(NULL, 0, LOAD_MS);
    emit_gpu_link(l);
    emit_links_above(l);
    return gpu_dev_wait(dev, err);
}

static int measure(struct link_job *l, struct gpu_dev *dev, struct err *err)
{
    struct gpu_host h = {0};
    size_t bytes = 0;
    int rc = gpu_dev_buffer_bytes(dev, buffer_max_bytes, align_bytes, &bytes, err);
    if (rc == 0)
        rc = gpu_host_open(&h, dev, bytes, true, err);
    read_before(l);
    if (rc == 0)
        rc = gpu_host_measure(l->job, dev, &h, "h2d_bandwidth", "d2h_bandwidth", err);
    if (rc == 0)
        rc = load_and_read(l, dev, &h, err);
    gpu_host_close(&h, dev);
    if (rc == 0)
        emit_counters(l);
    return rc;
}

static int task(struct gpu_job *job, struct err *err)
{
    struct link_job l = {.job = job};
    struct err ignored = {0};
    gpu_job_step(job, "NVML");
    gpu_host_bind(job->root, gpu_host_numa_node(job->root, job->bdf));
    if (nvml_open(&l.nvml, &ignored) == 0) {
        job->simulated = job->simulated || l.nvml.simulated;
        if (nvml_find(&l.nvml, job->bdf, &l.device, &ignored) != 0)
            l.device = NULL;
    }
    struct gpu_dev dev;
    gpu_job_step(job, "CUDA context");
    int rc = gpu_dev_open(&dev, job->bdf, job->deadline_ms, err);
    if (rc == 0) {
        job->simulated = job->simulated || dev.cuda.simulated;
        rc = measure(&l, &dev, err);
        job->cause = dev.cause;
        gpu_dev_close(&dev);
    } else {
        job->cause = dev.cause;
    }
    nvml_close(&l.nvml);
    return rc;
}

/* --- other devices ---------------------------------------------------------------------------- */

/* NICs do not lower their links when idle, so that these are read without a load. */
static int emit_device(struct stage_ctx *ctx, const char *bdf, struct err *err)
{
    char path[GPU_PCI_MAX_PATH][GPU_PCI_BDF_BYTES];
    size_t count = gpu_pci_path(stage_root(ctx), bdf, path);
    for (size_t i = 0; i < count; i++) {
        struct gpu_pci_link link;
        struct evidence records[2];
        double values[2];
        if (!gpu_pci_read_link(stage_root(ctx), path[i], &link))
            continue;
        AUTO(free_str) char *subject = str_printf("%s/pci:%s", stage_node(ctx), path[i]);
        int n = link_records("as it is", &link, records, values), rc = 0;
        for (int k = 0; k < n; k++) {
            records[k].stage = STAGE_NAME;
            records[k].subject = subject;
            rc = rc ? rc : stage_evidence(ctx, &records[k], err);
            json_decref(records[k].conditions);
        }
        if (rc != 0)
            return -1;
    }
    return 0;
}

static int emit_devices(struct stage_ctx *ctx, struct err *err)
{
    AUTO(facts_names_free)
    struct facts_names names = facts_list(stage_root(ctx), "/sys/bus/pci/devices");
    for (size_t i = 0; i < names.count; i++) {
        long long class =
            facts_int(stage_root(ctx), 0, "/sys/bus/pci/devices/%s/class", names.names[i]);
        if (class >> 16 == CLASS_NETWORK && emit_device(ctx, names.names[i], err) != 0)
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
    if (emit_devices(ctx, err) != 0)
        return -1;
    return gpu_job_all(ctx, STAGE_NAME, task, false, GPU_MS, params, data, err);
}

const struct stage stage_pcie = {
    .name = STAGE_NAME,
    .summary = "links of GPUs, NICs and switches during a copy, error counters, host bandwidth",
    .run = run,
};
