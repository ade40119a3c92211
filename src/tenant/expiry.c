/* Keys whose life is over: one record each, soon after (AUDIT 1204). */

#include "config.h"

#include "tenant/tenant.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/rows.h"
#include "base/clock.h"
#include "db/db.h"

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
		(void)snprintf(e->accessor, sizeof e->accessor, "%s", db_col_text(st, 2, NULL));        /* 12 characters */
		(void)snprintf(e->pseudonym, sizeof e->pseudonym, "%s", db_col_text(st, 3, NULL));      /* as the principal's */
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
	(void)snprintf(obj, sizeof obj, "cred/%s", e->accessor);
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
