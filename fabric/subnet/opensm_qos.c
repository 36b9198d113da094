/* QoS levels of the site as opensm's policy file and its SL, VL and arbitration lines.
 *
 * Each level gets one service level and one virtual lane of its own, in the order written; shares
 * become weights of the low-priority table.  Level 0 is DEFAULT, without which opensm drops the
 * whole policy. */
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/subnet/opensm_conf.h"

enum { SL_COUNT = 16, MAX_LEVELS = 8, WEIGHT_TOP = 255 };

static const char *const level_keys[] = {"name", "sl", "share", "pkey", NULL};

static int check_level(const json_t *level, unsigned *sls, int64_t *shares, struct err *err)
{
    const char *name = jsonx_str_or(level, "name", "");
    AUTO(free_str) char *what = str_printf("fabric.subnet.qos.%s", name);
    const json_t *sl = json_object_get(level, "sl"), *share = json_object_get(level, "share");
    size_t good = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    if (!*name || name[good])
        return err_set(err, ERR_USAGE, "fabric.subnet.qos: '%.40s' is no level's name", name);
    if (jsonx_only_keys(level, what, level_keys, err) != 0)
        return -1;
    if (!json_is_integer(sl) || json_integer_value(sl) < 0 || json_integer_value(sl) >= SL_COUNT)
        return err_set(err, ERR_USAGE, "%s: sl: must be 0 to 15", what);
    if (*sls & (1u << json_integer_value(sl)))
        return err_set(err, ERR_USAGE, "%s: sl: %lld is that of another level", what,
                       (long long)json_integer_value(sl));
    if (!json_is_integer(share) || json_integer_value(share) < 1 || json_integer_value(share) > 100)
        return err_set(err, ERR_USAGE, "%s: share: must be 1 to 100 percent", what);
    const json_t *pkey = json_object_get(level, "pkey");
    if (pkey &&
        (!json_is_string(pkey) || opensm_check_guid(json_string_value(pkey), what, err) != 0))
        return err_set(err, ERR_USAGE, "%s: pkey: must be a text like \"0x0010\"", what);
    *sls |= 1u << json_integer_value(sl);
    *shares += json_integer_value(share);
    return 0;
}

int opensm_qos_check(const json_t *qos, struct err *err)
{
    size_t i, defaults = 0;
    json_t *level;
    unsigned sls = 0;
    int64_t shares = 0;
    if (!json_is_array(qos) || json_array_size(qos) == 0 || json_array_size(qos) > MAX_LEVELS)
        return err_set(err, ERR_USAGE, "fabric.subnet.qos: must be a list of 1 to %d levels",
                       MAX_LEVELS);
    json_array_foreach(qos, i, level)
    {
        if (check_level(level, &sls, &shares, err) != 0)
            return -1;
        defaults += strcmp(jsonx_str_or(level, "name", ""), "DEFAULT") == 0;
    }
    if (defaults != 1)
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.qos: one level must be named DEFAULT, else opensm drops the "
                       "whole policy");
    if (shares != 100)
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.qos: the shares add up to %lld percent, not 100",
                       (long long)shares);
    return 0;
}

char *opensm_qos_policy_text(const json_t *qos)
{
    struct strbuf b = {0};
    size_t i;
    json_t *level;
    strbuf_puts(&b, "# Made by muster; edit the site file instead.\nqos-ulps\n");
    json_array_foreach(qos, i, level)
    {
        const char *pkey = jsonx_str_or(level, "pkey", NULL);
        if (pkey)
            strbuf_printf(&b, "    any, pkey %s : %lld\n", pkey,
                          (long long)jsonx_int_or(level, "sl", 0));
    }
    json_array_foreach(qos, i, level) if (strcmp(jsonx_str_or(level, "name", ""), "DEFAULT") == 0)
        strbuf_printf(&b, "    default : %lld\n", (long long)jsonx_int_or(level, "sl", 0));
    strbuf_puts(&b, "end-qos-ulps\nqos-levels\n");
    json_array_foreach(qos, i, level)
        strbuf_printf(&b, "    qos-level\n        name: %s\n        sl: %lld\n    end-qos-level\n",
                      jsonx_str_or(level, "name", ""), (long long)jsonx_int_or(level, "sl", 0));
    strbuf_puts(&b, "end-qos-levels\n");
    return b.data;
}

char *opensm_qos_conf_text(const json_t *qos)
{
    struct strbuf b = {0};
    size_t count = json_array_size(qos), i;
    json_t *level;
    size_t vl_of[SL_COUNT] = {0};
    json_array_foreach(qos, i, level) vl_of[jsonx_int_or(level, "sl", 0) & (SL_COUNT - 1)] = i;
    strbuf_printf(&b, "qos_max_vls %zu\nqos_high_limit 0\nqos_vlarb_high ", count);
    for (i = 0; i < count; i++)
        strbuf_printf(&b, "%s%zu:0", i ? "," : "", i);
    strbuf_puts(&b, "\nqos_vlarb_low ");
    json_array_foreach(qos, i, level)
        strbuf_printf(&b, "%s%zu:%lld", i ? "," : "", i,
                      (long long)(jsonx_int_or(level, "share", 1) * WEIGHT_TOP / 100));
    strbuf_puts(&b, "\nqos_sl2vl ");
    for (i = 0; i < SL_COUNT; i++)
        strbuf_printf(&b, "%s%zu", i ? "," : "", vl_of[i]);
    strbuf_puts(&b, "\n");
    return b.data;
}
