#ifndef SQL_INT_H
#define SQL_INT_H

#include "base/err.h"
#include "base/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One query as plain memory: filled on the loop, run on a pool thread (sql_job.c), read on the loop again.
 * No JSON tree crosses: arguments come as structs, the result goes back as text. */

struct db;

enum sql_type { SQL_NULL, SQL_INT, SQL_FLOAT, SQL_TEXT };
struct sql_param {              /* a top-level member of the arguments */
	const char *name;
	enum sql_type type;
	int64_t i;
	double f;
	const char *text; size_t len;
};
struct sql_job {
	/* the loop's, read by the pool */
	const char *path;
	const char *store;      /* no file of it is a data source */
	const char *sql; size_t sql_len;
	const struct sql_param *params; size_t nparams;
	int64_t rows_max;
	size_t result_max;
	uint64_t deadline_us;
	/* both: an interrupt needs the connection, so it stays open until the loop has the job back */
	_Atomic(struct db *) db;
	atomic_bool stop;
	/* the pool's, read by the loop after the end */
	struct str out;         /* {"columns":[…],"rows":[[…]],"truncated":false} */
	int rc;
	struct err err;
	bool sql_failed;        /* err is about the statement, not about the database or a limit */
};
void sql_job_run(void *job);                    /* pool thread */

#endif
