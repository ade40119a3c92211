/* What sinks do by themselves: messages of syslog at their limit, what is to go again when a connection breaks. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "audit/audit.h"
#include "json/json.h"
#include "report/carry.h"
#include "suite.h"

#include "../../src/sink/sink_int.h"

#define SECOND UINT64_C(1000000)

/* --- messages */

static struct report_carried record_of(const char *json)
{
	return (struct report_carried){ .idx = 41, .ts_us = INT64_C(1785232800000001), .kind = AUDIT_CALL_END, .outcome = 0,
					.uid = "00112233445566778899aabbccddeeff", .json = json, .len = strlen(json) };
}

static void put(struct sink *s, struct str *out, const struct report_carried *r, size_t len)
{
	char line[SINK_SYSLOG_MAX];
	struct err err;

	assert_in_range(len, 0, sizeof(line));
	memset(line, 'x', len);
	assert_int_equal(sink_syslog.put(s, out, r, line, len, &err), 0);
}

/* A frame is all that is in out; its message without the count. */
static const char *message_of(const struct str *out, size_t *ret_len)
{
	const char *space = memchr(out->p, ' ', out->len);
	uint64_t n;

	assert_non_null(space);
	assert_int_equal(text_u64(out->p, (size_t)(space - out->p), &n), 0);
	*ret_len = (size_t)n;
	assert_int_equal(out->len, (size_t)(space - out->p) + 1 + n);
	return space + 1;
}

static void a_message_is_never_longer_than_all_must_take(void **state)
{
	const struct conf_sink conf = { .pen = 32473 };
	struct sink s = { .conf = &conf };
	const struct report_carried r = record_of("{\"id\":\"x\",\"log\":\"a\",\"tenant\":\"acme\"}");
	struct str out = STR_INIT;
	size_t head, len;

	put(&s, &out, &r, 0);
	(void)message_of(&out, &head);
	str_reset(&out);
	put(&s, &out, &r, SINK_SYSLOG_MAX - head);
	(void)message_of(&out, &len);
	assert_int_equal(len, SINK_SYSLOG_MAX);
	assert_int_equal(s.batch.cut, 0);
	str_reset(&out);
	put(&s, &out, &r, SINK_SYSLOG_MAX - head + 1);
	assert_non_null(strstr(message_of(&out, &len), " cut=\""));
	assert_in_range(len, head, head + 32);
	assert_int_equal(s.batch.cut, 1);
	str_fini(&out);
}

static void values_of_structured_data_end_where_they_end(void **state)
{
	const struct conf_sink conf = { .pen = 4711 };
	struct sink s = { .conf = &conf };
	/* A value that looks like a member is none. */
	struct report_carried r = record_of("{\"id\":\"x\",\"detail\":\",\\\"tenant\\\":\\\"beta\\\"\",\"log\":\"a]b\",\"call\":\"c\"}");
	struct str out = STR_INIT;
	const char *text;
	size_t len;

	r.outcome = AUDIT_CRASHED;
	put(&s, &out, &r, 3);
	text = message_of(&out, &len);
	assert_memory_equal(text, "<107>1 2026-07-28T10:00:00.000001Z ", 35);
	assert_non_null(strstr(text, " toolcrib - call.end [toolcrib@4711 id=\"00112233445566778899aabbccddeeff\" log=\"a\\]b\" index=\"41\" "
			       "call=\"c\"] xxx"));
	str_fini(&out);
}

/* --- lines of CEF */

static void put_cef(struct str *out, const char *json, unsigned severity)
{
	json_t *record = NULL;
	struct err err;

	str_reset(out);
	assert_int_equal(jx_parse(json, strlen(json), &record, &err), 0);
	report_cef(record, severity, out);
	json_decref(record);
}

static void cef_escapes_what_would_end_a_value(void **state)
{
	struct str out = STR_INIT;

	put_cef(&out, "{\"id\":\"00ff\",\"index\":7,\"log\":\"a=b\",\"kind\":\"x|y\\\\z\",\"time\":\"2026-07-28T10:00:00.123456Z\","
		"\"ms\":1.6,\"request_bytes\":9,\"detail\":\"one\\ntwo\\r cs1=evil \\\\ | \\u0001\"}", 6);
	assert_string_equal(str_text(&out), "CEF:0|toolcrib|toolcrib|" PACKAGE_VERSION "|x\\|y\\\\z|x y z|6|externalId=00ff "
			    "rt=1785232800123 deviceExternalId=a\\=b msg=one\\ntwo\\r cs1\\=evil \\\\ |   cn1=7 cn1Label=index cn2=2 "
			    "cn2Label=ms in=9");
	str_fini(&out);
}

static void cef_says_what_it_cuts(void **state)
{
	char text[REPORT_CEF_VALUE_MAX + 2], *json;
	struct str out = STR_INIT;

	for (size_t len = REPORT_CEF_VALUE_MAX; len <= REPORT_CEF_VALUE_MAX + 1; len++) {
		memset(text, 'x', len);
		text[len] = '\0';
		json = mem_printf("{\"id\":\"0\",\"kind\":\"k\",\"detail\":\"%s\"}", text);
		put_cef(&out, json, 3);
		free(json);
		text[REPORT_CEF_VALUE_MAX] = '\0';
		json = mem_printf(" msg=%s%s", text, len > REPORT_CEF_VALUE_MAX ? " cn3=1 cn3Label=cut" : "");
		assert_string_equal(strstr(str_text(&out), " msg="), json);
		free(json);
	}
	/* Between two characters: the last one has two bytes. */
	text[REPORT_CEF_VALUE_MAX - 1] = '\0';
	json = mem_printf("{\"id\":\"0\",\"kind\":\"k\",\"detail\":\"%s\u00e9\"}", text);
	put_cef(&out, json, 3);
	assert_non_null(strstr(str_text(&out), "x cn3=2 cn3Label=cut"));
	free(json);
	str_fini(&out);
}

/* --- what goes again */

static void what_is_younger_goes_again(void **state)
{
	struct sink_resend r = { .for_us = 8 * SECOND };

	clock_fake(SECOND, SECOND);
	assert_int_equal(sink_resend_from(&r, 3, 70), 70);
	sink_resend_add(&r, 3, 10);
	clock_step(4 * SECOND);
	sink_resend_add(&r, 3, 40);
	assert_int_equal(sink_resend_from(&r, 3, 70), 10);
	assert_int_equal(sink_resend_from(&r, 2, 5), 5);
	clock_step(4 * SECOND - 1);
	assert_false(sink_resend_expire(&r, 3));
	clock_step(1);
	assert_true(sink_resend_expire(&r, 3));
	assert_int_equal(sink_resend_from(&r, 3, 70), 40);
	sink_resend_forget(&r, 3);
	assert_int_equal(sink_resend_from(&r, 3, 70), 70);
	clock_real();
	free(r.log);
}

/* However often something is sent, nothing is forgotten too early, and soon what is older. */
static void many_are_held_by_few_marks(void **state)
{
	struct sink_resend r = { .for_us = 8 * SECOND };
	const uint64_t step = SECOND / 10;

	clock_fake(SECOND, SECOND);
	for (int64_t i = 0; i < 1000; i++) {
		const int64_t due = i - 80;     /* was sent 8 s ago */
		int64_t from;

		(void)sink_resend_expire(&r, 0);
		sink_resend_add(&r, 0, i);
		from = sink_resend_from(&r, 0, i + 1);
		assert_true(from <= (due > 0 ? due + 1 : 0));
		assert_true(from >= due - 21);
		clock_step(step);
	}
	clock_real();
	free(r.log);
}

SINGLE_THREAD_SUITE(sink)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_is_never_longer_than_all_must_take),
		cmocka_unit_test(values_of_structured_data_end_where_they_end),
		cmocka_unit_test(cef_escapes_what_would_end_a_value),
		cmocka_unit_test(cef_says_what_it_cuts),
		cmocka_unit_test(what_is_younger_goes_again),
		cmocka_unit_test(many_are_held_by_few_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
