#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/tty.h"
#include "common/util.h"

static enum log_level threshold = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
    threshold = level;
}

enum log_level log_get_level(void)
{
    return threshold;
}

static void log_write(enum log_level level, const char *label, const char *fmt, va_list args)
{
    if (level > threshold)
        return;
    char line[2048];
    vsnprintf(line, sizeof line, fmt, args);
    AUTO(free_str) char *shown = tty_text(line);
    fprintf(stderr, "%s: %s%s\n", program_invocation_short_name, label, shown);
}

#define LOG_FUNCTION(name, level, label)                                                           \
    void name(const char *fmt, ...)                                                                \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, fmt);                                                                       \
        log_write(level, label, fmt, args);                                                        \
        va_end(args);                                                                              \
    }
LOG_FUNCTION(log_error, LOG_LEVEL_ERROR, "error: ")
LOG_FUNCTION(log_warn, LOG_LEVEL_WARN, "warning: ")
LOG_FUNCTION(log_info, LOG_LEVEL_INFO, "")
LOG_FUNCTION(log_debug, LOG_LEVEL_DEBUG, "debug: ")
