#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "provision/fleet_session.h"

/* A list of the config, or these files where the config says nothing. */
static void add_files(struct strbuf *key, char *const *list, const char *const defaults[],
                      const char *home)
{
    for (size_t i = 0; list && list[i]; i++)
        if (strcmp(list[i], "none") != 0)
            strbuf_printf(key, "%s\n", list[i]);
    for (size_t i = 0; !list && defaults[i]; i++)
        strbuf_printf(key, "%s%s\n", defaults[i][0] == '~' ? home : "",
                      defaults[i] + (defaults[i][0] == '~'));
}

static struct hostkeys *load_files(const char *key, struct err *err)
{
    struct hostkeys *table = hostkeys_create();
    for (const char *p = key; *p;) {
        size_t len = strcspn(p, "\n");
        AUTO(free_str) char *path = strndup(p, len);
        if (!path)
            abort();
        if (hostkeys_load(table, path, err) < 0) {
            hostkeys_destroy(table);
            return NULL;
        }
        p += len + 1;
    }
    return table;
}

int session_hostkeys(struct session *s, struct err *err)
{
    static const char *const user_files[] = {"~/.ssh/known_hosts", "~/.ssh/known_hosts2", NULL};
    static const char *const global_files[] = {"/etc/ssh/ssh_known_hosts",
                                               "/etc/ssh/ssh_known_hosts2", NULL};
    struct fleet *f = s->fleet;
    const char *home = sshconfig_home(f->config);
    struct strbuf key = {0};
    strbuf_puts(&key, "");
    for (size_t i = 0; f->extra_hosts[i]; i++)
        strbuf_printf(&key, "%s\n", f->extra_hosts[i]);
    add_files(&key, sshconfig_list(&s->config, SSHCONFIG_USER_KNOWN_HOSTS), user_files, home);
    add_files(&key, sshconfig_list(&s->config, SSHCONFIG_GLOBAL_KNOWN_HOSTS), global_files, home);
    for (size_t i = 0; i < f->hostset_count && !s->hostkeys; i++)
        if (strcmp(f->hostsets[i].key, key.data) == 0)
            s->hostkeys = f->hostsets[i].table;
    if (s->hostkeys) {
        strbuf_release(&key);
        return 0;
    }
    struct hostkeys *table = load_files(key.data, err);
    if (!table) {
        strbuf_release(&key);
        return -1;
    }
    f->hostsets = mem_grow(f->hostsets, f->hostset_count + 1, sizeof *f->hostsets);
    f->hostsets[f->hostset_count++] = (struct hostset){.key = key.data, .table = table};
    s->hostkeys = table;
    return 0;
}

const char *session_key_host(const struct session *s, int *port)
{
    const char *alias = s->config.value[SSHCONFIG_HOST_KEY_ALIAS];
    *port = alias ? 22 : s->config.port;
    return alias ? alias : s->config.host;
}

void session_find_keys(struct session *s)
{
    int port = 0;
    const char *const names[] = {session_key_host(s, &port), s->target, s->name};
    for (size_t i = 0; i < ARRAY_LEN(names) && s->found.count == 0; i++) {
        hostkeys_found_release(&s->found);
        hostkeys_find(s->hostkeys, names[i], port, &s->found);
    }
}

static void fail_unknown(struct session *s, const struct hostkeys_entry *authority)
{
    AUTO(free_str)
    char *ca = authority ? str_printf(" (%s:%zu trusts a certificate authority for it, but host "
                                      "certificates are not verified here)",
                                      authority->file, authority->line)
                         : str_dup("");
    int port = 0;
    const char *host = session_key_host(s, &port);
    AUTO(free_str) char *name = hostkeys_host_name(host, port);
    session_fail(s, ERR_ENV, "host-key-unknown",
                 "the host key of %s, %s %s, is in no known_hosts file%s; compare the fingerprint "
                 "on the node's console, then run `muster enroll -w %s`",
                 name, s->key_type, s->fingerprint, ca, s->name);
}

static void fail_changed(struct session *s, const struct hostkeys_entry *known)
{
    AUTO(free_str) char *old = hostkeys_fingerprint(known->base64);
    int port = 0;
    const char *host = session_key_host(s, &port);
    AUTO(free_str) char *name = hostkeys_host_name(host, port);
    session_fail(
        s, ERR_ENV, "host-key-changed",
        "%s shows the host key %s %s, but %s:%zu has %s %s: the node was reinstalled, or "
        "something else answers at its address (an attack); find out which, and only after "
        "a reinstall run `muster enroll --renew -w %s`",
        name, s->key_type, s->fingerprint, known->file, known->line, known->type, old ? old : "?",
        s->name);
}

void session_check_key(struct session *s)
{
    struct hostkeys_verdict v;
    hostkeys_check(&s->found, s->key_type, s->key_base64, &v);
    switch (v.answer) {
    case HOSTKEYS_KNOWN:
        break;
    case HOSTKEYS_UNKNOWN:
        fail_unknown(s, v.authority);
        break;
    case HOSTKEYS_CHANGED:
        fail_changed(s, v.entry);
        break;
    case HOSTKEYS_BANNED:
        session_fail(
            s, ERR_ENV, "host-key-changed",
            "the host key of %s, %s %s, is marked @revoked in %s:%zu: it must not be "
            "trusted; give the node a new host key (`ssh-keygen -A` after removing the old "
            "one), then run `muster enroll --renew -w %s`",
            s->config.host, s->key_type, s->fingerprint, v.entry->file, v.entry->line, s->name);
        break;
    }
}

void session_scanned(const struct session *s, struct fleet_scanned *out)
{
    if (!s->key_base64)
        return;
    static const enum fleet_key_state states[] = {
        [HOSTKEYS_UNKNOWN] = FLEET_KEY_UNKNOWN,
        [HOSTKEYS_KNOWN] = FLEET_KEY_KNOWN,
        [HOSTKEYS_CHANGED] = FLEET_KEY_CHANGED,
        [HOSTKEYS_BANNED] = FLEET_KEY_REVOKED,
    };
    struct hostkeys_verdict v;
    hostkeys_check(&s->found, s->key_type, s->key_base64, &v);
    out->state = states[v.answer];
    out->host = str_dup(session_key_host(s, &out->port));
    out->type = str_dup(s->key_type);
    out->base64 = str_dup(s->key_base64);
    out->fingerprint = str_dup(s->fingerprint);
    if (v.entry)
        out->known_place = str_printf("%s:%zu", v.entry->file, v.entry->line);
    if (v.answer == HOSTKEYS_CHANGED)
        out->known_fingerprint = hostkeys_fingerprint(v.entry->base64);
}

void fleet_scanned_release(struct fleet_scanned *s)
{
    free(s->host);
    free(s->type);
    free(s->base64);
    free(s->fingerprint);
    free(s->known_fingerprint);
    free(s->known_place);
    *s = (struct fleet_scanned){0};
}
