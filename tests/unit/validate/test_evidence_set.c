/* Evidence of one node, honest and tampered with. */
#include "cluster.h"

#include <unistd.h>

#include "common/fs.h"

struct row {
    const char *name;
    void (*tamper)(struct cluster *c);
    const char *cause, *text; /* NULL: no problem */
    size_t records;
};

/* Splits the text of node n1 into lines and joins the chosen ones ("0123"; letters insert bad
 * lines). */
static void keep_lines(struct cluster *c, const char *order)
{
    char *lines[64];
    size_t count = 0;
    AUTO(free_str) char *text = str_dup(c->lines[0].data);
    for (char *save = NULL, *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
        lines[count++] = l;
    struct strbuf out = {0};
    for (; *order; order++) {
        strbuf_puts(&out, *order == 'x' ? "{\"v\":1}" : lines[*order - '0']);
        strbuf_puts(&out, "\n");
    }
    strbuf_release(&c->lines[0]);
    c->lines[0] = out;
}

static void nothing(struct cluster *c) {}
static void drop_one(struct cluster *c)
{
    keep_lines(c, "0134");
}
static void drop_seal(struct cluster *c)
{
    keep_lines(c, "0123");
}
static void repeat_one(struct cluster *c)
{
    keep_lines(c, "011234");
}
static void swap_two(struct cluster *c)
{
    keep_lines(c, "01324");
}
static void bad_line(struct cluster *c)
{
    keep_lines(c, "01x234");
}

static void edit(struct cluster *c, const char *from, const char *to)
{
    char *at = strstr(c->lines[0].data, from);
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
}

static void edit_value(struct cluster *c)
{
    edit(c, "\"samples\":[65536.0]", "\"samples\":[99999.0]");
}
static void edit_run(struct cluster *c)
{
    edit(c, "-3fa9\"", "-3fa8\"");
}

static const struct row rows[] = {
    {"honest", nothing, NULL, NULL, 4},
    {"one line dropped", drop_one, "evidence-gap", "record 3 stands where record 2 should be", 3},
    {"seal dropped", drop_seal, "evidence-unsealed",
     "broken off: inventory (4 records without a seal)", 4},
    {"one line twice", repeat_one, "evidence-gap", "record 1 stands where record 2 should be", 4},
    {"two lines swapped", swap_two, "evidence-gap", "record 3 stands where record 2 should be", 3},
    {"a line that is no record", bad_line, "evidence-malformed",
     "line 3: evidence: key 'seq' is missing (must be an integer)", 4},
    {"a value edited", edit_value, "evidence-bad-signature",
     "line 2 (seq 1): the signature by the key of n1 does not fit", 3},
    {"another run", edit_run, "evidence-wrong-run",
     "line 1 is of run 20261130T081500Z-3fa8 and node n1, not of run 20261130T081500Z-3fa9 and "
     "node "
     "n1",
     3},
};

static const struct evidence_set_problem *find_problem(const struct evidence_set *set,
                                                       const char *cause)
{
    for (size_t i = 0; i < evidence_set_problem_count(set); i++)
        if (strcmp(evidence_set_problem_at(set, i)->cause, cause) == 0)
            return evidence_set_problem_at(set, i);
    return NULL;
}

static void tampering_is_told(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cluster c;
        cluster_open(&c, 1, 1e10);
        cluster_inventory(&c, 0);
        rows[i].tamper(&c);
        struct evidence_set *set = cluster_evidence(&c);
        if (rows[i].cause) {
            const struct evidence_set_problem *p = find_problem(set, rows[i].cause);
            if (!p)
                fail_msg("%s: no problem %s", rows[i].name, rows[i].cause);
            assert_string_equal(p->text, rows[i].text);
        } else {
            assert_int_equal(evidence_set_problem_count(set), 0);
        }
        assert_int_equal(evidence_set_count(set), rows[i].records);
        /* Only the honest file, and one with a foreign line beside the sealed ones, is usable. */
        bool sealed = evidence_set_find(set, "n1", "inventory", "n1", "shm_bytes") != NULL;
        bool intact = !rows[i].cause || strcmp(rows[i].cause, "evidence-malformed") == 0;
        if (sealed && !intact && strcmp(rows[i].name, "one line twice") != 0 &&
            strcmp(rows[i].cause, "evidence-bad-signature") != 0 &&
            strcmp(rows[i].cause, "evidence-wrong-run") != 0)
            fail_msg("%s: a record counts as sealed", rows[i].name);
        evidence_set_destroy(set);
        cluster_close(&c);
    }
}

static void every_flipped_byte_is_a_problem(void **state)
{
    struct cluster c;
    cluster_open(&c, 1, 1e10);
    cluster_inventory(&c, 0);
    size_t len = c.lines[0].len;
    for (size_t i = 0; i < len; i++) {
        c.lines[0].data[i] ^= 1;
        struct evidence_set *set = cluster_evidence(&c);
        if (evidence_set_problem_count(set) == 0)
            fail_msg("byte %zu of %zu flipped and nothing was told", i, len);
        evidence_set_destroy(set);
        c.lines[0].data[i] ^= 1;
    }
    cluster_close(&c);
}

static void unknown_key_is_unsigned(void **state)
{
    struct cluster c;
    struct err err = {0};
    cluster_open(&c, 1, 1e10);
    cluster_inventory(&c, 0);
    struct evidence_set *set = evidence_set_create(CLUSTER_RUN);
    const struct strbuf *b = &c.lines[0];
    assert_int_equal(evidence_set_add(set, "n1", NULL, b->data, b->len, &err), 0);
    assert_int_equal(evidence_set_count(set), 0);
    assert_string_equal(evidence_set_problem_at(set, 0)->cause, "evidence-unsigned");
    assert_int_equal(evidence_set_problem_at(set, 0)->count, 5);
    assert_int_equal(evidence_set_add(set, "n1", NULL, b->data, b->len, &err), -1);
    assert_string_equal(err.text, "evidence of n1 was given twice");
    evidence_set_destroy(set);
    cluster_close(&c);
}

static void second_attempt_replaces_the_first(void **state)
{
    struct cluster c;
    cluster_open(&c, 1, 1e10);
    cluster_value(&c, 0, "inventory", "n1", "shm_bytes", "B", 1, NULL, NULL);
    c.leaf_count[0] = 0; /* broken off */
    cluster_value(&c, 0, "inventory", "n1", "shm_bytes", "B", 2, NULL, NULL);
    cluster_seal(&c, 0, "inventory");
    cluster_value(&c, 0, "inventory", "n1", "shm_bytes", "B", 3, NULL, NULL);
    cluster_seal(&c, 0, "inventory");
    struct evidence_set *set = cluster_evidence(&c);
    assert_int_equal(evidence_set_problem_count(set), 0);
    const struct evidence_set_record *r =
        evidence_set_find(set, NULL, "inventory", "n1", "shm_bytes");
    assert_true(r && r->value == 3 && evidence_set_is_current(set, r));
    size_t cursor = 0, seen = 0;
    const bool sealed[] = {false, true, true};
    while ((r = evidence_set_next(set, NULL, "inventory", "n1", "shm_bytes", &cursor)))
        assert_int_equal(r->sealed, sealed[seen++]);
    assert_int_equal(seen, 3);
    evidence_set_destroy(set);
    cluster_close(&c);
}

static void directories_are_read(void **state)
{
    struct cluster c;
    struct err err = {0};
    cluster_open(&c, 2, 1e10);
    cluster_inventory(&c, 0);
    char dir[] = "/tmp/muster-test-evidence-XXXXXX";
    assert_non_null(mkdtemp(dir));
    AUTO(free_str) char *path = str_printf("%s/n1.jsonl", dir);
    assert_int_equal(fs_write_atomic(path, c.lines[0].data, c.lines[0].len, 0600, &err), 0);
    struct evidence_set *set = evidence_set_create(CLUSTER_RUN);
    assert_int_equal(evidence_set_load(set, dir, c.node_keys, &err), 0);
    assert_int_equal(evidence_set_count(set), 4);
    assert_int_equal(evidence_set_node(set, "n1")->line_count, 5);
    assert_string_equal(evidence_set_problem_at(set, 0)->cause, "evidence-missing");
    assert_string_equal(evidence_set_problem_at(set, 0)->node, "n2");
    evidence_set_destroy(set);
    assert_int_equal(fs_remove_tree(dir, &err), 0);
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tampering_is_told),
        cmocka_unit_test(every_flipped_byte_is_a_problem),
        cmocka_unit_test(unknown_key_is_unsigned),
        cmocka_unit_test(second_attempt_replaces_the_first),
        cmocka_unit_test(directories_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
