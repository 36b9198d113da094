#include "validate/verdict.h"

#include <string.h>

#include "common/util.h"

static const char *const names[] = {
    [VERDICT_UNSET] = "UNSET",
    [VERDICT_PASS] = "PASS",
    [VERDICT_WARN] = "WARN",
    [VERDICT_FAIL] = "FAIL",
    [VERDICT_NOT_MEASURED] = "NOT_MEASURED",
    [VERDICT_EXCLUDED] = "EXCLUDED",
};
_Static_assert(ARRAY_LEN(names) == VERDICT__COUNT, "one name per verdict");

static const char *const states[] = {
    [VERDICT_STATE_UNSET] = "unset",       [VERDICT_STATE_READY] = "ready",
    [VERDICT_STATE_DEGRADED] = "degraded", [VERDICT_STATE_NOT_READY] = "not_ready",
    [VERDICT_STATE_UNKNOWN] = "unknown",
};
_Static_assert(ARRAY_LEN(states) == VERDICT_STATE__COUNT, "one name per state");

const char *verdict_name(enum verdict v)
{
    return names[v < VERDICT__COUNT ? v : VERDICT_UNSET];
}

enum verdict verdict_find(const char *name)
{
    for (unsigned i = 1; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            return (enum verdict)i;
    return VERDICT_UNSET;
}

const char *verdict_state_name(enum verdict_state s)
{
    return states[s < VERDICT_STATE__COUNT ? s : VERDICT_STATE_UNSET];
}

enum verdict_state verdict_state_find(const char *name)
{
    for (unsigned i = 1; i < ARRAY_LEN(states); i++)
        if (strcmp(states[i], name) == 0)
            return (enum verdict_state)i;
    return VERDICT_STATE_UNSET;
}

void verdict_count(struct verdict_counts *c, enum verdict v, bool required)
{
    enum verdict known = v < VERDICT__COUNT ? v : VERDICT_UNSET;
    c->all[known]++;
    if (required)
        c->required[known]++;
}

enum verdict_state verdict_state_of(const struct verdict_counts *c)
{
    if (c->required[VERDICT_FAIL] > 0)
        return VERDICT_STATE_NOT_READY;
    unsigned unknown = c->required[VERDICT_NOT_MEASURED] + c->required[VERDICT_UNSET];
    /* A node of which everything is excluded was not shown to work. */
    unsigned shown = c->required[VERDICT_PASS] + c->required[VERDICT_WARN];
    if (unknown > 0 || shown == 0)
        return VERDICT_STATE_UNKNOWN;
    bool warned = c->all[VERDICT_WARN] + c->all[VERDICT_FAIL] > 0;
    return warned ? VERDICT_STATE_DEGRADED : VERDICT_STATE_READY;
}
