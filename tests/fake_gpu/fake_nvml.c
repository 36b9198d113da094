/* libnvidia-ml.so.1 as facts and stages use it. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agents/gpu/nvml.h"
#include "fake.h"

#define API __attribute__((visibility("default")))

enum { OK = 0, UNSUPPORTED = 3, NOT_FOUND = 6, LOST = 15, MAX_GPU = FAKE_MAX_GPUS };

API const int muster_fake_gpu = 1;

struct nvml_device {
    int index;
};
static struct nvml_device devices[MAX_GPU];

struct fake_pci { /* nvmlPciInfo_t */
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
struct fake_memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

API int nvmlInit_v2(void);
API int nvmlShutdown(void);
API const char *nvmlErrorString(int result);
API int nvmlDeviceGetCount_v2(unsigned *count);
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **device);
API int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct nvml_device **device);
API int nvmlDeviceGetPciInfo_v3(struct nvml_device *device, struct fake_pci *out);
API int nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct fake_memory *out);
API int nvmlDeviceGetUUID(struct nvml_device *device, char *out, unsigned len);
API int nvmlDeviceGetSerial(struct nvml_device *device, char *out, unsigned len);
API int nvmlDeviceGetName(struct nvml_device *device, char *out, unsigned len);
API int nvmlDeviceGetVbiosVersion(struct nvml_device *device, char *out, unsigned len);
API int nvmlDeviceGetFieldValues(struct nvml_device *device, int count, struct nvml_field *fields);
API int nvmlDeviceGetEccMode(struct nvml_device *device, int *current, int *pending);
API int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *device,
                                                  unsigned long long *reasons);
API int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned *count,
                                                struct nvml_process *processes);
API int nvmlDeviceGetCurrPcieLinkGeneration(struct nvml_device *device, unsigned *generation);
API int nvmlDeviceGetCurrPcieLinkWidth(struct nvml_device *device, unsigned *width);
API int nvmlDeviceGetMaxPcieLinkGeneration(struct nvml_device *device, unsigned *generation);
API int nvmlDeviceGetMaxPcieLinkWidth(struct nvml_device *device, unsigned *width);
API int nvmlDeviceGetPcieReplayCounter(struct nvml_device *device, unsigned *count);

int nvmlInit_v2(void)
{
    while (fake_fault(-1, "hang-nvml"))
        pause();
    return OK;
}

int nvmlShutdown(void)
{
    return OK;
}

const char *nvmlErrorString(int result)
{
    return result == LOST ? "GPU is lost" : result == UNSUPPORTED ? "Not Supported" : "simulated";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)fake_get()->gpus;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **device)
{
    if (index >= (unsigned)fake_get()->gpus)
        return NOT_FOUND;
    devices[index].index = (int)index;
    *device = &devices[index];
    return OK;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct nvml_device **device)
{
    int index = fake_find(bus_id);
    if (index < 0)
        return NOT_FOUND;
    if (fake_fault(index, "lost"))
        return LOST;
    return nvmlDeviceGetHandleByIndex_v2((unsigned)index, device);
}

int nvmlDeviceGetPciInfo_v3(struct nvml_device *device, struct fake_pci *out)
{
    *out = (struct fake_pci){.bus = 0x1bu + (unsigned)device->index};
    return OK;
}

int nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct fake_memory *out)
{
    (void)device;
    *out = (struct fake_memory){.total = fake_get()->memory_bytes};
    return OK;
}

int nvmlDeviceGetUUID(struct nvml_device *device, char *out, unsigned len)
{
    snprintf(out, len, "GPU-00000000-0000-0000-0000-%012d", device->index);
    return OK;
}

int nvmlDeviceGetSerial(struct nvml_device *device, char *out, unsigned len)
{
    snprintf(out, len, "%d", 1000 + device->index);
    return OK;
}

int nvmlDeviceGetName(struct nvml_device *device, char *out, unsigned len)
{
    (void)device;
    snprintf(out, len, "%s", fake_get()->name);
    return OK;
}

int nvmlDeviceGetVbiosVersion(struct nvml_device *device, char *out, unsigned len)
{
    (void)device;
    snprintf(out, len, "00.00");
    return OK;
}

/* Fields that a healthy device has, and the fault that raises each. */
static const struct {
    unsigned id;
    const char *fault;
} fields[] = {
    {3, "ecc-corrected"},
    {4, "ecc"},
    {5, "ecc-corrected-lifetime"},
    {6, "ecc-lifetime"},
    {142, "remapped-correctable"},
    {143, "remapped"},
    {144, "remap-pending"},
    {145, "remap-failure"},
    {230, "recovery"},
};

int nvmlDeviceGetFieldValues(struct nvml_device *device, int count, struct nvml_field *wanted)
{
    for (int i = 0; i < count; i++) {
        wanted[i].result = UNSUPPORTED;
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
            const struct fake_fault *fault = fake_fault(device->index, fields[k].fault);
            if (fields[k].id != wanted[i].id || fake_fault(device->index, "no-fields"))
                continue;
            wanted[i].result = OK;
            wanted[i].type = 3;
            wanted[i].value.ull = fault ? (unsigned long long)fault->value : 0;
        }
    }
    return OK;
}

int nvmlDeviceGetEccMode(struct nvml_device *device, int *current, int *pending)
{
    *current = *pending = fake_fault(device->index, "ecc-off") == NULL;
    return OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *device,
                                              unsigned long long *reasons)
{
    *reasons = fake_fault(device->index, "thermal") ? 0x40 : 0x4;
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned *count,
                                            struct nvml_process *processes)
{
    *count = fake_fault(device->index, "busy") != NULL;
    if (*count)
        processes[0] = (struct nvml_process){.pid = 1};
    return OK;
}

int nvmlDeviceGetCurrPcieLinkGeneration(struct nvml_device *device, unsigned *generation)
{
    *generation = fake_fault(device->index, "slow-link") ? 1 : 5;
    return OK;
}

int nvmlDeviceGetCurrPcieLinkWidth(struct nvml_device *device, unsigned *width)
{
    *width = fake_fault(device->index, "narrow-link") ? 8 : 16;
    return OK;
}

int nvmlDeviceGetMaxPcieLinkGeneration(struct nvml_device *device, unsigned *generation)
{
    (void)device;
    *generation = 5;
    return OK;
}

int nvmlDeviceGetMaxPcieLinkWidth(struct nvml_device *device, unsigned *width)
{
    (void)device;
    *width = 16;
    return OK;
}

/* With the fault, every reading finds more than the last. */
int nvmlDeviceGetPcieReplayCounter(struct nvml_device *device, unsigned *count)
{
    static unsigned total = 3;
    const struct fake_fault *fault = fake_fault(device->index, "replays");
    total += fault ? (unsigned)fault->value : 0;
    *count = total;
    return OK;
}
