/* env_file: some variables in a file of variables; the other lines stay. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/resources/env_text.h"
#include "agents/resources/file_state.h"
#include "agents/resources/kind.h"
#include "common/jsonx.h"

struct wanted {
    enum env_format format;
    json_t *set; /* name -> text or null */
};

static int add(json_t *set, enum env_format format, const char *name, const json_t *value,
               struct err *err)
{
    AUTO(free_str) char *text = NULL;
    if (json_is_string(value))
        text = str_dup(json_string_value(value));
    else if (json_is_integer(value))
        text = str_printf("%lld", (long long)json_integer_value(value));
    else if (json_is_boolean(value))
        text = str_dup(json_is_true(value) ? "1" : "0");
    else if (!json_is_null(value))
        return err_set(err, ERR_USAGE,
                       "the value of %.60s must be a text, an integer, true, false or null (to "
                       "remove it)%s",
                       name, json_is_real(value) ? "; two settings run together?" : "");
    if (env_text_check(format, name, text ? text : "", err) != 0)
        return -1;
    jsonx_set_str(set, name, text);
    return 0;
}

static int parse(const struct kind_item *item, struct wanted *w, struct err *err)
{
    static const char *const keys[] = {"set", "format", NULL};
    const char *format = NULL;
    const json_t *set;
    *w = (struct wanted){0};
    if (file_state_check_path(item->id, err) != 0 ||
        jsonx_only_keys(item->params, "env_file", keys, err) != 0 ||
        jsonx_get_str(item->params, "env_file", "format", &format, err) != 0 ||
        jsonx_get_obj(item->params, "env_file", "set", &set, err) != 0)
        return -1;
    w->format = env_text_format_find(format);
    if (w->format == ENV_FORMAT_UNSET)
        return err_set(err, ERR_USAGE, "format '%.40s' must be 'nccl', 'profile' or 'systemd'",
                       format);
    w->set = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)set, key, value)
    {
        if (add(w->set, w->format, key, value, err) != 0) {
            json_decref(w->set);
            w->set = NULL;
            return -1;
        }
    }
    return 0;
}

static int check(const struct kind_item *item, char **skip, struct err *err)
{
    struct wanted w;
    int rc = parse(item, &w, err);
    json_decref(w.set);
    return rc;
}

/* Mode and owner stay as they are; a file that is new, and would be empty, is not made. */
static json_t *with_text(const json_t *before, const char *text)
{
    if (!file_state_exists(before))
        return text[0] ? file_state_own(text) : file_state_absent();
    json_t *fresh = file_state_own(text);
    json_t *state = json_deep_copy(before);
    jsonx_set(state, "content_b64", json_incref(json_object_get(fresh, "content_b64")));
    json_decref(fresh);
    return state;
}

static int want(const struct kind_item *item, const json_t *before, json_t **out, struct err *err)
{
    struct wanted w;
    AUTO(free_str) char *text = NULL;
    size_t len = 0;
    if (parse(item, &w, err) != 0)
        return -1;
    int rc = file_state_content(before, &text, &len, err);
    if (rc == 0 && strlen(text) != len)
        rc = err_set(err, ERR_DATA, "%s holds a zero byte and is no file of variables", item->id);
    if (rc == 0) {
        AUTO(free_str) char *merged = env_text_merge(w.format, text, w.set);
        *out = with_text(before, merged);
    }
    json_decref(w.set);
    return rc;
}

static char *path(const struct kind_item *item)
{
    return str_dup(item->id);
}

const struct resource_kind resource_kind_env_file = {
    .name = "env_file",
    .shared = true,
    .check = check,
    .path = path,
    .want = want,
};
