#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/fs.h"
#include "provision/fleet_session.h"

enum {
    AGENT_WAIT_MS = 2000,
    SSH_AGENT_LIST = 11, /* SSH_AGENTC_REQUEST_IDENTITIES */
    SSH_AGENT_ANSWER = 12
};

/* One key file, imported once for all sessions. */
struct key {
    char *path, *what; /* "key PATH" */
    ssh_key key;       /* NULL: why says why not */
    char *why;
};

/* A certificate with the private key that it belongs to. */
struct certificate {
    char *key_path, *path, *what;
    ssh_key key; /* NULL when the file does not exist or does not fit */
    char *why;
};

struct keyring {
    char *identity; /* options->identity */
    struct key *keys;
    struct certificate *certificates;
    size_t key_count, certificate_count;
    struct agent_info { /* one ssh-agent, asked once */
        char *socket, *what, *why;
        uint32_t keys;
    } * agents;
    size_t agent_count;
};

/* --- key files ------------------------------------------------------------------------------ */

static const char *file_problem(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return errno == ENOENT ? "does not exist" : strerror(errno);
    if (!S_ISREG(st.st_mode))
        return "is not a file";
    if ((st.st_mode & 077) != 0 && st.st_uid == getuid())
        return "can be read by others (chmod 600 it)";
    return NULL;
}

static struct key *find_key(struct keyring *k, const char *path)
{
    for (size_t i = 0; i < k->key_count; i++)
        if (strcmp(k->keys[i].path, path) == 0)
            return &k->keys[i];
    k->keys = mem_grow(k->keys, k->key_count + 1, sizeof *k->keys);
    struct key *key = &k->keys[k->key_count++];
    *key = (struct key){.path = str_dup(path), .what = str_printf("key %s", path)};
    const char *problem = file_problem(path);
    if (!problem && ssh_pki_import_privkey_file(path, NULL, NULL, NULL, &key->key) != SSH_OK) {
        key->key = NULL;
        problem = "needs a passphrase (`ssh-add` it) or is not a private key";
    }
    if (problem)
        key->why = str_dup(problem);
    return key;
}

/* The certificate at path with its key; a fresh import, since libssh ties the two together. */
static const struct certificate *find_certificate(struct keyring *k, const struct key *key,
                                                  const char *path)
{
    for (size_t i = 0; i < k->certificate_count; i++)
        if (strcmp(k->certificates[i].path, path) == 0 &&
            strcmp(k->certificates[i].key_path, key->path) == 0)
            return &k->certificates[i];
    k->certificates = mem_grow(k->certificates, k->certificate_count + 1, sizeof *k->certificates);
    struct certificate *c = &k->certificates[k->certificate_count++];
    *c = (struct certificate){.key_path = str_dup(key->path),
                              .path = str_dup(path),
                              .what = str_printf("certificate %s", path)};
    ssh_key cert = NULL, private = NULL;
    if (!fs_exists(path))
        return c;
    if (ssh_pki_import_cert_file(path, &cert) != SSH_OK)
        c->why = str_dup("is not a certificate");
    else if (ssh_pki_import_privkey_file(key->path, NULL, NULL, NULL, &private) != SSH_OK)
        c->why = str_dup("its key cannot be read");
    else if (ssh_key_cmp(cert, private, SSH_KEY_CMP_PUBLIC) == 0 &&
             ssh_pki_copy_cert_to_privkey(cert, private) == SSH_OK)
        c->key = STEAL(private);
    ssh_key_free(cert);
    ssh_key_free(private);
    return c;
}

struct keyring *keyring_create(const char *identity, struct err *err)
{
    struct keyring *k = mem_zero(1, sizeof *k);
    if (!identity)
        return k;
    k->identity = str_dup(identity);
    const struct key *key = find_key(k, identity);
    /* Its public half may be in the ssh-agent, so a passphrase alone is no error. */
    if (!key->key && file_problem(identity)) {
        err_set(err, ERR_ENV, "private key %s %s", identity, key->why);
        keyring_destroy(k);
        return NULL;
    }
    return k;
}

void keyring_destroy(struct keyring *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < k->key_count; i++) {
        ssh_key_free(k->keys[i].key);
        free(k->keys[i].path);
        free(k->keys[i].what);
        free(k->keys[i].why);
    }
    for (size_t i = 0; i < k->certificate_count; i++) {
        ssh_key_free(k->certificates[i].key);
        free(k->certificates[i].key_path);
        free(k->certificates[i].path);
        free(k->certificates[i].what);
        free(k->certificates[i].why);
    }
    for (size_t i = 0; i < k->agent_count; i++) {
        free(k->agents[i].socket);
        free(k->agents[i].what);
        free(k->agents[i].why);
    }
    free(k->keys);
    free(k->certificates);
    free(k->agents);
    free(k->identity);
    free(k);
}

/* --- the ssh-agent -------------------------------------------------------------------------- */

static int wait_for(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    return poll(&p, 1, AGENT_WAIT_MS) == 1 ? 0 : -1;
}

static int read_exact(int fd, uint8_t *out, size_t len)
{
    while (len > 0) {
        if (wait_for(fd, POLLIN) < 0)
            return -1;
        ssize_t n = read(fd, out, len);
        if (n <= 0)
            return -1;
        out += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Number of keys that the agent holds.  Asked here with a deadline, because libssh would wait for a
 * hung agent for ever. */
static int ask_agent(const char *path, uint32_t *keys)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path)
        return -1;
    memcpy(to.sun_path, path, strlen(path) + 1);
    AUTO(close_fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        return -1;
    const uint8_t request[5] = {0, 0, 0, 1, SSH_AGENT_LIST};
    uint8_t answer[9];
    if (write(fd, request, sizeof request) != sizeof request ||
        read_exact(fd, answer, sizeof answer) < 0 || answer[4] != SSH_AGENT_ANSWER)
        return -1;
    *keys = (uint32_t)answer[5] << 24 | (uint32_t)answer[6] << 16 | (uint32_t)answer[7] << 8 |
            answer[8];
    return 0;
}

static const struct agent_info *find_agent(struct keyring *k, const char *socket)
{
    for (size_t i = 0; i < k->agent_count; i++)
        if (strcmp(k->agents[i].socket, socket) == 0)
            return &k->agents[i];
    k->agents = mem_grow(k->agents, k->agent_count + 1, sizeof *k->agents);
    struct agent_info *a = &k->agents[k->agent_count++];
    *a = (struct agent_info){.socket = str_dup(socket)};
    if (ask_agent(socket, &a->keys) < 0)
        a->why = str_printf("ssh-agent at %s does not answer", socket);
    else if (a->keys == 0)
        a->why = str_dup("the ssh-agent holds no key");
    a->what = str_printf("ssh-agent (%u key%s)", a->keys, a->keys == 1 ? "" : "s");
    return a;
}

/* --- what is tried, and in which order ------------------------------------------------------- */

static void add_attempt(struct auth *a, const char *what, ssh_key key)
{
    a->attempts = mem_grow(a->attempts, a->count + 1, sizeof *a->attempts);
    a->attempts[a->count++] = (struct auth_attempt){.what = what, .key = key};
}

static void add_note(struct strbuf *list, const char *what, const char *why)
{
    strbuf_printf(list, "%s%s%s%s", list->len > 0 ? ", " : "", what, why ? " " : "",
                  why ? why : "");
}

static void add_certificate(struct session *s, const struct key *key, const char *path)
{
    const struct certificate *c = find_certificate(s->fleet->keys, key, path);
    if (c->key)
        add_attempt(&s->auth, c->what, c->key);
    else if (c->why)
        add_note(&s->auth.skipped, path, c->why);
}

static void add_file(struct session *s, const char *path, bool tell)
{
    const struct key *key = find_key(s->fleet->keys, path);
    if (!key->key) {
        if (tell || fs_exists(path))
            add_note(&s->auth.skipped, path, key->why);
        return;
    }
    for (size_t i = 0; i < s->auth.count; i++)
        if (s->auth.attempts[i].key == key->key)
            return;
    AUTO(free_str) char *beside = str_printf("%s-cert.pub", path);
    char *const *named = sshconfig_list(&s->config, SSHCONFIG_CERTIFICATE_FILE);
    for (size_t i = 0; named && named[i]; i++)
        add_certificate(s, key, named[i]);
    add_certificate(s, key, beside);
    add_attempt(&s->auth, key->what, key->key);
}

static const char *agent_socket(const struct session *s)
{
    const char *named = s->config.value[SSHCONFIG_IDENTITY_AGENT];
    if (named && strcmp(named, "none") == 0)
        return NULL;
    if (named && strcmp(named, "SSH_AUTH_SOCK") != 0)
        return named[0] == '/' ? named : NULL;
    const char *socket = getenv("SSH_AUTH_SOCK");
    return socket && socket[0] ? socket : NULL;
}

static void add_agent(struct session *s)
{
    const char *socket = agent_socket(s), *only = s->config.value[SSHCONFIG_IDENTITIES_ONLY];
    bool identities_only = only && strcasecmp(only, "yes") == 0;
    /* With IdentitiesOnly the agent counts only as the holder of a listed key that is encrypted. */
    if (!socket || (identities_only && s->auth.skipped.len == 0))
        return;
    const struct agent_info *agent = find_agent(s->fleet->keys, socket);
    if (agent->why)
        add_note(&s->auth.skipped, agent->why, NULL);
    else
        add_attempt(&s->auth, agent->what, NULL);
}

static void list_attempts(struct session *s)
{
    static const char *const defaults[] = {"id_ed25519", "id_ecdsa", "id_rsa"};
    char *const *files = sshconfig_list(&s->config, SSHCONFIG_IDENTITY_FILE);
    if (s->fleet->keys->identity)
        add_file(s, s->fleet->keys->identity, true);
    for (size_t i = 0; files && files[i]; i++)
        add_file(s, files[i], true);
    add_agent(s);
    for (size_t i = 0; !files && i < ARRAY_LEN(defaults); i++) {
        AUTO(free_str)
        char *path = str_printf("%s/.ssh/%s", sshconfig_home(s->fleet->config), defaults[i]);
        add_file(s, path, false);
    }
}

void auth_release(struct auth *a)
{
    free(a->attempts);
    strbuf_release(&a->tried);
    strbuf_release(&a->skipped);
    *a = (struct auth){0};
}

/* --- the login ------------------------------------------------------------------------------ */

static void add_methods(struct session *s, struct strbuf *text)
{
    static const struct {
        int bit;
        const char *name;
    } methods[] = {
        {SSH_AUTH_METHOD_PUBLICKEY, "publickey"},
        {SSH_AUTH_METHOD_PASSWORD, "password"},
        {SSH_AUTH_METHOD_INTERACTIVE, "keyboard-interactive"},
        {SSH_AUTH_METHOD_GSSAPI_MIC, "gssapi-with-mic"},
        {SSH_AUTH_METHOD_HOSTBASED, "hostbased"},
    };
    int offered = ssh_userauth_list(s->ssh, NULL);
    const char *separator = "; the node accepts ";
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        if (!(offered & methods[i].bit))
            continue;
        strbuf_printf(text, "%s%s", separator, methods[i].name);
        separator = ", ";
    }
}

static int refused(struct session *s, const char *said)
{
    struct auth *a = &s->auth;
    struct strbuf text = {0};
    strbuf_printf(&text, "%s refuses the login of %s: ", s->config.host, session_user(s));
    if (a->tried.len > 0)
        strbuf_printf(&text, "tried %s", a->tried.data);
    else
        strbuf_puts(&text, "there is no key to offer");
    if (a->partial)
        strbuf_puts(&text, "; a key was accepted, but the node wants a second method");
    if (said)
        strbuf_printf(&text, "; %s", said);
    else
        add_methods(s, &text);
    if (a->skipped.len > 0)
        strbuf_printf(&text, "; not usable: %s", a->skipped.data);
    session_fail(s, ERR_REMOTE, "auth-refused", "%s", text.data);
    strbuf_release(&text);
    return -1;
}

static int broken(struct session *s)
{
    AUTO(free_str) char *said = str_dup(ssh_get_error(s->ssh));
    if (strcasestr(said, "too many authentication failures"))
        return refused(s,
                       "the node allows no more attempts (MaxAuthTries): name the right key with "
                       "IdentityFile and IdentitiesOnly");
    session_lost(s, "SSH login");
    return -1;
}

static int try_once(struct session *s, const struct auth_attempt *attempt)
{
    if (!attempt)
        return ssh_userauth_none(s->ssh, NULL);
    if (attempt->key)
        return ssh_userauth_publickey(s->ssh, NULL, attempt->key);
    return ssh_userauth_agent(s->ssh, NULL);
}

int auth_step(struct session *s)
{
    struct auth *a = &s->auth;
    if (!a->attempts && !a->asked_none)
        list_attempts(s);
    /* Without any key, "none" still tells what the node would accept. */
    a->asked_none = a->count == 0;
    while (a->at < a->count || (a->asked_none && a->at == 0)) {
        const struct auth_attempt *attempt = a->asked_none ? NULL : &a->attempts[a->at];
        int rc = try_once(s, attempt);
        /* libssh says "again" for ever when the node hangs up instead of answering. */
        if (rc == SSH_AUTH_AGAIN && !ssh_is_connected(s->ssh))
            rc = SSH_AUTH_ERROR;
        if (rc == SSH_AUTH_AGAIN)
            return 0;
        if (attempt)
            add_note(&a->tried, attempt->what, NULL);
        a->at++;
        if (rc == SSH_AUTH_SUCCESS)
            return 1;
        if (rc == SSH_AUTH_ERROR)
            return broken(s);
        a->partial |= rc == SSH_AUTH_PARTIAL;
    }
    return refused(s, NULL);
}
