/* toolcrib store move: a stopped store from its folder into a database of PostgreSQL, or back (CLUSTER 15).  Records
 * come out of blocks and sealed files on the way; each log's tree is counted from their leaves, and has to come to the
 * head that the source has.  Main thread. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "db/move.h"
#include "db/owner.h"
#include "db/server.h"
#include "forms/forms.h"
#include "json/json.h"
#include "setup/setup.h"
#include "tlog/tree.h"

#ifdef HAVE_PGSQL

#define MOVED ".moved"                  /* behind the name of a file whose store is elsewhere now */
#define UNFINISHED ".moving"
#define BAR_US 200000

/* Parents first. */
static const char *const tables[] = { "meta", "tenant", "system", "principal", "cred", "tool", "tool_version",
	"tool_grant", "tool_level", "pending_version", "upstream", "upstream_tool", "shared_schema", "tool_schema",
	"schema_schema", "secret", "approval", "log", "head", "dict", "rec", "pay", "hold", "epoch", "cp",
	"anchor", "tile", "retention", "deed", "alias",
	"row_gone", "limit_row", "usage_day", "alert", "alert_silence", "alert_place", "sink", "sink_cursor", "sink_rejected",
	"alert_out", "baseline", "baseline_tool", "inventory", "succession", "task", "assent", "assent_vote", "assent_event",
	NULL };
static const char *const keys_tables[] = { "kek", "dek", "erased", NULL };

/* A log, while its records go by. */
struct log {
	int64_t id, next, head;         /* next: the index that has to come; head: what the source's head covers */
	char *origin;
	struct tree tree;
	uint8_t root[TREE_HASH];        /* of that */
	bool has_root, wrong;
};
struct logs {
	struct map *by_id;
	struct log *v;
	size_t n;
	const struct setup_move_way *way;
	int64_t done, size;             /* size: of all heads together */
	uint64_t begun_us, drawn_us;
};

static int run(struct db *db, enum sql_id sql, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);

	return db_run(&st, err);
}

static void free_logs(struct logs *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].origin);
	free(l->v);
	map_free(&l->by_id);
}

/* What is pruned is in the head alone: a log that begins later is counted from there. */
static int add_log(struct logs *l, struct db_stmt *st, struct err *err)
{
	size_t root_len, len;
	const void *root = db_col_blob(st, 4, &root_len), *frontier = db_col_blob(st, 5, &len);
	struct log *one;

	l->v = mem_realloc(l->v, (l->n + 1) * sizeof(*l->v));
	one = &l->v[l->n++];
	*one = (struct log){ .id = db_col_i64(st, 0), .next = db_col_i64(st, 2), .head = db_col_i64(st, 3),
		.origin = db_col_dup(st, 1), .has_root = root_len == TREE_HASH && db_col_i64(st, 3) > 0 };
	if (one->has_root)
		memcpy(one->root, root, TREE_HASH);
	if (one->next > 0 && !tree_load(&one->tree, one->head, frontier, len))
		return err_set(err, ERR_CORRUPT, one->origin, "its head cannot be read");
	return 0;
}

static int read_logs(struct logs *l, struct db *from, struct err *err)
{
	struct db_stmt *st = db_stmt_get(from, SQL_MOVE_HEADS);
	int rc;

	l->by_id = map_new();
	while ((rc = db_step(st, err)) == 1 && (rc = add_log(l, st, err)) == 0)
		;
	db_stmt_put(&st);
	for (size_t i = 0; i < l->n; i++)
		map_set_u64(l->by_id, (uint64_t)l->v[i].id, &l->v[i]);
	return rc;
}

static void draw(struct logs *l)
{
	const uint64_t now_us = clock_mono_us();

	if (!l->way->shown || now_us - l->drawn_us < BAR_US)
		return;
	l->drawn_us = now_us;
	fprintf(stderr, "\r\x1b[Kstore move  %" PRId64 " records, %.0f/s", l->done,
		(double)l->done * 1e6 / (double)(now_us - l->begun_us + 1));
	fflush(stderr);
}

static void take_record(void *arg, int64_t log, int64_t idx, const void *leaf, size_t len)
{
	struct logs *l = arg;
	struct log *one = map_get_u64(l->by_id, (uint64_t)log);
	uint8_t root[TREE_HASH];

	l->done++;
	draw(l);
	if (!one || idx != one->next || len != TREE_HASH) {
		if (one)
			one->wrong = true;
		return;
	}
	one->next++;
	if (idx < (int64_t)one->tree.size)      /* its head covers it */
		return;
	tree_append(&one->tree, leaf);
	if (!one->has_root || (int64_t)one->tree.size != one->head)
		return;
	tree_root(&one->tree, root);
	one->wrong = one->wrong || memcmp(root, one->root, TREE_HASH) != 0;
}

static int put_head(struct db *to, const struct log *one, const uint8_t root[TREE_HASH], struct err *err)
{
	struct db_stmt *st = db_stmt_get(to, SQL_MOVE_HEAD);

	db_bind_i64(st, 1, one->id);
	db_bind_i64(st, 2, one->next);
	db_bind_blob(st, 3, root, TREE_HASH);
	db_bind_blob(st, 4, one->tree.peak, tree_peaks(one->tree.size) * TREE_HASH);
	return db_run(&st, err);
}

/* The target's heads are those that its records come to; the source's may be older. */
static int put_heads(struct logs *l, struct db *to, struct str *rows, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < l->n && rc == 0; i++) {
		struct log *one = &l->v[i];
		uint8_t root[TREE_HASH];
		char hex[2 * TREE_HASH + 1];

		tree_root(&one->tree, root);
		if (one->wrong || (int64_t)one->tree.size != one->next || one->head > one->next)
			return err_set(err, ERR_CORRUPT, one->origin, "its records are not those that its head covers: "
				       "toolcrib-verify says what is wrong; nothing was moved");
		if (one->tree.size > 0)
			rc = put_head(to, one, root, err);
		l->size += one->next;
		text_hex(root, sizeof(root), hex);
		str_puts(rows, "{\"row\":{\"log\":");
		jx_write_stringz(rows, one->origin);
		str_printf(rows, ",\"records\":%" PRId64 ",\"root\":\"%s\"}}\n", one->next, hex);
	}
	return rc;
}

/* Partitions come before their rows.  Those of clocks that were years off are in the one of all others. */
static int make_months(struct db *from, struct db *to, struct err *err)
{
	enum { MONTHS_MAX = 600 };
	const int64_t step = INT64_C(28) * 86400000000, latest = (int64_t)clock_wall_us() + 3 * step;
	struct db_stmt *st = db_stmt_get(from, SQL_MOVE_SPAN);
	int64_t lo = 0, hi = 0;
	int rc = db_step(st, err);

	if (rc == 1) {
		lo = db_col_i64(st, 0);
		hi = db_col_i64(st, 1);
	}
	db_stmt_put(&st);
	if (rc < 0)
		return rc;
	hi = hi < latest ? hi : latest;
	lo = lo > hi - MONTHS_MAX * step ? lo : hi - MONTHS_MAX * step;
	st = db_stmt_get(to, SQL_MOVE_MONTHS);
	db_bind_i64(st, 1, hi);
	db_bind_i64(st, 2, lo);
	db_bind_i64(st, 3, hi + step - 1);
	db_bind_i64(st, 4, step);
	rc = db_step(st, err);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int move_store(struct db *from, struct db *to, const struct setup_move_way *way, struct str *rows,
		      int64_t *ret_size, struct err *err)
{
	struct db_move m = { .from = from, .to = to, .tables = tables };
	struct logs l = { .way = way, .begun_us = clock_mono_us() };
	int rc = db_move_begin(&m, err);

	if (rc < 0)
		return rc;
	rc = read_logs(&l, from, err);
	if (rc == 0 && way->to)
		rc = make_months(from, to, err);
	for (const char *const *t = tables; rc == 0 && *t; t++) {
		const bool records = strcmp(*t, "rec") == 0;

		rc = db_move_table(&m, *t, records ? take_record : NULL, &l, err);
	}
	if (rc == 0)
		rc = put_heads(&l, to, rows, err);
	if (rc == 0)
		rc = run(to, way->to ? SQL_MOVE_DONE : SQL_MOVE_SPANS, err);
	rc = db_move_end(&m, rc, err);
	if (l.drawn_us)
		fputs("\r\x1b[K", stderr);
	*ret_size = l.size;
	free_logs(&l);
	return rc;
}

static int move_keys(struct db *from, struct db *to, struct err *err)
{
	struct db_move m = { .from = from, .to = to, .tables = keys_tables, .keys = true };
	int rc = db_move_begin(&m, err);

	if (rc < 0)
		return rc;
	for (const char *const *t = keys_tables; rc == 0 && *t; t++)
		rc = db_move_table(&m, *t, NULL, NULL, err);
	return db_move_end(&m, rc, err);
}

/* --- the database */

static int number(struct db *db, enum sql_id sql, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);
	int rc = db_step(st, err);

	*ret = rc == 1 ? db_col_i64(st, 0) : 0;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

struct there { bool schema, marked; };  /* marked: a store that is unfinished, or has left */

static int look_there(struct db *to, struct there *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(to, SQL_MOVE_THERE);
	int64_t marked = 0;
	int rc = db_step(st, err);
	const bool meta = rc == 1 && db_col_i64(st, 1);

	*ret = (struct there){ .schema = rc == 1 && db_col_i64(st, 0) };
	db_stmt_put(&st);
	if (rc == 1)
		rc = meta ? number(to, SQL_MOVE_MARKED, &marked, err) : 0;
	ret->marked = marked != 0;
	return rc;
}

/* What an earlier one has left is thrown away where it may be.  A database of keys is marked as its store is. */
static int make_room(struct db *to, const struct there *is, const struct there *store, bool again, struct err *err)
{
	if (!is->schema)
		return 0;
	if (!is->marked && !store->marked) {
		(void)err_set(err, ERR_CONFLICT, "database", "it is not empty: something is in its schema toolcrib");
		err_hint(err, "give a database that was just made, or see what is there and DROP SCHEMA toolcrib CASCADE");
		return ERR_CONFLICT;
	}
	if (!again) {
		(void)err_set(err, ERR_CONFLICT, "database", "a store that was moved into it is unfinished, or has left it");
		err_hint(err, "--again throws away what is there and begins anew");
		return ERR_CONFLICT;
	}
	return run(to, SQL_MOVE_DROP, err);
}

static int is_idle(struct db *from, struct err *err)
{
	struct db_stmt *st = db_stmt_get(from, SQL_MOVE_IDLE);
	int rc = db_step(st, err);

	if (rc == 1) {
		rc = err_set(err, ERR_BUSY, "database", "server %s writes into it", db_col_text(st, 0, NULL));
		err_hint(err, "stop every server of the store first, or make a copy of it: --copy");
	}
	db_stmt_put(&st);
	return rc;
}

/* No server serves it from then on, and none that did writes into it.  records: what the sizes of all heads come to in
 * what was moved. */
static int leave(struct db *from, int64_t records, struct err *err)
{
	int64_t now = 0;
	int rc = db_txn_begin(from, true, err);

	if (rc < 0)
		return rc;
	rc = run(from, SQL_MOVE_LOCK, err);
	rc = rc < 0 ? rc : run(from, SQL_MOVE_FENCE, err);
	rc = rc < 0 ? rc : number(from, SQL_MOVE_SIZES, &now, err);
	if (rc == 0 && now != records) {
		rc = err_set(err, ERR_BUSY, "database", "a server or a command has written into it meanwhile");
		err_hint(err, "stop them, and move it again");
	}
	return db_txn_end(from, rc < 0 ? rc : db_meta_set(from, "moving", "away", err), err);
}

/* --- the two ends */

/* As who owns the tables, or as who serves. */
static int open_server(const struct setup_move_way *way, bool keys, bool owner, enum db_mode mode, struct db **ret,
		       struct err *err)
{
	const char *url = way->to ? way->to : way->from;
	const struct db_server at = { .url = keys && way->keys ? way->keys : url, .beside = keys && !way->keys,
		.owner = owner, .user = owner ? way->owner : NULL, .require_standby = owner && !way->no_standby };

	return db_open_server(&at, mode, ret, err);
}

/* What a crash has left in the log comes into the file, which then is all there is. */
static int settle(const char *file, struct err *err)
{
	struct db *db = NULL;
	int rc = db_open(file, DB_WRITER, false, &db, err);

	db_close(&db);
	return rc;
}

/* What readers leave beside a file whose name is another's now, and what is unfinished. */
static void remove_beside(const char *file, const char *name, bool itself)
{
	static const char *const ends[] = { "-wal", "-shm", "" };

	for (size_t i = 0; i < (itself ? 3 : 2); i++) {
		char *path = mem_printf("%s%s%s", file, name, ends[i]);

		(void)unlink(path);
		free(path);
	}
}

static int rename_file(const char *file, const char *from, const char *to, struct err *err)
{
	char *was = mem_printf("%s%s", file, from), *is = mem_printf("%s%s", file, to);
	int rc = rename(was, is) == 0 ? 0 : err_set(err, ERR_IO, was, "cannot be renamed: %s", strerror(errno));

	if (rc == 0)
		remove_beside(file, from, false);
	free(was);
	free(is);
	return rc;
}

struct ends { struct db *from, *to, *keys_from, *keys_to; char *file, *keys; };

static void close_ends(struct ends *e)
{
	db_close(&e->from);
	db_close(&e->to);
	db_close(&e->keys_from);
	db_close(&e->keys_to);
}

static int into_server(const char *store, const struct setup_move_way *way, struct ends *e, struct str *rows,
		       struct err *err)
{
	const struct db_served at = { way->to, way->keys, !way->no_standby };
	struct there is, keys;
	int64_t size;
	int rc = settle(e->file, err);

	rc = rc < 0 ? rc : settle(e->keys, err);
	rc = rc < 0 ? rc : forms_open_store(db_in(store), &e->from, err);
	rc = rc < 0 ? rc : db_check_schema(e->from, err);
	rc = rc < 0 ? rc : db_open(e->keys, DB_READER, false, &e->keys_from, err);
	rc = rc < 0 ? rc : open_server(way, true, true, DB_WRITER, &e->keys_to, err);
	rc = rc < 0 ? rc : open_server(way, false, true, DB_WRITER, &e->to, err);
	rc = rc < 0 ? rc : look_there(e->to, &is, err);
	rc = rc < 0 ? rc : look_there(e->keys_to, &keys, err);
	rc = rc < 0 ? rc : make_room(e->to, &is, &is, way->again, err);
	rc = rc < 0 ? rc : make_room(e->keys_to, &keys, &is, way->again, err);
	rc = rc < 0 ? rc : move_keys(e->keys_from, e->keys_to, err);
	rc = rc < 0 ? rc : move_store(e->from, e->to, way, rows, &size, err);
	rc = rc < 0 ? rc : run(e->keys_to, SQL_MOVE_DONE, err);
	close_ends(e);
	rc = rc < 0 ? rc : rename_file(e->file, "", MOVED, err);
	rc = rc < 0 ? rc : rename_file(e->keys, "", MOVED, err);
	return rc < 0 ? rc : db_serve(store, &at, err);         /* programs that read no configuration find it */
}

/* All of it is as it is at one moment: keys are read behind it, so that no record is without its own. */
static int copy_out(const struct setup_move_way *way, struct ends *e, struct str *rows, int64_t *ret_size,
		    struct err *err)
{
	char *file = mem_printf("%s" UNFINISHED, e->file), *keys = mem_printf("%s" UNFINISHED, e->keys);
	int version, rc = open_server(way, false, false, DB_READER, &e->from, err);

	rc = rc < 0 ? rc : db_txn_begin(e->from, false, err);
	rc = rc < 0 ? rc : db_check_version(e->from, &version, err);
	if (rc == 0 && !way->copy)
		rc = is_idle(e->from, err);
	rc = rc < 0 ? rc : open_server(way, true, false, DB_READER, &e->keys_from, err);
	rc = rc < 0 ? rc : db_migrate_keys(e->keys_from, err);  /* looks alone */
	rc = rc < 0 ? rc : db_open(file, DB_WRITER, true, &e->to, err);
	rc = rc < 0 ? rc : db_open(keys, DB_WRITER, true, &e->keys_to, err);
	rc = rc < 0 ? rc : move_keys(e->keys_from, e->keys_to, err);
	rc = rc < 0 ? rc : move_store(e->from, e->to, way, rows, ret_size, err);
	close_ends(e);
	free(file);
	free(keys);
	return rc;
}

static void drop_unfinished(const struct ends *e)
{
	remove_beside(e->file, UNFINISHED, true);
	remove_beside(e->keys, UNFINISHED, true);
}

static int out_of_server(const char *store, const struct setup_move_way *way, struct ends *e, struct str *rows,
			 struct err *err)
{
	char *served = path_join(store, DB_SERVED);
	int64_t size = 0;
	int rc = 0;

	if (path_exists(e->file) || (way->copy && path_exists(served))) {
		rc = err_set(err, ERR_CONFLICT, store, "there is a store already");
		err_hint(err, way->copy ? "give another folder with --store" :
			 "give a folder with the store's key files and no " DB_FILE);
	}
	if (rc == 0)
		drop_unfinished(e);
	rc = rc < 0 ? rc : copy_out(way, e, rows, &size, err);
	if (rc == 0 && !way->copy) {            /* who still knows its address must not serve it beside this one */
		rc = open_server(way, false, false, DB_WRITER, &e->from, err);
		rc = rc < 0 ? rc : leave(e->from, size, err);
		close_ends(e);
	}
	if (rc < 0)
		drop_unfinished(e);             /* from here on they are the store, whatever their names */
	rc = rc < 0 ? rc : rename_file(e->keys, UNFINISHED, "", err);
	rc = rc < 0 ? rc : rename_file(e->file, UNFINISHED, "", err);
	if (rc == 0 && !way->copy && unlink(served) < 0 && errno != ENOENT)
		rc = err_set(err, ERR_IO, served, "cannot be removed: %s", strerror(errno));
	free(served);
	return rc;
}

static int check_way(const struct setup_move_way *way, struct err *err)
{
	if (!way->to == !way->from)
		return err_set(err, ERR_INVALID, "to", "say --to, or --from");
	if (way->copy && way->to)
		return err_set(err, ERR_INVALID, "copy", "--copy goes with --from: toolcrib backup copies a store in files");
	return 0;
}

int setup_move(const char *store, const struct setup_move_way *way, struct str *rows, struct err *err)
{
	struct db_owner *owner = NULL;
	struct db_card card;
	struct ends e = { .file = path_join(store, DB_FILE), .keys = path_join(store, DB_KEYS) };
	int rc = check_way(way, err);

	if (rc == 0 && way->from)
		rc = path_mkdirs(store, 0700, err);
	rc = rc < 0 ? rc : db_owner_take(store, &owner, &card, err);
	if (rc == 1) {
		rc = err_set(err, ERR_BUSY, store, "process %" PRId64 " holds the store", card.pid);
		err_hint(err, "stop the server first");
	}
	if (rc == 0)
		rc = way->to ? into_server(store, way, &e, rows, err) : out_of_server(store, way, &e, rows, err);
	close_ends(&e);
	db_owner_drop(&owner);
	free(e.file);
	free(e.keys);
	return rc;
}

#else

int setup_move(const char *store, const struct setup_move_way *way, struct str *rows, struct err *err)
{
	return err_set(err, ERR_UNREACHABLE, "database", "this build knows no PostgreSQL");
}

#endif
