#include "agents/leftovers.h"

#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "common/util.h"

enum { POLL_STEP_MS = 5, MAX_STATE_DEPTH = 3 };

void leftovers_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* --- processes ------------------------------------------------------------------------------ */

/* Parent of a process, from /proc/PID/stat: the name in parentheses may hold anything. */
static pid_t parent_of(const char *pid)
{
    AUTO(free_str) char *path = str_printf("/proc/%s/stat", pid);
    AUTO(free_str) char *text = NULL;
    struct err ignored = {0};
    if (fs_read(path, 65536, &text, NULL, &ignored) != 0)
        return -1;
    const char *end = strrchr(text, ')'); /* then " S PPID ..." */
    if (!end || strlen(end) < strlen(") S 1"))
        return -1;
    return (pid_t)strtol(end + strlen(") S "), NULL, 10);
}

/* One round over /proc: kills and reaps each child; their own children fall to us for the next
 * round. */
static int kill_children(void)
{
    int count = 0;
    DIR *proc = opendir("/proc");
    if (!proc) /* without /proc the kernel still tells whether there is a child at all */
        return waitpid(-1, NULL, WNOHANG) < 0 ? 0 : 1;
    pid_t self = getpid();
    for (struct dirent *e; (e = readdir(proc));) {
        if (!isdigit((unsigned char)e->d_name[0]) || parent_of(e->d_name) != self)
            continue;
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        kill(pid, SIGKILL);
        if (waitpid(pid, NULL, WNOHANG) != pid)
            count++;
    }
    closedir(proc);
    return count;
}

int leftovers_end(int timeout_ms)
{
    int64_t until = now_ms() + timeout_ms;
    for (;;) {
        int left = kill_children();
        /* A child that was reaped may have left children of its own: an empty round is the proof.
         */
        if (left == 0 && kill_children() == 0)
            return 0;
        if (now_ms() >= until)
            return left;
        poll(NULL, 0, POLL_STEP_MS);
    }
}

/* --- files ---------------------------------------------------------------------------------- */

/* "NAME.muster-XXXXXX": fs_write_atomic() and node_key make six and eight characters; ".up.XXXXXX"
 * is an upload of the agent that broke off. */
static bool is_temporary(const char *name)
{
    static const char mark[] = ".muster-";
    const char *found = NULL;
    for (const char *p = name; (p = strstr(p, mark)); p++)
        found = p + strlen(mark);
    if (!found && str_has_prefix(name, ".up."))
        found = name + strlen(".up.");
    if (!found)
        return false;
    size_t len = strlen(found), alnum = 0;
    while (isalnum((unsigned char)found[alnum]))
        alnum++;
    return alnum == len && (len == 6 || len == 8);
}

static void note(json_t *list, const char *dir, const char *name)
{
    AUTO(free_str) char *path = str_printf("%s/%s", dir, name);
    json_t *text = json_string(path);
    if (text)
        jsonx_append(list, text);
}

/* Adds the temporary files of one directory to files and everything else to next, where a directory
 * may be among it. */
static void scan(const struct fs_root *root, const char *dir, json_t *files, json_t *next)
{
    char **names = NULL;
    size_t count = 0;
    struct err ignored = {0}; /* a file in the place of a directory holds none */
    if (fs_list_at(root, dir, &names, &count, &ignored) != 0)
        return;
    for (size_t i = 0; i < count; i++)
        note(is_temporary(names[i]) ? files : next, dir, names[i]);
    fs_list_free(names, count);
}

static void scan_deep(const struct fs_root *root, const char *top, json_t *files)
{
    json_t *level = json_array();
    jsonx_append_str(level, top);
    for (int depth = 0; depth < MAX_STATE_DEPTH; depth++) {
        json_t *next = json_array();
        for (size_t i = 0; i < json_array_size(level); i++)
            scan(root, json_string_value(json_array_get(level, i)), files, next);
        json_decref(level);
        level = next;
    }
    json_decref(level);
}

json_t *leftovers_files(const struct fs_root *root, const char *state_dir)
{
    static const char *const dirs[] = {
        "/etc",          "/etc/modprobe.d",        "/etc/modules-load.d",
        "/etc/sysctl.d", "/etc/security/limits.d", "/etc/profile.d"};
    json_t *files = json_array();
    json_auto_t *others = json_array();
    scan_deep(root, state_dir, files);
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        scan(root, dirs[i], files, others);
    return files;
}
