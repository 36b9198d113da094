/* Directories on the way to a managed file, opened one by one without following links. */
#ifndef MUSTER_AGENTS_RESOURCES_FILE_DIR_H
#define MUSTER_AGENTS_RESOURCES_FILE_DIR_H

#include "agents/resources/resources.h"

/* Open the directory that holds path.  *name points at path's last component.
 *
 * create   make missing directories (0755); else a missing one gives *fd -1 and returns 0
 * missing  number of missing directories; may be NULL
 *
 * ERR_DATA: a component is a symbolic link or no directory.  ERR_ENV: cannot be opened or made. */
int file_dir_open(const struct resources_env *env, const char *path, bool create, int *fd,
                  const char **name, unsigned *missing, struct err *err);

/* Remove up to `levels` directories above path, innermost first, as long as they are empty. */
int file_dir_prune(const struct resources_env *env, const char *path, unsigned levels,
                   struct err *err);

#endif
