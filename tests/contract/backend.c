/* The contract of a handler (house D.5), one body for all members: a run ends exactly once, never from inside
 * start(), cancelled or not, within its deadline and its bytes; after an ask it is over, and the next run knows
 * what the request carries. */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include <cmocka.h>

#include "backend_run.h"
#include "http_peer.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "ev/ev.h"
#include "suite.h"

#define FOREVER "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

struct member {
	const char *name;
	/* handlers, ' for ", @DB@ for the path of a database, @WEB@ for a server; NULL = the member cannot do it */
	const char *result, *result_args;
	const char *dirty, *dirty_args;         /* its text has an escape character between a and b */
	const char *fails, *fails_args;         /* ends as a failure of the tool, whatever its form */
	const char *slow, *slow_args;           /* runs until it is stopped */
	const char *sized;                      /* its output is {"n": …} bytes long */
	size_t sized_extra;                     /* bytes around them */
};

static const struct member members[] = {
	{
		.name = "static",
		.result = "{'type':'static','text':'hello'}",
		.dirty = "{'type':'static','text':'a\\u001bb'}",
		.fails = "{'type':'static','result':{'content':[],'isError':true}}",
	},
	{
		.name = "builtin",
		.result = "{'type':'builtin','function':'echo'}",
		.dirty = "{'type':'builtin','function':'echo'}",
		.dirty_args = "{\"text\":\"a\\u001bb\"}",
		.result_args = "{\"text\":\"hello\"}",
		.fails = "{'type':'builtin','function':'sleep'}",
		.slow = "{'type':'builtin','function':'sleep'}",
		.slow_args = "{\"ms\":3600000}",
	},
	{
		.name = "exec",
		.result = "{'type':'exec','argv':['/bin/echo','hello']}",
		.dirty = "{'type':'exec','argv':['/usr/bin/printf','a\\\\033b']}",
		.fails = "{'type':'exec','argv':['/bin/false']}",
		.slow = "{'type':'exec','argv':['/bin/sleep','1000']}",
		.sized = "{'type':'exec','argv':['/usr/bin/head','-c','1{/n}','/dev/zero'],'output':'text'}",
		.sized_extra = 100,
	},
	{
		.name = "mcp",
		.result = "{'type':'mcp','upstream':'peer','tool':'echo'}",
		.result_args = "{\"text\":\"hello\"}",
		.dirty = "{'type':'mcp','upstream':'peer','tool':'echo'}",
		.dirty_args = "{\"text\":\"a\\u001bb\"}",
		.fails = "{'type':'mcp','upstream':'nobody','tool':'echo'}",
		.slow = "{'type':'mcp','upstream':'peer','tool':'slow'}",
		.slow_args = "{\"ms\":3600000}",
		.sized = "{'type':'mcp','upstream':'peer','tool':'fill'}",
		.sized_extra = sizeof("{\"content\":[{\"type\":\"text\",\"text\":\"\"}],\"resultType\":\"complete\"}") - 1,
	},
	{
		.name = "sql",
		.result = "{'type':'sql','database':'sqlite:@DB@','query':'SELECT :word AS w'}",
		.dirty = "{'type':'sql','database':'sqlite:@DB@','query':'SELECT :word AS w'}",
		.dirty_args = "{\"word\":\"a\\u001bb\"}",
		.result_args = "{\"word\":\"hello\"}",
		.fails = "{'type':'sql','database':'sqlite:@DB@','query':'SELECT * FROM missing'}",
		.slow = "{'type':'sql','database':'sqlite:@DB@','query':'" FOREVER "'}",
		.sized = "{'type':'sql','database':'sqlite:@DB@',"
			 "'query':\"SELECT substr(hex(zeroblob(500)), 1, 100 + :n) AS a\"}",
		.sized_extra =
			100 + sizeof("{\"columns\":[\"a\"],\"rows\":[[\"\"]],\"truncated\":false}") - 1,
	},
	{
		.name = "http",
		.result = "{'type':'http','url':'@WEB@/hello','allow':{'private':true}}",
		.dirty = "{'type':'http','url':'@WEB@/dirty','allow':{'private':true}}",
		.fails = "{'type':'http','url':'@WEB@/fail','allow':{'private':true}}",
		.slow = "{'type':'http','url':'@WEB@/slow','allow':{'private':true}}",
		.sized = "{'type':'http','url':'@WEB@/bytes/{n}','allow':{'private':true}}",
	},
};

static char *db_path(void)
{
	char *path = path_join(run_dir(), "contract.db");
	sqlite3 *db = NULL;

	if (!path_exists(path)) {
		assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, "CREATE TABLE t (a)", NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(db);
	}
	return path;
}

/* /hello, /dirty, /fail, /slow, and /bytes/N for N bytes of text */
static void choose(struct peer *p)
{
	static char answer[400];
	const char *path = strchr(str_text(&p->seen), ' ') + 1;

	if (strncmp(path, "/bytes/", 7) == 0) {
		int n = (int)strtol(path + 7, NULL, 10);
		snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%0*d", n, n, 0);
		peer_says(p, answer, true);
	} else if (strncmp(path, "/hello ", 7) == 0) {
		peer_says(p, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", true);
	} else if (strncmp(path, "/dirty ", 7) == 0) {
		peer_says(p, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\na\033b", true);
	} else if (strncmp(path, "/fail ", 6) == 0) {
		peer_says(p, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", true);
	} else {
		p->answer = NULL;
	}
}

static struct peer peer;

static unsigned peer_port(void)
{
	if (peer.port == 0) {
		peer_open(&peer, run_loop(), "127.0.0.1:0");
		peer.choose = choose;
	}
	return peer.port;
}

static json_t *make(const char *text)
{
	const char *mark = strchr(text, '@'), *end = mark ? strchr(mark + 1, '@') : NULL;

	if (!end)
		return handler_json(text);
	char *with = strncmp(mark, "@DB@", 4) == 0 ? db_path() : mem_printf("http://127.0.0.1:%u", peer_port());
	char *full = mem_printf("%.*s%s%s", (int)(mark - text), text, with, end + 1);
	json_t *h = handler_json(full);
	free(full);
	free(with);
	return h;
}

static void each_member_gives_one_result(void **state)
{
	for (size_t i = 0; i < NELEMS(members); i++) {
		const struct member *m = &members[i];
		struct run r;
		run_it(&r, make(m->result), OPTS(.args = m->result_args));
		assert_string_equal(r.ops->name, m->name);
		assert_int_equal(r.kind, END_RESULT);
		assert_false(r.res.is_error);
		assert_non_null(strstr(run_text(&r), "hello"));
		run_free(&r);
	}
}

/* HARDENING F-4: the one gate to all of them. */
static void test_f4_no_member_starts_what_is_not_recorded(void **state)
{
	for (size_t i = 0; i < NELEMS(members); i++) {
		struct run r;

		run_start(&r, make(members[i].result),
			  OPTS(.args = members[i].result_args, .unrecorded = true));
		run_turns(3);
		assert_null(r.op);
		assert_int_equal(r.ends, 0);
		run_free(&r);
	}
}

static void each_member_fails_as_a_tool(void **state)
{
	for (size_t i = 0; i < NELEMS(members); i++) {
		const struct member *m = &members[i];
		struct run r;
		run_it(&r, make(m->fails), OPTS(.args = m->fails_args));
		if (r.kind == END_RESULT)
			assert_true(r.res.is_error);
		else
			assert_int_equal(r.err.code, ERR_TOOL);
		assert_int_equal(r.rpc_code, 0);
		run_free(&r);
	}
}

static void each_member_gives_text_without_control_characters(void **state)
{
	for (size_t i = 0; i < NELEMS(members); i++) {
		const struct member *m = &members[i];
		struct run r;
		run_it(&r, make(m->dirty), OPTS(.args = m->dirty_args));
		assert_int_equal(r.kind, END_RESULT);
		assert_true(strstr(run_text(&r), "a\xef\xbf\xbd" "b") || strstr(run_text(&r), "a\\u001bb"));
		assert_null(strchr(run_text(&r), '\033'));
		run_free(&r);
	}
}

static void run_cancelled_at_any_point_ends_once(void **state)
{
	static const unsigned points[] = { 0, 1, 2, 3, 5, 8, 20 };

	for (size_t i = 0; i < NELEMS(members); i++) {
		for (size_t p = 0; p < NELEMS(points) && members[i].slow; p++) {
			struct run r;
			enum cancel_why why = (enum cancel_why)(p % 4);
			run_start(&r, make(members[i].slow), OPTS(.args = members[i].slow_args));
			run_turns(points[p]);
			backend_cancel(r.op, why);
			assert_int_equal(r.ends, 0);
			backend_cancel(r.op, why);
			run_wait(&r);
			assert_int_equal(r.kind, END_ERROR);
			assert_int_equal(r.err.code, why == CANCEL_DEADLINE ? ERR_TIMEOUT : ERR_CANCELLED);
			run_free(&r);
		}
	}
}

static void short_run_survives_a_cancel_before_its_end(void **state)
{
	for (size_t i = 0; i < NELEMS(members); i++) {
		struct run r;
		run_start(&r, make(members[i].result), OPTS(.args = members[i].result_args));
		backend_cancel(r.op, CANCEL_BY_CLIENT);
		run_wait(&r);
		assert_int_not_equal(r.kind, END_ASK);
		run_free(&r);
	}
}

static void run_past_its_deadline_times_out(void **state)
{
	for (size_t i = 0; i < NELEMS(members); i++) {
		for (int expired = 0; expired < 2 && members[i].slow; expired++) {
			struct run r;
			run_it(&r, make(members[i].slow),
			       OPTS(.args = members[i].slow_args, .timeout_us = 30000, .expired = expired));
			assert_int_equal(r.kind, END_ERROR);
			assert_int_equal(r.err.code, ERR_TIMEOUT);
			run_free(&r);
		}
	}
}

static void output_at_the_limit_passes_and_one_byte_more_does_not(void **state)
{
	static const char *const sizes[] = { "{\"n\":10}", "{\"n\":11}" };

	for (size_t i = 0; i < NELEMS(members); i++) {
		for (int over = 0; over < 2 && members[i].sized; over++) {
			struct run r;
			run_it(&r, make(members[i].sized), OPTS(.args = sizes[over],
								.result_max = members[i].sized_extra + 10));
			assert_int_equal(r.kind, over ? END_ERROR : END_RESULT);
			assert_int_equal(r.err.code, over ? ERR_LIMIT : 0);
			run_free(&r);
		}
	}
}

/* --- asking -------------------------------------------------------------------------------------- */

/* A child that leaves a mark as soon as it does something, and asks before. */
static json_t *asking_handler(void)
{
	char *script = mem_printf(
		"read -r line\n"
		"case $line in\n"
		"*'\"answers\":{\"sure\":{\"action\":\"accept\"}},\"state\":\"step 1\"'*)\n"
		"  echo done >%s/mark\n"
		"  echo '{\"content\":{\"type\":\"text\",\"text\":\"did it\"}}' ;;\n"
		"*'\"answers\"'*) echo '{\"result\":{\"isError\":true}}' ;;\n"
		"*) echo '{\"ask\":{\"requests\":{\"sure\":{\"method\":\"elicitation/create\",\"params\":{\"message\":\"sure?\"}}},"
		"\"state\":\"step 1\"}}' ;;\n"
		"esac\n",
		run_dir());
	json_t *h = handler_sh(script, "stream");
	json_object_set_new(h, "sandbox", json_pack("{s:[s]}", "write", run_dir()));
	free(script);
	return h;
}

static void ask_ends_the_run_before_any_side_effect(void **state)
{
	struct run r;

	run_it(&r, asking_handler(), NO_OPTS);
	assert_int_equal(r.kind, END_ASK);
	assert_string_equal(json_string_value(json_object_get(json_object_get(r.requests, "sure"), "method")),
			    "elicitation/create");
	assert_int_equal(r.state_len, 6);
	assert_string_equal(r.state, "step 1");
	assert_null(run_read_file("mark"));
	run_free(&r);
}

static void rerun_knows_what_the_request_carries(void **state)
{
	struct run r;

	run_it(&r, asking_handler(),
	       OPTS(.answers = "{\"sure\":{\"action\":\"decline\"}}", .state = "step 1"));
	assert_int_equal(r.kind, END_RESULT);
	assert_true(r.res.is_error);
	assert_null(run_read_file("mark"));
	run_free(&r);

	run_it(&r, asking_handler(),
	       OPTS(.answers = "{\"sure\":{\"action\":\"accept\"}}", .state = "step 1"));
	assert_int_equal(r.kind, END_RESULT);
	assert_string_equal(run_text(&r), "did it");
	char *mark = run_read_file("mark");
	assert_string_equal(mark, "done\n");
	free(mark);
	run_free(&r);
}

static void many_runs_at_once_do_not_mix(void **state)
{
	enum { N = 40 };
	struct run *runs = mem_calloc(N, sizeof(*runs));
	char args[N][64];

	for (int i = 0; i < N; i++) {
		snprintf(args[i], sizeof(args[i]), "{\"word\":\"hello %d\",\"text\":\"hello %d\"}", i, i);
		run_start(&runs[i], make(members[i % 2 ? 1 : 3].result), OPTS(.args = args[i]));
	}
	for (int i = 0; i < N; i++) {
		char want[20];
		run_wait(&runs[i]);
		snprintf(want, sizeof(want), "hello %d", i);
		assert_int_equal(runs[i].kind, END_RESULT);
		assert_non_null(strstr(run_text(&runs[i]), want));
		run_free(&runs[i]);
	}
	free(runs);
}

SINGLE_THREAD_SUITE(contract)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_member_gives_one_result),
		cmocka_unit_test(test_f4_no_member_starts_what_is_not_recorded),
		cmocka_unit_test(each_member_fails_as_a_tool),
		cmocka_unit_test(each_member_gives_text_without_control_characters),
		cmocka_unit_test(run_cancelled_at_any_point_ends_once),
		cmocka_unit_test(short_run_survives_a_cancel_before_its_end),
		cmocka_unit_test(run_past_its_deadline_times_out),
		cmocka_unit_test(output_at_the_limit_passes_and_one_byte_more_does_not),
		cmocka_unit_test(ask_ends_the_run_before_any_side_effect),
		cmocka_unit_test(rerun_knows_what_the_request_carries),
		cmocka_unit_test(many_runs_at_once_do_not_mix),
	};
	int rc = cmocka_run_group_tests_name("contract of backends", tests, NULL, NULL);
	if (peer.port)
		peer_close(&peer);
	return rc;
}
