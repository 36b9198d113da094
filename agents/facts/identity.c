#include "agents/facts/identity.h"

#include <stdlib.h>
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted copy without duplicates of an array of strings; releases it. */
static json_t *sorted(json_t *strings)
{
    size_t count = json_array_size(strings);
    const char **texts = mem_zero(count, sizeof *texts);
    for (size_t i = 0; i < count; i++)
        texts[i] = json_string_value(json_array_get(strings, i));
    if (count)
        qsort(texts, count, sizeof *texts, compare_strings);
    json_t *out = facts_array();
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(texts[i], texts[i - 1]) != 0)
            jsonx_append_str(out, texts[i]);
    free(texts);
    json_decref(strings);
    return out;
}

static json_t *read_host_keys(const struct fs_root *root)
{
    json_auto_t *keys = facts_ssh(root);
    json_t *prints = facts_array();
    for (size_t i = 0; i < json_array_size(keys); i++)
        jsonx_append_str(prints, jsonx_str_or(json_array_get(keys, i), "fingerprint", ""));
    return prints;
}

/* "GPU UUID: \t GPU-..." in the driver's own file; a GPU that is not initialised shows '?'. */
static json_t *read_gpu_uuids(const struct fs_root *root)
{
    static const char title[] = "GPU UUID:";
    json_t *uuids = facts_array();
    AUTO(facts_names_free) struct facts_names gpus = facts_list(root, "/proc/driver/nvidia/gpus");
    for (size_t i = 0; i < gpus.count; i++) {
        AUTO(free_str)
        char *path = str_printf("/proc/driver/nvidia/gpus/%s/information", gpus.names[i]);
        AUTO(free_str) char *text = NULL;
        struct err ignored = {0};
        if (fs_read_at(root, path, 65536, &text, NULL, &ignored) != 0)
            continue;
        char *found = strstr(text, title);
        if (!found)
            continue;
        found += strlen(title);
        found += strspn(found, " \t");
        found[strcspn(found, " \t\n")] = '\0';
        if (str_has_prefix(found, "GPU-") && !strchr(found, '?'))
            facts_append_text(uuids, found);
    }
    return uuids;
}

/* RDMA devices of this machine's hardware: GUIDs into nics, firmware by name, their PCI functions
 * into functions. */
static void read_rdma(const struct fs_root *root, json_t *nics, json_t *firmware, json_t *functions)
{
    AUTO(facts_names_free) struct facts_names names = facts_list(root, "/sys/class/infiniband");
    for (size_t i = 0; i < names.count; i++) {
        AUTO(free_str) char *path = str_printf("/sys/class/infiniband/%s", names.names[i]);
        AUTO(free_str) char *guid = facts_line(root, "%s/node_guid", path);
        char bdf[16];
        if (!facts_link_bdf(root, path, 0, bdf) || facts_exists(root, "%s/device/physfn", path))
            continue; /* Soft-RoCE, or a virtual function that comes and goes */
        jsonx_set(functions, bdf, json_true());
        facts_append_text(nics, guid);
        AUTO(free_str) char *version = facts_line(root, "%s/fw_ver", path);
        if (version && version[0])
            facts_set_text(firmware, names.names[i], version);
    }
}

/* The address that the hardware came with; NULL when the interface shows another one. */
static char *permanent_mac(const struct fs_root *root, const char *name)
{
    char *mac = facts_line(root, "/sys/class/net/%s/bonding_slave/perm_hwaddr", name);
    if (mac)
        return mac;
    enum { ADDRESS_PERMANENT = 0 }; /* NET_ADDR_PERM */
    if (facts_int(root, -1, "/sys/class/net/%s/addr_assign_type", name) != ADDRESS_PERMANENT)
        return NULL;
    return facts_line(root, "/sys/class/net/%s/address", name);
}

/* Physical interfaces whose PCI function is not an RDMA device: those are named by their GUID. */
static void read_macs(const struct fs_root *root, json_t *nics, const json_t *functions)
{
    AUTO(facts_names_free) struct facts_names names = facts_list(root, "/sys/class/net");
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.names[i];
        AUTO(free_str) char *path = str_printf("/sys/class/net/%s", name);
        char bdf[16];
        if (!facts_exists(root, "%s/device", path) || facts_exists(root, "%s/device/physfn", path))
            continue;
        if (facts_link_bdf(root, path, 0, bdf) && json_object_get(functions, bdf))
            continue;
        AUTO(free_str) char *mac = permanent_mac(root, name);
        facts_append_text(nics, mac);
    }
}

int identity_read(const struct fs_root *root, json_t **out, struct err *err)
{
    if (!fs_exists_at(root, "/proc") && !fs_exists_at(root, "/sys"))
        return err_set(err, ERR_ENV, "%s has neither /proc nor /sys: not a node's tree",
                       root->path[0] ? root->path : "/");
    AUTO(free_str) char *machine_id = fs_read_line_at(root, "/etc/machine-id");
    if (!machine_id || !machine_id[0])
        return err_set(err, ERR_ENV,
                       "%s/etc/machine-id cannot be read or is empty: without it this machine "
                       "cannot be told from another; run systemd-machine-id-setup",
                       root->path);
    json_t *identity = facts_object(), *nics = facts_array(), *firmware = facts_object();
    json_auto_t *functions = facts_object();
    read_rdma(root, nics, firmware, functions);
    read_macs(root, nics, functions);
    facts_set_text(identity, "machine_id", machine_id);
    jsonx_set(identity, "ssh_host_keys", sorted(read_host_keys(root)));
    jsonx_set(identity, "gpus", sorted(read_gpu_uuids(root)));
    jsonx_set(identity, "nics", sorted(nics));
    facts_set_line(identity, "driver", root, "/sys/module/nvidia/version");
    jsonx_set(identity, "firmware", firmware);
    *out = identity;
    return 0;
}
