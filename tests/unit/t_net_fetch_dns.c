/* A resolver that hangs holds nobody up: requests that wait for it end at once, when they are told to.  getaddrinfo() of this
 * program goes before that of libc, for libcurl too. */
#include "config.h"

#include <netdb.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ev/ev.h"
#include "net/fetch.h"
#include "suite.h"

#define PATIENCE_MS 60000
#define MANY 20

static sem_t release;
static atomic_uint entered, left;

/* Any thread: libcurl's. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
	atomic_fetch_add(&entered, 1);
	while (sem_wait(&release) != 0)
		;
	atomic_fetch_add(&left, 1);
	return EAI_FAIL;
}

struct got { bool done; int rc; };

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

	g->done = true;
	g->rc = rc;
}

static const struct fetch_sink sink = { on_head, on_data, on_done };
static const struct fetch_policy policy = { .private_ok = false };

static struct fetch *start(struct fetcher *f, uint64_t deadline_us, struct got *g)
{
	const struct fetch_req req = { .method = "GET", .url = "https://slow.example/", .policy = &policy, .scope = "acme",
				       .deadline_us = deadline_us, .body_max = 10 };
	struct fetch *x = NULL;
	struct err err;

	*g = (struct got){ .done = false };
	assert_int_equal(fetch_start(f, &req, &sink, g, &x, &err), 0);
	return x;
}

static void let_go(void)
{
	for (unsigned n = atomic_load(&entered) - atomic_load(&left); n > 0; n--)
		sem_post(&release);
	while (atomic_load(&left) < atomic_load(&entered))
		sched_yield();
}

static void waits_for(struct ev_loop *loop, unsigned n)
{
	bool never = false;

	for (int i = 0; atomic_load(&entered) < n && i < PATIENCE_MS; i++)
		(void)ev_loop_run_until(loop, &never, 1);
	assert_true(atomic_load(&entered) >= n);
}

static void cancelled_request_does_not_wait_for_the_resolver(void **state)
{
	struct ev_loop *loop = ev_loop_new();
	struct fetcher *f = fetcher_new(loop);
	struct got g[MANY];
	struct fetch *x[MANY];

	atomic_store(&entered, 0);
	atomic_store(&left, 0);
	for (int i = 0; i < MANY; i++)
		x[i] = start(f, 0, &g[i]);
	waits_for(loop, MANY);
	for (int i = 0; i < MANY; i++)
		fetch_cancel(x[i]);
	for (int i = 0; i < MANY; i++) {
		assert_true(ev_loop_run_until(loop, &g[i].done, PATIENCE_MS));
		assert_int_equal(g[i].rc, ERR_CANCELLED);
	}
	assert_int_equal(atomic_load(&left), 0);        /* all of them still hang */
	fetcher_free(&f);
	assert_int_equal(atomic_load(&left), 0);
	ev_loop_free(&loop);
	let_go();
}

static void deadline_does_not_wait_for_the_resolver(void **state)
{
	struct ev_loop *loop = ev_loop_new();
	struct fetcher *f = fetcher_new(loop);
	struct got g;

	atomic_store(&entered, 0);
	atomic_store(&left, 0);
	start(f, clock_mono_us() + 50000, &g);
	assert_true(ev_loop_run_until(loop, &g.done, PATIENCE_MS));
	assert_int_equal(g.rc, ERR_TIMEOUT);
	assert_int_equal(atomic_load(&left), 0);
	fetcher_free(&f);
	ev_loop_free(&loop);
	let_go();
}

static void name_that_does_not_resolve_says_so(void **state)
{
	struct ev_loop *loop = ev_loop_new();
	struct fetcher *f = fetcher_new(loop);
	struct got g;

	atomic_store(&entered, 0);
	atomic_store(&left, 0);
	sem_post(&release);
	start(f, clock_mono_us() + 5000000, &g);
	assert_true(ev_loop_run_until(loop, &g.done, PATIENCE_MS));
	assert_int_equal(g.rc, ERR_UNREACHABLE);
	fetcher_free(&f);
	ev_loop_free(&loop);
}

SUITE(fetch_dns)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cancelled_request_does_not_wait_for_the_resolver),
		cmocka_unit_test(deadline_does_not_wait_for_the_resolver),
		cmocka_unit_test(name_that_does_not_resolve_says_so),
	};
	assert_int_equal(sem_init(&release, 0, 0), 0);
	return cmocka_run_group_tests_name("names of outbound requests", tests, NULL, NULL);
}
