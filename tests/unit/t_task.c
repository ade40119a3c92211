/* Tasks over a real writer, on a clock that the test steps: each state and each event, what a full tenant is refused and
 * at which number, when what has ended goes, what a start makes of what ran, and whose result cannot be opened. */
#include "config.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/metric.h"
#include "base/text.h"
#include "keys/keys.h"
#include "task/task.h"

#include "t_writer.h"
#include "suite.h"

#define SECOND UINT64_C(1000000)
#define START_US UINT64_C(1800000000000000)
#define TTL_MS UINT64_C(3600000)
#define PASS (60 * SECOND)              /* at most, between two looks for what is over */

static const uint8_t digest[32] = { 7 }, call_id[16] = { 9 };

struct rig { struct fix *f; struct tasks *tasks; int stops, calls; };
struct told {                           /* what came back */
	bool done;
	int rc;
	char id[TASK_ID_LEN + 1];
	struct str text;
	bool has_text;
};

static void on_made(void *arg, int rc, struct task *t)
{
	struct told *told = arg;

	assert_true((rc == 0) == (t != NULL));
	told->rc = rc;
	if (t)
		memcpy(told->id, t->id, sizeof(told->id));
	told->done = true;
}

static void on_end(void *arg, int rc, const struct audit_receipt *receipt)
{
	struct told *told = arg;

	(void)receipt;
	told->rc = rc;
	told->done = true;
}

static void on_done(void *arg, int rc)
{
	on_end(arg, rc, NULL);
}

static void on_result(void *arg, int rc, const char *text, size_t len)
{
	struct told *told = arg;

	told->has_text = text != NULL;
	if (text)
		str_put(&told->text, text, len);
	on_end(arg, rc, NULL);
}

static void on_stop(void *run)
{
	((struct rig *)run)->stops++;
}

static void wait_told(struct rig *r, struct told *told)
{
	assert_true(ev_loop_run_until(r->f->loop, &told->done, WAIT_MS));
}

static int create_of(struct rig *r, int64_t tenant_id, int64_t principal_id, struct told *told)
{
	const struct task_new n = { .tenant_id = tenant_id, .principal_id = principal_id, .prn = "prn_a", .cred = "7Qm3",
		.tool = "shop/pay", .name = "pay", .tdef = digest, .call = call_id, .ttl_ms = TTL_MS, .poll_ms = 1000,
		.stop = on_stop, .run = r };
	struct audit_event ev = call_event(AUDIT_TASK_CREATE, tenant_id, ++r->calls);
	int rc;

	*told = (struct told){ .text = STR_INIT };
	rc = task_create(r->tasks, &n, &ev, 1, on_made, told);
	assert_false(told->done);
	if (rc == 0) {
		wait_told(r, told);
		rc = told->rc;
	}
	return rc;
}

static struct task *create(struct rig *r)
{
	struct told told;

	assert_int_equal(create_of(r, 1, 11, &told), 0);
	return task_by_id(r->tasks, told.id);
}

static int end_begin(struct rig *r, struct task *t, enum task_state state, size_t len, struct told *told)
{
	struct audit_event ev = call_event(AUDIT_CALL_END, t->tenant_id, ++r->calls);
	char *text = calloc(1, len + 1);
	int rc;

	memset(text, 'x', len);
	*told = (struct told){ .text = STR_INIT };
	rc = task_end(r->tasks, t, &ev, 1, &(struct task_answer){ .state = state, .text = text, .len = len }, on_end, told);
	free(text);
	return rc;
}

static int end(struct rig *r, struct task *t, enum task_state state, size_t len)
{
	struct told told;
	int rc = end_begin(r, t, state, len, &told);

	if (rc < 0)
		return rc;
	wait_told(r, &told);
	return told.rc;
}

static int cancel_begin(struct rig *r, struct task *t, struct told *told)
{
	struct audit_event ev;

	audit_event_init(&ev, AUDIT_TASK_CANCEL, t->tenant_id);
	ev.prn = "prn_a";
	*told = (struct told){ .text = STR_INIT };
	return task_cancel(r->tasks, t, &ev, on_done, told);
}

/* The text of a result, or an error's name; "-": there is none. */
static void result(struct rig *r, struct task *t, int rc, const char *text)
{
	struct told told = { .text = STR_INIT };

	assert_int_equal(task_result(r->tasks, t, on_result, &told), 0);
	assert_false(told.done);
	wait_told(r, &told);
	assert_int_equal(told.rc, rc);
	assert_int_equal(told.has_text, text != NULL);
	if (text)
		assert_string_equal(str_text(&told.text), text);
	str_fini(&told.text);
}

static void open_tasks(struct rig *r)
{
	const struct task_env env = { r->f->loop, r->f->w, { r->f->dir, writer_master }, NULL, 0, 0 };

	assert_int_equal(tasks_open(&env, &r->tasks, &r->f->err), 0);
}

static int set_up_tasks(void **state)
{
	struct rig *r = calloc(1, sizeof *r);

	clock_fake(START_US, 1000 * SECOND);
	set_up((void **)&r->f);
	open_tasks(r);
	*state = r;
	return 0;
}

static int tear_down_tasks(void **state)
{
	struct rig *r = *state;

	tasks_close(&r->tasks);
	tear_down((void **)&r->f);
	clock_real();
	free(r);
	return 0;
}

/* Everything that is due now has been done, in the store too. */
static void settle(struct rig *r)
{
	for (int i = 0; i < 3; i++) {
		assert_int_equal(submit(r->f, AUDIT_CALL_BEGIN, 2, 1000 + ++r->calls), 0);
		wait_idle(r->f);
	}
}

/* As another program that finds the store closed; the index is read anew. */
static void change_store(struct rig *r, const char *text)
{
	sqlite3 *raw;

	tasks_close(&r->tasks);
	close_writer(r->f);
	assert_int_equal(sqlite3_open_v2(r->f->path, &raw, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	if (sqlite3_exec(raw, text, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", text, sqlite3_errmsg(raw));
	sqlite3_close(raw);
	open_writer(r->f);
	open_tasks(r);
}

/* So many rows more, and the index read anew. */
static void seed(struct rig *r, int n, const char *tenant_id, const char *principal_id, enum task_state state, uint64_t bytes)
{
	static char first = 'a';
	char text[800];

	snprintf(text, sizeof text,
		 "WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < %d)"
		 " INSERT INTO task(tid, tenant_id, principal_id, prn, tool, name, tdef, state, round, reruns, first_call, call, created_us,"
		 " updated_us, ends_us, poll_ms, bytes) SELECT printf('%c%%021d', n), %s, %s, 'prn_b', 't', 't', x'00', %d, 1, 0, x'00', x'00',"
		 " %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", 1000, %" PRIu64 " FROM i",
		 n, first++, tenant_id, principal_id, state, START_US, START_US, START_US + 3600 * SECOND, bytes);
	change_store(r, text);
}

/* --- states and events */

static void what_works(void **state)
{
	struct rig *r = *state;
	struct task *t = create(r);
	struct told told;

	assert_int_equal(t->state, TASK_WORKING);
	assert_int_equal(strlen(t->id), TASK_ID_LEN);
	assert_int_equal(t->ends_us - t->created_us, TTL_MS * 1000);
	assert_int_equal(ask(r->f, "SELECT state FROM task"), TASK_WORKING);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1021"), 1);
	assert_ptr_equal(task_find(r->tasks, 1, 11, t->id, TASK_ID_LEN), t);
	assert_null(task_find(r->tasks, 1, 12, t->id, TASK_ID_LEN));
	assert_null(task_find(r->tasks, 2, 11, t->id, TASK_ID_LEN));
	assert_null(task_find(r->tasks, 1, 11, t->id, TASK_ID_LEN - 1));
	assert_null(task_find(r->tasks, 1, 11, "", 0));
	/* Its time may be over: whoever runs it ends it. */
	clock_step(2 * TTL_MS * 1000);
	settle(r);
	assert_ptr_equal(task_find(r->tasks, 1, 11, t->id, TASK_ID_LEN), t);
	/* Cancelled: on record before it is told, as often as somebody wants. */
	assert_int_equal(cancel_begin(r, t, &told), 0);
	assert_int_equal(r->stops, 0);
	wait_told(r, &told);
	assert_int_equal(told.rc, 0);
	assert_int_equal(r->stops, 1);
	assert_int_equal(t->state, TASK_WORKING);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1023"), 1);
}

static void what_is_over(void **state)
{
	const uint64_t open = metric_get(METRIC_tasks_open);
	static const enum task_state over[] = { TASK_COMPLETED, TASK_FAILED, TASK_CANCELLED };
	struct rig *r = *state;

	for (size_t i = 0; i < 3; i++) {
		struct task *t = create(r);
		char id[TASK_ID_LEN + 1];
		struct told told;

		memcpy(id, t->id, sizeof id);
		assert_int_equal(metric_get(METRIC_tasks_open), open + 1);
		assert_int_equal(end(r, t, over[i], i == 2 ? 0 : 3), 0);
		assert_int_equal(metric_get(METRIC_tasks_open), open);
		assert_int_equal(t->state, over[i]);
		assert_null(t->stop);
		assert_ptr_equal(task_find(r->tasks, 1, 11, id, TASK_ID_LEN), t);
		assert_int_equal(cancel_begin(r, t, &told), 1);
		assert_int_equal(r->stops, 0);
		result(r, t, 0, i == 2 ? NULL : "xxx");
		assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1023"), 0);
		assert_int_equal(ask(r->f, "SELECT max(state) FROM task"), over[i]);
		/* To the next look after its time. */
		clock_step(2 * TTL_MS * 1000);
		settle(r);
		assert_null(task_by_id(r->tasks, id));
		assert_int_equal(ask(r->f, "SELECT count(*) FROM task"), 0);
		assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1026"), (int64_t)i + 1);
	}
	assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1002"), 3);
}

/* A cancel on its way, and the run ends: it has ended as it did. */
static void who_has_finished_wins(void **state)
{
	struct rig *r = *state;
	struct task *t = create(r);
	struct told cancelled, ended;

	assert_int_equal(cancel_begin(r, t, &cancelled), 0);
	assert_int_equal(end_begin(r, t, TASK_COMPLETED, 3, &ended), 0);
	wait_told(r, &cancelled);
	wait_told(r, &ended);
	assert_int_equal(cancelled.rc, 0);
	assert_int_equal(r->stops, 0);
	assert_int_equal(t->state, TASK_COMPLETED);
	result(r, t, 0, "xxx");
}

/* A disk that takes nothing: no task, nothing counted, nobody knows its name. */
static void what_cannot_be_written_is_none(void **state)
{
	struct rig *r = *state;
	const uint64_t open = metric_get(METRIC_tasks_open);
	struct told told;

	clock_real();
	fault_set(FAULT_FULL);
	assert_true(create_of(r, 1, 11, &told) < 0);
	assert_string_equal(told.id, "");
	fault_set(FAULT_NONE);
	assert_int_equal(metric_get(METRIC_tasks_open), open);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM task"), 0);
}

/* --- bounds */

static void a_principal_has_so_many_open(void **state)
{
	struct rig *r = *state;
	const uint64_t refused = metric_get(METRIC_tasks_refused);
	struct told told;
	struct task *t;

	seed(r, TASKS_PRINCIPAL_MAX - 1, "1", "11", TASK_WORKING, 0);
	seed(r, TASKS_PRINCIPAL_MAX, "1", "11", TASK_COMPLETED, 1);     /* those are not open */
	t = create(r);
	assert_int_equal(create_of(r, 1, 11, &told), ERR_LIMIT);
	assert_int_equal(metric_get(METRIC_tasks_refused), refused + 1);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1021"), 1);
	assert_int_equal(create_of(r, 1, 12, &told), 0);
	assert_int_equal(create_of(r, 2, 11, &told), 0);
	assert_int_equal(end(r, t, TASK_COMPLETED, 3), 0);
	assert_int_equal(create_of(r, 1, 11, &told), 0);
}

static void a_tenant_has_so_many_open(void **state)
{
	struct rig *r = *state;
	const uint64_t refused = metric_get(METRIC_tasks_refused);
	struct told told;

	seed(r, TASKS_TENANT_MAX - 1, "1", "100 + n % 20", TASK_WORKING, 0);
	assert_int_equal(create_of(r, 1, 11, &told), 0);
	assert_int_equal(create_of(r, 1, 12, &told), ERR_LIMIT);
	assert_int_equal(metric_get(METRIC_tasks_refused), refused + 1);
	assert_int_equal(create_of(r, 2, 12, &told), 0);
}

static void a_process_has_so_many(void **state)
{
	struct rig *r = *state;
	const uint64_t refused = metric_get(METRIC_tasks_refused);
	struct told told;

	seed(r, TASKS_MAX - 1, "100 + n % 20", "11", TASK_COMPLETED, 0);
	assert_int_equal(create_of(r, 1, 11, &told), 0);
	assert_int_equal(create_of(r, 2, 11, &told), ERR_LIMIT);
	assert_int_equal(metric_get(METRIC_tasks_refused), refused + 1);
}

static void a_tenant_has_so_much_kept(void **state)
{
	enum { LEN = TASK_SMALL + 1, TAG = AEAD_TAG };
	struct rig *r = *state;
	const uint64_t refused = metric_get(METRIC_tasks_refused), unkept = metric_get(METRIC_tasks_unkept);
	struct task *a, *b, *elsewhere;
	struct told told;

	seed(r, 1, "1", "12", TASK_COMPLETED, TASKS_BYTES_MAX - LEN - TAG);
	a = create(r);
	b = create(r);
	assert_int_equal(create_of(r, 2, 11, &told), 0);
	elsewhere = task_by_id(r->tasks, told.id);
	assert_int_equal(end(r, a, TASK_COMPLETED, LEN + 1), ERR_LIMIT);
	assert_int_equal(metric_get(METRIC_tasks_unkept), unkept + 1);
	assert_int_equal(a->state, TASK_WORKING);
	assert_int_equal(end(r, a, TASK_COMPLETED, LEN), 0);
	/* Full now: only what is small. */
	assert_int_equal(create_of(r, 1, 11, &told), ERR_LIMIT);
	assert_int_equal(end(r, b, TASK_COMPLETED, LEN), ERR_LIMIT);
	assert_int_equal(end(r, b, TASK_FAILED, TASK_SMALL), 0);
	assert_int_equal(create_of(r, 1, 11, &told), ERR_LIMIT);
	assert_int_equal(metric_get(METRIC_tasks_refused), refused + 2);
	assert_int_equal(end(r, elsewhere, TASK_COMPLETED, LEN), 0);
	assert_int_equal(ask(r->f, "SELECT sum(bytes) FROM task WHERE prn = 'prn_a' AND tenant_id = 1"), LEN + TASK_SMALL + 2 * TAG);
}

static void so_many_go_at_once(void **state)
{
	struct rig *r = *state;

	seed(r, TASKS_EXPIRE_BATCH + 1, "1 + n % 2", "11", TASK_COMPLETED, 0);
	clock_step(2 * TTL_MS * 1000);
	settle(r);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM task"), 1);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1026"), 2);   /* one of each tenant */
	clock_step(SECOND);
	settle(r);
	assert_int_equal(ask(r->f, "SELECT count(*) FROM task"), 0);
}

/* --- time */

static void it_goes_when_its_time_is_over(void **state)
{
	struct rig *r = *state;

	for (int late = 0; late < 2; late++) {
		struct task *t = create(r);
		char id[TASK_ID_LEN + 1];
		uint64_t ends_us;

		memcpy(id, t->id, sizeof id);
		assert_int_equal(end(r, t, TASK_COMPLETED, 3), 0);
		ends_us = t->ends_us;
		assert_int_equal(ends_us, t->created_us + TTL_MS * 1000);
		clock_step(ends_us - clock_wall_us() - (late ? 0 : 1));
		settle(r);
		assert_int_equal(task_by_id(r->tasks, id) == NULL, late);
		clock_step(late ? 0 : PASS);
		settle(r);
		assert_null(task_by_id(r->tasks, id));
		clock_step(PASS);               /* nothing is left to look for */
		settle(r);
	}
}

/* One that ended late is there for a while all the same. */
static void its_end_is_kept(void **state)
{
	struct rig *r = *state;
	struct task *t = create(r);

	clock_step(TTL_MS * 1000 - SECOND);
	assert_int_equal(end(r, t, TASK_COMPLETED, 3), 0);
	assert_int_equal(t->ends_us, t->updated_us + TASKS_KEPT_MS * UINT64_C(1000));
	assert_int_equal(t->ends_us, clock_wall_us() + TASKS_KEPT_MS * UINT64_C(1000));
}

static void a_clock_that_is_set_ends_nothing_at_once(void **state)
{
	struct rig *r = *state;
	struct task *t = create(r);
	char id[TASK_ID_LEN + 1];
	uint64_t day = 86400 * SECOND;

	memcpy(id, t->id, sizeof id);
	assert_int_equal(end(r, t, TASK_COMPLETED, 3), 0);
	clock_fake(clock_wall_us() + day, clock_mono_us() + PASS);
	settle(r);
	assert_non_null(task_by_id(r->tasks, id));
	/* Set back meanwhile: nothing has happened. */
	clock_fake(clock_wall_us() - day, clock_mono_us() + PASS);
	settle(r);
	clock_step(PASS);
	settle(r);
	assert_non_null(task_by_id(r->tasks, id));
	/* It stays so: at the second look. */
	clock_fake(clock_wall_us() + day, clock_mono_us() + PASS);
	settle(r);
	assert_non_null(task_by_id(r->tasks, id));
	clock_step(PASS);
	settle(r);
	assert_null(task_by_id(r->tasks, id));
}

/* --- starts, and what is sealed */

static void a_start_ends_what_ran(void **state)
{
	const struct writer_guard guard = { .recover = task_recover };
	struct rig *r = *state;
	struct task *done = create(r), *cut = create(r);
	char done_id[TASK_ID_LEN + 1], cut_id[TASK_ID_LEN + 1];

	memcpy(done_id, done->id, sizeof done_id);
	memcpy(cut_id, cut->id, sizeof cut_id);
	assert_int_equal(end(r, done, TASK_COMPLETED, 3), 0);
	for (int start = 0; start < 2; start++) {       /* once */
		tasks_close(&r->tasks);
		close_writer(r->f);
		assert_int_equal(writer_open(r->f->loop, &(struct keyfile_place){ r->f->dir, writer_master }, "test", &r->f->limits,
					     &guard, &r->f->w, &r->f->recovered, &r->f->err), 0);
		open_tasks(r);
		done = task_by_id(r->tasks, done_id);
		cut = task_by_id(r->tasks, cut_id);
		assert_int_equal(done->state, TASK_COMPLETED);
		result(r, done, 0, "xxx");
		assert_int_equal(cut->state, TASK_FAILED);
		result(r, cut, 0, NULL);
		assert_int_equal(ask(r->f, "SELECT count(*) FROM rec WHERE kind = 1024"), 1);
	}
}

static void what_was_changed_cannot_be_opened(void **state)
{
	static const char *const changes[] = {
		"UPDATE task SET result = zeroblob(length(result)) WHERE tid = ",
		"UPDATE task SET rnonce = x'00' WHERE tid = ",
		"UPDATE task SET result = x'00' WHERE tid = ",
		"UPDATE task SET (rnonce, result) = (SELECT rnonce, result FROM task WHERE length(result) = 20 LIMIT 1) WHERE tid = ",
	};
	struct rig *r = *state;

	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		struct task *t = create(r), *more = create(r);
		char text[200], id[TASK_ID_LEN + 1];

		assert_int_equal(end(r, more, TASK_COMPLETED, 4), 0);
		assert_int_equal(end(r, t, TASK_COMPLETED, 3), 0);
		result(r, t, 0, "xxx");
		snprintf(text, sizeof text, "%s'%s'", changes[i], t->id);
		memcpy(id, t->id, sizeof id);
		change_store(r, text);
		t = task_by_id(r->tasks, id);
		result(r, t, ERR_NOT_FOUND, NULL);
	}
}

static int destroy_keys(struct db *db, struct audit_logs *logs, struct err *err)
{
	struct keys *keys = audit_logs_keys(logs);
	int64_t *ids = NULL;
	size_t n = 0;
	int rc = keys_of_subject(keys, 1, "prn_a", &ids, &n, err);

	(void)db;
	assert_true(rc == 0 && n > 0);
	rc = keys_destroy(keys, ids, n, err);
	free(ids);
	return rc == ERR_BUSY ? 0 : rc;
}

static void what_was_erased_cannot_be_opened(void **state)
{
	struct rig *r = *state;
	struct task *t = create(r);

	assert_int_equal(end(r, t, TASK_COMPLETED, 3), 0);
	assert_int_equal(ask(r->f, "SELECT instr(CAST(result AS TEXT), 'xxx') FROM task"), 0);
	result(r, t, 0, "xxx");
	assert_int_equal(submit_job(r->f, 1, false, destroy_keys), 0);
	wait_idle(r->f);
	result(r, t, ERR_NOT_FOUND, NULL);
}

/* Connections are kept, and are of the files that have these names now. */
static void a_file_that_was_put_away_is_not_read(void **state)
{
	struct rig *r = *state;
	struct task *t = create(r);
	struct told told = { .text = STR_INIT };
	char keys[600], away[600];

	tmpdir_path(r->f->dir, "keys.db", keys, sizeof(keys));
	tmpdir_path(r->f->dir, "away", away, sizeof(away));
	assert_int_equal(end(r, t, TASK_COMPLETED, 3), 0);
	result(r, t, 0, "xxx");
	assert_int_equal(rename(keys, away), 0);
	assert_int_equal(task_result(r->tasks, t, on_result, &told), 0);
	wait_told(r, &told);
	assert_true(told.rc < 0 && !told.has_text);
	assert_int_equal(rename(away, keys), 0);
	for (int i = 0; i < 3; i++)
		result(r, t, 0, "xxx");
}

/* What still waits when all is closed is not called back. */
static void closed_in_the_middle(void **state)
{
	struct rig *r = *state;
	struct task *t = create(r);
	struct told ended;

	assert_int_equal(end_begin(r, t, TASK_COMPLETED, 3, &ended), 0);
	tasks_close(&r->tasks);
	settle(r);
	assert_false(ended.done);
	assert_int_equal(ask(r->f, "SELECT state FROM task"), TASK_COMPLETED);
}

#define K(name) cmocka_unit_test_setup_teardown(name, set_up_tasks, tear_down_tasks)

SUITE(task)
{
	const struct CMUnitTest tests[] = {
		K(what_works),
		K(what_is_over),
		K(who_has_finished_wins),
		K(what_cannot_be_written_is_none),
		K(a_principal_has_so_many_open),
		K(a_tenant_has_so_many_open),
		K(a_process_has_so_many),
		K(a_tenant_has_so_much_kept),
		K(so_many_go_at_once),
		K(it_goes_when_its_time_is_over),
		K(its_end_is_kept),
		K(a_clock_that_is_set_ends_nothing_at_once),
		K(a_start_ends_what_ran),
		K(what_was_changed_cannot_be_opened),
		K(what_was_erased_cannot_be_opened),
		K(a_file_that_was_put_away_is_not_read),
		K(closed_in_the_middle),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
