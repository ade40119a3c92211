/* Fuzz target: JSON texts.  What the scan accepts parses, or has a number that is too large; what it calls
 * no JSON is none for jansson either; what is written reads back as the same value. */

#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "fuzz.h"
#include "json/json.h"

typedef void write_fn(const json_t *v, struct str *out);

static void check_written(const json_t *v, write_fn *write)
{
	struct str out = STR_INIT, again = STR_INIT;
	json_t *back = NULL;

	write(v, &out);
	FUZZ_CHECK(jx_parse(str_text(&out), out.len, &back, NULL) == 0);
	FUZZ_CHECK(jx_equal(v, back));
	write(back, &again);
	FUZZ_CHECK(out.len == again.len && memcmp(out.p, again.p, out.len) == 0);
	json_decref(back);
	str_fini(&out);
	str_fini(&again);
}

static void check_spans(const char *text, size_t size, struct jx_want *want, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct jx_span s = want[i].span;

		if (!s.p)
			continue;
		FUZZ_CHECK(s.len > 0 && s.p >= text && s.p + s.len <= text + size);
		FUZZ_CHECK(jx_scan(s.p, s.len, NULL, 0, NULL) == 0);
	}
}

FUZZ_TARGET(json)
{
	struct jx_want want[] = { { .pointer = "/id" }, { .pointer = "/params" }, { .pointer = "/params/arguments" },
				  { .pointer = "/params/_meta/progressToken" } };
	const char *text = (const char *)data;
	struct err e = { 0 };
	int rc = jx_scan(text, size, want, NELEMS(want), &e);
	json_t *v = NULL;

	FUZZ_CHECK(rc == 0 || ((int)e.code == rc && *e.msg && *e.where));
	FUZZ_CHECK(rc == jx_scan(text, size, NULL, 0, NULL));
	if (rc == 0) {
		check_spans(text, size, want, NELEMS(want));
		rc = jx_parse_scanned(text, size, &v, &e);
		FUZZ_CHECK(rc == 0 || rc == ERR_LIMIT);
	} else if (rc == ERR_INVALID && !memchr(text, '\0', size)) {      /* jansson ends at a zero byte */
		FUZZ_CHECK(!json_loadb(text, size, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL));
	}
	if (!v)
		return 0;
	check_written(v, jx_write);
	check_written(v, jx_write_pretty);
	check_written(v, jx_write_canon);
	FUZZ_CHECK(jx_at(v, "") == v);
	json_decref(v);
	return 0;
}
