#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "validate/dsse.h"
#include "validate/merkle.h"
#include "validate/report.h"
#include "validate/slice.h"

enum { EVIDENCE_MAX_FILE_BYTES = 1024 * 1024 * 1024 };

static const char *const predicate_keys[] = {
    "v",           "run",       "cluster", "serial", "parent", "issued", "expires",
    "site_digest", "policy",    "tools",   "nodes",  "result", "merkle", "cluster_elements",
    "required",    "simulated", NULL,
};
static const char *const entry_keys[] = {"node",          "state",    "identity",
                                         "config_digest", "node_key", "evidence",
                                         "elements",      "causes",   NULL};

static void destroy_set(struct evidence_set **set)
{
    evidence_set_destroy(*set);
}

/* --- form ------------------------------------------------------------------------------------- */

static int check_statement(const json_t *statement, const json_t **predicate,
                           const json_t **subjects, struct err *err)
{
    static const char *const keys[] = {"_type", "subject", "predicateType", "predicate", NULL};
    const char *type = NULL, *predicate_type = NULL;
    int64_t version = 0;
    if (jsonx_only_keys(statement, "report", keys, err) != 0 ||
        jsonx_get_str(statement, "report", "_type", &type, err) != 0 ||
        jsonx_get_str(statement, "report", "predicateType", &predicate_type, err) != 0 ||
        jsonx_get_arr(statement, "report", "subject", subjects, err) != 0 ||
        jsonx_get_obj(statement, "report", "predicate", predicate, err) != 0)
        return -1;
    if (strcmp(type, REPORT_STATEMENT) != 0 || strcmp(predicate_type, REPORT_PREDICATE) != 0)
        return err_set(err, ERR_DATA, "report: is of type '%.80s', must be '%s'", predicate_type,
                       REPORT_PREDICATE);
    if (jsonx_only_keys(*predicate, "report: predicate", predicate_keys, err) != 0 ||
        jsonx_get_int(*predicate, "report: predicate", "v", &version, err) != 0)
        return -1;
    if (version != 1)
        return err_set(err, ERR_DATA, "report: version %lld is not known (this program knows 1)",
                       (long long)version);
    return 0;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static int check_entry(const json_t *entry, const char *node, const char *digest, struct err *err)
{
    if (!entry)
        return err_set(err, ERR_DATA,
                       "report: node %.80s was dropped (it is a subject without an "
                       "entry)",
                       node);
    if (jsonx_only_keys(entry, "report: entry", entry_keys, err) != 0)
        return -1;
    AUTO(free_str) char *text = jsonx_canonical(entry);
    struct hash h = hash_of(text, strlen(text));
    char hex[HASH_HEX_BYTES];
    hash_hex(&h, hex);
    if (strcmp(hex, digest) != 0)
        return err_set(err, ERR_DATA,
                       "report: the entry of %.80s does not have the digest of its "
                       "subject",
                       node);
    if (strcmp(jsonx_str_or(entry, "node", ""), node) != 0)
        return err_set(err, ERR_DATA, "report: the entry under %.80s is of node '%.80s'", node,
                       jsonx_str_or(entry, "node", ""));
    const char *state = jsonx_str_or(entry, "state", "");
    const char *sum = verdict_state_name(slice_entry_state(entry));
    if (strcmp(state, sum) != 0)
        return err_set(err, ERR_DATA, "report: %.80s is called %.20s, its elements add up to %s",
                       node, state, sum);
    return 0;
}

static int check_nodes(const json_t *predicate, const json_t *subjects, struct err *err)
{
    const json_t *nodes = NULL, *merkle = NULL;
    if (jsonx_get_obj(predicate, "report: predicate", "nodes", &nodes, err) != 0 ||
        jsonx_get_obj(predicate, "report: predicate", "merkle", &merkle, err) != 0)
        return -1;
    json_auto_t *seen = json_object();
    for (size_t i = 0; i < json_array_size(subjects); i++) {
        const json_t *subject = json_array_get(subjects, i);
        const char *node = NULL;
        if (jsonx_get_str(subject, "report: subject", "name", &node, err) != 0)
            return -1;
        if (json_object_get(seen, node))
            return err_set(err, ERR_DATA, "report: node %.80s is a subject twice", node);
        jsonx_set_bool(seen, node, true);
        const char *digest = jsonx_str_or(json_object_get(subject, "digest"), "sha256", "");
        if (check_entry(json_object_get(nodes, node), node, digest, err) != 0)
            return -1;
    }
    size_t count = json_object_size(nodes);
    if (count != json_array_size(subjects))
        return err_set(err, ERR_DATA, "report: %zu entries for %zu subjects", count,
                       json_array_size(subjects));
    struct hash root = slice_root(nodes);
    char hex[HASH_HEX_BYTES];
    hash_hex(&root, hex);
    if (strcmp(hex, jsonx_str_or(merkle, "root", "")) != 0 ||
        jsonx_int_or(merkle, "count", -1) != (int64_t)count)
        return err_set(err, ERR_DATA, "report: the Merkle root does not fit the %zu entries",
                       count);
    return 0;
}

/* --- expectations ----------------------------------------------------------------------------- */

static int check_name(const char *what, const char *got, const char *want, struct err *err)
{
    if (!want || strcmp(got, want) == 0)
        return 0;
    return err_set(err, ERR_DATA, "report: is about %s %.80s, %.80s was expected", what, got, want);
}

static int check_times(const json_t *predicate, int64_t now_ms, struct err *err)
{
    const char *issued = NULL, *expires = NULL;
    int64_t issued_ms = 0, expires_ms = 0;
    if (jsonx_get_str(predicate, "report: predicate", "issued", &issued, err) != 0 ||
        jsonx_get_str(predicate, "report: predicate", "expires", &expires, err) != 0)
        return -1;
    if (time_parse(issued, &issued_ms) != 0 || time_parse(expires, &expires_ms) != 0)
        return err_set(err, ERR_DATA, "report: issued or expires is not an RFC 3339 time in UTC");
    if (now_ms == 0)
        return 0;
    if (issued_ms > now_ms + REPORT_FUTURE_MS)
        return err_set(err, ERR_DATA, "report: issued in the future (%s); check the clocks",
                       issued);
    if (expires_ms <= now_ms)
        return err_set(err, ERR_DATA, "report: expired on %s; run `muster validate` for a new one",
                       expires);
    return 0;
}

static int check_expected(const json_t *predicate, const struct report_expect *expect,
                          struct err *err)
{
    const char *cluster = NULL, *run = NULL;
    int64_t serial = 0;
    bool simulated = true;
    if (jsonx_get_str(predicate, "report: predicate", "cluster", &cluster, err) != 0 ||
        jsonx_get_str(predicate, "report: predicate", "run", &run, err) != 0 ||
        jsonx_get_int(predicate, "report: predicate", "serial", &serial, err) != 0 ||
        jsonx_get_bool(predicate, "report: predicate", "simulated", &simulated, err) != 0 ||
        check_name("cluster", cluster, expect->cluster, err) != 0 ||
        check_name("run", run, expect->run, err) != 0)
        return -1;
    if (serial < expect->min_serial)
        return err_set(
            err, ERR_DATA,
            "report: serial %lld is older than %lld, which was accepted already (replayed?)",
            (long long)serial, (long long)expect->min_serial);
    if (simulated && !expect->allow_simulated)
        return err_set(err, ERR_DATA,
                       "report: made with simulated hardware; it says nothing about "
                       "this cluster");
    return check_times(predicate, expect->now_ms, err);
}

/* --- evidence --------------------------------------------------------------------------------- */

static bool has_cause(const json_t *entry, const char *code)
{
    const json_t *causes = json_object_get(entry, "causes");
    for (size_t i = 0; i < json_array_size(causes); i++)
        if (strcmp(jsonx_str_or(json_array_get(causes, i), "code", ""), code) == 0)
            return true;
    return false;
}

/* What is wrong with the lines must have been told by the report. */
static int check_records(const char *run, const char *node, const json_t *entry, const char *text,
                         size_t len, struct err *err)
{
    struct sign_public key;
    const char *encoded = jsonx_str_or(entry, "node_key", NULL);
    bool known = encoded && sign_public_from_base64(encoded, &key) == 0;
    AUTO(destroy_set) struct evidence_set *set = evidence_set_create(run);
    if (evidence_set_add(set, node, known ? &key : NULL, text, len, err) != 0)
        return -1;
    for (size_t i = 0; i < evidence_set_problem_count(set); i++) {
        const struct evidence_set_problem *p = evidence_set_problem_at(set, i);
        if (strcmp(p->cause, "evidence-unsealed") != 0 && !has_cause(entry, p->cause))
            return err_set(err, ERR_DATA, "evidence of %.80s: %.300s", node, p->text);
    }
    return 0;
}

static int check_evidence(const char *dir, const char *run, const char *node, const json_t *entry,
                          struct err *err)
{
    if (strchr(node, '/'))
        return err_set(err, ERR_DATA, "report: node name '%.80s' holds a slash", node);
    const json_t *said = json_object_get(entry, "evidence");
    AUTO(free_str) char *path = str_printf("%s/%s.jsonl", dir, node);
    AUTO(free_str) char *text = NULL;
    size_t len = 0, count = 0;
    struct err read_err = {0};
    if (fs_read(path, EVIDENCE_MAX_FILE_BYTES, &text, &len, &read_err) != 0) {
        if (read_err.native != ENOENT)
            return err_set(err, read_err.kind, "%s", read_err.text);
        if (jsonx_int_or(said, "count", -1) == 0)
            return 0;
        return err_set(err, ERR_DATA, "evidence of %.80s: %.200s is missing", node, path);
    }
    struct hash root = merkle_root_of_lines(text, len, &count);
    char hex[HASH_HEX_BYTES];
    hash_hex(&root, hex);
    if (jsonx_int_or(said, "count", -1) != (int64_t)count)
        return err_set(err, ERR_DATA,
                       "evidence of %.80s: %zu records, the report was made from "
                       "%lld",
                       node, count, (long long)jsonx_int_or(said, "count", -1));
    if (strcmp(hex, jsonx_str_or(said, "root", "")) != 0)
        return err_set(err, ERR_DATA,
                       "evidence of %.80s: not the records that the report was made "
                       "from (swapped or altered)",
                       node);
    return check_records(run, node, entry, text, len, err);
}

static int check_all_evidence(const char *dir, const json_t *predicate, struct err *err)
{
    const char *run = jsonx_str_or(predicate, "run", "");
    const char *node;
    json_t *entry;
    json_object_foreach(json_object_get(predicate, "nodes"), node,
                        entry) if (check_evidence(dir, run, node, entry, err) != 0) return -1;
    return 0;
}

/* --- the whole -------------------------------------------------------------------------------- */

int report_verify(const char *text, size_t len, const struct report_expect *expect,
                  json_t **statement, struct err *err)
{
    json_auto_t *envelope = NULL, *body = NULL;
    AUTO(strbuf_release) struct strbuf payload = {0};
    const json_t *predicate = NULL, *subjects = NULL;
    if (slice_parse_exact(text, len, "report", &envelope, err) != 0 ||
        dsse_verify(envelope, "report", DSSE_TYPE_INTOTO, expect->trusted, expect->trusted_count,
                    &payload, err) != 0 ||
        slice_parse_exact(payload.data, payload.len, "report: payload", &body, err) != 0 ||
        check_statement(body, &predicate, &subjects, err) != 0 ||
        check_nodes(predicate, subjects, err) != 0 || check_expected(predicate, expect, err) != 0)
        return -1;
    if (expect->evidence_dir && check_all_evidence(expect->evidence_dir, predicate, err) != 0)
        return -1;
    if (statement)
        *statement = json_incref(body);
    return 0;
}
