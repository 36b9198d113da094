/* module: loaded now, and loaded at boot. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "agents/resources/exec.h"
#include "agents/resources/file_state.h"
#include "agents/resources/kind.h"
#include "agents/resources/module_rules.h"
#include "common/jsonx.h"

/* A driver that initialises a switch fabric takes its time. */
enum { MODPROBE_MS = 120 * 1000 };

static int check(const struct kind_item *item, char **skip, struct err *err)
{
    static const char *const keys[] = {"load", "boot", NULL};
    AUTO(free_str) char *module = module_rules_name(item->id, err);
    bool flag = true;
    if (!module || jsonx_only_keys(item->params, "module", keys, err) != 0 ||
        jsonx_opt_bool(item->params, "module", "load", &flag, err) != 0 ||
        jsonx_opt_bool(item->params, "module", "boot", &flag, err) != 0)
        return -1;
    return 0;
}

static char *path(const struct kind_item *item)
{
    return str_printf("/etc/modules-load.d/muster-%s.conf", item->id);
}

/* The kernel's own list of what is compiled in: "kernel/drivers/x/y-z.ko" per line. */
static bool is_builtin(const struct resources_env *env, const char *module)
{
    struct utsname uts;
    uname(&uts);
    AUTO(free_str) char *file = str_printf("/lib/modules/%s/modules.builtin", uts.release);
    AUTO(free_str) char *text = NULL;
    struct err ignored = {0};
    if (fs_read_at(env->root, file, (size_t)1024 * 1024, &text, NULL, &ignored) != 0)
        return false;
    AUTO(free_str) char *want = str_printf("%s.ko", module);
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        char *base = strrchr(line, '/');
        for (char *p = base; p && *p; p++) {
            if (*p == '-')
                *p = '_';
        }
        if (base && strcmp(base + 1, want) == 0)
            return true;
    }
    return false;
}

static bool is_loaded(const struct resources_env *env, const char *module)
{
    AUTO(free_str) char *dir = str_printf("/sys/module/%s", module);
    AUTO(free_str) char *file = str_printf("%s/initstate", dir);
    AUTO(free_str) char *state = fs_read_line_at(env->root, file);
    if (state)
        return strcmp(state, "live") == 0; /* else its initialisation still runs, or it goes away */
    return fs_exists_at(env->root, dir) || is_builtin(env, module);
}

static int read_state(const struct kind_item *item, json_t **state, struct err *err)
{
    AUTO(free_str) char *file = path(item);
    AUTO(free_str) char *module = module_rules_name(item->id, err);
    json_t *boot = NULL;
    if (!module || file_state_read(item->env, file, &boot, err) != 0)
        return -1;
    *state = json_object();
    jsonx_set_bool(*state, "loaded", is_loaded(item->env, module));
    jsonx_set(*state, "boot", boot);
    return 0;
}

static int want(const struct kind_item *item, const json_t *before, json_t **out, struct err *err)
{
    AUTO(free_str) char *module = module_rules_name(item->id, err);
    if (!module)
        return -1;
    AUTO(free_str)
    char *text =
        str_printf("# Written by muster; what is changed here is overwritten.\n%s\n", module);
    bool boot = jsonx_bool_or(item->params, "boot", true);
    /* "load: false" leaves the module as it is: nothing is unloaded unasked. */
    bool loaded =
        jsonx_bool_or(item->params, "load", true) || jsonx_bool_or(before, "loaded", false);
    *out = json_object();
    jsonx_set_bool(*out, "loaded", loaded);
    jsonx_set(*out, "boot", boot ? file_state_own(text) : file_state_absent());
    return 0;
}

static int check_tree(const struct resources_env *env, const char *module, struct err *err)
{
    struct utsname uts;
    uname(&uts);
    AUTO(free_str) char *dir = str_printf("/lib/modules/%s", uts.release);
    if (fs_exists_at(env->root, dir))
        return 0;
    return err_set(err, ERR_ENV,
                   "module %s cannot be loaded: there are no modules of this kernel on this node "
                   "(%s is missing); install the modules of the running kernel or reboot into the "
                   "installed one",
                   module, dir);
}

static int run_modprobe(const struct resources_env *env, const char *module, bool load,
                        struct err *err)
{
    if (load && check_tree(env, module, err) != 0)
        return -1;
    AUTO(free_str) char *program = exec_find(env->root, "modprobe");
    if (!program)
        return err_set(err, ERR_ENV,
                       "module %s cannot be %s: modprobe is not installed (package kmod)", module,
                       load ? "loaded" : "unloaded");
    const char *const load_argv[] = {program, "--", module, NULL};
    const char *const unload_argv[] = {program, "-r", "--", module, NULL};
    struct exec_result result = {0};
    if (exec_run(load ? load_argv : unload_argv, MODPROBE_MS, &result, err) != 0)
        return err_wrap(err, "module %s: ", module);
    int rc = 0;
    if (result.status != 0)
        rc = err_set(err, ERR_ENV, "module %s: modprobe%s ended with status %d: %.300s", module,
                     load ? "" : " -r", result.status,
                     result.text[0] ? result.text : "(it said nothing)");
    exec_release(&result);
    return rc;
}

static int apply(const struct kind_item *item, const json_t *state, struct err *err)
{
    AUTO(free_str) char *file = path(item);
    AUTO(free_str) char *module = module_rules_name(item->id, err);
    const json_t *boot;
    bool load;
    if (!module || jsonx_get_bool(state, "module", "loaded", &load, err) != 0 ||
        jsonx_get_obj(state, "module", "boot", &boot, err) != 0)
        return -1;
    if (is_loaded(item->env, module) != load) {
        if (run_modprobe(item->env, module, load, err) != 0)
            return -1;
        kind_step(item->env, "module.modprobe");
        if (is_loaded(item->env, module) != load)
            return err_set(err, ERR_ENV,
                           "module %s: modprobe reported success, but /sys/module/%s says that it "
                           "is %s",
                           module, module, load ? "not loaded" : "still loaded");
    }
    return file_state_apply(item->env, file, boot, err);
}

const struct resource_kind resource_kind_module = {
    .name = "module",
    .check = check,
    .path = path,
    .read = read_state,
    .want = want,
    .apply = apply,
};
