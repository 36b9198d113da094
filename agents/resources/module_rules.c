#include "agents/resources/module_rules.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "agents/resources/exec.h"
#include "common/jsonx.h"
#include "common/units.h"

enum rule_type { RULE_INTEGER = 1, RULE_REFUSED, RULE_PREFIX };

struct module_row {
    const char *name;
    int closed;
    const char *driver, *inert;
};

struct rule_row {
    enum rule_type type;
    const char *module, *parameter;
    int64_t min, max, min2, max2;
    const char *text;
};

#define MODULE(module_, closed_, driver_, inert_) {#module_, closed_, driver_, inert_},
#define INTEGER(module_, parameter_, min_, max_, min2_, max2_, text_)
#define REFUSED(module_, parameter_, why_)
#define PREFIX(module_, prefix_)
static const struct module_row modules[] = {
#include "agents/resources/module_rules.def"
};
#undef MODULE
#undef INTEGER
#undef REFUSED
#undef PREFIX

#define MODULE(module_, closed_, driver_, inert_)
#define INTEGER(module_, parameter_, min_, max_, min2_, max2_, text_)                              \
    {RULE_INTEGER, #module_, #parameter_, min_, max_, min2_, max2_, text_},
#define REFUSED(module_, parameter_, why_) {RULE_REFUSED, #module_, #parameter_, 0, 0, 0, 0, why_},
#define PREFIX(module_, prefix_) {RULE_PREFIX, #module_, prefix_, 0, 0, 0, 0, NULL},
static const struct rule_row rules[] = {
#include "agents/resources/module_rules.def"
};
#undef MODULE
#undef INTEGER
#undef REFUSED
#undef PREFIX

/* --- what the installed module says --------------------------------------------------------- */

/* Parameter -> type ("int", "charp", "" when unknown); NULL when nothing is known. */
struct known {
    json_t *types;
    const char *source;
};

/* modinfo -F parm: one "name:description (type)" per line; a description may hold newlines. */
static json_t *parse_modinfo(const char *text)
{
    json_t *types = json_object();
    while (*text) {
        size_t len = strcspn(text, "\n");
        AUTO(free_str) char *line = str_printf("%.*s", (int)len, text);
        char *colon = strchr(line, ':'), *open = strrchr(line, '(');
        if (colon)
            *colon = '\0';
        if (colon && kind_is_name(line, "")) {
            size_t end = open && open > colon ? strcspn(open + 1, ")") : 0;
            AUTO(free_str) char *type = str_printf("%.*s", (int)end, open ? open + 1 : "");
            jsonx_set_str(types, line, type);
        }
        text += len + (text[len] == '\n');
    }
    return types;
}

static json_t *ask_modinfo(const struct resources_env *env, const char *module)
{
    AUTO(free_str) char *program = exec_find(env->root, "modinfo");
    if (!program)
        return NULL;
    const char *const argv[] = {program, "-F", "parm", "--", module, NULL};
    struct exec_result result = {0};
    struct err ignored = {0};
    if (exec_run(argv, 10000, &result, &ignored) != 0)
        return NULL;
    json_t *types = result.status == 0 ? parse_modinfo(result.out) : NULL;
    exec_release(&result);
    return types;
}

static bool is_integer(const char *text)
{
    struct err ignored = {0};
    int64_t number;
    return text && units_parse_int(text, INT64_MIN, INT64_MAX, &number, &ignored) == 0;
}

/* Parameters of the loaded module; a value that reads as an integer makes it one. */
static json_t *ask_sysfs(const struct resources_env *env, const char *module)
{
    AUTO(free_str) char *dir = str_printf("/sys/module/%s/parameters", module);
    char **names = NULL;
    size_t count = 0;
    struct err ignored = {0};
    if (!fs_exists_at(env->root, dir) || fs_list_at(env->root, dir, &names, &count, &ignored) != 0)
        return NULL;
    json_t *types = json_object();
    for (size_t i = 0; i < count; i++) {
        AUTO(free_str) char *file = str_printf("%s/%s", dir, names[i]);
        AUTO(free_str) char *value = fs_read_line_at(env->root, file);
        jsonx_set_str(types, names[i], is_integer(value) ? "int" : "");
    }
    fs_list_free(names, count);
    return types;
}

static char *list_names(const json_t *types)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)types, key, value)
    {
        strbuf_printf(&out, "%s%s", out.len ? ", " : "", key);
    }
    return out.data;
}

/* --- one parameter -------------------------------------------------------------------------- */

static const struct rule_row *find_rule(const char *module, const char *parameter)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        const struct rule_row *r = &rules[i];
        if (strcmp(r->module, module) != 0)
            continue;
        if (r->type == RULE_PREFIX ? str_has_prefix(parameter, r->parameter)
                                   : strcmp(r->parameter, parameter) == 0)
            return r;
    }
    return NULL;
}

static const struct module_row *find_module(const char *module)
{
    for (size_t i = 0; i < ARRAY_LEN(modules); i++) {
        if (strcmp(modules[i].name, module) == 0)
            return &modules[i];
    }
    return NULL;
}

static int check_integer(const char *module, const char *parameter, const char *value,
                         int64_t *number, struct err *err)
{
    if (units_parse_int(value, INT64_MIN, INT64_MAX, number, err) != 0)
        return err_wrap(err, "%s of %s: ", parameter, module);
    return 0;
}

static int check_rule(const struct rule_row *r, const char *value, struct err *err)
{
    if (r->type == RULE_REFUSED)
        return err_set(err, ERR_USAGE, "%s %s: %s", r->module, r->parameter, r->text);
    if (r->type == RULE_PREFIX)
        return 0;
    int64_t n = 0;
    if (check_integer(r->module, r->parameter, value, &n, err) != 0)
        return -1;
    if ((n >= r->min && n <= r->max) || (n >= r->min2 && n <= r->max2))
        return 0;
    AUTO(free_str)
    char *second = r->min2 == r->min
                       ? str_dup("")
                       : str_printf(" or %lld..%lld", (long long)r->min2, (long long)r->max2);
    return err_set(err, ERR_USAGE, "%s of %s must be %lld..%lld%s, is %lld (%s)", r->parameter,
                   r->module, (long long)r->min, (long long)r->max, second, (long long)n, r->text);
}

/* A number with a fraction: no kernel parameter takes one, so two settings have run together. */
static bool is_fraction(const char *value)
{
    const char *p = value + (value[0] == '-' || value[0] == '+');
    size_t whole = strspn(p, "0123456789");
    return whole > 0 && p[whole] == '.' &&
           strspn(p + whole + 1, "0123456789") == strlen(p + whole + 1);
}

/* Blanks and quotes separate settings in modprobe.d, whose files hold one command per line. */
static int check_text(const char *module, const char *parameter, const char *value, struct err *err)
{
    if (!kind_is_name(parameter, ""))
        return err_set(err, ERR_USAGE,
                       "'%.60s' is not the name of a parameter of %s: letters, digits and '_'",
                       parameter, module);
    if (value[0] == '\0')
        return err_set(err, ERR_USAGE, "%s of %s has an empty value", parameter, module);
    for (const char *p = value; *p; p++) {
        if (isgraph((unsigned char)*p) && !strchr("\"'\\#", *p))
            continue;
        return err_set(err, ERR_USAGE,
                       "the value '%.60s' of %s (%s) holds a blank, a quote or a control "
                       "character; two settings run together?",
                       value, parameter, module);
    }
    return 0;
}

static int check_parameter(const char *module, const struct known *known, const char *parameter,
                           const char *value, struct err *err)
{
    const struct rule_row *rule = find_rule(module, parameter);
    const struct module_row *row = find_module(module);
    const char *type =
        known->types ? json_string_value(json_object_get(known->types, parameter)) : NULL;
    if (check_text(module, parameter, value, err) != 0)
        return -1;
    if (rule && (rule->type == RULE_REFUSED || !known->types || type || rule->type == RULE_PREFIX))
        return check_rule(rule, value, err);
    if (known->types && !type) {
        AUTO(free_str) char *names = list_names(known->types);
        return err_set(err, ERR_USAGE, "%s has no parameter '%s'; %s lists: %s", module, parameter,
                       known->source, names[0] ? names : "none");
    }
    if (row && row->closed)
        return err_set(err, ERR_USAGE, "%s has no parameter '%s'", module, parameter);
    int64_t number;
    bool text = type && (strstr(type, "charp") || strcmp(type, "string") == 0);
    bool integer = type && (strcmp(type, "int") == 0 || strcmp(type, "uint") == 0 ||
                            strcmp(type, "short") == 0 || strcmp(type, "ushort") == 0 ||
                            strcmp(type, "long") == 0 || strcmp(type, "ulong") == 0 ||
                            strcmp(type, "byte") == 0);
    return integer || (!text && is_fraction(value))
               ? check_integer(module, parameter, value, &number, err)
               : 0;
}

/* --- the module ----------------------------------------------------------------------------- */

/* Does a driver's directory hold a device?  Devices are links named by their PCI address. */
static bool is_bound(const struct resources_env *env, const char *driver)
{
    AUTO(free_str) char *dir = str_printf("/sys/bus/pci/drivers/%s", driver);
    char **names = NULL;
    size_t count = 0;
    bool bound = false;
    struct err ignored = {0};
    if (fs_list_at(env->root, dir, &names, &count, &ignored) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        bound = bound || (strchr(names[i], ':') && strchr(names[i], '.'));
    fs_list_free(names, count);
    return bound;
}

char *module_rules_name(const char *text, struct err *err)
{
    if (!kind_is_name(text, "-") || text[0] == '-' || strlen(text) > 56) {
        err_set(err, ERR_USAGE, "'%.60s' is not the name of a module: letters, digits, '_' and '-'",
                text);
        return NULL;
    }
    char *name = str_dup(text);
    for (char *p = name; *p; p++) {
        if (*p == '-')
            *p = '_';
    }
    return name;
}

int module_rules_check(const struct resources_env *env, const char *module, const json_t *options,
                       char **skip, struct err *err)
{
    struct known known = {ask_modinfo(env, module), "modinfo"};
    if (!known.types)
        known = (struct known){ask_sysfs(env, module), "/sys/module"};
    int rc = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)options, key, value)
    {
        rc = check_parameter(module, &known, key, json_string_value(value), err);
        if (rc != 0)
            break;
    }
    json_decref(known.types);
    const struct module_row *row = find_module(module);
    if (rc == 0 && row && row->driver && !is_bound(env, row->driver))
        *skip = str_dup(row->inert);
    return rc;
}
