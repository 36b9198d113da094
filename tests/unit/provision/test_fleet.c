/* The fleet against real sshd processes, with a small agent of its own that also misbehaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/hash.h"
#include "common/jsonx.h"
#include "provision/fleet.h"
#include "provision/hostkeys.h"
#include "provision/sshd_lab.h"

static struct lab lab;

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

struct setup {
    const char *known_hosts; /* NULL: the lab's */
    const char *identity, *config, *agent_dir;
    enum fleet_become become;
    unsigned connect_ms, keepalive_ms;
};

static struct fleet *fleet_of(const struct setup *setup, size_t count,
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

static struct fleet *one(const struct setup *setup, const char *name)
{
    return fleet_of(setup, 1, &(struct fleet_target){.name = name});
}

static void assert_connected(struct fleet *f, size_t count)
{
    size_t connected = fleet_connect(f);
    for (size_t i = 0; i < fleet_count(f); i++)
        if (connected != count && fleet_state(f, i) == FLEET_FAILED)
            print_message("%s: [%s] %s\n", fleet_name(f, i), fleet_cause(f, i),
                          fleet_error(f, i)->text);
    assert_int_equal(connected, count);
}

static void assert_failed(struct fleet *f, const char *cause, enum err_kind kind, const char *part)
{
    assert_int_equal(fleet_state(f, 0), FLEET_FAILED);
    if (strcmp(fleet_cause(f, 0), cause) != 0 || !strstr(fleet_error(f, 0)->text, part))
        fail_msg("cause '%s', text '%s'; expected cause '%s' and '%s' in the text",
                 fleet_cause(f, 0), fleet_error(f, 0)->text, cause, part);
    assert_int_equal(fleet_error(f, 0)->kind, kind);
}

static void assert_exec(struct fleet *f, const char *const argv[], const char *out)
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

/* --- connecting ----------------------------------------------------------------------------- */

static void test_exec(void **state)
{
    struct fleet *f =
        fleet_of(&(struct setup){0}, 2, (struct fleet_target[]){{.name = "n1"}, {.name = "n2"}});
    assert_connected(f, 2);
    assert_true(str_has_prefix(fleet_host_key(f, 0), "SHA256:"));
    /* n2 is known by its RSA key: that one was asked for although the server prefers ed25519. */
    assert_string_not_equal(fleet_host_key(f, 0), fleet_host_key(f, 1));
    const char *argv[] = {"printf", "%s|", "a b", "$(id)", "it's", "", NULL};
    assert_exec(f, argv, "a b|$(id)|it's||");
    struct fleet_output o[2];
    struct err err = {0};
    const char *status[] = {"sh", "-c", "echo out; echo err >&2; exit 7", NULL};
    assert_int_equal(fleet_exec(f, status, 60000, 65536, o, &err), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(o[i].done);
        assert_int_equal(o[i].status, 7);
        assert_string_equal(o[i].out, "out\n");
        assert_string_equal(o[i].errs, "err\n");
        fleet_output_release(&o[i]);
    }
    const char *killed[] = {"sh", "-c", "kill -KILL $$", NULL};
    assert_int_equal(fleet_exec(f, killed, 60000, 65536, o, &err), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(o[i].done);
        assert_int_equal(o[i].status, -1);
        assert_string_equal(o[i].signal, "KILL");
        fleet_output_release(&o[i]);
    }
    const char *nothing[] = {NULL};
    assert_int_equal(fleet_exec(f, nothing, 0, 1, o, &err), -1);
    assert_string_equal(err.text, "there is no command to run");
    fleet_destroy(f);
}

static void test_exec_limits(void **state)
{
    struct fleet *f = one(&(struct setup){0}, "n1");
    assert_connected(f, 1);
    struct fleet_output o;
    struct err err = {0};
    const char *big[] = {"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x", NULL};
    assert_int_equal(fleet_exec(f, big, 60000, 1000, &o, &err), 0);
    assert_true(o.done && o.cut);
    assert_int_equal(o.out_len, 1000);
    assert_int_equal(strlen(o.out), 1000);
    fleet_output_release(&o);
    assert_int_equal(fleet_exec(f, big, 60000, 4000000, &o, &err), 0);
    assert_true(o.done && !o.cut);
    assert_int_equal(o.out_len, 3000000);
    fleet_output_release(&o);
    const char *slow[] = {"sh", "-c", "echo begun; sleep 60", NULL};
    assert_int_equal(fleet_exec(f, slow, 700, 1000, &o, &err), 0);
    assert_false(o.done);
    assert_string_equal(o.out, "begun\n");
    fleet_output_release(&o);
    assert_int_equal(fleet_state(f, 0), FLEET_CONNECTED);
    assert_exec(f, (const char *[]){"echo", "still here", NULL}, "still here\n");
    fleet_destroy(f);
}

static void test_proxies(void **state)
{
    struct fleet *f = fleet_of(&(struct setup){0}, 2,
                               (struct fleet_target[]){{.name = "jumped"}, {.name = "proxied"}});
    assert_connected(f, 2);
    assert_exec(f, (const char *[]){"echo", "there", NULL}, "there\n");
    fleet_destroy(f);
    f = one(&(struct setup){0}, "badproxy");
    assert_int_equal(fleet_connect(f), 0);
    assert_failed(f, "unreachable", ERR_REMOTE, "the proxy says: cannot reach the jump host");
    fleet_destroy(f);
    f = fleet_of(&(struct setup){0}, 1,
                 &(struct fleet_target){.name = "proxied", .user = "a;reboot"});
    assert_int_equal(fleet_connect(f), 0);
    assert_failed(f, "unreachable", ERR_USAGE, "'a;reboot@127.0.0.1' cannot be used with a proxy");
    fleet_destroy(f);
}

static void test_unreachable(void **state)
{
    int port = lab_free_port();
    struct fleet *f =
        fleet_of(&(struct setup){0}, 1,
                 &(struct fleet_target){.name = "x", .host = "127.0.0.1", .port = port});
    assert_int_equal(fleet_connect(f), 0);
    char *want = str_printf("cannot connect to 127.0.0.1 port %d: Connection refused", port);
    assert_failed(f, "unreachable", ERR_REMOTE, want);
    free(want);
    fleet_destroy(f);
    f = fleet_of(&(struct setup){0}, 1,
                 &(struct fleet_target){.name = "x", .host = "no such.invalid"});
    assert_int_equal(fleet_connect(f), 0);
    assert_failed(f, "unreachable", ERR_REMOTE, "host name 'no such.invalid': ");
    fleet_destroy(f);
}

/* A server that accepts and says nothing: only the deadline ends it, and the others do not wait. */
static void test_mute_server(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    struct fleet *f = fleet_of(
        &(struct setup){.connect_ms = 5000}, 2,
        (struct fleet_target[]){{.name = "mute", .host = "127.0.0.1", .port = ntohs(a.sin_port)},
                                {.name = "n1"}});
    assert_connected(f, 1);
    assert_failed(f, "timeout", ERR_TIMEOUT,
                  "accepts connections, but the SSH key exchange did not end in 5 s");
    assert_int_equal(fleet_state(f, 1), FLEET_CONNECTED);
    fleet_destroy(f);
    close(fd);
}

static void test_bad_options(void **state)
{
    struct err err = {0};
    struct fleet_target twice[] = {{.name = "a"}, {.name = "b"}, {.name = "a"}};
    struct fleet_options options = {.ssh_config = lab.config};
    assert_null(fleet_create(twice, 3, &options, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, "node a is listed twice");
    err_clear(&err);
    options.identity = "/nonexistent/key";
    assert_null(fleet_create(twice, 1, &options, &err));
    assert_int_equal(err.kind, ERR_ENV);
    assert_string_equal(err.text, "private key /nonexistent/key does not exist");
    err_clear(&err);
    options = (struct fleet_options){.ssh_config = "/nonexistent/config"};
    assert_null(fleet_create(twice, 1, &options, &err));
    assert_int_equal(err.kind, ERR_ENV);
    assert_non_null(strstr(err.text, "/nonexistent/config"));
    err_clear(&err);
    char *open_key = str_printf("%s/open", lab.dir);
    lab_sh("cp %s/id %s && chmod 644 %s", lab.dir, open_key, open_key);
    options = (struct fleet_options){.ssh_config = lab.config, .identity = open_key};
    assert_null(fleet_create(twice, 1, &options, &err));
    assert_non_null(strstr(err.text, "can be read by others (chmod 600 it)"));
    free(open_key);
}

/* --- host keys ------------------------------------------------------------------------------ */

static void test_unknown_key(void **state)
{
    struct fleet *f = one(&(struct setup){.known_hosts = "/dev/null"}, "n1");
    assert_int_equal(fleet_connect(f), 0);
    assert_failed(f, "host-key-unknown", ERR_ENV, "run `muster enroll -w n1`");
    assert_non_null(strstr(fleet_error(f, 0)->text, fleet_host_key(f, 0)));
    fleet_destroy(f);
}

static void write_known(const char *name, const char *mark, const char *key)
{
    char *path = str_printf("%s/%s", lab.dir, name);
    lab_sh("printf '%s[127.0.0.1]:%d %%s\\n' \"$(cut -d' ' -f1,2 %s/%s.pub)\" >>%s", mark,
           lab.port[LAB_MAIN], lab.dir, key, path);
    free(path);
}

static void test_changed_key(void **state)
{
    write_known("changed", "", "other_host");
    char *path = str_printf("%s/changed", lab.dir);
    struct fleet *f = one(&(struct setup){.known_hosts = path}, "n1");
    assert_int_equal(fleet_connect(f), 0);
    char *part = str_printf("but %s:1 has ssh-ed25519 SHA256:", path);
    assert_failed(f, "host-key-changed", ERR_ENV, part);
    assert_non_null(strstr(fleet_error(f, 0)->text, "the node was reinstalled, or something else "
                                                    "answers at its address (an attack)"));
    assert_non_null(strstr(fleet_error(f, 0)->text, fleet_host_key(f, 0)));
    free(part);
    fleet_destroy(f);
    free(path);
}

static void test_revoked_key(void **state)
{
    write_known("revoked", "", "host_ed");
    write_known("revoked", "@revoked ", "host_ed");
    char *path = str_printf("%s/revoked", lab.dir);
    struct fleet *f = one(&(struct setup){.known_hosts = path}, "n1");
    assert_int_equal(fleet_connect(f), 0);
    assert_failed(f, "host-key-changed", ERR_ENV, "is marked @revoked in ");
    fleet_destroy(f);
    free(path);
}

static void test_authority_only(void **state)
{
    write_known("authority", "@cert-authority ", "ca");
    char *path = str_printf("%s/authority", lab.dir);
    struct fleet *f = one(&(struct setup){.known_hosts = path}, "n1");
    assert_int_equal(fleet_connect(f), 0);
    assert_failed(f, "host-key-unknown", ERR_ENV, "host certificates are not verified here");
    fleet_destroy(f);
    free(path);
}

static void test_scan(void **state)
{
    char *changed = str_printf("%s/changed", lab.dir);
    struct fleet *f = fleet_of(
        &(struct setup){.known_hosts = changed}, 3,
        (struct fleet_target[]){
            {.name = "n1"}, {.name = "strict"}, {.name = "x", .host = "127.0.0.1", .port = 1}});
    struct fleet_scanned r[3];
    assert_int_equal(fleet_scan(f, r), 2);
    assert_int_equal(r[0].state, FLEET_KEY_CHANGED);
    assert_string_equal(r[0].host, "127.0.0.1");
    assert_int_equal(r[0].port, lab.port[LAB_MAIN]);
    assert_string_equal(r[0].type, "ssh-ed25519");
    assert_true(str_has_prefix(r[0].known_fingerprint, "SHA256:"));
    assert_string_not_equal(r[0].known_fingerprint, r[0].fingerprint);
    assert_int_equal(r[1].state, FLEET_KEY_UNKNOWN); /* no login was needed */
    assert_null(r[2].base64);
    assert_int_equal(fleet_state(f, 0), FLEET_IDLE);
    assert_int_equal(fleet_state(f, 2), FLEET_FAILED);
    /* What the scan gave is what a connection then accepts. */
    char *path = str_printf("%s/enrolled", lab.dir);
    struct err err = {0};
    assert_int_equal(hostkeys_append(path, r[0].host, r[0].port, r[0].type, r[0].base64, &err), 0);
    for (int i = 0; i < 3; i++)
        fleet_scanned_release(&r[i]);
    fleet_destroy(f);
    f = one(&(struct setup){.known_hosts = path}, "n1");
    assert_connected(f, 1);
    fleet_destroy(f);
    free(path);
    free(changed);
}

/* --- login ---------------------------------------------------------------------------------- */

static void test_wrong_key(void **state)
{
    struct fleet *f = one(&(struct setup){0}, "strict");
    assert_int_equal(fleet_connect(f), 0);
    char *want = str_printf("127.0.0.1 refuses the login of %s: tried key %s/id; the node accepts "
                            "publickey",
                            lab.user, lab.dir);
    assert_failed(f, "auth-refused", ERR_REMOTE, want);
    free(want);
    fleet_destroy(f);
}

static void test_no_usable_key(void **state)
{
    char *config = str_printf("%s/config.locked", lab.dir);
    lab_sh("sed 's,IdentityFile .*,IdentityFile %s/locked,' %s >%s", lab.dir, lab.config, config);
    struct fleet *f = one(&(struct setup){.config = config}, "n1");
    assert_int_equal(fleet_connect(f), 0);
    assert_failed(f, "auth-refused", ERR_REMOTE,
                  "there is no key to offer; the node accepts publickey");
    assert_non_null(strstr(fleet_error(f, 0)->text, "locked needs a passphrase (`ssh-add` it)"));
    fleet_destroy(f);
    free(config);
}

static void test_certificate(void **state)
{
    char *key = str_printf("%s/certified", lab.dir);
    struct fleet *f = one(&(struct setup){.identity = key}, "n1");
    assert_connected(f, 1);
    fleet_destroy(f);
    /* The same key without its certificate is refused, so it was the certificate that counted. */
    char *config = str_printf("%s/config.bare", lab.dir), *bare = str_printf("%s/bare", lab.dir);
    lab_sh("cp %s %s && sed 's,IdentityFile .*,IdentityFile %s,' %s >%s", key, bare, bare,
           lab.config, config);
    f = one(&(struct setup){.config = config}, "n1");
    assert_int_equal(fleet_connect(f), 0);
    assert_failed(f, "auth-refused", ERR_REMOTE, "/bare");
    fleet_destroy(f);
    free(bare);
    free(config);
    free(key);
}

static void test_ssh_agent(void **state)
{
    char *socket = str_printf("%s/agent.sock", lab.dir),
         *config = str_printf("%s/config.agent", lab.dir);
    char *pid_file = str_printf("%s/agent.pid", lab.dir);
    assert_int_equal(lab_sh("ssh-agent -a %s >/dev/null && SSH_AUTH_SOCK=%s ssh-add -q %s/id",
                            socket, socket, lab.dir),
                     0);
    lab_sh("sed 's,IdentityAgent .*,IdentityAgent %s,; s,IdentityFile .*,IdentityFile %s/other,' "
           "%s >%s",
           socket, lab.dir, lab.config, config);
    struct fleet *f = one(&(struct setup){.config = config}, "n1");
    assert_connected(f, 1);
    fleet_destroy(f);
    lab_sh("SSH_AUTH_SOCK=%s ssh-add -q -D 2>/dev/null", socket);
    f = one(&(struct setup){.config = config}, "n1");
    assert_int_equal(fleet_connect(f), 0);
    assert_failed(f, "auth-refused", ERR_REMOTE, "the ssh-agent holds no key");
    fleet_destroy(f);
    free(pid_file);
    free(config);
    free(socket);
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
    int left = lab_sh("find %s -name '.up.*' | grep -q .", full);
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

static int group_up(void **state)
{
    return 0;
}

static int group_down(void **state)
{
    lab_sh("kill $(cat %s/agent.pid 2>/dev/null) 2>/dev/null", lab.dir);
    lab_down(&lab);
    return 0;
}

/* An argument chooses tests by a pattern with * and ?. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exec),
        cmocka_unit_test(test_exec_limits),
        cmocka_unit_test(test_proxies),
        cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_mute_server),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_unknown_key),
        cmocka_unit_test(test_changed_key),
        cmocka_unit_test(test_revoked_key),
        cmocka_unit_test(test_authority_only),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_no_usable_key),
        cmocka_unit_test(test_certificate),
        cmocka_unit_test(test_ssh_agent),
        cmocka_unit_test(test_agent),
        cmocka_unit_test(test_agent_is_stored_safely),
        cmocka_unit_test(test_wrong_hash),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_architecture),
        cmocka_unit_test(test_sudo),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_agent_does_not_start),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_silent_agent),
        cmocka_unit_test(test_frozen_node),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const char *why = NULL;
    if (lab_up(&lab, &why) < 0) {
        fprintf(stderr, "skipped: %s\n", why);
        lab_down(&lab);
        return 77;
    }
    return cmocka_run_group_tests(tests, group_up, group_down);
}
