#include "stage_side.h"

enum { RANKS = 5 };
static const char *const names[RANKS] = {"n0", "n1", "n2", "n3", "n4"};

static json_t *params(int rank)
{
    json_t *p = json_object(), *nodes = json_array(), *sizes = json_array();
    for (int r = 0; r < RANKS; r++)
        jsonx_append_str(nodes, names[r]);
    jsonx_append(sizes, json_integer(12));
    jsonx_append(sizes, json_integer(400000));
    jsonx_set_str(p, "token", STAGE_SIDE_TOKEN);
    jsonx_set_str(p, "address", "127.0.0.1");
    jsonx_set_int(p, "rank", rank);
    jsonx_set_int(p, "ranks", RANKS);
    jsonx_set(p, "nodes", nodes);
    jsonx_set(p, "sizes_bytes", sizes);
    jsonx_set_int(p, "iterations", 3);
    jsonx_set_int(p, "min_time_ms", 1);
    jsonx_set_int(p, "silence_ms", 4000);
    return p;
}

static json_t *start_all(struct side sides[RANKS])
{
    json_t *endpoints = json_array();
    for (int r = 0; r < RANKS; r++)
        side_start(&sides[r], "allreduce-cluster", names[r], params(r), 30000);
    for (int r = 0; r < RANKS; r++) {
        json_t *event = side_event(&sides[r], "endpoint");
        assert_non_null(event);
        jsonx_append(endpoints, json_incref(json_object_get(event, "endpoint")));
        json_decref(event);
    }
    json_t *go = json_object();
    jsonx_set(go, "endpoints", endpoints);
    return go;
}

static void every_node_has_the_same_exact_sum(void **state)
{
    struct side sides[RANKS];
    json_t *go = start_all(sides);
    for (int r = 0; r < RANKS; r++)
        side_go(&sides[r], json_incref(go));
    const char *digest = NULL;
    for (int r = 0; r < RANKS; r++) {
        side_finish(&sides[r]);
        if (sides[r].rc)
            fail_msg("%s: %s", names[r], sides[r].err.text);
        assert_true(jsonx_bool_or(sides[r].data, "ok", false));
        assert_int_equal(jsonx_int_or(sides[r].data, "sizes", -1), 2);
        assert_int_equal(side_count(&sides[r], "allreduce_time", "cluster", "measured"), 2);
        assert_int_equal(side_count(&sides[r], "allreduce_busbw", "cluster", "measured"), 2);
        assert_int_equal(side_count(&sides[r], "allreduce_data", "cluster", "measured"), 2);
        const json_t *data = side_find(&sides[r], "allreduce_data", "cluster");
        const char *own = jsonx_str_or(json_object_get(data, "proof"), "digest", "");
        assert_int_equal(strlen(own), 64);
        digest = digest ? digest : own;
        assert_string_equal(own, digest);
        assert_int_equal(jsonx_int_or(json_object_get(data, "proof"), "mismatches", -1), 0);
    }
    for (int r = 0; r < RANKS; r++)
        side_release(&sides[r]);
    json_decref(go);
}

/* Rank 2 never hears the go, as when its node hangs. */
static void the_silent_node_is_named_by_all(void **state)
{
    struct side sides[RANKS];
    json_t *go = start_all(sides);
    for (int r = 0; r < RANKS; r++) {
        if (r != 2)
            side_go(&sides[r], json_incref(go));
    }
    shutdown(sides[2].controller_fd, SHUT_WR); /* its worker ends with an error of its own */
    for (int r = 0; r < RANKS; r++) {
        side_finish(&sides[r]);
        if (r == 2) {
            assert_int_equal(sides[r].rc, -1);
            continue;
        }
        assert_int_equal(sides[r].rc, 0);
        assert_false(jsonx_bool_or(sides[r].data, "ok", true));
        const json_t *data = side_find(&sides[r], "allreduce_data", "cluster");
        assert_string_equal(jsonx_str_or(data, "outcome", ""), "failed");
        assert_string_equal(jsonx_str_or(data, "cause", ""), "peer-lost");
        const char *culprit = jsonx_str_or(json_object_get(data, "proof"), "culprit", "");
        if (strcmp(culprit, "n2") != 0)
            fail_msg("%s blames '%s': %s", names[r], culprit, jsonx_str_or(data, "reason", ""));
    }
    for (int r = 0; r < RANKS; r++)
        side_release(&sides[r]);
    json_decref(go);
}

static void wrong_parameters_are_refused(void **state)
{
    const struct {
        const char *key;
        json_t *value;
        const char *text;
    } rows[] = {
        {"ranks", json_integer(1), "stage allreduce-cluster: ranks is 1, must be 2 to 16384"},
        {"rank", json_integer(1), "stage allreduce-cluster: rank 1 is n1, this node is n0"},
        {"rank", json_integer(7),
         "stage allreduce-cluster: key 'nodes' must be the list of the 5 ranks' names, and rank 7 "
         "one of them"},
        {"dtype", json_string("f64"), "stage allreduce-cluster: dtype 'f64' is not f32 or i32"},
        {"sizes_bytes", json_pack("[i]", 6),
         "stage allreduce-cluster: sizes_bytes[0] must be a multiple of 4 from 4 to 1073741824"},
        {"sizes", json_array(), "stage allreduce-cluster: unknown key 'sizes'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct side s;
        json_t *p = params(0);
        jsonx_set(p, rows[i].key, rows[i].value);
        side_start(&s, "allreduce-cluster", "n0", p, 5000);
        side_finish(&s);
        assert_int_equal(s.rc, -1);
        assert_int_equal(s.err.kind, ERR_USAGE);
        assert_string_equal(s.err.text, rows[i].text);
        side_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_has_the_same_exact_sum),
        cmocka_unit_test(the_silent_node_is_named_by_all),
        cmocka_unit_test(wrong_parameters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
