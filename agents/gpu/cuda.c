#include "agents/gpu/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/util.h"

#define LIBRARY "libcuda.so.1"

static const struct {
    const char *name;
    size_t offset;
    bool required;
} symbols[] = {
#define CUDA_SYMBOL(slot, name, required, ...) {name, offsetof(struct cuda, slot), required},
#include "agents/gpu/cuda_symbols.def"
#undef CUDA_SYMBOL
};

/* Results that say something about the node rather than about one call. */
static const struct {
    int result;
    const char *cause, *text;
} meanings[] = {
    {CUDA_NO_DEVICE, "gpu-missing", "the driver answers, but shows CUDA no GPU"},
    {46, "gpu-busy", "another process holds the GPU exclusively"},
    {214, "gpu-memory-error", "the GPU met an uncorrectable ECC error"},
    {221, "gpu-error", "libnvidia-ptxjitcompiler.so.1 of the driver is missing"},
    {222, "gpu-error", "this driver is too old for the kernels that muster carries"},
    {700, "gpu-memory-error", "a kernel met an address that the GPU cannot reach"},
    {800, "gpu-permission", "this process may not use the GPU"},
    {802, "fabric-manager",
     "the NVSwitch fabric is not set up: the fabric manager does not run or has not finished"},
    {803, "gpu-driver-mismatch",
     "the loaded kernel module and the driver's libraries are of different versions"},
    {CUDA_UNKNOWN, "gpu-permission",
     "the driver refuses without saying why: usually /dev/nvidia* cannot be opened by this user, "
     "or nvidia-uvm is not loaded"},
};

const char *cuda_cause(int result)
{
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (meanings[i].result == result)
            return meanings[i].cause;
    return "gpu-error";
}

int cuda_fail(const struct cuda *cuda, int result, const char *what, struct err *err)
{
    const char *name = NULL, *text = NULL;
    if (!cuda->error_name || cuda->error_name(result, &name) != CUDA_SUCCESS || !name)
        name = "unknown";
    if (!cuda->error_string || cuda->error_string(result, &text) != CUDA_SUCCESS || !text)
        text = "no text";
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (meanings[i].result == result)
            text = meanings[i].text;
    err_set(err, ERR_ENV, "%s: %s (CUDA result %d, %s)", what, text, result, name);
    err->native = result;
    return -1;
}

static int load(struct cuda *cuda, const char **cause, struct err *err)
{
    cuda->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    *cause = "no-gpu-driver";
    if (!cuda->library)
        return err_set(err, ERR_ENV, "the driver's library for CUDA cannot be loaded: %s",
                       dlerror());
    *cause = "gpu-driver-old";
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        void *found = dlsym(cuda->library, symbols[i].name);
        if (!found && symbols[i].required)
            return err_set(err, ERR_ENV,
                           LIBRARY " has no %s: the driver is too old (R470 is the oldest)",
                           symbols[i].name);
        memcpy((char *)cuda + symbols[i].offset, &found, sizeof found);
    }
    cuda->simulated = dlsym(cuda->library, "muster_fake_gpu") != NULL;
    return 0;
}

int cuda_open(struct cuda *cuda, const char **cause, struct err *err)
{
    struct cuda opened = {0};
    int rc = load(&opened, cause, err);
    if (rc == 0) {
        int result = opened.init(0);
        *cause = cuda_cause(result);
        if (result != CUDA_SUCCESS)
            rc = cuda_fail(&opened, result, "cuInit", err);
        else if (opened.driver_version(&opened.version) != CUDA_SUCCESS)
            opened.version = 0;
    }
    if (rc != 0) {
        cuda_close(&opened);
        return -1;
    }
    *cause = NULL;
    *cuda = opened;
    return 0;
}

void cuda_close(struct cuda *cuda)
{
    /* The driver's threads may still run: its code stays mapped until the process ends. */
    *cuda = (struct cuda){0};
}

int cuda_attribute(const struct cuda *cuda, int device, int attribute, int *value, struct err *err)
{
    int result = cuda->device_attribute(value, attribute, device);
    return result == CUDA_SUCCESS ? 0 : cuda_fail(cuda, result, "cuDeviceGetAttribute", err);
}

int cuda_find(const struct cuda *cuda, const char *bdf, int *device, struct err *err)
{
    int count = 0, result = cuda->device_count(&count);
    if (result != CUDA_SUCCESS)
        return cuda_fail(cuda, result, "cuDeviceGetCount", err);
    for (int i = 0; i < count; i++) {
        char bus_id[CUDA_TEXT_BYTES] = "";
        int candidate = 0;
        if (cuda->device_get(&candidate, i) != CUDA_SUCCESS ||
            cuda->device_bus_id(bus_id, sizeof bus_id, candidate) != CUDA_SUCCESS)
            continue;
        if (strcasecmp(bus_id, bdf) == 0) {
            *device = candidate;
            return 0;
        }
    }
    err_set(err, ERR_ENV,
            "CUDA shows %d GPU%s, but none at %s: it may be in MIG mode, lost, or hidden by a "
            "container",
            count, count == 1 ? "" : "s", bdf);
    err->native = CUDA_NO_DEVICE;
    return -1;
}
