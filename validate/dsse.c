#include "validate/dsse.h"

#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

/* What the signatures cover, so that payload and type cannot be traded against each other. */
static void preauth(struct strbuf *buf, const char *type, const void *payload, size_t len)
{
    strbuf_printf(buf, "DSSEv1 %zu %s %zu ", strlen(type), type, len);
    strbuf_add(buf, payload, len);
}

static json_t *signature(const struct sign_key *key, const struct strbuf *message, struct err *err)
{
    uint8_t sig[SIGN_SIGNATURE_BYTES];
    if (sign_bytes(key, "", message->data, message->len, sig, err) != 0)
        return NULL;
    struct sign_public public;
    sign_public_raw(key, &public);
    char keyid[HASH_HEX_BYTES];
    sign_keyid(&public, keyid);
    AUTO(free_str) char *text = base64_encode(sig, sizeof sig);
    json_t *row = json_object();
    jsonx_set_str(row, "keyid", keyid);
    jsonx_set_str(row, "sig", text);
    return row;
}

json_t *dsse_sign(const char *type, const void *payload, size_t len, struct sign_key *const keys[],
                  size_t key_count, struct err *err)
{
    if (key_count == 0 || key_count > DSSE_MAX_SIGNATURES) {
        err_set(err, ERR_USAGE, "an envelope needs 1 to %d signing keys, not %zu",
                DSSE_MAX_SIGNATURES, key_count);
        return NULL;
    }
    AUTO(strbuf_release) struct strbuf message = {0};
    preauth(&message, type, payload, len);
    json_auto_t *signatures = json_array();
    for (size_t i = 0; i < key_count; i++) {
        json_t *row = signature(keys[i], &message, err);
        if (!row)
            return NULL;
        jsonx_append(signatures, row);
    }
    AUTO(free_str) char *encoded = base64_encode(payload, len);
    json_t *envelope = json_object();
    jsonx_set_str(envelope, "payloadType", type);
    jsonx_set_str(envelope, "payload", encoded);
    jsonx_set(envelope, "signatures", json_incref(signatures));
    return envelope;
}

struct signature_view {
    const char *keyid;
    uint8_t sig[SIGN_SIGNATURE_BYTES];
};

static int read_signature(const json_t *row, const char *what, struct signature_view *out,
                          struct err *err)
{
    static const char *const keys[] = {"keyid", "sig", NULL};
    const char *text = NULL;
    if (jsonx_only_keys(row, what, keys, err) != 0 ||
        jsonx_get_str(row, what, "keyid", &out->keyid, err) != 0 ||
        jsonx_get_str(row, what, "sig", &text, err) != 0)
        return -1;
    size_t len = 0;
    uint8_t *sig = base64_decode(text, &len);
    bool fits = sig && len == sizeof out->sig;
    if (fits)
        memcpy(out->sig, sig, sizeof out->sig);
    free(sig);
    return fits ? 0
                : err_set(err, ERR_DATA, "%s: a signature is not %d bytes in strict base64", what,
                          SIGN_SIGNATURE_BYTES);
}

static const struct sign_public *find_key(const char *keyid, const struct sign_public trusted[],
                                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char id[HASH_HEX_BYTES];
        sign_keyid(&trusted[i], id);
        if (strcmp(id, keyid) == 0)
            return &trusted[i];
    }
    return NULL;
}

static int check_signatures(const json_t *rows, const char *what, const struct strbuf *message,
                            const struct sign_public trusted[], size_t trusted_count,
                            struct err *err)
{
    size_t count = json_array_size(rows), good = 0;
    if (count == 0 || count > DSSE_MAX_SIGNATURES)
        return err_set(err, ERR_DATA, "%s: must hold 1 to %d signatures, holds %zu", what,
                       DSSE_MAX_SIGNATURES, count);
    struct signature_view seen[DSSE_MAX_SIGNATURES];
    for (size_t i = 0; i < count; i++) {
        if (read_signature(json_array_get(rows, i), what, &seen[i], err) != 0)
            return -1;
        for (size_t k = 0; k < i; k++)
            if (strcmp(seen[k].keyid, seen[i].keyid) == 0)
                return err_set(err, ERR_DATA, "%s: key %.16s signs twice", what, seen[i].keyid);
        const struct sign_public *key = find_key(seen[i].keyid, trusted, trusted_count);
        if (!key)
            continue;
        if (!sign_verify_bytes(key, "", message->data, message->len, seen[i].sig))
            return err_set(err, ERR_DATA,
                           "%s: the signature by key %.16s does not fit the content (altered, or "
                           "signed by someone else)",
                           what, seen[i].keyid);
        good++;
    }
    if (good == 0)
        return err_set(err, ERR_DATA, "%s: not signed by a trusted key (it names key %.16s)", what,
                       seen[0].keyid);
    return 0;
}

int dsse_verify(const json_t *envelope, const char *what, const char *type,
                const struct sign_public trusted[], size_t trusted_count, struct strbuf *payload,
                struct err *err)
{
    static const char *const keys[] = {"payloadType", "payload", "signatures", NULL};
    const char *got_type = NULL, *encoded = NULL;
    const json_t *rows = NULL;
    if (jsonx_only_keys(envelope, what, keys, err) != 0 ||
        jsonx_get_str(envelope, what, "payloadType", &got_type, err) != 0 ||
        jsonx_get_str(envelope, what, "payload", &encoded, err) != 0 ||
        jsonx_get_arr(envelope, what, "signatures", &rows, err) != 0)
        return -1;
    if (strcmp(got_type, type) != 0)
        return err_set(err, ERR_DATA, "%s: payload type is '%.80s', must be '%s'", what, got_type,
                       type);
    size_t bytes = 0;
    uint8_t *decoded = base64_decode(encoded, &bytes);
    if (!decoded)
        return err_set(err, ERR_DATA, "%s: the payload is not strict base64", what);
    AUTO(strbuf_release) struct strbuf message = {0};
    preauth(&message, type, decoded, bytes);
    if (check_signatures(rows, what, &message, trusted, trusted_count, err) != 0) {
        free(decoded);
        return -1;
    }
    strbuf_add(payload, decoded, bytes);
    free(decoded);
    return 0;
}
