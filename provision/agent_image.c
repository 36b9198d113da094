#include "provision/agent_image.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/util.h"

static char *own_directory(void)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    if (len <= 0)
        return str_dup(".");
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    return str_dup(path);
}

static void add_image(struct agent_images *images, const char *arch, char *path)
{
    for (size_t i = 0; i < images->count; i++)
        if (strcmp(images->images[i].arch, arch) == 0) {
            free(path);
            return;
        }
    char *name = str_dup(arch);
    images->owned[images->owned_count++] = name;
    images->owned[images->owned_count++] = path;
    images->images[images->count++] = (struct fleet_agent_image){.arch = name, .path = path};
}

static void look_in(struct agent_images *images, const char *dir, const char *machine)
{
    static const char *const arches[] = {"x86_64", "aarch64"};
    for (size_t i = 0; i < ARRAY_LEN(arches); i++) {
        char *path = str_printf("%s/muster-agent.%s", dir, arches[i]);
        if (access(path, R_OK) == 0)
            add_image(images, arches[i], path);
        else
            free(path);
    }
    char *path = str_printf("%s/muster-agent", dir);
    if (access(path, R_OK) == 0)
        add_image(images, machine, path);
    else
        free(path);
}

int agent_images_find(struct agent_images *images, struct err *err)
{
    *images = (struct agent_images){0};
    struct utsname uts;
    uname(&uts);
    const char *chosen = getenv("MUSTER_AGENT_DIR");
    AUTO(free_str) char *own = own_directory();
    AUTO(free_str) char *lib = str_printf("%s/../lib/muster", own);
    AUTO(free_str) char *lib64 = str_printf("%s/../lib64/muster", own);
    if (chosen && chosen[0]) {
        look_in(images, chosen, uts.machine);
    } else {
        look_in(images, own, uts.machine);
        look_in(images, lib, uts.machine);
        look_in(images, lib64, uts.machine);
    }
    if (images->count > 0)
        return 0;
    return err_set(err, ERR_ENV,
                   "no muster-agent to send to the nodes: looked in %s; build it (./bootstrap "
                   "build) or set MUSTER_AGENT_DIR",
                   chosen && chosen[0] ? chosen : own);
}

void agent_images_release(struct agent_images *images)
{
    for (size_t i = 0; i < images->owned_count; i++)
        free(images->owned[i]);
    *images = (struct agent_images){0};
}
