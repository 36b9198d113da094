/* link: MTU and administrative state of a network interface. */
#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "agents/resources/kind.h"
#include "agents/resources/link_info.h"
#include "common/jsonx.h"

/* IPoIB in datagram mode carries the IB MTU less 4 bytes of header. */
enum { MTU_MIN = 68, MTU_MAX = 65536, TYPE_INFINIBAND = 32, IPOIB_DATAGRAM_MAX = 4092 };

static int check_name(const char *name, struct err *err)
{
    size_t len = strlen(name);
    if (len == 0 || len >= IFNAMSIZ || strpbrk(name, "/ \t\n:") || name[0] == '.')
        return err_set(err, ERR_USAGE, "'%.40s' is not the name of an interface", name);
    return 0;
}

static int check_ipoib(const struct kind_item *item, int64_t mtu, struct err *err)
{
    AUTO(free_str) char *type = str_printf("/sys/class/net/%s/type", item->id);
    AUTO(free_str) char *mode_path = str_printf("/sys/class/net/%s/mode", item->id);
    if (fs_read_int_at(item->env->root, type, 0) != TYPE_INFINIBAND)
        return 0;
    AUTO(free_str) char *mode = fs_read_line_at(item->env->root, mode_path);
    if (mtu <= IPOIB_DATAGRAM_MAX || (mode && strcmp(mode, "connected") == 0))
        return 0;
    return err_set(
        err, ERR_USAGE,
        "mtu %lld of %s: IPoIB in datagram mode takes the InfiniBand MTU less 4, at most "
        "4092 (2044 with a 2048-byte partition); it does not change the MTU of RDMA",
        (long long)mtu, item->id);
}

static int check(const struct kind_item *item, char **skip, struct err *err)
{
    static const char *const keys[] = {"mtu", "up", NULL};
    const json_t *mtu_value = json_object_get(item->params, "mtu");
    int64_t mtu = MTU_MIN;
    bool up = true;
    const char *why;
    if (!kind_root_is_real(item->env))
        return err_set(err, ERR_ENV,
                       "a link can be read and set on the running node only, not below %s",
                       item->env->root->path);
    if (check_name(item->id, err) != 0 || jsonx_only_keys(item->params, "link", keys, err) != 0)
        return -1;
    if (json_is_real(mtu_value))
        return err_set(err, ERR_USAGE, "mtu must be an integer, is %g; two settings run together?",
                       json_real_value(mtu_value));
    if (jsonx_opt_int(item->params, "link", "mtu", &mtu, err) != 0 ||
        jsonx_opt_bool(item->params, "link", "up", &up, err) != 0)
        return -1;
    if (mtu < MTU_MIN || mtu > MTU_MAX)
        return err_set(err, ERR_USAGE, "mtu must be %d..%d bytes, is %lld", MTU_MIN, MTU_MAX,
                       (long long)mtu);
    if (!up && link_info_carries_session(item->id, &why))
        return err_set(err, ERR_USAGE, "%s is not set down: %s", item->id, why);
    return check_ipoib(item, mtu, err);
}

static int read_state(const struct kind_item *item, json_t **state, struct err *err)
{
    struct link_info info;
    if (!kind_root_is_real(item->env))
        return err_set(err, ERR_ENV, "a link can be read on the running node only");
    if (link_info_read(item->id, &info, err) != 0)
        return -1;
    *state = json_object();
    jsonx_set_int(*state, "mtu", info.mtu);
    jsonx_set_bool(*state, "up", info.up);
    return 0;
}

static int want(const struct kind_item *item, const json_t *before, json_t **out, struct err *err)
{
    *out = json_object();
    jsonx_set_int(*out, "mtu", jsonx_int_or(item->params, "mtu", jsonx_int_or(before, "mtu", 0)));
    jsonx_set_bool(*out, "up",
                   jsonx_bool_or(item->params, "up", jsonx_bool_or(before, "up", false)));
    return 0;
}

/* What the driver takes, for the message of a refusal. */
static int explain(const char *name, int64_t mtu, const struct link_info *info, struct err *err)
{
    if (err->native != EINVAL || (info->min == 0 && info->max == 0))
        return -1;
    *err = (struct err){0};
    if (info->max == 0)
        return err_set(err, ERR_ENV, "%s cannot take an MTU of %lld: its driver takes %lld or more",
                       name, (long long)mtu, (long long)info->min);
    return err_set(err, ERR_ENV, "%s cannot take an MTU of %lld: its driver takes %lld..%lld", name,
                   (long long)mtu, (long long)info->min, (long long)info->max);
}

static int set_mtu(const char *name, int64_t mtu, const struct link_info *info, struct err *err)
{
    struct link_info after;
    if (link_info_set_mtu(name, mtu, err) != 0)
        return explain(name, mtu, info, err);
    if (link_info_read(name, &after, err) != 0)
        return -1;
    if (after.mtu != mtu)
        return err_set(err, ERR_ENV,
                       "%s took an MTU of %lld where %lld was set (on IPoIB the partition's "
                       "multicast group limits it: mtu=5 in partitions.conf)",
                       name, (long long)after.mtu, (long long)mtu);
    return 0;
}

static int apply(const struct kind_item *item, const json_t *state, struct err *err)
{
    struct link_info info;
    int64_t mtu;
    bool up;
    if (jsonx_get_int(state, "link", "mtu", &mtu, err) != 0 ||
        jsonx_get_bool(state, "link", "up", &up, err) != 0 ||
        link_info_read(item->id, &info, err) != 0)
        return -1;
    if (info.mtu != mtu && set_mtu(item->id, mtu, &info, err) != 0)
        return -1;
    kind_step(item->env, "link.mtu");
    if (info.up != up && link_info_set_up(item->id, up, err) != 0)
        return -1;
    kind_step(item->env, "link.up");
    return 0;
}

const struct resource_kind resource_kind_link = {
    .name = "link",
    .check = check,
    .read = read_state,
    .want = want,
    .apply = apply,
};
