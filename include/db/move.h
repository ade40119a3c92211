#ifndef DB_MOVE_H
#define DB_MOVE_H

#include "db/db.h"
#include "db/server.h"

/* A store from one engine to another (CLUSTER 15): all its tables, row by row, with the ids and bytes that they have.
 * Offline: one thread, which waits.  Nothing that is half there passes for a store: on PostgreSQL all is one
 * transaction in a database that is marked meanwhile, and db_check_version() refuses it; a file has another name until
 * it is whole. */
struct db_move {
	struct db *from;                /* a reader of a whole store, with records in all their forms (forms_see()) */
	struct db *to;                  /* a new one, which its owner writes; both are the caller's */
	const char *const *tables;      /* of it, parents first, ended by NULL; the caller's to ask for one by one */
	bool keys;                      /* of payloads, not the store */
	char *later;                    /* what is made when all rows are there; inside alone */
};

/* Makes the schema, which must not be there, marks it, and begins; ended by db_move_end() unless it fails. */
int db_move_begin(struct db_move *m, struct err *err) MUST_CHECK;
/* Of a record that is moved. */
typedef void db_moved_fn(void *arg, int64_t log, int64_t idx, const void *leaf, size_t len);
/* fn: told of each record; NULL.  On PostgreSQL months of records are there before. */
int db_move_table(struct db_move *m, const char *table, db_moved_fn *fn, void *arg, struct err *err) MUST_CHECK;
/* The next ids are those that the other would have given; commits.  rc < 0: undoes it, and returns that.  The mark is
 * the caller's to take away. */
int db_move_end(struct db_move *m, int rc, struct err *err) MUST_CHECK;

#endif
