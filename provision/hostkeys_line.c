#include <ctype.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/hash.h"
#include "common/util.h"
#include "provision/hostkeys_internal.h"

enum { SHA1_BYTES = 20 };

void hostkeys_entry_release(struct hostkeys_entry *entry)
{
    free(entry->hosts);
    free(entry->type);
    free(entry->base64);
    *entry = (struct hostkeys_entry){0};
}

bool hostkeys_key_valid(const char *type, const char *base64)
{
    size_t len = 0, type_len = strlen(type);
    uint8_t *blob = base64_decode(base64, &len);
    bool ok = blob && len > 4 + type_len && blob[0] == 0 && blob[1] == 0 && blob[2] == 0 &&
              blob[3] == type_len && memcmp(blob + 4, type, type_len) == 0;
    free(blob);
    return ok;
}

/* The next word of [*at, end); NULL when the line is used up. */
static char *next_word(const char **at, const char *end)
{
    const char *p = *at;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    const char *start = p;
    while (p < end && *p != ' ' && *p != '\t')
        p++;
    *at = p;
    if (p == start)
        return NULL;
    char *word = strndup(start, (size_t)(p - start));
    if (!word)
        abort();
    return word;
}

static bool take_mark(const char **at, const char *end, enum hostkeys_mark *mark)
{
    static const struct {
        const char *word;
        enum hostkeys_mark mark;
    } marks[] = {{"@cert-authority", HOSTKEYS_CERT_AUTHORITY}, {"@revoked", HOSTKEYS_REVOKED}};
    AUTO(free_str) char *word = next_word(at, end);
    for (size_t i = 0; word && i < ARRAY_LEN(marks); i++) {
        if (strcmp(word, marks[i].word) == 0) {
            *mark = marks[i].mark;
            return true;
        }
    }
    return false;
}

bool hostkeys_read_line(const char *text, size_t len, struct hostkeys_entry *entry)
{
    const char *at = text, *end = text + len;
    while (end > at && isspace((unsigned char)end[-1]))
        end--;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end || *at == '#' || memchr(at, '\0', (size_t)(end - at)))
        return false;
    struct hostkeys_entry e = {0};
    if (*at == '@' && !take_mark(&at, end, &e.mark))
        return false;
    e.hosts = next_word(&at, end);
    e.type = next_word(&at, end);
    e.base64 = next_word(&at, end);
    if (!e.base64 || !hostkeys_key_valid(e.type, e.base64)) {
        hostkeys_entry_release(&e);
        return false;
    }
    *entry = e;
    return true;
}

/* Shell-like * and ?, without regard to case; name is lower case already. */
static bool pattern_match(const char *pattern, size_t len, const char *name)
{
    size_t p = 0, star = len, mark = 0, n = 0;
    while (name[n]) {
        if (p < len && pattern[p] == '*') {
            star = p++;
            mark = n;
        } else if (p < len &&
                   (pattern[p] == '?' || tolower((unsigned char)pattern[p]) == name[n])) {
            p++;
            n++;
        } else if (star < len) {
            p = star + 1;
            n = ++mark;
        } else {
            return false;
        }
    }
    while (p < len && pattern[p] == '*')
        p++;
    return p == len;
}

static bool hashed_match(const char *hosts, const char *name)
{
    const char *salt_text = hosts + strlen("|1|"), *bar = strchr(salt_text, '|');
    if (!bar)
        return false;
    AUTO(free_str) char *salt_copy = strndup(salt_text, (size_t)(bar - salt_text));
    if (!salt_copy)
        abort();
    size_t salt_len = 0, want_len = 0;
    uint8_t *salt = base64_decode(salt_copy, &salt_len);
    uint8_t *want = base64_decode(bar + 1, &want_len);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_len = 0;
    bool ok = salt && want && salt_len == SHA1_BYTES && want_len == SHA1_BYTES &&
              HMAC(EVP_sha1(), salt, (int)salt_len, (const unsigned char *)name, strlen(name),
                   digest, &digest_len) &&
              digest_len == SHA1_BYTES && memcmp(digest, want, SHA1_BYTES) == 0;
    free(salt);
    free(want);
    return ok;
}

bool hostkeys_hosts_match(const char *hosts, const char *name)
{
    if (str_has_prefix(hosts, "|1|"))
        return hashed_match(hosts, name);
    bool matched = false;
    for (const char *p = hosts; *p;) {
        size_t len = strcspn(p, ",");
        bool negated = *p == '!';
        if (pattern_match(p + negated, len - negated, name)) {
            if (negated)
                return false;
            matched = true;
        }
        p += len;
        p += *p == ',';
    }
    return matched;
}
