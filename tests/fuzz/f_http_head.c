/* Fuzz target: request heads.  The first byte says in what pieces the rest arrives.  The verdict is the same for all
 * pieces, what is refused stays refused whatever follows, and all texts lie inside the head and hold what may be
 * there. */

#include "config.h"

#include <string.h>

#include "fuzz.h"
#include "net/http_server.h"

static void check_text(struct http_text t, const char *p, size_t len)
{
	FUZZ_CHECK(!t.p || (t.p >= p && t.p + t.len <= p + len));
	for (size_t i = 0; i < t.len; i++)
		FUZZ_CHECK(t.p[i] == '\t' || ((unsigned char)t.p[i] >= 0x20 && t.p[i] != 0x7f));
}

static void check_head(const struct http_head *h, const char *p, size_t len)
{
	unsigned nlength, nencoding, nhost;

	check_text(h->method, p, len);
	check_text(h->target, p, len);
	check_text(h->path, p, len);
	check_text(h->query, p, len);
	FUZZ_CHECK(h->path.len > 0 && (h->path.p[0] == '/' || http_text_is(h->path, "*")));
	FUZZ_CHECK(h->nheaders <= HTTP_HEADERS_MAX && len <= HTTP_HEAD_MAX);
	for (size_t i = 0; i < h->nheaders; i++) {
		check_text(h->header[i].name, p, len);
		check_text(h->header[i].value, p, len);
		FUZZ_CHECK(h->header[i].name.len > 0 && !memchr(h->header[i].name.p, ' ', h->header[i].name.len));
	}
	http_head_get(h, "content-length", &nlength);
	http_head_get(h, "transfer-encoding", &nencoding);
	http_head_get(h, "host", &nhost);
	FUZZ_CHECK(nlength + nencoding <= 1 && nhost == 1);
	FUZZ_CHECK((h->framing == HTTP_BODY_CHUNKED) == (nencoding == 1));
	FUZZ_CHECK((h->framing == HTTP_BODY_LENGTH) == (nlength == 1));
}

FUZZ_TARGET(http_head)
{
	struct http_head h;

	if (size < 1)
		return 0;
	/* Each piece is parsed from the start: few of them when there is much. */
	size_t len = size - 1, step = (size_t)data[0] + 1 + len / 100, have = 0;
	const char *p = (const char *)data + 1;
	long whole = http_head_parse(p, len, &h), pieces = 0;

	if (whole > 0)
		check_head(&h, p, (size_t)whole);
	if (whole < 0)
		FUZZ_CHECK(h.why && -whole >= 400 && -whole <= 505);
	while (pieces == 0 && have < len) {
		have = have + step < len ? have + step : len;
		pieces = http_head_parse(p, have, &h);
	}
	FUZZ_CHECK(pieces == whole);
	if (whole < 0) {
		for (; have < len; have += step)
			FUZZ_CHECK(http_head_parse(p, have, &h) == whole);
	}
	return 0;
}
