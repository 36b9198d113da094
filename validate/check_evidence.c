#include "validate/check.h"

#include <string.h>

#include "common/util.h"
#include "validate/causes.h"

/* Something that a verdict was built on may be missing or forged: the node cannot be called ready.
 */
static void judge_problem(struct check_env *env, const struct evidence_set_problem *p)
{
    /* A stage that was broken off is told by the rows of that stage. */
    if (strcmp(p->cause, "evidence-unsealed") == 0)
        return;
    struct ledger_row *row = ledger_row(env->ledger, p->node, p->node, "run", "evidence", true);
    bool fatal = causes_find(p->cause)->severity == CAUSE_FATAL;
    AUTO(free_str)
    char *more = p->count > 1 ? str_printf(" (and %u more like it)", p->count - 1) : str_dup("");
    ledger_set(row, fatal ? VERDICT_FAIL : VERDICT_NOT_MEASURED, p->cause, "%s%s", p->text, more);
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    const struct evidence_set *set = env->input->evidence;
    for (size_t i = 0; i < evidence_set_problem_count(set); i++)
        judge_problem(env, evidence_set_problem_at(set, i));
    for (size_t i = 0; i < env->count; i++) {
        const char *node = env->names[i];
        struct ledger_row *row = ledger_row(env->ledger, node, node, "run", check->name, true);
        const struct evidence_set_node *n = evidence_set_node(set, node);
        if (!n)
            ledger_set(row, VERDICT_NOT_MEASURED, "evidence-missing",
                       "this run has no evidence of %s", node);
        else
            ledger_set(row, VERDICT_PASS, NULL, "%zu records, all signed and in order",
                       n->record_count);
    }
    return 0;
}

const struct check check_evidence = {
    .name = "evidence",
    .summary = "every record is of this run, signed by its node and in order",
    .stage = "run",
    .judge = judge,
};
