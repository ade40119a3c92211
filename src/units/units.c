/* Records of a log in units, which several threads read (units/units.h).  What a unit was read into stays with it
 * until it has been handed over, and there are never more than units_at_once() of them.  Whoever walks reads too: the
 * unit that it waits for, or another one meanwhile. */

#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "block/block.h"
#include "db/db.h"
#include "forms/forms.h"
#include "units/units.h"

enum {
	UNIT_ROWS = 1024,               /* indexes of a unit of rows */
	TEXTS_MAX = 65536,              /* texts that a unit keeps for the next block; a block brings at most as many */
};

enum unit_state { UNIT_EMPTY, UNIT_WAITS, UNIT_RUNS, UNIT_DONE };

/* A text of the dictionary. */
struct text { int64_t kind; bool wrong; size_t len; char p[]; };

/* A record of a unit of rows; its values stand in `value`, and what they point to in `bytes`, from `n` on. */
struct kept_row { int64_t idx; unsigned findings; uint8_t leaf[TREE_HASH]; size_t value; unsigned values; };
struct kept_value { enum audit_column col; size_t at; struct audit_value v; };

struct unit {
	enum unit_state state;
	int64_t from, to, first;        /* indexes; of the block that has them, -1: rows */
	int rc;
	struct err err;
	bool block, sealed;             /* it was read as one; it is of sealed files */
	size_t at, n;                   /* what was handed over; records */
	uint8_t leaf[BLOCK_RECORDS_MAX][TREE_HASH], kept[BLOCK_RECORDS_MAX];
	struct units_block seen;        /* of a block */
	/* a block: */
	struct block_reader *reader;
	int64_t reader_log;
	bool reader_sealed;             /* the reader turns ids of a sealed file into those of the store */
	struct audit_bytes bytes, encoded;
	struct audit_row row;
	struct map *texts;              /* struct text by its id in the store */
	struct db *db;                  /* of who reads it; NULL: nobody does */
	struct forms_file *file;        /* that the block is in, while it is read; NULL: the store */
	bool odd;                       /* a text is missing, or is none: what is wrong is said row by row */
	/* rows: */
	struct kept_row *rows; size_t rows_cap;
	struct kept_value *value; size_t nvalues, values_cap;
};

/* What a thread reads by. */
struct hand { struct db *db; struct audit_reader *reader; struct forms *forms; };
struct worker { struct units *of; pthread_t thread; struct hand hand; };

struct units {
	pthread_mutex_t lock;           /* of states, head, tail, stop */
	pthread_cond_t todo, done;
	struct unit **ring; size_t size;
	size_t head, tail;              /* the next to be handed over; to be planned */
	bool stop;
	struct worker *worker; unsigned workers;
	struct hand hand;               /* of the verification's own thread */
	struct units_ask ask;
	/* the log at hand: */
	struct block_texts texts;       /* whose log and origin it is */
	int64_t next, to;               /* to be planned */
	int64_t edge;                   /* where the block ends that was planned last; -1: none was */
	struct unit *giving;            /* the unit at the head, whose records are handed over; NULL: it is waited for */
};

/* --- texts */

static void forget_texts(struct unit *u)
{
	void *value;

	for (size_t it = 0; u->texts && map_next(u->texts, &it, NULL, NULL, &value);)
		free(value);
	map_free(&u->texts);
	block_reader_free(&u->reader);  /* which borrows them */
}

static int load_text(struct unit *u, int64_t id, struct text **ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(u->db, SQL_AUDIT_GET_ENTRY);
	int rc;

	db_bind_i64(st, 1, id);
	rc = db_step(st, err);
	if (rc == 1) {
		size_t len = 0;
		const void *p = db_col_blob(st, 1, &len);
		struct text *t = mem_alloc(sizeof(*t) + len + 1);

		t->kind = db_col_i64(st, 0);
		t->len = len;
		if (len > 0)
			memcpy(t->p, p, len);
		t->wrong = db_col_type(st, 1) != DB_TEXT || !text_utf8_valid(t->p, len);
		(void)map_set_u64(u->texts, (uint64_t)id, t);
		*ret = t;
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* Once the unit has been read, all that it needs is there. */
static int get_text(void *arg, uint16_t kind, int64_t id, const char **ret, size_t *ret_len, struct err *err)
{
	struct unit *u = arg;
	struct text *t = map_get_u64(u->texts, (uint64_t)id);
	int rc = t || !u->db ? 0 : load_text(u, id, &t, err);

	if (rc < 0)
		return rc;
	if (!t || t->wrong || t->kind != kind) {
		u->odd = true;
		return 0;
	}
	*ret = t->p;
	*ret_len = t->len;
	return 1;
}

/* A file has ids of its own, for texts that the store has as well. */
static int turn_id(void *arg, uint16_t kind, int64_t id, int64_t *ret, struct err *err)
{
	struct unit *u = arg;

	return forms_file_id(u->file, kind, id, ret, err);
}

/* --- a block */

static void *copy_to(struct unit *u, const void *p, size_t len)
{
	uint8_t *to = u->bytes.p + u->bytes.len;

	if (len > 0)
		memcpy(to, p, len);
	u->bytes.len += len;
	return to;
}

/* Where the unit's block is, in the store or in a file. */
static struct db_stmt *stmt_of(const struct unit *u, enum sql_id store, enum sql_id file)
{
	return u->file ? db_stmt_get(forms_file_db(u->file), file) : db_stmt_get(u->db, store);
}

/* The row of blk, whose bytes are the unit's then.  1; 0: it is not there any more. */
static int get_block(struct unit *u, int64_t log, struct err *err)
{
	struct db_stmt *st = stmt_of(u, SQL_VERIFY_GET_BLOCK, SQL_SEGMENT_GET_BLOCK);
	struct block_bytes cols, hash, zone;
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, u->first);
	rc = db_step(st, err);
	if (rc == 1) {
		cols.p = db_col_blob(st, 4, &cols.len);
		hash.p = db_col_blob(st, 5, &hash.len);
		zone.p = db_col_blob(st, 6, &zone.len);
		if (cols.len + hash.len + zone.len + 1 > u->bytes.cap) {
			u->bytes.cap = 2 * (cols.len + hash.len + zone.len + 1);
			u->bytes.p = mem_realloc(u->bytes.p, u->bytes.cap);
		}
		u->bytes.len = 0;
		u->seen.b = (struct block){ .first = u->first, .cnt = db_col_i64(st, 0), .fmt = db_col_i64(st, 1),
			.ts_min = db_col_i64(st, 2), .ts_max = db_col_i64(st, 3), .cols = cols, .hash = hash, .zone = zone };
		u->seen.b.cols.p = copy_to(u, cols.p, cols.len);
		u->seen.b.hash.p = copy_to(u, hash.p, hash.len);
		u->seen.b.zone.p = copy_to(u, zone.p, zone.len);
	}
	db_stmt_put(&st);
	return rc == 1 && u->first + u->seen.b.cnt < u->to ? 0 : rc;
}

/* 1, or an error. */
static int open_block(struct units *s, struct unit *u, struct err *err)
{
	struct block_texts texts = s->texts;
	int rc;

	if (u->texts && map_count(u->texts) >= TEXTS_MAX)
		forget_texts(u);
	if (u->reader_log != texts.log || u->reader_sealed != u->sealed)
		block_reader_free(&u->reader);
	u->reader_sealed = u->sealed;
	if (!u->texts)
		u->texts = map_new();
	texts.arg = texts.id_arg = u;
	texts.id = u->sealed ? turn_id : NULL;
	if (!u->reader)
		u->reader = block_reader_new(&texts);
	u->reader_log = texts.log;
	rc = block_open(u->reader, &u->seen.b, BLOCK_ALL_COLUMNS, err);
	return rc == ERR_INVALID ? ERR_CORRUPT : rc < 0 ? rc : 1;       /* of a later release, it says */
}

/* What is kept beside the records: groups by their first index.  One that begins before the one before it ends is left
 * to who looks at each record. */
struct groups {
	struct db_stmt *st;
	int64_t first, end;             /* of v */
	bool more, odd, twice;          /* v is one; they overlap, or one cannot be read; they overlap */
	struct block_payload v[BLOCK_PAYLOADS_MAX];
};

static int next_group(struct groups *g, struct err *err)
{
	int rc = db_step(g->st, err);
	int64_t first;
	size_t len = 0, n = 0;
	const void *body;

	g->more = rc == 1;
	if (rc != 1)
		return rc;
	first = db_col_i64(g->st, 0);
	body = db_col_blob(g->st, 1, &len);
	g->twice |= first < g->end;
	g->odd |= g->twice || block_payloads_read(body, len, g->v, &n, NULL) < 0;
	g->first = first;
	g->end = first + (int64_t)n;
	return 0;
}

/* Of the record at idx; NULL: nothing is kept. */
static int kept_of(struct groups *g, int64_t idx, const struct block_payload **ret, struct err *err)
{
	int rc = 0;

	while (g->more && !g->odd && idx >= g->end && rc == 0)
		rc = next_group(g, err);
	*ret = g->more && !g->odd && idx >= g->first && idx < g->end && g->v[idx - g->first].salt.p ? &g->v[idx - g->first] :
		NULL;
	return rc;
}

/* 0: a record has a text that is none. */
static int read_records(struct units *s, struct unit *u, struct groups *g, struct err *err)
{
	int rc = 0;

	memset(&u->row, 0, sizeof(u->row));
	u->n = (size_t)u->seen.b.cnt;
	u->odd = false;
	for (size_t i = 0; i < u->n && rc == 0; i++) {
		const struct block_payload *kept = NULL;

		rc = block_row_over(u->reader, (int64_t)i, &u->row, err);
		if (rc < 0)
			return u->odd ? 0 : rc;
		audit_row_encode(&u->row, &u->encoded);
		tree_leaf(u->encoded.p, u->encoded.len, u->leaf[i]);
		rc = kept_of(g, u->seen.b.first + (int64_t)i, &kept, err);
		u->kept[i] = g->odd ? UNITS_KEPT_LOOK : s->ask.look(s->ask.arg, &u->row, kept);
	}
	u->seen.beyond = g->more && !g->odd && g->end > u->seen.b.first + u->seen.b.cnt;
	if (rc == 0 && g->more && !g->odd)
		rc = next_group(g, err);        /* one that is left begins before this one ends */
	if (rc == 0 && g->odd)
		memset(u->kept, UNITS_KEPT_LOOK, u->n);
	u->seen.twice = g->twice;
	return rc < 0 ? rc : 1;
}

/* What stands beside the columns is what a count gives. */
static void look_beside(struct unit *u)
{
	struct err err = { 0 };

	u->seen.reader = u->reader;
	u->seen.lies = block_derived(u->reader, &err) < 0;
	if (u->seen.lies)
		(void)snprintf(u->seen.said, sizeof(u->seen.said), "%s", err.msg);
}

/* 1; 0: it is to be read row by row. */
static int read_block(struct units *s, struct unit *u, struct err *err)
{
	struct groups g = { .end = INT64_MIN };
	int rc = get_block(u, s->texts.log, err);

	if (rc == 1)
		rc = open_block(s, u, err);
	if (rc != 1)
		return rc;
	g.st = stmt_of(u, SQL_VERIFY_LIST_GROUPS, SQL_SEGMENT_GROUPS_OVER);
	db_bind_i64(g.st, 1, s->texts.log);
	db_bind_i64(g.st, 2, u->first);
	db_bind_i64(g.st, 3, u->first + u->seen.b.cnt);
	rc = next_group(&g, err);
	if (rc == 0)
		rc = read_records(s, u, &g, err);
	db_stmt_put(&g.st);
	if (rc == 1 && !u->sealed)      /* of files all that is looked at by themselves (bundle/seal.h) */
		look_beside(u);
	u->at = (size_t)(u->from - u->first);
	return rc;
}

/* The same of a block in a sealed file; of whatever is odd, what is wrong is said row by row. */
static bool read_sealed(struct units *s, struct unit *u, struct forms *forms)
{
	struct err odd;
	int rc = forms_file_get(forms, s->texts.log, u->first, &u->file, &odd);

	if (rc == 1)
		rc = forms_file_db(u->file) ? read_block(s, u, &odd) : 0;
	forms_file_put(&u->file);
	return rc == 1;
}

/* --- rows */

static struct kept_row *add_row(struct unit *u)
{
	if (u->n == u->rows_cap) {
		u->rows_cap = u->rows_cap ? 2 * u->rows_cap : UNIT_ROWS;
		u->rows = mem_realloc(u->rows, u->rows_cap * sizeof(*u->rows));
	}
	return &u->rows[u->n++];
}

static void keep_value(struct unit *u, enum audit_column col, const struct audit_value *v)
{
	struct audit_bytes *b = &u->bytes;

	if (u->nvalues == u->values_cap) {
		u->values_cap = u->values_cap ? 2 * u->values_cap : 32 * UNIT_ROWS;
		u->value = mem_realloc(u->value, u->values_cap * sizeof(*u->value));
	}
	if (b->len + v->len > b->cap) {
		b->cap = 2 * (b->len + v->len);
		b->p = mem_realloc(b->p, b->cap);
	}
	u->value[u->nvalues++] = (struct kept_value){ col, b->len, *v };
	if (v->len > 0)
		memcpy(b->p + b->len, v->p, v->len);
	b->len += v->len;
}

static void keep_row(struct unit *u, const struct audit_read *got)
{
	struct kept_row *r = add_row(u);

	*r = (struct kept_row){ .idx = got->idx, .findings = got->findings, .value = u->nvalues };
	memcpy(r->leaf, got->leaf, TREE_HASH);
	for (unsigned col = 0; col < COL_COUNT; col++)
		if (got->row.v[col].present)
			keep_value(u, (enum audit_column)col, &got->row.v[col]);
	r->values = (unsigned)(u->nvalues - r->value);
}

static int read_rows(struct units *s, struct unit *u, struct audit_reader *reader, struct err *err)
{
	struct audit_page page = { .log = s->texts.log, .origin = s->texts.origin, .from = u->from, .to = u->to };
	struct audit_read got;
	int rc;

	u->n = u->nvalues = u->at = 0;
	u->bytes.len = 0;
	while ((rc = audit_reader_next(reader, &page, &got, err)) == 1)
		keep_row(u, &got);
	return rc;
}

static void give_row(const struct unit *u, struct audit_read *ret)
{
	const struct kept_row *r = &u->rows[u->at];

	memset(&ret->row, 0, sizeof(ret->row));
	for (unsigned i = 0; i < r->values; i++) {
		const struct kept_value *k = &u->value[r->value + i];

		ret->row.v[k->col] = k->v;
		if (k->v.p)
			ret->row.v[k->col].p = u->bytes.p + k->at;
	}
	ret->idx = r->idx;
	ret->findings = r->findings;
	memcpy(ret->leaf, r->leaf, TREE_HASH);
}

/* --- any unit, by any thread */

static void read_unit(struct units *s, struct unit *u, const struct hand *hand)
{
	int rc = forms_see(hand->db, &u->err);

	u->seen = (struct units_block){ .lies = false };
	u->db = hand->db;
	u->block = false;
	if (rc == 0 && u->first >= 0 && u->sealed) {
		u->block = read_sealed(s, u, hand->forms);
		rc = u->block;
	} else if (rc == 0 && u->first >= 0) {
		rc = read_block(s, u, &u->err);
		u->block = rc == 1;
		if (rc < 0)
			forms_bad(s->texts.log, u->first, rc, &u->err);
	}
	if (rc == 0)
		rc = read_rows(s, u, hand->reader, &u->err);
	u->db = NULL;
	u->rc = rc < 0 ? rc : 0;
}

/* The first that nobody has taken; the lock is held. */
static struct unit *take(struct units *s)
{
	for (size_t i = s->head; i != s->tail; i++) {
		struct unit *u = s->ring[i % s->size];

		if (u->state == UNIT_WAITS) {
			u->state = UNIT_RUNS;
			return u;
		}
	}
	return NULL;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct units *s = w->of;
	struct unit *u;

	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		u = take(s);
		if (!u) {
			pthread_cond_wait(&s->todo, &s->lock);
			continue;
		}
		pthread_mutex_unlock(&s->lock);
		read_unit(s, u, &w->hand);
		pthread_mutex_lock(&s->lock);
		u->state = UNIT_DONE;
		pthread_cond_signal(&s->done);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* The unit at the head has been read; what else waits is read meanwhile. */
static struct unit *wait_for_head(struct units *s)
{
	struct unit *head = s->ring[s->head % s->size], *u;

	pthread_mutex_lock(&s->lock);
	while (head->state != UNIT_DONE) {
		u = take(s);            /* the head itself, if nobody has it */
		if (!u) {
			pthread_cond_wait(&s->done, &s->lock);
			continue;
		}
		pthread_mutex_unlock(&s->lock);
		read_unit(s, u, &s->hand);
		pthread_mutex_lock(&s->lock);
		u->state = UNIT_DONE;
	}
	pthread_mutex_unlock(&s->lock);
	return head;
}

/* --- plans, by the verification's own thread */

/* 1: a block has the record at s->next, *ret_first and *ret_end; 0: none has. */
static int find_place(struct units *s, struct db *db, enum sql_id sql, int64_t *ret_first, int64_t *ret_end,
		      struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, sql);
	int rc;

	db_bind_i64(st, 1, s->texts.log);
	db_bind_i64(st, 2, s->next);
	rc = db_step(st, err);
	if (rc == 1) {
		int64_t cnt = db_col_i64(st, 1);

		*ret_first = db_col_i64(st, 0);
		*ret_end = *ret_first + (cnt > 0 && cnt <= BLOCK_RECORDS_MAX ? cnt : 0);
		rc = *ret_first >= 0 && *ret_end > s->next;
	}
	db_stmt_put(&st);
	return rc;
}

/* A gap in the blocks; not when they came meanwhile. */
static int check_gap(struct units *s, struct db *db, int64_t *ret_first, int64_t *ret_end, struct err *err)
{
	int64_t line = INT64_MIN;
	int rc = forms_line(db, s->texts.log, &line, err);

	if (rc < 0 || line <= s->next)
		return rc;
	rc = find_place(s, db, SQL_VERIFY_PLACE_AT, ret_first, ret_end, err);
	if (rc != 0)
		return rc;
	return forms_bad(s->texts.log, s->next, err_set(err, ERR_CORRUPT, "", "there is a gap before it"), err);
}

/* Where a unit of rows from s->next on ends.  Whoever writes the store says how long a log is: what lies between two of
 * its rows is one step, however wide. */
static int find_end(struct units *s, struct db *db, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, SQL_VERIFY_ROW_FROM);
	int rc;

	db_bind_i64(st, 1, s->texts.log);
	db_bind_i64(st, 2, s->next);
	db_bind_i64(st, 3, s->to);
	rc = db_step(st, err);
	*ret = s->to;
	if (rc == 1 && s->to - db_col_i64(st, 0) > UNIT_ROWS)
		*ret = (db_col_i64(st, 0) / UNIT_ROWS + 1) * UNIT_ROWS;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Of records of sealed files: the block that has the one at s->next, or so many that are read row by row. */
static void plan_sealed(struct units *s, struct unit *u, int64_t sealed, int64_t *ret_end)
{
	struct forms_file *file = NULL;
	int64_t first = -1, end = 0;
	struct err odd;

	if (s->next >= 0 && forms_file_get(s->hand.forms, s->texts.log, s->next, &file, &odd) == 1 && forms_file_db(file))
		(void)find_place(s, forms_file_db(file), SQL_SEGMENT_PLACE_AT, &first, &end, &odd);
	forms_file_put(&file);
	u->first = end > s->next && end <= sealed ? first : -1;
	if (u->first >= 0)
		*ret_end = end;
	else                            /* no record lies below 0, wherever the store says that a log begins */
		*ret_end = s->next < 0 ? 0 : smaller((s->next / UNIT_ROWS + 1) * UNIT_ROWS, sealed);
}

/* The next unit, whose place is free. */
static int plan(struct units *s, struct db *db, struct unit *u, struct err *err)
{
	int64_t first = -1, end = 0, sealed = 0;
	int rc = forms_see(db, err);

	if (rc == 0 && forms_seen(db))
		rc = forms_sealed(db, s->texts.log, &sealed, err);
	u->sealed = s->next < sealed;
	if (rc == 0 && forms_seen(db) && !u->sealed) {
		rc = find_place(s, db, SQL_VERIFY_PLACE_AT, &first, &end, err);
		if (rc == 0)
			rc = check_gap(s, db, &first, &end, err);
	}
	if (rc == 1 && s->edge >= 0 && first != s->edge)
		rc = forms_bad(s->texts.log, first, err_set(err, ERR_CORRUPT, "", "it overlaps the one beside it"), err);
	u->first = rc == 1 ? first : -1;
	if (rc == 0 && u->sealed)
		plan_sealed(s, u, sealed, &end);
	else if (rc == 0)
		rc = find_end(s, db, &end, err);
	if (rc < 0)                     /* which comes again when the next call asks for the same */
		return rc;
	u->from = s->next;
	u->to = end < s->to ? end : s->to;
	s->edge = u->first >= 0 && !u->sealed ? end : -1;
	s->next = u->to;
	return 0;
}

/* As many as there is room for.  What is wrong with the next one is said when all before have been handed over. */
static int fill(struct units *s, struct db *db, struct err *err)
{
	int rc = 0;

	while (s->tail - s->head < s->size && s->next < s->to && rc == 0) {
		struct unit **u = &s->ring[s->tail % s->size];

		if (!*u)
			*u = mem_zalloc(sizeof(**u));
		rc = plan(s, db, *u, err);
		if (rc < 0)
			return s->head == s->tail ? rc : 0;
		pthread_mutex_lock(&s->lock);
		(*u)->state = UNIT_WAITS;
		s->tail++;
		pthread_cond_signal(&s->todo);
		pthread_mutex_unlock(&s->lock);
	}
	return rc;
}

/* --- threads */

/* Each thread has one to read and one to go on with. */
static size_t units_at_once(unsigned threads)
{
	return threads > 1 ? 2 * (size_t)threads + 1 : 1;
}

/* Signals are the first thread's. */
static bool start(struct worker *w)
{
	sigset_t all, before;
	bool started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&w->thread, NULL, work, w) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

static void take_hand(struct hand *hand)
{
	hand->reader = audit_reader_new(hand->db);
	hand->forms = forms_new(hand->db, NULL);
}

static void drop_hand(struct hand *hand)
{
	audit_reader_free(&hand->reader);
	forms_free(hand->forms);
}

/* As many as are asked for, or as there can be: without any all is read here. */
static void start_workers(struct units *s, unsigned threads)
{
	struct err err;

	s->worker = mem_calloc(threads, sizeof(*s->worker));
	while (s->workers + 1 < threads) {
		struct worker *w = &s->worker[s->workers];

		w->of = s;
		if (db_open_beside(s->ask.db, &w->hand.db, &err) < 0)
			return;
		take_hand(&w->hand);
		if (!start(w)) {
			drop_hand(&w->hand);
			db_close(&w->hand.db);
			return;
		}
		s->workers++;
	}
}

struct units *units_new(const struct units_ask *ask)
{
	struct units *s = mem_zalloc(sizeof(*s));
	unsigned threads = ask->threads ? ask->threads : 1;

	if (threads > UNITS_THREADS_MAX)
		threads = UNITS_THREADS_MAX;
	s->ask = *ask;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->todo, NULL);
	pthread_cond_init(&s->done, NULL);
	s->size = units_at_once(threads);
	s->ring = mem_calloc(s->size, sizeof(struct unit *));
	s->hand.db = ask->db;
	take_hand(&s->hand);
	start_workers(s, threads);
	return s;
}

static void unit_free(struct unit *u)
{
	if (!u)
		return;
	forget_texts(u);
	free(u->bytes.p);
	free(u->encoded.p);
	free(u->rows);
	free(u->value);
	free(u);
}

void units_free(struct units **sp)
{
	struct units *s = *sp;

	if (!s)
		return;
	*sp = NULL;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->todo);
	pthread_mutex_unlock(&s->lock);
	for (unsigned i = 0; i < s->workers; i++) {
		(void)pthread_join(s->worker[i].thread, NULL);
		drop_hand(&s->worker[i].hand);
		db_close(&s->worker[i].hand.db);
	}
	for (size_t i = 0; i < s->size; i++)
		unit_free(s->ring[i]);
	drop_hand(&s->hand);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->todo);
	pthread_cond_destroy(&s->done);
	free(s->worker);
	free(s->ring);
	free(s);
}

/* --- a walk */

void units_walk(struct units *s, int64_t log, const char *origin, int64_t from, int64_t to)
{
	s->texts = (struct block_texts){ .log = log, .origin = origin, .fn = get_text };
	s->next = from;
	s->to = to;
	s->edge = -1;
}

void units_leave(struct units *s)
{
	pthread_mutex_lock(&s->lock);
	for (; s->head != s->tail; s->head++) {
		struct unit *u = s->ring[s->head % s->size];

		while (u->state == UNIT_RUNS)
			pthread_cond_wait(&s->done, &s->lock);
		u->state = UNIT_EMPTY;
	}
	pthread_mutex_unlock(&s->lock);
	s->giving = NULL;
	s->next = s->to;
}

/* The unit at the head has been handed over: its place is free. */
static void end_unit(struct units *s)
{
	pthread_mutex_lock(&s->lock);
	s->giving->state = UNIT_EMPTY;
	s->head++;
	pthread_mutex_unlock(&s->lock);
	s->giving = NULL;
}

/* 1: there is a unit to be handed over; 0: there is none. */
static int begin_unit(struct units *s, struct units_read *ret, struct err *err)
{
	struct unit *u;
	int rc = fill(s, s->ask.db, err);

	if (rc < 0 || s->head == s->tail)
		return rc;
	u = wait_for_head(s);
	if (u->rc < 0) {
		if (err)
			*err = u->err;
		return u->rc;
	}
	memset(&ret->got.row, 0, sizeof(ret->got.row));
	if (u->block && !u->sealed)
		ret->begins = &u->seen;
	s->giving = u;
	return 1;
}

static bool has_more(const struct unit *u)
{
	return u->at < u->n && (!u->block || u->seen.b.first + (int64_t)u->at < u->to);
}

static int give_record(struct unit *u, struct units_read *ret, struct err *err)
{
	ret->kept = u->kept[u->at];
	ret->got.idx = u->seen.b.first + (int64_t)u->at;
	ret->got.findings = 0;
	memcpy(ret->got.leaf, u->leaf[u->at], TREE_HASH);
	return block_row_over(u->reader, (int64_t)u->at, &ret->got.row, err);
}

int units_next(struct units *s, struct units_read *ret, struct err *err)
{
	struct unit *u;
	int rc = 0;

	ret->begins = NULL;
	while (s->giving && !has_more(s->giving))
		end_unit(s);
	while (!s->giving) {
		rc = begin_unit(s, ret, err);
		if (rc != 1)
			return rc;
		if (!has_more(s->giving))
			end_unit(s);
	}
	u = s->giving;
	if (u->block) {
		rc = give_record(u, ret, err);
	} else {
		ret->kept = u->first >= 0 || u->sealed ? UNITS_KEPT_LOOK : UNITS_KEPT_UNKNOWN;
		give_row(u, &ret->got);
		rc = 0;
	}
	u->at++;
	return rc < 0 ? rc : 1;
}
