/* Name look-ups beside the loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "provision/resolve.h"

static void test_numeric_at_once(void **state)
{
    static const struct {
        const char *host;
        int family;
    } rows[] = {{"127.0.0.1", AF_INET}, {"::1", AF_INET6}};
    struct err err = {0};
    struct resolver *r = resolve_create(&err);
    assert_non_null(r);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct addrinfo *a = NULL;
        assert_int_equal(resolve_start(r, rows[i].host, 2222, i, &a, &err), 1);
        assert_int_equal(a->ai_family, rows[i].family);
        if (a->ai_family == AF_INET)
            assert_int_equal(ntohs(((struct sockaddr_in *)a->ai_addr)->sin_port), 2222);
        freeaddrinfo(a);
    }
    struct resolve_answer answer;
    assert_int_equal(resolve_take(r, &answer), 0);
    resolve_destroy(r);
}

/* Many names at once: each token comes back exactly once, good and bad names alike. */
static void test_names(void **state)
{
    enum { COUNT = 100 };
    struct err err = {0};
    struct resolver *r = resolve_create(&err);
    int seen[COUNT] = {0}, answers = 0;
    for (size_t i = 0; i < COUNT; i++) {
        struct addrinfo *a = NULL;
        const char *host = i % 2 ? "localhost" : "not a name.invalid";
        assert_int_equal(resolve_start(r, host, 22, i, &a, &err), 0);
    }
    while (answers < COUNT) {
        struct pollfd p = {.fd = resolve_fd(r), .events = POLLIN};
        assert_int_equal(poll(&p, 1, 60000), 1);
        struct resolve_answer answer;
        while (resolve_take(r, &answer)) {
            answers++;
            seen[answer.token]++;
            assert_int_equal(answer.error == 0, answer.token % 2);
            assert_int_equal(answer.addresses != NULL, answer.token % 2);
            if (answer.addresses)
                freeaddrinfo(answer.addresses);
        }
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(seen[i], 1);
    resolve_destroy(r);
}

static void test_destroy_while_running(void **state)
{
    struct err err = {0};
    struct resolver *r = resolve_create(&err);
    for (size_t i = 0; i < 50; i++) {
        struct addrinfo *a = NULL;
        assert_int_equal(resolve_start(r, "localhost", 22, i, &a, &err), 0);
    }
    resolve_destroy(r);
    resolve_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numeric_at_once),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_destroy_while_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
