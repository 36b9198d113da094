/* Bandwidth as samples, each one followed by a look at what arrived.
 *
 * A sample is the time of `pieces` pieces of work, by CUDA events.  Before each sample the source
 * gets a new pattern and the target is spoiled; after it the target is compared, outside the timed
 * part.  A sample whose content is wrong makes the whole series a failed record. */
#ifndef MUSTER_AGENTS_GPU_GPU_SERIES_H
#define MUSTER_AGENTS_GPU_GPU_SERIES_H

#include "agents/gpu/gpu_dev.h"
#include "agents/gpu/gpu_job.h"

enum { GPU_SERIES_MAX_SAMPLES = 64 };

struct gpu_series {
    const char *subject;  /* NULL: the job's GPU */
    const char *quantity; /* unit is B/s */
    const char *path;     /* proof.path: what moved the bytes ("sm", "copy engine", "host") */
    const char *method;   /* conditions.method, one word or two */
    double bytes;         /* that one piece moves, as the quantity counts them */
    size_t buffer_bytes;
    unsigned samples, pieces, warm_up;
    bool by_wall; /* the host's clock instead of events: work that blocks the caller */
    gpu_dev_work *work;
    /* Set content before and look at it after sample number `seed`. */
    int (*prepare)(struct gpu_dev *dev, void *ctx, uint32_t seed, struct err *err);
    int (*inspect)(struct gpu_dev *dev, void *ctx, uint32_t seed, struct gpu_dev_diff *diff,
                   struct err *err);
    void *ctx;
    json_t *conditions, *proof; /* more members; taken over; may be NULL */
};

/* Measure and emit one record.  -1 with err: the GPU failed; nothing was emitted. */
int gpu_series_run(struct gpu_job *job, struct gpu_dev *dev, struct gpu_series *series,
                   struct err *err);

#endif
