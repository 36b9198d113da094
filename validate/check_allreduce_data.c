#include "validate/check.h"

#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

#define SUBJECT "cluster"

/* Results can only be compared between runs of the same operation. */
static char *operation_of(const struct evidence_set_record *r)
{
    const json_t *c = json_object_get(r->json, "conditions");
    return str_printf("%lld bytes, %s, %s", (long long)jsonx_int_or(c, "bytes", 0),
                      jsonx_str_or(c, "dtype", "-"), jsonx_str_or(c, "algorithm", "-"));
}

static const struct evidence_set_record *next_current(const struct check_env *env, const char *node,
                                                      const char *quantity, size_t *cursor)
{
    const struct evidence_set *set = env->input->evidence;
    const struct evidence_set_record *r;
    while ((r = evidence_set_next(set, node, "allreduce-cluster", SUBJECT, quantity, cursor)))
        if (evidence_set_is_current(set, r))
            return r;
    return NULL;
}

/* The failed record of a node, whatever quantity it stands under; NULL when nothing failed. */
static const struct evidence_set_record *find_failure(const struct check_env *env, const char *node)
{
    static const char *const quantities[] = {"allreduce_data", "allreduce_time", "allreduce_busbw"};
    for (size_t i = 0; i < ARRAY_LEN(quantities); i++) {
        const struct evidence_set_record *r;
        size_t cursor = 0;
        while ((r = next_current(env, node, quantities[i], &cursor)))
            if (r->outcome == EVIDENCE_FAILED)
                return r;
    }
    return NULL;
}

static bool is_victim(const struct evidence_set_record *r)
{
    return r->cause && strcmp(r->cause, "peer-lost") == 0;
}

/* The node that more than half of the victims name as lost; NULL when they do not agree. */
static const char *find_accused(const struct check_env *env)
{
    json_auto_t *votes = json_object();
    int64_t victims = 0;
    for (size_t i = 0; i < env->count; i++) {
        const struct evidence_set_record *r = find_failure(env, env->names[i]);
        const json_t *proof = r ? json_object_get(r->json, "proof") : NULL;
        const char *name = jsonx_str_or(proof, "culprit", NULL);
        victims += r != NULL;
        if (name && strcmp(name, env->names[i]) != 0)
            jsonx_set_int(votes, name, jsonx_int_or(votes, name, 0) + 1);
    }
    for (size_t i = 0; i < env->count; i++)
        if (2 * jsonx_int_or(votes, env->names[i], 0) > victims)
            return env->names[i];
    return NULL;
}

/* A node that failed for a reason of its own, or was lost: it broke the ring for the others. */
static const char *find_culprit(const struct check_env *env)
{
    for (size_t i = 0; i < env->count; i++) {
        const struct evidence_set_record *r = find_failure(env, env->names[i]);
        const struct ledger_row *step =
            ledger_find(env->ledger, env->names[i], "run", "step allreduce-cluster");
        if ((r && !is_victim(r)) || (step && step->verdict == VERDICT_FAIL && !r))
            return env->names[i];
    }
    return find_accused(env);
}

/* operation -> digest -> number of nodes that have it. */
static json_t *count_digests(const struct check *check, const struct check_env *env)
{
    json_t *operations = json_object();
    for (size_t i = 0; i < env->count; i++) {
        const struct evidence_set_record *r;
        size_t cursor = 0;
        while ((r = next_current(env, env->names[i], check->needs[0], &cursor))) {
            const char *digest = jsonx_str_or(json_object_get(r->json, "proof"), "digest", NULL);
            if (r->outcome != EVIDENCE_MEASURED || !digest)
                continue;
            AUTO(free_str) char *operation = operation_of(r);
            if (!json_object_get(operations, operation))
                jsonx_set(operations, operation, json_object());
            json_t *digests = json_object_get(operations, operation);
            jsonx_set_int(digests, digest, jsonx_int_or(digests, digest, 0) + 1);
        }
    }
    return operations;
}

/* Whether more than half of the nodes that ran the operation have this digest. */
static bool is_majority(const json_t *digests, const char *digest)
{
    int64_t total = 0, same = jsonx_int_or(digests, digest, 0);
    const char *key;
    json_t *count;
    json_object_foreach((json_t *)digests, key, count) total += json_integer_value(count);
    return 2 * same > total;
}

static void judge_record(const struct evidence_set_record *r, const json_t *operations,
                         struct ledger_row *row)
{
    const json_t *proof = json_object_get(r->json, "proof");
    const json_t *mismatches = json_object_get(proof, "mismatches");
    const char *digest = jsonx_str_or(proof, "digest", NULL);
    const char *expected = jsonx_str_or(proof, "expected", NULL);
    AUTO(free_str) char *operation = operation_of(r);
    const json_t *digests = json_object_get(operations, operation);
    if (!json_is_number(mismatches) || !digest)
        ledger_set(row, VERDICT_NOT_MEASURED, "not-run",
                   "the record lacks the number of mismatches or the digest (%s)", operation);
    else if (json_number_value(mismatches) != 0)
        ledger_set(row, VERDICT_FAIL, "data-corrupt", "%.0f elements of the result are wrong (%s)",
                   json_number_value(mismatches), operation);
    else if (expected && strcmp(expected, digest) != 0)
        ledger_set(row, VERDICT_FAIL, "data-corrupt",
                   "the result's digest %.12s is not the expected %.12s (%s)", digest, expected,
                   operation);
    else if (json_object_size(digests) > 1 && !is_majority(digests, digest))
        ledger_set(row, VERDICT_FAIL, "data-corrupt",
                   "the result's digest %.12s differs from that of the other nodes (%s)", digest,
                   operation);
}

static void judge_node(const struct check *check, const struct check_env *env, const char *node,
                       const json_t *operations, const char *culprit, struct ledger_row *row)
{
    const struct evidence_set_record *failure = find_failure(env, node), *r;
    if (failure && is_victim(failure) && culprit && strcmp(culprit, node) != 0) {
        ledger_evidence(row, node, failure->seq);
        ledger_set(row, VERDICT_NOT_MEASURED, "peer-lost", "%s; %s is the node that failed",
                   failure->reason ? failure->reason : "the collective broke off", culprit);
        return;
    }
    if (failure) {
        check_use(failure, row);
        return;
    }
    size_t cursor = 0, used = 0, unsealed_cursor = 0;
    while ((r = next_current(env, node, check->needs[0], &cursor))) {
        if (check_use(r, row)) {
            judge_record(r, operations, row);
            used++;
        }
    }
    bool any = evidence_set_next(env->input->evidence, node, check->stage, SUBJECT, check->needs[0],
                                 &unsealed_cursor) != NULL;
    if (used > 0)
        ledger_set(row, VERDICT_PASS, NULL,
                   "%zu results are exact and the same on every node that took part", used);
    else if (row->verdict == VERDICT_UNSET)
        check_absent(env, row, any);
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    bool required = check_is_required(env, check->stage);
    json_auto_t *operations = count_digests(check, env);
    const char *culprit = find_culprit(env);
    for (size_t i = 0; i < env->count && (required || json_object_size(operations) > 0); i++) {
        const char *node = env->names[i];
        judge_node(check, env, node, operations, culprit,
                   ledger_row(env->ledger, node, node, check->stage, check->name, required));
    }
    return 0;
}

const struct check check_allreduce_data = {
    .name = "allreduce_data",
    .summary = "the sum is exact and every node has the same",
    .stage = "allreduce-cluster",
    .needs = {"allreduce_data"},
    .judge = judge,
};
