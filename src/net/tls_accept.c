/* The handshake of one accepted connection, within its time. */
#include "config.h"

#include "tls_int.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "ev/ev.h"
#include "net/addr.h"
#include "net/stream.h"

struct tls_handshake {
	struct ev_loop *loop;
	struct tls *tls;
	int fd;
	struct ev_io *io;
	struct ev_timer *timer;
	struct stream *farewell;        /* after a failure: our alert is still to be read */
	char from[ADDR_TEXT_SIZE];
	tls_ready_fn *fn;
	void *arg;
};

static void release(struct tls_handshake *h)
{
	ev_io_free(&h->io);
	ev_timer_free(&h->timer);
	stream_close(&h->farewell);
	tls_free(&h->tls);
	if (h->fd >= 0)
		close(h->fd);
	ev_defer(h->loop, free, h);
}

void tls_handshake_cancel(struct tls_handshake **ph)
{
	if (!ph || !*ph)
		return;
	release(*ph);
	*ph = NULL;
}

static void report(struct tls_handshake *h, const char *why)
{
	static struct log_site site;
	const struct log_ctx ctx = { .peer = h->from };
	metric_inc(METRIC_tls_handshakes_failed);
	if (log_allow(&site))
		log_info(&ctx, "TLS handshake failed why=\"%s\"", why);
}

static void on_late(void *arg)
{
	struct tls_handshake *h = arg;
	report(h, "it was not done in time");
	h->fn(h->arg, NULL);
	release(h);
}

static size_t on_farewell_data(void *arg, const char *p, size_t len)
{
	return len;
}

static void on_farewell_end(void *arg, enum stream_end why)
{
	struct tls_handshake *h = arg;
	h->fn(h->arg, NULL);
	release(h);
}

/* What the peer still sends must not reset the connection before it has read why: it lingers like any other, and counts
 * as one until then. */
static void refuse(struct tls_handshake *h, const char *why)
{
	static const struct stream_ops ops = { on_farewell_data, on_farewell_end, NULL };
	report(h, why);
	ev_io_free(&h->io);
	ev_timer_stop(h->timer);
	h->farewell = stream_new(h->loop, h->fd, h->fd, 1, &ops, h);
	h->fd = -1;
	stream_half_close(h->farewell);
}

static void on_io(void *arg, bool readable, bool writable)
{
	struct tls_handshake *h = arg;
	const char *why = "";
	int rc = tls_shake(h->tls, &why);
	if (rc == TLS_AGAIN) {
		bool write = tls_wants_write(h->tls);
		ev_io_want(h->io, !write, write);
		return;
	}
	if (rc == TLS_BROKEN) {
		refuse(h, why);
		return;
	}
	struct tls *t = h->tls;
	const int on = 1;
	metric_inc(METRIC_tls_handshakes);
	/* Nothing of ours carries the acknowledgement of the peer's last message: one that gathers small segments would
	 * wait 40 ms with its first request. */
	(void)setsockopt(h->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));    /* not a TCP socket: no matter */
	ev_io_free(&h->io);             /* before the descriptor's next owner waits for it */
	h->tls = NULL;
	h->fd = -1;
	h->fn(h->arg, t);
	release(h);
}

static void on_start_failed(void *arg)
{
	struct tls_handshake *h = arg;
	report(h, "OpenSSL has no memory for it");
	h->fn(h->arg, NULL);
	release(h);
}

static struct tls *begin(struct tls_server *s, int fd)
{
	SSL *ssl = SSL_new(s->ctx);
	if (!ssl || !SSL_set_fd(ssl, fd)) {
		SSL_free(ssl);
		return NULL;
	}
	SSL_set_accept_state(ssl);
	return tls_wrap(ssl);
}

struct tls_handshake *tls_accept(struct tls_server *s, struct ev_loop *loop, int fd, const char *from, tls_ready_fn *fn,
				 void *arg)
{
	struct tls_handshake *h = mem_zalloc(sizeof(*h));
	h->loop = loop;
	h->fd = fd;
	h->fn = fn;
	h->arg = arg;
	snprintf(h->from, sizeof(h->from), "%s", from);
	h->tls = begin(s, fd);
	h->timer = ev_timer_new(loop, h->tls ? on_late : on_start_failed, h);
	ev_timer_start(h->timer, h->tls ? TLS_HANDSHAKE_MS * 1000ull : 0);
	h->io = ev_io_new(loop, fd, on_io, h);
	ev_io_want(h->io, h->tls, false);
	return h;
}
