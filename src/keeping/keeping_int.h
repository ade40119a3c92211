#ifndef KEEPING_INT_H
#define KEEPING_INT_H

#include "people/people.h"

/* The life of records. */

/* The answer waits until what the body intended is done. */
command_after_fn jobs_after;
/* ERR_DENIED with the hold that covers some of the records from <= idx < to, anything of a principal, anything of a
 * log. */
int held_range(struct db *db, int64_t log, int64_t from, int64_t to, const char *what, struct err *err) MUST_CHECK;
int held_subject(struct db *db, int64_t log, const char *prn, const char *what, struct err *err) MUST_CHECK;
int held_any(struct db *db, int64_t log, const char *what, struct err *err) MUST_CHECK;

/* At a start: what a crash has left of a drill has what may have been erased since (AUDIT A-509). */
void drill_clean(const char *store);

#endif
