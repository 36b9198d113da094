#include "validate/report.h"

#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "validate/dsse.h"
#include "validate/slice.h"

static void digest_of(const json_t *value, char out[static HASH_HEX_BYTES])
{
    AUTO(free_str) char *text = jsonx_canonical(value);
    struct hash h = hash_of(text, strlen(text));
    hash_hex(&h, out);
}

int report_config_digest(const json_t *manifest, char out[static HASH_HEX_BYTES])
{
    const json_t *items = json_object_get(manifest, "items");
    if (!json_is_array(items))
        return -1;
    digest_of(items, out);
    return 0;
}

/* --- entries ---------------------------------------------------------------------------------- */

/* Length of the node's name at the start of a subject; 0 for a path or the cluster. */
static size_t owner_len(const char *subject)
{
    if (strchr(subject, '>'))
        return 0;
    return strcspn(subject, "/");
}

/* Elements by node; "" holds those of paths and of the cluster. */
static json_t *group_elements(const json_t *verdict, const json_t *nodes)
{
    json_t *groups = json_object();
    const json_t *elements = json_object_get(verdict, "elements");
    for (size_t i = 0; i < json_array_size(elements); i++) {
        json_t *e = json_array_get(elements, i);
        const char *subject = jsonx_str_or(e, "subject", "");
        AUTO(free_str) char *owner = str_printf("%.*s", (int)owner_len(subject), subject);
        const char *key = json_object_get(nodes, owner) ? owner : "";
        if (!json_object_get(groups, key))
            jsonx_set(groups, key, json_array());
        jsonx_append(json_object_get(groups, key), json_incref(e));
    }
    return groups;
}

static json_t *copy_or(const json_t *value, json_t *fallback)
{
    if (!value)
        return fallback;
    json_decref(fallback);
    return json_incref((json_t *)value);
}

static json_t *evidence_json(const struct evidence_set *set, const char *node)
{
    const struct evidence_set_node *n = evidence_set_node(set, node);
    struct hash root = n ? n->root : hash_of("", 0);
    char hex[HASH_HEX_BYTES];
    hash_hex(&root, hex);
    json_t *out = json_object();
    jsonx_set_str(out, "root", hex);
    jsonx_set_int(out, "count", n ? (int64_t)n->line_count : 0);
    return out;
}

static json_t *entry_json(const struct report_input *in, const char *node, const json_t *judged,
                          const json_t *groups)
{
    char config[HASH_HEX_BYTES];
    bool has_config = report_config_digest(json_object_get(in->configs, node), config) == 0;
    const json_t *facts = json_object_get(in->facts, node);
    json_t *e = json_object();
    jsonx_set_str(e, "node", node);
    jsonx_set_str(e, "state", jsonx_str_or(judged, "state", "unknown"));
    jsonx_set(e, "identity", copy_or(json_object_get(facts, "identity"), json_null()));
    jsonx_set_str(e, "config_digest", has_config ? config : NULL);
    jsonx_set_str(e, "node_key", jsonx_str_or(in->node_keys, node, NULL));
    jsonx_set(e, "evidence", evidence_json(in->evidence, node));
    jsonx_set(e, "elements", copy_or(json_object_get(groups, node), json_array()));
    jsonx_set(e, "causes", copy_or(json_object_get(judged, "causes"), json_array()));
    return e;
}

static int build_entries(const struct report_input *in, const json_t *groups, json_t **entries,
                         struct err *err)
{
    const json_t *judged = NULL, *nodes = NULL;
    if (jsonx_get_obj(in->verdict, "verdict", "nodes", &judged, err) != 0 ||
        jsonx_get_obj(in->site, "site", "nodes", &nodes, err) != 0)
        return -1;
    json_auto_t *out = json_object();
    const char *node;
    json_t *row;
    json_object_foreach((json_t *)nodes, node, row)
    {
        const json_t *own = json_object_get(judged, node);
        if (!own)
            return err_set(err, ERR_DATA, "report: the verdict lacks node '%.80s' of the site",
                           node);
        json_t *entry = entry_json(in, node, own, groups);
        jsonx_set(out, node, entry);
        const char *state = jsonx_str_or(entry, "state", "");
        const char *sum = verdict_state_name(slice_entry_state(entry));
        if (strcmp(state, sum) != 0)
            return err_set(err, ERR_DATA,
                           "report: the verdict calls %.80s %s, its elements add up "
                           "to %s",
                           node, state, sum);
    }
    if (json_object_size(judged) != json_object_size(nodes))
        return err_set(err, ERR_DATA, "report: the verdict has %zu nodes, the site has %zu",
                       json_object_size(judged), json_object_size(nodes));
    *entries = json_incref(out);
    return 0;
}

/* --- statement -------------------------------------------------------------------------------- */

static json_t *subjects_json(const json_t *entries)
{
    json_t *subjects = json_array();
    const char *node;
    json_t *entry;
    json_object_foreach((json_t *)entries, node, entry)
    {
        char hex[HASH_HEX_BYTES];
        digest_of(entry, hex);
        json_t *digest = json_object(), *subject = json_object();
        jsonx_set_str(digest, "sha256", hex);
        jsonx_set_str(subject, "name", node);
        jsonx_set(subject, "digest", digest);
        jsonx_append(subjects, subject);
    }
    return subjects;
}

/* What report and root share. */
static json_t *common_predicate(const struct report_input *in)
{
    char issued[25], expires[25];
    time_format(in->issued_ms, issued);
    time_format(in->expires_ms, expires);
    json_t *p = json_object();
    jsonx_set_int(p, "v", 1);
    jsonx_set_str(p, "run", jsonx_str_or(in->verdict, "run", ""));
    jsonx_set_str(p, "cluster", jsonx_str_or(in->verdict, "cluster", ""));
    jsonx_set_int(p, "serial", in->serial);
    jsonx_set_str(p, "issued", issued);
    jsonx_set_str(p, "expires", expires);
    jsonx_set(p, "required", copy_or(json_object_get(in->verdict, "required"), json_array()));
    jsonx_set_bool(p, "simulated", in->simulated);
    return p;
}

static json_t *predicate_json(const struct report_input *in, const json_t *entries,
                              const json_t *groups)
{
    char site[HASH_HEX_BYTES], root_hex[HASH_HEX_BYTES];
    digest_of(in->site, site);
    struct hash root = slice_root(entries);
    hash_hex(&root, root_hex);
    json_t *p = common_predicate(in), *tools = json_object(), *result = json_object();
    json_t *merkle = json_object();
    jsonx_set_str(p, "parent", in->parent);
    jsonx_set_str(p, "site_digest", site);
    jsonx_set(p, "policy", copy_or(json_object_get(in->site, "policy"), json_object()));
    jsonx_set_str(tools, "muster", in->muster_version);
    jsonx_set(tools, "agents", copy_or(in->agents, json_object()));
    jsonx_set(p, "tools", tools);
    jsonx_set(p, "nodes", json_incref((json_t *)entries));
    jsonx_set_str(result, "state", jsonx_str_or(in->verdict, "cluster_state", "unknown"));
    jsonx_set(result, "counts", copy_or(json_object_get(in->verdict, "counts"), json_object()));
    jsonx_set(p, "result", result);
    jsonx_set(p, "cluster_elements", copy_or(json_object_get(groups, ""), json_array()));
    jsonx_set_str(merkle, "root", root_hex);
    jsonx_set_int(merkle, "count", (int64_t)json_object_size(entries));
    jsonx_set(p, "merkle", merkle);
    return p;
}

static char *statement_text(const struct report_input *in, const json_t *entries,
                            const json_t *groups)
{
    json_auto_t *s = json_object();
    jsonx_set_str(s, "_type", REPORT_STATEMENT);
    jsonx_set(s, "subject", subjects_json(entries));
    jsonx_set_str(s, "predicateType", REPORT_PREDICATE);
    jsonx_set(s, "predicate", predicate_json(in, entries, groups));
    return jsonx_canonical(s);
}

static json_t *root_predicate(const struct report_input *in, size_t count, const char *report_hash)
{
    json_t *p = common_predicate(in), *policy = json_object();
    jsonx_set_bool(policy, "allow_degraded",
                   jsonx_bool_or(json_object_get(in->site, "policy"), "allow_degraded", false));
    jsonx_set(p, "policy", policy);
    jsonx_set_int(p, "count", (int64_t)count);
    jsonx_set_str(p, "report", report_hash);
    return p;
}

static int check_input(const struct report_input *in, struct err *err)
{
    struct hash unused;
    const char *run = NULL, *cluster = NULL;
    if (jsonx_get_str(in->verdict, "verdict", "run", &run, err) != 0 ||
        jsonx_get_str(in->verdict, "verdict", "cluster", &cluster, err) != 0)
        return -1;
    if (strcmp(run, evidence_set_run(in->evidence)) != 0)
        return err_set(err, ERR_DATA, "report: verdict is of run %.40s, evidence of run %.40s", run,
                       evidence_set_run(in->evidence));
    if (in->serial <= 0)
        return err_set(err, ERR_DATA, "report: serial must be above 0");
    if (in->expires_ms <= in->issued_ms)
        return err_set(err, ERR_DATA, "report: it would expire before it is issued");
    if (in->parent && hash_from_hex(in->parent, &unused) != 0)
        return err_set(err, ERR_DATA, "report: parent '%.80s' is not a SHA-256 digest", in->parent);
    return 0;
}

int report_build(const struct report_input *in, struct sign_key *const keys[], size_t key_count,
                 json_t **envelope, json_t **slices, struct err *err)
{
    if (check_input(in, err) != 0)
        return -1;
    json_auto_t *groups = group_elements(in->verdict, json_object_get(in->site, "nodes"));
    json_auto_t *entries = NULL;
    if (build_entries(in, groups, &entries, err) != 0)
        return -1;
    AUTO(free_str) char *payload = statement_text(in, entries, groups);
    json_auto_t *report =
        dsse_sign(DSSE_TYPE_INTOTO, payload, strlen(payload), keys, key_count, err);
    if (!report)
        return -1;
    struct hash h = hash_of(payload, strlen(payload));
    char hex[HASH_HEX_BYTES];
    hash_hex(&h, hex);
    json_auto_t *predicate = root_predicate(in, json_object_size(entries), hex);
    if (slice_build(entries, jsonx_str_or(in->verdict, "cluster", ""), predicate, keys, key_count,
                    slices, err) != 0)
        return -1;
    *envelope = json_incref(report);
    return 0;
}

int report_save(const char *path, const json_t *envelope_or_slice, struct err *err)
{
    AUTO(free_str) char *text = jsonx_canonical(envelope_or_slice);
    AUTO(free_str) char *line = str_printf("%s\n", text);
    return fs_write_atomic(path, line, strlen(line), 0644, err);
}

int report_payload_hash(const json_t *envelope, char out[static HASH_HEX_BYTES], struct err *err)
{
    const char *encoded = NULL;
    if (jsonx_get_str(envelope, "report", "payload", &encoded, err) != 0)
        return -1;
    size_t len = 0;
    uint8_t *payload = base64_decode(encoded, &len);
    if (!payload)
        return err_set(err, ERR_DATA, "report: the payload is not strict base64");
    struct hash h = hash_of(payload, len);
    free(payload);
    hash_hex(&h, out);
    return 0;
}
