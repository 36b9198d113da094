/* An envelope from outside: refused with a reason, or a payload that a trusted key has signed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/dsse.h"

static struct sign_key *signing_key(void)
{
    static struct sign_key *key;
    struct err err = {0};
    if (!key)
        key = sign_key_generate(&err);
    return key;
}

/* Bytes of the input as a payload: sign, verify, compare. */
static void round_trip(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct sign_key *key = signing_key();
    struct sign_public public;
    sign_public_raw(key, &public);
    json_auto_t *envelope = dsse_sign("t", data, size, &key, 1, &err);
    struct strbuf payload = {0};
    if (dsse_verify(envelope, "envelope", "t", &public, 1, &payload, &err) != 0 ||
        payload.len != size || (size && memcmp(payload.data, data, size) != 0))
        abort();
    strbuf_release(&payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct sign_public public;
    sign_public_raw(signing_key(), &public);
    round_trip(data, size);
    json_auto_t *envelope = NULL;
    if (jsonx_parse((const char *)data, size, "input", &envelope, &err) != 0)
        return 0;
    struct strbuf payload = {0};
    /* No input can carry a signature by a key that was made a moment ago. */
    if (dsse_verify(envelope, "envelope", DSSE_TYPE_INTOTO, &public, 1, &payload, &err) == 0)
        abort();
    if (err.kind != ERR_DATA || !err.text[0] || payload.data)
        abort();
    return 0;
}
