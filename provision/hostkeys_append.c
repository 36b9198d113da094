#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/util.h"
#include "provision/hostkeys_internal.h"

enum { MAX_FILE_BYTES = 64 * 1024 * 1024 };

static int check_line(const struct hostkeys_line *line, struct err *err)
{
    if (!line->host || !line->host[0] || strpbrk(line->host, " \t\r\n,*?!|#@"))
        return err_set(err, ERR_DATA, "'%s' is not a host name", line->host ? line->host : "");
    if (line->port < 0 || line->port > 65535)
        return err_set(err, ERR_DATA, "%s: port %d is not between 1 and 65535", line->host,
                       line->port);
    if (!hostkeys_key_valid(line->type, line->base64))
        return err_set(err, ERR_DATA, "%s: not a base64 host key of type %s", line->host,
                       line->type);
    return 0;
}

/* The line's first field without one name; "" when it was the only one, NULL when a pattern or a
 * hash covers the name, so that it cannot be taken out alone. */
static char *without_name(const char *hosts, const char *name)
{
    struct strbuf rest = {0};
    strbuf_puts(&rest, "");
    bool found = false;
    for (const char *p = hosts; *p;) {
        size_t len = strcspn(p, ",");
        if (strlen(name) == len && strncasecmp(p, name, len) == 0) {
            found = true;
        } else {
            if (rest.len > 0)
                strbuf_puts(&rest, ",");
            strbuf_add(&rest, p, len);
        }
        p += len;
        p += *p == ',';
    }
    if (found && !hostkeys_hosts_match(rest.data, name))
        return rest.data;
    strbuf_release(&rest);
    return str_has_prefix(hosts, "|1|") ? str_dup("") : NULL;
}

struct edit {
    const char *path, *name;
    const struct hostkeys_line *line;
    bool replace, present;
    struct strbuf out;
};

/* Take the name out of a line that holds another key for it. */
static int replace_name(struct edit *e, const char *text, size_t len, size_t number,
                        const struct hostkeys_entry *entry, struct err *err)
{
    if (!e->replace) {
        AUTO(free_str) char *known = hostkeys_fingerprint(entry->base64);
        AUTO(free_str) char *offered = hostkeys_fingerprint(e->line->base64);
        return err_set(err, ERR_USAGE,
                       "%s:%zu already holds %s %s for %s, the host now has %s; only replace it "
                       "when you know why it changed",
                       e->path, number, entry->type, known, e->name, offered);
    }
    AUTO(free_str) char *rest = without_name(entry->hosts, e->name);
    if (!rest)
        return err_set(err, ERR_USAGE,
                       "%s:%zu covers %s by the pattern '%s'; edit that line by hand", e->path,
                       number, e->name, entry->hosts);
    if (rest[0] == '\0')
        return 0;
    const char *tail = memmem(text, len, entry->hosts, strlen(entry->hosts));
    tail += strlen(entry->hosts);
    strbuf_puts(&e->out, rest);
    strbuf_add(&e->out, tail, (size_t)(text + len - tail));
    strbuf_puts(&e->out, "\n");
    return 0;
}

static int edit_line(struct edit *e, const char *text, size_t len, size_t number, struct err *err)
{
    struct hostkeys_entry entry = {0};
    bool ours = hostkeys_read_line(text, len, &entry) && entry.mark == HOSTKEYS_PLAIN &&
                hostkeys_hosts_match(entry.hosts, e->name);
    bool same = ours && strcmp(entry.base64, e->line->base64) == 0;
    int rc = 0;
    e->present |= same;
    if (ours && !same && (e->replace || strcmp(entry.type, e->line->type) == 0)) {
        rc = replace_name(e, text, len, number, &entry, err);
    } else {
        strbuf_add(&e->out, text, len);
        strbuf_puts(&e->out, "\n");
    }
    hostkeys_entry_release(&entry);
    return rc;
}

/* content becomes the file's text with the line added. */
static int edit_text(const char *path, struct strbuf *content, const struct hostkeys_line *line,
                     bool replace, struct err *err)
{
    AUTO(free_str) char *name = hostkeys_host_name(line->host, line->port);
    struct edit e = {.path = path, .name = name, .line = line, .replace = replace};
    size_t number = 0;
    for (const char *p = content->data, *end = p + content->len; p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;
        if (edit_line(&e, p, (size_t)(stop - p), ++number, err) < 0) {
            strbuf_release(&e.out);
            return -1;
        }
        p = stop + 1;
    }
    if (!e.present)
        strbuf_printf(&e.out, "%s %s %s\n", name, line->type, line->base64);
    strbuf_release(content);
    *content = e.out;
    return 0;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_mode & 0777 : 0600;
}

int hostkeys_append_all(const char *path, const struct hostkeys_line lines[], size_t count,
                        bool replace, struct err *err)
{
    struct strbuf content = {0};
    strbuf_puts(&content, "");
    if (fs_exists(path)) {
        AUTO(free_str) char *text = NULL;
        size_t len = 0;
        if (fs_read(path, MAX_FILE_BYTES, &text, &len, err) < 0) {
            strbuf_release(&content);
            return -1;
        }
        strbuf_add(&content, text, len);
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = check_line(&lines[i], err);
        if (rc == 0)
            rc = edit_text(path, &content, &lines[i], replace, err);
    }
    if (rc == 0)
        rc = fs_write_atomic(path, content.data, content.len, mode_of(path), err);
    strbuf_release(&content);
    return rc;
}

int hostkeys_append(const char *path, const char *host, int port, const char *type,
                    const char *base64, struct err *err)
{
    struct hostkeys_line line = {.host = host, .port = port, .type = type, .base64 = base64};
    return hostkeys_append_all(path, &line, 1, false, err);
}
