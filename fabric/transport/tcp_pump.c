#include "fabric/transport/tcp_pump.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"

enum { BLOCK_BYTES = 128 * 1024, MAX_THREADS = 16, STOP_POLL_MS = 50 };

struct worker {
    struct tcp_pump *pump;
    size_t first, step; /* streams first, first + step, ... */
    pthread_t thread;
    uint8_t *block;
    struct pollfd *fds;
};

struct tcp_pump {
    enum tcp_pump_mode mode;
    struct tcp_pump_stream *streams;
    size_t count;
    uint64_t seed;
    struct worker workers[MAX_THREADS];
    size_t worker_count;
    _Atomic uint64_t bytes;
    _Atomic size_t ended; /* streams */
    atomic_bool stop;
};

static bool is_sending(enum tcp_pump_mode mode)
{
    return mode == TCP_PUMP_SEND || mode == TCP_PUMP_SEND_EXACT;
}

static bool is_exact(enum tcp_pump_mode mode)
{
    return mode == TCP_PUMP_SEND_EXACT || mode == TCP_PUMP_CHECK;
}

/* One try on one stream.  Returns bytes moved, 0 when it is not ready or at its end. */
static size_t move_once(const struct worker *w, struct tcp_pump_stream *s)
{
    const struct tcp_pump *p = w->pump;
    size_t want = BLOCK_BYTES;
    if (is_exact(p->mode) && s->end - s->offset < want)
        want = (size_t)(s->end - s->offset);
    if (p->mode == TCP_PUMP_SEND_EXACT)
        pattern_bytes_fill(p->seed, s->offset, w->block, want);
    ssize_t n = is_sending(p->mode) ? send(s->fd, w->block, want, MSG_DONTWAIT | MSG_NOSIGNAL)
                                    : recv(s->fd, w->block, want, MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        s->error = errno;
    if (n == 0 && p->mode == TCP_PUMP_CHECK)
        s->error = ECONNRESET;
    if (n == 0 && p->mode == TCP_PUMP_RECEIVE)
        s->finished = true;
    if (n <= 0)
        return 0;
    if (p->mode == TCP_PUMP_CHECK)
        pattern_bytes_check(p->seed, s->offset, w->block, (size_t)n, &s->check);
    s->offset += (uint64_t)n;
    s->finished = is_exact(p->mode) && s->offset == s->end;
    return (size_t)n;
}

static bool is_over(const struct tcp_pump_stream *s)
{
    return s->finished || s->error;
}

static void wait_ready(struct worker *w)
{
    const struct tcp_pump *p = w->pump;
    short events = is_sending(p->mode) ? POLLOUT : POLLIN;
    nfds_t n = 0;
    for (size_t i = w->first; i < p->count; i += w->step)
        if (!is_over(&p->streams[i]))
            w->fds[n++] = (struct pollfd){.fd = p->streams[i].fd, .events = events};
    poll(w->fds, n, STOP_POLL_MS);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct tcp_pump *p = w->pump;
    size_t open = 0;
    for (size_t i = w->first; i < p->count; i += w->step)
        open += !is_over(&p->streams[i]);
    while (open && !atomic_load_explicit(&p->stop, memory_order_relaxed)) {
        size_t moved = 0;
        for (size_t i = w->first; i < p->count; i += w->step) {
            if (is_over(&p->streams[i]))
                continue;
            size_t n = move_once(w, &p->streams[i]);
            atomic_fetch_add_explicit(&p->bytes, n, memory_order_relaxed);
            moved += n;
            if (is_over(&p->streams[i])) {
                open--;
                atomic_fetch_add(&p->ended, 1);
            }
        }
        if (!moved && open)
            wait_ready(w);
    }
    return NULL;
}

static size_t threads_for(size_t streams)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = processors > 3 ? (size_t)processors / 2 : 1;
    n = n < streams ? n : streams;
    return n < MAX_THREADS ? n : MAX_THREADS;
}

int tcp_pump_start(enum tcp_pump_mode mode, struct tcp_pump_stream streams[], size_t count,
                   uint64_t seed, struct tcp_pump **out, struct err *err)
{
    struct tcp_pump *p = mem_zero(1, sizeof *p);
    p->mode = mode;
    p->streams = streams;
    p->count = count;
    p->seed = seed;
    for (size_t i = 0; i < count; i++) {
        streams[i].error = 0;
        streams[i].finished = is_exact(mode) && streams[i].offset == streams[i].end;
        pattern_result_clear(&streams[i].check);
        p->ended += streams[i].finished;
    }
    size_t threads = threads_for(count);
    for (size_t i = 0; i < threads; i++) {
        struct worker *w = &p->workers[i];
        *w = (struct worker){.pump = p, .first = i, .step = threads};
        w->block = mem_zero(BLOCK_BYTES, 1);
        w->fds = mem_zero(count, sizeof *w->fds);
        pattern_bytes_fill(seed, 0, w->block, BLOCK_BYTES);
        int rc = pthread_create(&w->thread, NULL, work, w);
        if (rc) {
            free(w->block);
            free(w->fds);
            tcp_pump_end(p);
            return err_set_errno(err, ERR_ENV, rc, "cannot start a thread");
        }
        p->worker_count++;
    }
    *out = p;
    return 0;
}

uint64_t tcp_pump_bytes(const struct tcp_pump *p)
{
    return atomic_load_explicit(&p->bytes, memory_order_relaxed);
}

bool tcp_pump_finished(const struct tcp_pump *p)
{
    return atomic_load(&p->ended) == p->count;
}

void tcp_pump_end(struct tcp_pump *p)
{
    atomic_store(&p->stop, true);
    for (size_t i = 0; i < p->worker_count; i++) {
        pthread_join(p->workers[i].thread, NULL);
        free(p->workers[i].block);
        free(p->workers[i].fds);
    }
    free(p);
}
