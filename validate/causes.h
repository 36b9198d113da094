/* Every cause that a verdict, an error or a page may name: one row each in causes.def. */
#ifndef MUSTER_VALIDATE_CAUSES_H
#define MUSTER_VALIDATE_CAUSES_H

#include <stddef.h>
#include <stdio.h>

enum cause_severity {
    CAUSE_UNSET = 0,
    CAUSE_FATAL,   /* the node cannot be used for jobs */
    CAUSE_WARNING, /* it works, but not as it should, or something is not known */
    CAUSE_INFO,    /* for the reader only */
    CAUSE_SEVERITY__COUNT
};

struct cause {
    const char *code;    /* "path-mtu": lower case, digits, hyphens */
    const char *title;   /* a few words */
    const char *meaning; /* one or two sentences */
    const char *remedy;  /* what to do, as commands or actions */
    enum cause_severity severity;
};

size_t causes_count(void);
const struct cause *causes_at(size_t index);       /* sorted by code; NULL past the end */
const struct cause *causes_find(const char *code); /* NULL when unknown or code is NULL */
const char *causes_severity_name(enum cause_severity severity);

/* docs/causes.md. */
void causes_print_markdown(FILE *out);

#endif
