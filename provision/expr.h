/* Conditions over facts and variables: `when: facts.gpus.available and len(facts.rdma) > 0`.
 *
 * Operators from strong to weak: == != < <= > >= in "not in"; not; and; or; with parentheses.
 * Literals: "text" or 'text', 12, 1.5, true, false, null, [list].  Paths: facts.net[0].mtu,
 * vars["x-y"]; the first word is one of facts, vars, fabric, node.  A path that is not there is
 * null. False are null, false, 0, "", [] and {}; everything else is true.  `and` and `or` stop
 * early.
 * == compares numbers by value and never fails; < <= > >= need two numbers or two strings; `in`
 * looks in a list, for a key in an object, for a part in a string, and is false in null. Functions:
 * len(x) defined(path) default(x, y) version_at_least(a, b) any(list, "key", value) where(list,
 * "key", value) pluck(list, "key") join(list, ","). Every error is ERR_USAGE and names the column
 * (from 1).  Compiled expressions are read-only. */
#ifndef MUSTER_PROVISION_EXPR_H
#define MUSTER_PROVISION_EXPR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum { EXPR_MAX_BYTES = 4096, EXPR_MAX_DEPTH = 64 };

struct expr;

/* NULL with err on failure. */
struct expr *expr_compile(const char *text, struct err *err);
void expr_destroy(struct expr *e);  /* NULL accepted */
void expr_release(struct expr **e); /* for AUTO() */

/* scope: object with the members facts, vars, fabric, node (each may be missing).
 * *out is a new reference, set only on success. */
int expr_eval(const struct expr *e, const json_t *scope, json_t **out, struct err *err);
bool expr_truthy(const json_t *value);

/* Compile, evaluate and take the truth. */
int expr_test(const char *text, const json_t *scope, bool *out, struct err *err);

#endif
