/* Which nodes explain a set of failed paths: the least set that covers them, if there is one
 * answer.
 *
 * A node is convicted only if every least cover names it and it does not, against the nodes outside
 * the cover, pass more often than it fails.  Failed paths without a convicted end are faults of the
 * pair. Covers up to BLAME_EXACT nodes are found exactly, larger ones greedily.  Pure. */
#ifndef MUSTER_VALIDATE_BLAME_H
#define MUSTER_VALIDATE_BLAME_H

#include <stdbool.h>
#include <stddef.h>

enum { BLAME_EXACT = 6 };

enum blame_path { BLAME_UNKNOWN = 0, BLAME_PASSED, BLAME_FAILED };

/* paths: n * n values of enum blame_path, paths[from * n + to].  convicted: n values, set by the
 * call. */
void blame_solve(size_t n, const unsigned char paths[], bool convicted[]);

#endif
