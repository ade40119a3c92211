/* libcurl's multi interface on the loop: sockets, its one timer, what has ended. */
#include "config.h"

#include "fetch_int.h"

#include <stdlib.h>

#include "base/mem.h"
#include "ev/ev.h"

struct fetch_sock {
	struct list node;
	struct fetch_pool *pool;
	curl_socket_t fd;
	struct ev_io *io;
};

/* Outside of all callbacks of libcurl: the ends may start and cancel what they like. */
static void collect(struct fetch_pool *p)
{
	int left;
	CURLMsg *msg;

	while ((msg = curl_multi_info_read(p->multi, &left)) != NULL) {
		struct fetch *f = NULL;
		CURLcode code = msg->data.result;

		(void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &f);
		fetch_ended(f, code);
	}
}

static void act(struct fetch_pool *p, curl_socket_t fd, int what)
{
	int running;

	p->acting = true;       /* what the ends start must not close this pool */
	(void)curl_multi_socket_action(p->multi, fd, what, &running);   /* its trouble is each request's */
	collect(p);
	p->acting = false;
	fetch_pool_rest(p);
}

static void on_io(void *arg, bool readable, bool writable)
{
	struct fetch_sock *s = arg;

	act(s->pool, s->fd, (readable ? CURL_CSELECT_IN : 0) | (writable ? CURL_CSELECT_OUT : 0));
}

static void sock_free(struct fetch_sock *s)
{
	list_unlink(&s->node);
	ev_io_free(&s->io);
	free(s);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *sock)
{
	struct fetch_pool *p = arg;
	struct fetch_sock *s = sock;

	if (what == CURL_POLL_REMOVE) {
		if (s)
			sock_free(s);
		(void)curl_multi_assign(p->multi, fd, NULL);
		return 0;
	}
	if (!s) {
		s = mem_zalloc(sizeof(*s));
		s->pool = p;
		s->fd = fd;
		s->io = ev_io_new(p->owner->loop, fd, on_io, s);
		list_push_back(&p->socks, &s->node);
		(void)curl_multi_assign(p->multi, fd, s);
	}
	ev_io_want(s->io, what & CURL_POLL_IN, what & CURL_POLL_OUT);
	return 0;
}

static void on_due(void *arg)
{
	act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer(CURLM *multi, long timeout_ms, void *arg)
{
	struct fetch_pool *p = arg;

	if (timeout_ms < 0)
		ev_timer_stop(p->timer);
	else
		ev_timer_start(p->timer, (uint64_t)timeout_ms * 1000);
	return 0;
}

int fetch_pool_open(struct fetch_pool *p, struct err *err)
{
	p->multi = curl_multi_init();
	if (!p->multi)
		return err_set(err, ERR_INTERNAL, "", "libcurl has no memory");
	p->timer = ev_timer_new(p->owner->loop, on_due, p);
	(void)curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	(void)curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
	(void)curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	(void)curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
	(void)curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, (long)FETCH_IDLE_MAX);
	(void)curl_multi_setopt(p->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	return 0;
}

void fetch_pool_close(struct fetch_pool *p)
{
	while (p->nspare > 0)
		curl_easy_cleanup(p->spare[--p->nspare]);
	if (p->multi)
		(void)curl_multi_cleanup(p->multi);
	while (!list_empty(&p->socks))
		sock_free(CONTAINER_OF(p->socks.next, struct fetch_sock, node));
	ev_timer_free(&p->timer);
	ev_timer_free(&p->idle);
}

int fetch_pool_add(struct fetch_pool *p, struct fetch *f)
{
	if (curl_multi_add_handle(p->multi, f->easy) != CURLM_OK)
		return ERR_INTERNAL;
	act(p, CURL_SOCKET_TIMEOUT, 0);         /* now, not a turn later */
	return 0;
}
