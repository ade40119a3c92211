/* The listener for metrics and health: what waits too long, what it takes at once, what it says of the writer.  What
 * needs no clock is asked of the real server, by tests/integ/test_metrics.py. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/tally.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "net/addr.h"
#include "ops/ops.h"
#include "suite.h"

#define PATIENCE_MS 60000
#define GET_HEALTH "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define GET_METRICS "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

struct world {
	struct ev_loop *loop;
	struct ops *ops;
	bool draining, quotas, looked;
	unsigned asked, in_first_turn, nupstreams;
};

static bool draining(void *arg)
{
	const struct world *w = arg;

	return w->draining;
}

#define TENANTS (OPS_TENANTS_AT_ONCE + 1)

static void end_of_turn(void *arg)
{
	struct world *w = arg;

	w->in_first_turn = w->asked;
}

static void quotas(void *arg, const char *tenant, double ret[OPS_QUOTAS])
{
	struct world *w = arg;

	if (!w->quotas)
		return;
	if (w->asked++ == 0)
		ev_defer(w->loop, end_of_turn, w);
	w->looked = true;
	if (strcmp(tenant, "tenant-number-7") == 0)
		ret[OPS_QUOTA_BYTES] = 0.25;
	if (strcmp(tenant, "tenant-number-1000") == 0)
		ret[OPS_QUOTA_CALLS] = 1.5;
}

static void upstreams(void *arg, ops_upstream_fn *fn, void *fn_arg)
{
	const struct world *w = arg;

	for (unsigned i = 1; i <= w->nupstreams; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "up-%u", i);
		fn(fn_arg, name, i != 2 && i != OPS_UPSTREAMS_MAX + 2);
	}
}

static int setup(void **state)
{
	char listen[] = "127.0.0.1:0";
	const struct conf conf = { .metrics_listen = listen, .metrics_tenants = TENANTS };
	struct world *w = mem_zalloc(sizeof(*w));
	struct err err;

	w->loop = ev_loop_new();
	clock_fake(1784109600000000, 1000000);
	ops_count_names(&conf);
	assert_int_equal(ops_open(&(struct ops_env){ .loop = w->loop, .draining = draining, .quotas = quotas,
						     .upstreams = upstreams, .arg = w, .version = "1", .engine = "3", .process = { -1, -1 } }, &conf, &w->ops, &err), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	ops_close(&w->ops);
	ev_loop_free(&w->loop);
	clock_real();
	tally_reset();
	free(w);
	return 0;
}

static int dial(const struct world *w)
{
	struct addr a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(addr_parse(ops_address(w->ops), &a, NULL), 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&a.sa, a.len), 0);
	return fd;
}

static void put(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

struct look { int fd; struct str *got; const char *what; bool ended, done; struct ev_timer *timer; };

static void look(void *arg)
{
	struct look *l = arg;
	char text[4096];
	ssize_t n;

	while ((n = recv(l->fd, text, sizeof(text), MSG_DONTWAIT)) > 0)
		str_put(l->got, text, (size_t)n);
	l->ended = n == 0;
	l->done = l->ended || (l->what && strstr(str_text(l->got), l->what));
}

static void again(void *arg)
{
	struct look *l = arg;

	look(l);
	if (!l->done)
		ev_timer_start(l->timer, 0);
}

/* Read until that has come, or, with NULL, until the end. */
static void await(const struct world *w, int fd, const char *what, struct str *got)
{
	struct look l = { .fd = fd, .got = got, .what = what };

	l.timer = ev_timer_new(w->loop, again, &l);
	ev_timer_start(l.timer, 0);
	assert_true(ev_loop_run_until(w->loop, &l.done, PATIENCE_MS));
	ev_timer_free(&l.timer);
	assert_true(!what || strstr(str_text(got), what));
}

static void set_true(void *arg)
{
	bool *flag = arg;

	*flag = true;
}

/* Nothing of it has ended when all that is due has been done. */
static void stays(const struct world *w, int fd)
{
	struct str got = STR_INIT;
	struct look l = { .fd = fd, .got = &got };

	for (int i = 0; i < 6; i++) {
		bool turned = false;

		ev_post(w->loop, set_true, &turned);
		assert_true(ev_loop_run_until(w->loop, &turned, PATIENCE_MS));
	}
	look(&l);
	assert_false(l.ended);
	str_fini(&got);
}

static void a_connection_that_asks_nothing_ends(void **state)
{
	struct world *w = *state;
	struct str got = STR_INIT;
	uint64_t before = metric_get(METRIC_scrape_connections_late);
	int fd = dial(w);

	stays(w, fd);
	clock_step(OPS_REQUEST_MS * 1000ull - 1);
	stays(w, fd);
	assert_int_equal(metric_get(METRIC_scrape_connections_late), before);
	clock_step(1);
	await(w, fd, NULL, &got);
	assert_int_equal(metric_get(METRIC_scrape_connections_late), before + 1);
	close(fd);
	str_fini(&got);
}

static void half_a_request_ends_as_well(void **state)
{
	struct world *w = *state;
	struct str got = STR_INIT;
	int fd = dial(w);

	put(fd, GET_HEALTH);
	await(w, fd, "ok\n", &got);
	put(fd, "GET /healthz HTTP/1.1\r\n");
	stays(w, fd);
	clock_step(OPS_REQUEST_MS * 1000ull - 1);
	stays(w, fd);
	clock_step(1);
	await(w, fd, "408", &got);
	await(w, fd, NULL, &got);
	close(fd);
	str_fini(&got);
}

static void between_requests_a_scraper_may_rest(void **state)
{
	struct world *w = *state;
	struct str got = STR_INIT;
	int fd = dial(w);

	for (int i = 0; i < 3; i++) {
		str_reset(&got);
		put(fd, GET_METRICS);
		await(w, fd, "toolcrib_writer_queue_len 0\n", &got);
		clock_step(OPS_IDLE_MS * 1000ull - 1);
		stays(w, fd);
	}
	clock_step(1);
	await(w, fd, NULL, &got);
	close(fd);
	str_fini(&got);
}

static void one_text_at_a_time_on_a_connection(void **state)
{
	struct world *w = *state;
	struct str got = STR_INIT;
	uint64_t before = metric_get(METRIC_scrape_texts_refused);
	int fd = dial(w);

	put(fd, GET_METRICS GET_METRICS GET_HEALTH);
	await(w, fd, "ok\n", &got);
	assert_non_null(strstr(got.p, "HTTP/1.1 200 OK"));
	assert_non_null(strstr(got.p, "HTTP/1.1 503 Service"));
	assert_int_equal(metric_get(METRIC_scrape_texts_refused), before + 1);
	close(fd);
	str_fini(&got);
}

static void who_leaves_while_a_text_is_made_is_forgotten(void **state)
{
	struct world *w = *state;
	struct str got = STR_INIT;
	int fd = dial(w), other;

	put(fd, GET_METRICS);
	close(fd);
	other = dial(w);
	put(other, GET_METRICS);
	await(w, other, "toolcrib_writer_queue_len 0\n", &got);
	close(other);
	str_fini(&got);
}

/* All outcomes and buckets of each are written, in one text; who comes behind them has no name in it. */
static void a_thousand_tenants_are_told(void **state)
{
	struct world *w = *state;
	struct str got = STR_INIT;
	unsigned lines = 0;
	int fd = dial(w);

	for (int i = 0; i <= TENANTS; i++) {
		struct tally *t;
		char name[32];

		(void)snprintf(name, sizeof(name), "tenant-number-%d", i);
		t = tally_get(TALLY_TENANT, name);
		for (unsigned k = 0; k < TALLY_OUTCOMES; k++)
			tally_count(t, k);
		tally_observe(t, (uint64_t)i * 1000, NULL);
	}
	put(fd, GET_METRICS);
	await(w, fd, "tenant=\"tenant-number-1000\",le=\"+Inf\"} 1\n", &got);
	await(w, fd, "tenant=\"other\",le=\"+Inf\"} 1\n", &got);
	assert_null(strstr(got.p, "tenant-number-1001"));
	for (const char *p = got.p; (p = strstr(p, "tenant=\"tenant-number-")) != NULL; p++)
		lines++;
	assert_int_equal(lines, TENANTS * (TALLY_OUTCOMES + TALLY_PLACES + 14 + 2));
	assert_true(got.len < 4000000);                 /* OP section 14 */
	close(fd);
	str_fini(&got);
}

/* Not all of them in one turn of the loop, and no names beyond the bound. */
static void quotas_are_told_of_who_has_them(void **state)
{
	struct world *w = *state;
	struct str got = STR_INIT;
	int fd = dial(w);

	for (int i = 0; i <= TENANTS; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "tenant-number-%d", i);
		tally_count(tally_get(TALLY_TENANT, name), 0);
	}
	w->quotas = true;
	put(fd, GET_METRICS);
	await(w, fd, "toolcrib_quota_used_ratio{tenant=\"tenant-number-7\",of=\"bytes\"} 0.250000\n"
	      "toolcrib_quota_used_ratio{tenant=\"tenant-number-1000\",of=\"calls\"} 1.500000\n# ", &got);
	assert_int_equal(w->in_first_turn, OPS_TENANTS_AT_ONCE);
	assert_int_equal(w->asked, TENANTS);
	close(fd);
	str_fini(&got);
}

static void upstreams_are_told_by_name_up_to_a_bound(void **state)
{
	struct world *w = *state;
	struct str got = STR_INIT;
	const uint64_t summed = metric_get(METRIC_labels_summed);
	int fd = dial(w);

	w->nupstreams = OPS_UPSTREAMS_MAX;
	put(fd, GET_METRICS);
	await(w, fd, "toolcrib_upstream_up{upstream=\"up-1\"} 1\ntoolcrib_upstream_up{upstream=\"up-2\"} 0\n", &got);
	await(w, fd, "toolcrib_upstream_up{upstream=\"up-500\"} 1\n# ", &got);
	assert_int_equal(metric_get(METRIC_labels_summed), summed);
	for (unsigned more = 1; more <= 2; more++) {
		str_reset(&got);
		w->nupstreams = OPS_UPSTREAMS_MAX + more;
		put(fd, GET_METRICS);
		await(w, fd, more == 1 ? "up-500\"} 1\ntoolcrib_upstream_up{upstream=\"other\"} 1\n# " :
		      "up-500\"} 1\ntoolcrib_upstream_up{upstream=\"other\"} 0\n# ", &got);
	}
	assert_int_equal(metric_get(METRIC_labels_summed), summed + 3);
	close(fd);
	str_fini(&got);
}

/* One for which not all has been looked at when the listener closes. */
static void an_end_leaves_no_text_behind(void **state)
{
	struct world *w = *state;
	int fd = dial(w);

	for (int i = 0; i < TENANTS; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "tenant-number-%d", i);
		tally_count(tally_get(TALLY_TENANT, name), 0);
	}
	w->quotas = true;
	put(fd, GET_METRICS);
	assert_true(ev_loop_run_until(w->loop, &w->looked, PATIENCE_MS));
	assert_int_equal(w->asked, OPS_TENANTS_AT_ONCE);
	ops_close(&w->ops);
	ev_loop_free(&w->loop);
	assert_int_equal(w->asked, OPS_TENANTS_AT_ONCE);
	close(fd);
}

static void readiness_is_what_the_server_says(void **state)
{
	struct world *w = *state;
	struct str got = STR_INIT;
	int fd = dial(w);

	put(fd, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
	await(w, fd, "{\"ready\":true}\n", &got);
	w->draining = true;
	put(fd, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
	await(w, fd, "{\"ready\":false,\"reasons\":[\"draining\"]}\n", &got);
	assert_non_null(strstr(got.p, "HTTP/1.1 503 "));
	close(fd);
	str_fini(&got);
}

SUITE(ops)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_connection_that_asks_nothing_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(half_a_request_ends_as_well, setup, teardown),
		cmocka_unit_test_setup_teardown(between_requests_a_scraper_may_rest, setup, teardown),
		cmocka_unit_test_setup_teardown(one_text_at_a_time_on_a_connection, setup, teardown),
		cmocka_unit_test_setup_teardown(who_leaves_while_a_text_is_made_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(a_thousand_tenants_are_told, setup, teardown),
		cmocka_unit_test_setup_teardown(quotas_are_told_of_who_has_them, setup, teardown),
		cmocka_unit_test_setup_teardown(upstreams_are_told_by_name_up_to_a_bound, setup, teardown),
		cmocka_unit_test_setup_teardown(an_end_leaves_no_text_behind, setup, teardown),
		cmocka_unit_test_setup_teardown(readiness_is_what_the_server_says, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
