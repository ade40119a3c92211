/* Connections of PostgreSQL: its library, addresses, settings that are read back, and what a database must be.  Called
 * by the engine, and again at whatever needs a connection when one was lost. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/text.h"
#include "db/db.h"

#include "pg_int.h"

#define NELEMS(a) (sizeof(a) / sizeof((a)[0]))

/* --- the library */

static const char *not_there;           /* which of its functions */

static void load(void)
{
	static const struct { const char *name; size_t at; } calls[] = {
#define PG_CALL(name) { #name, offsetof(struct pg_calls, name) },
		PG_CALLS(PG_CALL)
#undef PG_CALL
	};
	void *lib = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);

	not_there = lib ? NULL : "libpq.so.5";
	for (size_t i = 0; lib && i < NELEMS(calls); i++) {
		void *call = dlsym(lib, calls[i].name);

		memcpy((char *)&pg + calls[i].at, &call, sizeof(call));
		if (!call)
			not_there = calls[i].name;
	}
}

static int load_once(struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int rc = 0;

	pthread_once(&once, load);
	if (not_there) {
		rc = err_set(err, ERR_UNREACHABLE, "database", "PostgreSQL's library is missing, or too old: %s",
			     not_there);
		err_hint(err, "install libpq5, of PostgreSQL 14 or later");
	}
	return rc;
}

/* --- settings (CLUSTER K-117), and what a database must be */

static const char settings[] = "SET client_min_messages = warning; SET search_path = toolcrib, pg_temp; "
	"SET TimeZone = 'UTC'; SET synchronous_commit = on; SET plan_cache_mode = force_generic_plan; "
	"SET standard_conforming_strings = on; SET statement_timeout = 0; "
	"SET client_connection_check_interval = '2s'";
/* Whoever is away with a lock in his hand may not hold up others. */
static const char for_writers[] = "SET lock_timeout = '2s'; SET idle_in_transaction_session_timeout = '5s'";
/* A report says what it does not ask for by NULL: its plan is made for what it asks. */
static const char for_readers[] = "SET default_transaction_read_only = on; SET plan_cache_mode = force_custom_plan";

enum { OF_ALL, OF_WRITER, OF_SERVANT, OF_STANDBY };     /* whom a check is for; a servant writes, and owns nothing */
static const struct check {
	int whose;
	const char *sql, *want, *wrong, *cure;
} checks[] = {
	{ OF_ALL, "pg_encoding_to_char(encoding)", "UTF8", "its encoding is %s, not UTF8",
	  "make it anew: CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C'" },
	{ OF_ALL, "CASE WHEN datlocprovider = 'c' AND datcollate IN ('C', 'POSIX') THEN 'C' ELSE datcollate END", "C",
	  "its collation is %s, not C: lists would sort differently than their cursors expect",
	  "make it anew: CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C'" },
	{ OF_ALL, "current_setting('TimeZone')", "UTC", "its time zone is %s and cannot be made UTC",
	  "see who set it" },
	{ OF_WRITER, "current_setting('synchronous_commit')", "on", "synchronous_commit is %s and cannot be made on",
	  "see who set it" },
	{ OF_WRITER, "current_setting('transaction_read_only')", "off", "it is a standby, or may only be read",
	  "name all hosts in database.url, and target_session_attrs=read-write" },
	{ OF_WRITER, "current_setting('fsync')", "on", "fsync is %s: what was committed would be lost with its machine",
	  "set fsync = on in postgresql.conf" },
	{ OF_WRITER, "current_setting('full_page_writes')", "on",
	  "full_page_writes is %s: a crash could leave half a page", "set full_page_writes = on in postgresql.conf" },
	{ OF_STANDBY, "CASE current_setting('synchronous_standby_names') WHEN '' THEN 'empty' ELSE 'there' END",
	  "there", "synchronous_standby_names is %s; commits would be lost with this machine",
	  "set it, or database.require_standby: false" },
	{ OF_SERVANT, "CASE WHEN rolsuper THEN 'superuser' ELSE 'role' END", "role",
	  "its user is a %s, who may change any record", "connect as the role toolcrib, which may not" },
	{ OF_SERVANT, "CASE WHEN has_table_privilege(to_regclass('toolcrib.rec'), 'UPDATE') OR "
	  "has_table_privilege(to_regclass('toolcrib.rec'), 'TRUNCATE') THEN 'update' ELSE 'append' END", "append",
	  "its user may %s records", "connect as the role toolcrib, which owns no table" },
};

static bool concerns(const struct db *db, const struct check *c)
{
	const bool writer = db->mode == DB_WRITER;

	switch (c->whose) {
	case OF_WRITER:
		return writer;
	case OF_SERVANT:
		return writer && !db->pg->at.owner;
	case OF_STANDBY:
		return writer && db->pg->at.require_standby;
	default:
		return true;
	}
}

static int check_all(struct db *db, struct err *err)
{
	struct str sql = STR_INIT;
	PGresult *r = NULL;
	int rc;

	str_puts(&sql, "SELECT ");
	for (size_t i = 0; i < NELEMS(checks); i++)
		str_printf(&sql, "%s(%s)::text", i ? ", " : "", checks[i].sql);
	str_puts(&sql, " FROM pg_database, pg_roles WHERE datname = current_database() AND rolname = current_user");
	rc = pg_exec(db, sql.p, &r, err);
	str_fini(&sql);
	if (rc == 0 && pg.PQntuples(r) != 1)
		rc = err_set(err, ERR_CORRUPT, "database", "it does not know itself");
	for (int i = 0; rc == 0 && i < (int)NELEMS(checks); i++) {
		char now[64];

		text_printable(pg.PQgetvalue(r, 0, i), (size_t)pg.PQgetlength(r, 0, i), now, sizeof(now));
		if (!concerns(db, &checks[i]) || strcmp(now, checks[i].want) == 0)
			continue;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
		rc = err_set(err, ERR_UNREACHABLE, "database", checks[i].wrong, now);
#pragma GCC diagnostic pop
		err_hint(err, "%s", checks[i].cure);
	}
	pg.PQclear(r);
	return rc;
}

/* --- connecting */

/* The server warns while it commits when nobody but it has what was committed. */
static void notice(void *arg, const PGresult *r)
{
	struct pg_conn *conn = arg;

	conn->warned = true;
}

/* libpq leaves a file that others may read, and says so where nobody looks. */
static int check_passfile(const char *path, const char *key, struct err *err)
{
	struct stat st;
	int rc = 0;

	if (*path != '/')
		return err_set(err, ERR_INVALID, key, "passfile must be an absolute path");
	if (stat(path, &st) != 0)
		rc = err_set(err, ERR_UNREACHABLE, path, "the passfile of %s: %s", key, strerror(errno));
	else if (!S_ISREG(st.st_mode) || st.st_mode & (S_IRWXG | S_IRWXO))
		rc = err_set(err, ERR_DENIED, path, "the passfile of %s is open to others, or no file", key);
	if (rc < 0)
		err_hint(err, "a file of the service's user, mode 0600, with lines HOST:PORT:DATABASE:USER:PASSWORD");
	return rc;
}

/* A password in an address would stand in the configuration, which is exported and shown. */
static int parse(const char *url, const char *key, PQconninfoOption **ret, struct err *err)
{
	static const char scheme[] = "postgresql:";
	const char *rest = strncmp(url, scheme, strlen(scheme)) == 0 ? url + strlen(scheme) : NULL;
	char *said = NULL;
	int rc = 0;

	if (rest && strncmp(rest, "//", 2) == 0)
		rest = url;
	*ret = rest ? pg.PQconninfoParse(rest, &said) : NULL;
	pg.PQfreemem(said);                     /* it repeats what was written, a password perhaps */
	if (!*ret) {
		rc = err_set(err, ERR_INVALID, key, "no address of a database");
		err_hint(err, "as in postgresql:host=pg1,pg2 dbname=toolcrib user=toolcrib sslmode=verify-full");
		return rc;
	}
	for (const PQconninfoOption *o = *ret; rc == 0 && o->keyword; o++) {
		if (o->val && (strcmp(o->keyword, "password") == 0 || strcmp(o->keyword, "sslpassword") == 0)) {
			rc = err_set(err, ERR_INVALID, key, "a password stands in it");
			err_hint(err, "put it into a file of mode 0600, and passfile=FILE in its place: see pgpass of "
				 "PostgreSQL");
		} else if (o->val && strcmp(o->keyword, "passfile") == 0) {
			rc = check_passfile(o->val, key, err);
		}
	}
	return rc;
}

int db_server_check(const char *url, const char *keys_url, struct err *err)
{
	PQconninfoOption *options = NULL;
	int rc = load_once(err);

	if (rc == 0)
		rc = parse(url, "database.url", &options, err);
	if (options)
		pg.PQconninfoFree(options);
	options = NULL;
	if (rc == 0 && keys_url)
		rc = parse(keys_url, "database.keys_url", &options, err);
	if (options)
		pg.PQconninfoFree(options);
	return rc;
}

void db_server_files(const char *url, void (*fn)(void *arg, const char *file), void *arg)
{
	static const char *const words[] = { "passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl" };
	PQconninfoOption *options = NULL;
	struct err ignored;

	if (url && load_once(&ignored) == 0)
		(void)parse(url, "", &options, &ignored);
	for (const PQconninfoOption *o = options; o && o->keyword; o++)
		for (size_t i = 0; o->val && *o->val == '/' && i < NELEMS(words); i++)
			if (strcmp(o->keyword, words[i]) == 0)
				fn(arg, o->val);
	if (options)
		pg.PQconninfoFree(options);
}

/* Of a connection that is not made libpq has no code, only words, of the server's language: what is not known here has
 * the last row. */
static void hint_cure(struct err *err)
{
	static const struct { const char *said, *cure; } rows[] = {
		{ "too many clients", "raise max_connections of PostgreSQL, or end what holds its connections" },
		{ "remaining connection slots", "raise max_connections of PostgreSQL, or end what holds its connections" },
		{ "too many connections for", "raise CONNECTION LIMIT of the database or role" },
		{ "does not exist", "toolcribd(8), POSTGRESQL, says how its databases and roles are made" },
		{ "password", "passfile=FILE in the address names a file of mode 0600 with HOST:PORT:DATABASE:USER:PASSWORD" },
		{ "pg_hba.conf", "let it in, in pg_hba.conf of the server" },
		{ "", "see whether PostgreSQL runs there, and what its log says" },
	};
	size_t i = 0;

	while (err && i + 1 < NELEMS(rows) && !strstr(err->msg, rows[i].said))
		i++;
	err_hint(err, "%s", rows[i].cure);
}

struct words { const char *key[64], *value[64]; size_t n; };

static void word(struct words *w, const char *key, const char *value)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->key[i], key) == 0)
			return;
	if (w->n + 1 < NELEMS(w->key)) {
		w->key[w->n] = key;
		w->value[w->n++] = value;
	}
}

static int connect_to(struct db *db, struct err *err)
{
	struct pg_conn *conn = db->pg;
	struct words w = { .n = 0 };
	PQconninfoOption *options = NULL;
	char seconds[8], keys[80] = "";
	int rc = load_once(err);

	if (rc == 0)
		rc = parse(conn->url, "database.url", &options, err);
	snprintf(seconds, sizeof(seconds), "%d", PG_CONNECT_S);
	word(&w, "client_encoding", "UTF8");
	if (conn->at.user)
		word(&w, "user", conn->at.user);
	for (const PQconninfoOption *o = options; rc == 0 && o->keyword && conn->at.beside; o++)
		if (o->val && strcmp(o->keyword, "dbname") == 0)
			snprintf(keys, sizeof(keys), "%s_keys", o->val);
	if (*keys)
		word(&w, "dbname", keys);
	for (const PQconninfoOption *o = options; rc == 0 && o->keyword; o++)
		if (o->val)
			word(&w, o->keyword, o->val);
	word(&w, "application_name", "toolcrib");
	word(&w, "connect_timeout", seconds);
	word(&w, "tcp_user_timeout", "5000");
	word(&w, "keepalives_idle", "2");
	word(&w, "keepalives_interval", "2");
	word(&w, "keepalives_count", "3");
	if (rc == 0)
		conn->c = pg.PQconnectdbParams(w.key, w.value, 0);
	if (options)
		pg.PQconninfoFree(options);
	if (rc < 0)
		return rc;
	if (pg.PQstatus(conn->c) != CONNECTION_OK) {
		rc = pg_unsent(db, "cannot connect", err);
		hint_cure(err);
	} else if (pg.PQserverVersion(conn->c) < 150000) {
		rc = err_set(err, ERR_UNREACHABLE, "database", "it is PostgreSQL %d, and 15 is the least",
			     pg.PQserverVersion(conn->c) / 10000);
		err_hint(err, "install PostgreSQL 15 or later there, and bring the database to it with pg_upgrade");
	}
	if (rc < 0)
		return rc;
	conn->cancel = pg.PQgetCancel(conn->c);
	(void)pg.PQsetNoticeReceiver(conn->c, notice, conn);
	(void)pg.PQsetnonblocking(conn->c, 1);
	return 0;
}

static int set_up(struct db *db, struct err *err)
{
	const uint64_t before_us = db->deadline_us, wait_ms = db->pg->at.wait_ms ? db->pg->at.wait_ms : PG_SETUP_MS;
	int rc = connect_to(db, err);

	db->deadline_us = clock_mono_us() + wait_ms * 1000;
	if (rc == 0)
		rc = pg_exec(db, settings, NULL, err);
	if (rc == 0)
		rc = pg_exec(db, db->mode == DB_WRITER ? for_writers : for_readers, NULL, err);
	if (rc == 0)
		rc = check_all(db, err);
	db->deadline_us = before_us;
	if (rc < 0)
		pg_lost(db);
	return rc;
}

int pg_alive(struct db *db, struct err *err)
{
	if (db->pg->c && pg.PQstatus(db->pg->c) != CONNECTION_BAD)
		return 0;
	if (db->in_txn)
		return pg_unsent(db, "transaction", err);
	pg_lost(db);
	return set_up(db, err);
}
