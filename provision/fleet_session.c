#include "provision/fleet_session.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ssh_send_keepalive() works for clients too, but stands in the server's header. */
#include <libssh/server.h>

enum { PUMP_TURNS = 64, MIN_ADDRESS_MS = 1000 };

/* AES-GCM first: with AES instructions it costs a third of ChaCha20, and it needs no separate MAC.
 */
static const char ciphers[] = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,"
                              "chacha20-poly1305@openssh.com,aes256-ctr,aes192-ctr,aes128-ctr";

const char *session_user(const struct session *s)
{
    return s->config.user ? s->config.user : sshconfig_local_user(s->fleet->config);
}

static bool is_setting_up(const struct session *s)
{
    return s->phase >= SESSION_RESOLVE && s->phase <= SESSION_AUTH;
}

static void set_phase(struct session *s, enum session_phase phase)
{
    struct fleet *f = s->fleet;
    bool before = is_setting_up(s);
    s->phase = phase;
    bool after = is_setting_up(s);
    if (before == after)
        return;
    f->setting_up += after ? 1 : (size_t)-1;
    if (proxy_wanted(s))
        f->proxied += after ? 1 : (size_t)-1;
}

static void watch(struct session *s, uint32_t events)
{
    if (s->events == events)
        return;
    struct epoll_event e = {.events = events, .data.u64 = s->index};
    int op = s->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(s->fleet->epoll, op, s->fd, &e) == 0)
        s->events = events;
}

static void unwatch(struct session *s)
{
    /* libssh may have closed the socket already; the number can be another's by now. */
    if (s->events != 0 && (!s->ssh || ssh_get_fd(s->ssh) == s->fd))
        epoll_ctl(s->fleet->epoll, EPOLL_CTL_DEL, s->fd, NULL);
    s->events = 0;
}

void session_close(struct session *s)
{
    unwatch(s);
    channel_destroy(s->exec);
    s->exec = NULL;
    channel_destroy(s->agent.channel);
    s->agent.channel = NULL;
    if (s->pump)
        ssh_event_free(s->pump);
    s->pump = NULL;
    if (s->ssh) {
        ssh_disconnect(s->ssh);
        ssh_free(s->ssh);
    } else if (s->fd >= 0) {
        close(s->fd);
    }
    s->ssh = NULL;
    s->fd = -1;
    proxy_end(s);
    if (s->addresses)
        freeaddrinfo(s->addresses);
    s->addresses = s->next_address = NULL;
    auth_release(&s->auth);
    set_phase(s, SESSION_CLOSED);
}

void session_fail(struct session *s, enum err_kind kind, const char *cause, const char *fmt, ...)
{
    if (s->state == FLEET_FAILED)
        return;
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        abort();
    va_end(args);
    err_set(&s->err, kind, "%s", text); /* marks what it has to cut */
    free(text);
    s->cause = cause;
    s->state = FLEET_FAILED;
    session_close(s);
    call_node_failed(s);
    fleet_settle(s);
    fleet_note(s, "failed");
}

void session_lost(struct session *s, const char *what)
{
    AUTO(free_str) char *proxy = proxy_words(s);
    const char *said = s->ssh ? ssh_get_error(s->ssh) : "";
    bool up = s->phase == SESSION_READY;
    session_fail(s, ERR_REMOTE, up ? "node-lost" : "unreachable", "%s%s%s%s%s", what,
                 said[0] ? ": " : "", said, proxy[0] ? "; the proxy says: " : "", proxy);
}

/* --- connecting ----------------------------------------------------------------------------- */

static void tune(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Delayed acknowledgements would hold back the peer's next packet by 40 ms at each turn. */
static void quick_ack(const struct session *s)
{
    int on = 1;
    if (s->direct)
        setsockopt(s->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

static void try_addresses(struct session *s, int last_error)
{
    int64_t now = now_ms(), left = s->deadline_ms - now;
    while (s->next_address) {
        const struct addrinfo *a = s->next_address;
        s->next_address = a->ai_next;
        s->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (s->fd < 0) {
            last_error = errno;
            continue;
        }
        tune(s->fd);
        if (connect(s->fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS) {
            int64_t share = s->next_address && left > 2 * MIN_ADDRESS_MS ? left / 2 : left;
            s->tcp_deadline_ms = now + share;
            set_phase(s, SESSION_TCP);
            watch(s, EPOLLOUT);
            return;
        }
        last_error = errno;
        close_fd(&s->fd);
    }
    session_fail(s, ERR_REMOTE, "unreachable", "cannot connect to %s port %d: %s", s->config.host,
                 s->config.port, strerror(last_error));
}

void session_resolved(struct session *s, const struct resolve_answer *answer)
{
    if (answer->error) {
        session_fail(s, ERR_REMOTE, "unreachable", "host name '%s': %s", s->config.host,
                     gai_strerror(answer->error));
        return;
    }
    s->addresses = s->next_address = answer->addresses;
    try_addresses(s, 0);
}

static void next_address(struct session *s, int error)
{
    unwatch(s);
    close_fd(&s->fd);
    try_addresses(s, error);
}

static int set_options(struct session *s)
{
    static const struct {
        enum sshconfig_key key;
        enum ssh_options_e option;
    } lists[] = {
        {SSHCONFIG_CIPHERS, SSH_OPTIONS_CIPHERS_C_S},
        {SSHCONFIG_CIPHERS, SSH_OPTIONS_CIPHERS_S_C},
        {SSHCONFIG_KEX_ALGORITHMS, SSH_OPTIONS_KEY_EXCHANGE},
        {SSHCONFIG_MACS, SSH_OPTIONS_HMAC_C_S},
        {SSHCONFIG_MACS, SSH_OPTIONS_HMAC_S_C},
        {SSHCONFIG_PUBKEY_ALGORITHMS, SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES},
    };
    bool no_config = false;
    ssh_options_set(s->ssh, SSH_OPTIONS_PROCESS_CONFIG, &no_config);
    ssh_options_set(s->ssh, SSH_OPTIONS_CIPHERS_C_S, ciphers);
    ssh_options_set(s->ssh, SSH_OPTIONS_CIPHERS_S_C, ciphers);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const char *value = s->config.value[lists[i].key];
        if (value && ssh_options_set(s->ssh, lists[i].option, value) < 0)
            return -1;
    }
    AUTO(free_str) char *algorithms = hostkeys_algorithms(&s->found);
    const char *agent = s->config.value[SSHCONFIG_IDENTITY_AGENT];
    if (agent && agent[0] == '/')
        ssh_options_set(s->ssh, SSH_OPTIONS_IDENTITY_AGENT, agent);
    ssh_options_set(s->ssh, SSH_OPTIONS_KNOWNHOSTS, "/dev/null");
    ssh_options_set(s->ssh, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null");
    if (ssh_options_set(s->ssh, SSH_OPTIONS_HOSTKEYS, algorithms) < 0 ||
        ssh_options_set(s->ssh, SSH_OPTIONS_USER, session_user(s)) < 0)
        return -1;
    return ssh_options_set(s->ssh, SSH_OPTIONS_FD, &s->fd);
}

/* The socket stands: hand it to libssh. */
static void begin_kex(struct session *s)
{
    set_phase(s, SESSION_KEX);
    session_find_keys(s);
    s->ssh = ssh_new();
    if (!s->ssh || set_options(s) < 0) {
        AUTO(free_str) char *said = str_dup(s->ssh ? ssh_get_error(s->ssh) : "out of memory");
        ssh_free(s->ssh); /* it does not close a socket that it has not begun to use */
        s->ssh = NULL;
        session_fail(s, ERR_ENV, "unreachable", "SSH options for %s: %s", s->config.host, said);
        return;
    }
    ssh_set_blocking(s->ssh, 0);
    ssh_set_counters(s->ssh, &s->counter, NULL);
}

void session_start(struct session *s)
{
    struct fleet *f = s->fleet;
    struct err err = {0};
    s->deadline_ms = now_ms() + f->connect_timeout_ms;
    set_phase(s, SESSION_RESOLVE);
    fleet_note(s, "connecting");
    if (proxy_wanted(s)) {
        s->fd = proxy_start(s, &err);
        if (s->fd < 0) {
            session_fail(s, err.kind, "unreachable", "%s", err.text);
            return;
        }
        watch(s, EPOLLIN);
        begin_kex(s);
        session_step(s);
        return;
    }
    s->direct = true;
    struct addrinfo *addresses = NULL;
    int rc = resolve_start(f->resolver, s->config.host, s->config.port, s->index, &addresses, &err);
    if (rc < 0)
        session_fail(s, err.kind, "unreachable", "%s", err.text);
    if (rc > 0)
        session_resolved(s, &(struct resolve_answer){.token = s->index, .addresses = addresses});
}

static bool step_tcp(struct session *s)
{
    int error = 0;
    socklen_t len = sizeof error;
    struct sockaddr_storage peer;
    socklen_t peer_len = sizeof peer;
    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error == 0 && getpeername(s->fd, (struct sockaddr *)&peer, &peer_len) < 0)
        return false; /* an event of the socket before this one: still connecting */
    if (error != 0)
        next_address(s, error);
    else
        begin_kex(s);
    return true;
}

static int take_server_key(struct session *s)
{
    ssh_key key = NULL;
    char *base64 = NULL;
    if (ssh_get_server_publickey(s->ssh, &key) != SSH_OK)
        return -1;
    int rc = ssh_pki_export_pubkey_base64(key, &base64);
    const char *type = ssh_key_type_to_char(ssh_key_type(key));
    if (rc == SSH_OK && type) {
        free(s->key_type);
        free(s->key_base64);
        free(s->fingerprint);
        s->key_type = str_dup(type);
        s->key_base64 = str_dup(base64);
        s->fingerprint = hostkeys_fingerprint(base64);
    }
    ssh_string_free_char(base64);
    ssh_key_free(key);
    return rc == SSH_OK && type && s->fingerprint ? 0 : -1;
}

static bool step_kex(struct session *s)
{
    int rc = ssh_connect(s->ssh);
    /* libssh makes the socket blocking when it takes it over; a peer that stops reading would then
     * stop the whole loop. */
    fcntl(s->fd, F_SETFL, O_NONBLOCK);
    if (rc == SSH_AGAIN)
        return false;
    if (rc != SSH_OK) {
        AUTO(free_str) char *what = str_printf("SSH key exchange with %s", s->config.host);
        session_lost(s, what);
        return true;
    }
    if (take_server_key(s) < 0) {
        session_lost(s, "SSH host key");
        return true;
    }
    if (s->fleet->scanning) {
        session_close(s);
        set_phase(s, SESSION_IDLE);
        fleet_settle(s);
        fleet_note(s, "answered");
        return true;
    }
    session_check_key(s);
    if (s->state != FLEET_FAILED)
        set_phase(s, SESSION_AUTH);
    return true;
}

static bool step_auth(struct session *s)
{
    int rc = auth_step(s);
    if (rc <= 0)
        return rc < 0;
    set_phase(s, SESSION_READY);
    s->pump = ssh_event_new();
    if (!s->pump || ssh_event_add_session(s->pump, s->ssh) != SSH_OK) {
        session_fail(s, ERR_NOMEM, "unreachable", "out of memory");
        return true;
    }
    auth_release(&s->auth);
    s->state = FLEET_CONNECTED;
    s->heard_ms = s->asked_ms = now_ms();
    fleet_settle(s);
    fleet_note(s, "connected");
    return true;
}

/* --- running -------------------------------------------------------------------------------- */

/* Let libssh read and write what it can; false when the connection is gone. */
static bool pump(struct session *s)
{
    int rc = SSH_OK;
    for (int i = 0; i < PUMP_TURNS && rc != SSH_AGAIN && rc != SSH_ERROR; i++)
        rc = ssh_event_dopoll(s->pump, 0);
    if (rc != SSH_ERROR && ssh_is_connected(s->ssh))
        return true;
    /* What came before the end still counts. */
    if (s->agent.channel)
        agent_process(s);
    session_lost(s, "the SSH connection broke");
    return false;
}

static bool step_ready(struct session *s)
{
    for (int turn = 0; turn < PUMP_TURNS; turn++) {
        if (!pump(s))
            return false;
        bool moved = s->exec && channel_step(s->exec);
        if (s->state != FLEET_FAILED && s->agent.channel) {
            moved |= channel_step(s->agent.channel);
            if (s->state != FLEET_FAILED)
                agent_process(s);
        }
        if (s->state == FLEET_FAILED || !moved)
            break;
    }
    return false;
}

void session_step(struct session *s)
{
    static bool (*const steps[])(struct session *) = {
        [SESSION_TCP] = step_tcp,     [SESSION_KEX] = step_kex, [SESSION_AUTH] = step_auth,
        [SESSION_READY] = step_ready, [SESSION_CLOSED] = NULL,
    };
    if (s->fd >= 0)
        quick_ack(s);
    while (steps[s->phase] && steps[s->phase](s))
        ;
    if (s->phase < SESSION_KEX || s->phase == SESSION_CLOSED)
        return;
    /* SSH_WRITE_PENDING can stay set with nothing to write: only a flush tells. */
    bool more = (ssh_get_poll_flags(s->ssh) & SSH_WRITE_PENDING) &&
                ssh_blocking_flush(s->ssh, 0) == SSH_AGAIN;
    watch(s, EPOLLIN | (more ? (uint32_t)EPOLLOUT : 0));
}

/* --- time ----------------------------------------------------------------------------------- */

static void fail_late(struct session *s)
{
    unsigned seconds = (s->fleet->connect_timeout_ms + 500) / 1000;
    AUTO(free_str) char *proxy = proxy_words(s);
    const char *host = s->config.host;
    switch (s->phase) {
    case SESSION_RESOLVE:
        session_fail(s, ERR_REMOTE, "unreachable", "no answer to the look-up of '%s' in %u s", host,
                     seconds);
        break;
    case SESSION_TCP:
        session_fail(s, ERR_REMOTE, "unreachable", "no answer from %s port %d in %u s", host,
                     s->config.port, seconds);
        break;
    case SESSION_KEX:
        session_fail(s, ERR_TIMEOUT, "timeout",
                     "%s port %d %s, but the SSH key exchange did not end in %u s%s%s", host,
                     s->config.port, s->direct ? "accepts connections" : "is behind a proxy",
                     seconds, proxy[0] ? "; the proxy says: " : "", proxy);
        break;
    default:
        session_fail(s, ERR_TIMEOUT, "timeout", "the login as %s did not end in %u s",
                     session_user(s), seconds);
    }
}

static void check_alive(struct session *s, int64_t now)
{
    /* Counted by libssh: any of its calls may read, so that an event need not come. */
    if (s->counter.in_bytes != s->heard_bytes) {
        s->heard_bytes = s->counter.in_bytes;
        s->heard_ms = now;
    }
    int64_t limit = s->fleet->keepalive_ms, silent = now - s->heard_ms;
    if (silent >= limit) {
        session_fail(s, ERR_REMOTE, "node-lost",
                     "the node has been silent for %.1f s and does not answer keepalives",
                     (double)silent / 1000);
        return;
    }
    if (silent < limit / 4 || now - s->asked_ms < limit / 4)
        return;
    /* Twice, because the first call may only take the answer to the request before; while one is
     * outstanding neither sends anything. */
    ssh_send_keepalive(s->ssh);
    ssh_send_keepalive(s->ssh);
    s->asked_ms = now;
    session_step(s);
}

void session_check_deadline(struct session *s, int64_t now)
{
    if (s->phase == SESSION_READY) {
        check_alive(s, now);
    } else if (is_setting_up(s)) {
        if (now >= s->deadline_ms)
            fail_late(s);
        else if (s->phase == SESSION_TCP && now >= s->tcp_deadline_ms)
            next_address(s, ETIMEDOUT);
    }
}
