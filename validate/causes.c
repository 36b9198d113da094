#include "validate/causes.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"

static const struct cause rows[] = {
#define CAUSE(code_, severity_, title_, meaning_, remedy_)                                         \
    {.code = (code_),                                                                              \
     .title = (title_),                                                                            \
     .meaning = (meaning_),                                                                        \
     .remedy = (remedy_),                                                                          \
     .severity = CAUSE_##severity_},
#include "validate/causes.def"
#undef CAUSE
};

static const char *const severities[] = {
    [CAUSE_UNSET] = "unset",
    [CAUSE_FATAL] = "fatal",
    [CAUSE_WARNING] = "warning",
    [CAUSE_INFO] = "info",
};
_Static_assert(ARRAY_LEN(severities) == CAUSE_SEVERITY__COUNT, "one word per severity");

size_t causes_count(void)
{
    return ARRAY_LEN(rows);
}

const struct cause *causes_at(size_t index)
{
    return index < ARRAY_LEN(rows) ? &rows[index] : NULL;
}

static int compare(const void *key, const void *row)
{
    return strcmp(key, ((const struct cause *)row)->code);
}

const struct cause *causes_find(const char *code)
{
    return code ? bsearch(code, rows, ARRAY_LEN(rows), sizeof rows[0], compare) : NULL;
}

const char *causes_severity_name(enum cause_severity severity)
{
    return severities[severity < CAUSE_SEVERITY__COUNT ? severity : CAUSE_UNSET];
}

void causes_print_markdown(FILE *out)
{
    fputs("# Causes\n\n"
          "Every cause that a verdict, an error or the gate may name. Generated from\n"
          "`validate/causes.def`; do not edit this page.\n",
          out);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        fprintf(out, "\n## %s\n\n*%s* (%s)\n\n%s\n\n**What to do:** %s\n", rows[i].code,
                rows[i].title, severities[rows[i].severity], rows[i].meaning, rows[i].remedy);
}
