#ifndef TESTS_LINK_RIG_H
#define TESTS_LINK_RIG_H

/* A link over a wire that the test speaks for, on a clock that it steps, and calls that note what becomes of them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fake_wire.h"

#define SECOND UINT64_C(1000000)
#define TOOL "{\"name\":\"echo\",\"inputSchema\":{\"type\":\"object\"}}"
#define INITIALIZED "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}}}}"

struct call { unsigned ends, lines; bool asked; char handle[LINK_HANDLE_SIZE]; char text[320]; struct link_call *call; };

static struct fake f;

static inline void on_progress(void *arg, double done, double total, const char *note)
{
}

static inline void on_log(void *arg, int level, const char *logger, json_t *data)
{
	((struct call *)arg)->lines++;
	json_decref(data);
}

static inline int on_question(void *arg, const char *handle, const char *method, json_t *params)
{
	struct call *c = arg;

	json_decref(params);
	c->asked = true;
	c->call = NULL;
	memcpy(c->handle, handle, LINK_HANDLE_SIZE);
	return 0;
}

static inline void end(struct call *c, const char *text, size_t len)
{
	assert_int_equal(++c->ends, 1);
	c->call = NULL;
	(void)snprintf(c->text, sizeof(c->text), "%.*s", (int)len, text);
}

static inline void on_result(void *arg, struct jx_span result)
{
	end(arg, result.p, result.len);
}

static inline void on_error(void *arg, int code, const char *message, json_t *data)
{
	json_decref(data);
	end(arg, message, strlen(message));
}

static inline void on_failed(void *arg, const struct err *err)
{
	end(arg, err->msg, strlen(err->msg));
}

static const struct link_call_sink sink = { on_progress, on_log, on_question, on_result, on_error, on_failed };

static inline int try_call_of(struct call *c, const char *who, const uint8_t *digest, struct err *err)
{
	struct str params = STR_INIT;
	const struct link_call_req req = { .who = who, .recorded = true, .method = "tools/call", .name = "echo", .key = "echo", .params = &params, .digest = digest,
		.log_level = 8 };

	*c = (struct call){ .ends = 0 };
	str_puts(&params, "\"name\":\"echo\",\"arguments\":{}");
	int rc = link_call_start(f.link, &req, &sink, c, &c->call, err);
	str_fini(&params);
	return rc;
}

static inline int try_call(struct call *c, const uint8_t *digest, struct err *err)
{
	return try_call_of(c, "1/ann", digest, err);
}

static inline void call_as(struct call *c, const char *who)
{
	struct err err;

	if (try_call_of(c, who, NULL, &err) < 0)
		fail_msg("%s", err.msg);
	fake_turn(&f);
}

static inline void call(struct call *c)
{
	call_as(c, "1/ann");
}

static inline void say(const char *text)
{
	fake_say(&f, text, strlen(text));
}

PRINTF_LIKE(1, 2) static inline void say_id(const char *format, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	say(text);
}

static inline bool sent(const char *what)
{
	return strstr(str_text(&f.sent), what) != NULL;
}

static inline void step(uint64_t us)
{
	clock_step(us);
	fake_turn(&f);
}

static inline void begin(bool asks, enum link_era era)
{
	clock_fake(1000 * SECOND, 1000 * SECOND);
	fake_begin(&f, asks, era);
}

/* Ready, with the ids 1 and 2 used up. */
static inline void begin_ready(bool asks)
{
	begin(asks, LINK_ERA_LEGACY);
	say(INITIALIZED);
	say("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[" TOOL "]}}");
	assert_int_equal(link_status(f.link).era, LINK_ERA_LEGACY);
}

static inline void finish(void)
{
	fake_end(&f);
	clock_real();
}

#endif
