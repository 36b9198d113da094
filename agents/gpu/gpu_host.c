#include "agents/gpu/gpu_host.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agents/facts/facts_topics.h"
#include "agents/gpu/gpu_series.h"
#include "common/jsonx.h"
#include "common/util.h"

enum {
    SAMPLES = 5,
    PIECES = 8,
    WARM_UP = 2,
    POLICY_PREFERRED = 1, /* MPOL_PREFERRED of the kernel */
    MAX_NODE = 63
};

/* --- where memory lies ------------------------------------------------------------------------ */

int gpu_host_numa_node(const struct fs_root *root, const char *bdf)
{
    return (int)facts_int(root, -1, "/sys/bus/pci/devices/%s/numa_node", bdf);
}

/* "0-15,32-47" */
static bool parse_cpus(const char *text, cpu_set_t *set)
{
    CPU_ZERO(set);
    while (*text) {
        char *end = NULL;
        long first = strtol(text, &end, 10), last = first;
        if (end == text)
            return false;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (first < 0 || last < first || last >= CPU_SETSIZE)
            return false;
        for (long cpu = first; cpu <= last; cpu++)
            CPU_SET((size_t)cpu, set);
        text = *end == ',' ? end + 1 : end;
        if (*end && *end != ',')
            return false;
    }
    return CPU_COUNT(set) > 0;
}

void gpu_host_bind(const struct fs_root *root, int numa_node)
{
    if (numa_node < 0 || numa_node > MAX_NODE)
        return;
    AUTO(free_str)
    char *cpus = facts_line(root, "/sys/devices/system/node/node%d/cpulist", numa_node);
    cpu_set_t set;
    if (cpus && parse_cpus(cpus, &set))
        (void)sched_setaffinity(0, sizeof set, &set);
    unsigned long mask[2] = {1UL << numa_node, 0};
    (void)syscall(SYS_set_mempolicy, POLICY_PREFERRED, mask, (unsigned long)MAX_NODE + 2);
}

/* Node of the page in the middle. */
static int node_of(void *host, size_t bytes)
{
    void *page = (char *)host + bytes / 2;
    int status = -1;
    if (syscall(SYS_move_pages, 0, 1UL, &page, NULL, &status, 0) != 0 || status < 0)
        return -1;
    return status;
}

int gpu_host_open(struct gpu_host *h, struct gpu_dev *dev, size_t bytes, bool pinned,
                  struct err *err)
{
    *h = (struct gpu_host){.bytes = bytes, .pinned = pinned, .numa_node = -1};
    if (pinned) {
        int result = dev->cuda.host_alloc(&h->host, bytes, CUDA_HOST_PORTABLE);
        if (gpu_dev_check(dev, result, "cuMemHostAlloc", err) != 0) {
            h->host = NULL;
            return -1;
        }
    } else {
        void *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (got == MAP_FAILED)
            return err_set(err, ERR_NOMEM, "no %zu bytes of host memory", bytes);
        h->host = got;
    }
    memset(h->host, 0, bytes);
    h->numa_node = node_of(h->host, bytes);
    return gpu_dev_alloc(dev, &h->device, bytes, err);
}

void gpu_host_close(struct gpu_host *h, struct gpu_dev *dev)
{
    gpu_dev_free(dev, &h->device);
    if (h->host && h->pinned)
        (void)dev->cuda.host_free(h->host);
    else if (h->host)
        munmap(h->host, h->bytes);
    *h = (struct gpu_host){0};
}

/* --- content ---------------------------------------------------------------------------------- */

void gpu_host_fill(void *host, size_t bytes, uint32_t seed)
{
    uint32_t *words = host;
    for (uint64_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = ptx_pattern(i, seed);
}

void gpu_host_verify(const void *host, size_t bytes, uint32_t seed, struct gpu_dev_diff *diff)
{
    const uint32_t *words = host;
    *diff = (struct gpu_dev_diff){.compared_bytes = bytes};
    for (uint64_t i = 0; i < bytes / sizeof *words; i++) {
        if (words[i] == ptx_pattern(i, seed))
            continue;
        if (diff->wrong_words++ == 0)
            diff->first_bad_byte = i * sizeof *words;
    }
}

/* --- copies ----------------------------------------------------------------------------------- */

int gpu_host_to_device(struct gpu_dev *dev, void *ctx, struct err *err)
{
    struct gpu_host *h = ctx;
    int result = dev->cuda.copy_to_device(h->device, h->host, h->bytes, dev->stream);
    return gpu_dev_check(dev, result, "cuMemcpyHtoDAsync", err);
}

int gpu_host_from_device(struct gpu_dev *dev, void *ctx, struct err *err)
{
    struct gpu_host *h = ctx;
    int result = dev->cuda.copy_to_host(h->host, h->device, h->bytes, dev->stream);
    return gpu_dev_check(dev, result, "cuMemcpyDtoHAsync", err);
}

static int prepare_to_device(struct gpu_dev *dev, void *ctx, uint32_t seed, struct err *err)
{
    struct gpu_host *h = ctx;
    gpu_host_fill(h->host, h->bytes, seed);
    return gpu_dev_fill(dev, h->device, h->bytes, ~seed, NULL, err);
}

static int inspect_to_device(struct gpu_dev *dev, void *ctx, uint32_t seed,
                             struct gpu_dev_diff *diff, struct err *err)
{
    struct gpu_host *h = ctx;
    return gpu_dev_verify(dev, h->device, h->bytes, seed, diff, err);
}

static int prepare_from_device(struct gpu_dev *dev, void *ctx, uint32_t seed, struct err *err)
{
    struct gpu_host *h = ctx;
    memset(h->host, 0, h->bytes);
    return gpu_dev_fill(dev, h->device, h->bytes, seed, NULL, err);
}

static int inspect_from_device(struct gpu_dev *dev, void *ctx, uint32_t seed,
                               struct gpu_dev_diff *diff, struct err *err)
{
    (void)dev;
    (void)err;
    struct gpu_host *h = ctx;
    gpu_host_verify(h->host, h->bytes, seed, diff);
    return 0;
}

static json_t *conditions_of(const struct gpu_host *h)
{
    json_t *conditions = json_object();
    jsonx_set_str(conditions, "memory", h->pinned ? "pinned" : "pageable");
    if (h->numa_node >= 0)
        jsonx_set_int(conditions, "numa_node", h->numa_node);
    return conditions;
}

int gpu_host_measure(struct gpu_job *job, struct gpu_dev *dev, struct gpu_host *h,
                     const char *to_device, const char *from_device, struct err *err)
{
    const char *path = h->pinned ? "copy engine" : "driver's staging";
    struct gpu_series rows[] = {
        {.quantity = to_device,
         .method = "cuMemcpyHtoDAsync",
         .work = gpu_host_to_device,
         .prepare = prepare_to_device,
         .inspect = inspect_to_device},
        {.quantity = from_device,
         .method = "cuMemcpyDtoHAsync",
         .work = gpu_host_from_device,
         .prepare = prepare_from_device,
         .inspect = inspect_from_device},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rows[i].path = path;
        rows[i].bytes = (double)h->bytes;
        rows[i].buffer_bytes = h->bytes;
        rows[i].samples = SAMPLES;
        rows[i].pieces = PIECES;
        rows[i].warm_up = WARM_UP;
        rows[i].by_wall = !h->pinned; /* the driver blocks the caller while it stages */
        rows[i].ctx = h;
        rows[i].conditions = conditions_of(h);
        if (gpu_series_run(job, dev, &rows[i], err) != 0)
            return -1;
    }
    return 0;
}
