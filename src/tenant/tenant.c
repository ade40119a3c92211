/* Tenants in memory: their principals, keys, limits and levels as the loop and the writer see them.  Rows become
 * images, whoever shows a key or a token becomes a principal, keys whose life is over get a record, and the last use of
 * a key goes back to its row.  Loop thread, but what is said to run in the writer's transaction. */

#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/rows.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "db/db.h"
#include "tenant/arg_rule.h"
#include "tenant/cidr.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"
#include "tenant/tenant_rows.h"

#include "tenant_int.h"

/* --- expiry: keys whose life is over get a record each, soon after (AUDIT 1204) */

struct expired { int64_t tenant_id, id; char accessor[16], pseudonym[32]; };

int tenant_expired_find(struct db *db, bool *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_KEY_EXPIRED);
	int rc;

	db_bind_i64(st, 1, (int64_t)clock_wall_us());
	db_bind_i64(st, 2, 1);
	rc = db_step(st, err);
	db_stmt_put(&st);
	*ret = rc == 1;
	return rc < 0 ? rc : 0;
}

int tenant_expiring_count(struct db *db, uint64_t ret[TENANT_EXPIRING], struct err *err)
{
	static const int64_t days[TENANT_EXPIRING] = { 1, 7, 14 };
	const int64_t now_us = (int64_t)clock_wall_us();
	struct db_stmt *st = db_stmt_get(db, SQL_KEY_EXPIRING);
	int rc;

	db_bind_i64(st, 1, now_us);
	for (unsigned i = 0; i < TENANT_EXPIRING; i++)
		db_bind_i64(st, i + 2, now_us + days[i] * 86400000000);
	rc = db_step(st, err);
	for (unsigned i = 0; i < TENANT_EXPIRING && rc == 1; i++)
		ret[i] = (uint64_t)db_col_i64(st, i);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int load(struct db *db, struct expired *ret, size_t *ret_n, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_KEY_EXPIRED);
	size_t n = 0;
	int rc;

	db_bind_i64(st, 1, (int64_t)clock_wall_us());
	db_bind_i64(st, 2, TENANT_EXPIRED_MAX);
	while ((rc = db_step(st, err)) == 1 && n < TENANT_EXPIRED_MAX) {
		struct expired *e = &ret[n++];

		e->tenant_id = db_col_i64(st, 0);
		e->id = db_col_i64(st, 1);
		/* 12 characters */
		(void)snprintf(e->accessor, sizeof(e->accessor), "%s", db_col_text(st, 2, NULL));
		/* as the principal's */
		(void)snprintf(e->pseudonym, sizeof(e->pseudonym), "%s", db_col_text(st, 3, NULL));
	}
	db_stmt_put(&st);
	*ret_n = n;
	return rc < 0 ? rc : 0;
}

static int tell(struct db *db, struct audit_logs *logs, const struct expired *e, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_KEY_SET_EXPIRED);
	struct audit_event ev;
	char obj[32];
	int rc;

	db_bind_i64(st, 1, e->tenant_id);
	db_bind_i64(st, 2, e->id);
	db_bind_i64(st, 3, (int64_t)clock_wall_us());
	rc = db_run(&st, err);
	if (rc < 0)
		return rc;
	(void)snprintf(obj, sizeof(obj), "cred/%s", e->accessor);
	audit_event_init(&ev, AUDIT_CRED_EXPIRE, e->tenant_id);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.cred = e->accessor;
	ev.prn = e->pseudonym;
	ev.obj = obj;
	return audit_append_rows(logs, db, &ev, AUDIT_ROW_CRED, NULL, err);
}

int tenant_expired_write(struct db *db, struct audit_logs *logs, bool *ret_more, struct err *err)
{
	struct expired expired[TENANT_EXPIRED_MAX];
	size_t n = 0;
	int rc = load(db, expired, &n, err);

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = tell(db, logs, &expired[i], err);
	*ret_more = n == TENANT_EXPIRED_MAX;
	return rc;
}

/* --- subjects of tokens without a row */

/* As many of a tenant as are remembered.  Each stands in records by a name of its own, which stays in the store for as
 * long as they do: so there is an end to how many a tenant's issuer can bring in a day.  When there are too many the
 * new ones are refused, never those who have come of late. */

struct subject {
	struct list node;               /* subjects.order */
	int64_t id;                     /* negative, as principal_id */
	uint64_t last_us;               /* when it came last; monotonic */
};

struct tenant_subjects {
	struct map *by_id;              /* struct subject */
	struct list order;              /* who has not come for longest first */
};

static struct tenant_subjects *subjects_of(struct tenants *t, int64_t tenant_id)
{
	struct tenant_subjects *s = map_get_u64(t->subjects, (uint64_t)tenant_id);

	if (s)
		return s;
	s = mem_zalloc(sizeof(*s));
	s->by_id = map_new();
	list_init(&s->order);
	(void)map_set_u64(t->subjects, (uint64_t)tenant_id, s); /* there was none */
	return s;
}

static void forget(struct tenant_subjects *s, struct subject *one)
{
	list_unlink(&one->node);
	(void)map_del_u64(s->by_id, (uint64_t)one->id); /* one is in hand */
	free(one);
}

static void tenant_subjects_free(struct tenant_subjects **s)
{
	if (!s || !*s)
		return;
	LIST_FOREACH_SAFE(n, tmp, &(*s)->order)
		forget(*s, CONTAINER_OF(n, struct subject, node));
	map_free(&(*s)->by_id);
	free(*s);
	*s = NULL;
}

/* Let go who has rested, so that one more has a place. */
static int make_room(struct tenant_subjects *s, const struct tenant_image *img, uint64_t now, struct err *err)
{
	struct subject *oldest;
	uint64_t rests_us;

	if (map_count(s->by_id) < TENANT_SUBJECTS_MAX)
		return 0;
	oldest = CONTAINER_OF(s->order.next, struct subject, node);
	rests_us = now - oldest->last_us;
	if (rests_us >= TENANT_SUBJECT_REST_US) {
		forget(s, oldest);
		return 0;
	}
	metric_inc(METRIC_token_subjects_refused);
	(void)err_set(err, ERR_BUSY, "sub", "tenant %s had tokens of %d subjects within a day, which is the limit: "
		      "come again later", img->name, TENANT_SUBJECTS_MAX);
	err_hint(err, "for more let principal_claim name principals of the tenant");
	if (err)
		err->retry_ms = (uint32_t)((TENANT_SUBJECT_REST_US - rests_us + 999) / 1000);   /* a day at most */
	return ERR_BUSY;
}

/* A subject of a token without a row comes.  ERR_BUSY with retry_ms: the tenant has too many, and this one is new. */
static int tenant_subject_meet(struct tenants *t, const struct tenant_image *img, int64_t id, struct err *err)
{
	struct tenant_subjects *s = subjects_of(t, img->tenant.id);
	struct subject *one = map_get_u64(s->by_id, (uint64_t)id);
	uint64_t now = clock_mono_us();
	int rc;

	if (!one) {
		rc = make_room(s, img, now, err);
		if (rc < 0)
			return rc;
		one = mem_zalloc(sizeof(*one));
		list_init(&one->node);
		one->id = id;
		(void)map_set_u64(s->by_id, (uint64_t)id, one); /* new */
	}
	one->last_us = now;
	list_unlink(&one->node);
	list_push_back(&s->order, &one->node);
	return 0;
}

/* --- principals, with and without a key, and whether they may still be served */

void principal_ref(struct principal *p)
{
	p->refs++;
}

void principal_unref(struct principal **p)
{
	if (!p || !*p)
		return;
	assert((*p)->refs > 0);
	if (--(*p)->refs == 0) {
		scopes_unref(&(*p)->scopes);
		arg_rules_unref(&(*p)->rules);
		free(*p);
	}
	*p = NULL;
}

struct principal *tenant_principal_new(const struct tenant_image *img, const struct tenant_principal *p)
{
	struct principal *who = mem_zalloc(sizeof(*who));

	who->refs = 1;
	who->tenant_id = img->tenant.id;
	who->principal_id = p->id;
	memcpy(who->tenant, img->name, sizeof(who->tenant));
	memcpy(who->name, p->name, sizeof(who->name));
	memcpy(who->pseudonym, p->pseudonym, sizeof(who->pseudonym));
	memcpy(who->system, p->system, sizeof(who->system));
	return who;
}

uint64_t tenant_proof(const uint8_t hash[32])
{
	uint64_t proof;

	memcpy(&proof, hash, sizeof(proof));
	return proof;
}

/* SEC S-306, S-310 */
static int check_key(const struct tenant_shown *shown, enum cred_refusal *ret_why, struct err *err)
{
	const struct tenant_cred *c = shown->cred;
	uint64_t now = clock_turn_us();

	*ret_why = CRED_REVOKED;
	if (c->revoked_us)
		return err_set(err, ERR_DENIED, "", "the key is revoked");
	*ret_why = CRED_EXPIRED;
	if (c->expires_us && c->expires_us <= now)
		return err_set(err, ERR_DENIED, "", "the key has expired");
	*ret_why = CRED_EARLY;
	if (c->not_before_us > now)
		return err_set(err, ERR_DENIED, "", "the key is not valid yet");
	*ret_why = CRED_ROTATED;
	if (shown->proof != tenant_proof(c->hash) &&
	    (shown->proof != tenant_proof(c->old_hash) || c->old_until_us <= now))
		return err_set(err, ERR_DENIED, "", "the key was rotated, this secret has ended");
	*ret_why = CRED_SUSPENDED;
	if (c->suspended)
		return err_set(err, ERR_DENIED, "", "the key is suspended");
	*ret_why = CRED_ENROLMENT;
	if (c->enrols)
		return err_set(err, ERR_DENIED, "",
			       "the key can only be exchanged for another one: toolcrib key enroll");
	*ret_why = CRED_ADDRESS;
	if (shown->from && c->cidrs && !cidrs_hold(c->cidrs, shown->from))
		return err_set(err, ERR_DENIED, "", "the key cannot be used from this address");
	return 0;
}

int tenant_standing(const struct tenant_image *img, const struct tenant_principal *p, const struct tenant_shown *shown,
		 enum cred_refusal *ret_why, struct err *err)
{
	int rc = shown ? check_key(shown, ret_why, err) : 0;

	if (rc < 0)
		return rc;
	*ret_why = CRED_SUSPENDED;
	if (!p)
		return err_set(err, ERR_DENIED, "", "the principal does not exist any more");
	if (p->state != PRINCIPAL_ACTIVE)
		return err_set(err, ERR_DENIED, "", "the principal is suspended");
	if (img->tenant.state != TENANT_ACTIVE)
		return err_set(err, ERR_DENIED, "", "the tenant is suspended");
	return 0;
}

static const struct tenant_principal *tenant_principal_named(const struct tenant_image *img, const char *name)
{
	for (size_t i = 0; i < img->nprincipals; i++)
		if (strcmp(img->principals[i].name, name) == 0)
			return &img->principals[i];
	return NULL;
}

/* A principal without a row: its id is negative, it cannot be suspended, and it ends when a row takes its name. */
static const struct tenant_principal rowless = { .state = PRINCIPAL_ACTIVE };

static const struct tenant_principal *standing_of(const struct tenant_image *img, const struct principal *p)
{
	if (p->principal_id > 0)
		return tenant_principal(img, p->principal_id);
	return tenant_principal_named(img, p->name) ? NULL : &rowless;
}

/* what: that ends by itself. */
static int check_end(uint64_t expires_us, const char *what, struct err *err)
{
	if (expires_us && expires_us <= clock_wall_us())
		return err_set(err, ERR_DENIED, "", "the %s has expired", what);
	return 0;
}

static struct tenant_image *tenant_find(const struct tenants *t, int64_t tenant_id);

int principal_check(const struct tenants *t, const struct principal *p, struct err *err)
{
	const struct tenant_image *img = tenant_find(t, p->tenant_id);
	struct tenant_shown shown = { .proof = p->proof };
	enum cred_refusal why;
	int rc;

	if (!img)
		return err_set(err, ERR_DENIED, "", "the tenant does not exist any more");
	if (p->cred_id) {
		shown.cred = map_get(t->creds, p->accessor, KEY_ACCESSOR_SIZE - 1);
		if (!shown.cred || shown.cred->id != p->cred_id || shown.cred->home != img)
			return err_set(err, ERR_DENIED, "", "the key does not exist any more");
	}
	rc = check_end(p->expires_us, p->authn == AUDIT_AUTHN_MTLS ? "certificate" : "token", err);
	return rc < 0 ? rc : tenant_standing(img, standing_of(img, p), shown.cred ? &shown : NULL, &why, err);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

uint64_t principal_until(const struct tenants *t, const struct principal *p)
{
	const struct tenant_cred *c = p->cred_id ? map_get(t->creds, p->accessor, KEY_ACCESSOR_SIZE - 1) : NULL;
	uint64_t until = p->expires_us;

	if (c)
		until = sooner(until, c->expires_us);
	if (c && p->proof != tenant_proof(c->hash))
		until = sooner(until, c->old_until_us);
	return until;
}

int principal_named(struct tenants *t, const char *tenant, const char *name, int authn, struct principal **ret,
		    struct err *err)
{
	const struct tenant_image *img = map_get_z(t->by_name, tenant);
	const struct tenant_principal *p;
	enum cred_refusal why;
	int rc;

	if (!img)
		return err_set(err, ERR_NOT_FOUND, "", "tenant %s: not found", tenant);
	if (!name)
		name = "default";
	p = tenant_principal_named(img, name);
	if (!p)
		return err_set(err, ERR_NOT_FOUND, "", "principal %s/%s: not found", tenant, name);
	rc = tenant_standing(img, p, NULL, &why, err);
	if (rc < 0)
		return rc;
	*ret = tenant_principal_new(img, p);
	(*ret)->authn = authn;
	return 0;
}

/* --- principals of tokens */

/* By the pepper, so that who reads the store cannot try names. */
static void derive(const struct tenants *t, const struct tenant_image *img, const char *subject,
		   struct tenant_principal *ret)
{
	static const char label[] = "toolcrib/subject/1";
	uint8_t text[8 + PRINCIPAL_SUBJECT_MAX], hash[DIGEST_SIZE];
	size_t len = strlen(subject);
	int64_t id;

	memcpy(text, &img->tenant.id, 8);
	memcpy(text + 8, subject, len);
	digest_keyed(t->pepper->k, label, sizeof(label), text, 8 + len, hash);
	memcpy(&id, hash, sizeof(id));
	ret->id = -1 - (id & INT64_MAX);
	memcpy(ret->pseudonym, "prn_", 4);
	text_hex(hash + 8, 8, ret->pseudonym + 4);
	/* No principal is called like one that is cut. */
	(void)snprintf(ret->name, sizeof(ret->name), len < sizeof(ret->name) ? "%s" : "%.50s~", subject);
}

int principal_from_claims(struct tenants *t, const struct principal_claims *claims, struct principal **ret,
			  struct err *err)
{
	const struct tenant_image *img = map_get_z(t->by_name, claims->tenant);
	size_t len = strlen(claims->subject);
	struct tenant_principal derived = rowless;
	const struct tenant_principal *p;
	enum cred_refusal why;
	int rc;

	if (len == 0 || len > PRINCIPAL_SUBJECT_MAX || !text_utf8_valid(claims->subject, len))
		return err_set(err, ERR_INVALID, "sub", "a subject is a text of 1 to %d bytes", PRINCIPAL_SUBJECT_MAX);
	if (!img)
		return err_set(err, ERR_NOT_FOUND, "", "tenant %s: not found", claims->tenant);
	p = tenant_principal_named(img, claims->subject);
	if (!p && claims->known_only)
		return err_set(err, ERR_NOT_FOUND, "", "the subject is no principal of tenant %s", claims->tenant);
	if (!p) {
		derive(t, img, claims->subject, &derived);
		p = &derived;
	}
	rc = check_end(claims->expires_us, "token", err);
	if (rc == 0)
		rc = tenant_standing(img, p, NULL, &why, err);
	if (rc == 0 && p == &derived)
		rc = tenant_subject_meet(t, img, p->id, err);
	if (rc < 0)
		return rc;
	*ret = tenant_principal_new(img, p);
	(*ret)->authn = claims->authn;
	(*ret)->scopes = scopes_ref(claims->scopes);
	(*ret)->expires_us = claims->expires_us;
	return 0;
}

/* --- principals of calls that go on by themselves */

static int again(struct tenants *t, const struct tenant_image *img, const struct principal_again *was,
		 struct principal **ret, struct err *err)
{
	const struct tenant_principal *p = was->principal_id > 0 ? tenant_principal(img, was->principal_id) : NULL;
	struct tenant_principal derived = rowless;
	struct tenant_shown shown = { .cred = NULL };
	enum cred_refusal why;
	int rc;

	if (was->principal_id <= 0 && !tenant_principal_named(img, was->name)) {
		derive(t, img, was->name, &derived);
		p = derived.id == was->principal_id ? &derived : NULL;
	}
	if (*was->accessor) {
		shown.cred = map_get(t->creds, was->accessor, KEY_ACCESSOR_SIZE - 1);
		if (!shown.cred || shown.cred->home != img)
			return err_set(err, ERR_DENIED, "", "the key does not exist any more");
		shown.proof = tenant_proof(shown.cred->hash);
	}
	rc = tenant_standing(img, p, shown.cred ? &shown : NULL, &why, err);
	if (rc < 0)
		return rc;
	*ret = tenant_principal_new(img, p);
	if (shown.cred) {
		(*ret)->cred_id = shown.cred->id;
		(*ret)->proof = shown.proof;
		memcpy((*ret)->accessor, was->accessor, KEY_ACCESSOR_SIZE - 1);
	}
	return 0;
}

int principal_again(struct tenants *t, const struct principal_again *was, struct principal **ret, struct err *err)
{
	const struct tenant_image *img = tenant_find(t, was->tenant_id);
	struct scopes *scopes = was->scopes;
	struct arg_rules *rules = was->rules;
	int rc = img ? again(t, img, was, ret, err) :
		err_set(err, ERR_DENIED, "", "the tenant does not exist any more");

	if (rc < 0) {
		scopes_unref(&scopes);
		arg_rules_unref(&rules);
		return rc;
	}
	(*ret)->authn = was->authn;
	(*ret)->scopes = scopes;
	(*ret)->rules = rules;
	return 0;
}

/* --- rows of tenant, principal and cred to images, and the last use of keys back to rows */

/* Copy a text column into a fixed field.  ERR_CORRUPT when it does not fit: it was checked when written. */
static int copy_text(struct db_stmt *st, unsigned col, char *ret, size_t size, struct err *err)
{
	size_t len;
	const char *text = db_col_text(st, col, &len);

	if (len >= size || memchr(text, '\0', len))
		return err_set(err, ERR_CORRUPT, db_col_name(st, col), "a name in the store is too long");
	memcpy(ret, text, len);
	ret[len] = '\0';
	return 0;
}

static uint64_t time_or_never(struct db_stmt *st, unsigned col)
{
	int64_t us = db_col_i64(st, col);

	/* SEC S-307: a time that makes no sense has passed. */
	if (db_col_type(st, col) == DB_NULL)
		return 0;
	return us > 0 ? (uint64_t)us : 1;
}

static int load_tenant(struct db *db, int64_t tenant_id, struct tenant_image *img, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TENANT_GET);
	struct tenant *t = &img->tenant;
	int rc;

	db_bind_i64(st, 1, tenant_id);
	rc = db_step(st, err);
	if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, "tenant", "tenant %lld: not found", (long long)tenant_id);
	if (rc > 0)
		rc = copy_text(st, 1, img->name, sizeof(img->name), err);
	if (rc == 0) {
		tenant_row_read(st, &img->row);
		*t = (struct tenant){ .id = tenant_id, .name = img->name, .title = img->row.title,
			.state = (enum tenant_state)img->row.state, .rate = img->row.rate, .sandbox = img->row.sandbox,
			.concurrency = img->row.concurrency ? (uint32_t)img->row.concurrency : TENANT_CONCURRENCY_DEFAULT,
			.audit_level = db_col_type(st, 18) == DB_NULL ? -1 : (int)db_col_i64(st, 18) };
		/* SEC S-005: a level that was cut might be a lesser one. */
		rc = copy_text(st, 9, img->row.sandbox, sizeof(img->row.sandbox), err);
	}
	db_stmt_put(&st);
	return rc;
}

static int read_principal(struct db_stmt *st, struct tenant_principal *p, struct err *err)
{
	int rc;

	p->id = db_col_i64(st, 0);
	p->state = (enum principal_state)db_col_i64(st, 3);
	rc = copy_text(st, 1, p->name, sizeof(p->name), err);
	if (rc == 0)
		rc = copy_text(st, 2, p->pseudonym, sizeof(p->pseudonym), err);
	p->system[0] = '\0';
	if (rc == 0 && db_col_type(st, 4) != DB_NULL)
		rc = copy_text(st, 4, p->system, sizeof(p->system), err);
	return rc;
}

static int load_principals(struct db *db, struct tenant_image *img, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_PRINCIPAL_LIST);
	size_t cap = 0;
	int rc;

	db_bind_i64(st, 1, img->tenant.id);
	while ((rc = db_step(st, err)) > 0) {
		if (img->nprincipals == cap) {
			cap = cap ? cap * 2 : 4;
			img->principals = mem_realloc(img->principals, cap * sizeof(*img->principals));
		}
		rc = read_principal(st, &img->principals[img->nprincipals], err);
		if (rc < 0)
			break;
		img->nprincipals++;
	}
	db_stmt_put(&st);
	return rc;
}

static int read_hash(struct db_stmt *st, unsigned col, uint8_t ret[32], struct err *err)
{
	size_t len;
	const void *hash = db_col_blob(st, col, &len);

	if (db_col_type(st, col) == DB_NULL)
		return 0;               /* all zero: no secret has that */
	if (len != 32)
		return err_set(err, ERR_CORRUPT, "cred", "a key in the store has a hash of %zu bytes", len);
	memcpy(ret, hash, len);
	return 0;
}

/* What a key may do, from where, with what; it was checked when it was written. */
static int read_limits(struct db_stmt *st, struct tenant_cred *c, struct err *err)
{
	size_t scopes_len, cidr_len, rules_len;
	const char *scopes = db_col_text(st, 11, &scopes_len), *cidr = db_col_text(st, 12, &cidr_len);
	const char *rules = db_col_text(st, 13, &rules_len);
	int rc = 0;

	if (db_col_type(st, 11) != DB_NULL)
		rc = scopes_parse(scopes, scopes_len, &c->scopes, err);
	if (rc == 0 && db_col_type(st, 12) != DB_NULL)
		rc = cidrs_parse(cidr, cidr_len, &c->cidrs, err);
	if (rc == 0 && db_col_type(st, 13) != DB_NULL)
		rc = arg_rules_parse(rules, rules_len, &c->rules, err);
	return rc < 0 ? err_wrap(err, "the key %s in the store", c->accessor) : 0;
}

static int read_cred(struct db_stmt *st, struct tenant_cred *c, struct err *err)
{
	int rc;

	*c = (struct tenant_cred){ .id = db_col_i64(st, 0), .principal_id = db_col_i64(st, 1) };
	c->expires_us = time_or_never(st, 4);
	c->revoked_us = time_or_never(st, 5);
	c->used = time_or_never(st, 6) != 0;
	c->not_before_us = db_col_type(st, 7) == DB_NULL || db_col_i64(st, 7) > 0 ? time_or_never(st, 7) : UINT64_MAX;
	c->old_until_us = time_or_never(st, 9);
	c->enrols = db_col_type(st, 10) != DB_NULL;
	c->suspended = db_col_type(st, 14) != DB_NULL;
	rc = read_hash(st, 3, c->hash, err);
	if (rc == 0)
		rc = read_hash(st, 8, c->old_hash, err);
	if (rc == 0)
		rc = copy_text(st, 2, c->accessor, sizeof(c->accessor), err);
	return rc < 0 ? rc : read_limits(st, c, err);
}

static int load_creds(struct db *db, struct tenant_image *img, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_KEY_CHECKABLE);
	size_t cap = 0;
	int rc;

	db_bind_i64(st, 1, img->tenant.id);
	db_bind_i64(st, 2, TENANT_REVOKED_MAX);
	while ((rc = db_step(st, err)) > 0) {
		if (img->ncreds == cap) {
			cap = cap ? cap * 2 : 4;
			img->creds = mem_realloc(img->creds, cap * sizeof(*img->creds));
		}
		rc = read_cred(st, &img->creds[img->ncreds++], err);
		if (rc < 0)
			break;
	}
	db_stmt_put(&st);
	/* Only now do the keys stay where they are. */
	for (size_t i = 0; i < img->ncreds; i++) {
		img->creds[i].home = img;
		list_init(&img->creds[i].dirty);
	}
	return rc;
}

static int load_levels(struct db *db, struct tenant_image *img, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TENANT_TOOL_LEVELS);
	int rc;

	db_bind_i64(st, 1, img->tenant.id);
	while ((rc = db_step(st, err)) > 0) {
		struct tenant_level *level = mem_alloc(sizeof(*level));

		level->level = (int)db_col_i64(st, 1);
		if (!img->levels)
			img->levels = map_new();
		free(map_set_z(img->levels, db_col_text(st, 0, NULL), level));
	}
	db_stmt_put(&st);
	return rc;
}

static int load_limits(struct db *db, struct tenant_image *img, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_LIMIT_OF_TENANT);
	size_t cap = 0;
	int rc;

	db_bind_i64(st, 1, img->tenant.id);
	while ((rc = db_step(st, err)) > 0) {
		struct tenant_limit_row *row;

		if (img->nlimits == cap) {
			cap = cap ? cap * 2 : 4;
			img->limits = mem_realloc(img->limits, cap * sizeof(*img->limits));
		}
		row = &img->limits[img->nlimits++];
		*row = (struct tenant_limit_row){ .scope = db_col_i64(st, 0), .subject = db_col_i64(st, 1) };
		tenant_limits_read(st, 2, &row->set);
	}
	db_stmt_put(&st);
	return rc;
}

int tenant_image_load(struct db *db, int64_t tenant_id, struct tenant_image **ret, struct err *err)
{
	struct tenant_image *img = mem_zalloc(sizeof(*img));
	int rc = load_tenant(db, tenant_id, img, err);

	if (rc == 0)
		rc = load_principals(db, img, err);
	if (rc == 0)
		rc = load_creds(db, img, err);
	if (rc == 0)
		rc = load_levels(db, img, err);
	if (rc == 0)
		rc = load_limits(db, img, err);
	if (rc < 0) {
		tenant_image_free(&img);
		return rc;
	}
	*ret = img;
	return 0;
}

static int tenant_load_all(struct tenants *t, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_TENANT_IDS);
	int rc;

	while ((rc = db_step(st, err)) > 0) {
		struct tenant_image *img = NULL;

		rc = tenant_image_load(db, db_col_i64(st, 0), &img, err);
		if (rc < 0)
			break;
		tenants_apply(t, &img);
	}
	db_stmt_put(&st);
	return rc;
}

int tenant_used_write(struct db *db, const struct tenant_used *used, size_t n, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		struct db_stmt *st = db_stmt_get(db, SQL_KEY_SET_LAST_USED);

		db_bind_i64(st, 1, used[i].tenant_id);
		db_bind_i64(st, 2, used[i].cred_id);
		db_bind_i64(st, 3, (int64_t)used[i].used_us);
		rc = db_run(&st, err);
	}
	return rc;
}

int tenants_open(const uint8_t master[32], struct db *db, struct tenants **ret, struct err *err)
{
	struct tenants *t = mem_zalloc(sizeof(*t));
	int rc;

	t->by_id = map_new();
	t->by_name = map_new();
	t->creds = map_new();
	t->subjects = map_new();
	list_init(&t->dirty);
	t->pepper = secret_alloc(sizeof(*t->pepper));
	key_pepper_derive(master, t->pepper);
	t->memo = cred_memo_new();
	id_random(t->dummy, sizeof(t->dummy));
	rc = tenant_load_all(t, db, err);
	if (rc < 0) {
		tenants_close(&t);
		return rc;
	}
	*ret = t;
	return 0;
}

void tenants_close(struct tenants **t)
{
	void *value;

	if (!t || !*t)
		return;
	for (size_t it = 0; map_next((*t)->by_id, &it, NULL, NULL, &value);) {
		struct tenant_image *img = value;

		tenant_image_free(&img);
	}
	for (size_t it = 0; map_next((*t)->subjects, &it, NULL, NULL, &value);) {
		struct tenant_subjects *s = value;

		tenant_subjects_free(&s);
	}
	map_free(&(*t)->subjects);
	map_free(&(*t)->by_id);
	map_free(&(*t)->by_name);
	map_free(&(*t)->creds);
	secret_free((*t)->pepper);
	cred_memo_free(&(*t)->memo);
	free(*t);
	*t = NULL;
}

static void cred_fini(struct tenant_cred *c)
{
	principal_unref(&c->who[0]);
	principal_unref(&c->who[1]);
	scopes_unref(&c->scopes);
	cidrs_free(&c->cidrs);
	arg_rules_unref(&c->rules);
}

int64_t tenant_image_id(const struct tenant_image *img)
{
	return img->tenant.id;
}

void tenant_image_free(struct tenant_image **img)
{
	void *level;

	if (!img || !*img)
		return;
	for (size_t i = 0; i < (*img)->ncreds; i++) {
		list_unlink(&(*img)->creds[i].dirty);
		cred_fini(&(*img)->creds[i]);
	}
	for (size_t it = 0; (*img)->levels && map_next((*img)->levels, &it, NULL, NULL, &level);)
		free(level);
	map_free(&(*img)->levels);
	free((*img)->creds);
	free((*img)->principals);
	free((*img)->limits);
	free(*img);
	*img = NULL;
}

static struct tenant_image *tenant_find(const struct tenants *t, int64_t tenant_id)
{
	return map_get_u64(t->by_id, (uint64_t)tenant_id);
}

static int compare_principal(const void *key, const void *element)
{
	int64_t id = *(const int64_t *)key;
	const struct tenant_principal *p = element;

	return (id > p->id) - (id < p->id);
}

const struct tenant_principal *tenant_principal(const struct tenant_image *img, int64_t principal_id)
{
	return img->nprincipals ? bsearch(&principal_id, img->principals, img->nprincipals, sizeof(*img->principals),
					  compare_principal)
				: NULL;
}

/* What memory knows better than the rows: the last use of keys that are in both images.  Both sorted by id. */
static void move_last_use(struct tenants *t, struct tenant_image *from, struct tenant_image *to)
{
	for (size_t i = 0, k = 0; i < from->ncreds && k < to->ncreds;) {
		struct tenant_cred *a = &from->creds[i], *b = &to->creds[k];

		if (a->id == b->id) {
			b->used_us = a->used_us;
			b->used |= a->used;
			if (!list_empty(&a->dirty))
				list_push_back(&t->dirty, &b->dirty);
		}
		i += a->id <= b->id;
		k += b->id <= a->id;
	}
}

static void forget_subject(struct tenants *t, struct tenant_image *img)
{
	(void)map_del_u64(t->by_id, (uint64_t)img->tenant.id); /* img is in hand */
	(void)map_del_z(t->by_name, img->name);
	for (size_t i = 0; i < img->ncreds; i++)
		(void)map_del(t->creds, img->creds[i].accessor, KEY_ACCESSOR_SIZE - 1);
	tenant_image_free(&img);
}

void tenants_apply(struct tenants *t, struct tenant_image **img)
{
	struct tenant_image *fresh = *img, *old = tenant_find(t, fresh->tenant.id);

	*img = NULL;
	if (old) {
		move_last_use(t, old, fresh);
		forget_subject(t, old);
	}
	if (fresh->tenant.state == TENANT_REMOVED) {
		struct tenant_subjects *s = map_del_u64(t->subjects, (uint64_t)fresh->tenant.id);

		tenant_subjects_free(&s);
		tenant_image_free(&fresh);
		return;
	}
	(void)map_set_u64(t->by_id, (uint64_t)fresh->tenant.id, fresh); /* new, or forgotten above */
	(void)map_set_z(t->by_name, fresh->name, fresh);
	for (size_t i = 0; i < fresh->ncreds; i++)
		(void)map_set(t->creds, fresh->creds[i].accessor, KEY_ACCESSOR_SIZE - 1, &fresh->creds[i]);
}

const struct tenant *tenant_by_id(const struct tenants *t, int64_t id)
{
	const struct tenant_image *img = tenant_find(t, id);

	return img ? &img->tenant : NULL;
}

const struct tenant *tenant_by_name(const struct tenants *t, const char *name, size_t len)
{
	const struct tenant_image *img = map_get(t->by_name, name, len);

	return img ? &img->tenant : NULL;
}

int tenant_tool_level(const struct tenants *t, int64_t tenant_id, const char *tool)
{
	const struct tenant_image *img = tenant_find(t, tenant_id);
	const struct tenant_level *level = img && img->levels ? map_get_z(img->levels, tool) : NULL;

	return level ? level->level : -1;
}

static int compare_limits(const void *key, const void *element)
{
	const struct tenant_limit_row *a = key, *b = element;

	if (a->scope != b->scope)
		return a->scope < b->scope ? -1 : 1;
	return (a->subject > b->subject) - (a->subject < b->subject);
}

const struct tenant_limits *tenant_limits(const struct tenants *t, int64_t tenant_id, enum tenant_scope scope,
					  int64_t subject)
{
	const struct tenant_image *img = tenant_find(t, tenant_id);
	const struct tenant_limit_row key = { .scope = scope, .subject = subject }, *row;

	if (!img || img->nlimits == 0)
		return NULL;
	row = bsearch(&key, img->limits, img->nlimits, sizeof(*img->limits), compare_limits);
	return row ? &row->set : NULL;
}

int64_t tenant_principal_id(const struct tenants *t, int64_t tenant_id, const char *name)
{
	const struct tenant_image *img = tenant_find(t, tenant_id);

	for (size_t i = 0; img && i < img->nprincipals; i++)
		if (strcmp(img->principals[i].name, name) == 0)
			return img->principals[i].id;
	return 0;
}

int64_t tenant_key_id(const struct tenants *t, const char *accessor, int64_t *ret_tenant_id, int64_t *ret_principal_id)
{
	const struct tenant_cred *c = strlen(accessor) == KEY_ACCESSOR_SIZE - 1
		? map_get(t->creds, accessor, KEY_ACCESSOR_SIZE - 1) : NULL;

	if (!c)
		return 0;
	*ret_tenant_id = c->home->tenant.id;
	*ret_principal_id = c->principal_id;
	return c->id;
}

size_t tenants_count(const struct tenants *t)
{
	return map_count(t->by_id);
}

void tenants_each(const struct tenants *t, tenant_each_fn *fn, void *arg)
{
	void *value;

	for (size_t it = 0; map_next(t->by_id, &it, NULL, NULL, &value); )
		fn(arg, &((const struct tenant_image *)value)->tenant);
}

size_t tenants_dirty(struct tenants *t, struct tenant_used *ret, size_t max)
{
	size_t n = 0;

	while (n < max && !list_empty(&t->dirty)) {
		struct tenant_cred *c = CONTAINER_OF(t->dirty.next, struct tenant_cred, dirty);

		list_unlink(&c->dirty);
		ret[n++] = (struct tenant_used){ c->home->tenant.id, c->id, c->used_us };
	}
	return n;
}
