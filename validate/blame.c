#include "validate/blame.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"

struct edge {
    size_t a, b;
};

struct problem {
    size_t n;
    const unsigned char *paths;
    struct edge *edges; /* pairs with a failed direction */
    size_t edge_count;
    bool *chosen;  /* the cover being built */
    bool *trimmed; /* work space of trim() */
    bool *common;  /* in every admissible cover so far */
    bool any;      /* a cover was found */
};

static enum blame_path at(const struct problem *p, size_t from, size_t to)
{
    return (enum blame_path)p->paths[from * p->n + to];
}

static void find_edges(struct problem *p)
{
    for (size_t a = 0; a < p->n; a++) {
        for (size_t b = a + 1; b < p->n; b++) {
            if (at(p, a, b) != BLAME_FAILED && at(p, b, a) != BLAME_FAILED)
                continue;
            p->edges = mem_grow(p->edges, p->edge_count + 1, sizeof *p->edges);
            p->edges[p->edge_count++] = (struct edge){a, b};
        }
    }
}

/* Against the nodes outside the set: does v fail at least as often as it passes, and at all? */
static bool is_admissible(const struct problem *p, const bool set[], size_t v)
{
    size_t failed = 0, passed = 0;
    for (size_t w = 0; w < p->n; w++) {
        if (w == v || set[w])
            continue;
        const enum blame_path both[] = {at(p, v, w), at(p, w, v)};
        for (int i = 0; i < 2; i++) {
            failed += both[i] == BLAME_FAILED;
            passed += both[i] == BLAME_PASSED;
        }
    }
    return failed > 0 && passed <= failed;
}

/* Take out who cannot be guilty; that makes them innocent for the others, so go on until it rests.
 */
static void trim(const struct problem *p, bool set[])
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t v = 0; v < p->n; v++) {
            if (set[v] && !is_admissible(p, set, v)) {
                set[v] = false;
                changed = true;
            }
        }
    }
}

static void found_cover(struct problem *p)
{
    memcpy(p->trimmed, p->chosen, p->n * sizeof *p->trimmed);
    trim(p, p->trimmed);
    for (size_t v = 0; v < p->n; v++)
        p->common[v] = (p->common[v] || !p->any) && p->trimmed[v];
    p->any = true;
}

/* Each uncovered edge needs one of its ends: two branches, at most `left` deep. */
static void search(struct problem *p, size_t edge, size_t left) // NOLINT(misc-no-recursion)
{
    while (edge < p->edge_count && (p->chosen[p->edges[edge].a] || p->chosen[p->edges[edge].b]))
        edge++;
    if (edge == p->edge_count) {
        found_cover(p);
        return;
    }
    if (left == 0)
        return;
    const size_t ends[] = {p->edges[edge].a, p->edges[edge].b};
    for (int i = 0; i < 2; i++) {
        p->chosen[ends[i]] = true;
        search(p, edge + 1, left - 1);
        p->chosen[ends[i]] = false;
    }
}

static size_t uncovered_degree(const struct problem *p, size_t v)
{
    size_t degree = 0;
    for (size_t i = 0; i < p->edge_count; i++) {
        const struct edge *e = &p->edges[i];
        bool covered = p->chosen[e->a] || p->chosen[e->b];
        degree += !covered && (e->a == v || e->b == v);
    }
    return degree;
}

static void greedy(struct problem *p)
{
    for (;;) {
        size_t best = 0, most = 0;
        for (size_t v = 0; v < p->n; v++) {
            size_t degree = p->chosen[v] ? 0 : uncovered_degree(p, v);
            if (degree > most) {
                most = degree;
                best = v;
            }
        }
        /* Single edges that are left accuse both ends alike. */
        if (most < 2)
            break;
        p->chosen[best] = true;
    }
    found_cover(p);
}

void blame_solve(size_t n, const unsigned char paths[], bool convicted[])
{
    struct problem p = {.n = n, .paths = paths};
    memset(convicted, 0, n * sizeof *convicted);
    find_edges(&p);
    if (p.edge_count == 0)
        return;
    p.chosen = mem_zero(n, sizeof *p.chosen);
    p.trimmed = mem_zero(n, sizeof *p.trimmed);
    p.common = convicted;
    for (size_t size = 1; size <= BLAME_EXACT && !p.any; size++)
        search(&p, 0, size);
    if (!p.any)
        greedy(&p);
    free(p.chosen);
    free(p.trimmed);
    free(p.edges);
}
