/* Progress and diagnostics on stderr.  stdout carries only a command's result.  Only programs log;
 * libraries return errors.  The level is the one mutable global of the tree. */
#ifndef MUSTER_COMMON_LOG_H
#define MUSTER_COMMON_LOG_H

enum log_level { LOG_LEVEL_ERROR = 1, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level); /* default LOG_LEVEL_INFO */
enum log_level log_get_level(void);

/* One line each, prefixed with the program's name ("muster: warning: ..."). */
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
