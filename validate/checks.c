#include "validate/check.h"

#include <string.h>

#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"
#include "validate/causes.h"

// NOLINTNEXTLINE(bugprone-macro-parentheses): the row's name is a declarator
#define CHECK(row) extern const struct check row;
#include "validate/checks.def"
#undef CHECK

static const struct check *const rows[] = {
#define CHECK(row) &(row),
#include "validate/checks.def"
#undef CHECK
    NULL,
};

const struct check *checks_at(size_t index)
{
    size_t at = 0;
    while (at < index && rows[at])
        at++;
    return rows[at];
}

int checks_run(struct check_env *env, struct err *err)
{
    for (size_t i = 0; rows[i]; i++)
        if (rows[i]->judge(rows[i], env, err) != 0)
            return err_wrap(err, "check %s: ", rows[i]->name);
    return 0;
}

bool check_is_required(const struct check_env *env, const char *stage)
{
    for (size_t i = 0; i < json_array_size(env->required); i++)
        if (strcmp(json_string_value(json_array_get(env->required, i)), stage) == 0)
            return true;
    return false;
}

const json_t *check_facts(const struct check_env *env, const char *node)
{
    const json_t *facts = json_object_get(env->input->facts, node);
    return json_is_object(facts) ? facts : NULL;
}

const json_t *check_site_node(const struct check_env *env, const char *node)
{
    return json_object_get(json_object_get(env->input->site, "nodes"), node);
}

const char *check_interface(const struct check_env *env, const char *node)
{
    const json_t *fabric = json_object_get(env->input->site, "fabric");
    const char *named = jsonx_str_or(fabric, "interface", NULL);
    return named ? named : jsonx_str_or(env->interfaces, node, NULL);
}

const json_t *check_net(const struct check_env *env, const char *node, const char *interface)
{
    const json_t *nets = json_object_get(check_facts(env, node), "net");
    for (size_t i = 0; interface && i < json_array_size(nets); i++) {
        const json_t *net = json_array_get(nets, i);
        if (strcmp(jsonx_str_or(net, "name", ""), interface) == 0)
            return net;
    }
    return NULL;
}

double check_link_bps(const struct check_env *env, const char *node, char **source)
{
    const char *interface = check_interface(env, node);
    const json_t *net = check_net(env, node, interface);
    double bps = (double)jsonx_int_or(net, "speed_bps", 0);
    if (!net || jsonx_bool_or(net, "virtual", true) || bps <= 0)
        return 0;
    AUTO(free_str) char *rate = units_format_rate(bps);
    *source = str_printf("%s/net:%s, %s", node, interface, rate);
    return bps;
}

const struct evidence_set_record *check_record(const struct check_env *env, const char *node,
                                               const char *stage, const char *subject,
                                               const char *quantity, bool *unsealed)
{
    const struct evidence_set *set = env->input->evidence;
    const struct evidence_set_record *r = evidence_set_find(set, node, stage, subject, quantity);
    size_t cursor = 0;
    if (!r && evidence_set_next(set, node, stage, subject, quantity, &cursor))
        *unsealed = true;
    return r;
}

bool check_use(const struct evidence_set_record *record, struct ledger_row *row)
{
    ledger_evidence(row, record->node, record->seq);
    if (record->outcome == EVIDENCE_MEASURED)
        return true;
    const struct cause *cause = causes_find(record->cause);
    const char *reason = record->reason ? record->reason : "no reason was given";
    if (record->outcome == EVIDENCE_FAILED)
        ledger_set(row, VERDICT_FAIL, cause ? cause->code : "stage-failed", "%s", reason);
    else
        ledger_set(row, VERDICT_NOT_MEASURED, cause ? cause->code : "not-run", "%s", reason);
    return false;
}

void check_absent(const struct check_env *env, struct ledger_row *row, bool unsealed)
{
    if (unsealed)
        ledger_set(row, VERDICT_NOT_MEASURED, "evidence-unsealed",
                   "stage %s was broken off; what it had measured is not counted", row->stage);
    else
        ledger_set(row, VERDICT_NOT_MEASURED, "not-run", "%s has no record of this run",
                   row->node[0] ? row->node : row->subject);
}
