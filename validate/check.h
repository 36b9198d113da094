/* A check: fills rows of the ledger from evidence, facts and the site.  Each check is one file that
 * ends in its row, and one line in checks.def.  A check creates the rows that it answers for; a row
 * that it leaves unset becomes NOT_MEASURED.  Pure. */
#ifndef MUSTER_VALIDATE_CHECK_H
#define MUSTER_VALIDATE_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "validate/evidence_set.h"
#include "validate/judge.h"
#include "validate/ledger.h"
#include "validate/limits.h"

struct check_env {
    const struct judge_input *input;
    struct ledger *ledger;
    json_t *required;   /* stages that policy requires */
    const char **names; /* the site's nodes, sorted */
    size_t count;
    json_t *interfaces; /* object NODE -> interface that its evidence names */
};

struct check {
    const char *name, *summary, *stage;
    const char *needs[4]; /* quantities of evidence that it reads; ends in NULL */
    int (*judge)(const struct check *check, struct check_env *env,
                 struct err *err); /* ERR_DATA: site */
};

/* Every check, in the order of checks.def; NULL past the end. */
const struct check *checks_at(size_t index);
int checks_run(struct check_env *env, struct err *err);

/* --- what checks share ------------------------------------------------------------------------ */

bool check_is_required(const struct check_env *env, const char *stage);
const json_t *check_facts(const struct check_env *env, const char *node); /* NULL when unknown */
const json_t *check_site_node(const struct check_env *env, const char *node);
/* The interface that carries traffic between nodes: the site's fabric.interface, else what the
 * node's newest pairs or allreduce evidence names; NULL when neither is known. */
const char *check_interface(const struct check_env *env, const char *node);
/* facts.net entry of an interface; NULL when it is not there. */
const json_t *check_net(const struct check_env *env, const char *node, const char *interface);
/* Speed of the node's interface for traffic between nodes, 0 when virtual or unknown.  *source is
 * allocated ("gpu001/net:eth0, 25 Gbit/s") when the speed is known. */
double check_link_bps(const struct check_env *env, const char *node, char **source);

/* The newest sealed record; else, when only an unsealed one exists, NULL with *unsealed set. */
const struct evidence_set_record *check_record(const struct check_env *env, const char *node,
                                               const char *stage, const char *subject,
                                               const char *quantity, bool *unsealed);
/* Note the record as evidence of the row.  Returns true when it holds samples; otherwise sets the
 * row from its outcome (failed: FAIL with the record's own cause, not measured: NOT_MEASURED). */
bool check_use(const struct evidence_set_record *record, struct ledger_row *row);
/* Row stays NOT_MEASURED because there is no record. */
void check_absent(const struct check_env *env, struct ledger_row *row, bool unsealed);

/* --- checks of directed paths ------------------------------------------------------------------
 */

/* Runs over every directed path of the site: makes the row, finds the record (that either end saw
 * it fail, else what the maker measured) and hands measured ones to use(). */
struct check_path {
    const char *from, *to;
    struct ledger_row *row;
    const struct evidence_set_record *record; /* measured */
};
typedef void check_path_fn(struct check_env *env, const struct check_path *path, void *ctx);
/* at_receiver: the maker of the record is the receiving end; else it is the sending one, and what
 * it measured is a round trip that counts for both directions. */
void check_paths(const struct check *check, struct check_env *env, bool required, bool at_receiver,
                 check_path_fn *use, void *ctx);
/* Judge measured paths by limits_judge(): floor, slower end's link, and peers with links of that
 * speed. */
int check_paths_by_limits(const struct check *check, struct check_env *env, bool required,
                          bool at_receiver, double (*value)(const struct evidence_set_record *),
                          struct err *err);

#endif
