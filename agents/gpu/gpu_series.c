#include "agents/gpu/gpu_series.h"

#include "common/jsonx.h"
#include "common/util.h"

static int take_samples(struct gpu_dev *dev, const struct gpu_series *s, double samples[],
                        struct gpu_dev_diff *all, struct err *err)
{
    for (unsigned i = 0; i < s->samples && all->wrong_words == 0; i++) {
        struct gpu_dev_diff diff = {0};
        double seconds = 0;
        int (*time)(struct gpu_dev *, gpu_dev_work *, void *, unsigned, unsigned, double *,
                    struct err *) = s->by_wall ? gpu_dev_time_wall : gpu_dev_time;
        if (s->prepare(dev, s->ctx, i + 1, err) != 0 ||
            time(dev, s->work, s->ctx, s->warm_up, s->pieces, &seconds, err) != 0 ||
            s->inspect(dev, s->ctx, i + 1, &diff, err) != 0)
            return -1;
        samples[i] = s->bytes * s->pieces / seconds;
        all->compared_bytes += diff.compared_bytes;
        all->wrong_words = diff.wrong_words;
        all->first_bad_byte = diff.first_bad_byte;
    }
    return 0;
}

static void emit(struct gpu_job *job, const struct gpu_series *s, const double samples[],
                 const struct gpu_dev_diff *all)
{
    json_t *conditions = s->conditions ? s->conditions : json_object();
    json_t *proof = s->proof ? s->proof : json_object();
    jsonx_set_str(conditions, "method", s->method);
    jsonx_set_int(conditions, "bytes", (int64_t)s->buffer_bytes);
    jsonx_set_int(conditions, "pieces", s->pieces);
    jsonx_set_int(conditions, "warm_up", s->warm_up);
    jsonx_set_str(conditions, "clock", s->by_wall ? "host" : "CUDA events");
    jsonx_set_str(proof, "path", s->path);
    jsonx_set_int(proof, "compared", (int64_t)all->compared_bytes);
    jsonx_set_int(proof, "mismatches", (int64_t)all->wrong_words);
    bool wrong = all->wrong_words > 0;
    AUTO(free_str) char *reason = NULL;
    if (wrong) {
        jsonx_set_int(proof, "first_bad", (int64_t)all->first_bad_byte);
        reason = str_printf("%llu words differ from what was written, the first at byte %llu of "
                            "the buffer",
                            (unsigned long long)all->wrong_words,
                            (unsigned long long)all->first_bad_byte);
    }
    gpu_job_emit(job, (struct evidence){.subject = s->subject,
                                        .quantity = s->quantity,
                                        .unit = "B/s",
                                        .samples = samples,
                                        .sample_count = wrong ? 0 : s->samples,
                                        .conditions = conditions,
                                        .proof = proof,
                                        .outcome = wrong ? EVIDENCE_FAILED : EVIDENCE_MEASURED,
                                        .cause = wrong ? "data-corrupt" : NULL,
                                        .reason = reason});
}

int gpu_series_run(struct gpu_job *job, struct gpu_dev *dev, struct gpu_series *s, struct err *err)
{
    double samples[GPU_SERIES_MAX_SAMPLES];
    struct gpu_dev_diff all = {0};
    gpu_job_step(job, s->quantity);
    int rc = take_samples(dev, s, samples, &all, err);
    if (rc == 0) {
        emit(job, s, samples, &all);
    } else {
        json_decref(s->conditions);
        json_decref(s->proof);
    }
    s->conditions = s->proof = NULL;
    return rc;
}
