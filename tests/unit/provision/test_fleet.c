/* Sessions of the fleet against real sshd processes: reaching, trusting, logging in, running. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "provision/fleet_lab.h"
#include "provision/hostkeys.h"

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

static void test_too_many_keys(void **state)
{
    char *key = str_printf("%s/other", lab.dir);
    struct fleet *f = one(&(struct setup){.identity = key}, "noisy");
    assert_int_equal(fleet_connect(f), 0);
    assert_failed(f, "auth-refused", ERR_REMOTE, "the node allows no more attempts (MaxAuthTries)");
    fleet_destroy(f);
    free(key);
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

static pid_t start_ssh_agent(const char *socket)
{
    pid_t pid = fork();
    if (pid == 0) {
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        execlp("ssh-agent", "ssh-agent", "-D", "-a", socket, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 500 && !fs_exists(socket); i++)
        usleep(10000);
    return pid;
}

static void test_ssh_agent(void **state)
{
    char *socket = str_printf("%s/agent.sock", lab.dir);
    char *config = str_printf("%s/config.agent", lab.dir);
    pid_t pid = start_ssh_agent(socket);
    assert_int_equal(lab_sh("SSH_AUTH_SOCK=%s ssh-add -q %s/id", socket, lab.dir), 0);
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
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    f = one(&(struct setup){.config = config}, "n1");
    assert_int_equal(fleet_connect(f), 0);
    assert_failed(f, "auth-refused", ERR_REMOTE, "does not answer");
    fleet_destroy(f);
    free(config);
    free(socket);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exec),          cmocka_unit_test(test_exec_limits),
        cmocka_unit_test(test_proxies),       cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_mute_server),   cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_unknown_key),   cmocka_unit_test(test_changed_key),
        cmocka_unit_test(test_revoked_key),   cmocka_unit_test(test_authority_only),
        cmocka_unit_test(test_scan),          cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_no_usable_key), cmocka_unit_test(test_too_many_keys),
        cmocka_unit_test(test_certificate),   cmocka_unit_test(test_ssh_agent),
    };
    LAB_MAIN_BODY(tests, argc, argv);
}
