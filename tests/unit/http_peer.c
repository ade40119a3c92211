/* The server of the tests of outbound requests. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ev/ev.h"
#include "net/listen.h"
#include "net/stream.h"

#include "http_peer.h"

#define CONNECTIONS_MAX 4096

struct conn {
	struct list node;
	struct peer *peer;
	struct stream *stream;
};

static void conn_drop(struct conn *c)
{
	if (c->peer->last == c->stream)
		c->peer->last = NULL;
	list_unlink(&c->node);
	stream_close(&c->stream);
	free(c);
}

/* Bytes of the request when it is whole: its head, and as much body as it announces. */
static size_t whole(const char *p, size_t len)
{
	const char *end = memmem(p, len, "\r\n\r\n", 4);
	const char *announced = end ? memmem(p, (size_t)(end - p), "Content-Length: ", 16) : NULL;
	size_t head = end ? (size_t)(end - p) + 4 : 0;
	size_t body = announced ? strtoul(announced + 16, NULL, 10) : 0;

	return end && len >= head + body ? head + body : 0;
}

static size_t on_data(void *arg, const char *p, size_t len)
{
	struct conn *c = arg;
	struct peer *s = c->peer;
	size_t n = whole(p, len);

	if (n == 0)
		return 0;
	s->requests++;
	str_reset(&s->seen);
	str_put(&s->seen, p, n);
	if (s->choose)
		s->choose(s);
	if (s->answer)
		stream_write(c->stream, s->answer, s->answer_len);
	if (s->answer && !s->keep)
		stream_half_close(c->stream);
	return n;
}

static void on_ended(void *arg, enum stream_end why)
{
	conn_drop(arg);
}

static void on_accept(void *arg, const struct accepted *a)
{
	static const struct stream_ops ops = { .data = on_data, .ended = on_ended };
	struct peer *s = arg;
	struct conn *c = mem_zalloc(sizeof(*c));

	s->connections++;
	c->peer = s;
	list_push_back(&s->conns, &c->node);
	c->stream = s->last = stream_new(s->loop, a->fd, a->fd, 1 << 20, &ops, c);
}

void peer_open(struct peer *s, struct ev_loop *loop, const char *address)
{
	struct err err;

	*s = (struct peer){ .loop = loop, .keep = true };
	list_init(&s->conns);
	if (listen_tcp(loop, address, CONNECTIONS_MAX, on_accept, s, &s->listener, &err) < 0)
		fail_msg("%s: %s", address, err.msg);
	s->port = (unsigned)strtoul(strrchr(listen_address(s->listener), ':') + 1, NULL, 10);
}

void peer_close(struct peer *s)
{
	while (!list_empty(&s->conns))
		conn_drop(CONTAINER_OF(s->conns.next, struct conn, node));
	listen_close(&s->listener);
	str_fini(&s->seen);
}

void peer_says(struct peer *s, const char *answer, bool keep)
{
	s->answer = answer;
	s->answer_len = strlen(answer);
	s->keep = keep;
}
