#include "agents/resources/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "agents/resources/file_state.h"
#include "common/hash.h"
#include "common/jsonx.h"

static char *manifest_path(const struct resources_env *env)
{
    return str_printf("%s/config.json", env->state_dir);
}

json_t *manifest_item(const struct resource_kind *kind, const struct kind_item *item,
                      const json_t *state)
{
    json_t *managed = kind_managed(kind, state);
    AUTO(free_str) char *canonical = jsonx_canonical(managed);
    json_decref(managed);
    struct hash h = hash_of(canonical, strlen(canonical));
    char hex[HASH_HEX_BYTES];
    hash_hex(&h, hex);
    json_t *out = json_object();
    jsonx_set_str(out, "kind", kind->name);
    jsonx_set_str(out, "id", item->id);
    jsonx_set_str(out, "digest", hex);
    json_t *where = kind->locator ? json_object_get(item->params, kind->locator) : NULL;
    if (where) {
        json_t *params = json_object();
        jsonx_set(params, kind->locator, json_incref(where));
        jsonx_set(out, "params", params);
    }
    return out;
}

json_t *manifest_empty(void)
{
    json_t *manifest = json_object();
    jsonx_set_int(manifest, "v", 1);
    jsonx_set_str(manifest, "run", NULL);
    jsonx_set(manifest, "items", json_array());
    return manifest;
}

/* Position of kind and id, or where they belong; *found says which. */
static size_t find(const json_t *items, const char *kind, const char *id, bool *found)
{
    size_t i = 0;
    *found = false;
    for (; i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        int order = strcmp(jsonx_str_or(item, "kind", ""), kind);
        if (order == 0)
            order = strcmp(jsonx_str_or(item, "id", ""), id);
        *found = order == 0;
        if (order >= 0)
            break;
    }
    return i;
}

void manifest_put(json_t *manifest, json_t *item)
{
    json_t *items = json_object_get(manifest, "items");
    bool found;
    size_t i = find(items, jsonx_str_or(item, "kind", ""), jsonx_str_or(item, "id", ""), &found);
    if (found)
        json_array_set_new(items, i, item);
    else
        json_array_insert_new(items, i, item);
}

void manifest_drop(json_t *manifest, const char *kind, const char *id)
{
    json_t *items = json_object_get(manifest, "items");
    bool found;
    size_t i = find(items, kind, id, &found);
    if (found)
        json_array_remove(items, i);
}

json_t *manifest_get(const json_t *manifest, const char *kind, const char *id)
{
    json_t *items = json_object_get(manifest, "items");
    bool found;
    size_t i = find(items, kind, id, &found);
    return found ? json_array_get(items, i) : NULL;
}

int manifest_write(const struct resources_env *env, const json_t *manifest, struct err *err)
{
    char *text = json_dumps(manifest, JSON_INDENT(1) | JSON_SORT_KEYS);
    AUTO(free_str) char *whole = str_printf("%s\n", text);
    free(text);
    AUTO(free_str) char *path = manifest_path(env);
    json_t *state = file_state_own(whole);
    kind_step(env, "manifest.write");
    int rc = file_state_apply(env, path, state, err);
    kind_step(env, "manifest.written");
    json_decref(state);
    return rc;
}

static int check_item(const json_t *item, const char *what, struct err *err)
{
    static const char *const keys[] = {"kind", "id", "digest", "params", NULL};
    const char *kind, *text;
    if (!json_is_object(item))
        return err_set(err, ERR_DATA, "%s: an item is not an object", what);
    if (jsonx_only_keys(item, what, keys, err) != 0 ||
        jsonx_get_str(item, what, "kind", &kind, err) != 0 ||
        jsonx_get_str(item, what, "id", &text, err) != 0 ||
        jsonx_get_str(item, what, "digest", &text, err) != 0)
        return -1;
    if (!kind_find(kind))
        return err_set(err, ERR_DATA, "%s: unknown kind '%.40s'", what, kind);
    return 0;
}

static int check(const json_t *manifest, const char *what, const json_t **items, struct err *err)
{
    static const char *const keys[] = {"v", "run", "items", NULL};
    int64_t version;
    if (!json_is_object(manifest))
        return err_set(err, ERR_DATA, "%s is not an object", what);
    if (jsonx_only_keys(manifest, what, keys, err) != 0 ||
        jsonx_get_int(manifest, what, "v", &version, err) != 0 ||
        jsonx_get_arr(manifest, what, "items", items, err) != 0)
        return -1;
    if (version != 1)
        return err_set(err, ERR_DATA, "%s: version %lld is unknown; this program reads 1", what,
                       (long long)version);
    for (size_t i = 0; i < json_array_size(*items); i++) {
        if (check_item(json_array_get(*items, i), what, err) != 0)
            return -1;
    }
    return 0;
}

int resources_manifest(const struct resources_env *env, json_t **out, struct err *err)
{
    AUTO(free_str) char *path = manifest_path(env);
    json_t *state = NULL;
    if (file_state_read(env, path, &state, err) != 0)
        return -1;
    AUTO(free_str) char *text = NULL;
    size_t len = 0;
    bool exists = file_state_exists(state);
    int rc = file_state_content(state, &text, &len, err);
    json_decref(state);
    if (rc != 0)
        return -1;
    if (!exists) {
        *out = manifest_empty();
        return 0;
    }
    json_t *manifest = NULL;
    const json_t *items;
    if (jsonx_parse(text, len, path, &manifest, err) != 0)
        return -1;
    if (check(manifest, path, &items, err) != 0) {
        json_decref(manifest);
        return -1;
    }
    *out = manifest;
    return 0;
}

/* The item as it is now.  What cannot be read gets a digest that no state has. */
static json_t *fresh(const struct resources_env *env, const json_t *item)
{
    const struct resource_kind *kind = kind_find(jsonx_str_or(item, "kind", ""));
    json_t *none = json_object();
    const json_t *params = json_object_get(item, "params");
    struct kind_item it = {env, jsonx_str_or(item, "id", ""),
                           json_is_object(params) ? params : none};
    struct err err = {0};
    json_t *state = NULL, *out;
    if (kind_read(kind, &it, &state, &err) == 0) {
        out = manifest_item(kind, &it, state);
    } else {
        out = json_deep_copy(item);
        jsonx_set_str(out, "digest", "unreadable");
    }
    json_decref(state);
    json_decref(none);
    return out;
}

int resources_manifest_now(const struct resources_env *env, const json_t *manifest, json_t **now,
                           struct err *err)
{
    const json_t *items = NULL;
    if (check(manifest, "the manifest", &items, err) != 0)
        return -1;
    json_t *out = json_deep_copy(manifest);
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(items); i++)
        jsonx_append(list, fresh(env, json_array_get(items, i)));
    jsonx_set(out, "items", list);
    *now = out;
    return 0;
}
