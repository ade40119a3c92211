#ifndef BLOCK_ROW_H
#define BLOCK_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Records by columns, and the bytes that are hashed (AUDIT 4).  The writer fills a row and encodes it; whoever
 * reads records (audit/record.h) gets rows and encodes them anew.  A column exists in this list alone: its name in
 * the store, its tag and form in the encoding.  Pure functions of bytes; any thread. */

enum { AUDIT_ENC = 1 };                 /* the encoding, as column enc of a record says it */
enum { AUDIT_SYSTEM_LOG = 1 };          /* the id of the log that is nobody's */

/* The columns of rec that the encoding covers, by ascending tag (AUDIT 4.2).  Form INT: a number; DICT: the id of
 * a text of the dictionary, whose kind is the tag; ORIGIN: the id of a log; BLOB: bytes, as many as size says
 * unless it is 0. */
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
	X(EXT, "ext", 0x0071, BLOB, 0) \
	X(SYS, "sys", 0x0072, DICT, 0) \
	X(MDL, "mdl", 0x0073, DICT, 0)
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

#endif
