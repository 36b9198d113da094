/* Values of module parameters: what is right for a module that is known, or loaded, or installed.
 */
#ifndef MUSTER_AGENTS_RESOURCES_MODULE_RULES_H
#define MUSTER_AGENTS_RESOURCES_MODULE_RULES_H

#include "agents/resources/kind.h"

/* The module's name with '_' for '-'.  ERR_USAGE: no name of a module.  The caller frees. */
char *module_rules_name(const char *text, struct err *err);

/* Are the options (parameter -> text) right for this module?  ERR_USAGE says which is not and what
 * the module has.  *skip is set (caller frees) when they would be inert on this node. */
int module_rules_check(const struct resources_env *env, const char *module, const json_t *options,
                       char **skip, struct err *err);

#endif
