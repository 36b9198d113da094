/* Command lines for a POSIX shell: each argument arrives as it was, whatever bytes it holds. */
#ifndef MUSTER_PROVISION_QUOTE_H
#define MUSTER_PROVISION_QUOTE_H

#include "common/util.h"

/* Append one word.  Letters, digits and %+,-./:@_ stay bare, everything else goes between single
 * quotes ('=' too: in front it would be an assignment). */
void quote_word(struct strbuf *out, const char *word);

/* The words of argv (ends in NULL), quoted and separated by blanks.  The caller frees. */
char *quote_argv(const char *const argv[]);

#endif
