/* The core's double. */

#include "config.h"

#include "fake_mcp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tenant/tenant.h"

#define WORD_SIZE 32

struct mcp_channel {
	struct mcp_server *srv;
	const struct mcp_push_ops *ops;
	void *peer;
	struct ev_timer *drain;
	bool eof;
};

struct mcp_exchange {
	struct list node;
	struct mcp_server *srv;
	struct mcp_channel *ch;
	struct mcp_sink sink;
	char verb[WORD_SIZE], id[WORD_SIZE], era[WORD_SIZE], tenant[64];
	size_t number;
	bool sse_ok, dead;
};

struct mcp_session { struct mcp_server *srv; };

struct mcp_server *mcp_server_new(const struct mcp_env *env)
{
	struct mcp_server *srv = mem_zalloc(sizeof *srv);

	srv->loop = env->loop;
	list_init(&srv->open);
	return srv;
}

void mcp_server_free(struct mcp_server **srv)
{
	assert_true(list_empty(&(*srv)->open));
	assert_int_equal((*srv)->channels, (*srv)->channels_closed);
	assert_null((*srv)->stream_ops);
	free(*srv);
	*srv = NULL;
}

/* --- exchanges */

static void release(void *arg)
{
	free(arg);
}

/* No word to its sink from here on. */
static void drop(struct mcp_exchange *x)
{
	assert_false(x->dead);
	x->dead = true;
	list_unlink(&x->node);
	/* Behind a start that is deferred, too. */
	ev_at_turn_end(x->srv->loop, release, x);
}

static void finish(struct mcp_exchange *x)
{
	struct mcp_answer a = { .status = 200, .hang_up = strcmp(x->verb, "stop") == 0 };
	struct mcp_channel *ch = x->ch;
	struct mcp_sink sink = x->sink;
	size_t extra = strcmp(x->verb, "big") == 0 ? x->number : 0;
	size_t room = sizeof x->id + sizeof x->era + sizeof x->tenant + 3;
	char *text = mem_alloc(room + extra);
	int n = snprintf(text, room, "%s %s %s", x->id, x->era, x->tenant);

	assert_false(x->srv->input);
	memset(text + n, 'x', extra);
	a.text = text;
	a.len = (size_t)n + extra;
	if (strcmp(x->verb, "quiet") == 0)
		a = (struct mcp_answer){ .status = 202 };
	if (strcmp(x->verb, "status") == 0)
		a.status = (int)x->number;
	if (strcmp(x->verb, "deny") == 0)
		a.status = 401;
	if (strcmp(x->verb, "session") == 0)
		a.session = FAKE_SESSION;
	if (a.status == 429)
		a.retry_after_s = 7;
	x->srv->finished++;
	drop(x);
	/* A late hang-up, so that finish() may end the channel. */
	if (ch && ch->eof && mcp_channel_busy(ch) == 0)
		ev_timer_start(ch->drain, 0);
	sink.ops->finish(sink.peer, &a);
	free(text);
}

static void note(struct mcp_exchange *x, const char *text, size_t len)
{
	assert_false(x->srv->input);
	x->sink.ops->notice(x->sink.peer, text, len);
}

static void note_small(struct mcp_exchange *x, size_t i)
{
	char text[160];
	int n = snprintf(text, sizeof text, "note %s %s %zu", x->id, x->tenant, i);

	note(x, text, (size_t)n);
}

static void flood(struct mcp_exchange *x)
{
	char *text = mem_alloc(FAKE_FLOOD_BYTES);

	memset(text, 'f', FAKE_FLOOD_BYTES);
	for (size_t i = 0; i < x->number; i++)
		note(x, text, FAKE_FLOOD_BYTES);
	free(text);
}

static void start(void *arg)
{
	struct mcp_exchange *x = arg;

	if (x->dead)
		return;
	if (strcmp(x->verb, "later") == 0 || strcmp(x->verb, "never") == 0)
		return;
	if (strcmp(x->verb, "flood") == 0) {
		flood(x);
		return;
	}
	for (size_t i = 0; strcmp(x->verb, "notes") == 0 && i < x->number; i++)
		note_small(x, i);
	finish(x);
}

static void copy(char ret[64], const char *text)
{
	(void)snprintf(ret, 64, "%s", text ? text : "");
}

static void see(struct mcp_server *srv, const struct mcp_in *in)
{
	struct fake_seen *s = &srv->seen[srv->nseen++];
	const struct mcp_headers *h = in->http;

	assert_true(srv->nseen <= FAKE_SEEN_MAX);
	(void)snprintf(s->text, sizeof s->text, "%.*s", in->len < 63 ? (int)in->len : 63, in->text);
	s->len = in->len;
	s->tport = in->tport;
	(void)snprintf(s->peer, sizeof s->peer, "%s", in->peer ? in->peer : "");
	copy(s->tenant, in->who->tenant);
	if (!h)
		return;
	s->http = true;
	s->duplicate = h->duplicate;
	s->sse_ok = h->sse_ok;
	copy(s->version, h->version);
	copy(s->session, h->session);
	copy(s->method, h->method);
	copy(s->name, h->name);
	copy(s->traceparent, h->traceparent);
	s->nparams = h->nparams;
	assert_true(h->nparams <= FAKE_PARAMS_MAX);
	for (size_t i = 0; i < h->nparams; i++) {
		copy(s->params[i].name, h->params[i].name);
		copy(s->params[i].value, h->params[i].value);
		assert_int_equal(strlen(h->params[i].value), h->params[i].len);
	}
}

void mcp_input(struct mcp_server *srv, struct mcp_channel *ch, const struct mcp_in *in, const struct mcp_sink *sink,
	       struct mcp_exchange **ret)
{
	struct mcp_exchange *x = mem_zalloc(sizeof *x);
	char text[256];

	srv->input = true;
	assert_int_equal(in->http == NULL, ch != NULL);
	assert_false(ch && ch->eof);
	x->srv = srv;
	x->ch = ch;
	x->sink = *sink;
	x->sse_ok = in->http && in->http->sse_ok;
	copy(x->tenant, in->who->tenant);
	(void)snprintf(text, sizeof text, "%.*s", in->len < 255 ? (int)in->len : 255, in->text);
	(void)sscanf(text, "%31s %31s %31s %zu", x->verb, x->id, x->era, &x->number);
	see(srv, in);
	list_push_back(&srv->open, &x->node);
	ev_defer(srv->loop, start, x);
	*ret = x;
	srv->input = false;
}

void mcp_exchange_gone(struct mcp_exchange **x)
{
	assert_non_null(*x);
	assert_null((*x)->ch);
	(*x)->srv->gone++;
	drop(*x);
	*x = NULL;
}

bool mcp_crowded_by(const struct mcp_server *srv, const struct principal *who)
{
	return srv->crowd && strcmp(srv->crowd, who->tenant) == 0;
}

bool mcp_exchange_may_stream(const struct mcp_exchange *x)
{
	assert_false(x->dead);
	return x->sse_ok;
}

static struct mcp_exchange *held(struct mcp_server *srv, const char *id, const char *tenant)
{
	LIST_FOREACH(n, &srv->open) {
		struct mcp_exchange *x = CONTAINER_OF(n, struct mcp_exchange, node);

		if (strcmp(x->id, id) == 0 && strcmp(x->tenant, tenant) == 0)
			return x;
	}
	fail_msg("no message %s of %s is held", id, tenant);
	return NULL;
}

void fake_finish(struct mcp_server *srv, const char *id, const char *tenant)
{
	finish(held(srv, id, tenant));
}

void fake_finish_big(struct mcp_server *srv, const char *id, const char *tenant, size_t extra)
{
	struct mcp_exchange *x = held(srv, id, tenant);

	(void)snprintf(x->verb, sizeof x->verb, "big");
	x->number = extra;
	finish(x);
}

void fake_notice(struct mcp_server *srv, const char *id, const char *tenant)
{
	note_small(held(srv, id, tenant), 0);
}

const struct fake_seen *fake_last(const struct mcp_server *srv)
{
	assert_true(srv->nseen > 0);
	return &srv->seen[srv->nseen - 1];
}

/* --- channels */

static void cancel_all(struct mcp_channel *ch)
{
	LIST_FOREACH_SAFE(n, tmp, &ch->srv->open) {
		struct mcp_exchange *x = CONTAINER_OF(n, struct mcp_exchange, node);

		if (x->ch != ch)
			continue;
		ch->srv->cancelled++;
		drop(x);
	}
}

/* The time after the end of input is over, or nothing runs any more. */
static void drain_over(void *arg)
{
	struct mcp_channel *ch = arg;

	cancel_all(ch);
	ch->ops->hang_up(ch->peer);
}

struct mcp_channel *mcp_channel_new(struct mcp_server *srv, const struct mcp_push_ops *ops, void *peer,
				    struct principal *who, int tport)
{
	struct mcp_channel *ch = mem_zalloc(sizeof *ch);

	assert_non_null(who);
	ch->srv = srv;
	ch->ops = ops;
	ch->peer = peer;
	ch->drain = ev_timer_new(srv->loop, drain_over, ch);
	srv->channels++;
	return ch;
}

void mcp_channel_eof(struct mcp_channel *ch, uint32_t drain_ms)
{
	assert_false(ch->eof);
	ch->eof = true;
	ch->srv->eofs++;
	ev_timer_start(ch->drain, mcp_channel_busy(ch) > 0 ? drain_ms * 1000ull : 0);
}

void mcp_channel_close(struct mcp_channel **ch)
{
	if (!*ch)
		return;
	cancel_all(*ch);
	(*ch)->srv->channels_closed++;
	ev_timer_free(&(*ch)->drain);
	free(*ch);
	*ch = NULL;
}

size_t mcp_channel_busy(const struct mcp_channel *ch)
{
	size_t n = 0;

	LIST_FOREACH(node, &ch->srv->open)
		n += CONTAINER_OF(node, struct mcp_exchange, node)->ch == ch;
	return n;
}

/* --- the one session: tenant acme's */

static struct mcp_session the_session;

int mcp_session_find(struct mcp_server *srv, const char *id, const struct principal *who, struct mcp_session **ret,
		     struct err *err)
{
	if (strcmp(id, FAKE_SESSION) != 0 || strcmp(who->tenant, "acme") != 0 || srv->sessions_ended > 0)
		return err_set(err, ERR_NOT_FOUND, "", "session not found");
	the_session.srv = srv;
	*ret = &the_session;
	return 0;
}

void mcp_session_stream(struct mcp_session *s, const struct mcp_push_ops *ops, void *peer, struct principal *who)
{
	if (s->srv->stream_ops)
		s->srv->stream_ops->hang_up(s->srv->stream_peer);
	s->srv->stream_ops = ops;
	s->srv->stream_peer = peer;
	s->srv->streams++;
}

void mcp_session_stream_gone(struct mcp_server *srv, const char *id, void *peer)
{
	assert_string_equal(id, FAKE_SESSION);
	if (srv->stream_peer != peer)
		return;
	srv->stream_ops = NULL;
	srv->stream_peer = NULL;
	srv->streams_gone++;
}

void mcp_session_end(struct mcp_session **s)
{
	struct mcp_server *srv = (*s)->srv;

	srv->sessions_ended++;
	if (srv->stream_ops)
		srv->stream_ops->hang_up(srv->stream_peer);
	srv->stream_ops = NULL;
	srv->stream_peer = NULL;
	*s = NULL;
}
