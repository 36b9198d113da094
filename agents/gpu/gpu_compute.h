/* A computation whose result is known to the bit, on every multiprocessor of one GPU. */
#ifndef MUSTER_AGENTS_GPU_GPU_COMPUTE_H
#define MUSTER_AGENTS_GPU_GPU_COMPUTE_H

#include "agents/gpu/gpu_dev.h"
#include "agents/gpu/gpu_job.h"

/* Emits `compute`: the number of multiprocessors that ran it, failed when one computed something
 * else than the processor did.  Integer, single and double precision units are used; tensor cores
 * are not. */
int gpu_compute_measure(struct gpu_job *job, struct gpu_dev *dev, struct err *err);

#endif
