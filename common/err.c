#include "common/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int exit_status;
} kinds[] = {
    [ERR_NONE] = {"none", 0},     [ERR_USAGE] = {"usage", 2},     [ERR_ENV] = {"env", 3},
    [ERR_REMOTE] = {"remote", 4}, [ERR_TIMEOUT] = {"timeout", 5}, [ERR_DATA] = {"data", 2},
    [ERR_NOMEM] = {"nomem", 6},
};
_Static_assert(sizeof kinds / sizeof *kinds == ERR_KIND__COUNT, "one row per kind");

/* Marks a text that did not fit; len is what vsnprintf wanted to write. */
static void mark_cut(char *text, int len)
{
    if (len >= ERR_TEXT_BYTES)
        text[ERR_TEXT_BYTES - 2] = '+';
}

int err_set(struct err *err, enum err_kind kind, const char *fmt, ...)
{
    if (err->kind != ERR_NONE)
        return -1;
    err->kind = kind;
    err->native = 0;
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    mark_cut(err->text, len);
    return -1;
}

int err_set_errno(struct err *err, enum err_kind kind, int errnum, const char *fmt, ...)
{
    if (err->kind != ERR_NONE)
        return -1;
    char what[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    char reason[128];
    err_set(err, kind, "%s: %s", what, strerror_r(errnum, reason, sizeof reason));
    err->native = errnum;
    return -1;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    int used = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (used < 0 || used >= ERR_TEXT_BYTES)
        used = ERR_TEXT_BYTES - 1;
    int len = snprintf(text + used, sizeof text - (size_t)used, "%s", err->text);
    memcpy(err->text, text, sizeof text);
    mark_cut(err->text, used + len);
    return -1;
}

void err_clear(struct err *err)
{
    *err = (struct err){.kind = ERR_NONE};
}

const char *err_kind_name(enum err_kind kind)
{
    return kind < ERR_KIND__COUNT ? kinds[kind].name : "none";
}

enum err_kind err_kind_find(const char *name)
{
    for (int kind = 0; name && kind < ERR_KIND__COUNT; kind++)
        if (strcmp(kinds[kind].name, name) == 0)
            return (enum err_kind)kind;
    return ERR_NONE;
}

int err_exit_status(enum err_kind kind)
{
    return kind < ERR_KIND__COUNT ? kinds[kind].exit_status : 6;
}
