/* Judgement of one run: evidence, facts and step outcomes in, verdict.json out.  Pure: the same
 * input gives the same bytes, so stored evidence can be judged again with other limits. */
#ifndef MUSTER_VALIDATE_JUDGE_H
#define MUSTER_VALIDATE_JUDGE_H

#include <jansson.h>
#include <stdint.h>

#include "common/err.h"
#include "validate/evidence_set.h"

struct judge_input {
    const json_t *site;  /* contracts.md, section 3 */
    const json_t *facts; /* object NODE -> section 4; a node without facts is missing here */
    const struct evidence_set *evidence;
    const json_t *steps;         /* array of {"node","step","cause","text"}: what went wrong in the
                                    controller's steps;         may be NULL */
    const json_t *clock_skew_ms; /* object NODE -> integer (node minus controller); may be NULL */
    const json_t
        *applies; /* object NODE -> reply data of apply; NULL when this run applied nothing */
    const json_t *profiles; /* object PROFILE ->
                               {"gpu_count":N,"gpu_name":S,"rdma_count":N,"memory_min_bytes":N},
                               each member optional; NULL: none is known */
    int64_t now_ms;
};

/* *verdict: new reference, only on success.  ERR_DATA: site or a step is malformed (an unknown
 * cause code is named).  Bad evidence is never an error, it is in the verdict. */
int judge_run(const struct judge_input *input, json_t **verdict, struct err *err);

#endif
