#ifndef OTEL_INT_H
#define OTEL_INT_H

#include "base/map.h"
#include "base/text.h"
#include "net/fetch.h"
#include "net/url.h"
#include "otel/otel.h"

/* What the files of this room share: setup.c reads, span.c makes, export.c sends. */

#define OTEL_SCOPE "toolcrib"           /* the instrumentation scope of all spans */

struct arena;
struct ev_timer;
struct span;

struct otel_headers {
	struct str text;                /* they point into it; secret */
	struct fetch_header header[OTEL_HEADERS_MAX + 1]; size_t n;     /* the content's type among them */
};

struct otel_setup {
	char *url;                      /* where spans are sent */
	struct url at;
	struct arena *mem;
	struct fetch_allow allow;
	struct fetch_policy policy;
	struct str resource;            /* attributes, as otlp_put_request() wants them */
	struct otel_headers headers;
};

struct otel {
	struct otel_env env;
	struct otel_setup *setup;
	/* span.c */
	struct span *unused;            /* kept for the next */
	unsigned nunused;
	struct map *shares;             /* tenant -> struct share */
	struct str scratch;             /* a span as it is sent */
	/* export.c */
	struct list batches;            /* struct batch; the first leaves first */
	unsigned waiting;               /* spans in them */
	size_t waiting_bytes;
	struct sending *sending;        /* the request under way, of the first batch; NULL: none */
	struct ev_timer *timer;         /* armed: the first batch waits for more */
	struct ev_timer *retry;         /* armed: the first batch waits for another try */
	unsigned failures;              /* in a row */
	char why[256];                  /* the last one's reason; "" = the last request went well */
	bool closing, idle;
};

/* span.c */
void otel_spans_free(struct otel *o);
/* export.c */
void otel_queue_open(struct otel *o);
void otel_queue_close(struct otel *o);
void otel_send(struct otel *o, const struct str *span);         /* as it is sent; copied, or dropped and counted */

#endif
