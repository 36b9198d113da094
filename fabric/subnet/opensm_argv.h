/* What is wrong with an opensm command line, one sentence per mistake, and the right form.
 *
 * Reads the options as opensm 3.3 does (getopt_long with abbreviations).  Pure, thread-safe. */
#ifndef MUSTER_FABRIC_SUBNET_OPENSM_ARGV_H
#define MUSTER_FABRIC_SUBNET_OPENSM_ARGV_H

#include <jansson.h>

/* args without the program's name.  Appends findings {"cause","subject","text"} to findings,
 * subject being the option; returns the right form, which the caller frees. */
char *opensm_argv_explain(const char *const args[], size_t count, json_t *findings);

#endif
