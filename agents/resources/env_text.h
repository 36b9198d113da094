/* Files of environment variables: set some, keep every other line as it is. */
#ifndef MUSTER_AGENTS_RESOURCES_ENV_TEXT_H
#define MUSTER_AGENTS_RESOURCES_ENV_TEXT_H

#include <jansson.h>

#include "common/err.h"

enum env_format {
    ENV_FORMAT_UNSET = 0,
    ENV_FORMAT_NCCL,    /* VAR=value, taken literally: NCCL reads /etc/nccl.conf so */
    ENV_FORMAT_PROFILE, /* export VAR='value' */
    ENV_FORMAT_SYSTEMD, /* VAR="value", for EnvironmentFile= */
    ENV_FORMAT__COUNT
};

/* ENV_FORMAT_UNSET for an unknown name. */
enum env_format env_text_format_find(const char *name);

/* May this variable have this value in this format?  ERR_USAGE says why not. */
int env_text_check(enum env_format format, const char *name, const char *value, struct err *err);

/* text with the variables of `set` (name -> text, or null to remove) set.  A variable keeps its
 * place; its further lines go, since readers differ in which of two they believe.  New ones come at
 * the end, in the order of `set`.  Merging the result again gives the same bytes.  The caller
 * frees. */
char *env_text_merge(enum env_format format, const char *text, const json_t *set);

#endif
