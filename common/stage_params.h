/* What a site file may set for a stage: integer parameters with default, range and meaning, and the
 * list and word parameters of AllReduce.  One table for the controller, which checks the site file
 * before any node is touched, and for the agent, which checks its request.  Pure. */
#ifndef MUSTER_COMMON_STAGE_PARAMS_H
#define MUSTER_COMMON_STAGE_PARAMS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct stage_param {
    const char *stage, *key;
    int64_t fallback, min, max; /* in the unit that the key's name ends in */
    const char *meaning;
};

size_t stage_params_count(void);
const struct stage_param *stage_params_at(size_t index);
/* NULL when the stage has no such integer parameter. */
const struct stage_param *stage_params_find(const char *stage, const char *key);

enum { STAGE_PARAMS_MAX_SIZES = 32, STAGE_PARAMS_MAX_SIZE_BYTES = 1 << 30 };

/* Check one member of a stage's object in the site file.  ERR_USAGE: unknown key ("did you mean"),
 * a value of another type or out of range; a stage without parameters refuses every key. */
int stage_params_check(const char *stage, const char *key, const json_t *value, struct err *err);

#endif
