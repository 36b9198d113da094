/* The real agent over pipes: conversation, workers that hang or die, channels that close. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent_process.h"
#include "common/evidence.h"
#include "common/hash.h"
#include "validate/merkle.h"
#include "validate/sign.h"

enum { RESOURCES = 400 };

static struct agent_process agent;

static int start_idle(void **state)
{
    agent_make_tree(&agent, false);
    agent_start(&agent);
    return 0;
}

static int start_hanging(void **state)
{
    agent_make_tree(&agent, true);
    agent_start(&agent);
    return 0;
}

static int stop(void **state)
{
    agent_stop(&agent);
    return 0;
}

static void say_hello(void)
{
    json_decref(agent_hello(&agent));
}

static void start_inventory(int id, int deadline_ms)
{
    AUTO(free_str)
    char *line = str_printf(
        "{\"v\":1,\"id\":%d,\"op\":\"stage\",\"stage\":\"inventory\",\"deadline_ms\":%d}", id,
        deadline_ms);
    agent_send(&agent, line);
}

static void say_bye(int id)
{
    AUTO(free_str) char *line = str_printf("{\"v\":1,\"id\":%d,\"op\":\"bye\"}", id);
    agent_send(&agent, line);
    json_t *data = agent_data(&agent, id);
    AUTO(free_str) char *text = jsonx_canonical(data);
    assert_string_equal(text, "{\"left\":{\"files\":[],\"processes\":0}}");
    json_decref(data);
    assert_null(agent_line(&agent));
    assert_int_equal(agent_wait(&agent), 0);
}

/* --- conversation --------------------------------------------------------------------------- */

static void greets(void **state)
{
    static const char *const keys[] = {"version",       "sha256",   "node_key", "machine_id",
                                       "ssh_host_keys", "time_ms",  "boot_id",  "uid",
                                       "arch",          "manifest", "recovery"};
    json_t *data = agent_hello(&agent);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        assert_non_null(json_object_get(data, keys[i]));
    assert_int_equal(json_object_size(data), ARRAY_LEN(keys));
    struct hash digest;
    struct err err = {0};
    char hex[HASH_HEX_BYTES];
    assert_int_equal(hash_file(BIN_DIR "/muster-agent", &digest, &err), 0);
    hash_hex(&digest, hex);
    assert_string_equal(jsonx_str_or(data, "sha256", ""), hex);
    assert_string_equal(jsonx_str_or(data, "machine_id", ""), "0123456789abcdef0123456789abcdef");
    assert_string_equal(jsonx_str_or(data, "boot_id", ""), "boot");
    assert_true(json_is_null(json_object_get(data, "recovery")));
    json_decref(data);
    say_bye(2);
}

static void insists_on_order_and_form(void **state)
{
    agent_send(&agent, "{\"v\":1,\"id\":1,\"op\":\"facts\"}");
    agent_expect_error(&agent, 1, "usage", "facts: the first request must be hello");
    agent_send(&agent, "{\"v\":1,\"id\":2,\"op\":\"hello\",\"run\":\"r\",\"node\":\"a/b\"}");
    agent_expect_error(&agent, 2, "data",
                       "hello: node 'a/b' must be 1 to 253 letters, digits, '-', '.' and '_'");
    agent_send(&agent, "{\"v\":1,\"id\":2,\"op\":\"hello\",\"run\":\"\",\"node\":\"n\"}");
    agent_expect_error(&agent, 2, "data",
                       "hello: run '' must be 1 to 253 letters, digits, '-', '.' and '_'");
    agent_send(&agent,
               "{\"v\":1,\"id\":3,\"op\":\"hello\",\"run\":\"r\",\"node\":\"n\",\"seq\":-1}");
    agent_expect_error(&agent, 3, "data", "hello: seq -1 is negative");
    say_hello();
    agent_send(&agent, "{\"v\":1,\"id\":4,\"op\":\"hello\",\"run\":\"r\",\"node\":\"n\"}");
    agent_expect_error(&agent, 4, "usage", "hello: was said already, for run run1");
    agent_send(&agent, "{\"v\":1,\"id\":5,\"op\":\"destroy\"}");
    agent_expect_error(&agent, 5, "usage", "unknown op 'destroy'");
    agent_send(&agent, "{\"v\":1,\"id\":6,\"op\":\"facts\",\"fast\":true}");
    agent_expect_error(&agent, 6, "usage", "facts: unknown key 'fast'");
    agent_send(&agent, "{\"v\":1,\"op\":\"facts\"}");
    agent_expect_error(&agent, -1, "data", "request: key 'id' is missing (must be an integer)");
    agent_send(&agent,
               "{\"v\":1,\"id\":7,\"op\":\"stage\",\"stage\":\"nosuch\",\"deadline_ms\":1}");
    agent_expect_error(&agent, 7, "usage", "unknown stage 'nosuch'");
    start_inventory(8, 0);
    agent_expect_error(&agent, 8, "data", "stage: deadline_ms 0 must be 1 to 86400000");
    agent_send(&agent,
               "{\"v\":1,\"id\":9,\"op\":\"stage\",\"stage\":\"inventory\",\"params\":{\"x\":1},"
               "\"deadline_ms\":60000}");
    agent_expect_error(&agent, 9, "usage", "stage inventory: unknown key 'x'");
    agent_send(&agent, "{\"v\":1,\"id\":10,\"op\":\"go\",\"stage_id\":99,\"data\":{}}");
    agent_expect_error(&agent, 10, "data", "go: no stage with id 99 is running");
    agent_send(&agent, "{\"v\":1,\"id\":11,\"op\":\"cancel\",\"stage_id\":9}");
    agent_expect_error(&agent, 11, "data", "cancel: no stage with id 9 is running");
    say_bye(12);
}

static void answers_facts(void **state)
{
    say_hello();
    agent_send(&agent, "{\"v\":1,\"id\":2,\"op\":\"facts\"}");
    json_t *data = agent_data(&agent, 2);
    const json_t *facts = json_object_get(data, "facts");
    assert_string_equal(jsonx_str_or(facts, "machine_id", ""), "0123456789abcdef0123456789abcdef");
    json_decref(data);
    say_bye(3);
}

/* --- garbage -------------------------------------------------------------------------------- */

static void ends_on_garbage(void **state)
{
    say_hello();
    agent_send(&agent, "Segmentation fault");
    agent_expect_error(&agent, -1, "data", "request:1:12: '[' or '{' expected near 'Segmentation'");
    assert_null(agent_line(&agent));
    assert_int_equal(agent_wait(&agent), 2);
}

static void ends_on_a_line_over_the_limit(void **state)
{
    enum { BLOCK_BYTES = 65536, BLOCKS = 9 * 16 };
    static char block[BLOCK_BYTES];
    memset(block, 'x', sizeof block);
    say_hello();
    /* The agent may close while this is being written. */
    for (int i = 0; i < BLOCKS; i++)
        if (write(agent.in, block, sizeof block) < 0)
            break;
    agent_expect_error(&agent, -1, "data", "a line is longer than the limit of 8388608 bytes");
    assert_null(agent_line(&agent));
    assert_int_equal(agent_wait(&agent), 2);
}

/* --- evidence ------------------------------------------------------------------------------- */

static void check_record(const char *line, const struct sign_public *key, int64_t seq)
{
    struct err err = {0};
    json_t *record = NULL;
    size_t len = 0;
    assert_int_equal(jsonx_parse(line, strlen(line), "evidence", &record, &err), 0);
    assert_int_equal(evidence_check(record, &err), 0);
    AUTO(free_str) char *whole = jsonx_canonical(record);
    assert_string_equal(whole, line);
    assert_int_equal(jsonx_int_or(record, "seq", -1), seq);
    assert_string_equal(jsonx_str_or(record, "run", ""), "run1");
    assert_string_equal(jsonx_str_or(record, "node", ""), "n1");
    assert_string_equal(jsonx_str_or(record, "stage", ""), "inventory");
    uint8_t *sig = base64_decode(jsonx_str_or(record, "sig", ""), &len);
    assert_int_equal(len, SIGN_SIGNATURE_BYTES);
    json_object_del(record, "sig");
    AUTO(free_str) char *body = jsonx_canonical(record);
    assert_true(sign_verify_bytes(key, EVIDENCE_CONTEXT, body, strlen(body), sig));
    body[1] ^= 1;
    assert_false(sign_verify_bytes(key, EVIDENCE_CONTEXT, body, strlen(body), sig));
    free(sig);
    json_decref(record);
}

static void check_seal(const char *line, const struct hash leaves[], size_t count)
{
    struct err err = {0};
    json_t *record = NULL;
    char hex[HASH_HEX_BYTES];
    struct hash root = merkle_root(leaves, count);
    hash_hex(&root, hex);
    assert_int_equal(jsonx_parse(line, strlen(line), "seal", &record, &err), 0);
    assert_string_equal(jsonx_str_or(record, "quantity", ""), "seal");
    assert_string_equal(jsonx_str_or(record, "subject", ""), "n1");
    assert_string_equal(jsonx_str_or(json_object_get(record, "proof"), "root", ""), hex);
    assert_true(json_number_value(json_array_get(json_object_get(record, "samples"), 0)) ==
                (double)count);
    json_decref(record);
}

/* Runs the stage and checks every line; returns the next seq. */
static int64_t run_inventory(int id, const struct sign_public *key, int64_t seq)
{
    struct hash leaves[64];
    size_t count = 0;
    AUTO(free_str) char *last = NULL;
    start_inventory(id, 60000);
    for (;;) {
        json_t *line = agent_line(&agent);
        assert_non_null(line);
        bool done = json_object_get(line, "ok") != NULL;
        if (!done) {
            if (last)
                leaves[count - 1] = merkle_leaf(last, strlen(last));
            free_str(&last);
            last = str_dup(jsonx_str_or(line, "line", ""));
            check_record(last, key, seq++);
            count++;
            assert_true(count < ARRAY_LEN(leaves));
        }
        json_decref(line);
        if (done)
            break;
    }
    assert_true(count > 5);
    check_seal(last, leaves, count - 1);
    return seq;
}

static void signs_and_seals(void **state)
{
    struct sign_public key;
    agent_send(&agent,
               "{\"v\":1,\"id\":1,\"op\":\"hello\",\"run\":\"run1\",\"node\":\"n1\",\"seq\":40}");
    json_t *hello = agent_data(&agent, 1);
    assert_int_equal(sign_public_from_base64(jsonx_str_or(hello, "node_key", ""), &key), 0);
    json_decref(hello);
    int64_t seq = run_inventory(2, &key, 40);
    (void)run_inventory(3, &key, seq);
    say_bye(4);
}

/* --- workers that hang or die --------------------------------------------------------------- */

static void kills_at_the_deadline(void **state)
{
    say_hello();
    start_inventory(2, 50);
    agent_expect_error(&agent, 2, "timeout",
                       "stage 'inventory' passed its deadline of 50 ms and was killed");
    say_bye(3);
}

static void tells_how_a_worker_died(void **state)
{
    say_hello();
    start_inventory(2, 60000);
    assert_int_equal(kill(agent_worker(&agent), SIGABRT), 0);
    agent_expect_error(&agent, 2, "env", "stage 'inventory': its worker ended by signal SIGABRT");
    start_inventory(3, 60000);
    assert_int_equal(kill(agent_worker(&agent), SIGKILL), 0);
    agent_expect_error(&agent, 3, "env", "stage 'inventory': its worker ended by signal SIGKILL");
    say_bye(4);
}

static void works_on_while_a_stage_runs(void **state)
{
    say_hello();
    start_inventory(2, 60000);
    agent_send(&agent, "{\"v\":1,\"id\":3,\"op\":\"plan\",\"resources\":[]}");
    json_decref(agent_data(&agent, 3));
    agent_send(&agent, "{\"v\":1,\"id\":4,\"op\":\"go\",\"stage_id\":2,\"data\":{\"round\":1}}");
    json_decref(agent_data(&agent, 4));
    agent_send(&agent, "{\"v\":1,\"id\":2,\"op\":\"facts\"}");
    agent_expect_error(&agent, -1, "usage", "request id 2 is still in use");
    agent_send(&agent, "{\"v\":1,\"id\":5,\"op\":\"go\",\"stage_id\":5,\"data\":{}}");
    agent_expect_error(&agent, 5, "data", "go: no stage with id 5 is running");
    agent_send(&agent, "{\"v\":1,\"id\":6,\"op\":\"cancel\",\"stage_id\":2}");
    json_decref(agent_data(&agent, 6));
    agent_expect_error(&agent, 2, "env", "stage 'inventory' was cancelled by the controller");
    say_bye(7);
}

static void runs_no_more_than_it_can(void **state)
{
    enum { MAX_JOBS = 32 };
    say_hello();
    for (int i = 0; i <= MAX_JOBS; i++)
        start_inventory(10 + i, 60000);
    agent_expect_error(&agent, 10 + MAX_JOBS, "env", "32 requests are running already");
    agent_send(&agent, "{\"v\":1,\"id\":3,\"op\":\"bye\"}");
    for (int i = 0; i < MAX_JOBS; i++) {
        json_t *line = agent_line(&agent);
        assert_string_equal(jsonx_str_or(json_object_get(line, "error"), "text", ""),
                            "stage 'inventory' was ended because the agent closes");
        json_decref(line);
    }
    json_decref(agent_data(&agent, 3));
    assert_int_equal(agent_wait(&agent), 0);
}

static void finds_temporary_files(void **state)
{
    say_hello();
    agent_put(&agent, "/etc/nccl.conf.muster-Ab12cD", "");
    agent_put(&agent, "/var/lib/muster/node.key.muster-0badcafe", "");
    agent_put(&agent, "/var/lib/muster/agent/x/muster-agent.muster-zzzzzz", "");
    agent_put(&agent, "/var/lib/muster/agent/x/.up.a1b2c3", "");
    agent_put(&agent, "/etc/site.muster-notes", "");
    agent_send(&agent, "{\"v\":1,\"id\":2,\"op\":\"bye\"}");
    json_t *data = agent_data(&agent, 2);
    AUTO(free_str) char *text = jsonx_canonical(data);
    assert_string_equal(text, "{\"left\":{\"files\":["
                              "\"/var/lib/muster/node.key.muster-0badcafe\","
                              "\"/var/lib/muster/agent/x/.up.a1b2c3\","
                              "\"/var/lib/muster/agent/x/muster-agent.muster-zzzzzz\","
                              "\"/etc/nccl.conf.muster-Ab12cD\"],\"processes\":0}}");
    json_decref(data);
}

/* --- channels that close -------------------------------------------------------------------- */

static void ends_quietly_when_idle(void **state)
{
    say_hello();
    agent_close_input(&agent);
    assert_null(agent_line(&agent));
    assert_int_equal(agent_wait(&agent), 0);
}

/* Gone, or a zombie that waits for whoever inherited it. */
static bool is_gone(pid_t pid)
{
    AUTO(free_str) char *path = str_printf("/proc/%d/stat", (int)pid);
    AUTO(free_str) char *text = NULL;
    struct err err = {0};
    return fs_read(path, 65536, &text, NULL, &err) != 0 || strstr(text, ") Z ") != NULL;
}

static void expect_gone(pid_t worker)
{
    for (int64_t until = now_ms() + AGENT_PATIENCE_MS; now_ms() < until; poll(NULL, 0, 5))
        if (is_gone(worker))
            return;
    fail_msg("the worker outlives the agent");
}

static void ends_workers_when_the_channel_closes(void **state)
{
    say_hello();
    start_inventory(2, 60000);
    pid_t worker = agent_worker(&agent);
    agent_close_input(&agent);
    agent_expect_error(&agent, 2, "env", "stage 'inventory' was ended because the agent closes");
    assert_null(agent_line(&agent));
    assert_int_equal(agent_wait(&agent), 4);
    expect_gone(worker);
}

static void takes_sigterm_for_a_closed_channel(void **state)
{
    say_hello();
    start_inventory(2, 60000);
    pid_t worker = agent_worker(&agent);
    assert_int_equal(kill(agent.pid, SIGTERM), 0);
    agent_expect_error(&agent, 2, "env", "stage 'inventory' was ended because the agent closes");
    assert_int_equal(agent_wait(&agent), 4);
    expect_gone(worker);
}

static void stage_dies_with_a_killed_agent(void **state)
{
    int status = 0;
    say_hello();
    start_inventory(2, 60000);
    pid_t worker = agent_worker(&agent);
    assert_int_equal(kill(agent.pid, SIGKILL), 0);
    assert_int_equal(waitpid(agent.pid, &status, 0), agent.pid);
    agent.pid = 0;
    expect_gone(worker);
}

static void ends_when_nobody_reads(void **state)
{
    say_hello();
    close_fd(&agent.out);
    agent_send(&agent, "{\"v\":1,\"id\":2,\"op\":\"plan\",\"resources\":[]}");
    (void)agent_wait(&agent);
}

/* --- transactions --------------------------------------------------------------------------- */

/* Enough files that the transaction is under way when the test acts. */
static void start_apply(int id)
{
    json_t *resources = json_array();
    for (int i = 0; i < RESOURCES; i++) {
        AUTO(free_str) char *path = str_printf("/etc/muster-test/%03d.conf", i);
        json_array_append_new(resources,
                              json_pack("{s:s,s:s,s:s,s:{s:s}}", "kind", "file", "id", path,
                                        "playbook", "p", "params", "content", "x\n"));
    }
    json_t *request = json_pack("{s:i,s:i,s:s,s:s,s:o}", "v", 1, "id", id, "op", "apply", "txn",
                                "t1", "resources", resources);
    AUTO(free_str) char *line = jsonx_canonical(request);
    json_decref(request);
    agent_send(&agent, line);
}

/* Waits until the transaction has made a few files. */
static void await_progress(void)
{
    for (int i = 0; i < 5; i++) {
        json_t *line = agent_line(&agent);
        assert_string_equal(jsonx_str_or(line, "event", ""), "progress");
        assert_int_equal(jsonx_int_or(line, "n", 0), RESOURCES);
        json_decref(line);
    }
}

static size_t files_made(void)
{
    struct fs_root root;
    struct err err = {0};
    char **names = NULL;
    size_t count = 0;
    assert_int_equal(fs_root_open(&root, agent.dir, &err), 0);
    assert_int_equal(fs_list_at(&root, "/etc/muster-test", &names, &count, &err), 0);
    fs_list_free(names, count);
    return count;
}

static bool transaction_open(void)
{
    AUTO(free_str) char *path = agent_path(&agent, "/var/lib/muster/txn/open");
    return fs_exists(path);
}

static void applies(void **state)
{
    say_hello();
    start_apply(2);
    json_t *data = agent_data(&agent, 2);
    assert_string_equal(jsonx_str_or(data, "state", ""), "committed");
    const json_t *items = json_object_get(json_object_get(data, "manifest"), "items");
    assert_int_equal(json_array_size(items), RESOURCES);
    json_decref(data);
    assert_int_equal(files_made(), RESOURCES);
    agent_send(&agent, "{\"v\":1,\"id\":3,\"op\":\"rollback\",\"txn\":\"latest\"}");
    data = agent_data(&agent, 3);
    assert_string_equal(jsonx_str_or(data, "state", ""), "undone");
    json_decref(data);
    assert_int_equal(files_made(), 0);
    say_bye(4);
}

static void allows_one_transaction_at_a_time(void **state)
{
    say_hello();
    start_apply(2);
    await_progress();
    agent_send(&agent, "{\"v\":1,\"id\":3,\"op\":\"rollback\",\"txn\":\"latest\"}");
    agent_expect_error(&agent, 3, "env", "rollback: apply (id 2) is still running");
    json_decref(agent_data(&agent, 2));
    say_bye(4);
}

static void undoes_what_a_dead_worker_left(void **state)
{
    say_hello();
    start_apply(2);
    await_progress();
    assert_int_equal(kill(agent_worker(&agent), SIGKILL), 0);
    json_t *reply = agent_reply(&agent, 2);
    const char *text = jsonx_str_or(json_object_get(reply, "error"), "text", "");
    assert_true(str_has_prefix(
        text, "apply: its worker ended by signal SIGKILL; transaction t1 was broken off; "));
    json_decref(reply);
    assert_int_equal(files_made(), 0);
    assert_false(transaction_open());
    say_bye(3);
}

static void undoes_when_the_channel_closes(void **state)
{
    say_hello();
    start_apply(2);
    await_progress();
    agent_close_input(&agent);
    assert_int_equal(agent_wait(&agent), 4);
    assert_int_equal(files_made(), 0);
    assert_false(transaction_open());
}

static void undoes_when_bye_comes_too_early(void **state)
{
    say_hello();
    start_apply(2);
    await_progress();
    say_bye(3);
    assert_int_equal(files_made(), 0);
    assert_false(transaction_open());
}

/* The worker outlives the agent that was killed, and undoes by itself. */
static void worker_undoes_without_the_agent(void **state)
{
    int status = 0;
    say_hello();
    start_apply(2);
    await_progress();
    pid_t worker = agent_worker(&agent);
    assert_int_equal(kill(agent.pid, SIGKILL), 0);
    assert_int_equal(waitpid(agent.pid, &status, 0), agent.pid);
    agent.pid = 0;
    expect_gone(worker);
    assert_int_equal(files_made(), 0);
    assert_false(transaction_open());
}

/* Both die at once: the next hello finds the open transaction. */
static void next_hello_undoes(void **state)
{
    int status = 0;
    say_hello();
    start_apply(2);
    await_progress();
    pid_t worker = agent_worker(&agent);
    assert_int_equal(kill(worker, SIGSTOP), 0);
    assert_int_equal(kill(agent.pid, SIGKILL), 0);
    assert_int_equal(waitpid(agent.pid, &status, 0), agent.pid);
    agent.pid = 0;
    assert_int_equal(kill(worker, SIGKILL), 0);
    expect_gone(worker);
    assert_true(transaction_open());
    assert_true(files_made() > 0);
    close_fd(&agent.in);
    close_fd(&agent.out);
    protocol_reader_release(&agent.reader);
    agent_start(&agent);
    json_t *data = agent_hello(&agent);
    const json_t *recovery = json_object_get(data, "recovery");
    assert_string_equal(jsonx_str_or(recovery, "txn", ""), "t1");
    assert_string_equal(jsonx_str_or(recovery, "action", ""), "undone");
    json_decref(data);
    assert_int_equal(files_made(), 0);
    assert_false(transaction_open());
    say_bye(2);
}

#define IDLE(name) cmocka_unit_test_setup_teardown(name, start_idle, stop)
#define HANGING(name) cmocka_unit_test_setup_teardown(name, start_hanging, stop)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    if (access(BIN_DIR "/muster-agent", X_OK) != 0) {
        fprintf(stderr, "skipped: %s is not built\n", BIN_DIR "/muster-agent");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        IDLE(greets),
        IDLE(insists_on_order_and_form),
        IDLE(answers_facts),
        IDLE(ends_on_garbage),
        IDLE(ends_on_a_line_over_the_limit),
        IDLE(signs_and_seals),
        HANGING(kills_at_the_deadline),
        HANGING(tells_how_a_worker_died),
        HANGING(works_on_while_a_stage_runs),
        HANGING(runs_no_more_than_it_can),
        IDLE(finds_temporary_files),
        IDLE(ends_quietly_when_idle),
        HANGING(ends_workers_when_the_channel_closes),
        HANGING(takes_sigterm_for_a_closed_channel),
        HANGING(stage_dies_with_a_killed_agent),
        IDLE(ends_when_nobody_reads),
        IDLE(applies),
        IDLE(allows_one_transaction_at_a_time),
        IDLE(undoes_what_a_dead_worker_left),
        IDLE(undoes_when_the_channel_closes),
        IDLE(undoes_when_bye_comes_too_early),
        IDLE(worker_undoes_without_the_agent),
        IDLE(next_hello_undoes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
