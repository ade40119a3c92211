#ifndef AUDIT_ROWS_INT_H
#define AUDIT_ROWS_INT_H

#include "audit/rows.h"
#include "audit_int.h"

/* Inside of src/audit: rows and their records, for the start and for the verifier. */

enum { ROW_COL_LOG, ROW_COL_IDX, ROW_COL_ID };  /* of the statements rows_*; the rest of the digest follows */
#define ROW_KIND_SHIFT 48
#define ROWS_PAGE 256                   /* rows read in one transaction */
#define META_VOUCHED "vouched"          /* set once all rows have records */

struct audit_vouched {                  /* a row as it stands */
	unsigned kind;
	int64_t id, log, idx;           /* idx below 0: no record */
	uint8_t digest[AUDIT_ROW_DIGEST];
};
typedef int audit_vouched_fn(void *arg, const struct audit_vouched *row, struct err *err);
/* A page of rows of one kind from *from on, which moves on; 1: there may be more. */
int audit_rows_page(struct db *db, unsigned kind, int64_t *from, audit_vouched_fn *fn, void *arg, struct err *err) MUST_CHECK;

uint64_t audit_row_key(unsigned kind, int64_t id);
bool audit_rows_speak(int64_t kind);
/* What a record says of a row: 32 bytes, zero when it was deleted; NULL: nothing. */
const uint8_t *audit_record_row(const void *ext, size_t len, uint64_t key);
/* The same of the record at a place; 1 when it says something. */
int audit_record_of(struct db *db, int64_t log, int64_t idx, uint64_t key, uint8_t ret[AUDIT_ROW_DIGEST], struct err *err) MUST_CHECK;

#endif
