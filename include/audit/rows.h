#ifndef AUDIT_ROWS_H
#define AUDIT_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/err.h"

/* Rows of the registry and credentials, and the records that vouch for them (AUDIT ).  Triggers of the
 * store mark a row that is written; the next record of the same transaction names it and has its digest, and the
 * row gets the place of the record.  So what was slipped in behind the log is found.  Kinds are part of the
 * format. */
#define AUDIT_ROWS(X) \
	X(TENANT, 1, tenant) X(PRINCIPAL, 2, principal) X(CRED, 3, cred) X(GRANT, 4, grant) X(TOOL, 5, tool) \
	X(SCHEMA, 6, schema) X(UPSTREAM, 7, upstream) X(SECRET, 8, secret) X(LIMIT, 9, limit) X(LEVEL, 10, level) \
	X(UPSTREAM_TOOL, 11, upstream_tool)
enum audit_row_kind {
#define AUDIT_ROW_ENUM(sym, n, name) AUDIT_ROW_##sym = n,
	AUDIT_ROWS(AUDIT_ROW_ENUM)
#undef AUDIT_ROW_ENUM
	AUDIT_ROW_END
};
const char *audit_row_name(unsigned kind);      /* "tenant"; "row" of an unknown one */

#define AUDIT_ROW_DIGEST 32
#define AUDIT_ROW_KIND_SHIFT 48                 /* of a key: below is the id */
#define AUDIT_ROWS_OF_RECORD 1000               /* that one record vouches for; the rest waits for the next */

struct db;
/* As audit_append(), and the record vouches for what has been written since the one before: fields 0103 (rows, 8
 * bytes each: kind in the upper 16 bits, id) and 010C (their digests; zero when a row is gone).  When it is about
 * one row of the kind `about` (0: none), 0100 and 0101 are that row's digests, whatever the event says. */
int audit_append_rows(struct audit_logs *logs, struct db *db, const struct audit_event *ev, unsigned about,
		      struct audit_receipt *ret, struct err *err) MUST_CHECK;
/* 1 when there is a row that no record vouches for, with its name in ret ("cred/7"); else 0. */
int audit_rows_pending(struct db *db, char ret[40], struct err *err) MUST_CHECK;
/* At a start: the rows of a store from before there were such records are vouched for by this one, which `ev`
 * starts; in any other store a row without a record is ERR_CORRUPT. */
int audit_append_start(struct audit_logs *logs, struct db *db, const struct audit_event *ev,
		       struct err *err) MUST_CHECK;
/* Each row against its record; by any connection.  ERR_CORRUPT: this row is not what its record says. */
int audit_rows_check(struct db *db, struct err *err) MUST_CHECK;

/* Reading rows as they stand, and what records say of them. */
struct audit_vouched {
	unsigned kind;
	int64_t id, log, idx;           /* idx below 0: no record */
	uint8_t digest[AUDIT_ROW_DIGEST];
};
typedef int audit_vouched_fn(void *arg, const struct audit_vouched *row, struct err *err);
/* A page of rows of one kind from *from on, which moves on; 1: there may be more. */
int audit_rows_page(struct db *db, unsigned kind, int64_t *from, audit_vouched_fn *fn, void *arg,
		    struct err *err) MUST_CHECK;
uint64_t audit_row_key(unsigned kind, int64_t id);      /* as records name a row */
bool audit_rows_speak(int64_t kind);                    /* records of this kind have keys and digests of rows */

#endif
