/* The controller's state directory: known hosts, node pins, signing key, report serial, runs.
 *
 * docs/contracts.md, section 2.  One controller at a time works in it (a lock that ends with the
 * process).  Mode 0700; files with secrets 0600. */
#ifndef MUSTER_PROVISION_STATE_H
#define MUSTER_PROVISION_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct state {
    char *dir;   /* absolute */
    int lock_fd; /* -1 when opened for reading only */
};

enum state_mode { STATE_READ = 0, STATE_WRITE };

/* dir NULL: $MUSTER_STATE, else ./muster-state.  STATE_WRITE creates it and takes the lock.
 * ERR_ENV: missing (STATE_READ), not ours, or another controller (its pid is named) works in it. */
int state_open(struct state *s, const char *dir, enum state_mode mode, struct err *err);
void state_close(struct state *s);
/* Path of a file in it; the caller frees. */
char *state_path(const struct state *s, const char *relative);

/* Next report serial: counted up and stored durably before it is returned.  ERR_ENV, ERR_DATA. */
int state_next_serial(const struct state *s, int64_t *serial, struct err *err);

/* Node pins (nodes.json): which evidence key and SSH host key a node showed at first contact. */
int state_pins_load(const struct state *s, json_t **pins, struct err *err);
int state_pins_save(const struct state *s, const json_t *pins, struct err *err);
/* Check what a node shows against its pin; a node without one is pinned (*added).  ERR_DATA:
 * another evidence key or machine than before although the name is the same; the text says what to
 * do. */
int state_pin_check(json_t *pins, const char *node, const char *node_key, const char *host_key,
                    const char *machine_id, bool *added, struct err *err);
void state_pin_forget(json_t *pins, const char *node);

#endif
