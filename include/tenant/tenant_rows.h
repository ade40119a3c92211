#ifndef TENANT_TENANT_ROWS_H
#define TENANT_TENANT_ROWS_H

#include "base/err.h"
#include "base/text.h"
#include "db/db.h"
#include "tenant/tenant.h"

#include <stddef.h>
#include <stdint.h>

/* Tenants and principals as rows, for commands; any thread with its connection. */

struct map;

struct tenant_row {
	int64_t id;
	char name[80], title[256];
	int state;
	int64_t generation, concurrency, created_us;
	struct text_rate rate;
	char sandbox[64];               /* the level that is required beside others; "" = none */
	struct tenant_limits more;      /* all but concurrency and rate */
};
/* By name; removed ones are not found.  ERR_NOT_FOUND with "did you mean". */
int tenant_row_find(struct db *db, const char *name, struct tenant_row *ret, struct err *err) MUST_CHECK;
struct principal_row { int64_t id, created_us; char name[64], pseudonym[32], system[64]; int state; };
int principal_row_find(struct db *db, const struct tenant_row *t, const char *name, struct principal_row *ret,
		       struct err *err) MUST_CHECK;
/* What a statement counts that takes the tenant alone. */
int tenant_row_count(struct db *db, enum sql_id sql, int64_t tenant_id, int64_t *ret, struct err *err) MUST_CHECK;
/* Insert one with a fresh pseudonym.  ERR_LIMIT: the tenant has TENANT_PRINCIPALS_MAX. */
int principal_row_add(struct db *db, const struct tenant_row *t, const char *name, struct principal_row *ret,
		      struct err *err) MUST_CHECK;
const char *tenant_state_name(int state);          /* of tenants and principals */
/* The row that a statement admin_<what>_find or _list stands at. */
void tenant_row_read(struct db_stmt *st, struct tenant_row *ret);
void principal_row_read(struct db_stmt *st, struct principal_row *ret);

/* Names of a tenant's principals by pseudonym, for showing records. */
int principal_names_load(struct db *db, int64_t tenant_id, struct map **ret, struct err *err) MUST_CHECK;
void principal_names_free(struct map **names);
/* Its name, or itself; NULL for NULL. */
const char *principal_name(const struct map *names, const char *pseudonym);
/* The tenant in whose log a call stands: this one, or with "" any.  ERR_NOT_FOUND, in words with the call's text. */
int tenant_row_of_call(struct db *db, const char *tenant, const uint8_t call[16], const char *text,
		       struct tenant_row *ret, struct err *err) MUST_CHECK;
int tenant_row_log(struct db *db, int64_t tenant_id, int64_t *ret, struct err *err) MUST_CHECK;

#endif
