#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "provision/site_parts.h"
#include "provision/site_schema.h"

struct builder {
    const struct source_map *map;
    const json_t *defaults; /* playbooks of a node that names none */
    json_t *nodes;          /* being built */
    json_t *lines;          /* NODE -> line where it was named first */
};

char *site_node_hint(const json_t *nodes, const char *name)
{
    size_t count = json_object_size(nodes), i = 0;
    const char **names = mem_zero(count + 1, sizeof *names);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)nodes, key, value) names[i++] = key;
    char *hint = site_hint(name, names, false);
    free(names);
    return hint;
}

static int add_node(struct builder *b, const char *pointer, const char *name, const json_t *entry,
                    struct err *err)
{
    if (json_object_get(b->nodes, name))
        return source_err(b->map, pointer, err, "node '%s' is given twice, first in line %lld",
                          name, (long long)jsonx_int_or(b->lines, name, 0));
    if (json_object_size(b->nodes) >= HOSTLIST_MAX_HOSTS)
        return source_err(b->map, pointer, err, "more than %d nodes", HOSTLIST_MAX_HOSTS);
    if (strcmp(name, "cluster") == 0 || strcmp(name, "all") == 0)
        return source_err(b->map, pointer, err, "'%s' is a word of muster's own, not a node's name",
                          name);
    jsonx_set(b->nodes, name, json_deep_copy(entry));
    jsonx_set_int(b->lines, name, source_map_line(b->map, pointer));
    return 0;
}

/* One entry of the list: names and what they share. */
static int read_entry(struct builder *b, const char *pointer, const json_t *raw, struct err *err)
{
    json_auto_t *wrapped = json_is_string(raw) ? json_pack("{s:O}", "names", raw) : NULL;
    json_auto_t *entry = json_object();
    if (site_section(b->map, pointer, "node", wrapped ? wrapped : raw, entry, err) != 0)
        return -1;
    AUTO(free_str) char *at = wrapped ? str_dup(pointer) : source_pointer_key(pointer, "names");
    json_auto_t *names = json_incref(json_object_get(entry, "names"));
    json_object_del(entry, "names");
    if (json_array_size(names) > 1 && json_is_string(json_object_get(entry, "host"))) {
        AUTO(free_str) char *host = source_pointer_key(pointer, "host");
        return source_err(b->map, host, err, "one address for %zu nodes; give each its own entry",
                          json_array_size(names));
    }
    if (json_is_null(json_object_get(entry, "playbooks")))
        jsonx_set(entry, "playbooks", json_deep_copy(b->defaults));
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name) if (add_node(b, at, json_string_value(name), entry, err) !=
                                           0) return -1;
    return 0;
}

static int read_list(struct builder *b, const json_t *raw, struct err *err)
{
    if (json_is_string(raw))
        return read_entry(b, "/nodes", raw, err);
    if (site_want_array(b->map, "/nodes", raw, err) != 0)
        return -1;
    size_t i;
    json_t *entry;
    json_array_foreach(raw, i, entry)
    {
        AUTO(free_str) char *pointer = source_pointer_index("/nodes", i);
        if (read_entry(b, pointer, entry, err) != 0)
            return -1;
    }
    if (json_object_size(b->nodes) == 0)
        return source_err(b->map, "/nodes", err, "the cluster has no nodes");
    return 0;
}

static bool has_word(const json_t *list, const char *word)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) if (strcmp(json_string_value(item), word) == 0) return true;
    return false;
}

/* Put the group's name into each member's list. */
static int join_group(struct builder *b, const char *pointer, const char *group,
                      const json_t *names, struct err *err)
{
    AUTO(free_str) char *at = source_pointer_key(pointer, "names");
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name)
    {
        const char *word = json_string_value(name);
        json_t *node = json_object_get(b->nodes, word);
        if (!node) {
            AUTO(free_str) char *hint = site_node_hint(b->nodes, word);
            return source_err(b->map, at, err, "'%s' is not a node of this site%s", word, hint);
        }
        json_t *groups = json_object_get(node, "groups");
        if (!has_word(groups, group))
            jsonx_append_str(groups, group);
    }
    return 0;
}

/* Variables of a node: its own over those of its groups.  Two groups that give one variable
 * different values have no order, so that is refused. */
static int fold_vars(struct builder *b, const char *name, json_t *node, const json_t *groups,
                     struct err *err)
{
    json_t *own = json_object_get(node, "vars");
    json_auto_t *folded = json_object();
    json_auto_t *origin = json_object();
    size_t i;
    json_t *group, *value;
    json_array_foreach(json_object_get(node, "groups"), i, group)
    {
        const char *word = json_string_value(group), *key;
        json_t *vars = json_object_get(json_object_get(groups, word), "vars");
        json_object_foreach(vars, key, value)
        {
            const json_t *other = json_object_get(folded, key);
            if (other && !json_equal(other, value) && !json_object_get(own, key))
                return source_err(b->map, "/groups", err,
                                  "node '%s' gets different values of '%s' from groups '%s' and "
                                  "'%s'; set it in the node's own vars",
                                  name, key, jsonx_str_or(origin, key, ""), word);
            jsonx_set(folded, key, json_deep_copy(value));
            jsonx_set_str(origin, key, word);
        }
    }
    json_object_update(folded, own);
    jsonx_set(node, "vars", STEAL(folded));
    return 0;
}

static int read_groups(struct builder *b, const json_t *raw, json_t *groups, struct err *err)
{
    if (!raw || json_is_null(raw))
        return 0;
    if (site_want_object(b->map, "/groups", raw, err) != 0)
        return -1;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)raw, name, value)
    {
        AUTO(free_str) char *pointer = source_pointer_key("/groups", name);
        static const struct site_key row = {.key = "group", .type = SITE_NAME};
        json_auto_t *word = json_string(name);
        json_auto_t *checked = NULL;
        if (site_convert(b->map, pointer, &row, word, &checked, err) != 0)
            return -1;
        json_t *group = json_object();
        jsonx_set(groups, name, group);
        if (site_section(b->map, pointer, "group", value, group, err) != 0 ||
            join_group(b, pointer, name, json_object_get(group, "names"), err) != 0)
            return -1;
    }
    return 0;
}

int site_read_nodes(const struct source_map *map, const json_t *raw, const json_t *defaults,
                    json_t *site, struct err *err)
{
    json_auto_t *nodes = json_object();
    json_auto_t *lines = json_object();
    json_auto_t *groups = json_object();
    struct builder b = {map, defaults, nodes, lines};
    if (read_list(&b, json_object_get(raw, "nodes"), err) != 0 ||
        read_groups(&b, json_object_get(raw, "groups"), groups, err) != 0)
        return -1;
    const char *name;
    json_t *node;
    json_object_foreach(nodes, name,
                        node) if (fold_vars(&b, name, node, groups, err) != 0) return -1;
    jsonx_set(site, "nodes", STEAL(nodes));
    return 0;
}
