#include "agents/gpu/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"

#define LIBRARY "libnvidia-ml.so.1"

static const struct {
    const char *name;
    size_t offset;
    bool required;
} symbols[] = {
#define NVML_SYMBOL(slot, name, required, ...) {name, offsetof(struct nvml, slot), required},
#include "agents/gpu/nvml_symbols.def"
#undef NVML_SYMBOL
};

static int load(struct nvml *nvml, struct err *err)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(err, ERR_ENV, "the driver's library for monitoring cannot be loaded: %s",
                       dlerror());
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found && symbols[i].required)
            return err_set(err, ERR_ENV,
                           LIBRARY " has no %s: the driver is too old (R470 is the oldest)",
                           symbols[i].name);
        memcpy((char *)nvml + symbols[i].offset, &found, sizeof found);
    }
    void *text = dlsym(library, "nvmlErrorString");
    if (!text)
        return err_set(err, ERR_ENV, LIBRARY " has no nvmlErrorString: not NVIDIA's library");
    memcpy(&nvml->error_string, &text, sizeof text);
    nvml->simulated = dlsym(library, "muster_fake_gpu") != NULL;
    return 0;
}

int nvml_open(struct nvml *nvml, struct err *err)
{
    struct nvml opened = {0};
    if (load(&opened, err) != 0)
        return -1;
    int result = opened.init();
    if (result != NVML_OK) {
        err_set(err, ERR_ENV, "NVML does not start: %s", opened.error_string(result));
        err->native = result;
        return -1;
    }
    *nvml = opened;
    return 0;
}

void nvml_close(struct nvml *nvml)
{
    if (nvml->shutdown)
        (void)nvml->shutdown();
    *nvml = (struct nvml){0};
}

int nvml_find(const struct nvml *nvml, const char *bdf, struct nvml_device **device,
              struct err *err)
{
    int result = nvml->by_bus_id(bdf, device);
    if (result == NVML_OK)
        return 0;
    err_set(err, ERR_ENV, "NVML, GPU at %s: %s", bdf, nvml->error_string(result));
    err->native = result;
    return -1;
}

static bool number_of(const struct nvml_field *f, double *value)
{
    switch (f->type) {
    case 0:
        *value = f->value.real;
        return true;
    case 1:
        *value = f->value.ui;
        return true;
    case 2:
        *value = (double)f->value.ul;
        return true;
    case 3:
        *value = (double)f->value.ull;
        return true;
    case 4:
        *value = (double)f->value.sll;
        return true;
    case 5:
        *value = f->value.si;
        return true;
    case 6:
        *value = f->value.us;
        return true;
    default:
        return false;
    }
}

int nvml_field(const struct nvml *nvml, struct nvml_device *device, unsigned id, unsigned scope,
               double *value)
{
    struct nvml_field field = {.id = id, .scope = scope};
    int result = nvml->field_values(device, 1, &field);
    if (result != NVML_OK)
        return result;
    if (field.result != NVML_OK)
        return field.result;
    return number_of(&field, value) ? NVML_OK : NVML_NOT_SUPPORTED;
}
