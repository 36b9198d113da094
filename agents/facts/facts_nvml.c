#include "agents/facts/facts_nvml.h"

#include <assert.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

/* NVML's ABI, stable for a decade: nvmlReturn_t is an int, a device is an opaque pointer. */
enum { NVML_SUCCESS = 0, NVML_TEXT_BYTES = 96 };

struct nvml_device;
struct nvml_pci { /* nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3 */
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
struct nvml_memory { /* nvmlMemory_t */
    unsigned long long total_bytes, free_bytes, used_bytes;
};

typedef int text_fn(struct nvml_device *device, char *out, unsigned len);

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int result);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, struct nvml_device **device);
    int (*pci)(struct nvml_device *device, struct nvml_pci *out);
    int (*memory)(struct nvml_device *device, struct nvml_memory *out);
    text_fn *uuid, *serial, *name, *vbios;
};

static const struct {
    const char *symbol;
    size_t offset;
} symbols[] = {
    {"nvmlInit_v2", offsetof(struct nvml, init)},
    {"nvmlShutdown", offsetof(struct nvml, shutdown)},
    {"nvmlErrorString", offsetof(struct nvml, error_string)},
    {"nvmlDeviceGetCount_v2", offsetof(struct nvml, count)},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct nvml, by_index)},
    {"nvmlDeviceGetPciInfo_v3", offsetof(struct nvml, pci)},
    {"nvmlDeviceGetMemoryInfo", offsetof(struct nvml, memory)},
    {"nvmlDeviceGetUUID", offsetof(struct nvml, uuid)},
    {"nvmlDeviceGetSerial", offsetof(struct nvml, serial)},
    {"nvmlDeviceGetName", offsetof(struct nvml, name)},
    {"nvmlDeviceGetVbiosVersion", offsetof(struct nvml, vbios)},
};
_Static_assert(sizeof(struct nvml) == ARRAY_LEN(symbols) * sizeof(void (*)(void)),
               "one row per function");

static int load(struct nvml *api, void **library, struct err *err)
{
    *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!*library)
        return err_set(err, ERR_ENV, "the nvidia driver is loaded, but its library cannot be: %s",
                       dlerror());
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        void *found = dlsym(*library, symbols[i].symbol);
        if (!found)
            return err_set(err, ERR_ENV, "libnvidia-ml.so.1 has no %s: this driver is too old",
                           symbols[i].symbol);
        memcpy((char *)api + symbols[i].offset, &found, sizeof found);
    }
    return 0;
}

static void set_text(json_t *out, const char *key, text_fn *read, struct nvml_device *device)
{
    char text[NVML_TEXT_BYTES] = "";
    bool known = read(device, text, sizeof text) == NVML_SUCCESS;
    text[sizeof text - 1] = '\0';
    facts_set_text(out, key, known ? text : NULL);
}

/* NVML writes an eight-digit domain and capitals ("00000000:3B:00.0"); sysfs writes "0000:3b:00.0".
 */
static void set_bdf(json_t *out, const struct nvml_pci *pci)
{
    char bdf[32];
    snprintf(bdf, sizeof bdf, "%04x:%02x:%02x.0", pci->domain, pci->bus, pci->device);
    jsonx_set_str(out, "bdf", bdf);
}

static int read_device(const struct nvml *api, unsigned index, json_t *devices, struct err *err)
{
    struct nvml_device *device = NULL;
    struct nvml_pci pci = {0};
    struct nvml_memory memory = {0};
    int result = api->by_index(index, &device);
    if (result == NVML_SUCCESS)
        result = api->pci(device, &pci);
    if (result == NVML_SUCCESS)
        result = api->memory(device, &memory);
    if (result != NVML_SUCCESS) {
        err_set(err, ERR_ENV, "NVML, GPU %u: %s", index, api->error_string(result));
        err->native = result;
        return -1;
    }
    json_t *out = facts_object();
    jsonx_set_int(out, "index", index);
    set_text(out, "uuid", api->uuid, device);
    set_text(out, "serial", api->serial, device);
    set_text(out, "name", api->name, device);
    set_bdf(out, &pci);
    jsonx_set_int(out, "memory_bytes", (int64_t)memory.total_bytes);
    set_text(out, "vbios", api->vbios, device);
    jsonx_append(devices, out);
    return 0;
}

static int read_devices(const struct nvml *api, json_t *devices, struct err *err)
{
    unsigned count = 0;
    int result = api->count(&count);
    if (result != NVML_SUCCESS)
        return err_set(err, ERR_ENV, "NVML, counting GPUs: %s", api->error_string(result));
    for (unsigned i = 0; i < count; i++)
        if (read_device(api, i, devices, err) != 0)
            return -1;
    return 0;
}

int facts_nvml_devices(json_t **devices, bool *simulated, struct err *err)
{
    struct nvml api = {0};
    void *library = NULL;
    if (load(&api, &library, err) != 0) {
        if (library)
            dlclose(library);
        return -1;
    }
    assert(api.init && api.shutdown && api.error_string); /* load() has set every row */
    json_t *list = facts_array();
    int result = api.init();
    int rc = 0;
    if (result != NVML_SUCCESS) {
        rc = err_set(err, ERR_ENV, "NVML does not start: %s", api.error_string(result));
    } else {
        rc = read_devices(&api, list, err);
        (void)api.shutdown();
    }
    *simulated = dlsym(library, "muster_fake_gpu") != NULL;
    dlclose(library);
    if (rc != 0) {
        json_decref(list);
        return -1;
    }
    *devices = list;
    return 0;
}
