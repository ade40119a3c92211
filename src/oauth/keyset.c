/* One issuer: its server, requests to it, the words of its scopes, and its keys as they are now: from a file, or
 * fetched, and then seldom (SEC S-409).  What is there stays until the next set has been read whole; what could not be
 * fetched for too long is not used any more.  check.c asks, on the loop's thread. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "net/fetch.h"
#include "net/url.h"
#include "tenant/scope.h"

#include "oauth_int.h"

/* --- One request to a server of an issuer: its keys, or what it knows of a token. */

#define SCOPE ":oauth"                  /* of connections: no tenant has this name */
#define POLICY_BYTES 65536

struct oauth_server {
	/* of requests under way, which need the policy to their end, and of the owner */
	unsigned refs;
	struct arena *mem;
	struct fetch_policy policy;
};

struct oauth_http {
	struct oauth_server *server;
	struct fetch *fetch;
	struct str body;
	int status;
	oauth_http_fn *got;              /* NULL: nobody waits any more */
	void *arg;
};

static void oauth_server_drop(struct oauth_server **s);

static int oauth_server_new(const struct conf_issuer *conf, struct oauth_server **ret, struct err *err)
{
	const char *url = conf->jwks_uri ? conf->jwks_uri : conf->ask_uri;
	struct oauth_server *s = mem_zalloc(sizeof(*s));
	struct fetch_allow *list;
	struct url u;
	int rc = 0;

	s->refs = 1;
	s->mem = arena_new(POLICY_BYTES);
	list = arena_alloc(s->mem, CONF_ISSUER_ALLOW_MAX * sizeof(*list));
	for (size_t i = 0; rc == 0 && i < conf->nallow; i++)
		rc = fetch_allow_parse(conf->allow[i], "oauth.issuers", s->mem, &list[i], err);
	s->policy = (struct fetch_policy){ .allow = list, .nallow = conf->nallow,
		.ca_file = conf->ca_file ? arena_strdup(s->mem, conf->ca_file) : NULL };
	if (rc == 0)
		rc = url_parse(url, strlen(url), "oauth.issuers", &u, err);
	if (rc == 0)
		rc = fetch_policy_url(&s->policy, &u, err);
	if (rc < 0) {
		oauth_server_drop(&s);
		return rc;
	}
	*ret = s;
	return 0;
}

static void oauth_server_drop(struct oauth_server **s)
{
	if (!*s)
		return;
	if (--(*s)->refs == 0) {
		arena_free(&(*s)->mem);
		free(*s);
	}
	*s = NULL;
}

static void on_head(void *arg, const struct fetch_head *h)
{
	struct oauth_http *g = arg;

	g->status = fetch_head_status(h);
}

static int on_data(void *arg, const void *p, size_t len)
{
	struct oauth_http *g = arg;

	str_put(&g->body, p, len);
	return 0;
}

static void on_done(void *arg, int rc, const struct err *err)
{
	struct oauth_http *g = arg;
	struct err bad;

	if (rc == 0 && g->status != 200)
		rc = err_set(&bad, ERR_IO, "", "its server answered with status %d", g->status);
	else if (rc < 0)
		bad = *err;
	if (g->got)
		g->got(g->arg, rc, &g->body, &bad);
	oauth_server_drop(&g->server);
	str_wipe(&g->body);
	free(g);
}

int oauth_http_start(struct fetcher *f, struct oauth_server *server, const struct oauth_http_req *req,
		     oauth_http_fn *got,
		    void *arg, struct oauth_http **ret, struct err *err)
{
	static const struct fetch_sink sink = { on_head, on_data, on_done };
	struct fetch_header headers[3] = { { "accept", "application/json" } };
	struct fetch_req fr = { .method = req->form ? "POST" : "GET", .url = req->url, .policy = &server->policy,
		.scope = SCOPE,
		.headers = headers, .nheaders = 1, .body = req->form, .body_len = req->form ? strlen(req->form) : 0,
		.deadline_us = req->deadline_us, .body_max = JWKS_BYTES_MAX };
	struct oauth_http *g = mem_zalloc(sizeof(*g));
	int rc;

	if (req->form)
		headers[fr.nheaders++] = (struct fetch_header){ "content-type", "application/x-www-form-urlencoded" };
	if (req->authorization)
		headers[fr.nheaders++] = (struct fetch_header){ "authorization", req->authorization };
	g->server = server;
	g->got = got;
	g->arg = arg;
	str_init(&g->body, JWKS_BYTES_MAX);
	rc = fetch_start(f, &fr, &sink, g, &g->fetch, err);
	if (rc < 0) {
		free(g);
		return rc;
	}
	server->refs++;
	*ret = g;
	return 0;
}

void oauth_http_cancel(struct oauth_http **g)
{
	if (!*g)
		return;
	(*g)->got = NULL;
	fetch_cancel((*g)->fetch);
	*g = NULL;
}

/* --- Kids that tokens named and that no set of their issuer had when they came */

/* When each was seen first tells which fetch would have brought its key.  Whoever makes up key ids pushes out others:
 * then those count as new once more. */

struct kid {
	struct list node;               /* the one that was not named for longest first */
	uint64_t seen_us;
	size_t len;
	char text[];
};

struct unknown_keys {
	struct map *by_text;
	struct list order;
};

struct unknown_keys *unknown_keys_new(void)
{
	struct unknown_keys *k = mem_zalloc(sizeof(*k));

	k->by_text = map_new();
	list_init(&k->order);
	return k;
}

static void forget(struct unknown_keys *k, struct kid *one)
{
	list_unlink(&one->node);
	(void)map_del(k->by_text, one->text, one->len); /* it is in hand */
	free(one);
}

void unknown_keys_free(struct unknown_keys **k)
{
	if (!*k)
		return;
	LIST_FOREACH_SAFE(n, tmp, &(*k)->order)
		forget(*k, CONTAINER_OF(n, struct kid, node));
	map_free(&(*k)->by_text);
	free(*k);
	*k = NULL;
}

uint64_t unknown_keys_see(struct unknown_keys *k, const char *kid, uint64_t now_us)
{
	const size_t len = strlen(kid);
	struct kid *one = map_get(k->by_text, kid, len);

	if (one) {
		list_unlink(&one->node);
	} else {
		if (map_count(k->by_text) >= OAUTH_KIDS_MAX) {
			forget(k, CONTAINER_OF(k->order.next, struct kid, node));
			metric_inc(METRIC_oauth_kids_forgotten);
		}
		one = mem_alloc(sizeof(*one) + len);
		one->seen_us = now_us;
		one->len = len;
		memcpy(one->text, kid, len);
		(void)map_set(k->by_text, one->text, len, one); /* new */
	}
	list_push_back(&k->order, &one->node);
	return one->seen_us;
}

/* --- the keys of an issuer as they are now */

#define REFRESH_US 3600000000ull        /* an older set is fetched again while it is used */
#define FETCH_US 5000000ull             /* a fetch takes no longer: requests wait for it */
/* until the next try when we had no place for a fetch: its server was not asked */
#define BUSY_US 1000000ull
#define BACKOFF_MAX 4                   /* doublings of the interval behind failures */

struct keyset {
	const struct keyset_env *env;
	const struct conf_issuer *conf;
	struct oauth_server *server;    /* NULL: from a file */
	struct jwk_set *set;            /* NULL: none yet */
	uint64_t fetched_us;            /* when it was, monotonic */
	uint64_t asked_us;              /* when it was asked for */
	uint64_t begun_us;              /* when the last one was asked for, whatever came */
	uint64_t next_us;               /* no fetch before */
	unsigned failures;              /* since the last success */
	bool stale;                     /* to be fetched again, and used meanwhile */
	struct oauth_http *get;          /* under way */
	struct ev_timer *wake;          /* armed: somebody waits until a fetch may be made */
	struct unknown_keys *unknown;
};

static void on_wake(void *arg);

static int load_file(struct keyset *k, struct err *err)
{
	struct str text = STR_INIT;
	struct jwk_set *set = NULL;
	int rc = path_read(k->conf->jwks_file, JWKS_BYTES_MAX, &text, err);

	if (rc == 0)
		rc = jwk_set_parse(str_text(&text), text.len, &set, err);
	str_fini(&text);
	if (rc < 0)
		return err_wrap(err, "keys of issuer %s in %s", k->conf->issuer, k->conf->jwks_file);
	jwk_set_free(&k->set);
	k->set = set;
	return 0;
}

static void keyset_free(struct keyset **k);

static int keyset_new(const struct keyset_env *env, const struct conf_issuer *conf, struct keyset **ret,
		      struct err *err)
{
	struct keyset *k = mem_zalloc(sizeof(*k));
	int rc;

	k->env = env;
	k->conf = conf;
	k->wake = ev_timer_new(env->loop, on_wake, k);
	k->unknown = unknown_keys_new();
	rc = conf->jwks_file ? load_file(k, err) : oauth_server_new(conf, &k->server, err);
	if (rc < 0) {
		keyset_free(&k);
		return rc;
	}
	*ret = k;
	return 0;
}

static void keyset_free(struct keyset **k)
{
	if (!*k)
		return;
	oauth_http_cancel(&(*k)->get);
	oauth_server_drop(&(*k)->server);
	ev_timer_free(&(*k)->wake);
	unknown_keys_free(&(*k)->unknown);
	jwk_set_free(&(*k)->set);
	free(*k);
	*k = NULL;
}

int keyset_reload(struct keyset *k, struct err *err)
{
	if (k->conf->jwks_file)
		return load_file(k, err);
	k->next_us = 0;                 /* whoever asks for a reload wants the keys of now */
	k->failures = 0;
	k->stale = true;
	return 0;
}

/* Keys that were there and are not any more are known for none. */
static void note_withdrawn(struct keyset *k, const struct jwk_set *now)
{
	for (size_t i = 0; k->set && i < jwk_set_count(k->set); i++) {
		const char *kid = jwk_set_kid(k->set, i);

		if (kid && !jwk_find(now, kid))
			(void)unknown_keys_see(k->unknown, kid, 0);
	}
}

static void on_got(void *arg, int rc, const struct str *body, const struct err *why)
{
	struct keyset *k = arg;
	uint64_t now = ev_now_us(k->env->loop), interval = k->env->interval_s * 1000000ull;
	struct jwk_set *set = NULL;
	struct err err;

	k->get = NULL;
	if (rc == 0)
		rc = jwk_set_parse(str_text(body), body->len, &set, &err);
	else
		err = *why;
	if (rc == 0) {
		note_withdrawn(k, set);
		jwk_set_free(&k->set);
		k->set = set;
		k->asked_us = k->begun_us;
		k->fetched_us = now;
		k->failures = 0;
		k->stale = false;
		log_info(NULL, "keys of an issuer fetched issuer=%s keys=%zu", k->conf->issuer, jwk_set_count(set));
	} else {
		k->failures += k->failures < BACKOFF_MAX;
		interval <<= k->failures - 1;
		metric_inc(METRIC_oauth_key_fetches_failed);
		log_warn(NULL, "keys of an issuer could not be fetched issuer=%s why=\"%s\" again_s=%llu",
			 k->conf->issuer, err.msg,
			 (unsigned long long)(interval / 1000000));
	}
	k->next_us = now + interval;
	k->env->fetched(k->env->arg, k->conf, rc == 0);
}

/* Is one under way now? */
static bool fetch(struct keyset *k, uint64_t now)
{
	const struct oauth_http_req req = { .url = k->conf->jwks_uri, .deadline_us = now + FETCH_US };
	struct err err;

	if (k->get)
		return true;
	if (now < k->next_us)
		return false;
	metric_inc(METRIC_oauth_key_fetches);
	if (oauth_http_start(k->env->fetcher, k->server, &req, on_got, k, &k->get, &err) == 0) {
		k->begun_us = now;
		ev_timer_stop(k->wake);
		return true;
	}
	k->next_us = now + (err.code == ERR_BUSY ? BUSY_US : k->env->interval_s * 1000000ull);
	metric_inc(METRIC_oauth_key_fetches_failed);
	log_warn(NULL, "keys of an issuer could not be fetched issuer=%s why=\"%s\"", k->conf->issuer, err.msg);
	return false;
}

/* The fetch that some wait for; when there is no place for it they are told so. */
static void on_wake(void *arg)
{
	struct keyset *k = arg;

	if (!fetch(k, ev_now_us(k->env->loop)))
		k->env->fetched(k->env->arg, k->conf, false);
}

/* A key that is not in the set: perhaps it is newer.  Whatever is made up, there is one fetch in an interval (SEC
 * S-409); only one that began behind the first sight of the kid tells that there is no such key.  Who guesses a kid
 * before its issuer uses it can have it refused until the next fetch, no longer. */
static enum keyset_find look_behind(struct keyset *k, const char *kid, bool may_wait, uint64_t now)
{
	const uint64_t seen = unknown_keys_see(k->unknown, kid ? kid : "", now);

	if (may_wait && fetch(k, now))
		return KEYSET_WAIT;
	if (seen <= k->asked_us)
		return KEYSET_UNKNOWN;
	if (!may_wait || k->next_us - now > OAUTH_NEAR_MS * 1000ull)
		return KEYSET_NONE;
	if (!ev_timer_armed(k->wake))
		ev_timer_start(k->wake, k->next_us - now);
	return KEYSET_WAIT;
}

enum keyset_find keyset_find(struct keyset *k, const char *kid, bool may_wait, const struct jwk **ret)
{
	uint64_t now = ev_now_us(k->env->loop);
	bool from_file = k->conf->jwks_file != NULL, under_way = false;

	if (!from_file && (!k->set || k->stale || now - k->fetched_us >= REFRESH_US))
		under_way = fetch(k, now);
	if (!k->set || (!from_file && now - k->fetched_us >= k->env->max_age_s * 1000000ull)) {
		if (under_way && may_wait)
			(void)unknown_keys_see(k->unknown, kid ? kid : "", now);   /* this fetch will tell */
		return under_way && may_wait ? KEYSET_WAIT : KEYSET_NONE;
	}
	*ret = jwk_find(k->set, kid);
	if (*ret)
		return KEYSET_FOUND;
	return from_file ? KEYSET_UNKNOWN : look_behind(k, kid, may_wait, now);
}

uint32_t keyset_retry_ms(const struct keyset *k)
{
	uint64_t now = ev_now_us(k->env->loop);

	return k->next_us > now ? (uint32_t)((k->next_us - now) / 1000 + 1) : 1000;
}

/* --- One issuer as the configuration has it */

/* Where its keys are, or who is asked, and the words of its scopes. */

/* The union of all words must be a set, too: a token may have each of them. */
static int read_words(struct oauth_issuer *s, struct err *err)
{
	struct str all = STR_INIT;
	struct scopes *set = NULL;
	int rc = 0;

	s->words = mem_calloc(s->conf->nwords, sizeof(*s->words));
	for (size_t i = 0; rc == 0 && i < s->conf->nwords; i++) {
		const struct conf_word *w = &s->conf->words[i];
		struct str text = STR_INIT;

		for (size_t k = 0; k < w->nscopes; k++)
			str_printf(&text, "%s%s", k ? " " : "", w->scopes[k]);
		str_printf(&all, "%s%s", i ? " " : "", text.p);
		s->words[i].word = w->word;
		s->nwords++;
		rc = scopes_parse(text.p, text.len, &s->words[i].scopes, err);
		if (rc < 0)
			rc = err_wrap(err, "word %s", w->word);
		str_fini(&text);
	}
	if (rc == 0)
		rc = scopes_parse(str_text(&all), all.len, &set, err);
	scopes_unref(&set);
	str_fini(&all);
	return rc;
}

int issuer_init(struct oauth_issuer *s, struct oauth *o, const struct conf_issuer *conf, struct err *err)
{
	int rc;

	s->o = o;
	s->conf = conf;
	list_init(&s->waiting);
	rc = read_words(s, err);
	if (rc == 0)
		rc = conf->ask_uri ? oauth_server_new(conf, &s->server, err)
			: keyset_new(&o->keyset_env, conf, &s->keys, err);
	return rc < 0 ? err_wrap(err, "oauth.issuers: %s", conf->issuer) : 0;
}

void issuer_fini(struct oauth_issuer *s)
{
	for (size_t i = 0; i < s->nwords; i++)
		scopes_unref(&s->words[i].scopes);
	free(s->words);
	keyset_free(&s->keys);
	oauth_server_drop(&s->server);
}
