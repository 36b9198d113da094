/* ssh_config: vectors, and OpenSSH itself (`ssh -G`) as the judge of the same files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/util.h"
#include "provision/sshconfig.h"

static const char sample[] = "# comment\n"
                             "User global\n"
                             "Host gpu001 gpu002\n"
                             "  HostName 10.0.0.1\n"
                             "Host gpu*,!x\n" /* commas do not separate patterns of Host */
                             "  Port 1\n"
                             "Host gpu* !gpu002\n"
                             "  Port 2222\n"
                             "  IdentityFile /k/first\n"
                             "Host \"gpu*\"\n"
                             "  Port=3333\n"
                             "  IdentityFile \"/k/with blank\" # comment\n"
                             "  IdentityFile /k/%h-%r-%n\n"
                             "Match host 10.0.0.* user global\n"
                             "  ProxyJump hop@bastion:2200\n"
                             "Match originalhost login !user global\n"
                             "  HostName never\n"
                             "Match all\n"
                             "  UserKnownHostsFile /h/a /h/b\n"
                             "  UserKnownHostsFile /h/c\n"
                             "  HostKeyAlias alias-of-%n\n"
                             "Host login\n"
                             "  HostName %h.example.org\n"
                             "  ProxyCommand nc -X \"5\" %h %p # not a comment\n"
                             "  ProxyJump ignored\n";

static const struct {
    const char *alias, *user;
    int port;
    const char *host, *want_user;
    int want_port;
    const char *identities, *jump, *command;
} vectors[] = {
    {"gpu001", NULL, 0, "10.0.0.1", "global", 2222,
     "/k/first|/k/with blank|/k/10.0.0.1-global-gpu001", "hop@bastion:2200", NULL},
    {"gpu002", NULL, 0, "10.0.0.1", "global", 3333, "/k/with blank|/k/10.0.0.1-global-gpu002",
     "hop@bastion:2200", NULL},
    {"gpu003", "ops", 44, "gpu003", "ops", 44, "/k/first|/k/with blank|/k/gpu003-ops-gpu003", NULL,
     NULL},
    {"login", NULL, 0, "login.example.org", "global", 22, "", NULL,
     "nc -X \"5\" %h %p # not a comment"},
};

static char *join(char *const *list)
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    for (size_t i = 0; list && list[i]; i++)
        strbuf_printf(&out, "%s%s", i ? "|" : "", list[i]);
    return out.data;
}

static void assert_same(const char *a, const char *b)
{
    assert_string_equal(a ? a : "(none)", b ? b : "(none)");
}

static void test_vectors(void **state)
{
    struct err err = {0};
    struct sshconfig *c = sshconfig_parse(sample, strlen(sample), &err);
    assert_non_null(c);
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct sshconfig_host h;
        assert_int_equal(
            sshconfig_resolve(c, vectors[i].alias, vectors[i].user, vectors[i].port, &h, &err), 0);
        assert_string_equal(h.host, vectors[i].host);
        assert_same(h.user, vectors[i].want_user);
        assert_int_equal(h.port, vectors[i].want_port);
        char *files = join(sshconfig_list(&h, SSHCONFIG_IDENTITY_FILE));
        assert_string_equal(files, vectors[i].identities);
        free(files);
        files = join(sshconfig_list(&h, SSHCONFIG_USER_KNOWN_HOSTS));
        assert_string_equal(files, "/h/a|/h/b");
        free(files);
        assert_same(h.value[SSHCONFIG_PROXY_JUMP], vectors[i].jump);
        assert_same(h.value[SSHCONFIG_PROXY_COMMAND], vectors[i].command);
        sshconfig_host_release(&h);
    }
    sshconfig_destroy(c);
}

static const struct {
    const char *text, *error;
} bad[] = {
    {"Host a\nIdentityFile \"open\n", "ssh config:2: a \" is not closed"},
    {"Port\n", "ssh config:1: Port has no value"},
};

static void test_bad(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        assert_null(sshconfig_parse(bad[i].text, strlen(bad[i].text), &err));
        assert_int_equal(err.kind, ERR_DATA);
        assert_string_equal(err.text, bad[i].error);
    }
    struct err err = {0};
    struct sshconfig *c = sshconfig_parse("Port 22x\n", 9, &err);
    struct sshconfig_host h;
    assert_int_equal(sshconfig_resolve(c, "n", NULL, 0, &h, &err), -1);
    assert_true(str_has_prefix(err.text, "ssh config: Port for n: '22x'"));
    sshconfig_destroy(c);
}

static void test_includes(void **state)
{
    char dir[] = "/tmp/muster-sshconfig-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *main_file = str_printf("%s/main", dir);
    const struct {
        const char *name, *text;
    } files[] = {
        {"main", "Host gpu*\n  Include DIR/inc.d/*.conf\n  User outer\nInclude DIR/all\n"},
        {"inc.d/a.conf", "Port 10\nHost gpu2\n  Port 20\n  User inner\n"},
        {"inc.d/b.conf", "HostName from-b\n"},
        {"all", "HostName late\nPort 99\n"},
    };
    char *sub = str_printf("%s/inc.d", dir);
    struct err err = {0};
    assert_int_equal(fs_mkdirs(sub, 0755, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char *path = str_printf("%s/%s", dir, files[i].name);
        FILE *f = fopen(path, "w");
        for (const char *p = files[i].text; *p; p++) {
            if (str_has_prefix(p, "DIR")) {
                fputs(dir, f);
                p += 2;
            } else {
                fputc(*p, f);
            }
        }
        fclose(f);
        free(path);
    }
    struct sshconfig *c = sshconfig_load(main_file, &err);
    assert_non_null(c);
    struct sshconfig_host h;
    assert_int_equal(sshconfig_resolve(c, "gpu2", NULL, 0, &h, &err), 0);
    assert_string_equal(h.host, "from-b");
    assert_int_equal(h.port, 10); /* the first value wins */
    assert_string_equal(h.user, "inner");
    sshconfig_host_release(&h);
    /* An Include after a Host line belongs to that block. */
    assert_int_equal(sshconfig_resolve(c, "login", NULL, 0, &h, &err), 0);
    assert_string_equal(h.host, "login");
    assert_int_equal(h.port, 22);
    assert_null(h.user);
    sshconfig_host_release(&h);
    sshconfig_destroy(c);
    FILE *f = fopen(main_file, "w");
    fprintf(f, "Include %s\n", main_file);
    fclose(f);
    assert_null(sshconfig_load(main_file, &err));
    assert_non_null(strstr(err.text, "more than 16 files include each other"));
    assert_int_equal(fs_remove_tree(dir, &err) | 0, 0);
    free(sub);
    free(main_file);
}

/* One value of `ssh -G`, e.g. "hostname"; lists are joined with |. */
static char *judge(const char *file, const char *alias, const char *key)
{
    char *command = str_printf("ssh -G -F %s %s 2>/dev/null", file, alias);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    char line[4096];
    size_t len = strlen(key);
    while (fgets(line, sizeof line, p)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            strbuf_printf(&out, "%s%s", out.len ? "|" : "", line + len + 1);
    }
    assert_int_equal(pclose(p), 0);
    free(command);
    return out.data;
}

static void test_as_openssh(void **state)
{
    if (system("ssh -V >/dev/null 2>&1") != 0)
        fail_msg("openssh-client is needed for this test");
    char path[] = "/tmp/muster-sshconfig-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, sample, strlen(sample)), strlen(sample));
    close(fd);
    struct err err = {0};
    struct sshconfig *c = sshconfig_load(path, &err);
    assert_non_null(c);
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct sshconfig_host h;
        assert_int_equal(sshconfig_resolve(c, vectors[i].alias, NULL, 0, &h, &err), 0);
        char *host = judge(path, vectors[i].alias, "hostname");
        char *port = judge(path, vectors[i].alias, "port");
        char *user = judge(path, vectors[i].alias, "user");
        char *hosts = judge(path, vectors[i].alias, "userknownhostsfile");
        char *ours = str_printf("%d", h.port),
             *files = join(sshconfig_list(&h, SSHCONFIG_USER_KNOWN_HOSTS));
        assert_string_equal(h.host, host);
        assert_string_equal(ours, port);
        assert_string_equal(h.user, user);
        assert_string_equal(files, "/h/a|/h/b");
        assert_string_equal(hosts, "/h/a /h/b");
        free(files);
        free(ours);
        free(hosts);
        free(user);
        free(port);
        free(host);
        sshconfig_host_release(&h);
    }
    sshconfig_destroy(c);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_includes),
        cmocka_unit_test(test_as_openssh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
