/* NVML for the stages: health, link state and counters of one GPU, by dlopen.
 *
 * facts_nvml asks who the GPUs are; this asks how they do.  May hang with the driver: use it in a
 * process that may be killed.  NVML does not need CUDA and holds no GPU memory. */
#ifndef MUSTER_AGENTS_GPU_NVML_H
#define MUSTER_AGENTS_GPU_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct nvml_device;

enum { NVML_OK = 0, NVML_NOT_SUPPORTED = 3, NVML_TOO_SMALL = 7, NVML_MAX_LINKS = 36 };

/* nvmlFieldValue_t */
struct nvml_field {
    unsigned id, scope;
    long long timestamp_us, latency_us;
    int type, result;
    union {
        double real;
        int si;
        unsigned ui;
        unsigned long ul;
        unsigned long long ull;
        long long sll;
        unsigned short us;
    } value;
};

struct nvml_process { /* nvmlProcessInfo_v2_t, which the _v3 call uses */
    unsigned pid;
    unsigned long long memory_bytes;
    unsigned gpu_instance, compute_instance;
};

struct nvml {
#define NVML_SYMBOL(slot, name, required, ...) int (*slot)(__VA_ARGS__);
#include "agents/gpu/nvml_symbols.def"
#undef NVML_SYMBOL
    const char *(*error_string)(int result);
    bool simulated;
};

/* ERR_ENV: library or symbol missing, or NVML's own text. */
int nvml_open(struct nvml *nvml, struct err *err);
void nvml_close(struct nvml *nvml);
int nvml_find(const struct nvml *nvml, const char *bdf, struct nvml_device **device,
              struct err *err);
/* One field as a number.  Returns NVML's result; *value is set only for NVML_OK. */
int nvml_field(const struct nvml *nvml, struct nvml_device *device, unsigned id, unsigned scope,
               double *value);

#endif
