#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* One event per line on stderr: a fixed English phrase, then key=value.  Text on a terminal, JSON
 * otherwise.  Values are escaped: no control byte of a client reaches the terminal.  Any thread.
 * Never tool arguments, keys or secrets (SEC S-B10). */
enum log_level { LOG_LEVEL_ERR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_AUTO, LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* Who an event is about; NULL members are left out.  May be NULL as a whole. */
struct log_ctx {
	const char *tenant, *principal, *call, *peer;
};

void log_open(int fd, enum log_format format, enum log_level level);   /* before any thread; fd borrowed */
void log_set_level(enum log_level level);                              /* any time, any thread */
/* For a program that says itself, on the same terminal, what went wrong.  From log_hold() on, a line with a reason
 * (why=, reason=) waits; log_said() drops what waits and says the same, log_release() writes the rest.  At most
 * LOG_HELD_MAX wait, then the oldest is written. */
#define LOG_HELD_MAX 8
void log_hold(void);                                                    /* behind log_open(), before any thread */
void log_said(const char *text);
void log_release(void);
bool log_level_from_name(const char *name, enum log_level *ret);
void log_event(enum log_level level, const struct log_ctx *ctx, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
bool log_enabled(enum log_level level);
/* True when an event of this kind may be logged now: at most 10 a second for each call site; the
 * number suppressed is logged with the next one.  `site` is a static counter of the caller. */
struct log_site { unsigned long long window_us; unsigned count, suppressed; };
bool log_allow(struct log_site *site);

#define log_err(ctx, ...) log_event(LOG_LEVEL_ERR, ctx, __VA_ARGS__)
#define log_warn(ctx, ...) log_event(LOG_LEVEL_WARN, ctx, __VA_ARGS__)
#define log_info(ctx, ...) log_event(LOG_LEVEL_INFO, ctx, __VA_ARGS__)
#define log_debug(ctx, ...) \
	do { \
		if (log_enabled(LOG_LEVEL_DEBUG)) \
			log_event(LOG_LEVEL_DEBUG, ctx, __VA_ARGS__); \
	} while (0)

#endif
