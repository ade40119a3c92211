#ifndef FORMS_FORMS_INT_H
#define FORMS_FORMS_INT_H

#include "block/block.h"
#include "block/zone.h"
#include "db/db.h"
#include "db/vtab.h"
#include "forms/forms.h"

/* Inside of src/forms: blocks that are open, for the cursors of one connection. */

enum { FORMS_ID, FORMS_ENC, FORMS_LEAF, FORMS_FIRST };  /* columns of rec: then those of audit_columns[] */

/* The place that an id of a record in a block says. */
static inline void forms_place(int64_t id, int64_t *ret_log, int64_t *ret_idx)
{
	const uint64_t at = (uint64_t)id - (uint64_t)INT64_MIN;

	*ret_log = (int64_t)(at >> FORMS_IDX_BITS);
	*ret_idx = (int64_t)(at & ((UINT64_C(1) << FORMS_IDX_BITS) - 1));
}

enum { FORMS_KEPT = 4 };                /* blocks; a cursor has its own beyond them */

/* One for each connection. */
struct forms {
	struct db *db;
	struct forms_slot *kept[FORMS_KEPT];
	unsigned loose;                 /* blocks that cursors have beside them */
	uint64_t clock;
	struct map *texts;              /* by id, for leaves */
	struct block_zones *zones;      /* room for those of one block; made when first used */
};
extern const struct db_vtab forms_pay;
struct forms *forms_new(struct db *db);
void forms_free(void *forms);

/* A block, decoded as far as somebody asked. */
struct forms_slot;
/* The block of a row of blk, whose bytes are copied unless it is there already; pinned until it is put.  columns: which
 * a statement may ask for, so that they are inflated together.  ERR_LIMIT: it has no ids. */
int forms_slot_get(struct forms *f, int64_t log, const struct block *b, uint64_t columns, struct forms_slot **ret,
		   struct err *err) MUST_CHECK;
void forms_slot_put(struct forms_slot **slot);
/* The number of the i-th record in a column; 1, or 0: NULL. */
int forms_slot_number(struct forms_slot *slot, enum audit_column col, int64_t i, int64_t *ret,
		      struct err *err) MUST_CHECK;
/* Whether it has a value there, of bytes as well. */
int forms_slot_has(struct forms_slot *slot, enum audit_column col, int64_t i, struct err *err) MUST_CHECK;
/* The value of any column of table rec.  Borrowed until the next of this slot. */
int forms_slot_value(struct forms_slot *slot, unsigned col, int64_t i, struct db_value *ret,
		     struct err *err) MUST_CHECK;

#endif
