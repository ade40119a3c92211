/* Newline-delimited JSON over TCP and Unix sockets, and the peers that stdio shares.
 *
 * A socket begins in AUTH: its first line must be `Authorization: Bearer <key>`, and nothing is parsed before it
 * is accepted (MCP B-28).  Where the listener is bound to a tenant, or maps the peer's uid, the peer is known
 * at once.  Then each line is one message for the core. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "net/stream.h"
#include "tenant/tenant.h"

#include "transport_int.h"

struct line_home {                      /* what all peers of a listener share */
	const struct transport_env *env;
	const struct conf_listener *conf;       /* NULL for stdio */
	struct listener *listener;              /* NULL for stdio */
	struct front front;
	struct list peers;
	int tport;                              /* enum audit_tport */
	void (*ended)(void *arg);               /* stdio: the one peer has gone */
	void *arg;
};
/* tls NULL: plain; pass NULL: of stdio. */
struct line_way { int in_fd, out_fd; struct tls *tls; const char *from; const struct gate_pass *pass; };

struct line_peer {
	struct list node;               /* of home->peers */
	struct line_home *home;
	struct stream *stream;
	struct mcp_channel *channel;    /* NULL in AUTH */
	struct principal *who;          /* NULL in AUTH */
	struct gate_pass pass;
	struct ev_timer *auth_timer;    /* NULL once the peer is known */
	size_t searched;                /* bytes without a newline, at the front of the input */
	const struct tls *tls;          /* the stream's, or NULL */
	bool ending;                    /* nothing more is read or said */
	char from[ADDR_TEXT_SIZE];
};

/* --- the end */

static void peer_free(void *arg)
{
	struct line_peer *p = arg;
	struct line_home *home = p->home;

	principal_unref(&p->who);
	free(p);
	if (home->ended)
		home->ended(home->arg);
}

/* The stream is over: unlink, and free once the callbacks on the stack have returned. */
static void peer_gone(struct line_peer *p)
{
	list_unlink(&p->node);
	stream_close(&p->stream);
	gate_leave(&p->pass);
	metric_dec(METRIC_connections_open);
	if (p->home->listener)
		listen_conn_gone(p->home->listener);
	ev_defer(p->home->env->loop, peer_free, p);
}

/* No further message, now.  flush: what is written leaves first, and peer_ended() says when; until then the peer counts
 * as a connection. */
static void peer_end(struct line_peer *p, bool flush)
{
	if (p->ending)
		return;
	p->ending = true;
	ev_timer_free(&p->auth_timer);
	mcp_channel_close(&p->channel);
	if (flush)
		stream_half_close(p->stream);
	else
		peer_gone(p);
}

/* --- answers and pushes */

static void write_line(struct line_peer *p, const char *text, size_t len, bool answer)
{
	if (p->ending)
		return;
	if (answer)
		stream_write_answer(p->stream, text, len);
	else
		stream_write(p->stream, text, len);
	stream_write_answer(p->stream, "\n", 1);
}

static void peer_notice(void *peer, const char *text, size_t len)
{
	write_line(peer, text, len, false);
}

static void peer_finish(void *peer, const struct mcp_answer *a)
{
	struct line_peer *p = peer;

	if (a->len > 0)
		write_line(p, a->text, a->len, true);
	if (a->hang_up)
		peer_end(p, true);
}

static size_t peer_queued(const void *peer)
{
	const struct line_peer *p = peer;

	return stream_queued(p->stream);
}

static void peer_hang_up(void *peer)
{
	peer_end(peer, true);
}

static const struct mcp_sink_ops sink_ops = { peer_notice, peer_finish };
static const struct mcp_push_ops push_ops = { peer_notice, peer_queued, peer_hang_up };

/* --- input */

static void peer_open(struct line_peer *p)
{
	struct line_home *home = p->home;

	p->channel = mcp_channel_new(home->env->mcp, &push_ops, p, p->who, home->tport);
	stream_in_max(p->stream, TRANSPORT_MESSAGE_MAX + 2);
}

/* SEC S-805: the error, then the end. */
static void peer_known(struct line_peer *p)
{
	static const char crowded[] = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,"
		"\"message\":\"The tenant has too many connections\",\"data\":{\"retryAfterMs\":1000}}}";

	ev_timer_free(&p->auth_timer);
	if (p->home->listener && !gate_join(&p->pass, p->who->tenant_id)) {
		write_line(p, crowded, sizeof(crowded) - 1, true);
		peer_end(p, true);
		return;
	}
	peer_open(p);
}

static void refused(struct line_peer *p, enum cred_refusal why)
{
	cred_refused(p->home->env->tenants, &(struct cred_source){ p->from, p->home->tport }, why);
}

static void peer_authenticate(struct line_peer *p, const char *line, size_t len)
{
	static const char prefix[] = "Authorization: Bearer ";
	const struct cred_source source = { p->from, p->home->tport };
	const size_t n = sizeof(prefix) - 1;
	struct err err;

	if (len <= n || memcmp(line, prefix, n) != 0) {
		refused(p, CRED_MALFORMED);
		peer_end(p, false);
		return;
	}
	if (cred_check(p->home->env->tenants, line + n, len - n, &source, &p->who, &err) < 0) {
		peer_end(p, false);
		return;
	}
	peer_known(p);
}

static void auth_late(void *arg)
{
	refused(arg, CRED_LATE);
	peer_end(arg, false);
}

/* The rest of a line is still to come: what is there counts (HARDENING F-5). */
static void peer_waits(struct line_peer *p, size_t len)
{
	struct str text = STR_INIT;
	struct err err = { 0 };

	p->searched = len;
	if (gate_hold(&p->pass, len, &err) == 0)
		return;
	str_printf(&text, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"%s\","
		   "\"data\":{\"retryAfterMs\":%u}}}", err.msg, err.retry_ms);
	if (p->channel)
		write_line(p, text.p, text.len, true);
	peer_end(p, p->channel != NULL);
	str_fini(&text);
}

static size_t peer_data(void *arg, const char *bytes, size_t len)
{
	struct line_peer *p = arg;
	const size_t max = p->channel ? TRANSPORT_MESSAGE_MAX : TRANSPORT_CREDENTIAL_MAX;
	size_t line = 0;
	ssize_t used = line_next(bytes, len, p->searched, max, &line);

	if (used < 0) {
		metric_inc(METRIC_line_too_long);
		if (!p->channel)
			gate_broke(&p->pass);
		peer_end(p, p->channel != NULL);        /* nothing has been said to a stranger */
		return 0;
	}
	if (used == 0) {
		peer_waits(p, len);
		return 0;
	}
	p->searched = 0;
	gate_release(&p->pass);
	if (!p->channel) {
		peer_authenticate(p, bytes, line);
		return (size_t)used;
	}
	if (p->tls && !transport_cert_holds(p->home->conf, p->tls, p->who)) {
		peer_end(p, true);
		return (size_t)used;
	}
	struct mcp_in in = { .text = bytes, .len = line, .who = p->who, .tport = p->home->tport,
		.peer = p->home->tport == AUDIT_TCP ? p->from : NULL };
	struct mcp_sink sink = { &sink_ops, p };
	struct mcp_exchange *x = NULL;

	mcp_input(p->home->env->mcp, p->channel, &in, &sink, &x);
	return (size_t)used;
}

/* A last line without its end is dropped (MCP B-06). */
static void peer_ended(void *arg, enum stream_end why)
{
	struct line_peer *p = arg;

	if (why == STREAM_OVERFLOW || why == STREAM_STALLED)
		metric_inc(METRIC_output_overflow_closed);
	if (p->ending)
		peer_gone(p);
	else if (why == STREAM_EOF && p->channel)
		mcp_channel_eof(p->channel, p->home->env->drain_ms);
	else
		peer_end(p, false);
}

static const struct stream_ops stream_ops = { peer_data, peer_ended, NULL };

static void line_peer_new(struct line_home *home, const struct line_way *way, struct principal *who)
{
	const struct conf_listener *conf = home->conf;
	struct line_peer *p = mem_zalloc(sizeof(*p));

	p->home = home;
	if (way->pass)
		p->pass = *way->pass;
	snprintf(p->from, sizeof(p->from), "%s", way->from);
	list_push_back(&home->peers, &p->node);
	metric_inc(METRIC_connections_open);
	p->stream = stream_new(home->env->loop, way->in_fd, way->out_fd, TRANSPORT_CREDENTIAL_MAX + 2, &stream_ops, p);
	p->tls = way->tls;
	if (way->tls)
		stream_tls(p->stream, way->tls);
	if (conf && conf->stall_ms)
		stream_stall_ms(p->stream, conf->stall_ms);
	if (who) {
		principal_ref(who);
		p->who = who;
		peer_known(p);
		return;
	}
	p->auth_timer = ev_timer_new(home->env->loop, auth_late, p);
	ev_timer_start(p->auth_timer,
		       (conf && conf->credential_ms ? conf->credential_ms : TRANSPORT_CREDENTIAL_MS) * 1000ull);
}

/* who NULL: a credential line is due.  Takes the descriptors and tls, counts who. */
static void line_peers_close(struct line_home *home)
{
	LIST_FOREACH_SAFE(n, tmp, &home->peers) {
		struct line_peer *p = CONTAINER_OF(n, struct line_peer, node);

		peer_end(p, true);
		stream_finish(&p->stream);      /* writes what it can on its own */
		peer_gone(p);
	}
}

/* --- TCP and Unix listeners */

struct tr_line {
	struct transport base;
	struct transport_env env;
	struct line_home home;
};

/* Whom the listener itself names: its tenant, or the peer's uid.  1: named, 0: nobody, < 0: refused. */
static int known_peer(struct tr_line *t, const struct accepted *a, struct principal **ret, struct err *err)
{
	const struct conf_listener *c = t->home.conf;
	int rc;

	for (size_t i = 0; a->uid >= 0 && i < c->nuids; i++) {
		if (c->uids[i].uid != (uint64_t)a->uid)
			continue;
		rc = principal_named(t->env.tenants, c->uids[i].tenant, c->uids[i].principal, AUDIT_AUTHN_UID, ret,
				     err);
		return rc < 0 ? rc : 1;
	}
	if (!c->tenant)
		return 0;
	rc = principal_named(t->env.tenants, c->tenant, c->principal, AUDIT_AUTHN_BOUND, ret, err);
	return rc < 0 ? rc : 1;
}

static void line_accepted(void *arg, const struct accepted *a)
{
	struct tr_line *t = arg;
	const struct cred_source source = { a->from, t->home.tport };
	struct gate_pass pass;
	const struct line_way way = { a->fd, a->fd, a->tls, a->from, &pass };
	struct principal *who = NULL;
	struct err err;
	int rc;

	if (!front_enter(&t->home.front, t->home.listener, a, false, &pass))
		return;
	rc = transport_cert_who(&t->env, t->home.conf, a->tls, &source, &who);
	if (rc == 0) {
		rc = known_peer(t, a, &who, &err);
		if (rc < 0)
			cred_refused(t->env.tenants, &source, CRED_SUSPENDED);
	}
	/* A tenant that is suspended or gone: the peer is sent away like a wrong key. */
	if (rc < 0) {
		gate_leave(&pass);
		listen_drop(a);
		listen_conn_gone(t->home.listener);
		return;
	}
	line_peer_new(&t->home, &way, who);
	principal_unref(&who);
}

static int line_open(const struct transport_env *env, const struct conf_listener *c, const struct transport_ops *ops,
		     int tport, struct transport **ret, struct err *err)
{
	struct tr_line *t = mem_zalloc(sizeof(*t));
	int rc;

	t->base.ops = ops;
	t->env = *env;
	t->home = (struct line_home){ .env = &t->env, .conf = c, .tport = tport };
	list_init(&t->home.peers);
	rc = front_open(&t->home.front, env, c, err);
	if (rc == 0)
		rc = transport_listen(env, c, line_accepted, t, &t->home.listener, err);
	if (rc == 0)
		rc = transport_tls_open(&t->base, c, t->home.listener, &t->home.front, err);
	if (rc < 0) {
		listen_close(&t->home.listener);
		free(t);
		return rc;
	}
	*ret = &t->base;
	return 0;
}

static int tcp_open(const struct transport_env *env, const struct conf_listener *c, struct transport **ret,
		    struct err *err)
{
	return line_open(env, c, &tr_tcp, AUDIT_TCP, ret, err);
}

static int unix_open(const struct transport_env *env, const struct conf_listener *c, struct transport **ret,
		     struct err *err)
{
	return line_open(env, c, &tr_unix, c->relay ? AUDIT_STDIO : AUDIT_UNIX, ret, err);
}

static struct tr_line *line_of(struct transport *t)
{
	return CONTAINER_OF(t, struct tr_line, base);
}

/* base is the first member. */
static const struct line_home *home_of(const struct transport *t)
{
	return &((const struct tr_line *)(const void *)t)->home;
}

/* Whoever has not said who it is would hold up a stop until its time is over. */
static void line_drain(struct transport *t)
{
	struct line_home *home = &line_of(t)->home;

	listen_shut(home->listener);
	LIST_FOREACH_SAFE(n, tmp, &home->peers) {
		struct line_peer *p = CONTAINER_OF(n, struct line_peer, node);

		if (!p->channel)
			peer_end(p, false);
	}
}

/* Who has not said a byte yet says it to the next server.  The others have their answers here, and then their end. */
static void line_leave(struct transport *t, void (*take)(void *arg, int fd), void *arg)
{
	struct line_home *home = &line_of(t)->home;

	listen_pause(home->listener, true);
	LIST_FOREACH_SAFE(n, tmp, &home->peers) {
		struct line_peer *p = CONTAINER_OF(n, struct line_peer, node);
		int fd = p->channel || p->ending ? -1 : stream_dup(p->stream);

		if (fd < 0)
			continue;
		take(arg, fd);
		peer_end(p, false);
	}
}

static unsigned line_busy(const struct transport *t)
{
	unsigned n = 0;

	LIST_FOREACH(node, &home_of(t)->peers) {
		const struct line_peer *p = CONTAINER_OF(node, struct line_peer, node);

		n += p->channel != NULL || stream_queued(p->stream) > 0;
	}
	return n;
}

static struct listener *line_listener(struct transport *t)
{
	return line_of(t)->home.listener;
}

/* Strangers are as short-lived as ever: their credential line has its deadline. */
static void line_pressure(struct transport *t, enum transport_pressure pressure)
{
	listen_slow(line_of(t)->home.listener, pressure == TRANSPORT_FULL);
}

static unsigned line_live(const struct transport *t)
{
	return listen_live(home_of(t)->listener);
}

static const char *line_address(const struct transport *t)
{
	return listen_address(home_of(t)->listener);
}

static void line_free(void *arg)
{
	struct tr_line *t = arg;

	listen_close(&t->home.listener);
	tls_server_free(&t->base.tls);
	free(t);
}

static void line_close(struct transport **t)
{
	if (!*t)
		return;
	struct tr_line *l = line_of(*t);

	listen_pause(l->home.listener, true);
	line_peers_close(&l->home);
	/* Behind the peers, which look at their home when they are freed. */
	ev_defer(l->env.loop, line_free, l);
	*t = NULL;
}

static int tcp_check(const struct conf_listener *c, struct err *err)
{
	struct addr a;
	int rc = addr_parse(c->address, &a, err);

	if (rc < 0)
		return rc;
	if (addr_is_loopback(&a) || ((c->insecure || c->tls) && !c->tenant))
		return 0;
	if (c->tenant)
		return err_set(err, ERR_INVALID, c->address,
			       "a listener bound to a tenant must be on loopback or a Unix socket");
	err_set(err, ERR_INVALID, c->address, "keys would cross the network in the clear");
	err_hint(err, "give it tls, listen on 127.0.0.1, or say `insecure: true` where a proxy in front ends TLS");
	return ERR_INVALID;
}

static int unix_check(const struct conf_listener *c, struct err *err)
{
	if (c->address[0] != '/')
		return err_set(err, ERR_INVALID, c->address, "a socket's path must be absolute");
	return 0;
}

const struct transport_ops tr_tcp = {
	"tcp", tcp_check, tcp_open, line_drain, line_leave, line_busy, line_listener, line_pressure, line_live,
	line_address, line_close,
};
const struct transport_ops tr_unix = {
	"unix", unix_check, unix_open, line_drain, line_leave, line_busy, line_listener, line_pressure, line_live,
	line_address, line_close,
};

/* --- stdio */

/* One peer on two descriptors, known before its first line (MCP S-10).  The program has moved stdout to a private
 * descriptor before anything could write to it (MCP S-02). */

struct tr_stdio {
	struct transport base;
	struct transport_env env;
	struct line_home home;
};

int tr_stdio_open(const struct transport_env *env, int in_fd, int out_fd, struct principal *who,
		  void (*ended)(void *arg), void *arg, struct transport **ret, struct err *err)
{
	struct tr_stdio *t = mem_zalloc(sizeof(*t));

	(void)err;      /* nothing here can fail; the face is that of every way in */
	t->env = *env;
	t->home = (struct line_home){ .env = &t->env, .tport = AUDIT_STDIO, .ended = ended, .arg = arg };
	list_init(&t->home.peers);
	line_peer_new(&t->home, &(struct line_way){ in_fd, out_fd, NULL, "stdio", NULL }, who);
	*ret = &t->base;
	return 0;
}

static void stdio_free(void *arg)
{
	free(arg);
}

void tr_stdio_close(struct transport **t)
{
	if (!*t)
		return;
	struct tr_stdio *s = CONTAINER_OF(*t, struct tr_stdio, base);

	s->home.ended = NULL;
	line_peers_close(&s->home);
	ev_defer(s->env.loop, stdio_free, s);
	*t = NULL;
}
