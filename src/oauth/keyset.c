/* The keys of one issuer as they are now: from a file, or fetched, and then seldom (SEC S-409).  What is there stays until
 * the next set has been read whole; what could not be fetched for too long is not used any more. */

#include "config.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"

#include "oauth_int.h"

#define REFRESH_US 3600000000ull        /* an older set is fetched again while it is used */
#define FETCH_US 5000000ull             /* a fetch takes no longer: requests wait for it */
#define BUSY_US 1000000ull              /* until the next try when we had no place for a fetch: its server was not asked */
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
	struct oauth_get *get;          /* under way */
	struct ev_timer *wake;          /* armed: somebody waits until a fetch may be made */
	struct kids *kids;
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

int keyset_new(const struct keyset_env *env, const struct conf_issuer *conf, struct keyset **ret, struct err *err)
{
	struct keyset *k = mem_zalloc(sizeof *k);
	int rc;

	k->env = env;
	k->conf = conf;
	k->wake = ev_timer_new(env->loop, on_wake, k);
	k->kids = kids_new();
	rc = conf->jwks_file ? load_file(k, err) : oauth_server_new(conf, &k->server, err);
	if (rc < 0) {
		keyset_free(&k);
		return rc;
	}
	*ret = k;
	return 0;
}

void keyset_free(struct keyset **k)
{
	if (!*k)
		return;
	oauth_get_cancel(&(*k)->get);
	oauth_server_drop(&(*k)->server);
	ev_timer_free(&(*k)->wake);
	kids_free(&(*k)->kids);
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
			(void)kids_see(k->kids, kid, 0);
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
		log_warn(NULL, "keys of an issuer could not be fetched issuer=%s why=\"%s\" again_s=%llu", k->conf->issuer, err.msg,
			 (unsigned long long)(interval / 1000000));
	}
	k->next_us = now + interval;
	k->env->fetched(k->env->arg, k->conf, rc == 0);
}

/* Is one under way now? */
static bool fetch(struct keyset *k, uint64_t now)
{
	const struct oauth_get_req req = { .url = k->conf->jwks_uri, .deadline_us = now + FETCH_US };
	struct err err;

	if (k->get)
		return true;
	if (now < k->next_us)
		return false;
	metric_inc(METRIC_oauth_key_fetches);
	if (oauth_get_start(k->env->fetcher, k->server, &req, on_got, k, &k->get, &err) == 0) {
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

/* A key that is not in the set: perhaps it is newer.  Whatever is made up, there is one fetch in an interval (SEC S-409);
 * only one that began behind the first sight of the kid tells that there is no such key.  Who guesses a kid before its
 * issuer uses it can have it refused until the next fetch, no longer. */
static enum keyset_find look_behind(struct keyset *k, const char *kid, bool may_wait, uint64_t now)
{
	const uint64_t seen = kids_see(k->kids, kid ? kid : "", now);

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
			(void)kids_see(k->kids, kid ? kid : "", now);   /* this fetch will tell */
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
