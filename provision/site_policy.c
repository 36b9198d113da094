#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/site_parts.h"
#include "provision/site_quantity.h"
#include "provision/site_schema.h"

int site_check_stage(const struct source_map *map, const char *pointer, const char *word,
                     struct err *err)
{
    for (size_t i = 0; site_stages[i]; i++)
        if (strcmp(site_stages[i], word) == 0)
            return 0;
    AUTO(free_str) char *hint = site_hint(word, site_stages, true);
    return source_err(map, pointer, err, "'%.60s' is not a stage%s", word, hint);
}

static int read_require(const struct source_map *map, const json_t *raw, json_t *policy,
                        struct err *err)
{
    static const char at[] = "/policy/require";
    if (!raw || json_is_null(raw) ||
        (json_is_string(raw) && !strcmp(json_string_value(raw), "all"))) {
        jsonx_set_str(policy, "require", "all");
        return 0;
    }
    if (!json_is_array(raw)) {
        AUTO(free_str) char *is = site_describe(raw);
        return source_err(map, at, err, "must be 'all' or a list of stages, is %s", is);
    }
    static const struct site_key row = {.key = "stage", .type = SITE_NAMES};
    json_auto_t *list = NULL;
    if (site_convert(map, at, &row, raw, &list, err) != 0)
        return -1;
    if (json_array_size(list) == 0)
        return source_err(map, at, err,
                          "an empty list would call every node ready; name a stage "
                          "or write 'all'");
    size_t i;
    json_t *stage;
    json_array_foreach(list, i, stage)
    {
        AUTO(free_str) char *pointer = source_pointer_index(at, i);
        if (site_check_stage(map, pointer, json_string_value(stage), err) != 0)
            return -1;
    }
    jsonx_set(policy, "require", STEAL(list));
    return 0;
}

static int floor_value(const struct source_map *map, const char *pointer,
                       const struct site_quantity *q, const json_t *raw, double *value,
                       struct err *err)
{
    if (!json_is_string(raw) && !json_is_number(raw)) {
        AUTO(free_str) char *is = site_describe(raw);
        return source_err(map, pointer, err, "must be a value like %s, is %s", q->form, is);
    }
    AUTO(free_str) char *text = NULL;
    if (json_is_string(raw))
        text = str_dup(json_string_value(raw));
    else
        text = site_describe(raw);
    struct err cause = {0};
    if (site_quantity_parse(q, text, value, &cause) != 0)
        return source_err(map, pointer, err, "%s", cause.text);
    if (*value <= 0)
        return source_err(map, pointer, err, "must be more than 0");
    return 0;
}

static int unknown_quantity(const struct source_map *map, const char *pointer, const char *name,
                            struct err *err)
{
    size_t count;
    const struct site_quantity *rows = site_quantities(&count);
    const char **names = mem_zero(count + 1, sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = rows[i].name;
    AUTO(free_str) char *hint = site_hint(name, names, true);
    free(names);
    return source_err(map, pointer, err, "not a quantity%s", hint);
}

static int read_floor(const struct source_map *map, const char *name, const json_t *raw,
                      json_t *floors, struct err *err)
{
    AUTO(free_str) char *pointer = source_pointer_key("/policy/floors", name);
    const struct site_quantity *q = site_quantity_find(name);
    if (!q)
        return unknown_quantity(map, pointer, name, err);
    json_auto_t *floor = json_object();
    double value = 0;
    if (json_is_object(raw)) {
        AUTO(free_str) char *at = source_pointer_key(pointer, "value");
        if (site_section(map, pointer, "floor", raw, floor, err) != 0 ||
            floor_value(map, at, q, json_object_get(raw, "value"), &value, err) != 0)
            return -1;
    } else {
        if (floor_value(map, pointer, q, raw, &value, err) != 0)
            return -1;
        jsonx_set_str(floor, "reason", NULL);
    }
    jsonx_set_num(floor, "value", value);
    jsonx_set_str(floor, "unit", q->unit);
    jsonx_set(floors, name, STEAL(floor));
    return 0;
}

static int read_floors(const struct source_map *map, const json_t *raw, json_t *policy,
                       struct err *err)
{
    json_t *floors = json_object();
    jsonx_set(policy, "floors", floors);
    if (!raw || json_is_null(raw))
        return 0;
    if (site_want_object(map, "/policy/floors", raw, err) != 0)
        return -1;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)raw, name,
                        value) if (read_floor(map, name, value, floors, err) != 0) return -1;
    return 0;
}

static int check_node(const struct source_map *map, const char *pointer, const json_t *nodes,
                      const char *name, struct err *err)
{
    if (json_object_get(nodes, name))
        return 0;
    AUTO(free_str) char *hint = site_node_hint(nodes, name);
    return source_err(map, pointer, err, "'%.60s' is not a node of this site%s", name, hint);
}

/* NODE, NODE/KIND:ID, FROM>TO or cluster. */
static int check_subject(const struct source_map *map, const char *pointer, const json_t *nodes,
                         const char *subject, struct err *err)
{
    if (strcmp(subject, "cluster") == 0)
        return 0;
    size_t len = strcspn(subject, "/>");
    AUTO(free_str) char *node = str_printf("%.*s", (int)len, subject);
    if (check_node(map, pointer, nodes, node, err) != 0)
        return -1;
    const char *rest = subject + len;
    if (*rest == '>')
        return check_node(map, pointer, nodes, rest + 1, err);
    if (*rest == '\0')
        return 0;
    const char *colon = strchr(rest, ':');
    if (!colon || colon == rest + 1 || colon[1] == '\0')
        return source_err(map, pointer, err,
                          "'%.60s' is not NODE, NODE/KIND:ID (as in gpu001/hca:mlx5_0), FROM>TO or "
                          "cluster",
                          subject);
    return 0;
}

static int read_exclude(const struct source_map *map, const json_t *raw, const json_t *nodes,
                        json_t *policy, struct err *err)
{
    json_t *list = json_array();
    jsonx_set(policy, "exclude", list);
    if (!raw || json_is_null(raw))
        return 0;
    if (site_want_array(map, "/policy/exclude", raw, err) != 0)
        return -1;
    size_t i;
    json_t *item;
    json_array_foreach(raw, i, item)
    {
        AUTO(free_str) char *pointer = source_pointer_index("/policy/exclude", i);
        AUTO(free_str) char *at = source_pointer_key(pointer, "subject");
        json_t *entry = json_object();
        jsonx_append(list, entry);
        if (site_section(map, pointer, "exclude", item, entry, err) != 0 ||
            check_subject(map, at, nodes, jsonx_str_or(entry, "subject", ""), err) != 0)
            return -1;
    }
    return 0;
}

int site_read_policy(const struct source_map *map, const json_t *raw, json_t *site, struct err *err)
{
    json_auto_t *empty = json_object();
    const json_t *from = json_object_get(raw, "policy");
    if (!from || json_is_null(from))
        from = empty;
    json_t *policy = json_object();
    jsonx_set(site, "policy", policy);
    const json_t *nodes = json_object_get(site, "nodes");
    if (site_section(map, "/policy", "policy", from, policy, err) != 0 ||
        read_require(map, json_object_get(from, "require"), policy, err) != 0 ||
        read_floors(map, json_object_get(from, "floors"), policy, err) != 0)
        return -1;
    return read_exclude(map, json_object_get(from, "exclude"), nodes, policy, err);
}
