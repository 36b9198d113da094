#include "agents/gpu/gpu_health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/gpu/gpu_klog.h"
#include "common/jsonx.h"
#include "common/util.h"

enum { MAX_PROCESSES = 64 };

static const struct {
    const char *quantity;
    unsigned field;
} fields[] = {
#define HEALTH(quantity, field) {quantity, field},
#include "agents/gpu/health.def"
#undef HEALTH
};

static void emit_field(struct gpu_job *job, const struct nvml *nvml, struct nvml_device *device,
                       const char *quantity, unsigned field)
{
    double value = 0;
    int result = nvml_field(nvml, device, field, 0, &value);
    if (result == NVML_OK) {
        json_t *conditions = json_object();
        jsonx_set_int(conditions, "nvml_field", field);
        gpu_job_number(job, quantity, "1", value, conditions);
        return;
    }
    AUTO(free_str)
    char *reason = str_printf("NVML, field %u of %s: %s", field, job->name,
                              result == NVML_NOT_SUPPORTED ? "not supported by this GPU or driver"
                                                           : nvml->error_string(result));
    gpu_job_absent(job, quantity, "1", NULL, reason);
}

void gpu_health_emit(struct gpu_job *job, const struct nvml *nvml, struct nvml_device *device)
{
    gpu_job_step(job, "health counters");
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        emit_field(job, nvml, device, fields[i].quantity, fields[i].field);
    int current = 0, pending = 0;
    if (nvml->ecc_mode && nvml->ecc_mode(device, &current, &pending) == NVML_OK) {
        json_t *conditions = json_object();
        jsonx_set_bool(conditions, "pending", pending != 0);
        gpu_job_number(job, "ecc_mode", "1", current, conditions);
    } else {
        gpu_job_absent(job, "ecc_mode", "1", NULL, "NVML does not tell the ECC mode of this GPU");
    }
}

void gpu_health_throttle(struct gpu_job *job, const struct nvml *nvml, struct nvml_device *device)
{
    static const struct {
        unsigned long long bit;
        const char *name;
    } reasons[] = {
        {0x1, "idle"},
        {0x2, "clocks set by application"},
        {0x4, "power cap"},
        {0x8, "hardware slowdown"},
        {0x10, "sync boost"},
        {0x20, "software thermal slowdown"},
        {0x40, "hardware thermal slowdown"},
        {0x80, "hardware power brake"},
        {0x100, "display clocks"},
    };
    unsigned long long mask = 0;
    unsigned celsius = 0, milliwatts = 0;
    int result =
        nvml->throttle_reasons ? nvml->throttle_reasons(device, &mask) : NVML_NOT_SUPPORTED;
    if (result != NVML_OK) {
        gpu_job_absent(job, "throttle", "1", NULL, nvml->error_string(result));
        return;
    }
    json_t *conditions = json_object(), *names = json_array();
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (mask & reasons[i].bit)
            jsonx_append_str(names, reasons[i].name);
    jsonx_set(conditions, "reasons", names);
    jsonx_set_str(conditions, "when", "under load");
    if (nvml->temperature && nvml->temperature(device, 0, &celsius) == NVML_OK)
        jsonx_set_int(conditions, "celsius", celsius);
    if (nvml->power && nvml->power(device, &milliwatts) == NVML_OK)
        jsonx_set_num(conditions, "watts", milliwatts / 1000.0);
    gpu_job_number(job, "throttle", "1", (double)mask, conditions);
}

static bool is_of(const struct gpu_klog_line *line, const char *bdf)
{
    char address[32];
    snprintf(address, sizeof address, "%04x:%02x:%02x.", line->domain, line->bus, line->device);
    return !line->is_switch && str_has_prefix(bdf, address);
}

void gpu_health_xids(struct gpu_job *job)
{
    struct err err = {0};
    struct gpu_klog *log = mem_zero(1, sizeof *log);
    gpu_job_step(job, "kernel log");
    if (gpu_klog_read(job->root, log, &err) != 0) {
        gpu_job_absent(job, "xid", "1", NULL, err.text);
        free(log);
        return;
    }
    json_t *conditions = json_object(), *numbers = json_array(), *lines = json_array();
    size_t held = log->count < GPU_KLOG_MAX_LINES ? log->count : GPU_KLOG_MAX_LINES;
    double count = 0;
    for (size_t i = 0; i < held; i++) {
        if (!is_of(&log->lines[i], job->bdf))
            continue;
        count++;
        jsonx_append(numbers, json_integer(log->lines[i].number));
        jsonx_append_str(lines, log->lines[i].text);
    }
    jsonx_set(conditions, "numbers", numbers);
    jsonx_set(conditions, "lines", lines);
    jsonx_set_bool(conditions, "complete", log->complete && log->count <= GPU_KLOG_MAX_LINES);
    gpu_job_number(job, "xid", "1", count, conditions);
    free(log);
}

char *gpu_health_users(const struct gpu_job *job, const struct nvml *nvml,
                       struct nvml_device *device)
{
    struct nvml_process list[MAX_PROCESSES];
    unsigned count = MAX_PROCESSES;
    if (!nvml->processes || nvml->processes(device, &count, list) != NVML_OK)
        return NULL;
    struct strbuf text = {0};
    for (unsigned i = 0; i < count && i < MAX_PROCESSES; i++) {
        if (list[i].pid == (unsigned)getpid())
            continue;
        AUTO(free_str) char *path = str_printf("/proc/%u/comm", list[i].pid);
        AUTO(free_str) char *name = fs_read_line_at(job->root, path);
        strbuf_printf(&text, "%spid %u (%s)", text.len ? ", " : "", list[i].pid,
                      name ? name : "not in this process namespace");
    }
    return text.data;
}
