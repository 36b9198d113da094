/* Result tables of perftest (ib_write_bw and its kin) and of nccl-tests. */
#include "validate/diagnose/diag.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

struct perftest {
    bool table, latency;
    double scale; /* Gb/s per unit of the column */
    double best;
    char size[24], device[48], figure[24];
    struct diag_where at;
};

/* Line rates, in Gb/s, that a figure may be close to. */
static const double rates[] = {10, 25, 40, 50, 100, 200, 400, 800};

static void *create(void)
{
    return mem_zero(1, sizeof(struct perftest));
}

static void release(void *state)
{
    struct perftest *s = state;
    diag_where_release(&s->at);
    free(s);
}

static size_t numbers(const char *text, double *out, size_t max)
{
    size_t n = 0;
    for (const char *p = text + strspn(text, " \t"); *p && n < max;) {
        char *end = NULL;
        double value = strtod(p, &end);
        if (end == p || (*end && !isspace((unsigned char)*end)))
            return 0;
        out[n++] = value;
        p = end + strspn(end, " \t");
    }
    return n;
}

static void take_header(struct perftest *s, const char *text)
{
    s->table = true;
    s->latency = strstr(text, "t_avg") || strstr(text, "t_typical");
    s->scale = strstr(text, "Gb/sec") ? 1.0 : strstr(text, "MB/sec") ? 8.0 * 1.048576 / 1000 : 0.0;
}

static void take_row(struct perftest *s, struct diag *d, const struct diag_line *line)
{
    double v[12];
    size_t n = numbers(line->text, v, ARRAY_LEN(v));
    if (n < 4)
        return;
    char size[24], figure[24];
    snprintf(size, sizeof size, "%.0f", v[0]);
    if (s->latency) {
        snprintf(figure, sizeof figure, "%g", n > 5 ? v[5] : v[2]);
        diag_find(d, DIAG_perftest_latency, line, "size", size, "us", figure, NULL);
        return;
    }
    double gbps = v[3] * s->scale;
    if (s->scale <= 0 || gbps <= s->best)
        return;
    s->best = gbps;
    snprintf(s->size, sizeof s->size, "%s", size);
    snprintf(s->figure, sizeof s->figure, "%.2f", gbps);
    diag_where_release(&s->at);
    s->at = diag_where_copy(line);
}

static void feed(void *state, struct diag *d, const struct diag_line *line)
{
    struct perftest *s = state;
    const char *p = line->text + strspn(line->text, " \t");
    struct match_result r;
    if (strncmp(p, "#bytes", 6) == 0 && strstr(p, "#iterations")) {
        take_header(s, p);
    } else if (s->table && isdigit((unsigned char)*p)) {
        take_row(s, d, line);
    } else if (strncmp(p, "---", 3) == 0 || line->command) {
        /* A rule ends the table behind its rows; notices may stand between heading and rows. */
        s->table = false;
    }
    if (strncmp(p, "Dual-port", 9) == 0 && match_text("Device~:~{dev}", p, &r))
        match_get(&r, "dev", s->device, sizeof s->device);
    if (strstr(p, "# Out of bounds values"))
        diag_find(d, strstr(p, " OK") ? DIAG_nccltest_correct : DIAG_nccltest_wrong, line, NULL);
    if (match_text("# Avg bus bandwidth~:~{bw#}", p, &r)) {
        char bw[24];
        match_get(&r, "bw", bw, sizeof bw);
        diag_find(d, diag_number(bw, 0) > 0 ? DIAG_nccltest_busbw : DIAG_nccltest_zero, line,
                  "busbw", bw, NULL);
    }
}

static double rate_of_port(const struct diag *d)
{
    const struct diag_finding *f = &d->found[DIAG_port_active];
    return f->kept ? diag_number(diag_value(&f->hits[0], "rate"), 0) : 0;
}

static void finish(void *state, struct diag *d)
{
    struct perftest *s = state;
    if (s->best <= 0)
        return;
    double rate = rate_of_port(d);
    char text[24];
    enum diag_id id = DIAG_perftest_figure;
    if (rate > 0)
        id = s->best < 0.8 * rate ? DIAG_perftest_low : DIAG_perftest_ok;
    for (size_t i = 0; i < ARRAY_LEN(rates) && rate <= 0; i++)
        if (s->best >= 0.9 * rates[i] && s->best <= rates[i] * 1.001) {
            id = DIAG_perftest_ok;
            rate = rates[i];
        }
    snprintf(text, sizeof text, "%g", rate);
    diag_find_where(d, id, &s->at, "gbps", s->figure, "size", s->size, "rate",
                    rate > 0 ? text : NULL, "device", s->device, NULL);
}

const struct diag_parser diag_perftest_parser = {create, feed, finish, release};
