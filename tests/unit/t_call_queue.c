/* Calls that wait for a slot: their turn, its end, their leaving; nothing is recorded as begun before. */

#include "config.h"

#include "call_rig.h"
#include "suite.h"

#define WAIT_MS 400                     /* below the timeout of the tool */

static void make_engine(struct rig *r)
{
	static const struct limit_conf conf = { .ceiling = { 100, 100, 0, 0 }, .share_percent = 50, .wait_ms = WAIT_MS };

	call_engine_free(&r->engine);
	limiter_free(&r->limiter);
	r->limiter = limiter_new(&conf);
	r->engine = call_engine_new(&(struct call_env){ .loop = r->loop, .tenants = r->tenants, .registry = r->registry,
		.limiter = r->limiter, .writer = r->writer, .master = rig_master, .queue = 2 });
	writer_on_late(r->writer, call_late_begin, r->engine);
}

static struct heard *start_one(struct rig *r)
{
	return rig_start(r, &(struct rig_req){ .tool = "one", .args = "{}" });
}

/* The first runs, the second waits. */
static void start_two(struct rig *r, struct heard **a, struct heard **b)
{
	make_engine(r);
	*a = start_one(r);
	rig_wait_start(r);
	*b = start_one(r);
	assert_int_equal(limit_waiting(r->limiter), 1);
	assert_int_equal(fake.started, 1);
}

static void end_running(struct rig *r, struct heard *h)
{
	fake_result("done");
	rig_wait_end(r, h);
}

static void waiting_call_runs_when_a_slot_is_free(void **state)
{
	struct rig *r = *state;
	struct heard *a, *b;

	start_two(r, &a, &b);
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_BEGIN), 1);
	end_running(r, a);
	rig_wait_start(r);
	end_running(r, b);
	assert_string_equal(b->text, "done");
	assert_pair(r, a, AUDIT_OK);
	assert_pair(r, b, AUDIT_OK);
	heard_free(a);
	heard_free(b);
}

static void assert_denied(struct rig *r, const struct heard *h, int outcome, const char *rule)
{
	assert_int_equal(rig_call_records(r, r->acme, h->id), 1);
	assert_int_equal(r->rec[0].kind, AUDIT_CALL_DENIED);
	assert_int_equal(r->rec[0].outcome, outcome);
	assert_string_equal(r->rec[0].rule, rule);
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_BEGIN), 1);
	assert_int_equal(limit_waiting(r->limiter), 0);
	assert_int_equal(fake.started, 1);
}

/* SEC S-806 */
static void wait_ends_at_its_time(void **state)
{
	struct rig *r = *state;
	struct heard *a, *b;

	clock_fake(clock_wall_us(), clock_mono_us());
	start_two(r, &a, &b);
	clock_step((WAIT_MS - 1) * 1000ull);
	assert_false(ev_loop_run_until(r->loop, &b->done, 5));
	clock_step(1000);
	rig_wait_end(r, b);
	assert_int_equal(b->refusal, REFUSE_RATE);
	assert_int_equal(b->retry_ms, LIMIT_SLOT_RETRY_MS);
	assert_denied(r, b, AUDIT_RATE_LIMITED, "queue/wait");
	end_running(r, a);
	heard_free(a);
	heard_free(b);
}

static void cancelled_call_leaves_the_queue(void **state)
{
	struct rig *r = *state;
	struct heard *a, *b;

	start_two(r, &a, &b);
	call_cancel(b->call, CANCEL_BY_CLIENT);
	call_cancel(b->call, CANCEL_BY_CLIENT);
	rig_wait_end(r, b);
	assert_int_equal(b->refusal, REFUSE_CANCELLED);
	assert_int_equal(b->code, ERR_CANCELLED);
	assert_denied(r, b, AUDIT_CANCELLED, "queue/cancelled");
	end_running(r, a);
	heard_free(a);
	heard_free(b);
}

/* A transaction of the test's own, beside which no writer works. */
static struct db *begin(struct rig *r)
{
	struct db *db = NULL;
	char path[600];

	ROWS_OK(writer_close(&r->writer, RIG_WAIT_MS, &rows_err));
	ROWS_OK(db_open(tmpdir_path(r->rows.dir, "toolcrib.db", path, sizeof path), DB_WRITER, false, &db, &rows_err));
	ROWS_OK(db_txn_begin(db, true, &rows_err));
	return db;
}

static void roll_back(struct rig *r, struct db *db)
{
	(void)db_txn_end(db, ERR_CONFLICT, NULL);
	db_close(&db);
	rig_open_writer(r);
}

/* As it will be after the tenant was suspended. */
static struct tenant_image *suspended_image(struct rig *r)
{
	struct db *db = begin(r);
	struct tenant_image *img = NULL;
	struct db_stmt *st = db_stmt_get(db, SQL_TENANT_SET_STATE);

	db_bind_i64(st, 1, r->acme);
	db_bind_i64(st, 2, TENANT_SUSPENDED);
	ROWS_OK(db_run(&st, &rows_err));
	ROWS_OK(tenant_image_load(db, r->acme, &img, &rows_err));
	roll_back(r, db);
	return img;
}

/* As it will be after the grant was taken back. */
static struct reg_change *change_without_grant(struct rig *r)
{
	struct db *db = begin(r);
	struct reg_change *change = NULL;
	struct db_stmt *st = db_stmt_get(db, SQL_GRANT_DELETE);

	db_bind_i64(st, 1, r->acme);
	db_bind_textz(st, 2, "one");
	ROWS_OK(db_run(&st, &rows_err));
	ROWS_OK(reg_change_tenant(db, r->acme, &change, &rows_err));
	roll_back(r, db);
	return change;
}

/* SEC S-306: whoever lost the right while it waited does not run. */
static void turn_comes_too_late_for_a_suspended_tenant(void **state)
{
	struct rig *r = *state;
	struct tenant_image *img = suspended_image(r);
	struct heard *a, *b;

	start_two(r, &a, &b);
	tenants_apply(r->tenants, &img);
	end_running(r, a);
	rig_wait_end(r, b);
	assert_int_equal(b->refusal, REFUSE_NONE);
	assert_int_equal(b->code, ERR_DENIED);
	assert_denied(r, b, AUDIT_DENIED, "standing");
	heard_free(a);
	heard_free(b);
}

/* SEC S-315: nothing of a tool begins once it has been taken away. */
static void turn_comes_too_late_for_a_tool_that_is_gone(void **state)
{
	struct rig *r = *state;
	struct reg_change *change = change_without_grant(r);
	struct heard *a, *b;

	start_two(r, &a, &b);
	reg_apply(r->registry, &change, NULL, NULL);
	end_running(r, a);
	rig_wait_end(r, b);
	assert_int_equal(b->refusal, REFUSE_UNKNOWN_TOOL);
	assert_denied(r, b, AUDIT_DENIED, "unknown_tool");
	heard_free(a);
	heard_free(b);
}

/* SEC S-801: two may wait, and one more. */
static void queue_of_the_tenant_is_bounded(void **state)
{
	struct rig *r = *state;
	struct heard *a, *b, *c, *d;

	start_two(r, &a, &b);
	c = start_one(r);
	assert_int_equal(limit_waiting(r->limiter), 2);
	d = rig_call(r, &(struct rig_req){ .tool = "one", .args = "{}" });
	assert_int_equal(d->refusal, REFUSE_RATE);
	assert_int_equal(rig_call_records(r, r->acme, d->id), 1);
	assert_string_equal(r->rec[0].rule, "tenant/queue");
	end_running(r, a);
	rig_wait_start(r);
	end_running(r, b);
	rig_wait_start(r);
	end_running(r, c);
	assert_int_equal(limit_running(r->limiter, r->acme), 0);
	heard_free(a);
	heard_free(b);
	heard_free(c);
	heard_free(d);
}

/* Bad arguments give their place back at once. */
static void refused_call_does_not_wait(void **state)
{
	struct rig *r = *state;
	struct heard *a, *b, *c;

	start_two(r, &a, &b);
	c = rig_call(r, &(struct rig_req){ .tool = "one", .args = "{}", .state = "forged" });
	assert_int_equal(c->refusal, REFUSE_STATE);
	assert_int_equal(limit_waiting(r->limiter), 1);
	call_engine_cancel_all(r->engine, CANCEL_SHUTDOWN);
	rig_wait_end(r, b);
	assert_int_equal(b->code, ERR_CANCELLED);
	rig_wait_end(r, a);
	assert_int_equal(call_engine_running(r->engine), 0);
	heard_free(a);
	heard_free(b);
	heard_free(c);
}

/* Nor has it a turn, or the end of a wait, while its record is on its way to a slow disk. */
static void refused_call_has_no_turn(void **state)
{
	struct rig *r = *state;
	struct heard *a, *b, *c;

	clock_fake(clock_wall_us(), clock_mono_us());
	start_two(r, &a, &b);
	fault_set(FAULT_HANG);
	c = rig_start(r, &(struct rig_req){ .tool = "one", .args = "{}", .state = "forged" });
	fault_wait_hanging(r->loop);
	clock_step(WAIT_MS * 1000ull);
	assert_false(ev_loop_run_until(r->loop, &c->done, 5));
	fault_set(FAULT_NONE);
	rig_wait_end(r, b);
	rig_wait_end(r, c);
	assert_int_equal(c->refusal, REFUSE_STATE);
	assert_int_equal(limit_waiting(r->limiter), 0);
	end_running(r, a);
	assert_int_equal(limit_running(r->limiter, r->acme), 0);
	heard_free(a);
	heard_free(b);
	heard_free(c);
}

SUITE(queue)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(waiting_call_runs_when_a_slot_is_free),
		RIG_TEST(wait_ends_at_its_time),
		RIG_TEST(cancelled_call_leaves_the_queue),
		RIG_TEST(turn_comes_too_late_for_a_suspended_tenant),
		RIG_TEST(turn_comes_too_late_for_a_tool_that_is_gone),
		RIG_TEST(queue_of_the_tenant_is_bounded),
		RIG_TEST(refused_call_does_not_wait),
		RIG_TEST(refused_call_has_no_turn),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
