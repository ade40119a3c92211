#ifndef VERIFY_VERIFY_INT_H
#define VERIFY_VERIFY_INT_H

#include "audit/audit.h"
#include "audit/record.h"
#include "tlog/note.h"
#include "base/pack.h"
#include "base/text.h"
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
	struct map *away;               /* logs with a file in an archive that cannot be read, NULL: none; sealed.c */
	bool unreadable;                /* a block is missing or cannot be read, which was told; forms.c */
	bool blamed;                    /* all blocks were looked at, because one could not be read; the same */
	bool logless;                   /* records of no log were looked for before the first one; integrity.c */
	bool stopped;                   /* the system log ends with server.stop; checkpoints.c */
	uint64_t next_epoch;            /* of its first checkpoint behind the mark, UINT64_MAX: none; checkpoints.c */
	const struct verify_marking *mark;      /* or NULL */
	struct verify_state *state;     /* of an earlier verification, and what is kept of this one; or NULL */
	uint64_t opened_bad, opened_gaps;       /* findings of before the first log */
	bool indexes;                   /* those of the records are compared: there is none, or it is asked for */
	bool way;                       /* what is saved is of a verification that goes on, not of one that has ended */
	/* What a step keeps from one log to the next; NULL: it has no such thing, or the store as a whole is not looked at. */
	struct units *units;            /* forms.c */
	struct verify_files *files;     /* sealed.c */
	struct verify_file *file;       /* integrity.c */
	struct verify_texts *texts;     /* the same */
	struct verify_clock *clock;     /* lifecycle.c */
	struct verify_kept *kept;       /* payload.c */
	struct verify_commits *commits; /* anchors.c, commits.c */
	struct verify_keys *keys;       /* checkpoints.c */
	struct verify_rows *rows;       /* registry.c */
	struct verify_approvals *approvals;     /* approvals.c */
	struct successions *successions;        /* checkpoints.c */
};

struct verify_head {                    /* a log as the store describes it */
	int64_t tenant_id;
	int64_t id, size, found;        /* of the log; records that it should have, records that are there */
	int64_t said;                   /* records by head, which lags behind while a server runs, or after it died */
	int64_t min_idx, pruned_by;     /* pruned_by -1: nothing was pruned */
	bool has_root;
	uint8_t root[TREE_HASH];        /* of the first `said` */
	int64_t noted, note_epoch;      /* size of the newest note, 0 = none */
	struct str note;                /* its text: whoever signs meanwhile puts the next one in its place */
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

/* How a log is read. */
enum verify_start {
	VERIFY_ANEW,                    /* from its first record */
	VERIFY_BEHIND,                  /* from where an earlier verification has ended */
	VERIFY_ON,                      /* from where this one was cut off */
	VERIFY_AGAIN                    /* from its first record, though an earlier one has taken note of those below known */
};

struct verify_log {
	struct verify *v;
	const struct verify_head *head;
	enum verify_start start;
	int64_t next;                   /* index of the record that must come */
	int64_t known;                  /* records below were read by an earlier verification; 0: none was */
	uint8_t known_root[TREE_HASH];  /* of those */
	struct tree tree;               /* of the records so far */
	bool met;                       /* the head's root was compared with it */
	struct tile_nodes nodes;        /* that the last record completed */
	uint8_t kept;                   /* of the record at hand: enum units_kept */
	struct verify_cover cover;
	bool again;                     /* what is read now lies below the mark */
	struct verify_runs *runs;       /* tell.c */
	/* What a step keeps of this log, from its begin to its close. */
	struct verify_sealed *sealed;
	struct verify_forms *forms;
	struct verify_life *life;
	struct verify_retention *retention;
	struct verify_payload *payload;
	struct verify_anchors *anchors;
	struct verify_checkpoints *checkpoints;
	struct courses *tasks;          /* and approvals */
};

/* What a step does and when; NULL: nothing.  Steps come in the order of the table, and at each end in the reverse
 * order.  Negative only when the store cannot be read; then no end comes, but close and free do. */
struct verify_step {
	const char *name;
	void (*know)(struct verify *v, struct unpack *in);      /* before that: what load will take up, if it is not bad */
	int (*open)(struct verify *v, struct err *err);                 /* before the first log */
	int (*begin)(struct verify_log *c, struct err *err);            /* a log is about to be read */
	int (*record)(struct verify_log *c, const struct audit_read *got, struct err *err);     /* c->tree has it already */
	int (*end)(struct verify_log *c, struct err *err);              /* the log has been read */
	void (*close)(struct verify_log *c);                            /* may come without begin */
	int (*finish)(struct verify *v, struct err *err);               /* all logs have been read */
	void (*free)(struct verify *v);                                 /* may come without open */
	/* What it carries from older records, for a later verification that does not read them again: of the store, which is
	 * taken up behind open, and of a log, behind begin.  What was read is set, or in->bad.  The first number of each is
	 * its form; steps raise it when they carry something else. */
	uint64_t form;
	void (*save)(const struct verify *v, struct str *to);
	void (*load)(struct verify *v, struct unpack *in);
	void (*save_log)(const struct verify_log *c, struct str *to);
	void (*load_log)(struct verify_log *c, struct unpack *in);
	int (*start)(struct verify *v, struct err *err);                /* what was carried, if anything, is there */
	int (*start_log)(struct verify_log *c, struct err *err);        /* the same of a log */
	int (*settle_log)(struct verify_log *c, struct err *err);       /* it has been read, nothing is saved yet */
	/* These records below the mark are read again: what of them is in no hash. */
	int (*again)(struct verify_log *c, int64_t from, int64_t to, struct err *err);
	int (*settle)(struct verify *v, struct err *err);               /* all logs have been read, nothing is saved yet */
};
extern const struct verify_step verify_integrity, verify_sealed, verify_forms, verify_lifecycle, verify_retention,
	verify_payload, verify_anchors, verify_checkpoints, verify_registry, verify_approvals, verify_tasks;

/* --- tell.c: what was found */

void verify_tell(struct verify *v, const struct audit_finding *f);
/* Of a log as a whole, or of the store: origin NULL. */
void verify_tell_store(struct verify *v, enum audit_finding_code code, const char *origin, const char *detail);
/* Of records from <= idx <= to; neighbours are one finding. */
void verify_tell_record(struct verify_log *c, enum audit_finding_code code, int64_t from, int64_t to);
/* What is wrong with a record by itself. */
void verify_tell_read(struct verify_log *c, const struct audit_read *got);

/* What comes out of a map is told by ascending number, so that two runs say the same. */
void verify_sort(int64_t *v, size_t n);
/* What waits for neighbours is written to, taken up from in, or told now, if both are NULL. */
void verify_tell_runs(struct verify_log *c, struct str *to, struct unpack *in);

/* --- forms.c */

/* Records of the log from <= idx < to, by all threads: fn() of each, which c->kept belongs to. */
typedef int verify_read_fn(struct verify_log *c, const struct audit_read *got, void *arg, struct err *err);
int verify_read(struct verify_log *c, int64_t from, int64_t to, verify_read_fn *fn, void *arg,
		struct err *err) MUST_CHECK;
/* Something could not be read: what is wrong with blocks is told, once, and v->unreadable says whether anything is. */
int verify_forms_blame(struct verify *v, struct err *err) MUST_CHECK;

/* --- payload.c */

struct block_payload;
/* units_ask.look, of a struct verify. */
uint8_t verify_payload_look(void *verify, const struct audit_row *row, const struct block_payload *kept);

/* --- trees, as a state holds them */

static inline void verify_put_tree(struct str *to, const struct tree *t)
{
	pack_u64(to, t->size);
	pack_bytes(to, t->peak, tree_peaks(t->size) * TREE_HASH);
}

static inline void verify_get_tree(struct unpack *in, struct tree *ret)
{
	uint64_t size = unpack_u64(in);
	size_t len = size <= (uint64_t)TREE_LOAD_MAX ? tree_peaks(size) * TREE_HASH : 0;
	uint8_t peaks[TREE_PEAKS_MAX * TREE_HASH];

	memset(ret, 0, sizeof(*ret));
	in->bad |= size > (uint64_t)TREE_LOAD_MAX;
	unpack_bytes(in, peaks, len);
	in->bad |= !tree_load(ret, (int64_t)size, peaks, len);
}

/* --- retention.c: the tree as it was at an earlier size, of a log that is not read from its first record */

/* 1: the root, and the time of the last record, 0 = not known; 0: it cannot be had. */
int verify_past_root(struct verify_log *c, uint64_t size, uint8_t ret[TREE_HASH], uint64_t *ret_ts, struct err *err);

/* --- checkpoints.c */

/* Who signed a checkpoint from outside.  1: the pinned key of the logs, or that of an epoch that follows from a pinned
 * one; 0: none of them; -1: no key was pinned, so that nobody can tell. */
int verify_keys_know(const struct verify *v, const struct note *n, const char *origin);

/* --- for all steps */

static inline int64_t verify_kind(const struct audit_row *row)
{
	return row->v[COL_KIND].present ? row->v[COL_KIND].n : 0;
}

/* A field of the record by its tag; NULL and 0: it has none. */
static inline const uint8_t *verify_field(const struct audit_row *row, unsigned tag, size_t *len)
{
	const struct audit_value *ext = &row->v[COL_EXT];

	*len = 0;
	return ext->present ? audit_field_find(ext->p, ext->len, tag, len) : NULL;
}

/* Has an earlier verification taken note of the record? */
static inline bool verify_is_known(const struct verify_log *c, int64_t idx)
{
	return idx < c->known;
}

static inline bool verify_is_system(const struct verify_log *c)
{
	return c->head->id == AUDIT_SYSTEM_LOG;
}

#endif
