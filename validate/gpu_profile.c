#include "validate/gpu_profile.h"

#include <string.h>

#include "common/util.h"

static const struct gpu_profile profiles[] = {
#define GPU_PROFILE(name_, memory_, generation_, width_, guarded_, source_)                        \
    {.name = (name_),                                                                              \
     .memory_bytes_per_s = (memory_),                                                              \
     .generation = (generation_),                                                                  \
     .width = (width_),                                                                            \
     .guarded = (guarded_) != 0,                                                                   \
     .source = (source_)},
#include "validate/gpu_profiles.def"
#undef GPU_PROFILE
};

static const struct gpu_profile_host hosts[] = {
#define GPU_HOST(generation_, peak_, floor_, source_)                                              \
    {.generation = (generation_), .peak = (peak_), .floor = (floor_), .source = (source_)},
#include "validate/gpu_hosts.def"
#undef GPU_HOST
};

static const struct {
    int number;
    const char *class, *meaning;
} xids[] = {
#define XID(number, finding, meaning) {number, #finding, meaning},
#include "validate/diagnose/xid.def"
#undef XID
};

/* The classes that do not convict; every other one does. */
static const struct {
    const char *class;
    enum gpu_profile_xid verdict;
} classes[] = {
    {"xid_application", GPU_PROFILE_XID_NOTED}, {"xid_cleanup", GPU_PROFILE_XID_HARMLESS},
    {"xid_harmless", GPU_PROFILE_XID_HARMLESS}, {"xid_contained", GPU_PROFILE_XID_NOTED},
    {"xid_remap", GPU_PROFILE_XID_NOTED},
};

const struct gpu_profile *gpu_profile_at(size_t index)
{
    return index < ARRAY_LEN(profiles) ? &profiles[index] : NULL;
}

/* "NVIDIA H200" is not "NVIDIA H200 NVL", but "Tesla V100-SXM2" is "Tesla V100-SXM2-32GB": behind a
 * name may follow a size, not another word. */
static bool fits(const char *profile, const char *name)
{
    size_t len = strlen(profile);
    if (strncmp(profile, name, len) != 0)
        return false;
    return name[len] == '\0' || name[len] == '-' ||
           (name[len] == ' ' && name[len + 1] >= '0' && name[len + 1] <= '9');
}

const struct gpu_profile *gpu_profile_find(const char *name)
{
    const struct gpu_profile *best = NULL;
    for (size_t i = 0; name && i < ARRAY_LEN(profiles); i++)
        if (fits(profiles[i].name, name) &&
            (!best || strlen(profiles[i].name) > strlen(best->name)))
            best = &profiles[i];
    return best;
}

const struct gpu_profile_host *gpu_profile_host(int generation)
{
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
        if (hosts[i].generation == generation)
            return &hosts[i];
    return NULL;
}

enum gpu_profile_xid gpu_profile_xid(int number, const char **meaning)
{
    *meaning = "not in the list of known numbers";
    for (size_t i = 0; i < ARRAY_LEN(xids); i++) {
        if (xids[i].number != number)
            continue;
        *meaning = xids[i].meaning;
        for (size_t k = 0; k < ARRAY_LEN(classes); k++)
            if (strcmp(classes[k].class, xids[i].class) == 0)
                return classes[k].verdict;
        return GPU_PROFILE_XID_FATAL;
    }
    return GPU_PROFILE_XID_FATAL;
}
