/* Request bodies: framing only; who calls keeps the data. */
#include "config.h"

#include "net/http_body.h"

static int refuse(struct http_body *b, int status, const char *reason)
{
	b->why = reason;
	return -status;
}

int http_body_init(struct http_body *b, const struct http_head *h, uint64_t max)
{
	*b = (struct http_body){ .max = max, .chunked = h->framing == HTTP_BODY_CHUNKED };
	b->left = h->framing == HTTP_BODY_LENGTH ? h->length : 0;
	b->state = b->chunked ? HTTP_BODY_SIZE : b->left > 0 ? HTTP_BODY_DATA : HTTP_BODY_DONE;
	return b->left > max ? refuse(b, 413, "the body is too large") : 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
		return (c | 0x20) - 'a' + 10;
	return -1;
}

static bool is_name(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' || c == '_';
}

static bool is_text(char c)
{
	return c == '\t' || ((unsigned char)c >= 0x20 && c != 0x7f);
}

static int size_byte(struct http_body *b, char c)
{
	int digit = hex_digit(c);
	if (digit >= 0) {
		if (++b->digits > HTTP_CHUNK_DIGITS_MAX)
			return refuse(b, 400, "the size of a chunk is too long");
		b->left = b->left << 4 | (unsigned)digit;
		return 0;
	}
	if (b->digits == 0 || (c != '\r' && c != ';'))
		return refuse(b, 400, "the size of a chunk is malformed");
	/* Before any of its data is read (SEC S-112). */
	if (b->left > b->max - b->total)
		return refuse(b, 413, "the body is too large");
	b->extra = 0;
	b->state = c == ';' ? HTTP_BODY_EXT : HTTP_BODY_SIZE_LF;
	return 0;
}

static int ext_byte(struct http_body *b, char c)
{
	if (c == '\r') {
		b->state = HTTP_BODY_SIZE_LF;
		return 0;
	}
	if (!is_text(c))
		return refuse(b, 400, "a chunk extension holds a control character");
	if (++b->extra > HTTP_CHUNK_EXT_MAX)
		return refuse(b, 400, "a chunk extension is too long");
	return 0;
}

static int trailer_byte(struct http_body *b, char c)
{
	if (++b->extra > HTTP_TRAILERS_MAX)
		return refuse(b, 431, "the trailers are too long");
	if (b->state == HTTP_BODY_TRAILER && c == '\r') {
		b->state = HTTP_BODY_LAST_LF;
	} else if (b->state == HTTP_BODY_TRAILER_VALUE) {
		if (c == '\r')
			b->state = HTTP_BODY_TRAILER_LF;
		else if (!is_text(c))
			return refuse(b, 400, "a trailer holds a control character");
	} else if (b->state == HTTP_BODY_TRAILER_NAME && c == ':') {
		b->state = HTTP_BODY_TRAILER_VALUE;
	} else if (is_name(c)) {
		b->state = HTTP_BODY_TRAILER_NAME;
	} else {
		return refuse(b, 400, "a trailer is malformed");
	}
	return 0;
}

/* What must follow here, and what comes then. */
static int fixed_byte(struct http_body *b, char c)
{
	if (c != (b->state == HTTP_BODY_DATA_CR ? '\r' : '\n'))
		return refuse(b, 400, "a chunk does not end in CR LF");
	switch (b->state) {
	case HTTP_BODY_SIZE_LF:
		b->state = b->left > 0 ? HTTP_BODY_DATA : HTTP_BODY_TRAILER;
		b->extra = 0;
		return 0;
	case HTTP_BODY_DATA_CR:
		b->state = HTTP_BODY_DATA_LF;
		return 0;
	case HTTP_BODY_DATA_LF:
		b->state = HTTP_BODY_SIZE;
		b->digits = 0;
		return 0;
	case HTTP_BODY_TRAILER_LF:
		b->state = HTTP_BODY_TRAILER;
		b->extra++;
		return 0;
	case HTTP_BODY_LAST_LF:
		b->state = HTTP_BODY_DONE;
		return 0;
	case HTTP_BODY_DATA: case HTTP_BODY_SIZE: case HTTP_BODY_EXT: case HTTP_BODY_TRAILER:
	case HTTP_BODY_TRAILER_NAME: case HTTP_BODY_TRAILER_VALUE: case HTTP_BODY_DONE:
		break;
	}
	return refuse(b, 400, "a chunk is malformed");
}

static int framing_byte(struct http_body *b, char c)
{
	switch (b->state) {
	case HTTP_BODY_SIZE:
		return size_byte(b, c);
	case HTTP_BODY_EXT:
		return ext_byte(b, c);
	case HTTP_BODY_TRAILER: case HTTP_BODY_TRAILER_NAME: case HTTP_BODY_TRAILER_VALUE:
		return trailer_byte(b, c);
	case HTTP_BODY_SIZE_LF: case HTTP_BODY_DATA_CR: case HTTP_BODY_DATA_LF: case HTTP_BODY_TRAILER_LF:
	case HTTP_BODY_LAST_LF: case HTTP_BODY_DATA: case HTTP_BODY_DONE:
		break;
	}
	return fixed_byte(b, c);
}

int http_body_take(struct http_body *b, const char *p, size_t len, size_t *ret_used, size_t *ret_data,
		   size_t *ret_ndata)
{
	size_t at = 0;
	*ret_used = *ret_data = *ret_ndata = 0;
	while (at < len && b->state != HTTP_BODY_DATA && b->state != HTTP_BODY_DONE) {
		int rc = framing_byte(b, p[at]);
		if (rc)
			return rc;
		at++;
	}
	if (b->state == HTTP_BODY_DATA && at < len) {
		size_t n = b->left < len - at ? (size_t)b->left : len - at;
		*ret_data = at;
		*ret_ndata = n;
		at += n;
		b->left -= n;
		b->total += n;
		if (b->left == 0)
			b->state = b->chunked ? HTTP_BODY_DATA_CR : HTTP_BODY_DONE;
	}
	*ret_used = at;
	return b->state == HTTP_BODY_DONE;
}
