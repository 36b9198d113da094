/* known_hosts: names, patterns, hashes and marks; ssh-keygen judges the hashed form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/util.h"
#include "provision/hostkeys.h"

/* Fixed keys: only their form matters here. */
#define ED_A "AAAAC3NzaC1lZDI1NTE5AAAAILjckeEImp7zY/e4JtDL8mrN6ZDijBUWViBNxa42IyFi"
#define ED_B "AAAAC3NzaC1lZDI1NTE5AAAAID3zIzkdVXuVRFyVb2IsNR3vPK0l6zyXf/3yET8x4Ibg"
#define EC_A                                                                                       \
    "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBCGIT8qmgkI02ovmUadFsAKgDwQT"             \
    "1gsxcwZaJWGI9B04mCocKS7zU3a3xNpi6g9Bv9Fp63MAb8OjWMFMHuocLmM="

static struct hostkeys *table_of(const char *text)
{
    struct hostkeys *k = hostkeys_create();
    hostkeys_parse(k, text, strlen(text), "known_hosts");
    return k;
}

static const struct {
    const char *name, *lines, *host;
    int port;
    const char *type, *key;
    enum hostkeys_answer answer;
    size_t line; /* of the deciding entry, 0 for none */
} vectors[] = {
    {"plain", "gpu1 ssh-ed25519 " ED_A "\n", "gpu1", 22, "ssh-ed25519", ED_A, HOSTKEYS_KNOWN, 1},
    {"case", "GPU1 ssh-ed25519 " ED_A "\n", "gpu1", 22, "ssh-ed25519", ED_A, HOSTKEYS_KNOWN, 1},
    {"comment", "# x\n\ngpu1 ssh-ed25519 " ED_A " root@gpu1 extra\n", "gpu1", 22, "ssh-ed25519",
     ED_A, HOSTKEYS_KNOWN, 3},
    {"no newline", "gpu1 ssh-ed25519 " ED_A, "gpu1", 22, "ssh-ed25519", ED_A, HOSTKEYS_KNOWN, 1},
    {"crlf", "gpu1 ssh-ed25519 " ED_A "\r\n", "gpu1", 22, "ssh-ed25519", ED_A, HOSTKEYS_KNOWN, 1},
    {"list", "gpu1,10.0.0.1 ssh-ed25519 " ED_A "\n", "10.0.0.1", 22, "ssh-ed25519", ED_A,
     HOSTKEYS_KNOWN, 1},
    {"unknown", "gpu1 ssh-ed25519 " ED_A "\n", "gpu2", 22, "ssh-ed25519", ED_A, HOSTKEYS_UNKNOWN,
     0},
    {"part of a name", "gpu1 ssh-ed25519 " ED_A "\n", "gpu", 22, "ssh-ed25519", ED_A,
     HOSTKEYS_UNKNOWN, 0},
    {"changed", "gpu1 ssh-ed25519 " ED_A "\n", "gpu1", 22, "ssh-ed25519", ED_B, HOSTKEYS_CHANGED,
     1},
    {"other type only", "gpu1 ecdsa-sha2-nistp256 " EC_A "\n", "gpu1", 22, "ssh-ed25519", ED_A,
     HOSTKEYS_CHANGED, 1},
    {"several types", "gpu1 ecdsa-sha2-nistp256 " EC_A "\ngpu1 ssh-ed25519 " ED_A "\n", "gpu1", 22,
     "ssh-ed25519", ED_A, HOSTKEYS_KNOWN, 2},
    {"two keys of a type", "gpu1 ssh-ed25519 " ED_A "\ngpu1 ssh-ed25519 " ED_B "\n", "gpu1", 22,
     "ssh-ed25519", ED_B, HOSTKEYS_KNOWN, 2},
    {"port", "[gpu1]:2222 ssh-ed25519 " ED_A "\n", "gpu1", 2222, "ssh-ed25519", ED_A,
     HOSTKEYS_KNOWN, 1},
    {"another port", "[gpu1]:2222 ssh-ed25519 " ED_A "\n", "gpu1", 22, "ssh-ed25519", ED_A,
     HOSTKEYS_UNKNOWN, 0},
    {"bare name, equal key", "gpu1 ssh-ed25519 " ED_A "\n", "gpu1", 2222, "ssh-ed25519", ED_A,
     HOSTKEYS_KNOWN, 1},
    {"bare name, other key", "gpu1 ssh-ed25519 " ED_A "\n", "gpu1", 2222, "ssh-ed25519", ED_B,
     HOSTKEYS_UNKNOWN, 0},
    {"star", "gpu*.cluster ssh-ed25519 " ED_A "\n", "gpu017.cluster", 22, "ssh-ed25519", ED_A,
     HOSTKEYS_KNOWN, 1},
    {"question mark", "gpu? ssh-ed25519 " ED_A "\n", "gpu12", 22, "ssh-ed25519", ED_A,
     HOSTKEYS_UNKNOWN, 0},
    {"negation", "gpu*,!gpu7 ssh-ed25519 " ED_A "\n", "gpu7", 22, "ssh-ed25519", ED_A,
     HOSTKEYS_UNKNOWN, 0},
    {"not negated", "gpu*,!gpu7 ssh-ed25519 " ED_A "\n", "gpu8", 22, "ssh-ed25519", ED_A,
     HOSTKEYS_KNOWN, 1},
    {"only negation", "!gpu7 ssh-ed25519 " ED_A "\n", "gpu8", 22, "ssh-ed25519", ED_A,
     HOSTKEYS_UNKNOWN, 0},
    {"revoked", "gpu1 ssh-ed25519 " ED_A "\n@revoked * ssh-ed25519 " ED_A "\n", "gpu1", 22,
     "ssh-ed25519", ED_A, HOSTKEYS_BANNED, 2},
    {"another key revoked", "gpu1 ssh-ed25519 " ED_A "\n@revoked * ssh-ed25519 " ED_B "\n", "gpu1",
     22, "ssh-ed25519", ED_A, HOSTKEYS_KNOWN, 1},
    {"authority is no key", "@cert-authority * ssh-ed25519 " ED_A "\n", "gpu1", 22, "ssh-ed25519",
     ED_A, HOSTKEYS_UNKNOWN, 0},
    {"unknown mark", "@trusted gpu1 ssh-ed25519 " ED_A "\n", "gpu1", 22, "ssh-ed25519", ED_A,
     HOSTKEYS_UNKNOWN, 0},
    {"type and key differ", "gpu1 ssh-rsa " ED_A "\n", "gpu1", 22, "ssh-ed25519", ED_A,
     HOSTKEYS_UNKNOWN, 0},
    {"not base64", "gpu1 ssh-ed25519 %%%%\n", "gpu1", 22, "ssh-ed25519", ED_A, HOSTKEYS_UNKNOWN, 0},
    {"cut line", "gpu1 ssh-ed25519\n", "gpu1", 22, "ssh-ed25519", ED_A, HOSTKEYS_UNKNOWN, 0},
    {"bad hash", "|1|x ssh-ed25519 " ED_A "\n", "gpu1", 22, "ssh-ed25519", ED_A, HOSTKEYS_UNKNOWN,
     0},
};

static void test_vectors(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct hostkeys *k = table_of(vectors[i].lines);
        struct hostkeys_found found;
        struct hostkeys_verdict v;
        hostkeys_find(k, vectors[i].host, vectors[i].port, &found);
        hostkeys_check(&found, vectors[i].type, vectors[i].key, &v);
        if (v.answer != vectors[i].answer || (v.entry ? v.entry->line : 0) != vectors[i].line)
            fail_msg("%s: answer %d line %zu", vectors[i].name, v.answer,
                     v.entry ? v.entry->line : 0);
        hostkeys_found_release(&found);
        hostkeys_destroy(k);
    }
}

static void test_authority_is_told(void **state)
{
    struct hostkeys *k = table_of("@cert-authority *.c ssh-ed25519 " ED_A "\n");
    struct hostkeys_found found;
    struct hostkeys_verdict v;
    hostkeys_find(k, "gpu1.c", 22, &found);
    hostkeys_check(&found, "ssh-ed25519", ED_B, &v);
    assert_int_equal(v.answer, HOSTKEYS_UNKNOWN);
    assert_non_null(v.authority);
    assert_int_equal(v.authority->line, 1);
    assert_string_equal(v.authority->file, "known_hosts");
    hostkeys_found_release(&found);
    hostkeys_destroy(k);
}

static const struct {
    const char *lines, *algorithms;
} orders[] = {
    {"", "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,"
         "rsa-sha2-256"},
    {"gpu1 ecdsa-sha2-nistp256 " EC_A "\n",
     "ecdsa-sha2-nistp256,ssh-ed25519,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,"
     "rsa-sha2-256"},
    {"@cert-authority gpu1 ecdsa-sha2-nistp256 " EC_A "\n",
     "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,"
     "rsa-sha2-256"},
};

static void test_order(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(orders); i++) {
        struct hostkeys *k = table_of(orders[i].lines);
        struct hostkeys_found found;
        hostkeys_find(k, "gpu1", 22, &found);
        char *algorithms = hostkeys_algorithms(&found);
        assert_string_equal(algorithms, orders[i].algorithms);
        free(algorithms);
        hostkeys_found_release(&found);
        hostkeys_destroy(k);
    }
}

static char *lab(void)
{
    char dir[] = "/tmp/muster-hostkeys-XXXXXX";
    assert_non_null(mkdtemp(dir));
    return str_dup(dir);
}

static void unlab(char *dir)
{
    struct err err = {0};
    assert_int_equal(fs_remove_tree(dir, &err), 0);
    free(dir);
}

static int run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *fmt, ...)
{
    char command[4096];
    va_list args;
    va_start(args, fmt);
    vsnprintf(command, sizeof command, fmt, args);
    va_end(args);
    return system(command);
}

static enum hostkeys_answer ask(const char *path, const char *host, int port, const char *key)
{
    struct err err = {0};
    struct hostkeys *k = hostkeys_create();
    assert_int_equal(hostkeys_load(k, path, &err), 0);
    struct hostkeys_found found;
    struct hostkeys_verdict v;
    hostkeys_find(k, host, port, &found);
    hostkeys_check(&found, "ssh-ed25519", key, &v);
    hostkeys_found_release(&found);
    hostkeys_destroy(k);
    return v.answer;
}

/* Hashed by OpenSSH itself, with a port and without. */
static void test_hashed_by_ssh_keygen(void **state)
{
    char *dir = lab();
    char *path = str_printf("%s/known_hosts", dir);
    FILE *f = fopen(path, "w");
    fprintf(f, "gpu1,10.0.0.1 ssh-ed25519 %s\n[gpu2]:2222 ssh-ed25519 %s\n", ED_A, ED_B);
    fclose(f);
    if (run("ssh-keygen -q -H -f %s >/dev/null 2>&1", path) != 0)
        fail_msg("ssh-keygen cannot hash: openssh-client is needed for this test");
    assert_int_equal(run("grep -q gpu %s", path) != 0, 1);
    assert_int_equal(ask(path, "gpu1", 22, ED_A), HOSTKEYS_KNOWN);
    assert_int_equal(ask(path, "10.0.0.1", 22, ED_A), HOSTKEYS_KNOWN);
    assert_int_equal(ask(path, "gpu1", 22, ED_B), HOSTKEYS_CHANGED);
    assert_int_equal(ask(path, "gpu2", 2222, ED_B), HOSTKEYS_KNOWN);
    assert_int_equal(ask(path, "gpu2", 22, ED_B), HOSTKEYS_UNKNOWN);
    free(path);
    unlab(dir);
}

static void test_fingerprint_as_ssh_keygen(void **state)
{
    char *dir = lab();
    assert_int_equal(
        run("echo 'ssh-ed25519 %s' >%s/k && ssh-keygen -lf %s/k >%s/out", ED_A, dir, dir, dir), 0);
    char *path = str_printf("%s/out", dir), *text = NULL;
    struct err err = {0};
    assert_int_equal(fs_read(path, 4096, &text, NULL, &err), 0);
    char *fingerprint = hostkeys_fingerprint(ED_A);
    assert_non_null(strstr(text, fingerprint));
    assert_null(hostkeys_fingerprint("no base64!"));
    free(fingerprint);
    free(text);
    free(path);
    unlab(dir);
}

static void test_missing_and_unreadable(void **state)
{
    char *dir = lab();
    struct err err = {0};
    struct hostkeys *k = hostkeys_create();
    char *path = str_printf("%s/none", dir);
    assert_int_equal(hostkeys_load(k, path, &err), 0);
    assert_int_equal(hostkeys_count(k), 0);
    assert_int_equal(hostkeys_load(k, dir, &err), -1); /* a directory */
    assert_int_equal(err.kind, ERR_ENV);
    assert_non_null(strstr(err.text, dir));
    hostkeys_destroy(k);
    free(path);
    unlab(dir);
}

static void assert_file(const char *path, const char *want)
{
    char *text = NULL;
    struct err err = {0};
    assert_int_equal(fs_read(path, 65536, &text, NULL, &err), 0);
    assert_string_equal(text, want);
    free(text);
}

static void test_append(void **state)
{
    char *dir = lab();
    char *path = str_printf("%s/known_hosts", dir);
    struct err err = {0};
    assert_int_equal(hostkeys_append(path, "GPU1", 22, "ssh-ed25519", ED_A, &err), 0);
    assert_int_equal(hostkeys_append(path, "gpu2", 2222, "ssh-ed25519", ED_B, &err), 0);
    assert_int_equal(hostkeys_append(path, "gpu1", 22, "ssh-ed25519", ED_A, &err), 0); /* again */
    assert_int_equal(hostkeys_append(path, "gpu1", 22, "ecdsa-sha2-nistp256", EC_A, &err), 0);
    assert_file(path, "gpu1 ssh-ed25519 " ED_A "\n[gpu2]:2222 ssh-ed25519 " ED_B
                      "\ngpu1 ecdsa-sha2-nistp256 " EC_A "\n");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    char *known = hostkeys_fingerprint(ED_A), *offered = hostkeys_fingerprint(ED_B);
    char *want = str_printf("%s:1 already holds ssh-ed25519 %s for gpu1, the host now has %s; only "
                            "replace it when you know why it changed",
                            path, known, offered);
    assert_int_equal(hostkeys_append(path, "gpu1", 22, "ssh-ed25519", ED_B, &err), -1);
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, want);
    free(known);
    free(offered);
    free(want);
    free(path);
    unlab(dir);
}

static void test_replace(void **state)
{
    char *dir = lab();
    char *path = str_printf("%s/known_hosts", dir);
    FILE *f = fopen(path, "w");
    fprintf(f, "# kept\ngpu1,10.0.0.1 ssh-ed25519 %s\ngpu1 ecdsa-sha2-nistp256 %s\n", ED_A, EC_A);
    fclose(f);
    struct err err = {0};
    struct hostkeys_line line = {.host = "gpu1", .port = 22, .type = "ssh-ed25519", .base64 = ED_B};
    assert_int_equal(hostkeys_append_all(path, &line, 1, true, &err), 0);
    assert_file(path, "# kept\n10.0.0.1 ssh-ed25519 " ED_A "\ngpu1 ssh-ed25519 " ED_B "\n");
    f = fopen(path, "w");
    fprintf(f, "gpu* ssh-ed25519 %s\n", ED_A);
    fclose(f);
    assert_int_equal(hostkeys_append_all(path, &line, 1, true, &err), -1);
    char *want = str_printf("%s:1 covers gpu1 by the pattern 'gpu*'; edit that line by hand", path);
    assert_string_equal(err.text, want);
    free(want);
    free(path);
    unlab(dir);
}

static const struct {
    const char *host;
    int port;
    const char *type, *key, *text;
} bad_lines[] = {
    {"a b", 22, "ssh-ed25519", ED_A, "'a b' is not a host name"},
    {"", 22, "ssh-ed25519", ED_A, "'' is not a host name"},
    {"*", 22, "ssh-ed25519", ED_A, "'*' is not a host name"},
    {"gpu1\nx", 22, "ssh-ed25519", ED_A, "'gpu1\nx' is not a host name"},
    {"gpu1", 65536, "ssh-ed25519", ED_A, "gpu1: port 65536 is not between 1 and 65535"},
    {"gpu1", 22, "ssh-rsa", ED_A, "gpu1: not a base64 host key of type ssh-rsa"},
};

static void test_append_refuses(void **state)
{
    char *dir = lab();
    char *path = str_printf("%s/known_hosts", dir);
    for (size_t i = 0; i < ARRAY_LEN(bad_lines); i++) {
        struct err err = {0};
        assert_int_equal(hostkeys_append(path, bad_lines[i].host, bad_lines[i].port,
                                         bad_lines[i].type, bad_lines[i].key, &err),
                         -1);
        assert_int_equal(err.kind, ERR_DATA);
        assert_string_equal(err.text, bad_lines[i].text);
    }
    assert_false(fs_exists(path));
    free(path);
    unlab(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_authority_is_told),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_hashed_by_ssh_keygen),
        cmocka_unit_test(test_fingerprint_as_ssh_keygen),
        cmocka_unit_test(test_missing_and_unreadable),
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_replace),
        cmocka_unit_test(test_append_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
