/* exec with reuse: which calls share a process, and when it is let go. */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend_run.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "suite.h"

#define IDLE_US 60000000ull             /* as in worker.c */
#define LIFE_US 600000000ull
#define CALLS_MAX 1000

/* A program that reads a line, does what is said, and reads the next one.  name: makes it a handler of its own. */
static json_t *worker(const char *name, const char *each, int reuse)
{
	char *script = mem_printf(": %s; while read -r line; do %s; done", name, each);
	json_t *h = handler_sh(script, "stream");

	json_object_set_new(h, "reuse", json_integer(reuse));
	free(script);
	return h;
}

#define SAY_PID "echo '{\"result\":{\"structuredContent\":'$$'}}'"

static pid_t pid_of(struct run *r)
{
	if (r->kind != END_RESULT || !json_is_integer(r->res.structured))
		fail_msg("no result: %s", r->err.msg);
	pid_t pid = (pid_t)json_integer_value(r->res.structured);
	run_free(r);
	return pid;
}

static pid_t call(const char *name, const char *each, const struct run_opts *o)
{
	struct run r;

	run_it(&r, worker(name, each, 2), o);
	return pid_of(&r);
}

static void assert_gone(pid_t pid)
{
	bool never = false;
	uint64_t until = clock_mono_us() + PATIENCE_MS * 1000ull;

	while (kill(pid, 0) == 0 && clock_mono_us() < until)
		ev_loop_run_until(run_loop(), &never, 1);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
}

static void calls_share_a_process(void **state)
{
	uint64_t reused = metric_get(METRIC_workers_reused), started = metric_get(METRIC_children_started);
	pid_t pid = call("share", SAY_PID, NO_OPTS);

	for (int i = 0; i < 20; i++)
		assert_int_equal(call("share", SAY_PID, NO_OPTS), pid);
	assert_int_equal(metric_get(METRIC_workers_reused), reused + 20);
	assert_int_equal(metric_get(METRIC_children_started), started + 1);
}

/* SEC S-B01 */
static void tenants_and_handlers_share_nothing(void **state)
{
	pid_t a = call("apart", SAY_PID, OPTS(.tenant_id = 1)), b = call("apart", SAY_PID, OPTS(.tenant_id = 2));
	pid_t c = call("apart2", SAY_PID, OPTS(.tenant_id = 1));

	assert_true(a != b && a != c && b != c);
	assert_int_equal(call("apart", SAY_PID, OPTS(.tenant_id = 1)), a);
	assert_int_equal(call("apart", SAY_PID, OPTS(.tenant_id = 2)), b);
}

/* More at once than are kept: each has a process, and what is too many goes. */
static void calls_at_once_have_a_process_each(void **state)
{
	struct run runs[3];
	pid_t pids[3];

	for (int i = 0; i < 3; i++)
		run_start(&runs[i], worker("once", SAY_PID, 2), NO_OPTS);
	for (int i = 0; i < 3; i++) {
		run_wait(&runs[i]);
		pids[i] = pid_of(&runs[i]);
	}
	assert_true(pids[0] != pids[1] && pids[1] != pids[2] && pids[0] != pids[2]);
	/* While calls come, those that end are taken again, however many are at work. */
	uint64_t started = metric_get(METRIC_children_started);
	for (int i = 0; i < 3; i++)
		run_start(&runs[i], worker("once", SAY_PID, 2), NO_OPTS);
	for (int turn = 0; turn < 10; turn++) {
		for (int i = 0; i < 3; i++) {
			run_wait(&runs[i]);
			(void)pid_of(&runs[i]);
			run_start(&runs[i], worker("once", SAY_PID, 2), NO_OPTS);
		}
	}
	for (int i = 0; i < 3; i++) {
		run_wait(&runs[i]);
		(void)pid_of(&runs[i]);
	}
	assert_int_equal(metric_get(METRIC_children_started), started);
	/* When there are none, two stay. */
	int gone = 0;
	bool never = false;
	uint64_t until = clock_mono_us() + PATIENCE_MS * 1000ull;
	while (gone == 0 && clock_mono_us() < until) {
		ev_loop_run_until(run_loop(), &never, 20);
		for (int i = 0; i < 3; i++)
			gone += kill(pids[i], 0) != 0;
	}
	assert_int_equal(gone, 1);
}

static void progress_log_content_and_questions_pass(void **state)
{
	const char *each = "echo '{\"progress\":{\"done\":1}}'; echo '{\"log\":{\"level\":\"info\",\"data\":1}}';"
			   "echo '{\"content\":{\"type\":\"text\",\"text\":\"one\"}}';"
			   "case $line in *'\"n\":2'*) echo '{\"error\":{\"code\":-32602,\"message\":\"no\"}}';;"
			   "*) echo '{\"result\":{}}';; esac";

	for (int i = 1; i <= 4; i++) {
		struct run r;
		char args[16];
		snprintf(args, sizeof(args), "{\"n\":%d}", i);
		run_it(&r, worker("pass", each, 1), OPTS(.args = args));
		assert_int_equal(r.nprogress, 1);
		assert_int_equal(r.nlog, 1);
		assert_int_equal(r.kind, i == 2 ? END_ERROR : END_RESULT);
		if (i == 2)
			assert_int_equal(r.rpc_code, -32602);
		else
			assert_int_equal(json_array_size(r.res.content), 1);
		assert_false(r.res.has_xstat);
		run_free(&r);
	}
	for (int i = 0; i < 2; i++) {
		struct run r;
		run_it(&r, worker("asks", "echo '{\"ask\":{\"requests\":{\"q\":{\"method\":\"elicitation/create\",\"params\":{}}},"
				  "\"state\":\"s\"}}'", 1), OPTS(.caps = ~0u));
		assert_int_equal(r.kind, END_ASK);
		run_free(&r);
	}
}

static void process_that_fails_is_replaced(void **state)
{
	const char *each = "case $line in *die*) exit 3;; esac; " SAY_PID;
	pid_t pid = call("dies", each, NO_OPTS);
	struct run r;

	run_it(&r, worker("dies", each, 2), OPTS(.args = "{\"a\":\"die\"}"));
	assert_int_equal(r.kind, END_RESULT);
	assert_true(r.res.is_error && r.res.xstat == 3);
	run_free(&r);
	assert_int_not_equal(call("dies", each, NO_OPTS), pid);
	assert_gone(pid);
}

static void cancel_run(struct run *r)
{
	backend_cancel(r->op, CANCEL_BY_CLIENT);
}

static void cancel_and_deadline_end_the_process(void **state)
{
	const char *each = "case $line in *hang*) echo '{\"progress\":{\"done\":1}}'; sleep 1000;; esac; " SAY_PID;

	for (int i = 0; i < 2; i++) {
		pid_t pid = call("hangs", each, NO_OPTS);
		struct run r;
		run_start(&r, worker("hangs", each, 2), OPTS(.args = "{\"a\":\"hang\"}", .timeout_us = i ? 100000 : 0));
		r.on_progress = i ? NULL : cancel_run;
		run_wait(&r);
		assert_int_equal(r.err.code, i ? ERR_TIMEOUT : ERR_CANCELLED);
		run_free(&r);
		assert_int_not_equal(call("hangs", each, NO_OPTS), pid);
		assert_gone(pid);
	}
}

/* What comes after the last line is never taken for the next call's answer. */
static void talk_out_of_turn_ends_the_process(void **state)
{
	const char *each = SAY_PID "; echo '{\"result\":{\"structuredContent\":-1}}'";
	struct run r;
	pid_t last = 0;

	for (int i = 0; i < 5; i++) {
		run_it(&r, worker("talks", each, 2), NO_OPTS);
		if (r.kind == END_ERROR) {      /* both lines came in one piece */
			assert_non_null(strstr(r.err.msg, "after"));
			run_free(&r);
			continue;
		}
		pid_t pid = pid_of(&r);
		assert_int_not_equal(pid, -1);
		assert_int_not_equal(pid, last);
		assert_gone(pid);
		last = pid;
	}
	/* Half a line is no better. */
	pid_t pid = call("half", SAY_PID "; printf '{'", NO_OPTS);
	assert_gone(pid);
}

static void process_that_ends_between_calls_is_replaced(void **state)
{
	pid_t pid = call("ends", SAY_PID "; exit 0", NO_OPTS);

	assert_gone(pid);
	assert_int_not_equal(call("ends", SAY_PID "; exit 0", NO_OPTS), pid);
}

static void process_serves_so_many_calls(void **state)
{
	pid_t first = call("many", SAY_PID, NO_OPTS);

	for (int i = 2; i <= CALLS_MAX; i++)
		assert_int_equal(call("many", SAY_PID, NO_OPTS), first);
	assert_int_not_equal(call("many", SAY_PID, NO_OPTS), first);
	assert_gone(first);
}

static void new_secret_means_a_new_process(void **state)
{
	pid_t pids[3];

	for (int i = 0; i < 3; i++) {
		struct run r;
		if (i != 1)
			run_secret_set("k", i ? "second" : "first");
		json_t *h = worker("secret", "echo '{\"content\":{\"type\":\"text\",\"text\":\"'$K'\"}}'; " SAY_PID, 1);
		json_object_set_new(h, "env", json_pack("{s:s}", "K", "{secret:k}"));
		run_it(&r, h, NO_OPTS);
		/* Also a call that found the process there knows what is to be blanked. */
		assert_string_equal(run_text(&r), "[secret:k]");
		pids[i] = pid_of(&r);
	}
	assert_int_equal(pids[0], pids[1]);
	assert_int_not_equal(pids[1], pids[2]);
}

/* A clock that moves only when nothing happens. */
static void step(uint64_t us)
{
	bool never = false;

	clock_step(us);
	ev_loop_run_until(run_loop(), &never, 5);
}

static void idle_and_old_processes_go(void **state)
{
	clock_fake(clock_wall_us(), clock_mono_us());
	const struct run_opts *o = OPTS(.timeout_us = LIFE_US * 4);
	pid_t pid = call("idle", SAY_PID, o);
	step(IDLE_US - 1000000);
	assert_int_equal(call("idle", SAY_PID, o), pid);
	step(IDLE_US - 1000000);
	assert_int_equal(kill(pid, 0), 0);
	step(2000000);
	assert_int_not_equal(call("idle", SAY_PID, o), pid);

	pid = call("old", SAY_PID, o);
	for (uint64_t age = IDLE_US / 2; age < LIFE_US; age += IDLE_US / 2) {
		step(IDLE_US / 2);
		assert_int_equal(call("old", SAY_PID, o), pid);
	}
	step(IDLE_US / 2);
	assert_int_not_equal(call("old", SAY_PID, o), pid);
	clock_real();
	assert_gone(pid);
}

SINGLE_THREAD_SUITE(reuse)
{
	(void)run_loop();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_share_a_process),
		cmocka_unit_test(tenants_and_handlers_share_nothing),
		cmocka_unit_test(calls_at_once_have_a_process_each),
		cmocka_unit_test(progress_log_content_and_questions_pass),
		cmocka_unit_test(process_that_fails_is_replaced),
		cmocka_unit_test(cancel_and_deadline_end_the_process),
		cmocka_unit_test(talk_out_of_turn_ends_the_process),
		cmocka_unit_test(process_that_ends_between_calls_is_replaced),
		cmocka_unit_test(process_serves_so_many_calls),
		cmocka_unit_test(new_secret_means_a_new_process),
		cmocka_unit_test(idle_and_old_processes_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
