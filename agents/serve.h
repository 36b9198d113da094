/* The agent's main process: requests from the controller in, workers around, replies out.
 *
 * Ends with bye, when the input closes or on SIGTERM; whatever was running is ended then, and an
 * open transaction is undone.  Uses the process's signals and children: one call per process. */
#ifndef MUSTER_AGENTS_SERVE_H
#define MUSTER_AGENTS_SERVE_H

#include "common/err.h"
#include "common/fs.h"

struct serve_options {
    struct fs_root root;   /* what is read and configured */
    const char *state_dir; /* below root: "/var/lib/muster" */
    int in_fd, out_fd;
};

/* *status: 0 after bye or when nothing was broken off, 2 after a line that is not the protocol, 4
 * when the channel closed while a request was running.  ERR_ENV: signals or polling fail. */
int serve_run(const struct serve_options *options, int *status, struct err *err);

#endif
