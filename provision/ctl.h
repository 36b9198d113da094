/* What every subcommand that touches nodes shares: options, site, state, run, fleet, outcomes.
 *
 * A step works on all active nodes; a node that fails gets an outcome (step, cause, text) that goes
 * into the verdict, and the others go on.  Single-threaded. */
#ifndef MUSTER_PROVISION_CTL_H
#define MUSTER_PROVISION_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/opt.h"
#include "provision/fleet.h"
#include "provision/progress.h"
#include "provision/run.h"
#include "provision/state.h"

/* First member of every subcommand's settings; the rows are ctl_common_rows. */
struct ctl_options {
    const char *site, *state, *nodes, *ssh_config, *identity;
    bool json, quiet, verbose, yes;
};
extern const struct opt_row ctl_common_rows[];

enum ctl_need {
    CTL_SITE = 1,    /* read the site file */
    CTL_STATE = 2,   /* state directory for writing (locked) */
    CTL_NEW_RUN = 4, /* begin a run */
    CTL_FLEET = 8    /* sessions to the selected nodes, not connected yet */
};

struct ctl {
    const struct ctl_options *options;
    json_t *site;
    struct state state;
    struct run run;
    struct fleet *fleet;
    size_t count;       /* selected nodes */
    const char **names; /* borrowed from selection */
    struct hostlist *selection;
    bool *active;          /* the node takes part in further steps */
    json_t *facts;         /* {NODE: facts} */
    json_t *hello;         /* {NODE: hello's data} */
    json_t *clock_skew_ms; /* {NODE: ms} */
    json_t *applies;       /* {NODE: apply's data}, NULL when nothing was applied in this run */
    json_t *configs;       /* {NODE: manifest} */
    json_t *outcomes;      /* [{"node","step","cause","text"}] */
    struct progress progress;
};

int ctl_open(struct ctl *c, const struct ctl_options *options, unsigned need, struct err *err);
/* One node that no site file names yet (muster init); no run, no lock. */
int ctl_open_adhoc(struct ctl *c, const struct ctl_options *options, const char *host,
                   const char *user, bool sudo, struct err *err);
/* Attach an existing run instead of a new one (resume, report). */
int ctl_open_run(struct ctl *c, const char *id, bool append, struct err *err);
void ctl_close(struct ctl *c);

/* Record what went wrong with a node; it is printed at once unless --quiet. */
void ctl_outcome(struct ctl *c, size_t node, const char *step, const char *cause, const char *text);
size_t ctl_active_count(const struct ctl *c);

/* Steps.  Each returns 0 when at least one node is still active, else -1 with err. */
int ctl_connect(struct ctl *c, struct err *err); /* sessions only */
int ctl_agents(struct ctl *c, struct err *err);  /* sessions, agents, hello, pins */
int ctl_facts(struct ctl *c, struct err *err);   /* facts, clocks; stored in the run */
/* End the agents; what one left behind becomes a warning. */
void ctl_bye(struct ctl *c);

/* One request to every active node.  make() returns a new reference or NULL to leave the node out.
 * done() sees each reply (data or error); a node lost on the way becomes an outcome of this step.
 */
struct ctl_request {
    const char *step;  /* name in progress and outcomes */
    const char *cause; /* code for an error that the agent answers; NULL: "agent-error" */
    json_t *(*make)(struct ctl *c, size_t node, void *ctx);
    void (*done)(struct ctl *c, size_t node, const json_t *data, const struct err *error,
                 void *ctx);
    fleet_event_fn *on_event; /* gets struct ctl_call as its context */
    fleet_tick_fn *on_tick;
    unsigned timeout_ms;
    void *ctx;
};
struct ctl_call {
    struct ctl *c;
    const struct ctl_request *request;
    const struct fleet_call *fleet_call;
    size_t asked;
};
/* True while the node has neither answered nor failed. */
bool ctl_call_pending(const struct ctl_call *call, size_t node);
void ctl_call(struct ctl *c, const struct ctl_request *request);

/* Exit status for a command that ends with these outcomes: 0, or 1 when a node failed. */
int ctl_exit_status(const struct ctl *c);
/* Print err with the program's name and give the exit status of its kind. */
int ctl_fail(const struct err *err);

#endif
