#include "provision/hostkeys.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/util.h"
#include "provision/hostkeys_internal.h"

enum { MAX_FILE_BYTES = 64 * 1024 * 1024, SSH_PORT = 22, BUCKETS = 4096 };

/* Entry k of a chain; names point into buckets, the rest is tried one by one. */
struct name {
    char *text;
    size_t entry; /* index into entries */
    struct name *next;
};

struct hostkeys {
    struct hostkeys_entry *entries;
    size_t count;
    struct name *buckets[BUCKETS]; /* plain names */
    size_t *patterns;              /* entries with wildcards, negations or a hashed name */
    size_t pattern_count;
    char **files;
    size_t file_count;
};

/* Preference among equals, and what to ask for to get a key of a type. */
static const struct {
    const char *type, *algorithms;
} key_types[] = {
    {"ssh-ed25519", "ssh-ed25519"},
    {"ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256"},
    {"ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384"},
    {"ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521"},
    {"ssh-rsa", "rsa-sha2-512,rsa-sha2-256"},
};

static size_t bucket_of(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    return h % BUCKETS;
}

struct hostkeys *hostkeys_create(void)
{
    return mem_zero(1, sizeof(struct hostkeys));
}

void hostkeys_destroy(struct hostkeys *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < k->count; i++)
        hostkeys_entry_release(&k->entries[i]);
    for (size_t i = 0; i < BUCKETS; i++) {
        while (k->buckets[i]) {
            struct name *n = k->buckets[i];
            k->buckets[i] = n->next;
            free(n->text);
            free(n);
        }
    }
    for (size_t i = 0; i < k->file_count; i++)
        free(k->files[i]);
    free(k->files);
    free(k->patterns);
    free(k->entries);
    free(k);
}

size_t hostkeys_count(const struct hostkeys *k)
{
    return k->count;
}

static char *lower(const char *text)
{
    char *s = str_dup(text);
    for (char *p = s; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return s;
}

char *hostkeys_host_name(const char *host, int port)
{
    AUTO(free_str) char *name = lower(host);
    if (port == SSH_PORT || port == 0)
        return STEAL(name);
    return str_printf("[%s]:%d", name, port);
}

static void add_plain_names(struct hostkeys *k, const char *hosts, size_t entry)
{
    for (const char *p = hosts; *p;) {
        size_t len = strcspn(p, ",");
        if (len > 0) {
            AUTO(free_str) char *word = strndup(p, len);
            if (!word)
                abort();
            struct name *n = mem_zero(1, sizeof *n);
            n->text = lower(word);
            n->entry = entry;
            struct name **bucket = &k->buckets[bucket_of(n->text)];
            n->next = *bucket;
            *bucket = n;
        }
        p += len;
        p += *p == ',';
    }
}

static void add_entry(struct hostkeys *k, struct hostkeys_entry *entry)
{
    k->entries = mem_grow(k->entries, k->count + 1, sizeof *k->entries);
    size_t index = k->count++;
    k->entries[index] = *entry;
    if (strpbrk(entry->hosts, "*?!|")) {
        k->patterns = mem_grow(k->patterns, k->pattern_count + 1, sizeof *k->patterns);
        k->patterns[k->pattern_count++] = index;
    } else {
        add_plain_names(k, entry->hosts, index);
    }
}

void hostkeys_parse(struct hostkeys *k, const char *text, size_t len, const char *name)
{
    k->files = mem_grow(k->files, k->file_count + 1, sizeof *k->files);
    const char *file = k->files[k->file_count++] = str_dup(name);
    size_t line = 0;
    for (const char *p = text, *end = text + len; p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;
        struct hostkeys_entry entry = {0};
        line++;
        if (hostkeys_read_line(p, (size_t)(stop - p), &entry)) {
            entry.file = file;
            entry.line = line;
            add_entry(k, &entry);
        }
        p = stop + 1;
    }
}

int hostkeys_load(struct hostkeys *k, const char *path, struct err *err)
{
    if (!fs_exists(path))
        return 0;
    char *text = NULL;
    size_t len = 0;
    if (fs_read(path, MAX_FILE_BYTES, &text, &len, err) < 0)
        return err_wrap(err, "known hosts: ");
    hostkeys_parse(k, text, len, path);
    free(text);
    return 0;
}

static void found_add(struct hostkeys_found *found, const struct hostkeys_entry *entry)
{
    for (size_t i = 0; i < found->count; i++)
        if (found->entries[i] == entry)
            return;
    found->entries = mem_grow(found->entries, found->count + 1, sizeof *found->entries);
    found->entries[found->count++] = entry;
}

static void find_name(const struct hostkeys *k, const char *name, struct hostkeys_found *found)
{
    for (const struct name *n = k->buckets[bucket_of(name)]; n; n = n->next)
        if (strcmp(n->text, name) == 0)
            found_add(found, &k->entries[n->entry]);
    for (size_t i = 0; i < k->pattern_count; i++)
        if (hostkeys_hosts_match(k->entries[k->patterns[i]].hosts, name))
            found_add(found, &k->entries[k->patterns[i]]);
}

void hostkeys_find(const struct hostkeys *k, const char *host, int port,
                   struct hostkeys_found *found)
{
    *found = (struct hostkeys_found){0};
    AUTO(free_str) char *name = hostkeys_host_name(host, port);
    find_name(k, name, found);
    found->exact = found->count;
    if (port != SSH_PORT && port != 0) {
        AUTO(free_str) char *bare = hostkeys_host_name(host, SSH_PORT);
        find_name(k, bare, found);
    }
}

void hostkeys_found_release(struct hostkeys_found *found)
{
    free(found->entries);
    *found = (struct hostkeys_found){0};
}

static bool knows_type(const struct hostkeys_found *found, const char *type)
{
    for (size_t i = 0; i < found->count; i++)
        if (found->entries[i]->mark == HOSTKEYS_PLAIN && strcmp(found->entries[i]->type, type) == 0)
            return true;
    return false;
}

char *hostkeys_algorithms(const struct hostkeys_found *found)
{
    struct strbuf list = {0};
    for (int known = 1; known >= 0; known--) {
        for (size_t i = 0; i < ARRAY_LEN(key_types); i++) {
            if (knows_type(found, key_types[i].type) != known)
                continue;
            if (list.len > 0)
                strbuf_puts(&list, ",");
            strbuf_puts(&list, key_types[i].algorithms);
        }
    }
    return list.data;
}

void hostkeys_check(const struct hostkeys_found *found, const char *type, const char *base64,
                    struct hostkeys_verdict *verdict)
{
    struct hostkeys_verdict v = {0};
    const struct hostkeys_entry *same_type = NULL, *other = NULL, *equal = NULL;
    for (size_t i = 0; i < found->count; i++) {
        const struct hostkeys_entry *e = found->entries[i];
        bool same = strcmp(e->base64, base64) == 0;
        if (e->mark == HOSTKEYS_REVOKED && same) {
            *verdict = (struct hostkeys_verdict){.answer = HOSTKEYS_BANNED, .entry = e};
            return;
        }
        if (e->mark == HOSTKEYS_CERT_AUTHORITY)
            v.authority = e;
        if (e->mark != HOSTKEYS_PLAIN)
            continue;
        if (same)
            equal = e;
        else if (i < found->exact && strcmp(e->type, type) == 0)
            same_type = e;
        else if (i < found->exact)
            other = e;
    }
    v.entry = equal ? equal : same_type ? same_type : other;
    v.answer = equal ? HOSTKEYS_KNOWN : v.entry ? HOSTKEYS_CHANGED : HOSTKEYS_UNKNOWN;
    *verdict = v;
}

char *hostkeys_fingerprint(const char *base64)
{
    size_t len = 0;
    uint8_t *blob = base64_decode(base64, &len);
    if (!blob)
        return NULL;
    struct hash h = hash_of(blob, len);
    free(blob);
    AUTO(free_str) char *text = base64_encode(h.bytes, sizeof h.bytes);
    text[strcspn(text, "=")] = '\0';
    return str_printf("SHA256:%s", text);
}
