#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/fleet_session.h"

/* What is handed to libssh at once; the rest waits here, not in its buffers. */
enum { CHUNK_BYTES = 64 * 1024 };

static int take_data(ssh_session ssh, ssh_channel ch, void *data, uint32_t len, int is_stderr,
                     void *ctx)
{
    struct channel *c = ctx;
    c->on_data(c->ctx, data, len, is_stderr != 0);
    return (int)len;
}

static void take_eof(ssh_session ssh, ssh_channel ch, void *ctx)
{
    struct channel *c = ctx;
    c->remote_eof = true;
}

static void take_close(ssh_session ssh, ssh_channel ch, void *ctx)
{
    struct channel *c = ctx;
    c->remote_closed = true;
}

static void take_status(ssh_session ssh, ssh_channel ch, int status, void *ctx)
{
    struct channel *c = ctx;
    c->has_status = true;
    c->status = status;
}

static void take_signal(ssh_session ssh, ssh_channel ch, const char *name, int core,
                        const char *text, const char *lang, void *ctx)
{
    struct channel *c = ctx;
    c->has_status = true;
    c->status = -1;
    snprintf(c->signal, sizeof c->signal, "%s", name ? name : "?");
}

struct channel *channel_create(struct session *s, const char *command, channel_data_fn *on_data,
                               void *ctx)
{
    struct channel *c = mem_zero(1, sizeof *c);
    c->session = s;
    c->command = str_dup(command);
    c->on_data = on_data;
    c->ctx = ctx;
    c->status = -1;
    c->ssh = ssh_channel_new(s->ssh);
    if (!c->ssh)
        abort();
    c->callbacks = (struct ssh_channel_callbacks_struct){
        .userdata = c,
        .channel_data_function = take_data,
        .channel_eof_function = take_eof,
        .channel_close_function = take_close,
        .channel_exit_status_function = take_status,
        .channel_exit_signal_function = take_signal,
    };
    ssh_callbacks_init(&c->callbacks);
    ssh_set_channel_callbacks(c->ssh, &c->callbacks);
    fleet_touch(s);
    return c;
}

void channel_destroy(struct channel *c)
{
    if (!c)
        return;
    ssh_remove_channel_callbacks(c->ssh, &c->callbacks);
    ssh_channel_free(c->ssh);
    strbuf_release(&c->tx);
    free(c->command);
    free(c);
}

void channel_send(struct channel *c, const void *data, size_t len)
{
    strbuf_add(&c->tx, data, len);
    fleet_touch(c->session);
}

/* Room for how many bytes now: the peer's window, and nothing while libssh's buffer is full. */
static size_t room(struct channel *c)
{
    ssh_session ssh = c->session->ssh;
    if ((ssh_get_poll_flags(ssh) & SSH_WRITE_PENDING) && ssh_blocking_flush(ssh, 0) == SSH_AGAIN)
        return 0;
    size_t window = ssh_channel_window_size(c->ssh);
    return window < CHUNK_BYTES ? window : CHUNK_BYTES;
}

/* A write to a channel that the peer has closed is no failure here: what the peer said, and its
 * exit status, are the reason and are looked at by the owner of the channel. */
static bool send_some(struct channel *c)
{
    bool from_feed = c->feed_len > 0;
    const void *data = from_feed ? (const void *)c->feed : c->tx.data;
    size_t len = from_feed ? c->feed_len : c->tx.len;
    if (len == 0 || c->remote_closed || c->input_ended)
        return false;
    size_t space = room(c);
    if (space == 0 || !ssh_is_connected(c->session->ssh))
        return false;
    int sent = ssh_channel_write(c->ssh, data, (uint32_t)(len < space ? len : space));
    if (sent <= 0)
        return false;
    if (from_feed) {
        c->feed += sent;
        c->feed_len -= (size_t)sent;
    } else {
        strbuf_drop_front(&c->tx, (size_t)sent);
    }
    return true;
}

static bool step_running(struct channel *c)
{
    bool moved = false;
    while (send_some(c))
        moved = true;
    if (c->end_input && !c->input_ended && c->feed_len == 0 && c->tx.len == 0) {
        ssh_channel_send_eof(c->ssh);
        c->input_ended = true;
    }
    /* The exit status may come after EOF and before or without a close. */
    if (c->remote_closed || (c->remote_eof && c->has_status)) {
        c->phase = CHANNEL_ENDED;
        if (c == c->session->exec)
            fleet_settle(c->session);
        moved = true;
    }
    return moved;
}

bool channel_step(struct channel *c)
{
    struct session *s = c->session;
    int rc = SSH_OK;
    switch (c->phase) {
    case CHANNEL_OPENING:
        rc = ssh_channel_open_session(c->ssh);
        if (rc == SSH_OK)
            c->phase = CHANNEL_REQUESTING;
        break;
    case CHANNEL_REQUESTING:
        rc = ssh_channel_request_exec(c->ssh, c->command);
        if (rc == SSH_OK)
            c->phase = CHANNEL_RUNNING;
        break;
    case CHANNEL_RUNNING:
        return step_running(c);
    case CHANNEL_ENDED:
        return false;
    }
    if (rc == SSH_AGAIN)
        return false;
    if (rc != SSH_OK)
        session_lost(s, c->phase == CHANNEL_OPENING ? "the node opens no channel"
                                                    : "the node runs no command");
    return rc == SSH_OK;
}
