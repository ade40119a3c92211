/* The lines of a verifier that the server has started, which takes them for hostile (SC-708, decision 0098). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "auditor/told.h"

#include "suite.h"

#define FOUND "{\"finding\":\"ROOT\",\"gap\":false,\"log\":\"x/acme\",\"from\":3,\"to\":5,\"detail\":\"changed\"}\n"
#define GAP "{\"finding\":\"NOT_CHECKED\",\"gap\":true,\"log\":\"\",\"from\":-1,\"to\":-1,\"detail\":\"left out\"}\n"
#define SUM(at, bad, gaps) "{\"sum\":{\"at\":" #at ",\"since\":7,\"logs\":2,\"records\":9,\"again\":1,\"older\":4,\"bad\":" #bad \
	",\"gaps\":" #gaps ",\"shut\":0,\"oldest\":1}}\n"
#define FAILED "{\"failed\":{\"message\":\"no\",\"hint\":\"\"}}\n"

static int read_text(const char *text, struct told *ret)
{
	struct err err;

	return told_read(text, strlen(text), ret, &err);
}

static void what_is_said_is_heard(void **state)
{
	static const struct { const char *text, *result; } table[] = {
		{ SUM(1, 0, 0), "INTACT" }, { GAP SUM(1, 0, 1), "INCOMPLETE" }, { FOUND GAP SUM(1, 3, 1), "DAMAGED" }, { FAILED, "FAILED" },
		{ FOUND FAILED, "FAILED" },
	};
	struct told t;

	(void)state;
	for (size_t i = 0; i < NELEMS(table); i++) {
		struct str again = STR_INIT;

		assert_int_equal(read_text(table[i].text, &t), 0);
		assert_string_equal(told_result(&t), table[i].result);
		told_write(&t, &again);
		assert_string_equal(str_text(&again), table[i].text);
		str_fini(&again);
	}
}

static void what_is_no_answer_is_refused(void **state)
{
	static const char *const bad[] = {
		"", "\n", "x\n", "[]\n", "{}\n", "null\n", SUM(1, 0, 0) "\n", SUM(1, 0, 0) SUM(1, 0, 0), SUM(1, 0, 0) FOUND, FAILED FAILED,
		FOUND, FOUND SUM(1, 0, 0), SUM(1, 1, 0), SUM(-1, 0, 0), SUM(9223372036854775808, 0, 0), SUM("1", 0, 0), SUM(1.5, 0, 0),
		"{\"sum\":{}}\n", "{\"sum\":[]}\n", "{\"sum\":{\"at\":1}}\n", "{\"failed\":{\"message\":\"\",\"hint\":\"\"}}\n",
		"{\"failed\":{\"message\":\"no\"}}\n", "{\"failed\":{\"message\":\"no\",\"hint\":\"\",\"x\":1}}\n", "{\"failed\":\"no\"}\n",
		"{\"failed\":{\"message\":\"a\\u0000b\",\"hint\":\"\"}}\n",
		"{\"finding\":\"NONE\",\"gap\":false,\"log\":\"\",\"from\":-1,\"to\":-1,\"detail\":\"\"}\n" SUM(1, 1, 0),
		"{\"finding\":\"ROOT\",\"gap\":0,\"log\":\"\",\"from\":-1,\"to\":-1,\"detail\":\"\"}\n" SUM(1, 1, 0),
		"{\"finding\":\"ROOT\",\"gap\":false,\"log\":\"\",\"from\":-2,\"to\":-1,\"detail\":\"\"}\n" SUM(1, 1, 0),
		"{\"finding\":\"ROOT\",\"gap\":false,\"log\":\"\",\"from\":5,\"to\":4,\"detail\":\"\"}\n" SUM(1, 1, 0),
		"{\"finding\":\"ROOT\",\"gap\":false,\"log\":\"\",\"from\":5,\"to\":5}\n" SUM(1, 1, 0),
		"{\"finding\":\"ROOT\",\"gap\":false,\"log\":\"\",\"from\":5,\"to\":5,\"detail\":\"\",\"more\":1}\n" SUM(1, 1, 0),
		"{\"finding\":\"ROOT\",\"finding\":\"ROOT\",\"gap\":false,\"log\":\"\",\"from\":5,\"to\":5,\"detail\":\"\"}\n" SUM(1, 1, 0),
	};
	const char whole[] = SUM(1, 0, 0);
	struct told t;
	struct err err;

	(void)state;
	for (size_t i = 0; i < NELEMS(bad); i++)
		if (read_text(bad[i], &t) == 0)
			fail_msg("taken: %s", bad[i]);
	for (size_t len = 0; len < strlen(whole); len++)
		assert_true(told_read(whole, len, &t, &err) < 0);
}

static void lines_and_findings_have_a_bound(void **state)
{
	struct str text = STR_INIT;
	struct told t;

	(void)state;
	for (int i = 0; i < TOLD_FOUND_MAX; i++)
		str_puts(&text, FOUND);
	str_puts(&text, SUM(1, 99, 0));
	assert_int_equal(read_text(str_text(&text), &t), 0);
	assert_int_equal(t.nfound, TOLD_FOUND_MAX);
	str_reset(&text);
	for (int i = 0; i <= TOLD_FOUND_MAX; i++)
		str_puts(&text, FOUND);
	str_puts(&text, SUM(1, 99, 0));
	assert_int_equal(read_text(str_text(&text), &t), ERR_LIMIT);
	for (int more = 0; more < 2; more++) {
		str_reset(&text);
		str_puts(&text, FAILED);
		text.len--;
		while (text.len < TOLD_LINE_MAX - 1 + (size_t)more)
			str_putc(&text, ' ');
		str_putc(&text, '\n');
		assert_int_equal(read_text(str_text(&text), &t), more ? ERR_LIMIT : 0);
	}
	str_fini(&text);
}

static void texts_are_made_printable_and_cut(void **state)
{
	struct str text = STR_INIT;
	struct told t;

	(void)state;
	str_puts(&text, "{\"failed\":{\"message\":\"a\\u001b[2Jb");
	for (int i = 0; i < 1000; i++)
		str_putc(&text, 'x');
	str_puts(&text, "\",\"hint\":\"\\n\"}}\n");
	assert_int_equal(read_text(str_text(&text), &t), 0);
	assert_null(strchr(t.message, '\x1b'));
	assert_null(strchr(t.hint, '\n'));
	assert_true(strlen(t.message) < sizeof(t.message));
	str_fini(&text);
}

static void what_is_bad_is_named_before_gaps(void **state)
{
	const struct audit_finding gap = { .code = AUDIT_FINDING_NOT_CHECKED, .from = -1, .to = -1 },
		bad = { .code = AUDIT_FINDING_ROOT, .from = 3, .to = 5, .origin = "x" };
	struct told t = { .nfound = 0 };

	(void)state;
	for (int i = 0; i < TOLD_FOUND_MAX + 3; i++)
		told_add(&t, &gap);
	told_add(&t, &bad);
	told_add(&t, &gap);
	assert_int_equal(t.nfound, TOLD_FOUND_MAX);
	assert_int_equal(t.found[TOLD_FOUND_MAX - 1].code, AUDIT_FINDING_ROOT);
	assert_false(t.found[TOLD_FOUND_MAX - 1].gap);
}

static void a_question_is_read_as_it_was_asked(void **state)
{
	char store[] = "/srv/a \"store\"", folder[] = "/srv/f";
	const struct verifier_ask ask = { store, folder, 4, 30, 60, NULL };
	static const char *const bad[] = { "", "{}", "[]", "{\"store\":\"/s\",\"folder\":\"/f\",\"landlock\":-1,\"scrub\":1,\"young\":1}",
		"{\"store\":1,\"folder\":\"/f\",\"landlock\":1,\"scrub\":1,\"young\":1}" };
	struct verifier_ask got = { .store = NULL };
	struct str text = STR_INIT;
	struct err err;

	(void)state;
	verifier_ask_write(&ask, &text);
	assert_int_equal(verifier_ask_parse(text.p, text.len - 1, &got, &err), 0);
	assert_string_equal(got.store, store);
	assert_string_equal(got.folder, folder);
	assert_true(got.landlock == 4 && got.scrub == 30 && got.young_s == 60);
	verifier_ask_fini(&got);
	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_true(verifier_ask_parse(bad[i], strlen(bad[i]), &got, &err) < 0);
	str_fini(&text);
}

SUITE(auditor_told)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_is_heard), cmocka_unit_test(what_is_no_answer_is_refused),
		cmocka_unit_test(lines_and_findings_have_a_bound), cmocka_unit_test(texts_are_made_printable_and_cut),
		cmocka_unit_test(what_is_bad_is_named_before_gaps), cmocka_unit_test(a_question_is_read_as_it_was_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
