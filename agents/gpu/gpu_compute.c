#include "agents/gpu/gpu_compute.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/jsonx.h"
#include "common/util.h"

enum {
    STEPS = 20000,
    BLOCKS_PER_SM = 8,
    MAX_ROUNDS = 32, /* launches until every multiprocessor has had a block */
    MAX_NAMED = 32   /* multiprocessors named in the proof */
};

struct compute {
    uint64_t expected[PTX_COMPUTE_THREADS];
    uint64_t results[PTX_MAX_SMS][PTX_COMPUTE_THREADS];
    uint32_t runs[PTX_MAX_SMS];
    uint64_t results_device, runs_device;
    unsigned rounds, covered, bad_count;
    unsigned bad[MAX_NAMED]; /* the first of them, by number */
    uint64_t wrong_words;
};

static int launch(struct gpu_dev *dev, struct compute *c, struct err *err)
{
    uint32_t steps = STEPS;
    void *args[] = {&steps, &c->results_device, &c->runs_device};
    return gpu_dev_launch(dev, PTX_COMPUTE, (unsigned)dev->sm_count * BLOCKS_PER_SM,
                          PTX_COMPUTE_THREADS, 0, args, err);
}

static int fetch(struct gpu_dev *dev, struct compute *c, struct err *err)
{
    const struct cuda *api = &dev->cuda;
    int result = api->copy_to_host(c->results, c->results_device, sizeof c->results, dev->stream);
    if (result == CUDA_SUCCESS)
        result = api->copy_to_host(c->runs, c->runs_device, sizeof c->runs, dev->stream);
    return gpu_dev_check(dev, result, "cuMemcpyDtoHAsync", err) || gpu_dev_wait(dev, err) ? -1 : 0;
}

static int clear(struct gpu_dev *dev, struct compute *c, struct err *err)
{
    const struct cuda *api = &dev->cuda;
    int result = api->set_words(c->results_device, 0, sizeof c->results / 4, dev->stream);
    if (result == CUDA_SUCCESS)
        result = api->set_words(c->runs_device, 0, sizeof c->runs / 4, dev->stream);
    return gpu_dev_check(dev, result, "cuMemsetD32Async", err);
}

/* Adds up over rounds: a multiprocessor that was wrong once stays in the list. */
static void compare(struct compute *c)
{
    c->covered = 0;
    for (unsigned sm = 0; sm < PTX_MAX_SMS; sm++) {
        uint64_t wrong = 0;
        if (c->runs[sm] == 0)
            continue;
        c->covered++;
        for (unsigned t = 0; t < PTX_COMPUTE_THREADS; t++)
            wrong += c->results[sm][t] != c->expected[t];
        if (wrong && c->bad_count < MAX_NAMED)
            c->bad[c->bad_count] = sm;
        c->bad_count += wrong > 0;
        c->wrong_words += wrong;
    }
}

static int run_rounds(struct gpu_dev *dev, struct compute *c, struct err *err)
{
    if (clear(dev, c, err) != 0)
        return -1;
    while (c->rounds < MAX_ROUNDS && c->covered < (unsigned)dev->sm_count && c->bad_count == 0) {
        if (launch(dev, c, err) != 0 || fetch(dev, c, err) != 0)
            return -1;
        c->rounds++;
        compare(c);
    }
    return 0;
}

static json_t *proof_of(const struct compute *c)
{
    json_t *proof = json_object(), *bad = json_array();
    char hex[HASH_HEX_BYTES];
    struct hash digest = hash_of(c->expected, sizeof c->expected);
    hash_hex(&digest, hex);
    for (unsigned i = 0; i < c->bad_count && i < MAX_NAMED; i++)
        jsonx_append(bad, json_integer(c->bad[i]));
    jsonx_set_str(proof, "path", "sm");
    jsonx_set_str(proof, "digest", hex);
    jsonx_set_int(proof, "covered", c->covered);
    jsonx_set_int(proof, "mismatches", (int64_t)c->wrong_words);
    jsonx_set(proof, "bad_sms", bad);
    return proof;
}

static void emit(struct gpu_job *job, const struct gpu_dev *dev, const struct compute *c)
{
    double covered = c->covered;
    bool wrong = c->bad_count > 0;
    json_t *conditions = json_object();
    jsonx_set_int(conditions, "sms", dev->sm_count);
    jsonx_set_int(conditions, "steps", STEPS);
    jsonx_set_int(conditions, "threads", PTX_COMPUTE_THREADS);
    jsonx_set_int(conditions, "rounds", c->rounds);
    jsonx_set_int(conditions, "capability", dev->capability);
    AUTO(free_str) char *reason = NULL;
    if (wrong)
        reason = str_printf("%u of %d multiprocessors computed a wrong result, the first is %u",
                            c->bad_count, dev->sm_count, c->bad[0]);
    gpu_job_emit(job, (struct evidence){.quantity = "compute",
                                        .unit = "1",
                                        .samples = &covered,
                                        .sample_count = !wrong,
                                        .conditions = conditions,
                                        .proof = proof_of(c),
                                        .outcome = wrong ? EVIDENCE_FAILED : EVIDENCE_MEASURED,
                                        .cause = wrong ? "compute-wrong" : NULL,
                                        .reason = reason});
}

int gpu_compute_measure(struct gpu_job *job, struct gpu_dev *dev, struct err *err)
{
    gpu_job_step(job, "bit-exact computation on every multiprocessor");
    struct compute *c = mem_zero(1, sizeof *c);
    for (uint32_t t = 0; t < PTX_COMPUTE_THREADS; t++)
        c->expected[t] = ptx_compute(t, STEPS);
    int rc = gpu_dev_alloc(dev, &c->results_device, sizeof c->results, err);
    if (rc == 0)
        rc = gpu_dev_alloc(dev, &c->runs_device, sizeof c->runs, err);
    if (rc == 0)
        rc = run_rounds(dev, c, err);
    if (rc == 0)
        emit(job, dev, c);
    gpu_dev_free(dev, &c->results_device);
    gpu_dev_free(dev, &c->runs_device);
    free(c);
    return rc;
}
