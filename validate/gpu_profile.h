/* What GPU models have, and what Xid numbers mean for a verdict.  Pure tables. */
#ifndef MUSTER_VALIDATE_GPU_PROFILE_H
#define MUSTER_VALIDATE_GPU_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

struct gpu_profile {
    const char *name;
    double memory_bytes_per_s;
    int generation, width; /* generation 0: no PCI Express link to the host */
    bool guarded;
    const char *source;
};
/* By NVML's name of a device; NULL for an unknown model. */
const struct gpu_profile *gpu_profile_find(const char *name);
const struct gpu_profile *gpu_profile_at(size_t index); /* NULL past the end */

struct gpu_profile_host {
    int generation;
    double peak, floor; /* B/s, one direction, x16 */
    const char *source;
};
const struct gpu_profile_host *gpu_profile_host(int generation); /* NULL when not known */

enum gpu_profile_xid { GPU_PROFILE_XID_HARMLESS, GPU_PROFILE_XID_NOTED, GPU_PROFILE_XID_FATAL };
/* Class of an Xid; *meaning is its text.  A number that is not in the table is fatal: what cannot
 * be read is not taken as good. */
enum gpu_profile_xid gpu_profile_xid(int number, const char **meaning);

#endif
