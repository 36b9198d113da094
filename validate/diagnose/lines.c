#include "validate/diagnose/lines.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"
#include "validate/diagnose/match.h"

void lines_open(struct lines *lines, const char *file, const char *text, size_t len)
{
    *lines = (struct lines){.file = file, .at = text, .end = text + len};
}

/* Skips an escape sequence; p stands behind the escape byte. */
static const char *skip_escape(const char *p, const char *end)
{
    if (p < end && *p == '[') {
        for (p++; p < end && *p >= 0x20 && *p < 0x40;)
            p++;
        return p < end && *p != '\n' ? p + 1 : p;
    }
    if (p < end && *p == ']') {
        while (p < end && *p != '\a' && *p != '\n')
            p++;
        return p < end && *p == '\a' ? p + 1 : p;
    }
    return p;
}

/* Takes one piece of a line; true when the line ends with it. */
static bool take_piece(struct lines *lines, char *out)
{
    size_t len = 0;
    while (lines->at < lines->end && len + 1 < LINES_MAX_BYTES) {
        char c = *lines->at++;
        if (c == '\n') {
            out[len] = '\0';
            return true;
        }
        if (c == '\033')
            lines->at = skip_escape(lines->at, lines->end);
        else if (c == '\t' || (unsigned char)c >= ' ')
            out[len++] = c == 0x7f ? ' ' : c;
    }
    out[len] = '\0';
    return lines->at >= lines->end;
}

static void set_host(char host[LINES_HOST_BYTES], const char *start, size_t len)
{
    if (len > 0 && len < LINES_HOST_BYTES)
        snprintf(host, LINES_HOST_BYTES, "%.*s", (int)len, start);
}

static size_t host_len(const char *p)
{
    size_t len = 0;
    while (isalnum((unsigned char)p[len]) || (len && p[len] && strchr("._-", p[len])))
        len++;
    return len;
}

/* "[...] " with a date, seconds or an MPI rank in it: its length, else 0. */
static size_t bracket_prefix(const char *p)
{
    if (*p != '[')
        return 0;
    const char *end = strchr(p, ']');
    if (!end || end - p > 96)
        return 0;
    size_t digits = 0, len = (size_t)(end - p) + 1;
    for (const char *q = p + 1; q < end; q++)
        digits += isdigit((unsigned char)*q) != 0;
    bool pod = strncmp(p, "[pod/", 5) == 0;
    if (digits == 0 && !pod)
        return 0;
    for (const char *const *tag = (const char *const[]){"<stdout>:", "<stderr>:", NULL}; *tag;
         tag++)
        if (strncmp(p + len, *tag, strlen(*tag)) == 0)
            return len + strlen(*tag);
    bool stamp = strchr(p, ':') && strchr(p, ':') < end;
    bool seconds = strspn(p + 1, " 0123456789.") == (size_t)(end - p - 1);
    return pod || stamp || seconds ? len + (p[len] == ' ') : 0;
}

/* "2026-03-02T11:40:18.123Z ", "2026-03-02 11:40:18,123 ": its length, else 0. */
static size_t iso_prefix(const char *p)
{
    size_t len = strspn(p, "0123456789-");
    if (len != 10 || p[4] != '-' || p[7] != '-' || (p[10] != 'T' && p[10] != ' '))
        return 0;
    len += 1 + strspn(p + 11, "0123456789:.,Z+-");
    if (len < 19)
        return 0;
    return len + strspn(p + len, " ");
}

/* "Oct 21 14:31:11 host unit[7]: ": length up to the unit, with the host; else 0. */
static size_t syslog_prefix(const char *p, char host[LINES_HOST_BYTES])
{
    if (!isupper((unsigned char)p[0]) || !islower((unsigned char)p[1]) ||
        !islower((unsigned char)p[2]) || p[3] != ' ')
        return 0;
    const char *q = p + 4 + strspn(p + 4, " ");
    size_t day = strspn(q, "0123456789");
    if (day == 0 || day > 2 || q[day] != ' ')
        return 0;
    q += day + 1;
    if (strspn(q, "0123456789:.") < 8 || q[2] != ':')
        return 0;
    q += strspn(q, "0123456789:.");
    q += strspn(q, " ");
    size_t len = host_len(q);
    if (len == 0 || q[len] != ' ')
        return (size_t)(q - p);
    set_host(host, q, len);
    q += len + 1;
    if (strncmp(q, "kernel: ", 8) == 0)
        q += 8;
    return (size_t)(q - p);
}

/* "pod/x: ", "pod/x ": its length, else 0. */
static size_t pod_prefix(const char *p)
{
    if (strncmp(p, "pod/", 4) != 0)
        return 0;
    size_t len = strcspn(p, " ");
    return p[len] == ' ' ? len + 1 : 0;
}

/* NCCL writes "host:pid:tid [gpu] ...". */
static void nccl_host(struct diag_line *line)
{
    const char *mark = strstr(line->text, " NCCL ");
    const char *bracket = mark ? strchr(line->body, '[') : NULL;
    if (!bracket || bracket > mark || bracket == line->body)
        return;
    const char *p = bracket;
    while (p > line->body && p[-1] == ' ')
        p--;
    const char *end = p;
    for (int colons = 0; p > line->body && colons < 2; p--) {
        if (p[-1] == ':') {
            colons++;
            end = p - 1;
        } else if (!isdigit((unsigned char)p[-1])) {
            return;
        }
    }
    const char *start = end;
    while (start > line->body && (isalnum((unsigned char)start[-1]) || strchr("._-", start[-1])))
        start--;
    set_host(line->host, start, (size_t)(end - start));
}

/* Takes "host$ ", "# ", "[root@host ~]# ", "root@host:~# " off; a prompt begins at column 0. */
static bool take_prompt(struct lines *lines, struct diag_line *line)
{
    const char *b = line->body;
    size_t len = host_len(b);
    if ((b[0] == '$' || b[0] == '#') && b[1] == ' ') {
        line->body = b + 2;
        return true;
    }
    if (len > 0 && (b[len] == '$' || b[len] == '#') && b[len + 1] == ' ') {
        set_host(lines->host, b, len);
        line->body = b + len + 2;
        return true;
    }
    const char *user = *b == '[' ? b + 1 : b, *at = user + host_len(user);
    if (at == user || *at != '@')
        return false;
    len = host_len(at + 1);
    const char *end = at + 1 + len;
    end += strcspn(end, "#$");
    if (len == 0 || end - at > 120 || !*end || end[1] != ' ')
        return false;
    set_host(lines->host, at + 1, len);
    line->body = end + 2;
    return true;
}

/* A label "gpu017: " as pdsh, clush and srun -l put before every line. */
static size_t label_prefix(const char *p)
{
    size_t len = host_len(p);
    if (len == 0 || p[len] != ':' || (p[len + 1] != ' ' && p[len + 1] != '\t'))
        return 0;
    bool digit = false;
    for (size_t i = 0; i < len; i++)
        digit |= isdigit((unsigned char)p[i]) != 0;
    if (!digit || strncmp(p, "mlx", 3) == 0 || strncmp(p, "ib", 2) == 0)
        return 0;
    /* "eth0: " of ip(8) and "0: " of a table are not labels: what follows them is not indented. */
    const char *rest = p + len + 2;
    return *rest == '\t' || *rest == ' ' || isupper((unsigned char)*rest) ? len + 2 : 0;
}

static void split_prefix(struct lines *lines, struct diag_line *line)
{
    line->body = line->text;
    for (int round = 0; round < 4; round++) {
        const char *b = line->body;
        size_t len = bracket_prefix(b);
        if (len == 0)
            len = iso_prefix(b);
        if (len == 0)
            len = syslog_prefix(b, line->host);
        if (len == 0)
            len = pod_prefix(b);
        if (len == 0)
            break;
        line->body = b + len;
    }
    size_t label = label_prefix(line->body);
    if (label) {
        set_host(line->host, line->body, label - 2);
        line->body += label;
    }
}

bool lines_next(struct lines *lines, struct diag_line *line)
{
    if (lines->at >= lines->end)
        return false;
    if (!lines->inside)
        lines->number++;
    bool whole = take_piece(lines, line->text);
    line->file = lines->file;
    line->number = lines->number;
    line->host[0] = '\0';
    split_prefix(lines, line);
    line->command = !lines->inside && line->body == line->text && take_prompt(lines, line);
    lines->inside = !whole;
    if (!line->host[0])
        nccl_host(line);
    if (!line->host[0])
        set_host(line->host, lines->host, strlen(lines->host));
    return true;
}
