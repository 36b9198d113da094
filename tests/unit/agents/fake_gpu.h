/* Tests with the stand-ins of tests/fake_gpu: the process starts itself again with them in
 * LD_LIBRARY_PATH, and each test writes the file that describes the GPUs. */
#ifndef MUSTER_TESTS_AGENTS_FAKE_GPU_H
#define MUSTER_TESTS_AGENTS_FAKE_GPU_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"

/* Call first in main.  directory: "fake_gpu" or "fake_gpu_old". */
static inline void fake_gpu_enter(char **argv, const char *directory)
{
    if (getenv("MUSTER_FAKE_GPU"))
        return;
    char *libraries = str_printf("%s/%s", FAKE_DIR, directory);
    char *file = str_printf("/tmp/muster-fake-gpu-%d", (int)getpid());
    setenv("LD_LIBRARY_PATH", libraries, 1);
    setenv("MUSTER_FAKE_GPU", file, 1);
    execv("/proc/self/exe", argv);
    perror("exec");
    _exit(1);
}

static inline void fake_gpu_leave(void)
{
    unlink(getenv("MUSTER_FAKE_GPU"));
}

static inline void fake_gpu_describe(const char *text)
{
    FILE *out = fopen(getenv("MUSTER_FAKE_GPU"), "w");
    if (!out || fputs(text, out) < 0 || fclose(out) != 0)
        abort();
}

#endif
