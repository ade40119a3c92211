#ifndef REPORT_CARRY_H
#define REPORT_CARRY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Records as others get them, who have no store to ask. */

/* A row of audit export as an event of OCSF; new reference.  Any thread. */
json_t *report_ocsf(const json_t *record);
/* What report_carried.json has, read, as a line of CEF without an end, behind what is in ret.  severity: 0 to 10.  Of a
 * value above REPORT_CEF_VALUE_MAX bytes the rest is left out, and cn3 says how many bytes that is.  Any thread. */
struct str;
#define REPORT_CEF_VALUE_MAX 1023
void report_cef(const json_t *record, unsigned severity, struct str *ret);

/* One record: what it says of itself, and the name by which others know it. */
#define REPORT_UID_SIZE 33              /* 32 hex digits and the NUL */
struct report_carried {
	int64_t idx, ts_us;
	int kind;                       /* as the record has it; of a later release it may be none of enum audit_kind */
	int outcome;                    /* -1: it has none */
	const char *uid;                /* OP-304: of log, position and leaf; the same at each sending, and nobody else's */
	const char *json; size_t len;   /* the members of audit export that it has, "id" and "leaf": one object, one line */
};
/* 0 and the next one, 1: no more of them, this one has been taken; or an error.  r is borrowed for the call. */
typedef int report_carried_fn(void *arg, const struct report_carried *r, struct err *err);

/* Reads records of a store; db (borrowed) sees all forms (forms_see()).  clear: with the member "principal", the name
 * of a person where somebody knows it; else pseudonyms are all that is said (OP-004).  One thread at a time. */
struct db;
struct report_carrier;
struct report_carrier *report_carrier_new(struct db *db, bool clear);
void report_carrier_free(struct report_carrier **c);

/* Records of a log from <= idx < to in their order, those that there are: what was pruned is not.  wanted: of which
 * kinds fn() is called; NULL: of all.  At most most_rows are looked at.  *ret_next: where it goes on, which is `to`
 * when there is nothing more below. */
struct report_carry {
	int64_t log, tenant_id, from, to;
	const char *origin;
	int64_t most_rows;
	bool (*wanted)(const void *arg, int kind);
	const void *wanted_arg;
	int64_t first;                  /* answer: the position of the first record, -1: there was none */
};
int report_carry(struct report_carrier *c, struct report_carry *of, report_carried_fn *fn, void *arg,
		 int64_t *ret_next, struct err *err) MUST_CHECK;

#endif
