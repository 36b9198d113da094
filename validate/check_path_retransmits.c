#include "validate/check.h"

#include "common/jsonx.h"

/* Payload of a segment at MTU 1500; the record names a larger one where it is in use. */
static const double least_segment_bytes = 1448;
static const double tolerated_share = 0.01; /* of the segments; above it TCP's rate suffers */

static void use(struct check_env *env, const struct check_path *path, void *ctx)
{
    const json_t *proof = json_object_get(path->record->json, "proof");
    const json_t *retransmits = json_object_get(proof, "retransmits");
    const json_t *bytes = json_object_get(proof, "rx_bytes");
    double segment_bytes = json_number_value(json_object_get(proof, "segment_bytes"));
    double segments = json_number_value(bytes) /
                      (segment_bytes > least_segment_bytes ? segment_bytes : least_segment_bytes);
    if (!json_is_number(retransmits) || !(segments > 0)) {
        ledger_set(path->row, VERDICT_NOT_MEASURED, "not-run",
                   "the record does not tell retransmits and bytes");
        return;
    }
    double share = json_number_value(retransmits) / segments;
    ledger_value(path->row, share, "1");
    ledger_limit(path->row, LEDGER_LIMIT_CEILING, tolerated_share, "share of repeated segments");
    bool many = share > tolerated_share;
    ledger_set(path->row, many ? VERDICT_WARN : VERDICT_PASS, many ? "retransmits" : NULL,
               "%.0f retransmits in about %.0f segments", json_number_value(retransmits), segments);
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    check_paths(check, env, false, true, use, NULL);
    return 0;
}

const struct check check_path_retransmits = {
    .name = "path_retransmits",
    .summary = "TCP does not have to repeat much",
    .stage = "pairs",
    .needs = {"tcp_bandwidth"},
    .judge = judge,
};
