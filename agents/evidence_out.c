#include "agents/evidence_out.h"

#include <stdlib.h>
#include <string.h>

#include "common/evidence.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "validate/merkle.h"

static int add_signature(const struct evidence_out *out, json_t *record, struct err *err)
{
    AUTO(free_str) char *text = jsonx_canonical(record);
    uint8_t sig[SIGN_SIGNATURE_BYTES];
    if (sign_bytes(out->key, EVIDENCE_CONTEXT, text, strlen(text), sig, err) != 0)
        return -1;
    AUTO(free_str) char *encoded = base64_encode(sig, sizeof sig);
    jsonx_set_str(record, "sig", encoded);
    return 0;
}

static int check_body(const struct evidence_stage *stage, const json_t *body, struct err *err)
{
    static const char *const added[] = {"run", "node", "seq", "time", "tool", "sig"};
    for (size_t i = 0; i < ARRAY_LEN(added); i++)
        if (json_object_get(body, added[i]))
            return err_set(err, ERR_DATA, "evidence of stage %s brings its own '%s'", stage->name,
                           added[i]);
    const char *name = jsonx_str_or(body, "stage", "");
    if (strcmp(name, stage->name) != 0)
        return err_set(err, ERR_DATA, "evidence of stage '%.64s' came from stage %s", name,
                       stage->name);
    return 0;
}

static void remember(struct evidence_stage *stage, const char *line)
{
    stage->leaves = mem_grow(stage->leaves, stage->count + 1, sizeof *stage->leaves);
    stage->leaves[stage->count++] = merkle_leaf(line, strlen(line));
}

/* The complete record of a body; NULL and err when it is malformed. */
static json_t *complete(const struct evidence_out *out, const json_t *body, struct err *err)
{
    char time[25];
    time_format(wall_ms(), time);
    json_t *record = json_copy((json_t *)body);
    if (!record)
        abort();
    jsonx_set_str(record, "run", out->run);
    jsonx_set_str(record, "node", out->node);
    jsonx_set_int(record, "seq", out->next_seq);
    jsonx_set_str(record, "time", time);
    jsonx_set_str(record, "tool", out->tool);
    if (add_signature(out, record, err) == 0 && evidence_check(record, err) == 0)
        return record;
    json_decref(record);
    return NULL;
}

int evidence_out_line(struct evidence_out *out, struct evidence_stage *stage, const json_t *body,
                      char **line, struct err *err)
{
    if (!json_is_object(body))
        return err_set(err, ERR_DATA, "evidence of stage %s is not an object", stage->name);
    if (check_body(stage, body, err) != 0)
        return -1;
    json_auto_t *record = complete(out, body, err);
    if (!record)
        return -1;
    AUTO(free_str) char *text = jsonx_canonical(record);
    if (strlen(text) > EVIDENCE_MAX_LINE_BYTES)
        return err_set(err, ERR_DATA, "evidence of stage %s has %zu bytes, over the limit of %d",
                       stage->name, strlen(text), EVIDENCE_MAX_LINE_BYTES);
    remember(stage, text);
    out->next_seq++;
    *line = STEAL(text);
    return 0;
}

int evidence_out_seal(struct evidence_out *out, struct evidence_stage *stage, char **line,
                      struct err *err)
{
    struct hash root = merkle_root(stage->leaves, stage->count);
    char hex[HASH_HEX_BYTES];
    hash_hex(&root, hex);
    double records = (double)stage->count;
    json_auto_t *proof = json_object();
    jsonx_set_str(proof, "root", hex);
    struct evidence seal = {
        .stage = stage->name,
        .subject = out->node,
        .quantity = "seal",
        .unit = "1",
        .samples = &records,
        .sample_count = 1,
        .proof = proof,
        .outcome = EVIDENCE_MEASURED,
    };
    json_auto_t *body = evidence_body(&seal, err);
    return body ? evidence_out_line(out, stage, body, line, err) : -1;
}

void evidence_stage_release(struct evidence_stage *stage)
{
    free(stage->leaves);
    *stage = (struct evidence_stage){0};
}
