/* ~/.ssh/config and /etc/ssh/ssh_config: read once, asked for each host.
 *
 * libssh's own reader hands out only one IdentityFile, reads the files again for every session, and
 * after a HostName line matches later Host blocks against the address instead of the name.  This
 * one follows ssh_config(5) for the keywords below: Host with negation, Match with all, host,
 * originalhost, user and localuser (negation too; a block with exec, canonical, final or another
 * criterion does not apply), Include with globs.  Other keywords are ignored.  Read-only once
 * loaded. */
#ifndef MUSTER_PROVISION_SSHCONFIG_H
#define MUSTER_PROVISION_SSHCONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum sshconfig_key {
    SSHCONFIG_HOST_NAME = 0,
    SSHCONFIG_USER,
    SSHCONFIG_PORT,
    SSHCONFIG_PROXY_COMMAND,
    SSHCONFIG_PROXY_JUMP,
    SSHCONFIG_HOST_KEY_ALIAS,
    SSHCONFIG_IDENTITY_AGENT,
    SSHCONFIG_IDENTITIES_ONLY,
    SSHCONFIG_BIND_ADDRESS,
    SSHCONFIG_CIPHERS,
    SSHCONFIG_KEX_ALGORITHMS,
    SSHCONFIG_MACS,
    SSHCONFIG_PUBKEY_ALGORITHMS,
    SSHCONFIG_REKEY_LIMIT,
    /* From here on every line counts and a line may hold several words. */
    SSHCONFIG_IDENTITY_FILE,
    SSHCONFIG_CERTIFICATE_FILE,
    SSHCONFIG_USER_KNOWN_HOSTS,
    SSHCONFIG_GLOBAL_KNOWN_HOSTS,
    SSHCONFIG__COUNT
};

struct sshconfig;
/* file NULL reads the user's and the system's file, missing ones are empty; a named file must be
 * readable.  ERR_ENV unreadable; ERR_DATA (file and line) unbalanced quotes, Include too deep. */
struct sshconfig *sshconfig_load(const char *file, struct err *err);
/* The same from memory: for tests; Include is ignored. */
struct sshconfig *sshconfig_parse(const char *text, size_t len, struct err *err);
void sshconfig_destroy(struct sshconfig *c);

/* What holds for one host.  Lists end in NULL; ~, %-tokens and ${NAME} are expanded. */
struct sshconfig_host {
    char *host;                           /* to connect to */
    char *user;                           /* NULL when nobody says: the local user */
    int port;                             /* 22 when nobody says */
    char *value[SSHCONFIG_IDENTITY_FILE]; /* single values as written; ProxyCommand unexpanded */
    char **list[SSHCONFIG__COUNT - SSHCONFIG_IDENTITY_FILE];
};
/* alias is the name as the site has it; user NULL and port 0 leave the choice to the file.
 * ERR_DATA: a port that is none. */
int sshconfig_resolve(const struct sshconfig *c, const char *alias, const char *user, int port,
                      struct sshconfig_host *out, struct err *err);
void sshconfig_host_release(struct sshconfig_host *h);
/* A list of the host by its key; NULL when the file has none. */
char *const *sshconfig_list(const struct sshconfig_host *h, enum sshconfig_key key);

/* Home directory (of the password file, as ssh) and login name of the local user. */
const char *sshconfig_home(const struct sshconfig *c);
const char *sshconfig_local_user(const struct sshconfig *c);

/* Expand %-tokens of a ProxyCommand: %h host, %p port, %r user, %n alias.  The caller frees. */
char *sshconfig_expand(const struct sshconfig *c, const struct sshconfig_host *h, const char *alias,
                       const char *text);

#endif
