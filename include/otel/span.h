#ifndef OTEL_SPAN_H
#define OTEL_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What took how long, and in which trace: a span (OpenTelemetry), from span_begin() or span_child() to span_end().  A
 * NULL span is none, which all functions take: without a collector nothing is made.
 *
 * A span has an id of its own whether it will be sent or not, since it is the parent of what goes on (OP-404).  It is
 * sent when it is sampled (OP-405); and when it went wrong or took longer than SPAN_SLOW_US, for as many of a tenant in
 * a second as otel.parent_limit allows.  No argument, result, key or secret is put into one (OP-003).  Loop thread. */

#define SPAN_SLOW_US 1000000
#define SPAN_NAME_MAX 128               /* bytes; what is longer is cut */
#define SPAN_ATTRIBUTES_MAX 32          /* more are counted and left out; so are events */
#define SPAN_EVENTS_MAX 8
#define SPAN_BYTES_MAX 8192             /* of its attributes */
#define SPAN_SHARES_MAX 10000           /* tenants whose spans of this second are counted */

struct otel;
struct span;
struct trace;

enum span_kind { SPAN_INTERNAL = 1, SPAN_SERVER = 2, SPAN_CLIENT = 3 };

struct span_from {
	const struct trace *parent;     /* the caller's; NULL: a trace begins here */
	const struct trace *link;       /* the context of what carried the request, when that is another; or NULL */
	int64_t tenant_id;              /* whose share of what may be followed it takes */
};
/* Of a request: SPAN_SERVER.  o NULL: none. */
struct span *span_begin(struct otel *o, const struct span_from *from);
/* Of a part of it, in the same trace; parent NULL: none. */
struct span *span_child(const struct span *parent, enum span_kind kind);
/* What goes on to others, and what records say: of the span's life.  NULL: none. */
const struct trace *span_trace(const struct span *s);
void span_event(struct span *s, const char *name);              /* now; name is static */
/* Its time is over, for now: the last such call counts.  True: it will be sent, so say what it is, with the functions
 * below; what is said of one that will not is lost. */
bool span_stop(struct span *s, bool failed);
void span_name(struct span *s, const char *what, const char *target);           /* "what target"; the first one stays */
/* Attributes: keys are static, values cut as otlp_text() does. */
void span_text(struct span *s, const char *key, const char *value);
void span_text_n(struct span *s, const char *key, const char *value, size_t len);
void span_int(struct span *s, const char *key, int64_t value);
void span_error(struct span *s, const char *type);              /* its status, and error.type; the first one stays */
/* Send it, or drop it; taken. */
void span_end(struct span **s);

#endif
