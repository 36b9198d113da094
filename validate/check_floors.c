#include "validate/check.h"

#include "common/jsonx.h"
#include "common/util.h"

/* Figures of the inventory that the site may put a floor under. */
static const struct {
    const char *quantity;
    bool of_interface; /* subject is the interface for traffic between nodes */
} rows[] = {
    {"memlock", false},    {"shm_bytes", false}, {"gpu_count", false},
    {"rdma_count", false}, {"mtu", true},        {"link_speed", true},
};

static void judge_node(const struct check *check, struct check_env *env, const char *node,
                       struct limits_figure *figure, bool of_interface)
{
    const char *quantity = figure->quantity->name;
    const char *interface = of_interface ? check_interface(env, node) : NULL;
    AUTO(free_str)
    char *subject = interface ? str_printf("%s/net:%s", node, interface) : str_printf("%s", node);
    AUTO(free_str) char *name = str_printf("floor %s", quantity);
    struct ledger_row *row = ledger_row(env->ledger, subject, node, check->stage, name,
                                        check_is_required(env, check->stage));
    if (of_interface && !interface) {
        ledger_set(row, VERDICT_NOT_MEASURED, "interface-missing",
                   "a floor is stated for %s, but no interface for traffic between nodes is known",
                   quantity);
        return;
    }
    bool unsealed = false;
    const struct evidence_set_record *r =
        check_record(env, node, check->stage, subject, quantity, &unsealed);
    if (!r) {
        check_absent(env, row, unsealed);
        return;
    }
    if (!check_use(r, row))
        return;
    figure->value = r->value;
    limits_judge(figure, row);
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
        struct limits_figure figure = {.quantity = limits_find(rows[k].quantity)};
        if (limits_site_floor(env->input->site, &figure, err) != 0)
            return -1;
        for (size_t i = 0; i < env->count && figure.has_floor; i++)
            judge_node(check, env, env->names[i], &figure, rows[k].of_interface);
    }
    return 0;
}

const struct check check_floors = {
    .name = "floors",
    .summary = "what the site puts a floor under reaches it",
    .stage = "inventory",
    .judge = judge,
};
