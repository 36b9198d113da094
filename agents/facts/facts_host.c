/* Name, system, and whether this is metal, a virtual machine or a container. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

enum { CPUINFO_MAX_BYTES = 8 * 1024 * 1024 };

static void set_arch(const struct fs_root *root, json_t *facts)
{
    facts_set_line(facts, "arch", root, "/proc/sys/kernel/arch"); /* Linux 6.1 and later */
    struct utsname names;
    if (json_is_null(json_object_get(facts, "arch")) && uname(&names) == 0)
        jsonx_set_str(facts, "arch", names.machine);
}

/* The value of KEY=VALUE in os-release text, without its quotes; NULL if absent.  The caller frees.
 */
static char *release_value(const char *text, const char *key)
{
    size_t key_len = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, key, key_len) != 0 || line[key_len] != '=')
            continue;
        const char *value = line + key_len + 1;
        size_t len = strcspn(value, "\n");
        if (len >= 2 && (value[0] == '"' || value[0] == '\'') && value[len - 1] == value[0]) {
            value++;
            len -= 2;
        }
        return str_printf("%.*s", (int)len, value);
    }
    return NULL;
}

static json_t *read_distro(const struct fs_root *root)
{
    static const char *const keys[][2] = {
        {"id", "ID"}, {"version_id", "VERSION_ID"}, {"pretty", "PRETTY_NAME"}};
    AUTO(free_str) char *text = NULL;
    struct err ignored = {0};
    if (fs_read_at(root, "/etc/os-release", 65536, &text, NULL, &ignored) != 0) {
        err_clear(&ignored);
        if (fs_read_at(root, "/usr/lib/os-release", 65536, &text, NULL, &ignored) != 0)
            text = str_dup("");
    }
    json_t *distro = facts_object();
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        AUTO(free_str) char *value = release_value(text, keys[i][1]);
        facts_set_text(distro, keys[i][0], value);
    }
    return distro;
}

static bool in_container(const struct fs_root *root)
{
    static const char *const marks[] = {"/run/systemd/container", "/.dockerenv",
                                        "/run/.containerenv"};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (fs_exists_at(root, marks[i]))
            return true;
    return false;
}

static bool cpu_says_hypervisor(const struct fs_root *root)
{
    AUTO(free_str) char *text = NULL;
    struct err ignored = {0};
    if (fs_read_at(root, "/proc/cpuinfo", CPUINFO_MAX_BYTES, &text, NULL, &ignored) != 0)
        return false;
    const char *flags = strstr(text, "\nflags");
    if (!flags)
        return false;
    size_t len = strcspn(flags + 1, "\n") + 1;
    const char *found = strstr(flags, " hypervisor");
    return found && found < flags + len;
}

/* Firmware strings by which hypervisors give themselves away; metal: bare instances that use them
 * too. */
static const struct {
    const char *vendor, *hypervisor, *metal;
} vendors[] = {
    {"QEMU", "qemu", NULL},
    {"Amazon EC2", "nitro", ".metal"},
    {"Microsoft Corporation", "hyperv", NULL},
    {"VMware", "vmware", NULL},
    {"Google", "kvm", "-metal"},
    {"Xen", "xen", NULL},
    {"innotek GmbH", "virtualbox", NULL},
    {"Parallels", "parallels", NULL},
    {"OpenStack", "kvm", NULL},
    {"Alibaba Cloud", "kvm", "ebm"},
};

static const char *firmware_hypervisor(const json_t *product, bool *metal)
{
    const char *vendor = jsonx_str_or(product, "vendor", "");
    const char *name = jsonx_str_or(product, "name", "");
    for (size_t i = 0; i < ARRAY_LEN(vendors); i++) {
        if (!str_has_prefix(vendor, vendors[i].vendor))
            continue;
        *metal = vendors[i].metal && strstr(name, vendors[i].metal) != NULL;
        return vendors[i].hypervisor;
    }
    return NULL;
}

/* What the hypervisor itself answers on x86, for guests whose firmware has no strings. */
static char *cpuid_hypervisor(const struct fs_root *root)
{
#if defined(__x86_64__)
    static const char *const names[][2] = {
        {"KVMKVMKVM", "kvm"},    {"Microsoft Hv", "hyperv"}, {"VMwareVMware", "vmware"},
        {"XenVMMXenVMM", "xen"}, {"TCGTCGTCGTCG", "qemu"},
    };
    unsigned a = 0;
    char signature[13] = "";
    if (!facts_root_is_real(root))
        return NULL;
    unsigned words[3];
    __cpuid(0x40000000, a, words[0], words[1], words[2]);
    memcpy(signature, words, sizeof words);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_has_prefix(signature, names[i][0]))
            return str_dup(names[i][1]);
#endif
    return NULL;
}

static void set_virtual(const struct fs_root *root, json_t *facts, const json_t *product)
{
    bool metal = false;
    const char *firmware = firmware_hypervisor(product, &metal);
    bool flagged = cpu_says_hypervisor(root);
    /* x86 has the flag; aarch64 has only the firmware's word. */
    bool x86 = strcmp(jsonx_str_or(facts, "arch", ""), "x86_64") == 0;
    bool guest = flagged || (!x86 && firmware && !metal);
    AUTO(free_str) char *asked = flagged && !firmware ? cpuid_hypervisor(root) : NULL;
    const char *hypervisor = firmware ? firmware : asked;
    jsonx_set_str(facts, "virtual", in_container(root) ? "container" : guest ? "vm" : "none");
    jsonx_set_str(facts, "hypervisor", guest ? (hypervisor ? hypervisor : "unknown") : NULL);
}

void facts_host(const struct fs_root *root, json_t *facts)
{
    facts_set_line(facts, "hostname", root, "/proc/sys/kernel/hostname");
    facts_set_line(facts, "machine_id", root, "/etc/machine-id");
    facts_set_line(facts, "boot_id", root, "/proc/sys/kernel/random/boot_id");
    set_arch(root, facts);
    jsonx_set(facts, "distro", read_distro(root));
    json_t *product = facts_object();
    facts_set_line(product, "vendor", root, "/sys/class/dmi/id/sys_vendor");
    facts_set_line(product, "name", root, "/sys/class/dmi/id/product_name");
    facts_set_line(product, "serial", root, "/sys/class/dmi/id/product_serial");
    set_virtual(root, facts, product);
    jsonx_set(facts, "product", product);
    jsonx_set_str(facts, "init", fs_exists_at(root, "/run/systemd/system") ? "systemd" : "none");
}
