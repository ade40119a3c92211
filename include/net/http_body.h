#ifndef NET_HTTP_BODY_H
#define NET_HTTP_BODY_H

#include "net/http_head.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
