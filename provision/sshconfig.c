#include "provision/sshconfig.h"

#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/units.h"
#include "common/util.h"
#include "provision/sshconfig_internal.h"

enum { MAX_NESTED = 64, SSH_PORT = 22 };

static struct sshconfig *create(void)
{
    struct sshconfig *c = mem_zero(1, sizeof *c);
    const struct passwd *pw = getpwuid(getuid());
    c->home = str_dup(pw && pw->pw_dir ? pw->pw_dir : "/");
    c->local_user = str_dup(pw && pw->pw_name ? pw->pw_name : "");
    return c;
}

struct sshconfig *sshconfig_load(const char *file, struct err *err)
{
    struct sshconfig *c = create();
    int rc = 0;
    if (file) {
        rc = sshconfig_read_file(c, file, true, err);
    } else {
        AUTO(free_str) char *own = str_printf("%s/.ssh/config", c->home);
        rc = sshconfig_read_file(c, own, false, err);
        if (rc == 0)
            rc = sshconfig_read_file(c, "/etc/ssh/ssh_config", false, err);
    }
    if (rc == 0)
        return c;
    sshconfig_destroy(c);
    return NULL;
}

struct sshconfig *sshconfig_parse(const char *text, size_t len, struct err *err)
{
    struct sshconfig *c = create();
    if (sshconfig_read_text(c, text, len, err) == 0)
        return c;
    sshconfig_destroy(c);
    return NULL;
}

void sshconfig_destroy(struct sshconfig *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++)
        sshconfig_words_free(c->lines[i].words);
    free(c->lines);
    free(c->home);
    free(c->local_user);
    free(c);
}

const char *sshconfig_home(const struct sshconfig *c)
{
    return c->home;
}

const char *sshconfig_local_user(const struct sshconfig *c)
{
    return c->local_user;
}

bool sshconfig_pattern_match(const char *pattern, const char *text)
{
    const char *star = NULL, *mark = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            mark = text;
        } else if (*pattern == '?' || (*pattern && tolower((unsigned char)*pattern) ==
                                                       tolower((unsigned char)*text))) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++mark;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

/* One positive pattern must match and no negated one. */
static bool patterns_match(char *const words[], const char *text)
{
    bool matched = false;
    for (size_t i = 0; words[i]; i++) {
        bool negated = words[i][0] == '!';
        if (!sshconfig_pattern_match(words[i] + negated, text))
            continue;
        if (negated)
            return false;
        matched = true;
    }
    return matched;
}

static bool list_match(const char *list, const char *text)
{
    AUTO(free_str) char *copy = str_dup(list);
    char *words[65] = {0}, *save = NULL;
    size_t count = 0;
    for (char *w = strtok_r(copy, ",", &save); w && count < 64; w = strtok_r(NULL, ",", &save))
        words[count++] = w;
    return patterns_match(words, text);
}

struct resolution {
    const struct sshconfig *c;
    const char *alias;
    struct sshconfig_host *out;
};

static char *expand(const struct resolution *r, const char *text);

static bool criterion(const struct resolution *r, const char *word, const char *arg)
{
    const struct sshconfig_host *h = r->out;
    if (strcasecmp(word, "host") == 0) {
        const char *name = h->value[SSHCONFIG_HOST_NAME];
        return list_match(arg, name ? name : r->alias);
    }
    if (strcasecmp(word, "originalhost") == 0)
        return list_match(arg, r->alias);
    if (strcasecmp(word, "user") == 0)
        return list_match(arg, h->user ? h->user : r->c->local_user);
    if (strcasecmp(word, "localuser") == 0)
        return list_match(arg, r->c->local_user);
    return false;
}

static bool match_block(const struct resolution *r, char *const words[])
{
    for (size_t i = 0; words[i]; i++) {
        bool negated = words[i][0] == '!';
        const char *word = words[i] + negated;
        if (strcasecmp(word, "all") == 0) {
            if (negated)
                return false;
            continue;
        }
        static const char *const known[] = {"host", "originalhost", "user", "localuser"};
        bool is_known = false;
        for (size_t k = 0; k < ARRAY_LEN(known); k++)
            is_known |= strcasecmp(word, known[k]) == 0;
        if (!is_known || !words[i + 1] || criterion(r, word, words[i + 1]) == negated)
            return false;
        i++;
    }
    return words[0] != NULL;
}

static void add_words(char ***list, char *const words[])
{
    size_t count = 0;
    for (; *list && (*list)[count]; count++)
        ;
    for (size_t i = 0; words[i]; i++) {
        *list = mem_grow(*list, count + 2, sizeof **list);
        (*list)[count++] = str_dup(words[i]);
        (*list)[count] = NULL;
    }
}

static void take_value(const struct resolution *r, const struct sshconfig_line *line)
{
    struct sshconfig_host *h = r->out;
    if (line->key >= SSHCONFIG_IDENTITY_FILE) {
        char ***list = &h->list[line->key - SSHCONFIG_IDENTITY_FILE];
        bool accumulates =
            line->key == SSHCONFIG_IDENTITY_FILE || line->key == SSHCONFIG_CERTIFICATE_FILE;
        if (accumulates || !*list)
            add_words(list, line->words);
        return;
    }
    /* ProxyCommand and ProxyJump share one place: the first of the two wins. */
    if ((line->key == SSHCONFIG_PROXY_COMMAND && h->value[SSHCONFIG_PROXY_JUMP]) ||
        (line->key == SSHCONFIG_PROXY_JUMP && h->value[SSHCONFIG_PROXY_COMMAND]))
        return;
    if (h->value[line->key])
        return;
    h->value[line->key] = str_dup(line->words[0]);
    if (line->key == SSHCONFIG_USER && !h->user)
        h->user = str_dup(line->words[0]);
}

static void walk(const struct resolution *r)
{
    bool active = true, outer[MAX_NESTED] = {true};
    size_t depth = 0;
    for (size_t i = 0; i < r->c->count; i++) {
        const struct sshconfig_line *line = &r->c->lines[i];
        switch (line->op) {
        case SSHCONFIG_OP_VALUE:
            if (active)
                take_value(r, line);
            break;
        case SSHCONFIG_OP_HOST:
            active = outer[depth] && patterns_match(line->words, r->alias);
            break;
        case SSHCONFIG_OP_MATCH:
            active = outer[depth] && match_block(r, line->words);
            break;
        case SSHCONFIG_OP_ENTER:
            outer[++depth] = active;
            break;
        case SSHCONFIG_OP_LEAVE:
            active = outer[depth--];
            break;
        case SSHCONFIG_OP_RESET:
            active = true;
            break;
        }
    }
}

static void expand_lists(const struct resolution *r)
{
    for (size_t k = 0; k < ARRAY_LEN(r->out->list); k++) {
        for (char **word = r->out->list[k]; word && *word; word++) {
            char *expanded = expand(r, *word);
            free(*word);
            *word = expanded;
        }
    }
}

int sshconfig_resolve(const struct sshconfig *c, const char *alias, const char *user, int port,
                      struct sshconfig_host *out, struct err *err)
{
    struct sshconfig_host h = {0};
    struct resolution r = {.c = c, .alias = alias, .out = &h};
    h.user = user ? str_dup(user) : NULL;
    walk(&r);
    int64_t number = port > 0 ? port : SSH_PORT;
    if (port <= 0 && h.value[SSHCONFIG_PORT] &&
        units_parse_int(h.value[SSHCONFIG_PORT], 1, 65535, &number, err) < 0) {
        sshconfig_host_release(&h);
        return err_wrap(err, "ssh config: Port for %s: ", alias);
    }
    h.port = (int)number;
    /* %h in HostName is the alias, elsewhere the host that HostName gave. */
    h.host = str_dup(alias);
    if (h.value[SSHCONFIG_HOST_NAME]) {
        char *host = expand(&r, h.value[SSHCONFIG_HOST_NAME]);
        free(h.host);
        h.host = host;
    }
    expand_lists(&r);
    if (h.value[SSHCONFIG_IDENTITY_AGENT]) {
        char *agent = expand(&r, h.value[SSHCONFIG_IDENTITY_AGENT]);
        free(h.value[SSHCONFIG_IDENTITY_AGENT]);
        h.value[SSHCONFIG_IDENTITY_AGENT] = agent;
    }
    *out = h;
    return 0;
}

void sshconfig_host_release(struct sshconfig_host *h)
{
    free(h->host);
    free(h->user);
    for (size_t i = 0; i < ARRAY_LEN(h->value); i++)
        free(h->value[i]);
    for (size_t i = 0; i < ARRAY_LEN(h->list); i++)
        sshconfig_words_free(h->list[i]);
    *h = (struct sshconfig_host){0};
}

char *const *sshconfig_list(const struct sshconfig_host *h, enum sshconfig_key key)
{
    return h->list[key - SSHCONFIG_IDENTITY_FILE];
}

static void add_token(const struct resolution *r, char token, struct strbuf *out)
{
    const struct sshconfig_host *h = r->out;
    const char *user = h->user ? h->user : r->c->local_user;
    switch (token) {
    case '%':
        strbuf_puts(out, "%");
        break;
    case 'd':
        strbuf_puts(out, r->c->home);
        break;
    case 'h':
        strbuf_puts(out, h->host);
        break;
    case 'n':
        strbuf_puts(out, r->alias);
        break;
    case 'k':
        strbuf_puts(out, h->value[SSHCONFIG_HOST_KEY_ALIAS] ? h->value[SSHCONFIG_HOST_KEY_ALIAS]
                                                            : r->alias);
        break;
    case 'p':
        strbuf_printf(out, "%d", h->port);
        break;
    case 'r':
        strbuf_puts(out, user);
        break;
    case 'u':
        strbuf_puts(out, r->c->local_user);
        break;
    case 'i':
        strbuf_printf(out, "%u", (unsigned)getuid());
        break;
    default: /* left as written, so that the message about the file shows it */
        strbuf_printf(out, "%%%c", token);
    }
}

static char *expand(const struct resolution *r, const char *text)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    if (str_has_prefix(text, "~/")) {
        strbuf_puts(&out, r->c->home);
        text++;
    }
    for (const char *p = text; *p; p++) {
        const char *close = p[0] == '$' && p[1] == '{' ? strchr(p, '}') : NULL;
        if (close) {
            AUTO(free_str) char *name = strndup(p + 2, (size_t)(close - p - 2));
            const char *value = name ? getenv(name) : NULL;
            strbuf_puts(&out, value ? value : "");
            p = close;
        } else if (*p == '%' && p[1]) {
            add_token(r, *++p, &out);
        } else {
            strbuf_add(&out, p, 1);
        }
    }
    return out.data;
}

char *sshconfig_expand(const struct sshconfig *c, const struct sshconfig_host *h, const char *alias,
                       const char *text)
{
    struct sshconfig_host view = *h;
    struct resolution r = {.c = c, .alias = alias, .out = &view};
    return expand(&r, text);
}
