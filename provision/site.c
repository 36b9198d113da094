#include "provision/site.h"

#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/stage_params.h"
#include "common/util.h"
#include "provision/inventory.h"
#include "provision/site_parts.h"
#include "provision/site_schema.h"
#include "provision/yaml.h"

enum { SITE_VERSION = 1 };

static int read_part(const struct source_map *map, const char *name, const json_t *raw,
                     json_t *site, struct err *err)
{
    AUTO(free_str) char *pointer = source_pointer_key("", name);
    const json_t *value = json_object_get(raw, name);
    json_auto_t *empty = json_object();
    if (!value || json_is_null(value))
        value = empty;
    json_t *part = json_object();
    jsonx_set(site, name, part);
    return site_section(map, pointer, name, value, part, err);
}

/* What one key alone cannot tell. */
static int check_fabric(const struct source_map *map, const json_t *fabric, struct err *err)
{
    const char *kind = jsonx_str_or(fabric, "kind", "");
    int64_t mtu = jsonx_int_or(fabric, "mtu", 0);
    bool power = mtu == 256 || mtu == 512 || mtu == 1024 || mtu == 2048 || mtu == 4096;
    bool infiniband = strcmp(kind, "infiniband") == 0;
    if (infiniband && mtu > 0 && !power)
        return source_err(map, "/fabric/mtu", err,
                          "an InfiniBand port has an MTU of 256, 512, 1024, 2048 or 4096, not %lld "
                          "(that of the IPoIB interface is another setting)",
                          (long long)mtu);
    if (strcmp(kind, "efa") == 0 && mtu > 9001)
        return source_err(map, "/fabric/mtu", err, "the largest MTU inside a VPC is 9001, not %lld",
                          (long long)mtu);
    if (!infiniband && json_array_size(json_object_get(fabric, "subnet_managers")) > 0)
        return source_err(map, "/fabric/subnet_managers", err,
                          "only InfiniBand has a subnet manager, and the kind is %s", kind);
    if (!infiniband && jsonx_str_or(fabric, "routing", NULL))
        return source_err(map, "/fabric/routing", err,
                          "only InfiniBand has a routing engine, and the kind is %s", kind);
    if (!infiniband && json_object_size(json_object_get(fabric, "subnet")) > 0)
        return source_err(map, "/fabric/subnet", err,
                          "only InfiniBand has a subnet, and the kind is %s", kind);
    return 0;
}

static int check_stage_params(const struct source_map *map, const char *pointer, const char *stage,
                              const json_t *params, struct err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)params, key, value)
    {
        struct err wrong = {0};
        AUTO(free_str) char *at = source_pointer_key(pointer, key);
        if (stage_params_check(stage, key, value, &wrong) != 0)
            return source_err(map, at, err, "%s", wrong.text);
    }
    return 0;
}

static int read_stages(const struct source_map *map, const json_t *raw, json_t *site,
                       struct err *err)
{
    json_t *stages = json_object();
    jsonx_set(site, "stages", stages);
    const json_t *from = json_object_get(raw, "stages");
    if (!from || json_is_null(from))
        return 0;
    if (site_want_object(map, "/stages", from, err) != 0)
        return -1;
    const char *name;
    json_t *params;
    json_object_foreach((json_t *)from, name, params)
    {
        AUTO(free_str) char *pointer = source_pointer_key("/stages", name);
        if (site_check_stage(map, pointer, name, err) != 0 ||
            site_want_object(map, pointer, params, err) != 0 ||
            check_stage_params(map, pointer, name, params, err) != 0)
            return -1;
        jsonx_set(stages, name, json_deep_copy(params));
    }
    return 0;
}

/* Everything but the nodes. */
static int read_rest(const struct source_map *map, const json_t *raw, json_t *site, struct err *err)
{
    if (read_part(map, "ssh", raw, site, err) != 0 ||
        read_part(map, "fabric", raw, site, err) != 0 ||
        check_fabric(map, json_object_get(site, "fabric"), err) != 0 ||
        site_read_policy(map, raw, site, err) != 0)
        return -1;
    return read_stages(map, raw, site, err);
}

static int from_mapping(const struct source_map *map, const json_t *raw, json_t *site,
                        struct err *err)
{
    if (site_want_object(map, "", raw, err) != 0 || site_section(map, "", "", raw, site, err) != 0)
        return -1;
    json_auto_t *playbooks = json_incref(json_object_get(site, "playbooks"));
    json_object_del(site, "playbooks");
    if (site_read_nodes(map, raw, playbooks, site, err) != 0)
        return -1;
    return read_rest(map, raw, site, err);
}

/* A list of nodes and nothing else: every other key has its default. */
static int from_nodes(const struct source_map *map, json_t *nodes, const char *become, json_t *site,
                      struct err *err)
{
    json_auto_t *raw =
        json_pack("{s:s, s:n, s:{s:s}}", "cluster", "cluster", "nodes", "ssh", "become", become);
    if (site_section(map, "", "", raw, site, err) != 0)
        return -1;
    json_auto_t *playbooks = json_incref(json_object_get(site, "playbooks"));
    json_object_del(site, "playbooks");
    const char *name;
    json_t *node;
    json_object_foreach(nodes, name, node) jsonx_set(node, "playbooks", json_deep_copy(playbooks));
    jsonx_set(site, "nodes", json_incref(nodes));
    return read_rest(map, raw, site, err);
}

/* JSON is tried first for a text that begins like it, because YAML readers refuse some of JSON's
 * escapes; the lines then come from the YAML reader where it can follow. */
static int parse_mapping(const char *text, size_t len, struct source_map *map, json_t **raw,
                         struct err *err)
{
    const char *source = source_map_file(map);
    struct err ignored = {0};
    if (text[strspn(text, " \t\r\n")] == '{' &&
        jsonx_parse(text, len, source, raw, &ignored) == 0) {
        json_t *lines = NULL;
        if (yaml_parse(text, len, source, map, &lines, &ignored) == 0)
            json_decref(lines);
        return 0;
    }
    return yaml_parse(text, len, source, map, raw, err);
}

static int parse_any(const char *text, size_t len, struct source_map *map, json_t *site,
                     struct err *err)
{
    enum inventory_kind kind = inventory_recognise(text, len);
    if (kind != INVENTORY_NONE) {
        json_auto_t *nodes = NULL;
        const char *become = "none";
        if (inventory_parse(kind, text, len, source_map_file(map), &nodes, &become, err) != 0)
            return -1;
        return from_nodes(map, nodes, become, site, err);
    }
    json_auto_t *raw = NULL;
    if (parse_mapping(text, len, map, &raw, err) != 0)
        return -1;
    return from_mapping(map, raw, site, err);
}

int site_parse(const char *text, size_t len, const char *source, json_t **site, struct err *err)
{
    AUTO(source_map_release) struct source_map *map = source_map_create(source);
    json_auto_t *built = json_object();
    if (memchr(text, '\0', len))
        return err_set(err, ERR_USAGE, "%s: holds the byte 0; not a text file", source);
    if (text[strspn(text, " \t\r\n")] == '\0')
        return err_set(err, ERR_USAGE, "%s: the file is empty", source);
    jsonx_set_int(built, "v", SITE_VERSION);
    if (parse_any(text, len, map, built, err) != 0)
        return -1;
    struct hash h = hash_of(text, len);
    char hex[HASH_HEX_BYTES];
    hash_hex(&h, hex);
    jsonx_set(built, "source", json_pack("{s:s, s:s}", "file", source, "digest", hex));
    *site = STEAL(built);
    return 0;
}

int site_load(const char *path, json_t **site, struct err *err)
{
    AUTO(free_str) char *text = NULL;
    size_t len = 0;
    if (fs_read(path, YAML_MAX_BYTES, &text, &len, err) != 0)
        return -1;
    return site_parse(text, len, path, site, err);
}

int site_from_hostlist(const char *hosts, json_t **site, struct err *err)
{
    struct hostlist list = {0};
    if (hostlist_parse(hosts, &list, err) != 0) {
        err->kind = ERR_USAGE; /* here the operator wrote it */
        return -1;
    }
    hostlist_release(&list);
    return site_parse(hosts, strlen(hosts), "command line", site, err);
}

void site_digest(const json_t *site, char hex[static HASH_HEX_BYTES])
{
    json_auto_t *copy = json_copy((json_t *)site);
    json_object_del(copy, "source");
    AUTO(free_str) char *bytes = jsonx_canonical(copy);
    struct hash h = hash_of(bytes, strlen(bytes));
    hash_hex(&h, hex);
}

const json_t *site_node(const json_t *site, const char *name)
{
    return json_object_get(json_object_get(site, "nodes"), name);
}
