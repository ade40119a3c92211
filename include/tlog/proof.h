#ifndef TLOG_PROOF_H
#define TLOG_PROOF_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tlog/note.h"
#include "tlog/tree.h"

/* Proofs that one record is in a log, as text (C2SP tlog-proof; AUDIT A-1006): a line of format, the record's
 * bytes, its index, the hashes of the inclusion proof, an empty line, the checkpoint.  Pure; any thread; what is
 * parsed is hostile. */

#define PROOF_EXTRA_MAX 131072          /* bytes of a record */
#define PROOF_TEXT_MAX (262144 + NOTE_MAX)

/* Points into the text it came from, but for the record, which free() takes. */
struct proof {
	uint8_t *record; size_t record_len;
	uint64_t index;
	size_t n;
	uint8_t hash[TREE_PROOF_MAX][TREE_HASH];
	const char *note; size_t note_len;
};
/* ERR_INVALID, ERR_LIMIT */
int proof_parse(const char *p, size_t len, struct proof *ret, struct err *err) MUST_CHECK;
void proof_fini(struct proof *p);
void proof_print(const struct proof *p, struct str *ret);
/* The checkpoint is signed by that key, under its own origin, and has the record at that index.  ERR_INVALID: what
 * is wrong. */
int proof_check(const struct proof *p, const struct note_key *key, struct checkpoint *ret,
		struct err *err) MUST_CHECK;

#endif
