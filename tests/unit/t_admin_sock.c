/* Connections of the admin socket: how many one user has, and how long one may say nothing (SEC S-801). */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "command/command.h"
#include "base/clock.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"

#include "tmpdir.h"
#include "suite.h"

#define TURNS_MAX 10000                 /* of a millisecond: nothing takes so long */
#define IDLE_US (ADMIN_IDLE_MS * 1000ull)
#define STATUS "{\"command\":\"status\",\"args\":{}}\n"
#define TAIL "{\"command\":\"audit tail\",\"args\":{\"follow\":true}}\n"

static struct {
	char *dir, path[200];
	struct ev_loop *loop;
	struct commands *admin;
	struct command_socket *sock;
	command_reply_fn *reply;            /* of the command that runs */
	void *arg;
} w;

/* Commands end when the test says so. */
struct command_call *__wrap_command_run(struct commands *a, const struct command_req *req, command_reply_fn *reply, void *arg);
struct command_call *__wrap_command_run(struct commands *a, const struct command_req *req, command_reply_fn *reply, void *arg)
{
	assert_null(w.reply);
	w.reply = reply;
	w.arg = arg;
	json_decref(req->args);
	return NULL;
}

static void end_command(void)
{
	const struct str none = STR_INIT;
	command_reply_fn *reply = w.reply;

	assert_non_null(reply);
	w.reply = NULL;
	reply(w.arg, &none, NULL);
}

static const struct command rows[] = {
	{ .noun = "audit", .verb = "tail", .stream = true }, { .noun = NULL },
};
static const struct command *const tables[] = { rows, NULL };

static int set_up(void **state)
{
	struct err err;

	clock_fake(1800000000000000ull, 1000000);
	w.dir = tmpdir_make();
	tmpdir_path(w.dir, "admin.sock", w.path, sizeof(w.path));
	w.loop = ev_loop_new();
	w.admin = commands_new(&(struct command_env){ .loop = w.loop, .tables = tables, .owner_uid = geteuid() });
	if (command_socket_open(w.admin, w.loop, w.path, 0600, &w.sock, &err) < 0)
		fail_msg("%s: %s", err.where, err.msg);
	return 0;
}

static int tear_down(void **state)
{
	command_socket_close(&w.sock);
	commands_free(&w.admin);
	ev_loop_free(&w.loop);
	tmpdir_remove(w.dir);
	clock_real();
	return 0;
}

static void turn(void)
{
	static const bool never;

	(void)ev_loop_run_until(w.loop, &never, 1);
}

static int dial(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(strlen(w.path) < sizeof(sun.sun_path));
	memcpy(sun.sun_path, w.path, strlen(w.path) + 1);
	assert_int_equal(connect(fd, (const struct sockaddr *)(const void *)&sun, sizeof(sun)), 0);
	return fd;
}

/* Until the answer holds a text, or with NULL until the server has hung up. */
static void hear(int fd, struct str *ret, const char *text)
{
	char buf[4096];
	ssize_t n = -1;

	for (int i = 0; i < TURNS_MAX; i++) {
		turn();
		while ((n = read(fd, buf, sizeof(buf))) > 0)
			str_put(ret, buf, (size_t)n);
		if (n == 0 || (text && strstr(str_text(ret), text)))
			break;
	}
	if (text ? !strstr(str_text(ret), text) : n != 0)
		fail_msg("not \"%s\": %s", text ? text : "the end", str_text(ret));
}

/* Until the command runs. */
static void command(int fd, const char *line)
{
	assert_int_equal(write(fd, line, strlen(line)), (ssize_t)strlen(line));
	for (int i = 0; i < TURNS_MAX && !w.reply; i++)
		turn();
}

static void ask_status(int fd)
{
	struct str answer = STR_INIT;

	command(fd, STATUS);
	end_command();
	hear(fd, &answer, "{\"done\":true}");
	str_fini(&answer);
}

static void expect_end(int fd, const char *text)
{
	struct str answer = STR_INIT;

	hear(fd, &answer, NULL);
	if (!strstr(str_text(&answer), text))
		fail_msg("not \"%s\": %s", text, str_text(&answer));
	str_fini(&answer);
	close(fd);
}

static void a_user_has_so_many_connections(void **state)
{
	uint64_t before = metric_get(METRIC_admin_connections_refused);
	int fd[ADMIN_SHARE_MAX];
	char ended;

	for (size_t i = 0; i < ADMIN_SHARE_MAX; i++) {
		fd[i] = dial();
		ask_status(fd[i]);
	}
	assert_int_equal(metric_get(METRIC_admin_connections_refused), before);
	expect_end(dial(), "16 connections for commands, which is the limit");
	assert_int_equal(metric_get(METRIC_admin_connections_refused), before + 1);
	ask_status(fd[0]);                      /* the others go on */
	/* One that ends leaves its place: the server has seen that when it hangs up as well. */
	assert_int_equal(shutdown(fd[0], SHUT_WR), 0);
	while (read(fd[0], &ended, 1) != 0)
		turn();
	close(fd[0]);
	fd[0] = dial();
	ask_status(fd[0]);
	for (size_t i = 0; i < ADMIN_SHARE_MAX; i++)
		close(fd[i]);
}

static void who_says_nothing_is_sent_away(void **state)
{
	uint64_t before = metric_get(METRIC_admin_connections_idle);
	int silent = dial(), half = dial(), talks = dial();

	ask_status(talks);
	assert_int_equal(write(half, STATUS, 5), 5);
	turn();
	clock_step(IDLE_US - 1);
	ask_status(talks);
	assert_int_equal(write(half, STATUS, 5), 5);    /* more of it is no line either */
	turn();
	assert_int_equal(metric_get(METRIC_admin_connections_idle), before);
	clock_step(1);
	expect_end(silent, "no command came within 60 s");
	expect_end(half, "no command came within 60 s");
	assert_int_equal(metric_get(METRIC_admin_connections_idle), before + 2);
	clock_step(IDLE_US - 2);
	ask_status(talks);
	clock_step(IDLE_US);
	expect_end(talks, "\"timeout\"");
	assert_int_equal(metric_get(METRIC_admin_connections_idle), before + 3);
}

/* A line that is no request is one all the same: the time begins anew. */
static void mistakes_are_answered_not_waited_for(void **state)
{
	struct str answer = STR_INIT;
	int fd = dial();

	turn();
	clock_step(IDLE_US - 1);
	assert_int_equal(write(fd, "{}\n", 3), 3);
	hear(fd, &answer, "{\"error\":");
	str_fini(&answer);
	clock_step(IDLE_US - 1);
	ask_status(fd);
	close(fd);
}

/* As do those whose command takes its time. */
static void who_follows_the_audit_stays(void **state)
{
	uint64_t before = metric_get(METRIC_admin_connections_idle);
	int fd = dial();

	command(fd, TAIL);
	for (int i = 0; i < 5; i++) {
		clock_step(IDLE_US);
		turn();
	}
	assert_int_equal(metric_get(METRIC_admin_connections_idle), before);
	end_command();
	ask_status(fd);
	clock_step(IDLE_US);
	expect_end(fd, "no command came within 60 s");
}

static void a_socket_closes_under_those_who_wait(void **state)
{
	int idle = dial(), busy = dial();

	command(busy, TAIL);
	command_socket_close(&w.sock);
	end_command();
	expect_end(idle, "");
	expect_end(busy, "");
}

SINGLE_THREAD_SUITE(sock)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_user_has_so_many_connections),
		TEST(who_says_nothing_is_sent_away),
		TEST(mistakes_are_answered_not_waited_for),
		TEST(who_follows_the_audit_stays),
		TEST(a_socket_closes_under_those_who_wait),
	};

	return cmocka_run_group_tests_name("admin_sock", tests, NULL, NULL);
}
