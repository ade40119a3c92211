/* Where a report is asked: the log, and the pseudonym, of the names that somebody gave. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tenant/tenant_rows.h"

#include "report_int.h"

static const char *or_null(const char *text)
{
	return *text ? text : NULL;
}

static int find_tenant(struct db *db, struct report_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_FIND_LOG);
	struct tenant_row t = { 0 };
	struct principal_row p;
	int rc;

	db_bind_textz(st, 1, ask->tenant);
	rc = db_step(st, err);
	if (rc == 1) {
		ask->log = db_col_i64(st, 0);
		ask->tenant_id = t.id = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	if (rc == 0)            /* not even a removed one: say which name is near */
		rc = tenant_row_find(db, ask->tenant, &t, err);
	if (rc < 0 || !*ask->principal)
		return rc < 0 ? rc : 0;
	(void)snprintf(t.name, sizeof(t.name), "%s", ask->tenant);
	(void)snprintf(ask->pseudonym, sizeof(ask->pseudonym), "%s", ask->principal);
	if (strncmp(ask->principal, "prn_", 4) == 0)
		return 0;
	rc = principal_row_find(db, &t, ask->principal, &p, err);
	if (rc == 0)
		(void)snprintf(ask->pseudonym, sizeof(ask->pseudonym), "%s", p.pseudonym);
	return rc;
}

/* A key of another tenant than the one that is named is not there. */
static int find_key(struct db *db, struct report_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_REPORT_FIND_KEY);
	int rc;

	db_bind_textz(st, 1, ask->key);
	db_bind_textz(st, 2, or_null(ask->tenant));
	rc = db_step(st, err);
	if (rc == 1) {
		ask->log = db_col_i64(st, 0);
		ask->tenant_id = db_col_i64(st, 1);
	} else if (rc == 0) {
		rc = err_set(err, ERR_NOT_FOUND, "key", "key %s: not found", ask->key);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int report_ask_find(struct db *db, struct report_ask *ask, struct err *err)
{
	enum report_scope scope = report_ask_scope(ask);

	if (scope == SCOPE_KEY && *ask->key)
		return find_key(db, ask, err);
	if (*ask->tenant)
		return find_tenant(db, ask, err);
	ask->log = scope == SCOPE_EITHER || scope == SCOPE_SYSTEM ? 1 : 0;
	return 0;
}

void report_ask_fini(struct report_ask *ask)
{
	free(ask->line);
	free(ask->after);
	free(ask->store);
	json_decref(ask->cursor);
}
