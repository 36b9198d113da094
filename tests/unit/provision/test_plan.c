/* The plan: built from resources and answers, grouped by difference, rendered, saved and read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/plan.h"

static const char asked[] =
    "[{\"kind\":\"limits\",\"id\":\"*\",\"playbook\":\"base\",\"params\":{}},"
    "{\"kind\":\"link\",\"id\":\"eth0\",\"playbook\":\"base\",\"params\":{\"mtu\":9000}}]";
static const char left_out[] = "[{\"kind\":\"module\",\"id\":\"x\",\"playbook\":\"p\",\"reason\":"
                               "\"when: false is false here\"}]";
static const char differs[] =
    "[{\"kind\":\"limits\",\"id\":\"*\",\"outcome\":\"same\",\"diff\":\"\",\"reason\":null},"
    "{\"kind\":\"link\",\"id\":\"eth0\",\"outcome\":\"change\",\"diff\":\"mtu: 1500 -> 9000\\n\","
    "\"reason\":null}]";
static const char file_differs[] =
    "[{\"kind\":\"limits\",\"id\":\"*\",\"outcome\":\"change\",\"diff\":\"--- a\\n+++ "
    "b\\n-old\\n+new\\n\""
    ",\"reason\":\"new logins only\"},"
    "{\"kind\":\"link\",\"id\":\"eth0\",\"outcome\":\"same\",\"diff\":\"\",\"reason\":null}]";
static const char as_wanted[] =
    "[{\"kind\":\"limits\",\"id\":\"*\",\"outcome\":\"same\",\"diff\":\"\",\"reason\":null},"
    "{\"kind\":\"link\",\"id\":\"eth0\",\"outcome\":\"same\",\"diff\":\"\",\"reason\":null}]";
static const char no_link[] =
    "[{\"kind\":\"limits\",\"id\":\"*\",\"outcome\":\"same\",\"diff\":\"\",\"reason\":null},"
    "{\"kind\":\"link\",\"id\":\"eth0\",\"outcome\":\"error\",\"diff\":\"\",\"reason\":\"no "
    "interface "
    "eth0\"}]";

static json_t *json(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    return value;
}

static int add(json_t *plan, const char *node, const char *items, struct err *err)
{
    json_auto_t *resources = json(asked);
    json_auto_t *skipped = json(left_out);
    json_auto_t *answer = json(items);
    return plan_add(plan, node, resources, skipped, answer, err);
}

static json_t *make_plan(void)
{
    json_t *plan = plan_create("R");
    struct err err = {0};
    assert_int_equal(add(plan, "gpu001", differs, &err), 0);
    assert_int_equal(add(plan, "gpu002", differs, &err), 0);
    assert_int_equal(add(plan, "gpu003", file_differs, &err), 0);
    assert_int_equal(add(plan, "gpu004", as_wanted, &err), 0);
    assert_int_equal(add(plan, "gpu005", no_link, &err), 0);
    plan_add_error(plan, "gpu006", "unreachable: connection refused");
    assert_int_equal(add(plan, "gpu007", differs, &err), 0);
    return plan;
}

static char *render(const json_t *plan, bool verbose)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    plan_render(plan, verbose, out);
    fclose(out);
    return text;
}

static void test_render(void **state)
{
    json_auto_t *plan = make_plan();
    AUTO(free_str) char *text = render(plan, false);
    assert_string_equal(text,
                        "gpu005 (1 node): 1 error\n"
                        "    link eth0: no interface eth0\n"
                        "\n"
                        "gpu006 (1 node): 1 error\n"
                        "    unreachable: connection refused\n"
                        "\n"
                        "gpu[001-002,007] (3 nodes): 1 change\n"
                        "    link eth0\n"
                        "      mtu: 1500 -> 9000\n"
                        "\n"
                        "gpu003 (1 node): 1 change\n"
                        "    limits *: new logins only\n"
                        "      --- a\n"
                        "      +++ b\n"
                        "      -old\n"
                        "      +new\n"
                        "\n"
                        "gpu004 (1 node): nothing to change\n"
                        "\n"
                        "plan: 7 nodes: 4 to change, 1 as wanted, 2 with errors; resources: 4 to "
                        "change, 7 as wanted, 6 skipped, 2 with errors\n");
    AUTO(free_str) char *more = render(plan, true);
    assert_non_null(
        strstr(more, "gpu004 (1 node): 2 resources as wanted\n    limits *\n    link eth0\n"));
    assert_non_null(strstr(more,
                           "gpu[001-005,007] (6 nodes): 1 resource skipped\n    module x: when: "
                           "false is false here\n"));
    json_auto_t *empty = plan_create("R");
    AUTO(free_str) char *none = render(empty, false);
    assert_string_equal(none,
                        "plan: 0 nodes: 0 to change, 0 as wanted, 0 with errors; resources: 0 to "
                        "change, 0 as wanted, 0 skipped, 0 with errors\n");
}

static void test_counts(void **state)
{
    json_auto_t *plan = make_plan();
    struct plan_counts c = plan_count(plan);
    assert_int_equal(c.nodes, 7);
    assert_int_equal(c.nodes_change, 4);
    assert_int_equal(c.nodes_same, 1);
    assert_int_equal(c.nodes_error, 2);
    assert_true(plan_node_failed(plan, "gpu005"));
    assert_true(plan_node_failed(plan, "gpu006"));
    assert_false(plan_node_failed(plan, "gpu001"));
    assert_true(plan_node_changes(plan, "gpu001"));
    assert_false(plan_node_changes(plan, "gpu004"));
}

static void test_answers(void **state)
{
    static const struct {
        const char *items, *error;
    } rows[] = {
        {"{}", "plan of n: items is not a list"},
        {"[]", "plan of n: asked for 2 resources, got 0 items"},
        {"[1,2]", "plan of n: an item is not an object"},
        {"[{\"kind\":\"limits\",\"id\":\"*\",\"outcome\":\"fine\"},{}]",
         "plan of n: outcome 'fine' is none of change, same, skip, error"},
        {"[{\"kind\":\"limits\",\"id\":\"*\",\"outcome\":\"same\"},"
         "{\"kind\":\"link\",\"id\":\"eth1\",\"outcome\":\"same\"}]",
         "plan of n: asked for link eth0, got link eth1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_auto_t *plan = plan_create("R");
        struct err err = {0};
        assert_int_equal(add(plan, "n", rows[i].items, &err), -1);
        assert_string_equal(err.text, rows[i].error);
        assert_int_equal(err.kind, ERR_DATA);
        assert_int_equal(plan_count(plan).nodes, 0);
    }
}

static void test_file(void **state)
{
    char path[] = "/tmp/muster-plan-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    json_auto_t *plan = make_plan();
    struct err err = {0};
    assert_int_equal(plan_save(plan, path, &err), 0);
    json_auto_t *back = NULL;
    if (plan_load(path, &back, &err) != 0)
        fail_msg("%s", err.text);
    assert_true(json_equal(plan, back));
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"[]", "is not a plan"},
        {"{\"v\":2,\"run\":\"R\",\"nodes\":{},\"items\":{}}", "version 2, this muster reads 1"},
        {"{\"v\":1,\"run\":\"R\",\"nodes\":{},\"items\":{\"n\":[]}}", "node 'n' has no list"},
        {"{\"v\":1,\"run\":\"R\",\"nodes\":{\"n\":[]},\"items\":{\"n\":[{}]}}",
         "plan of n: key 'kind' is missing (must be a string)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_auto_t *value = json(rows[i].text);
        json_t *none = NULL;
        assert_int_equal(jsonx_save(path, value, 0600, &err), 0);
        err_clear(&err);
        assert_int_equal(plan_load(path, &none, &err), -1);
        AUTO(free_str) char *meant = str_printf("%s: %s", path, rows[i].error);
        assert_string_equal(err.text, meant);
        err_clear(&err);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_render),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
