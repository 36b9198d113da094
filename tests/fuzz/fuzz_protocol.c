/* The agent's line reader and request parser on any bytes, in pieces of any size. */
#include <stdint.h>
#include <stdlib.h>

#include "agents/protocol.h"

static void feed_lines(struct protocol_reader *r)
{
    struct err err = {0};
    char *line = NULL;
    size_t len = 0;
    while (protocol_next(r, &line, &len, &err) == 1) {
        struct protocol_request request;
        struct err why = {0};
        struct protocol_writer w = {0};
        bool garbage = false;
        if (protocol_parse(line, len, &request, &garbage, &why) != 0) {
            if (why.kind == ERR_NONE || (garbage && request.id != PROTOCOL_NO_ID))
                abort();
            protocol_reply_error(&w, request.id, &why);
        } else if (request.id < 0 || request.op == PROTOCOL_UNSET) {
            abort();
        }
        protocol_request_release(&request);
        protocol_writer_release(&w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct protocol_reader r = {0};
    size_t step = size ? (size_t)data[0] % 97 + 1 : 1;
    for (size_t at = 0; at < size; at += step) {
        strbuf_add(&r.buf, data + at, size - at < step ? size - at : step);
        feed_lines(&r);
    }
    protocol_reader_release(&r);
    return 0;
}
