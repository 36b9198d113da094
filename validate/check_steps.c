#include "validate/check.h"

#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/causes.h"

static bool is_node(const struct check_env *env, const char *name)
{
    return check_site_node(env, name) != NULL;
}

static int judge_step(struct check_env *env, const json_t *step, struct err *err)
{
    const char *node = NULL, *name = NULL, *code = NULL, *text = NULL;
    if (jsonx_get_str(step, "step outcome", "node", &node, err) != 0 ||
        jsonx_get_str(step, "step outcome", "step", &name, err) != 0 ||
        jsonx_get_str(step, "step outcome", "cause", &code, err) != 0 ||
        jsonx_get_str(step, "step outcome", "text", &text, err) != 0)
        return -1;
    if (!is_node(env, node))
        return err_set(err, ERR_DATA, "step outcome: node '%.80s' is not in the site", node);
    /* A cause that has no row is a fault of the controller; the outcome still counts. */
    const struct cause *cause = causes_find(code);
    bool fatal = !cause || cause->severity == CAUSE_FATAL;
    /* A stage that nobody requires cannot make the node unready by failing. */
    json_auto_t *stages = ledger_stages();
    bool required = !json_object_get(stages, name) || check_is_required(env, name);
    AUTO(free_str) char *check = str_printf("step %s", name);
    struct ledger_row *row = ledger_row(env->ledger, node, node, "run", check, required);
    ledger_set(row, fatal ? VERDICT_FAIL : VERDICT_WARN, cause ? cause->code : "internal",
               "%s: %s%s%s", name, text, cause ? "" : "; cause without a row: ", cause ? "" : code);
    return 0;
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    const json_t *steps = env->input->steps;
    for (size_t i = 0; i < json_array_size(steps); i++)
        if (judge_step(env, json_array_get(steps, i), err) != 0)
            return -1;
    return 0;
}

const struct check check_steps = {
    .name = "steps",
    .summary = "no step of the run failed on the node",
    .stage = "run",
    .judge = judge,
};
