#ifndef NET_HTTP_INT_H
#define NET_HTTP_INT_H

#include "base/map.h"
#include "base/text.h"
#include "net/http_body.h"
#include "net/http_head.h"
#include "net/http_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the files of HTTP share: http_head.c, http_server.c (input, phases, the end), http_answer.c (output). */

/* The search for the end of a head that arrives in pieces, each byte looked at once.  Zero it for each request. */
struct http_scan {
	size_t line;                    /* where the line begins that is looked at */
	size_t seen;                    /* bytes looked at */
	unsigned lines;                 /* complete ones */
};
/* p[0..len) begins with the request's first byte.  Returns as http_head_parse(), and *ret_why. */
long http_head_scan(struct http_scan *s, const char *p, size_t len, const char **ret_why);

/* What the peer is waited for, and how long. */
enum http_phase {
	HTTP_PHASE_IDLE,                /* for the first byte of a head, and no answer is due */
	HTTP_PHASE_HEAD,                /* for the rest of a head */
	HTTP_PHASE_BODY,                /* for the rest of a body */
	HTTP_PHASE_WORK,                /* for nothing: answers are due */
};

#define HTTP_DATE_SIZE 40
#define HTTP_TAG_LEN 12                 /* of a connection: begins the names of its requests */

struct http_conn {
	struct ev_loop *loop;
	struct stream *stream;
	struct http_timers timers;
	const struct http_ops *ops;
	void *arg;
	struct list requests;           /* in the order of their answers; the first one writes */
	unsigned nrequests;
	struct http_scan scan;
	struct http_request *reading;   /* whose body is being read, or NULL */
	struct http_request *held;      /* whose body waits for http_go_on(), or NULL: nothing is read */
	bool held_expects;              /* its peer waits for 100 Continue */
	struct http_body body;
	struct str body_text;
	enum http_phase phase;
	uint64_t phase_us;              /* since when */
	struct ev_timer *timer;
	uint64_t timer_us;              /* when it fires, if it is armed */
	uint64_t drain_us;              /* no head is waited for beyond; 0 = as long as usual */
	bool last;                      /* no further request is read */
	bool paused;                    /* HTTP_PIPELINE_MAX answers are due */
	bool dying, finishing;
	char date[HTTP_DATE_SIZE];      /* the header line of second date_s */
	uint64_t date_s;
	char tag[HTTP_TAG_LEN + 1];     /* "": not drawn yet */
	unsigned serial;                /* of the request that was named last */
};

struct http_request {
	struct list node;
	struct http_conn *conn;
	void *user;
	bool ours;                      /* nobody is told of its end: a refusal, or head() has not taken it */
	bool is_head;                   /* its answer has no body */
	bool old;                       /* HTTP/1.0 */
	bool close;                     /* the connection ends behind its answer */
	bool body_missing;              /* not all of its body has been read */
	bool chunked;                   /* its answer is */
	bool answered;
	char id[HTTP_REQUEST_ID_MAX + 1];       /* "": its head could not be read */
	struct str waiting;             /* of its answer, while earlier ones are not complete */
};

/* The first request's answer may be complete: go on to the next, close or wait. */
void http_conn_advance(struct http_conn *c);
/* A held request has its answer: the connection reads on. */
void http_conn_release(struct http_conn *c);

#endif
