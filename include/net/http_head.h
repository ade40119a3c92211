#ifndef NET_HTTP_HEAD_H
#define NET_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* The value of a header by lower-case name; *ret_count = how often it came (NULL: not wanted).  p NULL when absent. */
struct http_text http_head_get(const struct http_head *h, const char *name, unsigned *ret_count);
bool http_text_is(struct http_text t, const char *z);           /* equal bytes */
bool http_text_is_nocase(struct http_text t, const char *z);    /* equal without case */

#endif
