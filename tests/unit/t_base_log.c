/* The log: both formats, escaping, levels, storms, threads. */

#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "suite.h"

static int fds[2];
static char out[1 << 16];

static int open_pipe(void **state)
{
	clock_fake(0, 0);
	return pipe2(fds, O_NONBLOCK);
}

static int close_pipe(void **state)
{
	clock_real();
	log_open(STDERR_FILENO, LOG_FORMAT_AUTO, LOG_LEVEL_INFO);
	close(fds[0]);
	close(fds[1]);
	return 0;
}

/* What has been logged since the last time. */
static const char *logged(void)
{
	ssize_t n = read(fds[0], out, sizeof out - 1);

	out[n > 0 ? n : 0] = '\0';
	return out;
}

static void text_lines_carry_the_context(void **state)
{
	const struct log_ctx ctx = { .tenant = "acme", .call = "c1" };

	log_open(fds[1], LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
	log_info(&ctx, "call finished ms=%u", 3U);
	assert_string_equal(logged(), "1970-01-01T00:00:00.000000Z info call finished ms=3 tenant=acme call=c1\n");
	log_err(NULL, "disk full");
	assert_string_equal(logged(), "1970-01-01T00:00:00.000000Z err disk full\n");
}

static void json_is_the_format_of_pipes(void **state)
{
	const struct log_ctx ctx = { .principal = "a\"b\\c", .peer = "\x1b[2J\xff" };

	log_open(fds[1], LOG_FORMAT_AUTO, LOG_LEVEL_INFO);
	log_warn(&ctx, "line\nbreak \"quoted\"");
	assert_string_equal(logged(), "{\"time\":\"1970-01-01T00:00:00.000000Z\",\"level\":\"warn\","
				      "\"event\":\"line\\\\x0abreak \\\"quoted\\\"\","
				      "\"principal\":\"a\\\"b\\\\c\",\"peer\":\"\\\\x1b[2J\\\\xff\"}\n");
}

static void control_bytes_do_not_reach_the_terminal(void **state)
{
	char all[256];

	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	all[255] = '\0';
	log_open(fds[1], LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
	log_info(NULL, "name=%s", all);
	for (const char *p = logged(); *p && *p != '\n'; p++)
		assert_in_range((unsigned char)*p, 0x20, 0x7e);
}

static void levels_above_the_chosen_one_are_left_out(void **state)
{
	enum log_level level;

	log_open(fds[1], LOG_FORMAT_TEXT, LOG_LEVEL_WARN);
	log_info(NULL, "hidden");
	log_debug(NULL, "hidden");
	assert_string_equal(logged(), "");
	log_warn(NULL, "shown");
	assert_non_null(strstr(logged(), "shown"));
	assert_true(log_level_from_name("debug", &level) && level == LOG_LEVEL_DEBUG);
	assert_false(log_level_from_name("DEBUG", &level));
}

static void huge_events_are_cut_and_stay_json(void **state)
{
	char big[20000];
	const struct log_ctx ctx = { big, big, big, big };

	memset(big, '"', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	log_open(fds[1], LOG_FORMAT_JSON, LOG_LEVEL_INFO);
	log_info(&ctx, "big %s", big);
	logged();
	assert_true(strlen(out) <= 4096);
	assert_string_equal(out + strlen(out) - 5, "\\\"\"}\n");
	assert_non_null(strstr(out, ",\"peer\":\""));
	assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
}

static void storms_are_counted(void **state)
{
	const uint64_t before = metric_get(METRIC_log_lines_left_out);
	struct log_site site = { 0 };
	unsigned allowed = 0;

	log_open(fds[1], LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
	for (int i = 0; i < 25; i++)
		allowed += log_allow(&site);
	assert_int_equal(allowed, 10);
	clock_step(999999);
	assert_false(log_allow(&site));
	assert_string_equal(logged(), "");
	assert_int_equal(metric_get(METRIC_log_lines_left_out), before + 16);
	clock_step(1);
	assert_true(log_allow(&site));
	assert_non_null(strstr(logged(), "count=16"));
	assert_int_equal(metric_get(METRIC_log_lines_left_out), before + 16);
	clock_step(1000000);
	assert_true(log_allow(&site));
	assert_string_equal(logged(), "");
}

static void what_is_said_anyway_is_not_logged_beside_it(void **state)
{
	const struct log_ctx ctx = { .tenant = "acme" };

	log_open(fds[1], LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
	log_hold();
	log_warn(NULL, "it has none");
	assert_non_null(strstr(logged(), "it has none"));
	log_warn(&ctx, "request failed host=h why=\"it cannot be reached\"");
	log_warn(NULL, "request failed why=\"it is late\"");
	log_err(&ctx, "query failed reason=the query: no such column");
	assert_string_equal(logged(), "");
	log_said("GET h: it cannot be reached");
	log_said("no such column");
	log_said("");
	log_said("late");
	log_release();
	assert_non_null(strstr(logged(), "it is late"));
	assert_null(strstr(out, "reached"));
	assert_null(strstr(out, "column"));
	/* One more than can wait: none is lost, and they come in order. */
	for (int i = 0; i <= LOG_HELD_MAX; i++)
		log_warn(NULL, "n=%d why=\"w%d\"", i, i);
	assert_non_null(strstr(logged(), "n=0 "));
	assert_null(strstr(out, "n=1 "));
	log_release();
	assert_ptr_equal(strstr(logged(), " n=1 ") < strstr(out, " n=8 ") ? out : NULL, out);
	log_release();
	assert_string_equal(logged(), "");
}

enum { THREADS = 4, EVENTS = 50 };

static void *write_events(void *arg)
{
	for (int i = 0; i < EVENTS; i++)
		log_info(NULL, "thread %s done", (const char *)arg);
	return NULL;
}

static void lines_of_threads_stay_whole(void **state)
{
	static char names[THREADS][2] = { "a", "b", "c", "d" };
	pthread_t threads[THREADS];
	size_t lines = 0;

	log_open(fds[1], LOG_FORMAT_TEXT, LOG_LEVEL_INFO);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_events, names[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (const char *p = logged(), *end; *p; p = end + 1, lines++) {
		end = strchr(p, '\n');
		assert_non_null(end);
		assert_int_equal(end - p, strlen("1970-01-01T00:00:00.000000Z info thread a done"));
	}
	assert_int_equal(lines, THREADS * EVENTS);
}

SUITE(log)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(text_lines_carry_the_context, open_pipe, close_pipe),
		cmocka_unit_test_setup_teardown(json_is_the_format_of_pipes, open_pipe, close_pipe),
		cmocka_unit_test_setup_teardown(control_bytes_do_not_reach_the_terminal, open_pipe, close_pipe),
		cmocka_unit_test_setup_teardown(levels_above_the_chosen_one_are_left_out, open_pipe, close_pipe),
		cmocka_unit_test_setup_teardown(huge_events_are_cut_and_stay_json, open_pipe, close_pipe),
		cmocka_unit_test_setup_teardown(what_is_said_anyway_is_not_logged_beside_it, open_pipe, close_pipe),
		cmocka_unit_test_setup_teardown(storms_are_counted, open_pipe, close_pipe),
		cmocka_unit_test_setup_teardown(lines_of_threads_stay_whole, open_pipe, close_pipe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
