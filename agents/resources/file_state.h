/* The state of one file: absent, or its content, mode and owner.
 *
 * Shared by every kind that is backed by a file.  Paths are absolute and lie below env->root; a
 * symbolic link is refused wherever it stands in a path, so that nobody who owns a directory on the
 * way can redirect a write.  State: {"exists":false} or
 * {"exists":true,"content_b64":S,"mode":"0644","uid":N,"gid":N}.  An absent file may also carry
 * "missing_dirs": how many directories above it are missing; they are removed again with it. */
#ifndef MUSTER_AGENTS_RESOURCES_FILE_STATE_H
#define MUSTER_AGENTS_RESOURCES_FILE_STATE_H

#include "agents/resources/resources.h"
#include "common/util.h"

#define FILE_STATE_INFO "missing_dirs"

enum { FILE_STATE_MAX_BYTES = 1024 * 1024 };

/* Absolute, without "..", ".", empty components or control characters.  ERR_USAGE. */
int file_state_check_path(const char *path, struct err *err);

/* ERR_ENV: unreadable.  ERR_DATA: a link, a directory, a device, or over FILE_STATE_MAX_BYTES. */
int file_state_read(const struct resources_env *env, const char *path, json_t **state,
                    struct err *err);

/* Make the file so, atomically; missing directories are made (0755).  Doing nothing when it is so
 * already, apart from removing what a broken-off write left behind.  ERR_ENV, ERR_DATA. */
int file_state_apply(const struct resources_env *env, const char *path, const json_t *state,
                     struct err *err);

json_t *file_state_absent(void);
json_t *file_state_make(const void *data, size_t len, mode_t mode, uid_t uid, gid_t gid);
/* A file of muster's own: text, 0644, owned by whoever runs this (root on a node). */
json_t *file_state_own(const char *text);
bool file_state_exists(const json_t *state);
/* Content, NUL-terminated; "" for an absent file.  ERR_DATA when it is not base64.  Caller frees.
 */
int file_state_content(const json_t *state, char **data, size_t *len, struct err *err);

/* Append what changes from before (may be NULL: absent) to want; nothing when equal. */
void file_state_diff(struct strbuf *out, const char *path, const json_t *before,
                     const json_t *want);

#endif
