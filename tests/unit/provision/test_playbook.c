/* Playbooks: form, resolution for a node, and every shipped playbook against stored facts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "provision/expr.h"
#include "provision/playbook.h"
#include "provision/site.h"

#define HEAD "name: t\nsummary: s\nresources:\n"

static void test_bad_files(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"", "t.yml: must be a mapping (key: value), is nothing"},
        {"name: t\nresources: []\n", "t.yml:1: key 'summary' is missing"},
        {"name: u\nsummary: s\nresources: []\n", "t.yml:1: name: 'u' must be the file's name, 't'"},
        {"name: t\nsummary: s\n", "t.yml:1: key 'resources' is missing"},
        {"name: t\nsummary: s\nresource: []\n",
         "t.yml:3: resource: unknown key; did you mean 'resources'?"},
        {"name: t\nsummary: s\nvars: []\nresources: []\n",
         "t.yml:3: vars: must be a mapping (key: value), is a list"},
        {HEAD "  - files: /etc/x\n",
         "t.yml:4: resources[0]: 'files' is not a kind of resource; did you mean 'file'?"},
        {HEAD "  - reboot: now\n", "t.yml:4: resources[0]: 'reboot' is not a kind of resource; one "
                                   "of file, modprobe_options, "
                                   "module, sysctl, limits, env_file, link"},
        {HEAD "  - {}\n", "t.yml:4: resources[0]: '' is not a kind of resource; one of file, "
                          "modprobe_options, module, sysctl, limits, env_file, link"},
        {HEAD "  - file: /etc/x\n    module: y\n",
         "t.yml:4: resources[0]: is both a file and a module; one resource is one kind"},
        {HEAD "  - text\n",
         "t.yml:4: resources[0]: must be a mapping (key: value), is the text 'text'"},
        {HEAD "  - module: 5\n",
         "t.yml:4: resources[0].module: must be the id of the module (text), is 5"},
        {HEAD "  - module: x\n    wen: true\n",
         "t.yml:5: resources[0].wen: unknown parameter of module; did you mean 'when'?"},
        {HEAD "  - module: x\n    when: [a]\n",
         "t.yml:5: resources[0].when: must be a condition like facts.rdma, is a list"},
        {HEAD "  - module: x\n    when: facts.rdma =\n",
         "t.yml:5: resources[0].when: column 12: '=' is no operator; write '=='"},
        {HEAD "  - module: x\n    load: yes\n",
         "t.yml:5: resources[0].load: must be true or false, is the text 'yes'"},
        {HEAD "  - sysctl: a.b\n", "t.yml:4: resources[0]: parameter 'value' of sysctl is missing"},
        {HEAD "  - sysctl: a.b\n    value: true\n",
         "t.yml:5: resources[0].value: must be text or a number (write 1 or 0, or quote it), is "
         "true"},
        {HEAD "  - sysctl: a.b\n    value: \"1\\n2\"\n",
         "t.yml:5: resources[0].value: must be one line; two settings run together?"},
        {HEAD "  - file: /etc/x\n    mode: 644\n",
         "t.yml:5: resources[0].mode: must be a file mode like 0644, is 644"},
        {HEAD "  - file: /etc/x\n    mode: 0894\n",
         "t.yml:5: resources[0].mode: must be a file mode like 0644, is the text '0894'"},
        {HEAD "  - file: /etc/x\n    content: 5\n",
         "t.yml:5: resources[0].content: must be text (quote it), is 5"},
        {HEAD "  - file: /etc/x\n    state: gone\n",
         "t.yml:5: resources[0].state: must be one of present, absent, is the text 'gone'"},
        {HEAD "  - link: eth0\n    mtu: 89004.2\n",
         "t.yml:5: resources[0].mtu: must be an integer, is 89004.2; two settings run together?"},
        {HEAD "  - link: eth0\n    mtu: 70000\n",
         "t.yml:5: resources[0].mtu: 70000 is out of range (68 to 65520)"},
        {HEAD "  - limits: \"*\"\n    memlock: infinite\n",
         "t.yml:5: resources[0].memlock: must be unlimited or a size: 'infinite' is not a size: "
         "it does not begin with a number (meant is bytes, or a number and a unit like 64KiB or "
         "1MB)"},
        {HEAD "  - limits: \"*\"\n    memlock: [1]\n",
         "t.yml:5: resources[0].memlock: must be unlimited or a size like 64GiB, is a list"},
        {HEAD "  - env_file: /etc/x\n    set: { A: 1 }\n",
         "t.yml:4: resources[0]: parameter 'format' of env_file is missing"},
        {HEAD "  - modprobe_options: mlx4_core\n    options: { log_num_mgm_entry_size: -13.4 }\n",
         "t.yml:5: resources[0].options: log_num_mgm_entry_size: must be an integer or text, is "
         "-13.4; "
         "two settings run together?"},
        {HEAD "  - env_file: /etc/x\n    set: {}\n    format: nccl\n",
         "t.yml:5: resources[0].set: is empty"},
        {HEAD "  - env_file: /etc/x\n    set: { A: [1] }\n    format: nccl\n",
         "t.yml:5: resources[0].set: A: must be text or a number, is a list"},
        {HEAD "  - env_file: /etc/x\n    set: { A: \"${vars.x\" }\n    format: nccl\n",
         "t.yml:4: resources[0]: set: A: '${vars.x' has no closing '}' ('$${' stands for the text "
         "'${')"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        json_t *book = NULL;
        if (playbook_parse(rows[i].text, strlen(rows[i].text), "t.yml", &book, &err) == 0)
            fail_msg("accepted: %s", rows[i].text);
        assert_null(book);
        assert_string_equal(err.text, rows[i].error);
        assert_int_equal(err.kind, ERR_USAGE);
    }
}

/* A directory of playbooks that is gone at the end of the test. */
struct dir {
    char path[64];
};

static void make_dir(struct dir *d)
{
    snprintf(d->path, sizeof d->path, "/tmp/muster-playbook-XXXXXX");
    assert_non_null(mkdtemp(d->path));
}

static void drop_dir(struct dir *d)
{
    struct err err = {0};
    assert_int_equal(fs_remove_tree(d->path, &err), 0);
}

static void put(const struct dir *d, const char *name, const char *body)
{
    AUTO(free_str) char *path = str_printf("%s/%s.yml", d->path, name);
    AUTO(free_str) char *text = str_printf("name: %s\nsummary: s\n%s", name, body);
    struct err err = {0};
    assert_int_equal(fs_write_atomic(path, text, strlen(text), 0644, &err), 0);
}

static json_t *site_with(const struct dir *d, const char *rest)
{
    AUTO(free_str)
    char *text = str_printf("cluster: a\nplaybook_path: [\"%s\"]\n%s", d->path, rest);
    struct err err = {0};
    json_t *site = NULL;
    if (site_parse(text, strlen(text), "site.yaml", &site, &err) != 0)
        fail_msg("%s", err.text);
    return site;
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

/* What a node gets, or the error as a string. */
static char *resolve(const json_t *site, const char *node, const json_t *f, char **skips)
{
    struct err err = {0};
    AUTO(playbook_set_release) struct playbook_set *set = playbook_set_load(site, &err);
    json_auto_t *resources = NULL;
    json_auto_t *skipped = NULL;
    if (!set || playbook_resolve(set, site, node, f, &resources, &skipped, &err) != 0) {
        assert_int_equal(err.kind, ERR_USAGE);
        return str_dup(err.text);
    }
    if (skips)
        *skips = jsonx_canonical(skipped);
    return jsonx_canonical(resources);
}

static void test_precedence(void **state)
{
    struct dir d;
    make_dir(&d);
    put(&d, "p",
        "vars: { a: 1, b: 1, c: 1, e: 1 }\n"
        "resources:\n"
        "  - sysctl: net.x\n"
        "    value: ${vars.a} ${vars.b} ${vars.c} ${vars.e} ${node.name}\n");
    json_auto_t *site = site_with(&d, "vars: { b: 2, c: 2, e: 2 }\n"
                                      "playbooks: [p]\n"
                                      "nodes:\n"
                                      "  - { names: n1, vars: { e: 4 } }\n"
                                      "  - n2\n"
                                      "groups: { g: { names: n1, vars: { c: 3, e: 3 } } }\n");
    json_auto_t *none = json_object();
    AUTO(free_str) char *one = resolve(site, "n1", none, NULL);
    assert_string_equal(one,
                        "[{\"id\":\"net.x\",\"kind\":\"sysctl\",\"params\":{\"value\":\"1 2 3 4 "
                        "n1\"},\"playbook\":\"p\"}]");
    AUTO(free_str) char *two = resolve(site, "n2", none, NULL);
    assert_string_equal(two,
                        "[{\"id\":\"net.x\",\"kind\":\"sysctl\",\"params\":{\"value\":\"1 2 2 2 "
                        "n2\"},\"playbook\":\"p\"}]");
    AUTO(free_str) char *three = resolve(site, "n3", none, NULL);
    assert_string_equal(three, "'n3' is not a node of this site");
    drop_dir(&d);
}

static void test_conflicts(void **state)
{
    struct dir d;
    make_dir(&d);
    put(&d, "p1",
        "resources:\n  - sysctl: net.x\n    value: 1\n"
        "  - env_file: /etc/e\n    format: profile\n    set: { A: 1, B: 2 }\n");
    put(&d, "same", "resources:\n  - sysctl: net.x\n    value: \"1\"\n");
    put(&d, "other", "resources:\n  - sysctl: net.x\n    value: 2\n");
    put(&d, "more",
        "resources:\n  - env_file: /etc/e\n    format: profile\n    set: { B: 2, C: 3 }\n");
    put(&d, "clash", "resources:\n  - env_file: /etc/e\n    format: profile\n    set: { B: 9 }\n");
    put(&d, "form", "resources:\n  - env_file: /etc/e\n    format: nccl\n    set: { C: 3 }\n");
    static const struct {
        const char *playbooks, *result;
        bool error;
    } rows[] = {
        {"p1, same, more",
         "[{\"id\":\"net.x\",\"kind\":\"sysctl\",\"params\":{\"value\":\"1\"},\"playbook\":\"p1\"},"
         "{\"id\":\"/etc/"
         "e\",\"kind\":\"env_file\",\"params\":{\"format\":\"profile\",\"set\":{\"A\":"
         "\"1\",\"B\":\"2\",\"C\":\"3\"}},\"playbook\":\"p1\"}]",
         false},
        {"p1, other",
         "other.yml:4: sysctl net.x on n1: playbooks 'p1' and 'other' want it differently", true},
        {"p1, clash",
         "clash.yml:4: env_file /etc/e on n1: playbooks 'p1' and 'clash' want B differently", true},
        {"p1, form",
         "form.yml:4: env_file /etc/e on n1: playbooks 'p1' and 'form' want it differently", true},
    };
    json_auto_t *none = json_object();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO(free_str) char *rest = str_printf("playbooks: [%s]\nnodes: [n1]\n", rows[i].playbooks);
        json_auto_t *site = site_with(&d, rest);
        AUTO(free_str) char *is = resolve(site, "n1", none, NULL);
        const char *from = is;
        if (rows[i].error) { /* the directory's name changes from run to run */
            assert_true(str_has_prefix(is, d.path));
            from += strlen(d.path) + 1;
        }
        assert_string_equal(from, rows[i].result);
    }
    drop_dir(&d);
}

static void test_when_and_errors(void **state)
{
    struct dir d;
    make_dir(&d);
    put(&d, "skips",
        "resources:\n"
        "  - module: a\n    when: facts.rdma\n"
        "  - module: \"${vars.nope}\"\n    when: false\n"
        "  - limits:\n    when: not facts.rdma\n"
        "  - link: eth0\n    mtu: ${vars.mtu}\n    when: defined(vars.mtu)\n");
    put(&d, "order", "resources:\n  - module: a\n    when: facts.x < 5\n");
    put(&d, "missing", "resources:\n  - file: /etc/x\n    content: \"a ${facts.x}\"\n");
    json_auto_t *none = json_object();
    json_auto_t *skips = site_with(&d, "playbooks: [skips]\nnodes: [n1]\nvars: { mtu: 9000 }\n");
    AUTO(free_str) char *skipped = NULL;
    AUTO(free_str) char *got = resolve(skips, "n1", none, &skipped);
    assert_string_equal(
        got,
        "[{\"id\":\"*\",\"kind\":\"limits\",\"params\":{},\"playbook\":\"skips\"},"
        "{\"id\":\"eth0\",\"kind\":\"link\",\"params\":{\"mtu\":9000},\"playbook\":\"skips\"}]");
    assert_string_equal(
        skipped,
        "[{\"id\":\"a\",\"kind\":\"module\",\"playbook\":\"skips\",\"reason\":\"when: facts.rdma "
        "is "
        "false "
        "here\"},{\"id\":\"${vars.nope}\",\"kind\":\"module\",\"playbook\":\"skips\",\"reason\":"
        "\"when: false is false here\"}]");
    static const struct {
        const char *playbook, *vars, *error;
    } rows[] = {
        {"order", "{}",
         "order.yml:4: module a on n1: when: column 9: cannot order null and a number (a missing "
         "path "
         "is null)"},
        {"missing", "{}",
         "missing.yml:4: file /etc/x on n1: content: ${facts.x}: is missing or null"},
        {"skips", "{ mtu: many }",
         "skips.yml:10: link eth0 on n1: mtu: must be an integer, is the text 'many'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO(free_str)
        char *rest =
            str_printf("playbooks: [%s]\nnodes: [n1]\nvars: %s\n", rows[i].playbook, rows[i].vars);
        json_auto_t *site = site_with(&d, rest);
        AUTO(free_str) char *is = resolve(site, "n1", none, NULL);
        assert_true(str_has_prefix(is, d.path));
        assert_string_equal(is + strlen(d.path) + 1, rows[i].error);
    }
    drop_dir(&d);
}

static void test_search(void **state)
{
    struct dir d;
    make_dir(&d);
    put(&d, "base", "resources:\n  - module: mine\n");
    json_auto_t *site = site_with(&d, "nodes: [n1]\n");
    json_auto_t *none = json_object();
    AUTO(free_str) char *mine = resolve(site, "n1", none, NULL);
    assert_string_equal(mine, "[{\"id\":\"mine\",\"kind\":\"module\",\"params\":{},\"playbook\":"
                              "\"base\"}]");
    json_auto_t *wrong = site_with(&d, "nodes: [n1]\nplaybooks: [ncll]\n");
    AUTO(free_str) char *error = resolve(wrong, "n1", none, NULL);
    assert_true(str_has_prefix(error, "site.yaml: no playbook 'ncll' (ncll.yml) in "));
    assert_true(str_has_suffix(error, "; did you mean 'nccl'?"));
    put(&d, "broken", "resources: 5\n");
    json_auto_t *list = NULL;
    struct err err = {0};
    assert_int_equal(playbook_list(site, &list, &err), 0);
    size_t i, seen = 0;
    json_t *row;
    json_array_foreach(list, i, row)
    {
        const char *name = jsonx_str_or(row, "name", "");
        if (strcmp(name, "base") == 0) {
            assert_true(str_has_prefix(jsonx_str_or(row, "path", ""), d.path));
            seen++;
        }
        if (strcmp(name, "broken") == 0)
            assert_true(
                str_has_suffix(jsonx_str_or(row, "error", ""), "resources: must be a list, is 5"));
    }
    assert_int_equal(seen, 1); /* the shipped one is hidden */
    drop_dir(&d);
}

/* Shipped playbooks on nodes of several sorts: what each comes to. */
static void test_shipped(void **state)
{
    static const struct {
        const char *facts, *fabric, *ids;
    } rows[] = {
        {"bare", "{ interface: eth0 }",
         "limits:* sysctl:net.core.somaxconn sysctl:net.ipv4.tcp_rmem sysctl:net.ipv4.tcp_wmem "
         "env_file:/etc/nccl.conf{NCCL_SOCKET_IFNAME==eth0}"},
        {"bare", "{ interface: eth7 }",
         "limits:* sysctl:net.core.somaxconn sysctl:net.ipv4.tcp_rmem sysctl:net.ipv4.tcp_wmem"},
        {"bare", "{}",
         "limits:* sysctl:net.core.somaxconn sysctl:net.ipv4.tcp_rmem sysctl:net.ipv4.tcp_wmem"},
        {"host", "{}",
         "limits:* sysctl:net.core.somaxconn sysctl:net.ipv4.tcp_rmem sysctl:net.ipv4.tcp_wmem "
         "sysctl:net.core.rmem_max sysctl:net.core.wmem_max"},
        {"gpu-open", "{ kind: infiniband, interface: eth0 }",
         "limits:* sysctl:net.core.somaxconn sysctl:net.ipv4.tcp_rmem sysctl:net.ipv4.tcp_wmem "
         "sysctl:net.core.rmem_max sysctl:net.core.wmem_max "
         "env_file:/etc/nccl.conf{NCCL_SOCKET_IFNAME==eth0,NCCL_IB_HCA==mlx5_0,mlx5_1} "
         "module:ib_uverbs"},
        {"gpu-ofed", "{ kind: infiniband }",
         "limits:* sysctl:net.core.somaxconn sysctl:net.ipv4.tcp_rmem sysctl:net.ipv4.tcp_wmem "
         "sysctl:net.core.rmem_max sysctl:net.core.wmem_max "
         "env_file:/etc/nccl.conf{NCCL_IB_HCA==mlx5_0,mlx5_1} module:ib_uverbs "
         "module:nvidia_peermem"},
        {"gpu-closed", "{ kind: infiniband }",
         "limits:* sysctl:net.core.somaxconn sysctl:net.ipv4.tcp_rmem sysctl:net.ipv4.tcp_wmem "
         "sysctl:net.core.rmem_max sysctl:net.core.wmem_max "
         "env_file:/etc/nccl.conf{NCCL_IB_HCA==mlx5_0,mlx5_1} module:ib_uverbs"},
        {"gpu-efa", "{ kind: efa, interface: eth0 }",
         "limits:* sysctl:net.core.somaxconn sysctl:net.ipv4.tcp_rmem sysctl:net.ipv4.tcp_wmem "
         "sysctl:net.core.rmem_max sysctl:net.core.wmem_max "
         "env_file:/etc/nccl.conf{NCCL_SOCKET_IFNAME==eth0} module:ib_uverbs"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO(free_str)
        char *text =
            str_printf("cluster: a\nnodes: [n1]\nplaybooks: [base, nccl, gpudirect]\nfabric: %s\n",
                       rows[i].fabric);
        struct err err = {0};
        json_auto_t *site = NULL;
        json_auto_t *resources = NULL;
        json_auto_t *node = facts(rows[i].facts);
        AUTO(free_str) char *source = str_printf("%s/site.yaml", SOURCE_DIR);
        if (site_parse(text, strlen(text), source, &site, &err) != 0)
            fail_msg("%s", err.text);
        AUTO(playbook_set_release) struct playbook_set *set = playbook_set_load(site, &err);
        if (!set || playbook_resolve(set, site, "n1", node, &resources, NULL, &err) != 0)
            fail_msg("%s: %s", rows[i].facts, err.text);
        AUTO(strbuf_release) struct strbuf b = {0};
        size_t k;
        json_t *r;
        json_array_foreach(resources, k, r)
        {
            strbuf_printf(&b, "%s%s:%s", k ? " " : "", jsonx_str_or(r, "kind", ""),
                          jsonx_str_or(r, "id", ""));
            const json_t *vars = json_object_get(json_object_get(r, "params"), "set");
            const char *name, *separator = "{";
            json_t *value;
            json_object_foreach((json_t *)vars, name, value)
            {
                strbuf_printf(&b, "%s%s=%s", separator, name, json_string_value(value));
                separator = ",";
            }
            strbuf_puts(&b, vars ? "}" : "");
        }
        assert_string_equal(b.data, rows[i].ids);
    }
}

/* Golden values of NCCL are never written: they need this cluster's own measurement. */
static void test_no_golden_values(void **state)
{
    struct err err = {0};
    json_auto_t *book = NULL;
    if (playbook_load(SOURCE_DIR "/playbooks/nccl.yml", &book, &err) != 0)
        fail_msg("%s", err.text);
    AUTO(free_str) char *text = jsonx_canonical(book);
    static const char *const golden[] = {"NCCL_ALGO", "NCCL_PROTO",         "NTHREADS",
                                         "NSOCKS",    "NCCL_NET_GDR_LEVEL", "NCCL_BUFFSIZE"};
    for (size_t i = 0; i < ARRAY_LEN(golden); i++)
        assert_null(strstr(text, golden[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_files),        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_conflicts),        cmocka_unit_test(test_when_and_errors),
        cmocka_unit_test(test_search),           cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_no_golden_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
