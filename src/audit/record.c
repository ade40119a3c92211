/* The bytes of records, made anew from their columns: what exports carry and others can check. */

#include "config.h"

#include "audit/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct audit_walk {
	struct audit_reader *reader;
	struct audit_page page;
	struct audit_bytes bytes;
};

struct audit_walk *audit_walk_new(struct db *db, int64_t log, const char *origin, int64_t from, int64_t to)
{
	struct audit_walk *w = mem_zalloc(sizeof *w);

	w->reader = audit_reader_new(db);
	w->page.log = log;
	w->page.origin = origin;
	w->page.from = from;
	w->page.to = to;
	return w;
}

void audit_walk_free(struct audit_walk **wp)
{
	if (!*wp)
		return;
	audit_reader_free(&(*wp)->reader);
	free((*wp)->bytes.p);
	free(*wp);
	*wp = NULL;
}

int audit_walk_next(struct audit_walk *w, struct audit_record *ret, struct err *err)
{
	struct audit_read read;
	int rc = audit_reader_next(w->reader, &w->page, &read, err);

	if (rc != 1)
		return rc;
	audit_row_encode(&read.row, &w->bytes);
	ret->idx = read.idx;
	ret->enc = AUDIT_ENC;
	ret->bytes = w->bytes.p;
	ret->len = w->bytes.len;
	memcpy(ret->leaf, read.leaf, sizeof ret->leaf);
	return 1;
}
