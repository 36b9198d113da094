/* ${...} in the strings of a playbook: any expression of provision/expr.h, most often a path.
 *
 * "${vars.port}" alone keeps the value's type; inside other text strings are put in as they are,
 * numbers and booleans as JSON writes them.  "$${" stands for "${", any other "$" for itself.  A
 * reference whose value is null or missing, and a list or object inside text, is an error. */
#ifndef MUSTER_PROVISION_TEMPLATE_H
#define MUSTER_PROVISION_TEMPLATE_H

#include <jansson.h>

#include "common/err.h"

enum { TEMPLATE_MAX_BYTES = 1024 * 1024, TEMPLATE_MAX_DEPTH = 32 };

/* Expands every string inside value (keys of objects are left alone).  scope as in expr_eval().
 * ERR_USAGE.  *out is a new reference, set only on success. */
int template_expand(const json_t *value, const json_t *scope, json_t **out, struct err *err);
/* Checks form only: every ${...} closes and compiles. */
int template_check(const json_t *value, struct err *err);

#endif
