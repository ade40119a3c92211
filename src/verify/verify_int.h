#ifndef VERIFY_VERIFY_INT_H
#define VERIFY_VERIFY_INT_H

#include "audit/audit.h"
#include "audit/record.h"
#include "audit/tile.h"
#include "verify/verify.h"
#include "tlog/note.h"

/* What the steps of a verification share: verify.c walks, verify_<step>.c looks at what the step is about. */

struct verify {
	struct db *db;
	audit_found_fn *found;
	void *arg;
	struct audit_coverage *sum;
	uint64_t set_from_us, set_to_us;        /* when the clock was set; 0: it was not */
	struct verify_rows *rows;       /* NULL: one tenant's log alone is looked at */
	const struct audit_evidence *with;
	struct verify_keys *keys;       /* verify_keys.c */
	struct map *commits;            /* struct verify_marks by log: what logs.commit says; verify_marks.c */
	int64_t logs_said;              /* how many logs the newest logs.commit counts */
	uint64_t total;                 /* records to be read, as the heads say; for who wants to know how far it is */
	bool stopped;                   /* the system log ends with server.stop */
	struct map *kept;               /* struct verify_blocks by log: where pay has rows; NULL: not known */
};

/* Blocks of VERIFY_BLOCK records of a log, a bit each; all: it is not known which. */
enum { VERIFY_BLOCK = 1024 };
struct verify_blocks { uint8_t *bits; size_t n; bool all; };

/* An erase: of records from <= idx < to, or of what is under these keys (8 bytes each). */
struct verify_tomb { int64_t idx, from, to, until; uint8_t *keys; size_t nkeys; };  /* until: its end, or INT64_MAX */

struct verify_head {
	int64_t tenant_id;
	int64_t id, size, found;        /* of the log; records by head, records by themselves */
	int64_t min_idx, pruned_by;     /* pruned_by -1: nothing was pruned */
	bool has_root;
	uint8_t root[TREE_HASH];
	int64_t noted;                  /* size of the newest note, 0 = none */
	char *origin;
};

/* A signed note as it is due: when the tree has its size. */
struct verify_note {
	uint64_t size, epoch;
	uint8_t root[TREE_HASH];
	bool due, good;                 /* good: signed, so that its root means something */
};

/* Roots that others say of a log, by size. */
struct verify_mark {
	uint64_t size, epoch;           /* epoch: of logs.commit alone */
	uint8_t root[TREE_HASH];
	enum audit_finding_code code;
};
struct verify_marks { struct verify_mark *v; size_t n, cap; };


struct verify_log {
	struct verify *v;
	const struct verify_head *head;
	struct tree tree;
	int64_t next;                   /* index that must come */
	int64_t lifecycle;              /* kind of the last start, stop or crash; 0: none yet */
	uint64_t latest_us;             /* time of the latest record so far */
	bool fell;                      /* at record fell_idx, and no record has explained it yet */
	int64_t fell_idx;
	uint64_t fell_us;
	struct map *open;               /* begins without an end by call id */
	bool overflow;
	/* verify_notes.c, verify_marks.c */
	struct verify_note note;        /* the next one */
	uint64_t note_size, note_epoch; /* of the one before */
	bool noted;                     /* there was one before */
	struct verify_marks marks;
	size_t next_mark;
	uint64_t covered;               /* how many records something signed covers */
	uint64_t owed_size, owed_epoch; /* the newest commit of an epoch that ended, whose note is still to come; size 0: none */
	uint64_t bare_us;               /* time of the first record that nothing signed covers yet */
	int64_t last_kind;
	/* verify_keep.c */
	struct tile_nodes nodes;        /* that the last record completed */
	struct tree tiles;              /* whose leaves are the hashes of level 1 */
	bool no_tiles;
	struct map *intents;            /* index of the record by itself, of intents that have not been done */
	int64_t holds, releases, policies;
	/* verify_payload.c */
	struct verify_tomb *tombs; size_t ntombs;
	struct verify_blocks look;      /* with records that commit to something, or of which something is kept */
	/* The run of neighbours with one finding, not told yet. */
	struct audit_finding run[AUDIT_FINDING_COUNT];
	bool running[AUDIT_FINDING_COUNT];
};

void verify_tell(struct verify *v, const struct audit_finding *f);
/* Of a log as a whole, or of the store: origin NULL. */
void verify_tell_store(struct verify *v, enum audit_finding_code code, const char *origin, const char *detail);
/* Of records from <= idx <= to; neighbours are one finding. */
void verify_tell_record(struct verify_log *c, enum audit_finding_code code, int64_t from, int64_t to);

/* --- verify_keys.c: epochs and their keys */
int verify_keys_open(struct verify *v, struct err *err) MUST_CHECK;
void verify_keys_close(struct verify *v);
bool verify_keys_signed(const struct verify *v);        /* the store has epochs, or should have */
uint64_t verify_keys_newest(const struct verify *v);
/* Whether both signatures of a checkpoint are good. */
int verify_keys_check(struct verify *v, const struct note *n, const char *origin, uint64_t epoch, bool *ret, struct err *err) MUST_CHECK;
/* Of a checkpoint from outside: by the log key, or by an epoch's. */
bool verify_keys_know(const struct verify *v, const struct note *n, const char *origin);
/* A record of epoch.start against the table. */
void verify_keys_record(struct verify_log *c, const struct audit_row *row, int64_t idx);

/* --- verify_notes.c: the log's own checkpoints */
int verify_notes_begin(struct verify_log *c, struct err *err) MUST_CHECK;
int verify_notes_at(struct verify_log *c, struct err *err) MUST_CHECK;          /* after each record */
int verify_notes_end(struct verify_log *c, struct err *err) MUST_CHECK;

/* --- verify_marks.c: what others say of the log: the system log, the signer, anchors */
void verify_marks_commit(struct verify_log *c, const struct audit_row *row, int64_t idx);
void verify_marks_begin(struct verify_log *c);
void verify_marks_at(struct verify_log *c);
void verify_marks_end(struct verify_log *c);
/* What is left when all logs were read: of logs that are not there. */
int verify_marks_close(struct verify *v, bool report, struct err *err) MUST_CHECK;

/* --- verify_keep.c: what was pruned, erased, held.  Negative only when the store cannot be read. */

/* The tree as it was at the cut, from the record of the prune. */
int verify_cut(struct verify_log *c, struct err *err) MUST_CHECK;
/* After each record. */
int verify_tiles(struct verify_log *c, struct err *err) MUST_CHECK;
int verify_keep(struct verify_log *c, const struct audit_row *row, int64_t idx, struct err *err) MUST_CHECK;
int verify_keep_end(struct verify_log *c, bool report, struct err *err) MUST_CHECK;

/* --- verify_payload.c: commitments, payloads, pseudonyms; after the log has been read */
void verify_tomb(struct verify_log *c, const struct audit_row *row, int64_t idx);       /* a record of an erase */
void verify_tomb_done(struct verify_log *c, const struct audit_row *row, int64_t idx);
void verify_tombs_free(struct verify_log *c);
void verify_payloads_begin(struct verify_log *c);
void verify_payloads_note(struct verify_log *c, const struct audit_read *got);
int verify_payloads(struct verify_log *c, struct err *err) MUST_CHECK;
/* Of the whole store: payloads of no record, and where the others are. */
int verify_payload_orphans(struct verify *v, struct err *err) MUST_CHECK;
void verify_payloads_close(struct verify *v);

/* --- verify_index.c, verify_aside.c: the file and its indexes, of the whole store */

/* ERR_CORRUPT when they are not sound; *ret_summed: they are, and sums have shown it. */
int verify_index(struct db *db, bool *ret_summed, struct err *err) MUST_CHECK;
struct verify_aside;
/* summed false: the schema is not the release's own, so every row is looked up instead. */
struct verify_aside *verify_aside_start(struct verify *v, bool summed);
int verify_aside_end(struct verify *v, struct verify_aside **a, struct err *err);       /* waits; tells what was found */

/* --- verify_meaning.c: after each record */

void verify_lifecycle(struct verify_log *c, const struct audit_row *row, int64_t idx);
void verify_time(struct verify_log *c, const struct audit_row *row, int64_t idx);
void verify_time_end(struct verify_log *c);

/* --- verify_registry.c: rows of the registry and credentials against what records say of them */

struct verify_rows *verify_rows_new(void);
void verify_rows_free(struct verify_rows **r);
void verify_rows_log(struct verify *v, int64_t log, int64_t from, int64_t to);  /* it is about to be read */
void verify_rows_record(struct verify *v, int64_t log, const struct audit_row *row, int64_t idx);
int verify_rows_end(struct verify *v, struct err *err) MUST_CHECK;

#endif
