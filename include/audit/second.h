#ifndef AUDIT_SECOND_H
#define AUDIT_SECOND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block/row.h"
#include "base/crypto.h"
#include "base/err.h"

/* What two administrators have agreed on, and which deeds need two, as the records of the system log say (AUDIT
 * Rows of tables are edited by whoever can write the file; here only records count, of which the tree that
 * the writer has in memory shows that they are there as they were written: those that this process has appended, and
 * those that were signed before it started.  What was found unsigned at the start takes away, and gives nothing.
 *
 * Writer thread.  What is read once is kept, and read on from there; records of the open transaction count as well,
 * until it is rolled back. */

struct audit_logs;
struct db;

/* How long a request waits for a grant, and how long a grant waits for its use, in microseconds. */
#define AUDIT_CONSENT_US (24ull * 3600 * 1000000)

enum { AUDIT_PERSON_MAX = 64, AUDIT_WHO_MAX = 48, AUDIT_CONSENTS_MAX = 4096 };

/* A request that was neither denied nor used up. */
struct audit_consent {
	int64_t id;
	uint8_t digest[DIGEST_SIZE];    /* of the action */
	uint8_t asked[DIGEST_SIZE];     /* SHA-256 of the text that says what it is */
	char asked_by[AUDIT_WHO_MAX], granted_by[AUDIT_WHO_MAX];        /* "uid 1000", "key ci"; "": it waits */
	char asker[AUDIT_PERSON_MAX], granter[AUDIT_PERSON_MAX];        /* persons, where that was said; else "" */
	uint64_t asked_us, granted_us;
};
/* 1: *ret is the request of that number; 0: no record speaks of it, or of too many of them.  ERR_CORRUPT: records are
 * not as they were written. */
int audit_second_find(struct audit_logs *logs, struct db *db, int64_t id, struct audit_consent *ret,
		      struct err *err) MUST_CHECK;

/* one: a single administrator is enough.  versions: new versions of definitions wait for a second one. */
struct audit_policy { bool one, versions; };
int audit_second_policy(struct audit_logs *logs, struct db *db, struct audit_policy *ret, struct err *err) MUST_CHECK;

/* The same as bytes, for audit_beat(); as they were when the records cannot be read any more. */
#define AUDIT_POLICIES_SIZE 2
int audit_second_said(struct audit_logs *logs, struct db *db, uint8_t ret[AUDIT_POLICIES_SIZE],
		      struct err *err) MUST_CHECK;

/* Who asked that this version be put in force, by the newest record 1910 of that object and digest: 1; 0: there is
 * none.  ret_who and ret_person have AUDIT_WHO_MAX and AUDIT_PERSON_MAX bytes. */
int audit_second_author(struct audit_logs *logs, struct db *db, const char *obj, const uint8_t digest[DIGEST_SIZE],
			char *ret_who, char *ret_person, struct err *err) MUST_CHECK;

/* The notary, before anything is written: so many records of the system log were signed. */
void audit_second_signed(struct audit_logs *logs, uint64_t size);

/* --- what records of requests and grants say, for who reads them elsewhere; pure, any thread */

/* A field as text, cut to fit; false and "": there is none. */
bool audit_said_text(const struct audit_value *ext, unsigned tag, char *ret, size_t size);
bool audit_said_node(const struct audit_value *ext);    /* of a start: nodes may share the store */
bool audit_said_digest(const struct audit_value *ext, unsigned tag, uint8_t ret[DIGEST_SIZE]);
/* Who gave the command that the record is of. */
void audit_said_who(const struct audit_value *ext, char ret[AUDIT_WHO_MAX]);
/* N of the object "approval/N"; 0: it is another one. */
int64_t audit_said_number(const struct audit_value *obj);
/* AUDIT_TAG_ASKED in its parts. */
bool audit_said_asked(const struct audit_value *ext, uint8_t ret[DIGEST_SIZE], char person[AUDIT_PERSON_MAX]);

/* The field AUDIT_TAG_ASKED: the text's hash, then the name of the person, which may be NULL. */
struct audit_asked { uint8_t p[DIGEST_SIZE + AUDIT_PERSON_MAX]; size_t len; };
void audit_asked_make(const char *text, const char *person, struct audit_asked *ret);

#endif
