/* Fuzz target: request bodies.  The first byte says how the body is framed, the second one in what pieces it
 * arrives.  Verdict, length and data are the same for all pieces; the limit holds. */

#include "config.h"

#include <string.h>

#include "base/text.h"
#include "fuzz.h"
#include "net/http_server.h"

#define BODY_MAX 1000

/* 1: complete; 0: more is needed; < 0: refused.  *ret_used bytes of p were taken. */
static int read_body(const struct http_head *h, const char *p, size_t len, size_t step, struct str *data,
		     size_t *ret_used)
{
	struct http_body b;
	size_t at = 0, have = 0;
	int rc = http_body_init(&b, h, BODY_MAX);

	if (rc == 0 && b.state == HTTP_BODY_DONE)
		rc = 1;
	while (rc == 0 && (at < have || have < len)) {
		size_t used, start, n;

		if (at == have)
			have = have + step < len ? have + step : len;
		rc = http_body_take(&b, p + at, have - at, &used, &start, &n);
		if (rc < 0)
			break;
		FUZZ_CHECK(used > 0 && start + n <= used && used <= have - at);
		str_put(data, p + at + start, n);
		at += used;
	}
	FUZZ_CHECK(data->len <= BODY_MAX && (rc >= 0 || b.why));
	*ret_used = at;
	return rc;
}

FUZZ_TARGET(http_body)
{
	struct str whole = STR_INIT, pieces = STR_INIT;
	size_t used_whole = 0, used_pieces = 0;

	if (size < 2)
		return 0;
	struct http_head h = { .framing = data[0] < 200 ? HTTP_BODY_CHUNKED : HTTP_BODY_LENGTH,
			       .length = (uint64_t)(data[0] - 200) * 30 };
	const char *p = (const char *)data + 2;
	int first = read_body(&h, p, size - 2, size, &whole, &used_whole);
	int second = read_body(&h, p, size - 2, (size_t)data[1] + 1, &pieces, &used_pieces);

	FUZZ_CHECK(first == second);
	if (first >= 0) {
		FUZZ_CHECK(used_whole == used_pieces && whole.len == pieces.len);
		FUZZ_CHECK(whole.len == 0 || memcmp(whole.p, pieces.p, whole.len) == 0);
	}
	str_fini(&whole);
	str_fini(&pieces);
	return 0;
}
