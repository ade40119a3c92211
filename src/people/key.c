/* Commands on keys: list, show, rotate, enroll, suspend, resume and revoke.  check() on the loop refuses what is no
 * accessor and derives the pepper, so that no master key is on another thread; the bodies read or change the rows on
 * the pool or the writer; after() ends what open connections of the key do.  Secrets are wiped with what holds them. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "call/call.h"
#include "command/rows.h"
#include "db/db.h"
#include "mcp/mcp.h"
#include "tenant/scope.h"
#include "tenant/tenant.h"

#include "people_int.h"

/* --- key rotate, key enroll: a new secret for a key that stays, and a key for a key (SEC S-310 to S-312) */

#define OVERLAP_DEFAULT_MS KEY_DAY_MS
#define OVERLAP_MAX_MS (30 * KEY_DAY_MS)

struct key_rotate {
	bool may_all;                   /* keys with audit and admin scopes as well */
	struct key_pepper pepper;
	struct key_new key;
};

static void free_rotate(void *priv)
{
	secret_wipe(priv, sizeof(struct key_rotate));
	free(priv);
}

static int check_accessor(const char *text, struct err *err);

static uint64_t overlap_ms(const struct command_call *c)
{
	return arg_duration_ms(c, "overlap", OVERLAP_DEFAULT_MS);
}

static int key_rotate_check(struct command_call *c, struct err *err)
{
	struct key_rotate *job = command_priv(c, sizeof(*job));
	uint64_t ttl_ms;
	int rc = check_accessor(arg_text(c, "accessor"), err);

	c->free_priv = free_rotate;
	if (rc == 0 && arg_given(c, "ttl"))
		rc = key_life(c, "ttl", 0, &ttl_ms, err);
	if (rc < 0)
		return rc;
	if (overlap_ms(c) > OVERLAP_MAX_MS)
		return err_set(err, ERR_LIMIT, "overlap", "overlap: two secrets stand beside each other for at most 30d");
	job->may_all = actor_may(c->admin, &c->who, ADM_OWNER, NULL);
	key_pepper_derive(command_env(c)->master, &job->pepper);
	return 0;
}

/* SEC S-312: a new secret of a key is all that the key may do. */
static int check_scopes(const struct key_row *k, const struct key_rotate *job, struct err *err)
{
	struct scopes *scopes = NULL;
	int rc = k->scopes && !job->may_all ? scopes_parse(k->scopes, strlen(k->scopes), &scopes, err) : 0;

	if (rc == 0 && scope_has(scopes, SCOPES_OF_ADMINS))
		rc = err_set(err, ERR_DENIED, "", "key %s has audit or admin scopes: it is for an administrator of the store to "
			"rotate",
			     k->accessor);
	scopes_unref(&scopes);
	return rc;
}

static int check_rotation(const struct command_call *c, const struct key_row *k, struct err *err)
{
	uint64_t now = clock_wall_us();

	if (k->revoked_us)
		return err_set(err, ERR_CONFLICT, "", "key %s is revoked", k->accessor);
	if (k->enrol_ttl_us)
		return err_set(err, ERR_CONFLICT, "", "key %s is a one-shot key: create another one", k->accessor);
	if (k->expires_us && k->expires_us <= now)
		return err_set(err, ERR_CONFLICT, "", "key %s has expired: create another one", k->accessor);
	if (k->old_until_us <= now || overlap_ms(c) == 0)
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

static int write_secret(struct db *db, const struct key_row *k, const struct key_rotate *job, uint64_t until_us,
			uint64_t expires_us, struct err *err)
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

static int rotate(struct command_call *c, struct db *db, struct audit_logs *logs, const struct key_row *k,
		  struct err *err)
{
	struct key_rotate *job = c->priv;
	uint64_t now = clock_wall_us(), until = overlap_ms(c) ? now + overlap_ms(c) * 1000 : 0;
	uint64_t from = k->not_before_us > now ? k->not_before_us : now, ttl_ms = arg_duration_ms(c, "ttl", 0);
	uint64_t expires = from + (ttl_ms ? ttl_ms * 1000 : life_of(k));
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
		rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_CRED_ROTATE, .tenant_id = k->tenant_id,
			.obj = obj,
			.accessor = k->accessor, .prn = k->pseudonym, .field = &overlap, .nfield = 1 }, err);
	if (rc == 0)
		rc = command_changed_people(c, db, k->tenant_id, err);
	if (rc == 0)
		put_new_key(c->out, &job->key, k->tenant, k->principal, expires);
	return rc;
}

static void key_row_fini(struct key_row *k);

static int key_row_find(struct db *db, const char *tenant, const char *accessor, struct key_row *ret, struct err *err);

static int key_rotate_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct key_rotate *job = c->priv;
	struct key_row k;
	int rc = key_row_find(db, arg_text(c, "tenant"), arg_text(c, "accessor"), &k, err);

	if (rc < 0)
		return rc;
	rc = check_rotation(c, &k, err);
	if (rc == 0)
		rc = check_scopes(&k, job, err);
	if (rc == 0)
		rc = rotate(c, db, logs, &k, err);
	key_row_fini(&k);
	return rc;
}

/* --- enroll */

struct key_enroll {
	char accessor[KEY_ACCESSOR_SIZE];
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

static int key_enroll_check(struct command_call *c, struct err *err)
{
	struct key_enroll *job = command_priv(c, sizeof(*job));
	const json_t *value = arg_json(c, "value");
	const char *label = arg_text(c, "label"), *accessor, *secret;

	c->free_priv = free_enroll;
	if (label && strlen(label) > KEY_LABEL_MAX)
		return err_set(err, ERR_LIMIT, "label", "the label is longer than %d bytes", KEY_LABEL_MAX);
	key_pepper_derive(command_env(c)->master, &job->pepper);
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

	if (!job->malformed && key_row_find(db, NULL, job->accessor, ret, &ignored) == 0) {
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
static int make_child(struct command_call *c, struct db *db, struct audit_logs *logs, const struct key_row *k,
		      struct err *err)
{
	struct key_enroll *job = c->priv;
	const char *label = arg_text(c, "label");
	const struct key_terms terms = {
		.label = label && *label ? label : k->label, .scopes = k->scopes, .cidr = k->cidr, .rules = k->rules,
		.expires_us = clock_wall_us() + k->enrol_ttl_us, .parent_id = k->id,
	};
	struct principal_row p = { .id = k->principal_id };
	struct tenant_row t = { .id = k->tenant_id };
	char reason[48];
	int rc;

	memcpy(p.pseudonym, k->pseudonym, sizeof(p.pseudonym));
	memcpy(t.name, k->tenant, sizeof(t.name));
	(void)snprintf(reason, sizeof(reason), "enrolled by %s", k->accessor);
	key_make(&job->pepper, &job->key);
	rc = key_insert(c, db, logs, &t, &p, &job->key, &terms, reason, err);
	if (rc == 0)
		put_new_key(c->out, &job->key, k->tenant, k->principal, terms.expires_us);
	return rc;
}

static int key_enroll_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
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

/* --- key suspend, key resume: one key is out until it is let in again (SEC S-315) */

struct key_suspend {
	struct key_row *key; size_t done;       /* for after() */
};

static void free_job(void *priv)
{
	struct key_suspend *job = priv;

	for (size_t i = 0; i < job->done; i++)
		key_row_fini(&job->key[i]);
	free(job->key);
	free(job);
}

static int check_accessors(const struct command_call *c, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < arg_count(c, "accessor") && rc == 0; i++)
		rc = check_accessor(arg_nth(c, "accessor", i), err);
	return rc;
}

static int key_suspend_check(struct command_call *c, struct err *err)
{
	char reason[REASON_SIZE];
	int rc = arg_reason(c, "reason", reason, sizeof(reason), err);

	return rc < 0 ? rc : check_accessors(c, err);
}

static int check_state(const struct key_row *k, bool suspend, struct err *err)
{
	if (k->revoked_us)
		return err_set(err, ERR_CONFLICT, "", "key %s is revoked, and that is for ever", k->accessor);
	if ((k->suspended_us != 0) != suspend)
		return 0;
	return err_set(err, ERR_CONFLICT, "", suspend ? "key %s is suspended already" : "key %s is not suspended",
		k->accessor);
}

static int write_state(struct db *db, const struct key_row *k, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_KEY_SET_SUSPENDED);

	db_bind_i64(st, 1, k->tenant_id);
	db_bind_i64(st, 2, k->id);
	if (k->suspended_us)
		db_bind_i64(st, 3, (int64_t)k->suspended_us);
	else
		db_bind_null(st, 3);
	return db_run(&st, err);
}

static int change_one(struct command_call *c, struct db *db, struct audit_logs *logs, struct key_row *k, bool suspend,
		      struct err *err)
{
	char obj[48];
	int rc = check_state(k, suspend, err);

	if (rc < 0)
		return rc;
	k->suspended_us = suspend ? clock_wall_us() : 0;
	rc = write_state(db, k, err);
	(void)snprintf(obj, sizeof(obj), "cred/%s", k->accessor);
	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .kind = suspend ? AUDIT_CRED_SUSPEND : AUDIT_CRED_RESUME,
			.tenant_id = k->tenant_id, .obj = obj, .accessor = k->accessor, .prn = k->pseudonym,
			.reason = arg_text(c, "reason") }, err);
	return rc < 0 ? rc : command_changed_people(c, db, k->tenant_id, err);
}

static int change(struct command_call *c, struct db *db, struct audit_logs *logs, bool suspend, struct err *err)
{
	struct key_suspend *job = command_priv(c, sizeof(*job));
	size_t n = arg_count(c, "accessor");
	int rc = 0;

	c->free_priv = free_job;
	job->key = mem_calloc(n, sizeof(*job->key));
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = key_row_find(db, arg_text(c, "tenant"), arg_nth(c, "accessor", i), &job->key[i], err);
		if (rc < 0)
			break;
		job->done++;
		rc = change_one(c, db, logs, &job->key[i], suspend, err);
	}
	return rc;
}

static int key_suspend_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	return change(c, db, logs, true, err);
}

static void row_put_key(struct reply *o, const struct key_row *k, const struct mcp_ended *ended);

static int key_resume_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	int rc = change(c, db, logs, false, err);
	const struct key_suspend *job = c->priv;

	for (size_t i = 0; rc == 0 && i < job->done; i++)
		row_put_key(c->out, &job->key[i], NULL);
	return rc;
}

/* The table refuses the key already; what it has opened ends, as with a tenant (SEC S-306). */
static void key_suspend_after(struct command_call *c)
{
	const struct key_suspend *job = c->priv;
	struct mcp_ended ended;

	for (size_t i = 0; i < job->done; i++) {
		const struct key_row *k = &job->key[i];

		people_end_where(c, &(struct call_where){ .tenant_id = k->tenant_id, .cred_id = k->id }, true, &ended);
		row_put_key(c->out, k, &ended);
	}
}

static void key_row_fini(struct key_row *k)
{
	free(k->scopes);
	free(k->cidr);
	free(k->rules);
}

static char *dup_col(struct db_stmt *st, unsigned col)
{
	return db_col_type(st, col) == DB_NULL ? NULL : mem_strdup(db_col_text(st, col, NULL));
}

static void read_key(struct db_stmt *st, struct key_row *k)
{
	size_t len;
	const void *hash = db_col_blob(st, 19, &len);

	*k = (struct key_row){ .id = db_col_i64(st, 0), .tenant_id = db_col_i64(st, 1) };
	db_col_copy(st, 2, k->tenant, sizeof(k->tenant));
	db_col_copy(st, 3, k->principal, sizeof(k->principal));
	db_col_copy(st, 4, k->accessor, sizeof(k->accessor));
	db_col_copy(st, 5, k->label, sizeof(k->label));
	k->created_us = (uint64_t)db_col_i64(st, 6);
	k->expires_us = (uint64_t)db_col_i64(st, 7);
	k->revoked_us = (uint64_t)db_col_i64(st, 8);
	k->last_used_us = (uint64_t)db_col_i64(st, 9);
	k->not_before_us = (uint64_t)db_col_i64(st, 10);
	k->rotated_us = (uint64_t)db_col_i64(st, 11);
	k->old_until_us = (uint64_t)db_col_i64(st, 12);
	k->enrol_ttl_us = (uint64_t)db_col_i64(st, 13);
	k->scopes = dup_col(st, 14);
	k->cidr = dup_col(st, 15);
	k->rules = dup_col(st, 16);
	db_col_copy(st, 17, k->parent, sizeof(k->parent));
	k->children = db_col_i64(st, 18);
	memcpy(k->hash, hash, len < sizeof(k->hash) ? len : sizeof(k->hash));
	k->principal_id = db_col_i64(st, 20);
	db_col_copy(st, 21, k->pseudonym, sizeof(k->pseudonym));
	k->principal_state = (int)db_col_i64(st, 22);
	k->tenant_state = (int)db_col_i64(st, 23);
	k->suspended_us = (uint64_t)db_col_i64(st, 24);
}

static const char *state_of(const struct key_row *k)
{
	uint64_t now = clock_wall_us();

	if (k->revoked_us)
		return "revoked";
	if (k->expires_us && k->expires_us <= now)
		return "expired";
	if (k->suspended_us)
		return "suspended";
	if (k->not_before_us > now)
		return "early";
	if (k->enrol_ttl_us)
		return k->children ? "spent" : "one-shot";
	return k->old_until_us > now ? "rotating" : "active";
}

static void put_lines(struct reply *o, const char *name, const char *text, char between)
{
	json_t *list = json_array();

	for (const char *p = text; p && *p;) {
		const char *end = strchrnul(p, between);

		json_array_append_new(list, json_stringn(p, (size_t)(end - p)));
		p = *end ? end + 1 : end;
	}
	reply_json(o, name, list);
	json_decref(list);
}

static void row_put_key(struct reply *o, const struct key_row *k, const struct mcp_ended *ended)
{
	char name[168];

	(void)snprintf(name, sizeof(name), "%s/%s", k->tenant, k->principal);
	reply_row_begin(o);
	reply_text(o, "accessor", k->accessor);
	reply_text(o, "principal", name);
	reply_text(o, "tenant", k->tenant);
	reply_text(o, "state", state_of(k));
	reply_text(o, "label", *k->label ? k->label : NULL);
	reply_text(o, "scopes", k->scopes);
	reply_text(o, "cidr", k->cidr);
	put_lines(o, "arg_rules", k->rules, '\n');
	reply_time(o, "created", k->created_us);
	reply_time(o, "not_before", k->not_before_us);
	reply_time(o, "expires", k->expires_us);
	reply_time(o, "rotated", k->rotated_us);
	reply_time(o, "old_secret_until", k->old_until_us > clock_wall_us() ? k->old_until_us : 0);
	reply_time(o, "suspended", k->suspended_us);
	reply_time(o, "revoked", k->revoked_us);
	reply_time(o, "last_used", k->last_used_us);
	reply_text(o, "parent", *k->parent ? k->parent : NULL);
	if (ended) {
		reply_int(o, "calls", (int64_t)ended->calls);
		reply_int(o, "connections", (int64_t)ended->peers);
	}
	reply_row_end(o);
}

int key_list_check(struct command_call *c, struct err *err)
{
	if (arg_given(c, "principal") && !arg_given(c, "tenant"))
		return err_set(err, ERR_INVALID, "principal", "--principal needs its TENANT");
	return 0;
}

static int list_tenant(struct command_call *c, struct db *db, int64_t tenant_id, struct err *err)
{
	const char *principal = arg_text(c, "principal");
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_KEY_LIST);
	struct key_row k;
	int rc;

	db_bind_i64(st, 1, tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		read_key(st, &k);
		if (!principal || !*principal || strcmp(principal, k.principal) == 0)
			row_put_key(c->out, &k, NULL);
		key_row_fini(&k);
	}
	db_stmt_put(&st);
	return rc;
}

int key_list_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const char *tenant = arg_text(c, "tenant"), *principal = arg_text(c, "principal");
	struct tenant_row t;
	struct principal_row p;
	struct db_stmt *st;
	int rc = 0;

	(void)logs;
	if (tenant && *tenant) {
		rc = tenant_row_find(db, tenant, &t, err);
		if (rc == 0 && principal && *principal)
			rc = principal_row_find(db, &t, principal, &p, err);
		return rc < 0 ? rc : list_tenant(c, db, t.id, err);
	}
	st = db_stmt_get(db, SQL_ADMIN_TENANT_LIST);
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		tenant_row_read(st, &t);
		rc = list_tenant(c, db, t.id, err);
	}
	db_stmt_put(&st);
	return rc;
}

/* --- by accessor: show and revoke */

struct key_revoke { int64_t (*ended)[2]; size_t count; };       /* tenant and key of each, for after() */

static void free_revoke(void *priv)
{
	struct key_revoke *job = priv;

	free(job->ended);
	free(job);
}

/* An accessor as it was typed; a whole key is refused and never repeated. */
static int check_accessor(const char *text, struct err *err)
{
	const char *accessor, *secret;

	if (key_parse(text, strlen(text), &accessor, &secret) == 0 || strncmp(text, "tck_", 4) == 0) {
		(void)err_set(err, ERR_INVALID, "accessor", "that is a key, not its accessor");
		err_hint(err, "the accessor is the 12 characters after tck_; the key may now be in your shell's history");
		return ERR_INVALID;
	}
	if (strlen(text) != KEY_ACCESSOR_SIZE - 1)
		return err_set(err, ERR_NOT_FOUND, "", "key %.40s: not found", text);
	return 0;
}

static int key_refs_check(struct command_call *c, struct err *err)
{
	return check_accessors(c, err);
}

/* The key with this accessor; ERR_NOT_FOUND, also when it is of another tenant than this one; NULL or "" = any. */
static int key_row_find(struct db *db, const char *tenant, const char *accessor, struct key_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_KEY_FIND);
	int rc;

	db_bind_textz(st, 1, accessor);
	rc = db_step(st, err);
	if (rc == 1)
		read_key(st, ret);
	db_stmt_put(&st);
	if (rc == 1 && tenant && *tenant && strcmp(ret->tenant, tenant) != 0) {
		key_row_fini(ret);
		rc = 0;
	}
	if (rc == 0)
		return err_set(err, ERR_NOT_FOUND, "", "key %s: not found", accessor);
	return rc < 0 ? rc : 0;
}

static int key_show_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct key_row k;
	int rc = key_row_find(db, arg_text(c, "tenant"), arg_text(c, "accessor"), &k, err);

	(void)logs;
	if (rc < 0)
		return rc;
	row_put_key(c->out, &k, NULL);
	key_row_fini(&k);
	return 0;
}

static int revoke_one(struct command_call *c, struct db *db, struct audit_logs *logs, struct key_row *k,
		      struct err *err)
{
	struct key_revoke *job = c->priv;
	struct db_stmt *st;
	char obj[48];
	int rc;

	k->revoked_us = clock_wall_us();
	st = db_stmt_get(db, SQL_KEY_SET_REVOKED);
	db_bind_i64(st, 1, k->tenant_id);
	db_bind_i64(st, 2, k->id);
	db_bind_i64(st, 3, (int64_t)k->revoked_us);
	rc = db_run(&st, err);
	(void)snprintf(obj, sizeof(obj), "cred/%s", k->accessor);
	if (rc == 0)
		rc = command_record(c, db, logs, &(struct command_record){ .kind = AUDIT_CRED_REVOKE, .tenant_id = k->tenant_id,
			.obj = obj, .accessor = k->accessor }, err);
	if (rc == 0)
		rc = command_changed_people(c, db, k->tenant_id, err);
	if (rc < 0)
		return rc;
	job->ended = mem_realloc(job->ended, (job->count + 1) * sizeof(*job->ended));
	job->ended[job->count][0] = k->tenant_id;
	job->ended[job->count++][1] = k->id;
	row_put_key(c->out, k, NULL);
	return 0;
}

/* The accessors of what a key has made, blanks between them. */
static int find_children(struct db *db, const struct key_row *k, struct str *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_KEY_CHILDREN);
	int rc;

	db_bind_i64(st, 1, k->tenant_id);
	db_bind_i64(st, 2, k->id);
	while ((rc = db_step(st, err)) == 1)
		str_printf(ret, "%s ", db_col_text(st, 0, NULL));
	db_stmt_put(&st);
	return rc;
}

/* SEC S-311 */
static int revoke_children(struct command_call *c, struct db *db, struct audit_logs *logs, const struct key_row *k,
			   struct err *err)
{
	struct str children = STR_INIT;
	char accessor[KEY_ACCESSOR_SIZE] = "";
	int rc = find_children(db, k, &children, err);

	for (size_t at = 0; rc == 0 && at + KEY_ACCESSOR_SIZE <= children.len; at += KEY_ACCESSOR_SIZE) {
		struct key_row child;

		memcpy(accessor, children.p + at, KEY_ACCESSOR_SIZE - 1);
		rc = key_row_find(db, k->tenant, accessor, &child, err);
		if (rc < 0)
			break;
		rc = revoke_one(c, db, logs, &child, err);
		key_row_fini(&child);
	}
	str_fini(&children);
	return rc;
}

static int key_revoke_body(struct command_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct key_revoke *job = command_priv(c, sizeof(*job));

	c->free_priv = free_revoke;
	for (size_t i = 0; i < arg_count(c, "accessor"); i++) {
		struct key_row k;
		int rc = key_row_find(db, arg_text(c, "tenant"), arg_nth(c, "accessor", i), &k, err);

		if (rc < 0)
			return rc;
		/* With its parent, a moment ago: this is what was asked for. */
		for (size_t n = 0; n < job->count && k.revoked_us; n++)
			if (job->ended[n][1] == k.id)
				rc = 1;
		if (rc == 0 && k.revoked_us)
			rc = err_set(err, ERR_CONFLICT, "", "key %s is revoked already", k.accessor);
		if (rc == 0)
			rc = revoke_one(c, db, logs, &k, err);
		if (rc == 0)
			rc = revoke_children(c, db, logs, &k, err);
		key_row_fini(&k);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* The table of keys knows it already; what hangs on open connections ends now (SEC S-306). */
static void key_revoke_after(struct command_call *c)
{
	const struct key_revoke *job = c->priv;
	struct mcp_ended ended;

	for (size_t i = 0; i < job->count; i++) {
		const struct call_where where = { .tenant_id = job->ended[i][0], .cred_id = job->ended[i][1] };

		people_end_where(c, &where, arg_flag(c, "kill"), &ended);
	}
}

/* --- rows of the command table */

static const struct command_arg key_rotate_args[] = {
	WORD("accessor", "ACCESSOR", COMPLETE_KEY, "The public part of the key: 12 characters after tck_."),
	OPT("overlap", "TIME", ARG_DURATION, COMPLETE_NONE, "How long the old secret is still valid, at most 30d; default "
		"24h, 0s: not at all."),
	OPT("ttl", "TIME", ARG_DURATION, COMPLETE_NONE, "Life of the key from now on; default: as long as it was given "
		"before."), TENANT_OPT, ARG_END };
static const struct command_arg key_enroll_args[] = {
	{ "file", "FILE", ARG_SECRET, true, false, false, COMPLETE_FILE,
	  "Read the one-shot key from here; else from standard input, from a terminal without echo." },
	OPT("label", "TEXT", ARG_TEXT, COMPLETE_NONE, "A note for people; default: that of the one-shot key."), ARG_END };
static const struct command_arg key_args[] = {
	WORD("accessor", "ACCESSOR", COMPLETE_KEY, "The public part of the key: 12 characters after tck_."), TENANT_OPT,
	ARG_END };
static const struct command_arg key_revoke_args[] = {
	WORDS("accessor", "ACCESSOR", COMPLETE_KEY, "The public part of the key: 12 characters after tck_."),
	FLAG("kill", "Running calls too."), TENANT_OPT, ARG_END };
static const struct command_arg key_suspend_args[] = {
	WORDS("accessor", "ACCESSOR", COMPLETE_KEY, "The public part of the key: 12 characters after tck_."),
	OPT("reason", "TEXT", ARG_TEXT, COMPLETE_NONE, "Why; it stays in the record for ever: no names of persons."),
	TENANT_OPT, ARG_END };
static const struct command_column key_create_cols[] = { COL("key", "KEY"), COL_END };
static const struct command_column key_cols[] = {
	COL("accessor", "Accessor"), COL("principal", "Principal"), COL("state", "State"),
	COL("label", "Label (not evidence)"),
	COL("scopes", "Scopes"), COL("cidr", "Networks"), COL("arg_rules", "Argument rules"), COL_AT("created", "Created"),
	COL_AT("not_before", "Not before"), COL_AT("expires", "Expires"), COL_AT("rotated", "Rotated"),
	COL_AT("old_secret_until", "Old secret until"), COL_AT("suspended", "Suspended"), COL_AT("revoked", "Revoked"),
	COL_AT("last_used", "Last used (not evidence)"), COL("parent", "Made by"), COL_END };

const struct command key_commands[] = {
	{ .noun = "key", .verb = "show", .help = "Show what is known of a key", .args = key_args, .columns = key_cols,
	  .shape = ADM_ITEM, .role = ADM_READ, .own = "tenant", .where = ADM_ON_POOL,
	  .check = key_refs_check, .body = key_show_body },
	{ .noun = "key", .verb = "rotate", .help = "Give a key a new secret and show it once",
	  .detail = "The key keeps its accessor, scopes, limits and history.  For the time of the overlap both secrets are "
		    "valid, and never more than two.  Connections and streams that the old one opened end with it.",
	  .args = key_rotate_args, .columns = key_create_cols,
	  .done = "key %{accessor} of %{principal} expires %{expires}; its new secret is not shown again", .shape = ADM_SECRET,
	  .role = ADM_OWNER, .own = "tenant", .where = ADM_ON_WRITER,
	  .check = key_rotate_check, .body = key_rotate_body },
	{ .noun = "key", .verb = "enroll", .help = "Exchange a one-shot key for the key that it stands for",
	  .detail = "The key has what was said when the one-shot key was created.  Revoking the one-shot key revokes it.",
	  .args = key_enroll_args, .columns = key_create_cols,
	  .done = "key %{accessor} of %{principal} expires %{expires}; it is not shown again", .shape = ADM_SECRET,
	  .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = key_enroll_check, .body = key_enroll_body },
	{ .noun = "key", .verb = "suspend", .help = "Refuse keys until resume",
	  .detail = "No request with the key is served once the command returns: its sessions and streams are over, its "
		    "running "
		    "calls are cancelled, and its connections close behind the answers to those.  Other keys of the principal "
		    "are served.", .args = key_suspend_args,
	  .done = "key %{accessor} of %{principal} suspended: %{calls} calls cancelled, %{connections} connections ended",
	  .destructive = true, .role = ADM_OPERATE, .own = "tenant", .where = ADM_ON_WRITER,
	  .check = key_suspend_check, .body = key_suspend_body, .after = key_suspend_after },
	{ .noun = "key", .verb = "resume", .help = "Let suspended keys in again", .args = key_suspend_args,
	  .done = "key %{accessor} of %{principal} resumed", .role = ADM_OPERATE, .where = ADM_ON_WRITER,
	  .check = key_suspend_check, .body = key_resume_body },
	{ .noun = "key", .verb = "revoke", .help = "Revoke keys for ever",
	  .detail = "The next request with the key fails and its connections end before the command returns; running "
		    "calls end by themselves.  What a one-shot key was exchanged for is revoked with it.",
	  .args = key_revoke_args, .done = "key %{accessor} of %{principal} revoked", .destructive = true,
	  .role = ADM_OPERATE, .own = "tenant",
	  .where = ADM_ON_WRITER,
	  .check = key_refs_check, .body = key_revoke_body, .after = key_revoke_after },
	{ .noun = NULL },
};
