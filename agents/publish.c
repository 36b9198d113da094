#include "agents/publish.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

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
static int write_files(const char *dir, const char *text, const struct sign_public *key,
                       int64_t serial, struct err *err)
{
    AUTO(free_str) char *slice_path = str_printf("%s/slice.json", dir);
    AUTO(free_str) char *key_path = str_printf("%s/report.pub", dir);
    AUTO(free_str) char *serial_path = str_printf("%s/serial", dir);
    AUTO(free_str) char *line = str_printf("%s\n", text);
    AUTO(free_str) char *number = str_printf("%lld\n", (long long)serial);
    if (fs_write_atomic(slice_path, line, strlen(line), 0644, err) != 0 ||
        sign_public_save(key, key_path, err) != 0)
        return -1;
    return fs_write_atomic(serial_path, number, strlen(number), 0644, err);
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
    AUTO(free_str) char *serial_path = str_printf("%s/serial", dir);
    if (check_slice(text, node, &key, &serial, err) != 0 ||
        read_serial(serial_path, &accepted, err) != 0)
        return -1;
    if (serial < accepted)
        return err_set(err, ERR_DATA,
                       "an older report: serial %lld, this node has accepted serial %lld",
                       (long long)serial, (long long)accepted);
    if (fs_mkdirs(dir, 0755, err) != 0 || write_files(dir, text, &key, serial, err) != 0)
        return -1;
    *path = str_printf("%s/slice.json", state_dir);
    return 0;
}
