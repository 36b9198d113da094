/* Matrices of `nvidia-smi topo -m` and `topo -p2p r|w|n`. */
#include "validate/diagnose/diag.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum { NODES_MAX = 64, CELL_BYTES = 24 };

struct topo {
    char columns[NODES_MAX][CELL_BYTES];
    size_t count;
    unsigned most_links; /* NV# of the best pair */
    size_t linked, weaker, gpus;
    char weak_a[CELL_BYTES], weak_b[CELL_BYTES], weak[CELL_BYTES];
    struct diag_where weak_at, seen_at;
};

static void *create(void)
{
    return mem_zero(1, sizeof(struct topo));
}

static void release(void *state)
{
    struct topo *s = state;
    diag_where_release(&s->weak_at);
    diag_where_release(&s->seen_at);
    free(s);
}

static size_t words(const char *text, char out[NODES_MAX][CELL_BYTES])
{
    size_t count = 0;
    for (const char *p = text + strspn(text, " \t"); *p && count < NODES_MAX;) {
        size_t len = strcspn(p, " \t");
        snprintf(out[count++], CELL_BYTES, "%.*s", (int)len, p);
        p += len;
        p += strspn(p, " \t");
    }
    return count;
}

static bool is_gpu(const char *name)
{
    return strncmp(name, "GPU", 3) == 0 && isdigit((unsigned char)name[3]);
}

static bool take_header(struct topo *s, const char *body)
{
    const char *p = body + strspn(body, " \t");
    if (strncmp(p, "GPU0", 4) != 0 || !strstr(p, "GPU1") || p == body)
        return false;
    s->count = words(p, s->columns);
    return true;
}

static void take_pair(struct topo *s, struct diag *d, const struct diag_line *line, const char *row,
                      const char *column, const char *value)
{
    static const char *const refused[] = {"CNS", "GNS", "TNS", "NS", "DR", NULL};
    for (size_t i = 0; refused[i]; i++)
        if (strcmp(value, refused[i]) == 0 && is_gpu(column))
            diag_find(d, DIAG_p2p_matrix_refuses, line, "a", row, "b", column, "why", value, NULL);
    if (strcmp(value, "OK") == 0 && is_gpu(column))
        diag_find(d, DIAG_p2p_matrix_ok, line, NULL);
    if (!is_gpu(column) || strcmp(value, "X") == 0)
        return;
    if (strncmp(value, "NV", 2) == 0 && isdigit((unsigned char)value[2])) {
        unsigned links = (unsigned)diag_number(value, 0);
        s->linked++;
        if (links > s->most_links)
            s->most_links = links;
        return;
    }
    s->weaker++;
    if (!s->weak_at.file) {
        snprintf(s->weak_a, sizeof s->weak_a, "%s", row);
        snprintf(s->weak_b, sizeof s->weak_b, "%s", column);
        snprintf(s->weak, sizeof s->weak, "%s", value);
        s->weak_at = diag_where_copy(line);
    }
}

static void feed(void *state, struct diag *d, const struct diag_line *line)
{
    struct topo *s = state;
    if (line->command) {
        s->count = 0;
        return;
    }
    if (take_header(s, line->body))
        return;
    const char *p = line->body + strspn(line->body, " \t");
    if (s->count == 0 || !is_gpu(p))
        return;
    char cells[NODES_MAX][CELL_BYTES];
    size_t count = words(p, cells);
    if (count < 2 || strchr(cells[0], ':'))
        return;
    s->gpus++;
    if (!s->seen_at.file)
        s->seen_at = diag_where_copy(line);
    for (size_t i = 1; i < count && i <= s->count; i++)
        take_pair(s, d, line, cells[0], s->columns[i - 1], cells[i]);
}

static void finish(void *state, struct diag *d)
{
    struct topo *s = state;
    char links[16];
    snprintf(links, sizeof links, "NV%u", s->most_links);
    /* Where most pairs have NVLink through switches, a pair without it has lost it. */
    if (s->most_links >= 6 && s->weaker > 0 && s->linked > s->weaker)
        diag_find_where(d, DIAG_topo_pair_lost, &s->weak_at, "a", s->weak_a, "b", s->weak_b, "has",
                        s->weak, "links", links, NULL);
    else if (s->gpus > 0)
        diag_find_where(d, DIAG_topo_read, &s->seen_at, "links", s->most_links ? links : NULL,
                        NULL);
}

const struct diag_parser diag_topo_parser = {create, feed, finish, release};
