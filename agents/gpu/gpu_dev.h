/* One GPU in use: primary context, kernels, a stream, and timing that leaves the enqueuing out.
 *
 * Timed work is queued behind a kernel that spins on a flag of the host, so that nothing but the
 * GPU's own work lies between the two events.  Every wait ends at the deadline.  One thread. */
#ifndef MUSTER_AGENTS_GPU_GPU_DEV_H
#define MUSTER_AGENTS_GPU_GPU_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agents/gpu/cuda.h"
#include "agents/gpu/ptx.h"
#include "common/err.h"

enum { GPU_DEV_THREADS = 512, GPU_DEV_BLOCKS_PER_SM = 4 };

struct gpu_dev {
    struct cuda cuda;
    const char *cause;                /* of the last failure, a code of causes.def */
    int device, sm_count, capability; /* capability: 10 * major + minor */
    int64_t deadline_ms;              /* on the now_ms() clock */
    struct cuda_context *ctx;
    struct cuda_module *module;
    struct cuda_function *kernels[PTX_KERNEL__COUNT];
    struct cuda_stream *stream, *second;
    struct cuda_event *start, *stop, *joined;
    volatile uint32_t *flag;      /* pinned, seen by the spinning kernel */
    uint64_t flag_device, result; /* result: two words of device memory */
};

/* ERR_ENV with dev->cause: no driver, no such GPU, no context, kernels refused.  What was opened is
 * closed again. */
int gpu_dev_open(struct gpu_dev *dev, const char *bdf, int64_t deadline_ms, struct err *err);
void gpu_dev_close(struct gpu_dev *dev); /* half-open and zeroed accepted; keeps cause */

/* Turn a result into the error and the cause; 0 for CUDA_SUCCESS. */
int gpu_dev_check(struct gpu_dev *dev, int result, const char *what, struct err *err);
/* args: addresses of the kernel's parameters, as ptx.h lists them. */
int gpu_dev_launch(struct gpu_dev *dev, enum ptx_kernel kernel, unsigned blocks, unsigned threads,
                   unsigned shared_bytes, void **args, struct err *err);
/* Until both streams are empty.  ERR_TIMEOUT. */
int gpu_dev_wait(struct gpu_dev *dev, struct err *err);

/* --- memory and content, on dev->stream and waited for --------------------------------------- */

/* At most max_bytes and an eighth of what is free, a multiple of align_bytes, never 0. */
int gpu_dev_buffer_bytes(struct gpu_dev *dev, size_t max_bytes, size_t align_bytes, size_t *bytes,
                         struct err *err);
int gpu_dev_alloc(struct gpu_dev *dev, uint64_t *ptr, size_t bytes, struct err *err);
void gpu_dev_free(struct gpu_dev *dev, uint64_t *ptr); /* 0 accepted */
/* The two words that kernels add to (dev->result). */
int gpu_dev_result_get(struct gpu_dev *dev, uint64_t words[2], struct err *err);
int gpu_dev_result_set(struct gpu_dev *dev, const uint64_t words[2], struct err *err);
/* Fill with the pattern; *sum (may be NULL) gets the exclusive or of all words. */
int gpu_dev_fill(struct gpu_dev *dev, uint64_t ptr, size_t bytes, uint32_t seed, uint32_t *sum,
                 struct err *err);
struct gpu_dev_diff {
    uint64_t compared_bytes, wrong_words,
        first_bad_byte; /* first_bad_byte: only with wrong words */
};
int gpu_dev_verify(struct gpu_dev *dev, uint64_t ptr, size_t bytes, uint32_t seed,
                   struct gpu_dev_diff *diff, struct err *err);

/* --- timing ---------------------------------------------------------------------------------- */

/* One piece of timed work: queue it on dev->stream. */
typedef int gpu_dev_work(struct gpu_dev *dev, void *ctx, struct err *err);
/* Queue `warm_up` and then `count` pieces; *seconds is the time of the `count`. */
int gpu_dev_time(struct gpu_dev *dev, gpu_dev_work *work, void *ctx, unsigned warm_up,
                 unsigned count, double *seconds, struct err *err);
/* The same by the host's clock and without holding the GPU back, for work that blocks the caller
 * (copies of pageable memory). */
int gpu_dev_time_wall(struct gpu_dev *dev, gpu_dev_work *work, void *ctx, unsigned warm_up,
                      unsigned count, double *seconds, struct err *err);

#endif
