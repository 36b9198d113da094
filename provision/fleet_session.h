/* Inside of the fleet: one session, its channels, and what the parts of the fleet ask of each
 * other.
 *
 * fleet.c holds the loop, fleet_session.c takes one session from nothing to "logged in",
 * fleet_auth.c logs in, fleet_proxy.c starts proxy commands, fleet_channel.c runs commands,
 * fleet_agent.c starts the agent, fleet_call.c speaks with it.  Not for other files. */
#ifndef MUSTER_PROVISION_FLEET_SESSION_H
#define MUSTER_PROVISION_FLEET_SESSION_H

#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <netdb.h>
#include <sys/types.h>

#include "common/hash.h"
#include "common/util.h"
#include "provision/fleet.h"
#include "provision/hostkeys.h"
#include "provision/resolve.h"
#include "provision/sshconfig.h"

enum session_phase {
    SESSION_IDLE = 0,
    SESSION_QUEUED,  /* to be set up, not begun */
    SESSION_RESOLVE, /* name look-up */
    SESSION_TCP,
    SESSION_KEX,
    SESSION_AUTH,
    SESSION_READY,
    SESSION_CLOSED
};

/* --- channels ------------------------------------------------------------------------------- */

enum channel_phase { CHANNEL_OPENING = 0, CHANNEL_REQUESTING, CHANNEL_RUNNING, CHANNEL_ENDED };

struct session;
/* Output as it arrives, from inside libssh: it may only be stored. */
typedef void channel_data_fn(void *ctx, const char *data, size_t len, bool is_stderr);

struct channel {
    struct session *session;
    ssh_channel ssh;
    struct ssh_channel_callbacks_struct callbacks;
    enum channel_phase phase;
    char *command;
    const uint8_t *feed; /* sent before tx; borrowed */
    size_t feed_len;
    struct strbuf tx;
    bool end_input; /* send EOF once all is sent */
    bool input_ended, has_status, remote_eof, remote_closed;
    int status;
    char signal[16];
    channel_data_fn *on_data;
    void *ctx;
};

struct channel *channel_create(struct session *s, const char *command, channel_data_fn *on_data,
                               void *ctx);
void channel_destroy(struct channel *c); /* closes it on the wire; NULL accepted */
void channel_send(struct channel *c, const void *data, size_t len);
/* Advance as far as possible; true when something moved.  Failures go to the session. */
bool channel_step(struct channel *c);

/* --- the agent ------------------------------------------------------------------------------ */

enum agent_phase {
    AGENT_NONE = 0,
    AGENT_BOOT,   /* the start script runs, its first word is awaited */
    AGENT_UPLOAD, /* the binary is on its way */
    AGENT_HELLO,  /* it runs, hello is out */
    AGENT_ANSWERS,
    AGENT_BYE /* bye is answered: the end of the channel is no failure */
};

struct agent {
    enum agent_phase phase;
    struct channel *channel;
    struct strbuf rx, errs; /* unread output; first bytes of stderr */
    size_t scanned;         /* bytes of rx known to hold no newline */
    size_t noise;           /* bytes skipped before the start script's first word */
    bool flooded;           /* more came than a line may have */
    unsigned starts;        /* channels begun, to tell a restart */
    bool again;             /* the second attempt: upload even if a file is there */
    size_t image;           /* which of the images runs here */
    int64_t next_id;
    int64_t request_id;  /* of the running call */
    bool waiting;        /* the running call has no reply yet */
    bool late;           /* the last call ended without one */
    struct err send_err; /* first refusal of something queued by fleet_send() */
    json_t *hello;
};

/* --- login ---------------------------------------------------------------------------------- */

struct keyring;
struct auth_attempt {
    const char *what; /* "key /root/.ssh/id_ed25519"; owned by the key ring */
    ssh_key key;      /* NULL: the ssh-agent */
};
struct auth {
    struct auth_attempt *attempts;
    size_t count, at;
    struct strbuf tried, skipped;
    bool asked_none, partial;
};

struct keyring *keyring_create(const char *identity, struct err *err);
void keyring_destroy(struct keyring *k);

/* --- one session ---------------------------------------------------------------------------- */

struct session {
    struct fleet *fleet;
    size_t index;
    char *name;
    char *target; /* host as the site has it: what the config's Host lines see */
    struct sshconfig_host config;
    const struct hostkeys *hostkeys; /* shared, by the files that are read for this host */

    enum session_phase phase;
    enum fleet_node_state state;
    struct err err;
    const char *cause;
    bool busy; /* the running call waits for it */

    struct addrinfo *addresses, *next_address;
    int64_t deadline_ms, tcp_deadline_ms; /* monotonic; of the set-up and of one address */
    int fd;                               /* registered with epoll; -1 none */
    uint32_t events;
    bool direct; /* a TCP socket of our own, not a proxy's pipe */
    ssh_session ssh;
    ssh_event pump;
    pid_t proxy_pid;
    int proxy_errs; /* what the proxy command says; -1 none */
    struct hostkeys_found found;
    char *key_type, *key_base64, *fingerprint;
    struct auth auth;

    struct ssh_counter_struct counter; /* bytes on the wire */
    uint64_t heard_bytes;
    int64_t heard_ms, asked_ms; /* last byte from the node, last keepalive to it */
    bool touched;               /* is in the fleet's list of the same name */
    struct channel *exec;
    struct agent agent;
};

struct hostset { /* known_hosts files read once */
    char *key;
    struct hostkeys *table;
};

struct fleet {
    struct session *sessions;
    size_t count;
    struct sshconfig *config;
    char *config_file;  /* NULL for the default files */
    char **extra_hosts; /* known_hosts files besides the user's; ends in NULL */
    struct hostset *hostsets;
    size_t hostset_count;
    struct keyring *keys;
    struct resolver *resolver;
    int epoll;
    enum fleet_become become;
    unsigned connect_timeout_ms, parallel, keepalive_ms;
    char *agent_dir;

    fleet_progress_fn *progress;
    void *progress_ctx;
    size_t pending;             /* busy sessions */
    size_t setting_up, proxied; /* sessions between start and login; those through a proxy */
    size_t queued;
    bool scanning;
    int64_t swept_ms; /* last look at deadlines */
    size_t *touched;  /* sessions with something to send that no event will announce */
    size_t *touched_before;
    size_t touched_count;

    const struct fleet_call *call;
    bool tick_due;
    const struct start *start; /* the running fleet_start_agents() */
};

/* fleet.c */
void fleet_note(struct session *s, const char *what);
void fleet_touch(struct session *s);  /* step it in the next turn */
void fleet_settle(struct session *s); /* the running call need not wait for it any more */
/* Wait for events until max_wait_ms have passed or something happened. */
void fleet_turn(struct fleet *f, int64_t max_wait_ms);
void fleet_mark_all_alive(struct fleet *f);

/* fleet_session.c */
void session_start(struct session *s);
void session_resolved(struct session *s, const struct resolve_answer *answer);
void session_step(struct session *s);
void session_check_deadline(struct session *s, int64_t now);
/* Ends the session for good; the first cause stays. */
void session_fail(struct session *s, enum err_kind kind, const char *cause, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for a broken connection: adds libssh's or the proxy's words. */
void session_lost(struct session *s, const char *what);
void session_close(struct session *s);
const char *session_user(const struct session *s);

/* fleet_hostkey.c */
int session_hostkeys(struct session *s, struct err *err); /* choose and read known_hosts files */
void session_find_keys(struct session *s);
void session_check_key(struct session *s); /* fails the session unless the key is known */
void session_scanned(const struct session *s, struct fleet_scanned *out);
const char *session_key_host(const struct session *s, int *port);

/* fleet_proxy.c */
bool proxy_wanted(const struct session *s);
int proxy_start(struct session *s, struct err *err); /* socket's fd */
void proxy_end(struct session *s);
/* The proxy's last words, printable; "" when there are none.  The caller frees. */
char *proxy_words(struct session *s);

/* fleet_auth.c */
int auth_step(struct session *s); /* 1 logged in, 0 waits for the node, -1 the session failed */
void auth_release(struct auth *a);

/* fleet_agent.c */
void agent_process(struct session *s); /* look at what has arrived, and at the channel's end */
void agent_stop(struct session *s);    /* forget everything about it; the channel is closed */
void agent_hello(struct session *s, json_t *data, const struct err *refusal);
enum { AGENT_SHOWN_BYTES = 80, AGENT_WORDS_BYTES = 240 };
/* data with everything but printable ASCII as \xNN, at most max_bytes of it.  The caller frees. */
char *agent_printable(const char *data, size_t len, size_t max_bytes);

/* fleet_boot.c: the script that checks, stores and starts the agent on a node */
struct start_image {
    const char *arch, *path;
    uint8_t *data;
    size_t len;
    char sha256[HASH_HEX_BYTES];
};
struct start { /* one fleet_start_agents() */
    struct start_image *images;
    size_t count;
    const char *run;
    const int64_t *seqs;
};
char *boot_command(const struct fleet *f, const struct start *start, bool upload_always);
void boot_line(struct session *s, const char *line); /* a line before the agent runs */
void boot_ended(struct session *s);                  /* the script ended without starting it */

/* fleet_call.c */
enum { CALL_MAX_LINE_BYTES = 8 * 1024 * 1024 };
void call_line(struct session *s, const char *line, size_t len);
/* Queue a request; v and id are added, the id is returned. */
int64_t call_send(struct session *s, const json_t *request);
void call_node_failed(struct session *s);

#endif
