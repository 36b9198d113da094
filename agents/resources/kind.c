#include "agents/resources/kind.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "agents/resources/file_state.h"
#include "common/jsonx.h"

#define KIND(name) extern const struct resource_kind resource_kind_##name;
#include "agents/resources/kinds.def"
#undef KIND

static const struct resource_kind *const kinds[] = {
#define KIND(name) &resource_kind_##name,
#include "agents/resources/kinds.def"
#undef KIND
    NULL};

static const char *const names[] = {
#define KIND(name) #name,
#include "agents/resources/kinds.def"
#undef KIND
    NULL};

const struct resource_kind *kind_find(const char *name)
{
    for (size_t i = 0; kinds[i]; i++) {
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    }
    return NULL;
}

const char *const *kind_names(void)
{
    return names;
}

int kind_read(const struct resource_kind *kind, const struct kind_item *item, json_t **state,
              struct err *err)
{
    if (kind->read)
        return kind->read(item, state, err);
    AUTO(free_str) char *path = kind->path(item);
    return file_state_read(item->env, path, state, err);
}

int kind_apply(const struct resource_kind *kind, const struct kind_item *item, const json_t *state,
               struct err *err)
{
    if (kind->apply)
        return kind->apply(item, state, err);
    AUTO(free_str) char *path = kind->path(item);
    return file_state_apply(item->env, path, state, err);
}

json_t *kind_managed(const struct resource_kind *kind, const json_t *state)
{
    json_t *managed = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)state, key, value)
    {
        if ((kind->info && strcmp(key, kind->info) == 0) || strcmp(key, FILE_STATE_INFO) == 0)
            continue;
        json_t *copy = json_deep_copy(value);
        if (json_is_object(copy))
            json_object_del(copy, FILE_STATE_INFO);
        jsonx_set(managed, key, copy);
    }
    return managed;
}

bool kind_state_equal(const struct resource_kind *kind, const json_t *a, const json_t *b)
{
    json_t *ma = kind_managed(kind, a), *mb = kind_managed(kind, b);
    bool equal = json_equal(ma, mb) != 0;
    json_decref(ma);
    json_decref(mb);
    return equal;
}

static bool is_file_state(const json_t *value)
{
    return json_is_object(value) && json_object_get(value, "exists");
}

static char *scalar_text(const json_t *value)
{
    if (!value)
        return str_dup("(none)");
    if (json_is_string(value))
        return str_dup(json_string_value(value));
    return json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_COMPACT);
}

char *kind_diff(const struct resource_kind *kind, const struct kind_item *item,
                const json_t *before, const json_t *want)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    AUTO(free_str) char *path = kind->path ? kind->path(item) : NULL;
    if (is_file_state(want)) {
        file_state_diff(&out, path, before, want);
        return out.data;
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)want, key, value)
    {
        const json_t *old = json_object_get(before, key);
        if ((kind->info && strcmp(key, kind->info) == 0) || (old && json_equal(old, value)))
            continue;
        if (is_file_state(value)) {
            file_state_diff(&out, path, old, value);
            continue;
        }
        AUTO(free_str) char *from = scalar_text(old);
        AUTO(free_str) char *to = scalar_text(value);
        strbuf_printf(&out, "%s: %s -> %s\n", key, from, to);
    }
    return out.data;
}

void kind_step(const struct resources_env *env, const char *point)
{
    if (env->step)
        env->step(env->step_ctx, point);
}

bool kind_root_is_real(const struct resources_env *env)
{
    return env->root->path[0] == '\0';
}

bool kind_is_name(const char *text, const char *more)
{
    size_t len = strlen(text);
    if (len == 0 || len > 128)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char)text[i]) && text[i] != '_' && !strchr(more, text[i]))
            return false;
    }
    return true;
}
