/* A scratch root for tests of agents/resources: files in it, and what the tree looks like.
 *
 * modprobe in it is a stand-in that makes and removes directories in sys/module; it says no to a
 * module named "refused". */
#ifndef TESTS_UNIT_AGENTS_RESOURCES_SCRATCH_H
#define TESTS_UNIT_AGENTS_RESOURCES_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the five above */
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agents/resources/kind.h"
#include "agents/resources/resources.h"
#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"

struct scratch {
    struct fs_root root;
    struct resources_env env;
};

#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        if ((call) != 0)                                                                           \
            fail_msg("%s: %s", #call, (err).text);                                                 \
    } while (0)

static inline char *scratch_path(const struct scratch *s, const char *path)
{
    return str_printf("%s%s", s->root.path, path);
}

static inline void scratch_put(const struct scratch *s, const char *path, const char *text,
                               mode_t mode)
{
    struct err err = {0};
    AUTO(free_str) char *full = scratch_path(s, path);
    AUTO(free_str) char *dir = str_dup(full);
    *strrchr(dir, '/') = '\0';
    assert_ok(fs_mkdirs(dir, 0755, &err), err);
    unlink(full);
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(full, mode), 0);
}

static inline char *scratch_get(const struct scratch *s, const char *path)
{
    struct err err = {0};
    char *text = NULL;
    if (fs_read_at(&s->root, path, 1 << 20, &text, NULL, &err) != 0)
        return str_dup("(none)");
    return text;
}

static inline void scratch_dir(const struct scratch *s, const char *path)
{
    struct err err = {0};
    AUTO(free_str) char *full = scratch_path(s, path);
    assert_ok(fs_mkdirs(full, 0755, &err), err);
}

static inline void scratch_modprobe(const struct scratch *s)
{
    struct utsname uts;
    uname(&uts);
    AUTO(free_str) char *modules = str_printf("/lib/modules/%s", uts.release);
    AUTO(free_str)
    char *script = str_printf("#!/bin/sh\n"
                              "[ \"$1\" = -r ] && { rmdir '%s/sys/module/'\"$3\"; exit; }\n"
                              "[ \"$2\" = refused ] && { echo \"could not insert 'refused': "
                              "Invalid argument\" >&2; exit 1; }\n"
                              "[ \"$2\" = liar ] && exit 0\n"
                              "mkdir -p '%s/sys/module/'\"$2\"\n",
                              s->root.path, s->root.path);
    scratch_dir(s, modules);
    scratch_dir(s, "/sys/module");
    scratch_put(s, "/usr/sbin/modprobe", script, 0755);
}

static inline void scratch_open(struct scratch *s)
{
    memset(s, 0, sizeof *s);
    char dir[4096];
    struct err err = {0};
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(dir, sizeof dir, "%s/muster-resources-XXXXXX", base);
    assert_non_null(mkdtemp(dir));
    assert_ok(fs_root_open(&s->root, dir, &err), err);
    s->env = (struct resources_env){.root = &s->root, .state_dir = "/var/lib/muster"};
    scratch_dir(s, "/var/lib/muster");
    scratch_dir(s, "/etc");
}

static inline void scratch_close(struct scratch *s)
{
    struct err err = {0};
    assert_ok(fs_remove_tree(s->root.path, &err), err);
}

/* One line about a path: type, mode, owner, path, content. */
static inline bool scratch_describe(const struct scratch *s, const char *path, struct strbuf *out)
{
    AUTO(free_str) char *full = scratch_path(s, path);
    struct stat st;
    assert_int_equal(lstat(full, &st), 0);
    strbuf_printf(out, "%o %u:%u %s", st.st_mode, st.st_uid, st.st_gid, path);
    if (S_ISREG(st.st_mode)) {
        AUTO(free_str) char *text = scratch_get(s, path);
        strbuf_printf(out, " [%s]", text);
    }
    strbuf_puts(out, "\n");
    return S_ISDIR(st.st_mode);
}

/* The whole tree without the state directory, in an order that is always the same. */
static inline char *scratch_snapshot(const struct scratch *s)
{
    struct strbuf out = {0};
    struct err err = {0};
    json_t *dirs = json_array();
    strbuf_puts(&out, "");
    jsonx_append_str(dirs, "");
    for (size_t d = 0; d < json_array_size(dirs); d++) {
        const char *dir = json_string_value(json_array_get(dirs, d));
        char **names = NULL;
        size_t count = 0;
        assert_ok(fs_list_at(&s->root, dir[0] ? dir : "/", &names, &count, &err), err);
        for (size_t i = 0; i < count; i++) {
            AUTO(free_str) char *path = str_printf("%s/%s", dir, names[i]);
            if (strcmp(path, s->env.state_dir) != 0 && scratch_describe(s, path, &out))
                jsonx_append_str(dirs, path);
        }
        fs_list_free(names, count);
    }
    json_decref(dirs);
    return out.data;
}

/* Single quotes stand for double ones. */
static inline json_t *scratch_json(const char *text)
{
    AUTO(free_str) char *copy = str_dup(text);
    for (char *p = strchr(copy, '\''); p; p = strchr(p, '\''))
        *p = '"';
    json_error_t at;
    json_t *value = json_loads(copy, JSON_DECODE_ANY, &at);
    if (!value)
        fail_msg("%s: %s", at.text, copy);
    return value;
}

/* One resource planned: its item. */
static inline json_t *scratch_plan1(const struct scratch *s, const char *kind, const char *id,
                                    const char *params)
{
    json_t *resources = json_array(), *resource = json_object(), *items = NULL;
    struct err err = {0};
    jsonx_set_str(resource, "kind", kind);
    jsonx_set_str(resource, "id", id);
    jsonx_set(resource, "params", scratch_json(params));
    jsonx_append(resources, resource);
    assert_ok(resources_plan(&s->env, resources, &items, &err), err);
    json_t *item = json_incref(json_array_get(items, 0));
    json_decref(items);
    json_decref(resources);
    return item;
}

/* One resource applied: the reply's state, its item's text in *text (may be NULL). */
static inline char *scratch_apply1(const struct scratch *s, const char *txn, const char *kind,
                                   const char *id, const char *params, char **text)
{
    json_t *resources = json_array(), *resource = json_object(), *data = NULL;
    struct err err = {0};
    jsonx_set_str(resource, "kind", kind);
    jsonx_set_str(resource, "id", id);
    jsonx_set(resource, "params", scratch_json(params));
    jsonx_append(resources, resource);
    assert_ok(resources_apply(&s->env, txn, resources, &data, &err), err);
    char *state = str_dup(jsonx_str_or(data, "state", ""));
    if (text)
        *text =
            str_dup(jsonx_str_or(json_array_get(json_object_get(data, "items"), 0), "text", ""));
    json_decref(data);
    json_decref(resources);
    return state;
}

/* Vectors of plans: the outcome, and the reason or the diff exactly. */
struct scratch_vector {
    const char *id, *params;
    const char *outcome;
    const char *reason; /* NULL: none */
};

static inline void scratch_check_vectors(const struct scratch *s, const char *kind,
                                         const struct scratch_vector *vectors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct scratch_vector *v = &vectors[i];
        json_t *item = scratch_plan1(s, kind, v->id, v->params);
        const char *reason = jsonx_str_or(item, "reason", NULL);
        if (strcmp(jsonx_str_or(item, "outcome", ""), v->outcome) != 0 ||
            strcmp(reason ? reason : "", v->reason ? v->reason : "") != 0)
            fail_msg("%s %s %s: %s: %s", kind, v->id, v->params, jsonx_str_or(item, "outcome", ""),
                     reason ? reason : "(no reason)");
        json_decref(item);
    }
}

#endif
