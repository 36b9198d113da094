/* What a command and all its descendants cost.
 *
 *   usage [-m] COMMAND...
 *
 * Prints "WALL_S CPU_S MEMORY_KB STATUS" on file descriptor 3; the command's own output goes
 * to /dev/null.  CPU is user + system of every descendant that was waited for.  Memory is 0 without
 * -m; with it the processes are looked at every 10 ms and it is the largest sum of their
 * proportional set sizes (shared pages count once).  Looking costs CPU, so measure time without -m.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PIDS = 65536, SAMPLE_US = 10000 };

struct table {
    int pid[MAX_PIDS], parent[MAX_PIDS], count;
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int parent_of(int pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    int parent = 0;
    char *end = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    if (end)
        sscanf(end + 1, " %*c %d", &parent);
    fclose(f);
    return parent;
}

static void read_table(struct table *t)
{
    DIR *d = opendir("/proc");
    t->count = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        int pid = atoi(e->d_name);
        if (pid <= 0 || t->count == MAX_PIDS)
            continue;
        t->pid[t->count] = pid;
        t->parent[t->count++] = parent_of(pid);
    }
    if (d)
        closedir(d);
}

static int is_descendant(const struct table *t, int pid, int root)
{
    for (int hops = 0; pid > 1 && hops < 64; hops++) {
        if (pid == root)
            return 1;
        int parent = 0;
        for (int i = 0; i < t->count; i++)
            if (t->pid[i] == pid)
                parent = t->parent[i];
        pid = parent;
    }
    return 0;
}

static long pss_kb(int pid)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *f = fopen(path, "r");
    long kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Pss: %ld", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return kb;
}

static long memory_kb(struct table *t, int root)
{
    long sum = 0;
    read_table(t);
    for (int i = 0; i < t->count; i++)
        if (is_descendant(t, t->pid[i], root))
            sum += pss_kb(t->pid[i]);
    return sum;
}

int main(int argc, char **argv)
{
    int sample = argc > 1 && strcmp(argv[1], "-m") == 0, status = 0;
    if (argc < 2 + sample)
        return 2;
    static struct table table;
    double start = seconds();
    int pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execvp(argv[1 + sample], argv + 1 + sample);
        _exit(127);
    }
    long peak = 0;
    while (sample && waitpid(pid, &status, WNOHANG) == 0) {
        long now = memory_kb(&table, pid);
        if (now > peak)
            peak = now;
        usleep(SAMPLE_US);
    }
    if (!sample)
        waitpid(pid, &status, 0);
    struct rusage u;
    double wall = seconds() - start;
    getrusage(RUSAGE_CHILDREN, &u);
    dprintf(3, "%.3f %.3f %ld %d\n", wall,
            (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6,
            peak, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}
