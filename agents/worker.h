/* A forked worker: one task that may hang, crash or be killed without taking the agent along.
 *
 * The worker is the leader of its own process group, has /dev/null as input and stderr as output,
 * and speaks to the main process over a socket in the lines of docs/contracts.md, section 7:
 * events, then one final reply.  The main process is single-threaded and needs SIGCHLD or a poll on
 * worker.fd to learn of the end; nothing here waits except worker_wait(). */
#ifndef MUSTER_AGENTS_WORKER_H
#define MUSTER_AGENTS_WORKER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agents/protocol.h"
#include "agents/worker_link.h"
#include "common/err.h"

struct worker_task {
    /* Runs in the worker.  *data: what the reply carries (new reference), set only on success. */
    int (*run)(struct worker_link *link, void *arg, json_t **data, struct err *err);
    void *arg; /* seen by the worker as it was at the start */
    /* false: the worker dies with the main process.  true: it lives on and must watch
     * worker_link_gone(), because it has to undo what it has begun. */
    bool outlives_main;
};

/* --- main process --------------------------------------------------------------------------- */

struct worker {
    pid_t pid; /* also the process group; 0 when none was started or it has been reaped */
    int fd;    /* -1 when closed */
    int status;
    bool exited; /* status is set */
    struct protocol_reader in;
    struct protocol_writer out;
};

/* Returns -1 with ERR_ENV when no process or socket can be made. */
int worker_start(struct worker *w, const struct worker_task *task, struct err *err);
/* Take what the worker has sent.  Returns 1 and *line (new reference) for each line, 0 when there
 * is none now, -1 with ERR_DATA when it sends something else. */
int worker_next(struct worker *w, json_t **line, struct err *err);
/* Queue one line for the worker; takes over the reference. */
void worker_send(struct worker *w, json_t *line);
/* Tell the worker that the channel has closed; it can still send. */
void worker_hang_up(struct worker *w);
/* Without waiting: whether the worker itself has ended (then w->exited and w->status are set, and
 * the rest of its group has been killed). */
bool worker_reap(struct worker *w);
/* The same, waiting at most timeout_ms. */
bool worker_wait(struct worker *w, int timeout_ms);
/* SIGKILL to the whole group; nothing once it has been reaped. */
void worker_kill(const struct worker *w);
/* How it ended, for people: "ended by signal SIGSEGV", "ended with status 3 and without a reply".
 */
char *worker_end_text(const struct worker *w);
void worker_release(struct worker *w); /* closes; kills nothing */

#endif
