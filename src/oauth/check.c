/* The check of one token, on the loop's thread: known already, or verified by its issuer's keys, or vouched for by its
 * issuer (introspection, RFC 7662).  What nobody can tell at once waits, a bounded number of checks for a bounded time.
 * Here too are the tokens found good and what claims mean: tenant, principal, scopes. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/path.h"
#include "base/text.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "json/json.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"

#include "oauth_int.h"

struct question {                       /* texts borrowed */
	const char *token; size_t len;
	const char *resource;
	struct cred_source source;
	uint8_t key[DIGEST_SIZE];       /* in the cache */
};
struct oauth_check {                    /* one that waits */
	struct list node;               /* of its issuer */
	struct oauth_issuer *issuer;
	struct question q;              /* of the texts below */
	char *token, *resource, *from;
	oauth_done_fn *done;
	void *arg;
	struct oauth_http *get;          /* about this token */
};
/* The claims of a token whose origin is sure.  0: *ret counted. */
static int check_claims(struct oauth_issuer *s, const struct question *q, const json_t *claims, struct oauth_pass *ret,
			struct err *err) MUST_CHECK;

/* --- Tokens that were found good */

/* By digest, never the token itself; the one that was not used for longest makes room. */

struct entry {
	struct list node;               /* least recently used first */
	uint8_t key[DIGEST_SIZE];
	struct oauth_pass pass;         /* who is counted */
	uint64_t until_us;              /* monotonic; then it is only known to have been good */
};

struct oauth_cache {
	struct map *by_key;
	struct list order;
	size_t max;
};

struct oauth_cache *oauth_cache_new(size_t max)
{
	struct oauth_cache *c = mem_zalloc(sizeof(*c));

	c->by_key = map_new();
	c->max = max;
	list_init(&c->order);
	return c;
}

static void forget(struct oauth_cache *c, struct entry *e)
{
	list_unlink(&e->node);
	(void)map_del(c->by_key, e->key, sizeof(e->key));        /* e is in hand */
	principal_unref(&e->pass.who);
	free(e);
	metric_dec(METRIC_oauth_tokens_cached);
}

void oauth_cache_free(struct oauth_cache **c)
{
	if (!*c)
		return;
	LIST_FOREACH_SAFE(n, tmp, &(*c)->order)
		forget(*c, CONTAINER_OF(n, struct entry, node));
	map_free(&(*c)->by_key);
	free(*c);
	*c = NULL;
}

void oauth_cache_expire(struct oauth_cache *c, const struct oauth_issuer *issuer)
{
	LIST_FOREACH_SAFE(n, tmp, &c->order) {
		struct entry *e = CONTAINER_OF(n, struct entry, node);

		if (!issuer || e->pass.issuer == issuer)
			e->until_us = 0;
	}
}

void oauth_cache_key(const char *token, size_t len, const char *resource, uint8_t ret[DIGEST_SIZE])
{
	struct digest *d = digest_new();

	digest_put(d, resource, strlen(resource) + 1);  /* a token is good for one of our URLs, not for another */
	digest_put(d, token, len);
	digest_end(&d, ret);
}

bool oauth_cache_get(struct oauth_cache *c, const uint8_t key[DIGEST_SIZE], uint64_t now_us, struct oauth_pass *ret)
{
	struct entry *e = map_get(c->by_key, key, DIGEST_SIZE);

	if (!e || e->until_us <= now_us)
		return false;
	list_unlink(&e->node);
	list_push_back(&c->order, &e->node);
	*ret = e->pass;
	return true;
}

bool oauth_cache_put(struct oauth_cache *c, const uint8_t key[DIGEST_SIZE], const struct oauth_pass *pass,
		     uint64_t until_us)
{
	struct entry *e = map_get(c->by_key, key, DIGEST_SIZE);
	bool known = e != NULL;

	if (known)
		forget(c, e);
	if (map_count(c->by_key) >= c->max) {
		forget(c, CONTAINER_OF(c->order.next, struct entry, node));
		metric_inc(METRIC_oauth_tokens_evicted);
	}
	e = mem_zalloc(sizeof(*e));
	memcpy(e->key, key, sizeof(e->key));
	e->pass = *pass;
	principal_ref(pass->who);
	e->until_us = until_us;
	(void)map_set(c->by_key, e->key, sizeof(e->key), e);     /* new */
	list_push_back(&c->order, &e->node);
	metric_inc(METRIC_oauth_tokens_cached);
	return !known;
}

static void oauth_cache_del(struct oauth_cache *c, const uint8_t key[DIGEST_SIZE])
{
	struct entry *e = map_get(c->by_key, key, DIGEST_SIZE);

	if (e)
		forget(c, e);
}

/* --- What the claims of a verified token mean here */

/* Tenant, principal, scopes, by the tables of the configuration. */

/* The name that a claim stands for; NULL: none. */
static const char *name_of(const struct conf_claim *claim, const json_t *claims)
{
	const char *value;

	if (claim->fixed)
		return claim->fixed;
	value = jwt_text(claims, claim->claim);         /* two values are a list, and no text (SEC S-408) */
	if (!value || claim->nvalues == 0)
		return value;
	for (size_t i = 0; i < claim->nvalues; i++) {
		if (strcmp(claim->values[i].value, value) == 0)
			return claim->values[i].name;
	}
	return NULL;
}

/* A subject of its own: no row of a principal has a name like this, and no two issuers share one. */
static void own_subject(const char *issuer, const char *sub, struct oauth_identity *ret)
{
	uint8_t digest[DIGEST_SIZE];
	char hex[2 * DIGEST_SIZE + 1];
	int n = snprintf(ret->own, sizeof(ret->own), "%s %s", issuer, sub);

	if (n > 0 && (size_t)n < sizeof(ret->own))
		return;
	digest_sha256(sub, strlen(sub), digest);
	text_hex(digest, sizeof(digest), hex);
	digest_sha256(issuer, strlen(issuer), digest);
	text_hex(digest, sizeof(digest), ret->own);
	(void)snprintf(ret->own + 2 * DIGEST_SIZE, sizeof(ret->own) - 2 * DIGEST_SIZE, " %s", hex);      /* fits */
}

/* The scopes of one word, appended; a word that nobody knows gives nothing (SEC S-407). */
static void put_word(const struct oauth_issuer *s, const char *p, size_t len, struct str *out)
{
	for (size_t i = 0; i < s->nwords; i++) {
		if (!text_eq(p, len, s->words[i].word))
			continue;
		str_puts(out, out->len > 0 ? " " : "");
		scopes_print(s->words[i].scopes, out);
	}
}

/* `scope` (RFC 9068 2.2.3), or `scp` where an issuer calls it so: words with blanks between them, or a list of them. */
static void put_words(const struct oauth_issuer *s, const json_t *claims, struct str *out)
{
	const json_t *v = json_object_get(claims, "scope"), *one;
	size_t i;

	if (!v)
		v = json_object_get(claims, "scp");
	json_array_foreach(v, i, one) {
		if (json_is_string(one))
			put_word(s, json_string_value(one), json_string_length(one), out);
	}
	for (const char *p = json_is_string(v) ? json_string_value(v) : ""; *p;) {
		size_t n = strcspn(p, " ");

		put_word(s, p, n, out);
		p += n + (p[n] == ' ');
	}
}

/* Who is it here?  ERR_DENIED, and why. */
static int oauth_identify(const struct oauth_issuer *s, const json_t *claims, struct oauth_identity *ret,
			  enum cred_refusal *ret_why, struct err *err)
{
	const struct conf_claim *principal = &s->conf->principal;
	const char *tenant = name_of(&s->conf->tenant, claims), *sub = jwt_text(claims, "sub");
	struct str words = STR_INIT;
	int rc;

	*ret_why = CRED_UNMAPPED;
	if (!tenant)
		return err_set(err, ERR_DENIED, "", "the claim of the tenant names none");
	ret->known_only = principal->fixed || principal->claim;
	ret->subject = ret->known_only ? name_of(principal, claims) : ret->own;
	if (!ret->subject || !sub)
		return err_set(err, ERR_DENIED, "", "the claim of the principal names none");
	own_subject(s->conf->issuer, sub, ret);
	put_words(s, claims, &words);
	rc = scopes_parse(str_text(&words), words.len, &ret->scopes, err);
	str_fini(&words);
	if (rc < 0)
		return err_set(err, ERR_DENIED, "", "too many scopes");
	ret->tenant = tenant;
	return 0;
}

/* --- Opaque tokens */

/* Their issuer is asked what they are (RFC 7662).  Its answer stands for the token's claims, and must say as much as
 * a token would. */

#define SECRET_FILE_MAX 4096
#define RETRY_MS 1000

/* b64token of RFC 6750 2.1, of a length that fits into a request. */
static bool introspect_takes(const char *token, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char ch = token[i];

		if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
		      strchr("-._~+/=", ch)) || ch == '\0')
			return false;
	}
	return len > 0 && len <= JWT_BYTES_MAX;
}

/* application/x-www-form-urlencoded */
static void put_encoded(struct str *out, const char *p, size_t len)
{
	static const char hex[] = "0123456789ABCDEF";

	for (size_t i = 0; i < len; i++) {
		unsigned char ch = (unsigned char)p[i];

		if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
		    (ch && strchr("-._~", ch))) {
			str_putc(out, (char)ch);
			continue;
		}
		str_putc(out, '%');
		str_putc(out, hex[ch >> 4]);
		str_putc(out, hex[ch & 15]);
	}
}

/* The secret with which we ask, as it stands in the store or in a file without its line end.  Appended, encoded. */
static int put_secret(const struct oauth_issuer *s, struct str *out, struct err *err)
{
	struct str file = STR_SECRET_INIT;
	char *value = NULL;
	size_t len = 0;
	int rc;

	if (s->conf->ask_secret) {
		rc = s->o->env.secret(s->o->env.secret_arg, s->conf->ask_secret, &value, &len, err);
		if (rc == 0)
			put_encoded(out, value, len);
		secret_free(value);
		return rc;
	}
	rc = path_read_as(s->conf->ask_secret_file, PATH_SECRET, SECRET_FILE_MAX, &file, err);
	if (rc == 0)
		put_encoded(out, str_text(&file), strcspn(str_text(&file), "\r\n"));
	str_wipe(&file);
	return rc;
}

/* HTTP Basic, both halves encoded first (RFC 6749 2.3.1). */
static int make_authorization(const struct oauth_issuer *s, struct str *out, struct err *err)
{
	struct str pair = STR_SECRET_INIT;
	char *text;
	int rc;

	put_encoded(&pair, s->conf->ask_client, strlen(s->conf->ask_client));
	str_putc(&pair, ':');
	rc = put_secret(s, &pair, err);
	if (rc == 0) {
		text = mem_alloc(text_base64_size(pair.len));
		text_base64(pair.p, pair.len, text);
		str_puts(out, "Basic ");
		str_puts(out, text);
		secret_wipe(text, strlen(text));
		free(text);
	}
	str_wipe(&pair);
	return rc;
}

/* What RFC 7662 leaves out and a token would say: whose it is, that a client is its own subject, and an end: it is
 * asked about again then. */
static void complete(const struct oauth_issuer *s, json_t *claims)
{
	double now_s = (double)(clock_wall_us() / 1000000), most = now_s + OAUTH_CACHE_MS / 1000;
	const json_t *exp = json_object_get(claims, "exp");
	const char *client = jwt_client(claims);

	if (!json_object_get(claims, "iss"))
		(void)json_object_set_new(claims, "iss", json_string(s->conf->issuer));
	if (!json_object_get(claims, "sub") && client)
		(void)json_object_set_new(claims, "sub", json_string(client));
	(void)json_object_del(claims, "iat");
	if (!exp || (json_is_number(exp) && jx_nearest(exp) > most))
		(void)json_object_set_new(claims, "exp", json_integer((json_int_t)most));
}

static int check_refuse(struct oauth *o, const struct question *q, enum cred_refusal why, const struct err *detail,
			struct err *err);

static int check_unavailable(struct oauth *o, const struct question *q, uint32_t retry_ms, struct err *err);

static int take_answer(struct oauth_check *c, const struct str *body, struct oauth_pass *ret, struct err *err)
{
	struct err detail;
	json_t *claims = NULL;
	int rc = jx_parse(str_text(body), body->len, &claims, &detail);

	if (rc < 0 || !json_is_object(claims)) {
		json_decref(claims);
		log_warn(NULL, "an issuer's answer about a token is no JSON object issuer=%s", c->issuer->conf->issuer);
		return check_unavailable(c->issuer->o, &c->q, RETRY_MS, err);
	}
	if (json_is_true(json_object_get(claims, "active"))) {
		complete(c->issuer, claims);
		rc = check_claims(c->issuer, &c->q, claims, ret, err);
	} else {
		(void)err_set(&detail, ERR_DENIED, "", "its issuer says that it is not active");
		rc = check_refuse(c->issuer->o, &c->q, CRED_INACTIVE, &detail, err);
	}
	json_decref(claims);
	return rc;
}

static void check_finish(struct oauth_check *c, int rc, const struct oauth_pass *pass, const struct err *err);

static void on_answer(void *arg, int rc, const struct str *body, const struct err *why)
{
	static struct log_site site;
	struct oauth_check *c = arg;
	struct oauth_pass pass = { 0 };
	struct err err = { 0 };

	c->get = NULL;
	if (rc == 0) {
		rc = take_answer(c, body, &pass, &err);
	} else {
		if (log_allow(&site))
			log_warn(NULL, "an issuer could not be asked about a token issuer=%s why=\"%s\"",
				 c->issuer->conf->issuer, why->msg);
		rc = check_unavailable(c->issuer->o, &c->q, RETRY_MS, &err);
	}
	check_finish(c, rc, &pass, &err);
}

/* Ask the issuer about the token; check_finish() follows. */
static int introspect_start(struct oauth_check *c, struct err *err)
{
	const struct oauth_issuer *s = c->issuer;
	struct str form = STR_SECRET_INIT, authorization = STR_SECRET_INIT;
	int rc = make_authorization(s, &authorization, err);

	str_puts(&form, "token_type_hint=access_token&token=");
	put_encoded(&form, c->token, c->q.len);
	if (rc == 0) {
		metric_inc(METRIC_oauth_introspections);
		rc = oauth_http_start(s->o->env.fetcher, s->server,
				      &(struct oauth_http_req){ s->conf->ask_uri, form.p, authorization.p,
				     ev_now_us(s->o->env.loop) + OAUTH_ASK_MS * 1000ull }, on_answer, c, &c->get, err);
	}
	if (rc < 0)
		log_warn(NULL, "an issuer could not be asked about a token issuer=%s why=\"%s\"", s->conf->issuer,
			 err->msg);
	str_wipe(&form);
	str_wipe(&authorization);
	return rc;
}

/* --- the check */

#define COMMITMENT_BYTES 16

/* --- the end of a check */

/* Recorded, and said in words that tell no more than who presented it knows anyway. */
static int check_refuse(struct oauth *o, const struct question *q, enum cred_refusal why, const struct err *detail,
			struct err *err)
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

static int check_unavailable(struct oauth *o, const struct question *q, uint32_t retry_ms, struct err *err)
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
static void commit(const struct oauth *o, const struct question *q, const json_t *claims,
		   char ret[2 * COMMITMENT_BYTES + 1])
{
	static const char label[] = "toolcrib/oauth/jti/1";
	const char *jti = jwt_text(claims, "jti");
	uint8_t hash[DIGEST_SIZE];

	digest_keyed(o->jti_key, label, sizeof(label), jti ? jti : q->token, jti ? strlen(jti) : q->len, hash);
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

static int check_claims(struct oauth_issuer *s, const struct question *q, const json_t *claims, struct oauth_pass *ret,
			struct err *err)
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
		return *ret_issuer && introspect_takes(q->token, q->len) ? 1
			: check_refuse(o, q, CRED_MALFORMED, &detail, err);
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
	oauth_http_cancel(&c->get);
	secret_wipe(c->token, c->q.len);
	free(c->token);
	free(c->resource);
	free(c->from);
	free(c);
}

/* Frees it and tells. */
static void check_finish(struct oauth_check *c, int rc, const struct oauth_pass *pass, const struct err *err)
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
	struct oauth_check *c = mem_zalloc(sizeof(*c));

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

int oauth_check(struct oauth *o, const struct oauth_ask *ask, oauth_done_fn *done, void *arg,
		struct oauth_pass *ret_pass, struct oauth_check **ret_check, struct err *err)
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
		rc = introspect_start(c, &detail);
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
	struct oauth *o = mem_zalloc(sizeof(*o));
	int rc = 0;

	o->env = *env;
	o->keyset_env = (struct keyset_env){ .loop = env->loop, .fetcher = env->fetcher,
		.interval_s = env->conf->oauth_jwks_interval_s, .max_age_s = env->conf->oauth_jwks_max_age_s,
		.fetched = on_fetched, .arg = o };
	o->cache = oauth_cache_new(OAUTH_CACHE_MAX);
	secret_derive(env->master, "toolcrib/oauth/jti", o->jti_key);
	o->issuers = mem_calloc(env->conf->nissuers + 1, sizeof(*o->issuers));
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
	secret_wipe(o->jti_key, sizeof(o->jti_key));
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
