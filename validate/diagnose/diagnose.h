/* What is wrong in this log?  Text in, one answer out; no I/O.
 *
 * The answer names the cause, the part, what to do and the lines that convict it, says what only
 * looks like a fault, and admits when it cannot tell.  Thread rule: no shared state. */
#ifndef MUSTER_VALIDATE_DIAGNOSE_DIAGNOSE_H
#define MUSTER_VALIDATE_DIAGNOSE_DIAGNOSE_H

#include <jansson.h>
#include <stddef.h>

struct diagnose_input {
    const char *name; /* in evidence: a file name or "stdin" */
    const char *text; /* any bytes */
    size_t len;
};

/* Codes that are not causes. */
#define DIAGNOSE_OK "ok"
#define DIAGNOSE_CANNOT_TELL "cannot-tell"

/* The inputs belong to one incident and are judged together.  New reference:
 *   {"cause_code", "severity": "fatal"|"degraded"|"ok"|"unknown", "input_tool", "diagnosis",
 *    "remedy", "evidence": [{"file","line","text"}], "works": [text],
 *    "benign": [{"file","line","text","why"}],
 *    "others": [{"cause_code","severity","relation": "consequence"|"also","diagnosis","remedy",
 *                "evidence"}]}
 * Every cause_code but the two above is a row of causes.def. */
json_t *diagnose(const struct diagnose_input *inputs, size_t count);
/* Exit status of an answer: 0 ok, 1 a fault, 2 cannot tell. */
int diagnose_exit_status(const json_t *answer);

#endif
