/* What a server that fills up leaves out of HTTP: connections that are kept, and patience with strangers (SEC S-807). */

#include "config.h"

#include "tr_http_int.h"

#include "base/mem.h"
#include "base/metric.h"
#include "ev/ev.h"

/* Whoever is sent away comes again, and a new connection costs more than the next answer on an old one: so some at a time. */
static bool may_end(struct tr_http *t)
{
	uint64_t now = ev_now_us(t->env.loop);

	if (now - t->ended_us >= TR_HTTP_END_US) {
		t->ended_us = now;
		t->ended = 0;
	}
	return t->ended++ < TR_HTTP_END_MAX;
}

void hreq_keep(const struct hreq *q)
{
	if (!mcp_crowded_by(q->t->env.mcp, q->who) || !may_end(q->t))
		return;
	metric_inc(METRIC_connections_not_kept);
	http_no_more(q->r);
}

void http_not_known(struct hconn *c)
{
	if (c->t->press == TRANSPORT_CALM || c->pass.tenant || !may_end(c->t))
		return;
	metric_inc(METRIC_connections_not_kept);
	http_conn_drain(c->conn);
}

/* Whoever has not said who it is goes first: it has to ask at once, and has one answer. */
void http_hurry(struct hconn *c)
{
	if (c->pass.tenant || c->hurried)
		return;
	c->hurried = true;
	metric_inc(METRIC_connections_hurried);
	http_conn_drain_in(c->conn, TR_HTTP_HURRY_MS);
}

void http_press(struct transport *base, enum transport_press press)
{
	struct tr_http *t = CONTAINER_OF(base, struct tr_http, base);
	bool full = press == TRANSPORT_FULL && t->press != TRANSPORT_FULL;

	t->press = press;
	listen_slow(t->listener, press == TRANSPORT_FULL);
	if (!full)
		return;
	LIST_FOREACH_SAFE(n, tmp, &t->conns)
		http_hurry(CONTAINER_OF(n, struct hconn, node));
}
