#include "provision/resolve.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"

/* A resolver that waits for a dead name server holds its thread for some seconds; with this many
 * the others still get on. */
enum { MAX_THREADS = 16 };

struct request {
    char *host;
    char port[8];
    struct resolve_answer answer;
    struct request *next;
};

/* Shared with the workers; whoever lets go last frees it. */
struct resolver {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct request *waiting, **waiting_tail;
    struct request *done, **done_tail;
    size_t queued, idle, threads, users;
    int event;
    bool closed;
};

static void request_free(struct request *q)
{
    if (q->answer.addresses)
        freeaddrinfo(q->answer.addresses);
    free(q->host);
    free(q);
}

/* Called with the lock held; gives it up. */
static void release(struct resolver *r)
{
    bool last = --r->users == 0;
    pthread_mutex_unlock(&r->lock);
    if (!last)
        return;
    for (struct request *q = r->waiting, *next; q; q = next) {
        next = q->next;
        request_free(q);
    }
    for (struct request *q = r->done, *next; q; q = next) {
        next = q->next;
        request_free(q);
    }
    close_fd(&r->event);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static int look_up(const char *host, const char *port, int flags, struct addrinfo **out)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    return getaddrinfo(host, port, &hints, out);
}

static void *work(void *arg)
{
    struct resolver *r = arg;
    pthread_mutex_lock(&r->lock);
    while (!r->closed) {
        struct request *q = r->waiting;
        if (!q) {
            r->idle++;
            pthread_cond_wait(&r->wake, &r->lock);
            r->idle--;
            continue;
        }
        r->waiting = q->next;
        if (!r->waiting)
            r->waiting_tail = &r->waiting;
        r->queued--;
        pthread_mutex_unlock(&r->lock);
        q->next = NULL;
        q->answer.error = look_up(q->host, q->port, AI_ADDRCONFIG, &q->answer.addresses);
        pthread_mutex_lock(&r->lock);
        *r->done_tail = q;
        r->done_tail = &q->next;
        uint64_t one = 1;
        if (write(r->event, &one, sizeof one) < 0 && errno != EAGAIN)
            abort(); /* an eventfd that is open takes a count of one */
    }
    release(r);
    return NULL;
}

struct resolver *resolve_create(struct err *err)
{
    int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (event < 0) {
        err_set_errno(err, ERR_ENV, errno, "eventfd");
        return NULL;
    }
    struct resolver *r = mem_zero(1, sizeof *r);
    r->event = event;
    r->users = 1;
    r->waiting_tail = &r->waiting;
    r->done_tail = &r->done;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    return r;
}

void resolve_destroy(struct resolver *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->closed = true;
    pthread_cond_broadcast(&r->wake);
    release(r);
}

int resolve_fd(const struct resolver *r)
{
    return r->event;
}

/* Called with the lock held. */
static int add_thread(struct resolver *r, struct err *err)
{
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, work, r);
    if (rc != 0)
        return r->threads > 0 ? 0 : err_set_errno(err, ERR_ENV, rc, "thread for name look-up");
    pthread_detach(thread);
    r->threads++;
    r->users++;
    return 0;
}

int resolve_start(struct resolver *r, const char *host, int port, size_t token,
                  struct addrinfo **addresses, struct err *err)
{
    char service[8];
    snprintf(service, sizeof service, "%d", port);
    if (look_up(host, service, AI_NUMERICHOST, addresses) == 0)
        return 1;
    pthread_mutex_lock(&r->lock);
    int rc = 0;
    if (r->idle <= r->queued && r->threads < MAX_THREADS)
        rc = add_thread(r, err);
    if (rc == 0) {
        struct request *q = mem_zero(1, sizeof *q);
        q->host = str_dup(host);
        memcpy(q->port, service, sizeof q->port);
        q->answer.token = token;
        *r->waiting_tail = q;
        r->waiting_tail = &q->next;
        r->queued++;
        pthread_cond_signal(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int resolve_take(struct resolver *r, struct resolve_answer *answer)
{
    uint64_t count = 0;
    pthread_mutex_lock(&r->lock);
    struct request *q = r->done;
    if (q) {
        r->done = q->next;
        if (!r->done)
            r->done_tail = &r->done;
        *answer = q->answer;
        q->answer.addresses = NULL;
    } else if (read(r->event, &count, sizeof count) < 0) {
        count = 0; /* nothing was waiting: the loop asks again only when it becomes readable */
    }
    pthread_mutex_unlock(&r->lock);
    if (!q)
        return 0;
    request_free(q);
    return 1;
}
