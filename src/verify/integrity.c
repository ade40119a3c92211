/* The file as a whole: is the schema the release's own, is the file sound, does each index of rec hold what the table
 * says (AUDIT A-635), has each tenant its log.  The indexes are looked at beside the reading of records, by a thread
 * with a connection of its own. */

#include "config.h"

#include <endian.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/text.h"
#include "db/db.h"
#include "db/server.h"
#include "forms/forms.h"

#include "verify_int.h"

/* --- indexes against the table */

/* SQLite's integrity_check looks each row up in each index, which takes half of a verification.  Here the table
 * and each index are read once, in their order, and compared by sums: SipHash of each entry under a key drawn for
 * this run, added up.  Whoever wrote the file did not know the key, so sets of entries that differ have one sum by
 * chance alone, 1 in 2^64.  Whatever is not as it should be, or not understood, is left to integrity_check, whose
 * word it is that is told. */

/* Columns of verify_scan_rec. */
enum { R_ID, R_LOG, R_IDX, R_TS, R_KIND, R_CRED, R_PRN, R_TOOL, R_OUTCOME, R_CALL, R_SPAN, R_WIDTH };
enum { KEYS_MAX = 3, CALL_SIZE = 16 };

static bool has_no_begin(const struct db_value *rec)
{
	return rec[R_KIND].n != AUDIT_CALL_BEGIN;
}

static bool has_calls(const struct db_value *rec)
{
	return has_no_begin(rec) && rec[R_CALL].type == DB_BLOB;
}

static bool has_bad_outcomes(const struct db_value *rec)
{
	return rec[R_OUTCOME].type == DB_INT && rec[R_OUTCOME].n != 0;
}

static bool has_events(const struct db_value *rec)
{
	return has_no_begin(rec) && rec[R_KIND].n != AUDIT_CALL_END;
}

enum { CALLS, ORDER = 3 };      /* the index that is counted besides; the one that all stores have */

/* By name, as verify_list_indexes lists them; the rest is what the steps of sql/migrate say. */
static const struct index_info {
	const char *name;
	enum sql_id scan;
	bool (*has)(const struct db_value *rec);        /* NULL: all rows */
	uint8_t nkeys, key[KEYS_MAX];
	bool unique;
} indexes[] = {
	[CALLS] = { "rec_call", SQL_VERIFY_SCAN_CALL, has_calls, 1, { R_CALL }, false },
	{ "rec_cred", SQL_VERIFY_SCAN_CRED, has_no_begin, 3, { R_LOG, R_CRED, R_TS }, false },
	{ "rec_kind", SQL_VERIFY_SCAN_KIND, has_events, 3, { R_LOG, R_KIND, R_TS }, false },
	[ORDER] = { "rec_order", SQL_VERIFY_SCAN_ORDER, NULL, 3, { R_SPAN, R_LOG, R_IDX }, true },
	{ "rec_out", SQL_VERIFY_SCAN_OUT, has_bad_outcomes, 3, { R_LOG, R_OUTCOME, R_TS }, false },
	{ "rec_pos", SQL_VERIFY_SCAN_POS, NULL, 2, { R_LOG, R_IDX }, true },
	{ "rec_prn", SQL_VERIFY_SCAN_PRN, has_no_begin, 3, { R_LOG, R_PRN, R_TS }, false },
	{ "rec_tool", SQL_VERIFY_SCAN_TOOL, has_no_begin, 3, { R_LOG, R_TOOL, R_TS }, false },
	{ "rec_ts", SQL_VERIFY_SCAN_TS, has_no_begin, 2, { R_LOG, R_TS }, false },
};

/* An entry as words that compare as SQLite compares: of each column whether it is NULL, then its value; last the
 * row's id. */
struct entry { uint64_t w[2 * KEYS_MAX + 1]; };

struct sums {
	uint8_t key[DIGEST_SHORT_KEY];
	struct { uint64_t hash, count; } by_table[NELEMS(indexes)];
};

static void put_key(struct entry *e, unsigned at, const struct db_value *v)
{
	if (v->type == DB_INT) {
		e->w[2 * at] = 1;
		e->w[2 * at + 1] = (uint64_t)v->n ^ UINT64_C(1) << 63;
	} else if (v->type == DB_BLOB) {
		memcpy(&e->w[1], v->p, CALL_SIZE);      /* the only column of its index */
		e->w[0] = 1;
		e->w[1] = be64toh(e->w[1]);
		e->w[2] = be64toh(e->w[2]);
	}
}

static uint64_t hash_of(const struct sums *s, const struct entry *e)
{
	return digest_short(s->key, e, sizeof(*e));
}

/* A number, or of the call's column an id; or nothing.  The table is STRICT: another kind was slipped in. */
static bool fits(const struct db_value *v, unsigned col)
{
	if (col == R_CALL)
		return v->type == DB_NULL || (v->type == DB_BLOB && v->len == CALL_SIZE);
	return v->type == DB_NULL || v->type == DB_INT;
}

static void add_row(struct sums *s, const struct db_value *rec)
{
	for (size_t i = 0; i < NELEMS(indexes); i++) {
		const struct index_info *x = &indexes[i];
		struct entry e = { { 0 } };

		if (x->has && !x->has(rec))
			continue;
		for (unsigned k = 0; k < x->nkeys; k++)
			put_key(&e, k, &rec[x->key[k]]);
		e.w[2 * KEYS_MAX] = (uint64_t)rec[R_ID].n;
		s->by_table[i].hash += hash_of(s, &e);
		s->by_table[i].count++;
	}
}

/* 1: all rows are in the sums; 0: there is one of another kind. */
static int read_table(struct sums *s, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_VERIFY_SCAN_REC);
	bool regular = true;
	int rc = 0;

	db_bind_row(st, 1);
	while (regular && (rc = db_step(st, err)) == 1) {
		const struct db_value *rec = db_row(st, R_WIDTH);

		regular = rec != NULL;
		for (unsigned col = 0; regular && col < R_WIDTH; col++)
			regular = fits(&rec[col], col);
		if (regular)
			add_row(s, rec);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : regular;
}

/* Does now come behind was?  In a unique index already by the columns. */
static bool ascends(const struct entry *was, const struct entry *now, const struct index_info *x)
{
	const unsigned n = x->unique ? 2u * x->nkeys : 2 * KEYS_MAX + 1;

	for (unsigned i = 0; i < n; i++)
		if (was->w[i] != now->w[i])
			return was->w[i] < now->w[i];
	return false;
}

static bool read_entry(const struct index_info *x, const struct db_value *v, struct entry *ret)
{
	for (unsigned k = 0; k < x->nkeys; k++) {
		if (!fits(&v[k], x->key[k]))
			return false;
		put_key(ret, k, &v[k]);
	}
	ret->w[2 * KEYS_MAX] = (uint64_t)v[x->nkeys].n;
	return v[x->nkeys].type == DB_INT;
}

/* 1: the index has the entries that the table says, each once, in order; 0: it may not. */
static int read_index(const struct sums *s, size_t which, struct db *db, struct err *err)
{
	const struct index_info *x = &indexes[which];
	struct db_stmt *st = db_stmt_get(db, x->scan);
	uint64_t hash = 0, count = 0;
	struct entry was = { { 0 } };
	bool good = true;
	int rc = 0;

	db_bind_row(st, 1);
	while (good && (rc = db_step(st, err)) == 1) {
		const struct db_value *v = db_row(st, x->nkeys + 1u);
		struct entry now = { { 0 } };

		good = v && read_entry(x, v, &now) && (count == 0 || ascends(&was, &now, x));
		hash += hash_of(s, &now);
		count++;
		was = now;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : good && count == s->by_table[which].count && hash == s->by_table[which].hash;
}

/* A walk through rec_call begins behind its NULLs, which it may not have: 1 when there are none. */
static int count_calls(const struct sums *s, struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_VERIFY_COUNT_CALLS);
	int rc = db_step(st, err);

	if (rc == 1)
		rc = (uint64_t)db_col_i64(st, 0) == s->by_table[CALLS].count;
	db_stmt_put(&st);
	return rc;
}

/* 1: rec has the indexes that this file knows, and no other; *ret_lean: that of the order alone. */
static int read_names(struct db *db, bool *ret_lean, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_VERIFY_LIST_INDEXES);
	size_t n = 0;
	int rc;

	*ret_lean = false;
	while ((rc = db_step(st, err)) == 1) {
		const char *name = db_col_text(st, 0, NULL);

		*ret_lean = n == 0 && strcmp(name, indexes[ORDER].name) == 0;
		if (n == NELEMS(indexes) || (!*ret_lean && strcmp(name, indexes[n].name) != 0))
			break;
		n++;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : rc == 0 && n == (*ret_lean ? 1 : NELEMS(indexes));
}

static int compare(struct db *db, struct err *err)
{
	struct sums s;
	bool lean = false;
	int rc = read_names(db, &lean, err);

	memset(&s, 0, sizeof(s));
	id_random(s.key, sizeof(s.key));
	if (rc == 1)
		rc = db_check_structure(db, "rec", err);
	if (rc == 1)
		rc = read_table(&s, db, err);
	for (size_t i = 0; rc == 1 && i < NELEMS(indexes); i++)
		if (!lean || i == ORDER)
			rc = read_index(&s, i, db, err);
	return rc == 1 && !lean ? count_calls(&s, db, err) : rc;
}

/* Rows are found by position span after span (0042_span.sql), of each of which rec_order speaks by itself. */
static int check_places(struct db *db, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_VERIFY_MISPLACED);
	int rc = db_step(st, err);

	rc = rc == 1 ? err_set(err, ERR_CORRUPT, "", "%s", db_col_text(st, 0, NULL)) : rc;
	db_stmt_put(&st);
	return rc;
}

/* ERR_CORRUPT when they are not sound; *ret_summed: they are, and sums have shown it. */
static int check_indexes(struct db *db, bool *ret_summed, struct err *err)
{
	bool begin = !db_txn_alive(db);
	int rc = *ret_summed = false;

	if (db_is_shared(db))           /* its indexes are the server's: pg_amcheck */
		return 0;
	rc = begin ? db_txn_begin(db, false, err) : 0;
	begin = begin && rc == 0;
	if (rc == 0)
		rc = compare(db, err);
	*ret_summed = rc == 1;
	if (rc == 1)
		rc = check_places(db, err);
	if (begin)
		rc = db_txn_end(db, rc, err);
	return *ret_summed || rc == ERR_CANCELLED || rc == ERR_TIMEOUT ? rc : db_check_integrity(db, err);
}

/* --- beside the reading of records */

struct verify_file {
	struct db *db;                  /* the thread's alone; NULL: it was done at once, or has ended */
	pthread_t thread;
	bool summed;
	int rc;
	struct err err;
};

static void *look(void *arg)
{
	struct verify_file *a = arg;

	a->rc = check_indexes(a->db, &a->summed, &a->err);
	return NULL;
}

/* Signals are the first thread's. */
static bool start(struct verify_file *a)
{
	sigset_t all, before;
	bool started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&a->thread, NULL, look, a) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

static struct verify_file *start_file_check(struct verify *v)
{
	struct verify_file *a = mem_zalloc(sizeof(*a));

	if (db_open_beside(v->db, &a->db, &a->err) == 0 && start(a))
		return a;
	db_close(&a->db);
	a->rc = check_indexes(v->db, &a->summed, &a->err);
	return a;
}

static void wait_for(struct verify_file *a)
{
	if (a->db)
		(void)pthread_join(a->thread, NULL);
	db_close(&a->db);
}

/* --- the dictionary: texts that records read earlier name are what they were (SC-705) */

struct verify_texts {
	uint64_t n;                     /* the first so many, by their ids */
	uint8_t digest[DIGEST_SIZE];
	bool carried;
};

static void put_text(struct digest *d, struct db_stmt *st)
{
	size_t len = 0;
	const void *text = db_col_blob(st, 2, &len);
	struct str head = STR_INIT;

	pack_u64(&head, (uint64_t)db_col_i64(st, 0));
	pack_u64(&head, (uint64_t)db_col_i64(st, 1));
	pack_u64(&head, (uint64_t)db_col_type(st, 2));
	pack_u64(&head, len);
	digest_put(d, head.p, head.len);
	digest_put(d, text, len);
	str_fini(&head);
}

/* Those that were there are compared, and all that are there now are noted. */
static int check_texts(struct verify *v, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, SQL_VERIFY_LIST_TEXTS);
	struct digest *was = digest_new(), *now = digest_new();
	struct verify_texts *t = v->texts;
	uint8_t digest[DIGEST_SIZE];
	uint64_t n = 0;
	int rc;

	while ((rc = db_step(st, err)) == 1) {
		if (n++ < t->n)
			put_text(was, st);
		put_text(now, st);
	}
	db_stmt_put(&st);
	digest_end(&was, digest);
	if (rc == 0 && t->carried && (n < t->n || memcmp(digest, t->digest, sizeof(digest)) != 0))
		verify_tell_store(v, AUDIT_FINDING_DICT, NULL, "texts of records below the mark are not what they were");
	digest_end(&now, t->digest);
	t->n = n;
	return rc;
}

static int integrity_settle(struct verify *v, struct err *err)
{
	return v->state ? check_texts(v, err) : 0;
}

static void save_texts(const struct verify *v, struct str *to)
{
	pack_u64(to, v->texts->carried || !v->way);
	pack_u64(to, v->texts->n);
	pack_bytes(to, v->texts->digest, DIGEST_SIZE);
}

static void load_texts(struct verify *v, struct unpack *in)
{
	v->texts->carried = unpack_bool(in);
	v->texts->n = unpack_u64(in);
	unpack_bytes(in, v->texts->digest, DIGEST_SIZE);
}

/* --- the step */

static int check_rows_of(struct verify *v, enum sql_id id, enum audit_finding_code code, struct err *err)
{
	struct db_stmt *st = db_stmt_get(v->db, id);
	int rc;

	while ((rc = db_step(st, err)) == 1)
		verify_tell_store(v, code, NULL, db_col_text(st, 0, NULL));
	db_stmt_put(&st);
	return rc;
}

/* A schema that somebody else made says what the statements of all steps mean: nothing is read by it. */
static int check_schema(struct verify *v, struct err *err)
{
	int rc = db_check_schema(v->db, err);
	char *said;

	if (v->with->keys_wrong)
		verify_tell_store(v, AUDIT_FINDING_SCHEMA, NULL, v->with->keys_wrong);
	if (rc != ERR_CORRUPT)
		return rc;
	said = mem_printf("%s; nothing was read by it", err->msg);
	verify_tell_store(v, AUDIT_FINDING_SCHEMA, NULL, said);
	free(said);
	v->sum->foreign = true;
	return 0;
}

static int integrity_open(struct verify *v, struct err *err)
{
	int rc = check_schema(v, err);

	if (rc == 0 && !v->sum->foreign)
		rc = forms_see(v->db, err);
	if (rc < 0 || v->sum->foreign || v->tenant_id)
		return rc;
	v->texts = mem_zalloc(sizeof(*v->texts));
	rc = check_rows_of(v, SQL_VERIFY_LIST_TWINS, AUDIT_FINDING_DICT, err);
	v->logless = rc == 0 && !forms_seen(v->db);
	return v->logless ? check_rows_of(v, SQL_AUDIT_LIST_LOGLESS, AUDIT_FINDING_LOG_MISSING, err) : rc;
}

/* All of the table and its indexes is read, or nothing (decision 0066). */
static int integrity_start(struct verify *v, struct err *err)
{
	(void)err;
	if (!v->tenant_id && v->indexes)
		v->file = start_file_check(v);
	return 0;
}

static int integrity_finish(struct verify *v, struct err *err)
{
	struct verify_file *a = v->file;

	if (!a)
		return 0;
	wait_for(a);
	v->sum->indexes_summed = a->summed;
	if (a->rc == ERR_CORRUPT)
		verify_tell_store(v, AUDIT_FINDING_INDEX, NULL, a->err.msg);
	else if (a->rc < 0)
		*err = a->err;
	if (a->rc < 0 && a->rc != ERR_CORRUPT)
		return a->rc;
	/* Blocks have been looked at by now. */
	return !v->logless ? check_rows_of(v, SQL_AUDIT_LIST_LOGLESS, AUDIT_FINDING_LOG_MISSING, err) : 0;
}

static void integrity_free(struct verify *v)
{
	if (v->file)
		wait_for(v->file);
	free(v->file);
	free(v->texts);
	v->file = NULL;
	v->texts = NULL;
}

const struct verify_step verify_integrity = {
	.name = "integrity", .open = integrity_open, .finish = integrity_finish, .free = integrity_free, .form = 1,
	.save = save_texts, .load = load_texts, .start = integrity_start, .settle = integrity_settle,
};
