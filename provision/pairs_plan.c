#include "provision/pairs_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "validate/schedule.h"

void pairs_plan_all(struct pairs_plan *plan, const size_t nodes[], size_t count)
{
    *plan = (struct pairs_plan){.member = mem_zero(count, sizeof(size_t)),
                                .members = count,
                                .rounds = schedule_rounds(count)};
    if (count)
        memcpy(plan->member, nodes, count * sizeof *nodes);
}

/* Place of the node, added when it is new. */
static size_t place_of(struct pairs_plan *plan, size_t node)
{
    size_t i = 0;
    while (i < plan->members && plan->member[i] != node)
        i++;
    if (i == plan->members)
        plan->member[plan->members++] = node;
    return i;
}

static void add_round(struct pairs_plan *plan)
{
    plan->table = mem_grow(plan->table, (plan->rounds + 1) * plan->members, sizeof *plan->table);
    for (size_t i = 0; i < plan->members; i++)
        plan->table[plan->rounds * plan->members + i] = -1;
    plan->rounds++;
}

/* Puts the pair into the first round in which both are free. */
static void place_pair(struct pairs_plan *plan, size_t a, size_t b)
{
    for (size_t round = 0;; round++) {
        if (round == plan->rounds)
            add_round(plan);
        long *row = plan->table + round * plan->members;
        if (row[a] == (long)b)
            return;
        if (row[a] < 0 && row[b] < 0) {
            row[a] = (long)b;
            row[b] = (long)a;
            return;
        }
    }
}

void pairs_plan_some(struct pairs_plan *plan, const struct pairs_pair pairs[], size_t count)
{
    *plan = (struct pairs_plan){.member = mem_zero(2 * count, sizeof(size_t))};
    size_t *places = mem_zero(2 * count, sizeof *places);
    for (size_t i = 0; i < count; i++) {
        places[2 * i] = place_of(plan, pairs[i].a);
        places[2 * i + 1] = place_of(plan, pairs[i].b);
    }
    for (size_t i = 0; i < count; i++)
        place_pair(plan, places[2 * i], places[2 * i + 1]);
    free(places);
}

long pairs_plan_partner(const struct pairs_plan *plan, size_t round, size_t i)
{
    return plan->table ? plan->table[round * plan->members + i]
                       : schedule_partner(plan->members, round, i);
}

void pairs_plan_release(struct pairs_plan *plan)
{
    free(plan->member);
    free(plan->table);
    *plan = (struct pairs_plan){0};
}
