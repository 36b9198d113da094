/* From rows of paths and of the cluster to rows of nodes: who is charged.  Internal to judge. */
#ifndef MUSTER_VALIDATE_JUDGE_PATHS_H
#define MUSTER_VALIDATE_JUDGE_PATHS_H

#include "validate/check.h"

/* Adds to each node a row "paths" (stage pairs) and a row "allreduce_share" (stage
 * allreduce-cluster). The path rows must be judged and the exclusions applied. */
void judge_paths_charge(struct check_env *env);

#endif
