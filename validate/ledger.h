/* The coverage ledger: every element that exists, by site, facts and policy, and for each stage
 * that applies to it the row that a check must fill.  A row that nobody fills is NOT_MEASURED with
 * the reason.  Pure. */
#ifndef MUSTER_VALIDATE_LEDGER_H
#define MUSTER_VALIDATE_LEDGER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "validate/verdict.h"

/* Where a figure's limit comes from. */
enum ledger_limit_kind {
    LEDGER_LIMIT_NONE = 0,
    LEDGER_LIMIT_ROOFLINE,
    LEDGER_LIMIT_FLOOR,
    LEDGER_LIMIT_PEERS,
    LEDGER_LIMIT_SITE,
    LEDGER_LIMIT_EXACT,
    LEDGER_LIMIT_CEILING,
    LEDGER_LIMIT_KIND__COUNT
};

struct ledger_row {
    char *subject; /* contracts.md, section 1 */
    char *node;    /* whose state the row counts for; "" for a path or the cluster */
    char *stage, *check;
    bool required;
    enum verdict verdict; /* UNSET until judged */
    bool has_value;
    double value;
    char *unit;
    enum ledger_limit_kind limit_kind;
    double limit_value;
    char *limit_source;
    const char *cause; /* row of causes.def or NULL */
    char *reason;      /* one sentence */
    json_t *evidence;  /* array of {"node","seq"} */
};

struct ledger;

struct ledger *ledger_create(void);
void ledger_destroy(struct ledger *ledger); /* NULL accepted */

/* The row of (subject, stage, check), made when it is not there.  The pointer stays valid until the
 * ledger is destroyed.  Strings are copied. */
struct ledger_row *ledger_row(struct ledger *ledger, const char *subject, const char *node,
                              const char *stage, const char *check, bool required);
size_t ledger_count(const struct ledger *ledger);
struct ledger_row *ledger_at(const struct ledger *ledger, size_t index);
const struct ledger_row *ledger_find(const struct ledger *ledger, const char *subject,
                                     const char *stage, const char *check);

/* Fill a row.  A verdict once given is only replaced by a worse one (FAIL over NOT_MEASURED over
 * WARN over PASS). cause NULL or a code of causes.def (anything else aborts: it is a fault of the
 * program). */
void ledger_set(struct ledger_row *row, enum verdict verdict, const char *cause, const char *fmt,
                ...) __attribute__((format(printf, 4, 5)));
void ledger_value(struct ledger_row *row, double value, const char *unit);
void ledger_limit(struct ledger_row *row, enum ledger_limit_kind kind, double value,
                  const char *source);
void ledger_evidence(struct ledger_row *row, const char *node, int64_t seq);

/* Rows for all that site (section 3) and facts (object NODE -> section 4) name, unfilled; stages
 * whose hardware or program is not here are filled with NOT_MEASURED and the reason.  ERR_DATA:
 * site or policy is malformed, or requires a stage that does not exist. */
int ledger_plan(struct ledger *ledger, const json_t *site, const json_t *facts, struct err *err);
/* Stages that policy.require asks for ("all": every stage of stages.def).  New reference, array. */
json_t *ledger_required(const json_t *site, struct err *err);
/* Stages that this version can measure on a node with these facts (NULL: only what every node has)
 * in a site of node_count nodes.  New reference, array. */
json_t *ledger_measurable(const json_t *facts, size_t node_count);
/* Names of all stages: object NAME -> true.  New reference. */
json_t *ledger_stages(void);
/* Unjudged rows become NOT_MEASURED; rows whose subject policy.exclude names become EXCLUDED unless
 * the end date has passed (then a note is appended to their reason). */
void ledger_close(struct ledger *ledger, const json_t *site, int64_t now_ms);

/* One element of verdict.json.  New reference. */
json_t *ledger_row_json(const struct ledger_row *row);

#endif
