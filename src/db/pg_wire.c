/* What passes between a server of PostgreSQL and its engine: waiting for answers, what they say of failures, and
 * connections that are lost.  All that comes back passes pg_next(), which never waits longer than the connection's
 * deadline. */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "db/db.h"

#include "pg_int.h"

#define NELEMS(a) (sizeof(a) / sizeof((a)[0]))

struct pg_calls pg;

/* --- errors */

/* By the first characters of the SQLSTATE; the first row that fits. */
static const struct { const char *state; int code; } codes[] = {
	{ "23502", ERR_INTERNAL }, { "23", ERR_CONFLICT },
	{ "40", ERR_BUSY }, { "55P03", ERR_BUSY },
	{ "53", ERR_AUDIT },
	{ "57014", ERR_CANCELLED }, { "57P", ERR_UNREACHABLE }, { "08", ERR_UNREACHABLE },
	{ "25006", ERR_UNREACHABLE }, { "25P03", ERR_UNREACHABLE },
	{ "42P06", ERR_CONFLICT }, { "42P07", ERR_CONFLICT },
	{ "42501", ERR_DENIED }, { "28", ERR_DENIED },
	{ "54", ERR_LIMIT },
	{ "22021", ERR_INVALID }, { "22P05", ERR_INVALID },
	{ "XX001", ERR_CORRUPT }, { "XX002", ERR_CORRUPT }, { "58030", ERR_IO },
};

static int code_of(const struct db *db, const char *state)
{
	for (size_t i = 0; state && i < NELEMS(codes); i++)
		if (strncmp(state, codes[i].state, strlen(codes[i].state)) == 0) {
			if (codes[i].code == ERR_CANCELLED && db->deadline_us && clock_mono_us() >= db->deadline_us)
				return ERR_TIMEOUT;
			return codes[i].code;
		}
	return ERR_INTERNAL;
}

int pg_fail(struct db *db, PGresult *r, const char *where, struct err *err)
{
	const char *state = pg.PQresultErrorField(r, PG_DIAG_SQLSTATE);
	const char *said = pg.PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);  /* its detail has values of rows */
	int code = pg.PQstatus(db->pg->c) == CONNECTION_BAD ? ERR_UNREACHABLE : code_of(db, state);
	const ExecStatusType status = pg.PQresultStatus(r);
	/* Nobody asked for a copy of anything; libpq would say the same for ever. */
	const bool strange = status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
	char text[sizeof(err->msg)];

	if (strange)
		code = ERR_CORRUPT;
	if (!said)
		said = "the database gave no reason";
	if (code == ERR_AUDIT)
		err_set(err, code, where, "the database has no room: %s",
			text_printable(said, strlen(said), text, sizeof(text)));
	else if (code == ERR_TIMEOUT)
		err_set(err, code, where, "the query took too long");
	else
		err_set(err, code, where, "%s", text_printable(said, strlen(said), text, sizeof(text)));
	if (code == ERR_DENIED)
		err_hint(err, "connect as the role toolcrib, and let the owner give back what it may do, if it lacks that");
	if (db->in_txn && (!state || strcmp(state, "25P02") != 0))      /* that one repeats what was said before */
		db->txn_rc = code;
	pg.PQclear(r);
	if (strange || pg.PQstatus(db->pg->c) == CONNECTION_BAD)
		pg_lost(db);
	return code;
}

/* What libpq says of a connection, in one line. */
static int conn_fail(PGconn *c, const char *what, struct err *err)
{
	const char *said = pg.PQerrorMessage(c);
	size_t len = strcspn(said, "\n");
	char text[sizeof(err->msg)];

	return err_set(err, ERR_UNREACHABLE, "database", "%s: %s", what,
		       len ? text_printable(said, len, text, sizeof(text)) : "it was closed");
}

int pg_unsent(struct db *db, const char *where, struct err *err)
{
	int rc;

	if (!db->pg->c)
		return err_set(err, ERR_UNREACHABLE, "database", "the connection is lost");
	rc = conn_fail(db->pg->c, where, err);
	if (db->in_txn)
		db->txn_rc = rc;
	pg_lost(db);
	return rc;
}

void pg_lost(struct db *db)
{
	struct pg_conn *conn = db->pg;

	if (conn->active)                       /* what it has not read yet is not its end */
		conn->active->pg->failed = ERR_UNREACHABLE;
	if (conn->c) {
		pg.PQfreeCancel(conn->cancel);
		pg.PQfinish(conn->c);
	}
	conn->cancel = NULL;
	conn->c = NULL;
	conn->active = NULL;
	conn->items = 0;
	conn->steps = false;
	memset(conn->prepared, 0, sizeof(conn->prepared));
}

/* --- waiting */

static int ms_left(uint64_t until_us)
{
	uint64_t now = clock_mono_us(), ms = until_us > now ? (until_us - now) / 1000 + 1 : 0;

	if (!until_us)
		return -1;
	return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

/* Until the socket is ready.  Who is waited for too long is left: a server stops a query whose client has gone
 * (client_connection_check_interval), and to tell it so would be another wait, for which libpq knows no end. */
static int wait_ready(struct db *db, short events, struct err *err)
{
	struct pollfd fd = { pg.PQsocket(db->pg->c), events, 0 };
	int n = poll(&fd, 1, ms_left(db->deadline_us));

	if (n > 0 || (n < 0 && errno == EINTR))
		return 0;
	if (db->in_txn)
		db->txn_rc = ERR_TIMEOUT;
	pg_lost(db);
	return err_set(err, ERR_TIMEOUT, "database", "the query took too long");
}

int pg_next(struct db *db, PGresult **ret, struct err *err)
{
	PGconn *c = db->pg->c;

	for (;;) {
		int more = pg.PQflush(c), rc;

		if (more < 0 || !pg.PQconsumeInput(c))
			break;          /* what the server said before it left is still to be read */
		if (!more && !pg.PQisBusy(c))
			break;
		rc = wait_ready(db, (short)(POLLIN | (more ? POLLOUT : 0)), err);
		if (rc < 0)
			return rc;
	}
	*ret = pg.PQgetResult(c);
	if (!*ret && pg.PQstatus(c) == CONNECTION_BAD)
		return pg_unsent(db, "connection", err);
	return 0;
}

int pg_exec(struct db *db, const char *sql, PGresult **ret, struct err *err)
{
	PGresult *last = NULL, *r = NULL;
	int rc = 0, failed = 0;

	if (!db->pg->c || !pg.PQsendQuery(db->pg->c, sql))
		return pg_unsent(db, "statement", err);
	while ((rc = pg_next(db, &r, err)) == 0 && r) {
		ExecStatusType status = pg.PQresultStatus(r);

		if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
			failed = pg_fail(db, r, "database", failed < 0 ? NULL : err);
			if (!db->pg->c)
				break;
			continue;
		}
		pg.PQclear(last);
		last = r;
	}
	if (rc == 0)
		rc = failed;
	if (rc == 0 && ret)
		*ret = last;
	else
		pg.PQclear(last);
	return rc;
}
