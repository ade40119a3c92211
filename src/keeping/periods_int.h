#ifndef PERIODS_INT_H
#define PERIODS_INT_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Periods of retention, for retention set, show and prune. */

struct db;

struct adm_period {
	int64_t set_by, from_idx;       /* record of the change; first record that it is the first promise to */
	int64_t min_days, max_days;     /* -1: none */
};
struct adm_periods { struct adm_period *v; size_t n; };         /* of a log, the newest first */
int adm_periods_load(struct db *db, int64_t log, struct adm_periods *ret, struct err *err) MUST_CHECK;
void adm_periods_fini(struct adm_periods *p);
int64_t adm_promised_days(const struct adm_periods *p, int64_t idx);   /* how long a record has to be kept */
/* The first record from <= idx < to that is not before a time, or is younger than what was promised to it; `to` when there is
 * none.  Reads what is before it. */
int adm_first_since(struct db *db, int64_t log, int64_t from, int64_t to, uint64_t since_us, int64_t *ret, struct err *err) MUST_CHECK;
int adm_first_promised(struct db *db, int64_t log, const struct adm_periods *p, int64_t from, int64_t to, int64_t *ret,
		       struct err *err) MUST_CHECK;

#endif
