#ifndef AUDIT_FINDING_H
#define AUDIT_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Findings: what verifying a store (verify/) or a bundle (bundle/) can tell, and what a verifier brings along.
 * Codes and classes are part of the format (AUDIT 8). */

#define AUDIT_FINDINGS(X) \
	X(SCHEMA, true, "tables, views, indexes or triggers are not the release's own") \
	X(KEYCHAIN, true, "an epoch's key does not follow from the one before, or from the pinned one") \
	X(CP_SIG, true, "a checkpoint's signature is wrong") \
	X(CP_ORDER, true, "checkpoints are out of order") \
	X(EPOCH_GAP, true, "an epoch without a checkpoint") \
	X(DICT, true, "a text is missing, of another kind, or there twice") \
	X(TYPE, true, "a value of a storage class or length that the encoding does not allow") \
	X(ENCODING, true, "a record of an unknown encoding") \
	X(PARSE, true, "a field, a note or a bundle is malformed") \
	X(GAP, true, "an index is missing") \
	X(LEAF, true, "the columns do not give the stored leaf") \
	X(FORM, true, "a row that a block has replaced says something else") \
	X(SEGMENT, true, "a sealed file is damaged, or not what it says") \
	X(SEGMENT_MISSING, true, "records that are in no sealed file that is here") \
	X(ROOT, true, "the records do not give the log's root") \
	X(TILE, true, "the hashes kept of whole tiles do not fit") \
	X(TRUNCATED, true, "fewer records than the log's head says") \
	X(UNCOVERED_TAIL, true, "records that no checkpoint covers") \
	X(INDEX, true, "an index of the database lacks rows or has too many") \
	X(PAYLOAD, true, "what is kept of a record is not what it commits to") \
	X(PAYLOAD_MISSING, true, "what is kept of a record is gone, and nothing says that it was erased") \
	X(PAYLOAD_EXTRA, true, "something is kept of a record that commits to nothing") \
	X(ERASED_BUT_PRESENT, true, "something is still there after it was pruned or erased") \
	X(ALIAS, true, "a pseudonym without its record, or not of whom the record says") \
	X(PAIRING, true, "an end without its begin, or of another call") \
	X(DANGLING, false, "a begin from before the last start without an end, an intent without its deed") \
	X(TIME, true, "times that fall though nobody has set the clock") \
	X(LIFECYCLE, true, "starts, stops and crashes do not alternate") \
	X(REGISTRY, true, "a row that its record does not vouch for") \
	X(APPROVAL, true, "a deed of two administrators, and no earlier record of two different ones") \
	X(TASK, true, "a task that was not begun and ended once, or whose row says something else") \
	X(ASSENT, true, "an approval that was not asked for, given and used once in turn, or whose row says something else") \
	X(CROSS_REF, true, "the system log has committed something else of a log") \
	X(LOG_MISSING, true, "a tenant without a log") \
	X(SIGNER_AHEAD, true, "the signer has signed more, or something else") \
	X(ANCHOR, true, "a checkpoint from outside is not of this log") \
	X(NO_ANCHOR, false, "no checkpoint was taken outside lately") \
	X(RESTORED, false, "records that were signed were lost, and a restore went on without them") \
	X(VIEW, true, "the readable view is not what the bytes say") \
	X(KEY_MISSING, false, "no key to what is kept of records") \
	X(NOT_CHECKED, false, "a step was left out")
enum audit_finding_code {
#define AUDIT_FINDING_ENUM(sym, bad, text) AUDIT_FINDING_##sym,
	AUDIT_FINDINGS(AUDIT_FINDING_ENUM)
#undef AUDIT_FINDING_ENUM
	AUDIT_FINDING_COUNT
};
const char *audit_finding_name(enum audit_finding_code code);
const char *audit_finding_text(enum audit_finding_code code);
bool audit_finding_bad(enum audit_finding_code code);   /* else: a gap in what could be checked */

struct audit_finding {
	enum audit_finding_code code;
	const char *origin;             /* of the log; NULL: the store */
	int64_t from, to;               /* indexes from <= idx <= to; -1: not about records */
	const char *detail;             /* or NULL */
	bool gap;                       /* of this class here, though the code is of the other */
};
typedef void audit_found_fn(void *arg, const struct audit_finding *f);

struct audit_coverage {
	uint64_t logs, records, pruned; /* pruned: records that are not there any more */
	uint64_t first_us, last_us;     /* of all records; 0 when there are none */
	uint64_t older;                 /* records that an earlier verification has read, and this one has not */
	uint64_t again;                 /* records that both have read */
	uint64_t bad, gaps;             /* findings of each class */
	uint64_t running;               /* begins without an end of calls that run: no finding */
	/* Principals whose names nothing vouches for but keys that were not given, and the first of them. */
	uint64_t names;
	char named[160];
	uint64_t shut;                  /* kept values and names that were not opened, because no keys were given */
	uint64_t notes, epochs;         /* checkpoints whose signatures were checked */
	uint64_t vouched_us;            /* older rows were taken as they were then; 0: all have records of their own */
	bool pinned;                    /* the chain of epochs begins with a key from outside */
	bool foreign;                   /* the schema is not the release's own, so that no record was read by it */
	bool indexes_summed;            /* the indexes of records were found sound by sums, without looking each row up */
};

/* What a verifier has in hand beside the store (AUDIT 0: E0, E1, E2).  All of it is borrowed, and may be missing. */
struct signer_state;
struct note_key;
struct audit_anchor { const char *p; size_t len; };     /* a signed note from outside */
struct keys;
struct audit_evidence {
	struct keys *keys;              /* of payloads; NULL: nothing is opened, and a gap says how much is shut */
	bool shut_on_purpose;           /* no gap, then: whoever verifies is not to have them */
	const char *keys_wrong;         /* they were brought, and this is wrong with their file; NULL: nothing is */
	/* pinned: the system log's, and that of an epoch, the first as a rule */
	const struct note_key *key; size_t nkey;
	const struct signer_state *signer;
	const struct audit_anchor *anchor; size_t nanchor;
	uint64_t anchor_age_s;          /* an older one than this is NO_ANCHOR, or one of unknown age; 0 = any */
	unsigned threads;               /* that read records, the caller's among them; 0: that one alone */
	uint64_t young_s;               /* the owner asks: unsigned records are no finding unless they are older than this */
	/* How far it is, at each log and each AUDIT_VERIFY_STEP records, in the caller's thread; NULL: nobody wants to
	 * know. */
	void (*progress)(void *arg, uint64_t records, uint64_t total);
};

#endif
