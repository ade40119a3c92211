/* A disk that hangs, is full, fails; a process that dies. */

#include "config.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"

#include "t_writer.h"
#include "suite.h"

enum { DEADLINE_MS = 150, KILLS = 5 };     /* far above what a busy machine takes for a turn */

static int set_up_impatient(void **state)
{
	struct fix *f;

	if (set_up(state) != 0)
		return -1;
	f = *state;
	close_writer(f);
	f->limits.deadline_ms = DEADLINE_MS;
	open_writer(f);
	return 0;
}

/* A call begins, however long a busy machine takes for it: no time passes for the writer.  As submit(). */
static int begin_unhurried(struct fix *f, int call)
{
	int rc;

	clock_fake(clock_wall_us(), clock_mono_us());
	rc = submit(f, AUDIT_CALL_BEGIN, 1, call);
	wait_idle(f);
	clock_real();
	return rc;
}

struct late {
	bool seen;
	int64_t tenant;
	int call;
};

static void on_late(void *arg, const struct audit_event *begin)
{
	struct late *l = arg;

	assert_false(l->seen);
	l->seen = true;
	l->tenant = begin->tenant_id;
	memcpy(&l->call, begin->call, sizeof l->call);
}

/* AUDIT */
static void hanging_disk_refuses_in_time_and_tells_of_late_begins(void **state)
{
	struct fix *f = *state;
	struct late late = { 0 };
	const char *why = NULL;

	writer_on_late(f->w, on_late, &late);
	fault_set(FAULT_HANG);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 2, 1), 0);
	fault_wait_hanging(f->loop);
	wait_idle(f);
	assert_int_equal(rc_of(f, 1), ERR_AUDIT);
	assert_int_equal(writer_state(f->w, &why), ERR_AUDIT);
	assert_string_equal(why, "the disk of the store does not answer");
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 2, 2), ERR_AUDIT);         /* at once */
	assert_int_equal(writer_reserve(f->w, 1), ERR_AUDIT);
	assert_int_equal(submit_job(f, 3, false, make_tenants), ERR_AUDIT);
	fault_set(FAULT_NONE);
	assert_true(ev_loop_run_until(f->loop, &late.seen, WAIT_MS));
	assert_int_equal(late.tenant, 2);
	assert_int_equal(late.call, 1);
	assert_int_equal(writer_state(f->w, &why), ERR_OK);
	assert_int_equal(submit(f, AUDIT_CALL_END, 2, 1), 0);
	wait_idle(f);
	assert_int_equal(rc_of(f, -1), 0);
}

static void what_the_writer_has_not_taken_is_taken_back(void **state)
{
	struct fix *f = *state;

	fault_set(FAULT_HANG);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 1), 0);
	fault_wait_hanging(f->loop);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 2), 0);
	assert_int_equal(submit_job(f, 3, false, make_tenants), 0);
	assert_int_equal(submit(f, AUDIT_CALL_END, 1, 4), 0);
	wait_idle(f);
	for (int tag = 1; tag <= 3; tag++)
		assert_int_equal(rc_of(f, tag), ERR_AUDIT);
	assert_int_equal(rc_of(f, -4), ERR_AUDIT);
	fault_set(FAULT_NONE);
	close_writer(f);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1001"), 1);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1002"), 1);      /* an end is never dropped */
}

static void running_job_is_waited_for(void **state)
{
	struct fix *f = *state;
	struct late late = { 0 };

	fault_set(FAULT_HANG);
	writer_on_late(f->w, on_late, &late);
	assert_int_equal(submit_job(f, 1, true, make_tenants), 0);      /* fails, there are such tenants; the batch hangs */
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(rc_of(f, 1), ERR_CONFLICT);
}

static void full_disk_refuses_begins_keeps_ends_and_resumes(void **state)
{
	struct fix *f = *state;
	const char *why = NULL;
	bool never = false;

	assert_int_equal(begin_unhurried(f, 1), 0);
	fault_set(FAULT_FULL);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 2), 0);
	wait_idle(f);
	assert_int_equal(rc_of(f, 2), ERR_AUDIT);
	assert_int_equal(writer_state(f->w, &why), ERR_AUDIT);
	assert_non_null(strstr(why, "no space"));
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 3), ERR_AUDIT);
	assert_int_equal(submit(f, AUDIT_CALL_END, 1, 1), 0);
	wait_idle(f);
	assert_int_equal(rc_of(f, -1), ERR_AUDIT);      /* by the deadline; the record still waits */
	fault_set(FAULT_NONE);
	for (int i = 4; begin_unhurried(f, i) != 0; i = 4)
		(void)ev_loop_run_until(f->loop, &never, 5);
	assert_int_equal(rc_of(f, 4), 0);
	assert_int_equal(writer_state(f->w, NULL), ERR_OK);
	close_writer(f);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1001"), 2);
	assert_int_equal(ask(f, "SELECT beg FROM rec WHERE kind = 1002"), 1);
	assert_int_equal(ask(f, "SELECT count(*) = max(idx) + 1 FROM rec WHERE log = 2"), 1);
	/* How long it was, by the one record of it, before the first that came through again. */
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1610 AND log = 1 AND ext IS NOT NULL"), 1);
	assert_int_equal(ask(f, "SELECT (SELECT id FROM rec WHERE kind = 1610) < (SELECT id FROM rec WHERE kind = 1002)"), 1);
}

static void count_records(void *arg)
{
	++*(unsigned *)arg;
}

/* OP-103: it does not flap, and nobody need call for it to be well again. */
static void a_store_that_cannot_be_written_is_tried_until_it_can_be(void **state)
{
	struct fix *f = *state;
	const char *why = NULL;
	bool never = false;
	unsigned told = 0;
	uint64_t turned;

	assert_int_equal(begin_unhurried(f, 1), 0);
	writer_on_records(f->w, count_records, &told);
	fault_set(FAULT_FULL);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 2), 0);
	wait_idle(f);
	turned = writer_turned_us(f->w);
	for (int i = 0; i < 60; i++) {
		(void)ev_loop_run_until(f->loop, &never, 5);
		assert_int_equal(writer_state(f->w, &why), ERR_AUDIT);
		assert_string_equal(why, "no space is left on the disk of the store");
		assert_string_equal(writer_why_name(writer_why(f->w)), "full");
	}
	assert_true(writer_turned_us(f->w) > turned);
	assert_int_equal(told, 0);
	fault_set(FAULT_NONE);
	for (int i = 0; writer_state(f->w, NULL) != ERR_OK && i < 2000; i++)
		(void)ev_loop_run_until(f->loop, &never, 5);
	assert_int_equal(writer_state(f->w, NULL), ERR_OK);
	for (int i = 0; told == 0 && i < 2000; i++)
		(void)ev_loop_run_until(f->loop, &never, 5);
	assert_int_equal(told, 1);
	close_writer(f);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1610"), 1);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1001"), 1);
}

/* TK-37: only what is true is told of a change: one that is under way is waited for, one with an end is kept. */
static void tk37_a_change_is_waited_for_and_an_end_kept(void **state)
{
	struct fix *f = *state;
	struct audit_event list = call_event(AUDIT_LIST, 1, 9), end = call_event(AUDIT_CALL_END, 1, 1);
	bool never = false;

	assert_int_equal(begin_unhurried(f, 1), 0);
	fault_set(FAULT_HANG);
	assert_int_equal(submit_change(f, &list, 1, "under way", 2), 0);
	fault_wait_hanging(f->loop);
	assert_int_equal(submit_change(f, &list, 1, "not taken", 3), 0);
	(void)ev_loop_run_until(f->loop, &never, 3 * DEADLINE_MS);
	assert_int_equal(rc_of(f, 3), ERR_AUDIT);
	assert_int_equal(f->n, 2);              /* nothing is said of the other */
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(rc_of(f, 2), 0);
	fault_set(FAULT_FULL);
	assert_int_equal(submit_change(f, &list, 1, "full", 4), 0);
	assert_int_equal(submit_change(f, &end, 1, "ended", 5), 0);
	(void)ev_loop_run_until(f->loop, &never, 3 * DEADLINE_MS);
	assert_int_equal(rc_of(f, 4), ERR_AUDIT);
	assert_int_equal(submit_change(f, &list, 1, "refused", 6), ERR_AUDIT);
	assert_int_equal(f->pending, 1);
	fault_set(FAULT_NONE);
	wait_idle(f);
	assert_int_equal(rc_of(f, 5), 0);
	assert_int_equal(ask(f, "SELECT group_concat(key) = 'ended,under way' FROM (SELECT key FROM meta "
				"WHERE value = 'x' ORDER BY key)"), 1);
	assert_int_equal(ask(f, "SELECT beg FROM rec WHERE kind = 1002"), 1);
}

/* Decision 0139: however many pages a commit has, they are one write of the log, and then there is one flush. */
static void a_commit_is_one_write_of_the_log(void **state)
{
	struct fix *f = *state;
	unsigned writes, syncs;

	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 1), 0);
	wait_idle(f);
	writes = fault_disk.writes;
	syncs = fault_syncs();
	for (int i = 2; i < 66; i++)
		assert_int_equal(submit(f, AUDIT_CALL_BEGIN, i % 2 + 1, i), 0);
	wait_idle(f);
	syncs = fault_syncs() - syncs;
	assert_in_range(syncs, 1, 63);
	assert_int_equal(fault_disk.writes - writes, syncs);
	assert_int_equal(rc_of(f, 65), 0);
}

static int notice(struct fix *f, int call)
{
	struct audit_event ev = call_event(AUDIT_LIST, 1, call);

	return writer_audit(f->w, &ev, NULL, NULL);
}

/* What nobody waits for is kept while the disk is full, and no more of it than the queue may have. */
static void notices_kept_for_a_full_disk_have_a_limit(void **state)
{
	const struct writer_limits limits = WRITER_LIMITS_DEFAULT;
	struct fix *f = *state;
	bool never = false;
	int rc;

	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 1), 0);
	wait_idle(f);
	fault_set(FAULT_FULL);
	for (size_t i = 0; i < limits.queue_max; i++)
		assert_int_equal(notice(f, (int)i), 0);
	assert_int_equal(notice(f, 0), ERR_AUDIT);
	(void)ev_loop_run_until(f->loop, &never, 50);
	assert_int_equal(notice(f, 0), ERR_AUDIT);      /* they are kept, not forgotten */
	assert_int_equal(submit(f, AUDIT_CALL_END, 1, 1), 0);
	fault_set(FAULT_NONE);
	for (int i = 0; (rc = notice(f, 0)) != 0 && i < 2000; i++)
		(void)ev_loop_run_until(f->loop, &never, 5);
	assert_int_equal(rc, 0);
	wait_idle(f);
	close_writer(f);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1010"), (int)limits.queue_max + 1);
	assert_int_equal(ask(f, "SELECT count(*) FROM rec WHERE kind = 1002"), 1);
}

/* An item that gives up while the writer pauses leaves nothing that could come back and end the refusal. */
static void giving_up_during_the_pause_does_not_refuse_for_ever(void **state)
{
	struct fix *f = *state;
	bool never = false;
	int rc;

	fault_set(FAULT_FULL);
	assert_int_equal(submit(f, AUDIT_CALL_DENIED, 1, 1), 0);
	wait_idle(f);
	assert_int_equal(submit(f, AUDIT_CALL_DENIED, 1, 2), 0);
	wait_idle(f);
	assert_int_equal(rc_of(f, 2), ERR_AUDIT);
	fault_set(FAULT_NONE);
	for (int i = 0; (rc = submit(f, AUDIT_CALL_BEGIN, 1, 3)) != 0 && i < 200; i++)
		(void)ev_loop_run_until(f->loop, &never, 5);
	assert_int_equal(rc, 0);
}

static void full_disk_undoes_a_change(void **state)
{
	struct fix *f = *state;

	fault_set(FAULT_FULL);
	assert_int_equal(submit_job(f, 1, false, make_tenants), 0);
	wait_idle(f);
	assert_true(rc_of(f, 1) < 0);
	fault_set(FAULT_NONE);
}

static void full_disk_does_not_keep_the_process(void **state)
{
	struct fix *f = *state;

	fault_set(FAULT_FULL);
	assert_int_equal(submit(f, AUDIT_CALL_END, 1, 1), 0);
	(void)writer_close(&f->w, 50, &f->err);
	assert_int_equal(f->n, 1);
	assert_int_equal(f->log[0].rc, ERR_AUDIT);
}

/* AUDIT A-216 */
static void failed_flush_stops_the_writer_for_good(void **state)
{
	struct fix *f = *state;
	unsigned syncs;

	fault_set(FAULT_HANG);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 1), 0);
	fault_wait_hanging(f->loop);
	assert_int_equal(submit(f, AUDIT_CALL_END, 1, 2), 0);
	fault_set(FAULT_SYNC);
	wait_idle(f);
	assert_int_equal(rc_of(f, 1), ERR_AUDIT);
	assert_int_equal(rc_of(f, -2), ERR_AUDIT);
	fault_set(FAULT_NONE);
	syncs = fault_syncs();
	assert_int_equal(writer_state(f->w, NULL), ERR_IO);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 3), ERR_AUDIT);
	assert_int_equal(submit(f, AUDIT_CALL_END, 1, 3), ERR_AUDIT);
	assert_int_equal(submit_job(f, 4, false, make_tenants), ERR_AUDIT);
	assert_int_equal(writer_close(&f->w, WAIT_MS, &f->err), ERR_IO);
	assert_int_equal(fault_syncs(), syncs);         /* nothing is flushed a second time */
	open_writer(f);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 5), 0);
	wait_idle(f);
	assert_int_equal(rc_of(f, 5), 0);
}

/* AUDIT A-211 */
static void room_is_booked(void **state)
{
	struct fix *f = *state;

	assert_int_equal(writer_reserve(f->w, 1 << 20), 0);
	assert_int_equal(writer_reserve(f->w, SIZE_MAX / 2), ERR_AUDIT);
	writer_release(f->w, 1 << 20);
	close_writer(f);
	f->limits.space_floor = UINT64_MAX / 2;         /* more than any disk has */
	open_writer(f);
	assert_int_equal(writer_reserve(f->w, 1), ERR_AUDIT);
	assert_int_equal(submit(f, AUDIT_CALL_BEGIN, 1, 1), ERR_AUDIT);
	assert_int_equal(submit(f, AUDIT_CALL_END, 1, 2), 0);
	wait_idle(f);
	assert_int_equal(rc_of(f, -2), 0);
}

static void closing_a_hanging_store_ends_in_time(void **state)
{
	pid_t child = fork();
	int status;

	/* In a process of its own, for the thread that hangs cannot be ended; no thread may run before. */
	if (child == 0) {
		struct fix *g = NULL;

		if (set_up_impatient((void **)&g) != 0)
			_exit(2);
		fault_set(FAULT_HANG);
		(void)submit(g, AUDIT_CALL_BEGIN, 1, 1);
		fault_wait_hanging(g->loop);
		status = writer_close(&g->w, 10, &g->err);
		tmpdir_remove(g->dir);
		_exit(status == ERR_TIMEOUT ? 0 : 1);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

struct victim {
	struct fix *f;
	int out, next;
	bool never;
};

static void victim_begin(struct victim *v);

struct acked { int64_t tenant, idx; int call, kind; };

struct step {
	struct victim *v;
	int64_t tenant;
	int call;
	bool begun;
};

static void victim_recorded(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct step *s = arg;
	struct acked a = { s->tenant, receipt ? receipt->idx : -1, s->call, s->begun ? AUDIT_CALL_END : AUDIT_CALL_BEGIN };
	struct audit_event ev;

	if (rc < 0 || write(s->v->out, &a, sizeof a) != sizeof a)
		_exit(3);
	if (s->begun) {
		struct victim *v = s->v;

		free(s);
		victim_begin(v);
		return;
	}
	s->begun = true;
	ev = call_event(AUDIT_CALL_END, s->tenant, s->call);
	if (writer_audit(s->v->f->w, &ev, victim_recorded, s) < 0)
		_exit(4);
}

static void victim_begin(struct victim *v)
{
	struct step *s = calloc(1, sizeof *s);
	struct audit_event ev;

	s->v = v;
	s->call = ++v->next;
	s->tenant = s->call % TENANTS + 1;
	ev = call_event(AUDIT_CALL_BEGIN, s->tenant, s->call);
	if (writer_audit(v->f->w, &ev, victim_recorded, s) < 0)
		_exit(5);
}

static void victim_main(struct fix *f, int out, int round)
{
	struct victim v = { .f = f, .out = out, .next = round * 1000000 };

	f->loop = ev_loop_new();
	open_writer(f);
	for (int i = 0; i < 8; i++)
		victim_begin(&v);
	ev_loop_run_until(f->loop, &v.never, 60000);
	_exit(6);
}

/* Kill after n acknowledgements, and read what else was acknowledged. */
static size_t kill_a_victim(struct fix *f, int round, size_t n, struct acked *acked, size_t max)
{
	size_t got = 0;
	int fds[2], status;
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		close(fds[0]);
		victim_main(f, fds[1], round);
	}
	close(fds[1]);
	while (got < max && read(fds[0], &acked[got], sizeof *acked) == sizeof *acked)
		if (++got == n)
			kill(child, SIGKILL);
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_true(got >= n);
	return got;
}

/* AUDIT */
static void acknowledged_records_survive_kill(void **state)
{
	struct fix *f = *state;
	static struct acked acked[20000];
	char sql[300];

	close_writer(f);
	ev_loop_free(&f->loop);         /* children make their own */
	for (int round = 1; round <= KILLS; round++) {
		size_t n = kill_a_victim(f, round, (size_t)(37 * round), acked, 20000);

		f->loop = ev_loop_new();
		open_writer(f);
		for (size_t i = 0; i < n; i += n / 40 + 1) {
			snprintf(sql, sizeof sql, "SELECT count(*) FROM rec JOIN log ON log.id = log WHERE tenant_id = %lld AND idx = %lld "
				 "AND kind = %d AND hex(substr(call, 1, 4)) = '%02X%02X%02X%02X'",
				 (long long)acked[i].tenant, (long long)acked[i].idx, acked[i].kind, acked[i].call & 0xff,
				 acked[i].call >> 8 & 0xff, acked[i].call >> 16 & 0xff, acked[i].call >> 24 & 0xff);
			assert_int_equal(ask(f, sql), 1);
		}
		snprintf(sql, sizeof sql, "SELECT count(*) FROM rec WHERE kind = %d", AUDIT_SERVER_CRASH);
		assert_int_equal(ask(f, sql), round);
		assert_int_equal(ask(f, "SELECT count(*) FROM rec b WHERE kind = 1001 AND NOT EXISTS (SELECT 1 FROM rec e "
					"WHERE e.log = b.log AND e.beg = b.idx)"), 0);
		assert_int_equal(ask(f, "SELECT count(*) FROM (SELECT 1 FROM rec WHERE kind IN (1002, 1004) GROUP BY call HAVING count(*) > 1)"), 0);
		assert_true(f->recovered <= 8);
		close_writer(f);
		ev_loop_free(&f->loop);
	}
	f->loop = ev_loop_new();
}

#define I(name) cmocka_unit_test_setup_teardown(name, set_up_impatient, tear_down)

SUITE(fault)
{
	const struct CMUnitTest tests[] = {
		I(hanging_disk_refuses_in_time_and_tells_of_late_begins), I(what_the_writer_has_not_taken_is_taken_back),
		I(running_job_is_waited_for), I(tk37_a_change_is_waited_for_and_an_end_kept), T(notices_kept_for_a_full_disk_have_a_limit), I(full_disk_refuses_begins_keeps_ends_and_resumes), I(a_store_that_cannot_be_written_is_tried_until_it_can_be), T(full_disk_undoes_a_change),
		I(giving_up_during_the_pause_does_not_refuse_for_ever),
		T(a_commit_is_one_write_of_the_log), T(full_disk_does_not_keep_the_process), T(failed_flush_stops_the_writer_for_good), T(room_is_booked),
		cmocka_unit_test(closing_a_hanging_store_ends_in_time), T(acknowledged_records_survive_kill),
	};

	signal(SIGPIPE, SIG_IGN);
	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
