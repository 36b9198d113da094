#include "agents/publish.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"
#include "validate/sign.h"
#include "validate/slice.h"

/* 0 when no report has been accepted yet. */
static int read_serial(const char *path, int64_t *serial, struct err *err)
{
    enum { MAX_SERIAL_BYTES = 64 };
    AUTO(free_str) char *text = NULL;
    struct err failed = {0};
    *serial = 0;
    if (fs_read(path, MAX_SERIAL_BYTES, &text, NULL, &failed) != 0) {
        if (failed.native == ENOENT)
            return 0;
        return err_set(err, failed.kind, "%s", failed.text);
    }
    text[strcspn(text, "\n")] = '\0';
    if (units_parse_int(text, 0, INT64_MAX, serial, err) != 0)
        return err_wrap(err, "%s: ", path);
    return 0;
}

static int check_slice(const char *text, const char *node, const struct sign_public *key,
                       int64_t *serial, struct err *err)
{
    json_auto_t *entry = NULL, *predicate = NULL;
    if (slice_verify(text, strlen(text), key, 1, &entry, &predicate, err) != 0)
        return -1;
    const char *name = NULL;
    if (jsonx_get_str(entry, "slice entry", "node", &name, err) != 0 ||
        jsonx_get_int(predicate, "slice", "serial", serial, err) != 0)
        return -1;
    if (strcmp(name, node) != 0)
        return err_set(err, ERR_DATA, "the slice is for node '%.100s', this node is '%.100s'", name,
                       node);
    return 0;
}

/* The serial goes last: a crash before leaves a newer slice that is above the serial, which is
 * fine. */
static int write_files(const char *dir, const char *node, const char *text,
                       const struct sign_public *key, int64_t serial, struct err *err)
{
    AUTO(free_str) char *name_path = str_printf("%s/node", dir);
    AUTO(free_str) char *name = str_printf("%s\n", node);
    AUTO(free_str) char *slice_path = str_printf("%s/slice.json", dir);
    AUTO(free_str) char *key_path = str_printf("%s/report.pub", dir);
    AUTO(free_str) char *serial_path = str_printf("%s/serial", dir);
    AUTO(free_str) char *line = str_printf("%s\n", text);
    AUTO(free_str) char *number = str_printf("%lld\n", (long long)serial);
    if (fs_write_atomic(name_path, name, strlen(name), 0644, err) != 0 ||
        fs_write_atomic(slice_path, line, strlen(line), 0644, err) != 0 ||
        sign_public_save(key, key_path, err) != 0)
        return -1;
    return fs_write_atomic(serial_path, number, strlen(number), 0644, err);
}

/* STATE/bin/muster-gate: the gate under a name that prologs can rely on.  It is this very program,
 * which is the gate when it is called so; a new agent replaces it with the next report. */
static int install_gate(const char *dir, struct err *err)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0)
        return err_set_errno(err, ERR_ENV, errno, "read /proc/self/exe");
    self[len] = '\0';
    AUTO(free_str) char *bin = str_printf("%s/bin", dir);
    AUTO(free_str) char *kept = str_printf("%s/agent/", dir);
    AUTO(free_str) char *link = str_printf("%s/muster-gate", bin);
    AUTO(free_str) char *fresh = str_printf("%s.muster-new", link);
    AUTO(free_str)
    char *target =
        str_has_prefix(self, kept) ? str_printf("../agent/%s", self + strlen(kept)) : str_dup(self);
    if (fs_mkdirs(bin, 0755, err) != 0)
        return -1;
    unlink(fresh);
    if (symlink(target, fresh) != 0 || rename(fresh, link) != 0) {
        int errnum = errno;
        unlink(fresh);
        return err_set_errno(err, ERR_ENV, errnum, "point %s to the gate", link);
    }
    return 0;
}

/* A report by another key starts another count: whoever signs anew cannot know the old serials. */
static int accepted_serial(const char *dir, const struct sign_public *key, int64_t *serial,
                           struct err *err)
{
    AUTO(free_str) char *serial_path = str_printf("%s/serial", dir);
    AUTO(free_str) char *key_path = str_printf("%s/report.pub", dir);
    struct sign_public before;
    struct err unreadable = {0};
    if (fs_exists(key_path) && sign_public_load(key_path, &before, &unreadable) == 0 &&
        !sign_public_equal(&before, key)) {
        *serial = 0;
        return 0;
    }
    return read_serial(serial_path, serial, err);
}

int publish_slice(const struct fs_root *root, const char *state_dir, const char *node,
                  const json_t *slice, const char *public_key, char **path, struct err *err)
{
    char dir[4096];
    struct sign_public key;
    int64_t serial = 0, accepted = 0;
    if (fs_join(root, state_dir, dir, err) != 0 ||
        sign_public_parse_pem(public_key, strlen(public_key), "public_key", &key, err) != 0)
        return -1;
    AUTO(free_str) char *text = jsonx_canonical(slice);
    if (check_slice(text, node, &key, &serial, err) != 0 ||
        accepted_serial(dir, &key, &accepted, err) != 0)
        return -1;
    if (serial < accepted)
        return err_set(err, ERR_DATA,
                       "an older report: serial %lld, this node has accepted serial %lld",
                       (long long)serial, (long long)accepted);
    if (fs_mkdirs(dir, 0755, err) != 0 || write_files(dir, node, text, &key, serial, err) != 0 ||
        install_gate(dir, err) != 0)
        return -1;
    *path = str_printf("%s/slice.json", state_dir);
    return 0;
}
