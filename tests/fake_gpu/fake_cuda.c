/* libcuda.so.1 as the agent uses it.  Device pointers are host pointers; work is done when it is
 * queued, and its stated duration is added to the clock that events read. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/gpu/ptx.h"
#include "fake.h"

#define API __attribute__((visibility("default")))

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, WRONG_SM = 17, WORDS_OF_VECTOR = 4 };

API const int muster_fake_gpu = 1;

struct context {
    int gpu;
};
struct event {
    double at_ns;
};

static struct context contexts[FAKE_MAX_GPUS];
static struct context *current;
static double clock_ns;
static size_t used_bytes[FAKE_MAX_GPUS];

static int here(void)
{
    return current ? current->gpu : 0;
}

/* A driver that never returns, or takes the process with it. */
static void misbehave(const char *where)
{
    char hang[FAKE_NAME_BYTES], crash[FAKE_NAME_BYTES];
    snprintf(hang, sizeof hang, "hang-%s", where);
    snprintf(crash, sizeof crash, "crash-%s", where);
    while (fake_fault(here(), hang))
        pause();
    if (fake_fault(here(), crash))
        kill(getpid(), SIGKILL);
}

/* Prototypes are those of agents/gpu/cuda_symbols.def. */
#define CUDA_SYMBOL(slot, name, required, ...) typedef int slot##_fn(__VA_ARGS__);
struct cuda_context;
struct cuda_module;
struct cuda_function;
struct cuda_stream;
struct cuda_event;
#include "agents/gpu/cuda_symbols.def"
#undef CUDA_SYMBOL
API init_fn cuInit;
API driver_version_fn cuDriverGetVersion;
API error_name_fn cuGetErrorName;
API error_string_fn cuGetErrorString;
API device_count_fn cuDeviceGetCount;
API device_get_fn cuDeviceGet;
API device_name_fn cuDeviceGetName;
API device_bus_id_fn cuDeviceGetPCIBusId;
API device_attribute_fn cuDeviceGetAttribute;
API ctx_retain_fn cuDevicePrimaryCtxRetain;
API ctx_release_fn cuDevicePrimaryCtxRelease_v2;
API ctx_set_fn cuCtxSetCurrent;
API ctx_synchronize_fn cuCtxSynchronize;
API module_load_fn cuModuleLoadDataEx;
API module_unload_fn cuModuleUnload;
API module_function_fn cuModuleGetFunction;
API launch_fn cuLaunchKernel;
API mem_info_fn cuMemGetInfo_v2;
API mem_alloc_fn cuMemAlloc_v2;
API mem_free_fn cuMemFree_v2;
API host_alloc_fn cuMemHostAlloc;
API host_free_fn cuMemFreeHost;
API host_device_ptr_fn cuMemHostGetDevicePointer_v2;
API copy_to_device_fn cuMemcpyHtoDAsync_v2;
API copy_to_host_fn cuMemcpyDtoHAsync_v2;
API copy_on_device_fn cuMemcpyDtoDAsync_v2;
API set_words_fn cuMemsetD32Async;
API stream_create_fn cuStreamCreate;
API stream_destroy_fn cuStreamDestroy_v2;
API stream_query_fn cuStreamQuery;
API stream_wait_fn cuStreamWaitEvent;
API event_create_fn cuEventCreate;
API event_destroy_fn cuEventDestroy_v2;
API event_record_fn cuEventRecord;
API event_elapsed_fn cuEventElapsedTime;

int cuInit(unsigned flags)
{
    (void)flags;
    return fake_get()->cuinit;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return OK;
}

int cuGetErrorName(int result, const char **name)
{
    (void)result;
    *name = "CUDA_ERROR_SIMULATED";
    return OK;
}

int cuGetErrorString(int result, const char **text)
{
    (void)result;
    *text = "simulated";
    return OK;
}

int cuDeviceGetCount(int *count)
{
    *count = fake_get()->gpus;
    return OK;
}

int cuDeviceGet(int *device, int ordinal)
{
    if (ordinal < 0 || ordinal >= fake_get()->gpus)
        return INVALID;
    *device = ordinal;
    return OK;
}

int cuDeviceGetName(char *name, int len, int device)
{
    (void)device;
    snprintf(name, (size_t)len, "%s", fake_get()->name);
    return OK;
}

int cuDeviceGetPCIBusId(char *bus_id, int len, int device)
{
    char bdf[16];
    fake_bdf(device, bdf);
    snprintf(bus_id, (size_t)len, "%s", fake_fault(device, "hidden") ? "none" : bdf);
    return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 16 ? fake_get()->sms : attribute == 75 ? 9 : 0;
    return OK;
}

int cuDevicePrimaryCtxRetain(struct cuda_context **ctx, int device)
{
    contexts[device].gpu = device;
    current = &contexts[device];
    misbehave("context");
    *ctx = (struct cuda_context *)&contexts[device];
    return fake_fault(device, "exclusive") ? 46 : OK;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    return OK;
}

int cuCtxSetCurrent(struct cuda_context *ctx)
{
    current = (struct context *)ctx;
    return OK;
}

int cuCtxSynchronize(void)
{
    return OK;
}

/* --- kernels ---------------------------------------------------------------------------------- */

int cuModuleLoadDataEx(struct cuda_module **module, const void *image, unsigned option_count,
                       int *options, void **values)
{
    (void)option_count;
    (void)options;
    (void)values;
    *module = (struct cuda_module *)(uintptr_t)image;
    return strncmp(image, ".version 6.0", 12) == 0 ? OK : 218;
}

int cuModuleUnload(struct cuda_module *module)
{
    (void)module;
    return OK;
}

int cuModuleGetFunction(struct cuda_function **function, struct cuda_module *module,
                        const char *name)
{
    (void)module;
    for (size_t i = 0; ptx_kernels[i]; i++)
        if (strcmp(ptx_kernels[i], name) == 0) {
            *function = (struct cuda_function *)(uintptr_t)&ptx_kernels[i];
            return OK;
        }
    return 500;
}

/* The value behind a kernel's parameter. */
static uint64_t u64_of(void **args, size_t i)
{
    uint64_t value;
    memcpy(&value, args[i], sizeof value);
    return value;
}

static uint32_t u32_of(void **args, size_t i)
{
    uint32_t value;
    memcpy(&value, args[i], sizeof value);
    return value;
}

static void *ptr_of(void **args, size_t i)
{
    return (void *)(uintptr_t)u64_of(args, i);
}

static void spend(double bytes, double rate)
{
    const struct fake_fault *slow = fake_fault(here(), "slow-memory");
    clock_ns += bytes / rate * 1e9 * (slow ? slow->value : 1);
}

static void run_fill(void **args)
{
    uint32_t *dst = ptr_of(args, 0), seed = u32_of(args, 2), sum = 0, *out = ptr_of(args, 3);
    uint64_t words = u64_of(args, 1) * WORDS_OF_VECTOR;
    for (uint64_t i = 0; i < words; i++)
        sum ^= dst[i] = ptx_pattern(i, seed);
    *out ^= sum;
    if (fake_fault(here(), "weak-cell") && words > 99)
        dst[99] ^= 4;
}

static void run_verify(void **args)
{
    const uint32_t *src = ptr_of(args, 0);
    uint32_t seed = u32_of(args, 2);
    uint64_t words = u64_of(args, 1) * WORDS_OF_VECTOR, *result = ptr_of(args, 3);
    for (uint64_t i = 0; i < words; i++)
        if (src[i] != ptx_pattern(i, seed)) {
            result[0]++;
            result[1] = i < result[1] ? i : result[1];
        }
}

static void run_copy(void **args)
{
    uint64_t bytes = u64_of(args, 2) * PTX_VECTOR_BYTES;
    char *dst = ptr_of(args, 0);
    memcpy(dst, ptr_of(args, 1), bytes);
    if (fake_fault(here(), "copy-corrupt"))
        dst[bytes / 2] ^= 1;
    spend(2 * (double)bytes, fake_get()->memory_rate * 0.9);
}

static void run_read(void **args)
{
    const uint32_t *src = ptr_of(args, 0);
    uint64_t words = u64_of(args, 1) * WORDS_OF_VECTOR;
    uint32_t sum = 0, *out = ptr_of(args, 2);
    for (uint64_t i = 0; i < words; i++)
        sum ^= src[i];
    *out ^= sum;
    spend((double)words * sizeof *src, fake_get()->memory_rate);
}

static void run_compute(void **args)
{
    uint32_t steps = u32_of(args, 0), *runs = ptr_of(args, 2);
    uint64_t(*results)[PTX_COMPUTE_THREADS] = ptr_of(args, 1);
    for (uint32_t t = 0; t < PTX_COMPUTE_THREADS; t++) {
        uint64_t value = ptx_compute(t, steps);
        for (int sm = 0; sm < fake_get()->sms; sm++)
            results[sm][t] = value;
    }
    for (int sm = 0; sm < fake_get()->sms; sm++)
        runs[sm] += !(sm == WRONG_SM && fake_fault(here(), "sm-missing"));
    if (fake_fault(here(), "compute-wrong"))
        results[WRONG_SM][3] ^= 0x400;
}

int cuLaunchKernel(struct cuda_function *function, unsigned grid_x, unsigned grid_y,
                   unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared_bytes, struct cuda_stream *stream, void **args, void **extra)
{
    static void (*const run[PTX_KERNEL__COUNT])(void **) = {
        [PTX_FILL] = run_fill, [PTX_VERIFY] = run_verify,   [PTX_COPY] = run_copy,
        [PTX_READ] = run_read, [PTX_COMPUTE] = run_compute,
    };
    (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared_bytes, (void)stream, (void)extra;
    size_t index = (size_t)((const char *const *)(uintptr_t)function - ptx_kernels);
    if (index == PTX_COPY)
        misbehave("copy");
    if (run[index])
        run[index](args);
    return index == PTX_COMPUTE && fake_fault(here(), "illegal-address") ? 700 : OK;
}

/* --- memory ----------------------------------------------------------------------------------- */

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    *total_bytes = fake_get()->memory_bytes;
    *free_bytes = fake_get()->memory_bytes - used_bytes[here()];
    return OK;
}

/* In front of each block stands its size. */
int cuMemAlloc_v2(uint64_t *device_ptr, size_t bytes)
{
    enum { HEADER_BYTES = 256 };
    if (used_bytes[here()] + bytes > fake_get()->memory_bytes)
        return NO_MEMORY;
    char *block = aligned_alloc(HEADER_BYTES, HEADER_BYTES + (bytes + HEADER_BYTES - 1) /
                                                                 HEADER_BYTES * HEADER_BYTES);
    if (!block)
        return NO_MEMORY;
    memcpy(block, &bytes, sizeof bytes);
    memset(block + HEADER_BYTES, 0, bytes);
    used_bytes[here()] += bytes;
    *device_ptr = (uintptr_t)(block + HEADER_BYTES);
    return OK;
}

int cuMemFree_v2(uint64_t device_ptr)
{
    char *block = (char *)(uintptr_t)device_ptr - 256;
    size_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    used_bytes[here()] -= bytes < used_bytes[here()] ? bytes : used_bytes[here()];
    free(block);
    return OK;
}

#ifndef FAKE_OLD_DRIVER
int cuMemHostAlloc(void **host, size_t bytes, unsigned flags)
{
    (void)flags;
    *host = calloc(1, bytes);
    return *host ? OK : NO_MEMORY;
}
#endif

int cuMemFreeHost(void *host)
{
    free(host);
    return OK;
}

int cuMemHostGetDevicePointer_v2(uint64_t *device_ptr, void *host, unsigned flags)
{
    (void)flags;
    *device_ptr = (uintptr_t)host;
    return OK;
}

static void host_copy(void *dst, const void *src, size_t bytes)
{
    const struct fake_fault *slow = fake_fault(here(), "slow-host");
    memcpy(dst, src, bytes);
    clock_ns += (double)bytes / fake_get()->host_rate * 1e9 * (slow ? slow->value : 1);
}

int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, struct cuda_stream *stream)
{
    (void)stream;
    host_copy((void *)(uintptr_t)dst, src, bytes);
    if (bytes > 4096 && fake_fault(here(), "h2d-corrupt"))
        ((char *)(uintptr_t)dst)[bytes - 1] ^= 0x10;
    return OK;
}

int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, struct cuda_stream *stream)
{
    (void)stream;
    host_copy(dst, (const void *)(uintptr_t)src, bytes);
    return OK;
}

int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t bytes, struct cuda_stream *stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
    spend(2 * (double)bytes, fake_get()->memory_rate * 0.92);
    return OK;
}

int cuMemsetD32Async(uint64_t dst, unsigned value, size_t words, struct cuda_stream *stream)
{
    (void)stream;
    unsigned *at = (void *)(uintptr_t)dst;
    for (size_t i = 0; i < words; i++)
        at[i] = value;
    return OK;
}

/* --- streams and events ----------------------------------------------------------------------- */

int cuStreamCreate(struct cuda_stream **stream, unsigned flags)
{
    static int any;
    (void)flags;
    *stream = (struct cuda_stream *)&any;
    return OK;
}

int cuStreamDestroy_v2(struct cuda_stream *stream)
{
    (void)stream;
    return OK;
}

int cuStreamQuery(struct cuda_stream *stream)
{
    (void)stream;
    return fake_fault(here(), "never-ready") ? 600 : OK;
}

int cuStreamWaitEvent(struct cuda_stream *stream, struct cuda_event *event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return OK;
}

int cuEventCreate(struct cuda_event **event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(struct event));
    return *event ? OK : NO_MEMORY;
}

int cuEventDestroy_v2(struct cuda_event *event)
{
    free(event);
    return OK;
}

int cuEventRecord(struct cuda_event *event, struct cuda_stream *stream)
{
    (void)stream;
    ((struct event *)event)->at_ns = clock_ns;
    return OK;
}

int cuEventElapsedTime(float *ms, struct cuda_event *start, struct cuda_event *stop)
{
    *ms = (float)((((struct event *)stop)->at_ns - ((struct event *)start)->at_ns) / 1e6);
    return OK;
}
