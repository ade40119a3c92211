/* Statements of PostgreSQL: prepared by their names, with parameters and rows in binary.  Called by db.c through struct
 * db_engine.  Rows come one by one, as the server makes them, until another statement needs the connection: then the
 * rest is kept, in bounds.  A statement that writes is a step of its own, so that what fails leaves the transaction as
 * it was, as in SQLite.  What comes back is checked by type and size: a server may be hostile (CLUSTER K-F17). */
#include "config.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "db/db.h"

#include "pg_int.h"

/* Types by the numbers that they have in every server. */
enum { OID_BOOL = 16, OID_BYTEA = 17, OID_NAME = 19, OID_INT8 = 20, OID_INT2 = 21, OID_INT4 = 23, OID_TEXT = 25,
	OID_FLOAT4 = 700, OID_FLOAT8 = 701, OID_VARCHAR = 1043, OID_VOID = 2278 };

enum { PARAMS_MAX = 64 };               /* of one statement */

/* --- parameters */

struct params {
	int n;
	Oid oid[PARAMS_MAX];
	const char *value[PARAMS_MAX];
	int length[PARAMS_MAX], format[PARAMS_MAX];
	uint64_t number[PARAMS_MAX];    /* as it is sent */
};

static Oid oid_of(char letter)
{
	return letter == 't' ? OID_TEXT : letter == 'b' ? OID_BYTEA : letter == 'f' ? OID_FLOAT8 : OID_INT8;
}

static int put_param(struct db_stmt *st, struct params *p, unsigned i, struct err *err)
{
	const struct db_value *v = &st->bind[i];

	p->oid[i] = oid_of(st->types[i]);
	p->format[i] = 1;
	p->value[i] = NULL;
	p->length[i] = 0;
	switch (v->type) {
	case DB_NULL:
		return 0;
	case DB_INT:
	case DB_FLOAT:
		memcpy(&p->number[i], v->type == DB_INT ? (const void *)&v->n : (const void *)&v->d,
		       sizeof(p->number[i]));
		p->number[i] = htobe64(p->number[i]);
		p->value[i] = (const char *)&p->number[i];
		p->length[i] = (int)sizeof(p->number[i]);
		return 0;
	case DB_TEXT:
	case DB_BLOB:
		break;
	}
	if (v->len > PG_VALUE_MAX)
		return err_set(err, ERR_LIMIT, st->name, "?%u is too long", i + 1);
	if (v->type == DB_TEXT && memchr(v->p, 0, v->len))
		return err_set(err, ERR_INVALID, st->name, "?%u is a text with a NUL in it", i + 1);
	p->value[i] = v->p;
	p->length[i] = (int)v->len;
	return 0;
}

static int put_params(struct db_stmt *st, struct params *p, struct err *err)
{
	int rc = st->params > PARAMS_MAX ? err_set(err, ERR_INTERNAL, st->name, "has too many parameters") : 0;

	p->n = (int)st->params;
	for (unsigned i = 0; rc == 0 && i < st->params; i++)
		rc = put_param(st, p, i, err);
	return rc;
}

/* --- results */

static void keep(struct db_stmt *st, PGresult *r)
{
	struct pg_stmt *p = st->pg;

	if (p->next > 0 && p->next == p->nkept)
		p->next = p->nkept = 0;
	if ((p->nkept & (p->nkept + 1)) == 0)           /* full at 0, 1, 3, 7, ... */
		p->kept = mem_realloc(p->kept, (2 * (size_t)p->nkept + 1) * sizeof(p->kept[0]));
	p->kept[p->nkept++] = r;
	p->bytes += pg.PQresultMemorySize(r);
}

static bool fits(const PGresult *r, int row, int col)
{
	const int len = pg.PQgetlength(r, row, col);

	if (pg.PQgetisnull(r, row, col))
		return true;
	switch (pg.PQftype(r, col)) {
	case OID_INT8:
	case OID_FLOAT8:
		return len == 8;
	case OID_INT4:
	case OID_FLOAT4:
		return len == 4;
	case OID_INT2:
		return len == 2;
	case OID_BOOL:
		return len == 1;
	case OID_TEXT:
	case OID_VARCHAR:
	case OID_NAME:
	case OID_BYTEA:
		return len >= 0 && len <= PG_VALUE_MAX;
	case OID_VOID:
		return len == 0;
	default:
		return false;
	}
}

/* A row that is no row ends the connection: what follows it cannot be believed either. */
static int check_row(struct db_stmt *st, struct err *err)
{
	const struct pg_stmt *p = st->pg;
	const int n = pg.PQnfields(p->now);
	unsigned type;

	for (int i = 0; i < n; i++)
		if (!fits(p->now, p->row, i)) {
			type = pg.PQftype(p->now, i);
			if (st->db->in_txn)
				st->db->txn_rc = ERR_CORRUPT;
			pg_lost(st->db);
			return err_set(err, ERR_CORRUPT, st->name, "column %d is of type %u and cannot be read", i,
				       type);
		}
	return 0;
}

static bool writes(const struct db_stmt *st)
{
	static const char *const words[] = { "INSERT ", "UPDATE ", "DELETE " };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strncmp(st->text, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

/* The next result of a statement that is being read: one row, or its end (*ret NULL). */
static int fetch(struct db_stmt *st, PGresult **ret, struct err *err)
{
	struct db *db = st->db;
	PGresult *r = NULL;
	int rc, failed = 0;

	*ret = NULL;
	while ((rc = pg_next(db, &r, err)) == 0 && r) {
		ExecStatusType status = pg.PQresultStatus(r);

		if (status == PGRES_SINGLE_TUPLE) {
			*ret = r;
			return 0;
		}
		if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
			if (writes(st))
				db->pg->changes = strtoll(pg.PQcmdTuples(r), NULL, 10);
			pg.PQclear(r);
			continue;
		}
		failed = pg_fail(db, r, st->name, err);
		if (!db->pg->c)
			break;
	}
	db->pg->active = NULL;
	return rc < 0 ? rc : failed;
}

int pg_settle(struct db *db, struct err *err)
{
	struct db_stmt *st = db->pg->active;
	PGresult *r = NULL;
	int rc = 0;

	while (db->pg->active && rc == 0) {
		if (st->pg->bytes > PG_RESULT_MAX)
			return err_set(err, ERR_LIMIT, st->name,
				       "its rows need too much memory while another statement runs");
		rc = fetch(st, &r, err);
		if (rc == 0 && r)
			keep(st, r);
	}
	if (rc < 0 && db->pg->c) {              /* what it failed with is for who reads it */
		st->pg->failed = rc;
		rc = 0;
	}
	return rc;
}

/* --- a start */

static int must_be(struct db_stmt *st, PGresult *r, struct err *err)
{
	ExecStatusType status = pg.PQresultStatus(r);

	if (status != PGRES_COMMAND_OK)
		return pg_fail(st->db, r, st->name, err);
	pg.PQclear(r);
	return 0;
}

static int prepare_as(struct db_stmt *st, const char *name, const char *text, const struct params *p,
		      struct err *err)
{
	PGresult *r = NULL;
	int rc, failed = 0;

	if (!pg.PQsendPrepare(st->db->pg->c, name, text, p ? p->n : 0, p ? p->oid : NULL))
		return pg_unsent(st->db, st->name, err);
	while ((rc = pg_next(st->db, &r, err)) == 0 && r) {
		failed = must_be(st, r, err);
		if (!st->db->pg->c)
			return failed;
	}
	return rc < 0 ? rc : failed;
}

static int prepare(struct db_stmt *st, const struct params *p, struct err *err)
{
	struct pg_conn *conn = st->db->pg;
	const bool named = st->id < SQL__COUNT;
	int rc = 0;

	if (named && conn->prepared[st->id])
		return 0;
	if (!st->text)
		return err_set(err, ERR_INTERNAL, st->name, "has no text for PostgreSQL");
	rc = prepare_as(st, named ? st->name : "", st->text, p, err);
	if (rc == 0 && named)
		conn->prepared[st->id] = true;
	return rc;
}

/* Savepoint, statement, release: one way there and back. */
static bool send_guarded(PGconn *c, const char *name, const struct params *p)
{
	return pg.PQenterPipelineMode(c) &&
		pg.PQsendQueryPrepared(c, "step_begin", 0, NULL, NULL, NULL, 1) &&
		pg.PQsendQueryPrepared(c, name, p->n, p->value, p->length, p->format, 1) &&
		pg.PQsendQueryPrepared(c, "step_end", 0, NULL, NULL, NULL, 1) &&
		pg.PQpipelineSync(c);
}

/* Results of the three, with an end behind each, and then the pipeline's own. */
static int take_guarded(struct db_stmt *st, struct err *err)
{
	struct pg_conn *conn = st->db->pg;
	int rc = 0, ends = 0;

	for (;;) {
		PGresult *r = NULL;
		int failed = pg_next(st->db, &r, err);
		ExecStatusType status;

		if (failed < 0)
			return failed;
		if (!r && ++ends > 3)
			return pg_unsent(st->db, st->name, err);
		if (!r)
			continue;
		status = pg.PQresultStatus(r);
		if (status == PGRES_PIPELINE_SYNC) {
			pg.PQclear(r);
			break;
		}
		if (status == PGRES_TUPLES_OK && rc == 0) {
			conn->changes = strtoll(pg.PQcmdTuples(r), NULL, 10);
			keep(st, r);
		} else if (status == PGRES_COMMAND_OK || status == PGRES_PIPELINE_ABORTED) {
			if (ends == 1 && status == PGRES_COMMAND_OK)
				conn->changes = strtoll(pg.PQcmdTuples(r), NULL, 10);
			pg.PQclear(r);
		} else {
			rc = pg_fail(st->db, r, st->name, rc < 0 ? NULL : err);
			if (!conn->c)
				return rc;
		}
	}
	(void)pg.PQexitPipelineMode(conn->c);
	return rc;
}

static int run_guarded(struct db_stmt *st, const struct params *p, struct err *err)
{
	struct db *db = st->db;
	const int before = db->txn_rc;
	int rc = 0;

	if (!db->pg->steps)
		rc = prepare_as(st, "step_begin", "SAVEPOINT step", NULL, err);
	if (rc == 0 && !db->pg->steps)
		rc = prepare_as(st, "step_end", "RELEASE step", NULL, err);
	if (rc < 0)
		return rc;
	db->pg->steps = true;
	if (!send_guarded(db->pg->c, st->id < SQL__COUNT ? st->name : "", p))
		return pg_unsent(db, st->name, err);
	rc = take_guarded(st, err);
	if (rc < 0 && db->pg->c && pg.PQtransactionStatus(db->pg->c) == PQTRANS_INERROR &&
	    pg_exec(db, "ROLLBACK TO step; RELEASE step", NULL, NULL) == 0)
		db->txn_rc = before;
	return rc;
}

static void forget(struct db_stmt *st)
{
	struct pg_stmt *p = st->pg;

	pg.PQclear(p->now);
	p->now = NULL;
	while (p->next < p->nkept)
		pg.PQclear(p->kept[p->next++]);
	p->next = p->nkept = 0;
	p->bytes = 0;
	p->failed = 0;
}

static int pg_start(struct db_stmt *st, struct err *err)
{
	struct db *db = st->db;
	struct params p;
	int rc;

	if (!st->pg)
		st->pg = mem_zalloc(sizeof(*st->pg));
	if (st->params > 0 && !st->types)
		return err_set(err, ERR_INTERNAL, st->name, "does not say what it takes");
	rc = put_params(st, &p, err);
	if (rc == 0)
		rc = pg_alive(db, err);
	if (rc == 0)
		rc = pg_settle(db, err);
	if (rc == 0)
		rc = prepare(st, &p, err);
	if (rc < 0)
		return rc;
	if (writes(st))
		db->pg->changes = 0;            /* what fails changes none */
	if (db->in_write && writes(st))
		return run_guarded(st, &p, err);
	if (!pg.PQsendQueryPrepared(db->pg->c, st->id < SQL__COUNT ? st->name : "", p.n, p.value, p.length, p.format,
				    1) ||
	    !pg.PQsetSingleRowMode(db->pg->c))
		return pg_unsent(db, st->name, err);
	db->pg->active = st;
	return 0;
}

static int pg_step(struct db_stmt *st, struct err *err)
{
	struct pg_stmt *p = st->pg;
	int rc = 0;

	if (p->now && ++p->row < pg.PQntuples(p->now))
		return (rc = check_row(st, err)) < 0 ? rc : 1;
	pg.PQclear(p->now);
	p->now = NULL;
	p->row = 0;
	do {
		pg.PQclear(p->now);
		p->now = NULL;
		if (p->next < p->nkept) {
			p->now = p->kept[p->next++];
			p->bytes -= pg.PQresultMemorySize(p->now);
		} else if (st->db->pg->active == st) {
			rc = fetch(st, &p->now, err);
		} else if (p->failed) {
			rc = err_set(err, (enum err_code)p->failed, st->name, "its rows ended before the last one");
		}
	} while (rc == 0 && p->now && pg.PQntuples(p->now) == 0);
	if (rc < 0 || !p->now)
		return rc;
	return (rc = check_row(st, err)) < 0 ? rc : 1;
}

static void pg_reset(struct db_stmt *st)
{
	struct pg_conn *conn = st->db->pg;
	PGresult *r = NULL;

	if (!st->pg)
		return;
	while (conn->active == st && fetch(st, &r, NULL) == 0)
		pg.PQclear(r);
	forget(st);
}

static void pg_finish(struct db_stmt *st)
{
	if (!st->pg)
		return;
	pg_reset(st);
	pg.PQclear(st->pg->described);
	free(st->pg->kept);
	free(st->pg->values);
	free(st->pg);
}

/* --- columns */

/* Their names and number before there is a row. */
static const PGresult *described(struct db_stmt *st)
{
	struct params p;
	PGresult *r = NULL;

	if (!st->pg)
		st->pg = mem_zalloc(sizeof(*st->pg));
	if (st->pg->now)
		return st->pg->now;
	p.n = (int)st->params;
	for (int i = 0; i < p.n && p.n <= PARAMS_MAX; i++)
		p.oid[i] = oid_of(st->types[i]);
	if (st->pg->described || p.n > PARAMS_MAX || pg_alive(st->db, NULL) < 0 || pg_settle(st->db, NULL) < 0 ||
	    prepare(st, &p, NULL) < 0 || !pg.PQsendDescribePrepared(st->db->pg->c, st->id < SQL__COUNT ? st->name : ""))
		return st->pg->described;
	while (st->db->pg->c && pg_next(st->db, &r, NULL) == 0 && r) {
		if (pg.PQresultStatus(r) != PGRES_COMMAND_OK) {
			(void)pg_fail(st->db, r, st->name, NULL);
			continue;
		}
		pg.PQclear(st->pg->described);
		st->pg->described = r;
	}
	return st->pg->described;
}

static unsigned pg_columns(struct db_stmt *st)
{
	const PGresult *r = described(st);

	return r ? (unsigned)pg.PQnfields(r) : 0;
}

static const char *pg_column_name(struct db_stmt *st, unsigned col)
{
	const PGresult *r = described(st);
	const char *name = r ? pg.PQfname(r, (int)col) : NULL;

	return name ? name : "";
}

static enum db_type pg_type(const struct db_stmt *st, unsigned col)
{
	const struct pg_stmt *p = st->pg;

	if (pg.PQgetisnull(p->now, p->row, (int)col))
		return DB_NULL;
	switch (pg.PQftype(p->now, (int)col)) {
	case OID_INT8:
	case OID_INT4:
	case OID_INT2:
	case OID_BOOL:
		return DB_INT;
	case OID_FLOAT8:
	case OID_FLOAT4:
		return DB_FLOAT;
	case OID_BYTEA:
		return DB_BLOB;
	case OID_VOID:
		return DB_NULL;
	default:
		return DB_TEXT;
	}
}

/* Its length was checked when the row came. */
static uint64_t big_endian(const char *p, int len)
{
	uint64_t v = 0;

	for (int i = 0; i < len; i++)
		v = v << 8 | (uint8_t)p[i];
	return v;
}

static double real_of(const char *p, int len)
{
	const uint64_t bits = big_endian(p, len);
	const uint32_t half = (uint32_t)bits;
	double d;
	float f;

	if (len == 4) {
		memcpy(&f, &half, sizeof(f));
		return (double)f;
	}
	memcpy(&d, &bits, sizeof(d));
	return d;
}

static int64_t pg_i64(const struct db_stmt *st, unsigned col)
{
	const struct pg_stmt *p = st->pg;
	const char *v = pg.PQgetvalue(p->now, p->row, (int)col);
	const int len = pg.PQgetlength(p->now, p->row, (int)col);

	switch (pg_type(st, col)) {
	case DB_INT:
		return len == 8 ? (int64_t)big_endian(v, len) : len == 4 ? (int32_t)big_endian(v, len)
			: len == 2 ? (int16_t)big_endian(v, len) : (int64_t)big_endian(v, len);
	case DB_FLOAT:
		return (int64_t)real_of(v, len);
	case DB_TEXT:
		return strtoll(v, NULL, 10);
	case DB_NULL:
	case DB_BLOB:
		break;
	}
	return 0;
}

static double pg_f64(const struct db_stmt *st, unsigned col)
{
	const struct pg_stmt *p = st->pg;

	if (pg_type(st, col) != DB_FLOAT)
		return (double)pg_i64(st, col);
	return real_of(pg.PQgetvalue(p->now, p->row, (int)col), pg.PQgetlength(p->now, p->row, (int)col));
}

static const void *pg_blob(const struct db_stmt *st, unsigned col, size_t *ret_len)
{
	struct pg_stmt *p = st->pg;
	const enum db_type type = pg_type(st, col);
	const char *v = pg.PQgetvalue(p->now, p->row, (int)col);
	size_t len = (size_t)pg.PQgetlength(p->now, p->row, (int)col);

	if (type == DB_INT || type == DB_FLOAT) {
		len = (size_t)(type == DB_INT ? snprintf(p->number, sizeof(p->number), "%" PRId64, pg_i64(st, col))
			       : snprintf(p->number, sizeof(p->number), "%.15g", pg_f64(st, col)));
		v = p->number;
	} else if (type == DB_NULL) {
		len = 0;
		v = "";
	}
	if (ret_len)
		*ret_len = len;
	return v;
}

static const char *pg_text(const struct db_stmt *st, unsigned col, size_t *ret_len)
{
	return pg_blob(st, col, ret_len);
}

static const struct db_value *pg_row(struct db_stmt *st, unsigned n)
{
	struct pg_stmt *p = st->pg;

	unsigned behind;                        /* other columns, which sqlgen.awk has put before them */

	if (!p || !p->now || (unsigned)pg.PQnfields(p->now) < n)
		return NULL;
	behind = (unsigned)pg.PQnfields(p->now) - n;
	if (!p->values)
		p->values = mem_calloc(n, sizeof(p->values[0]));
	for (unsigned i = 0; i < n; i++) {
		struct db_value *v = &p->values[i];

		*v = (struct db_value){ .type = pg_type(st, behind + i), .p = "" };
		if (v->type == DB_INT)
			v->n = pg_i64(st, behind + i);
		else if (v->type == DB_FLOAT)
			v->d = pg_f64(st, behind + i);
		else if (v->type != DB_NULL)
			v->p = pg_blob(st, behind + i, &v->len);
	}
	return p->values;
}

void pg_stmt_calls(struct db_engine *e)
{
	e->start = pg_start;
	e->step = pg_step;
	e->reset = pg_reset;
	e->finish = pg_finish;
	e->columns = pg_columns;
	e->column_name = pg_column_name;
	e->type = pg_type;
	e->i64 = pg_i64;
	e->f64 = pg_f64;
	e->text = pg_text;
	e->blob = pg_blob;
	e->row = pg_row;
}
