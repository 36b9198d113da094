/* Facts of the two node trees, member by member, and of trees that are broken. */
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

#include "agents/facts/facts.h"
#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

static json_t *read_tree(const char *dir)
{
    struct fs_root root;
    struct err err = {0};
    json_t *facts = NULL;
    assert_int_equal(fs_root_open(&root, dir, &err), 0);
    if (facts_read(&root, &facts, &err) != 0)
        fail_msg("%s", err.text);
    return facts;
}

/* Follows "a/b/2/c" through objects and arrays. */
static const json_t *at(const json_t *value, const char *path)
{
    AUTO(free_str) char *copy = str_dup(path);
    char *save = NULL;
    for (char *key = strtok_r(copy, "/", &save); key; key = strtok_r(NULL, "/", &save)) {
        if (json_is_array(value))
            value = json_array_get(value, strtoul(key, NULL, 10));
        else
            value = json_object_get(value, key);
        if (!value)
            fail_msg("no '%s' in '%s'", key, path);
    }
    return value;
}

struct expectation {
    const char *path, *json;
};

static void expect(const json_t *facts, const struct expectation rows[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        AUTO(free_str) char *got = jsonx_canonical(at(facts, rows[i].path));
        if (strcmp(got, rows[i].json) != 0)
            fail_msg("%s is %s, should be %s", rows[i].path, got, rows[i].json);
    }
}

/* --- the GPU node --------------------------------------------------------------------------- */

static const struct expectation dgx[] = {
    {"v", "1"},
    {"hostname", "\"gpu001\""},
    {"machine_id", "\"b2c7a1d04e5f4b0c9a8d7e6f50413223\""},
    {"boot_id", "\"6f1d1a52-3c6e-4d8f-9f35-0a4c1f0f7b11\""},
    {"arch", "\"x86_64\""},
    {"kernel",
     "{\"cmdline\":\"BOOT_IMAGE=/vmlinuz-6.8.0-60-generic root=UUID=0 ro intel_iommu=on\","
     "\"release\":\"6.8.0-60-generic\"}"},
    {"distro", "{\"id\":\"ubuntu\",\"pretty\":\"Ubuntu 22.04.5 LTS\",\"version_id\":\"22.04\"}"},
    {"virtual", "\"none\""},
    {"hypervisor", "null"},
    {"init", "\"systemd\""},
    {"product", "{\"name\":\"DGXH100\",\"serial\":\"1660224000123\",\"vendor\":\"NVIDIA\"}"},
    {"cpu",
     "{\"cores\":4,\"governor\":\"performance\",\"model\":\"Intel(R) Xeon(R) Platinum 8480C\","
     "\"numa\":[{\"cpus\":\"0-1,4-5\",\"memory_bytes\":1082127024128,\"node\":0},"
     "{\"cpus\":\"2-3,6-7\",\"memory_bytes\":1082127024128,\"node\":1}],\"sockets\":2,"
     "\"threads\":8}"},
    {"memory",
     "{\"available_bytes\":2143188680704,\"hugepages\":[{\"free\":0,\"size_bytes\":1073741824,"
     "\"total\":0},{\"free\":500,\"size_bytes\":2097152,\"total\":512}],\"shm\":null,"
     "\"total_bytes\":2164254048256}"},
    {"limits", "{\"memlock_hard_bytes\":-1,\"memlock_soft_bytes\":-1,\"nofile_hard\":1048576,"
               "\"nofile_soft\":1024}"},
    {"iommu", "{\"enabled\":true,\"groups\":4,\"passthrough\":false}"},
    {"net/0", "{\"addresses\":[],\"driver\":\"ixgbe\",\"mac\":\"a0:88:c2:00:00:01\",\"mtu\":1500,"
              "\"name\":\"eno1\",\"operstate\":\"up\",\"pci\":\"0000:05:00.0\",\"speed_bps\":"
              "10000000000,\"virtual\":false}"},
    {"net/1/speed_bps", "null"},
    {"net/2/name", "\"ib0\""},
    {"net/2/pci", "\"0000:18:00.0\""},
    {"net/3", "{\"addresses\":[],\"driver\":null,\"mac\":\"00:00:00:00:00:00\",\"mtu\":65536,"
              "\"name\":\"lo\",\"operstate\":\"unknown\",\"pci\":null,\"speed_bps\":null,"
              "\"virtual\":true}"},
    {"rdma/0",
     "{\"driver\":\"mlx5_core\",\"firmware\":\"28.39.1002\",\"name\":\"mlx5_0\",\"node_guid\":"
     "\"a088:c203:0045:e1d2\",\"pci\":\"0000:18:00.0\",\"ports\":[{\"gids\":[{\"gid\":"
     "\"fe80:0000:0000:0000:a088:c203:0045:e1d2\",\"index\":0,\"type\":\"IB/RoCE v1\"}],\"lid\":42,"
     "\"link_layer\":\"InfiniBand\",\"net\":\"ib0\",\"phys_state\":\"LinkUp\",\"port\":1,\"rate\":"
     "\"400 Gb/sec (4X NDR)\",\"rate_bps\":400000000000,\"sm_lid\":1,\"state\":\"ACTIVE\"}]}"},
    {"rdma/1/ports/0/state", "\"DOWN\""},
    {"rdma/1/ports/0/net", "\"eth1\""},
    {"rdma/1/ports/0/gids/1", "{\"gid\":\"fe80:0000:0000:0000:a288:c2ff:fe45:f0aa\",\"index\":1,"
                              "\"type\":\"RoCE v2\"}"},
    {"gpus", "{\"available\":false,\"devices\":[],\"driver\":\"570.124.06\",\"open_modules\":true,"
             "\"reason\":\"a captured tree: NVML answers on the running node only\"}"},
    {"modules/nvidia",
     "{\"params\":{\"NVreg_EnableGpuFirmware\":\"18\"},\"version\":\"570.124.06\"}"},
    {"modules/nvidia_peermem/params/peerdirect_support", "\"0\""},
    {"modules/ib_uverbs", "{\"params\":{},\"version\":null}"},
    {"ssh_host_keys/0", "{\"fingerprint\":\"SHA256:+7qeKZp7F8y+YXpVk9fsqwSIzb3Tox2OZ2cSZINlPuE\","
                        "\"type\":\"ssh-ed25519\"}"},
    {"ssh_host_keys/1", "{\"fingerprint\":\"SHA256:HHWsfN9f8xXt2yqJFmfy18u5BWIwUCJIz/6JreSmAZs\","
                        "\"type\":\"ssh-rsa\"}"},
    {"identity/driver", "\"570.124.06\""},
};

static void reads_a_gpu_node(void **state)
{
    json_t *facts = read_tree(FIXTURES "/nodes/dgx");
    expect(facts, dgx, ARRAY_LEN(dgx));
    assert_int_equal(json_array_size(at(facts, "pci")), 15);
    assert_int_equal(json_array_size(at(facts, "net")), 4);
    assert_int_equal(json_array_size(at(facts, "rdma")), 2);
    json_decref(facts);
}

static const struct {
    const char *bdf, *json;
} functions[] = {
    {"0000:00:1f.0",
     "{\"acs\":null,\"bdf\":\"0000:00:1f.0\",\"class\":\"0x060100\",\"device\":\"0x1b81\","
     "\"driver\":null,\"link\":null,\"numa_node\":-1,\"parent\":null,\"vendor\":\"0x8086\"}"},
    {"0000:15:01.0", /* ACS there, everything off */
     "{\"acs\":{\"control\":0,\"redirect\":false},\"bdf\":\"0000:15:01.0\",\"class\":\"0x060400\","
     "\"device\":\"0x352a\",\"driver\":\"pcieport\",\"link\":{\"max_speed_gts\":32.0,\"max_width\":"
     "16,\"speed_gts\":32.0,\"width\":16},\"numa_node\":0,\"parent\":null,\"vendor\":\"0x8086\"}"},
    {"0000:17:00.0", /* redirects requests and completions */
     "{\"acs\":{\"control\":29,\"redirect\":true},\"bdf\":\"0000:17:00.0\",\"class\":\"0x060400\","
     "\"device\":\"0xc030\",\"driver\":\"pcieport\",\"link\":{\"max_speed_gts\":32.0,\"max_width\":"
     "16,\"speed_gts\":32.0,\"width\":16},\"numa_node\":0,\"parent\":\"0000:16:00.0\",\"vendor\":"
     "\"0x1000\"}"},
    {"0000:99:00.0", /* source validation alone redirects nothing */
     "{\"acs\":{\"control\":1,\"redirect\":false},\"bdf\":\"0000:99:00.0\",\"class\":\"0x060400\","
     "\"device\":\"0xc030\",\"driver\":\"pcieport\",\"link\":{\"max_speed_gts\":32.0,\"max_width\":"
     "16,\"speed_gts\":32.0,\"width\":16},\"numa_node\":1,\"parent\":\"0000:98:00.0\",\"vendor\":"
     "\"0x1000\"}"},
    {"0000:1b:00.0", /* an idle GPU's link sleeps */
     "{\"acs\":null,\"bdf\":\"0000:1b:00.0\",\"class\":\"0x030200\",\"device\":\"0x2330\","
     "\"driver\":\"nvidia\",\"link\":{\"max_speed_gts\":32.0,\"max_width\":16,\"speed_gts\":2.5,"
     "\"width\":16},\"numa_node\":0,\"parent\":\"0000:17:00.0\",\"vendor\":\"0x10de\"}"},
};

static void reads_the_pci_tree(void **state)
{
    json_t *facts = read_tree(FIXTURES "/nodes/dgx");
    const json_t *pci = at(facts, "pci");
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        AUTO(free_str) char *got = NULL;
        for (size_t k = 0; k < json_array_size(pci); k++)
            if (strcmp(jsonx_str_or(json_array_get(pci, k), "bdf", ""), functions[i].bdf) == 0)
                got = jsonx_canonical(json_array_get(pci, k));
        assert_non_null(got);
        assert_string_equal(got, functions[i].json);
    }
    json_decref(facts);
}

/* --- the virtual machine -------------------------------------------------------------------- */

static const struct expectation vm[] = {
    {"distro", "{\"id\":\"ubuntu\",\"pretty\":\"Ubuntu 22.04.5 LTS\",\"version_id\":\"22.04\"}"},
    {"virtual", "\"vm\""},
    {"hypervisor", "\"qemu\""},
    {"product/serial", "null"},
    {"cpu",
     "{\"cores\":2,\"governor\":null,\"model\":\"Intel Xeon Processor (Icelake)\",\"numa\":[],"
     "\"sockets\":2,\"threads\":2}"},
    {"memory/hugepages", "[]"},
    {"limits/memlock_soft_bytes", "65536"},
    {"iommu", "{\"enabled\":false,\"groups\":0,\"passthrough\":null}"},
    {"pci/1/acs", "null"},
    {"net/0/driver", "\"virtio_net\""},
    {"net/0/pci", "\"0000:00:03.0\""},
    {"rdma", "[]"},
    {"gpus", "{\"available\":false,\"devices\":[],\"driver\":null,\"open_modules\":null,\"reason\":"
             "\"no NVIDIA GPU on the PCI bus\"}"},
    {"modules", "{}"},
    {"ssh_host_keys", "[]"},
};

static void reads_a_virtual_machine(void **state)
{
    json_t *facts = read_tree(FIXTURES "/nodes/vm");
    expect(facts, vm, ARRAY_LEN(vm));
    json_decref(facts);
}

/* --- this machine --------------------------------------------------------------------------- */

static void reads_this_machine(void **state)
{
    static const char *const keys[] = {
        "v",      "time",   "hostname", "machine_id",    "boot_id",  "arch",
        "kernel", "distro", "virtual",  "hypervisor",    "init",     "product",
        "cpu",    "memory", "limits",   "iommu",         "pci",      "net",
        "rdma",   "gpus",   "modules",  "ssh_host_keys", "identity",
    };
    json_t *facts = read_tree("/");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        assert_non_null(json_object_get(facts, keys[i]));
    assert_int_equal(json_object_size(facts), ARRAY_LEN(keys));
    assert_true(json_integer_value(at(facts, "cpu/threads")) >= 1);
    assert_int_equal(json_integer_value(at(facts, "memory/total_bytes")) % 1024, 0);
    assert_true(json_integer_value(at(facts, "memory/total_bytes")) >= 1 << 20);
    /* Either GPUs, or the reason why not. */
    const json_t *gpus = at(facts, "gpus");
    assert_true(jsonx_bool_or(gpus, "available", false) != json_is_string(at(gpus, "reason")));
    json_decref(facts);
}

/* --- trees made here ------------------------------------------------------------------------ */

static char dir[64];

static int set_up(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/muster-test-facts-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct err err = {0};
    return fs_remove_tree(dir, &err);
}

static void put_bytes(const char *path, const void *data, size_t len)
{
    struct err err = {0};
    AUTO(free_str) char *full = str_printf("%s%s", dir, path);
    AUTO(free_str) char *parent = str_dup(full);
    *strrchr(parent, '/') = '\0';
    assert_int_equal(fs_mkdirs(parent, 0755, &err), 0);
    assert_int_equal(fs_write_atomic(full, data, len, 0644, &err), 0);
}

static void put(const char *path, const char *text)
{
    put_bytes(path, text, strlen(text));
}

static void refuses_what_is_no_node(void **state)
{
    struct fs_root root;
    struct err err = {0};
    json_t *facts = NULL;
    assert_int_equal(fs_root_open(&root, dir, &err), 0);
    assert_int_equal(facts_read(&root, &facts, &err), -1);
    AUTO(free_str)
    char *text = str_printf("%s has neither /proc nor /sys: not a node's tree", root.path);
    assert_string_equal(err.text, text);
    assert_null(facts);
}

/* Each file says something else than its reader expects; the facts come all the same. */
static void survives_bad_files(void **state)
{
    static const char *const bad[] = {
        "", "\n", "\xff\xfe\n", "-", "99999999999999999999\n", "GT/s\n", "MemTotal: x kB\n"};
    static const char *const paths[] = {
        "/etc/machine-id",
        "/etc/os-release",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/proc/cmdline",
        "/proc/self/limits",
        "/proc/sys/kernel/hostname",
        "/sys/class/dmi/id/sys_vendor",
        "/sys/bus/pci/devices/0000:00:00.0/config",
        "/sys/bus/pci/devices/0000:00:00.0/class",
        "/sys/bus/pci/devices/0000:00:00.0/max_link_speed",
        "/sys/bus/pci/devices/0000:00:00.0/max_link_width",
        "/sys/bus/pci/devices/0000:00:00.0/vendor",
        "/sys/bus/pci/devices/nonsense/vendor",
        "/sys/class/net/eth0/ifindex",
        "/sys/class/net/eth0/mtu",
        "/sys/class/net/eth0/speed",
        "/sys/class/infiniband/mlx5_0/node_guid",
        "/sys/class/infiniband/mlx5_0/ports/1/rate",
        "/sys/class/infiniband/mlx5_0/ports/1/state",
        "/sys/class/infiniband/mlx5_0/ports/1/gids/0",
        "/sys/devices/system/node/node0/meminfo",
        "/sys/devices/system/node/nodeX/meminfo",
        "/sys/devices/system/cpu/cpu0/topology/core_id",
        "/sys/kernel/mm/hugepages/hugepages-xkB/nr_hugepages",
        "/sys/kernel/iommu_groups/0/type",
        "/sys/module/nvidia/version",
        "/sys/module/nvidia/parameters/p",
        "/proc/driver/nvidia/gpus/0000:00:00.0/information",
        "/etc/ssh/ssh_host_rsa_key.pub",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        for (size_t k = 0; k < ARRAY_LEN(paths); k++)
            put(paths[k], bad[i]);
        json_t *facts = read_tree(dir);
        assert_int_equal(json_object_size(facts), 23);
        assert_int_equal(json_array_size(at(facts, "pci")), 1);
        assert_true(json_is_null(at(facts, "pci/0/link")));
        assert_true(json_is_null(at(facts, "memory/total_bytes")));
        AUTO(free_str) char *text = jsonx_canonical(facts);
        assert_non_null(text);
        json_decref(facts);
    }
}

/* Configuration spaces of hostile shape: loops, capabilities at the very end, cut ones. */
static void survives_hostile_capabilities(void **state)
{
    static const struct {
        size_t len;
        struct {
            size_t at;
            uint32_t value;
        } words[3];
        const char *acs;
    } rows[] = {
        {4096, {{0x100, 0x10010001}}, "null"},                      /* points to itself */
        {4096, {{0x100, 0x20010001}, {0x200, 0x10010002}}, "null"}, /* two in a ring */
        {4096, {{0x100, 0xffc10001}, {0xffc, 0x0001000d}}, "null"}, /* runs over the end */
        {4096,
         {{0x100, 0xff810001}, {0xff8, 0x0001000d}, {0xffc, 0x000c0000}},
         "{\"control\":12,\"redirect\":true}"}, /* just fits */
        {4096, {{0x100, 0x0041000d}, {0x104, 0x0004ffff}}, "{\"control\":4,\"redirect\":true}"},
        {4096, {{0x100, 0xffffffff}}, "null"},                      /* device fell off the bus */
        {4096, {{0x100, 0x00410001}, {0x004, 0x0001000d}}, "null"}, /* points into the header */
        {262, {{0x100, 0x0001000d}}, "null"},                       /* cut in the capability */
        {256, {{0x40, 0x0001000d}}, "null"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint8_t config[4096] = {0};
        for (size_t k = 0; k < 3 && rows[i].words[k].at; k++)
            for (size_t b = 0; b < 4; b++)
                config[rows[i].words[k].at + b] = (uint8_t)(rows[i].words[k].value >> 8 * b);
        put_bytes("/sys/bus/pci/devices/0000:00:00.0/config", config, rows[i].len);
        json_t *facts = read_tree(dir);
        AUTO(free_str) char *acs = jsonx_canonical(at(facts, "pci/0/acs"));
        assert_string_equal(acs, rows[i].acs);
        json_decref(facts);
    }
}

static void tells_missing_drivers_apart(void **state)
{
    put("/proc/version", "");
    put("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    put("/sys/bus/pci/devices/0000:01:00.0/class", "0x040300\n"); /* the GPU's audio function */
    json_t *facts = read_tree(dir);
    assert_string_equal(jsonx_str_or(at(facts, "gpus"), "reason", ""),
                        "no NVIDIA GPU on the PCI bus");
    json_decref(facts);
    put("/sys/bus/pci/devices/0000:02:00.0/vendor", "0x10de\n");
    put("/sys/bus/pci/devices/0000:02:00.0/class", "0x030200\n");
    facts = read_tree(dir);
    assert_string_equal(jsonx_str_or(at(facts, "gpus"), "reason", ""),
                        "an NVIDIA GPU is on the PCI bus, but the nvidia driver is not loaded");
    json_decref(facts);
    put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1\n");
    facts = read_tree(dir);
    assert_true(json_is_false(at(facts, "gpus/open_modules")));
    json_decref(facts);
}

static const struct {
    const char *vendor, *product, *flags, *arch, *virtual, *hypervisor;
} machines[] = {
    {"Dell Inc.", "PowerEdge XE9680", "fpu", "x86_64", "none", NULL},
    {"Amazon EC2", "p5.48xlarge", "fpu hypervisor sse", "x86_64", "vm", "nitro"},
    {"Amazon EC2", "c6i.metal", "fpu sse", "x86_64", "none", NULL},
    {"Amazon EC2", "c7g.16xlarge", NULL, "aarch64", "vm", "nitro"},
    {"Amazon EC2", "c7g.metal", NULL, "aarch64", "none", NULL},
    {"Microsoft Corporation", "Virtual Machine", "fpu hypervisor", "x86_64", "vm", "hyperv"},
    {"Unheard Of", "Machine", "fpu hypervisor", "x86_64", "vm", "unknown"},
    {"NVIDIA", "GB200 NVL", NULL, "aarch64", "none", NULL},
};

static void tells_machines_apart(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(machines); i++) {
        AUTO(free_str)
        char *cpuinfo =
            machines[i].flags
                ? str_printf("processor\t: 0\nmodel name\t: M\nflags\t\t: %s\n", machines[i].flags)
                : str_dup("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
        put("/proc/cpuinfo", cpuinfo);
        put("/proc/sys/kernel/arch", machines[i].arch);
        put("/sys/class/dmi/id/sys_vendor", machines[i].vendor);
        put("/sys/class/dmi/id/product_name", machines[i].product);
        json_t *facts = read_tree(dir);
        assert_string_equal(jsonx_str_or(facts, "virtual", ""), machines[i].virtual);
        assert_string_equal(jsonx_str_or(facts, "hypervisor", "(null)"),
                            machines[i].hypervisor ? machines[i].hypervisor : "(null)");
        assert_string_equal(jsonx_str_or(at(facts, "cpu"), "model", ""),
                            machines[i].flags ? "M" : "Arm Neoverse-V2");
        json_decref(facts);
    }
    put("/run/.containerenv", "");
    json_t *facts = read_tree(dir);
    assert_string_equal(jsonx_str_or(facts, "virtual", ""), "container");
    json_decref(facts);
}

static void recognises_pci_names(void **state)
{
    static const struct {
        const char *text;
        bool is;
    } rows[] = {
        {"0000:01:00.0", true},
        {"abcd:ef:1f.7", true},
        {"0000:01:00.", false},
        {"0000:01:00.00", false},
        {"000:01:00.0", false},
        {"pci0000:00", false},
        {"", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(facts_is_bdf(rows[i].text), rows[i].is);
}

#define IN_TREE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_gpu_node),
        cmocka_unit_test(reads_the_pci_tree),
        cmocka_unit_test(reads_a_virtual_machine),
        cmocka_unit_test(reads_this_machine),
        IN_TREE(refuses_what_is_no_node),
        IN_TREE(survives_bad_files),
        IN_TREE(survives_hostile_capabilities),
        IN_TREE(tells_missing_drivers_apart),
        IN_TREE(tells_machines_apart),
        cmocka_unit_test(recognises_pci_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
