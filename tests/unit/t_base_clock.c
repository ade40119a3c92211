/* Clocks, times as text, and ids. */

#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/mem.h"
#include "suite.h"

/* 2026-07-28T10:00:00Z */
static const uint64_t noon_us = UINT64_C(1785232800000000);

static int restore_clock(void **state)
{
	clock_real();
	return 0;
}

static void fake_clocks_stand_still_and_step(void **state)
{
	clock_fake(1000, 50);
	assert_int_equal(clock_wall_us(), 1000);
	assert_int_equal(clock_mono_us(), 50);
	clock_step(7);
	assert_int_equal(clock_wall_us(), 1007);
	assert_int_equal(clock_mono_us(), 57);
	clock_real();
	assert_true(clock_wall_us() > UINT64_C(1600000000000000));
	assert_true(clock_mono_us() > 57);
}

static void the_kernel_says_whether_the_clock_is_synchronised(void **state)
{
	struct clock_state now;

	clock_state(&now);
	assert_true((now.sync == CLOCK_UNKNOWN) == (now.why != 0));
	clock_fake(1000, 50);
	clock_state(&now);
	assert_int_equal(now.sync, CLOCK_UNKNOWN);
	clock_fake_sync(CLOCK_UNSYNCED);
	clock_state(&now);
	assert_int_equal(now.sync, CLOCK_UNSYNCED);
	clock_real();
	clock_fake(1000, 50);
	clock_state(&now);
	assert_int_equal(now.sync, CLOCK_UNKNOWN);
	assert_string_equal(clock_sync_name(CLOCK_UNKNOWN), "not known");
	assert_string_equal(clock_sync_name(CLOCK_SYNCED), "synchronised");
	assert_string_equal(clock_sync_name(CLOCK_UNSYNCED), "not synchronised");
}

static void utc_text_has_microseconds(void **state)
{
	char text[28], cut[5];

	assert_string_equal(clock_format_utc(noon_us + 42, text, sizeof text), "2026-07-28T10:00:00.000042Z");
	assert_string_equal(clock_format_utc(0, text, sizeof text), "1970-01-01T00:00:00.000000Z");
	assert_string_equal(clock_format_utc(0, cut, sizeof cut), "1970");
	assert_string_equal(clock_format_utc(UINT64_MAX, text, sizeof text), "0000-00-00T00:00:00.551615Z");
}

static void local_text_names_its_zone(void **state)
{
	char text[32];

	setenv("TZ", "XYZ-2", 1);
	tzset();
	assert_string_equal(clock_format_local(noon_us, text, sizeof text), "2026-07-28 12:00:00 +0200");
	unsetenv("TZ");
	tzset();
}

static void parse_reads_dates_and_ages(void **state)
{
	static const struct { const char *text; uint64_t want_us; } rows[] = {
		{ "2026-07-28T10:00:00Z", noon_us }, { "2026-07-28t10:00:00z", noon_us },
		{ "2026-07-28 10:00:00Z", noon_us }, { "2026-07-28T12:00:00+02:00", noon_us },
		{ "2026-07-28T09:30:00-00:30", noon_us }, { "2026-07-28T10:00:00.5Z", noon_us + 500000 },
		{ "2026-07-28T10:00:00.000042Z", noon_us + 42 }, { "2026-07-28T10:00:00.0000429Z", noon_us + 42 },
		{ "2026-07-28", noon_us - 36000000000 }, { "2024-02-29", UINT64_C(1709164800000000) },
		{ "15m", noon_us - 900000000 }, { "1h", noon_us - 3600000000 }, { "3d", noon_us - 259200000000 },
		{ "0s", noon_us }, { "1970-01-01", 0 },
	};

	for (size_t i = 0; i < NELEMS(rows); i++) {
		uint64_t us = 1;

		assert_int_equal(clock_parse(rows[i].text, noon_us, &us), 0);
		assert_true(us == rows[i].want_us);
	}
}

static void parse_refuses_what_no_calendar_has(void **state)
{
	static const char *const bad[] = {
		"", "now", "2026", "2026-7-28", "2026-13-01", "2026-00-01", "2026-02-29", "2026-04-31", "2026-07-00", "2026-07-32",
		"2026-07-28T", "2026-07-28T10:00", "2026-07-28T10:00:00", "2026-07-28T24:00:00Z",
		"2026-07-28T10:60:00Z", "2026-07-28T10:00:60Z", "2026-07-28T10:00:00.Z", "2026-07-28T10:00:00Zx",
		"2026-07-28T10:00:00+2:00", "2026-07-28T10:00:00+24:00", " 2026-07-28", "1969-12-31",
		"1970-01-01T00:00:00+00:01", "1y", "-1h", "30000d",
	};
	uint64_t us = 77;

	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(clock_parse(bad[i], noon_us, &us), -1);
	assert_int_equal(us, 77);
}

static void uuid7_has_the_shape_of_rfc_9562(void **state)
{
	char text[ID_TEXT_SIZE];
	uint8_t id[16];

	clock_fake(noon_us, 0);
	id_uuid7(id);
	id_format(id, text);
	assert_int_equal(strlen(text), 36);
	/* 1785232800000 ms */
	assert_memory_equal(text, "019fa82a-b900-7", 15);
	assert_non_null(strchr("89ab", text[19]));
}

static void uuid7_never_goes_back(void **state)
{
	uint8_t last[16], id[16];

	clock_fake(noon_us + 5000, 0);
	id_uuid7(last);
	for (int i = 0; i < 100000; i++) {
		if (i == 50000)
			clock_fake(noon_us, 0);         /* somebody set the clock back */
		id_uuid7(id);
		assert_true(memcmp(last, id, 16) < 0);
		memcpy(last, id, 16);
	}
}

/* RFC 9110 5.6.7 */
static void http_dates_have_three_forms(void **state)
{
	static const char *const same[] = { "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
					    "Sun Nov  6 08:49:37 1994" };
	static const char *const bad[] = { "", "Sun", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 GMT ", "Sun, 6 Nov 1994 08:49:37 GMT",
		"Sun, 31 Feb 2026 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nox 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
		"Sun, 06 Nov 1994 08:49:37 CET", "Sun Nov 6 08:49:37 1994", "Sun, 06 Nov 1950 08:49:37 GMT", "1994-11-06T08:49:37Z" };
	uint64_t us = 0;

	for (size_t i = 0; i < NELEMS(same); i++) {
		us = 0;
		assert_int_equal(clock_parse_http(same[i], noon_us, &us), 0);
		assert_int_equal(us, UINT64_C(784111777000000));
	}
	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(clock_parse_http(bad[i], noon_us, &us), -1);
	assert_int_equal(clock_parse_http("Sun Nov 16 08:49:37 1997", noon_us, &us), 0);
	assert_int_equal(clock_parse_http("Tuesday, 28-Jul-76 10:00:00 GMT", noon_us, &us), 0); /* 50 years ahead of 2026 */
	assert_int_equal(us, UINT64_C(3363156000000000));
	assert_int_equal(clock_parse_http("Thursday, 28-Jul-77 10:00:00 GMT", noon_us, &us), 0);
	assert_int_equal(us, UINT64_C(238932000000000));
}

static void id_text_is_strict(void **state)
{
	static const char good[] = "019fa827-4900-7abc-8def-0123456789ab";
	static const char *const bad[] = {
		"", "019fa827-4900-7abc-8def-0123456789a", "019fa827-4900-7abc-8def-0123456789abc",
		"019FA827-4900-7abc-8def-0123456789ab", "019fa82749007abc8def0123456789ab----",
		"019fa827_4900-7abc-8def-0123456789ab", "019fa827-4900-7abc-8def-0123456789ag",
	};
	char text[ID_TEXT_SIZE];
	uint8_t id[16] = { 0 }, zero[16] = { 0 };

	for (size_t i = 0; i < NELEMS(bad); i++)
		assert_int_equal(id_parse(bad[i], strlen(bad[i]), id), ERR_INVALID);
	assert_memory_equal(id, zero, 16);
	assert_int_equal(id_parse(good, strlen(good), id), 0);
	assert_string_equal(id_format(id, text), good);
}

static void random_text_is_base62_and_differs(void **state)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	char a[201], b[201];

	id_random_text(a, 200);
	id_random_text(b, 200);
	assert_int_equal(strlen(a), 200);
	assert_int_equal(strspn(a, digits), 200);
	assert_string_not_equal(a, b);
	id_random_text(a, 0);
	assert_string_equal(a, "");
}

/* --- SC-604: random bytes from a pool */

enum { DRAWS = 2000, SALT = 16 };
struct drawn { bool pool; uint8_t salt[DRAWS][SALT]; uint64_t refills; };

static void *draw(void *arg)
{
	struct drawn *d = arg;
	size_t left;

	if (d->pool)
		id_random_pool();
	for (size_t i = 0; i < DRAWS; i++)
		id_random(d->salt[i], SALT);
	(void)id_random_look(&left, &d->refills);
	return NULL;
}

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, SALT);
}

/* No sixteen bytes come twice in them. */
static void assert_different(struct drawn *d, size_t n)
{
	uint8_t (*all)[SALT] = test_calloc(n * DRAWS, SALT);

	for (size_t i = 0; i < n; i++)
		memcpy(all + i * DRAWS, d[i].salt, sizeof d[i].salt);
	qsort(all, n * DRAWS, SALT, by_bytes);
	for (size_t i = 1; i < n * DRAWS; i++)
		assert_memory_not_equal(all[i - 1], all[i], SALT);
	test_free(all);
}

static void sc604_random_bytes_are_taken_once_and_wiped(void **state)
{
	static const uint8_t zero[ID_POOL_SIZE];
	const uint8_t *bytes;
	uint64_t refills = 0;
	uint8_t got[64];
	size_t left = 1;

	assert_null(id_random_look(&left, &refills));
	id_random(got, 16);
	id_random_pool();
	id_random_pool();
	bytes = id_random_look(&left, &refills);
	if (!bytes)
		skip();                 /* this kernel cannot wipe at a fork, or whoever emulates it */
	assert_int_equal(refills, 0);
	/* One filling for as many as are in it, and what was taken is wiped. */
	for (size_t i = 1; i <= ID_POOL_SIZE / SALT; i++) {
		id_random(got, SALT);
		assert_ptr_equal(id_random_look(&left, &refills), bytes);
		assert_int_equal(refills, 1);
		assert_int_equal(left, ID_POOL_SIZE - i * SALT);
		assert_memory_equal(bytes, zero, ID_POOL_SIZE - left);
	}
	id_random(got, SALT);
	(void)id_random_look(&left, &refills);
	assert_int_equal(refills, 2);
	/* To the limit from the pool; what may become a key is the kernel's own. */
	id_random(got, ID_POOL_TAKE);
	(void)id_random_look(&left, &refills);
	assert_int_equal(left, ID_POOL_SIZE - SALT - ID_POOL_TAKE);
	id_random(got, ID_POOL_TAKE + 1);
	(void)id_random_look(&left, &refills);
	assert_int_equal(left, ID_POOL_SIZE - SALT - ID_POOL_TAKE);
}

static void sc604_threads_do_not_share_random_bytes(void **state)
{
	enum { THREADS = 4 };
	struct drawn *d = test_calloc(THREADS, sizeof *d);
	pthread_t thread[THREADS];

	for (size_t i = 0; i < THREADS; i++) {
		d[i].pool = i < 3;      /* the last one has none */
		assert_int_equal(pthread_create(&thread[i], NULL, draw, &d[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_different(d, THREADS);
	assert_int_equal(d[3].refills, 0);
	for (size_t i = 0; i < 3; i++)
		assert_true(d[i].refills == 0 || d[i].refills == (DRAWS * SALT + ID_POOL_SIZE - 1) / ID_POOL_SIZE);
	test_free(d);
}

/* Forked with the pool half used; the parent goes on as well. */
static void sc604_a_forked_process_does_not_repeat_random_bytes(void **state)
{
	struct drawn *d = test_calloc(2, sizeof *d);
	uint8_t some[SALT];
	int status = -1, ends[2];
	size_t done = 0;
	ssize_t n;
	pid_t pid;

	id_random_pool();
	id_random(some, sizeof some);
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		draw(&d[0]);
		for (done = 0; done < sizeof d[0].salt; done += (size_t)n) {
			n = write(ends[1], (uint8_t *)d[0].salt + done, sizeof d[0].salt - done);
			if (n <= 0)
				_exit(1);
		}
		_exit(0);
	}
	close(ends[1]);
	draw(&d[1]);
	while (done < sizeof d[0].salt && (n = read(ends[0], (uint8_t *)d[0].salt + done, sizeof d[0].salt - done)) > 0)
		done += (size_t)n;
	assert_int_equal(done, sizeof d[0].salt);
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_different(d, 2);
	test_free(d);
}

static void a_turn_reads_the_wall_clock_once(void **state)
{
	uint64_t first, next;

	clock_turn(true);
	first = clock_turn_us();
	while (clock_wall_us() <= first)
		;
	assert_true(clock_turn_us() == first);
	clock_turn(true);
	next = clock_turn_us();
	assert_true(next > first);
	clock_fake(1000, 50);
	assert_true(clock_turn_us() == 1000);   /* who steps a clock sees it move at once */
	clock_real();
	clock_turn(false);
	while (clock_wall_us() <= next)
		;
	assert_true(clock_turn_us() > next);
}

SUITE(clock)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(fake_clocks_stand_still_and_step, restore_clock),
		cmocka_unit_test_teardown(a_turn_reads_the_wall_clock_once, restore_clock),
		cmocka_unit_test_teardown(the_kernel_says_whether_the_clock_is_synchronised, restore_clock),
		cmocka_unit_test(utc_text_has_microseconds),
		cmocka_unit_test(local_text_names_its_zone),
		cmocka_unit_test(parse_reads_dates_and_ages),
		cmocka_unit_test(parse_refuses_what_no_calendar_has),
		cmocka_unit_test(http_dates_have_three_forms),
		cmocka_unit_test_teardown(uuid7_has_the_shape_of_rfc_9562, restore_clock),
		cmocka_unit_test_teardown(uuid7_never_goes_back, restore_clock),
		cmocka_unit_test(id_text_is_strict),
		cmocka_unit_test(random_text_is_base62_and_differs),
		cmocka_unit_test(sc604_random_bytes_are_taken_once_and_wiped),
		cmocka_unit_test(sc604_threads_do_not_share_random_bytes),
		cmocka_unit_test(sc604_a_forked_process_does_not_repeat_random_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
