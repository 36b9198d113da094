/* What the checks of GPUs share: the GPUs of a node, and records about them. */
#ifndef MUSTER_VALIDATE_CHECK_GPU_H
#define MUSTER_VALIDATE_CHECK_GPU_H

#include "validate/check.h"
#include "validate/gpu_profile.h"

struct check_gpu {
    const char *node, *name;           /* name: NVML's of the device */
    const char *subject;               /* of the record: "gpu001/gpu:0" or "gpu001/gpu:0>gpu:1" */
    const char *own;                   /* of the GPU itself, which has the record gpu_run */
    const struct gpu_profile *profile; /* NULL: unknown model */
};

/* Calls use() for every GPU that the facts of the site's nodes name. */
typedef void check_gpu_fn(const struct check *check, struct check_env *env,
                          const struct check_gpu *gpu, void *ctx);
void check_gpu_each(const struct check *check, struct check_env *env, check_gpu_fn *use, void *ctx);

/* The row of a record about a GPU, filled from its outcome; the record only when it holds samples.
 * NULL with *row NULL: nobody asks for the stage and it did not run. */
const struct evidence_set_record *check_gpu_record(struct check_env *env,
                                                   const struct check_gpu *gpu, const char *stage,
                                                   const char *quantity, bool needed,
                                                   struct ledger_row **row);

#endif
