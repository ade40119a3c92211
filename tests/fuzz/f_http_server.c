/* Fuzz target: a whole connection.  The first byte says in what pieces the rest arrives, the second one what the
 * handler does with its requests.  Each request that was taken ends once, the connection ends once, and nothing but
 * well-formed answers leaves. */

#include "config.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "ev/ev.h"
#include "fuzz.h"
#include "net/http_server.h"

enum habit { REPLY_AT_HEAD = 1, HOLD = 2, STREAM = 4, CLOSE = 8, DRAIN = 16, SMALL = 32 };

struct world {
	struct http_conn *conn;
	unsigned habits;
	unsigned taken, ended, closed;
	struct http_request *held[HTTP_PIPELINE_MAX];
	unsigned nheld;
};

static void answer(struct world *w, struct http_request *r)
{
	w->ended++;
	if (!(w->habits & STREAM)) {
		http_reply(r, 200, "X: y\r\n", "body", 4);
		return;
	}
	http_stream_begin(r, 200, NULL);
	http_stream_write(r, "data", 4);
	http_stream_end(r);
}

static int on_head(void *arg, struct http_request *r, const struct http_head *h, size_t *body_max, void **ret_user)
{
	struct world *w = arg;

	if (w->habits & SMALL)
		*body_max = 8;
	if ((w->habits & REPLY_AT_HEAD) && h->nheaders % 2) {
		http_reply(r, 403, NULL, NULL, 0);
		return 1;
	}
	w->taken++;
	*ret_user = w;
	return 0;
}

static void on_request(void *arg, struct http_request *r, void *user, const char *body, size_t len)
{
	struct world *w = arg;

	FUZZ_CHECK(user == w && len <= HTTP_BODY_MAX);
	if (w->habits & CLOSE)
		http_conn_close(w->conn);
	if (w->habits & DRAIN)
		http_conn_drain(w->conn);
	FUZZ_CHECK(w->nheld < HTTP_PIPELINE_MAX);
	if ((w->habits & HOLD) && w->nheld < HTTP_PIPELINE_MAX - 1)
		w->held[w->nheld++] = r;
	else
		answer(w, r);
}

static void on_gone(void *arg, struct http_request *r, void *user)
{
	struct world *w = arg;

	w->ended++;
	for (unsigned i = 0; i < w->nheld; i++) {
		if (w->held[i] == r)
			w->held[i] = NULL;
	}
}

static void on_closed(void *arg, struct http_conn *c)
{
	struct world *w = arg;

	FUZZ_CHECK(c == w->conn && w->closed++ == 0 && w->taken == w->ended);
	w->conn = NULL;
}

static void set_true(void *arg) { *(bool *)arg = true; }

static void run_turns(struct ev_loop *loop)
{
	for (int i = 0; i < 3; i++) {
		bool turned = false;
		ev_post(loop, set_true, &turned);
		ev_loop_run_until(loop, &turned, 1000);
	}
}

static void answer_held(struct world *w)
{
	unsigned n = w->nheld;

	w->nheld = 0;
	for (unsigned i = n; i-- > 0;) {        /* the last one first: the order is not the handler's business */
		if (w->held[i])
			answer(w, w->held[i]);
	}
}

FUZZ_TARGET(http_server)
{
	static const struct http_ops ops = { on_head, on_request, on_gone, on_closed, NULL };
	int fds[2];

	if (size < 2 || size > 20000)
		return 0;
	struct world w = { .habits = data[1] };
	struct ev_loop *loop = ev_loop_new();
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	clock_fake(1784109600000000, 1000000);
	w.conn = http_conn_new(loop, fds[0], NULL, &ops, &w);
	for (size_t at = 2, step = (size_t)(data[0] % 16 + 1) * 256; at < size && w.conn; at += step) {
		size_t n = size - at < step ? size - at : step;
		if (send(fds[1], data + at, n, MSG_NOSIGNAL) != (ssize_t)n)
			break;
		run_turns(loop);
		answer_held(&w);
	}
	close(fds[1]);
	run_turns(loop);
	clock_step(100 * 1000000);      /* no timer outlives this */
	run_turns(loop);
	FUZZ_CHECK(w.closed == 1);
	ev_loop_free(&loop);
	clock_real();
	return 0;
}
