/* muster report show|verify|export|diff. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/log.h"
#include "common/util.h"
#include "provision/cmd.h"
#include "provision/render.h"
#include "validate/export.h"
#include "validate/report.h"
#include "validate/sign.h"

struct settings {
    struct ctl_options common;
    const char *run, *key, *format, *output, *node, *cluster;
    int64_t min_serial;
    bool no_evidence, expired;
};

static const struct opt_row rows[] = {
    {OPT_STRING, "run", 'r', "RUN", "the report of this run (default: the newest)",
     offsetof(struct settings, run), 0, 0},
    {OPT_STRING, "key", 'k', "FILE",
     "public key that must have signed (default: keys/signing.pub of the state directory)",
     offsetof(struct settings, key), 0, 0},
    {OPT_STRING, "node", 'n', "NODE", "show: the whole story of this node",
     offsetof(struct settings, node), 0, 0},
    {OPT_STRING, "format", 'f', "FORMAT", "export: junit, csv, prometheus or test-result",
     offsetof(struct settings, format), 0, 0},
    {OPT_STRING, "output", 'o', "FILE", "export: write here instead of standard output",
     offsetof(struct settings, output), 0, 0},
    {OPT_STRING, "cluster", 'c', "NAME", "verify: the cluster that it must be about",
     offsetof(struct settings, cluster), 0, 0},
    {OPT_INT, "min-serial", 0, "N",
     "verify: refuse reports older than serial N (default: the newest serial of the state "
     "directory, when the report is not named by file)",
     offsetof(struct settings, min_serial), 0, INT64_MAX},
    {OPT_FLAG, "no-evidence", 0, NULL, "verify: do not check the evidence files beside the report",
     offsetof(struct settings, no_evidence), 0, 0},
    {OPT_FLAG, "ignore-expiry", 0, NULL, "read a report whose time is over",
     offsetof(struct settings, expired), 0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

/* The report's bytes, its key, and where its evidence is. */
struct source {
    char *path, *text, *evidence;
    size_t len;
    struct sign_public key;
    int64_t min_serial;
};

static void source_release(struct source *s)
{
    free(s->path);
    free(s->text);
    free(s->evidence);
}

static int from_state(const struct settings *s, struct source *src, struct err *err)
{
    struct state state;
    if (state_open(&state, s->common.state, STATE_READ, err) != 0)
        return -1;
    struct run run = {.journal_fd = -1};
    AUTO(free_str) char *newest = s->run ? NULL : run_newest_report(&state);
    int status = s->run || newest
                     ? run_open(&state, s->run ? s->run : newest, false, &run, err)
                     : err_set(err, ERR_USAGE,
                               "no run in %s has a report yet; muster up or muster validate "
                               "makes one",
                               state.dir);
    if (status == 0) {
        src->path = run_path(&run, "report.dsse.json");
        src->evidence = run_path(&run, "evidence");
    }
    run_close(&run);
    state_close(&state);
    return status;
}

static int read_key(const struct settings *s, struct source *src, struct err *err)
{
    if (s->key)
        return sign_public_load(s->key, &src->key, err);
    struct state state;
    if (state_open(&state, s->common.state, STATE_READ, err) != 0)
        return err_wrap(err, "no --key, and ");
    AUTO(free_str) char *path = state_path(&state, "keys/signing.pub");
    state_close(&state);
    return sign_public_load(path, &src->key, err);
}

/* The evidence of a report file lies beside it when it is still in its run's directory. */
static char *evidence_beside(const char *path)
{
    AUTO(free_str) char *dir = str_dup(path);
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    char *evidence = str_printf("%s/evidence", slash ? dir : ".");
    if (fs_exists(evidence))
        return evidence;
    free(evidence);
    return NULL;
}

static int open_source(const struct settings *s, const char *file, struct source *src,
                       struct err *err)
{
    *src = (struct source){.min_serial = s->min_serial};
    if (file) {
        src->path = str_dup(file);
        src->evidence = evidence_beside(file);
    } else if (from_state(s, src, err) != 0) {
        return -1;
    }
    if (read_key(s, src, err) != 0)
        return -1;
    if (fs_read(src->path, REPORT_MAX_BYTES, &src->text, &src->len, err) != 0)
        return err_wrap(err, "report: ");
    return 0;
}

static int verify(const struct settings *s, const struct source *src, bool evidence,
                  json_t **statement, struct err *err)
{
    struct report_expect expect = {
        .trusted = &src->key,
        .trusted_count = 1,
        .cluster = s->cluster,
        .run = NULL,
        .min_serial = src->min_serial,
        .now_ms = s->expired ? 0 : wall_ms(),
        .evidence_dir = evidence ? src->evidence : NULL,
        .allow_simulated = true,
    };
    if (report_verify(src->text, src->len, &expect, statement, err) != 0)
        return err_wrap(err, "%s: ", src->path);
    return 0;
}

static int show(const struct settings *s, const struct source *src, struct err *err)
{
    json_auto_t *statement = NULL;
    if (verify(s, src, false, &statement, err) != 0)
        return -1;
    const json_t *predicate = json_object_get(statement, "predicate");
    if (s->common.json) {
        cmd_print_json(statement);
        return 0;
    }
    json_auto_t *verdict = render_from_predicate(predicate);
    if (s->node && !json_object_get(json_object_get(predicate, "nodes"), s->node))
        return err_set(err, ERR_USAGE, "the report says nothing about node %s", s->node);
    if (s->node)
        render_node(verdict, s->node, stdout);
    else
        render_verdict(verdict, s->common.verbose, stdout);
    printf("\nserial %lld, issued %s, expires %s\n",
           (long long)jsonx_int_or(predicate, "serial", 0), jsonx_str_or(predicate, "issued", "?"),
           jsonx_str_or(predicate, "expires", "?"));
    return 0;
}

static int check(const struct settings *s, const struct source *src, struct err *err)
{
    json_auto_t *statement = NULL;
    bool evidence = !s->no_evidence;
    if (verify(s, src, evidence, &statement, err) != 0)
        return -1;
    const json_t *predicate = json_object_get(statement, "predicate");
    printf("verified: %s, %zu nodes, serial %lld, issued %s, expires %s%s\n",
           jsonx_str_or(predicate, "run", "?"),
           json_object_size(json_object_get(predicate, "nodes")),
           (long long)jsonx_int_or(predicate, "serial", 0), jsonx_str_or(predicate, "issued", "?"),
           jsonx_str_or(predicate, "expires", "?"),
           !evidence       ? " (evidence files not checked, as asked)"
           : src->evidence ? ", evidence files match"
                           : " (no evidence files beside it to check)");
    return 0;
}

static const struct {
    const char *name;
    char *(*make)(const json_t *statement, struct err *err);
} formats[] = {
    {"junit", export_junit},
    {"csv", export_csv},
    {"prometheus", export_prometheus},
    {"test-result", export_test_result},
};

static int export(const struct settings *s, const struct source *src, struct err *err)
{
    json_auto_t *statement = NULL;
    if (!s->format)
        return err_set(err, ERR_USAGE,
                       "report export needs --format junit, csv, prometheus or "
                       "test-result");
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        if (strcmp(formats[i].name, s->format) != 0)
            continue;
        if (verify(s, src, false, &statement, err) != 0)
            return -1;
        AUTO(free_str) char *text = formats[i].make(statement, err);
        if (!text)
            return -1;
        if (s->output)
            return fs_write_atomic(s->output, text, strlen(text), 0644, err);
        fputs(text, stdout);
        return 0;
    }
    return err_set(err, ERR_USAGE,
                   "--format '%s' is not known; there are junit, csv, prometheus and test-result",
                   s->format);
}

static const struct {
    const char *verb;
    int (*run)(const struct settings *s, const struct source *src, struct err *err);
} verbs[] = {{"show", show}, {"verify", check}, {"export", export}};

static int run_report(void *settings, int count, char **operands)
{
    const struct settings *s = settings;
    struct err err = {0};
    AUTO(source_release) struct source src = {0};
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(verbs[i].verb, operands[0]) != 0)
            continue;
        if (open_source(s, count > 1 ? operands[1] : NULL, &src, &err) != 0 ||
            verbs[i].run(s, &src, &err) != 0)
            return ctl_fail(&err);
        return 0;
    }
    err_set(&err, ERR_USAGE, "report %s: there are show, verify and export", operands[0]);
    return ctl_fail(&err);
}

static const char *const about[] = {
    "show prints a verified report; with --node it tells one node's whole story: each element, its "
    "value, the limit that spoke and the reason.",
    "verify checks the signature, the Merkle root over all nodes, the serial and the expiry with "
    "the "
    "public key alone, and the node-signed evidence files where they are at hand. Every flipped "
    "byte, dropped node, swapped evidence or older report is refused with its reason.",
    "export writes a verified report for other tools.",
    NULL,
};
static const struct opt_example examples[] = {
    {"muster report show", "the newest report"},
    {"muster report show --node gpu017", "why gpu017 is as it is"},
    {"muster report verify report.dsse.json --key signing.pub", "with the public key alone"},
    {"muster report export --format junit -o muster.xml", "for a CI system"},
    {NULL, NULL},
};
const struct opt_command cmd_report = {
    .name = "report",
    .summary = "show, verify or export a signed report",
    .operands = "show|verify|export [FILE]",
    .operands_min = 1,
    .operands_max = 2,
    .about = about,
    .rows = rows,
    .common = ctl_common_rows,
    .examples = examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_report,
};
