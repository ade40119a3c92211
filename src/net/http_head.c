/* Request heads.  The scanner finds the end, line by line, with the limits; the parser takes the whole. */
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
