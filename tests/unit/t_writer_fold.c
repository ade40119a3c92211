/* Folding while the writer writes: when it begins, that it rides on batches, what is thrown away, what is slowed down and
 * refused, and what stays (SCALE SC-301, SC-303, decision 0054). */

#include "config.h"

#include <pthread.h>
#include <sched.h>

#include "audit/erase.h"
#include "base/clock.h"
#include "base/metric.h"
#include "writer/fold.h"

#include "t_writer.h"
#include "suite.h"

enum { ROWS = 512, MANY = 16384, UNKNOWN = 1 << 30, SETTLE = 8, SETTLE_TAG = 1 << 20 };

static int next_call = 1;

static int64_t rows(const struct fix *f)
{
	return ask(f, "SELECT max(id) FROM rec");
}

static int64_t blocks(const struct fix *f)
{
	return ask(f, "SELECT count(*) FROM blk");
}

static int64_t leftovers(const struct fix *f)
{
	return ask(f, "SELECT count(*) FROM rec r WHERE idx < (SELECT max(first + cnt) FROM blk WHERE log = r.log)");
}

/* Runs the loop until what the store or the counters say is so. */
static void until(struct fix *f, bool (*is)(const struct fix *f, int64_t n), int64_t n)
{
	const bool never = false;

	for (int i = 0; !is(f, n); i++) {
		if (i == WAIT_MS)
			fail_msg("not within %d ms", WAIT_MS);
		(void)ev_loop_run_until(f->loop, &never, 1);
	}
}

struct rest {
	pthread_barrier_t both;
	int n;
	bool through;
};

/* All threads of the lane meet here, so none is in a step. */
static void meet(void *arg)
{
	(void)pthread_barrier_wait(&((struct rest *)arg)->both);
}

static void met(void *arg)
{
	struct rest *r = arg;

	r->through = ++r->n == EV_LANE_THREADS;
}

static int no_change(struct db *db, struct audit_logs *logs, struct err *err)
{
	(void)db;
	(void)logs;
	(void)err;
	return 0;
}

/* Steps of folding that are under way end, and what follows from each: a step, its block, the look at it, a step.  Before
 * a test moves the clock, since what looks at it meanwhile arms its timer behind what is to come. */
static void settle(struct fix *f)
{
	for (int i = 0; i < SETTLE; i++) {
		struct rest r = { .n = 0 };

		assert_int_equal(pthread_barrier_init(&r.both, NULL, EV_LANE_THREADS), 0);
		for (int k = 0; k < EV_LANE_THREADS; k++)
			assert_int_equal(ev_work(f->loop, EV_LANE_FOLD, meet, met, &r), 0);
		if (!ev_loop_run_until(f->loop, &r.through, WAIT_MS))
			fail_msg("folding does not come to rest");
		pthread_barrier_destroy(&r.both);
		assert_int_equal(submit_job(f, SETTLE_TAG, true, no_change), 0);
		wait_idle(f);
	}
}

static void step_clock(struct fix *f, uint64_t us)
{
	settle(f);
	clock_step(us);
}

static bool has_blocks(const struct fix *f, int64_t n)
{
	return blocks(f) >= n;
}

static bool has_leftovers_below(const struct fix *f, int64_t n)
{
	return leftovers(f) < n;
}

static bool waits_for(const struct fix *f, int64_t n)
{
	return (int64_t)metric_get(METRIC_fold_waiting) == n;
}

/* Rows that are in no block. */
static int64_t unfolded(const struct fix *f)
{
	return ask(f, "SELECT count(*) FROM rec r WHERE idx >= coalesce((SELECT max(first + cnt) FROM blk WHERE log = r.log), 0)");
}

static bool has_counted(const struct fix *f, int64_t n)
{
	return metric_get(METRIC_fold_waiting) != UNKNOWN;
}

static bool has_chapters(const struct fix *f, int64_t n)
{
	return ask(f, "SELECT count(*) FROM chap WHERE log = 2") == n;
}

static bool is_queued(const struct fix *f, int64_t n)
{
	return (int64_t)metric_get(METRIC_writer_queue_len) == n;
}

static bool says_that_room_is_short(const struct fix *f, int64_t n)
{
	return ask(f, "SELECT count(*) FROM rec WHERE kind = 1608") == n;
}

static bool has_tail_from(const struct fix *f, int64_t n)
{
	return ask(f, "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'tail_from'), 0)") >= n;
}

/* A writer with long batches that folds; what the start wrote has been counted. */
static void fold_with(struct fix *f, int64_t fold_rows, uint32_t age_s, int64_t plain)
{
	struct writer_fold_limits limits = { .fold_rows = fold_rows, .fold_age_s = age_s, .plain_rows = plain };

	close_writer(f);
	f->limits.batch_max = f->limits.queue_max = MANY;
	f->limits.deadline_ms = 3600000;        /* the clock is stepped while it hangs */
	open_writer(f);
	metric_set(METRIC_fold_waiting, UNKNOWN);
	writer_fold_start(f->w, &limits);
	until(f, has_counted, 0);
}

static void no_answer(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct fix *f = arg;

	assert_int_equal(rc, 0);
	f->idle = --f->pending == 0;
}

/* n records of a tenant in one turn, none of which is durable yet. */
static void add(struct fix *f, int64_t tenant, int n)
{
	for (int i = 0; i < n; i++) {
		struct audit_event ev = call_event(AUDIT_CALL_BEGIN, tenant, next_call++);

		assert_int_equal(writer_audit(f->w, &ev, no_answer, f), 0);
		f->pending++;
		f->idle = false;
	}
}

static void record(struct fix *f, int64_t tenant, int n)
{
	add(f, tenant, n);
	wait_idle(f);
}

/* --- when */

static void all_logs_are_folded_when_so_many_rows_have_come(void **state)
{
	struct fix *f = *state;
	int64_t newest;

	fold_with(f, ROWS, 3600, 1000000);
	record(f, 2, 10);
	record(f, 1, ROWS - 1 - (int)rows(f));
	until(f, waits_for, (int64_t)metric_get(METRIC_fold_waiting));
	assert_int_equal(blocks(f), 0);
	newest = rows(f) + 1;
	record(f, 1, 1);                         /* the last one */
	until(f, has_tail_from, newest);
	assert_int_equal(ask(f, "SELECT count(*) FROM blk WHERE log = 3 AND cnt >= 10"), 1);
	assert_int_equal(unfolded(f), rows(f) - newest);
	assert_int_equal(metric_get(METRIC_fold_waiting), rows(f) - newest);
}

static void a_log_is_folded_when_its_rows_are_old_and_enough(void **state)
{
	struct fix *f = *state;

	clock_fake(UINT64_C(1780000000000000), 500000);
	fold_with(f, 65536, 60, 1000000);
	record(f, 1, WRITER_FOLD_FEW - 1);      /* log.open is one, the oldest */
	record(f, 2, WRITER_FOLD_FEW - 2);
	step_clock(f, UINT64_C(60000000) / 4);     /* they are counted */
	until(f, waits_for, unfolded(f));
	step_clock(f, UINT64_C(45000000) - 1);
	(void)ev_loop_run_until(f->loop, &(bool){ false }, 20);
	assert_int_equal(blocks(f), 0);
	step_clock(f, 1);
	until(f, has_blocks, 1);
	assert_int_equal(ask(f, "SELECT count(*) FROM blk WHERE log <> 2"), 0);
	step_clock(f, UINT64_C(600000000));
	(void)ev_loop_run_until(f->loop, &(bool){ false }, 20);
	assert_int_equal(blocks(f), 1);         /* one too few in log 3 */
	clock_real();
}

/* --- how */

static void a_block_rides_on_a_batch(void **state)
{
	struct fix *f = *state;
	uint64_t batches;

	clock_fake(UINT64_C(1780000000000000), 500000);
	fold_with(f, 65536, 60, 1000000);
	record(f, 1, 300);
	step_clock(f, UINT64_C(80000000));
	until(f, has_blocks, 1);
	fold_with(f, 65536, 60, 1000000);       /* with the first block of a store comes more */
	record(f, 3, 1);
	record(f, 1, 300);
	step_clock(f, UINT64_C(20000000));
	until(f, waits_for, unfolded(f));
	fault_set(FAULT_HANG);
	add(f, 3, 1);
	fault_wait_hanging(f->loop);
	batches = metric_get(METRIC_writer_batches);
	clock_step(UINT64_C(60000000));         /* the proposal is made while the writer hangs */
	until(f, is_queued, 1);
	add(f, 2, 20);
	until(f, is_queued, 21);
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(blocks(f), 2);
	assert_int_equal(metric_get(METRIC_writer_batches) - batches, 2);
	clock_real();
}

enum { LOGS = 96, FIRST_TENANT = 1000 };

static int make_logs(struct db *db, struct audit_logs *logs, struct err *err)
{
	char name[32];
	int rc = 0;

	for (int i = 0; i < LOGS && rc == 0; i++) {
		snprintf(name, sizeof(name), "tenant%d", i);
		rc = audit_log_create(logs, db, FIRST_TENANT + i, name, err);
	}
	return rc;
}

/* Records of many tenants, in turn, that become blocks with the next one. */
static void record_many(struct fix *f)
{
	fold_with(f, 2 * ROWS, 3600, 0);
	assert_int_equal(submit_job(f, 8, true, make_logs), 0);
	wait_idle(f);
	for (int turn = 0; turn < 8; turn++)
		for (int i = 0; i < LOGS; i++)
			add(f, FIRST_TENANT + i, 1);
	wait_idle(f);
	record(f, 1, 2 * ROWS - 1 - (int)rows(f));
	settle(f);
	assert_int_equal(blocks(f), 0);
}

/* A log's few records are read, put and dropped with those of others, or a thousand tenants would need a commit each. */
static void what_becomes_of_few_records_of_many_logs_is_done_together(void **state)
{
	struct fix *f = *state;
	uint64_t batches;

	record_many(f);
	batches = metric_get(METRIC_writer_batches);
	record(f, 1, 1);
	until(f, has_tail_from, 2 * ROWS);
	assert_true(blocks(f) > LOGS);
	assert_true(metric_get(METRIC_writer_batches) - batches < LOGS / 4);
	fold_with(f, 2 * ROWS, 3600, 0);        /* what was there at the start may go */
	batches = metric_get(METRIC_writer_batches);
	until(f, has_leftovers_below, 4);
	assert_true(metric_get(METRIC_writer_batches) - batches < LOGS / 4);
	assert_int_equal(metric_get(METRIC_fold_stuck), 0);
}

static int erase(struct db *db, struct audit_logs *logs, struct err *err)
{
	bool had;

	return audit_erase_record(logs, db, 1, 100, &had, err);
}

/* SC-301 */
static void what_was_made_before_an_erasure_is_made_anew(void **state)
{
	struct fix *f = *state;
	const uint64_t conflicts = metric_get(METRIC_fold_conflicts);

	clock_fake(UINT64_C(1780000000000000), 500000);
	fold_with(f, 65536, 60, 1000000);
	record(f, 1, 300);
	step_clock(f, UINT64_C(20000000));
	until(f, waits_for, unfolded(f));
	fault_set(FAULT_HANG);
	add(f, 3, 1);
	fault_wait_hanging(f->loop);
	assert_int_equal(submit_job(f, 7, true, erase), 0);
	clock_step(UINT64_C(60000000));
	until(f, is_queued, 2);
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(rc_of(f, 7), 0);
	assert_int_equal(blocks(f), 0);
	assert_int_equal(metric_get(METRIC_fold_conflicts) - conflicts, 1);
	step_clock(f, UINT64_C(1000000));
	until(f, has_blocks, 1);
	clock_real();
}

/* --- too much */

/* What waits has become exactly n in one turn of the loop; -1, or why calls are refused then. */
static int refused_at(struct fix *f, int64_t n, const char **ret_why)
{
	fold_with(f, ROWS, 3600, 1000000);
	record(f, 1, (int)(n - rows(f)));
	return writer_state(f->w, ret_why);
}

/* How many blocks the writer makes itself when n wait, and calls go on. */
static uint64_t made_by_writer(struct fix *f, int64_t n)
{
	const uint64_t before = metric_get(METRIC_fold_by_writer);
	const char *why = "";

	assert_int_equal(refused_at(f, n, &why), 0);
	until(f, has_tail_from, n);
	return metric_get(METRIC_fold_by_writer) - before;
}

static void calls_are_refused_when_eight_times_as_many_wait(void **state)
{
	struct fix *f = *state;

	assert_true(made_by_writer(f, WRITER_FOLD_REFUSE * ROWS) > 0);  /* for more than twice as many waited */
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1610"), 0);
	assert_int_equal(writer_reserve(f->w, 1), 0);
	writer_release(f->w, 1);
}

static void calls_are_refused_when_more_wait(void **state)
{
	struct fix *f = *state;
	const char *why = "";

	assert_int_equal(refused_at(f, WRITER_FOLD_REFUSE * ROWS + 1, &why), ERR_AUDIT);
	assert_string_equal(why, "too many records wait to become blocks");
	assert_int_equal(writer_reserve(f->w, 1), ERR_AUDIT);
	until(f, has_tail_from, WRITER_FOLD_REFUSE * ROWS + 1);
	assert_int_equal(writer_state(f->w, &why), 0);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1610 AND log = 1"), 1);
}

static void the_writer_makes_no_block_when_twice_as_many_wait(void **state)
{
	assert_int_equal(made_by_writer(*state, WRITER_FOLD_BEHIND * ROWS), 0);
}

static void the_writer_makes_blocks_when_more_wait(void **state)
{
	assert_true(made_by_writer(*state, WRITER_FOLD_BEHIND * ROWS + 1) > 0);
}

static void what_waited_at_the_start_refuses_nothing(void **state)
{
	struct fix *f = *state;
	const uint64_t own = metric_get(METRIC_fold_by_writer);

	close_writer(f);
	f->limits.batch_max = f->limits.queue_max = MANY;
	open_writer(f);
	record(f, 1, WRITER_FOLD_REFUSE * ROWS + 100);
	fold_with(f, ROWS, 3600, 1000000);
	assert_int_equal(writer_state(f->w, NULL), 0);
	until(f, has_tail_from, WRITER_FOLD_REFUSE * ROWS + 100);
	assert_int_equal(metric_get(METRIC_fold_by_writer), own);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1610"), 0);
}

/* SCALE D2 */
static void sixty_four_blocks_get_a_chapter(void **state)
{
	struct fix *f = *state;

	fold_with(f, 16, 3600, 1000000);
	for (int i = 0; i < 63; i++) {
		record(f, 1, 16);
		until(f, has_tail_from, rows(f));
	}
	until(f, has_chapters, 7);              /* of 8 blocks each */
	assert_int_equal(ask(f, "SELECT max(cnt) FROM chap"), ask(f, "SELECT sum(cnt) FROM (SELECT cnt FROM blk WHERE log = 2 ORDER BY first LIMIT 8)"));
	for (int i = 0; i < 2; i++) {
		record(f, 1, 16);
		until(f, has_tail_from, rows(f));
	}
	until(f, has_chapters, 1);
	assert_int_equal(ask(f, "SELECT count(*) FROM chap"), 1);
	assert_int_equal(ask(f, "SELECT (SELECT cnt FROM chap) = (SELECT sum(cnt) FROM (SELECT cnt FROM blk WHERE log = 2 "
			     "ORDER BY first LIMIT 64))"), 1);
}

/* --- what goes */

static void rows_behind_the_first_blocks_stay_for_some_time(void **state)
{
	struct fix *f = *state;
	int64_t left;

	clock_fake(UINT64_C(1780000000000000), 500000);
	fold_with(f, ROWS, 3600, 0);
	record(f, 1, ROWS);
	until(f, has_tail_from, ROWS);
	left = leftovers(f);
	assert_true(left >= ROWS);
	step_clock(f, (WRITER_FOLD_GRACE_S - 1) * UINT64_C(1000000));
	record(f, 1, 1);
	(void)ev_loop_run_until(f->loop, &(bool){ false }, 50);
	assert_int_equal(leftovers(f), left);
	step_clock(f, UINT64_C(1000000));
	until(f, has_leftovers_below, 4);
	clock_real();
}

/* SC-305: not one more; as many as there are when all were in blocks once. */
static void a_start_takes_so_many_records_that_were_never_folded(void **state)
{
	struct fix *f = *state;
	int64_t waiting;

	record(f, 1, ROWS);
	close_writer(f);
	waiting = unfolded(f);
	f->limits.waiting_max = waiting - 1;
	assert_int_equal(writer_open(f->loop, &(struct keyfile_place){ f->dir, writer_master }, "test", &f->limits, NULL, &f->w,
				     &f->recovered, &f->err), ERR_CONFLICT);
	assert_non_null(strstr(f->err.msg, "wait to become blocks"));
	assert_non_null(strstr(f->err.hint, "toolcrib migrate"));
	assert_int_equal(unfolded(f), waiting);
	f->limits.waiting_max = waiting;
	open_writer(f);                         /* where each of them gets its end */
	f->limits.waiting_max = 0;
	fold_with(f, ROWS, 3600, 1000000);
	record(f, 1, ROWS);
	until(f, has_tail_from, ROWS);
	record(f, 1, 10);
	close_writer(f);
	f->limits.waiting_max = 1;
	open_writer(f);
}

static void so_many_of_the_newest_rows_stay(void **state)
{
	struct fix *f = *state;

	fold_with(f, ROWS, 3600, 700);
	record(f, 1, ROWS);
	until(f, has_tail_from, ROWS);
	fold_with(f, ROWS, 3600, 700);          /* what was there at the start may go */
	for (int i = 0; i < 4; i++) {
		record(f, 1, ROWS);
		until(f, has_tail_from, rows(f));
	}
	until(f, has_leftovers_below, 700 + ROWS + 1);
	assert_true(ask(f, "SELECT count(*) FROM rec") >= 700);
	assert_int_equal(ask(f, "SELECT count(*) = max(id) - min(id) + 1 FROM rec"), 1);        /* the newest */
}

/* SC-109: rows that a block has replaced are the first to go when less than space_warn percent of the disk are free. */
static void rows_of_blocks_go_when_room_is_short(void **state)
{
	struct fix *f = *state;
	const uint64_t dropped = metric_get(METRIC_fold_rows_dropped);

	clock_fake(UINT64_C(1780000000000000), 500000);
	fold_with(f, ROWS, 60, 1000000);
	record(f, 1, ROWS);
	until(f, has_tail_from, ROWS);
	fold_with(f, ROWS, 60, 1000000);        /* what was there at the start may go */
	assert_true(leftovers(f) >= ROWS);
	step_clock(f, UINT64_C(20000000));
	record(f, 1, 1);
	step_clock(f, UINT64_C(20000000));
	(void)ev_loop_run_until(f->loop, &(bool){ false }, 50);
	assert_int_equal(metric_get(METRIC_fold_rows_dropped), dropped);
	f->limits.space_warn = 101;             /* no disk has so much */
	fold_with(f, ROWS, 60, 1000000);
	step_clock(f, UINT64_C(20000000));         /* room is looked at, and that is recorded */
	until(f, says_that_room_is_short, 1);
	step_clock(f, UINT64_C(20000000));         /* what came is counted */
	until(f, has_leftovers_below, 4);
	clock_real();
}

static void a_close_waits_for_what_is_under_way(void **state)
{
	struct fix *f = *state;

	fold_with(f, ROWS, 3600, 1000000);
	for (int i = 0; i < 5; i++) {
		add(f, 1, ROWS);
		wait_idle(f);
		close_writer(f);
		fold_with(f, ROWS, 3600, 1000000);
	}
	until(f, has_tail_from, 5 * ROWS);
	assert_int_equal(ask(f, "SELECT count(*) FROM blk a JOIN blk b ON b.log = a.log AND b.first > a.first "
			     "AND b.first < a.first + a.cnt"), 0);
}

SUITE(writer_fold)
{
	const struct CMUnitTest tests[] = {
		T(all_logs_are_folded_when_so_many_rows_have_come), T(a_log_is_folded_when_its_rows_are_old_and_enough),
		T(a_block_rides_on_a_batch), T(what_becomes_of_few_records_of_many_logs_is_done_together), T(what_was_made_before_an_erasure_is_made_anew),
		T(calls_are_refused_when_eight_times_as_many_wait), T(calls_are_refused_when_more_wait),
		T(the_writer_makes_no_block_when_twice_as_many_wait), T(the_writer_makes_blocks_when_more_wait),
		T(sixty_four_blocks_get_a_chapter), T(what_waited_at_the_start_refuses_nothing), T(rows_behind_the_first_blocks_stay_for_some_time),
		T(a_start_takes_so_many_records_that_were_never_folded), T(so_many_of_the_newest_rows_stay), T(rows_of_blocks_go_when_room_is_short), T(a_close_waits_for_what_is_under_way),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
