/* Workers of a multi-node stage as threads, and the controller's side of their sockets.  Header
 * only. */
#ifndef MUSTER_TESTS_AGENTS_STAGE_SIDE_H
#define MUSTER_TESTS_AGENTS_STAGE_SIDE_H

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
#include <sys/socket.h>

#include "agents/stages/stage_run.h"
#include "agents/worker_link.h"
#include "common/jsonx.h"
#include "common/util.h"

#define STAGE_SIDE_TOKEN "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

struct side {
    const char *node;
    const struct stage *stage;
    json_t *params;
    int64_t deadline_ms;
    pthread_t thread;
    int worker_fd;
    struct worker_link *controller; /* the same line form from the other end */
    int controller_fd;
    /* Results */
    int rc;
    struct err err;
    json_t *data;
    json_t *evidence; /* array of bodies */
};

static void *side_main(void *arg)
{
    struct side *s = arg;
    struct fs_root root = {.path = ""};
    struct worker_link *link = worker_link_create(s->worker_fd);
    struct stage_job job = {.stage = s->stage,
                            .params = s->params,
                            .node = s->node,
                            .root = &root,
                            .deadline_ms = s->deadline_ms};
    s->rc = stage_run(link, &job, &s->data, &s->err);
    worker_link_destroy(link);
    shutdown(s->worker_fd, SHUT_WR);
    return NULL;
}

/* params: taken over. */
static void side_start(struct side *s, const char *stage, const char *node, json_t *params,
                       int deadline_ms)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    *s = (struct side){.node = node,
                       .stage = stage_find(stage),
                       .params = params,
                       .deadline_ms = now_ms() + deadline_ms,
                       .worker_fd = fds[0],
                       .controller_fd = fds[1],
                       .controller = worker_link_create(fds[1]),
                       .evidence = json_array()};
    assert_non_null(s->stage);
    assert_int_equal(pthread_create(&s->thread, NULL, side_main, s), 0);
}

/* The next event of this name (new reference); evidence on the way is collected.  NULL at the end.
 */
static json_t *side_event(struct side *s, const char *name)
{
    for (;;) {
        json_t *line = NULL;
        struct err err = {.kind = ERR_NONE};
        if (worker_link_receive(s->controller, 30000, &line, &err))
            return NULL;
        const char *event = jsonx_str_or(line, "event", "");
        if (strcmp(event, "evidence") == 0)
            json_array_append(s->evidence, json_object_get(line, "body"));
        if (name && strcmp(event, name) == 0)
            return line;
        json_decref(line);
    }
}

static inline void side_go(struct side *s, json_t *data)
{
    struct err err = {.kind = ERR_NONE};
    json_t *line = json_object();
    jsonx_set(line, "data", data);
    assert_int_equal(worker_link_send(s->controller, line, &err), 0);
}

/* Collect what is left and wait for the stage's end. */
static void side_finish(struct side *s)
{
    assert_null(side_event(s, NULL));
    pthread_join(s->thread, NULL);
}

static void side_release(struct side *s)
{
    worker_link_destroy(s->controller);
    close_fd(&s->controller_fd);
    close_fd(&s->worker_fd);
    json_decref(s->params);
    json_decref(s->data);
    json_decref(s->evidence);
}

/* How many records have this quantity, subject and outcome. */
static int side_count(const struct side *s, const char *quantity, const char *subject,
                      const char *outcome)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(s->evidence); i++) {
        const json_t *e = json_array_get(s->evidence, i);
        n += strcmp(jsonx_str_or(e, "quantity", ""), quantity) == 0 &&
             strcmp(jsonx_str_or(e, "subject", ""), subject) == 0 &&
             strcmp(jsonx_str_or(e, "outcome", ""), outcome) == 0;
    }
    return n;
}

/* The first such record, borrowed; fails the test when there is none. */
static const json_t *side_find(const struct side *s, const char *quantity, const char *subject)
{
    for (size_t i = 0; i < json_array_size(s->evidence); i++) {
        const json_t *e = json_array_get(s->evidence, i);
        if (strcmp(jsonx_str_or(e, "quantity", ""), quantity) == 0 &&
            strcmp(jsonx_str_or(e, "subject", ""), subject) == 0)
            return e;
    }
    fail_msg("%s has no record %s of %s", s->node, quantity, subject);
    return NULL;
}

#endif
