#ifndef DB_SERVER_H
#define DB_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "db/db.h"

/* A database of PostgreSQL 15 or later that several nodes share (CLUSTER K-117): DB_WRITER or DB_READER.  What it must
 * be is asked for each time a connection is made, and it is made again when one is lost outside of a transaction.
 * ERR_INVALID: url is no address; ERR_UNREACHABLE: not reached, or not as it must be, with the cure as a hint.  A
 * transaction that is lost while it ends is ERR_UNCERTAIN. */
struct db_server {
	const char *url;                /* postgresql:host=… dbname=… (libpq), or postgresql://…; copied */
	bool owner;                     /* of the tables, who makes steps of the schema; else who may append alone */
	bool require_standby;           /* a commit waits for another machine */
	uint32_t wait_ms;               /* for its answers until it is open; 0: five seconds */
};
FOR_TESTS int db_open_server(const struct db_server *at, enum db_mode mode, struct db **ret,
			     struct err *err) MUST_CHECK;

#endif
