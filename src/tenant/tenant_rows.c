/* Rows of tenants and principals, for commands: found by name, or "not found" with the nearest one; principals are also
 * added here, for keys and commands do so.  Any thread, with its own connection; nothing is kept between two calls. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/text.h"
#include "db/db.h"
#include "tenant/tenant.h"
#include "tenant/tenant_rows.h"

#define PSEUDONYM_RANDOM 16             /* characters after prn_ */

void tenant_limits_read(struct db_stmt *st, unsigned col, struct tenant_limits *ret)
{
	*ret = (struct tenant_limits){ .concurrency = (uint32_t)db_col_i64(st, col),
		.queue = (uint32_t)db_col_i64(st, col + 1),
		.rate = { (uint32_t)db_col_i64(st, col + 2), (uint32_t)db_col_i64(st, col + 3) },
		.requests = { (uint32_t)db_col_i64(st, col + 4), (uint32_t)db_col_i64(st, col + 5) },
		.calls_day = (uint64_t)db_col_i64(st, col + 6), .bytes_day = (uint64_t)db_col_i64(st, col + 7) };
}

void tenant_row_read(struct db_stmt *st, struct tenant_row *ret)
{
	*ret = (struct tenant_row){ .id = db_col_i64(st, 0), .state = (int)db_col_i64(st, 3),
		.generation = db_col_i64(st, 4), .concurrency = db_col_i64(st, 5),
		.rate = { (uint32_t)db_col_i64(st, 6), (uint32_t)db_col_i64(st, 7) }, .created_us = db_col_i64(st, 8) };
	db_col_copy(st, 1, ret->name, sizeof(ret->name));
	db_col_copy(st, 2, ret->title, sizeof(ret->title));
	db_col_copy(st, 9, ret->sandbox, sizeof(ret->sandbox));
	tenant_limits_read(st, 10, &ret->more);
}

int tenant_row_find(struct db *db, const char *name, struct tenant_row *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_TENANT_FIND);
	int rc;

	db_bind_textz(st, 1, name);
	rc = db_step(st, err);
	if (rc == 1)
		tenant_row_read(st, ret);
	db_stmt_put(&st);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	(void)err_set(err, ERR_NOT_FOUND, "", "tenant %.64s: not found", name);
	st = db_stmt_get(db, SQL_ADMIN_TENANT_LIST);
	db_did_you_mean(&st, 1, name, err);
	return ERR_NOT_FOUND;
}

int tenant_row_log(struct db *db, int64_t tenant_id, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_AUDIT_GET_LOG);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc == 0 ? err_set(err, ERR_CORRUPT, "", "the tenant has no log") : rc < 0 ? rc : 0;
}

static int note_any(void *arg, const struct audit_view *v)
{
	(void)v;
	*(bool *)arg = true;
	return 1;
}

int tenant_row_of_call(struct db *db, const char *tenant, const uint8_t call[16], const char *text,
		       struct tenant_row *ret, struct err *err)
{
	struct db_stmt *st;
	bool found = false;
	int rc = 0;

	if (*tenant) {
		rc = tenant_row_find(db, tenant, ret, err);
		if (rc == 0)
			rc = audit_query_call(db, ret->id, call, note_any, &found, err);
	} else {
		st = db_stmt_get(db, SQL_ADMIN_TENANT_LIST);
		while (!found && (rc = db_step(st, err)) == 1) {
			tenant_row_read(st, ret);
			rc = audit_query_call(db, ret->id, call, note_any, &found, err);
			if (rc < 0)
				break;
		}
		db_stmt_put(&st);
	}
	if (rc >= 0 && !found)
		return err_set(err, ERR_NOT_FOUND, "", "call %s: not found%s%s", text,
			       *tenant ? " in the log of " : "", tenant);
	return rc < 0 ? rc : 0;
}

void principal_row_read(struct db_stmt *st, struct principal_row *ret)
{
	*ret = (struct principal_row){ .id = db_col_i64(st, 0), .state = (int)db_col_i64(st, 3),
		.created_us = db_col_i64(st, 4) };
	db_col_copy(st, 1, ret->name, sizeof(ret->name));
	db_col_copy(st, 2, ret->pseudonym, sizeof(ret->pseudonym));
	db_col_copy(st, 5, ret->system, sizeof(ret->system));
}

int principal_row_find(struct db *db, const struct tenant_row *t, const char *name, struct principal_row *ret,
		       struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_PRINCIPAL_FIND);
	int rc;

	db_bind_i64(st, 1, t->id);
	db_bind_textz(st, 2, name);
	rc = db_step(st, err);
	if (rc == 1)
		principal_row_read(st, ret);
	db_stmt_put(&st);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	(void)err_set(err, ERR_NOT_FOUND, "", "principal %s/%.64s: not found", t->name, name);
	st = db_stmt_get(db, SQL_ADMIN_PRINCIPAL_LIST);
	db_bind_i64(st, 1, t->id);
	db_did_you_mean(&st, 1, name, err);
	return ERR_NOT_FOUND;
}

int tenant_row_count(struct db *db, enum sql_id sql, int64_t tenant_id, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);
	int rc;

	db_bind_i64(st, 1, tenant_id);
	rc = db_step(st, err);
	*ret = rc == 1 ? db_col_i64(st, 0) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* A principal is never removed, since records name it. */
static int check_room(struct db *db, const struct tenant_row *t, struct err *err)
{
	int64_t count = 0;
	int rc = tenant_row_count(db, SQL_ADMIN_PRINCIPAL_COUNT, t->id, &count, err);

	if (rc < 0)
		return rc;
	if (count < TENANT_PRINCIPALS_MAX)
		return 0;
	metric_inc(METRIC_principals_refused);
	(void)err_set(err, ERR_LIMIT, "", "tenant %s has %lld principals, which is the limit", t->name, (long long)count);
	err_hint(err, "give the key to a principal that is there, see toolcrib principal list %s", t->name);
	return ERR_LIMIT;
}

int principal_row_add(struct db *db, const struct tenant_row *t, const char *name, struct principal_row *ret,
		      struct err *err)
{
	struct principal_row p = { .state = 1, .created_us = (int64_t)clock_wall_us() };
	char random[PSEUDONYM_RANDOM + 1];
	struct db_stmt *st;
	int rc = check_room(db, t, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_PRINCIPAL_INSERT);
	id_random_text(random, PSEUDONYM_RANDOM);
	(void)snprintf(p.name, sizeof(p.name), "%s", name);
	(void)snprintf(p.pseudonym, sizeof(p.pseudonym), "prn_%s", random);
	db_bind_i64(st, 1, t->id);
	db_bind_textz(st, 2, p.name);
	db_bind_textz(st, 3, p.pseudonym);
	db_bind_i64(st, 4, p.created_us);
	rc = db_run_id(&st, &p.id, err);
	if (rc < 0)
		return rc;
	*ret = p;
	return 0;
}

const char *tenant_state_name(int state)
{
	static const char *const names[] = { [1] = "active", [2] = "suspended", [3] = "removed" };

	return state >= 1 && state <= 3 ? names[state] : "unknown";
}

void principal_names_free(struct map **names)
{
	void *name;

	for (size_t it = 0; *names && map_next(*names, &it, NULL, NULL, &name); )
		free(name);
	map_free(names);
}

int principal_names_load(struct db *db, int64_t tenant_id, struct map **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_ADMIN_PRINCIPAL_LIST);
	struct principal_row p;
	int rc;

	principal_names_free(ret);
	*ret = map_new();
	db_bind_i64(st, 1, tenant_id);
	while ((rc = db_step(st, err)) == 1) {
		principal_row_read(st, &p);
		free(map_set_z(*ret, p.pseudonym, mem_strdup(p.name)));
	}
	db_stmt_put(&st);
	return rc;
}

const char *principal_name(const struct map *names, const char *pseudonym)
{
	const char *name = names && pseudonym ? map_get_z(names, pseudonym) : NULL;

	return name ? name : pseudonym;
}
