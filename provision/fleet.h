/* Many nodes at once over SSH from one thread: connect, authenticate, start the agent, talk to it.
 *
 * A fleet owns one session per node and one epoll loop.  Each call below starts work on several
 * nodes and pumps the loop until every one of them has an outcome, so a slow or dead node never
 * stops the others and never hides: outcomes are per node and never merged.  Single-threaded; no
 * call may be made from inside another, except fleet_send() from an event callback. */
#ifndef MUSTER_PROVISION_FLEET_H
#define MUSTER_PROVISION_FLEET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* How to reach one node; strings are copied.  NULL or 0 leaves the choice to ~/.ssh/config. */
struct fleet_target {
    const char *name; /* the node's name in the site file: the key in every message */
    const char
        *host; /* name or address to connect to, NULL means name (and HostName of the config) */
    const char *user;
    int port;
};

enum fleet_become { FLEET_BECOME_NONE = 0, FLEET_BECOME_SUDO };

struct fleet_options {
    const char *ssh_config; /* NULL: ~/.ssh/config and /etc/ssh/ssh_config as OpenSSH does */
    const char *identity;   /* extra private key file (with NAME-cert.pub beside it), or NULL */
    const char *const
        *known_hosts; /* extra files besides the user's own; ends in NULL; may be NULL */
    enum fleet_become become;
    unsigned connect_timeout_ms; /* TCP, key exchange and authentication together; 0 means 10000 */
    unsigned parallel;           /* sessions being set up at once, 0 means 256 */
    unsigned keepalive_ms;       /* silence after which a node counts as lost, 0 means 30000 */
    const char *agent_dir;       /* on the nodes; NULL: /var/lib/muster/agent */
};

enum fleet_node_state {
    FLEET_IDLE = 0, /* not connected yet */
    FLEET_CONNECTED,
    FLEET_AGENT, /* the agent answers */
    FLEET_FAILED /* err and cause say why; the session is closed */
};

struct fleet;

/* Connects nothing yet; raises the process's soft limit of open files when the nodes need it.
 * Returns NULL with err: ERR_USAGE duplicate name, ERR_ENV too few open files, unreadable key or
 * known_hosts or ssh config, ERR_DATA malformed ssh config.
 *
 * Keys are offered in this order: options->identity, IdentityFile of the config, the ssh-agent, and
 * without any IdentityFile ~/.ssh/id_{ed25519,ecdsa,rsa}; a certificate (KEY-cert.pub or
 * CertificateFile) goes before its key.  A host key is looked up under the name that is connected
 * to (HostKeyAlias, HostName), and when no line covers that, under the target's host and name. */
struct fleet *fleet_create(const struct fleet_target targets[], size_t count,
                           const struct fleet_options *options, struct err *err);
void fleet_destroy(struct fleet *f); /* closes every session; NULL accepted */

size_t fleet_count(const struct fleet *f);
const char *fleet_name(const struct fleet *f, size_t node);
enum fleet_node_state fleet_state(const struct fleet *f, size_t node);
/* The first failure of a node; kind ERR_NONE while it has none.  cause is a code of
 * validate/causes.def: "unreachable", "host-key-unknown", "host-key-changed" (a revoked key too),
 * "auth-refused", "sudo-refused", "disk-full", "agent-arch", "agent-hash", "agent-start-failed",
 * "node-lost", "protocol", "timeout"; "" while there is none. */
const struct err *fleet_error(const struct fleet *f, size_t node);
const char *fleet_cause(const struct fleet *f, size_t node);
/* Host key fingerprint seen on the wire ("SHA256:..."), "" before the key exchange. */
const char *fleet_host_key(const struct fleet *f, size_t node);

/* Told of each node's change while a call pumps; for progress displays.  May be NULL. */
typedef void fleet_progress_fn(void *ctx, struct fleet *f, size_t node, const char *what);
void fleet_on_progress(struct fleet *f, fleet_progress_fn *fn, void *ctx);

/* Connect and authenticate every idle node.  Returns how many are connected; failures stay per
 * node. */
size_t fleet_connect(struct fleet *f);

/* What `muster enroll` shows and writes: a node's host key, taken without checking it. */
enum fleet_key_state {
    FLEET_KEY_UNKNOWN = 0,
    FLEET_KEY_KNOWN,
    FLEET_KEY_CHANGED, /* known_hosts has another key for this host */
    FLEET_KEY_REVOKED
};
struct fleet_scanned {
    enum fleet_key_state state;
    char *host, *type, *base64; /* for hostkeys_append(); NULL when the node did not answer */
    int port;
    char *fingerprint;       /* "SHA256:..." */
    char *known_fingerprint; /* FLEET_KEY_CHANGED: the key that is known; else NULL */
    char *known_place;       /* "FILE:LINE" of the line that decided; NULL when unknown */
};
/* Connect every idle node as far as its key exchange and hang up.  A node that answered is idle
 * again afterwards; one that did not has failed.  Returns how many answered. */
size_t fleet_scan(struct fleet *f, struct fleet_scanned results[]);
void fleet_scanned_release(struct fleet_scanned *s);

/* Run a command on each connected node (argv is quoted here: no value can become shell syntax).
 * It runs as the login user: options->become is for the agent.  stdin is empty.
 *
 * timeout_ms  of the whole call, 0 for none; then the command gets SIGTERM and done stays false.
 *
 * Returns 0 when every node has an outcome: a node that was lost has failed (fleet_error()), one
 * whose command did not end in time has done == false and stays connected.  -1 with err ERR_USAGE:
 * empty argv.  outputs[] is set for every node; release each with fleet_output_release(). */
struct fleet_output {
    bool done;        /* the command ended by itself */
    bool cut;         /* there was more output than max_output_bytes */
    int status;       /* exit status, -1 when it ended by a signal or did not end */
    char signal[16];  /* "KILL" when it ended by one, else "" */
    char *out, *errs; /* NUL-terminated; each cut at max_output_bytes */
    size_t out_len, errs_len;
};
int fleet_exec(struct fleet *f, const char *const argv[], unsigned timeout_ms,
               size_t max_output_bytes, struct fleet_output outputs[], struct err *err);
void fleet_output_release(struct fleet_output *o);

/* An agent binary that can be uploaded. */
struct fleet_agent_image {
    const char *arch; /* as `uname -m` prints it */
    const char *path;
};
/* On each connected node: upload the agent of its architecture unless
 * /var/lib/muster/agent/<sha256> holds it (atomic, verified), start it, send hello with run and the
 * node's name, check its answer. replies[node] gets hello's data (new reference) or NULL.  Returns
 * how many agents answer. */
size_t fleet_start_agents(struct fleet *f, const struct fleet_agent_image images[],
                          size_t image_count, const char *run, const int64_t *seqs,
                          unsigned timeout_ms, json_t *replies[]);

/* One request to each node of a set.  Members v and id are added here.
 *
 * requests[node]   borrowed; NULL leaves the node out
 * replies[node]    data of the reply (new reference), or NULL with errors[node] set: the agent's
 * own error, ERR_TIMEOUT after timeout_ms, ERR_REMOTE when the node is lost (then its state is
 * FLEET_FAILED), ERR_DATA when it answers with garbage (likewise). on_event         may be NULL;
 * called for every event line; it may call fleet_send(). on_tick          may be NULL; called about
 * every 100 ms and after each reply, for barriers and deadlines; `pending` is the number of nodes
 * without a reply. */
typedef void fleet_event_fn(void *ctx, struct fleet *f, size_t node, const json_t *event);
typedef void fleet_tick_fn(void *ctx, struct fleet *f, size_t pending);
struct fleet_call {
    json_t *const *requests;
    json_t **replies;
    struct err *errors;
    unsigned timeout_ms;
    fleet_event_fn *on_event;
    fleet_tick_fn *on_tick;
    void *ctx;
};
void fleet_call(struct fleet *f, const struct fleet_call *call);
/* Id that the request of the running call has on this node (for go and cancel). */
int64_t fleet_request_id(const struct fleet *f, size_t node);
/* Queue a request whose reply is only checked for ok (go, cancel).  Ignored for a failed node. */
void fleet_send(struct fleet *f, size_t node, const json_t *request);

/* Whether the node's last call ended without its answer, so that its agent is still busy with it.
 */
bool fleet_is_late(const struct fleet *f, size_t node);
/* Give up a node that does not keep to the protocol or to its time: it has failed with this cause
 * (borrowed for good) and text, its connection is closed, and its agent ends by that.  A running
 * call gets its outcome.  Also from on_event and on_tick.  Ignored for a failed node. */
void fleet_drop(struct fleet *f, size_t node, enum err_kind kind, const char *cause,
                const char *text);

/* End the agents with bye; replies as in fleet_call (what each left behind), may be NULL. */
void fleet_bye(struct fleet *f, unsigned timeout_ms, json_t *replies[]);

#endif
