/* Error counters of a port, as perfquery and ibqueryerrors print them. */
#include "validate/diagnose/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

/* Errors of the link itself.  PortXmitWait and PortXmitDiscards come from congestion, too. */
static const char *const names[] = {
    "SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter",
    "PortRcvErrors",      "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors",
};

struct counters {
    char lid[16], port[16];
};

static void *create(void)
{
    return mem_zero(1, sizeof(struct counters));
}

static void take(struct counters *s, struct diag *d, const struct diag_line *line, const char *name,
                 const char *text)
{
    const char *p = text + strspn(text, ":. =\t");
    size_t digits = strspn(p, "0123456789");
    if (p == text || digits == 0)
        return;
    char value[24];
    snprintf(value, sizeof value, "%.*s", (int)digits, p);
    if (diag_number(value, 0) > 0)
        diag_find(d, DIAG_port_errors, line, "counter", name, "value", value, "lid", s->lid, "port",
                  s->port, NULL);
    else
        diag_find(d, DIAG_port_errors_none, line, "counter", name, NULL);
}

static void feed(void *state, struct diag *d, const struct diag_line *line)
{
    struct counters *s = state;
    struct match_result r;
    if (!strstr(line->text, "Error") && !strstr(line->text, "LinkDowned") &&
        !strstr(line->text, "ort counters"))
        return;
    if (match_text("Port counters: Lid {lid#} port {port#}", line->text, &r) ||
        match_text(" port {port#}: [", line->text, &r)) {
        s->lid[0] = '\0';
        match_get(&r, "lid", s->lid, sizeof s->lid);
        match_get(&r, "port", s->port, sizeof s->port);
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *at = strstr(line->text, names[i]);
        if (at)
            take(s, d, line, names[i], at + strlen(names[i]));
    }
}

static void finish(void *state, struct diag *d)
{
    (void)state;
    (void)d;
}

static void release(void *state)
{
    free(state);
}

const struct diag_parser diag_counters_parser = {create, feed, finish, release};
