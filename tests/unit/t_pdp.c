/* What policy decision points answer, and for how long it may be used again (PD-03, PD-05, PD-06): pure functions. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/pdp/pdp_int.h"
#include "base/mem.h"
#include "base/text.h"
#include "suite.h"

static const char asked[] = "{\"subject\":{\"type\":\"identity\",\"id\":\"bot\"},\"action\":{\"name\":\"tools/call\"},"
	"\"resource\":{\"type\":\"tool\",\"id\":\"pay\"},\"context\":{}}";
static const struct pdp_sent sent = { "one", asked, sizeof(asked) - 1, "/context/why" };

static struct pdp_meaning read_reply(struct pdp_reply r)
{
	struct pdp_meaning m;

	r.len = strlen(r.body);
	pdp_read_answer(&r, &sent, &m);
	return m;
}

static struct pdp_meaning read_body(const char *body)
{
	return read_reply((struct pdp_reply){ .status = 200, .type = "application/json", .body = body });
}

static void only_a_clear_permit_allows(void **state)
{
	static const char *const good[] = {
		"{\"decision\":true}", " { \"decision\" : true } ", "{\"decision\":true,\"context\":{}}",
		"{\"context\":{\"obligations\":[]},\"decision\":true}", "{\"decision\":true,\"context\":{\"obligations\":{}}}",
		"{\"decision\":true,\"resource\":{\"id\":\"pay\",\"type\":\"tool\"}}",
	};
	static const char *const bad[] = {
		"", "true", "{}", "[]", "[{\"decision\":true}]", "{\"decision\":\"true\"}", "{\"decision\":1}", "{\"decision\":null}",
		"{\"decision\":[true]}", "{\"Decision\":true}", "{\"decision\":true,\"decision\":true}",
		"{\"decision\":true,\"context\":[]}", "{\"decision\":true,\"context\":null}",
		"{\"decision\":true,\"context\":{\"obligations\":[1]}}", "{\"decision\":true,\"context\":{\"obligations\":null}}",
		"{\"decision\":true,\"context\":{\"obligations\":false}}", "{\"decision\":true,\"subject\":{\"type\":\"identity\",\"id\":\"x\"}}",
		"{\"decision\":true,\"action\":\"tools/call\"}", "{\"decision\":true}x", "{\"decision\":true", "\xef\xbb\xbf{\"decision\":true}",
	};

	(void)state;
	for (size_t i = 0; i < NELEMS(good); i++)
		if (read_body(good[i]).word != PDP_ALLOW)
			fail_msg("refused: %s", good[i]);
	for (size_t i = 0; i < NELEMS(bad); i++) {
		struct pdp_meaning m = read_body(bad[i]);

		if (m.word != PDP_NONE || !*m.why)
			fail_msg("%d of %s", (int)m.word, bad[i]);
	}
	assert_int_equal(read_body("{\"decision\":false,\"context\":{\"obligations\":[1]}}").word, PDP_DENY);
}

static void the_head_counts_too(void **state)
{
	static const char *const types[] = { "application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;x" };
	static const char *const others[] = { NULL, "", "text/plain", "application/jsonp", "application/json5", "application/json,text/html",
					      "application/problem+json" };
	struct pdp_reply r = { .status = 200, .type = types[0], .body = "{\"decision\":true}" };

	(void)state;
	for (size_t i = 0; i < NELEMS(types); i++) {
		r.type = types[i];
		assert_int_equal(read_reply(r).word, PDP_ALLOW);
	}
	for (size_t i = 0; i < NELEMS(others); i++) {
		r.type = others[i];
		assert_int_equal(read_reply(r).word, PDP_NONE);
	}
	r.type = types[0];
	r.id = "one";
	assert_int_equal(read_reply(r).word, PDP_ALLOW);
	r.id = "one,one";
	assert_int_equal(read_reply(r).word, PDP_NONE);
	r.id = NULL;
	for (r.status = 100; r.status < 600; r.status++)
		assert_int_equal(read_reply(r).word, r.status == 200 ? PDP_ALLOW : PDP_NONE);
}

static void a_reason_is_cleaned_and_cut(void **state)
{
	struct str body = STR_INIT;
	struct pdp_meaning m;

	(void)state;
	m = read_body("{\"decision\":false,\"context\":{\"why\":\"ask\\u202e them\",\"admin\":\"rule 7\"}}");
	assert_string_equal(m.reason, "ask\\u{202e} them");
	assert_non_null(strstr(m.why, "rule 7"));
	m = read_body("{\"decision\":false,\"context\":{\"why\":{\"en\":\"no text\"}}}");
	assert_string_equal(m.reason, "");
	str_puts(&body, "{\"decision\":false,\"context\":{\"why\":\"");
	for (int i = 0; i < 200; i++)
		str_puts(&body, "\xc3\xa9");
	str_puts(&body, "\"}}");
	m = read_body(str_text(&body));
	assert_true(strlen(m.reason) <= PDP_REASON_MAX && strlen(m.reason) > PDP_REASON_MAX - 4);
	assert_true(text_utf8_valid(m.reason, strlen(m.reason)));
	str_fini(&body);
}

static void what_may_be_kept(void **state)
{
	static const struct { const char *control, *age; uint64_t s; } rows[] = {
		{ NULL, NULL, 0 }, { "", NULL, 0 }, { "max-age=60", NULL, 60 }, { "Max-Age=60", NULL, 60 }, { "private, max-age=60", NULL, 60 },
		{ "max-age=60 , x", NULL, 60 }, { "max-age=60", "59", 1 }, { "max-age=60", "60", 0 }, { "max-age=60", "x", 0 },
		{ "max-age=60, no-store", NULL, 0 }, { "no-store,max-age=60", NULL, 0 }, { "NO-CACHE, max-age=60", NULL, 0 },
		{ "no-cache=\"a, b\", max-age=60", NULL, 0 }, { "x=\"a, no-store\", max-age=60", NULL, 60 }, { "max-age=60, max-age=60", NULL, 0 },
		{ "max-age", NULL, 0 }, { "max-age=", NULL, 0 }, { "max-age=\"60\"", NULL, 0 }, { "max-age=-1", NULL, 0 }, { "max-age=1.5", NULL, 0 },
		{ "max-age=99999999999999999999", NULL, 0 }, { "max-age=99999999999", NULL, 31536000 }, { "s-maxage=60", NULL, 0 },
		{ "xmax-age=60", NULL, 0 }, { "max-age=0", NULL, 0 }, { "max-age =60", NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct pdp_reply r = { .status = 200, .type = "application/json", .cache = rows[i].control, .age = rows[i].age,
				       .body = i % 2 ? "{\"decision\":true}" : "{\"decision\":false}" };

		if (read_reply(r).max_age_s != rows[i].s)
			fail_msg("%s: %llu", rows[i].control, (unsigned long long)read_reply(r).max_age_s);
		r.body = "{}";
		assert_int_equal(read_reply(r).max_age_s, 0);
	}
}

static int metadata(const char *text, char ret[128])
{
	struct str endpoint = STR_INIT;
	int rc = pdp_read_metadata(text, strlen(text), "https://pdp.example.com", &endpoint, NULL);

	(void)snprintf(ret, 128, "%s", str_text(&endpoint));
	str_fini(&endpoint);
	return rc;
}

static void metadata_of_another_is_not_used(void **state)
{
	static const char *const bad[] = {
		"", "[]", "{}", "{\"policy_decision_point\":\"https://pdp.example.com\"}",
#define META(point, endpoint) "{\"policy_decision_point\":\"" point "\",\"access_evaluation_endpoint\":\"" endpoint "\"}"
		META("https://pdp.example.com/", "https://pdp.example.com/x"), META("https://evil.example", "https://pdp.example.com/x"),
		META("https://pdp.example.com", "https://evil.example/x"), META("https://pdp.example.com", "http://pdp.example.com/x"),
		META("https://pdp.example.com", "https://pdp.example.com:8443/x"), META("https://pdp.example.com", "https://pdp.example.com@evil/x"),
		META("https://pdp.example.com", "/x"),
	};
	char text[128];

	(void)state;
	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_true(metadata(bad[i], text) < 0 && !*text);
	assert_int_equal(metadata(META("https://pdp.example.com", "https://pdp.example.com/eval/v1"), text), 0);
	assert_string_equal(text, "https://pdp.example.com/eval/v1");
}

SINGLE_THREAD_SUITE(pdp)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_clear_permit_allows),
		cmocka_unit_test(the_head_counts_too),
		cmocka_unit_test(a_reason_is_cleaned_and_cut),
		cmocka_unit_test(what_may_be_kept),
		cmocka_unit_test(metadata_of_another_is_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
