#ifndef DB_PG_INT_H
#define DB_PG_INT_H

#include <libpq-fe.h>

#include "db/db.h"
#include "db/server.h"

#include "db_int.h"

/* Inside of the engine for PostgreSQL: its library, the connection and the statement. */

/* libpq is loaded when a server is opened for the first time: who has a store in a folder needs none of it, nor of what
 * it brings along (decision 0158). */
#define PG_CALLS(X) \
	X(PQcancel) X(PQclear) X(PQcmdStatus) X(PQcmdTuples) X(PQconnectdbParams) X(PQconninfoFree) \
	X(PQconninfoParse) X(PQconsumeInput) X(PQenterPipelineMode) X(PQerrorMessage) X(PQexitPipelineMode) \
	X(PQfinish) X(PQflush) X(PQfname) X(PQfreeCancel) X(PQfreemem) X(PQftype) X(PQgetCancel) \
	X(PQgetResult) X(PQgetisnull) X(PQgetlength) X(PQgetvalue) X(PQisBusy) X(PQnfields) X(PQntuples) \
	X(PQpipelineSync) X(PQputCopyData) X(PQputCopyEnd) X(PQresultErrorField) X(PQresultMemorySize) X(PQresultStatus) \
	X(PQsendDescribePrepared) X(PQsendPrepare) X(PQsendQuery) X(PQsendQueryParams) \
	X(PQsendQueryPrepared) X(PQserverVersion) X(PQsetNoticeReceiver) X(PQsetSingleRowMode) \
	X(PQsetnonblocking) X(PQsocket) X(PQstatus) X(PQtransactionStatus)
struct pg_calls {
#define PG_CALL(name) __typeof__(name) *name;
	PG_CALLS(PG_CALL)
#undef PG_CALL
};
extern struct pg_calls pg;              /* written once, before the first connection */

enum {
	PG_CONNECT_S = 3,               /* for each host of the address */
	PG_SETUP_MS = 5000,             /* until a new connection is as it must be */
	PG_RESULT_MAX = 64 << 20,       /* bytes of a result that waits, since another statement came (CLUSTER K-F17) */
	PG_VALUE_MAX = 16 << 20,        /* one text or blob, as in SQLite */
};

struct pg_conn {
	PGconn *c;                      /* NULL: lost, and nobody has needed another one since */
	PGcancel *cancel;
	struct db_server at;            /* to connect again; url is ours */
	char *url, *user;
	struct db_stmt *active;         /* its rows are on their way */
	unsigned items;                 /* savepoints that are open */
	bool warned;                    /* the server said something while it committed (CLUSTER K-114) */
	int64_t changes;
	bool steps;                     /* what surrounds a statement that writes is prepared */
	bool prepared[SQL__COUNT];
};

struct pg_stmt {
	PGresult **kept;                /* results whose rows were not read yet, from `next` on */
	unsigned nkept, next;
	size_t bytes;                   /* of these */
	int failed;                     /* what ended its rows while they were kept, or 0 */
	PGresult *now;                  /* the result that the row is of */
	int row;                        /* of it */
	PGresult *described;            /* for who asks for columns before there is a row */
	struct db_value *values;        /* db_row() */
	char number[32];                /* a number as text */
};

/* What the steps make, as SQL_META_LIST_CATALOGUE lists it (sql/pgsql/catalogue); a NULL ends it. */
extern const char *const pg_catalogue[];

/* --- pg_wire.c */
void pg_lost(struct db *db);
/* The next result of what was sent, NULL behind the last.  Ends by db->deadline_us.  ERR_UNREACHABLE: the connection
 * is lost; ERR_TIMEOUT, and the connection with it. */
int pg_next(struct db *db, PGresult **ret, struct err *err) MUST_CHECK;
/* What a result that is no success says, as a code; frees it.  where: a statement's name. */
int pg_fail(struct db *db, PGresult *r, const char *where, struct err *err);
/* What could not even be sent, since the connection is lost. */
int pg_unsent(struct db *db, const char *where, struct err *err);
/* One text without parameters, to its end; *ret: the last result, the caller's, or NULL for nobody's. */
int pg_exec(struct db *db, const char *sql, PGresult **ret, struct err *err) MUST_CHECK;

/* --- pg_conn.c */
/* Connects, also when the connection was lost and no transaction went with it. */
int pg_alive(struct db *db, struct err *err) MUST_CHECK;

/* --- pg_stmt.c */
/* Rows of a statement that is still being read are kept, so that the connection is free for another. */
int pg_settle(struct db *db, struct err *err) MUST_CHECK;
void pg_stmt_calls(struct db_engine *e);

#endif
