/* One server connection over a socket pair: order, keep-alive, limits, timers, the peer that leaves. */
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
#include "base/text.h"
#include "ev/ev.h"
#include "net/gate.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "suite.h"

#define PATIENCE_MS 60000
#define HELD_MAX 32

/* What the handler does follows the path: /now replies at once, /hold waits for the test, /no is refused at its head,
 * /small takes bodies of 10 bytes, /sse streams two events, /close closes the connection, /bye does at its head, /wait is
 * held at its head. */
struct world {
	struct ev_loop *loop;
	struct http_conn *conn;
	int far;
	struct http_request *held[HELD_MAX];
	unsigned nheld, gone, closed, broken;
	struct http_request *waits;     /* at its head */
	char *waits_path;               /* its user: whoever refuses it frees it */
	struct str log;                 /* one line for each call of the handler */
	struct str got;                 /* what the peer has received */
};

static int on_head(void *arg, struct http_request *r, const struct http_head *h, size_t *body_max, void **ret_user)
{
	struct world *w = arg;
	char *path = mem_strndup(h->path.p, h->path.len);
	str_printf(&w->log, "head %s\n", path);
	*ret_user = path;
	if (strcmp(path, "/small") == 0)
		*body_max = 10;
	if (strcmp(path, "/bye") == 0)
		http_conn_close(w->conn);
	if (strcmp(path, "/no") == 0) {
		http_reply(r, 401, "WWW-Authenticate: Bearer\r\n", "no", 2);
		free(path);
		return 1;
	}
	if (strcmp(path, "/wait") != 0)
		return 0;
	w->waits = r;
	w->waits_path = path;
	return 2;
}

static void on_request(void *arg, struct http_request *r, void *user, const char *body, size_t len)
{
	struct world *w = arg;
	str_printf(&w->log, "request %s %zu %.*s\n", (char *)user, len, (int)(len < 20 ? len : 20), len ? body : "");
	if (strcmp(user, "/hold") == 0) {
		assert_true(w->nheld < HELD_MAX);
		w->held[w->nheld++] = r;
	} else if (strcmp(user, "/sse") == 0) {
		http_stream_begin(r, 200, "Content-Type: text/event-stream\r\n");
		http_stream_write(r, "data: 1\n\n", 9);
		http_stream_write(r, "", 0);
		http_stream_write(r, "data: 2\n\n", 9);
		http_stream_end(r);
	} else if (strcmp(user, "/close") == 0) {
		http_conn_close(w->conn);
		return;         /* gone() follows */
	} else {
		http_reply(r, 200, "Content-Type: text/plain\r\n", user, strlen(user));
	}
	free(user);
}

static void on_gone(void *arg, struct http_request *r, void *user)
{
	struct world *w = arg;
	w->gone++;
	for (unsigned i = 0; i < w->nheld; i++) {
		if (w->held[i] == r) {
			w->held[i] = NULL;
			return;         /* its path was freed when it was held */
		}
	}
	free(user);
}

static void on_closed(void *arg, struct http_conn *c)
{
	struct world *w = arg;
	assert_ptr_equal(c, w->conn);
	w->closed++;
	w->conn = NULL;
}

static void on_broken(void *arg)
{
	struct world *w = arg;
	w->broken++;
}

static const struct http_ops ops = { on_head, on_request, on_gone, on_closed, on_broken };

static void set_true(void *arg) { bool *flag = arg; *flag = true; }

static void run_turns(struct world *w)
{
	for (int i = 0; i < 6; i++) {
		bool turned = false;
		ev_post(w->loop, set_true, &turned);
		assert_true(ev_loop_run_until(w->loop, &turned, PATIENCE_MS));
	}
}

static int setup(void **state)
{
	struct world *w = mem_zalloc(sizeof(*w));
	int fds[2];
	w->loop = ev_loop_new();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	w->far = fds[1];
	clock_fake(1784109600000000, 1000000);
	w->conn = http_conn_new(w->loop, fds[0], NULL, &ops, w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	if (w->conn)
		http_conn_close(w->conn);
	run_turns(w);
	assert_int_equal(w->closed, 1);
	clock_real();
	ev_loop_free(&w->loop);
	if (w->far >= 0)
		close(w->far);
	str_fini(&w->log);
	str_fini(&w->got);
	free(w);
	return 0;
}

static void send_far(struct world *w, const char *z)
{
	assert_int_equal(send(w->far, z, strlen(z), MSG_NOSIGNAL), (ssize_t)strlen(z));
	run_turns(w);
}

/* What came since the last look; *ret_end (may be NULL): and then the end. */
static const char *receive(struct world *w, bool *ret_end)
{
	char buf[65536];
	ssize_t n;
	run_turns(w);
	str_reset(&w->got);
	while ((n = read(w->far, buf, sizeof(buf))) > 0) {
		str_put(&w->got, buf, (size_t)n);
		run_turns(w);
	}
	if (ret_end)
		*ret_end = n == 0;
	return str_text(&w->got);
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;
	for (; (text = strstr(text, what)) != NULL; text += strlen(what))
		n++;
	return n;
}

static void assert_refused(struct world *w, int status)
{
	char line[32];
	bool end;
	snprintf(line, sizeof(line), "HTTP/1.1 %d ", status);
	const char *got = receive(w, &end);
	if (strncmp(got, line, strlen(line)) != 0)
		fail_msg("not %d but: %s", status, got);
	assert_non_null(strstr(got, "\r\nConnection: close\r\n"));
	assert_true(end);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST(path, len) "POST " path " HTTP/1.1\r\nHost: x\r\nContent-Length: " len "\r\n\r\n"

static void answer_is_exactly_this(void **state)
{
	struct world *w = *state;
	send_far(w, "GET /now HTTP/1.1\r\nHost: x\r\nX-Request-Id: a.B_9-\r\n\r\n");
	assert_string_equal(receive(w, NULL), "HTTP/1.1 200 OK\r\nDate: Wed, 15 Jul 2026 10:00:00 GMT\r\n"
			    "X-Request-Id: a.B_9-\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\n/now");
}

#define ID64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"

/* SEC S-109: only a token comes back, anything else gets a name of ours. */
static void each_request_has_a_name(void **state)
{
	static const struct { const char *lines; bool taken; } rows[] = {
		{ "X-Request-Id: x\r\n", true }, { "x-request-id:  " ID64 "\r\n", true },
		{ "X-Request-Id: " ID64 "0\r\n", false }, { "X-Request-Id:\r\n", false }, { "X-Request-Id: a b\r\n", false },
		{ "X-Request-Id: a\xc3\xa4\r\n", false }, { "X-Request-Id: a;b\r\n", false }, { "X-Request-Id: \"a\"\r\n", false },
		{ "X-Request-Id: x\r\nX-Request-Id: x\r\n", false }, { "", false },
	};
	struct world *w = *state;
	char last[200] = "";
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char ask[300], name[200];
		snprintf(ask, sizeof(ask), "GET /no HTTP/1.1\r\nHost: x\r\n%s\r\n", rows[i].lines);
		send_far(w, ask);
		const char *got = strstr(receive(w, NULL), "X-Request-Id: ");
		assert_non_null(got);
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(got, "\r"), got);
		assert_int_equal(strstr(rows[i].lines, name + 14) != NULL && strlen(rows[i].lines) > 16, rows[i].taken);
		assert_int_equal(strspn(name + 14, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"), strlen(name + 14));
		assert_string_not_equal(name, last);
		memcpy(last, name, sizeof(last));
	}
	send_far(w, "POST /small HTTP/1.1\r\nHost: x\r\nX-Request-Id: big\r\nContent-Length: 11\r\n\r\n");
	assert_non_null(strstr(receive(w, NULL), "413 Content Too Large\r\nDate: Wed, 15 Jul 2026 10:00:00 GMT\r\nX-Request-Id: big\r\n"));
}

static void connection_is_kept_and_closed_as_asked(void **state)
{
	struct world *w = *state;
	bool end;
	send_far(w, GET("/a"));
	receive(w, &end);
	assert_false(end);
	send_far(w, "GET /b HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n");
	assert_non_null(strstr(receive(w, &end), "\r\nConnection: keep-alive\r\n"));
	assert_false(end);
	send_far(w, "GET /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" GET("/d"));
	assert_non_null(strstr(receive(w, &end), "\r\nConnection: close\r\n"));
	assert_true(end);
	assert_null(strstr(w->log.p, "/d"));
}

static void nothing_is_read_behind_a_request_to_close(void **state)
{
	struct world *w = *state;
	send_far(w, "GET /hold HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" GET("/never"));
	send_far(w, GET("/never"));
	assert_null(strstr(w->log.p, "/never"));
	http_reply(w->held[0], 200, NULL, "x", 1);
	w->held[0] = NULL;
	bool end;
	receive(w, &end);
	assert_true(end);
}

/* SEC S-B14: what is announced as a body is never read as a request. */
static void unread_body_is_no_request(void **state)
{
	struct world *w = *state;
	bool end;
	send_far(w, GET("/hold") POST("/no", "100"));
	send_far(w, GET("/never") GET("/never") GET("/never") GET("/never"));
	http_reply(w->held[0], 200, NULL, "x", 1);
	w->held[0] = NULL;
	assert_int_equal(count(receive(w, &end), "HTTP/1.1 "), 2);
	assert_true(end);
	assert_null(strstr(w->log.p, "/never"));
}

static void held_request_goes_on_with_its_body(void **state)
{
	struct world *w = *state;
	const char *const texts[] = { POST("/wait", "5") "hello", GET("/wait"),
		"POST /wait HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
		"POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello" };
	for (size_t t = 0; t < NELEMS(texts); t++) {
		str_reset(&w->log);
		send_far(w, texts[t]);
		send_far(w, GET("/next"));
		/* Neither its body nor what comes behind it has been looked at. */
		assert_string_equal(w->log.p, "head /wait\n");
		assert_string_equal(receive(w, NULL), "");
		http_go_on(w->waits);
		run_turns(w);
		assert_string_equal(w->log.p, t == 1 ? "head /wait\nrequest /wait 0 \nhead /next\nrequest /next 0 \n" :
				    "head /wait\nrequest /wait 5 hello\nhead /next\nrequest /next 0 \n");
		const char *got = receive(w, NULL);
		assert_int_equal(count(got, "200 OK"), 2);
		assert_int_equal(count(got, "100 Continue"), t == 3);
	}
}

static void held_request_may_be_refused(void **state)
{
	struct world *w = *state;
	bool end;
	send_far(w, GET("/wait") GET("/next"));
	http_reply(w->waits, 401, NULL, "no", 2);
	free(w->waits_path);
	assert_int_equal(count(receive(w, &end), "HTTP/1.1 "), 2);
	assert_false(end);
	assert_non_null(strstr(w->log.p, "/next"));
	/* Its body is never read as a request, also when answers before it are still due. */
	send_far(w, GET("/hold") POST("/wait", "26") GET("/never"));
	http_reply(w->waits, 401, NULL, "no", 2);
	free(w->waits_path);
	run_turns(w);
	http_reply(w->held[0], 200, NULL, "x", 1);
	w->held[0] = NULL;
	assert_int_equal(count(receive(w, &end), "HTTP/1.1 "), 2);
	assert_true(end);
	assert_null(strstr(w->log.p, "/never"));
}

static void held_request_may_be_closed(void **state)
{
	struct world *w = *state;
	send_far(w, POST("/wait", "5") "hello");
	http_conn_close(w->conn);
	http_go_on(w->waits);           /* too late, and no harm */
	run_turns(w);
	assert_int_equal(w->gone, 1);
	assert_string_equal(w->log.p, "head /wait\n");
}

static void held_body_has_its_limit(void **state)
{
	struct world *w = *state;
	send_far(w, POST("/wait", "99999999"));
	run_turns(w);
	assert_int_equal(w->gone, 1);
	assert_refused(w, 413);
}

static void old_version_closes(void **state)
{
	struct world *w = *state;
	bool end;
	/* Whatever it asks for: without chunks only the end of the connection tells the end. */
	send_far(w, "GET /sse HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n");
	const char *got = receive(w, &end);
	assert_true(end);
	assert_null(strstr(got, "chunked"));
	assert_non_null(strstr(got, "\r\n\r\ndata: 1\n\ndata: 2\n\n"));
}

static void stream_is_chunked_and_ends(void **state)
{
	struct world *w = *state;
	bool end;
	send_far(w, GET("/sse"));
	const char *got = receive(w, &end);
	assert_non_null(strstr(got, "\r\nTransfer-Encoding: chunked\r\n"));
	assert_null(strstr(got, "Content-Length"));
	assert_non_null(strstr(got, "\r\n\r\n9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"));
	assert_false(end);
}

static void head_request_gets_no_body(void **state)
{
	struct world *w = *state;
	send_far(w, "HEAD /now HTTP/1.1\r\nHost: x\r\n\r\n");
	const char *got = receive(w, NULL);
	assert_non_null(strstr(got, "Content-Length: 4\r\n\r\n"));
	assert_null(strstr(got, "/now"));
}

static void body_arrives_whole_whatever_the_split(void **state)
{
	struct world *w = *state;
	const char *const texts[] = { POST("/now", "5") "hello",
		"POST /now HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;a\r\nlo\r\n0\r\nX: 1\r\n\r\n" };
	for (size_t t = 0; t < NELEMS(texts); t++) {
		for (const char *p = texts[t]; *p; p++) {
			char one[2] = { *p, '\0' };
			assert_int_equal(write(w->far, one, 1), 1);
			if (p[1] == '\0' || p[1] == 'l' || p[1] == '\n')
				run_turns(w);
		}
		assert_string_equal(w->log.p, "head /now\nrequest /now 5 hello\n");
		str_reset(&w->log);
		assert_int_equal(count(receive(w, NULL), "200 OK"), 1);
	}
}

/* --- large bodies beside others */

#define LARGE_PEERS (2 * EV_BEHIND_MAX)

static int on_large_head(void *arg, struct http_request *r, const struct http_head *h, size_t *body_max, void **ret_user)
{
	return 0;
}

static void on_large_request(void *arg, struct http_request *r, void *user, const char *body, size_t len)
{
}

static void on_large_gone(void *arg, struct http_request *r, void *user)
{
}

static void on_large_closed(void *arg, struct http_conn *c)
{
}

/* How many turns left some of these bodies for the next one.  Chunked: when so many bytes have come. */
static uint64_t behind(struct world *w, bool chunked, unsigned len)
{
	static const struct http_ops large_ops = { on_large_head, on_large_request, on_large_gone, on_large_closed, NULL };
	const uint64_t before = metric_get(METRIC_ev_behind_waited);
	struct http_conn *conns[LARGE_PEERS];
	struct str text = STR_INIT;
	int far[LARGE_PEERS], fds[2];

	str_puts(&text, "POST /large HTTP/1.1\r\nHost: x\r\n");
	str_printf(&text, chunked ? "Transfer-Encoding: chunked\r\n\r\n%x\r\n" : "Content-Length: %u\r\n\r\n",
		   chunked ? 2 * GATE_SMALL_MAX : len);
	for (unsigned i = 0; chunked && i < len; i++)
		str_putc(&text, 'x');
	for (size_t i = 0; i < LARGE_PEERS; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
		conns[i] = http_conn_new(w->loop, fds[0], NULL, &large_ops, w);
		far[i] = fds[1];
		assert_int_equal(write(far[i], text.p, text.len), (ssize_t)text.len);
		run_turns(w);
	}
	assert_int_equal(metric_get(METRIC_ev_behind_waited), before);
	for (size_t i = 0; i < LARGE_PEERS; i++)
		assert_int_equal(write(far[i], "x", 1), 1);
	run_turns(w);
	for (size_t i = 0; i < LARGE_PEERS; i++) {
		http_conn_close(conns[i]);
		close(far[i]);
	}
	run_turns(w);
	str_fini(&text);
	return metric_get(METRIC_ev_behind_waited) - before;
}

/* HARDENING F-5: one byte more than a small message, and the rest comes behind what others send. */
static void test_f5_large_bodies_are_read_behind_all_else(void **state)
{
	for (int chunked = 0; chunked < 2; chunked++) {
		assert_int_equal(behind(*state, chunked, GATE_SMALL_MAX), 0);
		assert_true(behind(*state, chunked, GATE_SMALL_MAX + 1) > 0);
	}
}

static void answers_keep_the_order_of_requests(void **state)
{
	struct world *w = *state;
	send_far(w, GET("/hold") GET("/first") GET("/sse") GET("/hold"));
	assert_string_equal(receive(w, NULL), "");
	http_reply(w->held[1], 200, NULL, "last", 4);
	w->held[1] = NULL;
	assert_string_equal(receive(w, NULL), "");
	http_reply(w->held[0], 200, NULL, "zero", 4);
	w->held[0] = NULL;
	const char *got = receive(w, NULL);
	const char *a = strstr(got, "zero"), *b = strstr(got, "/first"), *c = strstr(got, "data: 2"),
		   *d = strstr(got, "last");
	assert_true(a && b && c && d && a < b && b < c && c < d);
	assert_int_equal(count(got, "HTTP/1.1 200"), 4);
}

static void seventeenth_request_waits(void **state)
{
	struct world *w = *state;
	struct str many = STR_INIT;
	for (int i = 0; i < HTTP_PIPELINE_MAX + 3; i++)
		str_puts(&many, GET("/hold"));
	send_far(w, many.p);
	assert_int_equal(w->nheld, HTTP_PIPELINE_MAX);
	http_reply(w->held[0], 200, NULL, "x", 1);
	run_turns(w);
	assert_int_equal(w->nheld, HTTP_PIPELINE_MAX + 1);
	for (unsigned i = 1; i < HTTP_PIPELINE_MAX + 3; i++) {
		http_reply(w->held[i], 200, NULL, "x", 1);
		w->held[i] = NULL;
		run_turns(w);
	}
	w->held[0] = NULL;
	assert_int_equal(count(receive(w, NULL), "HTTP/1.1 200"), HTTP_PIPELINE_MAX + 3);
	str_fini(&many);
}

static void bad_request_is_answered_behind_the_good_ones(void **state)
{
	struct world *w = *state;
	bool end;
	send_far(w, GET("/hold") "GET / HTTP/1.1\nHost: x\n\n" GET("/never"));
	assert_string_equal(receive(w, &end), "");
	assert_false(end);
	http_reply(w->held[0], 200, NULL, "good", 4);
	w->held[0] = NULL;
	const char *got = receive(w, &end);
	assert_true(end);
	assert_non_null(strstr(got, "good"));
	assert_non_null(strstr(strstr(got, "good"), "HTTP/1.1 400 Bad Request\r\n"));
	assert_non_null(strstr(got, "does not end in CR LF\n"));
	assert_null(strstr(w->log.p, "/never"));
}

static void refusals_close(void **state)
{
	struct world *w = *state;
	send_far(w, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
	assert_refused(w, 400);
	assert_string_equal(str_text(&w->log), "");
	assert_int_equal(w->broken, 1);
}

/* SEC S-316: what is too large or too slow has broken no parser. */
static void only_what_is_no_http_counts_as_broken(void **state)
{
	struct world *w = *state;
	send_far(w, POST("/small", "11") "12345678901");
	assert_refused(w, 413);
	assert_int_equal(w->broken, 0);
}

static void head_refused_by_the_handler_never_reads_the_body(void **state)
{
	struct world *w = *state;
	send_far(w, "POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
	assert_refused(w, 401);
	assert_string_equal(w->log.p, "head /no\n");
	assert_int_equal(w->gone, 0);
}

static void refused_head_with_its_body_at_hand_keeps_the_connection(void **state)
{
	struct world *w = *state;
	bool end;
	send_far(w, POST("/no", "4") "body" GET("/no") GET("/now"));
	const char *got = receive(w, &end);
	assert_int_equal(count(got, "HTTP/1.1 401"), 2);
	assert_int_equal(count(got, "HTTP/1.1 200"), 1);
	assert_false(end);
}

/* SEC S-115 */
static void continue_is_sent_once_the_head_is_accepted(void **state)
{
	struct world *w = *state;
	send_far(w, "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
	assert_string_equal(receive(w, NULL), "HTTP/1.1 100 Continue\r\n\r\n");
	send_far(w, "ok");
	assert_non_null(strstr(receive(w, NULL), "HTTP/1.1 200 OK\r\n"));
}

static void body_over_the_handlers_limit_is_413(void **state)
{
	struct world *w = *state;
	send_far(w, POST("/small", "10") "0123456789");
	assert_non_null(strstr(receive(w, NULL), "HTTP/1.1 200"));
	send_far(w, POST("/small", "11") "0123456789a");
	assert_refused(w, 413);
	assert_int_equal(w->gone, 1);
}

static void chunks_over_the_limit_are_413_and_gone(void **state)
{
	struct world *w = *state;
	send_far(w, "POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n");
	assert_int_equal(w->gone, 0);
	send_far(w, "1\r\n");
	assert_refused(w, 413);
	assert_int_equal(w->gone, 1);
}

static void length_over_the_message_limit_is_refused_unread(void **state)
{
	struct world *w = *state;
	char *text = mem_printf("POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n", HTTP_BODY_MAX + 1);
	send_far(w, text);
	assert_refused(w, 413);
	free(text);
}

static void largest_body_is_taken(void **state)
{
	struct world *w = *state;
	char *head = mem_printf("POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n", HTTP_BODY_MAX);
	char *body = mem_zalloc(HTTP_BODY_MAX);
	send_far(w, head);
	for (size_t at = 0; at < HTTP_BODY_MAX;) {
		ssize_t n = write(w->far, body + at, HTTP_BODY_MAX - at);
		at += n > 0 ? (size_t)n : 0;
		run_turns(w);
	}
	assert_non_null(strstr(w->log.p, "request /now 10485760"));
	free(body);
	free(head);
}

/* SEC S-116: the whole head counts, not the pause between two bytes. */
static void dripping_head_is_cut_off(void **state)
{
	struct world *w = *state;
	for (int i = 0; i < 4; i++) {
		send_far(w, i ? "a" : "GET /");
		clock_step(HTTP_HEAD_MS / 4 * 1000ull);
	}
	run_turns(w);
	assert_refused(w, 408);
}

static void head_may_take_its_time_but_no_more(void **state)
{
	struct world *w = *state;
	send_far(w, "GET /now HTTP/1.1\r\n");
	clock_step(HTTP_HEAD_MS * 1000ull - 1);
	send_far(w, "Host: x\r\n\r\n");
	assert_non_null(strstr(receive(w, NULL), "200 OK"));
}

static void dripping_body_is_cut_off(void **state)
{
	struct world *w = *state;
	send_far(w, POST("/now", "100"));
	for (int i = 0; i < 3; i++) {
		clock_step(HTTP_BODY_MS / 3 * 1000ull);
		send_far(w, "x");
	}
	clock_step(1000);
	assert_refused(w, 408);
	assert_int_equal(w->gone, 1);
}

static void body_that_keeps_the_pace_is_not_cut_off(void **state)
{
	struct world *w = *state;
	char chunk[65536];
	memset(chunk, 'x', sizeof(chunk));
	send_far(w, POST("/now", "1310720"));           /* 20 times 64 KiB: a second each is granted */
	for (int i = 0; i < 20; i++) {
		clock_step(1000000);
		run_turns(w);
		for (size_t at = 0; at < sizeof(chunk);) {
			ssize_t n = write(w->far, chunk + at, sizeof(chunk) - at);
			at += n > 0 ? (size_t)n : 0;
			run_turns(w);
		}
	}
	assert_non_null(strstr(receive(w, NULL), "200 OK"));
}

static void idle_connection_is_closed_silently(void **state)
{
	struct world *w = *state;
	bool end;
	clock_step(HTTP_IDLE_MS * 1000ull - 1);
	send_far(w, GET("/now"));
	receive(w, &end);
	clock_step(HTTP_IDLE_MS * 1000ull - 1);
	receive(w, &end);
	assert_false(end);
	clock_step(1);
	assert_string_equal(receive(w, &end), "");
	assert_true(end);
}

static void work_has_no_time_limit_here(void **state)
{
	struct world *w = *state;
	bool end;
	send_far(w, GET("/hold"));
	clock_step(10 * HTTP_IDLE_MS * 1000ull);
	receive(w, &end);
	assert_false(end);
	http_reply(w->held[0], 200, NULL, "late", 4);
	w->held[0] = NULL;
	assert_non_null(strstr(receive(w, &end), "late"));
	assert_false(end);
}

/* MCP B-24 */
static void peer_that_leaves_is_noticed_while_work_runs(void **state)
{
	struct world *w = *state;
	send_far(w, GET("/hold") GET("/hold"));
	assert_int_equal(w->gone, 0);
	close(w->far);
	w->far = -1;
	run_turns(w);
	assert_int_equal(w->gone, 2);
	assert_int_equal(w->closed, 1);
}

static void half_closed_peer_counts_as_gone(void **state)
{
	struct world *w = *state;
	send_far(w, GET("/hold"));
	shutdown(w->far, SHUT_WR);
	run_turns(w);
	assert_int_equal(w->gone, 1);
	assert_int_equal(w->closed, 1);
}

static void answered_peer_may_half_close(void **state)
{
	struct world *w = *state;
	assert_int_equal(write(w->far, GET("/now"), strlen(GET("/now"))), (ssize_t)strlen(GET("/now")));
	shutdown(w->far, SHUT_WR);
	bool end;
	assert_non_null(strstr(receive(w, &end), "/now"));
	assert_true(end);
	assert_int_equal(w->gone, 0);
}

static void peer_that_leaves_inside_a_body_is_gone(void **state)
{
	struct world *w = *state;
	send_far(w, POST("/now", "5") "he");
	shutdown(w->far, SHUT_WR);
	run_turns(w);
	assert_int_equal(w->gone, 1);
}

static void close_inside_a_call_tells_afterwards(void **state)
{
	struct world *w = *state;
	send_far(w, GET("/close") GET("/never"));
	assert_int_equal(w->gone, 1);
	assert_int_equal(w->closed, 1);
	assert_null(strstr(w->log.p, "/never"));
}

static void close_at_the_head_tells_once(void **state)
{
	struct world *w = *state;
	send_far(w, GET("/bye"));
	assert_int_equal(w->gone, 1);
	assert_int_equal(w->closed, 1);
	assert_string_equal(w->log.p, "head /bye\n");
}

static void drain_closes_behind_the_answers(void **state)
{
	struct world *w = *state;
	bool end;
	send_far(w, GET("/hold") GET("/hold"));
	http_conn_drain(w->conn);
	send_far(w, GET("/never"));
	http_reply(w->held[0], 200, NULL, "a", 1);
	http_reply(w->held[1], 200, NULL, "b", 1);
	w->held[0] = w->held[1] = NULL;
	const char *got = receive(w, &end);
	assert_int_equal(count(got, "HTTP/1.1 200"), 2);
	assert_int_equal(count(got, "Connection: close"), 1);
	assert_true(end);
	assert_null(strstr(w->log.p, "/never"));
}

static void idle_drain_closes_at_once(void **state)
{
	struct world *w = *state;
	bool end;
	http_conn_drain(w->conn);
	receive(w, &end);
	assert_true(end);
}

/* SEC S-842 */
static void drain_hears_out_whoever_is_about_to_ask(void **state)
{
	struct world *w = *state;
	bool end;
	send_far(w, GET("/now"));
	receive(w, &end);
	http_conn_drain_in(w->conn, 500);
	clock_step(499999);
	receive(w, &end);
	assert_false(end);
	send_far(w, GET("/no"));        /* the handler says what it is told */
	assert_non_null(strstr(receive(w, &end), "HTTP/1.1 401 "));
	assert_int_equal(count(w->got.p, "Connection: close"), 1);
	assert_true(end);
}

/* SEC S-807: what has been read is answered, and the peer knows that nothing else will be. */
static void the_last_of_the_requests_that_were_read_ends_the_connection(void **state)
{
	struct world *w = *state;
	bool end;
	send_far(w, GET("/hold") GET("/hold"));
	receive(w, &end);
	assert_int_equal(w->nheld, 2);
	http_no_more(w->held[0]);
	send_far(w, GET("/never"));
	http_reply(w->held[0], 200, NULL, "a", 1);
	assert_int_equal(count(receive(w, &end), "Connection: close"), 0);
	assert_false(end);
	http_reply(w->held[1], 200, NULL, "b", 1);
	w->held[0] = w->held[1] = NULL;
	assert_int_equal(count(receive(w, &end), "Connection: close"), 1);
	assert_true(end);
	assert_null(strstr(w->log.p, "/never"));
}

static void drain_waits_for_answers_but_for_no_slow_head(void **state)
{
	struct world *w = *state;
	bool end;
	send_far(w, GET("/hold") "GET /slow");
	http_conn_drain_in(w->conn, 500);
	clock_step(1000000);
	receive(w, &end);
	assert_false(end);
	http_reply(w->held[0], 200, NULL, "a", 1);
	w->held[0] = NULL;
	assert_int_equal(count(receive(w, &end), "Connection: close"), 1);
	assert_true(end);
}

static void half_a_head_does_not_hold_up_a_drain(void **state)
{
	struct world *w = *state;
	send_far(w, "GET /slow");
	http_conn_drain_in(w->conn, 500);
	clock_step(500000);
	run_turns(w);
	assert_refused(w, 408);
}

static void stream_that_nobody_reads_ends(void **state)
{
	struct world *w = *state;
	char *event = mem_zalloc(65536);
	memset(event, 'e', 65536);
	send_far(w, GET("/hold"));
	http_stream_begin(w->held[0], 200, NULL);
	for (int i = 0; i < 100 && w->gone == 0; i++) {
		http_stream_write(w->held[0], event, 65536);
		run_turns(w);
		if (w->held[0])
			assert_true(http_stream_queued(w->held[0]) <= STREAM_OUT_MAX);
	}
	assert_int_equal(w->gone, 1);
	assert_int_equal(w->closed, 1);
	free(event);
}

static void stream_behind_an_unfinished_answer_is_bounded_too(void **state)
{
	struct world *w = *state;
	char *event = mem_zalloc(65536);
	send_far(w, GET("/hold") GET("/hold"));
	http_stream_begin(w->held[1], 200, NULL);
	for (int i = 0; i < 100 && w->gone == 0; i++) {
		http_stream_write(w->held[1], event, 65536);
		run_turns(w);
	}
	assert_int_equal(w->gone, 2);
	free(event);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* HARDENING F-15, SEC S-810: the request fails, and the next one is served as ever. */
static void test_f15_body_without_memory_fails_its_request(void **state)
{
	struct world *w = *state;
	static char part[60000];
	uint64_t before = metric_get(METRIC_budget_memory_refused);
	bool end;

	memset(part, ' ', sizeof(part) - 1);
	send_far(w, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
	send_far(w, part);
	mem_fail_above(100000);
	send_far(w, part);
	send_far(w, part);
	mem_fail_above(SIZE_MAX);
	assert_string_equal(receive(w, NULL), "");
	clock_step(2 * HTTP_LATE_MS * 1000ull);
	run_turns(w);
	const char *got = receive(w, &end);
	assert_non_null(strstr(got, "HTTP/1.1 503 "));
	assert_non_null(strstr(got, "Retry-After: 1\r\n"));
	assert_non_null(strstr(got, "there is no memory for this body"));
	assert_true(end);
	assert_int_equal(w->gone, 1);
	assert_true(metric_get(METRIC_budget_memory_refused) > before);
}

/* A body that found no room, and so much later. */
static const char *refused_late(struct world *w, uint64_t us, bool drain)
{
	static char part[60000];

	memset(part, ' ', sizeof(part) - 1);
	send_far(w, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
	send_far(w, part);
	mem_fail_above(100000);
	send_far(w, part);
	mem_fail_above(SIZE_MAX);
	clock_step(us);
	if (drain)
		http_conn_drain(w->conn);
	run_turns(w);
	send_far(w, part);      /* nothing of this is read */
	return receive(w, NULL);
}

/* HARDENING F-5: who is told at once is back at once. */
static void test_f5_a_body_without_room_is_refused_late(void **state)
{
	assert_string_equal(refused_late(*state, HTTP_LATE_MS * 1000ull - 1, false), "");
}

static void test_f5_but_before_twice_that(void **state)
{
	assert_non_null(strstr(refused_late(*state, 2 * HTTP_LATE_MS * 1000ull, false), "HTTP/1.1 503 "));
}

static void test_f5_or_when_the_server_ends(void **state)
{
	assert_non_null(strstr(refused_late(*state, 0, true), "HTTP/1.1 503 "));
}

SINGLE_THREAD_SUITE(http_server)
{
	const struct CMUnitTest tests[] = {
		T(answer_is_exactly_this),
		T(each_request_has_a_name),
		T(connection_is_kept_and_closed_as_asked),
		T(nothing_is_read_behind_a_request_to_close),
		T(unread_body_is_no_request),
		T(held_request_goes_on_with_its_body),
		T(held_request_may_be_refused),
		T(held_request_may_be_closed),
		T(held_body_has_its_limit),
		T(old_version_closes),
		T(stream_is_chunked_and_ends),
		T(head_request_gets_no_body),
		T(body_arrives_whole_whatever_the_split),
		T(answers_keep_the_order_of_requests),
		T(test_f5_large_bodies_are_read_behind_all_else),
		T(test_f5_a_body_without_room_is_refused_late),
		T(test_f5_but_before_twice_that),
		T(test_f5_or_when_the_server_ends),
		T(seventeenth_request_waits),
		T(bad_request_is_answered_behind_the_good_ones),
		T(refusals_close),
		T(head_refused_by_the_handler_never_reads_the_body),
		T(refused_head_with_its_body_at_hand_keeps_the_connection),
		T(continue_is_sent_once_the_head_is_accepted),
		T(body_over_the_handlers_limit_is_413),
		T(chunks_over_the_limit_are_413_and_gone),
		T(length_over_the_message_limit_is_refused_unread),
		T(largest_body_is_taken),
		T(dripping_head_is_cut_off),
		T(head_may_take_its_time_but_no_more),
		T(dripping_body_is_cut_off),
		T(body_that_keeps_the_pace_is_not_cut_off),
		T(idle_connection_is_closed_silently),
		T(work_has_no_time_limit_here),
		T(peer_that_leaves_is_noticed_while_work_runs),
		T(half_closed_peer_counts_as_gone),
		T(answered_peer_may_half_close),
		T(peer_that_leaves_inside_a_body_is_gone),
		T(close_inside_a_call_tells_afterwards),
		T(close_at_the_head_tells_once),
		T(drain_closes_behind_the_answers),
		T(idle_drain_closes_at_once),
		T(drain_hears_out_whoever_is_about_to_ask), T(the_last_of_the_requests_that_were_read_ends_the_connection), T(drain_waits_for_answers_but_for_no_slow_head),
		T(half_a_head_does_not_hold_up_a_drain), T(only_what_is_no_http_counts_as_broken),
		T(stream_that_nobody_reads_ends), T(test_f15_body_without_memory_fails_its_request),
		T(stream_behind_an_unfinished_answer_is_bounded_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
