#ifndef OTEL_OTEL_H
#define OTEL_OTEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Where spans go: in batches, by OTLP/HTTP, to the collector that the configuration names (OP-401 to OP-407).  Traces
 * are lossy by design (OP-002): what cannot be delivered is dropped and counted.  A collector that hangs, lies or is
 * away costs a counter and at most OTEL_WAITING_BYTES of memory, never a call.  Spans: span.h.  Loop thread. */

#define OTEL_WAITING_MAX 4096           /* spans that wait, those under way among them */
#define OTEL_WAITING_BYTES (8u << 20)   /* of all of them */
#define OTEL_BATCH_SPANS 512            /* so many leave at once */
#define OTEL_BATCH_MS 5000              /* so long the first of fewer waits */
#define OTEL_TIMEOUT_MS 10000           /* for an answer */
#define OTEL_RETRY_FIRST_MS 1000        /* doubled each time, and up to half as much again by chance */
#define OTEL_RETRY_MOST_MS 30000
#define OTEL_GIVE_UP_MS 300000          /* behind its first try a batch is dropped */
#define OTEL_STOP_MS 2000               /* for the last batches, when the server stops */
#define OTEL_HEADERS_MAX 16
#define OTEL_HEADERS_FILE_MAX 8192      /* bytes */
#define OTEL_RESOURCE_MAX 32            /* attributes that otel.resource may have */

struct conf;
struct ev_loop;
struct fetcher;
struct otel;
struct str;

/* What the configuration says, read and looked at: endpoint, resource, and the file with headers, whose content is read
 * again with a reload. */
struct otel_setup;
/* conf has otel.endpoint.  ERR_INVALID and those of path_read_as(); the message names the key. */
int otel_setup_load(const struct conf *conf, struct otel_setup **ret, struct err *err) MUST_CHECK;
void otel_setup_free(struct otel_setup **s);

struct otel_env {                       /* copied; what it names is borrowed for life */
	struct ev_loop *loop;
	struct fetcher *fetcher;
	const struct conf *conf;        /* otel_sample and otel_parent_limit are read at each request */
	const char *version;            /* of the server */
};
struct otel *otel_new(const struct otel_env *env, struct otel_setup **setup);   /* taken */
/* Headers from the next request on; *next is taken. */
void otel_renew(struct otel *o, struct otel_setup **next);
/* Sends what waits, for at most OTEL_STOP_MS.  No span is left by then that span_end() is still to come for. */
void otel_free(struct otel **o);
/* For people: where to, and how that goes. */
void otel_describe(const struct otel *o, struct str *ret);

#endif
