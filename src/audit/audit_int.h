#ifndef AUDIT_AUDIT_INT_H
#define AUDIT_AUDIT_INT_H

#include "audit/audit.h"
#include "audit/payload.h"
#include "audit/record.h"
#include "block/row.h"
#include "audit/second.h"
#include "base/crypto.h"
#include "base/map.h"
#include "base/text.h"
#include "tlog/tree.h"

/* Inside of src/audit. */

struct db;
struct db_stmt;
struct keys;
struct map;

/* A begin whose end has not come. */
struct audit_open {
	struct list node;               /* in audit_logs.open, oldest first; on its own when ended */
	uint8_t call[16];
	int64_t id, log, beg, ts;       /* rec.id, log, idx, when */
	bool folded;                    /* may be in open_call */
};

/* The tree of a log that is written to.  now: as committed, next: as its head says when this transaction commits; leaf:
 * those of the records since, of this transaction. */
struct tail {
	struct tree now, next;
	uint8_t root[TREE_HASH];        /* of next */
	uint8_t (*leaf)[TREE_HASH];
	size_t nleaf, cap;
	uint8_t (*fresh)[TREE_HASH];    /* leaves of now from the size `from` on, at most AUDIT_FRESH_MAX */
	uint64_t from; size_t nfresh;
	struct tile_nodes nodes;        /* that table tile has not: those of now, and behind them those that next adds */
};

struct audit_log {
	struct list dirty;              /* in audit_logs.dirty while this transaction has appended */
	struct list lagging;            /* in audit_logs.lagging while table head may say less than the log has */
	int64_t id, tenant_id;
	int64_t size;                   /* index of the next record */
	int64_t min_idx;                /* of the first that has not been pruned */
	int64_t saved, flushed;         /* head.size as committed, as written */
	bool head_due;                  /* somebody will ask for its row of table head */
	bool contended;                 /* another node was faster: its head is locked before anything is appended */
	unsigned met;                   /* audit_logs.turn of the last transaction that did so */
	struct tail *tail;              /* read from head with the first record of this process; NULL before */
	struct list behind;             /* in audit_logs.behind while there is something to sign, or to say */
	int64_t headed;                 /* size in the newest logs.commit */
	int64_t said_last;              /* size in the newest that said all */
	struct { int64_t size, epoch, ts; } noted;      /* the newest note; ts 0: not known */
	uint64_t alias_day, alias_count;        /* pseudonyms that were made today */
	size_t origin_len;
	char origin[];
};

struct audit_text {
	int64_t id;
	enum audit_column col;
	size_t len;                     /* of key */
	char key[];                     /* tag of the column (2 bytes), text */
};

/* second.c: what two administrators have agreed on, as far as the system log was read. */
struct second {
	struct tree tree;
	bool begun;                     /* it was read, from where on does not matter any more */
	bool known, unsaid;             /* a record says which policies are in force; an older release's does not */
	struct audit_policy policy;
	struct audit_consent *v; size_t n;
};

enum undo_kind { UNDO_RECORD, UNDO_TEXT, UNDO_BEGIN, UNDO_END, UNDO_LOG, UNDO_ALIAS, UNDO_HEADED, UNDO_SAID_LAST,
	UNDO_NOTED, UNDO_SAVED };
struct undo {
	enum undo_kind kind;
	void *what; int record;         /* the kind of the record of UNDO_RECORD */
	int64_t last_id;                /* UNDO_RECORD; HEADED, SAID_LAST and NOTED: the size before; SAVED: nodes before */
};

struct audit_logs {
	struct map *by_tenant;          /* struct audit_log */
	struct map *texts;              /* struct audit_text */
	struct near *near, *near_aliases;       /* some of them; struct audit_pseudonym_known by what they stand for */
	struct map *calls;              /* struct audit_open by call id */
	struct list open, dirty, lagging, behind;
	bool heads_due, some_due;       /* somebody will ask for table head; for rows of some logs, which know */
	bool shared, locks, lock_next;  /* others append too (audit/shared.h); heads are locked when met; are next time */
	unsigned turn;                  /* counts transactions */
	int64_t newest_log;             /* largest id of a log that is known */
	struct { int64_t log, size; } thin;     /* the last note that checkpoint.c has looked at; log 0: none */
	struct undo *undo;
	size_t undo_len, undo_cap;
	int64_t last_id;                /* newest rec.id */
	struct keys *keys;              /* owned; NULL in tests that commit to no value */
	const struct keys_dek *dek;     /* commits to all values instead: of who makes records elsewhere; else NULL */
	struct map *aliases;            /* pseudonyms that are known; struct audit_pseudonym_known */
	struct str kept, clean;         /* scratch of payload.c: values to keep; a value without what is hidden */
	struct audit_bytes ct;          /* the same, encrypted */
	char instance[32], boot[40], build[64]; /* instance: "" before the store has one */
	enum clock_sync clock;
	struct second second;
	int64_t found, signed_before;   /* records of the system log at the start; of these, signed */
	struct audit_bytes bytes, ext;  /* of the record that is being appended */
	struct { uint8_t digest[32]; char hex[65]; } tdef;      /* the last that was written down */
	bool gather, lost;              /* rows wait; some that waited could not be inserted */
	struct forms_batch *gathered;    /* those that wait */
};

void audit_undo_push(struct audit_logs *logs, enum undo_kind kind, void *what);
void audit_behind(struct audit_logs *logs, struct audit_log *log);      /* has something to sign */
struct audit_log *audit_log_add(struct audit_logs *logs, int64_t id, int64_t tenant_id, int64_t size,
				const char *origin);
/* A pseudonym that is known, until it is undone or forgotten. */
struct audit_pseudonym_known {
	size_t len, value_len;                  /* value_len 0: too long to be found by it */
	char key[16 + DIGEST_SIZE], name[32], value[AUDIT_NEAR_VALUE_MAX];      /* key: log, kind, token */
};
void audit_pseudonym_keep(struct audit_logs *logs, struct audit_pseudonym_known *known);       /* takes it */
void audit_pseudonym_trim(struct audit_logs *logs, size_t max);     /* forget all when there are more */
struct audit_log *audit_log_find(struct audit_logs *logs, int64_t tenant_id);
struct map *audit_logs_by_id(const struct audit_logs *logs);    /* map_free() it */
int audit_log_order(const void *a, const void *b);      /* for qsort() of pointers to logs: by id */
/* Begin and end of a call, as the picture sees them; a call that is not open: NULL. */
struct audit_open *audit_open_add(struct audit_logs *logs, const uint8_t call[16], int64_t id, int64_t log,
				  int64_t beg);
struct audit_open *audit_open_find(struct audit_logs *logs, const uint8_t call[16], int64_t log);
void audit_open_end(struct audit_logs *logs, struct audit_open *o);
/* Put a text into the row, and into the dictionary if it is new. */
int audit_row_intern(struct audit_row *row, enum audit_column col, const char *text, struct audit_logs *logs,
		     struct db *db, struct err *err) MUST_CHECK;

/* --- the tree of a log */

int audit_tail_open(struct audit_log *log, struct db *db, struct err *err) MUST_CHECK;        /* once a log */
void audit_tail_add(struct tail *g, const uint8_t leaf[TREE_HASH]);
void audit_tail_tree(const struct tail *g, struct tree *ret);       /* with the leaves of this transaction */
/* The leaves of t, which is that tree, that came since this was asked last; NULL: they are too many, or not known. */
uint8_t (*audit_tail_fresh(struct tail *g, const struct tree *t, uint64_t *ret_from))[TREE_HASH];

/* --- payload.c: what a record commits to, and its row in pay */

#define AUDIT_CM_SIZE 34                /* bytes of one commitment in cm */
struct audit_filled {
	bool any, kept;                 /* there are commitments; there are values to keep, in logs->ct */
	uint8_t salt[AUDIT_SALT_SIZE], nonce[24], sh[16];
	uint8_t cm[AUDIT_CM_SIZE * AUDIT_COMMITS_MAX];
	size_t cm_len;
};
/* Fill the columns of the record that comes next in its log; they borrow from *ret. */
int audit_payload_fill(struct audit_logs *logs, struct db *db, const struct audit_log *log,
		       const struct audit_event *ev, struct audit_row *row, struct audit_filled *ret, struct err *err) MUST_CHECK;
int audit_payload_store(struct audit_logs *logs, struct db *db, const struct audit_row *row,
			const struct audit_filled *f, struct err *err) MUST_CHECK;

/* --- of logs to which others append as well: shared.c */

/* Before a record of the log is made: its head as it is, when others append to it and heads are locked. */
int audit_shared_meet(struct audit_logs *logs, struct audit_log *log, struct db *db, struct err *err) MUST_CHECK;
/* Its size and tree as they were committed last, without a lock; nothing of this transaction is in it. */
int audit_shared_look(struct audit_logs *logs, struct audit_log *log, struct db *db, struct err *err) MUST_CHECK;
/* Before a row is made that others may wait for: ERR_BUSY, all of it again, unless heads are locked as they are met. */
int audit_shared_locked(struct audit_logs *logs, struct err *err) MUST_CHECK;
/* What failed because another node was faster is ERR_BUSY: all of it again. */
int audit_shared_failed(const struct audit_logs *logs, struct audit_log *log, int rc, struct err *err);

/* What the event says, as columns of the record that comes next in its log, but for log, idx, clk and beg.  They borrow
 * from logs, *ev and *ret. */
FOR_TESTS int audit_row_fill(struct audit_logs *logs, struct db *db, const struct audit_log *log,
			     const struct audit_event *ev, struct audit_row *row, struct audit_filled *ret,
			     struct err *err) MUST_CHECK;

/* --- pseudonym.c */

/* Pseudonyms of the event's principal, address and client; new ones are records before this one, by `append`. */
typedef int audit_append_fn(struct audit_logs *logs, struct db *db, struct audit_log *log, const struct audit_event *ev,
			    struct err *err);
int audit_pseudonym_fill(struct audit_logs *logs, struct db *db, struct audit_log *log, const struct audit_event *ev,
		     audit_append_fn *append, struct audit_row *row, struct err *err) MUST_CHECK;

/* --- fields.c */

/* ext: TLV, tags ascending (AUDIT A-413), instead of what out has.  ERR_LIMIT; ERR_INTERNAL: the fields are not in
 * order. */
int audit_ext_build(const struct audit_event *ev, struct audit_bytes *out, struct err *err) MUST_CHECK;
/* Fills detail (in buf, AUDIT_DETAIL_MAX + 1 bytes), generation and receivers.  ERR_CORRUPT. */
int audit_ext_read(const uint8_t *p, size_t len, struct audit_view *ret, char *buf);

/* --- fold.c: what is taken away of blocks, inside the writer's transactions */

/* Something kept is erased in this transaction. */
int fold_erased(struct db *db, struct err *err);
/* What is kept of one record in a block.  *ret_had is set when there was something. */
int fold_erase_at(struct db *db, int64_t log, int64_t idx, bool *ret_had, struct err *err);
/* What is kept under these keys (n = 0: under any) in the next block from *cursor on, of records before `before`.
 * *ret_end: there is no other block. */
int fold_erase_block(struct db *db, int64_t log, const int64_t *ids, size_t n, int64_t before, int64_t *cursor,
		     bool *ret_end, struct err *err);
/* Some blocks below the cut of a log; then the part of one that lies below it.  *ret_more: there may be others. */
int fold_prune(struct db *db, int64_t log, bool *ret_more, struct err *err);

/* 0: the system; ERR_NOT_FOUND */
int audit_log_of(struct db *db, int64_t tenant_id, int64_t *ret, struct err *err) MUST_CHECK;

#define META_INSTANCE "instance"
#define META_OPEN_FROM "open_from"
#endif
