/* The admin socket from the side of the CLI: what is sent, and every way in which an answer can end. */

#include "config.h"

#include "ctl_int.h"
#include "suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const struct command cmd = { .noun = "tool", .verb = "add" };

struct talk {
	struct str rows;
	struct err err;
	int rc;
	char sent[256];
};

/* A server that has written its answer before the question came: the bytes wait in the socket. */
static struct talk talk_to(const char *answer, bool hang_up, const struct ctl_sink *sink)
{
	struct talk t = { .rows = STR_INIT };
	json_t *args = json_pack("{s:s}", "name", "x");
	ssize_t n = (ssize_t)strlen(answer);
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(send(fds[1], answer, (size_t)n, 0), n);
	if (hang_up)
		assert_int_equal(shutdown(fds[1], SHUT_WR), 0);
	t.rc = ctl_remote_run(&(struct ctl_wire){ .fd = fds[0] }, &cmd, args, sink, &t.rows, &t.err);
	n = recv(fds[1], t.sent, sizeof t.sent - 1, MSG_DONTWAIT);
	t.sent[n > 0 ? n : 0] = '\0';
	close(fds[1]);
	json_decref(args);
	return t;
}

static struct talk talk(const char *answer, bool hang_up)
{
	return talk_to(answer, hang_up, NULL);
}

static void one_line_goes_out_and_rows_come_back(void **state)
{
	struct talk t = talk("{\"row\":{\"a\":1}}\n{\"row\":{\"a\":2}}\n{\"done\":true}\n{\"row\":{}}\n", false);

	assert_int_equal(t.rc, 0);
	assert_string_equal(t.sent, "{\"command\":\"tool add\",\"args\":{\"name\":\"x\"}}\n");
	assert_string_equal(str_text(&t.rows), "{\"row\":{\"a\":1}}\n{\"row\":{\"a\":2}}\n");
	str_fini(&t.rows);
}

static void an_error_keeps_code_place_and_hint(void **state)
{
	struct talk t = talk("{\"row\":{}}\n{\"error\":{\"code\":\"not_found\",\"where\":\"/documents/0\",\"message\":\"no 100%s\","
			     "\"hint\":\"did you mean %d?\"}}\n", false);

	assert_int_equal(t.rc, ERR_NOT_FOUND);
	assert_int_equal(t.err.code, ERR_NOT_FOUND);
	assert_string_equal(t.err.where, "/documents/0");
	assert_string_equal(t.err.msg, "no 100%s");
	assert_string_equal(t.err.hint, "did you mean %d?");
	assert_string_equal(str_text(&t.rows), "{\"row\":{}}\n");
	str_fini(&t.rows);
}

static void feed(void *arg, const struct str *rows)
{
	str_put(arg, rows->p, rows->len);
}

/* A report that goes without a file says its rows, then that it is not whole (SCALE SC-002). */
static void rows_that_come_together_with_an_error_are_shown(void **state)
{
	struct str shown = STR_INIT;
	const struct ctl_sink sink = { .rows = feed, .arg = &shown };
	struct talk t = talk_to("{\"row\":{\"a\":1}}\n{\"row\":{\"a\":2}}\n{\"error\":{\"code\":\"unreachable\",\"where\":\"\","
				"\"message\":\"it is not here\",\"hint\":\"\"}}\n", false, &sink);

	assert_int_equal(t.rc, ERR_UNREACHABLE);
	assert_string_equal(str_text(&shown), "{\"row\":{\"a\":1}}\n{\"row\":{\"a\":2}}\n");
	assert_int_equal(t.rows.len, 0);
	str_fini(&shown);
	str_fini(&t.rows);
}

static void a_server_that_hangs_up_leaves_the_change_uncertain(void **state)
{
	struct talk t = talk("{\"row\":{}}\n{\"done\":tr", true);

	assert_int_equal(t.rc, ERR_UNCERTAIN);
	str_fini(&t.rows);
	t = talk("", true);
	assert_int_equal(t.rc, ERR_UNCERTAIN);
	assert_true(t.err.hint[0]);
}

static void what_is_no_answer_is_an_error(void **state)
{
	struct talk t = talk("HTTP/1.1 400 Bad Request\r\n", false);

	assert_true(t.rc < 0);
	t = talk("{\"ready\":true}\n", false);
	assert_int_equal(t.rc, ERR_INTERNAL);
	t = talk("{\"error\":{}}\n", false);
	assert_true(t.rc < 0);
}

static void a_socket_that_is_not_there_is_unreachable(void **state)
{
	char path[200];
	struct err err;
	int fd = -1;

	assert_int_equal(ctl_remote_connect("/nonexistent/admin.sock", &fd, &err), ERR_UNREACHABLE);
	memset(path, 'x', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	assert_int_equal(ctl_remote_connect(path, &fd, &err), ERR_UNREACHABLE);
	assert_int_equal(fd, -1);
}

SINGLE_THREAD_SUITE(remote)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_line_goes_out_and_rows_come_back),
		cmocka_unit_test(an_error_keeps_code_place_and_hint),
		cmocka_unit_test(rows_that_come_together_with_an_error_are_shown),
		cmocka_unit_test(a_server_that_hangs_up_leaves_the_change_uncertain),
		cmocka_unit_test(what_is_no_answer_is_an_error),
		cmocka_unit_test(a_socket_that_is_not_there_is_unreachable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
