/* What this node has: the facts, and the few of them that checks judge, as evidence. */
#include <math.h>
#include <string.h>

#include "agents/facts/facts.h"
#include "agents/stages/stage.h"
#include "common/hash.h"
#include "common/jsonx.h"
#include "common/util.h"

/* One value, or the reason why there is none. */
static int emit(struct stage_ctx *ctx, struct evidence e, const double *value, struct err *err)
{
    e.stage = "inventory";
    e.samples = value;
    e.sample_count = value ? 1 : 0;
    e.outcome = value ? EVIDENCE_MEASURED : EVIDENCE_NOT_MEASURED;
    if (value)
        e.reason = NULL;
    return stage_evidence(ctx, &e, err);
}

static int emit_node(struct stage_ctx *ctx, const char *quantity, const char *unit,
                     const double *value, const char *reason, struct err *err)
{
    struct evidence e = {
        .subject = stage_node(ctx), .quantity = quantity, .unit = unit, .reason = reason};
    return emit(ctx, e, value, err);
}

static int emit_digest(struct stage_ctx *ctx, const char *hex, struct err *err)
{
    json_auto_t *proof = json_object();
    jsonx_set_str(proof, "digest", hex);
    double one = 1;
    struct evidence e = {
        .subject = stage_node(ctx), .quantity = "facts_digest", .unit = "1", .proof = proof};
    return emit(ctx, e, &one, err);
}

/* The soft limit: what a process gets that does not raise it.  Unlimited is the largest size there
 * is, so that a floor compares without knowing the special value; conditions say that it is not a
 * number. */
static int emit_memlock(struct stage_ctx *ctx, const json_t *facts, struct err *err)
{
    const json_t *soft = json_object_get(json_object_get(facts, "limits"), "memlock_soft_bytes");
    json_int_t bytes = json_integer_value(soft);
    bool unlimited = json_is_integer(soft) && bytes < 0;
    double value = unlimited ? (double)INT64_MAX : (double)bytes;
    json_auto_t *conditions = json_object();
    jsonx_set_bool(conditions, "unlimited", unlimited);
    struct evidence e = {.subject = stage_node(ctx),
                         .quantity = "memlock",
                         .unit = "B",
                         .conditions = conditions,
                         .reason = "/proc/self/limits names no limit of locked memory"};
    return emit(ctx, e, json_is_integer(soft) ? &value : NULL, err);
}

static int emit_shm(struct stage_ctx *ctx, const json_t *facts, struct err *err)
{
    const json_t *shm = json_object_get(json_object_get(facts, "memory"), "shm");
    double value = (double)jsonx_int_or(shm, "size_bytes", 0);
    return emit_node(ctx, "shm_bytes", "B", json_is_object(shm) ? &value : NULL,
                     "/dev/shm is not a mounted tmpfs", err);
}

/* GPUs that the driver does not answer for cannot be counted; a bus without any is a count of 0. */
static int emit_gpus(struct stage_ctx *ctx, const json_t *facts, struct err *err)
{
    const json_t *gpus = json_object_get(facts, "gpus");
    const json_t *functions = json_object_get(facts, "pci");
    double value = (double)json_array_size(json_object_get(gpus, "devices"));
    bool known = jsonx_bool_or(gpus, "available", false);
    size_t on_bus = 0;
    for (size_t i = 0; i < json_array_size(functions); i++) {
        const json_t *function = json_array_get(functions, i);
        on_bus += strcmp(jsonx_str_or(function, "vendor", ""), "0x10de") == 0 &&
                  str_has_prefix(jsonx_str_or(function, "class", ""), "0x03");
    }
    if (!known && on_bus == 0 && json_array_size(functions) > 0)
        known = true;
    return emit_node(ctx, "gpu_count", "1", known ? &value : NULL,
                     jsonx_str_or(gpus, "reason", "the GPUs cannot be counted"), err);
}

static int emit_rdma(struct stage_ctx *ctx, const json_t *facts, struct err *err)
{
    double value = (double)json_array_size(json_object_get(facts, "rdma"));
    return emit_node(ctx, "rdma_count", "1", &value, NULL, err);
}

static int emit_interface(struct stage_ctx *ctx, const json_t *net, struct err *err)
{
    AUTO(free_str)
    char *subject = str_printf("%s/net:%s", stage_node(ctx), jsonx_str_or(net, "name", "?"));
    double mtu = (double)jsonx_int_or(net, "mtu", 0);
    double speed = (double)jsonx_int_or(net, "speed_bps", 0);
    struct evidence e = {.subject = subject, .quantity = "mtu", .unit = "B"};
    e.reason = "the kernel names no MTU";
    if (emit(ctx, e, mtu > 0 ? &mtu : NULL, err) != 0)
        return -1;
    e.quantity = "link_speed";
    e.unit = "bit/s";
    e.reason = "the driver reports no link speed (virtual interface, or no link)";
    return emit(ctx, e, speed > 0 ? &speed : NULL, err);
}

static int emit_all(struct stage_ctx *ctx, const json_t *facts, const char *digest, struct err *err)
{
    if (emit_digest(ctx, digest, err) != 0 || emit_memlock(ctx, facts, err) != 0 ||
        emit_shm(ctx, facts, err) != 0 || emit_gpus(ctx, facts, err) != 0 ||
        emit_rdma(ctx, facts, err) != 0)
        return -1;
    const json_t *nets = json_object_get(facts, "net");
    for (size_t i = 0; i < json_array_size(nets); i++) {
        const json_t *net = json_array_get(nets, i);
        if (strcmp(jsonx_str_or(net, "name", "lo"), "lo") != 0 &&
            emit_interface(ctx, net, err) != 0)
            return -1;
    }
    return 0;
}

static int run(struct stage_ctx *ctx, const json_t *params, json_t **data, struct err *err)
{
    static const char *const no_keys[] = {NULL};
    if (jsonx_only_keys(params, "stage inventory", no_keys, err) != 0) {
        err->kind = ERR_USAGE;
        return -1;
    }
    json_auto_t *facts = NULL;
    if (facts_read(stage_root(ctx), &facts, err) != 0)
        return -1;
    AUTO(free_str) char *text = jsonx_canonical(facts);
    struct hash digest = hash_of(text, strlen(text));
    char hex[HASH_HEX_BYTES];
    hash_hex(&digest, hex);
    if (emit_all(ctx, facts, hex, err) != 0)
        return -1;
    *data = json_object();
    jsonx_set_str(*data, "digest", hex);
    jsonx_set(*data, "facts", json_incref(facts));
    return 0;
}

const struct stage stage_inventory = {
    .name = "inventory",
    .summary = "hardware, kernel, limits and network as they are",
    .run = run,
};
