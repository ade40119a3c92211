/* The metrics table: values, names, and the text format. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/metric.h"
#include "base/text.h"
#include "suite.h"

static void counter_counts(void **state)
{
	uint64_t before = metric_get(METRIC_requests);

	metric_inc(METRIC_requests);
	metric_add(METRIC_requests, 41);
	assert_int_equal(metric_get(METRIC_requests) - before, 42);
}

static void gauge_goes_down_but_not_below_zero(void **state)
{
	metric_set(METRIC_sessions_open, 1);
	metric_inc(METRIC_sessions_open);
	metric_dec(METRIC_sessions_open);
	metric_dec(METRIC_sessions_open);
	assert_int_equal(metric_get(METRIC_sessions_open), 0);
	metric_dec(METRIC_sessions_open);
	assert_int_equal(metric_get(METRIC_sessions_open), 0);
}

static void every_row_has_its_own_name_and_a_sentence(void **state)
{
	struct map *seen = map_new();

	for (unsigned i = 0; i < metric_count(); i++) {
		enum metric_id id = (enum metric_id)i;
		const char *name = metric_name(id), *help = metric_help(id);

		assert_true(strlen(name) > 0 && strlen(metric_unit(id)) > 0);
		assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789"), strlen(name));
		assert_null(map_set_z(seen, name, seen));
		/* The text format would need escapes. */
		assert_null(strpbrk(help, "\n\\"));
		assert_true(help[0] >= 'A' && help[0] <= 'Z' && help[strlen(help) - 1] != '.');
	}
	map_free(&seen);
}

static void expose_writes_help_type_and_value(void **state)
{
	struct str s = STR_INIT;

	metric_set(METRIC_writer_queue_len, 7);
	metric_expose(&s, METRIC_TEXT);
	assert_non_null(strstr(s.p, "# HELP toolcrib_writer_queue_len Items that wait for the writer now\n"
				    "# TYPE toolcrib_writer_queue_len gauge\n"
				    "toolcrib_writer_queue_len 7\n"));
	assert_non_null(strstr(s.p, "# TYPE toolcrib_calls_denied_total counter\ntoolcrib_calls_denied_total 0\n"));
	assert_null(strstr(s.p, "# UNIT"));
	str_fini(&s);
}

static void openmetrics_names_families_and_units(void **state)
{
	struct str s = STR_INIT;

	metric_expose(&s, METRIC_OPENMETRICS);
	assert_non_null(strstr(s.p, "# TYPE toolcrib_calls_denied counter\n# HELP toolcrib_calls_denied Tool"));
	assert_non_null(strstr(s.p, "\ntoolcrib_calls_denied_total 0\n"));
	assert_non_null(strstr(s.p, "# UNIT toolcrib_anchor_timestamp_seconds seconds\n"));
	assert_null(strstr(s.p, "toolcrib_anchor_time "));
	str_fini(&s);
}

static void rows_that_a_label_tells_apart_have_one_head(void **state)
{
	struct str s = STR_INIT;

	metric_set(METRIC_keys_expiring_week, 3);
	metric_expose(&s, METRIC_TEXT);
	assert_non_null(strstr(s.p, "# TYPE toolcrib_credentials_expiring gauge\n"
				    "toolcrib_credentials_expiring{within=\"1d\"} 0\n"
				    "toolcrib_credentials_expiring{within=\"7d\"} 3\n"
				    "toolcrib_credentials_expiring{within=\"14d\"} 0\n"));
	assert_null(strstr(s.p, "keys_expiring"));
	metric_set(METRIC_keys_expiring_week, 0);
	str_fini(&s);
}

static void info_is_a_gauge_where_the_type_is_not_known(void **state)
{
	struct str s = STR_INIT;

	metric_head(&s, METRIC_TEXT, "x_build", METRIC_INFO, "What it is");
	assert_string_equal(s.p, "# HELP x_build_info What it is\n# TYPE x_build_info gauge\n");
	str_reset(&s);
	metric_head(&s, METRIC_OPENMETRICS, "x_build", METRIC_INFO, "What it is");
	assert_string_equal(s.p, "# TYPE x_build info\n# HELP x_build What it is\n");
	str_fini(&s);
}

static void values_of_labels_are_escaped(void **state)
{
	struct str s = STR_INIT;

	metric_put_label(&s, "a\"b\\c\nd");
	assert_string_equal(s.p, "a\\\"b\\\\c\\nd");
	str_fini(&s);
}

SINGLE_THREAD_SUITE(metric)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counter_counts),
		cmocka_unit_test(gauge_goes_down_but_not_below_zero),
		cmocka_unit_test(every_row_has_its_own_name_and_a_sentence),
		cmocka_unit_test(expose_writes_help_type_and_value),
		cmocka_unit_test(openmetrics_names_families_and_units),
		cmocka_unit_test(rows_that_a_label_tells_apart_have_one_head),
		cmocka_unit_test(info_is_a_gauge_where_the_type_is_not_known),
		cmocka_unit_test(values_of_labels_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
