/* The error object: a kind, the native code, and one sentence that names the exact cause.
 *
 * Owned by the caller, passed as the last argument, never NULL.  The first cause wins: err_set() on
 * an object that already holds an error leaves it alone, so a cleanup path cannot hide the reason.
 * Libraries fill it and return; only a main prints it, once.  Thread rule: one object, one thread.
 */
#ifndef MUSTER_COMMON_ERR_H
#define MUSTER_COMMON_ERR_H

#include <stdbool.h>

enum { ERR_TEXT_BYTES = 512 };

enum err_kind {
    ERR_NONE = 0, /* no error */
    ERR_USAGE,    /* command line or site file: the operator must change what was written */
    ERR_ENV,      /* this machine: file, permission, library, host key */
    ERR_REMOTE,   /* a node: refused, unreachable, channel lost, command failed */
    ERR_TIMEOUT,  /* a deadline passed */
    ERR_DATA,     /* input that is not what it claims to be: evidence, report, protocol line */
    ERR_NOMEM,    /* allocation failed */
    ERR_KIND__COUNT
};

struct err {
    enum err_kind kind;
    int native;                /* errno or a library's own code, 0 if none */
    char text[ERR_TEXT_BYTES]; /* ends in "+" when it was cut */
};

/* Record the cause.  Always returns -1, so that `return err_set(...)` is one statement. */
int err_set(struct err *err, enum err_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: appends ": " and the text of errnum, keeps it in native. */
int err_set_errno(struct err *err, enum err_kind kind, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Prefix the recorded cause with context ("gpu017: ").  Always returns -1. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void err_clear(struct err *err);

/* "usage", "env", ...; the inverse returns ERR_NONE for an unknown word. */
const char *err_kind_name(enum err_kind kind);
enum err_kind err_kind_find(const char *name);

/* Exit status of a program that ends with this kind: 0 none, 2 usage and data, 3 env, 4 remote,
 * 5 timeout, 6 nomem.  Status 1 is kept for "done, and the answer is no". */
int err_exit_status(enum err_kind kind);

#endif
