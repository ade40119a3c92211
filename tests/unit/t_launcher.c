/* The launcher: its messages, its bound, and what it makes of messages that are none (HARDENING 1.5). */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "launcher_int.h"
#include "suite.h"
#include "tmpdir.h"

#define PATIENCE_MS 60000
#define NOISE 20000                     /* packets; make check-long sends a million (TOOLCRIB_NOISE) */

static int setup(void **state)
{
	struct launcher *l = NULL;
	struct err err = { 0 };

	if (launcher_open(NULL, &l, &err) < 0)
		fail_msg("%s: %s", err.where, err.msg);
	*state = l;
	return 0;
}

static int teardown(void **state)
{
	struct launcher *l = *state;

	launcher_close(&l);
	return 0;
}

static struct launcher_event await(struct launcher *l)
{
	struct launcher_event ev = { .id = 0 };
	int rc;

	while ((rc = launcher_next(l, &ev)) == 0) {
		struct pollfd fd = { .fd = launcher_fd(l), .events = POLLIN };

		assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
	}
	assert_int_equal(rc, 1);
	return ev;
}

/* toolcrib-run, which waits for instructions until ours is closed. */
static uint64_t start_run(struct launcher *l, int *ret_ours)
{
	struct err err = { 0 };
	uint64_t id = 0;
	int s[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(launcher_start(l, &(struct launcher_ask){ .row = LAUNCHER_RUN, .fds = { null, null, null, s[1] } },
					&id, &err), 0);
	close(s[1]);
	close(null);
	*ret_ours = s[0];
	return id;
}

static void assert_it_serves(struct launcher *l)
{
	int ours;
	uint64_t id = start_run(l, &ours);
	struct launcher_event ev;

	close(ours);                    /* instructions that are cut short: it ends by itself */
	ev = await(l);
	assert_int_equal(ev.id, id);
	assert_int_equal(ev.kind, LAUNCHER_ENDED);
	assert_int_equal(ev.status, 126);
}

static void a_program_ends_and_is_told_once(void **state)
{
	struct launcher_event ev;

	assert_it_serves(*state);
	assert_int_equal(launcher_next(*state, &ev), 0);
}

static void a_signal_reaches_what_it_names(void **state)
{
	struct launcher_event ev;
	int a, b;
	uint64_t first = start_run(*state, &a), second = start_run(*state, &b);

	launcher_signal(*state, second + 1, SIGKILL);   /* nobody */
	launcher_signal(*state, second, SIGKILL);
	ev = await(*state);
	assert_true(ev.id == second && ev.status == -SIGKILL);
	close(a);
	ev = await(*state);
	assert_true(ev.id == first && ev.status == 126);
	close(b);
}

static void one_more_than_may_run_is_refused(void **state)
{
	struct launcher *l = NULL;
	struct launcher_event ev;
	int ours[4];
	uint64_t id = 0;

	(void)state;
	setenv("TOOLCRIB_CHILDREN", "3", 1);
	assert_int_equal(launcher_open(NULL, &l, NULL), 0);
	unsetenv("TOOLCRIB_CHILDREN");
	for (size_t i = 0; i < 4; i++)
		id = start_run(l, &ours[i]);
	ev = await(l);
	assert_true(ev.kind == LAUNCHER_FAILED && ev.id == id && ev.status == EAGAIN);
	close(ours[0]);
	assert_int_equal(await(l).id, id - 3);
	close(ours[3]);
	(void)start_run(l, &ours[3]);   /* there is room again */
	for (size_t i = 1; i < 4; i++) {
		close(ours[i]);
		assert_int_equal(await(l).kind, LAUNCHER_ENDED);
	}
	launcher_close(&l);
}

static uint32_t roll(uint32_t *seed)
{
	return *seed = *seed * 1664525u + 1013904223u;
}

/* Nearly a request: some member of it is wrong, or it is cut, or bytes are anything. */
static size_t make_noise(uint32_t *seed, unsigned char *buf, size_t *ret_fds)
{
	struct launcher_head head = { .magic = LAUNCHER_MAGIC, .op = roll(seed) >> 29, .id = roll(seed),
				      .row = roll(seed) >> 30, .number = roll(seed) >> 31, .status = (int32_t)(roll(seed) >> 28),
				      .len = roll(seed) >> 24 };
	size_t len = sizeof(head) + head.len;

	for (size_t i = 0; i < len; i++)
		buf[i] = (unsigned char)(roll(seed) >> 24);
	if (roll(seed) >> 30)
		memcpy(buf, &head, sizeof(head));
	*ret_fds = roll(seed) >> 30;            /* at most 3: never a start of toolcrib-run */
	if (head.row == LAUNCHER_SIGN && *ret_fds == 1)
		*ret_fds = 0;
	return roll(seed) >> 31 ? len : roll(seed) % (len + 1);
}

static void a_message_that_is_none_starts_nothing(void **state)
{
	const char *set = getenv("TOOLCRIB_NOISE");
	unsigned long n = set ? strtoul(set, NULL, 10) : NOISE;
	unsigned char buf[LAUNCHER_MESSAGE_MAX];
	uint32_t seed = 1;
	struct launcher_event ev;

	for (unsigned long i = 0; i < n; i++) {
		struct launcher_message m;
		size_t nfds, len = make_noise(&seed, buf, &nfds);
		union { struct cmsghdr head; char room[CMSG_SPACE(4 * sizeof(int))]; } control = { .room = { 0 } };
		struct iovec iov = { buf, len };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

		if (len == 0 || launcher_request_parse(buf, len, nfds, &m))
			continue;       /* an end, or a signal to nobody */
		if (nfds > 0) {
			msg.msg_control = &control;
			msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
			control.head.cmsg_level = SOL_SOCKET;
			control.head.cmsg_type = SCM_RIGHTS;
			control.head.cmsg_len = CMSG_LEN(nfds * sizeof(int));
			memset(CMSG_DATA(&control.head), 0, nfds * sizeof(int));
		}
		assert_int_equal(sendmsg(launcher_fd(*state), &msg, MSG_NOSIGNAL), len);
	}
	assert_int_equal(launcher_next(*state, &ev), 0);
	assert_it_serves(*state);
}

static void requests_are_parsed_strictly(void **state)
{
	struct launcher_head good = { .magic = LAUNCHER_MAGIC, .op = LAUNCHER_OP_START, .id = 1, .row = LAUNCHER_SIGN, .len = 2 };
	struct launcher_message m;
	char buf[sizeof(good) + 3];
	const struct { size_t offset, size; uint32_t value; } wrong[] = {
		{ offsetof(struct launcher_head, magic), 4, LAUNCHER_MAGIC + 1 }, { offsetof(struct launcher_head, op), 4, 0 },
		{ offsetof(struct launcher_head, op), 4, LAUNCHER_OP_READY }, { offsetof(struct launcher_head, id), 4, 0 },
		{ offsetof(struct launcher_head, row), 4, LAUNCHER_ROWS }, { offsetof(struct launcher_head, number), 4, 1 },
		{ offsetof(struct launcher_head, status), 4, 1 }, { offsetof(struct launcher_head, len), 4, 1 },
		{ offsetof(struct launcher_head, len), 4, 3 },
	};

	(void)state;
	memcpy(buf, &good, sizeof(good));
	memcpy(buf + sizeof(good), "x\0y", 3);
	assert_true(launcher_request_parse(buf, sizeof(good) + 2, 1, &m));
	assert_false(launcher_request_parse(buf, sizeof(good) + 3, 1, &m));
	assert_false(launcher_request_parse(buf, sizeof(good) + 1, 1, &m));
	assert_false(launcher_request_parse(buf, sizeof(good) + 2, 0, &m));
	assert_false(launcher_request_parse(buf, sizeof(good) + 2, 4, &m));
	for (size_t i = 0; i < NELEMS(wrong); i++) {
		memcpy(buf, &good, sizeof(good));
		memcpy(buf + wrong[i].offset, &wrong[i].value, wrong[i].size);
		assert_false(launcher_request_parse(buf, sizeof(good) + 2, 1, &m));
	}
	memcpy(buf, &good, sizeof(good));
	buf[sizeof(good) + 1] = 'z';    /* the last argument has no end */
	assert_false(launcher_request_parse(buf, sizeof(good) + 2, 1, &m));
}

static void arguments_are_bounded(void **state)
{
	char *arg = mem_alloc(LAUNCHER_ARGS_MAX + 1);
	struct err err = { 0 };
	uint64_t id = 0;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	const struct launcher_ask ask = { .row = LAUNCHER_SIGN, .args = (const char *const[]){ arg, NULL },
					  .fds = { null, -1, -1, -1 } };

	memset(arg, 'x', LAUNCHER_ARGS_MAX + 1);
	arg[LAUNCHER_ARGS_MAX] = '\0';
	assert_int_equal(launcher_start(*state, &ask, &id, &err), ERR_LIMIT);
	arg[LAUNCHER_ARGS_MAX - 1] = '\0';
	assert_int_equal(launcher_start(*state, &ask, &id, &err), 0);
	assert_int_equal(await(*state).status, 2);      /* that is no usage of toolcrib-sign */
	close(null);
	free(arg);
}

/* --- users */

static void put_file(const char *dir, const char *name, const char *text, char ret[256])
{
	FILE *f;

	snprintf(ret, 256, "%s/%s", dir, name);
	f = fopen(ret, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* A user takes the upper half of his longest line, by his name or his number; HARDENING 1.1. */
static void hardening_the_range_of_a_user_is_half_of_his_line(void **state)
{
	static const struct { const char *subuid, *subgid; uint32_t first, count, first_gid; const char *says; } rows[] = {
		{ "kim:100000:65536\n", "kim:100000:65536\n", 132768, 32768, 132768, NULL },
		{ "ann:100000:65536\nkim:165536:65536", "kim:165536:65536", 198304, 32768, 198304, NULL },
		{ "1000:100000:10\nkim:200000:100\n", "1000:300000:40\n", 200050, 20, 300020, NULL },
		{ "kim:100000:4\n", "kim:100000:5\n", 100002, 2, 100003, NULL },
		{ "kim:100000:3\n", "kim:100000:3\n", 0, 0, 0, "too few" },
		{ "kim:990:16\n", "kim:990:16\n", 0, 0, 0, "too few" },
		{ "kimberly:100000:65536\nki:100000:65536\n", "kim:100000:65536\n", 0, 0, 0, "no line for kim" },
		{ "kim:x:65536\nkim:100000:65536x\nkim:100000\nkim\n:1:2\n", "", 0, 0, 0, "no line for kim" },
		{ "kim:4294967290:100\nkim:1:4294967296\n", "", 0, 0, 0, "no line for kim" },
		{ "kim:100000:65536\n", "", 0, 0, 0, "gid has no line for kim" },
	};
	char uids[256], gids[256], *dir = tmpdir_make();

	(void)state;
	assert_non_null(dir);
	for (size_t i = 0; i < NELEMS(rows); i++) {
		struct launcher_uids got = { 0 };
		struct err err = { 0 };
		int rc;

		put_file(dir, "uid", rows[i].subuid, uids);
		put_file(dir, "gid", rows[i].subgid, gids);
		rc = launcher_uids_find(uids, gids, "kim", 1000, &got, &err);
		assert_true(rows[i].says ? rc == ERR_NOT_FOUND && strstr(err.msg, rows[i].says) : rc == 0);
		assert_true(got.first == rows[i].first && got.count == rows[i].count && got.first_gid == rows[i].first_gid);
	}
	unlink(uids);
	assert_int_equal(launcher_uids_find(uids, gids, "", 1000, &(struct launcher_uids){ 0 }, NULL), ERR_NOT_FOUND);
	tmpdir_remove(dir);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

SINGLE_THREAD_SUITE(launcher)
{
	const struct CMUnitTest tests[] = {
		T(a_program_ends_and_is_told_once),
		T(a_signal_reaches_what_it_names),
		cmocka_unit_test(one_more_than_may_run_is_refused),
		T(a_message_that_is_none_starts_nothing),
		cmocka_unit_test(requests_are_parsed_strictly),
		T(arguments_are_bounded),
		cmocka_unit_test(hardening_the_range_of_a_user_is_half_of_his_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
