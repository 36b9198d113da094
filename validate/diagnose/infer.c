/* Findings to causes, causes to one answer: root first, consequences behind it. */
#include "validate/diagnose/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "validate/causes.h"
#include "validate/diagnose/diagnose.h"

enum {
    SUSPICION_RANK = 45,
    WORKS_SHOWN = 6,
    NEEDS_MAX = 16,
    EVIDENCE_MAX = 8,
    PER_FINDING_MAX = 3,
    BENIGN_MAX = 16,
    WORKS_MAX = 24
};

static const struct {
    const char *code, *severity;
    int rank;
    const char *when, *explains, *diagnosis, *remedy;
} rows[] = {
#define FATAL "fatal"
#define DEGRADED "degraded"
#define DIAG(code, severity, rank, when, explains, diagnosis, remedy)                              \
    {code, severity, rank, when, explains, diagnosis, remedy},
#include "validate/diagnose/infer.def"
#undef DIAG
#undef FATAL
#undef DEGRADED
};
enum { ROWS = ARRAY_LEN(rows) };

/* A cause that holds, with the findings that its row names and that are there. */
struct held {
    size_t row;
    enum diag_id needs[NEEDS_MAX];
    size_t count;
};

/* One alternative list "a | b | c"; true when one of them is there.  Found ones go into held. */
static bool holds_any(const struct diag *d, const char *text, size_t len, struct held *held)
{
    bool any = false;
    for (const char *p = text, *end = text + len; p < end;) {
        p += strspn(p, " |");
        size_t word = strcspn(p, " |,");
        if (word == 0 || p >= end)
            break;
        enum diag_id id = diag_id_find(p, word);
        if (id != DIAG_ID__COUNT && diag_has(d, id)) {
            any = true;
            if (held->count < NEEDS_MAX)
                held->needs[held->count++] = id;
        }
        p += word;
    }
    return any;
}

static bool holds(const struct diag *d, const char *when, struct held *held)
{
    held->count = 0;
    for (const char *p = when; *p;) {
        p += strspn(p, ", ");
        size_t len = strcspn(p, ",");
        if (*p == '!') {
            struct held unused = {.count = 0};
            if (holds_any(d, p + 1, len - 1, &unused))
                return false;
        } else if (!holds_any(d, p, len, held)) {
            return false;
        }
        p += len;
    }
    return held->count > 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct held *x = a, *y = b;
    int difference = rows[y->row].rank - rows[x->row].rank;
    return difference ? difference : (x->row > y->row) - (x->row < y->row);
}

static size_t find_causes(const struct diag *d, struct held held[ROWS])
{
    size_t count = 0;
    for (size_t i = 0; i < ROWS; i++) {
        bool known = false;
        for (size_t k = 0; k < count; k++)
            known |= strcmp(rows[held[k].row].code, rows[i].code) == 0;
        held[count].row = i;
        if (!known && holds(d, rows[i].when, &held[count]))
            count++;
    }
    qsort(held, count, sizeof held[0], by_rank);
    return count;
}

static bool names_code(const char *list, const char *code)
{
    size_t len = strlen(code);
    for (const char *p = list; (p = strstr(p, code)) != NULL; p += len)
        if ((p == list || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
            return true;
    return false;
}

static void put_line(json_t *list, const struct diag_hit *hit, const char *why)
{
    json_t *entry = json_object();
    jsonx_set_str(entry, "file", hit->file);
    jsonx_set_int(entry, "line", (json_int_t)hit->line);
    jsonx_set_str(entry, "text", hit->text + strspn(hit->text, " \t"));
    if (hit->seen > 1)
        jsonx_set_int(entry, "times", (json_int_t)hit->seen);
    if (why)
        jsonx_set_str(entry, "why", why);
    jsonx_append(list, entry);
}

static bool listed(const json_t *list, const struct diag_hit *hit)
{
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry)
    {
        if (jsonx_int_or(entry, "line", 0) == (int64_t)hit->line &&
            strcmp(jsonx_str_or(entry, "file", ""), hit->file) == 0)
            return true;
    }
    return false;
}

static int by_place(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int order = strcmp(jsonx_str_or(x, "file", ""), jsonx_str_or(y, "file", ""));
    int64_t l = jsonx_int_or(x, "line", 0), r = jsonx_int_or(y, "line", 0);
    return order ? order : (l > r) - (l < r);
}

static json_t *sorted(json_t *list)
{
    size_t count = json_array_size(list);
    json_t **entries = mem_zero(count + 1, sizeof *entries);
    for (size_t i = 0; i < count; i++)
        entries[i] = json_incref(json_array_get(list, i));
    qsort(entries, count, sizeof *entries, by_place);
    json_array_clear(list);
    for (size_t i = 0; i < count; i++)
        jsonx_append(list, entries[i]);
    free(entries);
    return list;
}

static json_t *evidence_of(const struct diag *d, const enum diag_id *ids, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct diag_finding *f = &d->found[ids[i]];
        for (size_t k = 0; k < f->kept && k < PER_FINDING_MAX; k++)
            if (json_array_size(list) < EVIDENCE_MAX && !listed(list, &f->hits[k]))
                put_line(list, &f->hits[k], NULL);
    }
    return sorted(list);
}

static void put_cause(json_t *out, const struct diag *d, const struct held *held)
{
    AUTO(free_str)
    char *diagnosis = diag_fill(d, rows[held->row].diagnosis, held->needs, held->count);
    const struct cause *cause = causes_find(rows[held->row].code);
    const char *form = rows[held->row].remedy;
    AUTO(free_str)
    char *remedy =
        *form ? diag_fill(d, form, held->needs, held->count) : str_dup(cause ? cause->remedy : "");
    jsonx_set_str(out, "cause_code", rows[held->row].code);
    jsonx_set_str(out, "title", cause ? cause->title : "");
    jsonx_set_str(out, "severity", rows[held->row].severity);
    jsonx_set_str(out, "diagnosis", diagnosis);
    jsonx_set_str(out, "remedy", remedy);
    jsonx_set(out, "evidence", evidence_of(d, held->needs, held->count));
}

/* A suspicion of low rank, about speed only, is not worth a line beside a fault that stops the job.
 */
static bool worth_a_line(const struct held *root, const struct held *other, bool follows)
{
    return follows || rows[root->row].severity[0] != 'f' || rows[other->row].severity[0] == 'f' ||
           rows[other->row].rank >= SUSPICION_RANK;
}

static json_t *others_of(const struct diag *d, const struct held held[ROWS], size_t count)
{
    json_t *list = json_array();
    for (size_t i = 1; i < count; i++) {
        const char *code = rows[held[i].row].code;
        bool follows = false;
        for (size_t k = 0; k < i; k++)
            follows |= names_code(rows[held[k].row].explains, code);
        if (!worth_a_line(&held[0], &held[i], follows))
            continue;
        json_t *entry = json_object();
        put_cause(entry, d, &held[i]);
        jsonx_set_str(entry, "relation", follows ? "consequence" : "also");
        jsonx_append(list, entry);
    }
    return list;
}

/* skip: evidence of the cause; a line cannot convict and be harmless. */
static json_t *benign_of(const struct diag *d, const json_t *skip)
{
    json_t *list = json_array();
    for (size_t i = 0; i < DIAG_ID__COUNT; i++) {
        const struct diag_finding *f = &d->found[i];
        enum diag_role role = diag_role_of((enum diag_id)i);
        if ((role != DIAG_BENIGN && role != DIAG_NOTICE) || f->kept == 0)
            continue;
        if (json_array_size(list) < BENIGN_MAX && !listed(list, &f->hits[0]) &&
            !listed(skip, &f->hits[0]))
            put_line(list, &f->hits[0], diag_text_of((enum diag_id)i));
    }
    bool idle = diag_has(d, DIAG_pcie_gpu_slow) && !diag_has(d, DIAG_gpu_busy);
    if (idle)
        put_line(list, &d->found[DIAG_pcie_gpu_slow].hits[0],
                 "an idle GPU lowers its PCIe link to save power; read it again under load");
    return sorted(list);
}

static json_t *works_of(const struct diag *d)
{
    json_t *list = json_array();
    for (size_t i = 0; i < DIAG_ID__COUNT; i++) {
        enum diag_id id = (enum diag_id)i;
        if (diag_role_of(id) != DIAG_WORKS)
            continue;
        for (size_t k = 0; k < d->found[i].kept && json_array_size(list) < WORKS_MAX; k++) {
            /* The text speaks of one hit: show it a finding that has only that one. */
            struct diag one = {.tools = NULL};
            one.found[i] = (struct diag_finding){&d->found[i].hits[k], 1, 1};
            AUTO(free_str) char *text = diag_fill(&one, diag_text_of(id), &id, 1);
            jsonx_append_str(list, text);
        }
    }
    return list;
}

static void put_tools(json_t *out, const struct diag *d)
{
    struct strbuf names = {0};
    for (size_t i = 0; i < diag_tool_count(); i++) {
        const char *name = diag_tool_name(i);
        if (d->tools[i] == 0 || (names.data && strstr(names.data, name) &&
                                 (strcmp(strstr(names.data, name), name) == 0 ||
                                  strstr(names.data, name)[strlen(name)] == '+')))
            continue;
        strbuf_printf(&names, "%s%s", names.len ? "+" : "", name);
    }
    jsonx_set_str(out, "input_tool", names.data ? names.data : "unknown");
    strbuf_release(&names);
}

static bool has_benign(const struct diag *d)
{
    for (size_t i = 0; i < DIAG_ID__COUNT; i++)
        if (diag_role_of((enum diag_id)i) == DIAG_BENIGN && d->found[i].seen > 0)
            return true;
    return false;
}

/* What an "ok" says; lines that look like a fault are all there is when nothing else works. */
static char *ok_text(const json_t *works, bool idle)
{
    struct strbuf text = {0};
    size_t count = json_array_size(works);
    strbuf_puts(&text, "Healthy, no fault: ");
    for (size_t i = 0; i < count && i < WORKS_SHOWN; i++)
        strbuf_printf(&text, "%s%s", i ? "; " : "", json_string_value(json_array_get(works, i)));
    if (count > WORKS_SHOWN)
        strbuf_printf(&text, "; and %zu more of the like", count - WORKS_SHOWN);
    if (idle)
        strbuf_printf(
            &text,
            "%sthe GPU is idle and lowers the speed of its PCIe link to save power, which is "
            "normal",
            count ? "; " : "");
    else if (count == 0)
        strbuf_puts(&text, "the lines that look like one are none (see benign)");
    strbuf_puts(&text, ".");
    return text.data;
}

static void put_ok(json_t *out, const struct diag *d)
{
    const json_t *works = json_object_get(out, "works");
    bool idle = diag_has(d, DIAG_pcie_gpu_slow);
    AUTO(free_str) char *text = ok_text(works, idle);
    enum diag_role shown = json_array_size(works) > 0 || idle ? DIAG_WORKS : DIAG_BENIGN;
    enum diag_id ids[DIAG_ID__COUNT];
    size_t count = 0;
    for (size_t i = 0; i < DIAG_ID__COUNT; i++)
        if (diag_has(d, (enum diag_id)i) && diag_role_of((enum diag_id)i) == shown)
            ids[count++] = (enum diag_id)i;
    if (idle)
        ids[count++] = DIAG_pcie_gpu_slow;
    jsonx_set_str(out, "cause_code", DIAGNOSE_OK);
    jsonx_set_str(out, "title", "no fault");
    jsonx_set_str(out, "severity", "ok");
    jsonx_set_str(out, "diagnosis", text);
    jsonx_set_str(
        out, "remedy",
        idle ? "None; read LnkSta (or pcie.link.gen.current) again under load before judging it."
             : "None.");
    jsonx_set(out, "evidence", evidence_of(d, ids, count));
}

/* NCCL writes Init START and then, in time, Init COMPLETE. */
static bool is_unfinished(const struct diag *d)
{
    return diag_has(d, DIAG_nccl_started) && !diag_has(d, DIAG_nccl_complete);
}

static const char *why_unknown(const json_t *out, const struct diag *d)
{
    if (d->gave_up)
        return "Cannot tell: the input takes too long to read in full.";
    if (diag_has(d, DIAG_alarm))
        return "Cannot tell: a line reports an error, but this text does not show its reason.";
    if (is_unfinished(d))
        return "Cannot tell: NCCL began to set up its communicator, and neither the end of that "
               "nor an "
               "error is in this text.";
    if (strcmp(jsonx_str_or(out, "input_tool", "unknown"), "unknown") != 0)
        return "Cannot tell: the tool is known, but no line of this input says what works or what "
               "does "
               "not.";
    return "Cannot tell: no line of this input is known.";
}

static void put_cannot_tell(json_t *out, const struct diag *d)
{
    enum diag_id seen[] = {DIAG_alarm, DIAG_nccl_started};
    jsonx_set_str(out, "cause_code", DIAGNOSE_CANNOT_TELL);
    jsonx_set_str(out, "title", "cannot tell");
    jsonx_set_str(out, "severity", "unknown");
    jsonx_set_str(out, "diagnosis", why_unknown(out, d));
    jsonx_set_str(
        out, "remedy",
        "Give more of the log (from its beginning to the first error), NCCL_DEBUG=INFO output of "
        "all ranks, or dmesg, lspci -vvv and ibstat of the node.");
    jsonx_set(out, "evidence", evidence_of(d, seen, diag_has(d, DIAG_alarm) ? 1 : ARRAY_LEN(seen)));
}

json_t *diag_infer(const struct diag *d)
{
    json_t *out = json_object();
    struct held held[ROWS + 1];
    size_t count = find_causes(d, held);
    put_tools(out, d);
    jsonx_set(out, "works", works_of(d));
    jsonx_set(out, "others", others_of(d, held, count));
    bool idle = diag_has(d, DIAG_pcie_gpu_slow);
    if (count > 0)
        put_cause(out, d, &held[0]);
    else if (!d->gave_up && !diag_has(d, DIAG_alarm) && !is_unfinished(d) &&
             (json_array_size(json_object_get(out, "works")) > 0 || idle || has_benign(d)))
        put_ok(out, d);
    else
        put_cannot_tell(out, d);
    jsonx_set(out, "benign", benign_of(d, count > 0 ? json_object_get(out, "evidence") : NULL));
    return out;
}

/* Words of a `when`, each of which must be a finding. */
static char *check_when(size_t row)
{
    for (const char *p = rows[row].when; *p;) {
        p += strspn(p, " ,|!");
        size_t len = strcspn(p, " ,|!");
        if (len > 0 && diag_id_find(p, len) == DIAG_ID__COUNT)
            return str_printf("%s: no finding '%.*s'", rows[row].code, (int)len, p);
        p += len;
    }
    return NULL;
}

static char *check_codes(const char *list, const char *row)
{
    for (const char *p = list; *p;) {
        p += strspn(p, " ");
        size_t len = strcspn(p, " ");
        AUTO(free_str) char *code = str_printf("%.*s", (int)len, p);
        if (len > 0 && !causes_find(code))
            return str_printf("%s: no cause '%s' in causes.def", row, code);
        p += len;
    }
    return NULL;
}

/* "{finding.key}": the finding must be there. */
static char *check_form(const char *form, const char *row)
{
    for (const char *p = strchr(form, '{'); p; p = strchr(p + 1, '{')) {
        size_t len = strcspn(p + 1, ".}");
        if (p[1 + len] == '.' && diag_id_find(p + 1, len) == DIAG_ID__COUNT)
            return str_printf("%s: no finding '%.*s' for its text", row, (int)len, p + 1);
    }
    return NULL;
}

char *diag_check_rows(void)
{
    char *wrong = diag_check_patterns();
    for (size_t i = 0; i < ROWS && !wrong; i++) {
        wrong = check_codes(rows[i].code, rows[i].code);
        if (!wrong)
            wrong = check_codes(rows[i].explains, rows[i].code);
        if (!wrong)
            wrong = check_when(i);
        if (!wrong)
            wrong = check_form(rows[i].diagnosis, rows[i].code);
        if (!wrong)
            wrong = check_form(rows[i].remedy, rows[i].code);
    }
    return wrong;
}
