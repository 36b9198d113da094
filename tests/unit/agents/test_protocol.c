/* Lines in and out, requests held to their table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agents/protocol.h"
#include "common/jsonx.h"

/* --- requests ------------------------------------------------------------------------------- */

static const struct {
    const char *line;
    int64_t id;
    bool garbage;
    enum err_kind kind; /* ERR_NONE: accepted as op */
    enum protocol_op op;
    const char *text;
} requests[] = {
    {"{\"v\":1,\"id\":7,\"op\":\"hello\",\"run\":\"r\",\"node\":\"n\"}", 7, false, ERR_NONE,
     PROTOCOL_HELLO, NULL},
    {"{\"v\":1,\"id\":7,\"op\":\"hello\",\"run\":\"r\",\"node\":\"n\",\"seq\":4}", 7, false,
     ERR_NONE, PROTOCOL_HELLO, NULL},
    {"{\"v\":1,\"id\":0,\"op\":\"facts\"}", 0, false, ERR_NONE, PROTOCOL_FACTS, NULL},
    {"{\"v\":1,\"id\":1,\"op\":\"stage\",\"stage\":\"pairs\",\"params\":{},\"deadline_ms\":5}", 1,
     false, ERR_NONE, PROTOCOL_STAGE, NULL},
    {"{\"v\":1,\"id\":1,\"op\":\"rollback\",\"txn\":\"latest\",\"force\":true}", 1, false, ERR_NONE,
     PROTOCOL_ROLLBACK, NULL},
    {"{\"v\":1,\"id\":1,\"op\":\"bye\"}", 1, false, ERR_NONE, PROTOCOL_BYE, NULL},
    {"Welcome to gpu001!", PROTOCOL_NO_ID, true, ERR_DATA, 0,
     "request:1:7: '[' or '{' expected near 'Welcome'"},
    {"", PROTOCOL_NO_ID, true, ERR_DATA, 0, "request:1:0: '[' or '{' expected near end of file"},
    {"[1]", PROTOCOL_NO_ID, true, ERR_DATA, 0, "request: not a JSON object"},
    {"{\"v\":1,\"id\":1,\"id\":2,\"op\":\"bye\"}", PROTOCOL_NO_ID, true, ERR_DATA, 0,
     "request:1:18: duplicate object key near '\"id\"'"},
    {"{\"v\":1,\"op\":\"bye\"}", PROTOCOL_NO_ID, false, ERR_DATA, 0,
     "request: key 'id' is missing (must be an integer)"},
    {"{\"v\":1,\"id\":\"3\",\"op\":\"bye\"}", PROTOCOL_NO_ID, false, ERR_DATA, 0,
     "request: key 'id' must be an integer, is a string"},
    {"{\"v\":1,\"id\":-1,\"op\":\"bye\"}", PROTOCOL_NO_ID, false, ERR_DATA, 0,
     "request: id -1 is negative"},
    {"{\"id\":3,\"op\":\"bye\"}", 3, false, ERR_DATA, 0,
     "request: key 'v' is missing (must be an integer)"},
    {"{\"v\":2,\"id\":3,\"op\":\"bye\"}", 3, false, ERR_DATA, 0,
     "request: version 2 is not known (this agent knows 1)"},
    {"{\"v\":1,\"id\":3}", 3, false, ERR_DATA, 0,
     "request: key 'op' is missing (must be a string)"},
    {"{\"v\":1,\"id\":3,\"op\":\"reboot\"}", 3, false, ERR_USAGE, 0, "unknown op 'reboot'"},
    {"{\"v\":1,\"id\":3,\"op\":\"bey\"}", 3, false, ERR_USAGE, 0,
     "unknown op 'bey'; did you mean 'bye'?"},
    {"{\"v\":1,\"id\":3,\"op\":\"aply\"}", 3, false, ERR_USAGE, 0,
     "unknown op 'aply'; did you mean 'apply'?"},
    {"{\"v\":1,\"id\":3,\"op\":\"unset\"}", 3, false, ERR_USAGE, 0, "unknown op 'unset'"},
    {"{\"v\":1,\"id\":3,\"op\":\"bye\",\"force\":true}", 3, false, ERR_USAGE, 0,
     "bye: unknown key 'force'"},
    {"{\"v\":1,\"id\":3,\"op\":\"plan\",\"resource\":[]}", 3, false, ERR_USAGE, 0,
     "plan: unknown key 'resource'; did you mean 'resources'?"},
    {"{\"v\":1,\"id\":3,\"op\":\"plan\",\"resources\":{}}", 3, false, ERR_DATA, 0,
     "plan: key 'resources' must be an array, is an object"},
    {"{\"v\":1,\"id\":3,\"op\":\"plan\"}", 3, false, ERR_DATA, 0,
     "plan: key 'resources' is missing (must be an array)"},
    {"{\"v\":1,\"id\":3,\"op\":\"go\",\"stage_id\":1.5,\"data\":{}}", 3, false, ERR_DATA, 0,
     "go: key 'stage_id' must be an integer, is a number"},
    {"{\"v\":1,\"id\":3,\"op\":\"rollback\",\"txn\":\"t\",\"force\":1}", 3, false, ERR_DATA, 0,
     "rollback: key 'force' must be true or false, is an integer"},
    {"{\"v\":1,\"id\":3,\"op\":\"hello\",\"run\":\"r\",\"node\":null}", 3, false, ERR_DATA, 0,
     "hello: key 'node' must be a string, is null"},
};

static void holds_requests_to_the_table(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        struct protocol_request request;
        struct err err = {0};
        bool garbage = false;
        int rc =
            protocol_parse(requests[i].line, strlen(requests[i].line), &request, &garbage, &err);
        if (requests[i].text)
            assert_string_equal(err.text, requests[i].text);
        assert_int_equal(err.kind, requests[i].kind);
        assert_int_equal(rc, requests[i].kind == ERR_NONE ? 0 : -1);
        assert_int_equal(request.id, requests[i].id);
        assert_int_equal(garbage, requests[i].garbage);
        if (rc == 0)
            assert_int_equal(request.op, requests[i].op);
        protocol_request_release(&request);
    }
}

static void names_every_op(void **state)
{
    for (int op = PROTOCOL_UNSET + 1; op < PROTOCOL_OP__COUNT; op++) {
        AUTO(free_str)
        char *line = str_printf("{\"v\":1,\"id\":1,\"op\":\"%s\",\"none\":0}",
                                protocol_op_name((enum protocol_op)op));
        struct protocol_request request;
        struct err err = {0};
        bool garbage = false;
        assert_int_equal(protocol_parse(line, strlen(line), &request, &garbage, &err), -1);
        assert_int_equal(request.op, op);
        assert_int_equal(err.kind, ERR_USAGE);
        protocol_request_release(&request);
    }
    assert_string_equal(protocol_op_name(PROTOCOL_OP__COUNT), "unset");
}

/* --- lines in ------------------------------------------------------------------------------- */

static void expect_line(struct protocol_reader *r, const char *text)
{
    struct err err = {0};
    char *line = NULL;
    size_t len = 0;
    assert_int_equal(protocol_next(r, &line, &len, &err), 1);
    assert_string_equal(line, text);
    assert_int_equal(len, strlen(text));
}

static void expect_none(struct protocol_reader *r)
{
    struct err err = {0};
    char *line = NULL;
    size_t len = 0;
    assert_int_equal(protocol_next(r, &line, &len, &err), 0);
}

static void joins_short_reads(void **state)
{
    static const char text[] = "{\"a\":1}\n\n{\"b\":2}\nrest";
    int fds[2];
    struct err err = {0};
    struct protocol_reader r = {0};
    assert_int_equal(pipe(fds), 0);
    size_t lines = 0;
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        assert_int_equal(write(fds[1], text + i, 1), 1);
        assert_int_equal(protocol_fill(&r, fds[0], &err), 1);
        if (text[i] == '\n')
            expect_line(&r, lines == 0 ? "{\"a\":1}" : lines == 1 ? "" : "{\"b\":2}"), lines++;
        else
            expect_none(&r);
    }
    assert_int_equal(lines, 3);
    close(fds[1]);
    assert_int_equal(protocol_fill(&r, fds[0], &err), 0);
    assert_true(r.ended);
    expect_none(&r);
    protocol_reader_release(&r);
    close(fds[0]);
}

static void splits_a_block(void **state)
{
    struct protocol_reader r = {0};
    strbuf_puts(&r.buf, "one\ntwo\nthr");
    expect_line(&r, "one");
    expect_line(&r, "two");
    expect_none(&r);
    strbuf_puts(&r.buf, "ee\n");
    expect_line(&r, "three");
    expect_none(&r);
    protocol_reader_release(&r);
}

/* The limit counts the line without its newline. */
static void limits_the_line(void **state)
{
    for (int extra = -1; extra <= 1; extra++) {
        for (int newline = 0; newline <= 1; newline++) {
            struct protocol_reader r = {0};
            struct err err = {0};
            char *line = NULL;
            size_t len = 0, want = (size_t)(PROTOCOL_MAX_LINE_BYTES + extra);
            char *text = mem_grow(NULL, want, 1);
            memset(text, 'x', want);
            strbuf_add(&r.buf, text, want);
            free(text);
            if (newline)
                strbuf_puts(&r.buf, "\n");
            int found = protocol_next(&r, &line, &len, &err);
            assert_int_equal(found, extra > 0 ? -1 : newline);
            if (extra > 0)
                assert_string_equal(err.text, "a line is longer than the limit of 8388608 bytes");
            protocol_reader_release(&r);
        }
    }
}

/* --- lines out ------------------------------------------------------------------------------ */

static void writes_replies_and_events(void **state)
{
    struct protocol_writer w = {0};
    struct err err = {.kind = ERR_TIMEOUT, .text = "late"};
    json_t *fields = json_pack("{s:i,s:i,s:s}", "round", 2, "id", 99, "event", "forged");
    protocol_reply(&w, 3, NULL);
    protocol_reply_error(&w, PROTOCOL_NO_ID, &err);
    protocol_event(&w, 4, "ready", fields);
    assert_string_equal(
        w.buf.data,
        "{\"v\":1,\"id\":3,\"ok\":true,\"data\":{}}\n"
        "{\"v\":1,\"id\":null,\"ok\":false,\"error\":{\"kind\":\"timeout\",\"text\":\"late\"}}\n"
        "{\"v\":1,\"id\":4,\"event\":\"ready\",\"round\":2}\n");
    protocol_writer_release(&w);
}

static void replies_with_text_that_is_not_utf8(void **state)
{
    struct protocol_writer w = {0};
    struct err err = {.kind = ERR_DATA, .text = "unknown op '\xff'"};
    protocol_reply_error(&w, 1, &err);
    assert_string_equal(w.buf.data,
                        "{\"v\":1,\"id\":1,\"ok\":false,\"error\":{\"kind\":\"data\",\"text\":"
                        "\"an error whose text is not UTF-8\"}}\n");
    protocol_writer_release(&w);
}

static void refuses_a_reply_over_the_limit(void **state)
{
    struct protocol_writer w = {0};
    char *big = mem_grow(NULL, PROTOCOL_MAX_LINE_BYTES + 1, 1);
    memset(big, 'x', PROTOCOL_MAX_LINE_BYTES);
    big[PROTOCOL_MAX_LINE_BYTES] = '\0';
    protocol_reply(&w, 1, json_pack("{s:s}", "x", big));
    free(big);
    assert_string_equal(
        w.buf.data,
        "{\"v\":1,\"id\":1,\"ok\":false,\"error\":{\"kind\":\"data\",\"text\":\"the reply "
        "has 8388648 bytes, over the limit of 8388608\"}}\n");
    protocol_writer_release(&w);
}

/* Neither a full pipe nor a full socket may stop the agent; nothing is lost once there is room. */
static void never_blocks(int fds[2])
{
    struct protocol_writer w = {0};
    size_t sent = 0, got = 0;
    for (int i = 0; i < 100000; i++)
        protocol_event(&w, i, "tick", NULL);
    size_t total = protocol_pending_bytes(&w);
    protocol_flush(&w, fds[1]);
    sent = total - protocol_pending_bytes(&w);
    assert_true(sent > 0 && sent < total);
    char chunk[65536], last = 0;
    while (got < total) {
        ssize_t n = read(fds[0], chunk, sizeof chunk);
        assert_true(n > 0);
        got += (size_t)n;
        last = chunk[n - 1];
        protocol_flush(&w, fds[1]);
    }
    assert_int_equal(got, total);
    assert_int_equal(last, '\n');
    assert_int_equal(protocol_pending_bytes(&w), 0);
    close(fds[0]);
    close(fds[1]);
    protocol_writer_release(&w);
}

static void never_blocks_on_a_pipe(void **state)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    never_blocks(fds);
}

static void never_blocks_on_a_socket(void **state)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    never_blocks(fds);
}

static void notices_that_nobody_reads(void **state)
{
    int fds[2];
    struct protocol_writer w = {0};
    assert_int_equal(pipe(fds), 0);
    close(fds[0]);
    protocol_reply(&w, 1, NULL);
    protocol_flush(&w, fds[1]);
    assert_true(w.broken);
    protocol_reply(&w, 2, NULL);
    assert_int_equal(protocol_pending_bytes(&w), 0);
    close(fds[1]);
    protocol_writer_release(&w);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_requests_to_the_table),
        cmocka_unit_test(names_every_op),
        cmocka_unit_test(joins_short_reads),
        cmocka_unit_test(splits_a_block),
        cmocka_unit_test(limits_the_line),
        cmocka_unit_test(writes_replies_and_events),
        cmocka_unit_test(replies_with_text_that_is_not_utf8),
        cmocka_unit_test(refuses_a_reply_over_the_limit),
        cmocka_unit_test(never_blocks_on_a_pipe),
        cmocka_unit_test(never_blocks_on_a_socket),
        cmocka_unit_test(notices_that_nobody_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
