/* Host memory beside one GPU: where it lies, and copies between it and the GPU. */
#ifndef MUSTER_AGENTS_GPU_GPU_HOST_H
#define MUSTER_AGENTS_GPU_GPU_HOST_H

#include "agents/gpu/gpu_dev.h"
#include "agents/gpu/gpu_job.h"

/* The memory node that a PCI function is near, -1 when the machine does not say. */
int gpu_host_numa_node(const struct fs_root *root, const char *bdf);
/* Run this process on that node's processors and take its memory from there.  Nothing is changed
 * for -1 or where the kernel refuses. */
void gpu_host_bind(const struct fs_root *root, int numa_node);

struct gpu_host {
    void *host;      /* bytes of host memory */
    uint64_t device; /* as many on the GPU */
    size_t bytes;
    bool pinned;
    int numa_node; /* where the host's pages lie, -1: not known */
};
int gpu_host_open(struct gpu_host *h, struct gpu_dev *dev, size_t bytes, bool pinned,
                  struct err *err);
void gpu_host_close(struct gpu_host *h, struct gpu_dev *dev); /* zeroed accepted */

/* Pattern by the processor, for content that no GPU has touched. */
void gpu_host_fill(void *host, size_t bytes, uint32_t seed);
void gpu_host_verify(const void *host, size_t bytes, uint32_t seed, struct gpu_dev_diff *diff);

/* Work for gpu_dev_time(); ctx is a struct gpu_host. */
int gpu_host_to_device(struct gpu_dev *dev, void *ctx, struct err *err);
int gpu_host_from_device(struct gpu_dev *dev, void *ctx, struct err *err);

/* Emits two bandwidths, one per direction, each sample verified: the first by the GPU, the second
 * by the processor. */
int gpu_host_measure(struct gpu_job *job, struct gpu_dev *dev, struct gpu_host *h,
                     const char *to_device, const char *from_device, struct err *err);

#endif
