#include "validate/slice.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "validate/dsse.h"
#include "validate/merkle.h"
#include "validate/report.h"

/* --- leaves ----------------------------------------------------------------------------------- */

struct leaves {
    const char **names; /* sorted */
    struct hash *hashes;
    size_t count;
};

static int compare_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void free_leaves(struct leaves *l)
{
    free(l->names);
    free(l->hashes);
}

static struct hash leaf_of(const json_t *entry)
{
    AUTO(free_str) char *text = jsonx_canonical(entry);
    return merkle_leaf(text, strlen(text));
}

static struct leaves leaves_of(const json_t *entries)
{
    struct leaves l = {.names = mem_zero(json_object_size(entries) + 1, sizeof *l.names),
                       .hashes = mem_zero(json_object_size(entries) + 1, sizeof *l.hashes)};
    const char *name;
    json_t *entry;
    json_object_foreach((json_t *)entries, name, entry) l.names[l.count++] = name;
    qsort(l.names, l.count, sizeof *l.names, compare_name);
    for (size_t i = 0; i < l.count; i++)
        l.hashes[i] = leaf_of(json_object_get(entries, l.names[i]));
    return l;
}

struct hash slice_root(const json_t *entries)
{
    AUTO(free_leaves) struct leaves l = leaves_of(entries);
    return merkle_root(l.hashes, l.count);
}

/* --- build ------------------------------------------------------------------------------------ */

static json_t *root_statement(const char *cluster, const struct hash *root, const json_t *predicate)
{
    char hex[HASH_HEX_BYTES];
    hash_hex(root, hex);
    json_t *digest = json_object(), *subject = json_object(), *subjects = json_array();
    jsonx_set_str(digest, "sha256", hex);
    jsonx_set_str(subject, "name", cluster);
    jsonx_set(subject, "digest", digest);
    jsonx_append(subjects, subject);
    json_t *statement = json_object();
    jsonx_set_str(statement, "_type", REPORT_STATEMENT);
    jsonx_set(statement, "subject", subjects);
    jsonx_set_str(statement, "predicateType", SLICE_PREDICATE);
    jsonx_set(statement, "predicate", json_incref((json_t *)predicate));
    return statement;
}

static json_t *slice_of(const struct leaves *l, size_t index, const json_t *entries,
                        json_t *envelope)
{
    struct hash path[MERKLE_MAX_PATH];
    size_t len = merkle_path(l->hashes, l->count, index, path);
    json_t *steps = json_array();
    for (size_t i = 0; i < len; i++) {
        char hex[HASH_HEX_BYTES];
        hash_hex(&path[i], hex);
        jsonx_append_str(steps, hex);
    }
    json_t *slice = json_object();
    jsonx_set_int(slice, "v", 1);
    jsonx_set_str(slice, "node", l->names[index]);
    jsonx_set(slice, "entry", json_incref(json_object_get(entries, l->names[index])));
    jsonx_set_int(slice, "index", (int64_t)index);
    jsonx_set_int(slice, "count", (int64_t)l->count);
    jsonx_set(slice, "path", steps);
    jsonx_set(slice, "root", json_incref(envelope));
    return slice;
}

int slice_build(const json_t *entries, const char *cluster, const json_t *predicate,
                struct sign_key *const keys[], size_t key_count, json_t **slices, struct err *err)
{
    AUTO(free_leaves) struct leaves l = leaves_of(entries);
    struct hash root = merkle_root(l.hashes, l.count);
    json_auto_t *statement = root_statement(cluster, &root, predicate);
    AUTO(free_str) char *payload = jsonx_canonical(statement);
    json_auto_t *envelope =
        dsse_sign(DSSE_TYPE_INTOTO, payload, strlen(payload), keys, key_count, err);
    if (!envelope)
        return -1;
    json_t *out = json_object();
    for (size_t i = 0; i < l.count; i++)
        jsonx_set(out, l.names[i], slice_of(&l, i, entries, envelope));
    *slices = out;
    return 0;
}

/* --- exact parsing ---------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Whether text without the blanks between its tokens is exact. */
static bool is_same_text(const char *text, size_t len, const char *exact)
{
    bool in_string = false, escaped = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (!in_string && is_blank(c))
            continue;
        if (c != *exact || c == '\0')
            return false;
        exact++;
        if (!in_string)
            in_string = c == '"';
        else if (escaped)
            escaped = false;
        else if (c == '\\')
            escaped = true;
        else if (c == '"')
            in_string = false;
    }
    return *exact == '\0';
}

int slice_parse_exact(const char *text, size_t len, const char *source, json_t **out,
                      struct err *err)
{
    json_t *value = NULL;
    if (jsonx_parse(text, len, source, &value, err) != 0)
        return -1;
    AUTO(free_str) char *exact = jsonx_canonical(value);
    if (is_same_text(text, len, exact)) {
        *out = value;
        return 0;
    }
    json_decref(value);
    return err_set(err, ERR_DATA,
                   "%s: not in the form in which muster writes it (keys sorted, one spelling of "
                   "each value): it was edited",
                   source);
}

/* --- verify ----------------------------------------------------------------------------------- */

/* The root statement: its predicate, and the Merkle root that it is about. */
static int open_root(const json_t *envelope, const struct sign_public trusted[],
                     size_t trusted_count, json_t **predicate, struct hash *root, struct err *err)
{
    AUTO(strbuf_release) struct strbuf payload = {0};
    if (dsse_verify(envelope, "slice: root", DSSE_TYPE_INTOTO, trusted, trusted_count, &payload,
                    err) != 0)
        return -1;
    json_auto_t *statement = NULL;
    const char *type = NULL, *predicate_type = NULL;
    const json_t *body = NULL;
    if (slice_parse_exact(payload.data, payload.len, "slice: root payload", &statement, err) != 0 ||
        jsonx_get_str(statement, "slice: root", "_type", &type, err) != 0 ||
        jsonx_get_str(statement, "slice: root", "predicateType", &predicate_type, err) != 0 ||
        jsonx_get_obj(statement, "slice: root", "predicate", &body, err) != 0)
        return -1;
    if (strcmp(type, REPORT_STATEMENT) != 0 || strcmp(predicate_type, SLICE_PREDICATE) != 0)
        return err_set(err, ERR_DATA, "slice: root is of type '%.80s', must be '%s'",
                       predicate_type, SLICE_PREDICATE);
    const json_t *subject = json_array_get(json_object_get(statement, "subject"), 0);
    const char *hex = jsonx_str_or(json_object_get(subject, "digest"), "sha256", "");
    if (hash_from_hex(hex, root) != 0)
        return err_set(err, ERR_DATA, "slice: root names no SHA-256 digest");
    *predicate = json_incref((json_t *)body);
    return 0;
}

static int read_path(const json_t *steps, struct hash path[static MERKLE_MAX_PATH], size_t *len,
                     struct err *err)
{
    size_t count = json_array_size(steps);
    if (count > MERKLE_MAX_PATH)
        return err_set(err, ERR_DATA, "slice: path has %zu steps, at most %d can be", count,
                       MERKLE_MAX_PATH);
    for (size_t i = 0; i < count; i++) {
        const char *hex = json_string_value(json_array_get(steps, i));
        /* Upper case would be a second spelling of the same step. */
        bool exact = hex && !hex[strcspn(hex, "ABCDEF")];
        if (!exact || hash_from_hex(hex, &path[i]) != 0)
            return err_set(err, ERR_DATA, "slice: step %zu of the path is not a SHA-256 digest", i);
    }
    *len = count;
    return 0;
}

struct parts {
    const char *node;
    const json_t *entry, *steps, *root;
    int64_t index, count;
};

static int read_parts(const json_t *slice, struct parts *p, struct err *err)
{
    static const char *const keys[] = {"v",     "node", "entry", "index",
                                       "count", "path", "root",  NULL};
    int64_t version = 0;
    if (jsonx_only_keys(slice, "slice", keys, err) != 0 ||
        jsonx_get_int(slice, "slice", "v", &version, err) != 0)
        return -1;
    if (version != 1)
        return err_set(err, ERR_DATA, "slice: version %lld is not known (this program knows 1)",
                       (long long)version);
    if (jsonx_get_str(slice, "slice", "node", &p->node, err) != 0 ||
        jsonx_get_obj(slice, "slice", "entry", &p->entry, err) != 0 ||
        jsonx_get_int(slice, "slice", "index", &p->index, err) != 0 ||
        jsonx_get_int(slice, "slice", "count", &p->count, err) != 0 ||
        jsonx_get_arr(slice, "slice", "path", &p->steps, err) != 0 ||
        jsonx_get_obj(slice, "slice", "root", &p->root, err) != 0)
        return -1;
    if (p->index < 0 || p->count <= p->index)
        return err_set(err, ERR_DATA, "slice: index %lld is outside of %lld entries",
                       (long long)p->index, (long long)p->count);
    if (strcmp(jsonx_str_or(p->entry, "node", ""), p->node) != 0)
        return err_set(err, ERR_DATA, "slice: names node '%.80s', its entry is of '%.80s'", p->node,
                       jsonx_str_or(p->entry, "node", ""));
    return 0;
}

int slice_verify(const char *text, size_t len, const struct sign_public trusted[],
                 size_t trusted_count, json_t **entry, json_t **predicate, struct err *err)
{
    if (len > SLICE_MAX_BYTES)
        return err_set(err, ERR_DATA, "slice: %zu bytes, over the limit of %d", len,
                       SLICE_MAX_BYTES);
    json_auto_t *slice = NULL, *body = NULL;
    struct parts p = {0};
    struct hash root, path[MERKLE_MAX_PATH];
    size_t steps = 0;
    if (slice_parse_exact(text, len, "slice", &slice, err) != 0 ||
        read_parts(slice, &p, err) != 0 || read_path(p.steps, path, &steps, err) != 0 ||
        open_root(p.root, trusted, trusted_count, &body, &root, err) != 0)
        return -1;
    if (jsonx_int_or(body, "count", -1) != p.count)
        return err_set(err, ERR_DATA, "slice: says %lld entries, the signed root says %lld",
                       (long long)p.count, (long long)jsonx_int_or(body, "count", -1));
    struct hash leaf = leaf_of(p.entry);
    if (!merkle_verify(&leaf, (size_t)p.index, (size_t)p.count, path, steps, &root))
        return err_set(err, ERR_DATA,
                       "slice: the entry of %.80s does not belong to the signed root (altered, or "
                       "of another report)",
                       p.node);
    *entry = json_incref((json_t *)p.entry);
    *predicate = json_incref(body);
    return 0;
}

enum verdict_state slice_entry_state(const json_t *entry)
{
    struct verdict_counts counts = {0};
    const json_t *elements = json_object_get(entry, "elements");
    for (size_t i = 0; i < json_array_size(elements); i++) {
        const json_t *e = json_array_get(elements, i);
        verdict_count(&counts, verdict_find(jsonx_str_or(e, "verdict", "UNSET")),
                      jsonx_bool_or(e, "required", true));
    }
    return verdict_state_of(&counts);
}
