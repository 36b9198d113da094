/* The site file: every bad case of fixtures/site with its exact words, and what good files mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "provision/site.h"
#include "provision/site_quantity.h"
#include "provision/site_schema.h"

static json_t *parse(const char *text)
{
    struct err err = {0};
    json_t *site = NULL;
    if (site_parse(text, strlen(text), "dir/site.yaml", &site, &err) != 0)
        fail_msg("%s\n%s", err.text, text);
    return site;
}

static char *read_text(const char *path)
{
    struct err err = {0};
    char *text = NULL;
    if (fs_read(path, 1 << 20, &text, NULL, &err) != 0)
        fail_msg("%s", err.text);
    return text;
}

static void check_case(const char *name)
{
    AUTO(free_str) char *input = str_printf("%s/site/%s/input.yml", FIXTURES, name);
    AUTO(free_str) char *expected = str_printf("%s/site/%s/error", FIXTURES, name);
    AUTO(free_str) char *text = read_text(input);
    AUTO(free_str) char *words = read_text(expected);
    words[strcspn(words, "\n")] = '\0';
    struct err err = {0};
    json_t *site = NULL;
    if (site_parse(text, strlen(text), "input.yml", &site, &err) == 0)
        fail_msg("%s: was accepted", name);
    assert_null(site);
    if (strcmp(err.text, words) != 0)
        fail_msg("%s:\n  says  %s\n  meant %s", name, err.text, words);
    assert_int_equal(err.kind, ERR_USAGE);
}

static void test_bad_files(void **state)
{
    struct fs_root root = {.path = ""};
    struct err err = {0};
    char **names = NULL;
    size_t count = 0;
    assert_int_equal(fs_list_at(&root, FIXTURES "/site", &names, &count, &err), 0);
    assert_true(count >= 40);
    for (size_t i = 0; i < count; i++)
        check_case(names[i]);
    fs_list_free(names, count);
}

static const char full[] =
    "cluster: aurora\n"
    "ssh:      { user: ops, become: sudo, port: 22, connect_timeout: 3s }\n"
    "fabric:   { kind: infiniband, rate: 400Gb/s, mtu: 4096, subnet_managers: [sm1, sm2], routing: "
    "ftree }\n"
    "vars: { a: 1 }\n"
    "playbook_path: [extra]\n"
    "nodes:\n"
    "  - { names: \"gpu[001-003]\", hardware: hgx-h200-8, playbooks: [gpudirect, nccl] }\n"
    "  - { names: login, host: 10.0.0.9, user: root, port: 2222, vars: { a: 2 }, groups: [head] }\n"
    "groups:\n"
    "  rack1: { names: \"gpu[001-002]\", vars: { a: 3, b: x } }\n"
    "policy:\n"
    "  require: [inventory, pairs]\n"
    "  max_age: 2d\n"
    "  floors: { tcp_bandwidth: 9.5Gb/s, tcp_latency: { value: 50us, reason: old switch } }\n"
    "  exclude:\n"
    "    - { subject: \"gpu002/hca:mlx5_3\", reason: \"RMA 4711\", until: 2026-12-31 }\n"
    "    - { subject: \"gpu001>gpu002\", reason: cable, until: 2028-02-29 }\n"
    "stages:\n"
    "  pairs: { streams: 4 }\n";

static const char normalised[] =
    "{\"cluster\":\"aurora\","
    "\"fabric\":{\"interface\":null,\"kind\":\"infiniband\",\"mtu\":4096,\"rate_bps\":400000000000,"
    "\"routing\":\"ftree\",\"subnet\":{},\"subnet_managers\":[\"sm1\",\"sm2\"]},"
    "\"nodes\":{"
    "\"gpu001\":{\"groups\":[\"rack1\"],\"hardware\":\"hgx-h200-8\",\"host\":null,\"playbooks\":["
    "\"gpudirect\",\"nccl\"],\"port\":null,\"user\":null,\"vars\":{\"a\":3,\"b\":\"x\"}},"
    "\"gpu002\":{\"groups\":[\"rack1\"],\"hardware\":\"hgx-h200-8\",\"host\":null,\"playbooks\":["
    "\"gpudirect\",\"nccl\"],\"port\":null,\"user\":null,\"vars\":{\"a\":3,\"b\":\"x\"}},"
    "\"gpu003\":{\"groups\":[],\"hardware\":\"hgx-h200-8\",\"host\":null,\"playbooks\":["
    "\"gpudirect\",\"nccl\"],\"port\":null,\"user\":null,\"vars\":{}},"
    "\"login\":{\"groups\":[\"head\"],\"hardware\":null,\"host\":\"10.0.0.9\",\"playbooks\":["
    "\"base\"],"
    "\"port\":2222,\"user\":\"root\",\"vars\":{\"a\":2}}},"
    "\"playbook_path\":[\"extra\"],"
    "\"policy\":{\"allow_degraded\":false,\"exclude\":["
    "{\"reason\":\"RMA 4711\",\"subject\":\"gpu002/hca:mlx5_3\",\"until\":\"2026-12-31\"},"
    "{\"reason\":\"cable\",\"subject\":\"gpu001>gpu002\",\"until\":\"2028-02-29\"}],"
    "\"floors\":{\"tcp_bandwidth\":{\"reason\":null,\"unit\":\"bit/s\",\"value\":9500000000.0},"
    "\"tcp_latency\":{\"reason\":\"old switch\",\"unit\":\"s\",\"value\":5e-05}},"
    "\"max_age_ms\":172800000,\"max_clock_skew_ms\":5000,\"require\":[\"inventory\",\"pairs\"]},"
    "\"ssh\":{\"become\":\"sudo\",\"config\":null,\"connect_timeout_ms\":3000,\"parallel\":256,"
    "\"port\":22,\"user\":\"ops\"},"
    "\"stages\":{\"pairs\":{\"streams\":4}},"
    "\"v\":1,\"vars\":{\"a\":1}}";

static void test_full(void **state)
{
    json_auto_t *site = parse(full);
    const json_t *source = json_object_get(site, "source");
    assert_string_equal(jsonx_str_or(source, "file", ""), "dir/site.yaml");
    assert_int_equal(strlen(jsonx_str_or(source, "digest", "")), 64);
    json_object_del(site, "source");
    json_auto_t *meant = json_loads(normalised, 0, NULL);
    assert_non_null(meant);
    AUTO(free_str) char *is = jsonx_canonical(site);
    AUTO(free_str) char *want = jsonx_canonical(meant);
    assert_string_equal(is, want);
}

static void test_defaults(void **state)
{
    json_auto_t *site = parse("cluster: a\nnodes: gpu1\n");
    AUTO(free_str) char *ssh = jsonx_canonical(json_object_get(site, "ssh"));
    assert_string_equal(ssh, "{\"become\":\"none\",\"config\":null,\"connect_timeout_ms\":10000,"
                             "\"parallel\":256,\"port\":null,\"user\":null}");
    AUTO(free_str) char *policy = jsonx_canonical(json_object_get(site, "policy"));
    assert_string_equal(policy,
                        "{\"allow_degraded\":false,\"exclude\":[],\"floors\":{},\"max_age_ms\":"
                        "604800000,\"max_clock_skew_ms\":5000,\"require\":\"all\"}");
    AUTO(free_str) char *node = jsonx_canonical(site_node(site, "gpu1"));
    assert_string_equal(node,
                        "{\"groups\":[],\"hardware\":null,\"host\":null,\"playbooks\":[\"base\"],"
                        "\"port\":null,\"user\":null,\"vars\":{}}");
    assert_null(site_node(site, "gpu2"));
    json_auto_t *none = parse("cluster: a\nplaybooks: []\nnodes: [gpu1]\n");
    assert_int_equal(json_array_size(json_object_get(site_node(none, "gpu1"), "playbooks")), 0);
}

/* The same meaning in other words has the same digest; another meaning has another. */
static void test_digest(void **state)
{
    static const char *const same[] = {
        "cluster: a\nnodes: [gpu1, gpu2]\npolicy: { max_age: 7d }\n",
        "# comment\nnodes: [ { names: \"gpu[1-2]\" } ]\npolicy:\n  max_age: 168h\ncluster: \"a\"\n",
        "{\"cluster\":\"a\",\"nodes\":[\"gpu2\",\"gpu1\"]}",
    };
    json_auto_t *first = parse(same[0]);
    char want[HASH_HEX_BYTES], is[HASH_HEX_BYTES];
    site_digest(first, want);
    for (size_t i = 1; i < ARRAY_LEN(same); i++) {
        json_auto_t *site = parse(same[i]);
        site_digest(site, is);
        assert_string_equal(is, want);
        assert_non_null(json_object_get(site, "source"));
    }
    json_auto_t *other = parse("cluster: a\nnodes: [gpu1, gpu3]\n");
    site_digest(other, is);
    assert_string_not_equal(is, want);
}

/* JSON escapes that YAML readers refuse. */
static void test_json(void **state)
{
    json_auto_t *site =
        parse("{\"cluster\":\"a\",\"nodes\":[\"gpu1\"],\"vars\":{\"x\":\"\\ud83d\\ude00\"}}");
    assert_string_equal(jsonx_str_or(json_object_get(site, "vars"), "x", ""), "\xf0\x9f\x98\x80");
    struct err err = {0};
    json_t *none = NULL;
    static const char bad[] =
        "{\n \"cluster\": \"a\",\n \"nodes\": [\"gpu1\"],\n \"polcy\": {}\n}\n";
    assert_int_equal(site_parse(bad, strlen(bad), "site.json", &none, &err), -1);
    assert_string_equal(err.text, "site.json:4: polcy: unknown key; did you mean 'policy'?");
}

static void test_select(void **state)
{
    static const struct {
        const char *text, *nodes, *error;
    } rows[] = {
        {"all", "gpu[001-003],login", NULL},
        {"gpu[001-002]", "gpu[001-002]", NULL},
        {"login gpu003,login", "gpu003,login", NULL},
        {"@rack1", "gpu[001-002]", NULL},
        {"all,-gpu002", "gpu[001,003],login", NULL},
        {"all -@rack1", "gpu003,login", NULL},
        {"gpu009", NULL, "'gpu009' is not a node of this site; did you mean 'gpu001'?"},
        {"@rack2", NULL, "the site has no group 'rack2'"},
        {"gpu001,-gpu001", NULL, "'gpu001,-gpu001' selects no node"},
        {"", NULL, "'' selects no node"},
        {"gpu[1", NULL, "host list 'gpu[1': unclosed '[' at character 4"},
    };
    json_auto_t *site = parse(full);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO(hostlist_release) struct hostlist list = {0};
        struct err err = {0};
        int rc = site_select(site, rows[i].text, &list, &err);
        assert_int_equal(rc, rows[i].error ? -1 : 0);
        assert_string_equal(err.text, rows[i].error ? rows[i].error : "");
        if (rc != 0)
            continue;
        AUTO(free_str) char *text = hostlist_format((const char *const *)list.names, list.count);
        assert_string_equal(text, rows[i].nodes);
    }
}

static void test_natural_order(void **state)
{
    json_auto_t *site = parse("cluster: a\nnodes: [gpu10, gpu2, gpu1]\n");
    AUTO(hostlist_release) struct hostlist list = {0};
    site_node_names(site, &list);
    assert_string_equal(list.names[0], "gpu1");
    assert_string_equal(list.names[1], "gpu2");
    assert_string_equal(list.names[2], "gpu10");
}

static void test_from_hostlist(void **state)
{
    json_t *site = NULL;
    struct err err = {0};
    assert_int_equal(site_from_hostlist("gpu[1-2],login", &site, &err), 0);
    assert_int_equal(json_object_size(json_object_get(site, "nodes")), 3);
    json_decref(site);
    assert_int_equal(site_from_hostlist("gpu[1", &site, &err), -1);
    assert_string_equal(err.text, "host list 'gpu[1': unclosed '[' at character 4");
    assert_int_equal(err.kind, ERR_USAGE);
}

/* The file that init writes means what init was told. */
static void check_init(const struct site_init *init, const char *fabric, const char *floors,
                       const char *comment)
{
    struct err err = {0};
    AUTO(free_str) char *text = NULL;
    if (site_init_text(init, &text, &err) != 0)
        fail_msg("%s", err.text);
    json_auto_t *site = parse(text);
    assert_string_equal(jsonx_str_or(site, "cluster", ""),
                        init->cluster ? init->cluster : "cluster");
    const json_t *ssh = json_object_get(site, "ssh");
    assert_string_equal(jsonx_str_or(ssh, "user", "-"), init->user ? init->user : "-");
    assert_string_equal(jsonx_str_or(ssh, "become", ""), init->sudo ? "sudo" : "none");
    AUTO(free_str) char *is = jsonx_canonical(json_object_get(site, "fabric"));
    assert_string_equal(is, fabric);
    AUTO(free_str)
    char *limits = jsonx_canonical(json_object_get(json_object_get(site, "policy"), "floors"));
    assert_string_equal(limits, floors);
    AUTO(hostlist_release) struct hostlist names = {0};
    AUTO(hostlist_release) struct hostlist wanted = {0};
    site_node_names(site, &names);
    assert_int_equal(hostlist_parse(init->hosts, &wanted, &err), 0);
    assert_int_equal(names.count, wanted.count);
    for (size_t i = 0; i < wanted.count; i++)
        assert_non_null(site_node(site, wanted.names[i]));
    if (!strstr(text, comment))
        fail_msg("'%s' is not in\n%s", comment, text);
}

static json_t *facts(const char *name)
{
    AUTO(free_str) char *path = str_printf("%s/provision/facts/%s.json", FIXTURES, name);
    struct err err = {0};
    json_t *value = NULL;
    if (jsonx_load(path, 1 << 20, &value, &err) != 0)
        fail_msg("%s", err.text);
    return value;
}

static void test_init(void **state)
{
    json_auto_t *bare = facts("bare");
    json_auto_t *host = facts("host");
    json_auto_t *gpu = facts("gpu-open");
    json_auto_t *efa = facts("gpu-efa");
    check_init(&(struct site_init){.hosts = "gpu[001-128]"},
               "{\"interface\":null,\"kind\":\"ethernet\",\"mtu\":null,\"rate_bps\":null,"
               "\"routing\":null,\"subnet\":{},\"subnet_managers\":[]}",
               "{}", "# interface: eth0");
    check_init(
        &(struct site_init){.hosts = "n1 n2", .cluster = "lab", .facts = bare},
        "{\"interface\":\"eth0\",\"kind\":\"ethernet\",\"mtu\":1500,\"rate_bps\":10000000000,"
        "\"routing\":null,\"subnet\":{},\"subnet_managers\":[]}",
        "{\"allreduce_busbw\":{\"reason\":\"virtual interface\",\"unit\":\"B/s\",\"value\":"
        "20000000.0},\"tcp_bandwidth\":{\"reason\":\"virtual interface\",\"unit\":\"bit/s\","
        "\"value\":1000000000.0}}",
        "virtual interface");
    check_init(
        &(struct site_init){
            .hosts = "n[1-2]", .cluster = "12", .user = "true", .sudo = true, .facts = host},
        "{\"interface\":\"eth0\",\"kind\":\"ethernet\",\"mtu\":9000,\"rate_bps\":100000000000,"
        "\"routing\":null,\"subnet\":{},\"subnet_managers\":[]}",
        "{}", "# floors:");
    check_init(&(struct site_init){.hosts = "gpu[1-2]", .interface = "ib0", .facts = gpu},
               "{\"interface\":\"ib0\",\"kind\":\"infiniband\",\"mtu\":null,\"rate_bps\":null,"
               "\"routing\":null,\"subnet\":{},\"subnet_managers\":[]}",
               "{}", "8 x NVIDIA H200");
    check_init(&(struct site_init){.hosts = "gpu[1-2]", .facts = efa},
               "{\"interface\":\"eth0\",\"kind\":\"efa\",\"mtu\":null,\"rate_bps\":null,"
               "\"routing\":null,\"subnet\":{},\"subnet_managers\":[]}",
               "{}", "gpudirect]");
    struct err err = {0};
    char *text = NULL;
    assert_int_equal(site_init_text(&(struct site_init){.hosts = "n1,n1"}, &text, &err), -1);
    assert_string_equal(err.text, "host list 'n1,n1' names twice: n1");
}

/* Every row has what the reader and the documentation need, and its default is of its own form. */
static void test_schema(void **state)
{
    size_t count;
    const struct site_key *rows = site_schema(&count);
    for (size_t i = 0; i < count; i++) {
        assert_true(rows[i].type > SITE_UNSET && rows[i].type < SITE_TYPE__COUNT);
        assert_non_null(site_type_name(rows[i].type));
        assert_true(strlen(rows[i].doc) > 10);
        assert_true(rows[i].type != SITE_CHOICE || rows[i].choices);
        assert_true(rows[i].type != SITE_INT || rows[i].min < rows[i].max);
        assert_false(rows[i].required && rows[i].fallback);
        if (!rows[i].fallback)
            continue;
        json_auto_t *value = json_loads(rows[i].fallback, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        if (rows[i].type == SITE_INT)
            assert_in_range(json_integer_value(value), rows[i].min, rows[i].max);
    }
    const struct site_quantity *quantities = site_quantities(&count);
    for (size_t i = 0; i < count; i++) {
        struct err err = {0};
        double value = 0;
        if (site_quantity_parse(&quantities[i], quantities[i].form, &value, &err) != 0)
            fail_msg("%s: %s", quantities[i].name, err.text);
        assert_true(value > 0);
    }
}

static void test_keys_text(void **state)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    site_keys_print(out);
    site_keys_print_markdown(out);
    fclose(out);
    size_t count;
    const struct site_key *rows = site_schema(&count);
    for (size_t i = 0; i < count; i++)
        assert_non_null(strstr(text, rows[i].doc));
    assert_non_null(strstr(text, "| `mtu` | integer 256 to 65520 | none |"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_files),     cmocka_unit_test(test_full),
        cmocka_unit_test(test_defaults),      cmocka_unit_test(test_digest),
        cmocka_unit_test(test_json),          cmocka_unit_test(test_select),
        cmocka_unit_test(test_natural_order), cmocka_unit_test(test_from_hostlist),
        cmocka_unit_test(test_init),          cmocka_unit_test(test_schema),
        cmocka_unit_test(test_keys_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
