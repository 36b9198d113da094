#include "agents/gpu/gpu_klog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"

enum { RECORD_BYTES = 16384, MAX_NUMBER = 100000 };

/* After "PRIORITY,SEQUENCE,TIME,FLAGS;"; the record itself where there is no such prefix. */
static const char *message_of(const char *record)
{
    const char *semicolon = strchr(record, ';');
    const char *comma = strchr(record, ',');
    return semicolon && comma && comma < semicolon && record[0] >= '0' && record[0] <= '9'
               ? semicolon + 1
               : record;
}

/* "PCI:0000:1b:00" with or without ".0" behind it. */
static const char *scan_address(const char *at, struct gpu_klog_line *out)
{
    unsigned *const parts[] = {&out->domain, &out->bus, &out->device};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        char *end = NULL;
        unsigned long value = strtoul(at, &end, 16);
        if (end == at || value > 0xffffffff || (i + 1 < ARRAY_LEN(parts) && *end != ':'))
            return NULL;
        *parts[i] = (unsigned)value;
        at = end + (*end == ':');
    }
    const char *close = strchr(at, ')');
    return close;
}

bool gpu_klog_parse(const char *record, struct gpu_klog_line *out)
{
    static const struct {
        const char *mark;
        bool is_switch;
    } marks[] = {{"SXid (PCI:", true}, {"NVRM: Xid (PCI:", false}};
    const char *message = message_of(record);
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        const char *at = strstr(message, marks[i].mark);
        if (!at)
            continue;
        struct gpu_klog_line line = {.is_switch = marks[i].is_switch};
        const char *close = scan_address(at + strlen(marks[i].mark), &line);
        if (!close || close[1] != ':')
            return false;
        char *end = NULL;
        long number = strtol(close + 2, &end, 10);
        if (end == close + 2 || number < 0 || number > MAX_NUMBER)
            return false;
        line.number = (int)number;
        snprintf(line.text, sizeof line.text, "%.*s", (int)strcspn(message, "\n"), message);
        *out = line;
        return true;
    }
    return false;
}

static void keep(struct gpu_klog *log, const struct gpu_klog_line *line)
{
    if (log->count >= GPU_KLOG_MAX_LINES)
        memmove(log->lines, log->lines + 1, sizeof log->lines - sizeof *log->lines);
    size_t at = log->count < GPU_KLOG_MAX_LINES ? log->count : GPU_KLOG_MAX_LINES - 1;
    log->lines[at] = *line;
    log->count++;
}

/* A read gives one record from /dev/kmsg and many lines from a captured file. */
static void take(struct gpu_klog *log, char *text, bool *first)
{
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *comma = strchr(line, ',');
        if (*first && comma)
            log->complete = strtoul(comma + 1, NULL, 10) == 0;
        *first = false;
        struct gpu_klog_line found;
        if (gpu_klog_parse(line, &found))
            keep(log, &found);
    }
}

int gpu_klog_read(const struct fs_root *root, struct gpu_klog *out, struct err *err)
{
    char path[4096], text[RECORD_BYTES];
    if (fs_join(root, "/dev/kmsg", path, err) != 0)
        return -1;
    AUTO(close_fd) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(err, ERR_ENV, errno, "the kernel's log %s", path);
    *out = (struct gpu_klog){0};
    bool first = true;
    for (;;) {
        ssize_t got = read(fd, text, sizeof text - 1);
        if (got < 0 && (errno == EINTR || errno == EPIPE))
            continue; /* EPIPE: overwritten before it was read; the next read goes on */
        if (got < 0 && errno == EAGAIN)
            return 0;
        if (got < 0)
            return err_set_errno(err, ERR_ENV, errno, "reading the kernel's log %s", path);
        if (got == 0)
            return 0;
        text[got] = '\0';
        take(out, text, &first);
    }
}
