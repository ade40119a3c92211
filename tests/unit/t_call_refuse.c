/* Every refusal: what the caller hears, what is recorded, and that nothing has run. */

#include "config.h"

#include "audit/rows.h"

#include "call_rig.h"
#include "suite.h"

#include <stdio.h>

/* A denied record with this outcome and rule, and no start of the handler. */
static void assert_denied(struct rig *r, const struct heard *h, int outcome, const char *rule)
{
	assert_int_equal(fake.started, 0);
	assert_true(h->has_id);
	assert_int_equal(rig_call_records(r, r->acme, h->id), 1);
	assert_int_equal(r->rec[0].kind, AUDIT_CALL_DENIED);
	assert_int_equal(r->rec[0].outcome, outcome);
	assert_string_equal(r->rec[0].rule, rule);
	assert_memory_equal(r->rec[0].prn, "prn_", 4);
	assert_int_equal(r->rec[0].tport, AUDIT_HTTP);
	assert_int_equal(limit_running(r->limiter, r->acme), 0);
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_BEGIN), 0);
}

/* MCP T-30, Z-04, AUDIT A-633: the name is a value, never interned. */
static void unknown_tool_is_refused_and_recorded(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_call(r, &(struct rig_req){ .tool = "ec\nho", .args = "{}" });

	assert_int_equal(h->refusal, REFUSE_UNKNOWN_TOOL);
	assert_int_equal(h->code, ERR_NOT_FOUND);
	assert_denied(r, h, AUDIT_DENIED, "unknown_tool");
	rig_call_records(r, r->acme, h->id);
	assert_string_equal(r->rec[0].tool, "");
	assert_string_equal(r->rec[0].detail, "");
	heard_free(h);
}

/* MCP B-13 */
static void ungranted_tool_looks_like_an_unknown_one(void **state)
{
	struct rig *r = *state;
	struct heard *a = rig_call(r, &(struct rig_req){ .tool = "hidden" });
	struct heard *b = rig_call(r, &(struct rig_req){ .tool = "hiddem" });

	assert_int_equal(a->refusal, REFUSE_UNKNOWN_TOOL);
	assert_int_equal(a->refusal, b->refusal);
	assert_int_equal(a->code, b->code);
	assert_string_equal(a->msg, "Unknown tool: hidden");
	assert_string_equal(b->msg, "Unknown tool: hiddem");
	assert_denied(r, a, AUDIT_DENIED, "unknown_tool");
	heard_free(a);
	heard_free(b);
}

/* MCP T-30, Z-04 */
static void arguments_that_break_the_schema_are_refused(void **state)
{
	static const char *const bad[] = { "{}", "{\"n\":\"x\"}", NULL };
	struct rig *r = *state;

	for (size_t i = 0; i < NELEMS(bad); i++) {
		struct heard *h = rig_call(r, &(struct rig_req){ .tool = "strict", .args = bad[i] });

		assert_int_equal(h->refusal, REFUSE_ARGUMENTS);
		assert_true(h->has_report);
		assert_denied(r, h, AUDIT_INVALID, "schema");
		rig_call_records(r, r->acme, h->id);
		assert_string_equal(r->rec[0].tool, "strict");
		assert_int_equal(r->rec[0].n_req, bad[i] ? strlen(bad[i]) : 0);
		heard_free(h);
	}
}

/* MCP M-10, R-03 */
static void missing_capability_is_refused_before_anything_starts(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_call(r, &(struct rig_req){ .tool = "asks", .caps = CAP_ROOTS });

	assert_int_equal(h->refusal, REFUSE_CAPABILITY);
	assert_int_equal(h->missing_caps, CAP_ELICITATION_FORM);
	assert_denied(r, h, AUDIT_INVALID, "capability");
	heard_free(h);
}

/* SEC S-510, S-511 */
static void cage_that_is_not_enough_is_refused_and_recorded(void **state)
{
	struct rig *r = *state;

	fake.sandbox = (struct backend_sandbox){ "base", "base+landlock:1", "base", false, false };
	struct heard *h = rig_call(r, &(struct rig_req){ .tool = "echo" });

	assert_int_equal(h->refusal, REFUSE_SANDBOX);
	assert_int_equal(h->code, ERR_DENIED);
	assert_string_equal(h->msg, "this tool must run in a sandbox of level base+landlock:1, and would reach base here");
	assert_denied(r, h, AUDIT_DENIED, "sandbox");
	rig_call_records(r, r->acme, h->id);
	assert_string_equal(r->rec[0].sbox, "base");
	assert_string_equal(r->rec[0].detail, "base+landlock:1");
	heard_free(h);
}

static void definition_that_does_not_compile_is_internal(void **state)
{
	struct rig *r = *state;
	struct heard *h = rig_call(r, &(struct rig_req){ .tool = "broken" });

	assert_int_equal(h->refusal, REFUSE_INTERNAL);
	assert_denied(r, h, AUDIT_ABORTED, "definition");
	heard_free(h);
}

static void revoked_caller_is_refused(void **state)
{
	struct rig *r = *state;
	struct tenant_image *img = NULL;
	struct audit_logs *logs = NULL;
	struct audit_event ev;
	struct db *db = NULL;
	struct db_stmt *st;
	struct heard *h;
	char path[600];

	/* As it is after the writer has stored the change: the writer's connection may be used while it is idle. */
	ROWS_OK(writer_close(&r->writer, RIG_WAIT_MS, &rows_err));
	ROWS_OK(db_open(tmpdir_path(r->rows.dir, "toolcrib.db", path, sizeof path), DB_WRITER, false, &db, &rows_err));
	ROWS_OK(db_txn_begin(db, true, &rows_err));
	st = db_stmt_get(db, SQL_TENANT_SET_STATE);
	db_bind_i64(st, 1, r->acme);
	db_bind_i64(st, 2, TENANT_SUSPENDED);
	ROWS_OK(db_run(&st, &rows_err));
	ROWS_OK(audit_logs_open(db, &logs, &rows_err));
	audit_event_init(&ev, AUDIT_TENANT_SUSPEND, 0);
	ROWS_OK(audit_append_rows(logs, db, &ev, AUDIT_ROW_TENANT, NULL, &rows_err));
	ROWS_OK(audit_logs_flush(logs, db, &rows_err));
	ROWS_OK(tenant_image_load(db, r->acme, &img, &rows_err));
	ROWS_OK(db_txn_end(db, 0, &rows_err));
	audit_logs_commit(logs);
	audit_logs_close(&logs);
	db_close(&db);
	tenants_apply(r->tenants, &img);
	rig_open_writer(r);
	call_engine_free(&r->engine);
	r->engine = call_engine_new(&(struct call_env){ .loop = r->loop, .tenants = r->tenants, .registry = r->registry,
		.limiter = r->limiter, .writer = r->writer, .master = rig_master });

	h = rig_call(r, &(struct rig_req){ .tool = "echo" });
	assert_int_equal(h->refusal, REFUSE_NONE);
	assert_int_equal(h->code, ERR_DENIED);
	assert_denied(r, h, AUDIT_DENIED, "standing");
	heard_free(h);
}

/* MCP T-30, Z-04 */
static void second_call_beyond_the_slots_is_refused(void **state)
{
	struct rig *r = *state;
	struct heard *a = rig_start(r, &(struct rig_req){ .tool = "one" }), *b, *c;

	rig_wait_start(r);
	b = rig_call(r, &(struct rig_req){ .tool = "one" });
	assert_int_equal(b->refusal, REFUSE_RATE);
	assert_int_equal(b->code, ERR_RATE);
	assert_int_equal(b->retry_ms, LIMIT_SLOT_RETRY_MS);
	assert_int_equal(rig_call_records(r, r->acme, b->id), 1);
	assert_int_equal(r->rec[0].outcome, AUDIT_RATE_LIMITED);
	assert_string_equal(r->rec[0].rule, "tool/concurrency");
	fake_result("x");
	rig_wait_end(r, a);
	c = rig_start(r, &(struct rig_req){ .tool = "one" });
	rig_wait_start(r);
	fake_result("x");
	rig_wait_end(r, c);
	heard_free(a);
	heard_free(b);
	heard_free(c);
}

static enum call_refusal with_params(struct rig *r, const char *args, const struct call_param *params, size_t n)
{
	struct heard *h = rig_start(r, &(struct rig_req){ .tool = "headed", .args = args, .rev = REV_R5,
							  .check_params = true, .params = params, .nparams = n });
	enum call_refusal refusal;

	while (!h->done && !fake.op)
		(void)ev_loop_run_until(r->loop, &h->done, 5); /* either comes */
	if (fake.op)
		fake_result("ok");
	rig_wait_end(r, h);
	refusal = h->refusal;
	heard_free(h);
	return refusal;
}

#define PARAM(n, v) { n, v, sizeof(v) - 1 }

/* MCP T-43, T-45 */
static void header_parameters_must_say_what_the_body_says(void **state)
{
	static const struct {
		const char *args;
		struct call_param params[2];
		size_t n;
		bool ok;
	} cases[] = {
		{ "{}", { { 0 } }, 0, true },
		{ "{\"s\":null}", { { 0 } }, 0, false },        /* the schema's matter: null is no string */
		{ "{\"s\":\"a\"}", { PARAM("s", "a") }, 1, true },
		{ "{\"s\":\"a\"}", { PARAM("S", "a") }, 1, true },
		{ "{\"s\":\"a\"}", { { 0 } }, 0, false },
		{ "{\"s\":\"a\"}", { PARAM("s", "b") }, 1, false },
		{ "{\"s\":\"a\"}", { PARAM("s", "ab") }, 1, false },
		{ "{}", { PARAM("s", "a") }, 1, false },
		{ "{\"i\":42}", { PARAM("i", "42") }, 1, true },
		{ "{\"i\":42}", { PARAM("i", "42.0") }, 1, true },
		{ "{\"i\":42}", { PARAM("i", "42.5") }, 1, false },
		{ "{\"i\":42}", { PARAM("i", "42.") }, 1, false },
		{ "{\"i\":42}", { PARAM("i", " 42") }, 1, false },
		{ "{\"i\":9007199254740992}", { PARAM("i", "9007199254740992") }, 1, false },
		{ "{\"b\":true}", { PARAM("b", "true") }, 1, true },
		{ "{\"b\":true}", { PARAM("b", "True") }, 1, false },
		{ "{\"b\":false,\"i\":-1}", { PARAM("b", "false"), PARAM("i", "-1") }, 2, true },
		{ "{\"i\":1}", { PARAM("i", "1"), PARAM("elsewhere", "x") }, 2, true },
	};
	struct rig *r = *state;

	for (size_t i = 0; i < NELEMS(cases); i++) {
		enum call_refusal got = with_params(r, cases[i].args, cases[i].params, cases[i].n);

		if ((got == REFUSE_NONE) != cases[i].ok)
			fail_msg("case %zu: %s: refusal %d", i, cases[i].args, (int)got);
	}
}

/* Ask once, and hand out the sealed state. */
static char *asked_state(struct rig *r, const char *args)
{
	struct heard *h = rig_start(r, &(struct rig_req){ .tool = "echo", .args = args, .rev = REV_R5,
							  .caps = CAP_ELICITATION_FORM });
	char *sealed;

	rig_wait_start(r);
	fake_ask(ELICIT, "secret", 6);
	rig_wait_end(r, h);
	sealed = mem_strdup(h->state);
	heard_free(h);
	fake.started = 0;
	return sealed;
}

static void assert_state_refused(struct rig *r, const struct rig_req *q)
{
	struct heard *h = rig_call(r, q);

	assert_int_equal(h->refusal, REFUSE_STATE);
	assert_string_equal(h->msg, "the request state is not valid");
	assert_int_equal(fake.started, 0);
	assert_int_equal(rig_call_records(r, q->who ? q->who->tenant_id : r->acme, h->id), 1);
	assert_int_equal(r->rec[0].outcome, AUDIT_INVALID);
	assert_string_equal(r->rec[0].rule, "state");
	heard_free(h);
}

/* MCP B-34, Z-03, R-05, R-06 */
static void forged_state_is_refused(void **state)
{
	struct rig *r = *state;
	char *sealed = asked_state(r, "{\"a\":1}");
	struct rig_req q = { .tool = "echo", .args = "{\"a\":1}", .answers = "{}", .rev = REV_R5,
			     .caps = CAP_ELICITATION_FORM, .state = sealed };
	size_t len = strlen(sealed), step = len / 5;

	for (size_t i = 0; i < len; i += step) {
		char keep = sealed[i];

		sealed[i] = keep == 'A' ? 'B' : 'A';
		assert_state_refused(r, &q);
		sealed[i] = keep;
	}
	sealed[len - 1] = '\0';
	assert_state_refused(r, &q);
	q.state = "";
	assert_state_refused(r, &q);
	free(sealed);
}

/* MCP Z-03, R-06 */
static void state_of_another_request_is_refused(void **state)
{
	struct rig *r = *state;
	char *sealed = asked_state(r, "{\"a\":1}");
	struct rig_req q = { .tool = "echo", .args = "{\"a\":1}", .answers = "{}", .rev = REV_R5,
			     .caps = CAP_ELICITATION_FORM, .state = sealed };
	struct rig_req other_args = q, other_tool = q, other_tenant = q;

	other_args.args = "{\"a\":2}";
	assert_state_refused(r, &other_args);
	other_tool.tool = "one";
	assert_state_refused(r, &other_tool);
	/* The same name, in another tenant. */
	other_tenant.who = r->other_bot;
	assert_state_refused(r, &other_tenant);
	free(sealed);
}

static void state_is_refused_when_its_time_is_over(void **state)
{
	struct rig *r = *state;
	char *sealed = asked_state(r, NULL);
	const struct rig_req q = { .tool = "echo", .answers = "{}", .rev = REV_R5, .caps = CAP_ELICITATION_FORM,
				   .state = sealed };
	uint64_t now = clock_wall_us(), mono = clock_mono_us();
	struct heard *h;

	clock_fake(now + (CALL_STATE_TTL_S - 2) * 1000000ull, mono);
	h = rig_start(r, &q);
	rig_wait_start(r);
	fake_result("ok");
	rig_wait_end(r, h);
	heard_free(h);
	fake.started = 0;
	clock_fake(now + (CALL_STATE_TTL_S + 1) * 1000000ull, mono);
	assert_state_refused(r, &q);
	free(sealed);
}

/* The order of members and white space do not change what the arguments mean. */
static void state_belongs_to_the_meaning_of_the_arguments(void **state)
{
	struct rig *r = *state;
	char *sealed = asked_state(r, "{\"a\":1,\"b\":2}");
	struct heard *h = rig_start(r, &(struct rig_req){ .tool = "echo", .args = "{ \"b\": 2, \"a\": 1.0 }", .rev = REV_R5,
							  .caps = CAP_ELICITATION_FORM, .state = sealed });

	rig_wait_start(r);
	assert_string_equal(fake.state, "secret");
	assert_string_equal(fake.answers, "{}");
	fake_result("ok");
	rig_wait_end(r, h);
	heard_free(h);
	free(sealed);
}

/* SEC S-803: a call that no limit of calls has seen is a message like others. */
static void unknown_tools_are_charged_as_messages(void **state)
{
	struct rig *r = *state;
	struct err err;

	clock_fake(clock_wall_us(), clock_mono_us());
	call_engine_free(&r->engine);
	r->engine = call_engine_new(&(struct call_env){ .loop = r->loop, .tenants = r->tenants, .registry = r->registry,
		.limiter = r->limiter, .writer = r->writer, .master = rig_master, .requests = 2 });
	for (int i = 0; i < 2; i++)
		heard_free(rig_call(r, &(struct rig_req){ .tool = i ? "hidden" : "nothing" }));
	assert_int_equal(call_charge(r->engine, r->bot, 1, false, &err), ERR_RATE);
	assert_int_equal(call_charge(r->engine, r->other_bot, 1, false, &err), 0);
}

/* AUDIT: the begin comes too late; the call was refused and has not run. */
static void call_is_refused_when_its_begin_is_late(void **state)
{
	struct rig *r = *state;
	struct heard *h;
	bool never = false;

	clock_fake(clock_wall_us(), clock_mono_us());
	fault_set(FAULT_HANG);
	h = rig_start(r, &(struct rig_req){ .tool = "echo" });
	fault_wait_hanging(r->loop);
	clock_step(r->limits.deadline_ms * 1000ull);
	rig_wait_end(r, h);
	assert_int_equal(h->refusal, REFUSE_AUDIT);
	assert_false(h->executed);
	assert_int_equal(limit_running(r->limiter, r->acme), 0);
	fault_set(FAULT_NONE);
	clock_real();
	while (rig_call_records(r, r->acme, h->id) < 2)
		(void)ev_loop_run_until(r->loop, &never, 5); /* until the late end is written */
	assert_int_equal(fake.started, 0);
	assert_int_equal(r->rec[0].kind, AUDIT_CALL_BEGIN);
	assert_int_equal(r->rec[1].kind, AUDIT_CALL_END);
	assert_int_equal(r->rec[1].outcome, AUDIT_ABORTED);
	assert_int_equal(r->rec[1].flags, AUDIT_FLAG_NOT_EXECUTED);
	assert_string_equal(r->rec[1].tool, r->rec[0].tool);    /* AUDIT 4.2: reports read the end alone */
	assert_string_equal(r->rec[1].prn, r->rec[0].prn);
	heard_free(h);
}

/* AUDIT A-205: a refusal that cannot be recorded is not told either. */
static void refusal_waits_for_its_record(void **state)
{
	struct rig *r = *state;
	struct heard *h;

	clock_fake(clock_wall_us(), clock_mono_us());
	fault_set(FAULT_HANG);
	h = rig_start(r, &(struct rig_req){ .tool = "nothing" });
	fault_wait_hanging(r->loop);
	assert_false(ev_loop_run_until(r->loop, &h->done, 20));
	clock_step(r->limits.deadline_ms * 1000ull);
	rig_wait_end(r, h);
	assert_int_equal(h->refusal, REFUSE_AUDIT);
	assert_false(h->executed);
	heard_free(h);
	fault_set(FAULT_NONE);
}

/* AUDIT A-211 */
static void call_without_room_on_the_disk_is_refused(void **state)
{
	struct rig *r = *state;
	struct heard *h;

	ROWS_OK(writer_close(&r->writer, RIG_WAIT_MS, &rows_err));
	r->limits.space_floor = UINT64_MAX / 2;
	rig_open_writer(r);
	call_engine_free(&r->engine);
	r->engine = call_engine_new(&(struct call_env){ .loop = r->loop, .tenants = r->tenants, .registry = r->registry,
		.limiter = r->limiter, .writer = r->writer, .master = rig_master });
	h = rig_call(r, &(struct rig_req){ .tool = "echo" });
	assert_int_equal(h->refusal, REFUSE_AUDIT);
	assert_false(h->executed);
	assert_int_equal(fake.started, 0);
	assert_int_equal(limit_running(r->limiter, r->acme), 0);
	heard_free(h);
}

/* AUDIT A-218 */
static void flood_of_refusals_is_summed_up(void **state)
{
	struct rig *r = *state;
	bool never = false;

	clock_fake(clock_wall_us(), clock_mono_us());
	for (int i = 0; i < CALL_DENIED_PER_S + 5; i++) {
		struct heard *h = rig_call(r, &(struct rig_req){ .tool = i % 2 ? "nothing" : "strict" });

		assert_int_equal(h->refusal, i % 2 ? REFUSE_UNKNOWN_TOOL : REFUSE_ARGUMENTS);
		assert_int_equal(h->has_id, i < CALL_DENIED_PER_S);
		heard_free(h);
	}
	assert_int_equal(rig_records(r, r->acme, AUDIT_CALL_DENIED), CALL_DENIED_PER_S);
	/* Another caller's refusals are his own. */
	{
		struct heard *h = rig_call(r, &(struct rig_req){ .tool = "nothing", .who = r->other_bot });

		assert_true(h->has_id);
		heard_free(h);
	}
	clock_step(CALL_DENIED_SUMMARY_MS * 1000ull);
	while (rig_records(r, r->acme, AUDIT_CALL_DENIED_SUMMARY) < 1)
		(void)ev_loop_run_until(r->loop, &never, 5); /* until the summary is written */
	assert_string_equal(r->rec[0].detail, "unknown_tool=2 schema=3");
	assert_int_equal(rig_records(r, r->other, AUDIT_CALL_DENIED_SUMMARY), 0);
}

SUITE(refuse)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(unknown_tool_is_refused_and_recorded),
		RIG_TEST(ungranted_tool_looks_like_an_unknown_one),
		RIG_TEST(arguments_that_break_the_schema_are_refused),
		RIG_TEST(missing_capability_is_refused_before_anything_starts),
		RIG_TEST(cage_that_is_not_enough_is_refused_and_recorded),
		RIG_TEST(definition_that_does_not_compile_is_internal),
		RIG_TEST(revoked_caller_is_refused),
		RIG_TEST(second_call_beyond_the_slots_is_refused),
		RIG_TEST(header_parameters_must_say_what_the_body_says),
		RIG_TEST(forged_state_is_refused),
		RIG_TEST(state_of_another_request_is_refused),
		RIG_TEST(state_is_refused_when_its_time_is_over),
		RIG_TEST(state_belongs_to_the_meaning_of_the_arguments),
		RIG_TEST(call_is_refused_when_its_begin_is_late),
		RIG_TEST(unknown_tools_are_charged_as_messages),
		RIG_TEST(refusal_waits_for_its_record),
		RIG_TEST(call_without_room_on_the_disk_is_refused),
		RIG_TEST(flood_of_refusals_is_summed_up),
	};

	faultvfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
