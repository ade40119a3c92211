#ifndef ASSENT_INT_H
#define ASSENT_INT_H

#include "assent/assent.h"
#include "audit/audit.h"

/* Inside of src/assent: what crosses to the writer's thread, as plain bytes, and the fields of records. */

enum { ASSENT_PRN_SIZE = 128, ASSENT_TEXT_SIZE = AUDIT_TEXT_MAX + 1, ASSENT_FIELD = 8 + 32 + 1,
	ASSENT_VOTES_SIZE = ASSENT_COUNT_MAX * (2 * ASSENT_NAME_SIZE + ASSENT_REASON_MAX + 64) };

struct assent_add {                     /* of ASSENT_ROWS_ADD; behind it rule and what is shown, each with a NUL */
	int64_t id, tenant_id, principal_id;
	char prn[ASSENT_PRN_SIZE], cred[ASSENT_PRN_SIZE], tool[ASSENT_TEXT_SIZE], name[ASSENT_TEXT_SIZE];
	uint8_t digest[32], tdef[32], call[16];
	uint64_t asked_us, due_us;
	size_t rule_len, shown_len;
	char text[];
};

struct assent_end {                     /* of ASSENT_ROWS_USE and ASSENT_ROWS_LAPSE */
	int64_t id, tenant_id;
	uint8_t call[16];               /* of a use */
	uint64_t us;
	char said[ASSENT_REASON_MAX];
};

enum { ASSENT_ROWS_ADD, ASSENT_ROWS_USE, ASSENT_ROWS_LAPSE };
extern const struct writer_rows assent_rows[];

/* The value of AUDIT_TAG_ASSENT. */
void assent_field(int64_t id, const uint8_t digest[32], int state, uint8_t ret[ASSENT_FIELD]);
/* That of AUDIT_TAG_VOTES, a line each. */
void assent_votes_text(const struct assent_vote *vote, size_t n, struct str *out);

#endif
