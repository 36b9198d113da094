/* Host names to addresses without blocking the caller: a few worker threads and an eventfd.
 *
 * resolve_create(), resolve_start(), resolve_take() and resolve_destroy() are for one thread. */
#ifndef MUSTER_PROVISION_RESOLVE_H
#define MUSTER_PROVISION_RESOLVE_H

#include <netdb.h>
#include <stddef.h>

#include "common/err.h"

struct resolver;
struct resolver *resolve_create(struct err *err); /* ERR_ENV: no eventfd */
/* Look-ups that still run are left to end by themselves; nothing of theirs is used afterwards. */
void resolve_destroy(struct resolver *r);
int resolve_fd(const struct resolver *r); /* readable when an answer waits */

/* Numeric addresses are answered at once (*addresses set, 1 returned).  Otherwise 0: the answer
 * comes later through resolve_take() with this token.  -1 with err ERR_ENV: no thread. */
int resolve_start(struct resolver *r, const char *host, int port, size_t token,
                  struct addrinfo **addresses, struct err *err);

struct resolve_answer {
    size_t token;
    int error;                  /* EAI_... or 0 */
    struct addrinfo *addresses; /* freeaddrinfo() is the caller's */
};
/* Next answer; 0 when none waits. */
int resolve_take(struct resolver *r, struct resolve_answer *answer);

#endif
