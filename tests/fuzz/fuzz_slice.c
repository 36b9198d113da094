/* A slice as the gate reads it; where "root" is an object with a statement, it is signed here
 * first. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/dsse.h"
#include "validate/gate.h"

static struct sign_key *signing_key(void)
{
    static struct sign_key *key;
    struct err err = {0};
    if (!key)
        key = sign_key_generate(&err);
    return key;
}

static void check(const char *text, size_t len)
{
    struct sign_public public;
    sign_public_raw(signing_key(), &public);
    /* The machine that the corpus is about. */
    json_auto_t *identity =
        json_pack("{s:s,s:[s],s:[],s:[s],s:n,s:{}}", "machine_id", "n2", "ssh_host_keys",
                  "SHA256:abc", "gpus", "nics", "02:00:00:00:00:01", "driver", "firmware");
    struct gate_input in = {.slice = text,
                            .slice_len = len,
                            .trusted = &public,
                            .trusted_count = 1,
                            .node = "n2",
                            .identity = identity,
                            .now_ms = INT64_C(1796200000000)};
    struct gate_result result;
    gate_check(&in, &result);
    if (!result.why[0] || strchr(result.why, '\n') || result.status > GATE_CANNOT_TELL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    check((const char *)data, size);
    json_auto_t *slice = NULL;
    if (jsonx_parse((const char *)data, size, "input", &slice, &err) != 0)
        return 0;
    const json_t *root = json_object_get(slice, "root");
    if (!json_is_object(slice) || !json_is_object(root))
        return 0;
    AUTO(free_str) char *payload = jsonx_canonical(root);
    struct sign_key *key = signing_key();
    jsonx_set(slice, "root", dsse_sign(DSSE_TYPE_INTOTO, payload, strlen(payload), &key, 1, &err));
    AUTO(free_str) char *text = jsonx_canonical(slice);
    check(text, strlen(text));
    return 0;
}
