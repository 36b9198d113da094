/* The GPU stages over stand-ins for the driver's libraries: wiring, content checks, and each fault.
 */
#include "stage_side.h"

#include "agents/facts/facts.h"
#include "fake_gpu.h"

#define GPU0 "n1/gpu:0"
#define GPU1 "n1/gpu:1"

static void run_stage(struct side *s, const char *stage, const char *description, int deadline_ms)
{
    fake_gpu_describe(description);
    side_start(s, stage, "n1", json_object(), deadline_ms);
    side_finish(s);
    if (s->rc)
        fail_msg("stage %s: %s", stage, s->err.text);
}

static void expect(const struct side *s, const char *quantity, const char *subject,
                   const char *outcome)
{
    if (side_count(s, quantity, subject, outcome) == 1)
        return;
    AUTO(free_str) char *text = jsonx_canonical(s->evidence);
    fail_msg("%s of %s is not once %s: %s", quantity, subject, outcome, text);
}

static double sample(const struct side *s, const char *quantity, const char *subject)
{
    const json_t *samples = json_object_get(side_find(s, quantity, subject), "samples");
    return json_number_value(json_array_get(samples, 0));
}

static void two_healthy_gpus_are_measured_in_full(void **state)
{
    static const char *const of_gpu[] = {"gpu_run",
                                         "nvml",
                                         "xid",
                                         "compute",
                                         "memory_data",
                                         "throttle",
                                         "ecc_mode",
                                         "memory_copy_bandwidth",
                                         "ecc_uncorrected",
                                         "remap_pending",
                                         "remap_failure",
                                         "memory_read_bandwidth",
                                         "recovery_action",
                                         "ecc_corrected",
                                         "memory_driver_bandwidth"};
    struct side s;
    run_stage(&s, "gpu", "gpus 2\n", 60000);
    assert_int_equal(jsonx_int_or(s.data, "completed", -1), 2);
    for (size_t i = 0; i < ARRAY_LEN(of_gpu); i++) {
        if (strcmp(of_gpu[i], "xid") == 0 && access("/dev/kmsg", R_OK) != 0)
            continue;
        expect(&s, of_gpu[i], GPU0, "measured");
        expect(&s, of_gpu[i], GPU1, "measured");
    }
    assert_true(sample(&s, "compute", GPU1) == 132);
    /* The rates that the stand-in states come out of the events' times. */
    assert_true(sample(&s, "memory_read_bandwidth", GPU0) > 4.59e12);
    assert_true(sample(&s, "memory_read_bandwidth", GPU0) < 4.61e12);
    /* Whatever a stand-in has answered is marked. */
    for (size_t i = 0; i < json_array_size(s.evidence); i++) {
        const json_t *e = json_array_get(s.evidence, i);
        if (strstr(jsonx_str_or(e, "subject", ""), "/gpu:") &&
            !jsonx_bool_or(json_object_get(e, "conditions"), "simulated", false))
            fail_msg("%s is not marked as simulated", jsonx_str_or(e, "quantity", ""));
    }
    side_release(&s);
}

static void links_and_host_copies_are_measured(void **state)
{
    static const char *const of_gpu[] = {"h2d_bandwidth", "d2h_bandwidth", "pcie_generation",
                                         "pcie_width",    "pcie_replays",  "gpu_run"};
    struct side s;
    run_stage(&s, "pcie", "gpus 2\n", 60000);
    for (size_t i = 0; i < ARRAY_LEN(of_gpu); i++)
        expect(&s, of_gpu[i], GPU1, "measured");
    assert_true(sample(&s, "h2d_bandwidth", GPU0) > 54.9e9);
    assert_true(sample(&s, "h2d_bandwidth", GPU0) < 55.1e9);
    assert_true(sample(&s, "pcie_replays", GPU0) == 0);
    side_release(&s);
}

static void the_host_path_covers_every_ordered_pair(void **state)
{
    struct side s;
    run_stage(&s, "shm", "gpus 3\nmemory_bytes 67108864\n", 60000);
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            AUTO(free_str) char *subject = str_printf("n1/gpu:%d>gpu:%d", a, b);
            assert_int_equal(side_count(&s, "host_path_bandwidth", subject, "measured"), a != b);
        }
    side_release(&s);
    run_stage(&s, "shm", "gpus 1\nmemory_bytes 67108864\n", 60000);
    expect(&s, "host_path_bandwidth", "n1/gpu:0>gpu:0", "measured");
    expect(&s, "d2h_pageable_bandwidth", GPU0, "measured");
    side_release(&s);
}

struct fault_row {
    const char *stage, *description; /* NULL: seen in the same run as the row before */
    const char *quantity, *outcome;
    const char *cause, *reason; /* NULL: not looked at */
    double value;               /* of a measured one */
};

/* The fault is on GPU 1: what it does is seen there, and GPU 0 stays as it was. */
static void each_fault_is_seen_on_its_gpu_only(void **state)
{
    static const struct fault_row rows[] = {
        {"gpu",
         "fault 1 ecc 3\nfault 1 remap-pending 1\nfault 1 remap-failure 1\nfault 1 recovery 2\n"
         "fault 1 thermal\nfault 1 ecc-off\nfault 1 sm-missing",
         "ecc_uncorrected", "measured", NULL, NULL, 3},
        {"gpu", NULL, "remap_pending", "measured", NULL, NULL, 1},
        {"gpu", NULL, "remap_failure", "measured", NULL, NULL, 1},
        {"gpu", NULL, "recovery_action", "measured", NULL, NULL, 2},
        {"gpu", NULL, "throttle", "measured", NULL, NULL, 0x40},
        {"gpu", NULL, "ecc_mode", "measured", NULL, NULL, 0},
        {"gpu", NULL, "compute", "measured", NULL, NULL, 131},
        {"gpu", "fault 1 no-fields", "ecc_uncorrected", "not_measured", NULL,
         "NVML, field 4 of NVIDIA H200: not supported by this GPU or driver", 0},
        {"gpu", "fault 1 compute-wrong", "compute", "failed", "compute-wrong",
         "1 of 132 multiprocessors computed a wrong result, the first is 17", 0},
        {"gpu", "fault 1 copy-corrupt", "memory_copy_bandwidth", "failed", "data-corrupt", NULL, 0},
        {"gpu", "fault 1 weak-cell", "memory_data", "failed", "gpu-memory-error", NULL, 0},
        {"gpu", "fault 1 busy", "compute", "not_measured", "gpu-busy", NULL, 0},
        {"gpu", "fault 1 lost", "nvml", "not_measured", "no-gpu-driver",
         "NVML, GPU at 0000:1c:00.0: GPU is lost", 0},
        {"gpu", "fault 1 exclusive", "gpu_run", "failed", "gpu-busy",
         "cuDevicePrimaryCtxRetain: another process holds the GPU exclusively (CUDA result 46, "
         "CUDA_ERROR_SIMULATED)",
         0},
        {"gpu", "fault 1 hidden", "gpu_run", "failed", "gpu-missing",
         "CUDA shows 2 GPUs, but none at 0000:1c:00.0: it may be in MIG mode, lost, or hidden by a "
         "container",
         0},
        {"gpu", "fault 1 illegal-address", "gpu_run", "failed", "gpu-memory-error", NULL, 0},
        {"gpu", "fault 1 crash-copy", "gpu_run", "failed", "stage-crashed",
         "the process ended by SIGKILL during: memory_copy_bandwidth", 0},
        {"pcie", "fault 1 h2d-corrupt", "h2d_bandwidth", "failed", "data-corrupt", NULL, 0},
        {"pcie", "fault 1 slow-link\nfault 1 narrow-link\nfault 1 replays 7", "pcie_generation",
         "measured", NULL, NULL, 1},
        {"pcie", NULL, "pcie_width", "measured", NULL, NULL, 8},
        {"pcie", NULL, "pcie_replays", "measured", NULL, NULL, 7},
    };
    struct side s;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct fault_row *r = &rows[i];
        if (r->description) {
            AUTO(free_str) char *description = str_printf("gpus 2\n%s\n", r->description);
            run_stage(&s, r->stage, description, 60000);
        }
        const json_t *bad = side_find(&s, r->quantity, GPU1);
        AUTO(free_str) char *text = jsonx_canonical(bad);
        if (strcmp(jsonx_str_or(bad, "outcome", ""), r->outcome) != 0 ||
            (r->cause && strcmp(jsonx_str_or(bad, "cause", ""), r->cause) != 0) ||
            (r->reason && strcmp(jsonx_str_or(bad, "reason", ""), r->reason) != 0))
            fail_msg("row %zu: %s", i, text);
        if (strcmp(r->outcome, "measured") == 0 && sample(&s, r->quantity, GPU1) != r->value)
            fail_msg("row %zu: %s", i, text);
        expect(&s, "gpu_run", GPU0, "measured");
        expect(&s, r->quantity, GPU0, "measured");
        if (i + 1 == ARRAY_LEN(rows) || rows[i + 1].description)
            side_release(&s);
    }
}

static void a_hung_gpu_is_named_with_its_step(void **state)
{
    struct side s;
    run_stage(&s, "gpu", "gpus 2\nfault 1 hang-context\n", 6000);
    const json_t *hung = side_find(&s, "gpu_run", GPU1);
    assert_string_equal(jsonx_str_or(hung, "cause", ""), "gpu-hang");
    assert_string_equal(jsonx_str_or(hung, "reason", ""), "no answer in time during: CUDA context");
    expect(&s, "gpu_run", GPU0, "measured");
    assert_int_equal(jsonx_int_or(s.data, "completed", -1), 1);
    side_release(&s);
}

static void what_cuinit_refuses_is_told_apart(void **state)
{
    static const struct {
        int result;
        const char *cause, *text;
    } rows[] = {
        {100, "gpu-missing", "cuInit: the driver answers, but shows CUDA no GPU"},
        {802, "fabric-manager", "cuInit: the NVSwitch fabric is not set up"},
        {803, "gpu-driver-mismatch", "cuInit: the loaded kernel module and the driver's libraries"},
        {999, "gpu-permission", "cuInit: the driver refuses without saying why"},
        {3, "gpu-error", "cuInit: simulated (CUDA result 3, CUDA_ERROR_SIMULATED)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct side s;
        AUTO(free_str) char *description = str_printf("cuinit %d\n", rows[i].result);
        run_stage(&s, "gpu", description, 30000);
        const json_t *e = side_find(&s, "gpu_run", GPU0);
        assert_string_equal(jsonx_str_or(e, "outcome", ""), "failed");
        assert_string_equal(jsonx_str_or(e, "cause", ""), rows[i].cause);
        assert_true(str_has_prefix(jsonx_str_or(e, "reason", ""), rows[i].text));
        side_release(&s);
    }
}

static void facts_say_that_they_are_simulated(void **state)
{
    struct fs_root root = {.path = ""};
    struct err err = {0};
    json_auto_t *facts = NULL;
    fake_gpu_describe("gpus 8\n");
    assert_int_equal(facts_read(&root, &facts, &err), 0);
    assert_true(jsonx_bool_or(facts, "simulated", false));
    const json_t *gpus = json_object_get(facts, "gpus");
    assert_int_equal(json_array_size(json_object_get(gpus, "devices")), 8);
    assert_null(json_object_get(gpus, "simulated"));
}

int main(int argc, char **argv)
{
    (void)argc;
    fake_gpu_enter(argv, "fake_gpu");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_healthy_gpus_are_measured_in_full),
        cmocka_unit_test(links_and_host_copies_are_measured),
        cmocka_unit_test(the_host_path_covers_every_ordered_pair),
        cmocka_unit_test(each_fault_is_seen_on_its_gpu_only),
        cmocka_unit_test(a_hung_gpu_is_named_with_its_step),
        cmocka_unit_test(what_cuinit_refuses_is_told_apart),
        cmocka_unit_test(facts_say_that_they_are_simulated),
    };
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    fake_gpu_leave();
    return status;
}
