/* A path that swallows large segments without a word: two network namespaces behind a router whose
 * second link has a smaller MTU, and whose own ICMP messages are not let out.  Needs root and
 * ip(8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "fabric/transport/tcp_pair.h"

static const uint8_t token[TCP_TOKEN_BYTES] = {5};

/* Shared with the two children. */
struct shared {
    _Atomic uint16_t ports[2];
    struct tcp_pair_result results[2];
};

static char *namespace_name(int i)
{
    return str_printf("mtu%d-%d", (int)getpid(), i);
}

static int ip(const char *fmt, ...)
{
    char command[256], line[320];
    va_list args;
    va_start(args, fmt);
    vsnprintf(command, sizeof command, fmt, args);
    va_end(args);
    snprintf(line, sizeof line, "ip %s 2>/dev/null", command);
    return system(line);
}

/* Namespaces 0 and 1 are the nodes, 2 is the router. */
static int set_up(void)
{
    AUTO(free_str) char *hub = namespace_name(2);
    if (ip("netns add %s", hub))
        return -1;
    for (int i = 0; i < 2; i++) {
        AUTO(free_str) char *node = namespace_name(i);
        if (ip("netns add %s", node) ||
            ip("link add eth0 netns %s type veth peer name h%d netns %s", node, i, hub) ||
            ip("-n %s addr add 10.98.%d.2/24 dev eth0", node, i) ||
            ip("-n %s link set eth0 up", node) ||
            ip("-n %s addr add 10.98.%d.1/24 dev h%d", hub, i, i) ||
            ip("-n %s link set h%d up", hub, i) ||
            ip("-n %s route add default via 10.98.%d.1", node, i))
            return -1;
    }
    return ip("netns exec %s sysctl -qw net.ipv4.ip_forward=1", hub) ||
                   ip("-n %s link set h1 mtu 1400", hub) ||
                   ip("-n %s rule add iif lo to 10.98.0.0/16 blackhole", hub)
               ? -1
               : 0;
}

static void tear_down(void)
{
    for (int i = 0; i < 3; i++) {
        AUTO(free_str) char *name = namespace_name(i);
        ip("netns del %s", name);
    }
}

static int node_main(const char *name_space, int i, struct shared *s)
{
    struct err err = {.kind = ERR_NONE};
    struct tcp_addr addr;
    struct tcp *t;
    char path[128], local[32], remote[32];
    snprintf(path, sizeof path, "/run/netns/%s", name_space);
    snprintf(local, sizeof local, "10.98.%d.2", i);
    snprintf(remote, sizeof remote, "10.98.%d.2", !i);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) || tcp_addr_choose(local, NULL, NULL, &addr, &err) ||
        tcp_open(&addr, token, &t, &err))
        return 3;
    s->ports[i] = tcp_port(t);
    for (int tries = 0; !s->ports[!i] && tries < 1000; tries++)
        usleep(10000);
    struct tcp_pair_peer peer = {.self = i ? "b" : "a", .name = i ? "a" : "b", .first = i == 0};
    struct tcp_pair_config config = {
        .streams = 2, .duration_ms = 500, .content_bytes = 8 << 20, .latency_iterations = 20};
    if (tcp_addr_parse(remote, s->ports[!i], 0, &peer.addr, &err))
        return 3;
    tcp_pair_run(t, &peer, &config, now_ms() + 30000, &s->results[i]);
    tcp_close(t);
    close(fd);
    return 0;
}

static void a_small_mtu_on_the_path_is_named(void **state)
{
    struct shared *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s != MAP_FAILED);
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        AUTO(free_str) char *name = namespace_name(i);
        fflush(NULL);
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(node_main(name, i, s));
    }
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    const struct tcp_pair_result *a = &s->results[0], *b = &s->results[1];
    assert_int_equal(a->latency.outcome, TCP_PAIR_MEASURED);
    assert_int_equal(a->out.data.outcome, TCP_PAIR_FAILED);
    assert_int_equal(a->out.data.cause, TCP_CAUSE_MTU);
    assert_int_equal(b->in.data.cause, TCP_CAUSE_MTU);
    assert_int_equal(b->in.bandwidth.cause, TCP_CAUSE_MTU);
    assert_string_equal(b->in.data.text,
                        "segments of 1448 bytes from a to b do not arrive, segments of at most 536 "
                        "bytes do: an MTU on the path is smaller than the sender's");
    assert_string_equal(a->out.data.text, b->in.data.text);
    /* What b sends arrives: the small link takes whatever it is given in that direction. */
    assert_int_equal(a->in.data.outcome, TCP_PAIR_MEASURED);
    munmap(s, sizeof *s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_mtu_on_the_path_is_named),
    };
    if (geteuid() != 0 || set_up()) {
        tear_down();
        printf("skipped: network namespaces cannot be made here (root and ip(8) are needed)\n");
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tear_down();
    return failed;
}
