#include <stdlib.h>
#include <string.h>

#include "provision/fleet_session.h"
#include "provision/quote.h"

/* The script is one line of POSIX sh without '!', so that csh and fish as login shells pass it on.
 * It speaks in lines that begin with this mark, after an empty line in case something printed half
 * a line before it:
 *
 *   have ARCH   the right file is there; the agent runs from here on
 *   need ARCH   the file's bytes are awaited on stdin
 *   run ARCH    the bytes are stored; the agent runs from here on
 *   arch ARCH   no image for this architecture
 *   hash HEX    the bytes that arrived have another hash
 *   fail TEXT   something else, in the words of the tool that failed */
static const char mark[] = "@muster 1 ";

static const char before_case[] =
    "LC_ALL=C; export LC_ALL; PATH=$PATH:/usr/bin:/bin:/usr/sbin:/sbin; "
    "m() { printf '\\n@muster 1 %s\\n' \"$*\"; }; "
    "die() { m \"$@\"; exit 1; }; "
    "a=$(uname -m); case $a in ";

static const char after_case[] =
    "*) die arch \"$a\";; esac; "
    "d=$b/$h; f=$d/muster-agent; u=$(id -u); umask 022; "
    "w=; test \"$u\" = 0 || w=\"; this login is $(id -un) and not root: set ssh.become to sudo, or "
    "log in as root\"; "
    "e=$(mkdir -p \"$d\" 2>&1) || die fail \"$e$w\"; "
    "for p in \"$b\" \"$d\"; do "
    /* Who can write there can become root here. */
    "case $(stat -c '%u %a %F' \"$p\") in \"$u 7\"[05][05]' directory') ;; "
    "*) die fail \"$p must be a directory of uid $u that nobody else can write$w\";; esac; done; "
    "if test $always = 0 && "
    "test \"$(stat -c '%u %s %a %F' \"$f\" 2>/dev/null)\" = \"$u $n 755 regular file\"; "
    "then m have \"$a\"; exec \"$f\" serve; fi; "
    "find \"$d\" -name '.up.*' -mmin +60 -exec rm -f {} + 2>/dev/null; "
    "t=$(mktemp \"$d/.up.XXXXXX\" 2>&1) || die fail \"$t\"; "
    "trap 'rm -f \"$t\"' EXIT; trap 'exit 1' HUP INT TERM PIPE; "
    "m need \"$a\"; "
    "e=$(head -c $n 2>&1 >\"$t\") || die fail \"$e$w\"; "
    "test \"$(stat -c %s \"$t\")\" = $n || die fail 'the upload broke off'; "
    "e=$(sha256sum <\"$t\"); e=${e%% *}; test \"$e\" = $h || die hash \"$e\"; "
    "e=$(chmod 755 \"$t\" 2>&1 && sync \"$t\" 2>&1 && mv -f \"$t\" \"$f\" 2>&1) || die fail "
    "\"$e\"; "
    "m run \"$a\"; exec \"$f\" serve";

char *boot_command(const struct fleet *f, const struct start *start, bool upload_always)
{
    struct strbuf script = {0};
    strbuf_printf(&script, "always=%d; b=", upload_always);
    quote_word(&script, f->agent_dir);
    strbuf_puts(&script, "; ");
    strbuf_puts(&script, before_case);
    for (size_t i = 0; i < start->count; i++) {
        const struct start_image *image = &start->images[i];
        quote_word(&script, image->arch);
        strbuf_printf(&script, ") h=%s; n=%zu;; ", image->sha256, image->len);
    }
    strbuf_puts(&script, after_case);
    /* root needs no sudo, and a node where everybody logs in as root need not have it. */
    const char *const sudo[] = {"sh",
                                "-c",
                                "test \"$(id -u)\" = 0 && exec sh -c \"$1\"; "
                                "exec sudo -n sh -c \"$1\"",
                                "muster",
                                script.data,
                                NULL};
    const char *const plain[] = {"sh", "-c", script.data, NULL};
    char *command = quote_argv(f->become == FLEET_BECOME_SUDO ? sudo : plain);
    strbuf_release(&script);
    return command;
}

static const struct start_image *find_image(const struct start *start, const char *arch,
                                            size_t *index)
{
    for (size_t i = 0; i < start->count; i++) {
        if (strcmp(start->images[i].arch, arch) == 0) {
            *index = i;
            return &start->images[i];
        }
    }
    return NULL;
}

static void fail_arch(struct session *s, const char *arch)
{
    struct strbuf known = {0};
    const struct start *start = s->fleet->start;
    for (size_t i = 0; i < start->count; i++)
        strbuf_printf(&known, "%s%s", i > 0 ? ", " : "", start->images[i].arch);
    AUTO(free_str) char *shown = agent_printable(arch, strlen(arch), AGENT_SHOWN_BYTES);
    session_fail(s, ERR_REMOTE, "agent-arch",
                 "the node's architecture is %s, but there is a muster-agent for %s only", shown,
                 known.data ? known.data : "none");
    strbuf_release(&known);
}

/* What the words of a failing tool mean. */
static void fail_words(struct session *s, const char *words)
{
    static const char *const full[] = {"No space left", "Disk quota", "Read-only file system"};
    const char *dir = s->fleet->agent_dir;
    AUTO(free_str) char *shown = agent_printable(words, strlen(words), AGENT_WORDS_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(full); i++) {
        if (!strstr(words, full[i]))
            continue;
        session_fail(s, ERR_REMOTE, "disk-full", "the agent cannot be stored in %s: %s", dir,
                     shown);
        return;
    }
    bool may_not = strstr(words, "Permission denied") && s->fleet->become == FLEET_BECOME_NONE;
    session_fail(s, ERR_REMOTE, may_not ? "sudo-refused" : "agent-start-failed",
                 "the agent cannot be stored in %s: %s%s", dir, shown,
                 may_not ? "; log in as root or set `become: sudo`" : "");
}

static void send_hello(struct session *s)
{
    const struct start *start = s->fleet->start;
    struct agent *a = &s->agent;
    a->phase = AGENT_HELLO;
    json_t *hello = json_object();
    json_object_set_new(hello, "op", json_string("hello"));
    json_object_set_new(hello, "run", json_string(start->run));
    json_object_set_new(hello, "node", json_string(s->name));
    if (start->seqs)
        json_object_set_new(hello, "seq", json_integer(start->seqs[s->index]));
    a->request_id = call_send(s, hello);
    json_decref(hello);
}

static const char *after(const char *line, const char *word)
{
    size_t len = strlen(word);
    return strncmp(line, word, len) == 0 && line[len] == ' ' ? line + len + 1 : NULL;
}

void boot_line(struct session *s, const char *line)
{
    struct agent *a = &s->agent;
    if (!str_has_prefix(line, mark)) {
        a->noise += strlen(line) + 1;
        return;
    }
    const char *words = line + strlen(mark), *arg;
    if ((arg = after(words, "have")) || (arg = after(words, "run"))) {
        if (!find_image(s->fleet->start, arg, &a->image))
            fail_arch(s, arg);
        else
            send_hello(s);
    } else if ((arg = after(words, "need")) && a->phase == AGENT_BOOT) {
        const struct start_image *image = find_image(s->fleet->start, arg, &a->image);
        if (!image) {
            fail_arch(s, arg);
            return;
        }
        a->phase = AGENT_UPLOAD;
        a->channel->feed = image->data;
        a->channel->feed_len = image->len;
        fleet_touch(s);
        fleet_note(s, "uploading the agent");
    } else if ((arg = after(words, "arch"))) {
        fail_arch(s, arg);
    } else if ((arg = after(words, "hash"))) {
        AUTO(free_str) char *shown = agent_printable(arg, strlen(arg), AGENT_SHOWN_BYTES);
        session_fail(s, ERR_REMOTE, "agent-hash",
                     "the agent arrived altered: sha256 %s instead of %s", shown,
                     s->fleet->start->images[a->image].sha256);
    } else if ((arg = after(words, "fail"))) {
        fail_words(s, arg);
    } else {
        AUTO(free_str) char *shown = agent_printable(line, strlen(line), AGENT_SHOWN_BYTES);
        session_fail(s, ERR_DATA, "protocol", "the start script says \"%s\"", shown);
    }
}

void boot_ended(struct session *s)
{
    const struct channel *c = s->agent.channel;
    const struct strbuf *errs = &s->agent.errs;
    AUTO(free_str)
    char *said = agent_printable(errs->data ? errs->data : "", errs->len, AGENT_WORDS_BYTES);
    if (s->fleet->become == FLEET_BECOME_SUDO && errs->data && strstr(errs->data, "sudo")) {
        session_fail(s, ERR_REMOTE, "sudo-refused", "%s may not become root: %s", session_user(s),
                     said);
        return;
    }
    session_fail(s, ERR_REMOTE, "agent-start-failed",
                 "the start script of the agent ended with status %d%s%s", c->status,
                 said[0] ? ": " : "", said);
}
