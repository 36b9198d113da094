/* What a run leaves behind on the node: it must be nothing, so somebody has to look. */
#ifndef MUSTER_AGENTS_LEFTOVERS_H
#define MUSTER_AGENTS_LEFTOVERS_H

#include <jansson.h>

#include "common/fs.h"

/* Become the process that orphans of workers fall to, so that leftovers_end() finds them. */
void leftovers_adopt(void);
/* Kill and reap every process below this one.  Returns how many are still there after timeout_ms.
 */
int leftovers_end(int timeout_ms);
/* Temporary files of interrupted writes in the state directory and in the directories that muster
 * writes to, as absolute paths below root: new array of strings. */
json_t *leftovers_files(const struct fs_root *root, const char *state_dir);

#endif
