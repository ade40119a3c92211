#ifndef REVIEW_H
#define REVIEW_H

#include "people.h"

/* Reading the audit, for other rooms of commands. */

/* The index of a record, -1 when the argument is absent; those that two times have between them, the last one included. */
int adm_index(const struct adm_call *c, const char *name, int64_t *ret, struct err *err) MUST_CHECK;
int adm_range_of_times(struct db *db, int64_t log, uint64_t since_us, uint64_t until_us, int64_t *ret_from, int64_t *ret_to,
		       struct err *err) MUST_CHECK;

#endif
