#include "agents/node_key.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/util.h"

static struct sign_key *load(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0) {
        err_set_errno(err, ERR_ENV, errno, "node key %s", path);
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        err_set(err, ERR_ENV, "node key %s: must be a regular file of uid %u, is %s of uid %u",
                path, (unsigned)geteuid(), S_ISREG(st.st_mode) ? "one" : "something else",
                (unsigned)st.st_uid);
        return NULL;
    }
    return sign_key_load_private(path, err);
}

/* A hard link appears whole or not at all and never replaces: the loser of a race loads the
 * winner's key. */
static int create(const char *path, struct err *err)
{
    uint32_t tag;
    random_bytes(&tag, sizeof tag);
    AUTO(free_str) char *tmp = str_printf("%s.muster-%08x", path, tag);
    struct sign_key *key = sign_key_generate(err);
    if (!key)
        return -1;
    int rc = sign_key_save_private(key, tmp, err);
    sign_key_destroy(key);
    if (rc != 0)
        return -1;
    if (link(tmp, path) != 0 && errno != EEXIST)
        rc = err_set_errno(err, ERR_ENV, errno, "create node key %s", path);
    unlink(tmp);
    return rc;
}

struct sign_key *node_key_open(const struct fs_root *root, const char *state_dir, struct err *err)
{
    char dir[4096];
    if (fs_join(root, state_dir, dir, err) != 0)
        return NULL;
    AUTO(free_str) char *path = str_printf("%s/node.key", dir);
    AUTO(free_str) char *public_path = str_printf("%s/node.pub", dir);
    if (!fs_exists(path) && (fs_mkdirs(dir, 0755, err) != 0 || create(path, err) != 0))
        return NULL;
    struct sign_key *key = load(path, err);
    if (!key)
        return NULL;
    /* A crash between the two files leaves the key without its public half. */
    struct sign_public public;
    sign_public_raw(key, &public);
    if (!fs_exists(public_path) && sign_public_save(&public, public_path, err) != 0) {
        sign_key_destroy(key);
        return NULL;
    }
    return key;
}
