/* Where the agent's binaries for the nodes are: beside muster, in its libexec place, or in
 * $MUSTER_AGENT_DIR (muster-agent for this machine's architecture, muster-agent.ARCH for others).
 */
#ifndef MUSTER_PROVISION_AGENT_IMAGE_H
#define MUSTER_PROVISION_AGENT_IMAGE_H

#include <stddef.h>

#include "common/err.h"
#include "provision/fleet.h"

enum { AGENT_IMAGES_MAX = 4 };

struct agent_images {
    struct fleet_agent_image images[AGENT_IMAGES_MAX];
    char *owned[2 * AGENT_IMAGES_MAX];
    size_t count, owned_count;
};

/* ERR_ENV when there is none; the text names where it looked. */
int agent_images_find(struct agent_images *images, struct err *err);
void agent_images_release(struct agent_images *images);

#endif
