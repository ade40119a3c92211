#ifndef AUDIT_VERIFY_INT_H
#define AUDIT_VERIFY_INT_H

#include "audit/verify.h"

#include "audit_int.h"

/* What the steps of a verification share: verify.c walks, verify_<step>.c looks at what the step is about. */

struct verify {
	struct db *db;
	audit_found_fn *found;
	void *arg;
	struct audit_coverage *sum;
	struct verify_rows *rows;       /* NULL: one tenant's log alone is looked at */
};

struct verify_head {
	int64_t id, size, found;        /* of the log; records by head, records by themselves */
	int64_t min_idx, pruned_by;     /* pruned_by -1: nothing was pruned */
	bool has_root;
	uint8_t root[TREE_HASH];
	char *origin;
};

struct verify_log {
	struct verify *v;
	const struct verify_head *head;
	struct tree tree;
	int64_t next;                   /* index that must come */
	struct map *open;               /* begins without an end by call id */
	bool overflow;
	/* verify_keep.c */
	struct tile_nodes nodes;        /* that the last record completed */
	struct tree tiles;              /* whose leaves are the hashes of level 1 */
	bool no_tiles;
	struct map *intents;            /* index of the record by itself, of intents that have not been done */
	int64_t holds, releases, policies;
	/* The run of neighbours with one finding, not told yet. */
	struct audit_finding run[AUDIT_FINDING_COUNT];
	bool running[AUDIT_FINDING_COUNT];
};

void verify_tell(struct verify *v, const struct audit_finding *f);
/* Of a log as a whole, or of the store: origin NULL. */
void verify_tell_store(struct verify *v, enum audit_finding_code code, const char *origin, const char *detail);
/* Of records from <= idx <= to; neighbours are one finding. */
void verify_tell_record(struct verify_log *c, enum audit_finding_code code, int64_t from, int64_t to);

/* --- verify_keep.c: what was pruned, erased, held.  Negative only when the store cannot be read. */

/* The tree as it was at the cut, from the record of the prune. */
int verify_cut(struct verify_log *c, struct err *err) MUST_CHECK;
/* After each record. */
int verify_tiles(struct verify_log *c, struct err *err) MUST_CHECK;
int verify_keep(struct verify_log *c, const struct audit_row *row, int64_t idx, struct err *err) MUST_CHECK;
int verify_keep_end(struct verify_log *c, bool report, struct err *err) MUST_CHECK;

/* --- verify_registry.c: rows of the registry and credentials against what records say of them */

struct verify_rows *verify_rows_new(void);
void verify_rows_free(struct verify_rows **r);
void verify_rows_log(struct verify *v, int64_t log, int64_t from, int64_t to);  /* it is about to be read */
void verify_rows_record(struct verify *v, int64_t log, const struct audit_row *row, int64_t idx);
int verify_rows_end(struct verify *v, struct err *err) MUST_CHECK;

#endif
