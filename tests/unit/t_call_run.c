/* A call that runs: its records, its ends, cancellation in every state, questions, and tenants that never meet. */

#include "config.h"

#include "call_rig.h"

#include "base/metric.h"
#include "suite.h"

static const struct rig_req echo = { .tool = "echo", .args = "{\"text\":\"x\"}", .rev = REV_R4 };

/* MCP B-50, AUDIT */
static void begin_and_end_are_durable_in_time(void **state)
{
	struct rig *r = *state;
	struct heard *h;

	fault_set(FAULT_HANG);
	h = rig_start(r, &echo);
	fault_wait_hanging(r->loop);
	assert_false(ev_loop_run_until(r->loop, &fake.is_started, 20));
	fault_set(FAULT_NONE);
	rig_wait_start(r);
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_BEGIN), 1);
	fault_set(FAULT_HANG);
	fake_result("done");
	fault_wait_hanging(r->loop);
	assert_false(ev_loop_run_until(r->loop, &h->done, 20));
	fault_set(FAULT_NONE);
	rig_wait_end(r, h);
	assert_string_equal(h->text, "done");
	assert_pair(r, h, AUDIT_OK);
	heard_free(h);
}

struct ids { size_t n; uint8_t id[RIG_RECORDS][16]; };

/* The calls that have a record of this kind which is durable. */
static void durable(struct rig *r, int kind, struct ids *ret)
{
	ret->n = rig_records(r, r->acme, kind);
	for (size_t i = 0; i < ret->n; i++)
		memcpy(ret->id[i], r->rec[i].call, sizeof ret->id[i]);
}

static bool has(const struct ids *ids, const uint8_t id[16])
{
	for (size_t i = 0; i < ids->n; i++)
		if (memcmp(ids->id[i], id, sizeof ids->id[i]) == 0)
			return true;
	return false;
}

/* While a flush hangs.  before: the begins that were durable while the last one did, so that an end which has come since,
 * but whose begin is not among them, came in one transaction with it. */
static void look_at_records(struct rig *r, struct heard *const *h, size_t n, struct ids *before)
{
	struct ids begins, ends;

	durable(r, AUDIT_CALL_BEGIN, &begins);
	durable(r, AUDIT_CALL_END, &ends);
	for (size_t i = 0; i < ends.n; i++)
		assert_true(has(before, ends.id[i]));
	for (size_t i = 0; i < fake.started; i++)
		assert_true(has(&begins, fake.ran[i]));
	for (size_t i = 0; i < n; i++)
		assert_true(!h[i]->done || has(&ends, h[i]->id));
	*before = begins;
}

static unsigned answered(struct heard *const *h, unsigned n)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += h[i]->ends;
	return sum;
}

/* SPEED SP-001, a flush at a time, of handlers that have their result at once, whatever saves time on the way: what has
 * started has its begin behind an earlier flush, what was answered its end, and no flush brings both of one call. */
static void no_flush_has_both_records_of_a_call(void **state)
{
	enum { CALLS = 20 };
	struct rig *r = *state;
	struct heard *h[CALLS];
	struct ids before = { 0 };
	unsigned flushes = 0;
	bool never = false;

	fake.instant = true;
	fault_set(FAULT_HANG);
	for (int i = 0; i < CALLS; i++)
		h[i] = rig_start(r, &echo);
	while (answered(h, CALLS) < CALLS) {
		(void)ev_loop_run_until(r->loop, &never, 2);
		if (!fault_hangs())
			continue;
		look_at_records(r, h, CALLS, &before);
		flushes++;
		fault_pass();
	}
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_END), CALLS);
	assert_int_equal(fake.started, CALLS);
	assert_in_range(flushes, 2, 2 * CALLS);
	for (int i = 0; i < CALLS; i++) {
		assert_string_equal(h[i]->text, "at once");
		heard_free(h[i]);
	}
}

/* The same of the flush of an end that fails: nothing is told. */
static void no_answer_follows_a_flush_that_failed(void **state)
{
	struct rig *r = *state;
	struct heard *h;

	h = rig_start(r, &echo);
	rig_wait_start(r);
	fault_set(FAULT_SYNC);
	fake_result("done");
	rig_wait_end(r, h);
	assert_null(h->text);
	assert_int_equal(h->refusal, REFUSE_AUDIT);
	assert_true(h->executed);
	heard_free(h);
	h = rig_call(r, &echo);
	assert_int_equal(h->refusal, REFUSE_AUDIT);
	assert_false(h->executed);
	assert_int_equal(fake.started, 1);
	heard_free(h);
}

static void nothing_starts_behind_a_flush_that_failed(void **state)
{
	struct rig *r = *state;
	struct heard *h;

	fake.instant = true;
	fault_set(FAULT_SYNC);
	h = rig_call(r, &echo);
	assert_null(h->text);
	assert_int_equal(h->refusal, REFUSE_AUDIT);
	assert_false(h->executed);
	assert_int_equal(fake.started, 0);
	heard_free(h);
}

static void records_say_who_what_and_how(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_start(r, &echo);
	uint8_t id[16];

	rig_wait_start(r);
	assert_string_equal(fake.req.tool, "echo");
	assert_string_equal(fake.req.tenant, "acme");
	assert_string_equal(fake.req.principal, "default");
	assert_string_equal(fake.req.rev, "2025-11-25");
	assert_memory_equal(fake.req.args_text, echo.args, fake.req.args_len);
	assert_null(fake.req.answers);
	memcpy(id, fake.req.call_id, sizeof id);
	fake_full_result("four", "{\"a\":1}", false);
	rig_wait_end(r, h);
	assert_pair(r, h, AUDIT_OK);
	assert_memory_equal(h->id, id, sizeof id);
	assert_string_equal(r->rec[0].tool, "echo");
	assert_string_equal(r->rec[0].rule, "grant/1");
	assert_string_equal(r->rec[0].rev, "2025-11-25");
	assert_int_equal(strlen(r->rec[0].tdef), 64);
	assert_int_equal(r->rec[0].n_req, strlen(echo.args));
	assert_int_equal(r->rec[0].tport, AUDIT_HTTP);
	assert_int_equal(r->rec[0].authn, AUDIT_AUTHN_BOUND);
	assert_string_equal(r->rec[1].tool, "echo");
	assert_string_equal(r->rec[1].prn, r->bot->pseudonym);
	assert_int_equal(r->rec[1].n_res, 4 + 7);
	assert_int_equal(r->rec[1].flags, 0);
	heard_free(h);
}

/* SEC S-510, S-511 */
static void level_stands_in_the_begin_and_a_lesser_one_in_the_log(void **state)
{
	struct rig *r = *state;

	for (int i = 0; i < 3; i++) {
		fake.sandbox = (struct backend_sandbox){ "base+landlock:6+seccomp", "base", "base+landlock:6+seccomp+net0", true, false };
		struct heard *h = rig_start(r, &(struct rig_req){ .tool = i < 2 ? "echo" : "one" });
		rig_wait_start(r);
		fake_error(ERR_TOOL, "done", 0);
		rig_wait_end(r, h);
		assert_int_equal(rig_call_records(r, r->acme, h->id), 2);
		assert_string_equal(r->rec[0].sbox, "base+landlock:6+seccomp");
		assert_string_equal(r->rec[1].sbox, "");
		heard_free(h);
		/* Once for each tool. */
		assert_int_equal(rig_records(r, r->acme, AUDIT_SANDBOX_DEGRADED), i < 2 ? 1 : 2);
		assert_string_equal(r->rec[0].tool, i < 2 ? "echo" : "one");
		assert_string_equal(r->rec[0].sbox, "base+landlock:6+seccomp");
		assert_string_equal(r->rec[0].detail, "base+landlock:6+seccomp+net0");
	}
}

static void failure_of_the_tool_is_a_result(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_start(r, &echo);

	rig_wait_start(r);
	fake_full_result("no such city", NULL, true);
	rig_wait_end(r, h);
	assert_true(h->is_error);
	assert_string_equal(h->text, "no such city");
	assert_pair(r, h, AUDIT_TOOL_ERROR);
	heard_free(h);
}

static void errors_of_handlers_become_what_their_code_says(void **state)
{
	static const struct { enum err_code code; int outcome; bool result; } cases[] = {
		{ ERR_TOOL, AUDIT_TOOL_ERROR, true }, { ERR_LIMIT, AUDIT_TOOL_ERROR, true },
		{ ERR_TIMEOUT, AUDIT_TIMEOUT, true }, { ERR_CANCELLED, AUDIT_CANCELLED, true },
		{ ERR_IO, AUDIT_CRASHED, false }, { ERR_INTERNAL, AUDIT_CRASHED, false },
	};
	struct rig *r = *state;

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct heard *h = rig_start(r, &echo);

		rig_wait_start(r);
		fake_error(cases[i].code, "it broke", 0);
		rig_wait_end(r, h);
		assert_int_equal(h->is_error, cases[i].result);
		assert_int_equal(h->refusal, cases[i].result ? REFUSE_NONE : REFUSE_INTERNAL);
		if (cases[i].result)
			assert_string_equal(h->text, "it broke");
		assert_pair(r, h, cases[i].outcome);
		heard_free(h);
	}
}

static void tool_may_want_a_protocol_error(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_start(r, &echo);

	rig_wait_start(r);
	fake_error(ERR_TOOL, "bad", -32602);
	rig_wait_end(r, h);
	assert_int_equal(h->rpc_code, -32602);
	assert_string_equal(h->msg, "bad");
	assert_int_equal(h->refusal, REFUSE_NONE);
	assert_pair(r, h, AUDIT_TOOL_ERROR);
	heard_free(h);
}

static void result_at_its_limit_and_beyond(void **state)
{
	struct rig *r = *state;
	char text[66];

	for (size_t n = 64; n <= 65; n++) {
		struct heard *h = rig_start(r, &(struct rig_req){ .tool = "one" });

		memset(text, 'x', n);
		text[n] = '\0';
		rig_wait_start(r);
		fake_result(text);
		rig_wait_end(r, h);
		assert_int_equal(h->is_error, n > 64);
		assert_pair(r, h, n > 64 ? AUDIT_TOOL_ERROR : AUDIT_OK);
		if (n > 64)
			assert_string_equal(h->text, "The result has 65 bytes, more than the limit of 64");
		heard_free(h);
	}
}

/* MCP T-20, B-17 */
static void result_that_breaks_its_schema_is_an_error(void **state)
{
	static const struct { const char *structured; bool is_error, broke; } cases[] = {
		{ "{\"a\":1}", false, false }, { "{\"b\":1}", false, true }, { "[]", false, true }, { NULL, false, true },
		{ NULL, true, false }, { "{\"b\":1}", true, false },
	};
	struct rig *r = *state;

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct heard *h = rig_start(r, &(struct rig_req){ .tool = "shaped", .rev = REV_R5 });

		rig_wait_start(r);
		fake_full_result("t", cases[i].structured, cases[i].is_error);
		rig_wait_end(r, h);
		assert_int_equal(h->is_error, cases[i].broke || cases[i].is_error);
		if (cases[i].broke)
			assert_null(h->structured);
		assert_pair(r, h, h->is_error ? AUDIT_TOOL_ERROR : AUDIT_OK);
		assert_int_equal(r->rec[1].flags, cases[i].broke ? AUDIT_FLAG_BROKE_SCHEMA : 0);
		heard_free(h);
	}
}

static void deadline_stops_the_handler(void **state)
{
	struct rig *r = *state;
	uint64_t before = metric_get(METRIC_handler_timeouts);
	struct heard *h;

	clock_fake(clock_wall_us(), clock_mono_us());
	h = rig_start(r, &(struct rig_req){ .tool = "one" });
	rig_wait_start(r);
	clock_step(999000);
	assert_false(ev_loop_run_until(r->loop, &h->done, 20));
	clock_step(2000);
	rig_wait_end(r, h);
	assert_int_equal(fake.cancelled, 1);
	assert_true(h->is_error);
	assert_pair(r, h, AUDIT_TIMEOUT);
	assert_int_equal(metric_get(METRIC_handler_timeouts), before + 1);
	heard_free(h);
}

static void progress_and_log_pass_while_the_handler_runs(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_start(r, &echo);

	rig_wait_start(r);
	fake.op->sink->progress(fake.op->arg, 1, 2, NULL);
	fake.op->sink->log(fake.op->arg, 1, NULL, json_string("x"));
	call_cancel(h->call, CANCEL_BY_CLIENT);
	fake.op->sink->progress(fake.op->arg, 2, 2, NULL);
	fake.op->sink->log(fake.op->arg, 1, NULL, json_string("x"));
	rig_wait_end(r, h);
	assert_int_equal(h->progress, 1);
	assert_int_equal(h->logs, 1);
	heard_free(h);
}

/* Cancellation: each state has one end and one record of it. */

static void cancel_before_the_begin_is_durable_runs_nothing(void **state)
{
	struct rig *r = *state;
	struct heard *h;

	fault_set(FAULT_HANG);
	h = rig_start(r, &echo);
	fault_wait_hanging(r->loop);
	call_cancel(h->call, CANCEL_BY_CLIENT);
	call_cancel(h->call, CANCEL_SHUTDOWN);
	assert_int_equal(h->ends, 0);
	fault_set(FAULT_NONE);
	rig_wait_end(r, h);
	assert_int_equal(h->code, ERR_CANCELLED);
	assert_int_equal(h->refusal, REFUSE_NONE);
	assert_int_equal(fake.started, 0);
	assert_pair(r, h, AUDIT_CANCELLED);
	assert_int_equal(r->rec[1].flags, AUDIT_FLAG_NOT_EXECUTED);
	heard_free(h);
}

static void cancel_while_running_stops_the_handler(void **state)
{
	static const struct { enum cancel_why why; int outcome; } cases[] = {
		{ CANCEL_BY_CLIENT, AUDIT_CANCELLED }, { CANCEL_REVOKED, AUDIT_CANCELLED },
		{ CANCEL_SHUTDOWN, AUDIT_ABORTED },
	};
	struct rig *r = *state;

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct heard *h = rig_start(r, &echo);

		rig_wait_start(r);
		call_cancel(h->call, cases[i].why);
		call_cancel(h->call, cases[i].why);
		assert_int_equal(h->ends, 0);
		rig_wait_end(r, h);
		assert_int_equal(h->code, ERR_CANCELLED);
		assert_pair(r, h, cases[i].outcome);
		heard_free(h);
	}
}

/* The handler was faster than the cancellation: its result goes nowhere. */
static void result_after_a_cancel_is_dropped(void **state)
{
	struct rig *r = *state;
	struct heard *h;

	for (int i = 0; i < 2; i++) {
		fake.deaf = true;
		h = rig_start(r, &(struct rig_req){ .tool = "echo", .rev = REV_R5, .caps = CAP_ELICITATION_FORM });
		rig_wait_start(r);
		call_cancel(h->call, CANCEL_BY_CLIENT);
		if (i == 0)
			fake_full_result("late", "{}", false);
		else
			fake_ask(ELICIT, "", 0);
		rig_wait_end(r, h);
		assert_int_equal(h->code, ERR_CANCELLED);
		assert_null(h->text);
		assert_pair(r, h, AUDIT_CANCELLED);
		heard_free(h);
	}
}

static void cancel_while_the_end_is_recorded_changes_nothing(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_start(r, &echo);

	rig_wait_start(r);
	fault_set(FAULT_HANG);
	fake_result("done");
	fault_wait_hanging(r->loop);
	call_cancel(h->call, CANCEL_BY_CLIENT);
	fault_set(FAULT_NONE);
	rig_wait_end(r, h);
	assert_string_equal(h->text, "done");
	assert_pair(r, h, AUDIT_OK);
	heard_free(h);
}

static const struct rig_req asking = { .tool = "asks", .args = "{}", .rev = REV_R4, .caps = CAP_ELICITATION_FORM,
				       .can_ask = true };

/* A legacy call that waits for its answers. */
static struct heard *start_asking(struct rig *r)
{
	struct heard *h = rig_start(r, &asking);

	rig_wait_start(r);
	fake_ask(ELICIT, "step 1", 6);
	assert_int_equal(h->asks, 1);
	assert_int_equal(limit_running(r->limiter, r->acme), 1);
	return h;
}

static void cancel_while_asking_ends_the_call(void **state)
{
	struct rig *r = *state;
	struct heard *h = start_asking(r);

	call_cancel(h->call, CANCEL_BY_CLIENT);
	assert_int_equal(h->ends, 0);
	call_answer(h->call, json_object());
	rig_wait_end(r, h);
	assert_int_equal(h->code, ERR_CANCELLED);
	assert_int_equal(fake.started, 1);
	assert_pair(r, h, AUDIT_CANCELLED);
	heard_free(h);
}

static void revoked_key_cancels_what_runs_under_it(void **state)
{
	struct rig *r = *state;
	struct heard *a = rig_start(r, &echo), *b;

	rig_wait_start(r);
	b = rig_start(r, &(struct rig_req){ .tool = "echo", .who = r->other_bot });
	struct backend_op *first = fake.op;
	rig_wait_start(r);
	assert_int_equal(call_cancel_where(r->engine, &(struct call_where){ r->acme, 0, 77, NULL }, CANCEL_REVOKED), 0);
	assert_int_equal(fake.cancelled, 0);
	assert_int_equal(call_cancel_where(r->engine, &(struct call_where){ r->acme, 0, 0, "other" }, CANCEL_REVOKED), 0);
	assert_int_equal(call_cancel_where(r->engine, &(struct call_where){ r->acme, 77, 0, "echo" }, CANCEL_REVOKED), 0);
	assert_int_equal(call_cancel_where(r->engine, &(struct call_where){ r->acme, 0, 0, "echo" }, CANCEL_REVOKED), 1);
	assert_int_equal(call_cancel_where(r->engine, &(struct call_where){ .tenant_id = r->acme }, CANCEL_REVOKED), 0);
	assert_int_equal(fake.cancelled, 1);
	assert_true(first->cancelled);
	rig_wait_end(r, a);
	assert_int_equal(call_engine_running(r->engine), 1);
	call_engine_cancel_all(r->engine, CANCEL_SHUTDOWN);
	rig_wait_end(r, b);
	assert_int_equal(call_engine_running(r->engine), 0);
	heard_free(a);
	heard_free(b);
}

/* MCP B-24, AUDIT flags 5 and 9 */
static void detached_call_runs_on_and_is_recorded(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_start(r, &echo);
	bool never = false;

	rig_wait_start(r);
	call_detach(h->call);
	fake.op->sink->progress(fake.op->arg, 1, 2, NULL);
	fake_full_result("done", "{}", false);
	while (call_engine_running(r->engine) > 0)
		(void)ev_loop_run_until(r->loop, &never, 5); /* until it has ended */
	assert_int_equal(h->ends, 0);
	assert_int_equal(h->progress, 0);
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_END), 1);
	assert_int_equal(r->rec[0].outcome, AUDIT_OK);
	assert_int_equal(r->rec[0].flags, AUDIT_FLAG_DETACHED | AUDIT_FLAG_UNDELIVERED);
	heard_free(h);
}

static void detached_call_ends_at_its_next_question(void **state)
{
	struct rig *r = *state;
	bool never = false;

	for (int i = 0; i < 2; i++) {
		struct heard *h = rig_start(r, &asking);

		rig_wait_start(r);
		if (i == 0)
			call_detach(h->call);
		fake_ask(ELICIT, "", 0);
		if (i == 1)
			call_detach(h->call);
		while (call_engine_running(r->engine) > 0)
			(void)ev_loop_run_until(r->loop, &never, 5); /* until it has ended */
		assert_int_equal(h->ends, 0);
		assert_int_equal(h->asks, i);
		assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_END), i + 1);
		assert_int_equal(r->rec[0].outcome, i == 0 ? AUDIT_TOOL_ERROR : AUDIT_CANCELLED);
		heard_free(h);
	}
}

static void answer_that_nobody_reads_is_flagged(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_start(r, &echo);

	rig_wait_start(r);
	h->gone = true;
	fake_result("done");
	rig_wait_end(r, h);
	assert_pair(r, h, AUDIT_OK);
	assert_int_equal(r->rec[1].flags, AUDIT_FLAG_UNDELIVERED);
	heard_free(h);
}

/* AUDIT A-209: it ran, but nobody can prove how it ended. */
static void result_is_withheld_when_its_end_is_late(void **state)
{
	struct rig *r = *state;
	struct heard *h;
	bool never = false;

	clock_fake(clock_wall_us(), clock_mono_us());
	h = rig_start(r, &echo);
	rig_wait_start(r);
	fault_set(FAULT_HANG);
	fake_full_result("secret", "{}", false);
	fault_wait_hanging(r->loop);
	clock_step(r->limits.deadline_ms * 1000ull);
	rig_wait_end(r, h);
	assert_int_equal(h->refusal, REFUSE_AUDIT);
	assert_true(h->executed);
	assert_true(h->has_id);
	assert_null(h->text);
	fault_set(FAULT_NONE);
	clock_real();
	/* The end is recorded when the disk answers again, once. */
	while (rig_call_records(r, r->acme, h->id) < 2)
		(void)ev_loop_run_until(r->loop, &never, 5); /* until it is there */
	assert_pair(r, h, AUDIT_OK);
	heard_free(h);
}

/* Questions. */

/* AUDIT A-204: one begin and one end, however often the handler ran. */
static void legacy_caller_is_asked_on_its_connection(void **state)
{
	struct rig *r = *state;
	struct heard *h = start_asking(r);

	assert_string_equal(h->requests, ELICIT);
	call_answer(h->call, json_of("{\"confirm\":{\"action\":\"accept\"}}"));
	assert_int_equal(fake.started, 2);
	assert_string_equal(fake.answers, "{\"confirm\":{\"action\":\"accept\"}}");
	assert_string_equal(fake.state, "step 1");
	fake_ask(ELICIT, "step 2", 6);
	assert_int_equal(h->asks, 2);
	call_answer(h->call, json_of("{}"));
	assert_string_equal(fake.state, "step 2");
	fake_result("deployed");
	rig_wait_end(r, h);
	assert_string_equal(h->text, "deployed");
	assert_pair(r, h, AUDIT_OK);
	heard_free(h);
}

static void handler_may_ask_eight_times(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_start(r, &asking);

	rig_wait_start(r);
	for (int i = 0; i < CALL_ROUNDS_MAX; i++) {
		fake_ask(ELICIT, "", 0);
		assert_int_equal(h->asks, i + 1);
		call_answer(h->call, json_object());
	}
	fake_ask(ELICIT, "", 0);
	rig_wait_end(r, h);
	assert_int_equal(h->asks, CALL_ROUNDS_MAX);
	assert_true(h->is_error);
	assert_string_equal(h->text, "the tool asked too often");
	assert_pair(r, h, AUDIT_TOOL_ERROR);
	heard_free(h);
}

static void question_without_an_answer_times_out(void **state)
{
	struct rig *r = *state;
	struct heard *h;

	clock_fake(clock_wall_us(), clock_mono_us());
	h = start_asking(r);
	/* The tool's own deadline does not run meanwhile. */
	clock_step(60000000);
	assert_false(ev_loop_run_until(r->loop, &h->done, 20));
	clock_step((CALL_ASK_TIMEOUT_MS - 60000) * 1000ull);
	rig_wait_end(r, h);
	assert_true(h->is_error);
	assert_int_equal(fake.cancelled, 0);
	assert_pair(r, h, AUDIT_TIMEOUT);
	heard_free(h);
}

static void questions_that_cannot_be_put_are_the_tools_error(void **state)
{
	static const struct { const char *requests; size_t state_len; uint32_t caps; bool can_ask; } cases[] = {
		{ ELICIT, 0, CAP_ELICITATION_FORM, false },                     /* no way to carry them */
		{ ELICIT, ASK_STATE_MAX + 1, CAP_ELICITATION_FORM, true },
		{ "{}", 0, CAP_ELICITATION_FORM, true },
		{ "{\"a\":{\"method\":\"sampling/createMessage\",\"params\":{}}}", 0, CAP_ELICITATION_FORM, true },
		{ "{\"a\":{\"method\":\"no/such\"}}", 0, CAP_ELICITATION_FORM, true },
		{ "{\"a\":7}", 0, CAP_ELICITATION_FORM, true },
	};
	static char big[ASK_STATE_MAX + 1];
	struct rig *r = *state;

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct rig_req q = asking;
		struct heard *h;

		q.caps = cases[i].caps;
		q.can_ask = cases[i].can_ask;
		/* The eras agree on all but the first. */
		q.rev = i % 2 ? REV_R5 : REV_R3;
		h = rig_start(r, &q);
		rig_wait_start(r);
		fake_ask(cases[i].requests, big, cases[i].state_len);
		rig_wait_end(r, h);
		assert_int_equal(h->asks, 0);
		assert_true(h->is_error);
		assert_pair(r, h, AUDIT_TOOL_ERROR);
		heard_free(h);
	}
}

static void client_that_cannot_be_asked_ends_the_call(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_start(r, &asking);

	h->ask_rc = ERR_CAPABILITY;
	rig_wait_start(r);
	fake_ask(ELICIT, "", 0);
	assert_int_equal(h->ends, 0);
	rig_wait_end(r, h);
	assert_true(h->is_error);
	assert_string_equal(h->text, "the client cannot be asked");
	assert_pair(r, h, AUDIT_TOOL_ERROR);
	heard_free(h);
}

/* MCP R-04, AUDIT A-204: each round is a call of its own, linked by prev. */
static void modern_round_is_a_call_of_its_own(void **state)
{
	struct rig *r = *state;
	const struct rig_req first = { .tool = "asks", .args = "{\"a\":1}", .rev = REV_R5, .caps = CAP_ELICITATION_FORM };
	struct rig_req again = first;
	struct heard *a = rig_start(r, &first), *b;
	uint8_t id[16];

	rig_wait_start(r);
	fake_ask(ELICIT, "step\0one", 8);
	rig_wait_end(r, a);
	assert_string_equal(a->requests, ELICIT);
	assert_memory_equal(a->state, "v1.", 3);
	assert_int_equal(a->asks, 0);
	assert_pair(r, a, AUDIT_INPUT_REQUIRED);
	assert_int_equal(r->rec[1].n_res, -1);
	memcpy(id, a->id, sizeof id);

	again.answers = "{\"confirm\":{\"action\":\"accept\"}}";
	again.state = a->state;
	b = rig_start(r, &again);
	rig_wait_start(r);
	assert_int_equal(fake.req.state_len, 8);
	assert_memory_equal(fake.req.state, "step\0one", 8);
	assert_string_equal(fake.answers, again.answers);
	fake_result("done");
	rig_wait_end(r, b);
	assert_string_equal(b->text, "done");
	assert_pair(r, b, AUDIT_OK);
	for (int i = 0; i < 2; i++) {
		assert_true(r->rec[i].has_prev);
		assert_memory_equal(r->rec[i].prev, id, sizeof id);
	}
	heard_free(a);
	heard_free(b);
}

/* MCP R-08: a client may know what it will be asked; what counts without a state is the handler's to say. */
static void answers_without_a_state_reach_the_handler(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_start(r, &(struct rig_req){ .tool = "echo", .rev = REV_R5, .answers = "{\"confirm\":{}}" });

	rig_wait_start(r);
	assert_string_equal(fake.answers, "{\"confirm\":{}}");
	assert_null(fake.req.state);
	fake_result("x");
	rig_wait_end(r, h);
	heard_free(h);
}

/* SEC S-B01: "echo" of acme is echo, "echo" of other is hidden under an alias. */
static void equal_names_of_two_tenants_never_cross(void **state)
{
	enum { PAIRS = 100 };
	struct rig *r = *state;
	char args[2][64];

	for (int i = 0; i < PAIRS; i++) {
		struct heard *h[2];
		struct backend_op *op[2];

		for (int t = 0; t < 2; t++) {
			(void)snprintf(args[t], sizeof args[t], "{\"of\":\"%d/%d\"}", t, i);
			h[t] = rig_start(r, &(struct rig_req){ .tool = "echo", .args = args[t], .who = t ? r->other_bot : r->bot });
			rig_wait_start(r);
			assert_string_equal(fake.req.tenant, t ? "other" : "acme");
			assert_string_equal(fake.req.args_text, args[t]);
			op[t] = fake.op;
		}
		/* They end in the other order. */
		for (int k = 0; k < 2; k++) {
			int t = (k + i) % 2;

			fake.op = op[t];
			fake_result(t ? "other" : "acme");
		}
		for (int t = 0; t < 2; t++) {
			rig_wait_end(r, h[t]);
			assert_string_equal(h[t]->text, t ? "other" : "acme");
			assert_int_equal(rig_call_records(r, t ? r->other : r->acme, h[t]->id), 2);
			assert_int_equal(rig_call_records(r, t ? r->acme : r->other, h[t]->id), 0);
			heard_free(h[t]);
		}
	}
	assert_int_equal(fake.started, 2 * PAIRS);
}

static void running_call_keeps_its_definition(void **state)
{
	struct rig *r = *state;
	struct reg_change *change = NULL;
	struct heard *h = rig_start(r, &echo);
	struct db *db = NULL;
	char path[600];

	rig_wait_start(r);
	/* All definitions and pictures are replaced. */
	ROWS_OK(db_open(tmpdir_path(r->rows.dir, "toolcrib.db", path, sizeof path), DB_READER, false, &db, &rows_err));
	ROWS_OK(reg_change_all(db, &change, &rows_err));
	reg_apply(r->registry, &change, NULL, NULL);
	db_close(&db);
	fake_result("done");
	rig_wait_end(r, h);
	assert_pair(r, h, AUDIT_OK);
	heard_free(h);
}

SUITE(run)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(begin_and_end_are_durable_in_time),
		RIG_TEST(no_flush_has_both_records_of_a_call),
		RIG_TEST(no_answer_follows_a_flush_that_failed),
		RIG_TEST(nothing_starts_behind_a_flush_that_failed),
		RIG_TEST(records_say_who_what_and_how),
		RIG_TEST(level_stands_in_the_begin_and_a_lesser_one_in_the_log),
		RIG_TEST(failure_of_the_tool_is_a_result),
		RIG_TEST(errors_of_handlers_become_what_their_code_says),
		RIG_TEST(tool_may_want_a_protocol_error),
		RIG_TEST(result_at_its_limit_and_beyond),
		RIG_TEST(result_that_breaks_its_schema_is_an_error),
		RIG_TEST(deadline_stops_the_handler),
		RIG_TEST(progress_and_log_pass_while_the_handler_runs),
		RIG_TEST(cancel_before_the_begin_is_durable_runs_nothing),
		RIG_TEST(cancel_while_running_stops_the_handler),
		RIG_TEST(result_after_a_cancel_is_dropped),
		RIG_TEST(cancel_while_the_end_is_recorded_changes_nothing),
		RIG_TEST(cancel_while_asking_ends_the_call),
		RIG_TEST(revoked_key_cancels_what_runs_under_it),
		RIG_TEST(detached_call_runs_on_and_is_recorded),
		RIG_TEST(detached_call_ends_at_its_next_question),
		RIG_TEST(answer_that_nobody_reads_is_flagged),
		RIG_TEST(result_is_withheld_when_its_end_is_late),
		RIG_TEST(legacy_caller_is_asked_on_its_connection),
		RIG_TEST(handler_may_ask_eight_times),
		RIG_TEST(question_without_an_answer_times_out),
		RIG_TEST(questions_that_cannot_be_put_are_the_tools_error),
		RIG_TEST(client_that_cannot_be_asked_ends_the_call),
		RIG_TEST(modern_round_is_a_call_of_its_own),
		RIG_TEST(answers_without_a_state_reach_the_handler),
		RIG_TEST(equal_names_of_two_tenants_never_cross),
		RIG_TEST(running_call_keeps_its_definition),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
