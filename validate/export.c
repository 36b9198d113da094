#include "validate/export.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

#define TEST_RESULT_PREDICATE "https://in-toto.io/attestation/test-result/v0.1"

static int open_statement(const json_t *statement, const json_t **predicate, const json_t **nodes,
                          struct err *err)
{
    if (jsonx_get_obj(statement, "report", "predicate", predicate, err) != 0)
        return -1;
    return jsonx_get_obj(*predicate, "report: predicate", "nodes", nodes, err);
}

static const char *verdict_of(const json_t *element)
{
    return jsonx_str_or(element, "verdict", "UNSET");
}

static bool is(const json_t *element, const char *verdict)
{
    return strcmp(verdict_of(element), verdict) == 0;
}

/* Runs fn over the elements of every node and then of the cluster (owner "cluster"). */
typedef void element_fn(void *ctx, const char *owner, const json_t *element);

static void each_in(const json_t *elements, const char *owner, element_fn *fn, void *ctx)
{
    for (size_t i = 0; i < json_array_size(elements); i++)
        fn(ctx, owner, json_array_get(elements, i));
}

static void each_element(const json_t *predicate, element_fn *fn, void *ctx)
{
    const char *node;
    json_t *entry;
    json_object_foreach(json_object_get(predicate, "nodes"), node, entry)
        each_in(json_object_get(entry, "elements"), node, fn, ctx);
    each_in(json_object_get(predicate, "cluster_elements"), "cluster", fn, ctx);
}

/* --- in-toto test-result ---------------------------------------------------------------------- */

struct results {
    json_t *passed, *warned, *failed;
};

/* What was not measured is no pass: it stands among the failed. */
static void add_result(void *ctx, const char *owner, const json_t *e)
{
    struct results *r = ctx;
    AUTO(free_str)
    char *name = str_printf("%s %s %s", jsonx_str_or(e, "subject", owner),
                            jsonx_str_or(e, "stage", "?"), jsonx_str_or(e, "check", "?"));
    if (is(e, "PASS"))
        jsonx_append_str(r->passed, name);
    else if (is(e, "WARN") || is(e, "EXCLUDED") || !jsonx_bool_or(e, "required", true))
        jsonx_append_str(r->warned, name);
    else
        jsonx_append_str(r->failed, name);
}

char *export_test_result(const json_t *statement, struct err *err)
{
    const json_t *predicate = NULL, *nodes = NULL;
    if (open_statement(statement, &predicate, &nodes, err) != 0)
        return NULL;
    struct results r = {json_array(), json_array(), json_array()};
    each_element(predicate, add_result, &r);
    const char *state = jsonx_str_or(json_object_get(predicate, "result"), "state", "unknown");
    const char *word = strcmp(state, "ready") == 0      ? "PASSED"
                       : strcmp(state, "degraded") == 0 ? "WARNED"
                                                        : "FAILED";
    json_t *configuration = json_array(), *policy = json_object(), *digest = json_object();
    jsonx_set_str(digest, "sha256", jsonx_str_or(predicate, "site_digest", ""));
    jsonx_set_str(policy, "name", "site");
    jsonx_set(policy, "digest", digest);
    jsonx_append(configuration, policy);
    json_t *body = json_object();
    jsonx_set_str(body, "result", word);
    jsonx_set(body, "configuration", configuration);
    jsonx_set(body, "passedTests", r.passed);
    jsonx_set(body, "warnedTests", r.warned);
    jsonx_set(body, "failedTests", r.failed);
    json_auto_t *out = json_object();
    json_t *subjects = json_object_get(statement, "subject");
    jsonx_set_str(out, "_type", jsonx_str_or(statement, "_type", ""));
    jsonx_set(out, "subject", subjects ? json_incref(subjects) : json_array());
    jsonx_set_str(out, "predicateType", TEST_RESULT_PREDICATE);
    jsonx_set(out, "predicate", body);
    AUTO(free_str) char *text = jsonx_canonical(out);
    return str_printf("%s\n", text);
}

/* --- JUnit ------------------------------------------------------------------------------------ */

static void add_xml(struct strbuf *b, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        switch (c) {
        case '&':
            strbuf_puts(b, "&amp;");
            break;
        case '<':
            strbuf_puts(b, "&lt;");
            break;
        case '>':
            strbuf_puts(b, "&gt;");
            break;
        case '"':
            strbuf_puts(b, "&quot;");
            break;
        case '\'':
            strbuf_puts(b, "&apos;");
            break;
        case '\n':
        case '\t':
        case '\r':
            strbuf_printf(b, "&#%u;", c);
            break;
        default:
            /* XML 1.0 has no way to write the other control characters. */
            strbuf_add(b, c < ' ' ? "?" : text, 1);
        }
    }
}

struct suite {
    struct strbuf cases;
    unsigned tests, failures, errors, skipped;
};

static void add_outcome(struct suite *s, const char *tag, const json_t *e)
{
    strbuf_printf(&s->cases, "<%s message=\"", tag);
    add_xml(&s->cases, jsonx_str_or(e, "reason", ""));
    if (strcmp(tag, "skipped") != 0) {
        strbuf_puts(&s->cases, "\" type=\"");
        add_xml(&s->cases, jsonx_str_or(e, "cause", "unknown"));
    }
    strbuf_puts(&s->cases, "\"/>");
}

static void add_case(void *ctx, const char *owner, const json_t *e)
{
    struct suite *s = ctx;
    s->tests++;
    strbuf_puts(&s->cases, "    <testcase classname=\"");
    add_xml(&s->cases, jsonx_str_or(e, "subject", owner));
    strbuf_puts(&s->cases, "\" name=\"");
    add_xml(&s->cases, jsonx_str_or(e, "stage", "?"));
    strbuf_puts(&s->cases, ": ");
    add_xml(&s->cases, jsonx_str_or(e, "check", "?"));
    strbuf_puts(&s->cases, "\">");
    bool required = jsonx_bool_or(e, "required", true);
    if (is(e, "FAIL")) {
        s->failures++;
        add_outcome(s, "failure", e);
    } else if (is(e, "PASS") || is(e, "WARN")) {
        strbuf_puts(&s->cases, "<system-out>");
        add_xml(&s->cases, jsonx_str_or(e, "reason", ""));
        strbuf_puts(&s->cases, "</system-out>");
    } else if (required && !is(e, "EXCLUDED")) {
        s->errors++;
        add_outcome(s, "error", e);
    } else {
        s->skipped++;
        add_outcome(s, "skipped", e);
    }
    strbuf_puts(&s->cases, "</testcase>\n");
}

static void add_suite(struct strbuf *out, const json_t *elements, const char *owner,
                      const char *issued)
{
    AUTO(strbuf_release) struct strbuf name = {0};
    struct suite s = {0};
    each_in(elements, owner, add_case, &s);
    add_xml(&name, owner);
    strbuf_printf(out,
                  "  <testsuite name=\"%s\" tests=\"%u\" failures=\"%u\" errors=\"%u\" "
                  "skipped=\"%u\" timestamp=\"%.19s\">\n",
                  name.data ? name.data : "", s.tests, s.failures, s.errors, s.skipped, issued);
    strbuf_add(out, s.cases.data ? s.cases.data : "", s.cases.len);
    strbuf_puts(out, "  </testsuite>\n");
    strbuf_release(&s.cases);
}

char *export_junit(const json_t *statement, struct err *err)
{
    const json_t *predicate = NULL, *nodes = NULL;
    const char *issued = NULL;
    int64_t unused;
    if (open_statement(statement, &predicate, &nodes, err) != 0 ||
        jsonx_get_str(predicate, "report: predicate", "issued", &issued, err) != 0)
        return NULL;
    if (time_parse(issued, &unused) != 0) {
        err_set(err, ERR_DATA, "report: issued is not an RFC 3339 time in UTC");
        return NULL;
    }
    struct strbuf out = {0};
    strbuf_puts(&out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"");
    add_xml(&out, jsonx_str_or(predicate, "cluster", "muster"));
    strbuf_puts(&out, "\">\n");
    const char *node;
    json_t *entry;
    json_object_foreach((json_t *)nodes, node, entry)
        add_suite(&out, json_object_get(entry, "elements"), node, issued);
    add_suite(&out, json_object_get(predicate, "cluster_elements"), "cluster", issued);
    strbuf_puts(&out, "</testsuites>\n");
    return out.data;
}

/* --- CSV -------------------------------------------------------------------------------------- */

static void add_csv(struct strbuf *b, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        strbuf_puts(b, text);
        return;
    }
    strbuf_puts(b, "\"");
    for (; *text; text++) {
        if (*text == '"')
            strbuf_puts(b, "\"");
        strbuf_add(b, text, 1);
    }
    strbuf_puts(b, "\"");
}

static void add_csv_number(struct strbuf *b, const json_t *value)
{
    if (json_is_number(value))
        strbuf_printf(b, "%.17g", json_number_value(value));
}

static void add_record(void *ctx, const char *owner, const json_t *e)
{
    static const char *const before[] = {"subject", "stage", "check"};
    struct strbuf *b = ctx;
    const json_t *limit = json_object_get(e, "limit");
    add_csv(b, owner);
    for (size_t i = 0; i < ARRAY_LEN(before); i++) {
        strbuf_puts(b, ",");
        add_csv(b, jsonx_str_or(e, before[i], ""));
    }
    strbuf_printf(b, ",%s,%s,", jsonx_bool_or(e, "required", true) ? "yes" : "no", verdict_of(e));
    add_csv_number(b, json_object_get(e, "value"));
    strbuf_puts(b, ",");
    add_csv(b, jsonx_str_or(e, "unit", ""));
    strbuf_puts(b, ",");
    add_csv_number(b, json_object_get(limit, "value"));
    strbuf_puts(b, ",");
    add_csv(b, jsonx_str_or(limit, "kind", ""));
    strbuf_puts(b, ",");
    add_csv(b, jsonx_str_or(e, "cause", ""));
    strbuf_puts(b, ",");
    add_csv(b, jsonx_str_or(e, "reason", ""));
    strbuf_puts(b, "\r\n");
}

char *export_csv(const json_t *statement, struct err *err)
{
    const json_t *predicate = NULL, *nodes = NULL;
    if (open_statement(statement, &predicate, &nodes, err) != 0)
        return NULL;
    struct strbuf out = {0};
    strbuf_puts(&out, "node,subject,stage,check,required,verdict,value,unit,limit,limit_kind,cause,"
                      "reason\r\n");
    each_element(predicate, add_record, &out);
    return out.data;
}

/* --- Prometheus ------------------------------------------------------------------------------- */

static void add_label(struct strbuf *b, const char *name, const char *value)
{
    strbuf_printf(b, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            strbuf_puts(b, "\\");
        if (*value == '\n')
            strbuf_puts(b, "\\n");
        else
            strbuf_add(b, value, 1);
    }
    strbuf_puts(b, "\"");
}

static void add_value(void *ctx, const char *owner, const json_t *e)
{
    struct strbuf *b = ctx;
    const json_t *value = json_object_get(e, "value");
    if (!json_is_number(value))
        return;
    static const char *const labels[] = {"subject", "stage", "check", "unit", "verdict"};
    strbuf_puts(b, "muster_element_value{");
    add_label(b, "owner", owner);
    for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
        strbuf_puts(b, ",");
        add_label(b, labels[i], jsonx_str_or(e, labels[i], ""));
    }
    strbuf_printf(b, "} %.17g\n", json_number_value(value));
}

static void add_states(struct strbuf *b, const json_t *nodes, const char *cluster)
{
    static const char *const states[] = {"ready", "degraded", "not_ready", "unknown"};
    strbuf_puts(b, "# HELP muster_node_state 1 for the state that the node is in.\n"
                   "# TYPE muster_node_state gauge\n");
    const char *node;
    json_t *entry;
    json_object_foreach((json_t *)nodes, node, entry)
    {
        const char *state = jsonx_str_or(entry, "state", "unknown");
        for (size_t i = 0; i < ARRAY_LEN(states); i++) {
            strbuf_puts(b, "muster_node_state{");
            add_label(b, "cluster", cluster);
            strbuf_puts(b, ",");
            add_label(b, "node", node);
            strbuf_printf(b, ",state=\"%s\"} %d\n", states[i], strcmp(state, states[i]) == 0);
        }
    }
}

static int add_time(struct strbuf *b, const json_t *predicate, const char *key, const char *help,
                    struct err *err)
{
    const char *text = NULL;
    int64_t unix_ms = 0;
    if (jsonx_get_str(predicate, "report: predicate", key, &text, err) != 0)
        return -1;
    if (time_parse(text, &unix_ms) != 0)
        return err_set(err, ERR_DATA, "report: %s is not an RFC 3339 time in UTC", key);
    strbuf_printf(b,
                  "# HELP muster_report_%s_seconds %s\n# TYPE muster_report_%s_seconds gauge\n"
                  "muster_report_%s_seconds{",
                  key, help, key, key);
    add_label(b, "cluster", jsonx_str_or(predicate, "cluster", ""));
    strbuf_printf(b, "} %.3f\n", (double)unix_ms / 1000);
    return 0;
}

char *export_prometheus(const json_t *statement, struct err *err)
{
    const json_t *predicate = NULL, *nodes = NULL;
    if (open_statement(statement, &predicate, &nodes, err) != 0)
        return NULL;
    AUTO(strbuf_release) struct strbuf out = {0};
    add_states(&out, nodes, jsonx_str_or(predicate, "cluster", ""));
    if (add_time(&out, predicate, "issued", "Unix time at which the report was signed.", err) !=
            0 ||
        add_time(&out, predicate, "expires", "Unix time after which it no longer counts.", err) !=
            0)
        return NULL;
    strbuf_puts(&out, "# HELP muster_report_serial Serial of the report.\n"
                      "# TYPE muster_report_serial gauge\nmuster_report_serial{");
    add_label(&out, "cluster", jsonx_str_or(predicate, "cluster", ""));
    strbuf_printf(&out, "} %lld\n", (long long)jsonx_int_or(predicate, "serial", 0));
    strbuf_puts(&out, "# HELP muster_element_value What was measured of an element.\n"
                      "# TYPE muster_element_value gauge\n");
    each_element(predicate, add_value, &out);
    return STEAL(out.data);
}
