/* A database of PostgreSQL as it must be, and as it may fail: what is refused at the start, rights, connections that are
 * lost, answers that mean nothing.  Skipped where its programs are not installed. */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"

#include "engines.h"
#include "suite.h"

#ifdef HAVE_PGSQL
#include "src/db/pg_int.h"
#endif

static void as_superuser(const char *database, const char *text)
{
	if (!pgrig_sql(&rig, database, text))
		fail_msg("%s: %s", text, rig.line);
}

static void in_test_database(const char *text)
{
	char name[16];

	snprintf(name, sizeof name, "t%u", databases);
	as_superuser(name, text);
}

/* --- the start */

static int open_as(const char *rest, enum db_mode mode, bool owner, bool standby, struct err *err)
{
	char url[512];
	struct db_server at = { .url = url, .owner = owner, .require_standby = standby };
	struct db *db = NULL;
	int rc;

	snprintf(url, sizeof url, "postgresql:host=%s %s", rig.host, rest);
	rc = db_open_server(&at, mode, &db, err);
	db_close(&db);
	return rc;
}

static void a_database_that_is_not_as_it_must_be_is_refused(void **state)
{
	static const struct {
		const char *made, *url;
		enum db_mode mode;
		bool owner, standby;
		const char *says, *cure;
	} rows[] = {
		{ "CREATE DATABASE b1 TEMPLATE template0 ENCODING 'SQL_ASCII'", "dbname=b1 user=toolcrib", DB_READER, false, false,
		  "its encoding is SQL_ASCII, not UTF8", "CREATE DATABASE" },
		{ "CREATE DATABASE b2 TEMPLATE template0 LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8'", "dbname=b2 user=toolcrib", DB_WRITER, false, false,
		  "its collation is C.UTF-8, not C: lists would sort differently than their cursors expect", "LC_COLLATE 'C'" },
		{ "CREATE DATABASE b3", "dbname=b3 user=toolcrib", DB_WRITER, false, true,
		  "synchronous_standby_names is empty; commits would be lost with this machine", "database.require_standby: false" },
		{ "ALTER DATABASE b3 SET default_transaction_read_only = on", "dbname=b3 user=toolcrib", DB_WRITER, false, false,
		  "it is a standby, or may only be read", "target_session_attrs=read-write" },
		{ NULL, "dbname=model user=postgres", DB_WRITER, false, false, "its user is a superuser, who may change any record", "the role toolcrib" },
		{ NULL, "dbname=model user=crib_owner", DB_WRITER, false, false, "its user may update records", "which owns no table" },
	};
	struct err err = { 0 };

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (rows[i].made)
			as_superuser("postgres", rows[i].made);
		assert_int_equal(open_as(rows[i].url, rows[i].mode, rows[i].owner, rows[i].standby, &err), ERR_UNREACHABLE);
		assert_string_equal(err.msg, rows[i].says);
		assert_non_null(strstr(err.hint, rows[i].cure));
	}
	assert_int_equal(open_as("dbname=b3 user=toolcrib", DB_READER, false, true, &err), 0);
	assert_int_equal(open_as("dbname=model user=toolcrib", DB_WRITER, false, false, &err), 0);
	assert_int_equal(open_as("dbname=model user=crib_owner", DB_WRITER, true, false, &err), 0);
}

static void set_system(const char *what)
{
	char sql[200];
	int i = 0;

	snprintf(sql, sizeof sql, "ALTER SYSTEM SET %s", what);
	as_superuser("postgres", sql);
	as_superuser("postgres", "SELECT pg_reload_conf()");
	snprintf(sql, sizeof sql, "SELECT 1 / (SELECT count(*) FROM pg_settings WHERE name || ' = ' || setting = '%s')", what);
	while (!pgrig_sql(&rig, "postgres", sql))
		assert_true(i++ < 1000);
}

static void a_server_that_may_lose_commits_is_refused(void **state)
{
	struct err err = { 0 };

	set_system("fsync = off");
	assert_int_equal(open_as("dbname=model user=toolcrib", DB_WRITER, false, false, &err), ERR_UNREACHABLE);
	assert_string_equal(err.msg, "fsync is off: what was committed would be lost with its machine");
	set_system("fsync = on");
	set_system("full_page_writes = off");
	assert_int_equal(open_as("dbname=model user=toolcrib", DB_WRITER, false, false, &err), ERR_UNREACHABLE);
	assert_non_null(strstr(err.msg, "full_page_writes is off"));
	set_system("full_page_writes = on");
	assert_int_equal(open_as("dbname=model user=toolcrib", DB_WRITER, false, false, &err), 0);
}

static void an_address_that_is_none_is_refused_without_its_words(void **state)
{
	static const char *const rows[] = { "", "postgres:dbname=x", "/var/lib/toolcrib", "postgresql:nonsense swordfish",
		"postgresql:dbname=x colour=swordfish", "postgresql:dbname=x password=swordfish", "postgresql://u:swordfish@h/x" };
	struct db *db = NULL;
	struct err err = { 0 };

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct db_server at = { .url = rows[i] };

		assert_int_equal(db_open_server(&at, DB_READER, &db, &err), ERR_INVALID);
		assert_string_equal(err.where, "database.url");
		assert_null(strstr(err.msg, "swordfish"));
		assert_null(strstr(err.hint, "swordfish"));
	}
	assert_int_equal(open_as("dbname=nowhere user=toolcrib", DB_READER, false, false, &err), ERR_UNREACHABLE);
	assert_non_null(strstr(err.msg, "database \"nowhere\" does not exist"));
	assert_int_equal(open_as("port=1 dbname=model user=toolcrib", DB_READER, false, false, &err), ERR_UNREACHABLE);
	assert_non_null(strstr(err.msg, "cannot connect: "));
	{
		char url[512];
		struct db_server at = { .url = url };

		snprintf(url, sizeof url, "postgresql://toolcrib@/model?host=%s", rig.host);
		assert_int_equal(db_open_server(&at, DB_READER, &db, &err), 0);
		db_close(&db);
	}
}

/* --- the schema and its rights */

static void steps_are_the_owners_and_forward_alone(void **state)
{
	struct fix *f = *state;
	struct db *owner = server(f, "crib_owner", DB_WRITER);
	int version;

	in_test_database("DROP TABLE toolcrib.t");
	if (db_check_version(f->db, &version, &f->err) < 0)
		fail_msg("%s; after a step: tests/pg/catalogue.py --write", f->err.msg);
	assert_int_equal(version, db_schema_version());
	assert_int_equal(db_migrate(f->db, &f->err), 0);                /* nothing is due */
	assert_int_equal(db_migrate(owner, &f->err), 0);
	in_test_database("UPDATE toolcrib.meta SET value = '9000' WHERE key = 'schema'");
	assert_int_equal(db_migrate(owner, &f->err), ERR_CONFLICT);
	assert_non_null(strstr(f->err.msg, "made by a newer toolcrib: schema 9000, this one knows "));
	assert_int_equal(db_check_version(f->db, &version, &f->err), ERR_CONFLICT);
	in_test_database("DROP SCHEMA toolcrib CASCADE");
	assert_int_equal(db_migrate(f->db, &f->err), ERR_DENIED);
	assert_string_equal(f->err.msg, "its schema is 0, not 46, and its owner alone makes tables");
	assert_int_equal(db_check_version(f->db, &version, &f->err), ERR_INVALID);
	in_test_database("CREATE SCHEMA toolcrib AUTHORIZATION crib_owner CREATE TABLE rec(i int8)");    /* what is in the way stays, and nothing is half made */
	assert_int_equal(db_migrate(owner, &f->err), ERR_CONFLICT);
	assert_int_equal(db_check_version(owner, &version, &f->err), ERR_INVALID);
	db_close(&owner);
}

/* CLUSTER K-704: whoever changed something by hand is told what. */
static void what_was_changed_by_hand_is_named(void **state)
{
	static const struct { const char *done, *says; } rows[] = {
		{ "ALTER TABLE tool ALTER state DROP NOT NULL", "column tool.state is bigint, and was made as bigint not null" },
		{ "ALTER TABLE dict ALTER kind TYPE int4", "column dict.kind is integer not null, and was made as bigint not null" },
		{ "ALTER TABLE anchor DROP COLUMN ts", "column anchor.ts is missing, which was made as bigint not null" },
		{ "ALTER TABLE rec ADD COLUMN x int8", "column rec.x is nobody's: bigint" },
		{ "CREATE TABLE x()", "table x is nobody's: plain" },
		{ "DROP INDEX rec_prn", "index rec_prn is missing, which was made as CREATE INDEX rec_prn ON ONLY" },
		{ "ALTER TABLE rec DISABLE TRIGGER rec_frozen", "trigger rec.rec_frozen is CREATE TRIGGER" },
		{ "CREATE TRIGGER x AFTER INSERT ON rec FOR EACH ROW EXECUTE FUNCTION frozen()", "trigger rec.x is nobody's" },
		{ "CREATE OR REPLACE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql SET search_path = toolcrib, pg_temp AS 'BEGIN RETURN OLD; END'",
		  "function kept() is trigger" },
		{ "CREATE OR REPLACE VIEW v_reads AS SELECT time, tenant, kind, actor, transport, detail, log, idx, log_id, ts, kind_code FROM v_records "
		  "WHERE kind_code = 1", "view v_reads is" },
		{ "GRANT UPDATE ON rec TO toolcrib", "right rec toolcrib is DELETE INSERT SELECT UPDATE, and was made as DELETE INSERT SELECT" },
		{ "GRANT SELECT ON rec TO toolcrib_views", "right rec toolcrib_views is nobody's: SELECT" },
		{ "GRANT SELECT(hash) ON cred TO toolcrib_audit", "right cred.hash toolcrib_audit is nobody's: SELECT" },
		{ "ALTER TABLE tenant ENABLE ROW LEVEL SECURITY", "table tenant is plain, by policies" },
		{ "CREATE RULE x AS ON INSERT TO anchor DO INSTEAD NOTHING", "rule anchor.x is nobody's" },
		{ "ALTER TABLE rec DETACH PARTITION rec_else", "column rec_else.actor is nobody's: smallint" },
		{ "ALTER TABLE tenant DROP CONSTRAINT tenant_audit_level_check", "constraint tenant.tenant_audit_level_check is missing" },
	};
	struct fix *f = *state;
	struct db *owner;
	char text[500];
	int version;

	in_test_database("DROP TABLE toolcrib.t");
	owner = server(f, "crib_owner", DB_WRITER);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		assert_int_equal(db_txn_begin(owner, true, &f->err), 0);
		snprintf(text, sizeof text, "%s", rows[i].done);
		if (run(f, owner, text) < 0)
			fail_msg("%s: %s", text, f->err.msg);
		assert_int_equal(db_check_version(owner, &version, &f->err), ERR_CORRUPT);
		if (strncmp(f->err.msg, rows[i].says, strlen(rows[i].says)) != 0)
			fail_msg("%s: %s", text, f->err.msg);
		assert_non_null(strstr(f->err.hint, "undoes"));
		assert_int_equal(db_txn_end(owner, ERR_CANCELLED, NULL), ERR_CANCELLED);
	}
	assert_int_equal(db_check_version(owner, &version, &f->err), 0);
	db_close(&owner);
}

/* A step of SQLite wants its twin: whatever is in one schema is in the other, but for what is named here. */
static bool is_one_engines(const char *table, const char *column)
{
	static const char *const tables[] = { "blk", "blkpay", "book", "chap", "seg", "seg_gone", "open_call", "span", "rec_at",
		"rec_tail", "rollup", "node",
		"registry", "t" };
	static const char *const columns[] = { "rec.id", "rec_text.id", "pay.rec", "pay.log", "pay.idx", "pay.ts",
		"rec.leaf" };                   /* of a row whose block has it, NULL in SQLite */
	char name[80];

	for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
		if (strcmp(table, tables[i]) == 0)
			return true;
	snprintf(name, sizeof name, "%s.%s", table, column);
	for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
		if (strcmp(name, columns[i]) == 0)
			return true;
	return false;
}

/* Of each engine "table.column: what", sorted. */
static char *columns_of(struct fix *f, const char *sql)
{
	struct db_stmt *st = say(f, f->db, sql, "");
	struct str out = STR_INIT;

	while (db_step(st, &f->err) == 1)
		if (!is_one_engines(db_col_text(st, 0, NULL), db_col_text(st, 1, NULL)))
			str_printf(&out, "%s.%s %s\n", db_col_text(st, 0, NULL), db_col_text(st, 1, NULL), db_col_text(st, 2, NULL));
	put(&st);
	return out.p;
}

static void each_step_has_its_twin(void **state)
{
	struct fix *server_fix = *state, *lite;
	char *a, *b, *x, *y;
	void *made;

	(void)set_up_lite(&made);
	lite = made;
	/* type: a letter each; a primary key of one column is never NULL there, and never is here, said or not. */
	a = columns_of(lite, "SELECT m.name, c.name, CASE WHEN m.type = 'view' THEN '' ELSE lower(substr(c.type, 1, 1)) || CASE WHEN c.\"notnull\" OR c.pk THEN '!' "
		       "ELSE '' END END FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%' "
		       "ORDER BY 1, 2");
	b = columns_of(server_fix, "SELECT r.relname, a.attname, CASE WHEN r.relkind = 'v' THEN '' ELSE CASE format_type(a.atttypid, -1) WHEN 'text' THEN 't' "
		       "WHEN 'bytea' THEN 'b' WHEN 'double precision' THEN 'r' ELSE 'i' END || CASE WHEN a.attnotnull THEN '!' ELSE '' END END "
		       "FROM pg_class r JOIN pg_attribute a ON a.attrelid = r.oid WHERE r.relnamespace = 'toolcrib'::regnamespace AND r.relkind IN ('r', 'p', 'v') "
		       "AND NOT r.relispartition AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2");
	for (x = a, y = b; *x && *x == *y; x++, y++)
		;
	if (*x != *y) {
		while (x > a && x[-1] != '\n' && y > b && y[-1] != '\n')
			x--, y--;
		fail_msg("SQLite has %.60s, and PostgreSQL %.60s: a step lacks its twin", x, y);
	}
	assert_true(strlen(a) > 5000);
	free(a);
	free(b);
	(void)tear_down(&made);
}

static void roles_do_what_they_need_and_no_more(void **state)
{
	static const struct { const char *role, *text; bool may; } rows[] = {
		{ "toolcrib", "INSERT INTO log(id, origin, state) VALUES (9, 'o', 1)", true },
		{ "toolcrib", "INSERT INTO rec(log, idx, ts, enc, kind, leaf) VALUES (9, 0, 5, 1, 1001, '')", true },
		{ "toolcrib", "INSERT INTO pay(log, idx, ts, salt) VALUES (9, 0, 5, '')", true },
		{ "toolcrib", "UPDATE rec SET ts = 6", false },
		{ "toolcrib", "UPDATE rec_else SET ts = 6", false },
		{ "toolcrib", "UPDATE pay SET salt = 'x'", false },
		{ "toolcrib", "TRUNCATE rec", false },
		{ "toolcrib", "UPDATE cp SET note = ''", false },
		{ "toolcrib", "DELETE FROM anchor", false },
		{ "toolcrib", "DELETE FROM tenant", false },
		{ "toolcrib", "ALTER TABLE rec DISABLE TRIGGER rec_frozen", false },
		{ "toolcrib", "DROP TABLE rec", false },
		{ "toolcrib", "CREATE TABLE toolcrib.x(i int8)", false },
		{ "toolcrib", "SELECT make_month((extract(epoch FROM clock_timestamp()) * 1000000)::int8)", true },
		{ "toolcrib", "SELECT make_month((extract(epoch FROM clock_timestamp() + interval '1 year') * 1000000)::int8)", false },
		{ "toolcrib", "DELETE FROM rec", false },               /* no cut is above of it */
		{ "toolcrib", "UPDATE rec SET leaf = '' WHERE idx = 0", false },
		{ "toolcrib", "INSERT INTO rec(log, idx, ts, enc, kind, leaf) VALUES (9, 0, 5, 1, 1001, 'x') ON CONFLICT (log, idx, ts) DO UPDATE SET leaf = 'x'", false },
		{ "toolcrib", "MERGE INTO rec USING (SELECT 9 AS log) s ON rec.log = s.log WHEN MATCHED THEN UPDATE SET leaf = 'x'", false },
		{ "toolcrib", "WITH gone AS (DELETE FROM rec RETURNING 1) SELECT count(*) FROM gone", false },
		{ "toolcrib", "COPY rec FROM PROGRAM 'true'", false },
		{ "toolcrib", "ALTER TABLE rec DROP CONSTRAINT rec_pkey", false },
		{ "toolcrib", "ALTER TABLE rec DETACH PARTITION rec_else", false },
		{ "toolcrib", "DROP TABLE rec_else", false },
		{ "toolcrib", "DELETE FROM rec_else", false },
		{ "toolcrib", "TRUNCATE rec_else", false },
		{ "toolcrib", "DROP TRIGGER rec_kept ON rec", false },
		{ "toolcrib", "CREATE OR REPLACE FUNCTION toolcrib.kept() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'", false },
		{ "toolcrib", "SET session_replication_role = replica", false },
		{ "toolcrib", "CREATE TRIGGER x BEFORE INSERT ON rec FOR EACH ROW EXECUTE FUNCTION frozen()", false },
		{ "toolcrib", "CREATE RULE x AS ON INSERT TO rec DO INSTEAD NOTHING", false },
		{ "toolcrib", "LOCK TABLE rec IN ACCESS EXCLUSIVE MODE; UPDATE rec SET ts = 7", false },
		{ "toolcrib", "DELETE FROM log WHERE id = 9", false },
		{ "toolcrib", "UPDATE anchor SET ts = 0", false },
		{ "toolcrib", "UPDATE epoch SET pk = ''", false },
		{ "toolcrib", "DELETE FROM head", false },
		{ "toolcrib", "UPDATE log SET min_idx = 1 WHERE id = 9", true },
		{ "toolcrib", "DELETE FROM rec WHERE log = 9", true },  /* as pruning does */
		{ "toolcrib_views", "SELECT count(*) FROM v_records, v_calls, v_retention", true },
		{ "toolcrib_views", "SELECT time, ms, detail, call, trace FROM v_calls", true },
		{ "toolcrib_views", "SELECT count(*) FROM rec", false },
		{ "toolcrib_views", "SELECT count(*) FROM rec_text", false },
		{ "toolcrib_views", "SELECT name FROM tenant", false },
		{ "toolcrib_views", "SELECT name FROM secret", false },
		{ "toolcrib_views", "DELETE FROM v_reads", false },
		{ "toolcrib_views", "UPDATE rec SET ts = 6", false },
		{ "toolcrib_views", "SELECT make_month(0)", false },
		{ "toolcrib_audit", "INSERT INTO rec(log, idx, ts, enc, kind, leaf) VALUES (9, 5, 5, 1, 1001, '')", false },
		{ "toolcrib_audit", "UPDATE log SET min_idx = 9", false },
		{ "toolcrib_audit", "SELECT count(*) FROM rec, pay, head, cp, tenant, alert", true },
		{ "toolcrib_audit", "SELECT name, key_id FROM secret", true },
		{ "toolcrib_audit", "SELECT value FROM secret", false },
		{ "toolcrib_audit", "SELECT hash FROM cred", false },
		{ "toolcrib_audit", "SELECT old_hash FROM cred", false },
		{ "toolcrib_audit", "DELETE FROM rec", false },
		{ "toolcrib_audit", "SELECT make_month(0)", false },
		{ "crib_owner", "INSERT INTO rec(log, idx, ts, enc, kind, leaf) VALUES (9, 1, 5, 1, 1001, '')", true },
		{ "crib_owner", "UPDATE rec SET ts = 6", false },       /* append-only, for whoever is not about to change that */
	};
	char text[400], name[16];

	snprintf(name, sizeof name, "t%u", databases);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		snprintf(text, sizeof text, "SET search_path = toolcrib; SET ROLE %s; %s", rows[i].role, rows[i].text);
		if (pgrig_sql(&rig, name, text) != rows[i].may)
			fail_msg("%s: %s: %s", rows[i].role, rows[i].text, rig.line);
	}
	in_test_database("SELECT 1 / count(*) FROM pg_inherits WHERE inhparent = 'toolcrib.rec'::regclass AND inhrelid::regclass::text ~ 'rec_2'");
}

#ifdef HAVE_PGSQL
/* What is about blocks, chapters, sealed files, copies and the objects of a file, is SQLite's own; keys are in another database. */
static bool is_of_sqlite(const char *name)
{
	static const char *const begins[] = { "fold_", "forms_", "seal_", "segment_", "drill_", "verify_", "meta_", "keys_",
		"report_meets", "report_sample_parts", "report_room_in_forms", "restore_list_logs", "audit_list_forms",
		"audit_list_leftovers", "audit_find_call_forms", "audit_list_logless", "audit_insert_recs", "payload_insert_all", "move_spans" };

	for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
		if (strncmp(name, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

/* What knows a record by the number of its row, on the way of a call; each that gets a text is struck here. */
static bool comes_later(const char *name)
{
	static const char *const names[] = { "audit_get_begin", "audit_get_open_call", "audit_last_id", "audit_list_logs", "audit_list_running",
		"audit_list_tail", "audit_next_head", "payload_insert" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* The type of a column as the engine reads it; numeric, which sums without a cast are, it does not. */
static bool is_read(Oid type)
{
	static const Oid read[] = { 16, 17, 19, 20, 21, 23, 25, 700, 701, 1043, 2278 };

	for (size_t i = 0; i < sizeof read / sizeof read[0]; i++)
		if (type == read[i])
			return true;
	return false;
}

static bool is_ready(struct db *db, enum sql_id id)
{
	struct db_stmt *st = db_stmt_get(db, id);
	unsigned n = db_col_count(st);
	bool ready = db->pg->prepared[id];

	for (unsigned i = 0; ready && i < n; i++)
		if (!is_read(pg.PQftype(st->pg->described, (int)i))) {
			printf("%s: column %u is of type %u\n", sql_pgsql[id].name, i, pg.PQftype(st->pg->described, (int)i));
			ready = false;
		}
	db_stmt_put(&st);
	return ready;
}

static void every_statement_is_prepared(void **state)
{
	struct fix *f = *state;
	unsigned missing = 0;

	for (int id = SQL__STEPS + SQL__KEYS_STEPS + SQL__SEGMENT_STEPS; id < SQL__COUNT; id++) {
		const char *name = sql_pgsql[id].name;

		if (is_of_sqlite(name) || comes_later(name) || is_ready(f->db, (enum sql_id)id))
			continue;
		printf("%s is not ready\n", name);
		missing++;
	}
	assert_int_equal(missing, 0);
}
#endif

static int key(struct db *db, enum sql_id id, int64_t at, const char *subject, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, id);

	db_bind_i64(st, 1, at);
	db_bind_i64(st, 2, 1);
	db_bind_textz(st, 3, subject);
	if (id == SQL_KEYS_INSERT_DEK)
		db_bind_i64(st, 4, 202611);
	db_bind_blob(st, id == SQL_KEYS_INSERT_DEK ? 5 : 4, "box", 3);
	db_bind_i64(st, id == SQL_KEYS_INSERT_DEK ? 6 : 5, 1);
	return db_run(&st, err);
}

/* CLUSTER K-601; tests of the store's database know that there is one beside it. */
static void keys_have_a_database_of_their_own(void **state)
{
	struct fix *f = *state;
	struct db *owner = NULL, *db = NULL;
	struct db_stmt *st;
	char sql[200];

	snprintf(sql, sizeof sql, "CREATE DATABASE t%u TEMPLATE template0 OWNER crib_owner", ++databases);
	as_superuser("postgres", sql);
	owner = server(f, "crib_owner", DB_WRITER);
	db = server(f, "toolcrib", DB_WRITER);
	assert_int_equal(db_migrate_keys(db, &f->err), ERR_DENIED);
	assert_int_equal(db_migrate_keys(owner, &f->err), 0);
	assert_int_equal(db_migrate_keys(owner, &f->err), 0);
	assert_int_equal(db_migrate_keys(db, &f->err), 0);
	assert_int_equal(db_migrate(owner, &f->err), ERR_CONFLICT);     /* and no store comes into it */
	assert_int_equal(db_migrate_keys(f->db, &f->err), ERR_DENIED);
#ifdef HAVE_PGSQL
	for (int id = 0; id < SQL__COUNT; id++)
		if (strncmp(sql_pgsql[id].name, "keys_", 5) == 0 && sql_pgsql[id].text && !is_ready(db, (enum sql_id)id))
			fail_msg("%s is not ready", sql_pgsql[id].name);
#endif
	assert_int_equal(key(db, SQL_KEYS_INSERT_KEK, 7, "k", &f->err), 0);
	assert_int_equal(key(db, SQL_KEYS_INSERT_KEK, 7, "k", &f->err), ERR_CONFLICT);
	assert_int_equal(run(f, db, "UPDATE kek SET id = 1"), 0);
	assert_int_equal(key(db, SQL_KEYS_INSERT_DEK, 1, "prn", &f->err), 0);
	assert_int_equal(key(db, SQL_KEYS_INSERT_DEK, 2, "prn", &f->err), ERR_CONFLICT);        /* one for a subject's month */
	st = db_stmt_get(db, SQL_KEYS_DESTROY_DEK);
	db_bind_i64(st, 1, 1);
	db_bind_i64(st, 2, 9);
	assert_int_equal(db_run(&st, &f->err), 0);
	assert_int_equal(key(db, SQL_KEYS_INSERT_DEK, 1, "prn", &f->err), ERR_CONFLICT);        /* nor is its id given again */
	assert_int_equal(key(db, SQL_KEYS_INSERT_DEK, 2, "prn", &f->err), 0);
	assert_int_equal(number(f, db, "SELECT count(*) FROM dek WHERE box IS NULL AND gone_us = 9"), 1);
	assert_int_equal(run(f, db, "DELETE FROM dek"), ERR_DENIED);
	db_close(&db);
	db_close(&owner);
	snprintf(sql, sizeof sql, "dbname=t%u user=toolcrib_audit", databases);
	assert_int_equal(open_as(sql, DB_READER, false, false, &f->err), ERR_DENIED);   /* who reads the audit reads no keys */
	drop_database(databases--);
}

static void words_of_sqlite_mean_the_same(void **state)
{
	static const char *const rows[] = {
		"max(3, 5) = 5 AND min(3, 5) = 3 AND max(NULL::int8, 5) IS NULL AND min(5, NULL::int8) IS NULL",
		"instr('a:b', ':') = 2 AND instr('ab', ':') = 0 AND instr('\\x616263'::bytea, '\\x63'::bytea) = 3",
		"hex('\\x0aff'::bytea) = '0AFF' AND zeroblob(3) = '\\x000000'::bytea AND length(zeroblob(0)) = 0",
		"json_extract('{\"a\":{\"b\":7}}', '$.a.b') = '7' AND json_extract('{\"a\":\"\\u0000\"}', '$.b') IS NULL",
		"strftime('%Y-%m-%dT%H:%M:%SZ', 0::int8, 'unixepoch') = '1970-01-01T00:00:00Z'",
		"strftime('%Y-%m-%dT%H:%M:%S', 1796000523::int8, 'unixepoch') || printf('.%06dZ', 42::int8) = '2026-11-30T01:02:03.000042Z'",
		"'get_x' ~@ 'get_*' AND NOT 'Get_x' ~@ 'get_*' AND 'x' !~@ 'y' AND '' ~@ '*' AND NOT 'ab' ~@ 'a' AND NOT 'aXb' ~@ 'a.b'",
		"'a\\b' ~@ 'a\\b' AND '(x)' ~@ '(*)' AND NOT 'x' ~@ '[x]' AND 'a^$|+b' ~@ 'a^$|+b' AND E'a\\nb' ~@ 'a*'",
	};
	char name[16], text[400];

	snprintf(name, sizeof name, "t%u", databases);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		snprintf(text, sizeof text, "SET search_path = toolcrib; SET TimeZone = 'Asia/Tokyo'; SELECT 1 / (%s)::int", rows[i]);
		if (!pgrig_sql(&rig, name, text))
			fail_msg("%s: %s", rows[i], rig.line);
	}
}

/* --- connections */

static void kill_connections(void)
{
	char sql[200];

	snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = 't%u'", databases);
	as_superuser("postgres", sql);
}

static void a_connection_that_is_lost_is_made_again(void **state)
{
	struct fix *f = *state;

	assert_int_equal(add(f, 1, NULL), 0);
	kill_connections();
	assert_int_equal(add(f, 2, NULL), ERR_UNREACHABLE);
	assert_int_equal(add(f, 2, NULL), 0);
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(add(f, 3, NULL), 0);
	kill_connections();
	assert_int_equal(add(f, 4, NULL), ERR_UNREACHABLE);
	assert_int_equal(add(f, 5, NULL), ERR_UNREACHABLE);             /* not another one in the middle of a transaction */
	assert_false(db_txn_alive(f->db));
	assert_int_equal(db_txn_end(f->db, 0, &f->err), ERR_UNREACHABLE);
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(add(f, 6, NULL), 0);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_int_equal(run(f, f->reader, "SELECT 1"), ERR_UNREACHABLE);
	assert_int_equal(number(f, f->reader, "SELECT count(*) * 100 + max(k) FROM t"), 306);
}

/* AUDIT A-101: an acknowledged commit is one that the server acknowledged, and nobody warned of. */
static void a_commit_without_a_clear_answer_is_uncertain(void **state)
{
	static const char *const ends[] = { "PERFORM pg_terminate_backend(pg_backend_pid())", "RAISE WARNING 'waited in vain'" };
	struct fix *f = *state;
	char sql[400];

	for (int i = 0; i < 2; i++) {
		snprintf(sql, sizeof sql, "CREATE OR REPLACE FUNCTION toolcrib.at_end() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN %s; "
			 "RETURN NULL; END $$", ends[i]);
		in_test_database(sql);
		if (i == 0)
			in_test_database("CREATE CONSTRAINT TRIGGER at_end AFTER INSERT ON toolcrib.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
					 "EXECUTE FUNCTION toolcrib.at_end()");
		assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
		assert_int_equal(add(f, i, NULL), 0);
		assert_int_equal(db_txn_end(f->db, 0, &f->err), ERR_UNCERTAIN);
		assert_non_null(strstr(f->err.msg, i ? "perhaps on no standby" : "lost while it committed"));
		assert_int_equal(number(f, f->db, "SELECT 1"), 1);
	}
	in_test_database("DROP TRIGGER at_end ON toolcrib.t");
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(add(f, 7, NULL), 0);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
}

/* Locks of others are waited for, and not for ever. */
static void a_lock_that_stays_is_busy(void **state)
{
	struct fix *f = *state;
	struct db *other = server(f, "toolcrib", DB_WRITER);

	assert_int_equal(add(f, 1, NULL), 0);
	assert_int_equal(run(f, other, "SET lock_timeout = '20ms'"), 0);
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(run(f, f->db, "UPDATE t SET i = 1"), 0);
	assert_int_equal(db_txn_begin(other, true, &f->err), 0);
	assert_int_equal(run(f, other, "UPDATE t SET i = 2"), ERR_BUSY);
	assert_true(db_txn_alive(other));
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
	assert_int_equal(run(f, other, "UPDATE t SET i = 2"), 0);
	assert_int_equal(db_txn_end(other, 0, &f->err), 0);
	assert_int_equal(number(f, f->reader, "SELECT i FROM t"), 2);
	db_close(&other);
}

/* --- what comes and goes */

static void an_answer_that_cannot_be_read_is_none(void **state)
{
	struct fix *f = *state;

	assert_int_equal(run(f, f->reader, "SELECT 1.5"), ERR_CORRUPT);         /* numeric */
	assert_non_null(strstr(f->err.msg, "column 0 is of type 1700 and cannot be read"));
	assert_int_equal(run(f, f->reader, "SELECT 1, now()"), ERR_CORRUPT);
	assert_int_equal(number(f, f->reader, "SELECT 2"), 2);
	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(run(f, f->db, "SELECT 1.5"), ERR_CORRUPT);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), ERR_CORRUPT);
	assert_int_equal(number(f, f->db, "SELECT 3"), 3);
}

static void texts_that_no_text_is_are_refused(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st;

	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	for (int i = 0; i < 2; i++) {
		st = say(f, f->db, "INSERT INTO t(k, s) VALUES (1, ?1)", "t");
		db_bind_text(st, 1, i ? "a\xff" : "a\0b", i ? 2 : 3);
		assert_int_equal(db_step(st, &f->err), ERR_INVALID);
		put(&st);
	}
	st = say(f, f->db, "INSERT INTO t(k, s) VALUES (?1, 'x')", "i");
	db_bind_textz(st, 1, "1");
	assert_int_equal(db_step(st, &f->err), ERR_INTERNAL);           /* never sent */
	put(&st);
	assert_int_equal(add(f, 1, NULL), 0);
	assert_int_equal(db_txn_end(f->db, 0, &f->err), 0);
}

/* CLUSTER K-F17: rows that wait while another statement runs have a bound; those that are read one by one need none. */
static void rows_that_wait_have_a_bound(void **state)
{
	struct fix *f = *state;

	for (int over = 0; over < 2; over++) {
		struct db_stmt *st = say(f, f->reader, over ? "SELECT repeat('x', 1000000) FROM generate_series(1, 80)"
					 : "SELECT repeat('x', 1000000) FROM generate_series(1, 60)", "");
		struct db_stmt *other;
		int n = 1;

		assert_int_equal(db_step(st, &f->err), 1);
		other = say(f, f->reader, "SELECT 1", "");
		assert_int_equal(db_step(other, &f->err), over ? ERR_LIMIT : 1);
		put(&other);
		while (db_step(st, &f->err) == 1)
			n++;
		assert_int_equal(n, over ? 80 : 60);
		put(&st);
	}
	assert_int_equal(number(f, f->reader, "SELECT 1"), 1);
}

/* A rollback does not depend on room for rows, and rows that went with it are not their end. */
static void a_rollback_is_never_refused(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st;
	int rc;

	assert_int_equal(db_txn_begin(f->db, true, &f->err), 0);
	assert_int_equal(add(f, 1, NULL), 0);
	st = say(f, f->db, "SELECT repeat('x', 1000000) FROM generate_series(1, 80)", "");
	assert_int_equal(db_step(st, &f->err), 1);
	assert_int_equal(db_txn_end(f->db, ERR_CANCELLED, &f->err), ERR_CANCELLED);
	while ((rc = db_step(st, &f->err)) == 1)
		;
	assert_int_equal(rc, ERR_UNREACHABLE);
	put(&st);
	assert_int_equal(number(f, f->db, "SELECT count(*) FROM t"), 0);
}

/* What ends a query that another statement has put aside is said by the query. */
static void an_error_among_rows_that_wait_is_not_lost(void **state)
{
	struct fix *f = *state;
	struct db_stmt *st = say(f, f->reader, "SELECT 10 / (500 - i) FROM generate_series(1, 1000) i", "");
	int n = 0, rc;

	assert_int_equal(db_step(st, &f->err), 1);
	assert_int_equal(number(f, f->reader, "SELECT 5"), 5);
	while ((rc = db_step(st, &f->err)) == 1)
		n++;
	assert_true(rc < 0);
	assert_true(n > 0 && n < 500);
	put(&st);
	assert_int_equal(number(f, f->reader, "SELECT 6"), 6);
}

/* --- whoever says that he is a server */

struct lie { const char *bytes; size_t n; const char *version; };
#define LIE(bytes) { bytes, sizeof(bytes) - 1, "15.18" }

static void say_all(int fd, const char *bytes, size_t n)
{
	if (write(fd, bytes, n) != (ssize_t)n)
		_exit(0);
}

/* Greets as PostgreSQL 15 does, and answers whatever comes then with the lie, and with silence. */
static void lie_to_one(int listener, const struct lie *lie)
{
	static const char before[] = "R\0\0\0\10\0\0\0\0S\0\0\0\31server_version\0", behind[] = "\0S\0\0\0\31client_encoding\0UTF8\0"
		"K\0\0\0\14\0\0\0\1\0\0\0\2Z\0\0\0\5I";
	char buffer[4096];
	int fd = accept(listener, NULL, NULL);

	if (fd < 0 || read(fd, buffer, sizeof buffer) <= 0)
		_exit(0);
	assert_int_equal(strlen(lie->version), 5);              /* as the message has it */
	say_all(fd, before, sizeof before - 1);
	say_all(fd, lie->version, 5);
	say_all(fd, behind, sizeof behind - 1);
	if (read(fd, buffer, sizeof buffer) <= 0)
		_exit(0);
	say_all(fd, lie->bytes, lie->n);
	while (read(fd, buffer, sizeof buffer) > 0)
		;
	_exit(0);
}

/* Connects to whoever says that, which answers one. */
static int open_at_liar(const char *dir, const struct lie *lie, struct err *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char url[512];
	struct db_server where = { .url = url, .wait_ms = 100 };
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;
	struct db *db = NULL;
	pid_t pid;

	snprintf(url, sizeof url, "postgresql:host=%s dbname=x user=x", dir);
	snprintf(at.sun_path, sizeof at.sun_path, "%s/.s.PGSQL.5432", dir);
	(void)unlink(at.sun_path);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(listen(listener, 1), 0);
	pid = fork();
	if (pid == 0)
		lie_to_one(listener, lie);
	close(listener);
	rc = db_open_server(&where, DB_READER, &db, err);
	db_close(&db);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return rc;
}

/* CLUSTER K-F17: none of it is waited for without an end, and none is believed. */
static void a_server_that_lies_is_no_server(void **state)
{
	static const struct lie lies[] = {
		LIE("G\0\0\0\7\0\0\0"), LIE("H\0\0\0\7\0\0\0"), LIE("W\0\0\0\7\0\0\0"),          /* a copy, either way */
		LIE("D\0\0\0\12\0\1\377\377\377\376Z\0\0\0\5I"),                             /* a row of nothing */
		LIE("T\0\0\0\6\177\377Z\0\0\0\5I"), LIE("D\0\377\377\377"), LIE("Z\0\0\0\5E"), LIE("\377\377\377\377\377\377"),
		LIE("I\0\0\0\4Z\0\0\0\5I"), LIE("C\0\0\0\10SET\0Z\0\0\0\5I"), LIE("E\0\0\0\5\0Z\0\0\0\5I"),
	};
	char *dir = tmpdir_make();

	for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
		struct err err = { 0 };

		if (open_at_liar(dir, &lies[i], &err) >= 0)
			fail_msg("lie %zu is believed", i);
		assert_true(err.code == ERR_CORRUPT || err.code == ERR_UNREACHABLE || err.code == ERR_INTERNAL || err.code == ERR_TIMEOUT);
	}
	tmpdir_remove(dir);
}

static void a_server_of_an_older_release_is_refused(void **state)
{
	static const struct lie old = { "", 0, "14.99" }, own = { "Z\0\0\0\5E", 6, "15.00" };
	char *dir = tmpdir_make();
	struct err err = { 0 };

	assert_int_equal(open_at_liar(dir, &old, &err), ERR_UNREACHABLE);
	assert_string_equal(err.msg, "it is PostgreSQL 14, and 15 is the least");
	assert_non_null(strstr(err.hint, "install PostgreSQL 15 or later"));
	(void)open_at_liar(dir, &own, &err);                    /* 15 is asked further */
	assert_null(strstr(err.msg, "is the least"));
	tmpdir_remove(dir);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up_server, tear_down)

SINGLE_THREAD_SUITE(server)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_database_that_is_not_as_it_must_be_is_refused), cmocka_unit_test(a_server_that_may_lose_commits_is_refused),
		cmocka_unit_test(an_address_that_is_none_is_refused_without_its_words), T(steps_are_the_owners_and_forward_alone),
		cmocka_unit_test(a_server_that_lies_is_no_server), cmocka_unit_test(a_server_of_an_older_release_is_refused), T(roles_do_what_they_need_and_no_more), T(what_was_changed_by_hand_is_named), T(each_step_has_its_twin), T(keys_have_a_database_of_their_own), T(words_of_sqlite_mean_the_same),
#ifdef HAVE_PGSQL
		T(every_statement_is_prepared),
#endif
	 T(a_connection_that_is_lost_is_made_again),
		T(a_commit_without_a_clear_answer_is_uncertain), T(a_lock_that_stays_is_busy), T(an_answer_that_cannot_be_read_is_none),
		T(texts_that_no_text_is_are_refused), T(rows_that_wait_have_a_bound), T(a_rollback_is_never_refused), T(an_error_among_rows_that_wait_is_not_lost),
	};
	int rc = start_server();

	rc = rc == 1 ? cmocka_run_group_tests(tests, NULL, NULL) : rc;
	pgrig_stop(&rig);
	return rc;
}
