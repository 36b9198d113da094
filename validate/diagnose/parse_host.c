/* What a host says of its own limits: df of /dev/shm, locked memory, loaded modules.  The number
 * decides, so that a row of rules.def is not enough. */
#include "validate/diagnose/diag.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

static const double shm_floor_bytes = 512.0 * 1024 * 1024;
static const double memlock_floor_kb = 16.0 * 1024 * 1024;

enum asked { ASKED_OTHER, ASKED_MEMLOCK, ASKED_PEERMEM };

struct host {
    enum asked asked;    /* by the last command */
    bool fabric_manager; /* the lines of its `systemctl status` */
};

static void *create(void)
{
    return mem_zero(1, sizeof(struct host));
}

/* "64M", "504G", or a number of KiB as df prints without -h. */
static double size_bytes(const char *text)
{
    static const char units[] = "KMGTP";
    double value = diag_number(text, 0), factor = 1024;
    const char *unit = strpbrk(text, units);
    for (size_t steps = unit ? (size_t)(strchr(units, *unit) - units) : 0; steps > 0; steps--)
        factor *= 1024;
    return value * factor;
}

static void take_df(struct diag *d, const struct diag_line *line)
{
    struct match_result r;
    char size[32];
    if (!match_text(" {size} {used} {avail} {percent#}% /dev/shm$", line->text, &r))
        return;
    match_get(&r, "size", size, sizeof size);
    diag_find(d, size_bytes(size) < shm_floor_bytes ? DIAG_shm_df_small : DIAG_shm_df_ok, line,
              "size", size, NULL);
}

static void judge_memlock(struct diag *d, const struct diag_line *line, const char *value,
                          double per_kb)
{
    if (strncmp(value, "unlimited", 9) == 0)
        diag_find(d, DIAG_memlock_unlimited, line, NULL);
    else if (isdigit((unsigned char)*value) && diag_number(value, 0) / per_kb < memlock_floor_kb)
        diag_find(d, DIAG_memlock_low, line, per_kb > 1 ? "bytes" : "kb", value, NULL);
}

static void take_memlock(struct host *s, struct diag *d, const struct diag_line *line)
{
    struct match_result r;
    char value[32];
    const char *b = line->body + strspn(line->body, " \t");
    if (match_text("max locked memory *-l\\) {value}", line->text, &r)) {
        match_get(&r, "value", value, sizeof value);
        judge_memlock(d, line, value, 1);
    } else if (match_text("^Max locked memory {value} ", line->body, &r)) {
        match_get(&r, "value", value, sizeof value);
        judge_memlock(d, line, value, 1024);
    } else if (s->asked == ASKED_MEMLOCK && *b) {
        judge_memlock(d, line, b, 1);
        s->asked = ASKED_OTHER;
    }
}

/* "Active: active (running) since ...; 3h 12min ago", of the fabric manager. */
static void take_service(struct host *s, struct diag *d, const struct diag_line *line)
{
    struct match_result r;
    char state[24], ago[64] = "";
    if (strstr(line->text, ".service - "))
        s->fabric_manager = strstr(line->text, "fabricmanager.service") != NULL;
    if (!s->fabric_manager || !match_text("Active: {state} ", line->text, &r))
        return;
    match_get(&r, "state", state, sizeof state);
    if (match_text("; {ago*} ago", line->text, &r))
        match_get(&r, "ago", ago, sizeof ago);
    s->fabric_manager = false;
    if (strcmp(state, "active") != 0)
        diag_find(d, DIAG_fm_failed, line, "state", state, NULL);
    else if (ago[0] && !strstr(ago, "day") && !strstr(ago, "week") && !strstr(ago, "month") &&
             !strstr(ago, "year"))
        diag_find(d, DIAG_fm_recent, line, "ago", ago, NULL);
    else
        diag_find(d, DIAG_fm_running, line, NULL);
}

static void feed(void *state, struct diag *d, const struct diag_line *line)
{
    struct host *s = state;
    if (line->command) {
        bool peermem = strstr(line->body, "lsmod") && strstr(line->body, "peer");
        s->asked = strstr(line->body, "ulimit -l") ? ASKED_MEMLOCK
                   : peermem                       ? ASKED_PEERMEM
                                                   : ASKED_OTHER;
        return;
    }
    if (s->fabric_manager || strstr(line->text, ".service - "))
        take_service(s, d, line);
    if (strstr(line->text, "% /dev/shm"))
        take_df(d, line);
    if (s->asked == ASKED_MEMLOCK || strstr(line->text, "ax locked memory"))
        take_memlock(s, d, line);
    if (s->asked == ASKED_PEERMEM && strcmp(line->body, "0") == 0)
        diag_find(d, DIAG_peermem_not_loaded, line, NULL);
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

const struct diag_parser diag_host_parser = {create, feed, finish, release};
