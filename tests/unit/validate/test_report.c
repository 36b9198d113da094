/* The signed report: what is in it, and that nothing in it can be changed. */
#include "cluster.h"

#include <unistd.h>

#include "common/fs.h"
#include "validate/dsse.h"
#include "validate/slice.h"

struct fixture {
    struct cluster c;
    struct sign_key *key, *other;
    struct sign_public public, other_public;
    json_t *envelope, *slices;
};

static int setup(void **state)
{
    struct fixture *f = mem_zero(1, sizeof *f);
    struct err err = {0};
    cluster_open(&f->c, 2, 1e10);
    cluster_measure(&f->c);
    f->key = sign_key_generate(&err);
    f->other = sign_key_generate(&err);
    sign_public_raw(f->key, &f->public);
    sign_public_raw(f->other, &f->other_public);
    cluster_report(&f->c, f->key, 7, false, &f->envelope, &f->slices);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    json_decref(f->envelope);
    json_decref(f->slices);
    sign_key_destroy(f->key);
    sign_key_destroy(f->other);
    cluster_close(&f->c);
    free(f);
    return 0;
}

static struct report_expect expect_of(const struct fixture *f)
{
    return (struct report_expect){
        .trusted = &f->public, .trusted_count = 1, .now_ms = f->c.now_ms + 1000};
}

static int verify(const json_t *envelope, const struct report_expect *expect, json_t **statement,
                  struct err *err)
{
    AUTO(free_str) char *text = jsonx_canonical(envelope);
    return report_verify(text, strlen(text), expect, statement, err);
}

static json_t *statement_of(const struct fixture *f)
{
    struct err err = {0};
    struct report_expect expect = expect_of(f);
    json_t *statement = NULL;
    if (verify(f->envelope, &expect, &statement, &err) != 0)
        fail_msg("%s", err.text);
    return statement;
}

static void report_says_what_was_judged(void **state)
{
    struct fixture *f = *state;
    json_auto_t *s = statement_of(f);
    assert_string_equal(jsonx_str_or(s, "predicateType", ""), REPORT_PREDICATE);
    assert_int_equal(json_array_size(json_object_get(s, "subject")), 2);
    const json_t *p = json_object_get(s, "predicate");
    const json_t *n1 = json_object_get(json_object_get(p, "nodes"), "n1");
    assert_string_equal(jsonx_str_or(n1, "state", ""), "ready");
    assert_string_equal(jsonx_str_or(json_object_get(n1, "identity"), "machine_id", ""), "n1");
    assert_int_equal(jsonx_int_or(json_object_get(n1, "evidence"), "count", 0), 12);
    assert_int_equal(jsonx_int_or(p, "serial", 0), 7);
    assert_true(json_array_size(json_object_get(p, "cluster_elements")) >= 6);
}

static void every_flipped_byte_is_refused(void **state)
{
    struct fixture *f = *state;
    struct report_expect expect = expect_of(f);
    AUTO(free_str) char *text = jsonx_canonical(f->envelope);
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        struct err err = {0};
        text[i] ^= (char)(1 << i % 7);
        if (report_verify(text, len, &expect, NULL, &err) == 0)
            fail_msg("byte %zu of %zu was flipped and the report still verifies", i, len);
        text[i] ^= (char)(1 << i % 7);
    }
    for (size_t cut = 0; cut < len; cut += 97)
        assert_int_equal(report_verify(text, cut, &expect, NULL, &(struct err){0}), -1);
}

/* Sign a changed payload with the right key: what a careless or bought signer could do. */
static int verify_resigned(const struct fixture *f, const json_t *statement, struct err *err)
{
    AUTO(free_str) char *payload = jsonx_canonical(statement);
    struct sign_key *keys[] = {f->key};
    json_auto_t *envelope = dsse_sign(DSSE_TYPE_INTOTO, payload, strlen(payload), keys, 1, err);
    struct report_expect expect = expect_of(f);
    return verify(envelope, &expect, NULL, err);
}

static void inconsistent_reports_are_refused(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 6; i++) {
        struct err err = {0};
        json_auto_t *whole = statement_of(f);
        json_auto_t *s = json_deep_copy(whole);
        json_t *p = json_object_get(s, "predicate");
        json_t *nodes = json_object_get(p, "nodes");
        const char *want = NULL;
        if (i == 0) {
            json_object_del(nodes, "n2");
            want = "report: node n2 was dropped (it is a subject without an entry)";
        } else if (i == 1) {
            json_object_del(nodes, "n2");
            json_array_remove(json_object_get(s, "subject"), 1);
            want = "report: the Merkle root does not fit the 1 entries";
        } else if (i == 2) {
            jsonx_set_str(json_object_get(nodes, "n1"), "state", "degraded");
            want = "report: the entry of n1 does not have the digest of its subject";
        } else if (i == 3) {
            jsonx_set_int(p, "v", 2);
            want = "report: version 2 is not known (this program knows 1)";
        } else if (i == 4) {
            jsonx_set_int(p, "bonus", 2);
            want = "report: predicate: unknown key 'bonus'";
        } else {
            jsonx_set_str(s, "predicateType", SLICE_PREDICATE);
            want = "report: is of type 'urn:muster:readiness-root:v1', must be "
                   "'urn:muster:readiness:v1'";
        }
        assert_int_equal(verify_resigned(f, s, &err), -1);
        assert_string_equal(err.text, want);
    }
}

static void expectations_are_checked(void **state)
{
    struct fixture *f = *state;
    const int64_t now = f->c.now_ms, week = 604800000;
    struct {
        struct report_expect expect;
        const char *error; /* NULL: accepted */
    } rows[] = {
        {{.cluster = "aurora", .run = CLUSTER_RUN, .min_serial = 7, .now_ms = now}, NULL},
        {{.now_ms = 0}, NULL},
        {{.cluster = "borealis"}, "report: is about cluster aurora, borealis was expected"},
        {{.run = "x"}, "report: is about run " CLUSTER_RUN ", x was expected"},
        {{.min_serial = 8},
         "report: serial 7 is older than 8, which was accepted already (replayed?)"},
        {{.now_ms = now + week - 1}, NULL},
        {{.now_ms = now + week},
         "report: expired on 2026-12-07T08:20:00.000Z; run `muster validate` "
         "for a new one"},
        {{.now_ms = now - REPORT_FUTURE_MS}, NULL},
        {{.now_ms = now - REPORT_FUTURE_MS - 1},
         "report: issued in the future (2026-11-30T08:20:00.000Z); check the clocks"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        rows[i].expect.trusted = &f->public;
        rows[i].expect.trusted_count = 1;
        int result = verify(f->envelope, &rows[i].expect, NULL, &err);
        assert_string_equal(err.text, rows[i].error ? rows[i].error : "");
        assert_int_equal(result, rows[i].error ? -1 : 0);
    }
    struct err err = {0};
    struct report_expect stranger = {.trusted = &f->other_public, .trusted_count = 1};
    assert_int_equal(verify(f->envelope, &stranger, NULL, &err), -1);
    assert_non_null(strstr(err.text, "report: not signed by a trusted key"));
    json_auto_t *fake = NULL, *slices = NULL;
    cluster_report(&f->c, f->key, 7, true, &fake, &slices);
    struct report_expect expect = expect_of(f);
    err_clear(&err);
    assert_int_equal(verify(fake, &expect, NULL, &err), -1);
    assert_string_equal(err.text,
                        "report: made with simulated hardware; it says nothing about this "
                        "cluster");
    expect.allow_simulated = true;
    assert_int_equal(verify(fake, &expect, NULL, &(struct err){0}), 0);
}

static void write_evidence(const char *dir, const char *name, const struct strbuf *b)
{
    struct err err = {0};
    AUTO(free_str) char *path = str_printf("%s/%s.jsonl", dir, name);
    if (!b) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    assert_int_equal(fs_write_atomic(path, b->data, b->len, 0600, &err), 0);
}

static void evidence_files_must_be_the_ones(void **state)
{
    struct fixture *f = *state;
    char dir[] = "/tmp/muster-test-report-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct report_expect expect = expect_of(f);
    expect.evidence_dir = dir;
    const struct strbuf *n1 = &f->c.lines[0], *n2 = &f->c.lines[1];
    write_evidence(dir, "n1", n1);
    write_evidence(dir, "n2", n2);
    struct err err = {0};
    assert_int_equal(verify(f->envelope, &expect, NULL, &err), 0);

    write_evidence(dir, "n1", n2);
    assert_int_equal(verify(f->envelope, &expect, NULL, &err), -1);
    assert_string_equal(err.text, "evidence of n1: not the records that the report was made from "
                                  "(swapped or altered)");
    err_clear(&err);
    struct strbuf cut = {n1->data, (size_t)(strrchr(n1->data, '{') - n1->data), 0};
    while (cut.data[cut.len - 1] != '\n')
        cut.len--;
    write_evidence(dir, "n1", &cut);
    assert_int_equal(verify(f->envelope, &expect, NULL, &err), -1);
    assert_string_equal(err.text, "evidence of n1: 11 records, the report was made from 12");
    err_clear(&err);
    write_evidence(dir, "n1", n1);
    write_evidence(dir, "n2", NULL);
    assert_int_equal(verify(f->envelope, &expect, NULL, &err), -1);
    AUTO(free_str) char *want = str_printf("evidence of n2: %s/n2.jsonl is missing", dir);
    assert_string_equal(err.text, want);
    assert_int_equal(fs_remove_tree(dir, &(struct err){0}), 0);
}

static void parent_is_the_payload_hash(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    char hash[HASH_HEX_BYTES];
    assert_int_equal(report_payload_hash(f->envelope, hash, &err), 0);
    json_auto_t *s = statement_of(f);
    AUTO(free_str) char *payload = jsonx_canonical(s);
    struct hash h = hash_of(payload, strlen(payload));
    char want[HASH_HEX_BYTES];
    hash_hex(&h, want);
    assert_string_equal(hash, want);
    /* The slices name the report that they were cut from. */
    json_auto_t *entry = NULL, *root = NULL;
    AUTO(free_str) char *slice = jsonx_canonical(json_object_get(f->slices, "n2"));
    assert_int_equal(slice_verify(slice, strlen(slice), &f->public, 1, &entry, &root, &err), 0);
    assert_string_equal(jsonx_str_or(root, "report", ""), want);
}

static void input_that_contradicts_itself_is_refused(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    struct evidence_set *set = cluster_evidence(&f->c);
    json_auto_t *verdict = cluster_judge_set(&f->c, set);
    jsonx_set_str(json_object_get(json_object_get(verdict, "nodes"), "n1"), "state", "degraded");
    struct report_input in = {.verdict = verdict,
                              .site = f->c.site,
                              .facts = f->c.facts,
                              .node_keys = f->c.node_keys,
                              .evidence = set,
                              .muster_version = "muster 0.1.0",
                              .serial = 1,
                              .issued_ms = f->c.now_ms,
                              .expires_ms = f->c.now_ms + 1};
    json_t *envelope = NULL, *slices = NULL;
    assert_int_equal(report_build(&in, &f->key, 1, &envelope, &slices, &err), -1);
    assert_string_equal(err.text,
                        "report: the verdict calls n1 degraded, its elements add up to ready");
    assert_null(envelope);
    assert_null(slices);
    err_clear(&err);
    in.expires_ms = in.issued_ms;
    assert_int_equal(report_build(&in, &f->key, 1, &envelope, &slices, &err), -1);
    assert_string_equal(err.text, "report: it would expire before it is issued");
    evidence_set_destroy(set);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(report_says_what_was_judged),
        T(every_flipped_byte_is_refused),
        T(inconsistent_reports_are_refused),
        T(expectations_are_checked),
        T(evidence_files_must_be_the_ones),
        T(parent_is_the_payload_hash),
        T(input_that_contradicts_itself_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
