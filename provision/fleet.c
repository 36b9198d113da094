#include "provision/fleet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/fs.h"
#include "provision/fleet_session.h"

enum {
    DEFAULT_CONNECT_MS = 10000,
    DEFAULT_PARALLEL = 256,
    DEFAULT_KEEPALIVE_MS = 30000,
    /* sshd begins to drop connections at 10 that are not logged in yet (MaxStartups 10:30:100), and
     * a jump host sees all of them. */
    MAX_PROXIED = 8,
    EVENTS = 256,
    SPARE_FILES = 64,
    FILES_PER_SESSION = 2,
    SWEEP_MS = 20
};

static const uint64_t RESOLVER_TOKEN = UINT64_MAX;

static int compare_names(const void *a, const void *b)
{
    const struct session *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int check_names(const struct fleet *f, struct err *err)
{
    const struct session **sorted = mem_zero(f->count + 1, sizeof *sorted);
    for (size_t i = 0; i < f->count; i++)
        sorted[i] = &f->sessions[i];
    qsort(sorted, f->count, sizeof *sorted, compare_names);
    int rc = 0;
    for (size_t i = 1; rc == 0 && i < f->count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            rc = err_set(err, ERR_USAGE, "node %s is listed twice", sorted[i]->name);
    free(sorted);
    return rc;
}

static int add_session(struct fleet *f, size_t i, const struct fleet_target *target,
                       struct err *err)
{
    struct session *s = &f->sessions[i];
    *s = (struct session){.fleet = f, .index = i, .fd = -1, .proxy_errs = -1, .cause = ""};
    s->name = str_dup(target->name);
    s->target = str_dup(target->host ? target->host : target->name);
    f->count = i + 1;
    if (sshconfig_resolve(f->config, s->target, target->user, target->port, &s->config, err) < 0)
        return err_wrap(err, "%s: ", s->name);
    if (session_hostkeys(s, err) < 0)
        return err_wrap(err, "%s: ", s->name);
    return 0;
}

static char **copy_list(const char *const *list)
{
    size_t count = 0;
    while (list && list[count])
        count++;
    char **copy = mem_zero(count + 1, sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = str_dup(list[i]);
    return copy;
}

/* Each session keeps a socket, a proxied one also what its proxy says.  The usual soft limit of
 * 1024 files stands for programs that use select(), which nothing here does. */
static int raise_file_limit(size_t sessions, struct err *err)
{
    rlim_t need = SPARE_FILES + FILES_PER_SESSION * sessions;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= need)
        return 0;
    if (limit.rlim_max < need)
        return err_set(err, ERR_ENV,
                       "%zu nodes need %llu open files, the hard limit is %llu: raise it (`ulimit "
                       "-Hn`) or work on fewer nodes at once",
                       sessions, (unsigned long long)need, (unsigned long long)limit.rlim_max);
    limit.rlim_cur = need;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        return err_set_errno(err, ERR_ENV, errno, "limit of open files");
    return 0;
}

static int open_loop(struct fleet *f, struct err *err)
{
    f->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (f->epoll < 0)
        return err_set_errno(err, ERR_ENV, errno, "epoll");
    f->resolver = resolve_create(err);
    if (!f->resolver)
        return -1;
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = RESOLVER_TOKEN};
    if (epoll_ctl(f->epoll, EPOLL_CTL_ADD, resolve_fd(f->resolver), &e) < 0)
        return err_set_errno(err, ERR_ENV, errno, "epoll");
    return 0;
}

struct fleet *fleet_create(const struct fleet_target targets[], size_t count,
                           const struct fleet_options *options, struct err *err)
{
    struct fleet *f = mem_zero(1, sizeof *f);
    f->epoll = -1;
    f->become = options->become;
    f->connect_timeout_ms =
        options->connect_timeout_ms ? options->connect_timeout_ms : (unsigned)DEFAULT_CONNECT_MS;
    f->parallel = options->parallel ? options->parallel : (unsigned)DEFAULT_PARALLEL;
    f->keepalive_ms =
        options->keepalive_ms ? options->keepalive_ms : (unsigned)DEFAULT_KEEPALIVE_MS;
    f->agent_dir = str_dup(options->agent_dir ? options->agent_dir : "/var/lib/muster/agent");
    f->config_file = options->ssh_config ? str_dup(options->ssh_config) : NULL;
    f->extra_hosts = copy_list(options->known_hosts);
    f->sessions = mem_zero(count + 1, sizeof *f->sessions);
    f->touched = mem_zero(count + 1, sizeof *f->touched);
    f->touched_before = mem_zero(count + 1, sizeof *f->touched_before);
    f->config = sshconfig_load(options->ssh_config, err);
    f->keys = f->config ? keyring_create(options->identity, err) : NULL;
    int rc = f->keys ? raise_file_limit(count, err) : -1;
    if (rc == 0)
        rc = open_loop(f, err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = add_session(f, i, &targets[i], err);
    if (rc == 0)
        rc = check_names(f, err);
    if (rc == 0)
        return f;
    fleet_destroy(f);
    return NULL;
}

static void destroy_session(struct session *s)
{
    session_close(s);
    agent_stop(s);
    hostkeys_found_release(&s->found);
    sshconfig_host_release(&s->config);
    free(s->key_type);
    free(s->key_base64);
    free(s->fingerprint);
    free(s->target);
    free(s->name);
}

void fleet_destroy(struct fleet *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++)
        destroy_session(&f->sessions[i]);
    for (size_t i = 0; i < f->hostset_count; i++) {
        hostkeys_destroy(f->hostsets[i].table);
        free(f->hostsets[i].key);
    }
    for (size_t i = 0; f->extra_hosts && f->extra_hosts[i]; i++)
        free(f->extra_hosts[i]);
    free(f->extra_hosts);
    free(f->hostsets);
    free(f->sessions);
    free(f->touched);
    free(f->touched_before);
    free(f->config_file);
    free(f->agent_dir);
    sshconfig_destroy(f->config);
    keyring_destroy(f->keys);
    resolve_destroy(f->resolver);
    close_fd(&f->epoll);
    free(f);
}

size_t fleet_count(const struct fleet *f)
{
    return f->count;
}

const char *fleet_name(const struct fleet *f, size_t node)
{
    return f->sessions[node].name;
}

enum fleet_node_state fleet_state(const struct fleet *f, size_t node)
{
    return f->sessions[node].state;
}

const struct err *fleet_error(const struct fleet *f, size_t node)
{
    return &f->sessions[node].err;
}

const char *fleet_cause(const struct fleet *f, size_t node)
{
    return f->sessions[node].cause;
}

const char *fleet_host_key(const struct fleet *f, size_t node)
{
    return f->sessions[node].fingerprint ? f->sessions[node].fingerprint : "";
}

void fleet_on_progress(struct fleet *f, fleet_progress_fn *fn, void *ctx)
{
    f->progress = fn;
    f->progress_ctx = ctx;
}

void fleet_note(struct session *s, const char *what)
{
    struct fleet *f = s->fleet;
    if (f->progress)
        f->progress(f->progress_ctx, f, s->index, what);
}

void fleet_settle(struct session *s)
{
    if (!s->busy)
        return;
    s->busy = false;
    s->fleet->pending--;
}

/* Begin queued sessions as far as the limits allow. */
static void start_queued(struct fleet *f)
{
    for (size_t i = 0; i < f->count && f->queued > 0 && f->setting_up < f->parallel; i++) {
        struct session *s = &f->sessions[i];
        if (s->phase != SESSION_QUEUED || (proxy_wanted(s) && f->proxied >= MAX_PROXIED))
            continue;
        f->queued--;
        session_start(s);
    }
}

static void sweep(struct fleet *f, int64_t now)
{
    if (now - f->swept_ms < SWEEP_MS)
        return;
    f->swept_ms = now;
    for (size_t i = 0; i < f->count; i++)
        session_check_deadline(&f->sessions[i], now);
}

static void take_answers(struct fleet *f)
{
    struct resolve_answer answer;
    while (resolve_take(f->resolver, &answer)) {
        struct session *s = answer.token < f->count ? &f->sessions[answer.token] : NULL;
        if (s && s->phase == SESSION_RESOLVE)
            session_resolved(s, &answer);
        else if (answer.addresses)
            freeaddrinfo(answer.addresses);
    }
}

void fleet_touch(struct session *s)
{
    struct fleet *f = s->fleet;
    if (s->touched)
        return;
    s->touched = true;
    f->touched[f->touched_count++] = s->index;
}

/* A step may touch sessions again, also this one: they go into the other list, for the next turn.
 */
static bool step_touched(struct fleet *f)
{
    size_t count = f->touched_count, *list = f->touched;
    f->touched = f->touched_before;
    f->touched_before = list;
    f->touched_count = 0;
    for (size_t i = 0; i < count; i++) {
        f->sessions[list[i]].touched = false;
        session_step(&f->sessions[list[i]]);
    }
    return count > 0;
}

void fleet_turn(struct fleet *f, int64_t max_wait_ms)
{
    start_queued(f);
    if (step_touched(f))
        max_wait_ms = 0;
    if (max_wait_ms > SWEEP_MS)
        max_wait_ms = f->setting_up > 0 || f->queued > 0 ? SWEEP_MS : max_wait_ms;
    struct epoll_event events[EVENTS];
    int count = epoll_wait(f->epoll, events, EVENTS, max_wait_ms < 0 ? 0 : (int)max_wait_ms);
    int64_t now = now_ms();
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 == RESOLVER_TOKEN) {
            take_answers(f);
            continue;
        }
        struct session *s = &f->sessions[events[i].data.u64];
        session_step(s);
    }
    sweep(f, now);
}

/* Nobody listened between two calls: silence counts from now. */
void fleet_mark_all_alive(struct fleet *f)
{
    int64_t now = now_ms();
    for (size_t i = 0; i < f->count; i++)
        f->sessions[i].heard_ms = f->sessions[i].asked_ms = now;
}

static void connect_all(struct fleet *f)
{
    fleet_mark_all_alive(f);
    for (size_t i = 0; i < f->count; i++) {
        struct session *s = &f->sessions[i];
        if (s->state != FLEET_IDLE)
            continue;
        s->phase = SESSION_QUEUED;
        s->busy = true;
        f->queued++;
        f->pending++;
    }
    while (f->pending > 0)
        fleet_turn(f, SWEEP_MS);
}

size_t fleet_connect(struct fleet *f)
{
    connect_all(f);
    size_t connected = 0;
    for (size_t i = 0; i < f->count; i++)
        connected += f->sessions[i].state == FLEET_CONNECTED || f->sessions[i].state == FLEET_AGENT;
    return connected;
}

size_t fleet_scan(struct fleet *f, struct fleet_scanned results[])
{
    f->scanning = true;
    connect_all(f);
    f->scanning = false;
    size_t answered = 0;
    for (size_t i = 0; i < f->count; i++) {
        results[i] = (struct fleet_scanned){0};
        if (f->sessions[i].state != FLEET_IDLE)
            continue;
        session_scanned(&f->sessions[i], &results[i]);
        answered += results[i].base64 != NULL;
    }
    return answered;
}
