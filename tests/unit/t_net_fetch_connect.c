/* A server whose queue of connections is full: no answer, no refusal, and so nothing but the limit ends the wait.
 * clock_gettime() of this program goes before that of libc, for libcurl too, and can be stepped. */
#include "config.h"

#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ev/ev.h"
#include "net/fetch.h"
#include "suite.h"

#define PATIENCE_MS 60000
#define FILLERS_MAX 8

static atomic_llong ahead_ms;

/* Any thread. */
int clock_gettime(clockid_t id, struct timespec *ret)
{
	int rc = (int)syscall(SYS_clock_gettime, id, ret);

	if (rc == 0 && id == CLOCK_MONOTONIC) {
		long long ns = ret->tv_nsec + atomic_load(&ahead_ms) % 1000 * 1000000;

		ret->tv_sec += (time_t)(atomic_load(&ahead_ms) / 1000 + ns / 1000000000);
		ret->tv_nsec = (long)(ns % 1000000000);
	}
	return rc;
}

struct full { int listener, filler[FILLERS_MAX]; unsigned n, port; };

static bool connects(int fd, const struct sockaddr_in *to)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	(void)connect(fd, (const struct sockaddr *)to, sizeof(*to));    /* over loopback it is done at once, or never */
	return poll(&p, 1, 50) == 1;
}

static void full_open(struct full *s)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	bool room = true;

	s->n = 0;
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(s->listener, 0), 0);
	assert_int_equal(getsockname(s->listener, (struct sockaddr *)&at, &len), 0);
	s->port = ntohs(at.sin_port);
	while (room && s->n < FILLERS_MAX) {
		s->filler[s->n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		room = connects(s->filler[s->n++], &at);
	}
	assert_false(room);
}

static void full_close(struct full *s)
{
	while (s->n > 0)
		close(s->filler[--s->n]);
	close(s->listener);
}

struct got { bool done; int rc; struct err err; };

static void on_head(void *arg, const struct fetch_head *h)
{
	fail();
}

static int on_data(void *arg, const void *p, size_t len)
{
	fail();
	return 0;
}

static void on_done(void *arg, int rc, const struct err *err)
{
	struct got *g = arg;

	*g = (struct got){ true, rc, *err };
}

static void start(struct fetcher *f, unsigned port, uint64_t deadline_us, struct got *g)
{
	static const struct fetch_sink sink = { on_head, on_data, on_done };
	static const struct fetch_policy policy = { .private_ok = true };
	char url[64];
	const struct fetch_req req = { .method = "GET", .url = url, .policy = &policy, .scope = "acme", .deadline_us = deadline_us,
				       .body_max = 10 };
	struct fetch *x = NULL;
	struct err err;

	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", port);
	*g = (struct got){ .done = false };
	assert_int_equal(fetch_start(f, &req, &sink, g, &x, &err), 0);
}

static void wait_ends(uint64_t deadline_ms, long long limit_ms, int rc, const char *msg)
{
	struct ev_loop *loop = ev_loop_new();
	struct fetcher *f = fetcher_new(loop);
	struct full s;
	struct got g;

	full_open(&s);
	start(f, s.port, deadline_ms ? clock_mono_us() + deadline_ms * 1000 : 0, &g);
	assert_false(ev_loop_run_until(loop, &g.done, 20));
	atomic_fetch_add(&ahead_ms, limit_ms - 1000);   /* a machine that is busy for a second may fail this */
	assert_false(ev_loop_run_until(loop, &g.done, 20));
	atomic_fetch_add(&ahead_ms, 1001);
	assert_true(ev_loop_run_until(loop, &g.done, PATIENCE_MS));
	assert_int_equal(g.rc, rc);
	assert_string_equal(g.err.msg, msg);
	full_close(&s);
	fetcher_free(&f);
	ev_loop_free(&loop);
}

static void connection_is_waited_for_so_long(void **state)
{
	wait_ends(0, FETCH_CONNECT_MS, ERR_UNREACHABLE, "no connection within 5000 ms");
	wait_ends(60000, FETCH_CONNECT_MS, ERR_UNREACHABLE, "no connection within 5000 ms");
}

static void earlier_deadline_ends_the_wait(void **state)
{
	wait_ends(2000, 2000, ERR_TIMEOUT, "the server did not answer in time");
}

SINGLE_THREAD_SUITE(fetch_connect)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connection_is_waited_for_so_long),
		cmocka_unit_test(earlier_deadline_ends_the_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
