/* ssh_config: any bytes give a configuration or an error. */
#include <stdint.h>
#include <stdlib.h>

#include "provision/sshconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct sshconfig *c = sshconfig_parse((const char *)data, size, &err);
    struct sshconfig_host h;
    if (c && sshconfig_resolve(c, "gpu001", NULL, 0, &h, &err) == 0) {
        free(sshconfig_expand(c, &h, "gpu001", "nc %h %p %r %% %"));
        sshconfig_host_release(&h);
    }
    sshconfig_destroy(c);
    return 0;
}
