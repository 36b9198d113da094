/* Tables of `nvidia-smi --query-gpu=... --format=csv`: columns by their headings. */
#include "validate/diagnose/diag.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum { COLUMNS = 32, CELL_BYTES = 64 };

struct query {
    char headings[COLUMNS][CELL_BYTES];
    size_t columns;
};

static void *create(void)
{
    return mem_zero(1, sizeof(struct query));
}

static size_t split(const char *text, char cells[COLUMNS][CELL_BYTES])
{
    size_t count = 0;
    for (const char *p = text; count < COLUMNS;) {
        p += strspn(p, " \t");
        size_t len = strcspn(p, ",");
        snprintf(cells[count], CELL_BYTES, "%.*s", (int)len, p);
        for (size_t n = strlen(cells[count]); n > 0 && cells[count][n - 1] == ' ';)
            cells[count][--n] = '\0';
        count++;
        if (p[len] != ',')
            break;
        p += len + 1;
    }
    return count;
}

/* A list of fields ("index,pstate,..."): from a heading line or from the command's own argument. */
static void take_headings(struct query *q, const char *text)
{
    q->columns = split(text, q->headings);
    for (size_t i = 0; i < q->columns; i++)
        q->headings[i][strcspn(q->headings[i], " [")] = '\0';
}

static bool is_heading(const char *text)
{
    return strchr(text, ',') && (strstr(text, "pcie.link") || strstr(text, "utilization.") ||
                                 strstr(text, "pstate") || strstr(text, "ecc.errors") ||
                                 strstr(text, "remapped_rows") || strstr(text, "clocks_throttle") ||
                                 strstr(text, "clocks_event") || strstr(text, "temperature.gpu"));
}

static const char *cell(const struct query *q, char cells[COLUMNS][CELL_BYTES], const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < q->columns; i++) {
        size_t have = strlen(q->headings[i]);
        if (have >= len && strcmp(q->headings[i] + have - len, name) == 0)
            return cells[i];
    }
    return NULL;
}

static void judge_link(const struct query *q, char cells[COLUMNS][CELL_BYTES], const char *gpu,
                       struct diag *d, const struct diag_line *line)
{
    char has[24], can[24];
    double width = diag_number(cell(q, cells, "pcie.link.width.current"), 0);
    double width_max = diag_number(cell(q, cells, "pcie.link.width.max"), 0);
    double gen = diag_number(cell(q, cells, "pcie.link.gen.current"), 0);
    double gen_max = diag_number(cell(q, cells, "pcie.link.gen.max"), 0);
    if (width > 0 && width < width_max) {
        snprintf(has, sizeof has, "x%.0f", width);
        snprintf(can, sizeof can, "x%.0f", width_max);
        diag_find(d, DIAG_pcie_narrow, line, "address", gpu, "device", "GPU", "width", has,
                  "cap_width", can, "has", has, "can", can, NULL);
    } else if (width > 0) {
        diag_find(d, DIAG_query_read, line, "gpu", gpu, NULL);
    }
    if (gen <= 0 || gen >= gen_max)
        return;
    snprintf(has, sizeof has, "Gen%.0f", gen);
    snprintf(can, sizeof can, "Gen%.0f", gen_max);
    diag_find(d, DIAG_pcie_gpu_slow, line, "address", gpu, "device", "GPU", "has", has, "can", can,
              "speed", has, "cap_speed", can, NULL);
}

static void judge_state(const struct query *q, char cells[COLUMNS][CELL_BYTES], struct diag *d,
                        const struct diag_line *line)
{
    const char *pstate = cell(q, cells, "pstate"), *used = cell(q, cells, "utilization.gpu");
    double level = pstate ? diag_number(pstate, 99) : 99, percent = diag_number(used, -1);
    if (percent > 20)
        diag_find(d, DIAG_gpu_busy, line, "percent", used, NULL);
    else if (level >= 2 || (percent >= 0 && percent <= 5))
        diag_find(d, DIAG_gpu_idle, line, "pstate", pstate, "percent", used, NULL);
    else if (pstate && level < 2)
        diag_find(d, DIAG_gpu_busy_state, line, "pstate", pstate, NULL);
}

static void judge_memory(const struct query *q, char cells[COLUMNS][CELL_BYTES], const char *gpu,
                         struct diag *d, const struct diag_line *line)
{
    const char *pending = cell(q, cells, "remapped_rows.pending");
    const char *failed = cell(q, cells, "remapped_rows.failure");
    const char *rows = cell(q, cells, "remapped_rows.uncorrectable");
    const char *ecc = cell(q, cells, "uncorrected.volatile.total");
    if (pending && (strncmp(pending, "Yes", 3) == 0 || strcmp(pending, "1") == 0))
        diag_find(d, DIAG_remap_pending, line, "gpu", gpu, NULL);
    if (failed && (strncmp(failed, "Yes", 3) == 0 || strcmp(failed, "1") == 0))
        diag_find(d, DIAG_remap_failed, line, "gpu", gpu, NULL);
    if (rows && diag_number(rows, 0) > 0)
        diag_find(d, DIAG_remapped_rows, line, "gpu", gpu, "rows", rows, NULL);
    if (ecc && diag_number(ecc, 0) > 0)
        diag_find(d, DIAG_ecc_volatile, line, "gpu", gpu, "errors", ecc, NULL);
}

static void feed(void *state, struct diag *d, const struct diag_line *line)
{
    struct query *q = state;
    if (line->command) {
        const char *fields = strstr(line->body, "--query-gpu=");
        q->columns = 0;
        if (fields) {
            char list[1024];
            snprintf(list, sizeof list, "%.*s", (int)strcspn(fields + 12, " '\""), fields + 12);
            take_headings(q, list);
        }
        return;
    }
    if (is_heading(line->body)) {
        take_headings(q, line->body);
        return;
    }
    if (q->columns == 0 || !strchr(line->body, ','))
        return;
    char cells[COLUMNS][CELL_BYTES];
    if (split(line->body, cells) != q->columns) {
        q->columns = 0;
        return;
    }
    const char *address = cell(q, cells, "bus_id"), *index = cell(q, cells, "index");
    char gpu[CELL_BYTES + 8];
    if (!address && index)
        snprintf(gpu, sizeof gpu, "GPU %s", index);
    else
        snprintf(gpu, sizeof gpu, "%s", address ? address : "GPU");
    judge_link(q, cells, gpu, d, line);
    judge_state(q, cells, d, line);
    judge_memory(q, cells, gpu, d, line);
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

const struct diag_parser diag_nvsmi_query_parser = {create, feed, finish, release};
