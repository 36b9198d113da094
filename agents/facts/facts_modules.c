/* Kernel modules that decide about GPUs and RDMA, with the parameters they run with. */
#include "agents/facts/facts_topics.h"
#include "common/jsonx.h"
#include "common/util.h"

static const char *const modules[] = {
    "nvidia",  "nvidia_peermem", "nvidia_fs", "gdrdrv",   "mlx5_core", "mlx5_ib", "mlx4_core",
    "ib_core", "ib_uverbs",      "rdma_cm",   "ib_ipoib", "efa",       "ena",     "mlx_compat",
};

/* A parameter that root alone may read is null for everybody else. */
static json_t *read_params(const struct fs_root *root, const char *module)
{
    json_t *params = facts_object();
    AUTO(facts_names_free)
    struct facts_names names = facts_list(root, "/sys/module/%s/parameters", module);
    for (size_t i = 0; i < names.count; i++)
        facts_set_line(params, names.names[i], root, "/sys/module/%s/parameters/%s", module,
                       names.names[i]);
    return params;
}

json_t *facts_modules(const struct fs_root *root)
{
    json_t *loaded = facts_object();
    for (size_t i = 0; i < ARRAY_LEN(modules); i++) {
        if (!facts_exists(root, "/sys/module/%s", modules[i]))
            continue;
        json_t *module = facts_object();
        facts_set_line(module, "version", root, "/sys/module/%s/version", modules[i]);
        jsonx_set(module, "params", read_params(root, modules[i]));
        jsonx_set(loaded, modules[i], module);
    }
    return loaded;
}
