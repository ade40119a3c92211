#ifndef AUDIT_AUDIT_INT_H
#define AUDIT_AUDIT_INT_H

#include "audit/audit.h"
#include "base/list.h"

/* Inside of src/audit. */

struct db;
struct map;

enum { AUDIT_ENC = 1, AUDIT_SYSTEM_LOG = 1, AUDIT_EXT_MAX = AUDIT_DETAIL_MAX + 256 };

/* dict.kind: the tag of the column that uses the text (AUDIT 4.2). */
enum audit_column {
	COL_BOOT = 0x0007, COL_CRED = 0x0010, COL_PRN = 0x0011, COL_REV = 0x0020, COL_TOOL = 0x0022, COL_TDEF = 0x0023,
	COL_BUILD = 0x0024, COL_RULE = 0x0029, COL_OBJ = 0x0070,
};

/* A row of rec as it is stored: dictionary ids instead of texts, -1 and NULL for absent. */
struct audit_row {
	int64_t log, idx, kind, ts, mono, boot, cred, prn, actor, authn, tport, rev, tool, tdef, build, rule;
	int64_t n_req, n_res, flags, outcome, xstat, sig, dur, beg, obj;
	const uint8_t *call, *prev, *trace;
	const uint8_t *ext;
	size_t ext_len;
};
void audit_row_init(struct audit_row *row, int64_t kind);

/* A begin whose end has not come. */
struct audit_open {
	struct list node;               /* in audit_logs.open, oldest first; on its own when ended */
	uint8_t call[16];
	int64_t id, log, beg;           /* rec.id, log, idx */
};

struct audit_log {
	struct list dirty;              /* in audit_logs.dirty while head lags behind */
	int64_t id, tenant_id;
	int64_t size;                   /* index of the next record */
	int64_t saved, flushed;         /* head.size as committed, as written */
};

struct audit_text {
	int64_t id;
	size_t len;
	char key[];                     /* kind (2 bytes), text */
};

enum undo_kind { UNDO_RECORD, UNDO_TEXT, UNDO_BEGIN, UNDO_END, UNDO_LOG };
struct undo {
	enum undo_kind kind;
	void *what;
	int64_t last_id;                /* UNDO_RECORD */
};

struct audit_logs {
	struct map *by_tenant;          /* struct audit_log */
	struct map *texts;              /* struct audit_text */
	struct map *calls;              /* struct audit_open by call id */
	struct list open, dirty;
	struct undo *undo;
	size_t undo_len, undo_cap;
	int64_t last_id;                /* newest rec.id */
	char instance[32];              /* "" before the store has one */
	char boot[40], build[64];
};

void audit_undo_push(struct audit_logs *logs, enum undo_kind kind, void *what);
struct audit_log *audit_log_add(struct audit_logs *logs, int64_t id, int64_t tenant_id, int64_t size);
struct audit_log *audit_log_find(struct audit_logs *logs, int64_t tenant_id);
/* Begin and end of a call, as the picture sees them; a call that is not open: NULL. */
void audit_open_add(struct audit_logs *logs, const uint8_t call[16], int64_t id, int64_t log, int64_t beg);
struct audit_open *audit_open_find(struct audit_logs *logs, const uint8_t call[16], int64_t log);
void audit_open_end(struct audit_logs *logs, struct audit_open *o);
int audit_text_id(struct audit_logs *logs, struct db *db, enum audit_column col, const char *text, int64_t *ret,
		  struct err *err) MUST_CHECK;
/* Insert a row whose log, idx and beg are still open; *log moves on. */
int audit_insert(struct audit_logs *logs, struct db *db, struct audit_log *log, struct audit_row *row, struct err *err) MUST_CHECK;

/* ext: TLV, tags ascending (AUDIT A-413).  Returns the length; ret has AUDIT_EXT_MAX bytes. */
size_t audit_ext_build(const struct audit_event *ev, uint8_t *ret);
/* Fills detail (in buf, AUDIT_DETAIL_MAX + 1 bytes), generation and receivers.  ERR_CORRUPT. */
int audit_ext_read(const uint8_t *p, size_t len, struct audit_view *ret, char *buf);

int audit_meta_get(struct db *db, const char *key, char *ret, size_t size, struct err *err) MUST_CHECK;  /* "" when absent */
int audit_meta_set(struct db *db, const char *key, const char *value, struct err *err) MUST_CHECK;

#define META_INSTANCE "instance"
#define META_OPEN_FROM "open_from"

#endif
