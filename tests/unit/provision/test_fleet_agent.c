/* The agent of the fleet through real sshd processes: a small agent in shell, which also
 * misbehaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/hash.h"
#include "common/jsonx.h"
#include "provision/fleet_lab.h"

/* An agent in shell: answers hello with its own hash and does what `op` says. */
static const char agent_script[] =
    "#!/bin/sh\n"
    "reply() { printf '{\"v\":1,\"id\":%%s,\"ok\":true,\"data\":%%s}\\n' \"$id\" \"$1\"; }\n"
    "while IFS= read -r line; do\n"
    "  id=$(printf %%s \"$line\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/')\n"
    "  op=$(printf %%s \"$line\" | sed 's/.*\"op\":\"\\([a-z]*\\)\".*/\\1/')\n"
    "  case $op in\n"
    "  hello) %s; set -- $(sha256sum \"$0\")\n"
    "    reply '{\"sha256\":\"'\"$1\"'\",\"version\":\"test\"}';;\n"
    "  echo) reply '{\"echo\":1}';;\n"
    "  refuse) printf '{\"v\":1,\"id\":%%s,\"ok\":false,\"error\":{\"kind\":\"env\",\"text\":\"no "
    "such "
    "module\"}}\\n' $id;;\n"
    "  count) for i in 1 2 3; do printf '{\"v\":1,\"id\":%%s,\"event\":\"progress\",\"i\":%%s}\\n' "
    "$id "
    "$i; done; reply '{}';;\n"
    "  wait) waited=$id;;\n"
    "  go) reply '{}'; id=$waited; reply '{\"went\":1}';;\n"
    "  garbage) printf 'Segmentation\\001 fault\\n';;\n"
    "  wrongid) id=999; reply '{}';;\n"
    "  extra) printf '{\"v\":1,\"id\":%%s,\"ok\":true,\"data\":{},\"x\":1}\\n' $id;;\n"
    "  endless) yes | tr -d '\\n';;\n"
    "  die) echo 'out of cheese' >&2; exit 3;;\n"
    "  killed) kill -KILL $$;;\n"
    "  silent) sleep 60;;\n"
    "  freeze) (sleep 8; kill -CONT $PPID) >/dev/null 2>&1 </dev/null & kill -STOP $PPID;;\n"
    "  bye) reply '{\"left\":{\"processes\":0,\"files\":[]}}'; exit 0;;\n"
    "  esac\n"
    "done\n";

static void write_agent(const char *in_hello)
{
    char *name = strrchr(lab.agent, '/') + 1;
    lab_write(&lab, name, 0644, agent_script, in_hello);
}

/* --- the agent ------------------------------------------------------------------------------ */

static json_t *start(struct fleet *f, const char *arch)
{
    struct fleet_agent_image image = {.arch = arch, .path = lab.agent};
    json_t *reply = NULL;
    fleet_start_agents(f, &image, 1, "20260101T000000Z-abcd", NULL, 60000, &reply);
    return reply;
}

static struct fleet *with_agent(const struct setup *setup, const char *name)
{
    struct fleet *f = one(setup, name);
    assert_connected(f, 1);
    json_t *hello = start(f, lab.arch);
    if (!hello)
        fail_msg("[%s] %s", fleet_cause(f, 0), fleet_error(f, 0)->text);
    struct hash h;
    struct err err = {0};
    char hex[HASH_HEX_BYTES];
    assert_int_equal(hash_file(lab.agent, &h, &err), 0);
    hash_hex(&h, hex);
    assert_string_equal(jsonx_str_or(hello, "sha256", ""), hex);
    assert_int_equal(fleet_state(f, 0), FLEET_AGENT);
    json_decref(hello);
    return f;
}

struct events {
    size_t count, ticks;
    bool go;
};

static void on_event(void *ctx, struct fleet *f, size_t node, const json_t *event)
{
    struct events *e = ctx;
    e->count++;
    assert_string_equal(jsonx_str_or(event, "event", ""), "progress");
    assert_int_equal(jsonx_int_or(event, "i", 0), e->count);
}

static void on_tick(void *ctx, struct fleet *f, size_t pending)
{
    struct events *e = ctx;
    e->ticks++;
    if (!e->go || pending == 0)
        return;
    e->go = false;
    assert_true(fleet_request_id(f, 0) > 0);
    json_t *go = json_pack("{s:s,s:I}", "op", "go", "stage_id", (json_int_t)fleet_request_id(f, 0));
    fleet_send(f, 0, go);
    json_decref(go);
}

static json_t *call(struct fleet *f, const char *op, unsigned timeout_ms, struct events *events,
                    struct err *err)
{
    json_t *request = json_pack("{s:s}", "op", op), *reply = NULL;
    struct events none = {0};
    struct fleet_call c = {.requests = &request,
                           .replies = &reply,
                           .errors = err,
                           .timeout_ms = timeout_ms,
                           .on_event = on_event,
                           .on_tick = on_tick,
                           .ctx = events ? events : &none};
    fleet_call(f, &c);
    json_decref(request);
    return reply;
}

static void bye(struct fleet *f)
{
    json_t *left = NULL;
    fleet_bye(f, 10000, &left);
    assert_non_null(json_object_get(left, "left"));
    json_decref(left);
    assert_int_equal(fleet_state(f, 0), FLEET_CONNECTED);
}

static void test_agent(void **state)
{
    write_agent(":");
    struct fleet *f = with_agent(&(struct setup){0}, "n1");
    struct err err = {0};
    struct events events = {0};
    json_t *reply = call(f, "echo", 10000, NULL, &err);
    assert_int_equal(jsonx_int_or(reply, "echo", 0), 1);
    json_decref(reply);
    reply = call(f, "count", 10000, &events, &err);
    assert_non_null(reply);
    assert_int_equal(events.count, 3);
    json_decref(reply);
    assert_null(call(f, "refuse", 10000, NULL, &err));
    assert_int_equal(err.kind, ERR_ENV);
    assert_string_equal(err.text, "no such module");
    events = (struct events){.go = true};
    reply = call(f, "wait", 10000, &events, &err);
    assert_int_equal(jsonx_int_or(reply, "went", 0), 1);
    assert_true(events.ticks > 0);
    json_decref(reply);
    /* A command beside the running agent. */
    assert_exec(f, (const char *[]){"echo", "beside", NULL}, "beside\n");
    bye(f);
    /* The second time nothing is uploaded: the file is the same one. */
    char *before = str_printf("ls -i %s/*/muster-agent >%s/inode1", lab.agent_dir, lab.dir);
    assert_int_equal(system(before), 0);
    json_t *hello = start(f, lab.arch);
    assert_non_null(hello);
    json_decref(hello);
    assert_int_equal(lab_sh("ls -i %s/*/muster-agent | cmp - %s/inode1", lab.agent_dir, lab.dir),
                     0);
    bye(f);
    fleet_destroy(f);
    free(before);
}

static void test_agent_is_stored_safely(void **state)
{
    write_agent("true 1");
    struct fleet *f = with_agent(&(struct setup){0}, "n1");
    bye(f);
    assert_int_equal(
        lab_sh("cd %s/* 2>/dev/null; for d in %s/*; do test \"$(stat -c '%%a' $d)\" = 755 || "
               "exit 1; test \"$(stat -c '%%a %%h' $d/muster-agent)\" = '755 1' || exit 1; "
               "test -z \"$(find $d -name '.up.*')\" || exit 1; done",
               lab.agent_dir, lab.agent_dir),
        0);
    /* Altered behind our back, with the same size: uploaded again. */
    assert_int_equal(
        lab_sh("for f in %s/*/muster-agent; do sed -i 's/true 1/true 2/' $f; done", lab.agent_dir),
        0);
    json_t *hello = start(f, lab.arch);
    assert_non_null(hello);
    json_decref(hello);
    assert_int_equal(lab_sh("grep -L 'true 1' %s/*/muster-agent | xargs -r grep -l 'true 2'",
                            lab.agent_dir) == 0,
                     0);
    bye(f);
    /* A directory that others can write is not used. */
    char *open_dir = str_printf("%s/open_store", lab.dir);
    assert_int_equal(mkdir(open_dir, 0777) | chmod(open_dir, 0777), 0);
    fleet_destroy(f);
    f = one(&(struct setup){.agent_dir = open_dir}, "n1");
    assert_connected(f, 1);
    assert_null(start(f, lab.arch));
    assert_failed(f, "agent-start-failed", ERR_REMOTE, "that nobody else can write");
    fleet_destroy(f);
    free(open_dir);
}

static void test_wrong_hash(void **state)
{
    /* It lies about itself, so the second upload does not help. */
    write_agent("reply '{\"sha256\":\"00\"}'; continue");
    struct fleet *f = one(&(struct setup){0}, "n1");
    assert_connected(f, 1);
    assert_null(start(f, lab.arch));
    assert_failed(f, "agent-hash", ERR_REMOTE, "reports sha256 00 instead of ");
    assert_non_null(strstr(fleet_error(f, 0)->text, "also after a second upload"));
    fleet_destroy(f);
}

static void test_noise(void **state)
{
    write_agent(":");
    struct fleet *f = with_agent(&(struct setup){0}, "noisy");
    bye(f);
    fleet_destroy(f);
}

static void test_architecture(void **state)
{
    write_agent(":");
    struct fleet *f = one(&(struct setup){0}, "n1");
    assert_connected(f, 1);
    assert_null(start(f, "riscv64"));
    char *want = str_printf(
        "the node's architecture is %s, but there is a muster-agent for riscv64 only", lab.arch);
    assert_failed(f, "agent-arch", ERR_REMOTE, want);
    free(want);
    fleet_destroy(f);
}

static void test_sudo(void **state)
{
    write_agent(":");
    static const struct {
        const char *node, *text;
    } rows[] = {
        {"sudoer", "may not become root: sudo: a password is required"},
        {"nosudo", "sudo: not found"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fleet *f = one(&(struct setup){.become = FLEET_BECOME_SUDO}, rows[i].node);
        assert_connected(f, 1);
        assert_null(start(f, lab.arch));
        assert_failed(f, "sudo-refused", ERR_REMOTE, rows[i].text);
        fleet_destroy(f);
    }
    /* root itself needs none. */
    if (getuid() == 0) {
        struct fleet *f = with_agent(&(struct setup){.become = FLEET_BECOME_SUDO}, "n1");
        bye(f);
        fleet_destroy(f);
    }
}

static void test_disk_full(void **state)
{
    char *full = str_printf("%s/full", lab.dir);
    mkdir(full, 0755);
    if (getuid() != 0 ||
        lab_sh("mount -t tmpfs -o size=16k,mode=755 none %s 2>/dev/null", full) != 0) {
        print_message("no tmpfs can be mounted here: the full disk is not tried\n");
        free(full);
        skip();
    }
    lab_sh("head -c 12000 /dev/zero >%s/filler; (cat %s; head -c 100000 /dev/zero) >%s/big.sh",
           full, lab.agent, lab.dir);
    char *big = str_printf("%s/big.sh", lab.dir);
    struct fleet *f = one(&(struct setup){.agent_dir = full}, "n1");
    assert_connected(f, 1);
    json_t *reply = NULL;
    fleet_start_agents(f, &(struct fleet_agent_image){.arch = lab.arch, .path = big}, 1, "r", NULL,
                       60000, &reply);
    /* The node's shell says why it ends and then takes its temporary away. */
    int left = 0;
    for (int tries = 0; tries < 500 && left == 0; tries++) {
        left = lab_sh("find %s -name '.up.*' | grep -q .", full);
        if (left == 0)
            usleep(10000);
    }
    lab_sh("umount %s", full);
    assert_null(reply);
    assert_failed(f, "disk-full", ERR_REMOTE, "No space left on device");
    assert_non_null(strstr(fleet_error(f, 0)->text, full));
    assert_int_not_equal(left, 0);
    fleet_destroy(f);
    free(big);
    free(full);
}

static void test_agent_does_not_start(void **state)
{
    write_agent("echo 'error while loading shared libraries' >&2; exit 127");
    struct fleet *f = one(&(struct setup){0}, "n1");
    assert_connected(f, 1);
    assert_null(start(f, lab.arch));
    assert_failed(
        f, "agent-start-failed", ERR_REMOTE,
        "the agent ended with status 127 before it answered hello: error while loading shared "
        "libraries");
    fleet_destroy(f);
}

/* --- an agent that misbehaves --------------------------------------------------------------- */

static const struct {
    const char *op, *cause;
    enum err_kind kind;
    const char *text;
} faults[] = {
    {"garbage", "protocol", ERR_DATA,
     "the agent's answer is not JSON: \"Segmentation\\x01 fault\""},
    {"wrongid", "protocol", ERR_DATA, "has an id that was never asked: \"{\"v\":1,\"id\":999"},
    {"extra", "protocol", ERR_DATA, "is not a reply of protocol version 1"},
    {"endless", "protocol", ERR_DATA,
     "the agent sent a line of more than 8 MiB, beginning with \"yyyyyyyy"},
    {"die", "node-lost", ERR_REMOTE, "the agent ended with status 3: out of cheese"},
    {"killed", "node-lost", ERR_REMOTE, "the agent was killed by SIGKILL"},
};

static void test_faults(void **state)
{
    write_agent(":");
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        struct fleet *f = with_agent(&(struct setup){0}, "n1");
        struct err err = {0};
        assert_null(call(f, faults[i].op, 60000, NULL, &err));
        assert_failed(f, faults[i].cause, faults[i].kind, faults[i].text);
        assert_int_equal(err.kind, faults[i].kind);
        assert_string_equal(err.text, fleet_error(f, 0)->text);
        /* A failed node answers later calls with the same error at once. */
        assert_null(call(f, "echo", 60000, NULL, &err));
        assert_string_equal(err.text, fleet_error(f, 0)->text);
        fleet_destroy(f);
    }
}

static void test_silent_agent(void **state)
{
    write_agent(":");
    struct fleet *f = with_agent(&(struct setup){0}, "n1");
    struct err err = {0};
    assert_null(call(f, "silent", 800, NULL, &err));
    assert_int_equal(err.kind, ERR_TIMEOUT);
    assert_string_equal(err.text, "no answer to silent in 0.8 s");
    assert_int_equal(fleet_state(f, 0), FLEET_AGENT);
    fleet_destroy(f);
}

/* sshd stopped: TCP still acknowledges, so only an unanswered keepalive shows it.  The other node,
 * just as silent but alive, is not taken for lost. */
static void test_frozen_node(void **state)
{
    write_agent(":");
    struct fleet *f = fleet_of(&(struct setup){.keepalive_ms = 2000}, 2,
                               (struct fleet_target[]){{.name = "n1"}, {.name = "n2"}});
    assert_connected(f, 2);
    struct fleet_agent_image image = {.arch = lab.arch, .path = lab.agent};
    json_t *replies[2] = {NULL, NULL};
    assert_int_equal(fleet_start_agents(f, &image, 1, "r", NULL, 60000, replies), 2);
    json_decref(replies[0]);
    json_decref(replies[1]);
    json_t *requests[2] = {json_pack("{s:s}", "op", "freeze"), json_pack("{s:s}", "op", "silent")};
    struct err errors[2] = {{0}, {0}};
    fleet_call(f,
               &(struct fleet_call){
                   .requests = requests, .replies = replies, .errors = errors, .timeout_ms = 6000});
    assert_failed(f, "node-lost", ERR_REMOTE, "does not answer keepalives");
    assert_int_equal(errors[0].kind, ERR_REMOTE);
    assert_int_equal(errors[1].kind, ERR_TIMEOUT);
    assert_int_equal(fleet_state(f, 1), FLEET_AGENT);
    json_decref(requests[0]);
    json_decref(requests[1]);
    fleet_destroy(f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agent),        cmocka_unit_test(test_agent_is_stored_safely),
        cmocka_unit_test(test_wrong_hash),   cmocka_unit_test(test_noise),
        cmocka_unit_test(test_architecture), cmocka_unit_test(test_sudo),
        cmocka_unit_test(test_disk_full),    cmocka_unit_test(test_agent_does_not_start),
        cmocka_unit_test(test_faults),       cmocka_unit_test(test_silent_agent),
        cmocka_unit_test(test_frozen_node),
    };
    LAB_MAIN_BODY(tests, argc, argv);
}
