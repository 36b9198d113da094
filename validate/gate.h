/* The gate's decision about one node: pure, no clock, no files. */
#ifndef MUSTER_VALIDATE_GATE_H
#define MUSTER_VALIDATE_GATE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "validate/sign.h"

enum gate_status { GATE_READY = 0, GATE_NOT_READY = 1, GATE_CANNOT_TELL = 2 };

enum { GATE_WHY_BYTES = 512 };

struct gate_input {
    const char *slice; /* the file's bytes */
    size_t slice_len;
    const struct sign_public *trusted;
    size_t trusted_count;
    const char *node;       /* the name that this machine goes by */
    const json_t *identity; /* as it is now (contracts.md, section 4); NULL: cannot be read */
    const json_t *manifest; /* config.json as stored; NULL when there is none */
    const json_t
        *manifest_now;       /* the same items with digests of this moment; NULL: cannot be read */
    int64_t serial_accepted; /* highest serial accepted here, 0 for none */
    int64_t now_ms;
};

struct gate_result {
    enum gate_status status;
    char why[GATE_WHY_BYTES]; /* one line: the reason, or until when the node is ready */
    char state[16];           /* the node's state in the report; "" when unverified */
    int64_t serial;           /* of the report, 0 when unverified */
    char run[64];
};

void gate_check(const struct gate_input *input, struct gate_result *result);

#endif
