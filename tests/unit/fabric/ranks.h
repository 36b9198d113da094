/* Ranks of one AllReduce as threads of one process, over TCP on the loopback.  Header only: each
 * test is one program.  A rank's hooks plant faults by replacing slots of its transport's table. */
#ifndef MUSTER_TESTS_FABRIC_RANKS_H
#define MUSTER_TESTS_FABRIC_RANKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "fabric/collective/allreduce.h"
#include "fabric/collective/pattern.h"
#include "fabric/collective/ring.h"
#include "fabric/transport/transport.h"

enum { RANKS_MAX = 16, RANKS_SILENCE_MS = 2000 };

struct rank_case;

struct rank_state {
    const struct rank_case *c;
    struct transport *transport;
    const struct transport_peer *peers;
    uint32_t rank;
    void *out;
    int rc;
    struct err err;
    int64_t culprit;
    struct pattern_result check;
};

struct rank_case {
    uint32_t ranks;
    unsigned streams;
    size_t count; /* elements */
    enum reduce_dtype dtype;
    enum allreduce_algorithm algorithm;
    size_t max_bytes;
    int repeats;
    bool inexact; /* fractions, whose sum depends on the order of addition */
    /* Runs in the rank's thread after the links are there; may replace s->transport->ops.  Returns
     * false when this rank takes no further part (it is "dead"). */
    bool (*fault)(struct rank_state *s);
    void *fault_data;
};

static const char *const rank_names[RANKS_MAX] = {"n0",  "n1",  "n2",  "n3", "n4",  "n5",
                                                  "n6",  "n7",  "n8",  "n9", "n10", "n11",
                                                  "n12", "n13", "n14", "n15"};

static void *rank_main(void *arg)
{
    struct rank_state *s = arg;
    const struct rank_case *c = s->c;
    int64_t deadline_ms = now_ms() + 20000;
    struct allreduce *a = NULL;
    size_t bytes = c->count * reduce_dtype_bytes(c->dtype);
    void *in = malloc(bytes + 1);
    s->out = malloc(bytes + 1);
    s->rc = allreduce_open(s->transport, s->peers, s->rank, c->ranks,
                           c->max_bytes ? c->max_bytes : bytes, deadline_ms, &a, &s->err);
    if (s->rc == 0 && c->fault && !c->fault(s)) {
        s->rc = -2;
        goto out;
    }
    struct pattern p;
    for (int i = 0; s->rc == 0 && i < (c->repeats ? c->repeats : 1); i++) {
        pattern_init(&p, (uint64_t)i, c->ranks, c->dtype);
        pattern_fill(&p, s->rank, in, c->count);
        for (size_t k = 0; c->inexact && k < c->count; k++)
            ((float *)in)[k] = 1.0f / (float)(s->rank * 7 + k % 97 + 1);
        memset(s->out, 0xa5, bytes);
        s->rc =
            allreduce_run(a, c->algorithm, c->dtype, in, s->out, c->count, deadline_ms, &s->err);
    }
    if (s->rc == 0)
        pattern_check(&p, s->out, c->count, &s->check);
    else
        s->transport->ops->abort(
            s->transport, (uint32_t)(s->transport->culprit < 0 ? s->rank : s->transport->culprit));
    s->culprit = s->transport->culprit;
out:
    allreduce_close(a);
    free(in);
    /* A dead rank keeps its sockets until the test ends it. */
    if (s->rc != -2) {
        s->transport->ops->close(s->transport);
        s->transport = NULL;
    }
    return NULL;
}

/* Run all ranks to their end.  The caller calls ranks_release(). */
static void ranks_run(const struct rank_case *c, struct rank_state states[RANKS_MAX])
{
    static const uint8_t token[TRANSPORT_TOKEN_BYTES] = {1, 2, 3};
    const struct transport_ops *ops = transport_find("tcp");
    struct transport_peer peers[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    memset(states, 0, RANKS_MAX * sizeof *states);
    for (uint32_t r = 0; r < c->ranks; r++) {
        struct rank_state *s = &states[r];
        *s = (struct rank_state){.c = c, .rank = r, .peers = peers, .culprit = -1};
        struct transport_config config = {.rank = r,
                                          .address = "127.0.0.1",
                                          .token = token,
                                          .streams = c->streams ? c->streams : 1,
                                          .silence_ms = RANKS_SILENCE_MS};
        if (ops->open(&config, &s->transport, &s->err))
            fail_msg("open: %s", s->err.text);
        peers[r] = (struct transport_peer){
            .rank = r, .name = rank_names[r], .endpoint = ops->endpoint(s->transport)};
    }
    for (uint32_t r = 0; r < c->ranks; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &states[r]), 0);
    for (uint32_t r = 0; r < c->ranks; r++)
        pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < c->ranks; r++)
        json_decref((json_t *)(uintptr_t)peers[r].endpoint);
}

static void ranks_release(const struct rank_case *c, struct rank_state states[RANKS_MAX])
{
    for (uint32_t r = 0; r < c->ranks; r++) {
        free(states[r].out);
        if (states[r].transport)
            states[r].transport->ops->close(states[r].transport);
    }
}

/* Every rank got exactly the sum, and the same bits. */
static void ranks_expect_exact(const struct rank_case *c)
{
    struct rank_state s[RANKS_MAX];
    ranks_run(c, s);
    for (uint32_t r = 0; r < c->ranks; r++) {
        if (s[r].rc)
            fail_msg("ranks %u count %zu rank %u: %s", c->ranks, c->count, r, s[r].err.text);
        if (s[r].check.mismatches && !c->inexact)
            fail_msg("ranks %u count %zu rank %u: %llu mismatches, first at %llu", c->ranks,
                     c->count, r, (unsigned long long)s[r].check.mismatches,
                     (unsigned long long)s[r].check.first_bad);
        assert_int_equal(s[r].check.compared, c->count);
        assert_memory_equal(s[r].out, s[0].out, c->count * reduce_dtype_bytes(c->dtype));
    }
    ranks_release(c, s);
}

/* A table with one slot replaced must outlive the transport. */
struct faulty_ops {
    struct transport_ops ops;
    const struct transport_ops *real;
    int countdown; /* messages until the fault */
    uint8_t scratch[1 << 20];
};

#endif
