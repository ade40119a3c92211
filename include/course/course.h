#ifndef COURSE_COURSE_H
#define COURSE_COURSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/finding.h"
#include "base/err.h"

/* Courses: what has a record that begins it, records of what becomes of it, and a row that says how far it is.  Tasks
 * (TK-43): one begins, at most one ends it.  Approvals of calls (HA-03): filed once, agreed to, then used, refused,
 * lapsed or recalled, once.  A verification tells a log's records in order, then compares the rows.  One thread. */

struct courses;
struct db;
struct str;
struct unpack;

#define COURSES_MAX (1 << 20)           /* of one log that are kept in mind */

struct courses *courses_new(void);
void courses_free(struct courses **c);
/* outcome: of a call that has ended. */
struct course_record { int kind; int64_t outcome, idx; uint64_t ts; const void *ext; size_t ext_len; };
/* pruned: records in front of the first one are gone.  False: it does not fit what came before, with *ret set. */
bool courses_record(struct courses *c, const struct course_record *r, bool pruned, enum audit_finding_code *ret);
/* idx: of the record that begins it, -1: of none. */
typedef void course_found_fn(void *arg, enum audit_finding_code code, int64_t idx, const char *detail);
int courses_rows(struct courses *c, struct db *db, int64_t tenant_id, bool pruned, course_found_fn *found, void *arg,
		 struct err *err) MUST_CHECK;
bool courses_overflow(const struct courses *c);
void courses_save(const struct courses *c, struct str *to);
void courses_load(struct courses *c, struct unpack *in);

#endif
