/* Kernel logs: Xid and SXid numbers by class, PCIe AER per device. */
#include "validate/diagnose/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum { AER_MANY = 20, LINKS_MAX = 64, FLAPS_MIN = 3 };

static const struct {
    int number;
    enum diag_id id;
    const char *meaning;
} xids[] = {
#define XID(number, finding, meaning) {number, DIAG_##finding, meaning},
#include "validate/diagnose/xid.def"
#undef XID
};

struct link {
    char device[48], interface[32];
    size_t downs;
    bool is_down;
    struct diag_where at; /* last time that it went down */
};

struct kernel {
    struct link links[LINKS_MAX];
    size_t link_count;
    size_t corrected;
    struct diag_where corrected_at;
    char corrected_device[48];
};

static void *create(void)
{
    return mem_zero(1, sizeof(struct kernel));
}

static void release(void *state)
{
    struct kernel *s = state;
    for (size_t i = 0; i < s->link_count; i++)
        diag_where_release(&s->links[i].at);
    diag_where_release(&s->corrected_at);
    free(s);
}

/* Xid 154 tells what the driver wants done next. */
static void take_recovery(struct diag *d, const struct diag_line *line, const char *gpu)
{
    struct match_result r;
    char action[48] = "";
    if (match_text("changed from*to {code} \\({action*}\\)", line->text, &r))
        match_get(&r, "action", action, sizeof action);
    enum diag_id id = strcmp(action, "None") == 0 ? DIAG_recovery_none : DIAG_recovery_wanted;
    diag_find(d, id, line, "gpu", gpu, "action", action, NULL);
}

static void take_number(struct diag *d, const struct diag_line *line, const char *gpu,
                        const char *number)
{
    int xid = (int)diag_number(number, -1);
    if (xid == 154) {
        take_recovery(d, line, gpu);
        return;
    }
    enum diag_id id = DIAG_xid_unknown;
    const char *meaning = "not in the list of known numbers";
    for (size_t i = 0; i < ARRAY_LEN(xids); i++)
        if (xids[i].number == xid) {
            id = xids[i].id;
            meaning = xids[i].meaning;
        }
    char process[64] = "", links[16] = "";
    struct match_result r;
    if (match_text("name={process}", line->text, &r))
        match_get(&r, "process", process, sizeof process);
    if (match_text(" link {link#}", line->text, &r) ||
        match_text("Link ID {link#}", line->text, &r))
        match_get(&r, "link", links, sizeof links);
    diag_find(d, id, line, "gpu", gpu, "xid", number, "meaning", meaning, "process", process,
              "link", links, NULL);
}

static void take_xid(struct diag *d, const struct diag_line *line)
{
    struct match_result r;
    char gpu[48] = "", number[16] = "", kind[24] = "", link[16] = "";
    if (match_text("SXid~\\(PCI:{gpu}\\): {n#},~{kind*},", line->text, &r)) {
        match_get(&r, "gpu", gpu, sizeof gpu);
        match_get(&r, "n", number, sizeof number);
        match_get(&r, "kind", kind, sizeof kind);
        if (match_text(" Link {link#}", line->text, &r))
            match_get(&r, "link", link, sizeof link);
        diag_find(d, strncmp(kind, "Fatal", 5) == 0 ? DIAG_sxid_fatal : DIAG_sxid_nonfatal, line,
                  "switch", gpu, "sxid", number, "kind", kind, "link", link, NULL);
    } else if (match_text("Xid~\\(PCI:{gpu}\\): {n#}", line->text, &r) ||
               match_text("Xid={n#} on Device={gpu}", line->text, &r) ||
               match_text("XID~{n#} on {gpu}", line->text, &r)) {
        match_get(&r, "gpu", gpu, sizeof gpu);
        match_get(&r, "n", number, sizeof number);
        take_number(d, line, gpu, number);
    }
}

static void take_aer(struct kernel *s, struct diag *d, const struct diag_line *line)
{
    struct match_result r;
    char device[48] = "", severity[32] = "", type[40] = "";
    if (match_text(" {device}: PCIe Bus Error: severity={severity*}, type={type*},", line->text,
                   &r) ||
        match_text("^{device}: PCIe Bus Error: severity={severity*}, type={type*},", line->body,
                   &r)) {
        match_get(&r, "device", device, sizeof device);
        match_get(&r, "severity", severity, sizeof severity);
        match_get(&r, "type", type, sizeof type);
    } else {
        return;
    }
    if (strncmp(severity, "Corrected", 9) == 0) {
        s->corrected++;
        if (!s->corrected_at.file)
            s->corrected_at = diag_where_copy(line);
        snprintf(s->corrected_device, sizeof s->corrected_device, "%s", device);
        return;
    }
    diag_find(d, strstr(severity, "Non-Fatal") ? DIAG_aer_nonfatal : DIAG_aer_fatal, line, "device",
              device, "type", type, NULL);
}

static struct link *link_of(struct kernel *s, const char *device, const char *interface)
{
    for (size_t i = 0; i < s->link_count; i++)
        if (strcmp(s->links[i].interface, interface) == 0 &&
            strcmp(s->links[i].device, device) == 0)
            return &s->links[i];
    if (s->link_count == LINKS_MAX)
        return NULL;
    struct link *l = &s->links[s->link_count++];
    snprintf(l->device, sizeof l->device, "%s", device);
    snprintf(l->interface, sizeof l->interface, "%s", interface);
    return l;
}

static void take_link(struct kernel *s, struct diag *d, const struct diag_line *line)
{
    struct match_result r;
    char device[48], interface[32], state[16];
    if (!match_text("mlx5_core {device} {interface}: Link {state}", line->text, &r))
        return;
    match_get(&r, "device", device, sizeof device);
    match_get(&r, "interface", interface, sizeof interface);
    match_get(&r, "state", state, sizeof state);
    struct link *l = link_of(s, device, interface);
    if (!l)
        return;
    l->is_down = strncmp(state, "down", 4) == 0;
    if (!l->is_down) {
        diag_find(d, DIAG_link_up, line, "device", device, "interface", interface, NULL);
        return;
    }
    l->downs++;
    diag_where_release(&l->at);
    l->at = diag_where_copy(line);
}

static void judge_link(const struct link *l, struct diag *d)
{
    char count[24];
    snprintf(count, sizeof count, "%zu", l->downs);
    if (l->downs == 0)
        return;
    enum diag_id id = l->is_down              ? DIAG_link_lost
                      : l->downs >= FLAPS_MIN ? DIAG_link_flaps
                                              : DIAG_link_came_up;
    diag_find_where(d, id, &l->at, "device", l->device, "interface", l->interface, "count", count,
                    NULL);
}

static void feed(void *state, struct diag *d, const struct diag_line *line)
{
    if (line->command)
        return;
    if (strstr(line->text, "Xid") || strstr(line->text, "XID"))
        take_xid(d, line);
    else if (strstr(line->text, "PCIe Bus Error"))
        take_aer(state, d, line);
    else if (strstr(line->text, ": Link ") && strstr(line->text, "mlx5_core"))
        take_link(state, d, line);
}

static void finish(void *state, struct diag *d)
{
    struct kernel *s = state;
    for (size_t i = 0; i < s->link_count; i++)
        judge_link(&s->links[i], d);
    if (s->corrected == 0)
        return;
    char count[24];
    snprintf(count, sizeof count, "%zu", s->corrected);
    diag_find_where(d, s->corrected >= AER_MANY ? DIAG_aer_corrected_many : DIAG_aer_corrected,
                    &s->corrected_at, "device", s->corrected_device, "count", count, NULL);
}

const struct diag_parser diag_kernel_parser = {create, feed, finish, release};
