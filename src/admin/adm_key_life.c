/* key rotate, key enroll: a new secret for a key that stays, and a key for a key (SEC S-310 to S-312). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "db/db.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"

#include "adm_commands.h"
#include "adm_key.h"

#define OVERLAP_DEFAULT_MS KEY_DAY_MS
#define OVERLAP_MAX_MS (30 * KEY_DAY_MS)

struct key_rotate {
	char tenant[64], accessor[KEY_ACCESSOR_SIZE];
	uint64_t overlap_ms, ttl_ms;    /* ttl 0: as long as it was given before */
	bool may_all;                   /* keys with audit and admin scopes as well */
	struct key_pepper pepper;
	struct key_new key;
};

static void free_rotate(void *priv)
{
	secret_wipe(priv, sizeof(struct key_rotate));
	free(priv);
}

int adm_key_rotate_check(struct adm_call *c, struct err *err)
{
	struct key_rotate *job = adm_priv(c, sizeof(*job));
	int rc;

	c->free_priv = free_rotate;
	rc = adm_take_accessor(adm_text(c, "accessor"), job->accessor, err);
	adm_copy(c, "tenant", job->tenant, sizeof(job->tenant));
	if (rc == 0 && adm_has(c, "ttl"))
		rc = adm_key_life(c, "ttl", 0, &job->ttl_ms, err);
	if (rc < 0)
		return rc;
	job->overlap_ms = adm_duration_ms(c, "overlap", OVERLAP_DEFAULT_MS);
	if (job->overlap_ms > OVERLAP_MAX_MS)
		return err_set(err, ERR_LIMIT, "overlap", "overlap: two secrets stand beside each other for at most 30d");
	job->may_all = adm_may(c->admin, &c->who, ADM_OWNER, NULL);
	key_pepper_derive(c->admin->env.master, &job->pepper);
	return 0;
}

/* SEC S-312: a new secret of a key is all that the key may do. */
static int check_scopes(const struct key_row *k, const struct key_rotate *job, struct err *err)
{
	struct scopes *scopes = NULL;
	int rc = k->scopes && !job->may_all ? scopes_parse(k->scopes, strlen(k->scopes), &scopes, err) : 0;

	if (rc == 0 && scope_has(scopes, SCOPES_OF_ADMINS))
		rc = err_set(err, ERR_DENIED, "", "key %s has audit or admin scopes: it is for an administrator of the store to rotate",
			     k->accessor);
	scopes_unref(&scopes);
	return rc;
}

static int check_rotation(const struct key_row *k, const struct key_rotate *job, struct err *err)
{
	uint64_t now = clock_wall_us();

	if (k->revoked_us)
		return err_set(err, ERR_CONFLICT, "", "key %s is revoked", k->accessor);
	if (k->enrol_ttl_us)
		return err_set(err, ERR_CONFLICT, "", "key %s is a one-shot key: create another one", k->accessor);
	if (k->expires_us && k->expires_us <= now)
		return err_set(err, ERR_CONFLICT, "", "key %s has expired: create another one", k->accessor);
	if (k->old_until_us <= now || job->overlap_ms == 0)
		return 0;
	(void)err_set(err, ERR_CONFLICT, "", "key %s has two secrets already, and a third is never valid", k->accessor);
	err_hint(err, "wait for the end of the old one (key show), or end both with --overlap 0s");
	return ERR_CONFLICT;
}

/* How long it was given: from when it was made, rotated or became valid. */
static uint64_t life_of(const struct key_row *k)
{
	uint64_t from = k->rotated_us ? k->rotated_us : k->created_us;

	if (k->not_before_us > from)
		from = k->not_before_us;
	return k->expires_us > from ? k->expires_us - from : KEY_TTL_DEFAULT_MS * 1000;
}

static int write_secret(struct db *db, const struct key_row *k, const struct key_rotate *job, uint64_t until_us, uint64_t expires_us,
			struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_KEY_SET_SECRET);

	db_bind_i64(st, 1, k->tenant_id);
	db_bind_i64(st, 2, k->id);
	db_bind_blob(st, 3, job->key.hash, sizeof(job->key.hash));
	db_bind_i64(st, 4, (int64_t)clock_wall_us());
	if (until_us)
		db_bind_i64(st, 5, (int64_t)until_us);
	else
		db_bind_null(st, 5);
	db_bind_i64(st, 6, (int64_t)expires_us);
	return db_run(&st, err);
}

static int rotate(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct key_row *k, struct err *err)
{
	struct key_rotate *job = c->priv;
	uint64_t now = clock_wall_us(), until = job->overlap_ms ? now + job->overlap_ms * 1000 : 0;
	uint64_t from = k->not_before_us > now ? k->not_before_us : now;
	uint64_t expires = from + (job->ttl_ms ? job->ttl_ms * 1000 : life_of(k));
	uint8_t times[16];
	const struct audit_field overlap = { AUDIT_TAG_TIMES, times, sizeof(times) };
	char obj[48];
	int rc;

	if (until && k->expires_us && k->expires_us < until)
		until = k->expires_us;  /* the old secret lives no longer than it would have */
	key_remake(&job->pepper, k->accessor, &job->key);
	rc = write_secret(db, k, job, until, expires, err);
	audit_put_be(times, now, 8);
	audit_put_be(times + 8, until ? until : now, 8);
	(void)snprintf(obj, sizeof(obj), "cred/%s", k->accessor);
	if (rc == 0)
		rc = adm_record(c, db, logs, &(struct adm_record){ .kind = AUDIT_CRED_ROTATE, .tenant_id = k->tenant_id, .obj = obj,
			.accessor = k->accessor, .prn = k->pseudonym, .field = &overlap, .nfield = 1 }, err);
	if (rc == 0)
		rc = adm_changed_people(c, db, k->tenant_id, err);
	if (rc == 0)
		adm_put_new_key(c->out, &job->key, k->tenant, k->principal, expires);
	return rc;
}

int adm_key_rotate_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct key_rotate *job = c->priv;
	struct key_row k;
	int rc = adm_find_key(db, job->tenant, job->accessor, &k, err);

	if (rc < 0)
		return rc;
	rc = check_rotation(&k, job, err);
	if (rc == 0)
		rc = check_scopes(&k, job, err);
	if (rc == 0)
		rc = rotate(c, db, logs, &k, err);
	key_row_fini(&k);
	return rc;
}

/* --- enroll */

struct key_enroll {
	char accessor[KEY_ACCESSOR_SIZE], label[KEY_LABEL_MAX + 1];
	uint8_t hash[32];
	bool malformed;
	struct key_pepper pepper;
	struct key_new key;
};

static void free_enroll(void *priv)
{
	secret_wipe(priv, sizeof(struct key_enroll));
	free(priv);
}

int adm_key_enroll_check(struct adm_call *c, struct err *err)
{
	struct key_enroll *job = adm_priv(c, sizeof(*job));
	const json_t *value = json_object_get(c->args, "value");
	const char *label = adm_text(c, "label"), *accessor, *secret;

	c->free_priv = free_enroll;
	if (label && strlen(label) > KEY_LABEL_MAX)
		return err_set(err, ERR_LIMIT, "label", "the label is longer than %d bytes", KEY_LABEL_MAX);
	(void)snprintf(job->label, sizeof(job->label), "%s", label ? label : "");
	key_pepper_derive(c->admin->env.master, &job->pepper);
	if (!json_is_string(value) || key_parse(json_string_value(value), json_string_length(value), &accessor, &secret) < 0) {
		job->malformed = true;
		return 0;
	}
	memcpy(job->accessor, accessor, KEY_ACCESSOR_SIZE - 1);
	key_hash(&job->pepper, secret, job->hash);
	return 0;
}

/* Before the secret is proved there is one answer (SEC S-309). */
static int find_parent(struct db *db, const struct key_enroll *job, struct key_row *ret, struct err *err)
{
	struct err ignored;

	if (!job->malformed && adm_find_key(db, "", job->accessor, ret, &ignored) == 0) {
		if (secret_equal(job->hash, ret->hash, sizeof(job->hash)))
			return 0;
		key_row_fini(ret);
	}
	return err_set(err, ERR_DENIED, "", "invalid credential");
}

static int check_parent(const struct key_row *k, struct err *err)
{
	uint64_t now = clock_wall_us();

	if (!k->enrol_ttl_us)
		return err_set(err, ERR_DENIED, "", "key %s is no one-shot key: use it as it is", k->accessor);
	if (k->revoked_us)
		return err_set(err, ERR_DENIED, "", "the key is revoked");
	if (k->expires_us && k->expires_us <= now)
		return err_set(err, ERR_DENIED, "", "the key has expired");
	if (k->not_before_us > now)
		return err_set(err, ERR_DENIED, "", "the key is not valid yet");
	if (k->suspended_us)
		return err_set(err, ERR_DENIED, "", "the key is suspended");
	if (k->children > 0)
		return err_set(err, ERR_DENIED, "", "key %s has made its key already", k->accessor);
	if (k->principal_state != 1)
		return err_set(err, ERR_DENIED, "", "the principal is suspended");
	if (k->tenant_state != TENANT_ACTIVE)
		return err_set(err, ERR_DENIED, "", "the tenant is suspended");
	return 0;
}

/* What its parent was given, and nothing more (SEC S-312). */
static int make_child(struct adm_call *c, struct db *db, struct audit_logs *logs, const struct key_row *k, struct err *err)
{
	struct key_enroll *job = c->priv;
	const struct key_terms terms = {
		.label = *job->label ? job->label : k->label, .scopes = k->scopes, .cidr = k->cidr, .rules = k->rules,
		.expires_us = clock_wall_us() + k->enrol_ttl_us, .parent_id = k->id,
	};
	struct adm_principal p = { .id = k->principal_id };
	struct adm_tenant t = { .id = k->tenant_id };
	char reason[48];
	int rc;

	memcpy(p.pseudonym, k->pseudonym, sizeof(p.pseudonym));
	memcpy(t.name, k->tenant, sizeof(t.name));
	(void)snprintf(reason, sizeof(reason), "enrolled by %s", k->accessor);
	key_make(&job->pepper, &job->key);
	rc = adm_key_insert(c, db, logs, &t, &p, &job->key, &terms, reason, err);
	if (rc == 0)
		adm_put_new_key(c->out, &job->key, k->tenant, k->principal, terms.expires_us);
	return rc;
}

int adm_key_enroll_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct key_enroll *job = c->priv;
	struct key_row k;
	int rc = find_parent(db, job, &k, err);

	if (rc < 0)
		return rc;
	rc = check_parent(&k, err);
	if (rc == 0)
		rc = make_child(c, db, logs, &k, err);
	key_row_fini(&k);
	return rc;
}
