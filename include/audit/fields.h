#ifndef AUDIT_FIELDS_H
#define AUDIT_FIELDS_H

#include <stddef.h>
#include <stdint.h>

/* Fields of ext (AUDIT A-413); text is UTF-8, numbers are big-endian. */
enum audit_tag {
	AUDIT_TAG_BEFORE = 0x0100, AUDIT_TAG_AFTER = 0x0101,    /* 32-byte digests */
	AUDIT_TAG_RANGE = 0x0102,               /* from, to: 8 bytes each; from <= idx < to */
	AUDIT_TAG_KEYS = 0x0103,                /* 8 bytes each, ascending */
	AUDIT_TAG_GROUND = 0x0104, AUDIT_TAG_TICKET = 0x0105, AUDIT_TAG_APPROVER = 0x0106,      /* text */
	AUDIT_TAG_BUNDLE = 0x0107,              /* SHA-256 */
	AUDIT_TAG_ROOT = 0x0108, AUDIT_TAG_FRONTIER = 0x0109,   /* at the cut: a hash; hashes */
	AUDIT_TAG_HEADS = 0x010a,               /* of each log: 4 bytes number, 8 bytes size, root */
	AUDIT_TAG_LOGS = 0x010b,                /* 8 bytes */
	AUDIT_TAG_CONFIG = 0x010c,              /* hashes */
	AUDIT_TAG_GENERATION = 0x010d, AUDIT_TAG_RECEIVERS = 0x010e,    /* 8 bytes */
	AUDIT_TAG_COUNTS = 0x010f, AUDIT_TAG_TIMES = 0x0110, AUDIT_TAG_NOTE = 0x0111, AUDIT_TAG_RECEIPT = 0x0112,
	AUDIT_TAG_REASON = 0x0113, AUDIT_TAG_COMMAND = 0x0114,  /* text */
	AUDIT_TAG_TAILS = 0x0115,               /* of each log: 4 bytes number, 8 bytes each from, to, first and last time */
	AUDIT_TAG_CAUSE = 0x0116,               /* 4 bytes number of a log, 8 bytes index */
	AUDIT_TAG_HEADS_ROOT = 0x0117,          /* heads in their second form: audit_heads_read() */
	AUDIT_TAG_LOST = 0x0118,                /* what a restore gave up of a log: succession/succession.h */
	AUDIT_TAG_TASK = 0x0119,                /* text: which task (task/task.h) */
	AUDIT_TAG_TASK_END = 0x011a,            /* 1 byte: the state in which it has ended */
	AUDIT_TAG_DECISION = 0x011b,            /* text: what each policy decision point has said, a line each */
	AUDIT_TAG_DECISION_DIGEST = 0x011c,     /* SHA-256 of what each was asked, in the same order */
	AUDIT_TAG_ASSENT = 0x011d,              /* 8 bytes: which approval; its digest; 1 byte: its state from here on */
	AUDIT_TAG_VOTES = 0x011e,               /* text: a line for each who has agreed: person, by what, when, why */
	AUDIT_TAG_EPOCH = 0x0120,               /* 8 bytes */
	AUDIT_TAG_PUBLIC = 0x0121,              /* the epoch's public key */
	AUDIT_TAG_CERT = 0x0122,                /* the old epoch's signature over it */
	AUDIT_TAG_ROW_KINDS = 0x0128,           /* 2 bytes each: kinds of rows that records vouch for from here on */
	AUDIT_TAG_TENANT = 0x0129,              /* whose log it is: 8 bytes id, then the name of that day */
	AUDIT_TAG_RESULT = 0x012c,              /* text: what came of a verification */
	AUDIT_TAG_ASKED = 0x012e,               /* SHA-256 of the text that is agreed to; then the person's name, if any */
	AUDIT_TAG_VERSION = 0x0138,             /* 8 bytes: of a tool that a tenant goes on with, 0 = the one in force */
	AUDIT_TAG_ROW = 0x0139,                 /* a row that was taken out of service, its columns as they were digested */
	AUDIT_TAG_POLICIES = 0x012f,            /* 1: one administrator is enough, else 2; 1: versions wait, else 0 */
};
struct audit_field { uint16_t tag; const void *p; size_t len; };
#define AUDIT_FIELDS_MAX 16
#define AUDIT_EXT_MAX 65536             /* of all fields; more is ERR_LIMIT */
/* The value of a field of ext that audit_view has, or NULL. */
const uint8_t *audit_field_find(const void *ext, size_t ext_len, unsigned tag, size_t *ret_len);
void audit_put_be(uint8_t *p, uint64_t v, unsigned bytes);
uint64_t audit_get_be(const uint8_t *p, unsigned bytes);
/* From when on a server that was started at ts_us has calls: the one before it may run on with some, and then its start
 * says since when (AUDIT_TAG_TIMES, OP-903). */
static inline uint64_t audit_calls_since(uint64_t ts_us, const void *ext, size_t ext_len)
{
	size_t n = 0;
	const uint8_t *said = ext ? audit_field_find(ext, ext_len, AUDIT_TAG_TIMES, &n) : NULL;
	const uint64_t since_us = said && n == 8 ? audit_get_be(said, 8) : ts_us;

	return since_us < ts_us ? since_us : ts_us;
}

#endif
