#include "provision/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/jsonx.h"
#include "common/util.h"

enum { JOURNAL_MAX_BYTES = 256 * 1024 * 1024 };

static void make_id(char id[static 32])
{
    uint8_t random[2];
    random_bytes(random, sizeof random);
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    char stamp[20];
    strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &tm);
    snprintf(id, 32, "%.19s-%02x%02x", stamp, random[0], random[1]);
}

int run_point_latest(const struct state *s, const struct run *run, struct err *err)
{
    AUTO(free_str) char *link = state_path(s, "runs/latest");
    AUTO(free_str) char *fresh = state_path(s, "runs/.latest");
    unlink(fresh);
    if (symlink(run->id, fresh) != 0 || rename(fresh, link) != 0)
        return err_set_errno(err, ERR_ENV, errno, "point %s to the new run", link);
    return 0;
}

static int open_journal(struct run *run, bool append, struct err *err)
{
    AUTO(free_str) char *path = run_path(run, "journal.jsonl");
    run->journal_fd = -1;
    if (!append)
        return 0;
    run->journal_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (run->journal_fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "open %s", path);
    return 0;
}

int run_create(const struct state *s, struct run *run, struct err *err)
{
    *run = (struct run){.journal_fd = -1};
    make_id(run->id);
    run->dir = str_printf("%s/runs/%s", s->dir, run->id);
    run->steps = json_object();
    run->begun = json_object();
    static const char *const folders[] = {"facts", "evidence", "apply", "slices"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        AUTO(free_str) char *folder = run_path(run, folders[i]);
        if (fs_mkdirs(folder, 0700, err) != 0)
            return -1;
    }
    return open_journal(run, true, err);
}

/* One journal line into run->steps; a torn last line (no newline) has not happened. */
static void take_line(struct run *run, const char *line, size_t len)
{
    struct err err = {0};
    json_auto_t *entry = NULL;
    if (jsonx_parse(line, len, "journal", &entry, &err) != 0)
        return;
    const char *step = jsonx_str_or(entry, "step", "");
    if (strcmp(jsonx_str_or(entry, "state", ""), "begin") == 0)
        jsonx_set_int(run->begun, step, run_attempts(run, step) + 1);
    if (strcmp(jsonx_str_or(entry, "state", ""), "done") != 0)
        return;
    json_t *known = json_object_get(run->steps, step);
    if (!known) {
        jsonx_set(run->steps, step, json_object());
        known = json_object_get(run->steps, step);
    }
    jsonx_set_str(known, "", "ok");
    json_t *nodes = json_object_get(entry, "nodes");
    if (nodes)
        json_object_update(known, nodes);
}

static int read_journal(struct run *run, struct err *err)
{
    AUTO(free_str) char *path = run_path(run, "journal.jsonl");
    AUTO(free_str) char *text = NULL;
    if (!fs_exists(path))
        return 0;
    if (fs_read(path, JOURNAL_MAX_BYTES, &text, NULL, err) != 0)
        return -1;
    char *line = text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1)
        take_line(run, line, (size_t)(end - line));
    return 0;
}

static char *newest_run(const struct state *s)
{
    char target[64];
    AUTO(free_str) char *link = state_path(s, "runs/latest");
    ssize_t len = readlink(link, target, sizeof target - 1);
    if (len < 0)
        return NULL;
    target[len] = '\0';
    return str_dup(target);
}

char *run_newest_report(const struct state *s)
{
    AUTO(free_str) char *runs = state_path(s, "runs");
    char *newest = NULL;
    DIR *dir = opendir(runs);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        /* Ids begin with the time. */
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "latest") == 0 ||
            (newest && strcmp(entry->d_name, newest) < 0))
            continue;
        AUTO(free_str) char *report = str_printf("%s/%s/report.dsse.json", runs, entry->d_name);
        if (!fs_exists(report))
            continue;
        free(newest);
        newest = str_dup(entry->d_name);
    }
    if (dir)
        closedir(dir);
    return newest;
}

int run_cut_evidence(const struct run *run, const char *node, struct err *err)
{
    AUTO(free_str) char *path = run_node_path(run, "evidence", node, ".jsonl");
    AUTO(free_str) char *text = NULL;
    size_t len = 0, whole = 0;
    if (!fs_exists(path))
        return 0;
    if (fs_read(path, SIZE_MAX / 2, &text, &len, err) != 0)
        return -1;
    for (whole = len; whole > 0 && text[whole - 1] != '\n'; whole--)
        ;
    if (whole < len && truncate(path, (off_t)whole) != 0)
        return err_set_errno(err, ERR_ENV, errno, "cut the broken last line of %s", path);
    return 0;
}

int run_open(const struct state *s, const char *id, bool append, struct run *run, struct err *err)
{
    *run = (struct run){.journal_fd = -1};
    AUTO(free_str) char *newest = newest_run(s);
    if (!id || strcmp(id, "latest") == 0)
        id = newest;
    if (!id)
        return err_set(err, ERR_USAGE, "state directory %s holds no run yet; muster up makes one",
                       s->dir);
    AUTO(free_str) char *dir = str_printf("%s/runs/%s", s->dir, id);
    if (strchr(id, '/') || id[0] == '.' || strlen(id) >= sizeof run->id || !fs_exists(dir))
        return err_set(err, ERR_USAGE, "no run '%.60s' in %s; the newest is %s", id, s->dir,
                       newest ? newest : "none");
    snprintf(run->id, sizeof run->id, "%s", id);
    run->dir = STEAL(dir);
    run->steps = json_object();
    run->begun = json_object();
    if (read_journal(run, err) != 0 || open_journal(run, append, err) != 0) {
        run_close(run);
        return -1;
    }
    return 0;
}

void run_close(struct run *run)
{
    close_fd(&run->journal_fd);
    free_str(&run->dir);
    json_decref(run->steps);
    json_decref(run->begun);
    run->steps = run->begun = NULL;
}

char *run_path(const struct run *run, const char *relative)
{
    return str_printf("%s/%s", run->dir, relative);
}

char *run_node_path(const struct run *run, const char *folder, const char *node, const char *suffix)
{
    return str_printf("%s/%s/%s%s", run->dir, folder, node, suffix);
}

int run_note(struct run *run, const char *step, const char *state, const json_t *nodes,
             struct err *err)
{
    char now[25];
    time_format(wall_ms(), now);
    json_auto_t *entry = json_object();
    jsonx_set_int(entry, "v", 1);
    jsonx_set_str(entry, "time", now);
    jsonx_set_str(entry, "step", step);
    jsonx_set_str(entry, "state", state);
    jsonx_set(entry, "nodes", nodes ? json_deep_copy(nodes) : json_object());
    AUTO(free_str) char *text = jsonx_canonical(entry);
    AUTO(free_str) char *line = str_printf("%s\n", text);
    if (fs_append_sync(run->journal_fd, line, strlen(line), err) != 0)
        return err_wrap(err, "%s/journal.jsonl: ", run->dir);
    take_line(run, text, strlen(text));
    return 0;
}

int64_t run_attempts(const struct run *run, const char *step)
{
    return jsonx_int_or(run->begun, step, 0);
}

bool run_has(const struct run *run, const char *step, const char *node)
{
    const json_t *nodes = json_object_get(run->steps, step);
    return strcmp(jsonx_str_or(nodes, node, ""), "ok") == 0;
}
