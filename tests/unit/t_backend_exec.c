/* exec: what reaches a program, what comes back, and everything that a program can do wrong. */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend_run.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "ev/ev.h"
#include "proto/caps.h"
#include "suite.h"

/* A handler around a script file, called with the argument /a in the given place. */
static json_t *script_handler(const char *name, const char *text, const char *last_arg)
{
	run_write_file(name, text, 0600);
	char *path = mem_printf("%s/%s", run_dir(), name);
	json_t *h = json_pack("{s:s, s:[s,s,s]}", "type", "exec", "argv", "/bin/sh", path, last_arg);
	free(path);
	return h;
}

static char *json_args(const char *value)
{
	json_t *v = json_pack("{s:s}", "a", value);
	char *text = json_dumps(v, JSON_COMPACT);
	json_decref(v);
	return text;
}

/* SEC S-B04: one element, byte for byte, whatever is in it. */
static void argument_arrives_byte_equal_as_one_word(void **state)
{
	static const char *const corpus[] = {
		"",
		" ",
		"a b",
		"a\tb\nc",
		"$(id)",
		"`id`",
		"; id",
		"&& id",
		"| id",
		"> /tmp/x",
		"*",
		"?",
		"[a-z]",
		"~",
		"$HOME",
		"'",
		"\"",
		"\\",
		"\\n",
		"%s%n",
		"{}",
		"{/a}",
		"{tenant}",
		"--",
		"-rf",
		"--help",
		"-",
		"../../etc/passwd",
		"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
		"a=b",
		"!!",
		"#x",
		"\r\n.\r\n",
	};

	for (size_t i = 0; i < NELEMS(corpus); i++) {
		struct run r;
		char *args = json_args(corpus[i]);
		run_it(&r, handler_json("{'type':'exec','argv':['/usr/bin/printf','%s:%s','--','{/a}']}"),
		       OPTS(.args = args));
		/* printf takes its -- only before the format, so here it is the first operand. */
		char *want = mem_printf("--:%s", corpus[i]);
		assert_int_equal(r.kind, END_RESULT);
		assert_string_equal(run_text(&r), want);
		free(want);
		free(args);
		run_free(&r);
	}
}

/* They come back as marks, so the program says what it got. */
static void control_characters_arrive_as_they_are(void **state)
{
	struct run r;

	run_it(&r, handler_json("{'type':'exec','argv':['/bin/sh','-c','printf %s \\\"$1\\\" | od -An -tx1','sh','{/a}']}"),
	       OPTS(.args = "{\"a\":\"\\u0001\\u007f\\u001b\"}"));
	assert_string_equal(run_text(&r), " 01 7f 1b\n");
	run_free(&r);
}

/* SEC S-503 */
static void argument_does_not_become_an_option(void **state)
{
	static const struct { const char *handler; bool passes; } cases[] = {
		{ "{'type':'exec','argv':['/bin/echo','{/a}']}", false },
		{ "{'type':'exec','argv':['/bin/echo','{/e}{/a}']}", false },
		{ "{'type':'exec','argv':['/bin/echo','--','{/a}']}", true },
		{ "{'type':'exec','argv':['/bin/echo','--name={/a}']}", true },
		{ "{'type':'exec','argv':['/bin/echo','{/a}','--']}", false },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct run r;
		run_it(&r, handler_json(cases[i].handler), OPTS(.args = "{\"a\":\"-n\",\"e\":\"\"}"));
		assert_int_equal(r.kind, cases[i].passes ? END_RESULT : END_ERROR);
		if (!cases[i].passes)
			assert_int_equal(r.err.code, ERR_TOOL);
		run_free(&r);
	}
}

static void word_at_the_limit_passes_and_one_byte_more_does_not(void **state)
{
	for (int over = 0; over < 2; over++) {
		struct run r;
		char *big = mem_alloc((128 << 10) + 1);
		memset(big, 'x', 128 << 10);
		big[(128 << 10) - 1 + over] = '\0';
		char *args = json_args(big);
		run_it(&r, handler_json("{'type':'exec','argv':['/usr/bin/test','--','{/a}']}"),
		       OPTS(.args = args));
		assert_int_equal(r.kind, over ? END_ERROR : END_RESULT);
		if (over)
			assert_int_equal(r.err.code, ERR_LIMIT);
		free(args);
		free(big);
		run_free(&r);
	}
}

/* What follows a text, which must be there. */
static char *after(const char *text, const char *start)
{
	assert_memory_equal(text, start, strlen(start));
	return (char *)(uintptr_t)text + strlen(start);
}

/* SEC S-505, S-B05: nothing is inherited. */
static void environment_is_the_allow_list(void **state)
{
	struct run r;

	setenv("LD_PRELOAD", "", 1);
	setenv("NODE_OPTIONS", "--require /x", 1);
	run_it(&r,
	       handler_json("{'type':'exec','argv':['/usr/bin/env'],'env':{'WHO':'{tenant}/{principal}'}}"),
	       NO_OPTS);
	char *rest = after(run_text(&r), "WHO=acme/bot\nPATH=/usr/bin:/bin\nLANG=C.UTF-8\n");
	/* The own directory. */
	rest = after(after(after(rest, "HOME="), run_dir()), "/toolcrib-");
	rest = after(after(after(rest + strcspn(rest, "\n"), "\nTMPDIR="), run_dir()), "/toolcrib-");
	assert_string_equal(rest + strcspn(rest, "\n"), "\n");
	run_free(&r);
	run_it(&r, handler_json("{'type':'exec','argv':['/usr/bin/env'],'env':{'LANG':'C','HOME':'/x','TMPDIR':'/y'}}"),
	       NO_OPTS);
	assert_string_equal(run_text(&r), "LANG=C\nHOME=/x\nTMPDIR=/y\nPATH=/usr/bin:/bin\n");
	run_free(&r);
	unsetenv("LD_PRELOAD");
	unsetenv("NODE_OPTIONS");
}

static void stdin_is_what_the_definition_says(void **state)
{
	static const struct { const char *in, *args, *out; } cases[] = {
		{ "json", "{ \"a\": 1.50,\r\n \"b\":\"x\\ny\" }", "{ \"a\": 1.50,   \"b\":\"x\\ny\" }\n" },
		{ "none", "{}", "" },
		{ "<{/b}>", "{\"b\":\"x\\ny\"}", "<x\ny>" },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct run r;
		json_t *h = json_pack("{s:s, s:[s], s:s}", "type", "exec", "argv", "/bin/cat", "stdin",
				      cases[i].in);
		run_it(&r, h, OPTS(.args = cases[i].args));
		assert_string_equal(run_text(&r), cases[i].out);
		run_free(&r);
	}
}

static void cwd_and_limits_reach_the_program(void **state)
{
	struct run r;
	json_t *h = handler_sh("pwd; ulimit -v; ulimit -t; ulimit -c; ulimit -n", "text");

	json_object_set_new(h, "cwd", json_string("/usr"));
	json_object_set_new(h, "sandbox", json_pack("{s:s, s:s}", "memory", "256MiB", "cpu", "2500ms"));
	run_it(&r, h, NO_OPTS);
	assert_string_equal(run_text(&r), "/usr\n262144\n3\n0\n256\n");
	run_free(&r);
}

static void json_output_is_structured_and_text(void **state)
{
	struct run r;

	run_it(&r, handler_sh("echo ' {\"a\": 1.50} '", "json"), NO_OPTS);
	assert_true(json_is_object(r.res.structured));
	assert_string_equal(run_text(&r), " {\"a\": 1.50}");
	assert_true(r.res.has_xstat && r.res.xstat == 0);
	run_free(&r);
}

static void output_that_does_not_parse_is_a_tool_error(void **state)
{
	static const struct { const char *script, *output, *msg; } cases[] = {
		{ "echo '{\"a\":1'", "json", "is not JSON: byte" },
		{ "echo '{} {}'", "json", "is not JSON: byte" },
		{ "echo '{\"a\":1,\"a\":2}'", "json", "is not JSON: byte" },
		{ "true", "json", "is not JSON" },
		{ "printf '\\377'", "text", "not UTF-8" },
		{ "printf '\\303'", "text", "not UTF-8" },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct run r;
		run_it(&r, handler_sh(cases[i].script, cases[i].output), NO_OPTS);
		assert_int_equal(r.err.code, ERR_TOOL);
		if (!strstr(r.err.msg, cases[i].msg))
			fail_msg("%s: %s", cases[i].script, r.err.msg);
		run_free(&r);
	}
}

static void exit_status_shows_the_last_lines_of_stderr(void **state)
{
	struct run r;

	run_it(&r,
	       handler_sh(
		       "for i in $(seq 1 30); do echo \"line $i\" >&2; done; printf 'tab\\there' >&2; exit 3",
		       "text"),
	       NO_OPTS);
	assert_int_equal(r.kind, END_RESULT);
	assert_true(r.res.is_error && r.res.has_xstat && r.res.xstat == 3 && r.res.sig == 0);
	assert_non_null(strstr(run_text(&r), "exit status 3\nline 12\n"));
	assert_null(strstr(run_text(&r), "line 11\n"));
	assert_non_null(strstr(run_text(&r), "line 30\ntab\\x09here"));
	run_free(&r);
}

static void stderr_flood_keeps_the_end(void **state)
{
	struct run r;

	run_it(&r,
	       handler_sh("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo the end >&2; exit 1",
			  "text"),
	       NO_OPTS);
	assert_true(r.res.is_error);
	assert_string_equal(run_text(&r), "exit status 1\nthe end");
	run_free(&r);
}

static void signal_is_named(void **state)
{
	struct run r;

	run_it(&r, handler_sh("kill -SEGV $$", "text"), NO_OPTS);
	assert_true(r.res.is_error && !r.res.has_xstat);
	assert_int_equal(r.res.sig, SIGSEGV);
	assert_string_equal(run_text(&r), "killed by signal 11 SIGSEGV");
	run_free(&r);
}

static void program_that_cannot_start_is_a_tool_error(void **state)
{
	struct run r;

	run_it(&r, handler_json("{'type':'exec','argv':['/nonexistent/tool']}"), NO_OPTS);
	assert_int_equal(r.err.code, ERR_TOOL);
	assert_non_null(strstr(r.err.msg, "could not be started"));
	assert_null(strstr(r.err.msg, "/nonexistent"));         /* no path reaches a client */
	run_free(&r);
}

static void child_that_does_not_read_is_no_error(void **state)
{
	struct run r;
	char *big = mem_alloc(900001);
	memset(big, 'x', 900000);
	big[900000] = '\0';
	char *args = json_args(big);

	run_it(&r, handler_sh("exec <&-; echo done", "text"), OPTS(.args = args));
	assert_string_equal(run_text(&r), "done\n");
	run_free(&r);
	/* and one that reads all of it late */
	run_it(&r, handler_sh("wc -c", "text"), OPTS(.args = args));
	assert_int_equal(strtol(run_text(&r), NULL, 10), strlen(args) + 1);
	run_free(&r);
	free(args);
	free(big);
}

static void child_that_closes_stdout_and_lives_on_times_out(void **state)
{
	struct run r;

	run_it(&r, handler_sh("echo x; exec >&- 2>&-; sleep 1000", "text"), OPTS(.timeout_us = 50000));
	assert_int_equal(r.err.code, ERR_TIMEOUT);
	run_free(&r);
}

static void orphan_that_holds_stdout_does_not_hold_the_call(void **state)
{
	struct run r;

	run_it(&r, handler_sh("sleep 1000 & (setsid sleep 1000 &) ; echo done", "text"), NO_OPTS);
	assert_int_equal(r.kind, END_RESULT);
	assert_string_equal(run_text(&r), "done\n");
	run_free(&r);
}

static void cancel_run(struct run *r)
{
	backend_cancel(r->op, CANCEL_BY_CLIENT);
}

static void term_lets_a_program_clean_up(void **state)
{
	struct run r;
	char *script = mem_printf(
		"trap 'echo bye; echo bye >%s/bye; exit 0' TERM; echo '{\"progress\":{\"done\":1}}'\n"
		"while :; do sleep 0.01; done",
		run_dir());

	json_t *h = handler_sh(script, "stream");
	json_object_set_new(h, "sandbox", json_pack("{s:[s]}", "write", run_dir()));
	run_start(&r, h, NO_OPTS);
	free(script);
	r.on_progress = cancel_run;
	run_wait(&r);
	assert_int_equal(r.err.code, ERR_CANCELLED);
	assert_true(r.cpu_us > 0 && r.rss_kib > 0);
	char *bye = run_read_file("bye");
	assert_non_null(bye);
	free(bye);
	run_free(&r);
}

/* A clock that moves only when nothing happens. */
static void run_stepping(struct run *r, const bool *done, uint64_t step_us)
{
	for (int i = 0; i < 1000 && !*done; i++) {
		if (!ev_loop_run_until(r->loop, done, 2))
			clock_step(step_us);
	}
	assert_true(*done);
}

static bool trap_is_set;

static void note_trap(struct run *r)
{
	trap_is_set = true;
}

/* TERM first, and KILL 2 s later for the one that ignores it (SEC S-513). */
static void term_is_followed_by_kill(void **state)
{
	struct run r;

	clock_fake(clock_wall_us(), clock_mono_us());
	run_start(&r,
		  handler_sh("trap '' TERM; echo '{\"progress\":{\"done\":1}}'; while :; do sleep 1000; done",
			     "stream"),
		  OPTS(.timeout_us = 1000000));
	r.on_progress = note_trap;
	run_stepping(&r, &trap_is_set, 0);
	clock_step(1000000);
	run_turns(3);                   /* the deadline: TERM */
	clock_step(1990000);
	run_turns(3);
	assert_int_equal(r.ends, 0);
	run_stepping(&r, &r.done, 5000);
	clock_real();
	run_wait(&r);
	assert_int_equal(r.err.code, ERR_TIMEOUT);
	run_free(&r);
}

/* --- the child contract -------------------------------------------------------------------------- */

/* TK-23 */
static void stream_says_that_it_lasts(void **state)
{
	static const char *const bad[] = { "{\"task\":{\"message\":7}}", "{\"task\":{\"note\":\"x\"}}", "{\"task\":true}",
		"{\"task\":{},\"log\":{}}" };
	char script[128];
	struct run r;

	run_it(&r, handler_sh("echo '{\"task\":{}}'\necho '{\"task\":{\"message\":\"queued\"}}'\n"
			      "echo '{\"content\":{\"type\":\"text\",\"text\":\"one\"}}'\n", "stream"), NO_OPTS);
	assert_int_equal(r.kind, END_RESULT);
	assert_int_equal(r.nlasts, 2);
	assert_string_equal(r.note, "queued");
	run_free(&r);
	for (size_t i = 0; i < NELEMS(bad); i++) {
		snprintf(script, sizeof(script), "echo '%s'\n", bad[i]);
		run_it(&r, handler_sh(script, "stream"), NO_OPTS);
		assert_int_equal(r.kind, END_ERROR);
		assert_int_equal(r.nlasts, 0);
		assert_non_null(strstr(r.err.msg, "line 1 of the tool's output"));
		run_free(&r);
	}
}

static void stream_passes_notices_and_content_on(void **state)
{
	struct run r;

	run_it(&r, handler_sh(
		"echo '{\"progress\":{\"done\":1}}'\n"
		"echo '{\"progress\":{\"done\":3,\"total\":10,\"message\":\"copying\"}}'\n"
		"echo '{\"log\":{\"level\":\"warning\",\"logger\":\"x\",\"data\":{\"k\":1}}}'\n"
		"echo '{\"content\":{\"type\":\"text\",\"text\":\"one\"}}'\n"
		"echo '{\"content\":{\"type\":\"text\",\"text\":\"two\"}}'\n"
		"echo never sent >&2\n", "stream"), NO_OPTS);
	assert_int_equal(r.kind, END_RESULT);
	assert_int_equal(r.nprogress, 2);
	assert_true(r.progress_done == 3 && r.progress_total == 10);
	assert_string_equal(r.note, "copying");
	assert_int_equal(r.nlog, 1);
	assert_int_equal(r.level, 3);
	assert_string_equal(r.logger, "x");
	assert_int_equal(json_integer_value(json_object_get(r.log_data, "k")), 1);
	assert_int_equal(json_array_size(r.res.content), 2);
	assert_false(r.res.is_error);
	run_free(&r);
}

static void stream_result_has_a_text_copy(void **state)
{
	struct run r;

	run_it(&r,
	       handler_sh("echo '{\"result\":{\"structuredContent\":{\"a\": 1.50},\"_meta\":{\"m\":1}}}'",
			  "stream"),
	       NO_OPTS);
	assert_string_equal(run_text(&r), "{\"a\": 1.50}");      /* MCP T-27, as the child wrote it */
	assert_true(json_is_object(r.res.structured) && json_is_object(r.res.meta));
	run_free(&r);
	/* no newline at the end of the last line is fine */
	run_it(&r, handler_sh("printf '{\"result\":{\"isError\":true,\"content\":[]}}'; exit 1", "stream"),
	       NO_OPTS);
	assert_true(r.res.is_error && r.res.xstat == 1);
	assert_int_equal(json_array_size(r.res.content), 0);
	run_free(&r);
}

static void stream_error_is_the_tools_own(void **state)
{
	struct run r;

	run_it(&r,
	       handler_sh(
		       "echo '{\"error\":{\"code\":-32602,\"message\":\"no such place\",\"data\":[1]}}'; exit 1",
		       "stream"),
	       NO_OPTS);
	assert_int_equal(r.kind, END_ERROR);
	assert_int_equal(r.rpc_code, -32602);
	assert_string_equal(r.err.msg, "no such place");
	assert_int_equal(json_array_size(r.rpc_data), 1);
	run_free(&r);
}

static void stream_that_fails_tells_its_status_and_keeps_stderr(void **state)
{
	struct run r;

	run_it(&r,
	       handler_sh("echo '{\"result\":{\"structuredContent\":{}}}'; echo secret >&2; exit 4",
			  "stream"),
	       NO_OPTS);
	assert_true(r.res.is_error && r.res.xstat == 4);
	assert_null(r.res.structured);
	const char *last = json_string_value(json_object_get(json_array_get(r.res.content,
		json_array_size(r.res.content) - 1), "text"));
	assert_string_equal(last, "exit status 4");
	run_free(&r);
}

static void stream_request_tells_everything(void **state)
{
	struct run r;

	run_it(&r, handler_sh("read -r l; printf '{\"result\":{\"structuredContent\":%s}}' \"$l\"", "stream"),
	       OPTS(.args = "{\"a\":\n1.50}", .caps = CAP_ELICITATION_FORM,
		    .answers = "{\"q\":{\"action\":\"decline\"}}", .state = "s\"\xc3\xa9"));
	assert_int_equal(r.kind, END_RESULT);
	json_t *v = r.res.structured;
	json_int_t ms = json_integer_value(json_object_get(v, "deadlineMs"));
	assert_true(ms > PATIENCE_MS / 2 && ms <= PATIENCE_MS);
	assert_non_null(strstr(run_text(&r), "\"arguments\":{\"a\": 1.50}"));
	assert_string_equal(json_string_value(json_object_get(v, "tool")), "trial");
	assert_string_equal(json_string_value(json_object_get(v, "call")),
			    "01020300-0000-0000-0000-000000000000");
	assert_string_equal(json_string_value(json_object_get(v, "tenant")), "acme");
	assert_string_equal(json_string_value(json_object_get(v, "principal")), "bot");
	assert_string_equal(json_string_value(json_object_get(v, "state")), "s\"\xc3\xa9");
	const json_t *client = json_object_get(v, "client");
	assert_string_equal(json_string_value(json_object_get(client, "revision")), "2026-07-28");
	assert_non_null(json_object_get(json_object_get(client, "capabilities"), "elicitation"));
	assert_string_equal(json_string_value(
				    json_object_get(json_object_get(json_object_get(v, "answers"), "q"),
						    "action")),
			    "decline");
	run_free(&r);
}

static void line_outside_the_contract_ends_the_call(void **state)
{
	static const struct { const char *lines, *msg;
	} cases[] = {
		{ "hello\n", "line 1 of the tool's output: byte 1: not JSON" },
		{ "\n", "line 1 of the tool's output" },
		{ "[]\n", "must be an object" },
		{ "{}\n", "must have one member, has 0" },
		{ "{\"log\":{\"level\":\"info\",\"data\":1},\"progress\":{\"done\":1}}\n",
		  "must have one member, has 2" },
		{ "{\"progres\":{}}\n", "did you mean" },
		{ "{\"progress\":{\"done\":\"1\"}}\n", "/progress/done" },
		{ "{\"progress\":{\"done\":-1}}\n", "/progress/done" },
		{ "{\"progress\":{\"done\":1,\"total\":\"x\"}}\n", "/progress/total" },
		{ "{\"log\":{\"level\":\"loud\",\"data\":1}}\n", "/log/level" },
		{ "{\"log\":{\"level\":\"info\"}}\n", "/log/data" },
		{ "{\"content\":{\"type\":\"text\"}}\n", "/content/text" },
		{ "{\"content\":[]}\n", "must be an object" },
		{ "{\"result\":{\"iserror\":true}}\n", "/result/iserror" },
		{ "{\"result\":{\"content\":[{\"type\":\"x\"}]}}\n", "/result/content/0/type" },
		{ "{\"error\":{\"code\":0,\"message\":\"x\"}}\n", "/error/code" },
		{ "{\"error\":{\"code\":-1}}\n", "/error/message" },
		{ "{\"ask\":{\"requests\":{}}}\n", "/ask/requests" },
		{ "{\"ask\":{\"requests\":{\"a/b\":1}}}\n", "/ask/requests/a~1b" },
		{ "{\"ask\":{\"requests\":{\"a\":{\"method\":\"tools/call\",\"params\":{}}}}}\n",
		  "is no question" },
		{ "{\"ask\":{\"requests\":{\"a\":{\"method\":\"roots/list\"}},\"state\":1}}\n",
		  "/ask/state" },
		{ "{\"content\":{\"type\":\"text\",\"text\":\"x\"}}\n{\"ask\":{\"requests\":{\"a\":{\"method\":\"roots/list\"}}}}\n",
		  "before it asked" },
		{ "{\"result\":{}}\n{\"result\":{}}\n",
		  "line 2 of the tool's output comes after the last one" },
		{ "{\"result\":{}}\nx", "line 2 of the tool's output comes after the last one" },
		{ "{\"error\":{\"code\":-1,\"message\":\"x\"}}\n{\"progress\":{\"done\":1}}\n",
		  "comes after the last one" },
		{ "{\"ask\":{\"requests\":{\"a\":{\"method\":\"roots/list\"}}}}\n\n",
		  "comes after the last one" },
		{ "{\"result\":{}", "not JSON" },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct run r;
		json_t *h = script_handler("lines", "printf %s \"$1\"", "{/a}");
		json_object_set_new(h, "output", json_string("stream"));
		char *args = json_args(cases[i].lines);
		run_it(&r, h, OPTS(.args = args));
		assert_int_equal(r.kind, END_ERROR);
		if (r.err.code != ERR_TOOL || !strstr(r.err.msg, cases[i].msg))
			fail_msg("%s: %d %s", cases[i].lines, r.err.code, r.err.msg);
		free(args);
		run_free(&r);
	}
}

static void line_at_the_limit_passes_and_one_byte_more_does_not(void **state)
{
	/* {"log":{"level":"info","data":"…"}} has 34 bytes around the text */
	static const unsigned fill[] = { (1 << 20) - 34, (1 << 20) - 33 };

	for (int over = 0; over < 2; over++) {
		struct run r;
		char *script = mem_printf("printf '{\"log\":{\"level\":\"info\",\"data\":\"';"
					  "head -c %u /dev/zero | tr '\\0' x; echo '\"}}'", fill[over]);
		run_it(&r, handler_sh(script, "stream"), NO_OPTS);
		free(script);
		assert_int_equal(r.nlog, !over);
		assert_int_equal(r.kind, over ? END_ERROR : END_RESULT);
		assert_int_equal(r.err.code, over ? ERR_LIMIT : 0);
		run_free(&r);
	}
}

/* Sixteen questions and 16 KiB of state, and one more of either. */
static void ask_at_its_limits_passes_and_one_more_does_not(void **state)
{
	static const struct { unsigned questions, state; const char *msg; } cases[] = {
		{ ASK_REQUESTS_MAX, ASK_STATE_MAX, NULL }, { ASK_REQUESTS_MAX + 1, 1, "must hold 1 to 16 questions" },
		{ 1, ASK_STATE_MAX + 1, "is longer than 16384 bytes" },
	};

	for (size_t i = 0; i < NELEMS(cases); i++) {
		struct run r;
		char *script = mem_printf("printf '{\"ask\":{\"requests\":{\"a\":{\"method\":\"roots/list\"}';"
					  "for i in $(seq 2 %u); do printf ',\"%%s\":{\"method\":\"roots/list\"}' $i; done;"
					  "printf '},\"state\":\"'; head -c %u /dev/zero | tr '\\0' x; echo '\"}}'",
					  cases[i].questions, cases[i].state);
		run_it(&r, handler_sh(script, "stream"), NO_OPTS);
		free(script);
		assert_int_equal(r.kind, cases[i].msg ? END_ERROR : END_ASK);
		if (cases[i].msg)
			assert_non_null(strstr(r.err.msg, cases[i].msg));
		run_free(&r);
	}
}

static void flood_is_cut_off(void **state)
{
	static const struct { const char *script, *output; } floods[] = {
		{ "exec cat /dev/zero", "text" },
		{ "exec cat /dev/zero", "stream" },
		{ "exec yes '{\"content\":{\"type\":\"text\",\"text\":\"x\"}}'", "stream" },
		{ "exec yes '{\"progress\":{\"done\":1}}'", "stream" },
	};

	for (size_t i = 0; i < NELEMS(floods); i++) {
		struct run r;
		run_it(&r, handler_sh(floods[i].script, floods[i].output), OPTS(.result_max = 64 << 10));
		assert_int_equal(r.kind, END_ERROR);
		assert_int_equal(r.err.code, ERR_LIMIT);
		run_free(&r);
	}
}


/* The caller may cancel from inside a notice. */
static void cancel_inside_a_notice_is_safe(void **state)
{
	struct run r;

	run_start(&r, handler_sh("yes '{\"progress\":{\"done\":1}}' | head -n 100; sleep 1000", "stream"),
		  NO_OPTS);
	r.on_progress = cancel_run;
	run_wait(&r);
	assert_int_equal(r.nprogress, 1);
	assert_int_equal(r.err.code, ERR_CANCELLED);
	run_free(&r);
}

SINGLE_THREAD_SUITE(exec)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(argument_arrives_byte_equal_as_one_word),
		cmocka_unit_test(control_characters_arrive_as_they_are),
		cmocka_unit_test(argument_does_not_become_an_option),
		cmocka_unit_test(word_at_the_limit_passes_and_one_byte_more_does_not),
		cmocka_unit_test(environment_is_the_allow_list),
		cmocka_unit_test(stdin_is_what_the_definition_says),
		cmocka_unit_test(cwd_and_limits_reach_the_program),
		cmocka_unit_test(json_output_is_structured_and_text),
		cmocka_unit_test(output_that_does_not_parse_is_a_tool_error),
		cmocka_unit_test(exit_status_shows_the_last_lines_of_stderr),
		cmocka_unit_test(stderr_flood_keeps_the_end),
		cmocka_unit_test(signal_is_named),
		cmocka_unit_test(program_that_cannot_start_is_a_tool_error),
		cmocka_unit_test(child_that_does_not_read_is_no_error),
		cmocka_unit_test(child_that_closes_stdout_and_lives_on_times_out),
		cmocka_unit_test(orphan_that_holds_stdout_does_not_hold_the_call),
		cmocka_unit_test(term_lets_a_program_clean_up),
		cmocka_unit_test(term_is_followed_by_kill),
		cmocka_unit_test(stream_says_that_it_lasts),
		cmocka_unit_test(stream_passes_notices_and_content_on),
		cmocka_unit_test(stream_result_has_a_text_copy),
		cmocka_unit_test(stream_error_is_the_tools_own),
		cmocka_unit_test(stream_that_fails_tells_its_status_and_keeps_stderr),
		cmocka_unit_test(stream_request_tells_everything),
		cmocka_unit_test(line_outside_the_contract_ends_the_call),
		cmocka_unit_test(line_at_the_limit_passes_and_one_byte_more_does_not),
		cmocka_unit_test(ask_at_its_limits_passes_and_one_more_does_not),
		cmocka_unit_test(flood_is_cut_off),
		cmocka_unit_test(cancel_inside_a_notice_is_safe),
	};
	return cmocka_run_group_tests_name("exec", tests, NULL, NULL);
}
