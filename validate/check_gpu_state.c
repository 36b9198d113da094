#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/check_gpu.h"

enum needs { NEEDS_ALWAYS, NEEDS_GUARDED, NEEDS_NOTE };
enum rule {
    RULE_PRESENT,
    RULE_ZERO,
    RULE_QUIET,
    RULE_ON,
    RULE_COVERED,
    RULE_THROTTLE,
    RULE_XID,
    RULE_LINK
};

struct rule_row {
    const char *stage, *quantity;
    enum needs needs;
    enum rule rule;
    const char *cause;
};

static const struct rule_row rules[] = {
#define GPU_RULE(stage_, quantity_, needs_, rule_, cause_)                                         \
    {(stage_), (quantity_), NEEDS_##needs_, RULE_##rule_, (cause_)},
#include "validate/gpu_rules.def"
#undef GPU_RULE
};

/* NVML's clock event reasons that are slowdowns: hardware, software thermal, hardware thermal,
 * power brake.  A power cap is how a GPU is meant to run under load. */
static const unsigned long long slowdown_bits = 0x8 | 0x20 | 0x40 | 0x80;

static double condition(const struct evidence_set_record *r, const char *key)
{
    return json_number_value(json_object_get(json_object_get(r->json, "conditions"), key));
}

static void judge_count(const struct rule_row *rule, const struct evidence_set_record *r,
                        struct ledger_row *row)
{
    ledger_limit(row, LEDGER_LIMIT_EXACT, 0, "none is healthy");
    if (r->value == 0)
        ledger_set(row, VERDICT_PASS, NULL, "0");
    else
        ledger_set(row, rule->rule == RULE_ZERO ? VERDICT_FAIL : VERDICT_WARN, rule->cause,
                   "%s is %.0f, must be 0", rule->quantity, r->value);
}

static void judge_on(const struct rule_row *rule, const struct evidence_set_record *r,
                     struct ledger_row *row)
{
    if (r->value != 0)
        ledger_set(row, VERDICT_PASS, NULL, "on");
    else
        ledger_set(row, VERDICT_WARN, rule->cause, "%s is off", rule->quantity);
}

static void judge_covered(const struct rule_row *rule, const struct evidence_set_record *r,
                          struct ledger_row *row)
{
    (void)rule;
    double sms = condition(r, "sms");
    const json_t *proof = json_object_get(r->json, "proof");
    ledger_limit(row, LEDGER_LIMIT_EXACT, sms, "multiprocessors of the GPU");
    if (!json_is_integer(json_object_get(proof, "mismatches")) || sms < 1)
        ledger_set(row, VERDICT_NOT_MEASURED, "evidence-malformed",
                   "the record has no comparison to show");
    else if (jsonx_int_or(proof, "mismatches", -1) != 0)
        ledger_set(row, VERDICT_FAIL, "compute-wrong", "%lld results are wrong",
                   (long long)jsonx_int_or(proof, "mismatches", -1));
    else if (r->value < sms)
        ledger_set(row, VERDICT_NOT_MEASURED, "not-run",
                   "%.0f of %.0f multiprocessors took part in the computation", r->value, sms);
    else
        ledger_set(row, VERDICT_PASS, NULL, "bit-exact on all %.0f multiprocessors", sms);
}

static void judge_throttle(const struct rule_row *rule, const struct evidence_set_record *r,
                           struct ledger_row *row)
{
    unsigned long long mask = (unsigned long long)r->value;
    const json_t *names = json_object_get(json_object_get(r->json, "conditions"), "reasons");
    if (!(mask & slowdown_bits)) {
        ledger_set(row, VERDICT_PASS, NULL, "no slowdown under load");
        return;
    }
    AUTO(free_str) char *text = jsonx_canonical(json_is_array(names) ? names : r->json);
    ledger_set(row, VERDICT_WARN, rule->cause, "the clocks are held down under load: %.200s", text);
}

static void judge_xid(const struct rule_row *rule, const struct evidence_set_record *r,
                      struct ledger_row *row)
{
    const json_t *conditions = json_object_get(r->json, "conditions");
    const json_t *numbers = json_object_get(conditions, "numbers");
    for (size_t i = 0; i < json_array_size(numbers); i++) {
        const char *meaning = NULL;
        int number = (int)json_integer_value(json_array_get(numbers, i));
        enum gpu_profile_xid class = gpu_profile_xid(number, &meaning);
        if (class == GPU_PROFILE_XID_FATAL)
            ledger_set(row, VERDICT_FAIL, rule->cause, "Xid %d since boot: %s", number, meaning);
        else if (class == GPU_PROFILE_XID_NOTED)
            ledger_set(row, VERDICT_WARN, "gpu-xid-noted", "Xid %d since boot: %s", number,
                       meaning);
    }
    if (r->value != (double)json_array_size(numbers))
        ledger_set(row, VERDICT_NOT_MEASURED, "evidence-malformed",
                   "the record counts %.0f Xids and names %zu", r->value, json_array_size(numbers));
    bool complete = jsonx_bool_or(conditions, "complete", false);
    ledger_set(row, VERDICT_PASS, NULL, "no Xid that convicts%s",
               complete ? " since boot" : " in what the kernel's log still holds");
}

static void judge_link(const struct rule_row *rule, const struct evidence_set_record *r,
                       struct ledger_row *row)
{
    double max = condition(r, "max");
    ledger_limit(row, LEDGER_LIMIT_EXACT, max, "what both ends of the link can");
    if (max < 1 || r->value < 1)
        ledger_set(row, VERDICT_NOT_MEASURED, "evidence-malformed", "%s %.0f of at most %.0f",
                   rule->quantity, r->value, max);
    else if (r->value < max)
        ledger_set(row, VERDICT_FAIL, rule->cause, "%s is %.0f, both ends can %.0f", rule->quantity,
                   r->value, max);
    else
        ledger_set(row, VERDICT_PASS, NULL, "%s %.0f", rule->quantity, r->value);
}

static void judge_present(const struct rule_row *rule, const struct evidence_set_record *r,
                          struct ledger_row *row)
{
    const json_t *proof = json_object_get(r->json, "proof");
    const json_t *mismatches = json_object_get(proof, "mismatches");
    if (mismatches && jsonx_int_or(proof, "mismatches", -1) != 0)
        ledger_set(row, VERDICT_FAIL, rule->cause, "%s: content differs", rule->quantity);
    else
        ledger_set(row, VERDICT_PASS, NULL,
                   mismatches ? "measured, and every word is right" : "measured");
}

static void judge_record(const struct rule_row *rule, const struct evidence_set_record *r,
                         struct ledger_row *row)
{
    static void (*const by_rule[])(const struct rule_row *, const struct evidence_set_record *,
                                   struct ledger_row *) = {
        [RULE_PRESENT] = judge_present, [RULE_ZERO] = judge_count,
        [RULE_QUIET] = judge_count,     [RULE_ON] = judge_on,
        [RULE_COVERED] = judge_covered, [RULE_THROTTLE] = judge_throttle,
        [RULE_XID] = judge_xid,         [RULE_LINK] = judge_link,
    };
    ledger_value(row, r->value, r->unit);
    by_rule[rule->rule](rule, r, row);
}

/* --- the GPUs --------------------------------------------------------------------------------- */

/* Whether the node's state hangs on it: by the row, or because it was measured and must be 0. */
static bool is_needed(const struct rule_row *rule, const struct check_gpu *gpu,
                      const struct evidence_set_record *r)
{
    if (rule->rule == RULE_LINK && gpu->profile && gpu->profile->generation == 0)
        return false; /* its way to the host is not PCI Express */
    if (rule->needs == NEEDS_ALWAYS)
        return true;
    if (rule->needs == NEEDS_GUARDED && gpu->profile && gpu->profile->guarded)
        return true;
    return rule->rule == RULE_ZERO && r && r->outcome == EVIDENCE_MEASURED;
}

static void judge_gpu(const struct check *check, struct check_env *env, const struct check_gpu *gpu,
                      void *ctx)
{
    (void)check;
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        const struct rule_row *rule = &rules[i];
        struct ledger_row *row = NULL;
        bool unsealed = false;
        const struct evidence_set_record *r =
            check_record(env, gpu->node, rule->stage, gpu->subject, rule->quantity, &unsealed);
        bool needed = is_needed(rule, gpu, r);
        if (!needed && !r)
            continue;
        r = check_gpu_record(env, gpu, rule->stage, rule->quantity, needed, &row);
        if (r)
            judge_record(rule, r, row);
    }
}

/* Bridges, NICs and switches, which no list of the facts names as parts of a stage. */
static void judge_functions(struct check_env *env)
{
    const struct evidence_set *set = env->input->evidence;
    for (size_t i = 0; i < evidence_set_count(set); i++) {
        const struct evidence_set_record *r = evidence_set_at(set, i);
        if (strcmp(r->stage, "pcie") != 0 || !strstr(r->subject, "/pci:") ||
            evidence_set_find(set, r->node, r->stage, r->subject, r->quantity) != r)
            continue;
        for (size_t k = 0; k < ARRAY_LEN(rules); k++) {
            if (strcmp(rules[k].stage, r->stage) != 0 ||
                strcmp(rules[k].quantity, r->quantity) != 0)
                continue;
            struct ledger_row *row = ledger_row(env->ledger, r->subject, r->node, r->stage,
                                                r->quantity, check_is_required(env, r->stage));
            if (check_use(r, row))
                judge_record(&rules[k], r, row);
        }
    }
}

/* Display controllers of NVIDIA on the bus: a GPU whose driver does not answer is still there. */
static size_t count_on_bus(const json_t *facts)
{
    const json_t *pci = json_object_get(facts, "pci");
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(pci); i++) {
        const json_t *function = json_array_get(pci, i);
        count += strcmp(jsonx_str_or(function, "vendor", ""), "0x10de") == 0 &&
                 str_has_prefix(jsonx_str_or(function, "class", ""), "0x03");
    }
    return count;
}

static size_t count_devices(const json_t *facts)
{
    return json_array_size(json_object_get(json_object_get(facts, "gpus"), "devices"));
}

/* A GPU that the driver does not show has no row of its own: its absence is the node's. */
static void judge_presence(struct check_env *env, const char *node)
{
    const json_t *facts = check_facts(env, node);
    size_t on_bus = count_on_bus(facts), shown = count_devices(facts);
    if (on_bus == 0)
        return;
    struct ledger_row *row =
        ledger_row(env->ledger, node, node, "gpu", "gpu_presence", check_is_required(env, "gpu"));
    if (shown < on_bus)
        ledger_set(row, VERDICT_FAIL, shown ? "gpu-missing" : "no-gpu-driver",
                   "%zu NVIDIA GPUs are on the PCI bus, the driver shows %zu", on_bus, shown);
    else
        ledger_set(row, VERDICT_PASS, NULL, "the driver shows all %zu", on_bus);
}

/* What a stage says about the node as a whole: no GPU could be asked, or an NVSwitch complained. */
static void judge_node(struct check_env *env, const char *node)
{
    static const struct rule_row whole[] = {
        {"gpu", "gpu_run", NEEDS_ALWAYS, RULE_PRESENT, "no-gpu-driver"},
        {"pcie", "gpu_run", NEEDS_ALWAYS, RULE_PRESENT, "no-gpu-driver"},
        {"shm", "gpu_run", NEEDS_ALWAYS, RULE_PRESENT, "no-gpu-driver"},
        {"gpu", "sxid", NEEDS_NOTE, RULE_ZERO, "nvswitch-error"},
    };
    const json_t *facts = check_facts(env, node);
    bool dead = count_devices(facts) == 0 && count_on_bus(facts) > 0;
    for (size_t i = 0; i < ARRAY_LEN(whole); i++) {
        bool unsealed = false, required = check_is_required(env, whole[i].stage);
        const struct evidence_set_record *r =
            check_record(env, node, whole[i].stage, node, whole[i].quantity, &unsealed);
        bool owed = dead && required && whole[i].needs == NEEDS_ALWAYS;
        if (!r && !owed)
            continue;
        if (r && r->outcome == EVIDENCE_NOT_MEASURED && !owed)
            required = false;
        struct ledger_row *row =
            ledger_row(env->ledger, node, node, whole[i].stage, whole[i].quantity, required);
        if (!r)
            check_absent(env, row, unsealed);
        else if (check_use(r, row))
            judge_record(&whole[i], r, row);
    }
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    (void)err;
    check_gpu_each(check, env, judge_gpu, NULL);
    judge_functions(env);
    for (size_t i = 0; i < env->count; i++) {
        judge_presence(env, env->names[i]);
        judge_node(env, env->names[i]);
    }
    return 0;
}

const struct check check_gpu_state = {
    .name = "gpu_state",
    .summary = "GPUs are healthy, compute exactly, keep data, and their links run in full",
    .stage = "gpu",
    .judge = judge,
};
