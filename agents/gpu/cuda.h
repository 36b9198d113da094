/* The CUDA driver API by dlopen of libcuda.so.1, without NVIDIA's header.
 *
 * The library may hang or crash with the driver: use it in a process that may be killed
 * (gpu_child). One struct cuda per process; nothing here may be used after a fork. */
#ifndef MUSTER_AGENTS_GPU_CUDA_H
#define MUSTER_AGENTS_GPU_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct cuda_context;
struct cuda_module;
struct cuda_function;
struct cuda_stream;
struct cuda_event;

/* CUresult values that are told apart. */
enum {
    CUDA_SUCCESS = 0,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NO_DEVICE = 100,
    CUDA_NOT_READY = 600,
    CUDA_UNKNOWN = 999
};

/* CUdevice_attribute values that are used. */
enum {
    CUDA_ATTRIBUTE_SM_COUNT = 16,
    CUDA_ATTRIBUTE_INTEGRATED = 18,
    CUDA_ATTRIBUTE_CAPABILITY_MAJOR = 75,
    CUDA_ATTRIBUTE_CAPABILITY_MINOR = 76
};

enum {
    CUDA_HOST_PORTABLE = 1,
    CUDA_HOST_DEVICEMAP = 2,
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_TEXT_BYTES = 64
};

struct cuda {
#define CUDA_SYMBOL(slot, name, required, ...) int (*slot)(__VA_ARGS__);
#include "agents/gpu/cuda_symbols.def"
#undef CUDA_SYMBOL
    void *library;
    int version;    /* 1000 * major + 10 * minor of the CUDA that the driver speaks */
    bool simulated; /* a stand-in of the tests, not NVIDIA's library */
};

/* Load the library, fill every row, cuInit.  *cause: code of causes.def when it fails.
 * ERR_ENV: no library, a symbol is missing, or cuInit refuses (native holds its result). */
int cuda_open(struct cuda *cuda, const char **cause, struct err *err);
void cuda_close(struct cuda *cuda); /* a zeroed object is accepted */

/* Turns a result that is not CUDA_SUCCESS into an error: what failed, CUDA's own name and text. */
int cuda_fail(const struct cuda *cuda, int result, const char *what, struct err *err);
/* What a result says about the node: a code of causes.def, "gpu-error" for the ordinary ones. */
const char *cuda_cause(int result);

/* The device at a PCI address ("0000:1b:00.0").  ERR_ENV when CUDA does not show it. */
int cuda_find(const struct cuda *cuda, const char *bdf, int *device, struct err *err);
int cuda_attribute(const struct cuda *cuda, int device, int attribute, int *value, struct err *err);

#endif
