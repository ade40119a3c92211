/* URIs of upstreams here and there, and the references of a `_meta` to pages (UI-01, UI-02). */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/upstream/upstream_int.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json.h"
#include "suite.h"

static void pages_stay_ui_and_the_upstream_is_their_authority(void **state)
{
	static const struct { const char *prefix, *there, *here; } cases[] = {
		{ "every+", "ui://get-time/mcp-app.html", "ui://every/get-time/mcp-app.html" },
		{ "every-", "ui://get-time", "ui://every/get-time" },
		{ "a.b.", "ui://x/y?z#w", "ui://a.b/x/y?z#w" },
		{ "every", "ui://x/y", "ui://every/x/y" },
		{ "every+", "UI://x/y", "UI://every/x/y" },
		{ "every+", "ui://every/x", "ui://every/every/x" },
		{ "every+", "ui://{app}/{page}", "ui://every/{app}/{page}" },
		{ "every+", "ui:///x", "every+ui:///x" },
		{ "every+", "ui://", "every+ui://" },
		{ "every+", "ui://?x", "every+ui://?x" },
		{ "every+", "ui:x", "every+ui:x" },
		{ "every+", "file:///x", "every+file:///x" },
		{ "every+", "every+file:///x", "every+every+file:///x" },
		{ "every+", "https://ui/x", "https://ui/x" },
		{ "every+", "HTTP://ui/x", "HTTP://ui/x" },
		{ "", "ui://x/y", "ui://x/y" },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		char *here = upstream_uri_here(cases[i].there, cases[i].prefix);
		char *back = upstream_uri_there(here, cases[i].prefix);

		assert_string_equal(here, cases[i].here);
		assert_string_equal(back, cases[i].there);
		free(here);
		free(back);
	}
}

static void what_is_not_of_the_upstream_is_not_taken_apart(void **state)
{
	static const char *const others[] = { "ui://other/x", "ui://everyx/y", "ui://Every/x", "ui://every", "ui://%65very/x",
		"every-ui://x/y", "evil:x", "http://every+x" };

	for (size_t i = 0; i < NELEMS(others); i++) {
		char *there = upstream_uri_there(others[i], "every+");

		assert_string_equal(there, others[i]);
		free(there);
	}
}

/* --- any URI */

static uint64_t seed = 20;

static unsigned any(unsigned n)         /* SplitMix64 */
{
	uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (unsigned)((z ^ (z >> 31)) % n);
}

static void put_any(struct str *out, const char *const *parts, unsigned n, unsigned max)
{
	for (unsigned k = any(max + 1); k > 0; k--)
		str_puts(out, parts[any(n)]);
}

static void any_prefix(struct str *out)
{
	static const char *const first[] = { "a", "u", "ui", "e", "every", "http", "h", "I" };
	static const char *const more[] = { "+", "-", ".", "a", "i", "s", "0", "ui", "every" };

	do {
		str_reset(out);
		if (any(20) == 0)
			return;
		str_puts(out, first[any(NELEMS(first))]);
		put_any(out, more, NELEMS(more), 4);
	} while (upstream_uri_prefix_hides(str_text(out)));
}

static void the_way_back_leads_to_the_same_uri(void **state)
{
	static const char *const parts[] = { "ui", "UI", "uI", ":", "//", "/", "?", "#", "every", "a", "+", "-", ".", "http", "https",
		"HTTP", "s", "..", "%2F", "{x}", "{+x}", "i", "u", "\xc3\xa9", " " };
	struct str uri = STR_INIT, one = STR_INIT, two = STR_INIT;
	unsigned pages = 0;

	for (unsigned i = 0; i < 100000; i++) {
		str_reset(&uri);
		if (any(2))
			str_puts(&uri, any(2) ? "ui://" : "Ui://");
		put_any(&uri, parts, NELEMS(parts), 8);
		any_prefix(&one);
		any_prefix(&two);
		/* Through two servers: what the first one shows is what the second one finds there. */
		char *here = upstream_uri_here(str_text(&uri), str_text(&one));
		char *far = upstream_uri_here(here, str_text(&two));
		char *near = upstream_uri_there(far, str_text(&two));
		char *back = upstream_uri_there(near, str_text(&one));

		if (strcmp(near, here) != 0 || strcmp(back, str_text(&uri)) != 0)
			fail_msg("%s by %s is %s, by %s %s, and back %s, %s", str_text(&uri), str_text(&one), here,
				 str_text(&two), far, near, back);
		pages += strncasecmp(here, "ui://", 5) == 0;
		free(here);
		free(far);
		free(near);
		free(back);
	}
	assert_in_range(pages, 20000, 80000);
	str_fini(&uri);
	str_fini(&one);
	str_fini(&two);
}

static void prefixes_that_hide_what_a_uri_is_are_known(void **state)
{
	static const char *const hide[] = { "u", "ui", "UI", "h", "http", "https", "HtTp" };
	static const char *const plain[] = { "", "every+", "ui+", "http-", "uix", "a", "httpsx" };

	for (size_t i = 0; i < NELEMS(hide); i++)
		assert_true(upstream_uri_prefix_hides(hide[i]));
	for (size_t i = 0; i < NELEMS(plain); i++)
		assert_false(upstream_uri_prefix_hides(plain[i]));
}

/* --- references */

static void expect_refs(const char *there, const char *here)
{
	json_t *meta = NULL, *want = NULL;

	assert_int_equal(jx_parse(there, strlen(there), &meta, NULL), 0);
	assert_int_equal(jx_parse(here, strlen(here), &want, NULL), 0);
	upstream_refs_here(meta, "every+");
	if (!json_equal(meta, want))
		fail_msg("%s is not %s", there, here);
	json_decref(meta);
	json_decref(want);
}

static void references_to_pages_move_with_them(void **state)
{
	expect_refs("{\"ui\":{\"resourceUri\":\"ui://a/b\",\"visibility\":[\"app\"]},\"x\":\"ui://a/b\"}",
		    "{\"ui\":{\"resourceUri\":\"ui://every/a/b\",\"visibility\":[\"app\"]},\"x\":\"ui://a/b\"}");
	expect_refs("{\"ui/resourceUri\":\"ui://a/b\",\"openai/outputTemplate\":\"ui://w/x\"}",
		    "{\"ui/resourceUri\":\"ui://every/a/b\",\"openai/outputTemplate\":\"ui://every/w/x\"}");
	expect_refs("{\"ui\":{\"resourceUri\":\"https://a/b\"}}", "{\"ui\":{\"resourceUri\":\"https://a/b\"}}");
	expect_refs("{\"ui\":{\"resourceUri\":\"every\"},\"ui/resourceUri\":\"file:x\"}",
		    "{\"ui\":{\"resourceUri\":\"every+every\"},\"ui/resourceUri\":\"every+file:x\"}");
}

static void what_can_be_no_reference_is_dropped(void **state)
{
	char text[2100], want[2100];

	expect_refs("{\"ui\":{\"resourceUri\":7,\"domain\":\"d\"}}", "{\"ui\":{\"domain\":\"d\"}}");
	expect_refs("{\"ui\":{\"resourceUri\":null},\"ui/resourceUri\":[\"ui://a/b\"]}", "{\"ui\":{}}");
	expect_refs("{\"ui\":{\"resourceUri\":\"ui://a/\\u0000b\"}}", "{\"ui\":{}}");
	expect_refs("{\"ui\":{\"resourceUri\":\"ui://a/\\u202eb\"}}", "{\"ui\":{}}");
	expect_refs("{\"ui\":{\"resourceUri\":\"\"}}", "{\"ui\":{}}");
	expect_refs("{\"ui\":\"ui://a/b\"}", "{\"ui\":\"ui://a/b\"}");
	/* 2,048 bytes as it is shown here, and one more. */
	for (int more = 0; more < 2; more++) {
		int n = UPSTREAM_URI_MAX - 11 + more;

		snprintf(text, sizeof(text), "{\"ui\":{\"resourceUri\":\"ui://%0*d\"}}", n, 0);
		snprintf(want, sizeof(want), more ? "{\"ui\":{}}" : "{\"ui\":{\"resourceUri\":\"ui://every/%0*d\"}}", n, 0);
		expect_refs(text, want);
	}
}

/* --- what an older release stored */

static void expect_moved(const char *key, const char *there, const char *stored, const char *want)
{
	const struct upstream_naming naming = { .upstream = "every", .prefix = "every_", .uri_prefix = "every+" };
	const char *name;
	struct upstream_item item = { .kind = upstream_key(key, &name), .key = (char *)(uintptr_t)key,
				      .text = (char *)(uintptr_t)there };
	json_t *doc = NULL, *whole = NULL;

	assert_int_equal(jx_parse(stored, strlen(stored), &doc, NULL), 0);
	assert_int_equal(jx_parse(want ? want : stored, strlen(want ? want : stored), &whole, NULL), 0);
	assert_int_equal(upstream_move_pages(&naming, &item, doc), want != NULL);
	if (!json_equal(doc, whole))
		fail_msg("%s is not %s", stored, want);
	assert_false(upstream_move_pages(&naming, &item, doc));         /* once */
	json_decref(doc);
	json_decref(whole);
}

static void what_was_stored_before_moves_and_keeps_what_was_changed(void **state)
{
	expect_moved("resource:ui://a/b", "{\"uri\":\"ui://a/b\"}", "{\"uri\":\"every+ui://a/b\",\"description\":\"ours\"}",
		     "{\"uri\":\"ui://every/a/b\",\"description\":\"ours\"}");
	expect_moved("template:ui://a/{b}", "{\"uriTemplate\":\"ui://a/{b}\"}", "{\"uriTemplate\":\"every+ui://a/{b}\"}",
		     "{\"uriTemplate\":\"ui://every/a/{b}\"}");
	expect_moved("t", "{\"_meta\":{\"ui\":{\"resourceUri\":\"ui://a/b\"},\"openai/outputTemplate\":\"ui://a/b\"}}",
		     "{\"_meta\":{\"ui\":{\"resourceUri\":\"ui://a/b\"},\"openai/outputTemplate\":\"ui://own/page\"},\"limits\":{}}",
		     "{\"_meta\":{\"ui\":{\"resourceUri\":\"ui://every/a/b\"},\"openai/outputTemplate\":\"ui://own/page\"},\"limits\":{}}");
	/* Of today, of an administrator, of none. */
	expect_moved("resource:ui://a/b", "{\"uri\":\"ui://a/b\"}", "{\"uri\":\"ui://every/a/b\"}", NULL);
	expect_moved("resource:ui://a/b", "{\"uri\":\"ui://a/b\"}", "{\"uri\":\"every+ui://a/c\"}", NULL);
	expect_moved("resource:gui:x", "{\"uri\":\"gui:x\"}", "{\"uri\":\"every+gui:x\"}", NULL);
	expect_moved("t", "{\"_meta\":{\"ui\":{\"resourceUri\":\"ui://a/b\"}}}", "{}", NULL);
}

SINGLE_THREAD_SUITE(pages)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_stay_ui_and_the_upstream_is_their_authority),
		cmocka_unit_test(what_is_not_of_the_upstream_is_not_taken_apart),
		cmocka_unit_test(the_way_back_leads_to_the_same_uri),
		cmocka_unit_test(prefixes_that_hide_what_a_uri_is_are_known),
		cmocka_unit_test(references_to_pages_move_with_them),
		cmocka_unit_test(what_can_be_no_reference_is_dropped),
		cmocka_unit_test(what_was_stored_before_moves_and_keeps_what_was_changed),
	};
	return cmocka_run_group_tests_name("pages of upstreams", tests, NULL, NULL);
}
