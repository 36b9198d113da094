/* Pods: which host directories they mount, from `kubectl describe` or a manifest, and what they ask
 * for. */
#include "validate/diagnose/diag.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"

struct pod {
    bool hostpath; /* the lines of a hostPath volume */
};

static void *create(void)
{
    return mem_zero(1, sizeof(struct pod));
}

static bool is_infiniband(const char *path)
{
    path += strspn(path, " \t\"'");
    size_t len = strlen("/dev/infiniband");
    return strncmp(path, "/dev/infiniband", len) == 0 &&
           (path[len] == '\0' || strchr("/ \"'},", path[len]));
}

static void feed(void *state, struct diag *d, const struct diag_line *line)
{
    struct pod *s = state;
    const char *b = line->body + strspn(line->body, " \t-"), *path;
    if (line->command) {
        s->hostpath = false;
        return;
    }
    if (strncmp(b, "Type:", 5) == 0)
        s->hostpath = strstr(b, "HostPath") != NULL;
    else if (strncmp(b, "hostPath:", 9) == 0)
        s->hostpath = true;
    else if (strncmp(b, "name:", 5) == 0 || strncmp(b, "emptyDir", 8) == 0)
        s->hostpath = false;
    if (!s->hostpath)
        return;
    path = strstr(b, "Path:");
    if (!path || strncmp(b, "hostPath:", 9) == 0)
        path = strstr(b, "path:");
    if (path && is_infiniband(path + 5))
        diag_find(d, DIAG_hostpath_infiniband, line, "path", "/dev/infiniband", NULL);
}

static void finish(void *state, struct diag *d)
{
    (void)state;
    (void)d;
}

static void release(void *state)
{
    free(state);
}

const struct diag_parser diag_pod_parser = {create, feed, finish, release};
