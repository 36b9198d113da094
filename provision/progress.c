#include "provision/progress.h"

#include <stdio.h>
#include <string.h>

#include "common/tty.h"
#include "common/util.h"

enum { REDRAW_MS = 100, BAR_CELLS = 24 };

void progress_init(struct progress *p, bool quiet)
{
    *p = (struct progress){.quiet = quiet, .live = !quiet && tty_is_terminal(stderr)};
}

void progress_begin(struct progress *p, const char *step, size_t total)
{
    snprintf(p->step, sizeof p->step, "%s", step);
    p->total = total;
    p->done = p->failed = 0;
    p->detail[0] = '\0';
    p->began_ms = now_ms();
    p->drawn_ms = 0;
    progress_update(p, 0, 0, NULL);
}

static void draw(const struct progress *p)
{
    char bar[BAR_CELLS + 1];
    size_t filled = p->total ? p->done * BAR_CELLS / p->total : BAR_CELLS;
    for (size_t i = 0; i < BAR_CELLS; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[BAR_CELLS] = '\0';
    fprintf(stderr, "\r\033[K%-18s [%s] %zu/%zu", p->step, bar, p->done, p->total);
    if (p->failed)
        fprintf(stderr, "  %s%zu failed%s", tty_begin(stderr, TTY_RED), p->failed, tty_end(stderr));
    if (p->detail[0])
        fprintf(stderr, "  %s", p->detail);
    fflush(stderr);
}

void progress_update(struct progress *p, size_t done, size_t failed, const char *detail)
{
    p->done = done;
    p->failed = failed;
    if (detail)
        snprintf(p->detail, sizeof p->detail, "%s", detail);
    int64_t now = now_ms();
    if (!p->live || now - p->drawn_ms < REDRAW_MS)
        return;
    p->drawn_ms = now;
    draw(p);
}

void progress_end(struct progress *p, const char *summary)
{
    if (p->quiet)
        return;
    double seconds = (double)(now_ms() - p->began_ms) / 1000;
    if (p->live)
        fputs("\r\033[K", stderr);
    bool bad = p->failed > 0;
    fprintf(stderr, "%-18s %s%zu of %zu nodes%s, %.2f s%s%s\n", p->step,
            bad ? tty_begin(stderr, TTY_RED) : "", p->done, p->total, bad ? tty_end(stderr) : "",
            seconds, summary && summary[0] ? "  " : "", summary ? summary : "");
}
