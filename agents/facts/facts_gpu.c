/* GPUs as NVML names them.
 *
 * NVML is part of the driver and may hang with it, so a child process asks and the parent waits for
 * a bounded time.  Without driver, library or answer the facts say which of them is missing. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agents/facts/facts.h"
#include "agents/facts/facts_nvml.h"
#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

enum { MAX_ANSWER_BYTES = 1024 * 1024, CHILD_GRACE_MS = 500 };

static json_t *unavailable(const char *reason)
{
    json_t *gpus = facts_object();
    jsonx_set_bool(gpus, "available", false);
    facts_set_text(gpus, "reason", reason);
    jsonx_set(gpus, "devices", facts_array());
    return gpus;
}

/* Asks NVML and writes one JSON text; runs in the child. */
static _Noreturn void child_answer(int fd)
{
    struct err err = {0};
    json_t *devices = NULL;
    json_t *answer = NULL;
    bool simulated = false;
    if (facts_nvml_devices(&devices, &simulated, &err) != 0) {
        answer = unavailable(err.text);
    } else {
        answer = facts_object();
        jsonx_set_bool(answer, "available", true);
        jsonx_set(answer, "reason", json_null());
        jsonx_set(answer, "devices", devices);
    }
    if (simulated)
        jsonx_set_bool(answer, "simulated", true);
    AUTO(free_str) char *text = jsonx_canonical(answer);
    json_decref(answer);
    size_t len = strlen(text);
    for (size_t at = 0; at < len;) {
        ssize_t put = write(fd, text + at, len - at);
        if (put <= 0)
            _exit(1);
        at += (size_t)put;
    }
    free_str(&text);
    _exit(0);
}

/* Everything the child writes until it closes; false at the deadline. */
static bool collect(int fd, int64_t deadline_ms, struct strbuf *answer)
{
    char chunk[4096];
    for (;;) {
        int64_t left_ms = deadline_ms - now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left_ms <= 0 || poll(&p, 1, (int)left_ms) == 0)
            return false;
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || answer->len + (size_t)got > MAX_ANSWER_BYTES)
            return true;
        strbuf_add(answer, chunk, (size_t)got);
    }
}

/* A child stuck in the driver may not even die; it is left behind then rather than waited for. */
static int reap(pid_t child, int *status)
{
    kill(child, SIGKILL);
    for (int64_t until = now_ms() + CHILD_GRACE_MS; now_ms() < until;) {
        pid_t done = waitpid(child, status, WNOHANG);
        if (done == child || (done < 0 && errno != EINTR))
            return done == child ? 0 : -1;
        poll(NULL, 0, 5);
    }
    return -1;
}

static json_t *ask_in_child(void)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return unavailable("NVML was not asked: no pipe to a helper process could be made");
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pipe_fds[0]);
        child_answer(pipe_fds[1]);
    }
    close(pipe_fds[1]);
    AUTO(close_fd) int fd = pipe_fds[0];
    if (child < 0)
        return unavailable("NVML was not asked: no helper process could be started");
    AUTO(strbuf_release) struct strbuf answer = {0};
    bool in_time = collect(fd, now_ms() + FACTS_GPU_TIMEOUT_MS, &answer);
    int status = 0;
    (void)reap(child, &status);
    if (!in_time)
        return unavailable("NVML did not answer within 20 s: the GPU driver hangs");
    json_t *gpus = NULL;
    struct err ignored = {0};
    if (answer.len == 0 || jsonx_parse(answer.data, answer.len, "NVML", &gpus, &ignored) != 0)
        return unavailable("NVML crashed the process that asked it");
    return gpus;
}

static bool gpu_on_bus(const struct fs_root *root)
{
    AUTO(facts_names_free) struct facts_names names = facts_list(root, "/sys/bus/pci/devices");
    for (size_t i = 0; i < names.count; i++) {
        long long vendor = facts_int(root, 0, "/sys/bus/pci/devices/%s/vendor", names.names[i]);
        long long class = facts_int(root, 0, "/sys/bus/pci/devices/%s/class", names.names[i]);
        if (vendor == 0x10de && class >> 16 == 0x03)
            return true;
    }
    return false;
}

/* Why NVML need not be asked; NULL when it should be.  Tests put a stand-in in the library's place
 * on machines without a GPU; it says so itself, and what was learned from it is marked simulated.
 */
static const char *no_driver_reason(const struct fs_root *root)
{
    if (getenv("MUSTER_FAKE_GPU") && facts_root_is_real(root))
        return NULL;
    if (fs_exists_at(root, "/proc/driver/nvidia/version"))
        return facts_root_is_real(root) ? NULL
                                        : "a captured tree: NVML answers on the running node only";
    return gpu_on_bus(root) ? "an NVIDIA GPU is on the PCI bus, but the nvidia driver is not loaded"
                            : "no NVIDIA GPU on the PCI bus";
}

/* Its version file names the open kernel modules; null when no driver is loaded. */
static json_t *open_modules(const struct fs_root *root)
{
    AUTO(free_str) char *version = fs_read_line_at(root, "/proc/driver/nvidia/version");
    return version ? json_boolean(strstr(version, "Open Kernel Module") != NULL) : json_null();
}

json_t *facts_gpu(const struct fs_root *root)
{
    const char *reason = no_driver_reason(root);
    json_t *gpus = reason ? unavailable(reason) : ask_in_child();
    facts_set_line(gpus, "driver", root, "/sys/module/nvidia/version");
    jsonx_set(gpus, "open_modules", open_modules(root));
    return gpus;
}
