/* Fat trees from a description. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/units.h"
#include "common/util.h"
#include "fabric/subnet/cable_plan.h"

struct tree {
    struct hostlist hosts, hcas, leaves, aggregation, spines;
    int64_t trunk, pods;
    unsigned lanes;
    enum rate_speed speed;
};

static const struct {
    const char *key;
    size_t offset;
    bool required;
} lists[] = {
    {"hosts", offsetof(struct tree, hosts), true},
    {"hcas", offsetof(struct tree, hcas), false},
    {"leaves", offsetof(struct tree, leaves), true},
    {"aggregation", offsetof(struct tree, aggregation), false},
    {"spines", offsetof(struct tree, spines), true},
};

static struct hostlist *list_at(struct tree *t, size_t row)
{
    return (struct hostlist *)((char *)t + lists[row].offset);
}

static void tree_release(struct tree *t)
{
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        hostlist_release(list_at(t, i));
}

static int unknown_key(const char *key, struct err *err)
{
    static const char *const keys[] = {"hosts", "hcas", "leaves", "aggregation", "spines",
                                       "trunk", "pods", "rate",   NULL};
    const char *near = str_nearest(key, keys);
    return err_set(err, ERR_USAGE,
                   "fat tree: unknown key '%.40s'%s%s%s; there are hosts, hcas, leaves, "
                   "aggregation, spines, trunk, pods and rate",
                   key, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int set_key(struct tree *t, const char *key, const char *value, struct err *err)
{
    struct err why = {0};
    int status = 1;
    for (size_t i = 0; i < ARRAY_LEN(lists) && status == 1; i++)
        if (strcmp(lists[i].key, key) == 0)
            status = list_at(t, i)->count ? err_set(&why, ERR_USAGE, "is given twice")
                                          : hostlist_parse(value, list_at(t, i), &why);
    if (status == 1 && strcmp(key, "trunk") == 0)
        status = units_parse_int(value, 1, CABLE_PORT_MAX, &t->trunk, &why);
    if (status == 1 && strcmp(key, "pods") == 0)
        status = units_parse_int(value, 1, 4096, &t->pods, &why);
    if (status == 1 && strcmp(key, "rate") == 0)
        status = rate_parse(value, &t->lanes, &t->speed)
                     ? 0
                     : err_set(&why, ERR_USAGE, "'%.20s' is not a rate such as 4xHDR", value);
    if (status == 1)
        return unknown_key(key, err);
    return status == 0 ? 0 : err_set(err, ERR_USAGE, "fat tree: %s: %s", key, why.text);
}

static int tree_parse(const char *description, struct tree *t, struct err *err)
{
    AUTO(free_str) char *copy = str_dup(description);
    char *rest = NULL;
    for (char *word = strtok_r(copy, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        char *equals = strchr(word, '=');
        if (!equals || equals == word || !equals[1])
            return err_set(err, ERR_USAGE, "fat tree: '%.40s' is not KEY=VALUE", word);
        *equals = '\0';
        if (set_key(t, word, equals + 1, err) != 0)
            return -1;
    }
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const char *twice = hostlist_duplicate(list_at(t, i));
        if (twice)
            return err_set(err, ERR_USAGE, "fat tree: %s: '%s' stands twice", lists[i].key, twice);
        if (lists[i].required && list_at(t, i)->count == 0)
            return err_set(err, ERR_USAGE, "fat tree: %s=HOSTLIST is missing", lists[i].key);
    }
    return 0;
}

/* The numbers that must divide each other. */
static int tree_check(const struct tree *t, size_t *rails, struct err *err)
{
    size_t pods = t->aggregation.count ? (size_t)t->pods : 1;
    *rails = t->hcas.count ? t->hcas.count : 1;
    if (t->aggregation.count && t->pods == 0)
        return err_set(err, ERR_USAGE, "fat tree: with aggregation, pods=N says how many pods");
    size_t trunk = (size_t)t->trunk, above = t->aggregation.count ? t->aggregation.count : 1;
    if (t->hosts.count * *rails > CABLE_PLAN_MAX || t->leaves.count * above > CABLE_PLAN_MAX ||
        (t->aggregation.count ? above : t->leaves.count) * t->spines.count > CABLE_PLAN_MAX / trunk)
        return err_set(err, ERR_USAGE, "fat tree: more than %d cables", CABLE_PLAN_MAX);
    if (t->leaves.count < *rails * pods || t->leaves.count % (*rails * pods) != 0)
        return err_set(err, ERR_USAGE,
                       "fat tree: %zu leaves are no multiple of %zu rails x %zu pods",
                       t->leaves.count, *rails, pods);
    if (t->hosts.count % (t->leaves.count / *rails) != 0)
        return err_set(err, ERR_USAGE,
                       "fat tree: %zu hosts do not fill %zu groups of leaves evenly",
                       t->hosts.count, t->leaves.count / *rails);
    if (t->aggregation.count % pods != 0)
        return err_set(err, ERR_USAGE,
                       "fat tree: %zu aggregation switches are no multiple of %zu pods",
                       t->aggregation.count, pods);
    size_t per_pod = t->aggregation.count / pods;
    if (per_pod && t->spines.count % per_pod != 0)
        return err_set(err, ERR_USAGE,
                       "fat tree: %zu spines are no multiple of %zu aggregation switches in a pod",
                       t->spines.count, per_pod);
    return 0;
}

static void add(struct cable_plan *plan, const struct tree *t, const char *a, size_t a_port,
                const char *b, size_t b_port)
{
    struct cable *c = cable_plan_add(plan, a, (unsigned)a_port, b, (unsigned)b_port);
    c->lanes = t->lanes;
    c->speed = t->speed;
}

static size_t plug_hosts(struct cable_plan *plan, const struct tree *t, size_t rails)
{
    size_t groups = t->leaves.count / rails;
    assert(groups > 0); /* tree_check() */
    size_t per_leaf = t->hosts.count / groups;
    assert(per_leaf > 0);
    for (size_t h = 0; h < t->hosts.count; h++)
        for (size_t r = 0; r < rails; r++) {
            size_t leaf = h / per_leaf * rails + r;
            AUTO(free_str)
            char *name = t->hcas.count ? str_printf("%s %s", t->hosts.names[h], t->hcas.names[r])
                                       : str_dup(t->hosts.names[h]);
            add(plan, t, name, 1, t->leaves.names[leaf], h % per_leaf + 1);
        }
    return per_leaf;
}

/* Every one of `low` to every one of `high`, trunk cables each; ports below begin after `used`. */
static void plug_all(struct cable_plan *plan, const struct tree *t, char *const low[], size_t lows,
                     size_t used, char *const high[], size_t highs)
{
    size_t trunk = (size_t)t->trunk;
    for (size_t l = 0; l < lows; l++)
        for (size_t h = 0; h < highs; h++)
            for (size_t k = 0; k < trunk; k++)
                add(plan, t, low[l], used + h * trunk + k + 1, high[h], l * trunk + k + 1);
}

static void plug_three_levels(struct cable_plan *plan, const struct tree *t, size_t used)
{
    size_t pods = (size_t)t->pods, trunk = (size_t)t->trunk;
    assert(pods > 0);
    size_t leaves = t->leaves.count / pods, aggs = t->aggregation.count / pods;
    assert(aggs > 0);
    size_t ups = t->spines.count / aggs;
    for (size_t p = 0; p < pods; p++) {
        char *const *agg = t->aggregation.names + p * aggs;
        plug_all(plan, t, t->leaves.names + p * leaves, leaves, used, agg, aggs);
        for (size_t a = 0; a < aggs; a++)
            for (size_t u = 0; u < ups; u++)
                for (size_t k = 0; k < trunk; k++)
                    add(plan, t, agg[a], leaves * trunk + u * trunk + k + 1,
                        t->spines.names[a * ups + u], p * trunk + k + 1);
    }
}

int cable_plan_generate(const char *description, struct cable_plan *plan, struct err *err)
{
    struct tree t = {.trunk = 1};
    struct cable_plan p = {.source = str_dup("fat tree")};
    size_t rails = 1;
    int status = tree_parse(description, &t, err);
    if (status == 0)
        status = tree_check(&t, &rails, err);
    if (status == 0) {
        size_t used = plug_hosts(&p, &t, rails);
        if (t.aggregation.count)
            plug_three_levels(&p, &t, used);
        else
            plug_all(&p, &t, t.leaves.names, t.leaves.count, used, t.spines.names, t.spines.count);
        for (size_t i = 0; i < p.count && status == 0; i++)
            if (p.cables[i].a.port > CABLE_PORT_MAX || p.cables[i].b.port > CABLE_PORT_MAX)
                status = err_set(err, ERR_USAGE, "fat tree: %s would need more than %d ports",
                                 p.cables[i].b.node, CABLE_PORT_MAX);
    }
    tree_release(&t);
    if (status != 0 || cable_plan_check(&p, err) != 0) {
        cable_plan_release(&p);
        return -1;
    }
    *plan = p;
    return 0;
}
