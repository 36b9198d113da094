/* Any bytes are refused with file and reason, or give a site in its normalised form. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/site.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_site(const json_t *site)
{
    static const char *const parts[] = {"ssh",    "fabric", "nodes", "vars",
                                        "policy", "stages", "source"};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        require(json_is_object(json_object_get(site, parts[i])));
    AUTO(hostlist_release) struct hostlist names = {0};
    site_node_names(site, &names);
    require(names.count > 0);
    for (size_t i = 0; i < names.count; i++) {
        const json_t *node = site_node(site, names.names[i]);
        require(json_is_array(json_object_get(node, "playbooks")));
        require(json_is_array(json_object_get(node, "groups")));
        require(json_is_object(json_object_get(node, "vars")));
        require(!strchr(names.names[i], '/') && names.names[i][0] != '-' &&
                names.names[i][0] != '.');
    }
    char hex[HASH_HEX_BYTES];
    site_digest(site, hex);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(free_str) char *text = mem_zero(size + 1, 1);
    if (size)
        memcpy(text, data, size);
    struct err err = {0};
    json_auto_t *site = NULL;
    int rc = site_parse(text, size, "f", &site, &err);
    require((rc == 0) == (site != NULL));
    if (rc == 0)
        check_site(site);
    else
        require(err.kind == ERR_USAGE && strncmp(err.text, "f:", 2) == 0);
    return 0;
}
