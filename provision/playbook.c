#include "provision/playbook.h"

#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "provision/expr.h"
#include "provision/playbook_parts.h"
#include "provision/site_schema.h"
#include "provision/source_map.h"
#include "provision/template.h"
#include "provision/yaml.h"

static const char *const book_keys[] = {"name", "summary", "vars", "resources", NULL};

/* Take the kind and the id out of a resource: the one key that is not a parameter's. */
static int find_kind(const struct source_map *map, const char *pointer, const json_t *raw,
                     const char **kind, struct err *err)
{
    const char *const *kinds = playbook_kind_names();
    *kind = NULL;
    for (size_t i = 0; kinds[i]; i++) {
        if (!json_object_get(raw, kinds[i]))
            continue;
        if (*kind)
            return source_err(map, pointer, err, "is both a %s and a %s; one resource is one kind",
                              *kind, kinds[i]);
        *kind = kinds[i];
    }
    if (*kind)
        return 0;
    const char *first = json_object_iter_key(json_object_iter((json_t *)raw));
    AUTO(free_str) char *hint = site_hint(first ? first : "", kinds, true);
    return source_err(map, pointer, err, "'%.60s' is not a kind of resource%s", first ? first : "",
                      hint);
}

static int check_when(const struct source_map *map, const char *pointer, const json_t *raw,
                      json_t *resource, struct err *err)
{
    AUTO(free_str) char *at = source_pointer_key(pointer, "when");
    if (!raw) {
        jsonx_set_str(resource, "when", NULL);
        return 0;
    }
    if (json_is_boolean(raw)) {
        jsonx_set_str(resource, "when", json_is_true(raw) ? "true" : "false");
        return 0;
    }
    if (!json_is_string(raw)) {
        AUTO(free_str) char *is = site_describe(raw);
        return source_err(map, at, err, "must be a condition like facts.rdma, is %s", is);
    }
    struct err cause = {0};
    AUTO(expr_release) struct expr *e = expr_compile(json_string_value(raw), &cause);
    if (!e)
        return source_err(map, at, err, "%s", cause.text);
    jsonx_set(resource, "when", json_incref((json_t *)raw));
    return 0;
}

static int check_params(const struct source_map *map, const char *pointer, const char *kind,
                        const json_t *params, struct err *err)
{
    const char *param = "";
    struct err cause = {0};
    if (playbook_params(kind, params, true, NULL, &param, &cause) != 0) {
        AUTO(free_str) char *at = *param ? source_pointer_key(pointer, param) : str_dup(pointer);
        return source_err(map, at, err, "%s", cause.text);
    }
    if (template_check(params, &cause) != 0)
        return source_err(map, pointer, err, "%s", cause.text);
    return 0;
}

static int read_id(const struct source_map *map, const char *pointer, const char *kind,
                   const json_t *raw, json_t *resource, struct err *err)
{
    AUTO(free_str) char *at = source_pointer_key(pointer, kind);
    if (json_is_null(raw) && strcmp(kind, "limits") == 0) {
        jsonx_set_str(resource, "id", "*");
        return 0;
    }
    if (!json_is_string(raw) || !*json_string_value(raw)) {
        AUTO(free_str) char *is = site_describe(raw);
        return source_err(map, at, err, "must be the id of the %s (text), is %s", kind, is);
    }
    struct err cause = {0};
    if (template_check(raw, &cause) != 0)
        return source_err(map, at, err, "%s", cause.text);
    jsonx_set(resource, "id", json_incref((json_t *)raw));
    return 0;
}

static int read_resource(const struct source_map *map, const char *pointer, const json_t *raw,
                         json_t *list, struct err *err)
{
    const char *kind = NULL;
    json_auto_t *resource = json_object();
    if (site_want_object(map, pointer, raw, err) != 0 ||
        find_kind(map, pointer, raw, &kind, err) != 0)
        return -1;
    json_auto_t *params = json_copy((json_t *)raw);
    json_object_del(params, kind);
    json_object_del(params, "when");
    jsonx_set_str(resource, "kind", kind);
    if (read_id(map, pointer, kind, json_object_get(raw, kind), resource, err) != 0 ||
        check_when(map, pointer, json_object_get(raw, "when"), resource, err) != 0 ||
        check_params(map, pointer, kind, params, err) != 0)
        return -1;
    jsonx_set(resource, "params", STEAL(params));
    jsonx_set_int(resource, "line", source_map_line(map, pointer));
    jsonx_append(list, STEAL(resource));
    return 0;
}

static int read_resources(const struct source_map *map, const json_t *raw, json_t *book,
                          struct err *err)
{
    json_t *list = json_array();
    jsonx_set(book, "resources", list);
    if (!raw)
        return source_err(map, "", err, "key 'resources' is missing");
    if (site_want_array(map, "/resources", raw, err) != 0)
        return -1;
    size_t i;
    json_t *item;
    json_array_foreach(raw, i, item)
    {
        AUTO(free_str) char *pointer = source_pointer_index("/resources", i);
        if (read_resource(map, pointer, item, list, err) != 0)
            return -1;
    }
    return 0;
}

static int check_keys(const struct source_map *map, const json_t *raw, struct err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)raw, key, value)
    {
        bool known = false;
        for (size_t i = 0; book_keys[i]; i++)
            known = known || strcmp(key, book_keys[i]) == 0;
        if (known)
            continue;
        AUTO(free_str) char *at = source_pointer_key("", key);
        AUTO(free_str) char *hint = site_hint(key, book_keys, true);
        return source_err(map, at, err, "unknown key%s", hint);
    }
    return 0;
}

/* "nccl" of "some/where/nccl.yml"; NULL for another form of name.  The caller frees. */
static char *stem_of(const char *source)
{
    const char *slash = strrchr(source, '/');
    const char *base = slash ? slash + 1 : source;
    if (!str_has_suffix(base, ".yml") || strlen(base) == strlen(".yml"))
        return NULL;
    return str_printf("%.*s", (int)(strlen(base) - strlen(".yml")), base);
}

static int read_head(const struct source_map *map, const json_t *raw, json_t *book, struct err *err)
{
    static const struct site_key name_row = {.key = "name", .type = SITE_NAME};
    static const struct site_key summary_row = {.key = "summary", .type = SITE_TEXT};
    const json_t *name = json_object_get(raw, "name");
    const json_t *summary = json_object_get(raw, "summary");
    const json_t *vars = json_object_get(raw, "vars");
    if (!name || !summary)
        return source_err(map, "", err, "key '%s' is missing", name ? "summary" : "name");
    json_t *checked = NULL;
    if (site_convert(map, "/name", &name_row, name, &checked, err) != 0)
        return -1;
    jsonx_set(book, "name", checked);
    AUTO(free_str) char *stem = stem_of(source_map_file(map));
    if (stem && strcmp(stem, json_string_value(checked)) != 0)
        return source_err(map, "/name", err, "'%s' must be the file's name, '%s'",
                          json_string_value(checked), stem);
    if (site_convert(map, "/summary", &summary_row, summary, &checked, err) != 0)
        return -1;
    jsonx_set(book, "summary", checked);
    if (vars && !json_is_null(vars) && site_want_object(map, "/vars", vars, err) != 0)
        return -1;
    jsonx_set(book, "vars", json_is_object(vars) ? json_deep_copy(vars) : json_object());
    return 0;
}

int playbook_parse(const char *text, size_t len, const char *source, json_t **out, struct err *err)
{
    AUTO(source_map_release) struct source_map *map = source_map_create(source);
    json_auto_t *raw = NULL;
    json_auto_t *book = json_object();
    if (yaml_parse(text, len, source, map, &raw, err) != 0 ||
        site_want_object(map, "", raw, err) != 0 || check_keys(map, raw, err) != 0 ||
        read_head(map, raw, book, err) != 0 ||
        read_resources(map, json_object_get(raw, "resources"), book, err) != 0)
        return -1;
    jsonx_set_str(book, "path", source);
    *out = STEAL(book);
    return 0;
}

int playbook_load(const char *path, json_t **out, struct err *err)
{
    AUTO(free_str) char *text = NULL;
    size_t len = 0;
    if (fs_read(path, YAML_MAX_BYTES, &text, &len, err) != 0)
        return -1;
    return playbook_parse(text, len, path, out, err);
}
