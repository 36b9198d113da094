/* Host keys that are trusted: known_hosts files of OpenSSH, read once into a table.
 *
 * Understood: several names in a line, [host]:port, * and ? and !negation, hashed names (|1|),
 * @revoked (such a key is refused wherever its names match) and @cert-authority (remembered only:
 * libssh cannot verify host certificates).  Lines that cannot be read are left out, as OpenSSH
 * does. A table is read-only once loaded; found sets and their entries live as long as the table.
 */
#ifndef MUSTER_PROVISION_HOSTKEYS_H
#define MUSTER_PROVISION_HOSTKEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum hostkeys_mark { HOSTKEYS_PLAIN = 0, HOSTKEYS_CERT_AUTHORITY, HOSTKEYS_REVOKED };

struct hostkeys_entry {
    enum hostkeys_mark mark;
    char *hosts;      /* the first field as written */
    char *type;       /* "ssh-ed25519" */
    char *base64;     /* the key's blob */
    const char *file; /* borrowed from the table */
    size_t line;      /* from 1 */
};

struct hostkeys;
struct hostkeys *hostkeys_create(void);
void hostkeys_destroy(struct hostkeys *k);
/* A missing file is success.  ERR_ENV unreadable. */
int hostkeys_load(struct hostkeys *k, const char *path, struct err *err);
/* The same from memory; `name` stands for the file in messages and is copied. */
void hostkeys_parse(struct hostkeys *k, const char *text, size_t len, const char *name);
size_t hostkeys_count(const struct hostkeys *k);

/* "host" for port 22, else "[host]:port"; lower case.  The caller frees. */
char *hostkeys_host_name(const char *host, int port);

/* All lines whose names cover one host. */
struct hostkeys_found {
    const struct hostkeys_entry **entries;
    size_t count;
    size_t exact; /* entries from this index on are those of port 22: only equal keys count */
};
void hostkeys_find(const struct hostkeys *k, const char *host, int port,
                   struct hostkeys_found *found);
void hostkeys_found_release(struct hostkeys_found *found);

/* Host key algorithms to ask for, those of known keys first; comma-separated.  The caller frees. */
char *hostkeys_algorithms(const struct hostkeys_found *found);

enum hostkeys_answer {
    HOSTKEYS_UNKNOWN = 0,
    HOSTKEYS_KNOWN,
    HOSTKEYS_CHANGED, /* another key is known for this host */
    HOSTKEYS_BANNED   /* a @revoked line holds this key */
};
struct hostkeys_verdict {
    enum hostkeys_answer answer;
    const struct hostkeys_entry *entry;     /* the line that decided; NULL when unknown */
    const struct hostkeys_entry *authority; /* a @cert-authority line for this host, or NULL */
};
void hostkeys_check(const struct hostkeys_found *found, const char *type, const char *base64,
                    struct hostkeys_verdict *verdict);

/* "SHA256:..." of a key's base64 blob; NULL when it is not base64.  The caller frees. */
char *hostkeys_fingerprint(const char *base64);

/* A key to be trusted from now on. */
struct hostkeys_line {
    const char *host;
    int port;
    const char *type, *base64;
};
/* Add lines to a known_hosts file atomically; what is already there is not written twice.  A new
 * file gets mode 0600.  With replace, other keys of the same host are taken out; without it they
 * are an error, so that a changed key is never trusted by accident.
 * ERR_DATA malformed key or host; ERR_USAGE another key is known; ERR_ENV. */
int hostkeys_append_all(const char *path, const struct hostkeys_line lines[], size_t count,
                        bool replace, struct err *err);
int hostkeys_append(const char *path, const char *host, int port, const char *type,
                    const char *base64, struct err *err);

#endif
