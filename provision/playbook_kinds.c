#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"
#include "provision/playbook_parts.h"
#include "provision/site_schema.h"

enum { PARAMS_MAX = 8 };

enum param_type {
    PARAM_TEXT = 1, /* string */
    PARAM_BOOL,
    PARAM_INT,    /* within min..max */
    PARAM_MODE,   /* "0644" */
    PARAM_SCALAR, /* string or number, kept as text */
    PARAM_MAP,    /* name -> string or number, kept as text */
    PARAM_LIMIT,  /* "unlimited", a size with unit or bytes */
    PARAM_CHOICE
};

struct param {
    const char *kind, *name;
    enum param_type type;
    bool required;
    int64_t min, max;
    const char *const *choices;
};

static const char *const file_states[] = {"present", "absent", NULL};
static const char *const env_formats[] = {"nccl", "profile", "systemd", NULL};

static const struct playbook_kind_row kinds[] = {
    {"file", "absolute path", "content, mode (0644), owner (root), group (root), state (present)"},
    {"modprobe_options", "module", "options { parameter: value }, file"},
    {"module", "module", "load (true), boot (true)"},
    {"sysctl", "key", "value, persist (true)"},
    {"limits", "domain (*)", "memlock (unlimited), nofile"},
    {"env_file", "absolute path", "set { VARIABLE: value }, format (nccl, profile, systemd)"},
    {"link", "interface", "mtu, up"},
};

static const char *const names[] = {
    "file", "modprobe_options", "module", "sysctl", "limits", "env_file", "link", NULL,
};
_Static_assert(ARRAY_LEN(names) == ARRAY_LEN(kinds) + 1, "a name per kind");

static const struct param params[] = {
    {.kind = "file", .name = "content", .type = PARAM_TEXT},
    {.kind = "file", .name = "mode", .type = PARAM_MODE},
    {.kind = "file", .name = "owner", .type = PARAM_TEXT},
    {.kind = "file", .name = "group", .type = PARAM_TEXT},
    {.kind = "file", .name = "state", .type = PARAM_CHOICE, .choices = file_states},
    {.kind = "modprobe_options", .name = "options", .type = PARAM_MAP, .required = true},
    {.kind = "modprobe_options", .name = "file", .type = PARAM_TEXT},
    {.kind = "module", .name = "load", .type = PARAM_BOOL},
    {.kind = "module", .name = "boot", .type = PARAM_BOOL},
    {.kind = "sysctl", .name = "value", .type = PARAM_SCALAR, .required = true},
    {.kind = "sysctl", .name = "persist", .type = PARAM_BOOL},
    {.kind = "limits", .name = "memlock", .type = PARAM_LIMIT},
    {.kind = "limits", .name = "nofile", .type = PARAM_INT, .min = 64, .max = 1073741816},
    {.kind = "env_file", .name = "set", .type = PARAM_MAP, .required = true},
    {.kind = "env_file",
     .name = "format",
     .type = PARAM_CHOICE,
     .required = true,
     .choices = env_formats},
    {.kind = "link", .name = "mtu", .type = PARAM_INT, .min = 68, .max = 65520},
    {.kind = "link", .name = "up", .type = PARAM_BOOL},
};

const struct playbook_kind_row *playbook_kinds(size_t *count)
{
    *count = ARRAY_LEN(kinds);
    return kinds;
}

const char *const *playbook_kind_names(void)
{
    return names;
}

typedef int check_fn(const struct param *row, const json_t *value, json_t **out, struct err *err);

static int wrong(const json_t *value, const char *wanted, struct err *err)
{
    AUTO(free_str) char *is = site_describe(value);
    return err_set(err, ERR_USAGE, "must be %s, is %s", wanted, is);
}

static int check_text(const struct param *row, const json_t *value, json_t **out, struct err *err)
{
    if (!json_is_string(value))
        return wrong(value, "text (quote it)", err);
    *out = json_incref((json_t *)value);
    return 0;
}

static int check_bool(const struct param *row, const json_t *value, json_t **out, struct err *err)
{
    if (!json_is_boolean(value))
        return wrong(value, "true or false", err);
    *out = json_incref((json_t *)value);
    return 0;
}

static int check_int(const struct param *row, const json_t *value, json_t **out, struct err *err)
{
    if (json_is_real(value)) {
        AUTO(free_str) char *is = site_describe(value);
        return err_set(err, ERR_USAGE, "must be an integer, is %s; two settings run together?", is);
    }
    if (!json_is_integer(value))
        return wrong(value, "an integer", err);
    json_int_t n = json_integer_value(value);
    if (n < row->min || n > row->max)
        return err_set(err, ERR_USAGE, "%lld is out of range (%lld to %lld)", (long long)n,
                       (long long)row->min, (long long)row->max);
    *out = json_incref((json_t *)value);
    return 0;
}

static int check_mode(const struct param *row, const json_t *value, json_t **out, struct err *err)
{
    const char *text = json_string_value(value);
    size_t len = text ? strlen(text) : 0;
    if (len < 3 || len > 4 || text[strspn(text, "01234567")])
        return wrong(value, "a file mode like 0644", err);
    *out = json_incref((json_t *)value);
    return 0;
}

static int check_scalar(const struct param *row, const json_t *value, json_t **out, struct err *err)
{
    if (json_is_boolean(value))
        return wrong(value, "text or a number (write 1 or 0, or quote it)", err);
    if (!json_is_string(value) && !json_is_number(value))
        return wrong(value, "text or a number", err);
    /* The kernel has no module parameter that is a fraction. */
    if (json_is_real(value) && strcmp(row->kind, "modprobe_options") == 0) {
        AUTO(free_str) char *is = site_describe(value);
        return err_set(err, ERR_USAGE,
                       "must be an integer or text, is %s; two settings run together?", is);
    }
    AUTO(free_str)
    char *text = json_is_string(value) ? str_dup(json_string_value(value)) : site_describe(value);
    if (strpbrk(text, "\n\r"))
        return err_set(err, ERR_USAGE, "must be one line; two settings run together?");
    *out = json_string(text);
    return 0;
}

static int check_map(const struct param *row, const json_t *value, json_t **out, struct err *err)
{
    if (!json_is_object(value))
        return wrong(value, "a mapping { name: value }", err);
    if (json_object_size(value) == 0)
        return err_set(err, ERR_USAGE, "is empty");
    json_auto_t *built = json_object();
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)value, key, member)
    {
        json_t *scalar = NULL;
        if (check_scalar(row, member, &scalar, err) != 0)
            return err_wrap(err, "%.60s: ", key);
        jsonx_set(built, key, scalar);
    }
    *out = STEAL(built);
    return 0;
}

static int check_limit(const struct param *row, const json_t *value, json_t **out, struct err *err)
{
    const char *text = json_string_value(value);
    int64_t bytes = json_is_integer(value) ? json_integer_value(value) : -1;
    struct err cause = {0};
    bool unlimited = text && strcmp(text, "unlimited") == 0;
    if (text && !unlimited && units_parse_bytes(text, &bytes, &cause) != 0)
        return err_set(err, ERR_USAGE, "must be unlimited or a size: %s", cause.text);
    if (!unlimited && bytes < 0)
        return wrong(value, "unlimited or a size like 64GiB", err);
    *out = json_incref((json_t *)value);
    return 0;
}

static int check_choice(const struct param *row, const json_t *value, json_t **out, struct err *err)
{
    const char *word = json_string_value(value);
    for (size_t i = 0; word && row->choices[i]; i++) {
        if (strcmp(word, row->choices[i]) == 0) {
            *out = json_incref((json_t *)value);
            return 0;
        }
    }
    AUTO(free_str) char *choices = site_join(row->choices);
    AUTO(free_str) char *hint = site_hint(word ? word : "", row->choices, false);
    AUTO(free_str) char *is = site_describe(value);
    return err_set(err, ERR_USAGE, "must be one of %s, is %s%s", choices, is, hint);
}

static check_fn *const checks[] = {
    [PARAM_TEXT] = check_text,   [PARAM_BOOL] = check_bool,     [PARAM_INT] = check_int,
    [PARAM_MODE] = check_mode,   [PARAM_SCALAR] = check_scalar, [PARAM_MAP] = check_map,
    [PARAM_LIMIT] = check_limit, [PARAM_CHOICE] = check_choice,
};

static const struct param *find(const char *kind, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(params); i++)
        if (strcmp(params[i].kind, kind) == 0 && strcmp(params[i].name, name) == 0)
            return &params[i];
    return NULL;
}

static int unknown(const char *kind, const char *name, struct err *err)
{
    const char *known[PARAMS_MAX + 2] = {NULL};
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(params) && n < PARAMS_MAX; i++)
        if (strcmp(params[i].kind, kind) == 0)
            known[n++] = params[i].name;
    known[n] = "when";
    AUTO(free_str) char *hint = site_hint(name, known, true);
    return err_set(err, ERR_USAGE, "unknown parameter of %s%s", kind, hint);
}

static bool is_template(const json_t *value)
{
    return json_is_string(value) && strstr(json_string_value(value), "${") != NULL;
}

static int check_one(const struct param *row, const json_t *value, bool templates, json_t **out,
                     struct err *err)
{
    if (!templates || !is_template(value))
        return checks[row->type](row, value, out, err);
    *out = json_incref((json_t *)value);
    return 0;
}

int playbook_params(const char *kind, const json_t *given, bool templates, json_t **out,
                    const char **param, struct err *err)
{
    json_auto_t *built = json_object();
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)given, name, value)
    {
        const struct param *row = find(kind, name);
        json_t *checked = NULL;
        *param = name;
        if (!row)
            return unknown(kind, name, err);
        if (check_one(row, value, templates, &checked, err) != 0)
            return -1;
        jsonx_set(built, name, checked);
    }
    *param = "";
    for (size_t i = 0; i < ARRAY_LEN(params); i++)
        if (params[i].required && strcmp(params[i].kind, kind) == 0 &&
            !json_object_get(given, params[i].name))
            return err_set(err, ERR_USAGE, "parameter '%s' of %s is missing", params[i].name, kind);
    if (out)
        *out = STEAL(built);
    return 0;
}
