#include "provision/plan.h"

#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

enum { PLAN_VERSION = 1, PLAN_MAX_BYTES = 256 * 1024 * 1024 };

static const char *const outcomes[] = {"change", "same", "skip", "error", NULL};

json_t *plan_create(const char *run)
{
    json_t *plan = json_object();
    jsonx_set_int(plan, "v", PLAN_VERSION);
    jsonx_set_str(plan, "run", run);
    jsonx_set(plan, "nodes", json_object());
    jsonx_set(plan, "items", json_object());
    return plan;
}

static json_t *make_item(const char *kind, const char *id, const char *outcome, const char *reason)
{
    json_t *item = json_object();
    jsonx_set_str(item, "kind", kind);
    jsonx_set_str(item, "id", id);
    jsonx_set_str(item, "outcome", outcome);
    jsonx_set_str(item, "diff", "");
    jsonx_set_str(item, "reason", reason);
    return item;
}

/* Form of one item as an agent or a file gives it. */
static int check_item(const json_t *item, const char *node, struct err *err)
{
    static const char *const keys[] = {"kind", "id", "outcome", "diff", "reason", NULL};
    const char *outcome = NULL, *text = NULL;
    AUTO(free_str) char *what = str_printf("plan of %s", node);
    if (!json_is_object(item))
        return err_set(err, ERR_DATA, "%s: an item is not an object", what);
    if (jsonx_only_keys(item, what, keys, err) != 0 ||
        jsonx_get_str(item, what, "kind", &text, err) != 0 ||
        jsonx_get_str(item, what, "id", &text, err) != 0 ||
        jsonx_get_str(item, what, "outcome", &outcome, err) != 0 ||
        jsonx_opt_str(item, what, "diff", &text, err) != 0 ||
        jsonx_opt_str(item, what, "reason", &text, err) != 0)
        return -1;
    for (size_t i = 0; outcomes[i]; i++)
        if (strcmp(outcomes[i], outcome) == 0)
            return 0;
    return err_set(err, ERR_DATA, "%s: outcome '%.40s' is none of change, same, skip, error", what,
                   outcome);
}

/* The agent must answer for exactly what it was asked, in that order. */
static int check_answer(const json_t *items, const json_t *resources, const char *node,
                        struct err *err)
{
    if (!json_is_array(items))
        return err_set(err, ERR_DATA, "plan of %s: items is not a list", node);
    size_t asked = json_array_size(resources), got = json_array_size(items);
    if (asked != got)
        return err_set(err, ERR_DATA, "plan of %s: asked for %zu resources, got %zu items", node,
                       asked, got);
    for (size_t i = 0; i < asked; i++) {
        const json_t *item = json_array_get(items, i), *want = json_array_get(resources, i);
        if (check_item(item, node, err) != 0)
            return -1;
        if (!json_equal(json_object_get(item, "kind"), json_object_get(want, "kind")) ||
            !json_equal(json_object_get(item, "id"), json_object_get(want, "id")))
            return err_set(err, ERR_DATA, "plan of %s: asked for %s %s, got %s %s", node,
                           jsonx_str_or(want, "kind", ""), jsonx_str_or(want, "id", ""),
                           jsonx_str_or(item, "kind", ""), jsonx_str_or(item, "id", ""));
    }
    return 0;
}

int plan_add(json_t *plan, const char *node, const json_t *resources, const json_t *skipped,
             const json_t *items, struct err *err)
{
    if (check_answer(items, resources, node, err) != 0)
        return -1;
    json_t *list = json_deep_copy(items);
    size_t i;
    json_t *row;
    json_array_foreach(skipped, i, row)
        jsonx_append(list, make_item(jsonx_str_or(row, "kind", ""), jsonx_str_or(row, "id", ""),
                                     "skip", jsonx_str_or(row, "reason", "")));
    jsonx_set(json_object_get(plan, "nodes"), node, json_deep_copy(resources));
    jsonx_set(json_object_get(plan, "items"), node, list);
    return 0;
}

void plan_add_error(json_t *plan, const char *node, const char *text)
{
    json_t *list = json_array();
    jsonx_append(list, make_item("node", node, "error", text));
    jsonx_set(json_object_get(plan, "nodes"), node, json_array());
    jsonx_set(json_object_get(plan, "items"), node, list);
}

static size_t count_outcome(const json_t *items, const char *outcome)
{
    size_t i, count = 0;
    json_t *item;
    json_array_foreach(items, i, item) count +=
        strcmp(jsonx_str_or(item, "outcome", ""), outcome) == 0;
    return count;
}

struct plan_counts plan_count(const json_t *plan)
{
    struct plan_counts c = {0};
    const char *node;
    json_t *items;
    json_object_foreach(json_object_get(plan, "items"), node, items)
    {
        size_t change = count_outcome(items, "change"), error = count_outcome(items, "error");
        c.nodes++;
        c.nodes_error += error > 0;
        c.nodes_change += error == 0 && change > 0;
        c.nodes_same += error == 0 && change == 0;
        c.change += change;
        c.error += error;
        c.same += count_outcome(items, "same");
        c.skip += count_outcome(items, "skip");
    }
    return c;
}

static const json_t *items_of(const json_t *plan, const char *node)
{
    return json_object_get(json_object_get(plan, "items"), node);
}

bool plan_node_failed(const json_t *plan, const char *node)
{
    return count_outcome(items_of(plan, node), "error") > 0;
}

bool plan_node_changes(const json_t *plan, const char *node)
{
    return count_outcome(items_of(plan, node), "change") > 0;
}

int plan_save(const json_t *plan, const char *path, struct err *err)
{
    return jsonx_save(path, plan, 0644, err);
}

static int check_file(const json_t *plan, const char *path, struct err *err)
{
    static const char *const keys[] = {"v", "run", "nodes", "items", NULL};
    const json_t *nodes = NULL, *items = NULL;
    const char *text = NULL, *node;
    int64_t version = 0;
    json_t *list;
    if (!json_is_object(plan))
        return err_set(err, ERR_DATA, "%s: is not a plan", path);
    if (jsonx_only_keys(plan, path, keys, err) != 0 ||
        jsonx_get_int(plan, path, "v", &version, err) != 0 ||
        jsonx_get_str(plan, path, "run", &text, err) != 0 ||
        jsonx_get_obj(plan, path, "nodes", &nodes, err) != 0 ||
        jsonx_get_obj(plan, path, "items", &items, err) != 0)
        return -1;
    if (version != PLAN_VERSION)
        return err_set(err, ERR_DATA, "%s: version %lld, this muster reads %d", path,
                       (long long)version, PLAN_VERSION);
    json_object_foreach((json_t *)items, node, list)
    {
        size_t i;
        json_t *item;
        if (!json_is_array(list) || !json_is_array(json_object_get(nodes, node)))
            return err_set(err, ERR_DATA, "%s: node '%.60s' has no list", path, node);
        json_array_foreach(list, i, item) if (check_item(item, node, err) !=
                                              0) return err_wrap(err, "%s: ", path);
    }
    return 0;
}

int plan_load(const char *path, json_t **plan, struct err *err)
{
    json_auto_t *value = NULL;
    if (jsonx_load(path, PLAN_MAX_BYTES, &value, err) != 0 || check_file(value, path, err) != 0)
        return -1;
    *plan = STEAL(value);
    return 0;
}
