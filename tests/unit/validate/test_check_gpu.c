/* GPUs judged: a healthy one passes, each fault gets its own cause, what is missing never passes.
 */
#include "cluster.h"

#include "validate/causes.h"
#include "validate/gpu_profile.h"
#include "validate/limits.h"

#define GPU "n1/gpu:0"

/* A record of one GPU that a test alters or leaves out. */
struct record {
    const char *stage, *quantity, *unit;
    double value;
    const char *conditions, *proof; /* JSON text */
};

static const struct record healthy[] = {
    {"gpu", "nvml", "1", 1, "{}", "{}"},
    {"gpu", "xid", "1", 0, "{\"numbers\":[],\"complete\":true}", "{}"},
    {"gpu", "compute", "1", 132, "{\"sms\":132}", "{\"mismatches\":0,\"covered\":132}"},
    {"gpu", "memory_copy_bandwidth", "B/s", 3.9e12, "{}", "{\"compared\":8,\"mismatches\":0}"},
    {"gpu", "memory_read_bandwidth", "B/s", 4.6e12, "{}", "{\"compared\":8,\"mismatches\":0}"},
    {"gpu", "memory_driver_bandwidth", "B/s", 4.2e12, "{}", "{\"compared\":8,\"mismatches\":0}"},
    {"gpu", "throttle", "1", 4, "{\"reasons\":[\"power cap\"]}", "{}"},
    {"gpu", "memory_data", "B", 1e11, "{}", "{\"compared\":100,\"mismatches\":0}"},
    {"gpu", "ecc_uncorrected", "1", 0, "{}", "{}"},
    {"gpu", "remap_pending", "1", 0, "{}", "{}"},
    {"gpu", "remap_failure", "1", 0, "{}", "{}"},
    {"gpu", "recovery_action", "1", 0, "{}", "{}"},
    {"gpu", "gpu_run", "s", 1.5, "{}", "{}"},
    {"pcie", "h2d_bandwidth", "B/s", 55e9, "{}", "{\"compared\":8,\"mismatches\":0}"},
    {"pcie", "d2h_bandwidth", "B/s", 55e9, "{}", "{\"compared\":8,\"mismatches\":0}"},
    {"pcie", "pcie_generation", "1", 5, "{\"max\":5}", "{}"},
    {"pcie", "pcie_width", "1", 16, "{\"max\":16}", "{}"},
    {"pcie", "gpu_run", "s", 2, "{}", "{}"},
};

struct fault {
    const char *quantity;
    double value;
    const char *conditions, *proof; /* NULL: as healthy */
    const char *outcome_cause;      /* a failed record with this cause instead */
    bool missing;
    const char *verdict, *cause, *state, *reason;
};

static void emit(struct cluster *c, const struct record *r, const struct fault *f)
{
    bool hit = f && strcmp(f->quantity, r->quantity) == 0;
    if (hit && f->missing)
        return;
    if (hit && f->outcome_cause) {
        cluster_emit(c, 0,
                     (struct evidence){.stage = r->stage,
                                       .subject = GPU,
                                       .quantity = r->quantity,
                                       .unit = r->unit,
                                       .outcome = EVIDENCE_FAILED,
                                       .cause = f->outcome_cause,
                                       .reason = "the fault that was planted"});
        return;
    }
    json_t *conditions = json_loads(hit && f->conditions ? f->conditions : r->conditions, 0, NULL);
    json_t *proof = json_loads(hit && f->proof ? f->proof : r->proof, 0, NULL);
    cluster_value(c, 0, r->stage, GPU, r->quantity, r->unit, hit ? f->value : r->value, conditions,
                  proof);
}

static void emit_stage(struct cluster *c, const char *stage, const struct fault *f)
{
    for (size_t i = 0; i < ARRAY_LEN(healthy); i++)
        if (strcmp(healthy[i].stage, stage) == 0)
            emit(c, &healthy[i], f);
    cluster_seal(c, 0, stage);
}

static json_t *judge_with(struct cluster *c, const char *model, const struct fault *f)
{
    cluster_open(c, 1, 1e10);
    json_t *facts = json_object_get(c->facts, "n1");
    jsonx_set(facts, "gpus",
              json_pack("{s:b,s:n,s:[{s:i,s:s,s:s,s:s}]}", "available", 1, "reason", "devices",
                        "index", 0, "uuid", "GPU-a", "name", model, "bdf", "0000:1b:00.0"));
    jsonx_set(cluster_policy(c), "require", json_pack("[s,s,s]", "inventory", "gpu", "pcie"));
    cluster_inventory(c, 0);
    emit_stage(c, "gpu", f);
    emit_stage(c, "pcie", f);
    /* GPUs pin memory. */
    cluster_value(c, 0, "inventory", "n1", "memlock", "B", 1, json_pack("{s:b}", "unlimited", 1),
                  NULL);
    cluster_value(c, 0, "inventory", "n1", "facts_digest", "1", 1, NULL,
                  json_pack("{s:s}", "digest", "00"));
    cluster_seal(c, 0, "inventory");
    return cluster_judge(c);
}

static void a_healthy_gpu_is_ready(void **state)
{
    struct cluster c;
    json_auto_t *v = judge_with(&c, "NVIDIA H200", NULL);
    if (strcmp(cluster_state(v, "n1"), "ready") != 0) {
        AUTO(free_str) char *text = jsonx_canonical(json_object_get(v, "nodes"));
        fail_msg("%s", text);
    }
    const json_t *e = cluster_element(v, GPU, "memory_read_bandwidth");
    assert_string_equal(jsonx_str_or(json_object_get(e, "limit"), "kind", ""), "roofline");
    assert_string_equal(jsonx_str_or(cluster_element(v, GPU, "compute"), "reason", ""),
                        "bit-exact on all 132 multiprocessors");
    cluster_close(&c);
}

static void each_fault_has_its_cause(void **state)
{
    static const struct fault faults[] = {
        {.quantity = "ecc_uncorrected",
         .value = 2,
         .verdict = "FAIL",
         .cause = "ecc-uncorrected",
         .state = "not_ready",
         .reason = "ecc_uncorrected is 2, must be 0"},
        {.quantity = "remap_pending",
         .value = 1,
         .verdict = "FAIL",
         .cause = "remap-pending",
         .state = "not_ready",
         .reason = "remap_pending is 1, must be 0"},
        {.quantity = "remap_failure",
         .value = 1,
         .verdict = "FAIL",
         .cause = "remap-failure",
         .state = "not_ready",
         .reason = "remap_failure is 1, must be 0"},
        {.quantity = "recovery_action",
         .value = 2,
         .verdict = "FAIL",
         .cause = "gpu-recovery",
         .state = "not_ready",
         .reason = "recovery_action is 2, must be 0"},
        {.quantity = "xid",
         .value = 1,
         .conditions = "{\"numbers\":[79],\"complete\":true}",
         .verdict = "FAIL",
         .cause = "gpu-xid",
         .state = "not_ready",
         .reason = "Xid 79 since boot: GPU has fallen off the bus"},
        {.quantity = "xid",
         .value = 1,
         .conditions = "{\"numbers\":[4242],\"complete\":true}",
         .verdict = "FAIL",
         .cause = "gpu-xid",
         .state = "not_ready",
         .reason = "Xid 4242 since boot: not in the list of known numbers"},
        {.quantity = "xid",
         .value = 1,
         .conditions = "{\"numbers\":[31],\"complete\":true}",
         .verdict = "WARN",
         .cause = "gpu-xid-noted",
         .state = "degraded",
         .reason = "Xid 31 since boot: GPU memory page fault"},
        {.quantity = "xid",
         .value = 3,
         .conditions = "{\"numbers\":[],\"complete\":true}",
         .verdict = "NOT_MEASURED",
         .cause = "evidence-malformed",
         .state = "unknown",
         .reason = "the record counts 3 Xids and names 0"},
        {.quantity = "throttle",
         .value = 0x44,
         .conditions = "{\"reasons\":[\"power cap\",\"hardware thermal slowdown\"]}",
         .verdict = "WARN",
         .cause = "gpu-throttled",
         .state = "degraded",
         .reason = "the clocks are held down under load: "
                   "[\"power cap\",\"hardware thermal slowdown\"]"},
        {.quantity = "compute",
         .value = 131,
         .verdict = "NOT_MEASURED",
         .cause = "not-run",
         .state = "unknown",
         .reason = "131 of 132 multiprocessors took part in the computation"},
        {.quantity = "compute",
         .value = 132,
         .proof = "{}",
         .verdict = "NOT_MEASURED",
         .cause = "evidence-malformed",
         .state = "unknown",
         .reason = "the record has no comparison to show"},
        {.quantity = "compute",
         .outcome_cause = "compute-wrong",
         .verdict = "FAIL",
         .cause = "compute-wrong",
         .state = "not_ready",
         .reason = "the fault that was planted"},
        {.quantity = "memory_data",
         .outcome_cause = "gpu-memory-error",
         .verdict = "FAIL",
         .cause = "gpu-memory-error",
         .state = "not_ready",
         .reason = "the fault that was planted"},
        {.quantity = "memory_data",
         .value = 1,
         .proof = "{\"mismatches\":1}",
         .verdict = "FAIL",
         .cause = "gpu-memory-error",
         .state = "not_ready",
         .reason = "memory_data: content differs"},
        {.quantity = "memory_read_bandwidth",
         .value = 3e12,
         .verdict = "FAIL",
         .cause = "memory-bandwidth-low",
         .state = "not_ready",
         .reason = NULL},
        {.quantity = "memory_read_bandwidth",
         .value = 9e12,
         .verdict = "FAIL",
         .cause = "faster-than-link",
         .state = "not_ready",
         .reason = NULL},
        {.quantity = "memory_read_bandwidth",
         .value = 4.6e12,
         .proof = "{\"compared\":0}",
         .verdict = "NOT_MEASURED",
         .cause = "evidence-malformed",
         .state = "unknown",
         .reason = "the figure does not show that its content was compared"},
        {.quantity = "h2d_bandwidth",
         .value = 26e9,
         .verdict = "FAIL",
         .cause = "host-bandwidth-low",
         .state = "not_ready",
         .reason = NULL},
        {.quantity = "d2h_bandwidth",
         .outcome_cause = "data-corrupt",
         .verdict = "FAIL",
         .cause = "data-corrupt",
         .state = "not_ready",
         .reason = "the fault that was planted"},
        {.quantity = "pcie_generation",
         .value = 1,
         .verdict = "FAIL",
         .cause = "pcie-generation-low",
         .state = "not_ready",
         .reason = "pcie_generation is 1, both ends can 5"},
        {.quantity = "pcie_width",
         .value = 8,
         .verdict = "FAIL",
         .cause = "pcie-width-low",
         .state = "not_ready",
         .reason = "pcie_width is 8, both ends can 16"},
        {.quantity = "pcie_width",
         .value = 16,
         .conditions = "{}",
         .verdict = "NOT_MEASURED",
         .cause = "evidence-malformed",
         .state = "unknown",
         .reason = "pcie_width 16 of at most 0"},
        {.quantity = "ecc_uncorrected",
         .missing = true,
         .verdict = "NOT_MEASURED",
         .cause = "not-run",
         .state = "unknown",
         .reason = "n1 has no record of this run"},
        {.quantity = "memory_copy_bandwidth",
         .missing = true,
         .verdict = "NOT_MEASURED",
         .cause = "not-run",
         .state = "unknown",
         .reason = "n1 has no record of this run"},
    };
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        const struct fault *f = &faults[i];
        struct cluster c;
        json_auto_t *v = judge_with(&c, "NVIDIA H200", f);
        const json_t *e = cluster_element(v, GPU, f->quantity);
        assert_non_null(e);
        assert_non_null(causes_find(f->cause));
        AUTO(free_str) char *text = jsonx_canonical(e);
        if (strcmp(jsonx_str_or(e, "verdict", ""), f->verdict) != 0 ||
            strcmp(jsonx_str_or(e, "cause", ""), f->cause) != 0 ||
            (f->reason && strcmp(jsonx_str_or(e, "reason", ""), f->reason) != 0))
            fail_msg("fault %zu: %s", i, text);
        if (strcmp(cluster_state(v, "n1"), f->state) != 0)
            fail_msg("fault %zu makes the node %s: %s", i, cluster_state(v, "n1"), text);
        cluster_close(&c);
    }
}

/* A dead GPU: its own record fails, and the rest is not measured for the same cause. */
static void a_dead_gpu_has_one_cause(void **state)
{
    struct cluster c;
    cluster_open(&c, 1, 1e10);
    json_t *facts = json_object_get(c.facts, "n1");
    jsonx_set(facts, "gpus",
              json_pack("{s:b,s:n,s:[{s:i,s:s}]}", "available", 1, "reason", "devices", "index", 0,
                        "name", "NVIDIA H200"));
    jsonx_set(cluster_policy(&c), "require", json_pack("[s]", "gpu"));
    cluster_emit(&c, 0,
                 (struct evidence){.stage = "gpu",
                                   .subject = GPU,
                                   .quantity = "gpu_run",
                                   .unit = "s",
                                   .outcome = EVIDENCE_FAILED,
                                   .cause = "fabric-manager",
                                   .reason = "cuInit: the NVSwitch fabric is not set up"});
    cluster_seal(&c, 0, "gpu");
    json_auto_t *v = cluster_judge(&c);
    assert_string_equal(cluster_state(v, "n1"), "not_ready");
    assert_string_equal(jsonx_str_or(cluster_element(v, GPU, "gpu_run"), "cause", ""),
                        "fabric-manager");
    const char *const others[] = {"compute", "memory_read_bandwidth", "ecc_uncorrected"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        const json_t *e = cluster_element(v, GPU, others[i]);
        assert_string_equal(jsonx_str_or(e, "verdict", ""), "NOT_MEASURED");
        assert_string_equal(jsonx_str_or(e, "cause", ""), "fabric-manager");
    }
    cluster_close(&c);
}

/* What the driver does not show is missed, whether or not a stage has run. */
static void a_gpu_on_the_bus_is_not_forgotten(void **state)
{
    static const struct {
        int shown;
        const char *cause, *reason;
    } rows[] = {
        {1, "gpu-missing", "2 NVIDIA GPUs are on the PCI bus, the driver shows 1"},
        {0, "no-gpu-driver", "2 NVIDIA GPUs are on the PCI bus, the driver shows 0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct cluster c;
        cluster_open(&c, 1, 1e10);
        json_t *facts = json_object_get(c.facts, "n1");
        json_t *devices = json_array();
        for (int k = 0; k < rows[i].shown; k++)
            jsonx_append(devices, json_pack("{s:i,s:s}", "index", k, "name", "NVIDIA H200"));
        jsonx_set(facts, "gpus",
                  json_pack("{s:b,s:n,s:o}", "available", 1, "reason", "devices", devices));
        jsonx_set(facts, "pci",
                  json_pack("[{s:s,s:s},{s:s,s:s},{s:s,s:s}]", "vendor", "0x10de", "class",
                            "0x030200", "vendor", "0x10de", "class", "0x030200", "vendor", "0x10de",
                            "class", "0x068000"));
        jsonx_set(cluster_policy(&c), "require", json_pack("[s]", "gpu"));
        json_auto_t *v = cluster_judge(&c);
        const json_t *e = cluster_element(v, "n1", "gpu_presence");
        assert_string_equal(jsonx_str_or(e, "cause", ""), rows[i].cause);
        assert_string_equal(jsonx_str_or(e, "reason", ""), rows[i].reason);
        assert_string_equal(cluster_state(v, "n1"), "not_ready");
        const char *subject = rows[i].shown ? GPU : "n1";
        assert_string_equal(jsonx_str_or(cluster_element(v, subject, "gpu_run"), "verdict", ""),
                            "NOT_MEASURED");
        cluster_close(&c);
    }
}

/* Nothing says how fast it must be: that is not a pass. */
static void an_unknown_model_is_unknown(void **state)
{
    struct cluster c;
    json_auto_t *v = judge_with(&c, "NVIDIA X1000", NULL);
    assert_string_equal(cluster_state(v, "n1"), "unknown");
    assert_string_equal(jsonx_str_or(cluster_element(v, GPU, "memory_read_bandwidth"), "cause", ""),
                        "limit-missing");
    cluster_close(&c);
}

static void profiles_are_found_by_name(void **state)
{
    static const struct {
        const char *name, *profile;
    } rows[] = {
        {"NVIDIA H200", "NVIDIA H200"},
        {"NVIDIA H200 NVL", NULL},
        {"NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"},
        {"NVIDIA H100 PCIe", "NVIDIA H100 PCIe"},
        {"Tesla V100-SXM2-32GB", "Tesla V100-SXM2"},
        {"NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"},
        {"NVIDIA H20", NULL},
        {"", NULL},
        {NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct gpu_profile *p = gpu_profile_find(rows[i].name);
        if (!rows[i].profile)
            assert_null(p);
        else
            assert_string_equal(p->name, rows[i].profile);
    }
    for (size_t i = 0; gpu_profile_at(i); i++) {
        const struct gpu_profile *p = gpu_profile_at(i);
        assert_ptr_equal(gpu_profile_find(p->name), p);
        assert_true(p->memory_bytes_per_s > 1e11 && p->memory_bytes_per_s < 1e14);
        assert_true(p->generation == 0 || gpu_profile_host(p->generation) != NULL);
        assert_true(strlen(p->source) > 3);
    }
    assert_null(gpu_profile_host(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_gpu_is_ready),
        cmocka_unit_test(each_fault_has_its_cause),
        cmocka_unit_test(a_gpu_on_the_bus_is_not_forgotten),
        cmocka_unit_test(a_dead_gpu_has_one_cause),
        cmocka_unit_test(an_unknown_model_is_unknown),
        cmocka_unit_test(profiles_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
