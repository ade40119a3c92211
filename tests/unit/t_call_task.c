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

/* TK-23: at once, where it may; what it said until then, and what it says later, is said of the task. */
static void it_says_that_it_lasts(void **state)
{
	struct rig *r = *state;
	const struct rig_req plain = { .tool = "long", .args = "{}", .rev = REV_R5 };
	struct heard *h = rig_start(r, &patient);
	struct task *t;
	bool never = false;

	rig_wait_start(r);
	fake.op->sink->progress(fake.op->arg, 1, 2, "halfway");
	fake.op->sink->lasts(fake.op->arg, NULL);
	fake.op->sink->lasts(fake.op->arg, "queued");   /* its row is on its way */
	rig_wait_end(r, h);
	t = task_by_id(r->tasks, h->task);
	assert_non_null(t);
	assert_string_equal(t->note, "queued");
	fake.op->sink->lasts(fake.op->arg, "printing");
	assert_string_equal(t->note, "printing");
	fake.op->sink->lasts(fake.op->arg, NULL);
	assert_string_equal(t->note, "printing");
	fake_result("done");
	wait_over(r, t, TASK_COMPLETED);
	heard_free(h);
	assert_int_equal(rig_records(r, r->acme, AUDIT_TASK_CREATE), 1);
	h = rig_start(r, &plain);
	rig_wait_start(r);
	fake.op->sink->lasts(fake.op->arg, "queued");
	assert_false(ev_loop_run_until(r->loop, &never, 20));
	fake_result("plain");
	rig_wait_end(r, h);
	assert_string_equal(h->text, "plain");
	heard_free(h);
	assert_int_equal(rig_records(r, r->acme, AUDIT_TASK_CREATE), 1);
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
		wait_over(r, t, asks ? TASK_INPUT : TASK_COMPLETED);
		assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_END), asks + 1);
		assert_int_equal(r->rec[0].outcome, asks ? AUDIT_INPUT_REQUIRED : AUDIT_OK);
		heard_free(h);
	}
}

struct answered { bool done; int rc; };

static void on_answered(void *arg, int rc)
{
	struct answered *a = arg;

	a->done = true;
	a->rc = rc;
}

static int answer(struct rig *r, struct task *t, const char *text)
{
	struct answered a = { .done = false };
	struct audit_event ev;
	json_t *answers = NULL;

	assert_int_equal(jx_parse(text, strlen(text), &answers, NULL), 0);
	audit_event_init(&ev, AUDIT_TASK_INPUT, r->acme);
	call_task_answer(r->engine, t, r->bot, answers, &ev, on_answered, &a);
	if (!a.done)
		rig_wait(r, &a.done);
	return a.rc;
}

/* Its task asks, after halfway. */
static struct task *asks(struct rig *r)
{
	struct task *t = made(r, &patient);

	fake_ask(ELICIT, "kept", 4);
	wait_over(r, t, TASK_INPUT);
	assert_int_equal(t->round, 1);
	assert_null(t->run);
	return t;
}

/* TK-33: the call is gone, answers of what is open begin the next round, with the handler's state; others are passed over. */
static void it_asks_and_goes_on(void **state)
{
	struct rig *r = *state;
	struct task *t = asks(r);
	bool never = false;

	(void)ev_loop_run_until(r->loop, &never, 5);
	assert_int_equal(call_engine_running(r->engine), 0);
	assert_int_equal(answer(r, t, "{\"confirm\":{},\"2:confirm\":{},\"1:other\":{}}"), 0);
	assert_int_equal(t->state, TASK_INPUT);
	assert_int_equal(rig_records(r, r->acme, AUDIT_TASK_INPUT), 0);
	assert_int_equal(answer(r, t, "{\"1:confirm\":{\"action\":\"accept\"}}"), 0);
	rig_wait_start(r);
	assert_int_equal(t->state, TASK_WORKING);
	assert_string_equal(fake.state, "kept");
	assert_string_equal(fake.answers, "{\"confirm\":{\"action\":\"accept\"}}");
	assert_int_equal(answer(r, t, "{\"1:confirm\":{}}"), 0);        /* TK-09 */
	fake_ask(ELICIT, "", 0);
	wait_over(r, t, TASK_INPUT);
	assert_int_equal(t->round, 2);
	assert_int_equal(answer(r, t, "{\"1:confirm\":{}}"), 0);        /* of a round that is over */
	assert_int_equal(t->state, TASK_INPUT);
	assert_int_equal(answer(r, t, "{\"2:confirm\":{}}"), 0);
	rig_wait_start(r);
	fake_result("done");
	wait_over(r, t, TASK_COMPLETED);
	assert_int_equal(rig_records(r, r->acme, AUDIT_TASK_INPUT), 2);
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_BEGIN), 3);
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_END), 3);
}

/* The limit, and one more. */
static void answers_have_a_limit(void **state)
{
	struct rig *r = *state;
	struct task *t = asks(r);
	const size_t frame = strlen("{\"confirm\":{\"x\":\"\"}}");

	for (int over = 1; over >= 0; over--) {
		struct str text = STR_INIT;

		str_puts(&text, "{\"1:confirm\":{\"x\":\"");
		for (size_t i = 0; i < CALL_TASK_ANSWERS_MAX - frame + (size_t)over; i++)
			str_putc(&text, 'x');
		str_puts(&text, "\"}}");
		assert_int_equal(answer(r, t, str_text(&text)), over ? ERR_LIMIT : 0);
		assert_int_equal(rig_records(r, r->acme, AUDIT_TASK_INPUT), !over);
		str_fini(&text);
	}
	rig_wait_start(r);
	fake_result("done");
	wait_over(r, t, TASK_COMPLETED);
}

static void it_asks_so_often_and_no_more(void **state)
{
	struct rig *r = *state;
	struct task *t = asks(r);
	char text[64];

	for (unsigned i = 1; i <= TASK_ROUNDS_MAX; i++) {
		assert_int_equal(t->round, i);
		(void)snprintf(text, sizeof(text), "{\"%u:confirm\":{}}", i);
		assert_int_equal(answer(r, t, text), 0);
		rig_wait_start(r);
		fake_ask(ELICIT, "", 0);
		wait_over(r, t, i < TASK_ROUNDS_MAX ? TASK_INPUT : TASK_COMPLETED);
	}
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_END), TASK_ROUNDS_MAX + 1);
	assert_int_equal(r->rec[0].outcome, AUDIT_TOOL_ERROR);
}

/* TK-34, TK-12: what is parked is cancelled with a record, and ends when its time is over. */
static void what_is_parked_ends(void **state)
{
	struct rig *r = *state;
	struct task *t = asks(r), *late;
	const struct call_where where = { .tenant_id = r->acme, .tool = "long" };
	bool never = false;

	assert_int_equal(call_cancel_where(r->engine, &(struct call_where){ .tenant_id = r->acme, .tool = "other" }, CANCEL_STOPPED), 0);
	assert_int_equal(call_cancel_where(r->engine, &where, CANCEL_STOPPED), 1);
	for (int i = 0; i < 500 && t->state == TASK_INPUT; i++)
		(void)ev_loop_run_until(r->loop, &never, 10);
	assert_int_equal(t->state, TASK_CANCELLED);
	assert_int_equal(rig_records(r, r->acme, AUDIT_TASK_CANCEL), 1);
	assert_int_equal(rig_records(r, r->acme, AUDIT_TASK_END), 1);
	late = asks(r);
	clock_step(130 * SECOND);
	for (int i = 0; i < 500 && late->state == TASK_INPUT; i++)
		(void)ev_loop_run_until(r->loop, &never, 10);
	assert_int_equal(late->state, TASK_CANCELLED);
	assert_string_equal(late->note, TASK_LATE_TEXT);
}

struct counted { unsigned n; bool all; };

static void on_made(void *arg, int rc, struct task *t)
{
	struct counted *c = arg;

	assert_int_equal(rc, 0);
	c->all = ++c->n == TASKS_PRINCIPAL_MAX;
}

/* No room: a plain call, and of a tool that requires a task none at all. */
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
		assert_int_equal(task_create(r->tasks, &n, &ev, 1, on_made, &c), 0);
	}
	rig_wait(r, &c.all);
	struct heard *h = rig_start(r, &patient);
	bool never = false;

	rig_wait_start(r);
	fake.op->sink->lasts(fake.op->arg, "long");
	clock_step(3 * SECOND);
	(void)ev_loop_run_until(r->loop, &never, 20);
	assert_int_equal(fake.cancelled, 0);
	fake_result("plain");
	rig_wait_end(r, h);
	assert_string_equal(h->task, "");
	assert_string_equal(h->text, "plain");
	heard_free(h);
	h = rig_start(r, &must);
	rig_wait_end(r, h);
	assert_int_equal(h->refusal, REFUSE_RATE);
	assert_int_equal(h->retry_ms, CALL_TASK_RETRY_MS);
	heard_free(h);
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_BEGIN), 1);
}

#define K(name) cmocka_unit_test_setup_teardown(name, set_up, rig_tear_down)

SUITE(call_task)
{
	const struct CMUnitTest tests[] = {
		K(who_is_quick_is_none),
		K(it_becomes_one_and_ends),
		K(it_says_that_it_lasts),
		K(its_ttl_cancels_it),
		K(its_timeout_ends_it),
		K(what_comes_before_its_row),
		K(it_asks_and_goes_on),
		K(answers_have_a_limit),
		K(it_asks_so_often_and_no_more),
		K(what_is_parked_ends),
		K(a_full_principal_calls_plainly),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
