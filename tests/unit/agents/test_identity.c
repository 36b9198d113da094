/* Identity: the same machine gives the same bytes, another part gives others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agents/facts/identity.h"
#include "common/jsonx.h"
#include "common/util.h"

static void expect_identity(const char *dir, const char *text)
{
    struct fs_root root;
    struct err err = {0};
    json_t *identity = NULL;
    assert_int_equal(fs_root_open(&root, dir, &err), 0);
    assert_int_equal(identity_read(&root, &identity, &err), 0);
    AUTO(free_str) char *got = jsonx_canonical(identity);
    assert_string_equal(got, text);
    json_decref(identity);
}

static void reads_a_gpu_node(void **state)
{
    expect_identity(FIXTURES "/nodes/dgx",
                    "{\"driver\":\"570.124.06\",\"firmware\":{\"mlx5_0\":\"28.39.1002\",\"mlx5_1\":"
                    "\"28.39.1002\"},\"gpus\":[\"GPU-1b7d2e90-6c43-45f1-8e2d-7a9b0c1d2e3f\","
                    "\"GPU-9a3c1f5e-0d52-4a77-b1c8-2f6e3d4c5b6a\"],\"machine_id\":"
                    "\"b2c7a1d04e5f4b0c9a8d7e6f50413223\",\"nics\":[\"a088:c203:0045:e1d2\","
                    "\"a088:c203:0045:f0aa\",\"a0:88:c2:00:00:01\"],\"ssh_host_keys\":["
                    "\"SHA256:+7qeKZp7F8y+YXpVk9fsqwSIzb3Tox2OZ2cSZINlPuE\","
                    "\"SHA256:HHWsfN9f8xXt2yqJFmfy18u5BWIwUCJIz/6JreSmAZs\"]}");
}

static void reads_a_virtual_machine(void **state)
{
    expect_identity(FIXTURES "/nodes/vm",
                    "{\"driver\":null,\"firmware\":{},\"gpus\":[],\"machine_id\":"
                    "\"5d0c3a9be17f4c12a6b8d4e2f0917365\",\"nics\":[\"52:54:00:12:34:56\"],"
                    "\"ssh_host_keys\":[]}");
}

static void reads_this_machine(void **state)
{
    struct fs_root root;
    struct err err = {0};
    json_t *one = NULL, *two = NULL;
    assert_int_equal(fs_root_open(&root, "/", &err), 0);
    if (!fs_exists("/etc/machine-id")) {
        print_message("skipped: this machine has no /etc/machine-id\n");
        skip();
    }
    assert_int_equal(identity_read(&root, &one, &err), 0);
    assert_int_equal(identity_read(&root, &two, &err), 0);
    assert_true(json_equal(one, two));
    json_decref(one);
    json_decref(two);
}

/* --- trees made here ------------------------------------------------------------------------ */

static char dir[64];

static int set_up(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/muster-test-identity-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct err err = {0};
    return fs_remove_tree(dir, &err);
}

static void put(const char *path, const char *text)
{
    struct err err = {0};
    AUTO(free_str) char *full = str_printf("%s%s", dir, path);
    AUTO(free_str) char *parent = str_dup(full);
    *strrchr(parent, '/') = '\0';
    assert_int_equal(fs_mkdirs(parent, 0755, &err), 0);
    assert_int_equal(fs_write_atomic(full, text, strlen(text), 0644, &err), 0);
}

static void put_link(const char *path, const char *target)
{
    AUTO(free_str) char *full = str_printf("%s%s", dir, path);
    AUTO(free_str) char *parent = str_dup(full);
    struct err err = {0};
    *strrchr(parent, '/') = '\0';
    assert_int_equal(fs_mkdirs(parent, 0755, &err), 0);
    assert_int_equal(symlink(target, full), 0);
}

static void put_interface(const char *name, const char *device, const char *assign, const char *mac)
{
    AUTO(free_str) char *base = str_printf("/sys/devices/%s/net/%s", device, name);
    AUTO(free_str) char *assign_path = str_printf("%s/addr_assign_type", base);
    AUTO(free_str) char *mac_path = str_printf("%s/address", base);
    AUTO(free_str) char *class_path = str_printf("/sys/class/net/%s", name);
    AUTO(free_str) char *target = str_printf("../../devices/%s/net/%s", device, name);
    put(assign_path, assign);
    put(mac_path, mac);
    put_link(class_path, target);
    if (!str_has_prefix(device, "virtual")) {
        AUTO(free_str) char *device_link = str_printf("%s/device", base);
        put_link(device_link, "../..");
    }
}

static void takes_only_permanent_addresses(void **state)
{
    put("/etc/machine-id", "id\n");
    put_interface("eno1", "pci0000:00/0000:00:01.0", "0\n", "aa:00:00:00:00:01\n");
    put_interface("eno2", "pci0000:00/0000:00:02.0", "3\n", "aa:00:00:00:00:02\n");
    put_interface("eno3", "pci0000:00/0000:00:03.0", "0\n", "aa:00:00:00:00:ff\n");
    put("/sys/devices/pci0000:00/0000:00:03.0/net/eno3/bonding_slave/perm_hwaddr",
        "aa:00:00:00:00:03\n");
    put_interface("veth0", "virtual", "0\n", "aa:00:00:00:00:04\n");
    put_interface("vf0", "pci0000:00/0000:00:05.0", "0\n", "aa:00:00:00:00:05\n");
    put_link("/sys/devices/pci0000:00/0000:00:05.0/physfn", "../0000:00:01.0");
    expect_identity(dir, "{\"driver\":null,\"firmware\":{},\"gpus\":[],\"machine_id\":\"id\","
                         "\"nics\":[\"aa:00:00:00:00:01\",\"aa:00:00:00:00:03\"],"
                         "\"ssh_host_keys\":[]}");
}

static void ignores_soft_rdma_devices(void **state)
{
    put("/etc/machine-id", "id\n");
    put("/sys/devices/virtual/infiniband/rxe0/node_guid", "0000:0000:0000:0001\n");
    put_link("/sys/class/infiniband/rxe0", "../../devices/virtual/infiniband/rxe0");
    expect_identity(dir, "{\"driver\":null,\"firmware\":{},\"gpus\":[],\"machine_id\":\"id\","
                         "\"nics\":[],\"ssh_host_keys\":[]}");
}

static void survives_bad_files(void **state)
{
    put("/etc/machine-id", "id\n");
    put("/sys/module/nvidia/version", "\xff\xfe\n");
    put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "GPU UUID: \t GPU-????????\n");
    put("/proc/driver/nvidia/gpus/0000:02:00.0/information", "GPU UUID:");
    put("/proc/driver/nvidia/gpus/0000:03:00.0/other", "");
    put("/proc/driver/nvidia/gpus/0000:04:00.0/information", "GPU UUID: GPU-1\xff\n");
    put("/etc/ssh/ssh_host_bad_key.pub", "ssh-ed25519 not*base64 x\n");
    put("/etc/ssh/ssh_host_short_key.pub", "ssh-ed25519\n");
    put("/etc/ssh/ssh_host_empty_key.pub", "");
    put("/etc/ssh/operator.pub", "ssh-ed25519 QUJD\n");
    expect_identity(dir, "{\"driver\":null,\"firmware\":{},\"gpus\":[],\"machine_id\":\"id\","
                         "\"nics\":[],\"ssh_host_keys\":[]}");
}

static void refuses_a_machine_without_id(void **state)
{
    struct fs_root root;
    struct err err = {0};
    json_t *identity = NULL;
    assert_int_equal(fs_root_open(&root, dir, &err), 0);
    assert_int_equal(identity_read(&root, &identity, &err), -1);
    assert_int_equal(err.kind, ERR_ENV);
    AUTO(free_str)
    char *no_tree = str_printf("%s has neither /proc nor /sys: not a node's tree", root.path);
    assert_string_equal(err.text, no_tree);
    for (int i = 0; i < 2; i++) {
        put("/proc/version", "");
        if (i == 1)
            put("/etc/machine-id", "\n");
        err_clear(&err);
        assert_int_equal(identity_read(&root, &identity, &err), -1);
        AUTO(free_str)
        char *no_id =
            str_printf("%s/etc/machine-id cannot be read or is empty: without it this machine "
                       "cannot be told from another; run systemd-machine-id-setup",
                       root.path);
        assert_string_equal(err.text, no_id);
    }
    assert_null(identity);
}

#define IN_TREE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_gpu_node),    cmocka_unit_test(reads_a_virtual_machine),
        cmocka_unit_test(reads_this_machine),  IN_TREE(takes_only_permanent_addresses),
        IN_TREE(ignores_soft_rdma_devices),    IN_TREE(survives_bad_files),
        IN_TREE(refuses_a_machine_without_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
