/* The type of one plain YAML scalar (the rules stand in provision/yaml.h). */
#ifndef MUSTER_PROVISION_YAML_SCALAR_H
#define MUSTER_PROVISION_YAML_SCALAR_H

#include <jansson.h>
#include <stdbool.h>

/* New reference.  NULL with *why set (static text) for a number that cannot be held; NULL with *why
 * untouched when text is not UTF-8. */
json_t *yaml_scalar(const char *text, const char **why);
/* True when the scalar, written plain, would be read as this very string. */
bool yaml_scalar_is_plain(const char *text);

#endif
