/* Type otlp: each record a LogRecord of OTLP/HTTP, protobuf (opentelemetry-proto v1, logs.v1), with the line of the
 * sink's format as its body.  Loop thread, but for put(). */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/hook.h"
#include "otel/otlp.h"
#include "otel/pb.h"

#include "sink_int.h"

#define TRACE_ID 16
/* logs.v1 */
enum { TIME = 1, SEVERITY = 2, BODY = 5, ATTRIBUTES = 6, TRACE = 9, EVENT_NAME = 12 };
enum { ANY_STRING = 1 };                /* common.v1 */
static const unsigned severities[] = { [SINK_INFO] = 9, [SINK_WARNING] = 13, [SINK_ERROR] = 17 };

/* --- a record (on the reading lane) */

static void put_attributes(struct str *out, const struct report_carried *r)
{
	static const char *const names[] = { "log", "tenant", "call", "tool", "outcome", "rule", "pseudonym", "key" };
	char name[48];

	otlp_text(out, ATTRIBUTES, "toolcrib.id", r->uid);
	otlp_int(out, ATTRIBUTES, "toolcrib.index", r->idx);
	for (size_t i = 0; i < NELEMS(names); i++) {
		size_t len;
		const char *p = sink_member(r, names[i], &len);

		if (!p || memchr(p, '\\', len))         /* what has to be spelt out stands in the body alone */
			continue;
		(void)snprintf(name, sizeof(name), "toolcrib.%s", names[i]);
		otlp_text_n(out, ATTRIBUTES, name, p, len);
	}
}

static int put_record(struct sink *s, struct str *body, const struct report_carried *r, const char *line, size_t len,
		      struct err *err)
{
	const size_t all = pb_open(body, OTLP_ITEM);
	const char *kind = audit_kind_name(r->kind), *trace;
	uint8_t id[TRACE_ID];
	size_t value, n;

	(void)s;
	(void)err;
	pb_fixed64(body, TIME, (uint64_t)r->ts_us * 1000);
	pb_uint(body, SEVERITY, severities[sink_severity(r)]);
	value = pb_open(body, BODY);
	pb_bytes(body, ANY_STRING, line, len);
	pb_close(body, value);
	put_attributes(body, r);
	trace = sink_member(r, "trace", &n);
	if (trace && n >= 2 * TRACE_ID && text_unhex(trace, 2 * TRACE_ID, id, sizeof(id)) == 0)
		pb_bytes(body, TRACE, id, sizeof(id));
	if (kind)
		pb_text(body, EVENT_NAME, kind);
	pb_close(body, all);
	return 0;
}

/* --- requests and answers */

static void make_request(const char *p, size_t len, struct str *ret)
{
	const struct str items = { .p = (char *)(uintptr_t)p, .len = len };
	struct str resource = STR_INIT;
	struct utsname host;

	otlp_text(&resource, OTLP_RESOURCE_ATTRIBUTE, "service.name", PACKAGE_NAME);
	otlp_text(&resource, OTLP_RESOURCE_ATTRIBUTE, "service.version", PACKAGE_VERSION);
	otlp_text(&resource, OTLP_RESOURCE_ATTRIBUTE, "host.name", sink_host(&host));
	otlp_put_request(ret, &(struct otlp_frame){ &resource, "toolcrib.audit", PACKAGE_VERSION, &items });
	str_fini(&resource);
}

/* "MUST NOT retry" what was taken in part, and it is not said which (OTLP 1.x, "Partial Success"). */
static void look(struct sink *s, const struct hook_answer *a)
{
	const struct sink_batch *b = &s->batch;
	uint64_t refused = 0;
	char why[160];

	if (otlp_read_answer(a->body, a->len, &refused, why, sizeof(why)) < 0) {
		s->all->on->failed(s, "its answer is none of OTLP", 0);
		return;
	}
	if (refused > b->part)
		refused = b->part;
	if (refused > 0)
		s->all->on->refused(s, refused, -1, why);
	sink_http_settled(s->own);
}

static const struct sink_post post = { .body = make_request, .content = OTLP_CONTENT_TYPE, .path = "/v1/logs",
				       .look = look };

/* --- life */

static int check_otlp(const struct conf_sink *conf, struct err *err)
{
	return sink_http_check(conf, &post, err);
}

static int open_otlp(struct sink *s, struct err *err)
{
	struct sink_http *h = NULL;
	int rc = sink_http_open(s, &post, NULL, NULL, &h, err);

	s->own = h;
	return rc;
}

static void send_otlp(struct sink *s, const struct sink_batch *b)
{
	(void)b;
	sink_http_send(s->own);
}

static void close_otlp(struct sink *s)
{
	struct sink_http *h = s->own;

	sink_http_close(&h);
}

const struct sink_type sink_otlp = { check_otlp, open_otlp, send_otlp, close_otlp, put_record, NULL, NULL };
