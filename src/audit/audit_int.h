#ifndef AUDIT_AUDIT_INT_H
#define AUDIT_AUDIT_INT_H

#include "audit/audit.h"
#include "audit/payload.h"
#include "base/list.h"
#include "base/str.h"
#include "tlog/tree.h"

/* Inside of src/audit. */

struct db;
struct db_stmt;
struct keys;
struct map;

enum { AUDIT_ENC = 1, AUDIT_SYSTEM_LOG = 1 };

/* The columns of rec that the encoding covers, by ascending tag (AUDIT 4.2).  Form INT: a number; DICT: the id of a text
 * of the dictionary, whose kind is the tag; ORIGIN: the id of a log; BLOB: bytes, as many as size says unless it is 0. */
#define AUDIT_COLUMNS(X) \
	X(LOG, "log", 0x0002, ORIGIN, 0) \
	X(IDX, "idx", 0x0003, INT, 0) \
	X(CALL, "call", 0x0004, BLOB, 16) \
	X(TS, "ts", 0x0005, INT, 0) \
	X(MONO, "mono", 0x0006, INT, 0) \
	X(BOOT, "boot", 0x0007, DICT, 0) \
	X(CLK, "clk", 0x0008, INT, 0) \
	X(CRED, "cred", 0x0010, DICT, 0) \
	X(PRN, "prn", 0x0011, DICT, 0) \
	X(ACTOR, "actor", 0x0012, INT, 0) \
	X(AUTHN, "authn", 0x0013, INT, 0) \
	X(OBO, "obo", 0x0014, DICT, 0) \
	X(PEER, "peer", 0x0015, DICT, 0) \
	X(CLIENT, "client", 0x0016, DICT, 0) \
	X(TPORT, "tport", 0x0018, INT, 0) \
	X(REV, "rev", 0x0020, DICT, 0) \
	X(KIND, "kind", 0x0021, INT, 0) \
	X(TOOL, "tool", 0x0022, DICT, 0) \
	X(TDEF, "tdef", 0x0023, DICT, 0) \
	X(BUILD, "build", 0x0024, DICT, 0) \
	X(POL, "pol", 0x0028, DICT, 0) \
	X(RULE, "rule", 0x0029, DICT, 0) \
	X(SCOPE, "scope", 0x002A, DICT, 0) \
	X(CM, "cm", 0x0030, BLOB, 0) \
	X(SH, "sh", 0x0031, BLOB, 16) \
	X(N_REQ, "n_req", 0x0040, INT, 0) \
	X(N_RES, "n_res", 0x0041, INT, 0) \
	X(N_STO, "n_sto", 0x0042, INT, 0) \
	X(FLAGS, "flags", 0x0043, INT, 0) \
	X(KEY, "key", 0x0044, INT, 0) \
	X(OUTCOME, "outcome", 0x0050, INT, 0) \
	X(XSTAT, "xstat", 0x0051, INT, 0) \
	X(SIG, "sig", 0x0052, INT, 0) \
	X(DUR, "dur", 0x0053, INT, 0) \
	X(CPU, "cpu", 0x0054, INT, 0) \
	X(RSS, "rss", 0x0055, INT, 0) \
	X(SBOX, "sbox", 0x0058, DICT, 0) \
	X(BEG, "beg", 0x0060, INT, 0) \
	X(PREV, "prev", 0x0061, BLOB, 16) \
	X(TRACE, "trace", 0x0068, BLOB, 16) \
	X(OBJ, "obj", 0x0070, DICT, 0) \
	X(EXT, "ext", 0x0071, BLOB, 0)
enum audit_column {
#define COLUMN_ENUM(sym, name, tag, form, size) COL_##sym,
	AUDIT_COLUMNS(COLUMN_ENUM)
#undef COLUMN_ENUM
	COL_COUNT
};
enum audit_form { FORM_INT, FORM_DICT, FORM_ORIGIN, FORM_BLOB };
extern const struct audit_column_info {
	const char *name;
	uint16_t tag;
	uint8_t form, size;
} audit_columns[COL_COUNT];

/* A record by columns.  A text stands beside its id, so that the row is what is stored and what is hashed at once.
 * Pointers are borrowed. */
struct audit_value {
	int64_t n;                      /* INT, or the id of DICT and ORIGIN */
	const void *p; size_t len;      /* BLOB, or the text of DICT and ORIGIN */
	bool present;
};
struct audit_row { struct audit_value v[COL_COUNT]; };          /* all zero: everything is absent */
void audit_row_int(struct audit_row *row, enum audit_column col, int64_t v);
void audit_row_blob(struct audit_row *row, enum audit_column col, const void *p, size_t len);
void audit_row_text(struct audit_row *row, enum audit_column col, int64_t id, const char *text, size_t len);
struct audit_bytes { uint8_t *p; size_t len, cap; };            /* grows; free(p) */
/* The bytes of AUDIT A-403, instead of what out has. */
void audit_row_encode(const struct audit_row *row, struct audit_bytes *out);
void audit_row_bind(const struct audit_row *row, struct db_stmt *st, unsigned pos);     /* from ?pos on, in order */

/* A begin whose end has not come. */
struct audit_open {
	struct list node;               /* in audit_logs.open, oldest first; on its own when ended */
	uint8_t call[16];
	int64_t id, log, beg;           /* rec.id, log, idx */
};

/* Hashes of tiles: the n-th of a level, which covers 256^level leaves (C2SP tlog-tiles). */
struct tile_node { unsigned level; uint64_t n; uint8_t hash[TREE_HASH]; };
struct tile_nodes { struct tile_node *v; size_t n, cap; };
enum { TILE_HEIGHT = 8, TILE_WIDTH = 256 };

/* The tree of a log that is written to.  now: as committed, next: as written by the flush; leaf: those of the records
 * since, of this transaction. */
struct growth {
	struct tree now, next;
	uint8_t root[TREE_HASH];        /* of next */
	uint8_t (*leaf)[TREE_HASH];
	size_t nleaf, cap;
	struct tile_nodes nodes;        /* that next has and now has not */
};

struct audit_log {
	struct list dirty;              /* in audit_logs.dirty while head lags behind */
	int64_t id, tenant_id;
	int64_t size;                   /* index of the next record */
	int64_t min_idx;                /* of the first that has not been pruned */
	int64_t saved, flushed;         /* head.size as committed, as written */
	struct growth *growth;          /* read from head with the first record of this process; NULL before */
	struct list behind;             /* in audit_logs.behind while there is something to sign */
	int64_t headed;                 /* size in the newest logs.commit of this process */
	struct { int64_t size, epoch, ts; } noted;      /* the newest note; ts 0: not known */
	uint64_t alias_day, alias_count;        /* pseudonyms that were made today */
	size_t origin_len;
	char origin[];
};

struct audit_text {
	int64_t id;
	size_t len;                     /* of key */
	char key[];                     /* tag of the column (2 bytes), text */
};

enum undo_kind { UNDO_RECORD, UNDO_TEXT, UNDO_BEGIN, UNDO_END, UNDO_LOG, UNDO_ALIAS, UNDO_HEADED, UNDO_NOTED };
struct undo {
	enum undo_kind kind;
	void *what;
	int64_t last_id;                /* UNDO_RECORD; HEADED and NOTED: the size before */
};

struct audit_logs {
	struct map *by_tenant;          /* struct audit_log */
	struct map *texts;              /* struct audit_text */
	struct map *calls;              /* struct audit_open by call id */
	struct list open, dirty, behind;
	struct undo *undo;
	size_t undo_len, undo_cap;
	int64_t last_id;                /* newest rec.id */
	struct keys *keys;              /* owned; NULL in tests that commit to no value */
	struct map *aliases;            /* pseudonyms that are known; see alias.c */
	struct str kept, clean;         /* scratch of payload.c: values to keep; a value without what is hidden */
	struct audit_bytes ct;          /* the same, encrypted */
	char instance[32], boot[40], build[64]; /* instance: "" before the store has one */
	enum clock_sync clock;
	struct audit_bytes bytes, ext;  /* of the record that is being appended */
};

void audit_undo_push(struct audit_logs *logs, enum undo_kind kind, void *what);
void audit_behind(struct audit_logs *logs, struct audit_log *log);      /* has something to sign */
struct audit_log *audit_log_add(struct audit_logs *logs, int64_t id, int64_t tenant_id, int64_t size, const char *origin);
struct audit_log *audit_log_find(struct audit_logs *logs, int64_t tenant_id);
/* Begin and end of a call, as the picture sees them; a call that is not open: NULL. */
void audit_open_add(struct audit_logs *logs, const uint8_t call[16], int64_t id, int64_t log, int64_t beg);
struct audit_open *audit_open_find(struct audit_logs *logs, const uint8_t call[16], int64_t log);
void audit_open_end(struct audit_logs *logs, struct audit_open *o);
/* Put a text into the row, and into the dictionary if it is new. */
int audit_row_intern(struct audit_row *row, enum audit_column col, const char *text, struct audit_logs *logs, struct db *db,
		     struct err *err) MUST_CHECK;
/* --- growth.c */
int audit_growth_open(struct audit_log *log, struct db *db, struct err *err) MUST_CHECK;        /* once a log */
/* A store from before the tiles gets them once; outside of a transaction. */
int audit_growth_tiles(const struct audit_log *log, struct db *db, struct err *err) MUST_CHECK;
void audit_growth_add(struct growth *g, const uint8_t leaf[TREE_HASH]);
void audit_growth_save(struct growth *g, struct db_stmt *st, unsigned pos);     /* next = now and the leaves; bind ?pos, ?pos+1 */
void audit_growth_commit(struct growth *g);
void audit_growth_tree(const struct growth *g, struct tree *ret);       /* with the leaves of this transaction */
void audit_growth_free(struct growth **g);
/* --- tile.c */
void audit_tile_note(void *arg, unsigned height, uint64_t n, const uint8_t hash[TREE_HASH]);     /* into struct tile_nodes */
int audit_tiles_save(struct db *db, int64_t log, const struct tile_nodes *nodes, struct err *err) MUST_CHECK;
/* Whether the table has all tiles of a log of that size. */
int audit_tiles_whole(struct db *db, int64_t log, uint64_t size, bool *ret, struct err *err) MUST_CHECK;
/* The hash of a tile: 1 = it is there, 0 = it is not. */
int audit_tile_get(struct db *db, int64_t log, unsigned level, uint64_t n, uint8_t ret[TREE_HASH], struct err *err) MUST_CHECK;
/* Insert a row whose log, idx and beg are still open; *log moves on. */
int audit_insert(struct audit_logs *logs, struct db *db, struct audit_log *log, struct audit_row *row, struct err *err) MUST_CHECK;

/* --- reader.c */

/* What is wrong with a record by itself; names as in AUDIT 8. */
#define AUDIT_FOUND_TYPE (1u << 0)
#define AUDIT_FOUND_DICT (1u << 1)
#define AUDIT_FOUND_ENCODING (1u << 2)
#define AUDIT_FOUND_LEAF (1u << 3)

struct audit_page {
	int64_t log, from, to;          /* indexes from <= idx < to; from moves on */
	const char *origin;
	int64_t rows;                   /* the reader's own: of this page */
	bool begun;
};
struct audit_read {
	struct audit_row row;           /* borrows from the reader until the next record */
	int64_t idx;
	uint8_t leaf[TREE_HASH];        /* computed from the columns */
	unsigned findings;
};
struct audit_reader;
struct audit_reader *audit_reader_new(struct db *db);
void audit_reader_free(struct audit_reader **r);
/* 1 and the next record by index; 0: no more; or an error of the database. */
int audit_reader_next(struct audit_reader *r, struct audit_page *page, struct audit_read *ret, struct err *err) MUST_CHECK;

/* --- payload.c: what a record commits to, and its row in pay. */
#define AUDIT_CM_SIZE 34                /* bytes of one commitment in cm */
struct audit_filled {
	bool any, kept;                 /* there are commitments; there are values to keep, in logs->ct */
	uint8_t salt[AUDIT_SALT_SIZE], nonce[24], sh[16];
	uint8_t cm[AUDIT_CM_SIZE * AUDIT_COMMITS_MAX];
	size_t cm_len;
};
/* Fill the columns of the record that comes next in its log; they borrow from *ret. */
int audit_payload_fill(struct audit_logs *logs, struct db *db, const struct audit_log *log, const struct audit_event *ev,
		       struct audit_row *row, struct audit_filled *ret, struct err *err) MUST_CHECK;
int audit_payload_store(struct audit_logs *logs, struct db *db, const struct audit_filled *f, struct err *err) MUST_CHECK;

/* --- alias.c: pseudonyms of the event's principal, address and client; new ones are records before this one. */
int audit_alias_fill(struct audit_logs *logs, struct db *db, struct audit_log *log, const struct audit_event *ev,
		     struct audit_row *row, struct err *err) MUST_CHECK;
void audit_alias_undo(struct audit_logs *logs, void *what);
void audit_alias_trim(struct audit_logs *logs, size_t max);     /* forget all when there are more */
unsigned audit_alias_ctag(int64_t kind);                        /* of its value; 0: no such kind */
/* audit_append() without that. */
int audit_append_one(struct audit_logs *logs, struct db *db, struct audit_log *log, const struct audit_event *ev,
		     struct err *err) MUST_CHECK;

/* ext: TLV, tags ascending (AUDIT A-413), instead of what out has.  ERR_LIMIT; ERR_INTERNAL: the fields are not in order. */
int audit_ext_build(const struct audit_event *ev, struct audit_bytes *out, struct err *err) MUST_CHECK;
/* Fills detail (in buf, AUDIT_DETAIL_MAX + 1 bytes), generation and receivers.  ERR_CORRUPT. */
int audit_ext_read(const uint8_t *p, size_t len, struct audit_view *ret, char *buf);

int audit_log_of(struct db *db, int64_t tenant_id, int64_t *ret, struct err *err) MUST_CHECK;   /* 0: the system; ERR_NOT_FOUND */
int audit_meta_get(struct db *db, const char *key, char *ret, size_t size, struct err *err) MUST_CHECK;  /* "" when absent */
int audit_meta_set(struct db *db, const char *key, const char *value, struct err *err) MUST_CHECK;

#define META_INSTANCE "instance"
#define META_OPEN_FROM "open_from"
#endif
