/* Error values. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "suite.h"

static void set_fills_all_and_returns_the_code(void **state)
{
	struct err e = { .retry_ms = 9, .hint = "old" };

	assert_int_equal(err_set(&e, ERR_RATE, "/a", "too %s by %d", "often", 3), ERR_RATE);
	assert_int_equal(e.code, ERR_RATE);
	assert_int_equal(e.retry_ms, 0);
	assert_string_equal(e.where, "/a");
	assert_string_equal(e.msg, "too often by 3");
	assert_string_equal(e.hint, "");
	assert_int_equal(err_set(NULL, ERR_BUSY, NULL, "nobody reads this"), ERR_BUSY);
}

static void set_may_read_the_error_it_replaces(void **state)
{
	struct err e;

	err_set(&e, ERR_IO, "/old", "inner");
	err_set(&e, ERR_INVALID, e.where, "outer (%s)", e.msg);
	assert_string_equal(e.where, "/old");
	assert_string_equal(e.msg, "outer (inner)");
}

static void texts_are_cut_before_a_sequence(void **state)
{
	char fits[sizeof ((struct err *)0)->msg], longer[sizeof fits + 1];
	struct err e;

	memset(fits, 'x', sizeof fits - 1);
	fits[sizeof fits - 1] = '\0';
	err_set(&e, ERR_INVALID, "", "%s", fits);
	assert_string_equal(e.msg, fits);
	/* The last two bytes that would fit begin a sequence of three: it goes as a whole. */
	memset(longer, 'x', sizeof longer);
	memcpy(longer + sizeof fits - 3, "\xe2\x82\xac", 4);
	err_set(&e, ERR_INVALID, "", "%s", longer);
	assert_int_equal(strlen(e.msg), sizeof fits - 3);
}

static void wrap_puts_context_in_front(void **state)
{
	char big[2000];
	struct err e;

	err_set(&e, ERR_NOT_FOUND, "/x", "no such file");
	err_hint(&e, "create %s", "it");
	assert_int_equal(err_wrap(&e, "tool %s", "weather"), ERR_NOT_FOUND);
	assert_string_equal(e.msg, "tool weather: no such file");
	assert_string_equal(e.where, "/x");
	assert_string_equal(e.hint, "create it");
	memset(big, 'y', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	assert_int_equal(err_wrap(&e, "%s", big), ERR_NOT_FOUND);
	assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
	assert_int_equal(err_wrap(NULL, "x"), ERR_INTERNAL);
}

static void at_puts_a_prefix_before_the_place(void **state)
{
	struct err e;

	err_set(&e, ERR_INVALID, "/type", "not a type");
	err_at(&e, "/inputSchema");
	assert_string_equal(e.where, "/inputSchema/type");
	for (int i = 0; i < 50; i++)
		err_at(&e, "/inputSchema");
	assert_int_equal(strlen(e.where), sizeof e.where - 1);
	err_at(NULL, "/x");
	err_hint(NULL, "x");
}

static void every_code_has_a_name_that_leads_back(void **state)
{
	for (int code = 0; code >= ERR_TOOL; code--) {
		assert_string_not_equal(err_name(code), "unknown");
		assert_int_equal(err_from_name(err_name(code)), code);
	}
	assert_string_equal(err_name(ERR_TOOL - 1), "unknown");
	assert_string_equal(err_name(1), "unknown");
	assert_int_equal(err_from_name("nonsense"), ERR_INTERNAL);
	assert_int_equal(err_from_name(NULL), ERR_INTERNAL);
}

SINGLE_THREAD_SUITE(err)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_fills_all_and_returns_the_code),
		cmocka_unit_test(set_may_read_the_error_it_replaces),
		cmocka_unit_test(texts_are_cut_before_a_sequence),
		cmocka_unit_test(wrap_puts_context_in_front),
		cmocka_unit_test(at_puts_a_prefix_before_the_place),
		cmocka_unit_test(every_code_has_a_name_that_leads_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
