/* A real muster-agent at the other end of two pipes, on a tree of its own. */
#ifndef MUSTER_TESTS_AGENT_PROCESS_H
#define MUSTER_TESTS_AGENT_PROCESS_H

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agents/protocol.h"
#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"

enum { AGENT_PATIENCE_MS = 60000 };

struct agent_process {
    char dir[64]; /* the tree that the agent sees as / */
    pid_t pid;
    int in, out; /* -1 when closed */
    struct protocol_reader reader;
};

static inline char *agent_path(const struct agent_process *a, const char *path)
{
    return str_printf("%s%s", a->dir, path);
}

static inline void agent_put(const struct agent_process *a, const char *path, const char *text)
{
    struct err err = {0};
    AUTO(free_str) char *full = agent_path(a, path);
    AUTO(free_str) char *parent = str_dup(full);
    *strrchr(parent, '/') = '\0';
    assert_int_equal(fs_mkdirs(parent, 0755, &err), 0);
    assert_int_equal(fs_write_atomic(full, text, strlen(text), 0644, &err), 0);
}

/* A tree with a machine id; with hang, whatever reads facts waits for ever on a pipe without
 * writer. */
static inline void agent_make_tree(struct agent_process *a, bool hang)
{
    *a = (struct agent_process){.in = -1, .out = -1};
    snprintf(a->dir, sizeof a->dir, "/tmp/muster-test-serve-XXXXXX");
    assert_non_null(mkdtemp(a->dir));
    agent_put(a, "/etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    agent_put(a, "/proc/sys/kernel/random/boot_id", "boot\n");
    AUTO(free_str) char *fifo = agent_path(a, "/proc/cpuinfo");
    if (hang)
        assert_int_equal(mkfifo(fifo, 0600), 0);
}

static inline void agent_start(struct agent_process *a)
{
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    a->pid = fork();
    assert_true(a->pid >= 0);
    if (a->pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl(BIN_DIR "/muster-agent", "muster-agent", "serve", "--root", a->dir, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    a->in = in[1];
    a->out = out[0];
    a->reader = (struct protocol_reader){0};
}

static inline void agent_send(struct agent_process *a, const char *text)
{
    size_t len = strlen(text);
    assert_int_equal(write(a->in, text, len), len);
    assert_int_equal(write(a->in, "\n", 1), 1);
}

/* Next line, NULL at the end of the output. */
static inline json_t *agent_line(struct agent_process *a)
{
    for (;;) {
        char *text = NULL;
        size_t len = 0;
        struct err err = {0};
        json_t *line = NULL;
        int found = protocol_next(&a->reader, &text, &len, &err);
        assert_true(found >= 0);
        if (found == 1) {
            if (jsonx_parse(text, len, "agent", &line, &err) != 0)
                fail_msg("the agent said '%s'", text);
            return line;
        }
        if (a->reader.ended)
            return NULL;
        struct pollfd p = {.fd = a->out, .events = POLLIN};
        assert_int_equal(poll(&p, 1, AGENT_PATIENCE_MS), 1);
        assert_true(protocol_fill(&a->reader, a->out, &err) >= 0);
    }
}

/* The reply to id; events and other replies before it are dropped. */
static inline json_t *agent_reply(struct agent_process *a, int id)
{
    for (;;) {
        json_t *line = agent_line(a);
        assert_non_null(line);
        if (jsonx_int_or(line, "id", -1) == id && json_object_get(line, "ok"))
            return line;
        json_decref(line);
    }
}

/* The reply's data, or a failed test that shows the error. */
static inline json_t *agent_data(struct agent_process *a, int id)
{
    json_t *reply = agent_reply(a, id);
    json_t *data = json_object_get(reply, "data");
    if (!data)
        fail_msg("%s", jsonx_str_or(json_object_get(reply, "error"), "text", "no error either"));
    json_incref(data);
    json_decref(reply);
    return data;
}

static inline void agent_expect_error(struct agent_process *a, int id, const char *kind,
                                      const char *text)
{
    json_t *reply = NULL;
    if (id >= 0) {
        reply = agent_reply(a, id);
    } else {
        reply = agent_line(a);
        assert_non_null(reply);
        assert_true(json_is_null(json_object_get(reply, "id")));
    }
    const json_t *error = json_object_get(reply, "error");
    assert_string_equal(jsonx_str_or(error, "text", ""), text);
    assert_string_equal(jsonx_str_or(error, "kind", ""), kind);
    assert_true(json_is_false(json_object_get(reply, "ok")));
    json_decref(reply);
}

static inline json_t *agent_hello(struct agent_process *a)
{
    agent_send(a, "{\"v\":1,\"id\":1,\"op\":\"hello\",\"run\":\"run1\",\"node\":\"n1\"}");
    return agent_data(a, 1);
}

/* Children of the agent, from /proc: at most max, returns how many. */
static inline size_t agent_children(const struct agent_process *a, pid_t out[], size_t max)
{
    size_t count = 0;
    DIR *proc = opendir("/proc");
    assert_non_null(proc);
    for (struct dirent *e; (e = readdir(proc));) {
        int parent = 0;
        AUTO(free_str) char *path = str_printf("/proc/%s/stat", e->d_name);
        AUTO(free_str) char *text = NULL;
        struct err err = {0};
        if (!isdigit((unsigned char)e->d_name[0]) || fs_read(path, 65536, &text, NULL, &err) != 0 ||
            !strrchr(text, ')') || sscanf(strrchr(text, ')') + 1, " %*c %d", &parent) != 1 ||
            parent != a->pid)
            continue;
        assert_true(count < max);
        out[count++] = (pid_t)strtol(e->d_name, NULL, 10);
    }
    closedir(proc);
    return count;
}

/* The agent's one child, waiting for it. */
static inline pid_t agent_worker(const struct agent_process *a)
{
    pid_t children[8];
    for (int64_t until = now_ms() + AGENT_PATIENCE_MS; now_ms() < until; poll(NULL, 0, 5))
        if (agent_children(a, children, ARRAY_LEN(children)) == 1)
            return children[0];
    fail_msg("the agent has no worker");
    return -1;
}

static inline void agent_close_input(struct agent_process *a)
{
    close_fd(&a->in);
}

/* Wait for the agent's end; its exit status. */
static inline int agent_wait(struct agent_process *a)
{
    int status = 0;
    for (int64_t until = now_ms() + AGENT_PATIENCE_MS; now_ms() < until; poll(NULL, 0, 5)) {
        if (waitpid(a->pid, &status, WNOHANG) != a->pid)
            continue;
        a->pid = 0;
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
    }
    fail_msg("the agent does not end");
    return -1;
}

static inline void agent_stop(struct agent_process *a)
{
    struct err err = {0};
    close_fd(&a->in);
    close_fd(&a->out);
    if (a->pid > 0) {
        kill(a->pid, SIGKILL);
        waitpid(a->pid, NULL, 0);
    }
    protocol_reader_release(&a->reader);
    assert_int_equal(fs_remove_tree(a->dir, &err), 0);
}

#endif
