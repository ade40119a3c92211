/* A call that becomes a task, over a real writer, on a clock that the test steps: when, what ends its run, and what it is
 * where there is no room for one. */

#include "config.h"

#include "call_rig.h"

#include "proto/caps.h"
#include "suite.h"

#define SECOND UINT64_C(1000000)

static const struct rig_req patient = { .tool = "long", .args = "{}", .rev = REV_R5, .caps = CAP_TASKS | CAP_ELICITATION_FORM };
static const struct rig_req must = { .tool = "longer", .args = "{}", .rev = REV_R5, .caps = CAP_TASKS };

static int set_up(void **state)
{
	clock_fake(UINT64_C(1800000000000000), 1000 * SECOND);
	return rig_set_up(state);
}

/* Its caller has gone on. */
static struct task *made(struct rig *r, const struct rig_req *q)
{
	struct heard *h = rig_start(r, q);
	struct task *t;

	rig_wait_start(r);
	if (q == &patient) {
		clock_step(2 * SECOND - 1);
		assert_false(ev_loop_run_until(r->loop, &h->done, 20));
		clock_step(1);
	}
	rig_wait_end(r, h);
	assert_string_not_equal(h->task, "");
	t = task_by_id(r->tasks, h->task);
	assert_int_equal(t->state, TASK_WORKING);
	heard_free(h);
	return t;
}

static void wait_over(struct rig *r, struct task *t, enum task_state state)
{
	bool never = false;

	for (int i = 0; i < 500 && t->state == TASK_WORKING; i++)
		(void)ev_loop_run_until(r->loop, &never, 10);
	assert_int_equal(t->state, state);
}

static void who_is_quick_is_none(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_start(r, &patient);

	rig_wait_start(r);
	clock_step(SECOND);
	fake_result("done");
	rig_wait_end(r, h);
	assert_string_equal(h->text, "done");
	assert_int_equal(rig_records(r, r->acme, AUDIT_TASK_CREATE), 0);
	heard_free(h);
}

static void it_becomes_one_and_ends(void **state)
{
	struct rig *r = *state;
	struct task *t = made(r, &patient);

	fake.op->sink->progress(fake.op->arg, 1, 2, "halfway");
	assert_string_equal(t->note, "halfway");
	fake_result("done");
	wait_over(r, t, TASK_COMPLETED);
	assert_int_equal(rig_records(r, r->acme, AUDIT_TASK_CREATE), 1);
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_END), 1);
	assert_int_equal(r->rec[0].flags, 0);
	assert_int_equal(r->rec[0].outcome, AUDIT_OK);
}

/* TK-12: ttl is shorter than its timeout. */
static void its_ttl_cancels_it(void **state)
{
	struct rig *r = *state;
	struct task *t = made(r, &patient);
	bool never = false;

	clock_step(57 * SECOND);
	(void)ev_loop_run_until(r->loop, &never, 20);
	assert_int_equal(fake.cancelled, 0);
	clock_step(2 * SECOND);
	wait_over(r, t, TASK_CANCELLED);
	assert_int_equal(fake.cancelled, 1);
}

static void its_timeout_ends_it(void **state)
{
	struct rig *r = *state;
	struct task *t = made(r, &must);
	bool never = false;

	clock_step(39 * SECOND);
	(void)ev_loop_run_until(r->loop, &never, 20);
	assert_int_equal(fake.cancelled, 0);
	clock_step(2 * SECOND);
	wait_over(r, t, TASK_COMPLETED);        /* with an error as its result */
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_END), 1);
	assert_int_equal(r->rec[0].outcome, AUDIT_TIMEOUT);
}

/* What ends, or asks, while its row is on its way: first there is a task, then its end. */
static void what_comes_before_its_row(void **state)
{
	struct rig *r = *state;

	for (int asks = 0; asks < 2; asks++) {
		struct heard *h = rig_start(r, &patient);
		struct task *t;
		bool never = false;

		rig_wait_start(r);
		fault_set(FAULT_HANG);
		clock_step(2 * SECOND);
		(void)ev_loop_run_until(r->loop, &never, 20);
		fault_wait_hanging(r->loop);
		if (asks)
			fake_ask(ELICIT, "", 0);
		else
			fake_result("done");
		assert_false(ev_loop_run_until(r->loop, &h->done, 20));
		fault_set(FAULT_NONE);
		rig_wait_end(r, h);
		assert_string_not_equal(h->task, "");
		t = task_by_id(r->tasks, h->task);
		wait_over(r, t, TASK_COMPLETED);
		assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_END), asks + 1);
		assert_int_equal(r->rec[0].outcome, asks ? AUDIT_TOOL_ERROR : AUDIT_OK);
		heard_free(h);
	}
}

struct counted { unsigned n; bool all; };

static void on_made(void *arg, int rc, struct task *t)
{
	struct counted *c = arg;

	assert_int_equal(rc, 0);
	c->all = ++c->n == TASKS_PRINCIPAL_MAX;
}

/* No room: a plain call, also of a tool that wants a task. */
static void a_full_principal_calls_plainly(void **state)
{
	static const uint8_t bytes[32];
	struct rig *r = *state;
	struct counted c = { 0 };

	for (int i = 0; i < TASKS_PRINCIPAL_MAX; i++) {
		const struct task_new n = { .tenant_id = r->bot->tenant_id, .principal_id = r->bot->principal_id, .prn = "p", .tool = "t",
			.name = "t", .tdef = bytes, .call = bytes, .ttl_ms = 60000, .poll_ms = 1000 };
		struct audit_event ev;

		audit_event_init(&ev, AUDIT_TASK_CREATE, r->acme);
		assert_int_equal(task_create(r->tasks, &n, &ev, on_made, &c), 0);
	}
	rig_wait(r, &c.all);
	for (int i = 0; i < 2; i++) {
		struct heard *h = rig_start(r, i ? &must : &patient);
		bool never = false;

		rig_wait_start(r);
		clock_step(3 * SECOND);
		(void)ev_loop_run_until(r->loop, &never, 20);
		fake_result("plain");
		rig_wait_end(r, h);
		assert_string_equal(h->task, "");
		assert_string_equal(h->text, "plain");
		heard_free(h);
	}
}

#define K(name) cmocka_unit_test_setup_teardown(name, set_up, rig_tear_down)

SUITE(call_task)
{
	const struct CMUnitTest tests[] = {
		K(who_is_quick_is_none),
		K(it_becomes_one_and_ends),
		K(its_ttl_cancels_it),
		K(its_timeout_ends_it),
		K(what_comes_before_its_row),
		K(a_full_principal_calls_plainly),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
