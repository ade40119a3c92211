#ifndef VERIFY_VERIFY_INT_H
#define VERIFY_VERIFY_INT_H

#include "audit/audit.h"
#include "audit/record.h"
#include "tlog/note.h"
#include "verify/verify.h"

/* Inside of src/verify.  A verification is a walk (verify.c) through the logs, record by record, past a table of
 * steps.  Each step is a file: it looks at one matter, keeps its own state, and tells what it finds (tell.c).
 * Steps do not call each other; what two of them share stands in struct verify_log, and checkpoints.c answers
 * who may sign. */

struct verify {
	struct db *db;
	int64_t tenant_id;              /* 0: the whole store; else this tenant's log alone */
	audit_found_fn *found;
	void *arg;
	struct audit_coverage *sum;
	const struct audit_evidence *with;
	uint64_t total;                 /* records to be read, as the heads say; for who wants to know how far it is */
	bool unreadable;                /* a block is missing or cannot be read, which was told; forms.c */
	bool stopped;                   /* the system log ends with server.stop; checkpoints.c */
	/* What a step keeps from one log to the next; NULL: it has no such thing, or the store as a whole is not looked at. */
	struct verify_file *file;       /* integrity.c */
	struct verify_clock *clock;     /* lifecycle.c */
	struct map *kept;               /* payload.c: struct verify_blocks by log */
	struct verify_commits *commits; /* anchors.c */
	struct verify_keys *keys;       /* checkpoints.c */
	struct verify_rows *rows;       /* registry.c */
	struct verify_approvals *approvals;     /* approvals.c */
};

struct verify_head {                    /* a log as the store describes it */
	int64_t tenant_id;
	int64_t id, size, found;        /* of the log; records by head, records by themselves */
	int64_t min_idx, pruned_by;     /* pruned_by -1: nothing was pruned */
	bool has_root;
	uint8_t root[TREE_HASH];
	int64_t noted;                  /* size of the newest note, 0 = none */
	char *origin;
};

/* How far signatures reach: written by anchors.c and checkpoints.c, each of which needs the other's word. */
struct verify_cover {
	uint64_t covered;               /* how many records something signed covers */
	bool due;                       /* there is a next checkpoint, of this size and epoch */
	uint64_t due_size, due_epoch;
	uint64_t last_size;             /* of the checkpoint before; 0: there is none */
	/* the newest commit of an epoch that ended, whose note is still to come; size 0: none */
	uint64_t owed_size, owed_epoch;
};

struct verify_log {
	struct verify *v;
	const struct verify_head *head;
	struct tree tree;               /* of the records so far */
	struct tile_nodes nodes;        /* that the last record completed */
	struct verify_cover cover;
	struct verify_runs *runs;       /* tell.c */
	/* What a step keeps of this log, from its begin to its close. */
	struct verify_forms *forms;
	struct verify_life *life;
	struct verify_retention *retention;
	struct verify_payload *payload;
	struct verify_anchors *anchors;
	struct verify_checkpoints *checkpoints;
};

/* What a step does and when; NULL: nothing.  Steps come in the order of the table, and at each end in the reverse
 * order.  Negative only when the store cannot be read; then no end comes, but close and free do. */
struct verify_step {
	const char *name;
	int (*open)(struct verify *v, struct err *err);                 /* before the first log */
	int (*begin)(struct verify_log *c, struct err *err);            /* a log is about to be read */
	int (*record)(struct verify_log *c, const struct audit_read *got, struct err *err);     /* c->tree has it already */
	int (*end)(struct verify_log *c, struct err *err);              /* the log has been read */
	void (*close)(struct verify_log *c);                            /* may come without begin */
	int (*finish)(struct verify *v, struct err *err);               /* all logs have been read */
	void (*free)(struct verify *v);                                 /* may come without open */
};
extern const struct verify_step verify_integrity, verify_forms, verify_lifecycle, verify_retention, verify_payload,
	verify_anchors, verify_checkpoints, verify_registry, verify_approvals;

/* --- tell.c: what was found */

void verify_tell(struct verify *v, const struct audit_finding *f);
/* Of a log as a whole, or of the store: origin NULL. */
void verify_tell_store(struct verify *v, enum audit_finding_code code, const char *origin, const char *detail);
/* Of records from <= idx <= to; neighbours are one finding. */
void verify_tell_record(struct verify_log *c, enum audit_finding_code code, int64_t from, int64_t to);
void verify_tell_close(struct verify_log *c);           /* what waits for neighbours is told now */

/* --- checkpoints.c */

/* Who signed a checkpoint from outside.  1: the pinned key of the logs, or that of an epoch that follows from a pinned
 * one; 0: none of them; -1: no key was pinned, so that nobody can tell. */
int verify_keys_know(const struct verify *v, const struct note *n, const char *origin);

/* --- for all steps */

static inline int64_t verify_kind(const struct audit_row *row)
{
	return row->v[COL_KIND].present ? row->v[COL_KIND].n : 0;
}

static inline bool verify_is_system(const struct verify_log *c)
{
	return c->head->id == AUDIT_SYSTEM_LOG;
}

#endif
