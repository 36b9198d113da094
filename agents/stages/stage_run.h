/* Run a stage inside a worker: the worker's side of stage.h. */
#ifndef MUSTER_AGENTS_STAGES_STAGE_RUN_H
#define MUSTER_AGENTS_STAGES_STAGE_RUN_H

#include "agents/stages/stage.h"
#include "agents/worker_link.h"

struct stage_job {
    const struct stage *stage;
    const json_t *params;
    const char *node;
    const struct fs_root *root;
    int64_t deadline_ms; /* on the now_ms() clock */
};

/* Everything is borrowed for the time of the call; results as struct stage's run. */
int stage_run(struct worker_link *link, const struct stage_job *job, json_t **data,
              struct err *err);

#endif
