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
	const char *user;               /* instead of the address's; NULL: that; copied */
	bool beside;                    /* the database of keys that goes with the address's, by its name and "_keys" */
};
int db_open_server(const struct db_server *at, enum db_mode mode, struct db **ret, struct err *err) MUST_CHECK;
/* It is such a database, so that what keeps a file of SQLite in order is not there, and does nothing. */
bool db_is_shared(const struct db *db);
/* 1: who has it open may read what rows of keys have, which in a file everybody may; 0: a role of auditors. */
int db_may_read_keys(struct db *db, struct err *err) MUST_CHECK;
/* Whether they are addresses, without a password and with files that can be had; nobody is asked. */
int db_server_check(const char *url, const char *keys_url, struct err *err) MUST_CHECK;
/* The files that an address, if there is one, names, for who decides what may be opened. */
void db_server_files(const char *url, void (*fn)(void *arg, const char *file), void *arg);

/* A store whose databases a server has: of the whole process, said before anything of it is opened and while there is
 * one thread.  From then on db_open() of its files opens them there.  The folder remembers it, for programs that read
 * no configuration: db_serve_found().  ERR_CONFLICT: the folder has a store in files. */
struct db_served {
	const char *url, *keys_url;     /* keys_url NULL: struct db_server's `beside` */
	bool require_standby;
};
#define DB_SERVER_AUDITOR "toolcrib_audit"
#define DB_SERVED "database"            /* file of the folder */
enum { DB_SERVED_MAX = 8192 };          /* bytes of it */
int db_serve(const char *store, const struct db_served *at, struct err *err) MUST_CHECK;
int db_serve_found(const char *store, struct err *err) MUST_CHECK;
bool db_is_served(const char *store);

#endif
