/* One JSON object per line between controller and agent, and between agent and worker.
 *
 * docs/contracts.md, section 7, states requests, replies and events.  The reader never waits; the
 * writer never blocks: what a slow reader does not take stays queued.  One object, one thread. */
#ifndef MUSTER_AGENTS_PROTOCOL_H
#define MUSTER_AGENTS_PROTOCOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/util.h"

enum {
    PROTOCOL_VERSION = 1,
    PROTOCOL_MAX_LINE_BYTES = 8 * 1024 * 1024, /* without the newline */
    PROTOCOL_NO_ID = -1 /* a line whose id could not be read; null on the wire */
};

/* --- lines in ------------------------------------------------------------------------------- */

struct protocol_reader {
    struct strbuf buf;
    size_t consumed; /* bytes of buf that the last line took */
    size_t scanned;  /* bytes known to hold no newline */
    bool ended;      /* end of file was read */
};

/* One read(2) from fd.  Returns 1 when bytes came, 0 when none is there now (EAGAIN) or at the end
 * (ended is set), -1 with ERR_REMOTE when reading fails. */
int protocol_fill(struct protocol_reader *r, int fd, struct err *err);
/* Next complete line, NUL-terminated without newline, borrowed until the next call.  Returns 1, 0
 * when there is none yet, -1 with ERR_DATA when a line is over PROTOCOL_MAX_LINE_BYTES. */
int protocol_next(struct protocol_reader *r, char **line, size_t *len, struct err *err);
void protocol_reader_release(struct protocol_reader *r);

/* --- lines out ------------------------------------------------------------------------------ */

struct protocol_writer {
    struct strbuf buf; /* not written yet, from `done` on */
    size_t done;
    bool broken; /* the other side is gone: everything is dropped */
};

/* Queue one object as a line; takes over the reference. */
void protocol_put(struct protocol_writer *w, json_t *object);
size_t protocol_pending_bytes(const struct protocol_writer *w);
/* Write what fd takes without blocking.  A broken pipe only sets broken. */
void protocol_flush(struct protocol_writer *w, int fd);
void protocol_writer_release(struct protocol_writer *w);

/* Replies and events; take over the reference to data and fields (NULL is {}).  A reply that would
 * be over the limit becomes an error reply. */
void protocol_reply(struct protocol_writer *w, int64_t id, json_t *data);
void protocol_reply_error(struct protocol_writer *w, int64_t id, const struct err *err);
void protocol_event(struct protocol_writer *w, int64_t id, const char *event, json_t *fields);

/* --- requests ------------------------------------------------------------------------------- */

enum protocol_op {
    PROTOCOL_UNSET = 0,
    PROTOCOL_HELLO,
    PROTOCOL_FACTS,
    PROTOCOL_PLAN,
    PROTOCOL_APPLY,
    PROTOCOL_ROLLBACK,
    PROTOCOL_STAGE,
    PROTOCOL_GO,
    PROTOCOL_CANCEL,
    PROTOCOL_PUBLISH,
    PROTOCOL_BYE,
    PROTOCOL_OP__COUNT
};

struct protocol_request {
    int64_t id; /* PROTOCOL_NO_ID when it could not be read */
    enum protocol_op op;
    json_t *body; /* the whole line; its members have been checked against the op's */
};

const char *protocol_op_name(enum protocol_op op);

/* Read one line.  Returns 0; or -1 with err and request->id set as far as it could be read:
 * ERR_USAGE unknown op or key, ERR_DATA otherwise; *garbage tells that the line is not a JSON
 * object at all, after which nothing on this channel can be trusted.  request needs
 * protocol_request_release() either way. */
int protocol_parse(const char *line, size_t len, struct protocol_request *request, bool *garbage,
                   struct err *err);
void protocol_request_release(struct protocol_request *request);

#endif
