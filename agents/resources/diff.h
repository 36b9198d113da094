/* A small unified diff of two file contents, for people: three lines of context, size-limited.
 *
 * Output is always valid UTF-8, since it travels in JSON; other content is described, not shown. */
#ifndef MUSTER_AGENTS_RESOURCES_DIFF_H
#define MUSTER_AGENTS_RESOURCES_DIFF_H

#include <stddef.h>

#include "common/util.h"

enum { DIFF_MAX_BYTES = 64 * 1024, DIFF_MAX_CELLS = 4 * 1024 * 1024 };

/* Append the difference; nothing when the contents are equal.
 *
 * old_path, new_path  names for the heading, NULL for a file that is absent ("/dev/null")
 *
 * Over DIFF_MAX_BYTES the text is cut, and says so.  Contents with more changed lines than
 * DIFF_MAX_CELLS allows are shown as one whole replacement. */
void diff_files(struct strbuf *out, const char *old_path, const char *old_data, size_t old_len,
                const char *new_path, const char *new_data, size_t new_len);

#endif
