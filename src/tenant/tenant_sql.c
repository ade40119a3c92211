/* Rows of tenant, principal and cred to images, and the last use of keys back to rows. */

#include "config.h"

#include "tenant/tenant.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "db/db.h"
#include "tenant/arg_rule.h"
#include "tenant/cidr.h"
#include "tenant/scope.h"
#include "tenant_int.h"

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
		rc = copy_text(st, 0, img->name, sizeof img->name, err);
	if (rc == 0) {
		size_t len;
		const char *title = db_col_text(st, 1, &len);

		img->title = mem_strndup(title, len);
		t->id = tenant_id;
		t->name = img->name;
		t->title = img->title;
		t->state = (enum tenant_state)db_col_i64(st, 2);
		t->concurrency = (uint32_t)db_col_i64(st, 3);
		if (t->concurrency == 0)
			t->concurrency = TENANT_CONCURRENCY_DEFAULT;
		t->rate.count = (uint32_t)db_col_i64(st, 4);
		t->rate.per_s = (uint32_t)db_col_i64(st, 5);
		img->sandbox = mem_strdup(db_col_text(st, 6, NULL));
		t->sandbox = img->sandbox;
		t->audit_level = db_col_type(st, 7) == DB_NULL ? -1 : (int)db_col_i64(st, 7);
	}
	db_stmt_put(&st);
	return rc;
}

static int read_principal(struct db_stmt *st, struct ten_principal *p, struct err *err)
{
	int rc;

	p->id = db_col_i64(st, 0);
	p->state = (enum principal_state)db_col_i64(st, 3);
	rc = copy_text(st, 1, p->name, sizeof p->name, err);
	if (rc == 0)
		rc = copy_text(st, 2, p->pseudonym, sizeof p->pseudonym, err);
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
			img->principals = mem_realloc(img->principals, cap * sizeof *img->principals);
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
static int read_limits(struct db_stmt *st, struct ten_cred *c, struct err *err)
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

static int read_cred(struct db_stmt *st, struct ten_cred *c, struct err *err)
{
	int rc;

	*c = (struct ten_cred){ .id = db_col_i64(st, 0), .principal_id = db_col_i64(st, 1) };
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
		rc = copy_text(st, 2, c->accessor, sizeof c->accessor, err);
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
			img->creds = mem_realloc(img->creds, cap * sizeof *img->creds);
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
		struct ten_level *level = mem_alloc(sizeof *level);

		level->level = (int)db_col_i64(st, 1);
		if (!img->levels)
			img->levels = map_new();
		free(map_set_z(img->levels, db_col_text(st, 0, NULL), level));
	}
	db_stmt_put(&st);
	return rc;
}

void tenant_limits_read(struct db_stmt *st, unsigned col, struct tenant_limits *ret)
{
	*ret = (struct tenant_limits){ .concurrency = (uint32_t)db_col_i64(st, col), .queue = (uint32_t)db_col_i64(st, col + 1),
		.rate = { (uint32_t)db_col_i64(st, col + 2), (uint32_t)db_col_i64(st, col + 3) },
		.requests = { (uint32_t)db_col_i64(st, col + 4), (uint32_t)db_col_i64(st, col + 5) },
		.calls_day = (uint64_t)db_col_i64(st, col + 6), .bytes_day = (uint64_t)db_col_i64(st, col + 7) };
}

static int load_limits(struct db *db, struct tenant_image *img, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_LIMIT_OF_TENANT);
	size_t cap = 0;
	int rc;

	db_bind_i64(st, 1, img->tenant.id);
	while ((rc = db_step(st, err)) > 0) {
		struct ten_limits *row;

		if (img->nlimits == cap) {
			cap = cap ? cap * 2 : 4;
			img->limits = mem_realloc(img->limits, cap * sizeof *img->limits);
		}
		row = &img->limits[img->nlimits++];
		*row = (struct ten_limits){ .scope = db_col_i64(st, 0), .subject = db_col_i64(st, 1) };
		tenant_limits_read(st, 2, &row->set);
	}
	db_stmt_put(&st);
	return rc;
}

int tenant_image_load(struct db *db, int64_t tenant_id, struct tenant_image **ret, struct err *err)
{
	struct tenant_image *img = mem_zalloc(sizeof *img);
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

int ten_load_all(struct tenants *t, struct db *db, struct err *err)
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
