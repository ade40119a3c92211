/* Listeners that somebody else has opened: which are taken, at which address, and which are refused (OP-907). */
#include "config.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/addr.h"
#include "net/given.h"
#include "suite.h"

#define FIRST 200                       /* nobody else's descriptors */

static char me[16], n_text[16];

/* fd becomes the descriptor FIRST + at. */
static void put(int fd, int at)
{
	assert_true(fd >= 0);
	assert_int_equal(dup2(fd, FIRST + at), FIRST + at);
	close(fd);
}

/* A listener, or, with backlog < 0, a socket that does not listen; its address as text. */
static int bound(const char *address, int type, bool both, int backlog, char ret[ADDR_TEXT_SIZE])
{
	struct addr a;
	const int only = !both;
	int fd;

	assert_int_equal(addr_parse(address, &a, NULL), 0);
	fd = socket(a.sa.ss_family, type, 0);
	if (a.sa.ss_family == AF_INET6)
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a.sa, a.len), 0);
	if (backlog >= 0)
		assert_int_equal(listen(fd, backlog), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a.sa, &a.len), 0);
	addr_format(&a, ret);
	return fd;
}

static int given(unsigned n, const char *names, struct given **ret, struct err *err)
{
	snprintf(me, sizeof(me), "%ld", (long)getpid());
	snprintf(n_text, sizeof(n_text), "%u", n);
	return given_by(me, n_text, names, FIRST, ret, err);
}

static void taken_by_address_once(void **state)
{
	char dir[] = "/tmp/toolcrib-given-XXXXXX", four[ADDR_TEXT_SIZE], six[ADDR_TEXT_SIZE], longer[80];
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct given *g = NULL;
	const char *name;
	bool own = true;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_non_null(mkdtemp(dir));
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/agents.sock", dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(fd, 1), 0);
	put(fd, 0);
	put(bound("127.0.0.1:0", SOCK_STREAM, false, 1, four), 1);
	put(bound("[::1]:0", SOCK_STREAM, true, 1, six), 2);
	assert_int_equal(given(3, "agents:\x1bweb", &g, NULL), 0);

	snprintf(longer, sizeof(longer), "[0:0:0:0:0:0:0:1]%s", strrchr(six, ':'));
	assert_true(given_want(g, un.sun_path));
	assert_true(given_want(g, longer));
	assert_false(given_want(g, "127.0.0.1:0"));
	assert_string_equal(given_stray(g, &name), four);
	assert_null(strchr(name, '\x1b'));
	assert_true(given_want(g, four));
	assert_null(given_stray(g, &name));

	assert_int_equal(given_take(g, longer, &own), FIRST + 2);
	assert_false(own);
	assert_int_equal(given_take(g, longer, &own), -1);
	assert_int_equal(given_take(NULL, longer, &own), -1);
	assert_true(fcntl(FIRST + 2, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(FIRST + 2, F_GETFD) & FD_CLOEXEC);
	given_free(&g);
	assert_int_equal(fcntl(FIRST + 1, F_GETFD), -1);        /* nobody took it */
	assert_int_equal(close(FIRST + 2), 0);                  /* ours */
	unlink(un.sun_path);
	rmdir(dir);
}

static void what_is_another_processes_is_left_alone(void **state)
{
	struct given *g = NULL;

	snprintf(me, sizeof(me), "%ld", (long)getppid());
	assert_int_equal(given_by(me, "1", NULL, FIRST, &g, NULL), 0);
	assert_int_equal(given_by(NULL, "1", NULL, FIRST, &g, NULL), 0);
	assert_int_equal(given_by(me, NULL, NULL, FIRST, &g, NULL), 0);
	assert_int_equal(given(0, NULL, &g, NULL), 0);
	assert_null(g);
}

static void variables_are_read_strictly(void **state)
{
	static const char *const bad[] = { "", "x", "-1", "1x", " 1", "18446744073709551616" };
	struct given *g = NULL;
	struct err err;

	snprintf(me, sizeof(me), "%ld", (long)getpid());
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(given_by(me, bad[i], NULL, FIRST, &g, &err), ERR_INVALID);
		assert_int_equal(given_by(bad[i], "1", NULL, FIRST, &g, &err), ERR_INVALID);
		assert_string_equal(err.where, "LISTEN_FDS");
	}
	assert_null(g);
}

static void refused(int fd, const char *what)
{
	struct given *g = NULL;
	struct err err;

	put(fd, 0);
	assert_int_equal(given(1, "web", &g, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, what));
	assert_non_null(strstr(err.msg, "(web)"));
	assert_null(g);
	assert_int_equal(fcntl(FIRST, F_GETFD), -1);
}

static void what_cannot_be_served_is_named(void **state)
{
	char text[ADDR_TEXT_SIZE];
	struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "\0toolcrib-given" };
	struct given *g = NULL;
	struct err err;
	int fds[2], fd = socket(AF_UNIX, SOCK_STREAM, 0);

	refused(bound("127.0.0.1:0", SOCK_STREAM, false, -1, text), "does not listen");
	refused(bound("127.0.0.1:0", SOCK_DGRAM, false, -1, text), "does not listen");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	refused(fds[0], "does not listen");     /* Accept=yes */
	close(fds[1]);
	refused(open("/dev/null", O_RDONLY), "does not listen");
	refused(bound("[::]:0", SOCK_STREAM, true, 1, text), "takes IPv4");
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(fd, 1), 0);
	refused(fd, "a Unix socket with a path");
	assert_int_equal(given(1, NULL, &g, &err), ERR_INVALID);        /* FIRST is not open */
	assert_non_null(strstr(err.msg, "Bad file descriptor"));
}

static void as_many_as_a_configuration_has(void **state)
{
	char text[ADDR_TEXT_SIZE];
	struct given *g = NULL;
	struct err err;

	for (int i = 0; i <= GIVEN_MAX; i++)
		put(bound("127.0.0.1:0", SOCK_STREAM, false, 1, text), i);
	assert_int_equal(given(GIVEN_MAX + 1, NULL, &g, &err), ERR_LIMIT);
	assert_int_equal(given(GIVEN_MAX, NULL, &g, NULL), 0);
	given_free(&g);
	assert_int_equal(close(FIRST + GIVEN_MAX), 0);
}

/* What the server before had opened is the next one's to close; the bound is one for all. */
static void one_more_is_the_givers_own(void **state)
{
	char text[ADDR_TEXT_SIZE];
	struct given *g = NULL;
	struct err err;
	bool own = false;
	int fd;

	assert_int_equal(given_add(&g, bound("127.0.0.1:0", SOCK_STREAM, false, 1, text), true, NULL), 0);
	fd = given_take(g, text, &own);
	assert_true(fd >= 0 && own);
	close(fd);
	for (int i = 1; i < GIVEN_MAX; i++)
		assert_int_equal(given_add(&g, bound("127.0.0.1:0", SOCK_STREAM, false, 1, text), false, NULL), 0);
	assert_int_equal(given_add(&g, bound("127.0.0.1:0", SOCK_STREAM, false, 1, text), true, &err), ERR_LIMIT);
	given_free(&g);
	assert_int_equal(given_add(&g, open("/dev/null", O_RDONLY), true, &err), ERR_INVALID);
	given_free(&g);
}

SINGLE_THREAD_SUITE(given)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(taken_by_address_once), cmocka_unit_test(what_is_another_processes_is_left_alone),
		cmocka_unit_test(variables_are_read_strictly), cmocka_unit_test(what_cannot_be_served_is_named),
		cmocka_unit_test(as_many_as_a_configuration_has),
		cmocka_unit_test(one_more_is_the_givers_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
