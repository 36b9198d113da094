/* The ledger: rows, verdicts that only get worse, coverage of what facts show, words of verdicts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/check.h"
#include "validate/ledger.h"

static void words_come_back(void **state)
{
    for (int v = VERDICT_PASS; v < VERDICT__COUNT; v++)
        assert_int_equal(verdict_find(verdict_name((enum verdict)v)), v);
    for (int s = VERDICT_STATE_READY; s < VERDICT_STATE__COUNT; s++)
        assert_int_equal(verdict_state_find(verdict_state_name((enum verdict_state)s)), s);
    assert_int_equal(verdict_find("UNSET"), VERDICT_UNSET);
    assert_int_equal(verdict_find("pass"), VERDICT_UNSET);
    assert_string_equal(verdict_name((enum verdict)99), "UNSET");
}

static void states_fail_closed(void **state)
{
    static const struct {
        unsigned pass, warn, fail, missing, excluded, unset, info_fail;
        enum verdict_state want;
    } rows[] = {
        {0, 0, 0, 0, 0, 0, 0, VERDICT_STATE_UNKNOWN},
        {1, 0, 0, 0, 0, 0, 0, VERDICT_STATE_READY},
        {1, 1, 0, 0, 0, 0, 0, VERDICT_STATE_DEGRADED},
        {9, 0, 1, 1, 0, 0, 0, VERDICT_STATE_NOT_READY},
        {9, 0, 0, 1, 0, 0, 0, VERDICT_STATE_UNKNOWN},
        {9, 0, 0, 0, 1, 0, 0, VERDICT_STATE_READY},
        {0, 0, 0, 0, 9, 0, 0, VERDICT_STATE_UNKNOWN},
        {9, 0, 0, 0, 0, 1, 0, VERDICT_STATE_UNKNOWN},
        {9, 0, 0, 0, 0, 0, 1, VERDICT_STATE_DEGRADED},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct verdict_counts c = {0};
        const unsigned counts[] = {rows[i].unset, rows[i].pass,    rows[i].warn,
                                   rows[i].fail,  rows[i].missing, rows[i].excluded};
        for (int v = 0; v < VERDICT__COUNT; v++)
            for (unsigned k = 0; k < counts[v]; k++)
                verdict_count(&c, (enum verdict)v, true);
        for (unsigned k = 0; k < rows[i].info_fail; k++)
            verdict_count(&c, VERDICT_FAIL, false);
        assert_int_equal(verdict_state_of(&c), rows[i].want);
    }
}

static void verdicts_only_get_worse(void **state)
{
    struct ledger *l = ledger_create();
    struct ledger_row *row = ledger_row(l, "n1", "n1", "inventory", "x", true);
    ledger_set(row, VERDICT_WARN, "retransmits", "first");
    ledger_set(row, VERDICT_PASS, NULL, "later");
    assert_int_equal(row->verdict, VERDICT_WARN);
    ledger_set(row, VERDICT_FAIL, "data-corrupt", "%d bytes", 3);
    ledger_set(row, VERDICT_FAIL, "peer-lost", "second failure");
    ledger_set(row, VERDICT_NOT_MEASURED, "not-run", "never");
    assert_string_equal(row->reason, "3 bytes");
    assert_string_equal(row->cause, "data-corrupt");
    assert_ptr_equal(ledger_row(l, "n1", "n1", "inventory", "x", false), row);
    assert_int_equal(ledger_count(l), 1);
    ledger_destroy(l);
}

static json_t *site_requiring(const char *require)
{
    json_auto_t *list = json_loads(require, JSON_DECODE_ANY, NULL);
    return json_pack("{s:{s:{}},s:{s:O,s:[]}}", "nodes", "n1", "policy", "require", list,
                     "exclude");
}

static const struct ledger_row *plan_and_find(struct ledger *l, const char *require,
                                              const char *facts_text, const char *subject,
                                              const char *stage, const char *check)
{
    struct err err = {0};
    json_auto_t *site = site_requiring(require);
    json_auto_t *facts = json_loads(facts_text, 0, NULL);
    assert_non_null(facts);
    assert_int_equal(ledger_plan(l, site, facts, &err), 0);
    ledger_close(l, site, 0);
    return ledger_find(l, subject, stage, check);
}

static const char gpus[] = "{\"n1\":{\"gpus\":{\"available\":true,\"devices\":["
                           "{\"index\":0,\"uuid\":\"GPU-a\",\"name\":\"H200\"},"
                           "{\"index\":1,\"uuid\":\"GPU-b\",\"name\":\"H200\"}]},\"rdma\":["
                           "{\"name\":\"mlx5_0\",\"ports\":[{\"port\":1,\"state\":\"ACTIVE\","
                           "\"rate\":\"400 Gb/sec\",\"link_layer\":\"InfiniBand\"}]}]}}";

static void what_exists_and_is_not_exercised_is_told(void **state)
{
    static const struct {
        const char *require, *facts, *subject, *stage, *check, *cause, *reason;
        bool required;
    } rows[] = {
        {"[\"inventory\"]", gpus, "n1/gpu:1", "gpu", "gpu_run", "not-run",
         "no measurement of n1/gpu:1 in this run (check gpu_run)", false},
        {"[\"gpu\"]", gpus, "n1/gpu:0", "gpu", "gpu_run", "not-run",
         "no measurement of n1/gpu:0 in this run (check gpu_run)", true},
        {"[\"link\"]", gpus, "n1/hca:mlx5_0/1", "link", "exercised", "stage-missing",
         "port is ACTIVE, 400 Gb/sec; no measurement of this version exercises RDMA ports", true},
        {"\"all\"", gpus, "n1", "nvlink", "coverage", "stage-missing",
         "required, but this version of muster cannot measure it", true},
        {"\"all\"", gpus, "n1", "pairs", "coverage", "too-few-nodes",
         "required, but there is no second node: the run was of this node alone", true},
        {"[\"gpu\"]", "{\"n1\":{}}", "n1", "gpu", "coverage", "hardware-absent",
         "required, but the node's facts show no GPU", true},
        {"[\"gpu\"]", "{}", "n1", "gpu", "coverage", "facts-missing",
         "the node's facts are not known, so nothing says what stage gpu must cover", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct ledger *l = ledger_create();
        const struct ledger_row *row = plan_and_find(l, rows[i].require, rows[i].facts,
                                                     rows[i].subject, rows[i].stage, rows[i].check);
        assert_non_null(row);
        assert_int_equal(row->verdict, VERDICT_NOT_MEASURED);
        assert_string_equal(row->cause, rows[i].cause);
        assert_string_equal(row->reason, rows[i].reason);
        assert_int_equal(row->required, rows[i].required);
        ledger_destroy(l);
    }
}

static void exclusions_cover_parts_and_paths(void **state)
{
    static const struct {
        const char *exclude, *subject;
        bool covered;
    } rows[] = {
        {"n1", "n1", true},
        {"n1", "n1/gpu:0", true},
        {"n1", "n1>n2", true},
        {"n1", "n2>n1", true},
        {"n1", "n11", false},
        {"n1", "n11>n2", false},
        {"n1", "n2>n11", false},
        {"n1>n2", "n1>n2", true},
        {"n1>n2", "n2>n1", false},
        {"n1/gpu:0", "n1", false},
        {"n1/gpu:0", "n1/gpu:0", true},
        {"n1/gpu:1", "n1/gpu:11", false},
        {"cluster", "cluster", true},
        {"", "n1", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_auto_t *site = json_pack("{s:{s:[{s:s,s:s,s:s}]}}", "policy", "exclude", "subject",
                                      rows[i].exclude, "reason", "r", "until", "2026-12-31");
        struct ledger *l = ledger_create();
        struct ledger_row *row = ledger_row(l, rows[i].subject, "", "s", "c", true);
        ledger_close(l, site, 0);
        if ((row->verdict == VERDICT_EXCLUDED) != rows[i].covered)
            fail_msg("exclusion of '%s' and row '%s'", rows[i].exclude, rows[i].subject);
        ledger_destroy(l);
    }
}

/* Every quantity that a check needs is one that contracts.md lists; every check says what it is. */
static void checks_are_described(void **state)
{
    for (size_t i = 0; checks_at(i); i++) {
        const struct check *c = checks_at(i);
        assert_true(strlen(c->summary) > 10 && c->stage && c->judge);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(checks_at(k)->name, c->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_come_back),
        cmocka_unit_test(states_fail_closed),
        cmocka_unit_test(verdicts_only_get_worse),
        cmocka_unit_test(what_exists_and_is_not_exercised_is_told),
        cmocka_unit_test(exclusions_cover_parts_and_paths),
        cmocka_unit_test(checks_are_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
