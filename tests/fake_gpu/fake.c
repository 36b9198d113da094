#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BROKEN_STATUS = 97, FIRST_BUS = 0x1b };

static _Noreturn void broken(const char *what)
{
    fprintf(stderr, "fake GPU: %s\n", what);
    _exit(BROKEN_STATUS);
}

static void take_fault(struct fake *f, const char *text)
{
    char who[16] = "", name[FAKE_NAME_BYTES] = "";
    double value = 0;
    if (sscanf(text, "%15s %63s %lf", who, name, &value) < 2 || f->fault_count >= FAKE_MAX_FAULTS)
        broken(text);
    struct fake_fault *fault = &f->faults[f->fault_count++];
    fault->gpu = who[0] == '*' ? -1 : atoi(who);
    fault->value = value;
    memcpy(fault->name, name, sizeof name);
}

static void take(struct fake *f, char *line)
{
    char *value = strchr(line, ' ');
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '\0' || line[0] == '#')
        return;
    if (!value)
        broken(line);
    *value++ = '\0';
    if (strcmp(line, "gpus") == 0)
        f->gpus = atoi(value);
    else if (strcmp(line, "sms") == 0)
        f->sms = atoi(value);
    else if (strcmp(line, "cuinit") == 0)
        f->cuinit = atoi(value);
    else if (strcmp(line, "name") == 0)
        snprintf(f->name, sizeof f->name, "%.60s", value);
    else if (strcmp(line, "memory_bytes") == 0)
        f->memory_bytes = strtoull(value, NULL, 10);
    else if (strcmp(line, "memory_rate") == 0)
        f->memory_rate = strtod(value, NULL);
    else if (strcmp(line, "host_rate") == 0)
        f->host_rate = strtod(value, NULL);
    else if (strcmp(line, "fault") == 0)
        take_fault(f, value);
    else
        broken(line);
}

static void load(struct fake *f)
{
    const char *path = getenv("MUSTER_FAKE_GPU");
    FILE *in = path ? fopen(path, "r") : NULL;
    char line[256];
    if (!in)
        broken("$MUSTER_FAKE_GPU names no file");
    *f = (struct fake){.gpus = 1,
                       .sms = 132,
                       .name = "NVIDIA H200",
                       .memory_bytes = (size_t)16 << 20,
                       .memory_rate = 4.6e12,
                       .host_rate = 55e9};
    while (fgets(line, sizeof line, in))
        take(f, line);
    fclose(in);
    if (f->gpus < 0 || f->gpus > FAKE_MAX_GPUS)
        broken("too many GPUs");
}

const struct fake *fake_get(void)
{
    static struct fake fake;
    static bool loaded;
    if (!loaded)
        load(&fake);
    loaded = true;
    return &fake;
}

const struct fake_fault *fake_fault(int gpu, const char *name)
{
    const struct fake *f = fake_get();
    for (size_t i = 0; i < f->fault_count; i++)
        if ((f->faults[i].gpu < 0 || f->faults[i].gpu == gpu) &&
            strcmp(f->faults[i].name, name) == 0)
            return &f->faults[i];
    return NULL;
}

void fake_bdf(int gpu, char out[static 16])
{
    snprintf(out, 16, "0000:%02x:00.0", (unsigned)(FIRST_BUS + gpu) & 0xffu);
}

int fake_find(const char *bdf)
{
    for (int i = 0; i < fake_get()->gpus; i++) {
        char own[16];
        fake_bdf(i, own);
        if (strcmp(own, bdf) == 0)
            return i;
    }
    return -1;
}
