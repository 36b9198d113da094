/* What the parts of serve share.  serve.c has the loop, serve_ops.c the requests, serve_jobs.c the
 * workers, serve_tasks.c what runs inside them. */
#ifndef MUSTER_AGENTS_SERVE_STATE_H
#define MUSTER_AGENTS_SERVE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agents/evidence_out.h"
#include "agents/protocol.h"
#include "agents/serve.h"
#include "agents/stages/stage.h"
#include "agents/worker.h"

enum {
    SERVE_MAX_JOBS = 32,
    SERVE_MAX_PENDING_BYTES = 16 * 1024 * 1024, /* queued output above which nothing more is read */
    SERVE_FACTS_TIMEOUT_MS = 60 * 1000,
    SERVE_CONFIG_TIMEOUT_MS = 15 * 60 * 1000, /* package and module work may be slow */
    SERVE_MAX_STAGE_MS = 24 * 60 * 60 * 1000,
    SERVE_KILL_GRACE_MS = 300, /* a killed worker that is not gone by then is left to bye */
    SERVE_UNDO_GRACE_MS =
        500, /* for a worker to undo its transaction when the channel has closed */
    SERVE_LEFT_TIMEOUT_MS = 1000
};

enum serve_end { SERVE_END_NONE = 0, SERVE_END_TIMEOUT, SERVE_END_CANCEL, SERVE_END_CLOSED };

struct serve;

/* One request that runs in a worker. */
struct serve_job {
    struct serve *serve;
    int64_t id;
    enum protocol_op op;
    char *what; /* "stage 'pairs'" or "apply" */
    json_t *body;
    const struct stage *stage;
    struct worker worker;
    int64_t deadline_ms, timeout_ms;
    enum serve_end end; /* why it was killed */
    int64_t give_up_ms; /* when it is replied to even if it cannot be reaped; 0: not killed */
    json_t *final;      /* the worker's reply */
    struct err broken;  /* what it sent was not the protocol, or not evidence */
    struct evidence_stage evidence;
    bool replied; /* only its process is left */
};

struct serve {
    struct serve_options options;
    struct protocol_reader in;
    struct protocol_writer out;
    struct serve_job *jobs[SERVE_MAX_JOBS];
    size_t job_count;
    bool greeted;
    char *run, *node, *tool;
    char sha256[HASH_HEX_BYTES];
    struct sign_key *key;
    struct evidence_out evidence;
    bool closing;        /* no more requests; jobs are being ended */
    int64_t close_by_ms; /* when configuration workers are killed */
    int64_t bye_id;      /* PROTOCOL_NO_ID unless bye was asked for */
    int status;
};

/* --- serve_ops.c ---------------------------------------------------------------------------- */

/* Answer one line.  Returns -1 when the channel can no longer be trusted. */
int serve_handle_line(struct serve *s, const char *line, size_t len);

/* --- serve_jobs.c --------------------------------------------------------------------------- */

/* Start a job for a request that has been checked.  ERR_ENV: too many, or the system refuses. */
int serve_job_start(struct serve *s, const struct protocol_request *request,
                    const struct stage *stage, int64_t timeout_ms, struct err *err);
struct serve_job *serve_job_find(struct serve *s, int64_t id); /* unfinished ones; NULL if none */
bool serve_job_is_config(const struct serve_job *job);         /* has a transaction to undo */
/* A plan, apply or rollback is running. */
const struct serve_job *serve_job_config(const struct serve *s);
/* Relay what the worker has sent. */
void serve_job_pump(struct serve_job *job);
void serve_job_kill(struct serve_job *job, enum serve_end why);
/* Reap, reply and forget whatever has ended or has been given up. */
void serve_jobs_tend(struct serve *s);
/* The next moment at which serve_jobs_tend() has something to do, INT64_MAX if none. */
int64_t serve_jobs_next_ms(const struct serve *s);
size_t serve_jobs_unreplied(const struct serve *s);
void serve_jobs_release(struct serve *s);

/* --- serve_tasks.c -------------------------------------------------------------------------- */

/* What a worker runs for a job (arg: the struct serve_job). */
int serve_task_run(struct worker_link *link, void *arg, json_t **data, struct err *err);
/* Undo a transaction that a dead worker left open; the caller frees the sentence that says so. */
char *serve_recover_text(const struct serve *s);

#endif
