/* A hostile store: rows of a sound one are changed as the bytes say, without any rule of the schema, and it is verified.  No
 * such change of a record may go without a finding, and what is left of the store is never trusted (AUDIT A-801).
 *
 * The first byte is how it is verified: bit 1 with the keys pinned, bit 2 with the keys of payloads.  No other bit, and a length
 * that leaves 1 when divided by 8: the whole store, whose schema takes long; else one tenant's log alone.  Then edits: what is done (0 a cell is set, 1 a row goes, 2 a row is there twice with that cell set), number of the
 * table, row, column, kind of the value (enum below), length of what follows, and that many bytes.  The store is made once. */
#include "config.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/checkpoint.h"
#include "audit/erase.h"
#include "audit/keep.h"
#include "audit/payload.h"
#include "audit/rows.h"
#include "verify/verify.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"
#include "keys/keys.h"
#include "tlog/note.h"
#include "tlog/signer.h"

#include "../unit/tmpdir.h"
#include "fuzz.h"

enum { PINNED = 2, KEYS = 4 };
enum { ACME = 1, ACME_LOG = 2, EDITS_MAX = 16, TEXT_MAX = 600 };
enum value { VALUE_NULL, VALUE_SMALL, VALUE_INT, VALUE_TEXT, VALUE_BLOB, VALUE_FLIPPED, VALUE_REAL, VALUE_KINDS };

/* vouched: the checkpoints, from which all else follows, are in this table or made by it. */
static const struct { const char *name; bool vouched; } tables[] = {
	{ "rec", false }, { "dict", false }, { "pay", false }, { "alias", false }, { "tile", false }, { "hold", false },
	{ "retention", false }, { "deed", false }, { "tenant", false }, { "principal", false }, { "log", true },
	{ "head", true }, { "cp", true }, { "epoch", true }, { "meta", true },
};
#define NTABLES (sizeof tables / sizeof tables[0])

static struct {
	sqlite3 *native;
	struct db *db;
	char *dir;
	struct keys *keys;
	struct note_key pin[2];
	uint8_t log_public[SIGN_PUBLIC_SIZE], log_secret[SIGN_SECRET_SIZE];
	uint8_t public[2][SIGN_PUBLIC_SIZE], secret[2][SIGN_SECRET_SIZE];
	unsigned rows[NTABLES], columns[NTABLES];
	char column[NTABLES][64][40];
} rig;

static const uint8_t master[32] = { 9 };

#define OK(expr) FUZZ_CHECK((expr) >= 0)

/* --- SQL of its own, on the connection of db.h */

static int catch(sqlite3 *native, const char **ret, const void *api)
{
	(void)ret;
	(void)api;
	if (!rig.native)
		rig.native = native;
	return SQLITE_OK;
}

static PRINTF_LIKE(1, 2) int run(const char *fmt, ...)
{
	char sql[2 * TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(sql, sizeof sql, fmt, ap);
	va_end(ap);
	return sqlite3_exec(rig.native, sql, NULL, NULL, NULL);
}

static int64_t number(const char *sql)
{
	sqlite3_stmt *st = NULL;
	int64_t n = -1;

	FUZZ_CHECK(sqlite3_prepare_v2(rig.native, sql, -1, &st, NULL) == SQLITE_OK);
	if (sqlite3_step(st) == SQLITE_ROW)
		n = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return n;
}

/* --- the sound store */

static void commit(struct audit_logs *logs)
{
	struct err err;

	OK(audit_logs_flush(logs, rig.db, &err));
	OK(db_txn_end(rig.db, 0, &err));
	audit_logs_commit(logs);
}

static struct audit_receipt append(struct audit_logs *logs, struct audit_event *ev)
{
	struct audit_receipt at;
	struct err err;

	clock_step(1000);
	ev->time_us = clock_wall_us();
	ev->mono_us = clock_mono_us();
	OK(audit_append(logs, rig.db, ev, &at, &err));
	return at;
}

static void sign(struct audit_logs *logs, uint64_t epoch)
{
	struct audit_beat b = { 0 };
	struct audit_note note[8];
	struct str text[8] = { STR_INIT };
	struct err err;

	OK(db_txn_begin(rig.db, true, &err));
	OK(audit_beat(logs, rig.db, &(struct audit_beat_opt){ .max = SIZE_MAX, .say = AUDIT_SAY_GROWN }, &b, &err));
	OK(audit_beat_system(logs, rig.db, &b, &err));
	for (size_t i = 0; i < b.nhead; i++) {
		struct checkpoint cp = { .size = b.head[i].tree.size };
		struct note_key key;
		uint8_t sig[SIGN_SIZE];
		size_t len;

		(void)snprintf(cp.origin, sizeof cp.origin, "%s", b.head[i].origin);
		tree_root(&b.head[i].tree, cp.root);
		checkpoint_print(&cp, &text[i]);
		len = text[i].len;
		sign_make(rig.log_secret, text[i].p, len, sig);
		OK(note_key_set(&key, cp.origin, rig.log_public));
		note_add(&text[i], len, &key, sig);
		sign_make(rig.secret[epoch], text[i].p, len, sig);
		OK(epoch_key_set(&key, rig.pin[0].name, epoch, rig.public[epoch]));
		note_add(&text[i], len, &key, sig);
		note[i] = (struct audit_note){ text[i].p, text[i].len };
	}
	OK(audit_beat_store(logs, rig.db, &b, note, (int64_t)epoch, &err));
	commit(logs);
	for (size_t i = 0; i < b.nhead; i++)
		str_fini(&text[i]);
	audit_beat_fini(&b);
}

static void begin_epoch(struct audit_logs *logs, uint64_t n)
{
	uint8_t seed[SIGN_SEED_SIZE] = { (uint8_t)(n + 2) }, cert[SIGN_SIZE], text[EPOCH_CERT_TEXT];
	struct err err;

	sign_keys(seed, rig.public[n], rig.secret[n]);
	epoch_cert_text(n, rig.public[n], text);
	if (n > 0)
		sign_make(rig.secret[n - 1], text, sizeof text, cert);
	OK(db_txn_begin(rig.db, true, &err));
	OK(audit_epoch_begin(logs, rig.db, n, rig.public[n], n > 0 ? cert : NULL, &err));
	commit(logs);
}

/* Returns the index of its end. */
static int64_t append_call(struct audit_logs *logs, uint8_t n)
{
	const struct audit_payload payload = { .level = AUDIT_REQUEST, .n = 1,
		.value = { { .ctag = n % 2 ? AUDIT_C_ARGUMENTS : AUDIT_C_RESULT, .p = "{\"a\":1}", .len = 7, .keep = n % 2 } } };
	struct audit_receipt at = { 0 };
	struct audit_event ev;

	for (int end = 0; end < 2; end++) {
		audit_event_init(&ev, end ? AUDIT_CALL_END : AUDIT_CALL_BEGIN, ACME);
		ev.has_call = ev.has_trace = true;
		ev.has_outcome = end;
		memset(ev.call, n, sizeof ev.call);
		ev.cred = "7Qm3";
		ev.prn = "prn_alice";
		ev.tool = "echo";
		ev.tdef = master;
		ev.rule = "grant/1";
		ev.actor = AUDIT_BY_SERVICE;
		ev.peer = n > 2 ? "192.0.2.7" : NULL;
		ev.payload = end == n % 2 ? NULL : &payload;
		ev.dur_us = end ? 900 : 0;
		at = append(logs, &ev);
	}
	return at.idx;
}

static void append_deeds(struct audit_logs *logs, int64_t erased)
{
	uint8_t range[16] = { 0 }, days[16] = { 0 };
	const struct audit_field of_range[] = { { AUDIT_TAG_RANGE, range, sizeof range } };
	static const char alone[] = "approval policy one";
	const struct audit_field of_erase[] = { { AUDIT_TAG_RANGE, range, sizeof range }, { AUDIT_TAG_APPROVER, alone, sizeof alone - 1 } };
	const struct audit_field of_days[] = { { AUDIT_TAG_COUNTS, days, sizeof days } };
	struct audit_receipt at;
	struct audit_event ev;
	struct err err;

	audit_put_be(range + 8, 5, 8);
	audit_event_init(&ev, AUDIT_HOLD_SET, ACME);
	ev.field = of_range;
	ev.nfield = 1;
	at = append(logs, &ev);
	FUZZ_CHECK(run("INSERT INTO hold(log, from_idx, to_idx, set_by) VALUES(%lld, 0, 5, %lld)", (long long)at.log,
		       (long long)at.idx) == SQLITE_OK);
	audit_put_be(days, 30, 8);
	audit_event_init(&ev, AUDIT_RETENTION_CHANGE, ACME);
	ev.field = of_days;
	ev.nfield = 1;
	at = append(logs, &ev);
	FUZZ_CHECK(run("INSERT INTO retention(log, from_idx, min_days, set_by) VALUES(%lld, %lld, 30, %lld)", (long long)at.log,
		       (long long)at.idx, (long long)at.idx) == SQLITE_OK);
	audit_put_be(range, (uint64_t)erased, 8);
	audit_put_be(range + 8, (uint64_t)erased + 1, 8);
	audit_event_init(&ev, AUDIT_POLICY_CHANGE, 0);
	ev.obj = "approval/policy/one";
	(void)append(logs, &ev);
	audit_event_init(&ev, AUDIT_ERASE, ACME);
	ev.field = of_erase;
	ev.nfield = 2;
	at = append(logs, &ev);
	OK(audit_erase_intend(rig.db, &at, &err));
	audit_event_init(&ev, AUDIT_ADMIN_CMD, 0);
	OK(audit_append_rows(logs, rig.db, &ev, 0, NULL, &err));        /* the hold */
}

static void fill(struct audit_logs *logs)
{
	struct audit_event ev;
	struct err err;

	OK(db_txn_begin(rig.db, true, &err));
	OK(audit_log_create(logs, rig.db, 0, NULL, &err));
	audit_event_init(&ev, AUDIT_SERVER_START, 0);
	OK(audit_append_start(logs, rig.db, &ev, &err));
	FUZZ_CHECK(run("INSERT INTO tenant(id, name, title, state, generation, list_digest, concurrency, rate_count, rate_per_s, "
		       "created_us) VALUES(1, 'acme', '', 1, 0, x'', 0, 0, 0, 1)") == SQLITE_OK);
	FUZZ_CHECK(run("INSERT INTO principal(tenant_id, name, pseudonym, state, created_us) VALUES(1, 'alice', 'prn_alice', 1, 1)") ==
		   SQLITE_OK);
	OK(audit_log_create(logs, rig.db, ACME, "acme", &err));
	audit_event_init(&ev, AUDIT_TENANT_CREATE, 0);
	OK(audit_append_rows(logs, rig.db, &ev, AUDIT_ROW_TENANT, NULL, &err));
	OK(audit_log_key_set(rig.db, rig.log_public, &err));
	commit(logs);
}

static void read_instance(void)
{
	sqlite3_stmt *st = NULL;
	char name[NOTE_NAME_MAX + 1];

	FUZZ_CHECK(sqlite3_prepare_v2(rig.native, "SELECT origin FROM log WHERE id = 1", -1, &st, NULL) == SQLITE_OK &&
		   sqlite3_step(st) == SQLITE_ROW);
	(void)snprintf(name, sizeof name, "%s", (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	OK(note_key_set(&rig.pin[0], name, rig.log_public));
}

static void make_store(void)
{
	struct keyfile_place place = { rig.dir, master };
	struct audit_logs *logs = NULL;
	struct keys *keys = NULL;
	uint8_t seed[SIGN_SEED_SIZE] = { 1 };
	struct audit_event ev;
	struct err err;
	int64_t last = 0;

	sign_keys(seed, rig.log_public, rig.log_secret);
	OK(audit_logs_open(rig.db, &logs, &err));
	OK(keys_open(&place, &keys, &err));
	audit_logs_give_keys(logs, &keys);
	fill(logs);
	read_instance();
	begin_epoch(logs, 0);
	OK(epoch_key_set(&rig.pin[1], rig.pin[0].name, 0, rig.public[0]));
	sign(logs, 0);
	OK(db_txn_begin(rig.db, true, &err));
	for (uint8_t i = 1; i < 7; i++)
		last = append_call(logs, i);
	append_deeds(logs, last);
	commit(logs);
	OK(audit_erase_resume(logs, rig.db, &err));
	sign(logs, 0);
	begin_epoch(logs, 1);
	OK(db_txn_begin(rig.db, true, &err));
	(void)append_call(logs, 7);
	audit_event_init(&ev, AUDIT_SERVER_STOP, 0);
	(void)append(logs, &ev);
	commit(logs);
	sign(logs, 1);
	audit_logs_close(&logs);
	OK(keys_open_reader(&place, &rig.keys, &err));
}

/* --- the picture of it that each input begins with */

/* No rule of the schema stands in the way: the connection forgets STRICT, while the text stays what the release has. */
static void forget_rules(void)
{
	sqlite3_db_config(rig.native, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
	sqlite3_db_config(rig.native, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	FUZZ_CHECK(run("PRAGMA foreign_keys = OFF; PRAGMA secure_delete = OFF; PRAGMA wal_checkpoint(TRUNCATE)") == SQLITE_OK);
	FUZZ_CHECK(run("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA writable_schema = ON") == SQLITE_OK);
	FUZZ_CHECK(run("PRAGMA ignore_check_constraints = ON") == SQLITE_OK);
	FUZZ_CHECK(run("CREATE TEMP TABLE text AS SELECT rowid AS id, sql FROM sqlite_master") == SQLITE_OK);
	FUZZ_CHECK(run("UPDATE sqlite_master SET sql = replace(replace(sql, ') STRICT', ')'), ' NOT NULL', '') "
		       "WHERE type = 'table'") == SQLITE_OK);
	FUZZ_CHECK(run("PRAGMA writable_schema = RESET") == SQLITE_OK && number("SELECT count(*) FROM rec") > 20);
	FUZZ_CHECK(run("PRAGMA writable_schema = ON") == SQLITE_OK);
	FUZZ_CHECK(run("UPDATE sqlite_master SET sql = (SELECT t.sql FROM temp.text t WHERE t.id = sqlite_master.rowid)") == SQLITE_OK);
	FUZZ_CHECK(run("PRAGMA writable_schema = OFF") == SQLITE_OK);
}

static void keep_picture(void)
{
	for (unsigned t = 0; t < NTABLES; t++) {
		char sql[TEXT_MAX];
		sqlite3_stmt *st = NULL;

		(void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", tables[t].name);
		rig.rows[t] = (unsigned)number(sql);
		(void)snprintf(sql, sizeof sql, "SELECT * FROM %s", tables[t].name);
		FUZZ_CHECK(sqlite3_prepare_v2(rig.native, sql, -1, &st, NULL) == SQLITE_OK);
		rig.columns[t] = (unsigned)sqlite3_column_count(st);
		for (unsigned c = 0; c < rig.columns[t]; c++)
			(void)snprintf(rig.column[t][c], sizeof rig.column[t][c], "\"%s\"", sqlite3_column_name(st, (int)c));
		sqlite3_finalize(st);
		FUZZ_CHECK(run("CREATE TEMP TABLE kept_%s AS SELECT rowid AS kept_rowid, * FROM main.%s", tables[t].name,
			       tables[t].name) == SQLITE_OK);
	}
}

static void put_back(unsigned t)
{
	char names[2 * TEXT_MAX], sql[5 * TEXT_MAX];
	size_t n = 0;

	for (unsigned c = 0; c < rig.columns[t]; c++)
		n += (size_t)snprintf(names + n, sizeof names - n, ", %s", rig.column[t][c]);
	(void)snprintf(sql, sizeof sql, "DELETE FROM main.%s; INSERT INTO main.%s(rowid%s) SELECT kept_rowid%s FROM temp.kept_%s",
		       tables[t].name, tables[t].name, names, names, tables[t].name);
	FUZZ_CHECK(sqlite3_exec(rig.native, sql, NULL, NULL, NULL) == SQLITE_OK);
}

/* But for id, which tells nobody anything, and leaf, which is never trusted and missing in old records. */
static bool records_changed(int64_t log)
{
	char names[2 * TEXT_MAX], sql[5 * TEXT_MAX];
	size_t n = 0;

	for (unsigned c = 1; c < rig.columns[0]; c++)
		if (strcmp(rig.column[0][c], "\"leaf\"") != 0)
			n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", rig.column[0][c]);
	(void)snprintf(sql, sizeof sql, "SELECT EXISTS (SELECT %s FROM temp.kept_rec WHERE %lld IN (0, log) EXCEPT "
		       "SELECT %s FROM main.rec)", names, (long long)log, names);
	return number(sql) == 1;
}

static void remove_store(void)
{
	keys_close(&rig.keys);
	db_close(&rig.db);
	tmpdir_remove(rig.dir);
}

static void set_up(void)
{
	char path[600];
	struct err err;

	OK(secret_init());
	rig.dir = tmpdir_make();
	clock_fake(1750000000000000, 5000000);
	tmpdir_path(rig.dir, DB_FILE, path, sizeof path);
	FUZZ_CHECK(sqlite3_auto_extension((void (*)(void))catch) == SQLITE_OK);
	OK(db_open(path, DB_WRITER, true, &rig.db, &err));
	FUZZ_CHECK(rig.native);
	sqlite3_reset_auto_extension();
	OK(db_migrate(rig.db, &err));
	make_store();
	forget_rules();
	keep_picture();
	(void)atexit(remove_store);
}

/* --- edits */

struct bytes { const uint8_t *p; size_t n; };

static uint8_t take(struct bytes *in)
{
	if (in->n == 0)
		return 0;
	in->n--;
	return *in->p++;
}

/* The old value with some bytes flipped from a place on, so that changes reach into fields of fields. */
static void bind_flipped(sqlite3_stmt *st, unsigned table, unsigned row, unsigned column, struct bytes v)
{
	static uint8_t old[65536];
	char sql[TEXT_MAX];
	sqlite3_stmt *get = NULL;
	size_t len = 0, at = take(&v);
	int type = SQLITE_NULL;

	(void)snprintf(sql, sizeof sql, "SELECT %s FROM main.%s LIMIT 1 OFFSET %u", rig.column[table][column], tables[table].name, row);
	FUZZ_CHECK(sqlite3_prepare_v2(rig.native, sql, -1, &get, NULL) == SQLITE_OK);
	if (sqlite3_step(get) == SQLITE_ROW) {
		type = sqlite3_column_type(get, 0);
		len = (size_t)sqlite3_column_bytes(get, 0) < sizeof old ? (size_t)sqlite3_column_bytes(get, 0) : sizeof old;
		memcpy(old, sqlite3_column_blob(get, 0) ? sqlite3_column_blob(get, 0) : old, len);
	}
	sqlite3_finalize(get);
	for (; at < len && v.n > 0; at++)
		old[at] ^= take(&v);
	if (type == SQLITE_TEXT)
		sqlite3_bind_text(st, 1, (const char *)old, (int)len, SQLITE_TRANSIENT);
	else
		sqlite3_bind_blob(st, 1, old, (int)len, SQLITE_TRANSIENT);
}

static void bind_value(sqlite3_stmt *st, unsigned kind, unsigned table, unsigned row, unsigned column, struct bytes v)
{
	int64_t n = 0;

	switch ((enum value)kind) {
	case VALUE_SMALL:
		sqlite3_bind_int64(st, 1, (int8_t)take(&v));
		break;
	case VALUE_INT:
		for (int i = 0; i < 8 && v.n > 0; i++)
			n = (int64_t)((uint64_t)n << 8 | take(&v));
		sqlite3_bind_int64(st, 1, n);
		break;
	case VALUE_TEXT:
		sqlite3_bind_text(st, 1, (const char *)v.p, (int)v.n, SQLITE_TRANSIENT);
		break;
	case VALUE_BLOB:
		sqlite3_bind_blob(st, 1, v.n ? v.p : (const uint8_t *)"", (int)v.n, SQLITE_TRANSIENT);
		break;
	case VALUE_FLIPPED:
		bind_flipped(st, table, row, column, v);
		break;
	case VALUE_REAL:
		sqlite3_bind_double(st, 1, take(&v) / 3.0);
		break;
	case VALUE_NULL:
	case VALUE_KINDS:
		break;
	}
}

/* The row of that number again, as the newest. */
static void copy_row(unsigned t, unsigned row, unsigned column)
{
	char names[2 * TEXT_MAX] = "", sql[5 * TEXT_MAX];
	size_t n = 0;

	for (unsigned c = 0; c < rig.columns[t]; c++)
		if (c != column)
			n += (size_t)snprintf(names + n, sizeof names - n, ", %s", rig.column[t][c]);
	(void)snprintf(sql, sizeof sql, "INSERT OR IGNORE INTO main.%s(rowid%s) SELECT 1000%s FROM main.%s LIMIT 1 OFFSET %u",
		       tables[t].name, names, names, tables[t].name, row);
	(void)sqlite3_exec(rig.native, sql, NULL, NULL, NULL);
}

/* Returns the table. */
static unsigned edit(struct bytes *in)
{
	unsigned what = take(in) % 3, t = take(in) % NTABLES, row = take(in), column = take(in), kind = take(in) % VALUE_KINDS;
	struct bytes v = { NULL, take(in) };
	char sql[TEXT_MAX];
	sqlite3_stmt *st = NULL;

	v.p = in->p;
	v.n = v.n < in->n ? v.n : in->n;
	in->p += v.n;
	in->n -= v.n;
	row = rig.rows[t] ? row % rig.rows[t] : 0;
	column %= rig.columns[t];
	if (what == 1)
		(void)snprintf(sql, sizeof sql, "DELETE FROM main.%s WHERE rowid IN (SELECT rowid FROM main.%s LIMIT 1 OFFSET %u)",
			       tables[t].name, tables[t].name, row);
	else
		(void)snprintf(sql, sizeof sql, "UPDATE OR IGNORE main.%s SET %s = ?1 WHERE rowid IN (SELECT rowid FROM main.%s LIMIT 1 OFFSET %u)",
			       tables[t].name, rig.column[t][column], tables[t].name, row);
	if (what == 2)
		copy_row(t, row, column);
	FUZZ_CHECK(sqlite3_prepare_v2(rig.native, sql, -1, &st, NULL) == SQLITE_OK);
	if (what != 1)
		bind_value(st, kind, t, row, column, v);
	(void)sqlite3_step(st);
	sqlite3_finalize(st);
	return t;
}

static void look(void *arg, const struct audit_finding *f)
{
	FUZZ_CHECK(audit_finding_name(f->code) && f->from <= f->to);
	if (*(const bool *)arg)
		fprintf(stderr, "%s %s %lld-%lld %s\n", audit_finding_name(f->code), f->origin ? f->origin : "-", (long long)f->from,
			(long long)f->to, f->detail ? f->detail : "");
}

/* Whether what vouches for the rest was touched: then much can be said that nobody can disprove. */
static bool vouchers_touched(unsigned touched)
{
	for (unsigned t = 0; t < NTABLES; t++)
		if (touched & 1u << t && tables[t].vouched)
			return true;
	return false;
}

static void put_all_back(unsigned touched)
{
	FUZZ_CHECK(run("BEGIN") == SQLITE_OK);
	for (unsigned t = 0; t < NTABLES; t++)
		if (touched & 1u << t)
			put_back(t);
	FUZZ_CHECK(run("COMMIT") == SQLITE_OK);
}

FUZZ_TARGET(rows)
{
	struct bytes in = { data, size };
	struct audit_evidence with = { .key = rig.pin };
	struct audit_coverage sum;
	struct err err = { 0 };
	unsigned touched = 0, how, n = 0;
	bool sound, whole;
	int rc;

	if (!rig.db)
		set_up();
	how = take(&in);
	whole = !(how & ~(unsigned)(PINNED | KEYS)) && size % 8 == 1;
	with.nkey = how & PINNED ? 2 : 0;
	with.keys = how & KEYS ? rig.keys : NULL;
	FUZZ_CHECK(run("BEGIN") == SQLITE_OK);
	for (; in.n > 0 && n < EDITS_MAX; n++)
		touched |= 1u << edit(&in);
	FUZZ_CHECK(run("COMMIT") == SQLITE_OK);
	sound = n == 0;
	rc = audit_verify_with(rig.db, whole ? 0 : ACME, &with, look, &sound, &sum, &err);
	if (sound)
		FUZZ_CHECK(rc == 0 && sum.bad == 0 && (sum.gaps == 0) == (sum.shut == 0) && sum.records >= 20);
	if (how & PINNED && touched & 1 && !vouchers_touched(touched) && records_changed(whole ? 0 : ACME_LOG))
		FUZZ_CHECK(rc < 0 || sum.bad > 0);
	put_all_back(touched);
	return 0;
}
