#ifndef AUDITOR_TOLD_H
#define AUDITOR_TOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/finding.h"
#include "base/err.h"

/* What a verifier says that the server starts (SCALE SC-708, decision 0098): lines of JSON over a socket, each one
 * object of exactly these members, and the same in a file that it leaves for the next start:
 *
 *	{"finding":"ROOT","gap":false,"log":"…","from":3,"to":5,"detail":"…"}          the first ones
 *	{"sum":{"at":…,"since":…,"logs":…,"records":…,"again":…,"older":…,"bad":…,"gaps":…,"shut":…,"oldest":…}}
 *	{"failed":{"message":"…","hint":"…"}}                                           instead of a sum
 *
 * One sum or failure is last, and the only one.  Whoever reads it takes it for hostile: the verifier reads what others
 * wrote.  Texts are made printable on both sides.  Any thread. */

struct str;

#define TOLD_LINE_MAX 4096       /* bytes, with the newline */
#define TOLD_FOUND_MAX 20        /* findings that are told; further ones are in the counts of the sum */
#define TOLD_MAX ((TOLD_FOUND_MAX + 1) * TOLD_LINE_MAX)     /* bytes of all */

struct told_found {
	enum audit_finding_code code;
	bool gap;
	int64_t from, to;               /* -1: of the log or store as a whole */
	char log[300], detail[400];     /* log: "" = the store's */
};
struct told {
	struct told_found found[TOLD_FOUND_MAX];
	size_t nfound;
	bool ended;                     /* by a sum, or a failure: then message is not empty */
	uint64_t at_us, since_us;       /* when it ended; when the mark was made that it began with, 0: there was none */
	uint64_t logs, records;         /* that were read */
	uint64_t again, older;          /* of records, what the mark had as well; those of the mark that were not read */
	uint64_t bad, gaps, shut;       /* as in struct audit_coverage */
	uint64_t oldest_us;             /* how long ago the oldest reading is of what is vouched for */
	char message[400], hint[400];
};
/* "INTACT", "INCOMPLETE", "DAMAGED", "FAILED". */
const char *told_result(const struct told *t);

/* A finding, unless there are so many; what is bad takes the place of a gap. */
void told_add(struct told *t, const struct audit_finding *f);
/* All lines. */
void told_write(const struct told *t, struct str *to);

/* The next line, without its newline.  ERR_INVALID; ERR_LIMIT: longer, or more than there may be. */
int told_take(struct told *t, const char *line, size_t len, struct err *err) MUST_CHECK;
/* All of it, as a file has it: whole lines, the last of them a sum or failure. */
int told_read(const char *p, size_t len, struct told *ret, struct err *err) MUST_CHECK;

/* --- what it is asked, the other way */

#define VERIFIER_ASK_MAX 8192             /* bytes of the line, with its newline */
struct verifier_ask {
	char *store, *folder;           /* the store; where mark, key and last result are kept, within it */
	unsigned landlock;              /* the ABI whose rules bind it; 0 = none */
	unsigned scrub;                 /* 30: a thirtieth of the old records is read again; 0 = none */
	uint64_t young_s;               /* as in struct audit_evidence */
	char *archive;                  /* where further sealed files may be; NULL: nowhere */
};
void verifier_ask_write(const struct verifier_ask *ask, struct str *to);
/* Its inverse, without the newline; ret is to be freed by verifier_ask_fini().  ERR_INVALID. */
int verifier_ask_parse(const char *line, size_t len, struct verifier_ask *ret, struct err *err) MUST_CHECK;
void verifier_ask_fini(struct verifier_ask *ask);
#define VERIFIER_MARK "mark"              /* in the folder, with mark.key beside it */
#define VERIFIER_LAST "last"

#endif
