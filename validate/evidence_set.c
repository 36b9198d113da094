#include "validate/evidence_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "validate/merkle.h"

enum { FILE_MAX_BYTES = 1024 * 1024 * 1024 };

struct evidence_set {
    char *run;
    struct evidence_set_record **records;
    size_t record_count, record_cap;
    struct evidence_set_problem *problems;
    size_t problem_count;
    struct evidence_set_node *nodes;
    size_t node_count;
    json_t *node_index; /* name -> position in nodes */
    json_t *index;      /* key_of() -> array of positions in records */
    json_t *seals;      /* node and stage -> number of valid seals */
};

/* A line of the stage that is being read, until its seal comes. */
struct pending {
    struct hash leaf;
    char *stage;
    struct evidence_set_record *record; /* NULL when the record was refused */
};

struct reader {
    struct evidence_set *set;
    const char *node; /* owned by set->nodes */
    const struct sign_public *key;
    int64_t next_seq;
    struct pending *lines;
    size_t line_count, line_cap;
    size_t accepted;
};

struct evidence_set *evidence_set_create(const char *run)
{
    struct evidence_set *set = mem_zero(1, sizeof *set);
    set->run = str_dup(run);
    set->node_index = json_object();
    set->index = json_object();
    set->seals = json_object();
    return set;
}

static void record_destroy(struct evidence_set_record *r)
{
    if (!r)
        return;
    json_decref(r->json);
    free((double *)r->samples);
    free(r);
}

void evidence_set_destroy(struct evidence_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->record_count; i++)
        record_destroy(set->records[i]);
    for (size_t i = 0; i < set->problem_count; i++)
        free(set->problems[i].text);
    for (size_t i = 0; i < set->node_count; i++)
        free(set->nodes[i].name);
    free(set->records);
    free(set->problems);
    free(set->nodes);
    json_decref(set->node_index);
    json_decref(set->index);
    json_decref(set->seals);
    free(set->run);
    free(set);
}

/* Takes over text. */
static void problem(struct evidence_set *set, const char *node, const char *cause, char *text)
{
    for (size_t i = 0; i < set->problem_count; i++) {
        struct evidence_set_problem *p = &set->problems[i];
        if (strcmp(p->node, node) == 0 && strcmp(p->cause, cause) == 0) {
            p->count++;
            free(text);
            return;
        }
    }
    set->problems = mem_grow(set->problems, set->problem_count + 1, sizeof *set->problems);
    set->problems[set->problem_count++] =
        (struct evidence_set_problem){.node = node, .cause = cause, .text = text, .count = 1};
}

static char *key_of(const char *stage, const char *subject, const char *quantity)
{
    return str_printf("%s\n%s\n%s", stage, subject, quantity);
}

static unsigned seals_of(const struct evidence_set *set, const char *node, const char *stage)
{
    AUTO(free_str) char *key = str_printf("%s\n%s", node, stage);
    return (unsigned)jsonx_int_or(set->seals, key, 0);
}

static void keep(struct evidence_set *set, struct evidence_set_record *r)
{
    if (set->record_count == set->record_cap) {
        set->record_cap = set->record_cap ? 2 * set->record_cap : 256;
        set->records = mem_grow(set->records, set->record_cap, sizeof(void *));
    }
    AUTO(free_str) char *key = key_of(r->stage, r->subject, r->quantity);
    json_t *positions = json_object_get(set->index, key);
    if (!positions) {
        positions = json_array();
        jsonx_set(set->index, key, positions);
    }
    jsonx_append(positions, json_integer((json_int_t)set->record_count));
    set->records[set->record_count++] = r;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double samples[], size_t count)
{
    if (count == 0)
        return 0;
    double *sorted = mem_zero(count, sizeof *sorted);
    memcpy(sorted, samples, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_double);
    double median = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
    free(sorted);
    return median;
}

/* json has passed evidence_check(); its reference is taken over. */
static struct evidence_set_record *record_of(json_t *json, const char *node)
{
    struct evidence_set_record *r = mem_zero(1, sizeof *r);
    r->json = json;
    r->node = node;
    r->stage = jsonx_str_or(json, "stage", "");
    r->subject = jsonx_str_or(json, "subject", "");
    r->quantity = jsonx_str_or(json, "quantity", "");
    r->unit = jsonx_str_or(json, "unit", "");
    r->outcome = evidence_outcome_find(jsonx_str_or(json, "outcome", ""));
    r->cause = jsonx_str_or(json, "cause", NULL);
    r->reason = jsonx_str_or(json, "reason", NULL);
    r->seq = jsonx_int_or(json, "seq", -1);
    const json_t *samples = json_object_get(json, "samples");
    r->sample_count = json_array_size(samples);
    double *values = r->sample_count ? mem_zero(r->sample_count, sizeof *values) : NULL;
    for (size_t i = 0; i < r->sample_count; i++)
        values[i] = json_number_value(json_array_get(samples, i));
    r->samples = values;
    r->value = median_of(values, r->sample_count);
    return r;
}

static json_t *unsigned_copy(const json_t *record)
{
    json_t *copy = json_copy((json_t *)record);
    if (!copy)
        abort();
    json_object_del(copy, "sig");
    return copy;
}

int evidence_set_sign(json_t *record, const struct sign_key *key, struct err *err)
{
    json_auto_t *plain = unsigned_copy(record);
    AUTO(free_str) char *text = jsonx_canonical(plain);
    uint8_t sig[SIGN_SIGNATURE_BYTES];
    if (sign_bytes(key, EVIDENCE_CONTEXT, text, strlen(text), sig, err) != 0)
        return -1;
    AUTO(free_str) char *encoded = base64_encode(sig, sizeof sig);
    jsonx_set_str(record, "sig", encoded);
    return 0;
}

int evidence_set_verify(const json_t *record, const struct sign_public *key, struct err *err)
{
    const char *encoded = NULL;
    if (jsonx_get_str(record, "evidence", "sig", &encoded, err) != 0)
        return -1;
    size_t len = 0;
    uint8_t *sig = base64_decode(encoded, &len);
    json_auto_t *plain = unsigned_copy(record);
    AUTO(free_str) char *text = jsonx_canonical(plain);
    bool good = sig && len == SIGN_SIGNATURE_BYTES &&
                sign_verify_bytes(key, EVIDENCE_CONTEXT, text, strlen(text), sig);
    free(sig);
    return good ? 0 : err_set(err, ERR_DATA, "evidence: the signature does not fit the record");
}

/* Whether the record is this node's, of this run, and signed; otherwise a problem is noted. */
static bool is_genuine(struct reader *rd, const json_t *json, size_t line, int64_t seq)
{
    const char *run = jsonx_str_or(json, "run", ""), *node = jsonx_str_or(json, "node", "");
    if (strcmp(run, rd->set->run) != 0 || strcmp(node, rd->node) != 0) {
        problem(rd->set, rd->node, "evidence-wrong-run",
                str_printf("line %zu is of run %.40s and node %.64s, not of run %s and node %s",
                           line, run, node, rd->set->run, rd->node));
        return false;
    }
    if (!rd->key) {
        problem(rd->set, rd->node, "evidence-unsigned",
                str_printf("no public key of %s is known, so its records are not used", rd->node));
        return false;
    }
    struct err err = {0};
    if (evidence_set_verify(json, rd->key, &err) != 0) {
        problem(rd->set, rd->node, "evidence-bad-signature",
                str_printf("line %zu (seq %lld): the signature by the key of %s does not fit", line,
                           (long long)seq, rd->node));
        return false;
    }
    return true;
}

/* A hole leaves the record usable; a number that was seen before is a replay. */
static bool is_next(struct reader *rd, int64_t seq)
{
    if (seq != rd->next_seq)
        problem(rd->set, rd->node, "evidence-gap",
                str_printf("record %lld stands where record %lld should be", (long long)seq,
                           (long long)rd->next_seq));
    if (seq < rd->next_seq)
        return false;
    rd->next_seq = seq + 1;
    return true;
}

/* Forget the lines of a stage: they are sealed, or a trace of a try that a later one replaced. */
static void drop_pending(struct reader *rd, const char *stage)
{
    size_t kept = 0;
    for (size_t i = 0; i < rd->line_count; i++) {
        if (strcmp(rd->lines[i].stage, stage) == 0)
            free(rd->lines[i].stage);
        else
            rd->lines[kept++] = rd->lines[i];
    }
    rd->line_count = kept;
}

static void apply_seal(struct reader *rd, const json_t *seal, const char *stage)
{
    double said = json_number_value(json_array_get(json_object_get(seal, "samples"), 0));
    struct pending **of_stage = mem_zero(rd->line_count + 1, sizeof(struct pending *));
    size_t count = 0;
    for (size_t i = 0; i < rd->line_count; i++)
        if (strcmp(rd->lines[i].stage, stage) == 0)
            of_stage[count++] = &rd->lines[i];
    bool fits = said >= 0 && said <= (double)count && said == (double)(size_t)said;
    /* Lines of an earlier try that was broken off stand before those that the seal is about. */
    size_t covered = fits ? (size_t)said : 0, first = count - covered;
    struct hash *leaves = mem_zero(covered + 1, sizeof *leaves);
    for (size_t i = 0; i < covered; i++)
        leaves[i] = of_stage[first + i]->leaf;
    struct hash root = merkle_root(leaves, covered), want;
    const char *hex = jsonx_str_or(json_object_get(seal, "proof"), "root", "");
    if (fits && hash_from_hex(hex, &want) == 0 && hash_equal(&root, &want)) {
        for (size_t i = first; i < count; i++)
            if (of_stage[i]->record)
                of_stage[i]->record->sealed = true;
        drop_pending(rd, stage);
        AUTO(free_str) char *key = str_printf("%s\n%s", rd->node, stage);
        jsonx_set_int(rd->set->seals, key, seals_of(rd->set, rd->node, stage) + 1);
    } else {
        problem(rd->set, rd->node, "evidence-gap",
                str_printf("the seal of stage %s is about %.0f records with another content than "
                           "the %zu that are here",
                           stage, said, count));
    }
    free(leaves);
    free(of_stage);
}

static void add_pending(struct reader *rd, const char *line, size_t len, const char *stage,
                        struct evidence_set_record *record)
{
    if (rd->line_count == rd->line_cap) {
        rd->line_cap = rd->line_cap ? 2 * rd->line_cap : 64;
        rd->lines = mem_grow(rd->lines, rd->line_cap, sizeof *rd->lines);
    }
    rd->lines[rd->line_count++] =
        (struct pending){.leaf = merkle_leaf(line, len), .stage = str_dup(stage), .record = record};
}

static void read_line(struct reader *rd, const char *line, size_t len, size_t number)
{
    struct err err = {0};
    json_t *json = NULL;
    if (len > EVIDENCE_MAX_LINE_BYTES)
        err_set(&err, ERR_DATA, "longer than %d bytes", EVIDENCE_MAX_LINE_BYTES);
    else if (jsonx_parse(line, len, "evidence", &json, &err) == 0)
        evidence_check(json, &err);
    if (err.kind != ERR_NONE) {
        problem(rd->set, rd->node, "evidence-malformed",
                str_printf("line %zu: %s", number, err.text));
        json_decref(json);
        return;
    }
    int64_t seq = jsonx_int_or(json, "seq", -1);
    const char *stage = jsonx_str_or(json, "stage", "");
    bool good = is_genuine(rd, json, number, seq) && is_next(rd, seq);
    if (good && strcmp(jsonx_str_or(json, "quantity", ""), "seal") == 0) {
        apply_seal(rd, json, stage);
        json_decref(json);
        return;
    }
    struct evidence_set_record *record = good ? record_of(json_incref(json), rd->node) : NULL;
    add_pending(rd, line, len, stage, record);
    if (record) {
        record->attempt = seals_of(rd->set, rd->node, stage);
        keep(rd->set, record);
        rd->accepted++;
    }
    json_decref(json);
}

/* What is still pending at the end of the file belongs to stages that were broken off. */
static void report_unsealed(struct reader *rd)
{
    AUTO(strbuf_release) struct strbuf text = {0};
    while (rd->line_count > 0) {
        AUTO(free_str) char *stage = str_dup(rd->lines[0].stage);
        size_t before = rd->line_count;
        drop_pending(rd, stage);
        strbuf_printf(&text, "%s%s (%zu records without a seal)",
                      text.len ? ", " : "broken off: ", stage, before - rd->line_count);
    }
    if (text.len)
        problem(rd->set, rd->node, "evidence-unsealed", STEAL(text.data));
}

static struct evidence_set_node *new_node(struct evidence_set *set, const char *name)
{
    set->nodes = mem_grow(set->nodes, set->node_count + 1, sizeof *set->nodes);
    struct evidence_set_node *node = &set->nodes[set->node_count];
    *node = (struct evidence_set_node){.name = str_dup(name)};
    jsonx_set_int(set->node_index, name, (int64_t)set->node_count++);
    return node;
}

int evidence_set_add(struct evidence_set *set, const char *node, const struct sign_public *key,
                     const char *text, size_t len, struct err *err)
{
    if (json_object_get(set->node_index, node))
        return err_set(err, ERR_USAGE, "evidence of %s was given twice", node);
    struct evidence_set_node *entry = new_node(set, node);
    entry->root = merkle_root_of_lines(text, len, &entry->line_count);
    struct reader rd = {.set = set, .node = entry->name, .key = key};
    size_t number = 0;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line_len = end ? (size_t)(end - text) - at : len - at;
        read_line(&rd, text + at, line_len, ++number);
        at += line_len + 1;
    }
    report_unsealed(&rd);
    entry->record_count = rd.accepted;
    free(rd.lines);
    return 0;
}

static int load_one(struct evidence_set *set, const char *dir, const char *node,
                    const json_t *key_text, struct err *err)
{
    struct sign_public key;
    bool known =
        json_is_string(key_text) && sign_public_from_base64(json_string_value(key_text), &key) == 0;
    AUTO(free_str) char *path = str_printf("%s/%s.jsonl", dir, node);
    AUTO(free_str) char *text = NULL;
    size_t len = 0;
    struct err missing = {0};
    if (fs_read(path, FILE_MAX_BYTES, &text, &len, &missing) != 0) {
        if (missing.native != ENOENT)
            return err_set(err, missing.kind, "%s", missing.text);
        if (evidence_set_add(set, node, known ? &key : NULL, "", 0, err) != 0)
            return -1;
        problem(set, set->nodes[set->node_count - 1].name, "evidence-missing",
                str_printf("this run has no evidence file of %s", node));
        return 0;
    }
    return evidence_set_add(set, node, known ? &key : NULL, text, len, err);
}

int evidence_set_load(struct evidence_set *set, const char *dir, const json_t *nodes,
                      struct err *err)
{
    const char *node;
    json_t *key;
    json_object_foreach((json_t *)nodes, node, key)
    {
        if (strchr(node, '/'))
            return err_set(err, ERR_DATA, "node name '%.80s' holds a slash", node);
        if (load_one(set, dir, node, key, err) != 0)
            return -1;
    }
    return 0;
}

const char *evidence_set_run(const struct evidence_set *set)
{
    return set->run;
}

size_t evidence_set_count(const struct evidence_set *set)
{
    return set->record_count;
}

const struct evidence_set_record *evidence_set_at(const struct evidence_set *set, size_t index)
{
    return index < set->record_count ? set->records[index] : NULL;
}

size_t evidence_set_problem_count(const struct evidence_set *set)
{
    return set->problem_count;
}

const struct evidence_set_problem *evidence_set_problem_at(const struct evidence_set *set, size_t i)
{
    return i < set->problem_count ? &set->problems[i] : NULL;
}

const struct evidence_set_node *evidence_set_node(const struct evidence_set *set, const char *name)
{
    const json_t *at = json_object_get(set->node_index, name);
    return at ? &set->nodes[json_integer_value(at)] : NULL;
}

const struct evidence_set_record *evidence_set_next(const struct evidence_set *set,
                                                    const char *node, const char *stage,
                                                    const char *subject, const char *quantity,
                                                    size_t *cursor)
{
    AUTO(free_str) char *key = key_of(stage, subject, quantity);
    const json_t *positions = json_object_get(set->index, key);
    while (*cursor < json_array_size(positions)) {
        size_t at = (size_t)json_integer_value(json_array_get(positions, (*cursor)++));
        if (!node || strcmp(set->records[at]->node, node) == 0)
            return set->records[at];
    }
    return NULL;
}

const struct evidence_set_record *evidence_set_find(const struct evidence_set *set,
                                                    const char *node, const char *stage,
                                                    const char *subject, const char *quantity)
{
    const struct evidence_set_record *newest = NULL, *r;
    size_t cursor = 0;
    while ((r = evidence_set_next(set, node, stage, subject, quantity, &cursor)))
        if (r->sealed)
            newest = r;
    return newest;
}

bool evidence_set_is_current(const struct evidence_set *set, const struct evidence_set_record *r)
{
    return r->sealed && r->attempt + 1 == seals_of(set, r->node, r->stage);
}
