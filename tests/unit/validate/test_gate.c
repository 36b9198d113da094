/* The gate's decision, row by row. */
#include "cluster.h"

#include "validate/gate.h"
#include "validate/slice.h"

struct fixture {
    struct cluster c;
    struct sign_key *key, *other;
    struct sign_public public, other_public;
    json_t *slices, *identity;
    struct gate_input in; /* of n1, all in order */
    char *slice;
};

static void set_slice(struct fixture *f, const char *node)
{
    free(f->slice);
    f->slice = jsonx_canonical(json_object_get(f->slices, node));
    f->in.slice = f->slice;
    f->in.slice_len = strlen(f->slice);
}

static int setup_with(void **state, bool simulated, void (*prepare)(struct cluster *c))
{
    struct fixture *f = mem_zero(1, sizeof *f);
    struct err err = {0};
    cluster_open(&f->c, 3, 1e10);
    prepare(&f->c);
    cluster_measure(&f->c);
    f->key = sign_key_generate(&err);
    f->other = sign_key_generate(&err);
    sign_public_raw(f->key, &f->public);
    sign_public_raw(f->other, &f->other_public);
    json_auto_t *envelope = NULL;
    cluster_report(&f->c, f->key, 7, simulated, &envelope, &f->slices);
    const json_t *facts = json_object_get(f->c.facts, "n1");
    f->identity = json_deep_copy(json_object_get(facts, "identity"));
    f->in = (struct gate_input){.trusted = &f->public,
                                .trusted_count = 1,
                                .node = "n1",
                                .identity = f->identity,
                                .serial_accepted = 7,
                                .now_ms = f->c.now_ms + 1000};
    set_slice(f, "n1");
    *state = f;
    return 0;
}

static void two_gpus(struct cluster *c)
{
    json_t *identity = json_object_get(json_object_get(c->facts, "n1"), "identity");
    jsonx_set(identity, "gpus", json_pack("[s,s]", "GPU-aaaa", "GPU-bbbb"));
    jsonx_set(identity, "firmware", json_pack("{s:s}", "mlx5_0", "28.40.1000"));
}
static void broken_n1(struct cluster *c)
{
    for (size_t i = 1; i < 3; i++)
        c->broken[0][i] = c->broken[i][0] = "tcp-connect-timeout";
}
static void retransmits(struct cluster *c)
{
    json_t *step = json_pack("{s:s,s:s,s:s,s:s}", "node", "n1", "step", "apply", "cause",
                             "apply-undone", "text", "an earlier apply was broken off");
    jsonx_append(c->steps, step);
}
static void retransmits_allowed(struct cluster *c)
{
    retransmits(c);
    jsonx_set_bool(cluster_policy(c), "allow_degraded", true);
}
static void all_stages(struct cluster *c)
{
    jsonx_set_str(cluster_policy(c), "require", "all");
}

static int setup(void **state)
{
    return setup_with(state, false, two_gpus);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    json_decref(f->slices);
    json_decref(f->identity);
    sign_key_destroy(f->key);
    sign_key_destroy(f->other);
    cluster_close(&f->c);
    free(f->slice);
    free(f);
    return 0;
}

static void gate_is(const struct fixture *f, enum gate_status status, const char *why)
{
    struct gate_result r;
    gate_check(&f->in, &r);
    assert_string_equal(r.why, why);
    assert_int_equal(r.status, status);
}

static void ready_node_passes(void **state)
{
    struct fixture *f = *state;
    gate_is(f, GATE_READY, "ready until 2026-12-07T08:20:00.000Z (report 7)");
    struct gate_result r;
    gate_check(&f->in, &r);
    assert_string_equal(r.state, "ready");
    assert_string_equal(r.run, CLUSTER_RUN);
    assert_int_equal(r.serial, 7);
    /* As the agent may have stored it: indented. */
    AUTO(free_str)
    char *pretty = json_dumps(json_object_get(f->slices, "n1"), JSON_INDENT(1) | JSON_SORT_KEYS);
    f->in.slice = pretty;
    f->in.slice_len = strlen(pretty);
    gate_is(f, GATE_READY, "ready until 2026-12-07T08:20:00.000Z (report 7)");
}

static void every_flipped_byte_closes_the_gate(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < f->in.slice_len; i++) {
        struct gate_result r;
        f->slice[i] ^= (char)(1 << i % 7);
        gate_check(&f->in, &r);
        if (r.status != GATE_CANNOT_TELL)
            fail_msg("byte %zu of %zu flipped: status %d, %s", i, f->in.slice_len, r.status, r.why);
        f->slice[i] ^= (char)(1 << i % 7);
    }
}

static void reports_that_do_not_count(void **state)
{
    struct fixture *f = *state;
    const struct gate_input good = f->in;
    f->in.serial_accepted = 8;
    gate_is(f, GATE_CANNOT_TELL,
            "report 7 is older than report 8, which was accepted here (replayed?)");
    f->in = good;
    f->in.now_ms = f->c.now_ms + 604800000;
    gate_is(f, GATE_CANNOT_TELL,
            "report 7 expired on 2026-12-07T08:20:00.000Z; run muster validate");
    f->in.now_ms = f->c.now_ms - REPORT_FUTURE_MS - 1;
    gate_is(f, GATE_CANNOT_TELL,
            "report 7 was issued in the future (2026-11-30T08:20:00.000Z); check the clock");
    f->in = good;
    f->in.node = "n9";
    gate_is(f, GATE_CANNOT_TELL, "the slice is for node n1, this machine is n9");
    f->in = good;
    f->in.identity = NULL;
    gate_is(f, GATE_CANNOT_TELL, "the identity of this machine cannot be read");
    f->in = good;
    f->in.trusted = &f->other_public;
    struct gate_result r;
    gate_check(&f->in, &r);
    assert_int_equal(r.status, GATE_CANNOT_TELL);
    assert_non_null(strstr(r.why, "slice: root: not signed by a trusted key"));
    f->in = good;
    f->in.trusted_count = 0;
    gate_check(&f->in, &r);
    assert_int_equal(r.status, GATE_CANNOT_TELL);
    f->in = good;
    f->in.slice_len = 0;
    gate_check(&f->in, &r);
    assert_int_equal(r.status, GATE_CANNOT_TELL);
}

static void another_nodes_entry_does_not_fit(void **state)
{
    struct fixture *f = *state;
    json_auto_t *mixed = json_deep_copy(json_object_get(f->slices, "n1"));
    json_t *theirs = json_object_get(json_object_get(f->slices, "n2"), "entry");
    json_auto_t *entry = json_deep_copy(theirs);
    jsonx_set_str(entry, "node", "n1");
    jsonx_set(mixed, "entry", json_incref(entry));
    AUTO(free_str) char *text = jsonx_canonical(mixed);
    f->in.slice = text;
    f->in.slice_len = strlen(text);
    gate_is(f, GATE_CANNOT_TELL,
            "slice: the entry of n1 does not belong to the signed root (altered, or of another "
            "report)");
}

static void changed_hardware_is_named(void **state)
{
    static const struct {
        const char *key, *value, *why;
    } rows[] = {
        {"gpus", "[\"GPU-aaaa\"]", "GPU GPU-bbbb is gone (2 were measured, 1 are here)"},
        {"gpus", "[\"GPU-aaaa\",\"GPU-cccc\"]",
         "GPU GPU-bbbb is gone and GPU-cccc is new since it was measured"},
        {"gpus", "[\"GPU-aaaa\",\"GPU-bbbb\",\"GPU-cccc\"]",
         "GPU GPU-cccc is new and was not measured"},
        {"gpus", "[\"GPU-aaaa\",\"GPU-bbbb\",\"GPU-bbbb\"]", "2 GPUs were measured, 3 are here"},
        {"gpus", "null", "the identity has no list of GPUs (gpus)"},
        {"nics", "[]", "network device 02:00:00:00:00:01 is gone (1 were measured, 0 are here)"},
        {"machine_id", "\"ffff\"", "machine id is ffff, n1 was measured"},
        {"driver", "\"580.1\"", "GPU driver is 580.1, none was measured"},
        {"firmware", "{\"mlx5_0\":\"28.99\"}",
         "firmware of mlx5_0 is 28.99, 28.40.1000 was measured"},
        {"firmware", "{}", "firmware of mlx5_0 is none, 28.40.1000 was measured"},
        {"ssh_host_keys", "[\"SHA256:abc\",\"SHA256:def\"]",
         "SSH host key SHA256:def is new and was not measured"},
        {"serial", "1", "the identity of this machine differs from the measured one"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_auto_t *now = json_deep_copy(f->identity);
        jsonx_set(now, rows[i].key, json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        f->in.identity = now;
        bool unreadable = strcmp(rows[i].value, "null") == 0;
        gate_is(f, unreadable ? GATE_CANNOT_TELL : GATE_NOT_READY, rows[i].why);
    }
}

static void states_decide(void **state)
{
    static const struct {
        void (*prepare)(struct cluster *c);
        enum gate_status status;
        const char *why;
    } rows[] = {
        {broken_n1, GATE_NOT_READY,
         "not ready: tcp-connect-timeout: 4 of 4 directed paths fail and n1 is what they have in "
         "common (n1>n2: the connection did not come up)"},
        {retransmits, GATE_NOT_READY,
         "degraded: apply-undone: apply: an earlier apply was broken off"},
        {retransmits_allowed, GATE_READY,
         "degraded: apply-undone: apply: an earlier apply was broken off"},
        {all_stages, GATE_CANNOT_TELL,
         "not everything that is required was measured: hardware-absent: required, but "
         "no NVIDIA PCI device"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture *f = NULL;
        setup_with((void **)&f, false, rows[i].prepare);
        gate_is(f, rows[i].status, rows[i].why);
        teardown((void **)&f);
    }
    struct fixture *f = NULL;
    setup_with((void **)&f, true, two_gpus);
    gate_is(f, GATE_CANNOT_TELL, "report 7 was made with simulated hardware");
    teardown((void **)&f);
}

/* A report that knows the configuration. */
static void changed_configuration_is_named(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    json_auto_t *manifest =
        json_pack("{s:i,s:s,s:[{s:s,s:s,s:s},{s:s,s:s,s:s}]}", "v", 1, "run", "r", "items", "kind",
                  "file", "id", "/etc/nccl.conf", "digest", "aa", "kind", "sysctl", "id",
                  "vm.swappiness", "digest", "bb");
    struct evidence_set *set = cluster_evidence(&f->c);
    json_auto_t *verdict = cluster_judge_set(&f->c, set);
    json_auto_t *configs = json_pack("{s:O}", "n1", manifest);
    struct report_input in = {.verdict = verdict,
                              .site = f->c.site,
                              .facts = f->c.facts,
                              .configs = configs,
                              .node_keys = f->c.node_keys,
                              .evidence = set,
                              .muster_version = "muster 0.1.0",
                              .serial = 9,
                              .issued_ms = f->c.now_ms,
                              .expires_ms = f->c.now_ms + 604800000};
    json_auto_t *envelope = NULL;
    gate_is(f, GATE_READY, "ready until 2026-12-07T08:20:00.000Z (report 7)");
    f->in.manifest = manifest;
    gate_is(f, GATE_NOT_READY, "2 managed settings are here, the report knows of none");
    json_decref(f->slices);
    f->slices = NULL;
    assert_int_equal(report_build(&in, &f->key, 1, &envelope, &f->slices, &err), 0);
    set_slice(f, "n1");
    json_auto_t *now = json_deep_copy(manifest);
    f->in.manifest_now = now;
    gate_is(f, GATE_READY, "ready until 2026-12-07T08:20:00.000Z (report 9)");
    jsonx_set_str(json_array_get(json_object_get(now, "items"), 1), "digest", "cc");
    gate_is(f, GATE_NOT_READY, "sysctl vm.swappiness has changed since it was measured");
    json_array_remove(json_object_get(now, "items"), 1);
    gate_is(f, GATE_NOT_READY, "sysctl vm.swappiness has changed since it was measured");
    f->in.manifest_now = NULL;
    gate_is(f, GATE_CANNOT_TELL, "the managed configuration cannot be read");
    json_auto_t *applied = json_deep_copy(manifest);
    json_array_remove(json_object_get(applied, "items"), 0);
    f->in.manifest = applied;
    f->in.manifest_now = applied;
    gate_is(f, GATE_NOT_READY,
            "the managed configuration is not the reported one (applied or rolled back since)");
    f->in.manifest = NULL;
    gate_is(f, GATE_NOT_READY, "the record of the managed configuration is gone");
    evidence_set_destroy(set);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(ready_node_passes),
        T(every_flipped_byte_closes_the_gate),
        T(reports_that_do_not_count),
        T(another_nodes_entry_does_not_fit),
        T(changed_hardware_is_named),
        cmocka_unit_test(states_decide),
        T(changed_configuration_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
