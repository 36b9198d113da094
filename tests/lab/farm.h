/* The node farm: many nodes with a real sshd each on one Linux machine, out of namespaces.
 *
 * Processes: `up` starts the hub and returns when every node answers.  The hub owns a mount and a
 * network namespace and is the parent of every node's pid 1, so its death is the end of the farm.
 * A node has its own mount, pid, net, uts and ipc namespace: an overlay over the machine's own root
 * with the changes in memory.  Nodes hang off the hub by routed veth pairs.  Nothing of this shows
 * outside the hub's namespaces but the files in DIR, so farms in several DIRs live side by side.
 * Single-threaded; every process has its own copy of struct farm. */
#ifndef MUSTER_TESTS_LAB_FARM_H
#define MUSTER_TESTS_LAB_FARM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

enum {
    FARM_MAX_NODES = 4000,
    FARM_NAME_BYTES = 48,
    FARM_EXIT_CANNOT = 77 /* this machine does not permit it: what a test calls "skipped" */
};

struct farm {
    char dir[512];      /* absolute */
    const char *prefix; /* node names are PREFIX001, PREFIX002, ... */
    unsigned count;
    bool systemd;  /* pid 1 of a node is systemd instead of sshd */
    bool pam;      /* sshd opens PAM sessions (limits.d takes effect) */
    bool sudo;     /* nodes have sudo, and the account `ops` may use it */
    pid_t tie;     /* the farm ends with this process; 0 for none */
    bool made_dir; /* DIR did not exist before */
    pid_t hub;
};

/* Names and addresses; index from 0. */
void farm_node_name(const struct farm *f, unsigned index, char out[static FARM_NAME_BYTES]);
void farm_node_address(unsigned index, char out[static 16]);
char *farm_path(const struct farm *f, const char *name); /* DIR/name; the caller frees */

/* The directory.  create takes the lock that tells others that the hub lives (returned, >= 0) and
 * clears what a killed hub left; ERR_ENV when a farm runs there or a file there is not ours. */
int farm_dir_create(struct farm *f, struct err *err);
int farm_dir_fill(const struct farm *f, struct err *err); /* keys, hosts, known_hosts, ... */
int farm_dir_add_pid(const struct farm *f, pid_t pid, struct err *err);
/* Reads what a running hub wrote: 0 and alive, or -1 when no hub runs (f->made_dir is still set).
 */
int farm_dir_load(struct farm *f, char prefix[static FARM_NAME_BYTES]);
pid_t farm_dir_pid(const struct farm *f, unsigned index); /* 0 if unknown */
void farm_dir_remove(const struct farm *f);
/* Where the nodes' cgroups are (systemd only); NULL without a cgroup2 mount.  The caller frees. */
char *farm_cgroup(const struct farm *f);

/* Writes a small file; err may say ERR_ENV. */
int farm_put(const char *path, mode_t mode, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A fresh Ed25519 key pair in OpenSSH's file formats: PATH (0600) and PATH.pub.  line, if not NULL,
 * gets "ssh-ed25519 BASE64" (the caller frees). */
int farm_key_make(const char *path, const char *comment, char **line, struct err *err);

/* A copy of /proc/sys/{vm,kernel,fs}: those are the whole machine's, so nodes get a copy each. */
int farm_sysctl_copy(const char *to, struct err *err);

/* In the node's process: build the root below rt/NAME, enter it; then become pid 1's program. */
int farm_node_build(const struct farm *f, unsigned index, struct err *err);
int farm_node_exec(const struct farm *f, struct err *err);
/* The files of one node below root (its future "/"). */
int farm_etc_write(const struct farm *f, unsigned index, const char *root, struct err *err);
int farm_etc_systemd(const char *root, struct err *err);

/* Bring up an interface and, unless address is NULL, give it address/16. */
int farm_link_up(const char *interface, const char *address, struct err *err);
int farm_link_neighbour(const char *interface, const char *address, struct err *err);

/* The hub, in a child of `up`; sock is its end of a socket pair.  Returns the exit status. */
int farm_hub_run(struct farm *f, int sock);
/* `up` and `down`; both return an exit status and print what went wrong. */
int farm_up(struct farm *f);
int farm_down(struct farm *f);

#endif
