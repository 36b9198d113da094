/* known_hosts: any bytes are a table that can be asked. */
#include <stdint.h>
#include <stdlib.h>

#include "provision/hostkeys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hostkeys *k = hostkeys_create();
    hostkeys_parse(k, (const char *)data, size, "fuzz");
    struct hostkeys_found found;
    struct hostkeys_verdict verdict;
    hostkeys_find(k, "gpu001.example.org", 2222, &found);
    free(hostkeys_algorithms(&found));
    hostkeys_check(&found, "ssh-ed25519", "AAAA", &verdict);
    hostkeys_found_release(&found);
    hostkeys_destroy(k);
    return 0;
}
