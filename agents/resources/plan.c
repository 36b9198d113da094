#include <stdlib.h>
#include <string.h>

#include "agents/resources/txn.h"
#include "common/jsonx.h"

static int item_create(const struct resources_env *env, const json_t *resource, size_t index,
                       struct txn_item *item, struct err *err)
{
    static const char *const keys[] = {"kind", "id", "playbook", "params", NULL};
    AUTO(free_str) char *what = str_printf("resource %zu", index + 1);
    const char *playbook = NULL;
    if (!json_is_object(resource))
        return err_set(err, ERR_DATA, "%s is not an object", what);
    if (jsonx_only_keys(resource, what, keys, err) != 0 ||
        jsonx_get_str(resource, what, "kind", &item->kind_name, err) != 0 ||
        jsonx_get_str(resource, what, "id", &item->item.id, err) != 0 ||
        jsonx_opt_str(resource, what, "playbook", &playbook, err) != 0 ||
        jsonx_get_obj(resource, what, "params", &item->item.params, err) != 0)
        return -1;
    item->item.env = env;
    item->kind = kind_find(item->kind_name);
    return 0;
}

int txn_items_create(const struct resources_env *env, const json_t *resources,
                     struct txn_item **out, size_t *count, struct err *err)
{
    if (!json_is_array(resources))
        return err_set(err, ERR_DATA, "the resources are not an array");
    size_t n = json_array_size(resources);
    struct txn_item *items = mem_zero(n + 1, sizeof *items);
    for (size_t i = 0; i < n; i++) {
        if (item_create(env, json_array_get(resources, i), i, &items[i], err) != 0) {
            free(items);
            return -1;
        }
    }
    *out = items;
    *count = n;
    return 0;
}

void txn_items_destroy(struct txn_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_decref(items[i].before);
        json_decref(items[i].want);
        free(items[i].text);
    }
    free(items);
}

/* Two resources of one request that claim the same thing can never both hold. */
static int check_claims(const struct txn_item *items, size_t index, struct err *err)
{
    const struct txn_item *a = &items[index];
    AUTO(free_str) char *path = a->kind->path ? a->kind->path(&a->item) : NULL;
    for (size_t i = 0; i < index; i++) {
        const struct txn_item *b = &items[i];
        if (!b->kind || b->outcome == TXN_ERROR || b->outcome == TXN_SKIP)
            continue;
        bool same_kind = a->kind == b->kind;
        if (same_kind && a->kind->shared)
            continue;
        if (same_kind && strcmp(a->item.id, b->item.id) == 0)
            return err_set(err, ERR_USAGE, "given twice: resources %zu and %zu are both %s %s",
                           i + 1, index + 1, a->kind_name, a->item.id);
        AUTO(free_str) char *other = b->kind->path ? b->kind->path(&b->item) : NULL;
        if (path && other && strcmp(path, other) == 0)
            return err_set(err, ERR_USAGE,
                           "%s is claimed twice: by this resource and by %s %s (resource %zu)",
                           path, b->kind_name, b->item.id, i + 1);
    }
    return 0;
}

int txn_item_refresh(struct txn_item *t, struct err *err)
{
    json_t *before = NULL, *want = NULL;
    if (kind_read(t->kind, &t->item, &before, err) != 0)
        return -1;
    if (t->kind->want(&t->item, before, &want, err) != 0) {
        json_decref(before);
        return -1;
    }
    json_decref(t->before);
    json_decref(t->want);
    t->before = before;
    t->want = want;
    t->outcome = kind_state_equal(t->kind, before, want) ? TXN_SAME : TXN_CHANGE;
    return 0;
}

static int evaluate(struct txn_item *items, size_t index, struct err *err)
{
    struct txn_item *t = &items[index];
    if (!t->kind) {
        const char *near = str_nearest(t->kind_name, kind_names());
        return err_set(err, ERR_USAGE, "unknown kind of resource '%.40s'%s%s%s", t->kind_name,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    char *skip = NULL;
    if (t->kind->check(&t->item, &skip, err) != 0)
        return -1;
    if (skip) {
        t->outcome = TXN_SKIP;
        t->text = skip;
        return 0;
    }
    if (check_claims(items, index, err) != 0 || txn_item_refresh(t, err) != 0)
        return -1;
    t->text = t->kind->note ? t->kind->note(&t->item, t->before) : NULL;
    return 0;
}

void txn_items_evaluate(struct txn_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct err err = {0};
        if (evaluate(items, i, &err) != 0) {
            items[i].outcome = TXN_ERROR;
            items[i].text = str_dup(err.text);
        }
    }
}

json_t *txn_reply_item(const struct txn_item *item, const char *outcome, const char *text)
{
    json_t *out = json_object();
    jsonx_set_str(out, "kind", item->kind_name);
    jsonx_set_str(out, "id", item->item.id);
    jsonx_set_str(out, "outcome", outcome);
    jsonx_set_str(out, "text", text ? text : "");
    return out;
}

static json_t *plan_item(const struct txn_item *t)
{
    static const char *const outcomes[] = {[TXN_UNSET] = "error",
                                           [TXN_ERROR] = "error",
                                           [TXN_SKIP] = "skip",
                                           [TXN_SAME] = "same",
                                           [TXN_CHANGE] = "change"};
    json_t *out = json_object();
    jsonx_set_str(out, "kind", t->kind_name);
    jsonx_set_str(out, "id", t->item.id);
    jsonx_set_str(out, "outcome", outcomes[t->outcome]);
    AUTO(free_str)
    char *diff =
        t->outcome == TXN_CHANGE ? kind_diff(t->kind, &t->item, t->before, t->want) : str_dup("");
    jsonx_set_str(out, "diff", diff);
    jsonx_set_str(out, "reason", t->text);
    return out;
}

int resources_plan(const struct resources_env *env, const json_t *resources, json_t **out,
                   struct err *err)
{
    struct txn_item *items = NULL;
    size_t count = 0;
    if (txn_items_create(env, resources, &items, &count, err) != 0)
        return -1;
    txn_items_evaluate(items, count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        jsonx_append(list, plan_item(&items[i]));
    txn_items_destroy(items, count);
    *out = list;
    return 0;
}
