#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/units.h"
#include "common/util.h"
#include "validate/check_gpu.h"

/* Bandwidths of one GPU, and what they are measured against. */
enum against { AGAINST_MEMORY, AGAINST_HOST, AGAINST_NOTHING };
static const struct {
    const char *stage, *quantity;
    enum against against;
} rows[] = {
    {"gpu", "memory_read_bandwidth", AGAINST_MEMORY},
    {"gpu", "memory_copy_bandwidth", AGAINST_MEMORY},
    {"gpu", "memory_driver_bandwidth", AGAINST_MEMORY},
    {"pcie", "h2d_bandwidth", AGAINST_HOST},
    {"pcie", "d2h_bandwidth", AGAINST_HOST},
    {"shm", "h2d_pageable_bandwidth", AGAINST_NOTHING},
    {"shm", "d2h_pageable_bandwidth", AGAINST_NOTHING},
    {"shm", "host_path_bandwidth", AGAINST_NOTHING}, /* of pairs: the last row */
};

struct figure {
    struct ledger_row *row;
    double value;
    const char *name; /* of the GPU's model */
    const struct gpu_profile *profile;
};

struct collection {
    size_t quantity; /* index in rows */
    struct figure *figures;
    size_t count;
};

static void collect_one(struct check_env *env, const struct check_gpu *gpu, bool needed,
                        struct collection *c)
{
    struct ledger_row *row = NULL;
    const struct evidence_set_record *r = check_gpu_record(
        env, gpu, rows[c->quantity].stage, rows[c->quantity].quantity, needed, &row);
    if (!r)
        return;
    const json_t *proof = json_object_get(r->json, "proof");
    if (jsonx_int_or(proof, "mismatches", -1) != 0 || jsonx_int_or(proof, "compared", 0) <= 0) {
        ledger_set(row, VERDICT_NOT_MEASURED, "evidence-malformed",
                   "the figure does not show that its content was compared");
        return;
    }
    c->figures = mem_grow(c->figures, c->count + 1, sizeof *c->figures);
    c->figures[c->count++] =
        (struct figure){.row = row, .value = r->value, .name = gpu->name, .profile = gpu->profile};
}

static void collect(const struct check *check, struct check_env *env, const struct check_gpu *gpu,
                    void *ctx)
{
    (void)check;
    struct collection *c = ctx;
    if (c->quantity + 1 < ARRAY_LEN(rows)) {
        collect_one(env, gpu, rows[c->quantity].against != AGAINST_NOTHING, c);
        return;
    }
    /* To every other GPU of the node; a GPU that is alone goes to itself. */
    const json_t *gpus = json_object_get(check_facts(env, gpu->node), "gpus");
    const json_t *devices = json_object_get(gpus, "devices");
    for (size_t i = 0; i < json_array_size(devices); i++) {
        int64_t index = jsonx_int_or(json_array_get(devices, i), "index", (int64_t)i);
        AUTO(free_str)
        char *other = str_printf("%s/gpu:%lld", gpu->node, (long long)index);
        if (json_array_size(devices) > 1 && strcmp(other, gpu->own) == 0)
            continue;
        AUTO(free_str) char *subject = str_printf("%s>gpu:%lld", gpu->own, (long long)index);
        struct check_gpu pair = *gpu;
        pair.subject = subject;
        collect_one(env, &pair, true, c);
    }
}

static struct limits_peers peers_of(const struct collection *c, const char *name)
{
    double *values = mem_zero(c->count + 1, sizeof *values);
    size_t used = 0;
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->figures[i].name, name) == 0)
            values[used++] = c->figures[i].value;
    struct limits_peers peers = limits_peers_of(values, used);
    free(values);
    return peers;
}

/* The roofline of one figure: *quantity is a copy whose efficiency is set; false: none is known. */
static bool roofline(enum against against, const struct figure *f, struct limits_quantity *quantity,
                     double *peak, char **source)
{
    if (!f->profile || against == AGAINST_NOTHING)
        return false;
    if (against == AGAINST_MEMORY) {
        AUTO(free_str) char *text = units_format(f->profile->memory_bytes_per_s, "B/s");
        *peak = f->profile->memory_bytes_per_s;
        *source = str_printf("memory of %s, %s (%s)", f->profile->name, text, f->profile->source);
        return true;
    }
    const struct gpu_profile_host *host = gpu_profile_host(f->profile->generation);
    if (!host || f->profile->width != 16)
        return false;
    quantity->efficiency = host->floor / host->peak;
    *peak = host->peak;
    *source = str_printf("PCI Express %d x16 of %s (%s)", host->generation, f->profile->name,
                         host->source);
    return true;
}

static void judge_figure(const struct collection *c, const struct figure *f,
                         struct limits_figure figure)
{
    struct limits_quantity quantity = *figure.quantity;
    AUTO(free_str) char *source = NULL;
    double peak = 0;
    if (roofline(rows[c->quantity].against, f, &quantity, &peak, &source)) {
        figure.link_bps = peak / quantity.per_bps;
        figure.link_source = source;
    }
    figure.quantity = &quantity;
    figure.value = f->value;
    figure.peers = peers_of(c, f->name);
    limits_judge(&figure, f->row);
}

static int judge(const struct check *check, struct check_env *env, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct limits_figure figure = {.quantity = limits_find(rows[i].quantity)};
        if (limits_site_floor(env->input->site, &figure, err) != 0)
            return -1;
        struct collection c = {.quantity = i};
        check_gpu_each(check, env, collect, &c);
        for (size_t k = 0; k < c.count; k++)
            judge_figure(&c, &c.figures[k], figure);
        free(c.figures);
    }
    return 0;
}

const struct check check_gpu_figures = {
    .name = "gpu_figures",
    .summary = "memory and host bandwidth of each GPU reach what its model and link can",
    .stage = "gpu",
    .judge = judge,
};
