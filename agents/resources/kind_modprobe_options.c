/* modprobe_options: one "options" line for a module in a file of its own in /etc/modprobe.d. */
#include <stdlib.h>
#include <string.h>

#include "agents/resources/file_state.h"
#include "agents/resources/kind.h"
#include "agents/resources/module_rules.h"
#include "common/jsonx.h"

#define OPTIONS_DIR "/etc/modprobe.d/"

/* Parameter -> text from the parameters as written (text, integer, boolean).  New reference. */
static int normalise(const struct kind_item *item, json_t **out, struct err *err)
{
    const json_t *options;
    if (jsonx_get_obj(item->params, "modprobe_options", "options", &options, err) != 0)
        return -1;
    json_t *result = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)options, key, value)
    {
        AUTO(free_str) char *text = NULL;
        AUTO(free_str) char *name = str_dup(key);
        for (char *p = name; *p; p++) {
            if (*p == '-')
                *p = '_';
        }
        if (json_is_string(value))
            text = str_dup(json_string_value(value));
        else if (json_is_integer(value))
            text = str_printf("%lld", (long long)json_integer_value(value));
        else if (json_is_boolean(value))
            text = str_dup(json_is_true(value) ? "1" : "0");
        if (!text || json_object_get(result, name)) {
            json_decref(result);
            return text ? err_set(err, ERR_USAGE, "parameter '%s' is given twice", name)
                        : err_set(err, ERR_USAGE,
                                  "the value of '%s' must be a text, an integer, true or false%s",
                                  key, json_is_real(value) ? "; two settings run together?" : "");
        }
        jsonx_set_str(result, name, text);
    }
    *out = result;
    return 0;
}

static char *path(const struct kind_item *item)
{
    const char *file = jsonx_str_or(item->params, "file", NULL);
    return file ? str_dup(file) : str_printf(OPTIONS_DIR "muster-%s.conf", item->id);
}

static int check_file(const struct kind_item *item, struct err *err)
{
    const char *file = NULL;
    if (jsonx_opt_str(item->params, "modprobe_options", "file", &file, err) != 0)
        return -1;
    if (!file)
        return 0;
    if (file_state_check_path(file, err) != 0)
        return -1;
    size_t prefix = strlen(OPTIONS_DIR);
    if (strncmp(file, OPTIONS_DIR, prefix) != 0 || strchr(file + prefix, '/') ||
        !str_has_suffix(file, ".conf"))
        return err_set(err, ERR_USAGE,
                       "modprobe reads only /etc/modprobe.d/*.conf, and the file is '%.200s'",
                       file);
    return 0;
}

static int check(const struct kind_item *item, char **skip, struct err *err)
{
    static const char *const keys[] = {"options", "file", NULL};
    AUTO(free_str) char *module = module_rules_name(item->id, err);
    json_t *options = NULL;
    if (!module || jsonx_only_keys(item->params, "modprobe_options", keys, err) != 0 ||
        check_file(item, err) != 0 || normalise(item, &options, err) != 0)
        return -1;
    int rc = module_rules_check(item->env, module, options, skip, err);
    json_decref(options);
    return rc;
}

/* Parameters of the loaded module as they are, for information; NULL when it is not loaded. */
static json_t *read_loaded(const struct resources_env *env, const char *module)
{
    AUTO(free_str) char *dir = str_printf("/sys/module/%s/parameters", module);
    char **names = NULL;
    size_t count = 0;
    struct err ignored = {0};
    if (!fs_exists_at(env->root, dir) || fs_list_at(env->root, dir, &names, &count, &ignored) != 0)
        return NULL;
    json_t *out = json_object();
    for (size_t i = 0; i < count; i++) {
        AUTO(free_str) char *file = str_printf("%s/%s", dir, names[i]);
        AUTO(free_str) char *value = fs_read_line_at(env->root, file);
        json_t *text = value ? json_string(value) : NULL;
        if (text)
            jsonx_set(out, names[i], text);
    }
    fs_list_free(names, count);
    return out;
}

static int read_state(const struct kind_item *item, json_t **state, struct err *err)
{
    AUTO(free_str) char *file = path(item);
    AUTO(free_str) char *module = module_rules_name(item->id, err);
    if (!module || file_state_read(item->env, file, state, err) != 0)
        return -1;
    json_t *loaded = read_loaded(item->env, module);
    if (loaded)
        jsonx_set(*state, "loaded", loaded);
    return 0;
}

/* Without options there is no line to write, and so no file. */
static int want(const struct kind_item *item, const json_t *before, json_t **out, struct err *err)
{
    AUTO(free_str) char *module = module_rules_name(item->id, err);
    json_t *options = NULL;
    if (!module || normalise(item, &options, err) != 0)
        return -1;
    struct strbuf text = {0};
    strbuf_printf(&text, "# Written by muster; what is changed here is overwritten.\noptions %s",
                  module);
    /* In the order of names, so that the order in the playbook makes no difference. */
    json_t *sorted = json_array();
    const char *key;
    json_t *value;
    json_object_foreach(options, key, value)
    {
        size_t at = 0;
        while (at < json_array_size(sorted) &&
               strcmp(json_string_value(json_array_get(sorted, at)), key) < 0)
            at++;
        json_array_insert_new(sorted, at, json_string(key));
    }
    for (size_t i = 0; i < json_array_size(sorted); i++) {
        key = json_string_value(json_array_get(sorted, i));
        strbuf_printf(&text, " %s=%s", key, json_string_value(json_object_get(options, key)));
    }
    strbuf_puts(&text, "\n");
    *out = json_object_size(options) ? file_state_own(text.data) : file_state_absent();
    json_decref(sorted);
    json_decref(options);
    strbuf_release(&text);
    return 0;
}

static int apply(const struct kind_item *item, const json_t *state, struct err *err)
{
    AUTO(free_str) char *file = path(item);
    json_t *managed = json_deep_copy(state);
    json_object_del(managed, "loaded");
    int rc = file_state_apply(item->env, file, managed, err);
    json_decref(managed);
    return rc;
}

/* --- notes ---------------------------------------------------------------------------------- */

static char *next_word(char **rest)
{
    char *word = strsep(rest, " \t");
    while (word && *word == '\0')
        word = strsep(rest, " \t");
    return word;
}

static void underscores(char *text, char end)
{
    for (; *text && *text != end; text++) {
        if (*text == '-')
            *text = '_';
    }
}

/* Settings of one "options" line that differ from ours. */
static void note_line(struct strbuf *out, const char *file, char *line, const char *module,
                      const json_t *options)
{
    char *rest = line;
    const char *command = next_word(&rest);
    char *name = command && strcmp(command, "options") == 0 ? next_word(&rest) : NULL;
    if (!name)
        return;
    underscores(name, '\0');
    if (strcmp(name, module) != 0)
        return;
    for (char *word = next_word(&rest); word; word = next_word(&rest)) {
        underscores(word, '=');
        char *equals = strchr(word, '=');
        AUTO(free_str)
        char *key = equals ? str_printf("%.*s", (int)(equals - word), word) : str_dup(word);
        const char *ours = json_string_value(json_object_get(options, key));
        if (ours && (!equals || strcmp(equals + 1, ours) != 0))
            strbuf_printf(out, "%s%s sets %s differently (%s)", out->len ? "; " : "", file, key,
                          equals ? equals + 1 : "without a value");
    }
}

static void note_file(struct strbuf *out, const struct kind_item *item, const char *file,
                      const char *module, const json_t *options)
{
    AUTO(free_str) char *text = NULL;
    struct err ignored = {0};
    if (fs_read_at(item->env->root, file, (size_t)256 * 1024, &text, NULL, &ignored) != 0)
        return;
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
        note_line(out, file, line, module, options);
}

static void note_others(struct strbuf *out, const struct kind_item *item, const char *module,
                        const json_t *options)
{
    static const char *const dirs[] = {"/etc/modprobe.d", "/run/modprobe.d",
                                       "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d",
                                       "/lib/modprobe.d"};
    AUTO(free_str) char *own = path(item);
    for (size_t d = 0; d < ARRAY_LEN(dirs); d++) {
        /* With a merged /usr the last two are one directory. */
        AUTO(free_str)
        char *link = d + 1 == ARRAY_LEN(dirs) ? fs_link_name_at(item->env->root, "/lib") : NULL;
        char **names = NULL;
        size_t count = 0;
        struct err ignored = {0};
        if (link || fs_list_at(item->env->root, dirs[d], &names, &count, &ignored) != 0)
            continue;
        for (size_t i = 0; i < count; i++) {
            AUTO(free_str) char *file = str_printf("%s/%s", dirs[d], names[i]);
            if (str_has_suffix(file, ".conf") && strcmp(file, own) != 0)
                note_file(out, item, file, module, options);
        }
        fs_list_free(names, count);
    }
}

/* The kernel shows booleans as Y and N. */
static bool same_value(const char *a, const char *b)
{
    static const char *const yes[] = {"Y", "1", "y"}, *const no[] = {"N", "0", "n"};
    bool ya = false, yb = false, na = false, nb = false;
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        ya = ya || strcmp(a, yes[i]) == 0;
        yb = yb || strcmp(b, yes[i]) == 0;
        na = na || strcmp(a, no[i]) == 0;
        nb = nb || strcmp(b, no[i]) == 0;
    }
    return strcmp(a, b) == 0 || (ya && yb) || (na && nb);
}

static char *note(const struct kind_item *item, const json_t *state)
{
    struct err ignored = {0};
    AUTO(free_str) char *module = module_rules_name(item->id, &ignored);
    json_t *options = NULL;
    if (!module || normalise(item, &options, &ignored) != 0)
        return NULL;
    struct strbuf out = {0};
    json_t *loaded = read_loaded(item->env, module);
    const char *key;
    json_t *value;
    json_object_foreach(options, key, value)
    {
        const char *now = json_string_value(json_object_get(loaded, key));
        if (!now || same_value(now, json_string_value(value)))
            continue;
        strbuf_printf(&out, "%s%s is %s now: takes effect at the next load of %s",
                      out.len ? "; " : "", key, now, module);
    }
    note_others(&out, item, module, options);
    json_decref(loaded);
    json_decref(options);
    return out.data;
}

const struct resource_kind resource_kind_modprobe_options = {
    .name = "modprobe_options",
    .info = "loaded",
    .locator = "file",
    .check = check,
    .path = path,
    .read = read_state,
    .want = want,
    .apply = apply,
    .note = note,
};
