/* file: a whole file, or its absence. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/resources/file_state.h"
#include "agents/resources/kind.h"
#include "common/jsonx.h"
#include "common/units.h"

struct wanted {
    bool present;
    const char *content;
    size_t len;
    mode_t mode;
    uid_t uid;
    gid_t gid;
};

static int parse_mode(const char *text, mode_t *out, struct err *err)
{
    size_t len = strlen(text);
    if (len < 3 || len > 4 || strspn(text, "01234567") != len)
        return err_set(err, ERR_USAGE,
                       "'%.40s' is not a mode: write three or four octal digits in quotes, as in "
                       "\"0644\"",
                       text);
    mode_t mode = (mode_t)strtoul(text, NULL, 8);
    if ((mode & 0400) == 0)
        return err_set(err, ERR_USAGE, "mode '%s' keeps the owner from reading the file", text);
    if ((mode & 0002) != 0)
        return err_set(err, ERR_USAGE,
                       "mode '%s' lets everybody write a file that the configuration depends on",
                       text);
    *out = mode;
    return 0;
}

static int find_user(const char *name, uid_t *out, struct err *err)
{
    int64_t number;
    struct err ignored = {0};
    if (units_parse_int(name, 0, UINT32_MAX - 1, &number, &ignored) == 0) {
        *out = (uid_t)number;
        return 0;
    }
    struct passwd entry, *found = NULL;
    char buffer[16384];
    int rc = getpwnam_r(name, &entry, buffer, sizeof buffer, &found);
    if (!found)
        return err_set(err, ERR_USAGE, "there is no user '%.80s' on this node%s%s", name,
                       rc ? ": " : "", rc ? strerror(rc) : "");
    *out = entry.pw_uid;
    return 0;
}

static int find_group(const char *name, gid_t *out, struct err *err)
{
    int64_t number;
    struct err ignored = {0};
    if (units_parse_int(name, 0, UINT32_MAX - 1, &number, &ignored) == 0) {
        *out = (gid_t)number;
        return 0;
    }
    struct group entry, *found = NULL;
    char buffer[16384];
    int rc = getgrnam_r(name, &entry, buffer, sizeof buffer, &found);
    if (!found)
        return err_set(err, ERR_USAGE, "there is no group '%.80s' on this node%s%s", name,
                       rc ? ": " : "", rc ? strerror(rc) : "");
    *out = entry.gr_gid;
    return 0;
}

/* An owner may be written as a name or as a number. */
static int opt_owner(const json_t *params, const char *key, char **out, struct err *err)
{
    const json_t *value = json_object_get(params, key);
    if (json_is_integer(value)) {
        *out = str_printf("%lld", (long long)json_integer_value(value));
        return 0;
    }
    const char *text = NULL;
    if (jsonx_opt_str(params, "file", key, &text, err) != 0)
        return -1;
    *out = text ? str_dup(text) : NULL;
    return 0;
}

static int parse_owners(const json_t *params, struct wanted *w, struct err *err)
{
    AUTO(free_str) char *owner = NULL;
    AUTO(free_str) char *group = NULL;
    if (opt_owner(params, "owner", &owner, err) != 0 ||
        opt_owner(params, "group", &group, err) != 0)
        return -1;
    /* The default is root; whoever is not root can only give files to himself. */
    w->uid = geteuid();
    w->gid = getegid();
    if (owner && find_user(owner, &w->uid, err) != 0)
        return -1;
    return group ? find_group(group, &w->gid, err) : 0;
}

static int parse_content(const json_t *params, struct wanted *w, struct err *err)
{
    const json_t *content = json_object_get(params, "content");
    if (!w->present) {
        if (content)
            return err_set(err, ERR_USAGE, "state 'absent' and a content contradict each other");
        return 0;
    }
    if (!json_is_string(content))
        return err_set(err, ERR_USAGE, "'content' must be given, as text");
    w->content = json_string_value(content);
    w->len = json_string_length(content);
    if (w->len > FILE_STATE_MAX_BYTES)
        return err_set(err, ERR_USAGE, "the content has %zu bytes; at most %d can be managed",
                       w->len, FILE_STATE_MAX_BYTES);
    return 0;
}

static int parse(const struct kind_item *item, struct wanted *w, struct err *err)
{
    static const char *const keys[] = {"content", "mode", "owner", "group", "state", NULL};
    const char *mode = "0644", *state = "present";
    *w = (struct wanted){0};
    if (file_state_check_path(item->id, err) != 0 ||
        jsonx_only_keys(item->params, "file", keys, err) != 0 ||
        jsonx_opt_str(item->params, "file", "mode", &mode, err) != 0 ||
        jsonx_opt_str(item->params, "file", "state", &state, err) != 0)
        return -1;
    w->present = strcmp(state, "present") == 0;
    if (!w->present && strcmp(state, "absent") != 0)
        return err_set(err, ERR_USAGE, "state '%.40s' must be 'present' or 'absent'", state);
    if (parse_mode(mode, &w->mode, err) != 0 || parse_content(item->params, w, err) != 0)
        return -1;
    return parse_owners(item->params, w, err);
}

static int check(const struct kind_item *item, char **skip, struct err *err)
{
    struct wanted w;
    return parse(item, &w, err);
}

static int want(const struct kind_item *item, const json_t *before, json_t **out, struct err *err)
{
    struct wanted w;
    if (parse(item, &w, err) != 0)
        return -1;
    *out =
        w.present ? file_state_make(w.content, w.len, w.mode, w.uid, w.gid) : file_state_absent();
    return 0;
}

static char *path(const struct kind_item *item)
{
    return str_dup(item->id);
}

const struct resource_kind resource_kind_file = {
    .name = "file",
    .check = check,
    .path = path,
    .want = want,
};
