#ifndef HANDLERS_SQL_WORK_H
#define HANDLERS_SQL_WORK_H

#include "base/err.h"

/* The part of the sql handler that runs in a worker, a row of its table (worker/serve.h). */

struct worker_run;

#define SQL_WORK "sql"                  /* the name of the work */

int sql_work(const struct worker_run *r, struct err *err);

#endif
