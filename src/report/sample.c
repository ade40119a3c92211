/* audit sample: so many of the calls, or of the records of a kind, at random, the same ones for the same seed (SCALE
 * SC-404).  SplitMix64 draws ranks, as Floyd does: as many numbers as records, all different.  Which position has a
 * rank is found by counting in the order of the log.  toolcrib-audit(7) says it in ten lines of Python. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "base/map.h"
#include "base/mem.h"
#include "forms/forms.h"

#include "report_int.h"

#define PIECE 256                       /* rows that are counted at once, and read for a rank among them */
#define PASSED_BYTES 65536

/* What a sample is drawn from. */
struct population {
	const struct report_ask *ask;
	int64_t kind;                   /* 0: calls */
	enum sql_id count, places;
	int64_t from, below, width;     /* positions, and how many of them are a piece where nothing else says it */
	int64_t total;
};

/* Positions, and how many of the population they have, -1: not counted yet.  whole: blocks say it of parts of it. */
struct piece { int64_t first, below, n; bool whole; };
struct pieces { struct piece *v; size_t n, cap; };

/* --- ranks */

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t one_below(uint64_t random, uint64_t n)
{
	return (uint64_t)((unsigned __int128)random * n >> 64);
}

static int ascending(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* n <= total different ranks, ascending. */
static void draw(uint64_t seed, uint64_t total, size_t n, int64_t *ret)
{
	struct map *drawn = map_new();
	uint64_t last = total - n;

	for (size_t i = 0; i < n; i++, last++) {
		uint64_t rank = one_below(splitmix64(&seed), last + 1);

		if (map_get_u64(drawn, rank))
			rank = last;
		(void)map_set_u64(drawn, rank, ret);
		ret[i] = (int64_t)rank;
	}
	map_free(&drawn);
	qsort(ret, n, sizeof(*ret), ascending);
}

/* --- positions */

static struct db_stmt *ask_piece(const struct population *p, struct db *db, enum sql_id id, const struct piece *at,
				 int64_t chapters)
{
	struct db_stmt *st = db_stmt_get(db, id);

	report_bind(st, p->ask, p->ask->log, at->first, at->below, chapters);
	if (p->kind)
		db_bind_i64(st, 12, p->kind);
	else
		db_bind_null(st, 12);
	return st;
}

static int end_of(struct db *db, enum sql_id id, int64_t log, int64_t idx, int64_t *ret, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, id);
	int rc;

	db_bind_i64(st, 1, log);
	db_bind_i64(st, 2, idx);
	rc = db_step(st, err);
	*ret = rc == 1 ? db_col_i64(st, 0) : -1;
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

/* From the first record that is there to the newest, or to where it is asked for. */
static int open_population(struct population *p, struct db *db, struct report_ask *ask, struct err *err)
{
	int64_t last = -1;
	bool few;
	int rc = end_of(db, SQL_REPORT_PLACE_FROM, ask->log, 0, &p->from, err);

	if (rc == 0)
		rc = end_of(db, SQL_REPORT_PLACE_BELOW, ask->log, INT64_MAX, &last, err);
	if (rc < 0)
		return rc;
	if (ask->to > last)
		return err_set(err, ERR_INVALID, "to", "to: the log has no record %" PRId64 ", its newest is %" PRId64, ask->to,
			       last);
	ask->to = ask->to >= 0 ? ask->to : last;
	p->ask = ask;
	p->below = ask->to + 1;
	p->kind = ask->as_text ? (int64_t)strtol(ask->text, NULL, 10) : 0;
	few = p->kind && p->kind != AUDIT_CALL_BEGIN && p->kind != AUDIT_CALL_END;
	p->count = few ? SQL_REPORT_SAMPLE_KIND_COUNT : SQL_REPORT_SAMPLE_COUNT;
	p->places = few ? SQL_REPORT_SAMPLE_KIND_PLACES : SQL_REPORT_SAMPLE_PLACES;
	p->width = few ? INT64_MAX / 2 : PIECE;
	return 0;
}

static void add_piece(struct pieces *to, struct piece one)
{
	if (to->n == to->cap) {
		to->cap = to->cap ? 2 * to->cap : 64;
		to->v = mem_realloc(to->v, to->cap * sizeof(*to->v));
	}
	to->v[to->n++] = one;
}

/* What zones say of some positions: of chapters, or of blocks (SC-404). */
static int list_parts(const struct population *p, struct db *db, const struct piece *of, bool chapters,
		      struct pieces *ret, struct err *err)
{
	struct db_stmt *st = ask_piece(p, db, SQL_REPORT_SAMPLE_PARTS, of, chapters);
	int rc;

	while ((rc = db_step(st, err)) == 1)
		add_piece(ret, (struct piece){ db_col_i64(st, 0), db_col_i64(st, 1),
			db_col_type(st, 2) == DB_NULL ? -1 : db_col_i64(st, 2), chapters && db_col_type(st, 2) != DB_NULL });
	db_stmt_put(&st);
	return rc;
}

/* Each piece is a transaction of its own: what is counted neither comes nor changes. */
static int count_rest(const struct population *p, struct db *db, struct pieces *of, int64_t *ret_total, struct err *err)
{
	int rc = 0;

	*ret_total = 0;
	for (size_t i = 0; rc >= 0 && i < of->n; i++) {
		struct db_stmt *st = of->v[i].n < 0 ? ask_piece(p, db, p->count, &of->v[i], 0) : NULL;

		if (st) {
			rc = db_step(st, err);
			of->v[i].n = rc == 1 ? db_col_i64(st, 0) : 0;
			db_stmt_put(&st);
		}
		*ret_total += of->v[i].n;
	}
	return rc < 0 ? rc : 0;
}

static int count_pieces(struct population *p, struct db *db, struct pieces *ret, struct err *err)
{
	const struct piece all = { .first = p->from, .below = p->below };
	int rc = 0;

	ret->n = 0;
	if (forms_seen(db)) {
		p->count = SQL_REPORT_SAMPLE_COUNT;     /* no index of rows is of use: few are no block's */
		p->places = SQL_REPORT_SAMPLE_PLACES;
		rc = list_parts(p, db, &all, true, ret, err);
	} else {
		for (int64_t at = p->from; at < p->below; at = p->below - at > p->width ? at + p->width : p->below)
			add_piece(ret, (struct piece){ at, p->below - at > p->width ? at + p->width : p->below, -1, false });
	}
	return rc < 0 ? rc : count_rest(p, db, ret, &p->total, err);
}

/* Again when blocks have come meanwhile, whose rows may have gone. */
static int count(struct population *p, struct db *db, struct pieces *ret, struct err *err)
{
	bool seen;
	int rc = forms_see(db, err);

	do {
		seen = forms_seen(db);
		if (rc == 0 && p->from >= 0 && p->from < p->below)
			rc = count_pieces(p, db, ret, err);
		if (rc == 0)
			rc = forms_see(db, err);
	} while (rc == 0 && !seen && forms_seen(db));
	return rc;
}

/* It can only have gone. */
static int pruned(struct err *err)
{
	(void)err_set(err, ERR_CONFLICT, "", "records were pruned while the sample was drawn");
	err_hint(err, "ask again");
	return ERR_CONFLICT;
}

/* Ranks that are looked for, ascending, and the positions of those that were found. */
struct search { const int64_t *rank; size_t n, found; int64_t *ret; };

/* Those of them that lie in a piece, whose first one is rank first. */
static int find_in(const struct population *p, struct db *db, const struct piece *piece, int64_t first,
		   struct search *s, struct err *err)
{
	struct db_stmt *st;
	int64_t at = first;
	int rc = forms_see(db, err);

	if (rc < 0)
		return rc;
	st = ask_piece(p, db, p->places, piece, 0);
	for (; (rc = db_step(st, err)) == 1; at++)
		if (s->found < s->n && s->rank[s->found] == at)
			s->ret[s->found++] = db_col_i64(st, 0);
	db_stmt_put(&st);
	return rc < 0 ? rc : at - first == piece->n ? 0 : pruned(err);
}

/* The blocks of a chapter, or whatever is there now. */
static int look_into(const struct population *p, struct db *db, const struct piece *piece, struct pieces *ret,
		     struct err *err)
{
	int64_t total = 0;
	int rc = forms_see(db, err);

	if (rc == 0)
		rc = list_parts(p, db, piece, false, ret, err);
	if (rc == 0)
		rc = count_rest(p, db, ret, &total, err);
	return rc < 0 ? rc : total == piece->n ? 0 : pruned(err);
}

static int find(const struct population *p, struct db *db, const struct pieces *of, int64_t first, struct search *s,
		struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < of->n && s->found < s->n; first += of->v[i++].n) {
		struct pieces in = { NULL, 0, 0 };

		if (s->rank[s->found] >= first + of->v[i].n)
			continue;
		if (!of->v[i].whole) {
			rc = find_in(p, db, &of->v[i], first, s, err);
			continue;
		}
		rc = look_into(p, db, &of->v[i], &in, err);
		if (rc == 0)
			rc = find(p, db, &in, first, s, err);
		free(in.v);
	}
	return rc;
}

/* --- rows */

/* number: its rank, or hash. */
static int put_row(struct report_out *out, struct db *db, const struct report_ask *ask, enum sql_id id, int64_t number,
		   int64_t idx, struct err *err)
{
	struct db_stmt *st;
	int rc = forms_see(db, err);

	if (rc < 0)
		return rc;
	st = db_stmt_get(db, id);
	report_bind(st, ask, ask->log, idx, 0, 0);
	db_bind_i64(st, 12, number);
	rc = db_step(st, err);
	if (rc == 1) {
		reply_row_begin(out->reply);
		report_columns(out->reply, ask, st);
		reply_row_end(out->reply);
		out->seen(out->arg, ask->tenant_id, idx);
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : rc == 1 ? 0 : pruned(err);
}

static int put_head(struct report_out *out, struct db *db, const struct report_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, ask->way->sql);
	int rc = report_head(out->reply, db, ask, st, NULL, err);

	db_stmt_put(&st);
	return rc;
}

static int put_rows(struct report_out *out, struct db *db, const struct population *p, const struct pieces *pieces,
		    struct err *err)
{
	const struct report_ask *ask = p->ask;
	const size_t n = ask->limit < p->total ? (size_t)ask->limit : (size_t)p->total;
	int64_t *rank = mem_calloc(2 * n + 1, sizeof(*rank)), *idx = rank + n;
	struct search search = { rank, n, 0, idx };
	int rc;

	draw((uint64_t)ask->number, (uint64_t)p->total, n, rank);
	rc = find(p, db, pieces, 0, &search, err);
	for (size_t i = 0; rc == 0 && i < n && !reply_full(out->reply); i++) {
		rc = put_row(out, db, ask, ask->way->sql, rank[i], idx[i], err);
		if (rc == 0 && out->part && out->reply->text.len >= PASSED_BYTES)
			rc = out->part(out->arg, err);
	}
	free(rank);
	return rc;
}

int report_sample(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err)
{
	struct population p = { 0 };
	struct pieces pieces = { NULL, 0, 0 };
	int rc;

	out->seen(out->arg, ask->tenant_id, -1);
	rc = open_population(&p, db, ask, err);
	if (rc == 0)
		rc = count(&p, db, &pieces, err);
	if (rc == 0) {
		ask->population = p.total;
		out->looked(out->arg, ask->tenant_id, p.from, p.below);
		rc = put_head(out, db, ask, err);
	}
	if (rc == 0)
		rc = put_rows(out, db, &p, &pieces, err);
	free(pieces.v);
	return rc;
}

/* --- by hash, as samples were drawn once */

/* It says nothing of a record but where it stands, so that positions are hashed unread, and those with the smallest
 * hashes looked at until there are enough calls. */

#define HASH_PRIME UINT64_C(2147483647)
#define HASHED_MAX 1024                 /* calls that are looked for so; of more all are hashed by the engine */
#define HASHED_TRIED 4                  /* positions for each of them, and some more */
#define HASHED_MORE 64

struct hashed { int64_t hash, idx; };
struct best { struct hashed v[HASHED_MAX * HASHED_TRIED + HASHED_MORE]; size_t n, cap; };   /* the largest on top */

/* % HASH_PRIME without a division, of less than 2^63, since 2^31 is 1; or HASH_PRIME more, when that is at most 2. */
static uint64_t reduce(uint64_t n)
{
	n = (n & HASH_PRIME) + (n >> 31);
	return (n & HASH_PRIME) + (n >> 31);
}

/* As the statement has it, or as reduce() does; x: of position and seed. */
static uint64_t hash_of(uint64_t x, uint64_t seed)
{
	const uint64_t y = reduce(x * x + seed);

	return reduce(y * y + x);
}

static uint64_t next_of(uint64_t x)
{
	x += 48271;
	return x < HASH_PRIME ? x : x - HASH_PRIME;
}

static bool is_less(const struct hashed *a, const struct hashed *b)
{
	return a->hash != b->hash ? a->hash < b->hash : a->idx < b->idx;
}

static int by_hash(const void *a, const void *b)
{
	return is_less(a, b) ? -1 : is_less(b, a);
}

static int by_idx(const void *a, const void *b)
{
	return ascending(&((const struct hashed *)a)->idx, &((const struct hashed *)b)->idx);
}

static void rise(struct best *b, struct hashed one)
{
	size_t i = b->n++;

	for (; i > 0 && is_less(&b->v[(i - 1) / 2], &one); i = (i - 1) / 2)
		b->v[i] = b->v[(i - 1) / 2];
	b->v[i] = one;
}

/* In the place of the largest. */
static void sink(struct best *b, struct hashed one)
{
	size_t i = 0;

	for (size_t child; (child = 2 * i + 1) < b->n; i = child) {
		if (child + 1 < b->n && is_less(&b->v[child], &b->v[child + 1]))
			child++;
		if (!is_less(&one, &b->v[child]))
			break;
		b->v[i] = b->v[child];
	}
	b->v[i] = one;
}

static void hash_positions(struct best *b, int64_t from, int64_t below, int64_t seed)
{
	const uint64_t of_seed = (uint64_t)seed * 69621 + 1;
	uint64_t x = ((uint64_t)from * 48271 + of_seed) % HASH_PRIME, most = HASH_PRIME;

	for (int64_t idx = from; idx < below; idx++, x = next_of(x)) {
		const uint64_t hash = hash_of(x, (uint64_t)seed);
		const struct hashed one = { (int64_t)(hash < HASH_PRIME ? hash : hash - HASH_PRIME), idx };

		if (hash > most && hash < HASH_PRIME)
			continue;
		if (b->n < b->cap)
			rise(b, one);
		else if (is_less(&one, b->v))
			sink(b, one);
		most = b->n < b->cap ? HASH_PRIME : (uint64_t)b->v->hash;
	}
	qsort(b->v, b->n, sizeof(b->v[0]), by_hash);
}

/* The calls among them come first, as many as are wanted; *ret_n. */
static int choose_calls(struct best *b, struct db *db, const struct report_ask *ask, size_t *ret_n, struct err *err)
{
	int rc = 0;

	*ret_n = 0;
	for (size_t i = 0; rc >= 0 && i < b->n && *ret_n < (size_t)ask->limit; i++) {
		struct db_stmt *st = db_stmt_get(db, SQL_REPORT_SAMPLE_HASH_CALL);

		report_bind(st, ask, ask->log, b->v[i].idx, 0, 0);
		rc = db_step(st, err);
		if (rc == 1)
			b->v[(*ret_n)++] = b->v[i];
		db_stmt_put(&st);
	}
	qsort(b->v, *ret_n, sizeof(b->v[0]), by_idx);
	return rc < 0 ? rc : 0;
}

/* 1: *ret_n of them are what is asked for; 0: too few were calls, or the engine has to say it. */
static int draw_hashed(struct best *b, struct db *db, const struct report_ask *ask, size_t *ret_n, struct err *err)
{
	int64_t from = 0, last = -1, below;
	int rc;

	if (!forms_seen(db) || ask->limit < 1 || ask->limit > HASHED_MAX || ask->number < 0 || ask->number > UINT32_MAX)
		return 0;
	rc = report_edges(db, ask->log, report_since(ask), report_until(ask), &from, &last, err);
	below = ask->to >= 0 && ask->to < last ? ask->to + 1 : last + 1;
	if (rc != 1)
		return rc;
	b->cap = (size_t)ask->limit * HASHED_TRIED + HASHED_MORE;
	hash_positions(b, from, below, ask->number);
	rc = choose_calls(b, db, ask, ret_n, err);
	return rc < 0 ? rc : *ret_n == (size_t)ask->limit || b->n < b->cap;
}

static int put_all(struct report_out *out, struct db *db, const struct report_ask *ask, struct err *err)
{
	struct db_stmt *st = db_stmt_get(db, ask->way->sql);
	int rc = 0;

	report_bind(st, ask, ask->log, 0, ask->to >= 0 ? ask->to + 1 : INT64_MAX, ask->limit > 0 ? ask->limit : INT64_MAX);
	while (!reply_full(out->reply) && (rc = db_step(st, err)) == 1) {
		reply_row_begin(out->reply);
		report_columns(out->reply, ask, st);
		reply_row_end(out->reply);
		out->seen(out->arg, ask->tenant_id, db_col_i64(st, 2));
	}
	db_stmt_put(&st);
	return rc < 0 ? rc : 0;
}

int report_sample_hash(struct report_out *out, struct db *db, struct report_ask *ask, struct err *err)
{
	struct best *best = mem_zalloc(sizeof(*best));
	size_t n = 0;
	int rc = forms_see(db, err), drawn;

	out->seen(out->arg, ask->tenant_id, -1);
	if (rc == 0)
		rc = put_head(out, db, ask, err);
	drawn = rc == 0 ? draw_hashed(best, db, ask, &n, err) : rc;
	rc = drawn == 0 ? put_all(out, db, ask, err) : drawn < 0 ? drawn : 0;
	for (size_t i = 0; rc == 0 && drawn == 1 && i < n && !reply_full(out->reply); i++)
		rc = put_row(out, db, ask, SQL_REPORT_SAMPLE_HASH_ROW, best->v[i].hash, best->v[i].idx, err);
	free(best);
	return rc;
}
