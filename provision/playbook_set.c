#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "provision/playbook_parts.h"

static void add_dir(struct hostlist *dirs, char *dir)
{
    AUTO(free_str) char *owned = dir;
    if (!hostlist_has(dirs, owned))
        hostlist_add(dirs, owned);
}

/* Directory of the site file, "." for a site that has none.  The caller frees. */
static char *site_dir(const json_t *site)
{
    const char *file = jsonx_str_or(json_object_get(site, "source"), "file", "");
    const char *slash = strrchr(file, '/');
    if (!slash)
        return str_dup(".");
    return slash == file ? str_dup("/") : str_printf("%.*s", (int)(slash - file), file);
}

void playbook_dirs(const json_t *site, struct hostlist *dirs)
{
    AUTO(free_str) char *base = site_dir(site);
    size_t i;
    json_t *dir;
    json_array_foreach(json_object_get(site, "playbook_path"), i, dir)
    {
        const char *path = json_string_value(dir);
        if (path)
            add_dir(dirs, *path == '/' ? str_dup(path) : str_printf("%s/%s", base, path));
    }
    add_dir(dirs, str_printf("%s/playbooks", base));
    add_dir(dirs, str_dup(MUSTER_DATA_DIR "/playbooks"));
    add_dir(dirs, str_dup(MUSTER_SOURCE_DIR "/playbooks"));
}

/* List one file; a name that an earlier directory has hides this one. */
static void list_file(const char *dir, const char *file, json_t *seen, json_t *out)
{
    if (!str_has_suffix(file, ".yml") || strlen(file) == strlen(".yml"))
        return;
    AUTO(free_str) char *name = str_printf("%.*s", (int)(strlen(file) - strlen(".yml")), file);
    AUTO(free_str) char *path = str_printf("%s/%s", dir, file);
    if (json_object_get(seen, name))
        return;
    jsonx_set_bool(seen, name, true);
    json_t *row = json_object();
    jsonx_append(out, row);
    jsonx_set_str(row, "name", name);
    jsonx_set_str(row, "path", path);
    struct err err = {0};
    json_auto_t *book = NULL;
    if (playbook_load(path, &book, &err) != 0) {
        jsonx_set_str(row, "error", err.text);
        return;
    }
    jsonx_set_str(row, "summary", jsonx_str_or(book, "summary", ""));
    jsonx_set_int(row, "resources", (int64_t)json_array_size(json_object_get(book, "resources")));
}

int playbook_list(const json_t *site, json_t **out, struct err *err)
{
    AUTO(hostlist_release) struct hostlist dirs = {0};
    playbook_dirs(site, &dirs);
    json_auto_t *seen = json_object();
    json_auto_t *list = json_array();
    for (size_t i = 0; i < dirs.count; i++) {
        struct fs_root root = {.path = ""};
        AUTO(free_str) char *absolute = realpath(dirs.names[i], NULL);
        char **names = NULL;
        size_t count = 0;
        if (!absolute)
            continue; /* a directory of the search path that does not exist has no playbooks */
        if (fs_list_at(&root, absolute, &names, &count, err) != 0)
            return -1;
        for (size_t k = 0; k < count; k++)
            list_file(dirs.names[i], names[k], seen, list);
        fs_list_free(names, count);
    }
    *out = STEAL(list);
    return 0;
}

static int not_found(const json_t *site, const char *name, const struct hostlist *dirs,
                     struct err *err)
{
    AUTO(strbuf_release) struct strbuf where = {0};
    for (size_t i = 0; i < dirs->count; i++)
        strbuf_printf(&where, "%s%s", i ? ", " : "", dirs->names[i]);
    json_auto_t *list = NULL;
    struct err ignored = {0};
    size_t count = playbook_list(site, &list, &ignored) == 0 ? json_array_size(list) : 0;
    const char **names = mem_zero(count + 1, sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = jsonx_str_or(json_array_get(list, i), "name", "");
    const char *near = str_nearest(name, names);
    free(names);
    return err_set(err, ERR_USAGE, "%s: no playbook '%s' (%s.yml) in %s%s%s%s",
                   jsonx_str_or(json_object_get(site, "source"), "file", "site"), name, name,
                   where.data, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int load_one(struct playbook_set *set, const json_t *site, const char *name,
                    const struct hostlist *dirs, struct err *err)
{
    if (json_object_get(set->books, name))
        return 0;
    for (size_t i = 0; i < dirs->count; i++) {
        AUTO(free_str) char *path = str_printf("%s/%s.yml", dirs->names[i], name);
        if (!fs_exists(path))
            continue;
        json_t *book = NULL;
        if (playbook_load(path, &book, err) != 0)
            return -1;
        jsonx_set(set->books, name, book);
        return 0;
    }
    return not_found(site, name, dirs, err);
}

struct playbook_set *playbook_set_load(const json_t *site, struct err *err)
{
    AUTO(hostlist_release) struct hostlist dirs = {0};
    AUTO(playbook_set_release) struct playbook_set *set = mem_zero(1, sizeof *set);
    set->books = json_object();
    playbook_dirs(site, &dirs);
    const char *node;
    json_t *entry;
    json_object_foreach(json_object_get(site, "nodes"), node, entry)
    {
        size_t i;
        json_t *name;
        json_array_foreach(json_object_get(entry, "playbooks"), i,
                           name) if (load_one(set, site, json_string_value(name), &dirs, err) !=
                                     0) return NULL;
    }
    return STEAL(set);
}

void playbook_set_destroy(struct playbook_set *set)
{
    if (!set)
        return;
    json_decref(set->books);
    free(set);
}

void playbook_set_release(struct playbook_set **set)
{
    playbook_set_destroy(*set);
    *set = NULL;
}
