#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/fs.h"
#include "common/util.h"
#include "provision/sshconfig_internal.h"

enum { MAX_FILE_BYTES = 4 * 1024 * 1024, MAX_DEPTH = 16 };

static const struct {
    const char *word;
    enum sshconfig_key key;
} keywords[] = {
    {"hostname", SSHCONFIG_HOST_NAME},
    {"user", SSHCONFIG_USER},
    {"port", SSHCONFIG_PORT},
    {"proxycommand", SSHCONFIG_PROXY_COMMAND},
    {"proxyjump", SSHCONFIG_PROXY_JUMP},
    {"hostkeyalias", SSHCONFIG_HOST_KEY_ALIAS},
    {"identityagent", SSHCONFIG_IDENTITY_AGENT},
    {"identitiesonly", SSHCONFIG_IDENTITIES_ONLY},
    {"bindaddress", SSHCONFIG_BIND_ADDRESS},
    {"ciphers", SSHCONFIG_CIPHERS},
    {"kexalgorithms", SSHCONFIG_KEX_ALGORITHMS},
    {"macs", SSHCONFIG_MACS},
    {"pubkeyacceptedalgorithms", SSHCONFIG_PUBKEY_ALGORITHMS},
    {"pubkeyacceptedkeytypes", SSHCONFIG_PUBKEY_ALGORITHMS},
    {"rekeylimit", SSHCONFIG_REKEY_LIMIT},
    {"identityfile", SSHCONFIG_IDENTITY_FILE},
    {"certificatefile", SSHCONFIG_CERTIFICATE_FILE},
    {"userknownhostsfile", SSHCONFIG_USER_KNOWN_HOSTS},
    {"globalknownhostsfile", SSHCONFIG_GLOBAL_KNOWN_HOSTS},
};

struct reader {
    struct sshconfig *c;
    const char *file;    /* for messages */
    const char *include; /* directory of relative Include paths; NULL ignores Include */
    size_t line;
    int depth;
};

static int read_file(struct sshconfig *c, const char *path, const char *include, int depth,
                     bool required, struct err *err);

static char *copy(const char *start, size_t len)
{
    char *s = strndup(start, len);
    if (!s)
        abort();
    return s;
}

void sshconfig_words_free(char **words)
{
    for (size_t i = 0; words && words[i]; i++)
        free(words[i]);
    free(words);
}

static void words_add(char ***words, size_t *count, char *word)
{
    *words = mem_grow(*words, *count + 2, sizeof **words);
    (*words)[(*count)++] = word;
    (*words)[*count] = NULL;
}

/* Split by blanks; a word may be in quotes, # begins a comment. */
static int split(const struct reader *r, const char *text, char ***out, struct err *err)
{
    char **words = NULL;
    size_t count = 0;
    words_add(&words, &count, NULL);
    count = 0;
    for (const char *p = text; *p;) {
        p += strspn(p, " \t");
        if (!*p || *p == '#')
            break;
        char quote = *p == '"' || *p == '\'' ? *p : '\0';
        p += quote != '\0';
        size_t len = quote ? (size_t)(strchrnul(p, quote) - p) : strcspn(p, " \t");
        if (quote && !p[len]) {
            sshconfig_words_free(words);
            return err_set(err, ERR_DATA, "%s:%zu: a %c is not closed", r->file, r->line, quote);
        }
        words_add(&words, &count, copy(p, len));
        p += len + (quote != '\0');
    }
    *out = words;
    return 0;
}

static void add_line(struct reader *r, enum sshconfig_op op, enum sshconfig_key key, char **words)
{
    struct sshconfig *c = r->c;
    c->lines = mem_grow(c->lines, c->count + 1, sizeof *c->lines);
    c->lines[c->count++] = (struct sshconfig_line){.op = op, .key = key, .words = words};
}

static char *include_path(const struct reader *r, const char *word)
{
    if (word[0] == '/')
        return str_dup(word);
    if (str_has_prefix(word, "~/"))
        return str_printf("%s%s", r->c->home, word + 1);
    return str_printf("%s/%s", r->include, word);
}

static int include(struct reader *r, char **words, struct err *err)
{
    if (!r->include)
        return 0;
    if (r->depth >= MAX_DEPTH)
        return err_set(err, ERR_DATA, "%s:%zu: more than %d files include each other", r->file,
                       r->line, MAX_DEPTH);
    int rc = 0;
    for (size_t i = 0; rc == 0 && words[i]; i++) {
        AUTO(free_str) char *pattern = include_path(r, words[i]);
        glob_t found = {0};
        if (glob(pattern, 0, NULL, &found) != 0)
            continue;
        for (size_t k = 0; rc == 0 && k < found.gl_pathc; k++) {
            add_line(r, SSHCONFIG_OP_ENTER, 0, NULL);
            rc = read_file(r->c, found.gl_pathv[k], r->include, r->depth + 1, true, err);
            add_line(r, SSHCONFIG_OP_LEAVE, 0, NULL);
        }
        globfree(&found);
    }
    return rc;
}

static int read_value(struct reader *r, const char *word, const char *rest, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++) {
        if (strcasecmp(word, keywords[i].word) != 0)
            continue;
        char **words = NULL;
        if (keywords[i].key == SSHCONFIG_PROXY_COMMAND) { /* the rest of the line as it is */
            size_t count = 0;
            words_add(&words, &count, str_dup(rest));
        } else if (split(r, rest, &words, err) < 0) {
            return -1;
        }
        if (!words[0]) {
            sshconfig_words_free(words);
            return err_set(err, ERR_DATA, "%s:%zu: %s has no value", r->file, r->line, word);
        }
        add_line(r, SSHCONFIG_OP_VALUE, keywords[i].key, words);
        return 0;
    }
    return 0;
}

static int read_line(struct reader *r, char *text, struct err *err)
{
    size_t len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        text[--len] = '\0';
    char *word = text + strspn(text, " \t\f");
    if (!*word || *word == '#')
        return 0;
    char *rest = word + strcspn(word, " \t=");
    if (*rest) {
        *rest++ = '\0';
        rest += strspn(rest, " \t");
        rest += *rest == '=';
        rest += strspn(rest, " \t");
    }
    bool host = strcasecmp(word, "host") == 0, match = strcasecmp(word, "match") == 0;
    bool inc = strcasecmp(word, "include") == 0;
    if (!host && !match && !inc)
        return read_value(r, word, rest, err);
    char **words = NULL;
    if (split(r, rest, &words, err) < 0)
        return -1;
    if (inc) {
        int rc = include(r, words, err);
        sshconfig_words_free(words);
        return rc;
    }
    add_line(r, host ? SSHCONFIG_OP_HOST : SSHCONFIG_OP_MATCH, 0, words);
    return 0;
}

static int read_lines(struct reader *r, const char *text, size_t len, struct err *err)
{
    int rc = 0;
    for (const char *p = text, *end = text + len; rc == 0 && p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;
        AUTO(free_str) char *line = copy(p, (size_t)(stop - p));
        r->line++;
        rc = read_line(r, line, err);
        p = stop + 1;
    }
    return rc;
}

static int read_file(struct sshconfig *c, const char *path, const char *include_dir, int depth,
                     bool required, struct err *err)
{
    if (!required && !fs_exists(path))
        return 0;
    AUTO(free_str) char *text = NULL;
    size_t len = 0;
    if (fs_read(path, MAX_FILE_BYTES, &text, &len, err) < 0)
        return err_wrap(err, "ssh config: ");
    struct reader r = {.c = c, .file = path, .include = include_dir, .depth = depth};
    return read_lines(&r, text, len, err);
}

int sshconfig_read_file(struct sshconfig *c, const char *path, bool required, struct err *err)
{
    AUTO(free_str) char *dot_ssh = str_printf("%s/.ssh", c->home);
    bool global = str_has_prefix(path, "/etc/ssh/");
    struct reader r = {.c = c};
    add_line(&r, SSHCONFIG_OP_RESET, 0, NULL);
    return read_file(c, path, global ? "/etc/ssh" : dot_ssh, 0, required, err);
}

int sshconfig_read_text(struct sshconfig *c, const char *text, size_t len, struct err *err)
{
    struct reader r = {.c = c, .file = "ssh config"};
    return read_lines(&r, text, len, err);
}
