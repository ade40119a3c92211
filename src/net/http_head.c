/* Requests as they are read.  Heads: the scanner finds the end, line by line, with the limits; the parser takes the
 * whole.  Bodies: by length or in chunks. */
#include "config.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "net/http_server.h"

/* Classes of bytes, RFC 9110 5.6.2 (token), RFC 3986 (target), RFC 9110 5.5 (field value), RFC 3986 3.2.2 (host). */
enum { TOKEN = 1, TARGET = 2, VALUE = 4, HOST = 8, DIGIT = 16, HEX = 32 };
static const uint8_t class_of[256] = {
	[0x80 ... 0xff] = VALUE,
	['\t'] = VALUE, [' '] = VALUE,
	['0' ... '9'] = TOKEN | TARGET | VALUE | HOST | DIGIT | HEX,
	['A' ... 'F'] = TOKEN | TARGET | VALUE | HOST | HEX,
	['G' ... 'Z'] = TOKEN | TARGET | VALUE | HOST,
	['a' ... 'f'] = TOKEN | TARGET | VALUE | HOST | HEX,
	['g' ... 'z'] = TOKEN | TARGET | VALUE | HOST,
	['-'] = TOKEN | TARGET | VALUE | HOST, ['.'] = TOKEN | TARGET | VALUE | HOST,
	['_'] = TOKEN | TARGET | VALUE | HOST, ['~'] = TOKEN | TARGET | VALUE | HOST,
	['!'] = TOKEN | TARGET | VALUE, ['$'] = TOKEN | TARGET | VALUE, ['&'] = TOKEN | TARGET | VALUE,
	['\''] = TOKEN | TARGET | VALUE, ['*'] = TOKEN | TARGET | VALUE, ['+'] = TOKEN | TARGET | VALUE,
	['%'] = TOKEN | TARGET | VALUE,
	['#'] = TOKEN | VALUE, ['^'] = TOKEN | VALUE, ['`'] = TOKEN | VALUE, ['|'] = TOKEN | VALUE,
	['/'] = TARGET | VALUE, ['?'] = TARGET | VALUE, ['('] = TARGET | VALUE, [')'] = TARGET | VALUE,
	[','] = TARGET | VALUE, [';'] = TARGET | VALUE, ['='] = TARGET | VALUE, ['@'] = TARGET | VALUE,
	[':'] = TARGET | VALUE | HOST, ['['] = VALUE | HOST, [']'] = VALUE | HOST,
	['"'] = VALUE, ['<'] = VALUE, ['>'] = VALUE, ['\\'] = VALUE, ['{'] = VALUE, ['}'] = VALUE,
};

static bool all_of(const char *p, size_t len, uint8_t class)
{
	for (size_t i = 0; i < len; i++) {
		if (!(class_of[(unsigned char)p[i]] & class))
			return false;
	}
	return true;
}

static int refuse(const char **why, int status, const char *reason)
{
	*why = reason;
	return -status;
}

/* --- the end of the head */

long http_head_scan(struct http_scan *s, const char *p, size_t len, const char **ret_why)
{
	/* Not even the first byte of a method: TLS, a binary protocol, an empty line.  Nothing to wait for. */
	if (len > 0 && !(class_of[(unsigned char)p[0]] & TOKEN))
		return refuse(ret_why, 400, "not an HTTP request");
	for (;;) {
		const char *lf = len > s->seen ? memchr(p + s->seen, '\n', len - s->seen) : NULL;
		size_t end = lf ? (size_t)(lf - p) : len;       /* of the line, with its CR */
		size_t n = end - s->line;
		if (n > HTTP_LINE_MAX + 1)
			return s->lines == 0 ? refuse(ret_why, 414, "the request line is too long") :
					       refuse(ret_why, 431, "a header is too long");
		if (end + (lf != NULL) > HTTP_HEAD_MAX)
			return refuse(ret_why, 431, "the head is too long");
		s->seen = end;
		if (!lf)
			return 0;
		if (n == 0 || p[end - 1] != '\r')
			return refuse(ret_why, 400, "a line of the head does not end in CR LF");
		if (n == 1)
			return (long)end + 1;
		if (s->lines > HTTP_HEADERS_MAX)
			return refuse(ret_why, 431, "too many headers");
		s->lines++;
		s->seen = s->line = end + 1;
	}
}

/* --- texts */

bool http_text_is(struct http_text t, const char *z)
{
	return t.p && text_eq(t.p, t.len, z);
}

bool http_text_is_nocase(struct http_text t, const char *z)
{
	return t.p && strlen(z) == t.len && strncasecmp(t.p, z, t.len) == 0;
}

struct http_text http_head_get(const struct http_head *h, const char *name, unsigned *ret_count)
{
	struct http_text first = { NULL, 0 };
	size_t n = strlen(name);
	unsigned count = 0;
	for (size_t i = 0; i < h->nheaders; i++) {
		const struct http_header *hd = &h->header[i];
		if (hd->name.len != n || strncasecmp(hd->name.p, name, n) != 0)
			continue;
		if (count++ == 0)
			first = hd->value;
	}
	if (ret_count)
		*ret_count = count;
	return first;
}

/* --- the request line */

static const char *const methods[] = { "POST", "GET", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH" };

static int parse_method(struct http_head *h)
{
	if (h->method.len == 0 || !all_of(h->method.p, h->method.len, TOKEN))
		return refuse(&h->why, 400, "the method is not a token");
	for (size_t i = 0; i < NELEMS(methods); i++) {
		if (http_text_is(h->method, methods[i]))
			return 0;
	}
	if (http_text_is(h->method, "CONNECT") || http_text_is(h->method, "TRACE"))     /* SEC S-117 */
		return refuse(&h->why, 405, "this method is not allowed");
	return refuse(&h->why, 501, "this method is not known");
}

static int parse_version(struct http_head *h, const char *p, size_t len)
{
	if (len != 8 || memcmp(p, "HTTP/", 5) != 0 || p[6] != '.' || !(class_of[(unsigned char)p[5]] & DIGIT) ||
	    !(class_of[(unsigned char)p[7]] & DIGIT))
		return refuse(&h->why, 400, "the version is malformed");
	if (p[5] != '1' || p[7] > '1')
		return refuse(&h->why, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
	h->old = p[7] == '0';
	return 0;
}

static bool percents_are_complete(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i] == '%' && (len - i < 3 || !(class_of[(unsigned char)p[i + 1]] & HEX) ||
				    !(class_of[(unsigned char)p[i + 2]] & HEX)))
			return false;
	}
	return true;
}

/* http://authority/path: the authority has to be Host (SEC S-111). */
static int split_absolute(struct http_head *h, struct http_text *ret_authority)
{
	const char *p = h->target.p, *end = p + h->target.len;
	size_t scheme = h->target.len > 7 && strncasecmp(p, "http://", 7) == 0 ? 7 :
			h->target.len > 8 && strncasecmp(p, "https://", 8) == 0 ? 8 : 0;
	if (scheme == 0)
		return refuse(&h->why, 400, "the request target is malformed");
	const char *path = p + scheme;
	while (path < end && *path != '/' && *path != '?')
		path++;
	if (path == end || *path == '?')
		return refuse(&h->why, 400, "the request target has no path");
	*ret_authority = (struct http_text){ p + scheme, (size_t)(path - p) - scheme };
	h->path = (struct http_text){ path, (size_t)(end - path) };
	return 0;
}

static int parse_target(struct http_head *h, struct http_text *ret_authority)
{
	struct http_text t = h->target;
	bool asterisk = http_text_is(t, "*") && http_text_is(h->method, "OPTIONS");
	bool absolute = !asterisk && t.len > 0 && t.p[0] != '/';
	h->path = t;
	if (t.len == 0 || !all_of(t.p, t.len, absolute ? TARGET | HOST : TARGET) || !percents_are_complete(t.p, t.len))
		return refuse(&h->why, 400, "the request target is malformed");
	int rc = absolute ? split_absolute(h, ret_authority) : 0;
	if (rc)
		return rc;
	if (!all_of(h->path.p, h->path.len, TARGET))
		return refuse(&h->why, 400, "the request target is malformed");
	const char *mark = memchr(h->path.p, '?', h->path.len);
	if (mark) {
		h->query = (struct http_text){ mark + 1, (size_t)(h->path.p + h->path.len - mark) - 1 };
		h->path.len = (size_t)(mark - h->path.p);
	}
	return 0;
}

static int parse_request_line(struct http_head *h, const char *p, size_t len, struct http_text *ret_authority)
{
	const char *sp1 = memchr(p, ' ', len), *sp2 = memrchr(p, ' ', len);
	if (!sp1 || sp1 == sp2)
		return refuse(&h->why, 400, "the request line is not METHOD TARGET VERSION");
	h->method = (struct http_text){ p, (size_t)(sp1 - p) };
	h->target = (struct http_text){ sp1 + 1, (size_t)(sp2 - sp1) - 1 };
	int rc = parse_version(h, sp2 + 1, (size_t)(p + len - sp2) - 1);
	rc = rc ? rc : parse_method(h);
	return rc ? rc : parse_target(h, ret_authority);
}

/* --- the headers */

static int parse_header(struct http_head *h, const char *p, size_t len)
{
	const char *colon = memchr(p, ':', len), *end = p + len;
	if (p[0] == ' ' || p[0] == '\t')
		return refuse(&h->why, 400, "a header is folded over two lines");
	if (!colon || colon == p)
		return refuse(&h->why, 400, "a header has no name");
	if (!all_of(p, (size_t)(colon - p), TOKEN))
		return refuse(&h->why, 400, "the name of a header is not a token");
	const char *value = colon + 1;
	if (!all_of(value, (size_t)(end - value), VALUE))
		return refuse(&h->why, 400, "a header holds a control character");
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	h->header[h->nheaders++] = (struct http_header){
		.name = { p, (size_t)(colon - p) }, .value = { value, (size_t)(end - value) },
	};
	return 0;
}

/* --- what the headers say about the message */

static int check_framing(struct http_head *h)
{
	unsigned nlength, nencoding;
	struct http_text length = http_head_get(h, "content-length", &nlength);
	struct http_text encoding = http_head_get(h, "transfer-encoding", &nencoding);
	if (nlength && nencoding)       /* SEC S-110 */
		return refuse(&h->why, 400, "both Content-Length and Transfer-Encoding");
	if (nlength > 1)
		return refuse(&h->why, 400, "more than one Content-Length");
	if (nencoding && (nencoding > 1 || !http_text_is_nocase(encoding, "chunked")))
		return refuse(&h->why, 400, "Transfer-Encoding is not the one word chunked");
	if (nencoding && h->old)
		return refuse(&h->why, 400, "Transfer-Encoding in HTTP/1.0");
	h->framing = nencoding ? HTTP_BODY_CHUNKED : nlength ? HTTP_BODY_LENGTH : HTTP_BODY_NONE;
	if (nlength && ((length.len > 1 && length.p[0] == '0') || text_u64(length.p, length.len, &h->length) ||
			h->length > INT64_MAX))
		return refuse(&h->why, 400, "Content-Length is not a number");
	return 0;
}

static int check_host(struct http_head *h, struct http_text authority)
{
	unsigned count;
	struct http_text host = http_head_get(h, "host", &count);
	if (count != 1)
		return refuse(&h->why, 400, count ? "more than one Host" : "no Host");
	if (host.len == 0 || !all_of(host.p, host.len, HOST))
		return refuse(&h->why, 400, "Host is malformed");
	if (authority.p && (authority.len != host.len || strncasecmp(authority.p, host.p, host.len) != 0))
		return refuse(&h->why, 400, "the request target's authority is not Host");
	return 0;
}

/* Is word one of the comma-separated words of any Connection header? */
static bool connection_lists(const struct http_head *h, const char *word)
{
	for (size_t i = 0; i < h->nheaders; i++) {
		struct http_text v = h->header[i].value;
		if (!http_text_is_nocase(h->header[i].name, "connection"))
			continue;
		for (size_t at = 0, end; at < v.len; at = end + 1) {
			while (at < v.len && strchr(", \t", v.p[at]))
				at++;
			for (end = at; end < v.len && !strchr(", \t", v.p[end]);)
				end++;
			if (http_text_is_nocase((struct http_text){ v.p + at, end - at }, word))
				return true;
		}
	}
	return false;
}

/* An Upgrade is declined by answering in HTTP/1.1, as RFC 9110 7.8 has it: the JDK's client offers h2c with
 * each first request (SEC S-117). */
static int check_connection(struct http_head *h)
{
	unsigned count;
	struct http_text expect = http_head_get(h, "expect", &count);
	h->close = connection_lists(h, "close") || (h->old && !connection_lists(h, "keep-alive"));
	if (count == 0)
		return 0;
	if (count > 1 || !http_text_is_nocase(expect, "100-continue"))
		return refuse(&h->why, 417, "only 100-continue can be expected");
	h->expect_continue = !h->old;
	return 0;
}

long http_head_parse(const char *p, size_t len, struct http_head *ret)
{
	struct http_head *h = ret;
	/* Not the array of headers: nheaders says how many of them mean something. */
	memset(h, 0, offsetof(struct http_head, header));
	memset(&h->nheaders, 0, sizeof(*h) - offsetof(struct http_head, nheaders));
	struct http_scan scan = { 0 };
	long size = http_head_scan(&scan, p, len, &h->why);
	if (size <= 0)
		return size;

	struct http_text authority = { NULL, 0 };
	int rc = 0;
	for (const char *line = p, *lf; line < p + size - 2 && rc == 0; line = lf + 1) {
		lf = memchr(line, '\n', (size_t)(p + size - line));     /* the scan has seen it, behind a CR */
		size_t n = (size_t)(lf - 1 - line);
		rc = line == p ? parse_request_line(h, line, n, &authority) : parse_header(h, line, n);
	}
	rc = rc ? rc : check_host(h, authority);
	rc = rc ? rc : check_framing(h);
	rc = rc ? rc : check_connection(h);
	return rc ? rc : size;
}

/* --- Request bodies: framing only; who calls keeps the data. */

static int refuse_body(struct http_body *b, int status, const char *reason)
{
	b->why = reason;
	return -status;
}

int http_body_init(struct http_body *b, const struct http_head *h, uint64_t max)
{
	*b = (struct http_body){ .max = max, .chunked = h->framing == HTTP_BODY_CHUNKED };
	b->left = h->framing == HTTP_BODY_LENGTH ? h->length : 0;
	b->state = b->chunked ? HTTP_BODY_SIZE : b->left > 0 ? HTTP_BODY_DATA : HTTP_BODY_DONE;
	return b->left > max ? refuse_body(b, 413, "the body is too large") : 0;
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
			return refuse_body(b, 400, "the size of a chunk is too long");
		b->left = b->left << 4 | (unsigned)digit;
		return 0;
	}
	if (b->digits == 0 || (c != '\r' && c != ';'))
		return refuse_body(b, 400, "the size of a chunk is malformed");
	/* Before any of its data is read (SEC S-112). */
	if (b->left > b->max - b->total)
		return refuse_body(b, 413, "the body is too large");
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
		return refuse_body(b, 400, "a chunk extension holds a control character");
	if (++b->extra > HTTP_CHUNK_EXT_MAX)
		return refuse_body(b, 400, "a chunk extension is too long");
	return 0;
}

static int trailer_byte(struct http_body *b, char c)
{
	if (++b->extra > HTTP_TRAILERS_MAX)
		return refuse_body(b, 431, "the trailers are too long");
	if (b->state == HTTP_BODY_TRAILER && c == '\r') {
		b->state = HTTP_BODY_LAST_LF;
	} else if (b->state == HTTP_BODY_TRAILER_VALUE) {
		if (c == '\r')
			b->state = HTTP_BODY_TRAILER_LF;
		else if (!is_text(c))
			return refuse_body(b, 400, "a trailer holds a control character");
	} else if (b->state == HTTP_BODY_TRAILER_NAME && c == ':') {
		b->state = HTTP_BODY_TRAILER_VALUE;
	} else if (is_name(c)) {
		b->state = HTTP_BODY_TRAILER_NAME;
	} else {
		return refuse_body(b, 400, "a trailer is malformed");
	}
	return 0;
}

/* What must follow here, and what comes then. */
static int fixed_byte(struct http_body *b, char c)
{
	if (c != (b->state == HTTP_BODY_DATA_CR ? '\r' : '\n'))
		return refuse_body(b, 400, "a chunk does not end in CR LF");
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
	return refuse_body(b, 400, "a chunk is malformed");
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
