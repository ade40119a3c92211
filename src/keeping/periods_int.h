#ifndef PERIODS_INT_H
#define PERIODS_INT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Periods of retention, for retention set, show and prune. */

struct db;

struct retention_period {
	int64_t set_by, from_idx;       /* record of the change; first record that it is the first promise to */
	int64_t min_days, max_days;     /* -1: none */
};
struct retention_periods { struct retention_period *v; size_t n; };         /* of a log, the newest first */
int periods_load(struct db *db, int64_t log, struct retention_periods *ret, struct err *err) MUST_CHECK;
void periods_fini(struct retention_periods *p);
int64_t promised_days(const struct retention_periods *p, int64_t idx);   /* how long a record has to be kept */
/* The first record from <= idx < to that is not before a time, or is younger than what was promised to it; `to` when
 * there is none.  Reads what is before it. */
int first_since(struct db *db, int64_t log, int64_t from, int64_t to, uint64_t since_us, int64_t *ret,
		struct err *err) MUST_CHECK;
int first_promised(struct db *db, int64_t log, const struct retention_periods *p, int64_t from, int64_t to,
		   int64_t *ret, struct err *err) MUST_CHECK;

#endif
