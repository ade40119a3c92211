/* A new store, what keeps an old one from starting, and what a start does not do to it.  A new one has a directory, a
 * database with the system log and a master key.  The key comes last, so that a store which has one is whole, and one
 * without it that nobody has used is an init that was cut off: it is finished (FAULT F2). */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "app/app.h"
#include "audit/audit.h"
#include "audit/rows.h"
#include "base/clock.h"
#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/db.h"
#include "db/owner.h"
#include "db/server.h"
#include "forms/forms.h"
#include "json/json.h"
#include "setup/setup.h"
#include "writer/fold.h"

static int fill(struct db *db, struct err *err)
{
	struct audit_logs *logs = NULL;
	int rc = db_migrate(db, err);

	if (rc == 0)
		rc = audit_logs_open(db, &logs, err);
	if (rc < 0)
		return rc;
	rc = db_txn_begin(db, true, err);
	if (rc == 0)                    /* its rows are few until they are in blocks (decision 0061) */
		rc = db_txn_end(db, db_make_lean(db, DB_LEAN_INDEXES, err), err);
	if (rc == 0)
		rc = db_txn_begin(db, true, err);
	if (rc == 0) {
		int last;

		rc = audit_last_kind(logs, db, 0, &last, NULL, err);
		if (rc == ERR_NOT_FOUND)
			rc = audit_log_create(logs, db, 0, "system", err);
		if (rc == 0)
			rc = audit_logs_flush(logs, db, err);
		rc = db_txn_end(db, rc, err);
	}
	if (rc == 0)
		audit_logs_commit(logs);
	audit_logs_close(&logs);
	return rc;
}

/* 1: an owner has started on it. */
static int was_used(struct db *db, struct err *err)
{
	int version, rc = db_check_version(db, &version, NULL);

	if (rc < 0)     /* empty, or not ours, which the migration says */
		return 0;
	if (version == db_schema_version() && forms_see(db, err) < 0)
		return err->code;
	struct db_stmt *st = db_stmt_get(db, SQL_META_WAS_USED);
	rc = db_step(st, err);
	if (rc == 1)
		rc = db_col_i64(st, 0) != 0;
	db_stmt_put(&st);
	return rc;
}

static int create(const char *store, struct err *err)
{
	char *file = path_join(store, DB_FILE), *key_file = path_join(store, DB_MASTER_KEY);
	uint8_t *key = secret_alloc(SECRET_KEY_SIZE);
	struct db *db = NULL;
	int rc = 0;

	if (path_exists(key_file)) {
		rc = err_set(err, ERR_CONFLICT, store, "there is a store at %s already; nothing was changed", store);
		goto out;
	}
	rc = db_open(file, DB_WRITER, true, &db, err);
	if (rc == 0)
		rc = was_used(db, err);
	if (rc == 1) {
		rc = err_set(err, ERR_CONFLICT, store,
			     "there is a store at %s already, without its master.key; nothing was changed", store);
		err_hint(err, "put the key back from where you keep it");
	}
	if (rc == 0)
		rc = fill(db, err);
	db_close(&db);
	id_random(key, SECRET_KEY_SIZE);
	if (rc == 0)
		rc = path_create(key_file, 0400, key, SECRET_KEY_SIZE, err);
out:
	secret_free(key);
	free(file);
	free(key_file);
	return rc;
}

/* Tables of both databases, by who owns them. */
static int make_tables(const struct db_served *at, const char *owner, bool keys, struct err *err)
{
	const struct db_server server = { .url = keys && at->keys_url ? at->keys_url : at->url,
		.beside = keys && !at->keys_url, .owner = true, .require_standby = at->require_standby, .user = owner };
	struct db *db = NULL;
	int rc = db_open_server(&server, DB_WRITER, &db, err);

	if (rc == 0)
		rc = keys ? db_migrate_keys(db, err) : db_migrate(db, err);
	if (rc < 0)
		(void)err_wrap(err, keys ? "the database of keys" : "the database");
	db_close(&db);
	return rc;
}

static int make_databases(const char *store, const json_t *args, struct err *err)
{
	const struct db_served at = { json_string_value(json_object_get(args, "database")),
		json_string_value(json_object_get(args, "keys-database")), !json_is_true(json_object_get(args, "no-standby")) };
	const char *owner = json_string_value(json_object_get(args, "database-owner"));
	int rc;

	if (!at.url && (at.keys_url || owner || !at.require_standby))
		return err_set(err, ERR_INVALID, "database", "--keys-database, --database-owner and --no-standby go with --database");
	if (!at.url)
		return 0;
	if (!owner)
		owner = SETUP_DATABASE_OWNER;
	rc = db_serve(store, &at, err);
	if (rc == 0)
		rc = make_tables(&at, owner, false, err);
	return rc < 0 ? rc : make_tables(&at, owner, true, err);
}

int setup_store(const char *store, const json_t *args, struct err *err)
{
	struct db_owner *owner = NULL;
	struct db_card card;
	int rc = path_mkdirs(store, 0700, err);

	if (rc == 0)
		rc = db_owner_take(store, &owner, &card, err);
	if (rc == 1)
		return err_set(err, ERR_CONFLICT, store, "there is a store at %s already, in use by process %lld",
			       store,
			       (long long)card.pid);
	if (rc == 0)
		rc = make_databases(store, args, err);
	if (rc == 0)
		rc = create(store, err);
	db_owner_drop(&owner);
	return rc;
}

/* --- a start that ends at once */

static int take(const char *store, struct db_owner **ret, struct err *err)
{
	struct db_card card;
	int rc = db_owner_take(store, ret, &card, err);

	if (rc != 1)
		return rc;
	(void)err_set(err, ERR_BUSY, store, "process %" PRId64 " holds the store", card.pid);
	err_hint(err, "stop the server first");
	return ERR_BUSY;
}

/* Starting as the owner migrates, takes rows out of service, and leaves its records. */
int setup_start_once(const char *store, const char *const *quarantine, bool no_copy, struct err *err)
{
	struct app_opt opt = { .profile = APP_EMBEDDED, .store = store, .quarantine = quarantine, .no_copy = no_copy };
	struct app *app = NULL;
	int rc = take(store, &opt.owner, err);

	if (rc == 0)
		rc = app_start(&opt, &app, err);
	app_close(&app);
	return rc;
}

/* --- what keeps a store from starting */

static int put_bad(void *arg, unsigned kind, int64_t id, bool gone, struct err *err)
{
	const char *closing = audit_row_closing(kind);
	char *name = mem_printf("%s/%" PRId64, audit_row_name(kind), id);
	json_t *row = json_pack("{s:{s:s, s:s, s:s?}}", "row", "row", name, "what",
				gone ? "is gone, and no record says so" : "is not what its record says", "closing", closing);
	struct str *rows = arg;

	(void)err;
	jx_write(row, rows);
	str_putc(rows, '\n');
	json_decref(row);
	free(name);
	return 0;
}

int setup_fsck(const char *store, struct str *rows, struct err *err)
{
	char *file = path_join(store, DB_FILE);
	struct db *db = NULL;
	int version, rc = db_open(file, DB_READER, false, &db, err);

	if (rc == 0)
		rc = db_check_version(db, &version, err);
	if (rc == 0 && version < db_schema_version()) {
		rc = err_set(err, ERR_CONFLICT, store, "the store has schema %d, this program looks at %d", version,
			     db_schema_version());
		err_hint(err, "toolcrib migrate, or the fsck of the release that made it");
	}
	if (rc == 0)
		rc = forms_see(db, err);
	if (rc == 0)
		rc = audit_rows_bad(db, put_bad, rows, err);
	db_close(&db);
	free(file);
	return rc;
}

/* --- toolcrib migrate (SCALE SC-305) */

/* What there is to do: from which schema to which, how many bytes are copied before (0: no copy is made) and the disk
 * has, how many records become blocks (0: none), how many indexes go, and about how long that takes; of what was done,
 * why a log was not folded to its end, or "". */
struct migration {
	int from, to;
	bool begun;                     /* steps were done, and no start has said so yet */
	uint64_t copied, room;
	int64_t records, seconds;
	unsigned indexes;
	char stuck[sizeof((struct writer_offline *)0)->stuck];
};

/* Records a second, entries of indexes, and bytes, of a slow machine. */
enum { FOLDED_PER_S = 100000, DROPPED_PER_S = 1000000, COPIED_PER_S = 100000000 };

/* Steps that were cut off have their copy. */
static int look_at_copy(struct db *db, const char *file, bool no_copy, struct migration *ret, struct err *err)
{
	int rc = db_before_noted(db, &(struct db_before){ 0 }, err);

	if (rc == 0 && ret->from < ret->to && !no_copy)
		ret->copied = db_before_room(file, &ret->room);
	ret->begun = rc == 1;
	return rc < 0 ? rc : 0;
}

static int look(struct db *db, bool fold, struct migration *ret, struct err *err)
{
	struct forms_rows is = { 0 };
	int rc = forms_count(db, &is, err);

	if (rc == 0)
		rc = db_lean_left(db, &ret->indexes, err);
	if (rc < 0)
		return rc;
	if (is.waiting > 0 && (fold || (!is.once && is.waiting > WRITER_FOLD_START_MAX)))
		ret->records = is.waiting;
	/* Without records, those of a migration that was cut off, or of a store too large for a start (decision 0061). */
	if (ret->records == 0 && (!is.any || !is.once || is.waiting > FORMS_LEAN_TAIL_MAX))
		ret->indexes = 0;
	if (ret->records > 0 || ret->indexes > 0 || ret->from < ret->to)
		ret->seconds = 1 + (int64_t)(ret->copied / COPIED_PER_S) + ret->records / FOLDED_PER_S +
			ret->records * ret->indexes / DROPPED_PER_S;
	return 0;
}

static int look_at(const char *store, const struct setup_migrate_way *way, struct migration *ret, struct err *err)
{
	char *file = path_join(store, DB_FILE);
	struct db *db = NULL;
	int rc = db_open(file, DB_READER, false, &db, err);

	*ret = (struct migration){ .to = db_schema_version() };
	if (rc == 0)
		rc = db_check_version(db, &ret->from, err);
	if (rc < 0)
		rc = err->code = ERR_UNREACHABLE;       /* damaged, or made by a newer program: cannot be read */
	else
		rc = look_at_copy(db, file, way->no_copy, ret, err);
	if (rc == 0)
		rc = look(db, way->fold, ret, err);
	db_close(&db);
	free(file);
	return rc;
}

static int fold_once(const char *store, const struct migration *m, const struct writer_offline_way *way,
		     struct writer_offline *ret, struct err *err)
{
	struct db_owner *owner = NULL;
	int rc = take(store, &owner, err);

	if (rc == 0)
		rc = writer_fold_offline(store, m->records > 0, way, ret, err);
	db_owner_drop(&owner);
	return rc;
}

#define BAR_NEXT_US 200000
#define BAR "##############################"

/* One line that is drawn again, gone before anything else is said. */
struct bar { const char *what; uint64_t begun_us, drawn_us; };

static void draw_bar(void *arg, const char *what, int64_t done, int64_t of)
{
	const int part = of > 0 && done < of ? (int)((double)done / (double)of * 100) : 100;
	const uint64_t now_us = clock_mono_us();
	struct bar *b = arg;
	double per_s;

	if (b->what != what)
		*b = (struct bar){ what, now_us, 0 };
	if (b->drawn_us && now_us - b->drawn_us < BAR_NEXT_US && done < of)
		return;
	b->drawn_us = now_us;
	fprintf(stderr, "\r\x1b[Kmigrate  [%-30.*s] %3d %%  %" PRId64 " of %" PRId64 " %s", part * 30 / 100, BAR, part,
		done, of, what);
	per_s = now_us > b->begun_us ? (double)done * 1e6 / (double)(now_us - b->begun_us) : 0;
	if (per_s > 0 && done < of)
		fprintf(stderr, ", %.0f/s, %.0f s left", per_s, (double)(of - done) / per_s);
	fflush(stderr);
}

/* What there is to do, or was done, for people. */
static void say_steps(const struct migration *m, bool dry_run, struct str *out)
{
	if (m->from == m->to && !m->begun && m->records == 0 && m->indexes == 0) {
		str_puts(out, "nothing to do");
		return;
	}
	str_puts(out, dry_run ? "would be done" : "done");
	if (m->copied > 0)
		str_printf(out, ", a copy of before of %" PRIu64 " bytes", m->copied);
	if (m->copied > 0 && dry_run)
		str_printf(out, ", for which the disk has %" PRIu64 "%s", m->room,
			   m->copied + DB_BEFORE_SPARE > m->room ? ": too few" : "");
	for (int step = m->from + 1; step <= m->to; step++)
		str_printf(out, "%s%s", step == m->from + 1 ? ", steps " : " ", db_schema_step(step));
	if (m->records > 0)
		str_printf(out, ", %" PRId64 " records into blocks", m->records);
	if (m->indexes > 0)
		str_printf(out, ", %u indexes of rows dropped", m->indexes);
	if (dry_run && m->seconds > 0)
		str_printf(out, ", in about %" PRId64 " s", m->seconds);
	if (*m->stuck)
		str_printf(out, "; not to its end: %s", m->stuck);
}

static int migrate(const char *store, struct migration *m, bool no_copy, const struct writer_offline_way *way,
		   struct err *err)
{
	struct writer_offline done = { 0 };
	int rc = m->from < m->to || m->begun ? setup_start_once(store, NULL, no_copy, err) : 0;

	if (rc < 0 || (m->records == 0 && m->indexes == 0))
		return rc;
	rc = fold_once(store, m, way, &done, err);
	if (rc == 1) {                          /* the server had died */
		rc = setup_start_once(store, NULL, no_copy, err);
		if (rc == 0)
			rc = fold_once(store, m, way, &done, err);
		if (rc == 1) {
			rc = err_set(err, ERR_BUSY, store, "the store was started by another program meanwhile");
			err_hint(err, "stop what opens it, then try again: it goes on");
		}
	}
	memcpy(m->stuck, done.stuck, sizeof(m->stuck));
	return rc;
}

static json_t *list_steps(const struct migration *m)
{
	json_t *steps = json_array();

	for (int step = m->from + 1; step <= m->to; step++)
		json_array_append_new(steps, json_string(db_schema_step(step)));
	return steps;
}

static void put_row(json_t *row, struct str *rows)
{
	jx_write(row, rows);
	str_putc(rows, '\n');
	json_decref(row);
}

static void put_migration(const struct migration *m, bool dry_run, struct str *rows)
{
	struct str said = STR_INIT;

	say_steps(m, dry_run, &said);
	put_row(json_pack("{s:{s:i, s:i, s:s, s:o, s:I, s:I, s:I, s:i, s:I}}", "row", "from", m->from, "to", m->to, "said",
			  str_text(&said), "steps", list_steps(m), "copy_bytes", (json_int_t)m->copied, "room",
			  (json_int_t)m->room, "records", (json_int_t)m->records, "indexes", (int)m->indexes, "seconds",
			  (json_int_t)m->seconds), rows);
	str_fini(&said);
}

/* The copy of steps that were cut off is all that there is of the store before. */
static int drop_copies(const char *store, const struct migration *m, bool dry_run, struct str *rows, struct err *err)
{
	char name[DB_BEFORE_NAME_SIZE], *said;
	uint64_t made_us;
	unsigned n = 0;
	int rc = 0;

	if (m->from < m->to) {
		(void)err_set(err, ERR_CONFLICT, store, "the store has still to go from schema %d to %d, and its copy is the way "
			      "back", m->from, m->to);
		err_hint(err, "toolcrib migrate");
		return ERR_CONFLICT;
	}
	if (dry_run)
		n = db_before_newest(store, name, &made_us);
	else
		rc = db_before_drop(store, DB_BEFORE_ALL, &n, err);
	if (rc < 0)
		return rc;
	said = n == 0 ? mem_strdup("nothing to do") : dry_run ? mem_printf("copies of before would be removed, up to %s", name)
		: mem_printf("%u %s of before removed", n, n == 1 ? "copy" : "copies");
	put_row(json_pack("{s:{s:i, s:i, s:s}}", "row", "from", m->from, "to", m->to, "said", said), rows);
	free(said);
	return 0;
}

int setup_migrate(const char *store, const struct setup_migrate_way *way, struct str *rows, struct err *err)
{
	struct bar bar = { 0 };
	const struct writer_offline_way told = { way->shown ? draw_bar : NULL, &bar };
	struct migration m;
	int rc = look_at(store, way, &m, err);

	if (rc == 0 && way->drop_copy)
		return drop_copies(store, &m, way->dry_run, rows, err);
	if (rc == 0 && !way->dry_run)
		rc = migrate(store, &m, way->no_copy, &told, err);
	if (bar.drawn_us)
		fputs("\r\x1b[K", stderr);
	if (rc == 0)
		put_migration(&m, way->dry_run, rows);
	return rc;
}
