/* Counts with a label: who has a slot, when it goes, which bucket, what an exemplar says. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/metric.h"
#include "base/tally.h"
#include "suite.h"

static int reset(void **state)
{
	(void)state;
	tally_reset();
	return 0;
}

static struct tally_view see(enum tally_kind kind, size_t i)
{
	struct tally_view v;

	tally_see(kind, i, &v);
	return v;
}

static void without_a_bound_all_are_other(void **state)
{
	tally_count(tally_get(TALLY_TENANT, "acme"), 3);
	tally_count(tally_get(TALLY_TENANT, "bolt"), 3);
	tally_bound(TALLY_TENANT, 0);
	tally_count(tally_get(TALLY_TENANT, "acme"), 3);
	assert_false(tally_is_bounded(TALLY_TENANT));
	assert_int_equal(tally_slots(TALLY_TENANT), 0);
	assert_int_equal(see(TALLY_TENANT, TALLY_OTHERS).outcome[3], 3);
	assert_string_equal(see(TALLY_TENANT, TALLY_OTHERS).name, "other");
}

static void slots_are_bounded(void **state)
{
	const uint64_t before = metric_get(METRIC_labels_summed);
	char name[16];

	tally_bound(TALLY_TENANT, 3);
	for (int i = 0; i < 3; i++) {
		(void)snprintf(name, sizeof(name), "t%d", i);
		tally_count(tally_get(TALLY_TENANT, name), 0);
	}
	assert_int_equal(metric_get(METRIC_labels_summed), before);
	tally_count(tally_get(TALLY_TENANT, "t3"), 0);
	tally_count(tally_get(TALLY_TENANT, "t1"), 0);
	assert_int_equal(metric_get(METRIC_labels_summed), before + 1);
	assert_int_equal(tally_slots(TALLY_TENANT), 3);
	assert_int_equal(see(TALLY_TENANT, 1).outcome[0], 2);
	assert_int_equal(see(TALLY_TENANT, TALLY_OTHERS).outcome[0], 1);
	assert_int_equal(see(TALLY_TOOL, TALLY_OTHERS).outcome[0], 0);
}

/* Two series of one name would be no text that a scraper takes. */
static void who_is_called_other_is(void **state)
{
	tally_bound(TALLY_TOOL, 3);
	tally_count(tally_get(TALLY_TOOL, TALLY_OTHER), 1);
	assert_int_equal(tally_slots(TALLY_TOOL), 0);
	assert_int_equal(see(TALLY_TOOL, TALLY_OTHERS).outcome[1], 1);
}

static void a_bound_belongs_to_its_bucket(void **state)
{
	struct tally *t = tally_get(TALLY_TENANT, "x");
	struct tally_view v;

	tally_observe(t, 0, NULL);
	tally_observe(t, 1000, NULL);
	tally_observe(t, 1001, NULL);
	tally_observe(t, 60000000, NULL);
	tally_observe(t, 60000001, NULL);
	v = see(TALLY_TENANT, TALLY_OTHERS);
	assert_int_equal(v.bucket[0], 2);
	assert_int_equal(v.bucket[1], 1);
	assert_int_equal(v.bucket[12], 1);
	assert_int_equal(v.bucket[13], 1);
	assert_int_equal(v.sum_us, 120002002);
}

static void each_bound_has_a_text(void **state)
{
	for (int kind = 0; kind < TALLY_KINDS; kind++) {
		const char *const *text;
		size_t n = tally_bounds((enum tally_kind)kind, &text);

		assert_true(n > 0 && n <= TALLY_BUCKETS_MAX);
		for (size_t i = 0; i < n; i++)
			assert_non_null(strchr(text[i], '.'));          /* as OpenMetrics writes them */
	}
}

static bool there;

static bool is_there(void *arg, const char *name)
{
	return there || strcmp(name, "stays") == 0;
}

static void a_slot_goes_a_day_after_its_name(void **state)
{
	struct tally *t;

	tally_bound(TALLY_TENANT, 2);
	tally_count(tally_get(TALLY_TENANT, "goes"), 0);
	tally_count(tally_get(TALLY_TENANT, "stays"), 1);
	there = true;
	tally_sweep(TALLY_TENANT, is_there, NULL, 1);
	there = false;
	tally_sweep(TALLY_TENANT, is_there, NULL, 10);
	tally_sweep(TALLY_TENANT, is_there, NULL, 10 + TALLY_GONE_US - 1);
	assert_int_equal(tally_slots(TALLY_TENANT), 2);
	tally_hold();
	tally_sweep(TALLY_TENANT, is_there, NULL, 10 + TALLY_GONE_US);
	assert_int_equal(tally_slots(TALLY_TENANT), 2);         /* somebody reads it */
	tally_release();
	t = tally_get(TALLY_TENANT, "goes");
	tally_enter(t, TALLY_WAITING);
	tally_sweep(TALLY_TENANT, is_there, NULL, 10 + TALLY_GONE_US);
	assert_int_equal(tally_slots(TALLY_TENANT), 2);         /* a call has it */
	tally_leave(t, TALLY_WAITING);
	tally_sweep(TALLY_TENANT, is_there, NULL, 10 + TALLY_GONE_US);
	assert_int_equal(tally_slots(TALLY_TENANT), 1);
	assert_string_equal(see(TALLY_TENANT, 0).name, "stays");
	tally_count(tally_get(TALLY_TENANT, "new"), 2);
	assert_int_equal(tally_slots(TALLY_TENANT), 2);
	assert_int_equal(see(TALLY_TENANT, 1).outcome[2], 1);
	assert_int_equal(see(TALLY_TENANT, 1).outcome[0], 0);
}

static void a_tenant_that_comes_back_keeps_its_slot(void **state)
{
	tally_bound(TALLY_TENANT, 2);
	tally_count(tally_get(TALLY_TENANT, "goes"), 0);
	there = false;
	tally_sweep(TALLY_TENANT, is_there, NULL, 10);
	there = true;
	tally_sweep(TALLY_TENANT, is_there, NULL, 10 + TALLY_GONE_US);
	there = false;
	tally_sweep(TALLY_TENANT, is_there, NULL, 20 + TALLY_GONE_US);
	assert_int_equal(tally_slots(TALLY_TENANT), 1);
}

static void an_exemplar_is_the_last_of_its_bucket(void **state)
{
	struct tally_mark mark = { .us = 7, .wall_us = 9 }, got;
	struct tally *t = tally_get(TALLY_TOOL, "x");

	assert_false(tally_see_mark(TALLY_TOOL, TALLY_OTHERS, 0, &got));
	memset(mark.trace, 0xab, sizeof(mark.trace));
	tally_observe(t, 7, &mark);
	mark.us = 8;
	tally_observe(t, 8, &mark);
	tally_observe(t, 9, NULL);
	assert_true(tally_see_mark(TALLY_TOOL, TALLY_OTHERS, 0, &got));
	assert_memory_equal(&got, &mark, sizeof(mark));
	assert_false(tally_see_mark(TALLY_TOOL, TALLY_OTHERS, 1, &got));
}

static void records_have_codes_up_to_a_bound(void **state)
{
	(void)state;
	tally_record(1);
	tally_record(TALLY_RECORD_CODES - 1);
	tally_record(TALLY_RECORD_CODES);
	assert_int_equal(tally_records(1), 1);
	assert_int_equal(tally_records(TALLY_RECORD_CODES - 1), 1);
	assert_int_equal(tally_records(TALLY_RECORD_CODES), 0);
}

SINGLE_THREAD_SUITE(tally)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_have_codes_up_to_a_bound),
		cmocka_unit_test_setup_teardown(without_a_bound_all_are_other, reset, reset),
		cmocka_unit_test_setup_teardown(slots_are_bounded, reset, reset),
		cmocka_unit_test_setup_teardown(who_is_called_other_is, reset, reset),
		cmocka_unit_test_setup_teardown(a_bound_belongs_to_its_bucket, reset, reset),
		cmocka_unit_test_setup_teardown(each_bound_has_a_text, reset, reset),
		cmocka_unit_test_setup_teardown(a_slot_goes_a_day_after_its_name, reset, reset),
		cmocka_unit_test_setup_teardown(a_tenant_that_comes_back_keeps_its_slot, reset, reset),
		cmocka_unit_test_setup_teardown(an_exemplar_is_the_last_of_its_bucket, reset, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
