#ifndef NET_HTTP_SERVER_H
#define NET_HTTP_SERVER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- the head of a request */

/* The head of an HTTP/1.1 request, a pure function of bytes: refuse, never repair (RFC 9112, SEC S-110, S-111). */

#define HTTP_LINE_MAX 8192              /* request line; one header (SEC S-113) */
#define HTTP_HEADERS_MAX 64
#define HTTP_HEAD_MAX 32768
#define HTTP_BODY_MAX (10u << 20)

struct http_text { const char *p; size_t len; };
struct http_header { struct http_text name, value; };   /* name as sent; value without the white space around it */
enum http_framing { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };
struct http_head {
	struct http_text method, target, path, query;   /* path begins with '/' (or is "*"); query without '?' */
	struct http_header header[HTTP_HEADERS_MAX];
	size_t nheaders;
	enum http_framing framing;
	uint64_t length;                /* with HTTP_BODY_LENGTH */
	bool old;                       /* HTTP/1.0 */
	bool close;                     /* Connection: close, or HTTP/1.0 without keep-alive */
	bool expect_continue;
	const char *why;                /* it was refused; static, no byte of the peer's */
};
/* > 0: bytes of the head with its blank line.  0: not whole yet.  < 0: minus the status that refuses it (400, 405,
 * 414, 417, 431, 501, 505); the connection closes behind it.  Texts point into p.  What is refused, and how, does
 * not depend on how the bytes arrive. */
long http_head_parse(const char *p, size_t len, struct http_head *ret);
/* The search for the end of a head that arrives in pieces, each byte looked at once.  Zero it for each request. */
struct http_scan {
	size_t line;                    /* where the line begins that is looked at */
	size_t seen;                    /* bytes looked at */
	unsigned lines;                 /* complete ones */
};
/* p[0..len) begins with the request's first byte.  Returns as http_head_parse(), and *ret_why. */
long http_head_scan(struct http_scan *s, const char *p, size_t len, const char **ret_why);
/* The value of a header by lower-case name; *ret_count = how often it came (NULL: not wanted).  p NULL when absent. */
struct http_text http_head_get(const struct http_head *h, const char *name, unsigned *ret_count);
bool http_text_is(struct http_text t, const char *z);           /* equal bytes */
bool http_text_is_nocase(struct http_text t, const char *z);    /* equal without case */

/* --- the body of a request */

/* The body of a request, by length or in chunks: a pure function of bytes, as strict as the head (SEC S-112).
 * Chunk extensions and trailers are read, bounded and dropped. */
#define HTTP_CHUNK_DIGITS_MAX 8         /* hex digits of a chunk's size */
#define HTTP_CHUNK_EXT_MAX 64           /* bytes behind it, up to CR LF */
#define HTTP_TRAILERS_MAX 8192          /* bytes of all trailers */

enum http_body_state {
	HTTP_BODY_DATA, HTTP_BODY_SIZE, HTTP_BODY_EXT, HTTP_BODY_SIZE_LF, HTTP_BODY_DATA_CR, HTTP_BODY_DATA_LF,
	HTTP_BODY_TRAILER, HTTP_BODY_TRAILER_NAME, HTTP_BODY_TRAILER_VALUE, HTTP_BODY_TRAILER_LF, HTTP_BODY_LAST_LF,
	HTTP_BODY_DONE,
};
struct http_body {
	enum http_body_state state;
	bool chunked;
	uint64_t left;                  /* of the length, or of this chunk */
	uint64_t total, max;            /* bytes of data so far; the limit */
	unsigned digits, extra;         /* of the size; of extension or trailers */
	const char *why;                /* it was refused; static */
};
/* 0, or -413 when the length alone is over max. */
int http_body_init(struct http_body *b, const struct http_head *h, uint64_t max);
/* Take *ret_used bytes from p[0..len), of which p[*ret_data .. + *ret_ndata) are data.  1: the body is complete;
 * 0: call again with what is left, or with more bytes when nothing is; < 0: minus the status that refuses it
 * (400, 413, 431). */
int http_body_take(struct http_body *b, const char *p, size_t len, size_t *ret_used, size_t *ret_data,
		   size_t *ret_ndata);

/* --- the server */

/* One HTTP/1.1 server connection: heads, bodies, order, keep-alive, pipelining, timers, the watch for a peer that
 * leaves while work runs.  Refuses bad framing by itself (status, Connection: close).  Loop thread.
 *
 * A request is answered by exactly one of http_reply() or http_stream_begin() … http_stream_end(); it is freed by
 * that, or by gone()'s return.  Answers leave in the order of the requests; at most HTTP_PIPELINE_MAX requests wait
 * for their answers, then reading pauses (SEC S-114). */

/* of a client's X-Request-Id; anything but letters, digits, . _ - is not taken */
#define HTTP_REQUEST_ID_MAX 64
#define HTTP_PIPELINE_MAX 16
#define HTTP_HEAD_MS 5000               /* whole-request timers, not per byte (SEC S-116) */
#define HTTP_BODY_MS 15000
#define HTTP_IDLE_MS 60000
/* A body that finds no room is told so (503) after this, or up to twice as long (HARDENING F-5). */
#define HTTP_LATE_MS 4000

struct ev_loop;
struct gate_pass;
struct http_conn;
struct http_request;
struct tls;
/* 0 = as the constants, and STREAM_STALL_MS. */
struct http_timers { uint32_t head_ms, body_ms, idle_ms, stall_ms, late_ms; };

struct http_ops {
	/* The head is whole (h is valid during the call).  0: go on, the body is read up to *body_max (HTTP_BODY_MAX at
	 * first), 100 Continue is sent where it is expected; *ret_user is kept with the request.  1: the callee has
	 * answered by http_reply() already; the connection closes behind it when a body was announced.  2: as 0, but
	 * nothing more of this connection is read, not even its end, until http_go_on() or http_reply(): who must be
	 * asked first answers within a deadline of the callee's. */
	int (*head)(void *arg, struct http_request *r, const struct http_head *h, size_t *body_max, void **ret_user);
	/* The body is whole; body is valid during the call.  An answer follows now or later. */
	void (*request)(void *arg, struct http_request *r, void *user, const char *body, size_t len);
	/* head() returned 0, and the peer left or the connection broke before the answer was complete (also before
	 * request()): the request is dead when this returns.  Never from inside a call of this module. */
	void (*gone)(void *arg, struct http_request *r, void *user);
	/* The connection is gone, once, last; everything of it has been told. */
	void (*closed)(void *arg, struct http_conn *c);
	/* What the peer sent is no HTTP, and is about to be refused; may be NULL. */
	void (*broken)(void *arg);
};
/* fd is taken.  timers NULL: the constants. */
struct http_conn *http_conn_new(struct ev_loop *loop, int fd, const struct http_timers *timers,
				const struct http_ops *ops,
				void *arg);
/* Right after http_conn_new(): t is taken, see stream_tls(), or NULL.  Bytes of bodies that are not whole count as
 * pass's, which lives until closed(): what is too much is refused with 503 (HARDENING F-5). */
void http_conn_from(struct http_conn *c, struct tls *t, struct gate_pass *pass);
/* Close now: gone() and closed() follow, deferred. */
void http_conn_close(struct http_conn *c);
/* Close after the answers under way, with "Connection: close"; at once when there is none. */
void http_conn_drain(struct http_conn *c);
/* The same, but a peer without an answer due may be sending its next request just now: it has ms for its head, which
 * head() is asked about as ever, and the answer is the last (SEC S-842). */
void http_conn_drain_in(struct http_conn *c, uint32_t ms);

/* A descriptor of the same connection for another process, when nothing of a request has been read, no answer is due
 * and there is no TLS: this end of it closes then, and the peer does not notice.  -1: it is not so. */
int http_conn_hand(struct http_conn *c);
/* All that will be said is written: only the peer's end is waited for. */
bool http_conn_is_over(const struct http_conn *c);

/* No request is read behind those that have been: the last of their answers says "Connection: close". */
void http_no_more(struct http_request *r);

/* Read the body of a request that head() held.  Not from inside a call of this module. */
void http_go_on(struct http_request *r);

/* What the client called it by X-Request-Id, or a name of ours; each answer to a head that could be read carries it. */
const char *http_request_id(const struct http_request *r);
/* headers: ready "Name: value\r\n" lines or NULL, made of constants and escaped tokens (SEC S-109).  Content-Length is
 * ours.  body is copied. */
void http_reply(struct http_request *r, int status, const char *headers, const char *body, size_t len);
/* A streamed answer, chunked; each write leaves in this turn. */
void http_stream_begin(struct http_request *r, int status, const char *headers);
void http_stream_write(struct http_request *r, const char *p, size_t len);
/* The same for the one answer that may be larger than a stream may queue (SEC S-830). */
void http_stream_answer(struct http_request *r, const char *p, size_t len);
void http_stream_end(struct http_request *r);
size_t http_stream_queued(const struct http_request *r);
const char *http_status_text(int status);

#endif
