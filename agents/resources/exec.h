/* Run a program of the node without a shell and collect what it says. */
#ifndef MUSTER_AGENTS_RESOURCES_EXEC_H
#define MUSTER_AGENTS_RESOURCES_EXEC_H

#include "common/err.h"
#include "common/fs.h"

enum { EXEC_MAX_OUTPUT_BYTES = 256 * 1024 };

struct exec_result {
    int status; /* exit status; 128 + signal when a signal ended it */
    char *out;  /* stdout, NUL-terminated, cut at EXEC_MAX_OUTPUT_BYTES */
    char *text; /* stderr without trailing blanks, likewise */
};

/* Path of a system program below root ("modprobe"), searched in the system directories only.  NULL
 * when it is not installed.  The caller frees. */
char *exec_find(const struct fs_root *root, const char *program);

/* Run argv[0] (a path) with an empty stdin and a minimal environment.
 *
 * timeout_ms  wall time, > 0; the program is killed at the deadline
 * result      set only on success; release with exec_release()
 *
 * Returns 0 once it has ended, whatever its status.  ERR_ENV: cannot be started.  ERR_TIMEOUT. */
int exec_run(const char *const argv[], int timeout_ms, struct exec_result *result, struct err *err);
void exec_release(struct exec_result *result);

#endif
