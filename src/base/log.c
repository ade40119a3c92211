/*
 * One event, one line, one write(2).
 * Text:  2026-07-28T10:00:00.000000Z info call finished tool=echo ms=3 tenant=acme call=0198…
 * JSON:  {"time":"…","level":"info","event":"call finished tool=echo ms=3","tenant":"acme","call":"0198…"}
 */

#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"

enum {
	EVENT_MAX = 1024,       /* bytes of the formatted event */
	VALUE_MAX = 192,        /* bytes of one member of the context */
	LINE_SIZE = 4096,       /* PIPE_BUF: lines of several processes do not mix in a pipe */
	ALLOWED_PER_S = 10,
};

static const char *const level_names[] = {
	[LOG_LEVEL_ERR] = "err", [LOG_LEVEL_WARN] = "warn", [LOG_LEVEL_INFO] = "info", [LOG_LEVEL_DEBUG] = "debug",
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* for writes and struct log_site */
static int out_fd = STDERR_FILENO;
static enum log_format out_format = LOG_FORMAT_AUTO;
static _Atomic enum log_level max_level = LOG_LEVEL_INFO;

/* Nothing but escapes, and still no member is cut in the middle; 256 for names and the rest. */
_Static_assert(2 * EVENT_MAX + 4 * 2 * VALUE_MAX + 256 <= LINE_SIZE, "the longest line fits");

struct line {
	char text[LINE_SIZE];
	size_t len;
};

static struct line *held;               /* what waits; NULL = nothing is held */
static size_t nheld;

void log_open(int fd, enum log_format format, enum log_level level)
{
	free(held);
	held = NULL;
	nheld = 0;
	out_fd = fd;
	if (format == LOG_FORMAT_AUTO)
		format = isatty(fd) ? LOG_FORMAT_TEXT : LOG_FORMAT_JSON;
	out_format = format;
	atomic_store(&max_level, level);
}

void log_set_level(enum log_level level)
{
	atomic_store(&max_level, level);
}

bool log_level_from_name(const char *name, enum log_level *ret)
{
	for (size_t i = 0; i < NELEMS(level_names); i++)
		if (strcmp(level_names[i], name) == 0) {
			*ret = (enum log_level)i;
			return true;
		}
	return false;
}

bool log_enabled(enum log_level level)
{
	return level <= atomic_load_explicit(&max_level, memory_order_relaxed);
}

/* Three bytes stay free for the end of the line. */
static void put(struct line *l, const char *text, size_t n)
{
	size_t room = sizeof(l->text) - 3 - l->len;

	if (n > room)
		n = room;
	memcpy(l->text + l->len, text, n);
	l->len += n;
}

static void puts_line(struct line *l, const char *text)
{
	put(l, text, strlen(text));
}

/* The printable form of a text; in JSON also as a string.  Control bytes are gone by then, so quotes and
 * backslashes are all there is to escape. */
static void put_value(struct line *l, bool json, const char *text, size_t max)
{
	char shown[EVENT_MAX];

	text_printable(text, strlen(text), shown, max < sizeof(shown) ? max : sizeof(shown));
	if (!json) {
		puts_line(l, shown);
		return;
	}
	puts_line(l, "\"");
	for (const char *p = shown; *p; p++) {
		if (*p == '"' || *p == '\\')
			puts_line(l, "\\");
		put(l, p, 1);
	}
	puts_line(l, "\"");
}

static void put_ctx(struct line *l, bool json, const struct log_ctx *ctx)
{
	const struct { const char *name, *value; } members[] = {
		{ "tenant", ctx->tenant }, { "principal", ctx->principal },
		{ "call", ctx->call }, { "peer", ctx->peer },
	};

	for (size_t i = 0; i < NELEMS(members); i++) {
		if (!members[i].value)
			continue;
		puts_line(l, json ? ",\"" : " ");
		puts_line(l, members[i].name);
		puts_line(l, json ? "\":" : "=");
		put_value(l, json, members[i].value, VALUE_MAX);
	}
}

static void write_line(const struct line *l)
{
	ssize_t n;

	do
		n = write(out_fd, l->text, l->len);
	while (n < 0 && errno == EINTR);
	/* Nobody is left to tell when this fails. */
}

/* --- what waits */

#define SAID_MIN 8                      /* bytes of a text that is looked for in reasons: fewer are in many */

void log_hold(void)
{
	held = mem_calloc(LOG_HELD_MAX, sizeof(*held));
}

/* The reason that a line gives, and what comes behind it; NULL = it gives none. */
static const char *reason_of(const char *line)
{
	static const char *const begins[] = { " why=\"", " reason=" };

	for (size_t i = 0; i < NELEMS(begins); i++) {
		const char *at = strstr(line, begins[i]);

		if (at)
			return at + strlen(begins[i]);
	}
	return NULL;
}

/* Does the text have the reason in it, or the reason, with where and what of it, the text? */
static bool is_said(const char *line, const char *text)
{
	const char *reason = reason_of(line);
	size_t n = reason ? strcspn(reason, "\"\n") : 0;

	return n > 0 && (memmem(text, strlen(text), reason, n) ||
			 (strlen(text) >= SAID_MIN && memmem(reason, n, text, strlen(text))));
}

static void drop_held(size_t i)
{
	nheld--;
	memmove(held + i, held + i + 1, (nheld - i) * sizeof(*held));
}

void log_said(const char *text)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < nheld;) {
		if (is_said(held[i].text, text))
			drop_held(i);
		else
			i++;
	}
	pthread_mutex_unlock(&lock);
}

void log_release(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < nheld; i++)
		write_line(&held[i]);
	nheld = 0;
	pthread_mutex_unlock(&lock);
}

/* With the lock. */
static void write_or_hold(struct line *l)
{
	l->text[l->len] = '\0';
	if (!held || !reason_of(l->text)) {
		write_line(l);
		return;
	}
	if (nheld == LOG_HELD_MAX) {
		write_line(&held[0]);
		drop_held(0);
	}
	held[nheld++] = *l;
}

/* --- events */

void log_event(enum log_level level, const struct log_ctx *ctx, const char *fmt, ...)
{
	int saved_errno = errno;
	char event[EVENT_MAX], now[32];
	struct line l = { .len = 0 };
	va_list ap;
	bool json;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	if (vsnprintf(event, sizeof(event), fmt, ap) < 0)
		event[0] = '\0';
	va_end(ap);
	if (out_format == LOG_FORMAT_AUTO)
		json = !isatty(out_fd);
	else
		json = out_format == LOG_FORMAT_JSON;
	clock_format_utc(clock_wall_us(), now, sizeof(now));
	if (json) {
		puts_line(&l, "{\"time\":\"");
		puts_line(&l, now);
		puts_line(&l, "\",\"level\":\"");
		puts_line(&l, level_names[level]);
		puts_line(&l, "\",\"event\":");
	} else {
		puts_line(&l, now);
		puts_line(&l, " ");
		puts_line(&l, level_names[level]);
		puts_line(&l, " ");
	}
	put_value(&l, json, event, EVENT_MAX);
	if (ctx)
		put_ctx(&l, json, ctx);
	if (json)
		l.text[l.len++] = '}';
	l.text[l.len++] = '\n';
	pthread_mutex_lock(&lock);
	write_or_hold(&l);
	pthread_mutex_unlock(&lock);
	errno = saved_errno;
}

bool log_allow(struct log_site *site)
{
	const uint64_t window_us = 1000000;
	uint64_t now_us = clock_mono_us();
	unsigned suppressed = 0;
	bool allowed;

	pthread_mutex_lock(&lock);
	if (site->count == 0 || now_us - site->window_us >= window_us) {
		suppressed = site->suppressed;
		*site = (struct log_site){ .window_us = now_us };
	}
	allowed = site->count < ALLOWED_PER_S;
	if (allowed)
		site->count++;
	else
		site->suppressed++;
	metric_add(METRIC_log_lines_left_out, !allowed);
	pthread_mutex_unlock(&lock);
	if (suppressed)
		log_warn(NULL, "events like the next one were left out count=%u", suppressed);
	return allowed;
}
