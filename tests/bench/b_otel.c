/* What a call's two spans cost the loop, in CPU: begun, five events, ended; not sampled, and sampled with what is said of
 * a call of a tool there.  Nobody takes them: once the queue is full each is still encoded, and dropped.  `make
 * bench-otel` runs it; figures are printed, not judged. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/id.h"
#include "base/metric.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "net/fetch.h"
#include "otel/otel.h"
#include "otel/span.h"
#include "proto/trace.h"

enum { SPANS = 200000 };

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void say(struct span *s)
{
	span_text(s, "gen_ai.tool.name", "get_weather");
	span_text(s, "toolcrib.definition", "449a1f27cb216700");
	span_text(s, "toolcrib.call", "019a0000-0000-7000-8000-000000000000");
	span_text(s, "toolcrib.outcome", "ok");
	span_int(s, "toolcrib.record", 123456);
	span_name(s, "tools/call", "get_weather");
	span_text(s, "mcp.method.name", "tools/call");
	span_text(s, "mcp.protocol.version", "2026-07-28");
	span_text(s, "gen_ai.operation.name", "execute_tool");
	span_text(s, "jsonrpc.request.id", "17");
	span_text(s, "network.transport", "tcp");
	span_text(s, "network.protocol.name", "http");
	span_text(s, "toolcrib.tenant", "acme");
}

static void call(struct otel *o, const struct trace *parent)
{
	static const char *const events[] = { "admitted", "begin.durable", "started", "ended", "end.durable" };
	struct span *s = span_begin(o, &(struct span_from){ .parent = parent, .tenant_id = 1 });
	struct span *child = span_child(s, SPAN_CLIENT);

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		span_event(s, events[i]);
	if (span_stop(child, false)) {
		span_name(child, "tools/call", "get_weather");
		span_text(child, "mcp.method.name", "tools/call");
		span_text(child, "toolcrib.upstream", "weather");
		span_text(child, "toolcrib.tenant", "acme");
	}
	span_end(&child);
	if (span_stop(s, false))
		say(s);
	span_end(&s);
}

int main(void)
{
	static const char parent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
	struct conf conf = { .otel_endpoint = (char *)(uintptr_t)"http://127.0.0.1:9", .otel_sample = 100 };
	struct ev_loop *loop = ev_loop_new();
	struct fetcher *fetcher = fetcher_new(loop);
	struct otel_setup *setup = NULL;
	struct trace t;
	struct err err;
	struct otel *o;

	id_random_pool();
	if (otel_setup_load(&conf, &setup, &err) < 0 || !trace_parse(&t, parent, sizeof(parent) - 1, NULL, 0))
		return 1;
	o = otel_new(&(struct otel_env){ loop, fetcher, &conf, "1" }, &setup);
	for (int sampled = 0; sampled < 2; sampled++) {
		const double before = cpu_us();

		for (int i = 0; i < SPANS; i++)
			call(o, sampled ? NULL : &t);
		printf("{\"spans\":\"%s\",\"cpu_us_of_a_call\":%.3f}\n", sampled ? "sampled" : "not sampled",
		       (cpu_us() - before) / SPANS);
	}
	exit(0);        /* what waits is nobody's */
}
