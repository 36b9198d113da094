/* Inside of diagnose: findings, the parsers that make them, and the rules over them.
 *
 * A finding is a typed fact with named values and the line it came from.  Rows of rules.def find
 * most of them; where a line means nothing without its block, a parser does. */
#ifndef MUSTER_VALIDATE_DIAGNOSE_DIAG_H
#define MUSTER_VALIDATE_DIAGNOSE_DIAG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "validate/diagnose/lines.h"
#include "validate/diagnose/match.h"

enum diag_role {
    DIAG_FAULT,   /* something is wrong or suspicious */
    DIAG_CONTEXT, /* says something about the situation, good nor bad */
    DIAG_BENIGN,  /* looks like a fault and is none: all is well */
    DIAG_NOTICE,  /* looks like a fault and is none, and says nothing else */
    DIAG_WORKS    /* shows something to work */
};

enum diag_id {
#define FIND(id, role, text) DIAG_##id,
#include "validate/diagnose/findings.def"
#undef FIND
    DIAG_ID__COUNT
};

enum { DIAG_KEPT = 24, DIAG_PAIRS = 10, DIAG_VALUE_BYTES = 192 };

struct diag_pair {
    char key[16];
    char *value;
};

/* One line, or several with the same values. */
struct diag_hit {
    char *file, *text;
    size_t line, seen;
    struct diag_pair pairs[DIAG_PAIRS];
    size_t pair_count;
};

struct diag_finding {
    struct diag_hit *hits; /* the first DIAG_KEPT with different values */
    size_t kept, seen;
};

struct diag;

/* A parser sees every line, and then the end of the last input. */
struct diag_parser {
    void *(*create)(void);
    void (*feed)(void *state, struct diag *d, const struct diag_line *line);
    void (*finish)(void *state, struct diag *d);
    void (*release)(void *state);
};
extern const struct diag_parser diag_lspci_parser, diag_ib_parser, diag_nvsmi_parser,
    diag_nvsmi_query_parser, diag_topo_parser, diag_nccl_parser, diag_perftest_parser,
    diag_kernel_parser, diag_pod_parser, diag_counters_parser, diag_host_parser;

struct diag {
    struct diag_finding found[DIAG_ID__COUNT];
    size_t *tools;   /* lines per row of tools.def */
    size_t recorded; /* findings so far, alarms left out */
    bool gave_up;    /* a line or the input took too long; not everything was read */
};

/* Where a finding is: a copy of the line, so that a parser can keep it until it knows more. */
struct diag_where {
    char *file, *text;
    size_t line;
    char host[LINES_HOST_BYTES];
};
struct diag_where diag_where_copy(const struct diag_line *line);
void diag_where_release(struct diag_where *where);

/* Record a finding; "key", "value" pairs end in NULL.  An empty value is left out. */
void diag_find(struct diag *d, enum diag_id id, const struct diag_line *line, ...)
    __attribute__((sentinel));
void diag_find_where(struct diag *d, enum diag_id id, const struct diag_where *where, ...)
    __attribute__((sentinel));
void diag_find_result(struct diag *d, enum diag_id id, const struct diag_line *line,
                      const struct match_result *result);
bool diag_has(const struct diag *d, enum diag_id id);
/* Value of the key in the hit; NULL when it has none. */
const char *diag_value(const struct diag_hit *hit, const char *key);

const char *diag_name(enum diag_id id);
enum diag_id diag_id_find(const char *name, size_t len); /* DIAG_ID__COUNT when unknown */
enum diag_role diag_role_of(enum diag_id id);
const char *diag_text_of(enum diag_id id);

/* Fill "{key}" and "{finding.key}" from the hits; see causes in infer.def for the form. */
char *diag_fill(const struct diag *d, const char *form, const enum diag_id *first, size_t count);

/* The answer from the findings. */
json_t *diag_infer(const struct diag *d);
/* Checks the rows of rules.def, infer.def and findings.def against each other and causes.def; NULL
 * when they fit, else what does not (the caller frees). */
char *diag_check_rows(void);
char *diag_check_patterns(void);

void diag_scan(struct diag *d, const char *name, const char *text, size_t len,
               struct match_set *set, void *const states[]);
extern const struct diag_parser *const diag_parsers[];
extern const size_t diag_parser_count;
struct match_set *diag_rules_create(void);
size_t diag_tool_count(void);
const char *diag_tool_name(size_t index);

/* Numbers in text; fallback when there is none. */
double diag_number(const char *text, double fallback);

#endif
