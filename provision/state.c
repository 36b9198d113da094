#include "provision/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"

enum { PINS_MAX_BYTES = 64 * 1024 * 1024 };

static int take_lock(struct state *s, struct err *err)
{
    AUTO(free_str) char *path = state_path(s, "lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "open %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        char holder[32] = "";
        ssize_t got = pread(fd, holder, sizeof holder - 1, 0);
        holder[got > 0 ? got : 0] = '\0';
        close(fd);
        return err_set(err, ERR_ENV,
                       "state directory %s: another muster (pid %s) works in it; wait for it, or "
                       "use another --state",
                       s->dir, holder[0] ? holder : "unknown");
    }
    char pid[32];
    int len = snprintf(pid, sizeof pid, "%d", (int)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)len, 0) != len) {
        close(fd);
        return err_set_errno(err, ERR_ENV, errno, "write %s", path);
    }
    s->lock_fd = fd;
    return 0;
}

static int check_directory(const char *dir, struct err *err)
{
    struct stat st;
    if (stat(dir, &st) != 0)
        return err_set_errno(err, ERR_ENV, errno, "state directory %s", dir);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_ENV, "state directory %s: not a directory", dir);
    if (st.st_uid != geteuid() || (st.st_mode & 022))
        return err_set(err, ERR_ENV,
                       "state directory %s must belong to you and be writable by you alone: "
                       "chown %u and chmod 700 it",
                       dir, (unsigned)geteuid());
    return 0;
}

int state_open(struct state *s, const char *dir, enum state_mode mode, struct err *err)
{
    *s = (struct state){.lock_fd = -1};
    const char *wanted = dir ? dir : getenv("MUSTER_STATE");
    if (!wanted || !wanted[0])
        wanted = "muster-state";
    if (mode == STATE_WRITE && fs_mkdirs(wanted, 0700, err) != 0)
        return -1;
    char real[PATH_MAX];
    if (!realpath(wanted, real))
        return err_set_errno(err, ERR_ENV, errno,
                             "state directory %s (set --state, or run muster where it is)", wanted);
    if (check_directory(real, err) != 0)
        return -1;
    s->dir = str_dup(real);
    if (mode == STATE_WRITE && take_lock(s, err) != 0) {
        state_close(s);
        return -1;
    }
    return 0;
}

void state_close(struct state *s)
{
    close_fd(&s->lock_fd);
    free_str(&s->dir);
}

char *state_path(const struct state *s, const char *relative)
{
    return str_printf("%s/%s", s->dir, relative);
}

int state_next_serial(const struct state *s, int64_t *serial, struct err *err)
{
    AUTO(free_str) char *path = state_path(s, "serial");
    int64_t last = 0;
    if (fs_exists(path)) {
        AUTO(free_str) char *text = NULL;
        if (fs_read(path, 64, &text, NULL, err) != 0)
            return -1;
        text[strcspn(text, "\n")] = '\0';
        if (units_parse_int(text, 0, INT64_MAX - 1, &last, err) != 0)
            return err_wrap(err, "%s: ", path);
    }
    AUTO(free_str) char *next = str_printf("%lld\n", (long long)last + 1);
    if (fs_write_atomic(path, next, strlen(next), 0600, err) != 0)
        return -1;
    *serial = last + 1;
    return 0;
}

int state_pins_load(const struct state *s, json_t **pins, struct err *err)
{
    AUTO(free_str) char *path = state_path(s, "nodes.json");
    if (!fs_exists(path)) {
        json_t *fresh = json_object();
        jsonx_set_int(fresh, "v", 1);
        jsonx_set(fresh, "nodes", json_object());
        *pins = fresh;
        return 0;
    }
    json_auto_t *loaded = NULL;
    const json_t *nodes = NULL;
    if (jsonx_load(path, PINS_MAX_BYTES, &loaded, err) != 0 ||
        jsonx_get_obj(loaded, path, "nodes", &nodes, err) != 0)
        return -1;
    *pins = STEAL(loaded);
    return 0;
}

int state_pins_save(const struct state *s, const json_t *pins, struct err *err)
{
    AUTO(free_str) char *path = state_path(s, "nodes.json");
    return jsonx_save(path, pins, 0600, err);
}

static int pin_differs(const json_t *pin, const char *node, const char *key, const char *now,
                       const char *label, struct err *err)
{
    const char *before = jsonx_str_or(pin, key, "");
    if (strcmp(before, now) == 0)
        return 0;
    return err_set(
        err, ERR_DATA,
        "%s shows another %s (%s) than at first contact (%s): the node was reinstalled or "
        "swapped, or someone stands in between; if it is expected: muster enroll --renew "
        "-w %s",
        node, label, now, before, node);
}

int state_pin_check(json_t *pins, const char *node, const char *node_key, const char *host_key,
                    const char *machine_id, bool *added, struct err *err)
{
    json_t *nodes = json_object_get(pins, "nodes");
    const json_t *pin = json_object_get(nodes, node);
    *added = !pin;
    if (pin) {
        if (pin_differs(pin, node, "node_key", node_key, "evidence key", err) != 0)
            return -1;
        return pin_differs(pin, node, "machine_id", machine_id, "machine-id", err);
    }
    char now[25];
    time_format(wall_ms(), now);
    json_t *fresh = json_object();
    jsonx_set_str(fresh, "node_key", node_key);
    jsonx_set_str(fresh, "host_key", host_key);
    jsonx_set_str(fresh, "machine_id", machine_id);
    jsonx_set_str(fresh, "first_seen", now);
    jsonx_set(nodes, node, fresh);
    return 0;
}

void state_pin_forget(json_t *pins, const char *node)
{
    json_object_del(json_object_get(pins, "nodes"), node);
}
