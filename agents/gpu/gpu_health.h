/* What NVML says about one GPU's health, as records of the stage gpu. */
#ifndef MUSTER_AGENTS_GPU_GPU_HEALTH_H
#define MUSTER_AGENTS_GPU_GPU_HEALTH_H

#include "agents/gpu/gpu_job.h"
#include "agents/gpu/nvml.h"

/* Counters and states (health.def); one that this GPU or driver does not have is not measured. */
void gpu_health_emit(struct gpu_job *job, const struct nvml *nvml, struct nvml_device *device);
/* Throttle reasons as they are now: sample is NVML's bit mask, conditions.reasons its names. */
void gpu_health_throttle(struct gpu_job *job, const struct nvml *nvml, struct nvml_device *device);
/* Xid lines of this GPU since boot. */
void gpu_health_xids(struct gpu_job *job);
/* Other processes on the GPU: NULL, or "pid 4711 (python3), pid ..." (the caller frees).  A GPU
 * that is in use is not measured under load. */
char *gpu_health_users(const struct gpu_job *job, const struct nvml *nvml,
                       struct nvml_device *device);

#endif
