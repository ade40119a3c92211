/* The check of one token: known already, or verified by its issuer's keys, or vouched for by its issuer.  What nobody can
 * tell at once waits, a bounded number of checks for a bounded time. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"

#include "check_int.h"

#define COMMITMENT_BYTES 16

/* --- the end of a check */

/* Recorded, and said in words that tell no more than who presented it knows anyway. */
int check_refuse(struct oauth *o, const struct question *q, enum cred_refusal why, const struct err *detail, struct err *err)
{
	static struct log_site site;
	const struct log_ctx ctx = { .peer = q->source.from };
	const char *text = "invalid token";

	if (log_allow(&site))
		log_info(&ctx, "token refused reason=%s why=\"%s\"", cred_refusal_name(why), detail->msg);
	cred_refused(o->env.tenants, &q->source, why);
	if (why == CRED_EXPIRED)
		text = "the token has expired";
	if (why == CRED_AUDIENCE)
		text = "the token is for another resource";
	if (why == CRED_SUSPENDED)
		text = detail->msg;
	return err_set(err, ERR_DENIED, "", "%s", text);
}

int check_unavailable(struct oauth *o, const struct question *q, uint32_t retry_ms, struct err *err)
{
	cred_refused(o->env.tenants, &q->source, CRED_UNAVAILABLE);
	(void)err_set(err, ERR_UNREACHABLE, "", "the issuer of the token cannot be asked now");
	if (err)
		err->retry_ms = retry_ms;
	return ERR_UNREACHABLE;
}

/* The tenant has too many subjects, and this one is new: no fault of the token. */
static int check_full(struct oauth *o, const struct question *q, const struct err *detail, struct err *err)
{
	static struct log_site site;
	const struct log_ctx ctx = { .peer = q->source.from };

	if (log_allow(&site))
		log_warn(&ctx, "token refused reason=full why=\"%s\" hint=\"%s\"", detail->msg, detail->hint);
	cred_refused(o->env.tenants, &q->source, CRED_FULL);
	if (err)
		*err = *detail;
	return detail->code;
}

/* Names a token in records without giving anything of it away. */
static void commit(const struct oauth *o, const struct question *q, const json_t *claims, char ret[2 * COMMITMENT_BYTES + 1])
{
	static const char label[] = "toolcrib/oauth/jti/1";
	const char *jti = jwt_text(claims, "jti");
	uint8_t hash[DIGEST_SIZE];

	digest_keyed(o->jti_key, label, sizeof label, jti ? jti : q->token, jti ? strlen(jti) : q->len, hash);
	text_hex(hash, COMMITMENT_BYTES, ret);
}

static void remember(struct oauth *o, const struct question *q, const struct oauth_pass *pass, const json_t *claims)
{
	char commitment[2 * COMMITMENT_BYTES + 1];
	uint64_t wall = clock_wall_us(), left = pass->who->expires_us > wall ? pass->who->expires_us - wall : 0;
	uint64_t most = OAUTH_CACHE_MS * 1000ull;

	if (!oauth_cache_put(o->cache, q->key, pass, ev_now_us(o->env.loop) + (left < most ? left : most)))
		return;                 /* verified again, and on record already */
	commit(o, q, claims, commitment);
	if (o->env.accepted)
		o->env.accepted(o->env.accepted_arg, &q->source, pass->who,
				&(struct oauth_seen){ pass->issuer->conf->issuer, jwt_client(claims), commitment });
}

static enum cred_refusal why_of(const struct principal *who)
{
	return who->expires_us <= clock_wall_us() ? CRED_EXPIRED : CRED_SUSPENDED;
}

int check_claims(struct oauth_issuer *s, const struct question *q, const json_t *claims, struct oauth_pass *ret, struct err *err)
{
	const struct jwt_expect want = { s->conf->issuer, q->resource, clock_wall_us() };
	struct principal_claims pc = { .authn = AUDIT_AUTHN_JWT };
	struct oauth_identity id = { 0 };
	struct oauth_pass pass = { .issuer = s };
	enum cred_refusal why;
	struct err detail;
	int rc = jwt_check_claims(claims, &want, &pc.expires_us, &why, &detail);

	if (rc == 0)
		rc = oauth_identify(s, claims, &id, &why, &detail);
	if (rc == 0) {
		pc.tenant = id.tenant;
		pc.subject = id.subject;
		pc.scopes = id.scopes;
		pc.known_only = id.known_only;
		rc = principal_from_claims(s->o->env.tenants, &pc, &pass.who, &detail);
		why = rc == ERR_DENIED ? CRED_SUSPENDED : CRED_UNMAPPED;
	}
	scopes_unref(&id.scopes);
	if (rc == ERR_BUSY)
		return check_full(s->o, q, &detail, err);
	if (rc < 0)
		return check_refuse(s->o, q, why, &detail, err);
	remember(s->o, q, &pass, claims);
	*ret = pass;
	return 0;
}

/* --- signed tokens */

static struct oauth_issuer *issuer_named(struct oauth *o, const char *iss)
{
	for (size_t i = 0; iss && i < o->nissuers; i++) {
		if (strcmp(o->issuers[i].conf->issuer, iss) == 0)
			return &o->issuers[i];
	}
	return NULL;
}

/* 1: wait for keys of *ret_issuer. */
static int check_signed(struct oauth_issuer *s, const struct question *q, const struct jwt *t, bool may_wait,
			struct oauth_pass *ret, struct err *err)
{
	const struct jwk *key = NULL;
	struct err detail;

	switch (keyset_find(s->keys, t->kid, may_wait, &key)) {
	case KEYSET_WAIT:
		return 1;
	case KEYSET_NONE:
		return check_unavailable(s->o, q, keyset_retry_ms(s->keys), err);
	case KEYSET_UNKNOWN:
		(void)err_set(&detail, ERR_DENIED, "", "no key of the issuer has this kid");
		return check_refuse(s->o, q, CRED_UNKNOWN, &detail, err);
	case KEYSET_FOUND:
		break;
	}
	if (jwt_verify(t, key, &detail) < 0)
		return check_refuse(s->o, q, CRED_WRONG, &detail, err);
	return check_claims(s, q, t->claims, ret, err);
}

/* 1: *ret_issuer must be asked: for its keys, or about the token. */
static int judge(struct oauth *o, const struct question *q, bool may_wait, struct oauth_issuer **ret_issuer,
		 struct oauth_pass *ret, struct err *err)
{
	struct jwt *t = NULL;
	struct err detail;
	int rc;

	*ret_issuer = NULL;
	if (q->len > JWT_BYTES_MAX) {
		(void)err_set(&detail, ERR_DENIED, "", "longer than %d bytes", JWT_BYTES_MAX);
		return check_refuse(o, q, CRED_MALFORMED, &detail, err);
	}
	if (!jwt_looks(q->token, q->len)) {
		for (size_t i = 0; i < o->nissuers; i++)        /* at most one is asked (conf) */
			*ret_issuer = o->issuers[i].server ? &o->issuers[i] : *ret_issuer;
		(void)err_set(&detail, ERR_DENIED, "", "neither a key nor a JWT");
		return *ret_issuer && ask_takes(q->token, q->len) ? 1 : check_refuse(o, q, CRED_MALFORMED, &detail, err);
	}
	rc = jwt_parse(q->token, q->len, &t, &detail);
	if (rc < 0)
		return check_refuse(o, q, CRED_MALFORMED, &detail, err);
	*ret_issuer = issuer_named(o, jwt_text(t->claims, "iss"));
	if (!*ret_issuer) {
		(void)err_set(&detail, ERR_DENIED, "", "iss is no issuer of oauth.issuers");
		rc = check_refuse(o, q, CRED_UNKNOWN, &detail, err);
	} else {
		rc = (*ret_issuer)->server ? 1 : check_signed(*ret_issuer, q, t, may_wait, ret, err);
	}
	jwt_free(&t);
	return rc;
}

/* --- checks that wait */

/* No issuer's silence takes the places of another one (SEC S-804), nor those of requests that have no part in this. */
static int take_place(struct oauth_issuer *s)
{
	const bool own = s->nwaiting < s->o->share;

	if (s->server && s->nwaiting >= OAUTH_ASKING_MAX) {
		metric_inc(METRIC_oauth_introspections_refused);
		return ERR_BUSY;
	}
	if (!own && s->o->ncommon >= OAUTH_WAITING_MAX - s->o->share * s->o->nissuers) {
		metric_inc(METRIC_oauth_checks_refused);
		return ERR_BUSY;
	}
	s->nwaiting++;
	s->o->ncommon += !own;
	metric_inc(METRIC_oauth_checks_waiting);
	return 0;
}

static void leave_place(struct oauth_issuer *s)
{
	s->nwaiting--;
	s->o->ncommon -= s->nwaiting >= s->o->share;
	metric_dec(METRIC_oauth_checks_waiting);
}

static void drop(struct oauth_check *c)
{
	list_unlink(&c->node);
	leave_place(c->issuer);
	oauth_get_cancel(&c->get);
	secret_wipe(c->token, c->q.len);
	free(c->token);
	free(c->resource);
	free(c->from);
	free(c);
}

void check_finish(struct oauth_check *c, int rc, const struct oauth_pass *pass, const struct err *err)
{
	oauth_done_fn *done = c->done;
	void *arg = c->arg;

	drop(c);
	done(arg, rc, pass, err);
}

void oauth_check_cancel(struct oauth_check **c)
{
	if (*c)
		drop(*c);
	*c = NULL;
}

/* It has its place. */
static struct oauth_check *check_new(struct oauth_issuer *s, const struct question *q, oauth_done_fn *done, void *arg)
{
	struct oauth_check *c = mem_zalloc(sizeof *c);

	c->issuer = s;
	c->q = *q;
	c->q.token = c->token = mem_strndup(q->token, q->len);
	c->q.resource = c->resource = mem_strdup(q->resource);
	c->q.source.from = c->from = mem_strdup(q->source.from);
	c->done = done;
	c->arg = arg;
	list_push_back(&s->waiting, &c->node);
	return c;
}

/* A fetch of keys is over: with new keys or not, now everybody gets an answer. */
static void on_fetched(void *arg, const struct conf_issuer *conf, bool fresh)
{
	struct oauth *o = arg;
	struct oauth_issuer *s = issuer_named(o, conf->issuer), *again;
	struct list waiting;

	if (fresh)
		oauth_cache_expire(o->cache, s);        /* a key may be gone */
	list_init(&waiting);
	while (!list_empty(&s->waiting)) {
		struct list *n = s->waiting.next;

		list_unlink(n);
		list_push_back(&waiting, n);
	}
	while (!list_empty(&waiting)) {
		struct oauth_check *c = CONTAINER_OF(waiting.next, struct oauth_check, node);
		struct oauth_pass pass = { 0 };
		struct err err = { 0 };
		int rc = judge(o, &c->q, false, &again, &pass, &err);

		check_finish(c, rc, &pass, &err);
	}
}

int oauth_check(struct oauth *o, const struct oauth_ask *ask, oauth_done_fn *done, void *arg, struct oauth_pass *ret_pass,
		struct oauth_check **ret_check, struct err *err)
{
	struct question q = { .token = ask->token, .len = ask->len, .resource = ask->resource, .source = *ask->source };
	struct oauth_issuer *s = NULL;
	struct oauth_pass known;
	struct oauth_check *c;
	struct err detail;
	int rc;

	oauth_cache_key(q.token, q.len, q.resource, q.key);
	if (oauth_cache_get(o->cache, q.key, ev_now_us(o->env.loop), &known)) {
		metric_inc(METRIC_oauth_cache_hits);
		rc = principal_check(o->env.tenants, known.who, &detail);
		if (rc == 0) {
			principal_ref(known.who);
			*ret_pass = known;
			return 0;
		}
		rc = check_refuse(o, &q, why_of(known.who), &detail, err);
		oauth_cache_del(o->cache, q.key);
		return rc;
	}
	rc = judge(o, &q, true, &s, ret_pass, err);
	if (rc <= 0)
		return rc;
	if (take_place(s) < 0)
		return check_unavailable(o, &q, 1000, err);
	c = check_new(s, &q, done, arg);
	if (s->server) {
		rc = ask_start(c, &detail);
		if (rc < 0) {
			drop(c);
			return check_unavailable(o, &q, detail.retry_ms ? detail.retry_ms : 1000, err);
		}
	}
	*ret_check = c;
	return 1;
}

/* --- all together */

int oauth_open(const struct oauth_env *env, struct oauth **ret, struct err *err)
{
	struct oauth *o = mem_zalloc(sizeof *o);
	int rc = 0;

	o->env = *env;
	o->keyset_env = (struct keyset_env){ .loop = env->loop, .fetcher = env->fetcher,
		.interval_s = env->conf->oauth_jwks_interval_s, .max_age_s = env->conf->oauth_jwks_max_age_s,
		.fetched = on_fetched, .arg = o };
	o->cache = oauth_cache_new(OAUTH_CACHE_MAX);
	secret_derive(env->master, "toolcrib/oauth/jti", o->jti_key);
	o->issuers = mem_calloc(env->conf->nissuers + 1, sizeof *o->issuers);
	o->share = env->conf->nissuers ? OAUTH_WAITING_MAX / 2 / env->conf->nissuers : 0;
	for (size_t i = 0; rc == 0 && i < env->conf->nissuers; i++)
		rc = issuer_init(&o->issuers[o->nissuers++], o, &env->conf->issuers[i], err);
	if (rc < 0) {
		oauth_close(&o);
		return rc;
	}
	*ret = o;
	return 0;
}

void oauth_close(struct oauth **op)
{
	struct oauth *o = *op;

	if (!o)
		return;
	for (size_t i = 0; i < o->nissuers; i++) {
		LIST_FOREACH_SAFE(n, tmp, &o->issuers[i].waiting)
			drop(CONTAINER_OF(n, struct oauth_check, node));
		issuer_fini(&o->issuers[i]);
	}
	free(o->issuers);
	oauth_cache_free(&o->cache);
	secret_wipe(o->jti_key, sizeof o->jti_key);
	free(o);
	*op = NULL;
}

void oauth_reload(struct oauth *o)
{
	struct err err;

	oauth_cache_expire(o->cache, NULL);
	for (size_t i = 0; i < o->nissuers; i++) {
		if (o->issuers[i].keys && keyset_reload(o->issuers[i].keys, &err) < 0)
			log_err(NULL, "keys of an issuer stay as they were where=%s why=\"%s\"", err.where, err.msg);
	}
}

bool oauth_has_issuers(const struct oauth *o)
{
	return o && o->nissuers > 0;
}
