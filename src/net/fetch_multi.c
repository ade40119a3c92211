/* libcurl's multi interface on the loop: sockets, its one timer, what has ended. */
#include "config.h"

#include "fetch_int.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "ev/ev.h"

/* libcurl forgets a socket at the end of each request and names it anew for the next one.  A connection that has carried
 * a request stays registered until it is closed: two system calls less for each request. */
struct fetch_sock {
	struct fetch_pool *pool;
	curl_socket_t fd;
	struct ev_io *io;
	bool carries;                   /* connected: its end goes through fetch_pool_close_sock() */
	bool resting;                   /* no request is on it */
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

	if (s->resting)         /* its server has closed it, as libcurl finds out before it uses it again */
		ev_io_want(s->io, false, false);
	else
		act(s->pool, s->fd, (readable ? CURL_CSELECT_IN : 0) | (writable ? CURL_CSELECT_OUT : 0));
}

static struct fetch_sock *sock_new(struct fetch_pool *p, curl_socket_t fd)
{
	struct fetch_sock *s = mem_zalloc(sizeof(*s));

	s->pool = p;
	s->fd = fd;
	s->io = ev_io_new(p->owner->loop, fd, on_io, s);
	(void)map_set_u64(p->socks, (uint64_t)fd, s);
	return s;
}

static void sock_free(struct fetch_sock *s)
{
	(void)map_del_u64(s->pool->socks, (uint64_t)s->fd);
	ev_io_free(&s->io);
	free(s);
}

/* A socket whose connect fails, or is overtaken by that to another address, is closed without a word to
 * fetch_pool_close_sock(): only one that stands may stay. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct fetch_pool *p = arg;
	struct fetch_sock *s = map_get_u64(p->socks, (uint64_t)fd);
	const struct fetch *f = NULL;

	if (what == CURL_POLL_REMOVE) {
		if (s && s->carries) {
			s->resting = true;
			ev_io_want(s->io, true, false);
		} else if (s) {
			sock_free(s);
		}
		return 0;
	}
	if (!s)
		s = sock_new(p, fd);
	(void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &f);
	s->carries = s->carries || f->connected;
	s->resting = false;
	ev_io_want(s->io, what & CURL_POLL_IN, what & CURL_POLL_OUT);
	return 0;
}

int fetch_pool_close_sock(void *pool, curl_socket_t fd)
{
	struct fetch_pool *p = pool;
	struct fetch_sock *s = map_get_u64(p->socks, (uint64_t)fd);

	if (s)
		sock_free(s);
	return close(fd);
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
	p->socks = map_new();
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
	void *s;

	while (p->nspare > 0)
		curl_easy_cleanup(p->spare[--p->nspare]);
	if (p->multi)
		(void)curl_multi_cleanup(p->multi);
	for (size_t it = 0; map_next(p->socks, &it, NULL, NULL, &s); )
		sock_free(s);
	map_free(&p->socks);
	ev_timer_free(&p->timer);
	ev_timer_free(&p->idle);
}

/* libcurl's timer, due at once, sends it with all others of this turn. */
int fetch_pool_add(struct fetch_pool *p, struct fetch *f)
{
	return curl_multi_add_handle(p->multi, f->easy) == CURLM_OK ? 0 : ERR_INTERNAL;
}
