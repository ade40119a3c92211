/* The head of an answer, line by line as libcurl hands it over: what is no header, too long, or contradicts itself ends
 * the request.  Any thread. */
#include "config.h"

#include <string.h>

#include "base/err.h"
#include "base/metric.h"
#include "base/text.h"
#include "net/fetch.h"

#include "fetch_int.h"

static int head_wrong(struct err *err, const char *why)
{
	return err_set(err, ERR_IO, "", "the answer's head %s", why);
}

/* name NUL value NUL; libcurl has cut the lines. */
static int add_field(struct fetch_head *h, const char *p, size_t len, struct err *err)
{
	const char *colon = memchr(p, ':', len);
	struct str *out = &h->fields;
	size_t name = out->len;

	if (!colon || colon == p || p[0] == ' ' || p[0] == '\t' || memchr(p, '\0', len))
		return head_wrong(err, "has a line that is no header");
	for (; p < colon; p++, len--)
		str_putc(out, *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p);
	p++;
	len--;
	while (len > 0 && (*p == ' ' || *p == '\t')) {
		p++;
		len--;
	}
	while (len > 0 && (p[len - 1] == ' ' || p[len - 1] == '\t'))
		len--;
	str_putc(out, '\0');
	size_t value = out->len;
	str_put(out, p, len);
	str_putc(out, '\0');
	if (strcmp(out->p + name, "content-length") == 0 &&
	    strcmp(fetch_head_get(h, "content-length"), out->p + value) != 0)
		h->lengths_differ = true;
	return 0;
}

static int status_of(const char *p, size_t len)
{
	const char *space = memchr(p, ' ', len);
	uint64_t status;

	if (!space || (size_t)(space - p) + 4 > len || text_u64(space + 1, 3, &status) < 0)
		return 0;
	return (int)status;
}

/* libcurl takes a length that it cannot hold as none, and reads to the end of the connection. */
static int head_whole(struct fetch_head *h, struct err *err)
{
	const char *length = fetch_head_get(h, "content-length");
	int64_t n;

	if (length && (text_i64(length, strlen(length), &n) < 0 || n < 0))
		return head_wrong(err, "has a wrong Content-Length");
	/* RFC 9112 6.3: who reads it otherwise would see another answer behind it. */
	if (length && (h->lengths_differ || fetch_head_get(h, "transfer-encoding")))
		return head_wrong(err, "contradicts itself about the body");
	h->done = true;
	return 1;
}

int fetch_head_line(struct fetch_head *h, const char *p, size_t len, struct err *err)
{
	h->got += len;
	if (h->got > FETCH_HEAD_MAX) {  /* SEC S-707; interim answers and trailers count, too */
		metric_inc(METRIC_fetch_head_too_large);
		return err_set(err, ERR_LIMIT, "", "the answer's head is larger than %d bytes", FETCH_HEAD_MAX);
	}
	if (h->done)
		return 0;       /* a trailer */
	while (len > 0 && (p[len - 1] == '\n' || p[len - 1] == '\r'))
		len--;
	if (len >= 5 && memcmp(p, "HTTP/", 5) == 0 && !memchr(p, ':', len < 9 ? len : 9)) {
		str_reset(&h->fields);
		h->status = status_of(p, len);
		h->lengths_differ = false;
		return 0;
	}
	if (len > 0)
		return add_field(h, p, len, err);
	if (h->status < 200)
		return 0;       /* an interim answer; the next head follows */
	return head_whole(h, err);
}

int fetch_head_status(const struct fetch_head *h)
{
	return h->status;
}

/* From p on, where a name begins. */
static const char *find_from(const struct fetch_head *h, const char *name, const char *p)
{
	const char *end_of = p ? h->fields.p + h->fields.len : NULL;

	while (p < end_of) {
		const char *value = p + strlen(p) + 1;

		if (strcmp(p, name) == 0)
			return value;
		p = value + strlen(value) + 1;
	}
	return NULL;
}

const char *fetch_head_get(const struct fetch_head *h, const char *name)
{
	return find_from(h, name, h->fields.p);
}

const char *fetch_head_next(const struct fetch_head *h, const char *name, const char *value)
{
	return find_from(h, name, value + strlen(value) + 1);
}
