#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "provision/fleet_session.h"
#include "provision/quote.h"

/* libssh would start the command itself, but then every proxy inherits the pipes of those before
 * it, what it says is lost, and closing a session waits for it.  Here its stderr goes to a memory
 * file (which never fills up and blocks it) and nothing is inherited. */
enum { WORDS_BYTES = 300, END_TRIES = 50 };

extern char **environ;

static const char *proxy_value(const struct session *s, enum sshconfig_key key)
{
    const char *value = s->config.value[key];
    return value && strcasecmp(value, "none") != 0 ? value : NULL;
}

bool proxy_wanted(const struct session *s)
{
    return proxy_value(s, SSHCONFIG_PROXY_COMMAND) || proxy_value(s, SSHCONFIG_PROXY_JUMP);
}

/* %h and %r of a ProxyCommand reach a shell: names with anything else in them are refused. */
static bool is_harmless(const char *word)
{
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@%+-";
    return word[0] != '\0' && word[0] != '-' && word[strspn(word, safe)] == '\0';
}

/* ssh -W through the last jump host; the ones before it go into its own -J. */
static void add_jump(const struct session *s, struct strbuf *line)
{
    const struct fleet *f = s->fleet;
    const char *jump = proxy_value(s, SSHCONFIG_PROXY_JUMP), *last = strrchr(jump, ',');
    strbuf_puts(line, "exec ssh -o BatchMode=yes -o ClearAllForwardings=yes");
    strbuf_printf(line, " -o ConnectTimeout=%u", (f->connect_timeout_ms + 999) / 1000);
    if (f->config_file) {
        strbuf_puts(line, " -F ");
        quote_word(line, f->config_file);
    }
    if (f->extra_hosts[0]) {
        struct strbuf files = {0};
        strbuf_puts(&files, "GlobalKnownHostsFile=");
        for (size_t i = 0; f->extra_hosts[i]; i++)
            strbuf_printf(&files, "\"%s\" ", f->extra_hosts[i]);
        strbuf_puts(&files, "/etc/ssh/ssh_known_hosts");
        strbuf_puts(line, " -o ");
        quote_word(line, files.data);
        strbuf_release(&files);
    }
    if (last) {
        AUTO(free_str) char *before = strndup(jump, (size_t)(last - jump));
        strbuf_puts(line, " -J ");
        quote_word(line, before ? before : "");
    }
    AUTO(free_str) char *to = str_printf("[%s]:%d", s->config.host, s->config.port);
    strbuf_puts(line, " -W ");
    quote_word(line, to);
    strbuf_puts(line, " -- ");
    /* The -p and -l of user@host:port are what an ssh:// address says in one word. */
    AUTO(free_str) char *address = str_printf("ssh://%s", last ? last + 1 : jump);
    bool is_address = str_has_prefix(last ? last + 1 : jump, "ssh://");
    quote_word(line, is_address ? (last ? last + 1 : jump) : address);
}

static int command_line(const struct session *s, struct strbuf *line, struct err *err)
{
    const char *user = session_user(s);
    if (!is_harmless(s->config.host) || !is_harmless(user))
        return err_set(err, ERR_USAGE,
                       "'%s@%s' cannot be used with a proxy: only letters, digits and ._:@%%+- may "
                       "stand in user and host",
                       user, s->config.host);
    const char *command = proxy_value(s, SSHCONFIG_PROXY_COMMAND);
    if (!command) {
        add_jump(s, line);
        return 0;
    }
    AUTO(free_str)
    char *expanded = sshconfig_expand(s->fleet->config, &s->config, s->target, command);
    strbuf_printf(line, "%s%s", str_has_prefix(expanded, "exec ") ? "" : "exec ", expanded);
    return 0;
}

static int spawn(struct session *s, const char *line, int end, struct err *err)
{
    const char *shell = getenv("SHELL");
    char *argv[] = {(char *)(shell && shell[0] == '/' ? shell : "/bin/sh"), (char *)"-c",
                    (char *)line, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                        POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, end, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, s->proxy_errs, STDERR_FILENO);
    int rc = posix_spawn(&s->proxy_pid, argv[0], &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    if (rc != 0) {
        s->proxy_pid = 0;
        return err_set_errno(err, ERR_ENV, rc, "proxy command: %s", argv[0]);
    }
    return 0;
}

int proxy_start(struct session *s, struct err *err)
{
    struct strbuf line = {0};
    int pair[2];
    if (command_line(s, &line, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        strbuf_release(&line);
        return err_set_errno(err, ERR_ENV, errno, "proxy command: socketpair");
    }
    s->proxy_errs = memfd_create("proxy", MFD_CLOEXEC);
    int rc = s->proxy_errs < 0 ? err_set_errno(err, ERR_ENV, errno, "proxy command: memfd")
                               : spawn(s, line.data, pair[1], err);
    strbuf_release(&line);
    close(pair[1]);
    if (rc < 0) {
        close(pair[0]);
        return -1;
    }
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    return pair[0];
}

char *proxy_words(struct session *s)
{
    char text[WORDS_BYTES + 1];
    ssize_t len = s->proxy_errs >= 0 ? pread(s->proxy_errs, text, WORDS_BYTES, 0) : 0;
    text[len > 0 ? len : 0] = '\0';
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = p[1] ? ' ' : '\0';
    size_t used = strlen(text);
    while (used > 0 && text[used - 1] == ' ')
        text[--used] = '\0';
    return str_dup(text);
}

void proxy_end(struct session *s)
{
    if (s->proxy_pid > 0) {
        /* Its pipe is closed by now, which ends `ssh -W`; the rest is told, then made to. */
        int status = 0;
        pid_t done = waitpid(s->proxy_pid, &status, WNOHANG);
        if (done == 0)
            kill(-s->proxy_pid, SIGTERM);
        for (int i = 0; done == 0 && i < END_TRIES; i++) {
            usleep(1000);
            done = waitpid(s->proxy_pid, &status, WNOHANG);
        }
        if (done == 0) {
            kill(-s->proxy_pid, SIGKILL);
            waitpid(s->proxy_pid, &status, 0);
        }
        s->proxy_pid = 0;
    }
    close_fd(&s->proxy_errs);
}
