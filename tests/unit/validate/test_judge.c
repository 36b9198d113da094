/* Whole runs judged: who is ready, who is not, and why. */
#include "cluster.h"

#include "validate/check.h"
#include "validate/limits.h"

static void states_are(const json_t *verdict, const char *const want[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        AUTO(free_str) char *node = str_printf("n%zu", i + 1);
        if (strcmp(cluster_state(verdict, node), want[i]) != 0) {
            AUTO(free_str)
            char *text = jsonx_canonical(json_object_get(json_object_get(verdict, "nodes"), node));
            fail_msg("%s is %s, expected %s: %s", node, cluster_state(verdict, node), want[i],
                     text);
        }
    }
}

static bool has_cause(const json_t *verdict, const char *node, const char *code)
{
    const json_t *nodes = json_object_get(verdict, "nodes");
    const json_t *causes = json_object_get(json_object_get(nodes, node), "causes");
    for (size_t i = 0; i < json_array_size(causes); i++)
        if (strcmp(jsonx_str_or(json_array_get(causes, i), "code", ""), code) == 0)
            return true;
    return false;
}

#define STATES(...) ((const char *const[]){__VA_ARGS__})

static void healthy_cluster_is_ready(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("ready", "ready", "ready", "ready"), 4);
    assert_string_equal(jsonx_str_or(v, "cluster_state", ""), "ready");
    /* Every required stage has an element of every node, which the gate relies on. */
    const char *const checks[] = {"facts", "paths", "allreduce_data", "evidence", "clock_skew"};
    for (size_t i = 0; i < c.count; i++)
        for (size_t k = 0; k < ARRAY_LEN(checks); k++)
            assert_non_null(cluster_element(v, c.names[i], checks[k]));
    json_auto_t *again = cluster_judge(&c);
    AUTO(free_str) char *a = jsonx_canonical(v);
    AUTO(free_str) char *b = jsonx_canonical(again);
    assert_string_equal(a, b);
    cluster_close(&c);
}

static void node_whose_paths_fail_is_the_only_one_not_ready(void **state)
{
    for (size_t bad = 0; bad < 4; bad++) {
        struct cluster c;
        cluster_open(&c, 4, 1e10);
        for (size_t i = 0; i < 4; i++)
            if (i != bad)
                c.broken[bad][i] = c.broken[i][bad] = "tcp-connect-timeout";
        cluster_measure(&c);
        json_auto_t *v = cluster_judge(&c);
        const char *want[] = {"ready", "ready", "ready", "ready"};
        want[bad] = "not_ready";
        states_are(v, want, 4);
        assert_true(has_cause(v, c.names[bad], "tcp-connect-timeout"));
        cluster_close(&c);
    }
}

static void slow_node_is_found_by_roofline_and_by_peers(void **state)
{
    struct cluster slow;
    cluster_open(&slow, 4, 1e10);
    for (size_t i = 0; i < 4; i++)
        slow.bandwidth[2][i] = slow.bandwidth[i][2] = 4e9;
    cluster_measure(&slow);
    json_auto_t *by_link = cluster_judge(&slow);
    states_are(by_link, STATES("ready", "ready", "not_ready", "ready"), 4);
    assert_true(has_cause(by_link, "n3", "bandwidth-low"));
    cluster_close(&slow);
    /* Without a known link speed it takes enough good peers. */
    struct cluster c;
    cluster_open(&c, 8, 0);
    for (size_t i = 0; i < 8; i++)
        c.bandwidth[5][i] = c.bandwidth[i][5] = 4e9;
    jsonx_set(
        cluster_policy(&c), "floors",
        json_pack("{s:{s:f,s:s,s:n}}", "allreduce_busbw", "value", 1e8, "unit", "B/s", "reason"));
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(
        v, STATES("ready", "ready", "ready", "ready", "ready", "not_ready", "ready", "ready"), 8);
    const json_t *e = cluster_element(v, "n6>n1", "path_bandwidth");
    assert_string_equal(jsonx_str_or(json_object_get(e, "limit"), "kind", ""), "peers");
    cluster_close(&c);
}

static void pair_fault_is_charged_to_both_ends(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    c.broken[0][1] = "path-mtu";
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("not_ready", "not_ready", "ready", "ready"), 4);
    assert_string_equal(jsonx_str_or(cluster_element(v, "n1", "paths"), "reason", ""),
                        "n1>n2 fails and no single node explains it, so both ends are charged: the "
                        "connection did not come up");
    cluster_close(&c);
}

static void two_bad_nodes_are_both_found(void **state)
{
    struct cluster c;
    cluster_open(&c, 6, 1e10);
    for (size_t i = 0; i < 6; i++) {
        c.broken[1][i] = c.broken[i][1] = "peer-lost";
        c.bandwidth[4][i] = c.bandwidth[i][4] = 1e9;
    }
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("ready", "not_ready", "ready", "ready", "not_ready", "ready"), 6);
    cluster_close(&c);
}

static void dead_node_does_not_spoil_the_others(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    c.absent[3] = true;
    jsonx_append(c.steps, json_pack("{s:s,s:s,s:s,s:s}", "node", "n4", "step", "pairs", "cause",
                                    "node-lost", "text", "the channel closed"));
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("ready", "ready", "ready", "not_ready"), 4);
    assert_true(has_cause(v, "n4", "node-lost"));
    cluster_close(&c);
}

/* n3's agent dies in the middle of a round with n2: n2 reports the lost peer and is not to blame.
 */
static void node_that_fell_out_answers_for_its_paths(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    c.broken[1][2] = "peer-lost";
    jsonx_append(c.steps, json_pack("{s:s,s:s,s:s,s:s}", "node", "n3", "step", "pairs", "cause",
                                    "node-lost", "text", "the agent was killed by SIGKILL"));
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("ready", "ready", "not_ready", "ready"), 4);
    assert_true(has_cause(v, "n3", "node-lost"));
    cluster_close(&c);
}

static void missing_evidence_is_unknown_never_ready(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    c.absent[3] = true;
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("ready", "ready", "ready", "unknown"), 4);
    strbuf_release(&c.lines[0]);
    json_auto_t *none = cluster_judge(&c);
    assert_string_equal(cluster_state(none, "n1"), "unknown");
    cluster_close(&c);
}

static void unsealed_stage_does_not_count(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    for (size_t i = 0; i < 4; i++)
        c.unsealed[i] = true;
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("unknown", "unknown", "unknown", "unknown"), 4);
    assert_true(has_cause(v, "n2", "evidence-unsealed"));
    cluster_close(&c);
}

/* The others have measured all that is theirs; only what n4 says about its paths is missing. */
static void node_without_usable_records_does_not_spoil_the_others(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    c.unsealed[3] = true;
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("ready", "ready", "ready", "unknown"), 4);
    assert_true(has_cause(v, "n4", "evidence-unsealed"));
    assert_string_equal(jsonx_str_or(cluster_element(v, "n1", "paths"), "reason", ""),
                        "5 of 6 directed paths passed; the others are charged to the other end");
    /* Records of another node in its place. */
    c.unsealed[3] = false;
    strbuf_release(&c.lines[3]);
    strbuf_puts(&c.lines[3], c.lines[0].data);
    json_auto_t *lies = cluster_judge(&c);
    states_are(lies, STATES("ready", "ready", "ready", "not_ready"), 4);
    cluster_close(&c);
}

static void warnings_are_charged_to_what_they_have_in_common(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    for (size_t i = 0; i < 4; i++)
        c.retransmits[i][2] = 1000000;
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("ready", "ready", "degraded", "ready"), 4);
    assert_true(has_cause(v, "n3", "retransmits"));
    cluster_close(&c);
    /* One path alone has two ends. */
    cluster_open(&c, 4, 1e10);
    c.retransmits[0][2] = 1000000;
    cluster_measure(&c);
    json_auto_t *one = cluster_judge(&c);
    states_are(one, STATES("degraded", "ready", "degraded", "ready"), 4);
    cluster_close(&c);
}

static void swapped_evidence_makes_nodes_not_ready(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    cluster_measure(&c);
    struct strbuf kept = c.lines[0];
    c.lines[0] = c.lines[1];
    c.lines[1] = kept;
    json_auto_t *v = cluster_judge(&c);
    assert_string_equal(cluster_state(v, "n1"), "not_ready");
    assert_string_equal(cluster_state(v, "n2"), "not_ready");
    assert_true(has_cause(v, "n1", "evidence-wrong-run"));
    cluster_close(&c);
}

static void corrupt_data_and_wrong_sums_fail(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    for (size_t i = 0; i < 4; i++)
        c.mismatches[i][1] = 3;
    c.digest[3] = "bb11";
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("ready", "not_ready", "ready", "not_ready"), 4);
    assert_true(has_cause(v, "n2", "data-corrupt"));
    assert_string_equal(jsonx_str_or(cluster_element(v, "n4", "allreduce_data"), "reason", ""),
                        "the result's digest bb11 differs from that of the other nodes (1048576 "
                        "bytes, f32, ring)");
    cluster_close(&c);
}

static void faster_than_the_link_is_a_fault(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    for (size_t i = 0; i < 4; i++)
        c.bandwidth[0][i] = 3e10;
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("not_ready", "ready", "ready", "ready"), 4);
    assert_true(has_cause(v, "n1", "faster-than-link"));
    cluster_close(&c);
}

static void figure_without_limit_is_not_measured(void **state)
{
    struct cluster c;
    cluster_open(&c, 2, 0); /* two directed paths: too few peers, and a virtual link */
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("unknown", "unknown"), 2);
    assert_true(has_cause(v, "n1", "limit-missing"));
    jsonx_set(cluster_policy(&c), "floors",
              json_pack("{s:{s:f,s:s,s:n},s:{s:f,s:s,s:n}}", "tcp_bandwidth", "value", 1e9, "unit",
                        "bit/s", "reason", "allreduce_busbw", "value", 1e8, "unit", "B/s",
                        "reason"));
    json_auto_t *with = cluster_judge(&c);
    states_are(with, STATES("ready", "ready"), 2);
    cluster_close(&c);
}

static void broken_collective(struct cluster *c, size_t node, const char *cause,
                              const char *culprit)
{
    cluster_emit(
        c, node,
        (struct evidence){.stage = "allreduce-cluster",
                          .subject = "cluster",
                          .quantity = "allreduce_data",
                          .unit = "1",
                          .outcome = EVIDENCE_FAILED,
                          .cause = cause,
                          .reason = "the ring broke",
                          .proof = culprit ? json_pack("{s:s}", "culprit", culprit) : NULL});
    cluster_seal(c, node, "allreduce-cluster");
}

static void broken_collective_is_charged_to_the_one_who_broke_it(void **state)
{
    static const struct {
        const char *cause[4], *culprit[4], *want[4];
    } rows[] = {
        /* one failed for its own reason */
        {{"peer-lost", "data-corrupt", "peer-lost", "peer-lost"},
         {NULL, NULL, NULL, NULL},
         {"unknown", "not_ready", "unknown", "unknown"}},
        /* the others agree on who was lost */
        {{"peer-lost", "peer-lost", "peer-lost", "peer-lost"},
         {"n3", "n3", "n4", "n3"},
         {"unknown", "unknown", "not_ready", "unknown"}},
        /* nobody can be told apart: all are charged */
        {{"peer-lost", "peer-lost", "peer-lost", "peer-lost"},
         {"n2", "n3", "n4", "n1"},
         {"not_ready", "not_ready", "not_ready", "not_ready"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cluster c;
        cluster_open(&c, 4, 1e10);
        cluster_measure(&c); /* an earlier attempt went well and does not count any more */
        for (size_t n = 0; n < 4; n++)
            broken_collective(&c, n, rows[i].cause[n], rows[i].culprit[n]);
        json_auto_t *v = cluster_judge(&c);
        states_are(v, rows[i].want, 4);
        cluster_close(&c);
    }
}

/* The round trip is measured from one end only, and either end may say that a path failed. */
static void latency_holds_for_both_directions(void **state)
{
    struct cluster c;
    cluster_open(&c, 2, 1e10);
    c.one_sided_latency = true;
    jsonx_set(cluster_policy(&c), "floors",
              json_pack("{s:{s:f,s:s,s:n}}", "tcp_latency", "value", 1e-4, "unit", "s", "reason"));
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("ready", "ready"), 2);
    jsonx_set(cluster_policy(&c), "floors",
              json_pack("{s:{s:f,s:s,s:n}}", "tcp_latency", "value", 1e-6, "unit", "s", "reason"));
    json_auto_t *late = cluster_judge(&c);
    states_are(late, STATES("not_ready", "not_ready"), 2);
    assert_true(has_cause(late, "n2", "latency-high"));
    cluster_close(&c);
}

static void exclusions_end(void **state)
{
    static const struct {
        const char *until, *n1, *n2;
    } rows[] = {
        {"2026-11-30", "unknown", "ready"}, /* last day of the exclusion */
        {"2026-11-29", "not_ready", "ready"},
        {"soon", "not_ready", "ready"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cluster c;
        cluster_open(&c, 4, 1e10);
        for (size_t k = 1; k < 4; k++)
            c.broken[0][k] = c.broken[k][0] = "peer-lost";
        jsonx_set(cluster_policy(&c), "exclude",
                  json_pack("[{s:s,s:s,s:s}]", "subject", "n1", "reason", "RMA 4711", "until",
                            rows[i].until));
        cluster_measure(&c);
        json_auto_t *v = cluster_judge(&c);
        assert_string_equal(cluster_state(v, "n1"), rows[i].n1);
        assert_string_equal(cluster_state(v, "n2"), rows[i].n2);
        const char *want = i == 0 ? "ready" : "not_ready";
        assert_string_equal(jsonx_str_or(v, "cluster_state", ""), want);
        const char *reason = jsonx_str_or(cluster_element(v, "n1", "paths"), "reason", "");
        assert_non_null(strstr(reason, "RMA 4711"));
        cluster_close(&c);
    }
}

static void required_stage_without_hardware_is_unknown(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    jsonx_set_str(cluster_policy(&c), "require", "all");
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("unknown", "unknown", "unknown", "unknown"), 4);
    assert_true(has_cause(v, "n1", "hardware-absent"));
    cluster_close(&c);
}

static void clock_skew_fails_the_node(void **state)
{
    struct cluster c;
    cluster_open(&c, 4, 1e10);
    jsonx_set_int(c.skew, "n2", -6000);
    json_object_del(c.skew, "n3");
    cluster_measure(&c);
    json_auto_t *v = cluster_judge(&c);
    states_are(v, STATES("ready", "not_ready", "unknown", "ready"), 4);
    assert_string_equal(jsonx_str_or(cluster_element(v, "n2", "clock_skew"), "reason", ""),
                        "the clock differs by -6.000 s from the controller's (limit 5.000 s)");
    cluster_close(&c);
}

static void malformed_sites_are_refused(void **state)
{
    static const struct {
        const char *policy, *error;
    } rows[] = {
        {"{}", "site: policy.require must be \"all\" or a list of stages"},
        {"{\"require\":[]}", "site: policy.require must be \"all\" or a list of stages"},
        {"{\"require\":[\"pears\"]}", "site: policy.require names the unknown stage 'pears'"},
        {"{\"require\":[\"pairs\"],\"floors\":{\"tcp_bandwidth\":{\"value\":1,\"unit\":\"B/s\"}}}",
         "check path_bandwidth: site: policy.floors.tcp_bandwidth: unit is 'B/s', tcp_bandwidth is "
         "measured in 'bit/s'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cluster c;
        struct err err = {0};
        cluster_open(&c, 2, 1e10);
        jsonx_set(c.site, "policy", json_loads(rows[i].policy, 0, NULL));
        struct evidence_set *set = cluster_evidence(&c);
        struct judge_input in = {
            .site = c.site, .facts = c.facts, .evidence = set, .now_ms = c.now_ms};
        json_t *v = NULL;
        assert_int_equal(judge_run(&in, &v, &err), -1);
        assert_null(v);
        assert_string_equal(err.text, rows[i].error);
        evidence_set_destroy(set);
        cluster_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy_cluster_is_ready),
        cmocka_unit_test(node_whose_paths_fail_is_the_only_one_not_ready),
        cmocka_unit_test(slow_node_is_found_by_roofline_and_by_peers),
        cmocka_unit_test(pair_fault_is_charged_to_both_ends),
        cmocka_unit_test(two_bad_nodes_are_both_found),
        cmocka_unit_test(dead_node_does_not_spoil_the_others),
        cmocka_unit_test(node_that_fell_out_answers_for_its_paths),
        cmocka_unit_test(missing_evidence_is_unknown_never_ready),
        cmocka_unit_test(unsealed_stage_does_not_count),
        cmocka_unit_test(node_without_usable_records_does_not_spoil_the_others),
        cmocka_unit_test(warnings_are_charged_to_what_they_have_in_common),
        cmocka_unit_test(swapped_evidence_makes_nodes_not_ready),
        cmocka_unit_test(corrupt_data_and_wrong_sums_fail),
        cmocka_unit_test(faster_than_the_link_is_a_fault),
        cmocka_unit_test(figure_without_limit_is_not_measured),
        cmocka_unit_test(broken_collective_is_charged_to_the_one_who_broke_it),
        cmocka_unit_test(latency_holds_for_both_directions),
        cmocka_unit_test(exclusions_end),
        cmocka_unit_test(required_stage_without_hardware_is_unknown),
        cmocka_unit_test(clock_skew_fails_the_node),
        cmocka_unit_test(malformed_sites_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
