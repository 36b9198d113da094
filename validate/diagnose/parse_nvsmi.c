/* `nvidia-smi nvlink -s` per GPU, and sections of `nvidia-smi -q`. */
#include "validate/diagnose/diag.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util.h"

enum { GPUS_MAX = 256, SECTIONS = 6 };

struct gpu {
    char index[8], name[64], host[LINES_HOST_BYTES];
    unsigned active, inactive;
    char links[96]; /* numbers of the inactive ones */
    double speed;
    struct diag_where at, first_bad;
};

struct nvsmi {
    struct gpu *gpus;
    size_t count;
    bool inside;
    char address[24];           /* of the GPU that -q is at */
    char section[SECTIONS][40]; /* headings by indentation, four blanks each */
    double gen_max, gen_now, width_max, width_now;
    struct diag_where gen_at, width_at;
};

static void *create(void)
{
    return mem_zero(1, sizeof(struct nvsmi));
}

static void release(void *state)
{
    struct nvsmi *s = state;
    for (size_t i = 0; i < s->count; i++) {
        diag_where_release(&s->gpus[i].at);
        diag_where_release(&s->gpus[i].first_bad);
    }
    free(s->gpus);
    diag_where_release(&s->gen_at);
    diag_where_release(&s->width_at);
    free(s);
}

static bool take_gpu(struct nvsmi *s, const struct diag_line *line)
{
    struct match_result r;
    if (strncmp(line->body, "GPU ", 4) != 0 ||
        !match_text("^GPU {n#}: {name*} \\(UUID", line->body, &r))
        return false;
    if (s->count == GPUS_MAX)
        return true;
    s->gpus = mem_grow(s->gpus, s->count + 1, sizeof *s->gpus);
    struct gpu *g = &s->gpus[s->count++];
    *g = (struct gpu){.at = diag_where_copy(line)};
    match_get(&r, "n", g->index, sizeof g->index);
    match_get(&r, "name", g->name, sizeof g->name);
    snprintf(g->host, sizeof g->host, "%s", line->host);
    s->inside = true;
    return true;
}

static void take_link(struct nvsmi *s, const struct diag_line *line)
{
    struct match_result r;
    const char *b = line->body + strspn(line->body, " \t");
    if (strncmp(b, "Link ", 5) != 0 || !match_text("^Link {n#}: {what*}", b, &r))
        return;
    char number[8], what[48];
    match_get(&r, "n", number, sizeof number);
    match_get(&r, "what", what, sizeof what);
    struct gpu *g = &s->gpus[s->count - 1];
    if (isdigit((unsigned char)what[0])) {
        g->active++;
        g->speed = diag_number(what, 0);
        return;
    }
    if (!strcasestr(what, "inactive"))
        return;
    g->inactive++;
    if (!g->first_bad.file)
        g->first_bad = diag_where_copy(line);
    size_t len = strlen(g->links);
    if (len + 12 < sizeof g->links)
        snprintf(g->links + len, sizeof g->links - len, "%s%s", len ? ", " : "", number);
}

/* Headings of -q are indented by four blanks each and end without a colon. */
static void take_section(struct nvsmi *s, const char *body)
{
    size_t indent = strspn(body, " ") / 4;
    if (indent >= SECTIONS)
        return;
    snprintf(s->section[indent], sizeof s->section[indent], "%s", body + strspn(body, " "));
    for (size_t i = indent + 1; i < SECTIONS; i++)
        s->section[i][0] = '\0';
}

static bool in_section(const struct nvsmi *s, const char *name)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (strncasecmp(s->section[i], name, strlen(name)) == 0)
            return true;
    return false;
}

static void end_query(struct nvsmi *s, struct diag *d)
{
    char has[24], can[24];
    if (s->width_now > 0 && s->width_now < s->width_max) {
        snprintf(has, sizeof has, "x%.0f", s->width_now);
        snprintf(can, sizeof can, "x%.0f", s->width_max);
        diag_find_where(d, DIAG_pcie_narrow, &s->width_at, "address",
                        s->address[0] ? s->address : "GPU", "device", "GPU", "width", has,
                        "cap_width", can, "has", has, "can", can, NULL);
    }
    if (s->gen_now > 0 && s->gen_now < s->gen_max) {
        snprintf(has, sizeof has, "Gen%.0f", s->gen_now);
        snprintf(can, sizeof can, "Gen%.0f", s->gen_max);
        diag_find_where(d, DIAG_pcie_gpu_slow, &s->gen_at, "address",
                        s->address[0] ? s->address : "GPU", "device", "GPU", "has", has, "can", can,
                        "speed", has, "cap_speed", can, NULL);
    }
    s->gen_now = s->gen_max = s->width_now = s->width_max = 0;
}

static void take_pcie(struct nvsmi *s, const struct diag_line *line, const char *key,
                      const char *value)
{
    bool generation = in_section(s, "PCIe Generation");
    if (!generation && !in_section(s, "Link Width"))
        return;
    double number = diag_number(value, 0);
    if (strncasecmp(key, "Max", 3) == 0 && key[3] == '\0')
        *(generation ? &s->gen_max : &s->width_max) = number;
    if (strcasecmp(key, "Current") != 0)
        return;
    *(generation ? &s->gen_now : &s->width_now) = number;
    struct diag_where *where = generation ? &s->gen_at : &s->width_at;
    diag_where_release(where);
    *where = diag_where_copy(line);
}

static void take_rows(struct nvsmi *s, struct diag *d, const struct diag_line *line,
                      const char *key, const char *value)
{
    const char *gpu = s->address[0] ? s->address : NULL;
    double number = diag_number(value, 0);
    if (strcasecmp(key, "Remapping Failure Occurred") == 0 && strncasecmp(value, "Yes", 3) == 0)
        diag_find(d, DIAG_remap_failed, line, "gpu", gpu, NULL);
    else if (strcasecmp(key, "Pending") == 0 && strncasecmp(value, "Yes", 3) == 0)
        diag_find(d, DIAG_remap_pending, line, "gpu", gpu, NULL);
    else if (strcasecmp(key, "Uncorrectable Error") == 0 && number > 0)
        diag_find(d, DIAG_remapped_rows, line, "gpu", gpu, "rows", value, NULL);
    else if (strcasecmp(key, "Uncorrectable Error") == 0)
        diag_find(d, DIAG_remapped_none, line, "gpu", gpu, NULL);
    else if (strcasecmp(key, "Correctable Error") == 0 && number > 0)
        diag_find(d, DIAG_remapped_correctable, line, "gpu", gpu, "rows", value, NULL);
}

static void take_reason(struct diag *d, const struct diag_line *line, const char *gpu,
                        const char *key, const char *value)
{
    if (strcasecmp(key, "HW Slowdown") == 0 && strncasecmp(value, "Not", 3) == 0)
        diag_find(d, DIAG_throttle_none, line, "gpu", gpu, NULL);
    if (strncasecmp(value, "Active", 6) != 0)
        return;
    if (strncasecmp(key, "HW ", 3) == 0)
        diag_find(d, DIAG_throttle_hw, line, "gpu", gpu, "reason", key, NULL);
    else if (strncasecmp(key, "SW Thermal", 10) == 0)
        diag_find(d, DIAG_throttle_hw, line, "gpu", gpu, "reason", key, NULL);
    else if (strncasecmp(key, "SW Power", 8) == 0)
        diag_find(d, DIAG_throttle_power, line, "gpu", gpu, "reason", key, NULL);
}

static void take_value(struct nvsmi *s, struct diag *d, const struct diag_line *line,
                       const char *key, const char *value)
{
    const char *gpu = s->address[0] ? s->address : NULL;
    take_pcie(s, line, key, value);
    if (in_section(s, "Remapped Rows"))
        take_rows(s, d, line, key, value);
    else if (in_section(s, "Clocks Throttle Reasons") || in_section(s, "Clocks Event Reasons"))
        take_reason(d, line, gpu, key, value);
    else if (in_section(s, "Fabric") && strcasecmp(key, "State") == 0)
        diag_find(d,
                  strncasecmp(value, "Completed", 9) == 0 ? DIAG_fabric_state_ok
                  : strncasecmp(value, "In Progress", 11) == 0 ||
                          strncasecmp(value, "Not Started", 11) == 0
                      ? DIAG_fabric_state_waiting
                      : DIAG_fabric_state_other,
                  line, "gpu", gpu, "state", value, NULL);
    else if (in_section(s, "Volatile") && strcasestr(key, "Uncorrectable") &&
             strcasestr(key, "DRAM") && diag_number(value, 0) > 0)
        diag_find(d, DIAG_ecc_volatile, line, "gpu", gpu, "errors", value, NULL);
    else if (strcasecmp(key, "Performance State") == 0)
        diag_find(d,
                  strcmp(value, "P0") == 0 || strcmp(value, "P1") == 0 ? DIAG_gpu_busy_state
                                                                       : DIAG_gpu_idle,
                  line, "pstate", value, NULL);
}

static void take_query(struct nvsmi *s, struct diag *d, const struct diag_line *line)
{
    struct match_result r;
    const char *b = line->body;
    if (strncmp(b, "GPU ", 4) == 0 && match_text("^GPU {address}$", b, &r)) {
        end_query(s, d);
        match_get(&r, "address", s->address, sizeof s->address);
        for (size_t i = 0; i < SECTIONS; i++)
            s->section[i][0] = '\0';
        return;
    }
    if (b[0] != ' ')
        return;
    const char *colon = strstr(b, " : ");
    if (!colon) {
        if (!strchr(b, ':'))
            take_section(s, b);
        return;
    }
    char key[64];
    const char *start = b + strspn(b, " ");
    snprintf(key, sizeof key, "%.*s", (int)(colon - start), start);
    for (size_t len = strlen(key); len > 0 && key[len - 1] == ' ';)
        key[--len] = '\0';
    take_value(s, d, line, key, colon + 3);
}

static void feed(void *state, struct diag *d, const struct diag_line *line)
{
    struct nvsmi *s = state;
    if (line->command) {
        s->inside = false;
        return;
    }
    if (take_gpu(s, line))
        return;
    if (s->inside && s->count && strstr(line->body, "Link "))
        take_link(s, line);
    else
        take_query(s, d, line);
}

/* Links per GPU by name where every link is used; 0 when that depends on the board. */
static unsigned links_of(const char *name)
{
    static const struct {
        const char *part;
        unsigned links;
    } models[] = {
        {"P100-SXM", 4}, {"V100-SXM", 6}, {"A100-SXM", 12}, {"H100 80GB HBM3", 18},
        {"H200", 18},    {"B200", 18},    {"B300", 18},
    };
    if (strstr(name, "NVL") || strstr(name, "GH200"))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(models); i++)
        if (strstr(name, models[i].part))
            return models[i].links;
    return 0;
}

static bool peers_have_more(const struct nvsmi *s, const struct gpu *g)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->gpus[i].name, g->name) == 0 && s->gpus[i].active > g->active)
            return true;
    return false;
}

static void judge_gpu(const struct nvsmi *s, const struct gpu *g, struct diag *d)
{
    if (g->active + g->inactive == 0)
        return;
    char active[16], all[16], bad[16];
    unsigned should = links_of(g->name);
    if (g->active + g->inactive > should && should > 0)
        should = g->active + g->inactive;
    bool fault = peers_have_more(s, g) || (should > 0 && g->active < should);
    if (should == 0)
        should = g->active + g->inactive;
    snprintf(active, sizeof active, "%u", g->active);
    snprintf(all, sizeof all, "%u", should);
    snprintf(bad, sizeof bad, "%u", should - g->active);
    enum diag_id id = fault              ? DIAG_nvlink_inactive
                      : g->inactive == 0 ? DIAG_nvlink_ok
                                         : DIAG_nvlink_unused;
    diag_find_where(d, id, fault && g->first_bad.file ? &g->first_bad : &g->at, "gpu", g->index,
                    "device", g->name, "links", g->links, "active", active, "all", all, "bad", bad,
                    NULL);
}

static void finish(void *state, struct diag *d)
{
    struct nvsmi *s = state;
    end_query(s, d);
    size_t dark = 0;
    for (size_t i = 0; i < s->count; i++) {
        judge_gpu(s, &s->gpus[i], d);
        dark += s->gpus[i].active == 0 && s->gpus[i].inactive > 0;
    }
    if (s->count > 1 && dark == s->count && links_of(s->gpus[0].name) > 0)
        diag_find_where(d, DIAG_nvlink_all_inactive, &s->gpus[0].first_bad, NULL);
}

const struct diag_parser diag_nvsmi_parser = {create, feed, finish, release};
