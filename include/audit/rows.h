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
	X(UPSTREAM_TOOL, 11, upstream_tool) X(INVENTORY, 12, inventory) X(SYSTEM, 13, system) \
	X(VERSION, 19, version) X(SETTING, 20, setting) X(PENDING, 21, pending) X(LOG, 22, log) X(HOLD, 23, hold) \
	X(REMOTE_STATE, 24, remote_state)
enum audit_row_kind {
#define AUDIT_ROW_ENUM(sym, n, name) AUDIT_ROW_##sym = n,
	AUDIT_ROWS(AUDIT_ROW_ENUM)
#undef AUDIT_ROW_ENUM
	AUDIT_ROW_END
};
const char *audit_row_name(unsigned kind);      /* "tenant"; "row" of an unknown one */
#define AUDIT_ROW_FIRST_LATER AUDIT_ROW_VERSION /* those before have records since step 0016 of the store */

#define AUDIT_ROW_DIGEST 32
#define AUDIT_ROW_KIND_SHIFT 48                 /* of a key: below is the id */
#define AUDIT_ROWS_OF_RECORD 1000               /* that one record vouches for; the rest waits for the next */

struct db;
/* As audit_append(), and a record of a kind that speaks of rows vouches for what has been written since the one before
 * (log.open for its log alone): fields 0103 (rows, 8 bytes each: kind in the upper 16 bits, id) and 010C (their
 * digests; zero when a row is gone).  When it is about one row of the kind `about` (0: none), 0100 and 0101 are that
 * row's digests, whatever the event says.  AUDIT_ROWS_SAME: rows wait because a cut takes their record, and one that is
 * not what that says is ERR_CORRUPT. */
#define AUDIT_ROWS_SAME UINT32_MAX
int audit_append_rows(struct audit_logs *logs, struct db *db, const struct audit_event *ev, unsigned about,
		      struct audit_receipt *ret, struct err *err) MUST_CHECK;
/* The event, and while more rows wait than one record vouches for, others of its kind that say nothing but these; about
 * as above. */
int audit_append_all_rows(struct audit_logs *logs, struct db *db, const struct audit_event *ev, unsigned about,
			  struct err *err) MUST_CHECK;
/* 1 when there is a row that no record vouches for, with its name in ret ("cred/7"); else 0. */
int audit_rows_pending(struct db *db, char ret[40], struct err *err) MUST_CHECK;
/* At a start, whose record is `ev`: rows of kinds that no record of this store spoke of before are taken as they are,
 * by records registry.vouch, which have the kinds that are vouched for from there on in 0128.  Any other row without
 * a record is ERR_CORRUPT. */
int audit_append_start(struct audit_logs *logs, struct db *db, const struct audit_event *ev,
		       struct err *err) MUST_CHECK;
/* Each row against its record; by any connection.  ERR_CORRUPT: this row is not what its record says.  A start, whose
 * time must not grow with what once was, leaves the versions out: each is checked where it is used; and rows whose
 * records are in sealed files that are not here, which it counts in the log (decision 0089). */
int audit_rows_check(struct db *db, struct err *err) MUST_CHECK;
/* One row before it is used.  ERR_CORRUPT: as above, or it has no record.  *ret_taken_us: when a record took it as it
 * was, 0: its record made it, or is in a sealed file that is not here. */
int audit_row_check(struct db *db, unsigned kind, int64_t id, uint64_t *ret_taken_us, struct err *err) MUST_CHECK;

/* Rows that keep a store from starting: fn() for each that is not what its record says, has no record, or is gone
 * without one; gone: that.  Versions that are not what their records say are not among them: they are refused where
 * they are used.  By any connection. */
typedef int audit_bad_fn(void *arg, unsigned kind, int64_t id, bool gone, struct err *err);
int audit_rows_bad(struct db *db, audit_bad_fn *fn, void *arg, struct err *err) MUST_CHECK;
/* How such a row is taken out of service, "revoked"; NULL: it cannot be. */
const char *audit_row_closing(unsigned kind);
/* In the transaction of a start, before audit_append_start(): takes the rows named in `rows` ("cred/7"; ended by NULL)
 * out of service, and what they could have held back too, with a record registry.quarantine for each, which has the row
 * as it stood (0139) and `by`.  Nothing is opened by it: what the rows say is not believed.  ERR_CONFLICT: a named row
 * is as its record says, or another one is not and was not named; ERR_INVALID: no such row; ERR_DENIED: not of this
 * kind. */
int audit_quarantine(struct audit_logs *logs, struct db *db, const char *const *rows, const char *by,
		     struct err *err) MUST_CHECK;

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
/* 0128: a bit for each kind. */
static inline uint64_t audit_row_kinds(const void *ext, size_t len)
{
	size_t n = 0;
	const uint8_t *p = audit_field_find(ext, len, AUDIT_TAG_ROW_KINDS, &n);
	uint64_t mask = 0;

	for (size_t i = 0; p && i + 2 <= n; i += 2) {
		uint64_t kind = audit_get_be(p + i, 2);

		mask |= kind < 64 ? UINT64_C(1) << kind : 0;
	}
	return mask;
}

#endif
