#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"
#include "validate/check.h"

/* What the ends say about one path: that it failed, by either of them, else what its maker
 * measured. */
static const struct evidence_set_record *find_record(const struct check *check,
                                                     const struct check_env *env,
                                                     const char *subject, const char *maker,
                                                     const char *other, bool *unsealed)
{
    const struct evidence_set_record *r =
        check_record(env, maker, check->stage, subject, check->needs[0], unsealed);
    const struct evidence_set_record *word =
        check_record(env, other, check->stage, subject, check->needs[0], unsealed);
    if (word && word->outcome == EVIDENCE_FAILED && !(r && r->outcome == EVIDENCE_FAILED))
        return word;
    if (r)
        return r;
    return word && word->outcome != EVIDENCE_MEASURED ? word : NULL;
}

static void run_path(const struct check *check, struct check_env *env, struct check_path *path,
                     bool at_receiver, check_path_fn *use, void *ctx)
{
    const char *maker = at_receiver ? path->to : path->from;
    const char *other = at_receiver ? path->from : path->to;
    bool unsealed = false;
    path->record = find_record(check, env, path->row->subject, maker, other, &unsealed);
    if (!path->record && !at_receiver) {
        /* A round trip is measured from one end and holds for both directions. */
        AUTO(free_str) char *back = str_printf("%s>%s", path->to, path->from);
        path->record = find_record(check, env, back, path->to, path->from, &unsealed);
    }
    if (!path->record)
        check_absent(env, path->row, unsealed);
    else if (check_use(path->record, path->row))
        use(env, path, ctx);
}

/* A stage that nobody asks for and that did not run leaves no rows. */
static bool has_stage(const struct check_env *env, const char *stage)
{
    const struct evidence_set *set = env->input->evidence;
    for (size_t i = 0; i < evidence_set_count(set); i++)
        if (strcmp(evidence_set_at(set, i)->stage, stage) == 0)
            return true;
    return false;
}

void check_paths(const struct check *check, struct check_env *env, bool required, bool at_receiver,
                 check_path_fn *use, void *ctx)
{
    if (!check_is_required(env, check->stage) && !has_stage(env, check->stage))
        return;
    for (size_t a = 0; a < env->count; a++) {
        for (size_t b = 0; b < env->count; b++) {
            if (a == b)
                continue;
            struct check_path path = {.from = env->names[a], .to = env->names[b]};
            AUTO(free_str) char *subject = str_printf("%s>%s", path.from, path.to);
            path.row = ledger_row(env->ledger, subject, "", check->stage, check->name, required);
            run_path(check, env, &path, at_receiver, use, ctx);
        }
    }
}

/* --- judged by limits ------------------------------------------------------------------------- */

struct figure {
    struct ledger_row *row;
    double value, link_bps;
    char *link_source; /* owned */
};

struct node_link {
    const char *node;
    double bps;
    char *source; /* owned */
};

struct collection {
    double (*value)(const struct evidence_set_record *);
    struct node_link *links; /* one per node of the environment */
    struct figure *figures;
    size_t count;
};

static int compare_name(const void *key, const void *name)
{
    return strcmp(key, *(const char *const *)name);
}

static const struct node_link *link_of(const struct check_env *env, const struct collection *c,
                                       const char *node)
{
    const char **at = bsearch(node, env->names, env->count, sizeof *env->names, compare_name);
    return &c->links[at - env->names];
}

/* A path is as fast as its slower end; with one end unknown nothing is known. */
static void collect(struct check_env *env, const struct check_path *path, void *ctx)
{
    struct collection *c = ctx;
    const struct node_link *from = link_of(env, c, path->from), *to = link_of(env, c, path->to);
    const struct node_link *slower = from->bps < to->bps ? from : to;
    struct figure *f = &c->figures[c->count++];
    f->row = path->row;
    f->value = c->value(path->record);
    f->link_bps = slower->bps;
    f->link_source = slower->bps > 0 ? slower->source : NULL;
}

static struct limits_peers cohort(const struct collection *c, double link_bps, double buffer[])
{
    size_t used = 0;
    for (size_t i = 0; i < c->count; i++)
        if (c->figures[i].link_bps == link_bps)
            buffer[used++] = c->figures[i].value;
    return limits_peers_of(buffer, used);
}

static void judge_all(const struct collection *c, struct limits_figure figure)
{
    double *buffer = mem_zero(c->count + 1, sizeof *buffer);
    double last_bps = -1;
    for (size_t i = 0; i < c->count; i++) {
        const struct figure *f = &c->figures[i];
        if (f->link_bps != last_bps) {
            figure.peers = cohort(c, f->link_bps, buffer);
            last_bps = f->link_bps;
        }
        figure.value = f->value;
        figure.link_bps = f->link_bps;
        figure.link_source = f->link_source;
        limits_judge(&figure, f->row);
    }
    free(buffer);
}

int check_paths_by_limits(const struct check *check, struct check_env *env, bool required,
                          bool at_receiver, double (*value)(const struct evidence_set_record *),
                          struct err *err)
{
    struct limits_figure figure = {.quantity = limits_find(check->needs[0])};
    if (limits_site_floor(env->input->site, &figure, err) != 0)
        return -1;
    struct collection c = {.value = value,
                           .links = mem_zero(env->count + 1, sizeof *c.links),
                           .figures = mem_zero(env->count * env->count + 1, sizeof *c.figures)};
    for (size_t i = 0; i < env->count; i++)
        c.links[i].bps = check_link_bps(env, env->names[i], &c.links[i].source);
    check_paths(check, env, required, at_receiver, collect, &c);
    judge_all(&c, figure);
    for (size_t i = 0; i < env->count; i++)
        free(c.links[i].source);
    free(c.links);
    free(c.figures);
    return 0;
}
