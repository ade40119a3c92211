/* Sealing (bundle/seal.h): which records are next, the catalog, and what goes when a file counts.  The file itself is
 * made above (bundle/seal.c).  audit_seal_next(): any thread with a reader; else the writer's. */

#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "audit/checkpoint.h"
#include "audit/fold.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pack.h"
#include "base/path.h"
#include "base/text.h"
#include "bundle/seal.h"
#include "bundle/segment.h"
#include "db/db.h"
#include "forms/forms.h"
#include "segment/segment.h"

#include "bundle_int.h"

#define FILE_END FORMS_FILE_END
#define SECOND_US INT64_C(1000000)
#define ROOM_LEAST (INT64_C(1) << 20)   /* of texts, and of a file by itself */

/* --- which records */

struct bounds { int64_t sealed, blocks, row, noted, erasures; bool waits; };    /* row: INT64_MAX, there is none */

static int read_bounds(struct db *db, int64_t log, struct bounds *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_BOUNDS);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = (struct bounds){ .sealed = db_col_i64(st, 0), .blocks = db_col_i64(st, 1),
			.row = db_col_type(st, 2) == DB_NULL ? INT64_MAX : db_col_i64(st, 2), .noted = db_col_i64(st, 3),
			.erasures = db_col_i64(st, 4), .waits = db_col_i64(st, 5) };
	else if (rc == 0)
		rc = err_set(err, ERR_NOT_FOUND, "audit", "there is no log %" PRId64, log);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int64_t month_of(int64_t us)
{
	const time_t t = (time_t)(us / SECOND_US);
	struct tm tm;

	return gmtime_r(&t, &tm) ? (tm.tm_year + INT64_C(1900)) * 100 + tm.tm_mon + 1 : 0;
}

static int64_t end_of_month(int64_t us)
{
	const int64_t month = month_of(us);
	struct tm tm = { .tm_year = (int)(month / 100) - 1900, .tm_mon = (int)(month % 100), .tm_mday = 1 };

	return (int64_t)timegm(&tm) * SECOND_US;        /* month 12 is January */
}

static int time_at(struct db *db, int64_t log, int64_t idx, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_TIME_AT);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	else if (rc == 0)
		rc = err_set(err, ERR_CORRUPT, "audit", "record %" PRId64 " of log %" PRId64 " is missing", idx, log);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* The first record from <= idx < to of that time or later, or to. */
static int first_since(struct db *db, const struct audit_sealed *s, int64_t to, int64_t us, int64_t *ret,
		       struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_FIRST_SINCE);
	int rc;

	db_bind_i64(st, 1, s->log);
	db_bind_i64(st, 2, s->from);
	db_bind_i64(st, 3, to);
	db_bind_i64(st, 4, us);
	rc = db_step(st, err);
	if (rc >= 0)
		*ret = rc == 1 ? db_col_i64(st, 0) : to;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int64_t whole(int64_t idx)
{
	return idx - idx % SEGMENT_UNIT;
}

/* What is left of a month goes with the next one: a file ends with a tile (SC-105).  1; 0: its month is not over. */
static int find_end(struct db *db, struct audit_sealed *s, int64_t end, int64_t until_us, struct err *err)
{
	int64_t us = 0, next = s->from;
	int rc;

	do {
		rc = time_at(db, s->log, next, &us, err);
		if (rc < 0)
			return rc;
		us = end_of_month(us);
		if (us > until_us)
			return 0;
		rc = first_since(db, s, end, us, &next, err);
	} while (rc == 0 && next < end && whole(next) == s->from);
	s->to = whole(next);
	if (rc == 0)
		rc = time_at(db, s->log, s->to - 1, &us, err);
	s->month = month_of(us);
	return rc < 0 ? rc : 1;
}

int audit_seal_next(struct db *db, int64_t log, int64_t until_us, struct audit_sealed *ret, struct err *err)
{
	struct bounds b;
	int64_t end;
	int rc = read_bounds(db, log, &b, err);

	if (rc < 0)
		return rc;
	*ret = (struct audit_sealed){ .log = log, .from = b.sealed, .erasures = b.erasures };
	end = b.blocks < b.noted ? b.blocks : b.noted;
	end = whole(b.row < end ? b.row : end);
	if (end > b.sealed + SEGMENT_RECORDS_MAX)
		end = b.sealed + SEGMENT_RECORDS_MAX;
	if (b.waits || b.sealed % SEGMENT_UNIT != 0 || end <= b.sealed)
		return 0;
	rc = find_end(db, ret, end, until_us, err);
	if (rc == 1)
		(void)snprintf(ret->path, sizeof(ret->path), FORMS_FOLDER "/%" PRId64 "/%06" PRId64 "-%" PRId64 FILE_END, log,
			       ret->month, ret->from);
	return rc;
}

/* --- the catalog */

static int check_follows(struct db *db, const struct audit_sealed *s, struct err *err)
{
	struct bounds b;
	int rc = read_bounds(db, s->log, &b, err);

	if (rc == 0 && (b.sealed != s->from || b.blocks < s->to || b.row < s->to || b.erasures != s->erasures || b.waits))
		rc = err_set(err, ERR_CONFLICT, "", "a file of log %" PRId64 " was sealed of what has changed since", s->log);
	return rc;
}

static int put_row(struct db *db, const struct audit_sealed *s, int64_t set_by, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_PUT_FILE);
	const int64_t number[] = { s->log, s->from, s->to, s->month, s->ts_min, s->ts_max, s->bytes };

	for (unsigned i = 0; i < NELEMS(number); i++)
		db_bind_i64(st, 1 + i, number[i]);
	db_bind_blob(st, 8, s->digest, sizeof(s->digest));
	db_bind_blob(st, 9, s->root, sizeof(s->root));
	db_bind_i64(st, 10, set_by);
	db_bind_textz(st, 11, s->path);
	return db_run(&st, err);
}

struct whose { int64_t log, tenant_id; };

static int find_tenant(void *arg, const struct audit_log_view *log, struct err *err)
{
	struct whose *w = arg;

	(void)err;
	if (log->id == w->log)
		w->tenant_id = log->tenant_id;
	return 0;
}

/* In the log itself: whoever has it knows which files its records are in.  to: where it was moved; NULL: it is new. */
static int append_record(struct audit_logs *logs, struct db *db, const struct audit_sealed *s, const char *to,
			 struct audit_receipt *ret, struct err *err)
{
	uint8_t range[16];
	const struct audit_field field[] = {
		{ AUDIT_TAG_RANGE, range, sizeof(range) }, { AUDIT_TAG_BUNDLE, s->digest, sizeof(s->digest) },
		{ AUDIT_TAG_ROOT, s->root, sizeof(s->root) },
	};
	struct whose whose = { s->log, -1 };
	struct audit_event ev;
	int rc = audit_logs_each(logs, find_tenant, &whose, err);

	if (rc < 0)
		return rc;
	audit_event_init(&ev, to ? AUDIT_SEGMENT_MOVE : AUDIT_SEGMENT_SEAL, whose.tenant_id);
	audit_put_be(range, (uint64_t)s->from, 8);
	audit_put_be(range + 8, (uint64_t)s->to, 8);
	ev.actor = AUDIT_BY_SYSTEM;
	ev.detail = to;
	ev.field = field;
	ev.nfield = NELEMS(field);
	return audit_append(logs, db, &ev, ret, err);
}

/* Nothing was erased since it was read, or is to be; and the catalog has it where it was. */
static int check_still(struct db *db, const struct audit_sealed *s, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_FILE_AT);
	struct bounds b;
	bool still;
	int rc;

	db_bind_i64(st, 1, s->log);
	db_bind_i64(st, 2, s->from);
	rc = db_step(st, err);
	still = rc == 1 && strcmp(db_col_text(st, 0, NULL), s->path) == 0;
	db_stmt_put(&st);
	if (rc >= 0)
		rc = read_bounds(db, s->log, &b, err);
	if (rc == 0 && (!still || b.erasures != s->erasures || b.waits))
		rc = err_set(err, ERR_CONFLICT, s->path, "%s stays where it is: something of its log was erased or pruned "
			     "meanwhile, or is to be", s->path);
	return rc;
}

int audit_moved_put(struct audit_logs *logs, struct db *db, const struct audit_sealed *s, const char *to,
		    struct err *err)
{
	struct audit_receipt at;
	struct db_stmt *st;
	int rc = check_still(db, s, err);

	if (rc == 0)
		rc = append_record(logs, db, s, to, &at, err);
	if (rc < 0)
		return rc;
	st = db_stmt_get(db, SQL_SEAL_MOVED);
	db_bind_i64(st, 1, s->log);
	db_bind_i64(st, 2, s->from);
	db_bind_textz(st, 3, to);
	db_bind_i64(st, 4, at.idx);
	rc = db_run(&st, err);
	CRASH_AT("archive.noted");
	return rc;
}

int audit_seal_put(struct audit_logs *logs, struct db *db, const struct audit_sealed *sealed, struct err *err)
{
	struct audit_receipt at;
	int rc = check_follows(db, sealed, err);

	if (rc == 0)
		rc = append_record(logs, db, sealed, NULL, &at, err);
	if (rc == 0)
		rc = put_row(db, sealed, at.idx, err);
	if (rc == 0)
		rc = audit_fold_cut(db, sealed->log, sealed->to, err);
	return rc < 0 ? rc : audit_seal_put_chapters(db, sealed, err);
}

/* 1: *ret; 0: the log has no file. */
static int seal_line(struct db *db, int64_t log, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_LINE);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc;
}

static int drop_some(struct db *db, enum sql_id sql, int64_t log, int64_t line, int64_t most, bool *more,
		     struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, line);
	db_bind_i64(st, 3, most);
	rc = db_run(&st, err);
	if (rc == 0)
		*more = *more || db_changes(db) == most;
	return rc;
}

int audit_seal_drop(struct db *db, int64_t log, bool *ret_more, struct err *err)
{
	int64_t line = 0;
	int rc = seal_line(db, log, &line, err);

	*ret_more = false;
	if (rc != 1)
		return rc < 0 ? rc : 0;
	rc = drop_some(db, SQL_SEAL_DROP_BLOCKS, log, line, AUDIT_SEAL_BLOCKS, ret_more, err);
	return rc < 0 ? rc : drop_some(db, SQL_SEAL_DROP_GROUPS, log, line, AUDIT_SEAL_GROUPS, ret_more, err);
}

int audit_seal_left(struct db *db, int64_t log, bool *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_LEFT);
	int rc;

	db_bind_i64(st, 1, log);
	rc = db_step(st, err);
	if (rc >= 0)
		*ret = rc == 1 && db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int audit_seal_room(struct db *db, const struct audit_sealed *s, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_BYTES);
	int rc;

	db_bind_i64(st, 1, s->log);
	db_bind_i64(st, 2, s->from);
	db_bind_i64(st, 3, s->to);
	rc = db_step(st, err);
	if (rc == 1)
		*ret = 2 * db_col_i64(st, 0) + ROOM_LEAST;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* --- what the catalog says of a file */

static void take_digest(struct db_stmt *st, unsigned col, uint8_t ret[32])
{
	size_t len = 0;
	const void *p = db_col_blob(st, col, &len);

	memset(ret, 0, 32);
	if (len == 32)
		memcpy(ret, p, 32);
}

void audit_sealed_row(struct db_stmt *st, int64_t log, struct audit_sealed *ret)
{
	*ret = (struct audit_sealed){ .log = log, .from = db_col_i64(st, 0), .to = db_col_i64(st, 1),
		.ts_min = db_col_i64(st, 2), .ts_max = db_col_i64(st, 3), .bytes = db_col_i64(st, 4),
		.set_by = db_col_i64(st, 7), .moved_by = db_col_type(st, 9) == DB_INT ? db_col_i64(st, 9) : -1 };
	take_digest(st, 5, ret->digest);
	take_digest(st, 6, ret->root);
	db_col_copy(st, 8, ret->path, sizeof(ret->path));
}

bool audit_sealed_said(const struct audit_sealed *row, const void *ext, size_t len, bool moved)
{
	size_t range_len = 0, digest_len = 0, root_len = 0, at_len = 0;
	const uint8_t *range = audit_field_find(ext, len, AUDIT_TAG_RANGE, &range_len);
	const uint8_t *digest = audit_field_find(ext, len, AUDIT_TAG_BUNDLE, &digest_len);
	const uint8_t *root = audit_field_find(ext, len, AUDIT_TAG_ROOT, &root_len);
	const void *at = audit_field_find(ext, len, AUDIT_TAG_REASON, &at_len);

	return range && range_len == 16 && digest && digest_len == 32 && root && root_len == 32 &&
		audit_get_be(range, 8) == (uint64_t)row->from && audit_get_be(range + 8, 8) == (uint64_t)row->to &&
		memcmp(digest, row->digest, 32) == 0 && memcmp(root, row->root, 32) == 0 &&
		(!moved || (at && text_eq(at, at_len, row->path)));
}

/* --- files by themselves, and what the catalog says of each */

/* What was found in one waits until those before it have told theirs, so that it is the same with any number of
 * threads.  A thread reads by a connection of its own, the store's texts alone; what has to be as the reader of the
 * catalog sees it is asked by that one. */

enum { READERS_MAX = 32 };

struct kept { enum audit_finding_code code; int64_t from, to; bool gap; char *detail; };
struct check {
	enum { CHECK_WAITS, CHECK_RUNS, CHECK_DONE } state;
	struct audit_sealed listed, made;       /* made: its chapters, if it is whole */
	char *origin;
	int64_t end;
	bool known, absent, bad;        /* known: that it is what it was is enough */
	struct kept *found;
	size_t nfound, beyond;          /* beyond: so many more than there is room for */
	int rc;
	struct err err;
};
struct reader { struct audit_seal_checks *of; pthread_t thread; struct db *db; };
struct audit_seal_checks {
	struct db *db;
	const struct audit_seal_known *was;
	struct audit_seal_known *now;
	struct reader *reader;
	unsigned readers;
	pthread_mutex_t lock;           /* of states, head, tail, stop */
	pthread_cond_t todo, done;
	bool stop;
	struct check *ring;
	size_t size, head, tail;
};

/* --- those that are known */

static void row_digest(const struct audit_sealed *s, uint8_t ret[32])
{
	const int64_t all[] = { s->log, s->from, s->to, s->ts_min, s->ts_max, s->bytes };
	struct str row = STR_INIT;

	for (size_t i = 0; i < NELEMS(all); i++)
		pack_u64(&row, (uint64_t)all[i]);
	pack_bytes(&row, s->digest, sizeof(s->digest));
	pack_bytes(&row, s->root, sizeof(s->root));
	digest_sha256(row.p, row.len, ret);
	str_fini(&row);
}

static int by_place(const void *a, const void *b)
{
	const struct audit_seal_whole *x = a, *y = b;

	if (x->log != y->log)
		return x->log < y->log ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

static bool is_known(const struct audit_seal_known *was, const struct audit_sealed *s)
{
	const struct audit_seal_whole key = { .log = s->log, .from = s->from }, *found =
		was->n > 0 ? bsearch(&key, was->v, was->n, sizeof(key), by_place) : NULL;
	uint8_t row[32];

	if (!found)
		return false;
	row_digest(s, row);
	return memcmp(row, found->row, sizeof(row)) == 0;
}

static struct audit_seal_whole *add_known(struct audit_seal_known *k)
{
	if (k->n == k->cap) {
		k->cap = k->cap ? 2 * k->cap : 16;
		k->v = mem_realloc(k->v, k->cap * sizeof(*k->v));
	}
	return &k->v[k->n++];
}

static void note_known(struct audit_seal_known *k, const struct audit_sealed *s)
{
	struct audit_seal_whole one = { .log = s->log, .from = s->from };

	if (k->n > 0 && by_place(&k->v[k->n - 1], &one) >= 0)   /* a catalog that lists it twice */
		return;
	row_digest(s, one.row);
	*add_known(k) = one;
}

void audit_seal_known_save(const struct audit_seal_known *k, struct str *to)
{
	pack_u64(to, k->n);
	for (size_t i = 0; i < k->n; i++) {
		pack_u64(to, (uint64_t)k->v[i].log);
		pack_u64(to, (uint64_t)k->v[i].from);
		pack_bytes(to, k->v[i].row, sizeof(k->v[i].row));
	}
}

void audit_seal_known_load(struct audit_seal_known *k, struct unpack *in)
{
	for (size_t n = unpack_count(in, 48); n > 0 && !in->bad; n--) {
		struct audit_seal_whole *one = add_known(k);

		one->log = (int64_t)unpack_u64(in);
		one->from = (int64_t)unpack_u64(in);
		unpack_bytes(in, one->row, sizeof(one->row));
		in->bad |= k->n > 1 && by_place(one - 1, one) >= 0;
	}
}

void audit_seal_known_fini(struct audit_seal_known *k)
{
	free(k->v);
	*k = (struct audit_seal_known){ NULL, 0, 0 };
}

/* What is there is as large as its row says, and says of itself what it said. */
static bool is_as_it_was(const struct check *c, const char *path)
{
	const struct audit_sealed *s = &c->listed;
	const struct segment_info *info;
	struct segment *file = NULL;
	struct err ignored;
	struct stat st;
	uint8_t root[32];
	bool same;

	if (lstat(path, &st) != 0 || st.st_size != s->bytes || segment_open(path, &file, &ignored) < 0)
		return false;
	info = segment_info(file);
	tree_root(&info->after, root);
	same = strcmp(info->origin, c->origin) == 0 && info->from == s->from && info->to == s->to &&
		memcmp(root, s->root, sizeof(root)) == 0;
	segment_close(&file);
	return same;
}

/* --- reading one */

static void keep(struct check *c, enum audit_finding_code code, int64_t from, int64_t to, const char *what)
{
	if (c->nfound == AUDIT_SEAL_FOUND_MAX) {
		c->beyond++;
		return;
	}
	if (c->nfound % 16 == 0)
		c->found = mem_realloc(c->found, (c->nfound + 16) * sizeof(*c->found));
	c->found[c->nfound++] = (struct kept){ code, from, to, false, mem_printf("%s: %s", c->listed.path, what) };
}

static void keep_all(struct check *c, enum audit_finding_code code, const char *what)
{
	keep(c, code, c->listed.from, c->listed.to - 1, what);
}

/* Whose keys have signed, the store says. */
static void found_in(void *arg, const struct audit_finding *f)
{
	struct check *c = arg;

	if (!audit_finding_bad(f->code) || f->gap)
		return;
	keep(c, f->code, f->from, f->to, f->detail ? f->detail : "it is damaged");
	c->bad = true;
}

/* Chapters stand in the store, with ids of its texts, which has each that the file has. */
static void take_chapters(struct check *c, int rc, const struct err *why)
{
	c->rc = rc;
	c->err = *why;
	if (rc == ERR_CORRUPT) {
		keep_all(c, AUDIT_FINDING_DICT, why->msg);
		c->bad = true;
		c->rc = 0;
	}
}

static void check_whole(struct check *c, struct db *db, const char *path)
{
	const struct audit_sealed *s = &c->listed;
	struct bundle_chapters *chapters = bundle_chapters_new(db, path, &c->made);
	struct audit_coverage sum;
	struct audit_segment made;
	struct err why = { 0 }, uncounted = { 0 };
	int rc, counted;

	c->made = (struct audit_sealed){ .log = s->log, .from = s->from, .to = s->to };
	rc = bundle_segment_verify(path, NULL, chapters, found_in, c, &made, &sum, &why);
	counted = bundle_chapters_end(&chapters, &uncounted);
	if (rc == 0 && !c->bad && made.whole && strcmp(made.origin, c->origin) == 0 &&
	    made.from == s->from && made.to == s->to && memcmp(made.digest, s->digest, sizeof(s->digest)) == 0 &&
	    memcmp(made.root, s->root, sizeof(s->root)) == 0) {
		take_chapters(c, counted, &uncounted);
		return;
	}
	if (!c->bad)
		keep_all(c, AUDIT_FINDING_SEGMENT, rc < 0 ? why.msg : "it is another file than the catalog says");
	c->bad = true;
}

static void read_file(struct check *c, struct db *db)
{
	char *path = db_beside(db, c->listed.path);

	if (!forms_is_name(c->listed.path, c->listed.log, c->listed.from)) {
		keep_all(c, AUDIT_FINDING_SEGMENT, "no sealed file of these records is called so");
		c->bad = true;
	} else if (!path_exists(path)) {
		c->absent = c->bad = true;
	} else if (!c->known || !is_as_it_was(c, path)) {
		c->known = false;
		check_whole(c, db, path);
	}
	free(path);
}

/* Also while its log cannot be read to its end, a record has to say that it is elsewhere. */
static bool was_moved(struct db *db, const struct audit_sealed *row)
{
	struct db_stmt *st;
	struct err ignored;
	bool moved = false;

	if (!forms_is_archived(row->path) || row->moved_by < 0)
		return false;
	st = db_stmt_get(db, SQL_ROWS_GET_RECORD);
	db_bind_i64(st, 1, row->log);
	db_bind_i64(st, 2, row->moved_by);
	if (db_step(st, &ignored) == 1 && db_col_i64(st, 0) == AUDIT_SEGMENT_MOVE) {
		size_t len = 0;
		const void *ext = db_col_blob(st, 1, &len);

		moved = audit_sealed_said(row, ext, len, true);
	}
	db_stmt_put(&st);
	return moved;
}

/* What the reader of the catalog has to say of it. */
static int compare(struct check *c, struct db *db, struct err *err)
{
	bool same = false;
	int rc;

	if (c->absent) {
		keep_all(c, AUDIT_FINDING_SEGMENT_MISSING, "it is not here");
		c->found[c->nfound - 1].gap = was_moved(db, &c->listed);
	}
	if (c->bad || c->known)         /* its chapters were looked at with it */
		return 0;
	rc = audit_seal_chapters_same(db, &c->made, &same, err);
	if (rc == 0 && !same)
		keep_all(c, AUDIT_FINDING_INDEX, "its chapters are not what its records come to");
	if (rc == 0 && (c->made.ts_min != c->listed.ts_min || c->made.ts_max != c->listed.ts_max))
		keep_all(c, AUDIT_FINDING_INDEX, "its records have other times than the catalog says");
	return rc;
}

static void tell(struct check *c, audit_found_fn *found, void *arg)
{
	if (c->beyond > 0) {
		struct kept *last = &c->found[c->nfound - 1];

		free(last->detail);
		*last = (struct kept){ AUDIT_FINDING_SEGMENT, c->listed.from, c->listed.to - 1, false,
			mem_printf("%s: so much is wrong with it that %zu findings more are not told", c->listed.path,
				   c->beyond + 1) };
	}
	for (size_t i = 0; i < c->nfound; i++) {
		const struct kept *k = &c->found[i];

		found(arg, &(struct audit_finding){ .code = k->code, .origin = c->origin, .from = k->from, .to = k->to,
			.gap = k->gap, .detail = k->detail });
	}
}

static void check_clear(struct check *c)
{
	audit_sealed_fini(&c->made);
	for (size_t i = 0; i < c->nfound; i++)
		free(c->found[i].detail);
	free(c->found);
	free(c->origin);
	*c = (struct check){ .state = CHECK_WAITS };
}

/* --- reading them side by side */

/* The first that nobody has taken; the lock is held. */
static struct check *take(struct audit_seal_checks *s)
{
	for (size_t i = s->head; i != s->tail; i++) {
		struct check *c = &s->ring[i % s->size];

		if (c->state == CHECK_WAITS) {
			c->state = CHECK_RUNS;
			return c;
		}
	}
	return NULL;
}

/* One that waits is read, without the lock; else somebody is waited for. */
static void go_on(struct audit_seal_checks *s, struct db *db, pthread_cond_t *for_what)
{
	struct check *c = take(s);

	if (!c) {
		pthread_cond_wait(for_what, &s->lock);
		return;
	}
	pthread_mutex_unlock(&s->lock);
	read_file(c, db);
	pthread_mutex_lock(&s->lock);
	c->state = CHECK_DONE;
	pthread_cond_signal(&s->done);
}

static void *reader_main(void *arg)
{
	struct reader *r = arg;

	pthread_mutex_lock(&r->of->lock);
	while (!r->of->stop)
		go_on(r->of, r->db, &r->of->todo);
	pthread_mutex_unlock(&r->of->lock);
	return NULL;
}

/* Signals are the first thread's. */
static bool start(struct reader *r)
{
	sigset_t all, before;
	bool started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&r->thread, NULL, reader_main, r) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

struct audit_seal_checks *audit_seal_checks_new(struct db *db, unsigned threads, const struct audit_seal_known *was,
						struct audit_seal_known *now)
{
	struct audit_seal_checks *s = mem_zalloc(sizeof(*s));
	struct err ignored;

	threads = threads == 0 ? 1 : threads > READERS_MAX ? READERS_MAX : threads;
	s->db = db;
	s->was = was;
	s->now = now;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->todo, NULL);
	pthread_cond_init(&s->done, NULL);
	s->size = threads + 1;          /* each has one, and one waits to be told */
	s->ring = mem_calloc(s->size, sizeof(*s->ring));
	s->reader = mem_calloc(threads, sizeof(*s->reader));
	while (s->readers + 1 < threads) {
		struct reader *r = &s->reader[s->readers];

		r->of = s;
		if (db_open_beside(db, &r->db, &ignored) < 0)
			break;
		if (!start(r)) {
			db_close(&r->db);
			break;
		}
		s->readers++;
	}
	return s;
}

void audit_seal_checks_free(struct audit_seal_checks **checks)
{
	struct audit_seal_checks *s = *checks;

	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->todo);
	pthread_mutex_unlock(&s->lock);
	for (unsigned i = 0; i < s->readers; i++) {
		pthread_join(s->reader[i].thread, NULL);
		db_close(&s->reader[i].db);
	}
	for (; s->head != s->tail; s->head++)
		check_clear(&s->ring[s->head % s->size]);
	pthread_cond_destroy(&s->todo);
	pthread_cond_destroy(&s->done);
	pthread_mutex_destroy(&s->lock);
	free(s->reader);
	free(s->ring);
	free(s);
	*checks = NULL;
}

bool audit_seal_checks_full(const struct audit_seal_checks *s)
{
	return s->tail - s->head == s->size;
}

void audit_seal_checks_put(struct audit_seal_checks *s, const char *origin, const struct audit_sealed *listed,
			   int64_t end, bool again)
{
	const bool known = !again && is_known(s->was, listed);
	struct check *c = &s->ring[s->tail % s->size];

	pthread_mutex_lock(&s->lock);
	*c = (struct check){ .listed = *listed, .origin = mem_strdup(origin), .end = end, .known = known };
	s->tail++;
	pthread_cond_signal(&s->todo);
	pthread_mutex_unlock(&s->lock);
}

int audit_seal_checks_next(struct audit_seal_checks *s, audit_found_fn *found, void *arg,
			   struct audit_seal_checked *ret, struct err *err)
{
	struct check *c = &s->ring[s->head % s->size];
	int rc;

	if (s->head == s->tail)
		return 0;
	pthread_mutex_lock(&s->lock);
	while (c->state != CHECK_DONE)
		go_on(s, s->db, &s->done);
	pthread_mutex_unlock(&s->lock);
	ret->follows = c->listed.from == c->end && c->listed.to > c->listed.from;
	if (!ret->follows)
		found(arg, &(struct audit_finding){ .code = AUDIT_FINDING_SEGMENT, .origin = c->origin,
			.from = c->listed.from, .to = c->listed.to - 1,
			.detail = "a file does not begin where the one before it ends" });
	rc = c->rc < 0 ? c->rc : compare(c, s->db, err);
	if (c->rc < 0)
		*err = c->err;
	if (rc == 0 && c->nfound == 0)
		note_known(s->now, &c->listed);
	tell(c, found, arg);
	ret->log = c->listed.log;
	ret->whole = rc == 0 && !c->bad;
	ret->archived = forms_is_archived(c->listed.path);
	pthread_mutex_lock(&s->lock);   /* which nobody takes again, cleared */
	check_clear(c);
	s->head++;
	pthread_mutex_unlock(&s->lock);
	return rc < 0 ? rc : 1;
}

/* --- a start */

int audit_seal_listed(struct db *db, const char *path, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_LISTED);
	int rc;

	db_bind_textz(st, 1, path);
	rc = db_step(st, err);
	db_stmt_put(&st);
	return rc;
}

/* 1: the catalog has it; as a rule where its name says. */
static int is_listed(struct db *db, int64_t log, int64_t first, const char *name, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_FILE_AT);
	char path[AUDIT_SEAL_PATH_MAX];
	int rc = snprintf(path, sizeof(path), FORMS_FOLDER "/%" PRId64 "/%s", log, name);

	if (rc < 0 || rc >= (int)sizeof(path)) {
		db_stmt_put(&st);
		return 0;
	}
	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, first);
	rc = db_step(st, err);
	if (rc == 1)
		rc = strcmp(db_col_text(st, 0, NULL), path) == 0;
	db_stmt_put(&st);
	return rc == 0 ? audit_seal_listed(db, path, err) : rc;
}

/* The file of a log with this name is listed in an archive that does not have it, or has another one. */
static bool archive_lacks(struct db *db, int64_t log, int64_t first, const char *name)
{
	struct db_stmt *st = db_stmt_get(db, SQL_SEAL_FILE_AT);
	struct err ignored;
	struct stat is;
	bool lacks = false;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, first);
	if (db_step(st, &ignored) == 1) {
		const char *path = db_col_text(st, 0, NULL);

		lacks = forms_is_archived(path) && forms_is_name(path, log, first) &&
			strcmp(strrchr(path, '/') + 1, name) == 0 &&
			(lstat(path, &is) != 0 || !S_ISREG(is.st_mode) || is.st_size != db_col_i64(st, 1));
	}
	db_stmt_put(&st);
	return lacks;
}

static int sweep_file(struct db *db, int64_t log, const char *dir, const char *name, size_t *n, struct err *err)
{
	bool tmp = false;
	const int64_t first = forms_name_first(name, &tmp);
	char *path;
	int rc = first < 0 ? 1 : tmp ? 0 : is_listed(db, log, first, name, err);

	if (rc != 0)
		return rc < 0 ? rc : 0;
	path = path_join(dir, name);
	if (!tmp && archive_lacks(db, log, first, name)) {
		log_warn(NULL, "the original of a sealed file stays: its archive is not here, or has lost it file=%s", path);
	} else if (unlink(path) == 0) {
		log_warn(NULL, "removed a sealed file that is in no catalog: its records are in blocks, or were pruned file=%s",
			 path);
		++*n;
	} else {
		rc = err_set(err, ERR_IO, path, "it cannot be removed: %s", strerror(errno));
	}
	free(path);
	return rc;
}

/* What a link leads to is not ours.  NULL: there is none. */
static DIR *open_folder(const char *path)
{
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (fd >= 0 && !d)
		close(fd);
	return d;
}

static int sweep_log(struct db *db, int64_t log, const char *dir, size_t *n, struct err *err)
{
	DIR *d = open_folder(dir);
	const struct dirent *e;
	int rc = 0;

	while (d && rc == 0 && (e = readdir(d)))
		rc = sweep_file(db, log, dir, e->d_name, n, err);
	if (d)
		closedir(d);
	return rc;
}

int audit_seal_sweep(struct db *db, const char *store, size_t *ret_n, struct err *err)
{
	char *folder = path_join(store, FORMS_FOLDER), *attach;
	const struct dirent *e;
	DIR *d;
	int rc = 0;

	*ret_n = 0;
	attach = db_beside(db, AUDIT_ATTACH_TMP);
	path_unmake(attach);
	free(attach);
	if (mkdir(folder, 0700) != 0 && errno != EEXIST)
		rc = err_set(err, ERR_IO, folder, "it cannot be made: %s", strerror(errno));
	d = open_folder(folder);
	while (d && rc == 0 && (e = readdir(d))) {
		char *dir;
		int64_t log = 0;

		if (text_i64(e->d_name, strlen(e->d_name), &log) < 0 || log < 1)
			continue;
		dir = path_join(folder, e->d_name);
		rc = sweep_log(db, log, dir, ret_n, err);
		free(dir);
	}
	if (d)
		closedir(d);
	free(folder);
	return rc;
}
