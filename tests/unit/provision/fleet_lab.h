/* What the tests of the fleet share: a lab of real sshd processes, and how its failures are told.
 */
#ifndef MUSTER_TESTS_FLEET_LAB_H
#define MUSTER_TESTS_FLEET_LAB_H

#include "provision/fleet.h"
#include "provision/sshd_lab.h"

static struct lab lab;

struct setup {
    const char *known_hosts; /* NULL: the lab's */
    const char *identity, *config, *agent_dir;
    enum fleet_become become;
    unsigned connect_ms, keepalive_ms;
};

static inline struct fleet *fleet_of(const struct setup *setup, size_t count,
                                     const struct fleet_target *targets)
{
    const char *hosts[] = {setup->known_hosts ? setup->known_hosts : lab.known_hosts, NULL};
    struct fleet_options options = {
        .ssh_config = setup->config ? setup->config : lab.config,
        .identity = setup->identity,
        .known_hosts = hosts,
        .become = setup->become,
        .connect_timeout_ms = setup->connect_ms ? setup->connect_ms : 30000,
        .keepalive_ms = setup->keepalive_ms,
        .agent_dir = setup->agent_dir ? setup->agent_dir : lab.agent_dir,
    };
    struct err err = {0};
    struct fleet *f = fleet_create(targets, count, &options, &err);
    if (!f)
        fail_msg("fleet_create: %s", err.text);
    return f;
}

static inline struct fleet *one(const struct setup *setup, const char *name)
{
    return fleet_of(setup, 1, &(struct fleet_target){.name = name});
}

static inline void assert_connected(struct fleet *f, size_t count)
{
    size_t connected = fleet_connect(f);
    for (size_t i = 0; i < fleet_count(f); i++)
        if (connected != count && fleet_state(f, i) == FLEET_FAILED)
            print_message("%s: [%s] %s\n", fleet_name(f, i), fleet_cause(f, i),
                          fleet_error(f, i)->text);
    assert_int_equal(connected, count);
}

static inline void assert_failed(struct fleet *f, const char *cause, enum err_kind kind,
                                 const char *part)
{
    assert_int_equal(fleet_state(f, 0), FLEET_FAILED);
    if (strcmp(fleet_cause(f, 0), cause) != 0 || !strstr(fleet_error(f, 0)->text, part))
        fail_msg("cause '%s', text '%s'; expected cause '%s' and '%s' in the text",
                 fleet_cause(f, 0), fleet_error(f, 0)->text, cause, part);
    assert_int_equal(fleet_error(f, 0)->kind, kind);
}

static inline void assert_exec(struct fleet *f, const char *const argv[], const char *out)
{
    size_t count = fleet_count(f);
    struct fleet_output *outputs = mem_zero(count, sizeof *outputs);
    struct err err = {0};
    assert_int_equal(fleet_exec(f, argv, 60000, 65536, outputs, &err), 0);
    for (size_t i = 0; i < count; i++) {
        assert_true(outputs[i].done);
        assert_int_equal(outputs[i].status, 0);
        assert_string_equal(outputs[i].out, out);
        fleet_output_release(&outputs[i]);
    }
    free(outputs);
}

static inline int lab_end(void **state)
{
    lab_down(&lab);
    return 0;
}

/* Runs the tests, or those that argv[1] names with * and ?, in a fresh lab. */
#define LAB_MAIN_BODY(tests, argc, argv)                                                           \
    do {                                                                                           \
        const char *why_ = NULL;                                                                   \
        if ((argc) > 1)                                                                            \
            cmocka_set_test_filter((argv)[1]);                                                     \
        if (lab_up(&lab, &why_) < 0) {                                                             \
            fprintf(stderr, "skipped: %s\n", why_);                                                \
            lab_down(&lab);                                                                        \
            return 77;                                                                             \
        }                                                                                          \
        return cmocka_run_group_tests(tests, NULL, lab_end);                                       \
    } while (0)

#endif
