/* The site file: what the operator wants, normalised to one form (docs/contracts.md, section 3).
 *
 * Readers: muster's own YAML or JSON, `ansible-inventory --list`, a plain file of hosts and a Slurm
 * node list, told apart by content.  Everything is checked here: after a success each key is known,
 * of its type and in its range.  A mistake is ERR_USAGE and names file, line, key and what was
 * meant; ERR_ENV is a file that cannot be read.  No network, no globals; thread-safe. */
#ifndef MUSTER_PROVISION_SITE_H
#define MUSTER_PROVISION_SITE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/hash.h"
#include "common/hostlist.h"

/* Read, check and normalise.  *site is a new reference, set only on success. */
int site_load(const char *path, json_t **site, struct err *err);
/* The same for bytes in memory; `source` is the file's name in messages and in "source". */
int site_parse(const char *text, size_t len, const char *source, json_t **site, struct err *err);
/* A site with defaults for a hostlist from the command line ("gpu[001-004]"). */
int site_from_hostlist(const char *hosts, json_t **site, struct err *err);

/* Hash of the canonical normalised site without "source": comments, order of keys and the spelling
 * of units do not change it. */
void site_digest(const json_t *site, char hex[static HASH_HEX_BYTES]);

/* The node's entry (borrowed), NULL when the site has no such node. */
const json_t *site_node(const json_t *site, const char *name);
/* Names in natural order (gpu2 before gpu10).  list must be zeroed; hostlist_release() it. */
void site_node_names(const json_t *site, struct hostlist *list);
/* The nodes that text selects: hostlists, "@GROUP" for a group, "all"; a leading "-" takes away
 * ("all,-gpu017").  ERR_USAGE: a name or group that the site does not have ("did you mean"),
 * nothing left.  list must be zeroed. */
int site_select(const json_t *site, const char *text, struct hostlist *list, struct err *err);

/* What `muster init` found; NULL or 0 means unknown. */
struct site_init {
    const char *cluster;   /* NULL: "cluster" */
    const char *hosts;     /* hostlist, required */
    const char *user;      /* ssh user */
    bool sudo;             /* become: sudo */
    const char *interface; /* name of the interface for cluster traffic; NULL: chosen from facts */
    const json_t *facts;   /* of the first node, or NULL */
};
/* The commented site file as text (the caller frees); it parses again to what it says.
 * ERR_USAGE: hosts is not a hostlist. */
int site_init_text(const struct site_init *init, char **text, struct err *err);

/* Every key of the site file with type, default and meaning (`muster site keys`). */
void site_keys_print(FILE *out);
/* The same as rows of a Markdown table, for the documentation. */
void site_keys_print_markdown(FILE *out);

#endif
