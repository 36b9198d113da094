/* The memory of one GPU: how fast, and whether it keeps what is written. */
#ifndef MUSTER_AGENTS_GPU_GPU_MEM_H
#define MUSTER_AGENTS_GPU_GPU_MEM_H

#include "agents/gpu/gpu_dev.h"
#include "agents/gpu/gpu_job.h"

/* Called while the GPU copies at full rate. */
typedef void gpu_mem_under_load(struct gpu_job *job, void *ctx);

/* Emits memory_copy_bandwidth, memory_read_bandwidth, memory_driver_bandwidth and memory_data;
 * calls under_load (may be NULL) while a long copy runs.  -1: the GPU failed. */
int gpu_mem_measure(struct gpu_job *job, struct gpu_dev *dev, gpu_mem_under_load *under_load,
                    void *ctx, struct err *err);

#endif
