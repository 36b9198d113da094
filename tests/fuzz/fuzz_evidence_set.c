/* An evidence file: as it is, and with each line signed here so that the later checks are reached.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/causes.h"
#include "validate/judge.h"

#define RUN "20261130T081500Z-3fa9"

static struct sign_key *signing_key(void)
{
    static struct sign_key *key;
    struct err err = {0};
    if (!key)
        key = sign_key_generate(&err);
    return key;
}

static void judge(const struct evidence_set *set)
{
    struct err err = {0};
    json_auto_t *site = json_pack("{s:s,s:{s:{},s:{}},s:{s:s,s:[]}}", "cluster", "c", "nodes", "n1",
                                  "n2", "policy", "require", "all", "exclude");
    json_auto_t *facts = json_pack("{s:{}}", "n1");
    struct judge_input in = {.site = site, .facts = facts, .evidence = set, .now_ms = 1};
    json_auto_t *verdict = NULL;
    if (judge_run(&in, &verdict, &err) != 0 || !verdict)
        abort();
}

static void add(const char *text, size_t len)
{
    struct err err = {0};
    struct sign_public public;
    sign_public_raw(signing_key(), &public);
    struct evidence_set *set = evidence_set_create(RUN);
    if (evidence_set_add(set, "n1", &public, text, len, &err) != 0)
        abort();
    for (size_t i = 0; i < evidence_set_problem_count(set); i++)
        if (!causes_find(evidence_set_problem_at(set, i)->cause))
            abort();
    judge(set);
    evidence_set_destroy(set);
}

/* The line signed afresh where it is an object, else as it is. */
static void add_signed(struct strbuf *out, const char *line, size_t len)
{
    struct err err = {0};
    json_auto_t *record = NULL;
    if (jsonx_parse(line, len, "line", &record, &err) == 0 && json_is_object(record) &&
        evidence_set_sign(record, signing_key(), &err) == 0) {
        AUTO(free_str) char *text = jsonx_canonical(record);
        strbuf_puts(out, text);
    } else {
        strbuf_add(out, line, len);
    }
    strbuf_puts(out, "\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    add(text, size);
    AUTO(strbuf_release) struct strbuf out = {0};
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t len = end ? (size_t)(end - text) - at : size - at;
        add_signed(&out, text + at, len);
        at += len + 1;
    }
    add(out.data ? out.data : "", out.len);
    return 0;
}
