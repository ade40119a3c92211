/* key create, list, show, revoke. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/text.h"
#include "call/call.h"
#include "db/db.h"
#include "mcp/mcp.h"
#include "tenant/tenant.h"

#include "adm_commands.h"
#include "admin_int.h"

#define DAY_MS (24ull * 3600 * 1000)
#define TTL_DEFAULT_MS (90 * DAY_MS)    /* SEC S-307 */
#define TTL_MAX_MS (365 * DAY_MS)
#define TTL_MIN_MS 1000
#define LABEL_MAX 200

struct key_create {
	char tenant[64], principal[64], label[LABEL_MAX + 1];
	uint64_t ttl_ms;
	struct key_pepper pepper;
	struct key_new key;
};

static void free_create(void *priv)
{
	secret_wipe(priv, sizeof(struct key_create));
	free(priv);
}

int adm_key_create_check(struct adm_call *c, struct err *err)
{
	struct key_create *job = adm_priv(c, sizeof(*job));
	const char *label = adm_text(c, "label");
	int rc = adm_split(adm_text(c, "principal"), job->tenant, job->principal, err);

	c->free_priv = free_create;
	if (rc < 0)
		return rc;
	job->ttl_ms = adm_duration_ms(c, "ttl", TTL_DEFAULT_MS);
	if (job->ttl_ms < TTL_MIN_MS || job->ttl_ms > TTL_MAX_MS)
		return err_set(err, ERR_LIMIT, "ttl", "ttl: a key lives from 1s to 365d");
	if (label && strlen(label) > LABEL_MAX)
		return err_set(err, ERR_LIMIT, "label", "the label is longer than %d bytes", LABEL_MAX);
	(void)snprintf(job->label, sizeof(job->label), "%s", label ? label : "");
	key_pepper_derive(c->admin->env.master, &job->pepper);
	return 0;
}

static int insert_key(struct db *db, const struct key_create *job, int64_t tenant_id, int64_t principal_id,
		      uint64_t expires_us, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_KEY_COUNT);
	int64_t count = 0;
	int rc;

	db_bind_i64(st, 1, tenant_id);
	rc = db_step(st, err);
	if (rc == 1)
		count = db_col_i64(st, 0);
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	if (count >= TENANT_KEYS_MAX)
		return err_set(err, ERR_LIMIT, "", "tenant %s has %d keys, which is the limit: revoke some", job->tenant,
			       TENANT_KEYS_MAX);
	st = db_stmt_get(db, SQL_KEY_INSERT);
	db_bind_i64(st, 1, tenant_id);
	db_bind_i64(st, 2, principal_id);
	db_bind_textz(st, 3, job->key.accessor);
	db_bind_blob(st, 4, job->key.hash, sizeof(job->key.hash));
	db_bind_textz(st, 5, job->label);
	db_bind_i64(st, 6, (int64_t)clock_wall_us());
	db_bind_i64(st, 7, (int64_t)expires_us);
	return db_run(&st, err);
}

static void put_new_key(struct adm_out *o, const struct key_create *job, uint64_t expires_us)
{
	char name[160];

	(void)snprintf(name, sizeof(name), "%s/%s", job->tenant, job->principal);
	adm_row_begin(o);
	adm_put_text(o, "key", job->key.text);
	adm_put_text(o, "accessor", job->key.accessor);
	adm_put_text(o, "principal", name);
	adm_put_time(o, "expires", expires_us);
	adm_row_end(o);
}

int adm_key_create_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct key_create *job = c->priv;
	struct adm_tenant t;
	struct adm_principal p;
	char obj[32];
	uint64_t expires_us = clock_wall_us() + job->ttl_ms * 1000;
	int rc = adm_find_tenant(db, job->tenant, &t, err);

	if (rc < 0)
		return rc;
	rc = adm_find_principal(db, &t, job->principal, &p, err);
	if (rc == ERR_NOT_FOUND)
		rc = adm_add_principal(db, t.id, job->principal, &p, err);
	if (rc < 0)
		return rc;
	key_make(&job->pepper, &job->key);
	rc = insert_key(db, job, t.id, p.id, expires_us, err);
	(void)snprintf(obj, sizeof(obj), "cred/%s", job->key.accessor);
	if (rc == 0)
		rc = adm_record(c, db, logs, &(struct adm_record){ .kind = AUDIT_CRED_CREATE, .tenant_id = t.id, .obj = obj,
			.accessor = job->key.accessor, .prn = p.pseudonym }, err);
	if (rc == 0)
		rc = adm_changed_people(c, db, t.id, err);
	if (rc == 0)
		put_new_key(c->out, job, expires_us);
	return rc;
}

/* --- reading */

struct key_row {
	int64_t id, tenant_id;
	char tenant[80], principal[80], accessor[32], label[LABEL_MAX + 1];
	uint64_t created_us, expires_us, revoked_us, last_used_us;      /* 0 = never */
};

static void copy_col(struct db_stmt *st, unsigned col, char *ret, size_t size)
{
	size_t len;
	const char *text = db_col_text(st, col, &len);

	(void)snprintf(ret, size, "%.*s", (int)(len < size ? len : size - 1), text);
}

static void read_key(struct db_stmt *st, struct key_row *k)
{
	k->id = db_col_i64(st, 0);
	k->tenant_id = db_col_i64(st, 1);
	copy_col(st, 2, k->tenant, sizeof(k->tenant));
	copy_col(st, 3, k->principal, sizeof(k->principal));
	copy_col(st, 4, k->accessor, sizeof(k->accessor));
	copy_col(st, 5, k->label, sizeof(k->label));
	k->created_us = (uint64_t)db_col_i64(st, 6);
	k->expires_us = (uint64_t)db_col_i64(st, 7);
	k->revoked_us = (uint64_t)db_col_i64(st, 8);
	k->last_used_us = (uint64_t)db_col_i64(st, 9);
}

static void put_key(struct adm_out *o, const struct key_row *k)
{
	char name[168];
	const char *state = k->revoked_us ? "revoked" : k->expires_us && k->expires_us <= clock_wall_us() ? "expired" : "valid";

	(void)snprintf(name, sizeof(name), "%s/%s", k->tenant, k->principal);
	adm_row_begin(o);
	adm_put_text(o, "accessor", k->accessor);
	adm_put_text(o, "principal", name);
	adm_put_text(o, "tenant", k->tenant);
	adm_put_text(o, "state", state);
	adm_put_text(o, "label", *k->label ? k->label : NULL);
	adm_put_time(o, "created", k->created_us);
	adm_put_time(o, "expires", k->expires_us);
	adm_put_time(o, "revoked", k->revoked_us);
	adm_put_time(o, "last_used", k->last_used_us);
	adm_row_end(o);
}

struct key_list { char tenant[64], principal[64]; };

int adm_key_list_check(struct adm_call *c, struct err *err)
{
	struct key_list *job = adm_priv(c, sizeof(*job));
	const char *tenant = adm_text(c, "tenant"), *principal = adm_text(c, "principal");

	if (principal && !tenant)
		return err_set(err, ERR_INVALID, "principal", "--principal needs its TENANT");
	(void)snprintf(job->tenant, sizeof(job->tenant), "%s", tenant ? tenant : "");
	(void)snprintf(job->principal, sizeof(job->principal), "%s", principal ? principal : "");
	return 0;
}

static int list_tenant(struct adm_call *c, struct db *db, int64_t tenant_id, struct err *err)
{
	const struct key_list *job = c->priv;
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_KEY_LIST);
	struct key_row k;
	int rc;

	db_bind_i64(st, 1, tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		read_key(st, &k);
		if (!*job->principal || strcmp(job->principal, k.principal) == 0)
			put_key(c->out, &k);
	}
	db_stmt_put(&st);
	return rc;
}

int adm_key_list_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct key_list *job = c->priv;
	struct adm_tenant t;
	struct adm_principal p;
	struct db_stmt *st;
	int rc = 0;

	(void)logs;
	if (*job->tenant) {
		rc = adm_find_tenant(db, job->tenant, &t, err);
		if (rc == 0 && *job->principal)
			rc = adm_find_principal(db, &t, job->principal, &p, err);
		return rc < 0 ? rc : list_tenant(c, db, t.id, err);
	}
	st = db_stmt_get(db, SQL_ADMIN_TENANT_LIST);
	while (rc == 0 && (rc = db_step(st, err)) == 1) {
		adm_read_tenant(st, &t);
		rc = list_tenant(c, db, t.id, err);
	}
	db_stmt_put(&st);
	return rc;
}

/* --- by accessor: show and revoke */

struct key_refs {
	size_t count, revoked;
	char tenant[64];                /* a key of another one is as good as none; "" = any */
	char (*accessor)[KEY_ACCESSOR_SIZE];
	int64_t (*ended)[2];            /* tenant and key, of those revoked */
};

static void free_refs(void *priv)
{
	struct key_refs *job = priv;

	free(job->accessor);
	free(job->ended);
	free(job);
}

static int take_accessor(struct key_refs *job, const char *text, struct err *err)
{
	const char *accessor, *secret;

	/* Somebody pasted the whole key: refuse, and never repeat it. */
	if (key_parse(text, strlen(text), &accessor, &secret) == 0 || strncmp(text, "tck_", 4) == 0) {
		(void)err_set(err, ERR_INVALID, "accessor", "that is a key, not its accessor");
		err_hint(err, "the accessor is the 12 characters after tck_; the key may now be in your shell's history");
		return ERR_INVALID;
	}
	if (strlen(text) != KEY_ACCESSOR_SIZE - 1)
		return err_set(err, ERR_NOT_FOUND, "", "key %.40s: not found", text);
	memcpy(job->accessor[job->count++], text, KEY_ACCESSOR_SIZE);
	return 0;
}

int adm_key_refs_check(struct adm_call *c, struct err *err)
{
	size_t n = adm_count(c, "accessor");
	struct key_refs *job = adm_priv(c, sizeof(*job));
	int rc = 0;

	c->free_priv = free_refs;
	job->accessor = mem_calloc(n + 1, sizeof(*job->accessor));
	job->ended = mem_calloc(n + 1, sizeof(*job->ended));
	adm_copy(c, "tenant", job->tenant, sizeof(job->tenant));
	if (n == 0)
		return take_accessor(job, adm_text(c, "accessor"), err);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = take_accessor(job, adm_nth(c, "accessor", i), err);
	return rc;
}

static int find_key(struct db *db, const struct key_refs *job, const char *accessor, struct key_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_KEY_FIND);
	int rc;

	db_bind_textz(st, 1, accessor);
	rc = db_step(st, err);
	if (rc == 1)
		read_key(st, ret);
	db_stmt_put(&st);
	if (rc == 0 || (rc == 1 && *job->tenant && strcmp(ret->tenant, job->tenant) != 0))
		return err_set(err, ERR_NOT_FOUND, "", "key %s: not found", accessor);
	return rc < 0 ? rc : 0;
}

int adm_key_show_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	const struct key_refs *job = c->priv;
	struct key_row k;
	int rc = find_key(db, job, job->accessor[0], &k, err);

	(void)logs;
	if (rc == 0)
		put_key(c->out, &k);
	return rc;
}

static int revoke_one(struct adm_call *c, struct db *db, struct audit_logs *logs, struct key_row *k, struct err *err)
{
	struct db_stmt *st;
	char obj[48];
	int rc;

	if (k->revoked_us)
		return err_set(err, ERR_CONFLICT, "", "key %s is revoked already", k->accessor);
	k->revoked_us = clock_wall_us();
	st = db_stmt_get(db, SQL_KEY_SET_REVOKED);
	db_bind_i64(st, 1, k->tenant_id);
	db_bind_i64(st, 2, k->id);
	db_bind_i64(st, 3, (int64_t)k->revoked_us);
	rc = db_run(&st, err);
	(void)snprintf(obj, sizeof(obj), "cred/%s", k->accessor);
	if (rc == 0)
		rc = adm_record(c, db, logs, &(struct adm_record){ .kind = AUDIT_CRED_REVOKE, .tenant_id = k->tenant_id,
			.obj = obj, .accessor = k->accessor }, err);
	if (rc == 0)
		rc = adm_changed_people(c, db, k->tenant_id, err);
	return rc;
}

int adm_key_revoke_body(struct adm_call *c, struct db *db, struct audit_logs *logs, struct err *err)
{
	struct key_refs *job = c->priv;
	struct key_row k;

	for (size_t i = 0; i < job->count; i++) {
		int rc = find_key(db, job, job->accessor[i], &k, err);

		if (rc == 0)
			rc = revoke_one(c, db, logs, &k, err);
		if (rc < 0)
			return rc;
		job->ended[job->revoked][0] = k.tenant_id;
		job->ended[job->revoked++][1] = k.id;
		put_key(c->out, &k);
	}
	return 0;
}

/* The table of keys knows it already; what hangs on open connections ends now (SEC S-306). */
void adm_key_revoke_after(struct adm_call *c)
{
	const struct key_refs *job = c->priv;
	struct mcp_ended ended;

	for (size_t i = 0; i < job->revoked; i++)
		adm_put_out(c, &(struct call_where){ .tenant_id = job->ended[i][0], .cred_id = job->ended[i][1] }, false, &ended);
}
