/* Lists of nodes in other tools' forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/inventory.h"
#include "provision/site.h"

static void test_recognise(void **state)
{
    static const struct {
        const char *text;
        enum inventory_kind kind;
    } rows[] = {
        {"cluster: a\n", INVENTORY_NONE},
        {"# c\n\n  cluster: a\n", INVENTORY_NONE},
        {"---\n", INVENTORY_NONE},
        {"- gpu1\n", INVENTORY_NONE},
        {"nodes:\n", INVENTORY_NONE},
        {"{cluster: a}", INVENTORY_NONE},
        {"{\"cluster\": \"a\", \"nodes\": []}", INVENTORY_NONE},
        {"{\"_meta\": {}}", INVENTORY_ANSIBLE},
        {" {\"gpu\": {\"hosts\": [\"n1\"]}}", INVENTORY_ANSIBLE},
        {"{\"all\": {\"children\": [\"gpu\"]}}", INVENTORY_ANSIBLE},
        {"gpu[001-004,7],login\n", INVENTORY_HOSTS},
        {"# hosts: all\ngpu1 # a: b\n", INVENTORY_HOSTS},
        {"ops@gpu1:22\n", INVENTORY_HOSTS},
        {"\n", INVENTORY_HOSTS},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (inventory_recognise(rows[i].text, strlen(rows[i].text)) != rows[i].kind)
            fail_msg("'%s' was taken for another form", rows[i].text);
}

static json_t *nodes_of(const char *text, const char **become)
{
    struct err err = {0};
    json_t *nodes = NULL;
    size_t len = strlen(text);
    if (inventory_parse(inventory_recognise(text, len), text, len, "inv", &nodes, become, &err) !=
        0)
        fail_msg("%s", err.text);
    return nodes;
}

static void test_hosts(void **state)
{
    json_auto_t *nodes = nodes_of("# rack 1\n"
                                  "gpu[001-002]  # two\r\n"
                                  "\n"
                                  "ops@login:2222, root@store[1-2]\n"
                                  "10.0.0.7\n",
                                  NULL);
    assert_int_equal(json_object_size(nodes), 6);
    AUTO(free_str) char *gpu = jsonx_canonical(json_object_get(nodes, "gpu002"));
    assert_string_equal(
        gpu, "{\"groups\":[],\"hardware\":null,\"host\":null,\"playbooks\":null,\"port\":"
             "null,\"user\":null,\"vars\":{}}");
    const json_t *login = json_object_get(nodes, "login");
    assert_string_equal(jsonx_str_or(login, "user", ""), "ops");
    assert_int_equal(jsonx_int_or(login, "port", 0), 2222);
    const json_t *store = json_object_get(nodes, "store2");
    assert_string_equal(jsonx_str_or(store, "user", ""), "root");
    assert_int_equal(jsonx_int_or(store, "port", 0), 0);
    assert_non_null(json_object_get(nodes, "10.0.0.7"));
}

static const char inventory[] =
    "{\"_meta\":{\"hostvars\":{"
    "\"gpu1\":{\"ansible_host\":\"10.0.0.1\",\"ansible_user\":\"ops\",\"ansible_port\":2222,"
    "\"ansible_become\":true,\"rack\":7,\"ansible_python_interpreter\":\"/x\"},"
    "\"gpu2\":{\"ansible_host\":\"gpu2\",\"ansible_become\":\"yes\",\"ansible_port\":\"22\"}}},"
    "\"all\":{\"children\":[\"ungrouped\",\"gpus\"],\"vars\":{\"where\":\"hall\",\"level\":\"all\"}"
    "},"
    "\"gpus\":{\"children\":[\"rack1\"],\"vars\":{\"level\":\"gpus\",\"rack\":1}},"
    "\"rack1\":{\"hosts\":[\"gpu1\",\"gpu2\"],\"vars\":{\"level\":\"rack1\"}},"
    "\"ungrouped\":{\"hosts\":[]}}";

static void test_ansible(void **state)
{
    const char *become = NULL;
    json_auto_t *nodes = nodes_of(inventory, &become);
    assert_string_equal(become, "sudo");
    assert_int_equal(json_object_size(nodes), 2);
    AUTO(free_str) char *one = jsonx_canonical(json_object_get(nodes, "gpu1"));
    assert_string_equal(one,
                        "{\"groups\":[\"rack1\",\"gpus\"],\"hardware\":null,\"host\":\"10.0.0.1\","
                        "\"playbooks\":null,\"port\":2222,\"user\":\"ops\",\"vars\":{"
                        "\"ansible_python_interpreter\":\"/x\",\"level\":\"rack1\",\"rack\":7,"
                        "\"where\":\"hall\"}}");
    AUTO(free_str) char *two = jsonx_canonical(json_object_get(nodes, "gpu2"));
    assert_string_equal(
        two, "{\"groups\":[\"rack1\",\"gpus\"],\"hardware\":null,\"host\":null,"
             "\"playbooks\":null,\"port\":22,\"user\":null,\"vars\":{\"level\":\"rack1\","
             "\"rack\":1,\"where\":\"hall\"}}");
}

static void test_become_of_some(void **state)
{
    const char *become = NULL;
    json_auto_t *nodes =
        nodes_of("{\"_meta\":{\"hostvars\":{\"a\":{\"ansible_become\":true},\"b\":{}}}}", &become);
    assert_int_equal(json_object_size(nodes), 2);
    assert_string_equal(become, "none");
}

static json_t *site_of(const char *text)
{
    struct err err = {0};
    json_t *site = NULL;
    if (site_parse(text, strlen(text), "inv", &site, &err) != 0)
        fail_msg("%s", err.text);
    return site;
}

/* As a site, a list has every default. */
static void test_as_site(void **state)
{
    json_auto_t *plain = site_of("gpu[001-002]\n");
    json_auto_t *yaml = site_of("cluster: cluster\nnodes: \"gpu[001-002]\"\n");
    char a[HASH_HEX_BYTES], b[HASH_HEX_BYTES];
    site_digest(plain, a);
    site_digest(yaml, b);
    assert_string_equal(a, b);
    json_auto_t *ansible = site_of(inventory);
    assert_string_equal(jsonx_str_or(json_object_get(ansible, "ssh"), "become", ""), "sudo");
    AUTO(hostlist_release) struct hostlist list = {0};
    struct err err = {0};
    assert_int_equal(site_select(ansible, "@rack1", &list, &err), 0);
    assert_int_equal(list.count, 2);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"{\"g\":{\"hosts\":[5]}}", "inv: g: hosts must be a list of names"},
        {"{\"_meta\":{},\"g\":{\"hosts\":{}}}", "inv: g: hosts must be a list of names"},
        {"{\"_meta\":{},\"g\":5}", "inv: g: a group must be a mapping or a list of hosts"},
        {"{\"_meta\":{\"hostvars\":[]}}", "inv: _meta.hostvars: must be a mapping of hosts"},
        {"{\"_meta\":{\"hostvars\":{\"a\":5}}}", "inv: a: hostvars must be a mapping"},
        {"{\"_meta\":{\"hostvars\":{\"a\":{\"ansible_port\":70000}}}}",
         "inv: a: ansible_port: '70000' is out of range (1 to 65535)"},
        {"{\"_meta\":{\"hostvars\":{\"a\":{\"ansible_host\":\"\"}}}}",
         "inv: a: ansible_host or ansible_user is empty"},
        {"{\"_meta\":{\"hostvars\":{\"-o\":{}}}}",
         "inv: host: host list '-o': host name that begins with '-' at character 1"},
        {"{\"g\":{\"hosts\":[\"n1\"],\"vars\":[]}}", "inv: g: vars must be a mapping"},
        {"gpu1\n@gpu2\n", "inv:2: the part before '@' is not a user name"},
        {"ops@:22\n", "inv:1: a host name is missing"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        json_t *nodes = NULL;
        const char *text = rows[i].text;
        size_t len = strlen(text);
        assert_int_equal(
            inventory_parse(inventory_recognise(text, len), text, len, "inv", &nodes, NULL, &err),
            -1);
        assert_null(nodes);
        assert_string_equal(err.text, rows[i].error);
        assert_int_equal(err.kind, ERR_USAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recognise), cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_ansible),   cmocka_unit_test(test_become_of_some),
        cmocka_unit_test(test_as_site),   cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
