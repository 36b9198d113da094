/* How far a step is: one live line with a bar on a terminal, one plain line per step elsewhere.
 * Written to stderr; nothing with --quiet. */
#ifndef MUSTER_PROVISION_PROGRESS_H
#define MUSTER_PROVISION_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    bool quiet, live;
    char step[48];
    size_t total, done, failed;
    int64_t began_ms, drawn_ms;
    char detail[96]; /* the slowest node, the round ... */
};

void progress_init(struct progress *p, bool quiet);
void progress_begin(struct progress *p, const char *step, size_t total);
/* Cheap: redraws at most ten times a second.  detail may be NULL. */
void progress_update(struct progress *p, size_t done, size_t failed, const char *detail);
/* Ends the step's line: "facts      4 of 4 nodes, 0.12 s" plus the summary. */
void progress_end(struct progress *p, const char *summary);

#endif
