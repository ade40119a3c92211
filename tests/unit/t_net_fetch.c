/* Outbound requests against servers that answer as a script says: what arrives, what is refused, how it ends. */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "ev/ev.h"
#include "net/fetch.h"
#include "net/listen.h"
#include "net/stream.h"

#include "http_peer.h"
#include "suite.h"

#define PATIENCE_MS 60000

static struct ev_loop *loop;
static struct fetcher *fetcher;

/* --- a request ----------------------------------------------------------------------------------- */

struct got {
	struct fetch *f;
	unsigned heads, ends;
	bool done, starting, more;              /* more: data has come since this was cleared */
	int status, rc, data_rc, socket;
	char type[80], session[80];
	struct str body;
	struct err err;
};

static void got_head(void *arg, const struct fetch_head *h)
{
	struct got *g = arg;
	const char *type = fetch_head_get(h, "content-type"), *session = fetch_head_get(h, "mcp-session-id");

	assert_false(g->starting);
	assert_int_equal(g->ends, 0);
	g->heads++;
	g->status = fetch_head_status(h);
	snprintf(g->type, sizeof(g->type), "%s", type ? type : "-");
	snprintf(g->session, sizeof(g->session), "%s", session ? session : "-");
}

static int got_data(void *arg, const void *p, size_t len)
{
	struct got *g = arg;

	assert_false(g->starting);
	assert_int_equal(g->heads, 1);
	assert_int_equal(g->ends, 0);
	str_put(&g->body, p, len);
	g->more = true;
	return g->data_rc;
}

static void got_done(void *arg, int rc, const struct err *err)
{
	struct got *g = arg;

	assert_false(g->starting);
	g->ends++;
	g->socket = rc == 0 ? fetch_take_socket(g->f) : -1;
	g->rc = rc;
	g->err = *err;
	g->done = true;
	assert_true(rc == 0 || err->msg[0]);
}

static const struct fetch_sink sink = { got_head, got_data, got_done };
static const struct fetch_policy private_ok = { .private_ok = true };

static struct fetch_req req_of(struct peer *s, const char *method)
{
	static char url[80];

	snprintf(url, sizeof(url), "http://127.0.0.1:%u/path?q=1", s->port);
	return (struct fetch_req){ .method = method, .url = url, .policy = &private_ok, .scope = "acme",
				   .deadline_us = clock_mono_us() + 5000000, .body_max = 1000 };
}

static void start(struct got *g, const struct fetch_req *req)
{
	struct err err;

	*g = (struct got){ .starting = true };
	if (fetch_start(fetcher, req, &sink, g, &g->f, &err) < 0)
		fail_msg("%s: %s", req->url, err.msg);
	g->starting = false;
}

static void end_of(struct got *g)
{
	assert_true(ev_loop_run_until(loop, &g->done, PATIENCE_MS));
	assert_int_equal(g->ends, 1);
}

static void run(struct got *g, const struct fetch_req *req)
{
	start(g, req);
	end_of(g);
}

static void get(struct got *g, struct peer *s)
{
	const struct fetch_req req = req_of(s, "GET");

	run(g, &req);
}

/* --- what arrives -------------------------------------------------------------------------------- */

static void answer_arrives_whole_with_its_headers(void **state)
{
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, "HTTP/1.1 100 Continue\r\nContent-Type: no/no\r\n\r\n"
	     "HTTP/1.1 404 Not Found\r\nContent-TYPE:\t text/plain \r\nMcp-Session-Id: abc\r\nContent-Length: 5\r\n\r\nhello", true);
	get(&g, &s);
	assert_int_equal(g.rc, 0);
	assert_int_equal(g.status, 404);
	assert_string_equal(g.type, "text/plain");
	assert_string_equal(g.session, "abc");
	assert_string_equal(str_text(&g.body), "hello");
	assert_non_null(strstr(str_text(&s.seen), "GET /path?q=1 HTTP/1.1\r\n"));
	assert_non_null(strstr(str_text(&s.seen), "\r\nAccept: */*\r\n"));
	str_fini(&g.body);
	peer_close(&s);
}

static void request_says_what_was_asked_and_nothing_else(void **state)
{
	const struct fetch_header headers[] = { { "Content-Type", "application/json" }, { "X-Empty", "" },
						{ "Accept", "application/json, text/event-stream" }, { "X-Key", "k: v" } };
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true);
	struct fetch_req req = req_of(&s, "PATCH");
	req.headers = headers;
	req.nheaders = NELEMS(headers);
	req.body = "{\"a\":1}";
	req.body_len = 7;
	run(&g, &req);
	assert_int_equal(g.rc, 0);
	char *want = mem_printf("PATCH /path?q=1 HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUser-Agent: " PACKAGE_NAME "/" PACKAGE_VERSION
		"\r\nContent-Type: application/json\r\nX-Empty:\r\nAccept: application/json, text/event-stream\r\n"
		"X-Key: k: v\r\nContent-Length: 7\r\n\r\n{\"a\":1}", s.port);
	assert_string_equal(str_text(&s.seen), want);
	free(want);
	req = req_of(&s, "POST");
	run(&g, &req);
	assert_non_null(strstr(str_text(&s.seen), "\r\nContent-Length: 0\r\n"));
	assert_null(strstr(str_text(&s.seen), "Content-Type"));
	req = req_of(&s, "DELETE");
	run(&g, &req);
	assert_non_null(strstr(str_text(&s.seen), "DELETE /path"));
	assert_null(strstr(str_text(&s.seen), "Content-"));
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", true);
	req = req_of(&s, "HEAD");
	run(&g, &req);
	assert_int_equal(g.rc, 0);
	assert_int_equal(g.body.len, 0);
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true);
	get(&g, &s);            /* the same handle again, behind a HEAD */
	assert_string_equal(str_text(&g.body), "ok");
	assert_int_equal(s.connections, 1);
	str_fini(&g.body);
	peer_close(&s);
}

static void stream_delivers_each_piece_as_it_comes(void **state)
{
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n", true);
	struct fetch_req req = req_of(&s, "GET");
	req.deadline_us = 0;
	req.body_max = SIZE_MAX;
	start(&g, &req);
	assert_true(ev_loop_run_until(loop, &g.more, PATIENCE_MS));
	assert_int_equal(g.heads, 1);
	assert_string_equal(g.type, "text/event-stream");
	assert_string_equal(str_text(&g.body), "one");
	g.more = false;
	stream_write(s.last, "3\r\ntwo\r\n", 8);
	assert_true(ev_loop_run_until(loop, &g.more, PATIENCE_MS));
	assert_string_equal(str_text(&g.body), "onetwo");
	assert_int_equal(g.ends, 0);
	fetch_cancel(g.f);
	fetch_cancel(g.f);
	assert_int_equal(g.ends, 0);
	end_of(&g);
	assert_int_equal(g.rc, ERR_CANCELLED);
	str_fini(&g.body);
	peer_close(&s);
}

/* --- limits -------------------------------------------------------------------------------------- */

static void body_at_its_limit_passes_and_one_byte_more_does_not(void **state)
{
	for (size_t i = 0; i < 6; i++) {        /* by length, in chunks, to the end; each at the limit and over it */
		size_t n = 1000 + i % 2;
		struct str answer = STR_INIT;
		struct peer s;
		struct got g;
		str_puts(&answer, "HTTP/1.1 200 OK\r\n");
		if (i < 2)
			str_printf(&answer, "Content-Length: %zu\r\n", n);
		else if (i < 4)
			str_printf(&answer, "Transfer-Encoding: chunked\r\n\r\n%zx", n);
		str_puts(&answer, "\r\n");
		for (size_t k = 0; k < n; k++)
			str_putc(&answer, 'x');
		if (i == 2 || i == 3)
			str_puts(&answer, "\r\n0\r\n\r\n");
		peer_open(&s, loop, "127.0.0.1:0");
		peer_says(&s, str_text(&answer), false);
		get(&g, &s);
		assert_int_equal(g.rc, i % 2 ? ERR_LIMIT : 0);
		assert_true(i % 2 ? g.body.len <= 1000 : g.body.len == 1000);
		peer_close(&s);
		str_fini(&answer);
		str_fini(&g.body);
	}
}

/* SEC S-707 */
static void head_at_its_limit_passes_and_one_byte_more_does_not(void **state)
{
	for (size_t over = 0; over < 2; over++) {
		struct str answer = STR_INIT;
		struct peer s;
		struct got g;
		str_puts(&answer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n");
		while (answer.len < FETCH_HEAD_MAX - 1000)
			str_puts(&answer, "X-Many: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n");
		str_puts(&answer, "X-Last: ");
		while (answer.len < FETCH_HEAD_MAX - 4 + over)
			str_putc(&answer, 'b');
		str_puts(&answer, "\r\n\r\n");
		peer_open(&s, loop, "127.0.0.1:0");
		peer_says(&s, str_text(&answer), true);
		uint64_t before = metric_get(METRIC_fetch_head_too_large);
		get(&g, &s);
		assert_int_equal(g.rc, over ? ERR_LIMIT : 0);
		assert_int_equal(metric_get(METRIC_fetch_head_too_large) - before, over);
		peer_close(&s);
		str_fini(&answer);
	}
}

static void endless_interim_answers_end_at_the_limit_of_the_head(void **state)
{
	struct str answer = STR_INIT;
	struct peer s;
	struct got g;

	while (answer.len < FETCH_HEAD_MAX + 1000)
		str_puts(&answer, "HTTP/1.1 102 Processing\r\n\r\n");
	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, str_text(&answer), true);
	get(&g, &s);
	assert_int_equal(g.rc, ERR_LIMIT);
	peer_close(&s);
	str_fini(&answer);
}

/* One more than is under way does not start. */
static void check_busy(const struct fetch_req *req)
{
	uint64_t before = metric_get(METRIC_fetch_busy);
	struct fetch *none = NULL;
	struct got g;
	struct err err;

	assert_int_equal(fetch_start(fetcher, req, &sink, &g, &none, &err), ERR_BUSY);
	assert_int_equal(metric_get(METRIC_fetch_busy) - before, 1);
}

/* SEC S-804: a tenant takes what is common, then each of the others has its share, until there is nothing more. */
static void requests_at_their_limits_start_and_one_more_does_not(void **state)
{
	const int common = FETCH_RUNNING_MAX - FETCH_KEPT;
	struct got *g = mem_calloc(FETCH_RUNNING_MAX, sizeof(*g));
	char scope[20] = "acme";
	struct peer s;
	int n;

	peer_open(&s, loop, "127.0.0.1:0");
	struct fetch_req req = req_of(&s, "GET");
	req.scope = scope;
	for (n = 0; n < common; n++)
		start(&g[n], &req);
	check_busy(&req);
	while (n < FETCH_RUNNING_MAX) {
		snprintf(scope, sizeof(scope), "tenant%d", n);
		for (int i = 0; i < FETCH_POOL_SHARE; i++)
			start(&g[n++], &req);
		check_busy(&req);
	}
	snprintf(scope, sizeof(scope), "one more");
	check_busy(&req);
	for (int i = 0; i < FETCH_RUNNING_MAX; i++)
		fetch_cancel(g[i].f);
	for (int i = 0; i < FETCH_RUNNING_MAX; i++)
		end_of(&g[i]);
	assert_int_equal(metric_get(METRIC_fetch_running), 0);
	snprintf(scope, sizeof(scope), "acme");
	start(&g[0], &req);             /* what ended was given back */
	fetch_cancel(g[0].f);
	end_of(&g[0]);
	free(g);
	peer_close(&s);
}

/* More pools than are kept: the one that rested longest gives way. */
static void pools_beyond_their_limit_replace_idle_ones(void **state)
{
	struct peer s;
	char scope[20];

	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true);
	for (int i = 0; i < FETCH_POOLS_MAX + 1; i++) {
		struct fetch_req req = req_of(&s, "GET");
		struct got g;
		snprintf(scope, sizeof(scope), "tenant%d", i);
		req.scope = scope;
		run(&g, &req);
		assert_int_equal(g.rc, 0);
	}
	peer_close(&s);
}

static void pools_at_work_do_not_give_way(void **state)
{
	struct got *g = mem_calloc(FETCH_POOLS_MAX + 1, sizeof(*g));
	struct fetch *none = NULL;
	char scope[20];
	struct peer s;
	struct err err;

	fetcher_free(&fetcher);
	fetcher = fetcher_new(loop);
	peer_open(&s, loop, "127.0.0.1:0");
	struct fetch_req req = req_of(&s, "GET");
	for (int i = 0; i < FETCH_POOLS_MAX; i++) {
		snprintf(scope, sizeof(scope), "tenant%d", i);
		req.scope = scope;
		start(&g[i], &req);
	}
	req.scope = "one more";
	assert_int_equal(fetch_start(fetcher, &req, &sink, &g[FETCH_POOLS_MAX], &none, &err), ERR_BUSY);
	fetch_cancel(g[0].f);
	end_of(&g[0]);
	start(&g[0], &req);
	for (int i = 0; i < FETCH_POOLS_MAX; i++)
		fetch_cancel(g[i].f);
	for (int i = 0; i < FETCH_POOLS_MAX; i++)
		end_of(&g[i]);
	peer_close(&s);
	free(g);
}

static void pool_without_work_closes_its_connections(void **state)
{
	bool never = false;
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true);
	clock_fake(clock_wall_us(), clock_mono_us());
	get(&g, &s);
	assert_non_null(s.last);
	clock_step(FETCH_POOL_IDLE_MS * 1000ull - 1);
	(void)ev_loop_run_until(loop, &never, 1);
	assert_non_null(s.last);
	clock_step(1);
	for (int i = 0; s.last && i < PATIENCE_MS; i++)
		(void)ev_loop_run_until(loop, &never, 1);
	assert_null(s.last);
	clock_real();
	peer_close(&s);
}

/* --- hostile answers ----------------------------------------------------------------------------- */

static void broken_answers_end_as_errors(void **state)
{
	static const char *const answers[] = {
		"\x01\x02\x03\r\n\r\n", "garbage", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: y", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 20", "HTTP/9.9 200 OK\r\n\r\n", "", "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 2\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	};

	for (size_t i = 0; i < NELEMS(answers); i++) {
		struct peer s;
		struct got g;
		peer_open(&s, loop, "127.0.0.1:0");
		peer_says(&s, answers[i], false);
		get(&g, &s);
		if (g.rc != ERR_IO)
			fail_msg("answer %zu ended with %d: %s", i, g.rc, g.err.msg);
		str_fini(&g.body);
		peer_close(&s);
	}
}

static void silence_ends_at_the_deadline(void **state)
{
	static const char *const answers[] = { NULL, "HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc" };

	for (size_t i = 0; i < NELEMS(answers); i++) {
		struct peer s;
		struct got g;
		peer_open(&s, loop, "127.0.0.1:0");
		if (answers[i])
			peer_says(&s, answers[i], true);
		struct fetch_req req = req_of(&s, "GET");
		req.deadline_us = clock_mono_us() + 30000;
		run(&g, &req);
		assert_int_equal(g.rc, ERR_TIMEOUT);
		str_fini(&g.body);
		peer_close(&s);
	}
}

static void deadline_that_is_over_sends_nothing(void **state)
{
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	struct fetch_req req = req_of(&s, "GET");
	req.deadline_us = clock_mono_us();
	run(&g, &req);
	assert_int_equal(g.rc, ERR_TIMEOUT);
	assert_int_equal(s.connections, 0);
	peer_close(&s);
}

static void reader_ends_the_answer_with_its_own_code(void **state)
{
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", true);
	const struct fetch_req req = req_of(&s, "GET");
	start(&g, &req);
	g.data_rc = ERR_TOOL;
	end_of(&g);
	assert_int_equal(g.rc, ERR_TOOL);
	str_fini(&g.body);
	peer_close(&s);
}

/* A kept connection that dies under a request: what is not idempotent leaves at most once. */
static void post_is_never_sent_twice(void **state)
{
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true);
	get(&g, &s);
	peer_says(&s, "", false);
	struct fetch_req req = req_of(&s, "POST");
	req.body = "x";
	req.body_len = 1;
	run(&g, &req);
	assert_int_equal(g.rc, ERR_IO);
	assert_int_equal(s.requests, 2);
	peer_close(&s);
}

/* Closed while it rests, without a word in the answer; the number of its descriptor comes back with the next one. */
static void connection_that_ended_between_requests_gives_way_to_a_new_one(void **state)
{
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	for (unsigned i = 1; i <= 4; i++) {
		peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true);
		get(&g, &s);
		assert_int_equal(g.rc, 0);
		peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false);
		get(&g, &s);
		assert_int_equal(g.rc, 0);
		assert_int_equal(s.connections, i);
	}
	peer_close(&s);
}

struct pipe { int fd[2]; struct ev_io *io; bool heard; };

static void on_pipe(void *arg, bool readable, bool writable)
{
	struct pipe *p = arg;

	ev_io_want(p->io, false, false);
	p->heard = true;
}

/* What is left of the connection in the loop would swallow the events of whoever gets its number. */
static void descriptor_of_a_connection_that_was_cut_serves_others(void **state)
{
	struct pipe pipes[4];
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true);
	get(&g, &s);
	str_fini(&g.body);
	struct fetch_req req = req_of(&s, "GET");
	req.body_max = 1;
	run(&g, &req);
	assert_int_equal(g.rc, ERR_LIMIT);
	assert_int_equal(s.connections, 1);
	for (size_t i = 0; i < NELEMS(pipes); i++) {
		struct pipe *p = &pipes[i];
		p->heard = false;
		assert_int_equal(pipe2(p->fd, O_CLOEXEC | O_NONBLOCK), 0);
		p->io = ev_io_new(loop, p->fd[0], on_pipe, p);
		ev_io_want(p->io, true, false);
		assert_int_equal(write(p->fd[1], "x", 1), 1);
	}
	for (size_t i = 0; i < NELEMS(pipes); i++) {
		assert_true(ev_loop_run_until(loop, &pipes[i].heard, PATIENCE_MS));
		ev_io_free(&pipes[i].io);
		close(pipes[i].fd[0]);
		close(pipes[i].fd[1]);
	}
	peer_close(&s);
}

static void redirects_are_answers_like_others(void **state)
{
	struct peer s, other;
	char answer[200];
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_open(&other, loop, "127.0.0.1:0");
	snprintf(answer, sizeof(answer), "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%u/\r\nContent-Length: 0\r\n\r\n", other.port);
	peer_says(&s, answer, true);
	get(&g, &s);
	assert_int_equal(g.rc, 0);
	assert_int_equal(g.status, 302);
	assert_int_equal(other.connections, 0);
	peer_close(&s);
	peer_close(&other);
}

/* SEC S-706 */
static void environment_has_no_say_about_proxies(void **state)
{
	struct peer s, proxy;
	char url[60];
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_open(&proxy, loop, "127.0.0.1:0");
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", proxy.port);
	setenv("http_proxy", url, 1);
	setenv("all_proxy", url, 1);
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true);
	get(&g, &s);
	unsetenv("http_proxy");
	unsetenv("all_proxy");
	assert_int_equal(g.rc, 0);
	assert_int_equal(proxy.connections, 0);
	peer_close(&s);
	peer_close(&proxy);
}

/* --- addresses ----------------------------------------------------------------------------------- */

struct names { const char *answers[4]; unsigned asked; };

static void resolve(void *arg, const char *host, uint16_t port, char *ret, size_t size)
{
	struct names *n = arg;
	const char *answer = n->answers[n->asked < 3 ? n->asked : 3];

	n->asked++;
	snprintf(ret, size, "%s", answer ? answer : "");
}

static struct fetch_req named(const struct fetch_policy *p, unsigned port)
{
	static char url[80];

	snprintf(url, sizeof(url), "http://name.example:%u/", port);
	return (struct fetch_req){ .method = "GET", .url = url, .policy = p, .scope = "acme",
				   .deadline_us = clock_mono_us() + 5000000, .body_max = 1000 };
}

/* A policy of one range, which a test server's address is in. */
static struct fetch_policy range(struct arena *mem, const char *entry)
{
	struct fetch_allow *a = arena_alloc(mem, sizeof(*a));

	assert_int_equal(fetch_allow_parse(entry, "", mem, a, NULL), 0);
	return (struct fetch_policy){ .allow = a, .nallow = 1 };
}

/* SEC S-703: the name is 127.0.0.2 when it is looked at and 127.0.0.1 when it is used, or the other way round. */
static void name_that_changes_its_address_reaches_allowed_ones_only(void **state)
{
	struct arena *mem = arena_new(1 << 16);
	const struct fetch_policy p = range(mem, "127.0.0.2/32");
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false);
	struct names n = { .answers = { "127.0.0.2", "127.0.0.1", "127.0.0.2,127.0.0.1", "127.0.0.1,127.0.0.2" } };
	fetcher_resolve(fetcher, resolve, &n);
	const struct fetch_req req = named(&p, s.port);
	run(&g, &req);
	assert_int_equal(g.rc, ERR_UNREACHABLE);        /* nobody listens there */
	for (int i = 0; i < 3; i++) {
		run(&g, &req);
		assert_int_equal(g.rc, ERR_DENIED);
		assert_string_equal(g.err.msg, "the host has a loopback address, which is not allowed");
	}
	assert_int_equal(n.asked, 4);
	assert_int_equal(s.connections, 0);
	fetcher_resolve(fetcher, NULL, NULL);
	peer_close(&s);
	arena_free(&mem);
}

static void name_with_one_forbidden_address_is_not_tried_further(void **state)
{
	struct arena *mem = arena_new(1 << 16);
	const struct fetch_policy p = range(mem, "127.0.0.2/32");
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.2:0");
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false);
	struct names n = { .answers = { "10.0.0.1,127.0.0.2", "127.0.0.2" } };
	fetcher_resolve(fetcher, resolve, &n);
	const struct fetch_req req = named(&p, s.port);
	run(&g, &req);
	assert_int_equal(g.rc, ERR_DENIED);
	assert_int_equal(s.connections, 0);
	run(&g, &req);
	assert_int_equal(g.rc, 0);
	fetcher_resolve(fetcher, NULL, NULL);
	peer_close(&s);
	arena_free(&mem);
}

/* Trap 31: what one policy has connected serves no other, and no other tenant. */
static void kept_connections_serve_one_policy_and_one_scope(void **state)
{
	struct arena *mem = arena_new(1 << 16);
	const struct fetch_policy none = { .private_ok = false };
	struct peer s;
	struct err err;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true);
	struct names n = { .answers = { "127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1" } };
	fetcher_resolve(fetcher, resolve, &n);
	struct fetch_req req = named(&private_ok, s.port);
	run(&g, &req);
	run(&g, &req);
	assert_int_equal(s.connections, 1);
	req.scope = "other";
	run(&g, &req);
	assert_int_equal(s.connections, 2);
	req.policy = &none;
	assert_int_equal(fetch_start(fetcher, &req, &sink, &g, &g.f, &err), ERR_DENIED);
	const struct fetch_policy listed = range(mem, "127.0.0.1/32"), elsewhere = range(mem, "10.0.0.0/8");
	req.policy = &listed;
	run(&g, &req);
	assert_int_equal(g.rc, 0);
	assert_int_equal(s.connections, 3);
	req.policy = &elsewhere;
	run(&g, &req);
	assert_int_equal(g.rc, ERR_DENIED);
	assert_int_equal(s.connections, 3);
	fetcher_resolve(fetcher, NULL, NULL);
	peer_close(&s);
	arena_free(&mem);
}

static void own_listener_is_not_reached(void **state)
{
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true);
	get(&g, &s);
	assert_int_equal(g.rc, 0);
	fetcher_own(fetcher, listen_address(s.listener));
	fetcher_own(fetcher, "/run/some.sock");
	get(&g, &s);            /* also not over the connection that is kept from before */
	assert_int_equal(g.rc, ERR_DENIED);
	assert_int_equal(s.requests, 1);
	peer_close(&s);
	peer_open(&s, loop, "0.0.0.0:0");
	fetcher_own(fetcher, listen_address(s.listener));
	get(&g, &s);
	assert_int_equal(g.rc, ERR_DENIED);
	peer_close(&s);
}

/* What a protocol of ours speaks over: to an address that the policy allows, and with nothing of HTTP in it. */
static void a_connection_alone_is_handed_over(void **state)
{
	struct peer s;
	int own;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	struct fetch_req req = req_of(&s, "GET");

	req.connect_only = true;
	run(&g, &req);
	assert_int_equal(g.rc, 0);
	assert_int_equal(g.heads, 0);
	assert_true(g.socket >= 0);
	peer_says(&s, "HTTP/1.1 204 None\r\n\r\n", false);
	assert_int_equal(write(g.socket, "GET /own HTTP/1.1\r\n\r\n", 21), 21);
	own = g.socket;
	get(&g, &s);                    /* and no request uses it, or waits behind it */
	assert_int_equal(g.rc, 0);
	assert_int_equal(g.socket, -1);
	str_fini(&g.body);
	assert_int_equal(s.connections, 2);
	assert_int_equal(s.requests, 2);
	fetcher_own(fetcher, listen_address(s.listener));
	run(&g, &req);
	assert_int_equal(g.rc, ERR_DENIED);
	close(own);
	peer_close(&s);
	req.deadline_us = clock_mono_us() + 5000000;
	run(&g, &req);
	assert_true(g.rc < 0);
}

static void wrong_requests_do_not_start(void **state)
{
	static const char *const bad_names[] = { "", "a b", "a:", "Host", "connection", "Content-Length", "transfer-encoding", "TE",
						 "Expect", "a\r\nb", "\xc3\xa9" };
	static const char *const bad_methods[] = { "", "get", "G T", "GET\r\n", "CONNECT", "TRACE", "AAAAAAAAAAAAAAAAA" };
	struct peer s;
	struct got g;
	struct err err;

	peer_open(&s, loop, "127.0.0.1:0");
	for (size_t i = 0; i < NELEMS(bad_names); i++) {
		const struct fetch_header h = { bad_names[i], "v" };
		struct fetch_req req = req_of(&s, "GET");
		req.headers = &h;
		req.nheaders = 1;
		if (fetch_start(fetcher, &req, &sink, &g, &g.f, &err) != ERR_INVALID)
			fail_msg("accepted: %s", bad_names[i]);
	}
	for (size_t i = 0; i < NELEMS(bad_methods); i++) {
		struct fetch_req req = req_of(&s, bad_methods[i]);
		if (fetch_start(fetcher, &req, &sink, &g, &g.f, &err) != ERR_INVALID)
			fail_msg("accepted: %s", bad_methods[i]);
	}
	const struct fetch_header h = { "X", "a\r\nY: b" };
	struct fetch_req req = req_of(&s, "GET");
	req.headers = &h;
	req.nheaders = 1;
	assert_int_equal(fetch_start(fetcher, &req, &sink, &g, &g.f, &err), ERR_INVALID);
	struct fetch_header many[FETCH_HEADERS_MAX + 1];
	for (size_t i = 0; i < NELEMS(many); i++)
		many[i] = (struct fetch_header){ "X-Many", "v" };
	peer_says(&s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true);
	req.headers = many;
	req.nheaders = FETCH_HEADERS_MAX + 1;
	assert_int_equal(fetch_start(fetcher, &req, &sink, &g, &g.f, &err), ERR_LIMIT);
	req.nheaders = FETCH_HEADERS_MAX;
	run(&g, &req);
	assert_int_equal(g.rc, 0);
	peer_close(&s);
}

static void end_of_the_fetcher_ends_what_runs(void **state)
{
	struct peer s;
	struct got g;

	peer_open(&s, loop, "127.0.0.1:0");
	const struct fetch_req req = req_of(&s, "GET");
	start(&g, &req);
	fetcher_free(&fetcher);
	assert_int_equal(g.ends, 1);
	assert_int_equal(g.rc, ERR_CANCELLED);
	fetcher = fetcher_new(loop);
	peer_close(&s);
}

SINGLE_THREAD_SUITE(fetch)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answer_arrives_whole_with_its_headers),
		cmocka_unit_test(request_says_what_was_asked_and_nothing_else),
		cmocka_unit_test(stream_delivers_each_piece_as_it_comes),
		cmocka_unit_test(body_at_its_limit_passes_and_one_byte_more_does_not),
		cmocka_unit_test(head_at_its_limit_passes_and_one_byte_more_does_not),
		cmocka_unit_test(endless_interim_answers_end_at_the_limit_of_the_head),
		cmocka_unit_test(requests_at_their_limits_start_and_one_more_does_not),
		cmocka_unit_test(pools_beyond_their_limit_replace_idle_ones),
		cmocka_unit_test(pools_at_work_do_not_give_way),
		cmocka_unit_test(pool_without_work_closes_its_connections),
		cmocka_unit_test(broken_answers_end_as_errors),
		cmocka_unit_test(silence_ends_at_the_deadline),
		cmocka_unit_test(deadline_that_is_over_sends_nothing),
		cmocka_unit_test(reader_ends_the_answer_with_its_own_code),
		cmocka_unit_test(post_is_never_sent_twice),
		cmocka_unit_test(connection_that_ended_between_requests_gives_way_to_a_new_one),
		cmocka_unit_test(descriptor_of_a_connection_that_was_cut_serves_others),
		cmocka_unit_test(redirects_are_answers_like_others),
		cmocka_unit_test(environment_has_no_say_about_proxies),
		cmocka_unit_test(name_that_changes_its_address_reaches_allowed_ones_only),
		cmocka_unit_test(name_with_one_forbidden_address_is_not_tried_further),
		cmocka_unit_test(kept_connections_serve_one_policy_and_one_scope),
		cmocka_unit_test(own_listener_is_not_reached),
		cmocka_unit_test(a_connection_alone_is_handed_over),
		cmocka_unit_test(wrong_requests_do_not_start),
		cmocka_unit_test(end_of_the_fetcher_ends_what_runs),
	};
	loop = ev_loop_new();
	fetcher = fetcher_new(loop);
	int rc = cmocka_run_group_tests_name("outbound requests", tests, NULL, NULL);
	fetcher_free(&fetcher);
	ev_loop_free(&loop);
	return rc;
}
