/* partitions.conf. */
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"
#include "fabric/subnet/opensm_conf.h"
#include "fabric/subnet/rate.h"

enum { PKEY_MAX = 0x7fff, DEFAULT_PKEY = 0x7fff };

static const char *const keys[] = {"name", "key", "ipoib", "mtu", "rate", "sl", "members", NULL};

static int check_name(const char *name, struct err *err)
{
    size_t good = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    if (!*name || name[good])
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.partitions: '%.40s' is no partition's name (letters, digits, "
                       "'-', '_')",
                       name);
    return 0;
}

static int read_key(const json_t *p, const char *name, int64_t *key, struct err *err)
{
    const json_t *value = json_object_get(p, "key");
    struct err why = {0};
    if (json_is_integer(value))
        *key = json_integer_value(value);
    else if (!json_is_string(value))
        return err_set(err, ERR_USAGE, "fabric.subnet.partitions.%s: key: is missing", name);
    else if (str_has_prefix(json_string_value(value), "0x")) {
        char *end;
        *key = (int64_t)strtoull(json_string_value(value) + 2, &end, 16);
        if (*end || end == json_string_value(value) + 2)
            *key = -1;
    } else if (units_parse_int(json_string_value(value), 1, PKEY_MAX, key, &why) != 0)
        *key = -1;
    if (*key < 1 || *key > PKEY_MAX)
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.partitions.%s: key: must be 0x0001 to 0x7fff (the top bit is "
                       "the membership, opensm would cut it off)",
                       name);
    return 0;
}

/* MTU and rate of the broadcast group: who is slower cannot join it at all. */
static int add_group(const json_t *fabric, const json_t *p, const char *name, struct strbuf *b,
                     struct err *err)
{
    int64_t mtu = jsonx_int_or(p, "mtu", jsonx_int_or(fabric, "mtu", 2048)), rate;
    int64_t sl = jsonx_int_or(p, "sl", 0);
    const json_t *own = json_object_get(p, "rate");
    rate = jsonx_int_or(fabric, "rate_bps", INT64_C(10000000000));
    struct err why = {0};
    if (own &&
        (!json_is_string(own) || units_parse_rate_bps(json_string_value(own), &rate, &why) != 0))
        return err_set(err, ERR_USAGE, "fabric.subnet.partitions.%s: rate: %s", name,
                       why.text[0] ? why.text : "must be a rate like \"100Gb/s\"");
    if (rate_mtu_code(mtu) == 0)
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.partitions.%s: mtu: %lld is not 256, 512, 1024, 2048 or 4096",
                       name, (long long)mtu);
    if (rate_code(rate) == 0)
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.partitions.%s: rate: no InfiniBand link runs at %lld Mbit/s; "
                       "take that of the slowest member",
                       name, (long long)(rate / 1000000));
    if (sl < 0 || sl > 15)
        return err_set(err, ERR_USAGE, "fabric.subnet.partitions.%s: sl: must be 0 to 15, is %lld",
                       name, (long long)sl);
    strbuf_printf(b, ", ipoib, mtu=%u, rate=%u, sl=%lld", rate_mtu_code(mtu), rate_code(rate),
                  (long long)sl);
    return 0;
}

static int add_members(const json_t *p, const char *name, struct strbuf *b, bool *full,
                       struct err *err)
{
    static const char *const words[] = {"ALL",          "SELF",        "ALL_CAS",
                                        "ALL_SWITCHES", "ALL_ROUTERS", NULL};
    const json_t *members = json_object_get(p, "members");
    const char *who;
    json_t *how;
    size_t count = 0;
    if (!json_is_object(members) || json_object_size(members) == 0)
        return err_set(
            err, ERR_USAGE,
            "fabric.subnet.partitions.%s: members: must be { ALL: full } or { PORT GUID: "
            "full or limited }",
            name);
    json_object_foreach((json_t *)members, who, how)
    {
        AUTO(free_str) char *what = str_printf("fabric.subnet.partitions.%s: members", name);
        const char *kind = json_is_string(how) ? json_string_value(how) : "";
        bool word = false;
        for (size_t i = 0; words[i]; i++)
            word |= strcmp(words[i], who) == 0;
        if (!word && opensm_check_guid(who, what, err) != 0)
            return -1;
        if (strcmp(kind, "full") != 0 && strcmp(kind, "limited") != 0)
            return err_set(err, ERR_USAGE, "%s: %.40s must be full or limited, is '%.40s'", what,
                           who, kind);
        *full |= strcmp(kind, "full") == 0;
        strbuf_printf(b, "%s%s=%s", count++ ? ", " : "", who, kind);
    }
    return 0;
}

static int add_partition(const json_t *fabric, const json_t *p, struct strbuf *b, int64_t *key,
                         struct err *err)
{
    const char *name = jsonx_str_or(p, "name", "");
    bool full = false;
    AUTO(free_str) char *what = str_printf("fabric.subnet.partitions.%s", name);
    if (!json_is_object(p) || check_name(name, err) != 0 ||
        jsonx_only_keys(p, what, keys, err) != 0 || read_key(p, name, key, err) != 0)
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.partitions: each must be a mapping with a name");
    strbuf_printf(b, "%s=0x%04llx", name, (long long)*key);
    if (jsonx_bool_or(p, "ipoib", false) && add_group(fabric, p, name, b, err) != 0)
        return -1;
    strbuf_puts(b, " : ");
    if (add_members(p, name, b, &full, err) != 0)
        return -1;
    strbuf_puts(b, " ;\n");
    if (!full)
        return err_set(
            err, ERR_USAGE,
            "fabric.subnet.partitions.%s: has no full member: limited members cannot talk "
            "to each other",
            name);
    return 0;
}

/* Without a Default rule opensm makes everyone but itself a limited member of 0x7fff. */
static int add_default(const json_t *fabric, struct strbuf *b, struct err *err)
{
    strbuf_puts(b, "Default=0x7fff");
    json_auto_t *none = json_object();
    if (add_group(fabric, none, "Default", b, err) != 0)
        return -1;
    strbuf_puts(b, " : ALL=full, SELF=full ;\n");
    return 0;
}

int opensm_partitions_text(const json_t *fabric, const json_t *partitions, char **text,
                           struct err *err)
{
    struct strbuf b = {0};
    size_t i, count = json_array_size(partitions);
    int64_t *used = mem_zero(count + 1, sizeof *used);
    bool has_default = false;
    int status = 0;
    strbuf_puts(&b, "# Made by muster; edit the site file instead.\n");
    if (partitions && !json_is_array(partitions))
        status = err_set(err, ERR_USAGE, "fabric.subnet.partitions: must be a list");
    for (i = 0; i < count && status == 0; i++)
        has_default |=
            jsonx_int_or(json_array_get(partitions, i), "key", 0) == DEFAULT_PKEY ||
            strcasecmp(jsonx_str_or(json_array_get(partitions, i), "key", ""), "0x7fff") == 0;
    if (status == 0 && !has_default)
        status = add_default(fabric, &b, err);
    for (i = 0; i < count && status == 0; i++) {
        const json_t *p = json_array_get(partitions, i);
        status = add_partition(fabric, p, &b, &used[i], err);
        for (size_t k = 0; k < i && status == 0; k++)
            if (used[k] == used[i])
                status = err_set(err, ERR_USAGE,
                                 "fabric.subnet.partitions.%s: key 0x%04llx is that of another "
                                 "partition",
                                 jsonx_str_or(p, "name", "?"), (long long)used[i]);
    }
    free(used);
    if (status == 0)
        *text = STEAL(b.data);
    free(b.data);
    return status;
}
