/* Work on one GPU in a process of its own, and what it hands back.
 *
 * The driver may hang or crash the process that calls it.  So each GPU gets a child that announces
 * what it is about to do and hands over evidence; a child that does not end in time is killed, and
 * the record `gpu_run` of its GPU names the step in which it hung.  The other GPUs go on.
 * The parent never loads the driver's libraries. */
#ifndef MUSTER_AGENTS_GPU_GPU_JOB_H
#define MUSTER_AGENTS_GPU_GPU_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agents/stages/stage.h"
#include "common/err.h"
#include "common/evidence.h"
#include "common/fs.h"

/* One GPU as the child sees it. */
struct gpu_job {
    const char *stage, *node;
    const char *subject; /* "gpu001/gpu:0" */
    const char *bdf, *name;
    int64_t index;
    const struct fs_root *root;
    const json_t *params; /* of the stage */
    const json_t *gpus;   /* facts.gpus.devices */
    int64_t deadline_ms;  /* on the now_ms() clock: give up by yourself before it */
    bool simulated;       /* set once a stand-in for a library was seen; marks all records */
    const char *cause;    /* code of causes.def for the error that the task returns */
    int out_fd;
};

/* Measure and hand over records.  0: what could be measured was; -1 with err and job->cause: the
 * GPU cannot be used, which becomes the failed record `gpu_run`. */
typedef int gpu_job_task(struct gpu_job *job, struct err *err);

/* Say what comes next ("memory bandwidth"); it is what a hang is named by. */
void gpu_job_step(struct gpu_job *job, const char *what);
/* Hand over one record; stage, and subject where it is NULL, are filled in.  conditions and proof
 * are taken over.  A record that cannot be handed over ends the process. */
void gpu_job_emit(struct gpu_job *job, struct evidence e);
/* One number; or, with reason, that there is none. */
void gpu_job_number(struct gpu_job *job, const char *quantity, const char *unit, double value,
                    json_t *conditions);
void gpu_job_absent(struct gpu_job *job, const char *quantity, const char *unit, const char *cause,
                    const char *reason);

/* Run the task for each GPU of the node, all at once or one after the other, and relay the
 * evidence.  A node whose GPUs cannot be asked gets one record `gpu_run` of the node, not measured
 * (or failed, when a GPU is on the bus).  *data: {"gpus":N,"completed":N}.
 * job_ms: longest time of one child.  ERR_ENV: the main process is gone. */
int gpu_job_all(struct stage_ctx *ctx, const char *stage, gpu_job_task *task, bool at_once,
                int64_t job_ms, const json_t *params, json_t **data, struct err *err);

#endif
