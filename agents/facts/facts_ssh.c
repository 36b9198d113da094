/* Fingerprints of this machine's SSH host keys, as `ssh-keygen -lf` prints them. */
#include <stdlib.h>
#include <string.h>

#include "agents/facts/facts_topics.h"
#include "common/hash.h"
#include "common/jsonx.h"
#include "common/util.h"

/* "TYPE BASE64 COMMENT"; NULL unless it is a public key line. */
static json_t *read_key(const struct fs_root *root, const char *file)
{
    AUTO(free_str) char *line = facts_line(root, "/etc/ssh/%s", file);
    char *save = NULL;
    const char *type = line ? strtok_r(line, " \t", &save) : NULL;
    const char *blob_text = type ? strtok_r(NULL, " \t", &save) : NULL;
    size_t len = 0;
    uint8_t *blob = blob_text ? base64_decode(blob_text, &len) : NULL;
    if (!blob)
        return NULL;
    struct hash digest = hash_of(blob, len);
    free(blob);
    AUTO(free_str) char *encoded = base64_encode(digest.bytes, HASH_BYTES);
    encoded[strcspn(encoded, "=")] = '\0';
    AUTO(free_str) char *fingerprint = str_printf("SHA256:%s", encoded);
    json_t *key = facts_object();
    facts_set_text(key, "type", type);
    jsonx_set_str(key, "fingerprint", fingerprint);
    return key;
}

json_t *facts_ssh(const struct fs_root *root)
{
    json_t *keys = facts_array();
    AUTO(facts_names_free) struct facts_names names = facts_list(root, "/etc/ssh");
    for (size_t i = 0; i < names.count; i++) {
        bool is_host_key = str_has_prefix(names.names[i], "ssh_host_") &&
                           str_has_suffix(names.names[i], "_key.pub");
        json_t *key = is_host_key ? read_key(root, names.names[i]) : NULL;
        if (key)
            jsonx_append(keys, key);
    }
    return keys;
}
