/* Sums of a chapter: what its records come to by day, half of the day and combination of what reports group by, and
 * how long calls took.  Derived from blocks and counted anew by who checks them (SC-207); too many to be worth it
 * are not kept. */

#include "config.h"

#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "block/zone.h"

#include "block_int.h"

enum { PARTIAL, FULL, OVER_DAYS };
enum form { OF_CHAPTER, OF_BOOK, OF_DAYS };     /* what sums are of; OF_DAYS: of a book, by days */
enum { KIND_BEGIN = 1001, KIND_END = 1002, KIND_RECOVERED = 1004 };
enum { NIGHT_FROM_H = 22, NIGHT_TO_H = 6 };
enum { OK, TOOL_ERROR, INVALID, DENIED, RATE_LIMITED, TIMEOUT, INPUT_REQUIRED = 7, OVERLOAD = 10 };  /* outcomes */
#define HOUR_US INT64_C(3600000000)
#define DAY_US (24 * HOUR_US)

const enum audit_column block_sum_columns[SUM_KEYS] = {
#define SUM_COLUMN(col) COL_##col,
	BLOCK_SUM_KEYS(SUM_COLUMN)
#undef SUM_COLUMN
};

/* Entries are numbers, of which the first ones are the key: by these they are found, and by these they are in
 * order. */
#define WORDS(type) (sizeof(struct type) / sizeof(int64_t))
enum { SUM_KEY = 3 + SUM_KEYS, HIST_KEY = 5, HIST_GROUP = 4 };
_Static_assert(WORDS(block_hist) == HIST_KEY + 1, "numbers");

struct table {
	int64_t *v;
	size_t words, key, n, cap, most;
	uint32_t *slot;                 /* places in v, from 1 on; twice as many as entries at most */
	size_t slots;                   /* a power of two */
	uint64_t odds[2 * SUM_KEY];     /* for each half of each number of the key */
};

/* What the begin of a call says for its end: where its keys are in the table of begins, from 1 on. */
struct begin { uint32_t at; int64_t n_req; };

struct block_summer {
	struct table sum, hist, begins;
	enum form form;
	bool over;                      /* too many, or too large */
	int64_t first, records;         /* records: that are in the sums */
	bool begun;
	struct begin *begin;            /* of the records so far, by their place */
	int64_t *apart; size_t aparts;
	struct block_zlib *zlib;
	struct audit_bytes one;
};

static void table_init(struct table *t, size_t words, size_t key, size_t most)
{
	*t = (struct table){ .words = words, .key = key, .most = most };
	id_random(t->odds, sizeof(t->odds));
}

struct block_summer *block_summer_new(void)
{
	struct block_summer *s = mem_zalloc(sizeof(*s));

	table_init(&s->sum, WORDS(block_sum), SUM_KEY, BLOCK_CHAPTER_MAX / BLOCK_SUMS_SHARE);
	table_init(&s->hist, WORDS(block_hist), HIST_KEY, BLOCK_CHAPTER_MAX);
	table_init(&s->begins, SUM_KEYS, SUM_KEYS, BLOCK_CHAPTER_MAX);
	return s;
}

struct block_summer *block_summer_new_book(void)
{
	struct block_summer *s = block_summer_new();

	s->form = OF_BOOK;
	return s;
}

struct block_summer *block_summer_new_days(void)
{
	struct block_summer *s = block_summer_new();

	s->form = OF_DAYS;
	return s;
}

void block_summer_free(struct block_summer **sp)
{
	struct block_summer *s = *sp;

	if (!s)
		return;
	*sp = NULL;
	free(s->sum.v);
	free(s->sum.slot);
	free(s->hist.v);
	free(s->hist.slot);
	free(s->begins.v);
	free(s->begins.slot);
	free(s->begin);
	free(s->apart);
	block_zlib_free(&s->zlib);
	free(s->one.p);
	free(s);
}

/* --- entries */

/* Multilinear, over halves of numbers: which keys fall together nobody can know who does not know what was drawn, so
 * that no list of them makes this slow. */
static size_t place_of(const struct table *t, const int64_t *key)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->key; i++) {
		const uint64_t n = (uint64_t)key[i];

		sum += t->odds[2 * i] * (n & UINT32_MAX) + t->odds[2 * i + 1] * (n >> 32);
	}
	return sum >> 32 & (t->slots - 1);
}

static uint32_t *slot_of(struct table *t, const int64_t *key)
{
	size_t at = place_of(t, key);

	while (t->slot[at] && memcmp(t->v + (t->slot[at] - 1) * t->words, key, t->key * sizeof(*key)) != 0)
		at = (at + 1) & (t->slots - 1);
	return &t->slot[at];
}

static void grow(struct table *t)
{
	t->cap = t->cap ? 2 * t->cap : 64;
	t->v = mem_realloc(t->v, t->cap * t->words * sizeof(*t->v));
	t->slots = 2 * t->cap;
	free(t->slot);
	t->slot = mem_calloc(t->slots, sizeof(*t->slot));
	for (size_t i = 0; i < t->n; i++)
		*slot_of(t, t->v + i * t->words) = (uint32_t)i + 1;
}

/* The entry, a new one all zero but for its key; NULL: there are too many. */
static int64_t *entry(struct table *t, const int64_t *key)
{
	uint32_t *slot;

	if (t->n == t->cap)
		grow(t);
	slot = slot_of(t, key);
	if (!*slot) {
		int64_t *e = t->v + t->n * t->words;

		if (t->n == t->most)
			return NULL;
		memset(e, 0, t->words * sizeof(*e));
		memcpy(e, key, t->key * sizeof(*e));
		*slot = (uint32_t)++t->n;
	}
	return t->v + (*slot - 1) * t->words;
}

/* --- counting */

/* Keys of days are the record's own: none is of a begin, which need not be looked up. */
static bool is_of_days(unsigned key)
{
	return BLOCK_DAYS_WORDS >> (3 + key) & 1;
}

static int64_t is_night(int64_t ts)
{
	const int64_t hour = ts % DAY_US / HOUR_US;

	return hour < NIGHT_TO_H || hour >= NIGHT_FROM_H;
}

/* Whose word counts: the record's; where it has none its begin's; of an end the begin's alone. */
enum whose { OWN, EITHER, OF_BEGIN };
static const uint8_t whose[SUM_KEYS] = {
	[SUM_AUTHN] = OF_BEGIN, [SUM_TPORT] = OF_BEGIN, [SUM_OBO] = EITHER, [SUM_PEER] = EITHER, [SUM_CLIENT] = EITHER,
	[SUM_REV] = EITHER, [SUM_TDEF] = EITHER, [SUM_RULE] = EITHER, [SUM_SBOX] = EITHER,
};

void block_sum_join(int64_t key[SUM_KEYS], const int64_t *begin)
{
	const bool ends = key[SUM_KIND] == KIND_END || key[SUM_KIND] == KIND_RECOVERED;

	for (unsigned k = 0; k < SUM_KEYS; k++) {
		if (whose[k] == OF_BEGIN && ends)
			key[k] = begin ? begin[k] : -1;
		else if (whose[k] == EITHER && key[k] < 0 && begin)
			key[k] = begin[k];
	}
}

void block_sum_at(struct block_sum *e, int64_t ts)
{
	e->day = ts / DAY_US;
	e->night = is_night(ts);
}

enum block_class block_class_of(int64_t outcome)
{
	switch (outcome) {
	case OK:
	case INPUT_REQUIRED:
		return CLASS_OK;
	case TOOL_ERROR:
		return CLASS_ERROR;
	case TIMEOUT:
		return CLASS_TIMEOUT;
	case INVALID:
	case DENIED:
	case RATE_LIMITED:
	case OVERLOAD:
		return CLASS_REFUSED;
	default:
		return CLASS_OTHER;
	}
}

/* A step is an eighth of its power of two. */
int64_t block_step_of(uint64_t us)
{
	unsigned power, n;

	if (us < 2 * BLOCK_HIST_SUB)
		return (int64_t)us;
	power = 63 - (unsigned)__builtin_clzll(us);
	n = (power - 3) * BLOCK_HIST_SUB + (unsigned)(us >> (power - 3) & (BLOCK_HIST_SUB - 1)) + BLOCK_HIST_SUB;
	return n < BLOCK_HIST_STEPS ? n : BLOCK_HIST_STEPS - 1;
}

bool block_sum_merge(struct block_sum *to, const struct block_sum *e)
{
	to->ts_min = to->count == 0 || e->ts_min < to->ts_min ? e->ts_min : to->ts_min;
	to->ts_max = e->ts_max > to->ts_max ? e->ts_max : to->ts_max;
	to->idx_min = to->count == 0 || e->idx_min < to->idx_min ? e->idx_min : to->idx_min;
	to->idx_max = e->idx_max > to->idx_max ? e->idx_max : to->idx_max;
	to->count += e->count;
	to->timed += e->timed;
	to->dur_max = e->dur_max > to->dur_max ? e->dur_max : to->dur_max;
	return !__builtin_add_overflow(to->dur, e->dur, &to->dur) &&
		!__builtin_add_overflow(to->n_req, e->n_req, &to->n_req) &&
		!__builtin_add_overflow(to->n_res, e->n_res, &to->n_res);
}

static bool add_sum(struct block_summer *s, const struct block_sum *one)
{
	struct block_sum *e = (struct block_sum *)entry(&s->sum, &one->day);

	return e && block_sum_merge(e, one);
}

static bool add_hist(struct block_summer *s, const struct block_reader *r, int64_t i, const struct block_sum *one)
{
	int64_t dur = 0, k[HIST_KEY] = { one->day, one->night, one->key[SUM_TOOL], block_class_of(one->key[SUM_OUTCOME]) };
	struct block_hist *e;

	if (one->key[SUM_KIND] != KIND_END || !one->called)
		return true;
	k[HIST_GROUP] = block_number(r, COL_DUR, i, &dur) ? block_step_of((uint64_t)dur) : 0;
	e = (struct block_hist *)entry(&s->hist, k);
	if (e)
		e->count++;
	return e != NULL;
}

/* What its end will want of it. */
static void keep_begin(struct block_summer *s, const struct block_reader *r, int64_t i, const struct block_sum *one)
{
	struct begin *b = &s->begin[one->idx_min - s->first];
	int64_t key[SUM_KEYS], *at;

	for (unsigned k = 0; k < SUM_KEYS; k++)
		key[k] = whose[k] == OWN ? -1 : one->key[k];
	at = entry(&s->begins, key);            /* which moves them */
	b->at = at ? (uint32_t)((at - s->begins.v) / SUM_KEYS) + 1 : 0;
	(void)block_number(r, COL_N_REQ, i, &b->n_req);
}

/* false: the begin of the record is not one of those before it in the chapter. */
static bool join_begin(struct block_summer *s, const struct block_reader *r, int64_t i, struct block_sum *one)
{
	const struct begin *b = NULL;
	int64_t beg = 0;

	if (block_number(r, COL_BEG, i, &beg)) {
		b = beg >= s->first && beg < one->idx_min ? &s->begin[beg - s->first] : NULL;
		if (!b || !b->at)
			return false;
	}
	block_sum_join(one->key, b ? s->begins.v + (size_t)(b->at - 1) * SUM_KEYS : NULL);
	if (b && b->n_req > 0 && !block_number(r, COL_N_REQ, i, &beg))
		one->n_req = b->n_req;
	return true;
}

static bool set_apart(struct block_summer *s, int64_t idx)
{
	if (s->aparts == BLOCK_CHAPTER_MAX / BLOCK_SUMS_SHARE)
		return false;
	if (!s->apart)
		s->apart = mem_calloc(BLOCK_CHAPTER_MAX / BLOCK_SUMS_SHARE, sizeof(*s->apart));
	s->apart[s->aparts++] = idx;
	return true;
}

/* The record as an entry of one. */
static void sum_of(const struct block_reader *r, int64_t i, struct block_sum *ret)
{
	int64_t ts = 0;

	*ret = (struct block_sum){ .called = block_has(r, COL_CALL, i), .count = 1 };
	for (unsigned k = 0; k < SUM_KEYS; k++)
		(void)block_number(r, block_sum_columns[k], i, &ret->key[k]);
	(void)block_number(r, COL_TS, i, &ts);
	block_sum_at(ret, ts);
	ret->ts_min = ret->ts_max = ts;
	ret->idx_min = ret->idx_max = block_first(r) + i;
	if (block_number(r, COL_DUR, i, &ret->dur))
		ret->timed = 1;
	else
		ret->dur = 0;
	ret->dur_max = ret->dur;
	if (!block_number(r, COL_N_REQ, i, &ret->n_req))
		ret->n_req = 0;
	if (!block_number(r, COL_N_RES, i, &ret->n_res))
		ret->n_res = 0;
}

static bool add_record(struct block_summer *s, const struct block_reader *r, int64_t i)
{
	struct block_sum one;

	sum_of(r, i, &one);
	if (one.key[SUM_KIND] == KIND_BEGIN) {
		keep_begin(s, r, i, &one);
		return true;
	}
	if (!join_begin(s, r, i, &one))
		return set_apart(s, one.idx_min);
	s->records++;
	return add_sum(s, &one) && add_hist(s, r, i, &one);
}

void block_summer_add(struct block_summer *s, const struct block_reader *r)
{
	const int64_t end = block_first(r) + block_count(r);

	if (!s->begun)
		s->first = block_first(r);
	s->begun = true;
	if (end - s->first > BLOCK_CHAPTER_MAX) {
		s->over = true;
		return;
	}
	s->begin = mem_realloc(s->begin, (size_t)(end - s->first) * sizeof(*s->begin));
	memset(s->begin + (block_first(r) - s->first), 0, (size_t)block_count(r) * sizeof(*s->begin));
	for (int64_t i = 0; i < block_count(r) && !s->over; i++)
		s->over = !add_record(s, r, i);
}

/* Without the day, or by it and what each record says of itself. */
static bool add_to_book(struct block_summer *s, const struct block_sum *one)
{
	struct block_sum e = *one;

	for (unsigned k = 0; k < SUM_KEYS && s->form == OF_DAYS; k++)
		e.key[k] = is_of_days(k) ? e.key[k] : -1;
	if (s->form == OF_DAYS) {
		block_sum_at(&e, e.ts_min);
		e.n_req = 0;
	} else {
		e.day = e.night = 0;
	}
	s->records += e.count;
	return add_sum(s, &e);
}

static bool add_steps(struct block_summer *s, const struct block_hist *h)
{
	const bool book = s->form == OF_BOOK;
	const int64_t key[HIST_KEY] = { book ? 0 : h->day, book ? 0 : h->night, h->tool, h->class, h->step };
	struct block_hist *e = (struct block_hist *)entry(&s->hist, key);

	if (e)
		e->count += h->count;
	return e != NULL;
}

void block_summer_add_sums(struct block_summer *s, int64_t first, const struct block_sums *sums)
{
	const bool book = s->form != OF_CHAPTER;

	if (!s->begun)
		s->first = first;
	s->begun = true;
	s->over = s->over || sums->partial;
	for (size_t i = 0; i < sums->sums && !s->over; i++) {
		s->records += book ? 0 : sums->sum[i].count;
		s->over = !(book ? add_to_book(s, &sums->sum[i]) : add_sum(s, &sums->sum[i]));
	}
	for (size_t i = 0; i < sums->hists && !s->over && s->form != OF_DAYS; i++)
		s->over = !add_steps(s, &sums->hist[i]);
	for (size_t i = 0; i < sums->aparts && !s->over && !book; i++)
		s->over = !set_apart(s, sums->apart[i]);
}

void block_summer_add_one(struct block_summer *s, const struct block_sum *own, const struct block_sum *begin)
{
	struct block_sum one = *own;
	struct block_hist h = { .class = block_class_of(own->key[SUM_OUTCOME]),
		.step = own->timed ? block_step_of((uint64_t)own->dur) : 0, .count = 1 };

	if (s->form == OF_DAYS) {
		s->over = s->over || !add_to_book(s, &one);
		return;
	}
	block_sum_join(one.key, begin->key);
	if (one.n_req < 0)
		one.n_req = begin->n_req > 0 ? begin->n_req : 0;
	h.tool = one.key[SUM_TOOL];
	s->over = s->over || !add_to_book(s, &one) ||
		(one.key[SUM_KIND] == KIND_END && one.called && !add_steps(s, &h));
}

void block_summer_add_apart(struct block_summer *s, int64_t idx)
{
	s->over = s->over || !set_apart(s, idx);
}

/* --- bytes */

static int compare(const int64_t *a, const int64_t *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

static int by_sum(const void *a, const void *b)
{
	return compare(a, b, SUM_KEY);
}

static int by_hist(const void *a, const void *b)
{
	return compare(a, b, HIST_KEY);
}

static size_t groups_of(const struct table *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += i == 0 || compare(t->v + i * t->words, t->v + (i - 1) * t->words, HIST_GROUP) != 0;
	return n;
}

/* What stands in a stream of the i-th entry: its word, less what is known of it. */
enum { DAY = 0, NIGHT = 1, CALLED = 2, KEYS = 3, BOOK_WORD = 2 };      /* the first one of a book */
enum { COUNT = SUM_KEY, TIMED, DUR, DUR_MAX, N_REQ, N_RES, IDX_MIN, IDX_MAX, TS_MIN, TS_MAX };
_Static_assert(offsetof(struct block_sum, count) == COUNT * sizeof(int64_t), "the order of words");
_Static_assert(WORDS(block_sum) == TS_MAX + 1, "all of them");

static int64_t base_of(const int64_t *e, const int64_t *before, size_t word, int64_t first, bool hist)
{
	if (word == DAY)
		return before ? before[DAY] : 0;
	if (hist)
		return word == 2 ? -1 : 0;
	switch (word) {
	case NIGHT:
	case CALLED:
	case COUNT:
	case TIMED:
	case DUR:
	case DUR_MAX:
	case N_REQ:
	case N_RES:
		return 0;
	case IDX_MIN:
		return first;
	case IDX_MAX:
		return e[IDX_MIN];
	case TS_MIN:
		return e[DAY] * DAY_US;
	case TS_MAX:
		return e[TS_MIN];
	default:
		return -1;              /* a key: 0 is NULL */
	}
}

static void put_streams(struct block_summer *s, const struct table *t, const bool *named, struct audit_bytes *out)
{
	block_put(out, t->n);
	for (size_t word = s->form == OF_BOOK ? BOOK_WORD : 0; word < t->words && t->n > 0; word++) {
		if (named && word >= KEYS && word < SUM_KEY && !named[word - KEYS])
			continue;
		s->one.len = 0;
		for (size_t i = 0; i < t->n; i++) {
			const int64_t *e = t->v + i * t->words;

			block_put(&s->one, (uint64_t)(e[word] - base_of(e, i ? e - t->words : NULL, word, s->first, !named)));
		}
		block_stream_put(&s->zlib, s->one.p, s->one.len, out);
	}
}

static void put_apart(struct block_summer *s, struct audit_bytes *out)
{
	block_put(out, s->aparts);
	s->one.len = 0;
	for (size_t i = 0; i < s->aparts; i++)
		block_put(&s->one, (uint64_t)(s->apart[i] - (i ? s->apart[i - 1] : s->first)));
	if (s->aparts > 0)
		block_stream_put(&s->zlib, s->one.p, s->one.len, out);
}

static bool few(size_t n, int64_t records)
{
	return n * BLOCK_SUMS_SHARE <= (uint64_t)records;
}

static bool write_all(struct block_summer *s, struct audit_bytes *out)
{
	bool named[SUM_KEYS] = { false };
	size_t n = 0;

	if (s->sum.n > 0)
		qsort(s->sum.v, s->sum.n, s->sum.words * sizeof(int64_t), by_sum);
	if (s->hist.n > 0)
		qsort(s->hist.v, s->hist.n, s->hist.words * sizeof(int64_t), by_hist);
	if (s->over || !few(s->sum.n, s->records) || !few(groups_of(&s->hist), s->records) || !few(s->aparts, s->records))
		return false;
	for (size_t i = 0; i < s->sum.n; i++)
		for (unsigned k = 0; k < SUM_KEYS; k++)
			named[k] |= s->sum.v[i * s->sum.words + KEYS + k] >= 0;
	for (unsigned k = 0; k < SUM_KEYS; k++)
		n += named[k];
	block_put(out, s->form == OF_BOOK ? OVER_DAYS : FULL);
	block_put(out, n);
	for (unsigned k = 0; k < SUM_KEYS; k++)
		if (named[k])
			block_put(out, audit_columns[block_sum_columns[k]].tag);
	put_streams(s, &s->sum, named, out);
	put_streams(s, &s->hist, NULL, out);
	put_apart(s, out);
	return true;
}

void block_summer_end(struct block_summer *s, struct audit_bytes *out)
{
	struct table *tables[] = { &s->sum, &s->hist, &s->begins };

	out->len = 0;
	if (!write_all(s, out)) {
		out->len = 0;
		block_put(out, PARTIAL);
	}
	for (size_t i = 0; i < NELEMS(tables); i++) {
		if (tables[i]->slot)
			memset(tables[i]->slot, 0, tables[i]->slots * sizeof(*tables[i]->slot));
		tables[i]->n = 0;
	}
	s->over = s->begun = false;
	s->records = 0;
	s->aparts = 0;
}

/* --- reading */

struct reading {
	const uint8_t *p, *end;
	int64_t first, cnt;
	uint64_t words;                 /* of entries, that are wanted */
	bool hists;
	enum form form;
	struct block_zlib *zlib;
	struct audit_bytes one;
};

static int bad(struct err *err, const char *what)
{
	return block_bad(err, "sums", what);
}

static int read_named(struct reading *in, bool named[SUM_KEYS], struct err *err)
{
	uint64_t n = 0, tag = 0, last = 0;

	in->p = get_varint(in->p, in->end, &n);
	for (; in->p && n > 0; n--) {
		unsigned k = 0;

		in->p = get_varint(in->p, in->end, &tag);
		if (!in->p)
			break;
		while (k < SUM_KEYS && audit_columns[block_sum_columns[k]].tag != tag)
			k++;
		if (tag <= last)
			return bad(err, "the tags of its columns do not ascend");
		if (k == SUM_KEYS)
			return err_set(err, ERR_INVALID, "sums", "the sums have columns that only a later release knows");
		named[k] = true;
		last = tag;
	}
	return in->p ? 0 : bad(err, "the tags of its columns are cut off");
}

/* A stream of n numbers, each into its word of an entry. */
static int read_stream(struct reading *in, int64_t *v, size_t words, size_t n, size_t word, bool hist, struct err *err)
{
	struct block_bytes stream = { NULL, 0 };
	const uint8_t *p, *end;
	uint64_t head = 0, x = 0;
	int rc;

	in->p = get_varint(in->p, in->end, &head);
	if (!in->p || head == 0)
		return bad(err, "a stream is cut off");
	rc = block_stream_get(&in->zlib, head, &in->p, in->end, n * VARINT_MAX, &in->one, &stream, "sums", err);
	if (rc < 0)
		return rc;
	p = stream.p;
	end = p + stream.len;
	for (size_t i = 0; i < n; i++) {
		int64_t *e = v + i * words;
		const int64_t base = base_of(e, i ? e - words : NULL, word, in->first, hist);

		p = get_up_to(p, end, INT64_MAX, &x);
		if (!p || __builtin_add_overflow(base, (int64_t)x, &e[word]) || (word == DAY && e[DAY] > INT64_MAX / DAY_US - 1))
			return bad(err, "a number is cut off, longer than it need be, or out of range");
	}
	return p == end ? 0 : bad(err, "something stands behind the last number");
}

/* What is not wanted is passed by its length. */
static int skip_stream(struct reading *in, struct err *err)
{
	uint64_t head = 0;

	in->p = get_varint(in->p, in->end, &head);
	if (!in->p || head == 0 || head >> 1 > (uint64_t)(in->end - in->p))
		return bad(err, "a stream is cut off");
	in->p += head >> 1;
	return 0;
}

/* The entries of a list: at most `most`. */
static int read_list(struct reading *in, size_t most, const bool *named, size_t words, int64_t **ret, size_t *ret_n,
		     struct err *err)
{
	uint64_t n = 0;
	int rc = 0;

	in->p = get_up_to(in->p, in->end, most, &n);
	if (!in->p)
		return bad(err, "it has more entries than are worth it");
	if (n == 0)
		return 0;
	if (!named && !in->hists) {
		for (size_t word = in->form == OF_BOOK ? BOOK_WORD : 0; word < words && rc == 0; word++)
			rc = skip_stream(in, err);
		return rc;
	}
	*ret = mem_try_realloc(NULL, (size_t)n * words * sizeof(**ret));
	if (!*ret)
		return err_set(err, ERR_LIMIT, "sums", "there is no memory for the sums of a chapter");
	*ret_n = (size_t)n;
	for (size_t word = 0; word < words && rc == 0; word++) {
		const bool absent = named && word >= KEYS && word < SUM_KEY && !named[word - KEYS];
		const bool dropped = in->form == OF_BOOK && word < BOOK_WORD, wanted = !named || in->words >> word & 1;

		for (size_t i = 0; (absent || dropped || !wanted) && i < n; i++)
			(*ret)[i * words + word] = absent ? -1 : 0;
		if (!absent && !dropped)
			rc = wanted ? read_stream(in, *ret, words, (size_t)n, word, !named, err) : skip_stream(in, err);
	}
	return rc;
}

static bool sum_is_sound(const struct block_sum *e, int64_t first, int64_t cnt)
{
	return e->count > 0 && e->count <= cnt && e->timed <= e->count && e->called <= 1 &&
		e->dur_max <= e->dur && (e->timed > 0 || e->dur == 0) &&
		e->idx_max < first + cnt && e->idx_max - e->idx_min >= e->count - 1 && e->key[SUM_KIND] != KIND_BEGIN &&
		e->key[SUM_KIND] >= 0;
}

static bool day_is_sound(const struct block_sum *e)
{
	return e->ts_max / DAY_US == e->day && is_night(e->ts_min) == e->night && is_night(e->ts_max) == e->night;
}

/* How many records they are of, as far as the words say that were read. */
static int64_t count_some(const struct block_sums *s, int64_t cnt)
{
	int64_t count = 0;

	for (size_t i = 0; i < s->sums && count >= 0; i++)
		count = s->sum[i].count > 0 && s->sum[i].count <= cnt - count ? count + s->sum[i].count : -1;
	return count;
}

static int look_at_sums(const struct block_sums *s, const bool *named, const struct reading *in, int64_t *ret_count,
			struct err *err)
{
	bool seen[SUM_KEYS] = { false };
	int64_t count = 0;

	if (in->words != BLOCK_SUM_ALL) {
		*ret_count = count_some(s, in->cnt);
		return *ret_count >= 0 ? 0 : bad(err, "its entries are not those of so many records");
	}
	for (size_t i = 0; i < s->sums; i++) {
		const struct block_sum *e = &s->sum[i];

		if (!sum_is_sound(e, in->first, in->cnt) || (in->form != OF_BOOK && !day_is_sound(e)) ||
		    (i > 0 && by_sum(e - 1, e) >= 0))
			return bad(err, "entries do not ascend, or contradict themselves");
		for (unsigned k = 0; k < SUM_KEYS; k++)
			seen[k] |= e->key[k] >= 0;
		if (in->form == OF_DAYS && e->n_req != 0)
			return bad(err, "days say what their begins have");
		count += e->count;
	}
	for (unsigned k = 0; k < SUM_KEYS && in->form == OF_DAYS; k++)
		if (named[k] && !is_of_days(k))
			return bad(err, "days are by more than kind and outcome");
	if (memcmp(seen, named, sizeof(seen)) != 0)
		return bad(err, "it names a column that no entry has");
	*ret_count = count;
	return count <= in->cnt && few(s->sums, count) ? 0 : bad(err, "its entries are not those of so many records");
}

static int look_at_hists(const struct block_sums *s, int64_t records, struct err *err)
{
	const struct table t = { .v = (int64_t *)s->hist, .words = WORDS(block_hist), .n = s->hists };
	int64_t left = records;

	for (size_t i = 0; i < s->hists; i++) {
		const struct block_hist *e = &s->hist[i];

		if (e->night > 1 || e->class < CLASS_OK || e->class > CLASS_OTHER || e->step >= BLOCK_HIST_STEPS || e->count < 1 ||
		    e->count > left || (i > 0 && by_hist(e - 1, e) >= 0))
			return bad(err, "steps do not ascend, or contradict themselves");
		left -= e->count;
	}
	return few(groups_of(&t), records) ? 0 : bad(err, "its steps are not those of so many records");
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Records that are in no sum, ascending. */
static int read_apart(struct reading *in, int64_t records, struct block_sums *ret, struct err *err)
{
	struct block_bytes stream = { NULL, 0 };
	const uint8_t *p, *end;
	uint64_t n = 0, head = 0, x = 0;
	int64_t at = in->first;
	int rc;

	in->p = get_up_to(in->p, in->end, (uint64_t)least(records, BLOCK_CHAPTER_MAX) / BLOCK_SUMS_SHARE, &n);
	if (!in->p)
		return bad(err, "more records stand apart than are worth it");
	if (n == 0)
		return 0;
	in->p = get_varint(in->p, in->end, &head);
	if (!in->p || head == 0)
		return bad(err, "a stream is cut off");
	rc = block_stream_get(&in->zlib, head, &in->p, in->end, (size_t)n * VARINT_MAX, &in->one, &stream, "sums", err);
	if (rc < 0)
		return rc;
	ret->apart = mem_calloc((size_t)n, sizeof(*ret->apart));
	p = stream.p;
	end = p + stream.len;
	while (p && ret->aparts < n) {
		p = get_up_to(p, end, (uint64_t)(in->first + in->cnt - 1 - at), &x);
		if (p && x == 0 && ret->aparts > 0)
			p = NULL;
		at += (int64_t)x;
		ret->apart[ret->aparts++] = at;
	}
	return p == end && (int64_t)n + records <= in->cnt ? 0
		: bad(err, "records that stand apart are none of the chapter's");
}

static int read_full(struct reading *in, struct block_sums *ret, struct err *err)
{
	bool named[SUM_KEYS] = { false };
	int64_t count = 0, *sum = NULL, *hist = NULL;
	int rc = read_named(in, named, err);

	if (rc == 0)
		rc = read_list(in, (size_t)least(in->cnt, BLOCK_CHAPTER_MAX) / BLOCK_SUMS_SHARE, named, WORDS(block_sum), &sum,
			       &ret->sums, err);
	ret->sum = (struct block_sum *)sum;
	if (rc == 0)
		rc = look_at_sums(ret, named, in, &count, err);
	if (rc == 0)
		rc = read_list(in, (size_t)least(count, BLOCK_CHAPTER_MAX), NULL, WORDS(block_hist), &hist, &ret->hists, err);
	ret->hist = (struct block_hist *)hist;
	if (rc == 0 && in->hists)
		rc = look_at_hists(ret, count, err);
	rc = rc == 0 ? read_apart(in, count, ret, err) : rc;
	if (rc == 0 && in->form == OF_DAYS && (ret->hists > 0 || ret->aparts > 0))
		return bad(err, "days have steps, or records that stand apart");
	return rc;
}

/* With what they are less of. */
static uint64_t words_for(uint64_t words)
{
	words |= UINT64_C(1) << COUNT;
	words |= words & UINT64_C(1) << TS_MAX ? UINT64_C(1) << TS_MIN : 0;
	words |= words & UINT64_C(1) << IDX_MAX ? UINT64_C(1) << IDX_MIN : 0;
	return words | (words & UINT64_C(1) << TS_MIN ? UINT64_C(1) << DAY : 0);
}

int block_sums_read(const void *p, size_t len, int64_t first, int64_t cnt, struct block_sums *ret, struct err *err)
{
	return block_sums_read_some(p, len, first, cnt, BLOCK_SUM_ALL, true, ret, err);
}

static int read_sums(struct reading *in, size_t len, struct block_sums *ret, struct err *err)
{
	const uint64_t whole = in->form == OF_BOOK ? OVER_DAYS : FULL;
	const bool book = in->form != OF_CHAPTER;
	uint64_t form = 0;
	int rc = 0;

	*ret = (struct block_sums){ .partial = true };
	in->end = in->p + len;
	if (in->cnt < 1 || in->cnt > (book ? BLOCK_BOOK_MAX : BLOCK_CHAPTER_MAX) || in->first < 0 ||
	    in->first > BLOCK_IDX_MAX - (in->cnt - 1))
		return bad(err, book ? "it is one of no records, of more than 4194304, or of such as no block has"
			   : "it is one of no records, of more than 262144, or of such as no block has");
	in->p = len > 0 ? get_varint(in->p, in->end, &form) : NULL;
	if (in->p && form != PARTIAL && form != whole)
		return form > OVER_DAYS || in->form != OF_BOOK
			? err_set(err, ERR_INVALID, "sums", "the sums are of a form that only a later release knows")
			: bad(err, "a book has the sums of a chapter");
	if (in->p && form == whole) {
		ret->partial = false;
		rc = read_full(in, ret, err);
	}
	if (rc == 0 && (!in->p || in->p != in->end))
		rc = bad(err, "it is cut off, or something stands behind it");
	block_zlib_free(&in->zlib);
	free(in->one.p);
	return rc;
}

int block_sums_read_some(const void *p, size_t len, int64_t first, int64_t cnt, uint64_t words, bool hists,
			 struct block_sums *ret, struct err *err)
{
	struct reading in = { .p = p, .first = first, .cnt = cnt, .words = words_for(words), .hists = hists };

	return read_sums(&in, len, ret, err);
}

int block_book_read_some(const void *p, size_t len, int64_t first, int64_t cnt, uint64_t words, bool hists,
			 struct block_sums *ret, struct err *err)
{
	struct reading in = { .p = p, .first = first, .cnt = cnt, .words = words_for(words), .hists = hists,
		.form = OF_BOOK };

	return read_sums(&in, len, ret, err);
}

int block_book_read(const void *p, size_t len, int64_t first, int64_t cnt, struct block_sums *ret, struct err *err)
{
	return block_book_read_some(p, len, first, cnt, BLOCK_SUM_ALL, true, ret, err);
}

int block_days_read_some(const void *p, size_t len, int64_t first, int64_t cnt, uint64_t words, struct block_sums *ret,
			 struct err *err)
{
	struct reading in = { .p = p, .first = first, .cnt = cnt, .words = words_for(words), .hists = true, .form = OF_DAYS };

	return read_sums(&in, len, ret, err);
}

int block_days_read(const void *p, size_t len, int64_t first, int64_t cnt, struct block_sums *ret, struct err *err)
{
	return block_days_read_some(p, len, first, cnt, BLOCK_SUM_ALL, ret, err);
}

void block_sums_fini(struct block_sums *sums)
{
	free(sums->sum);
	free(sums->hist);
	free(sums->apart);
	*sums = (struct block_sums){ .partial = true };
}

static bool same_list(const void *a, size_t n, const void *b, size_t m, size_t size)
{
	return n == m && (n == 0 || memcmp(a, b, n * size) == 0);
}

static bool same_numbers(const struct block_sums *a, const struct block_sums *b)
{
	return a->partial == b->partial && same_list(a->sum, a->sums, b->sum, b->sums, sizeof(*a->sum)) &&
		same_list(a->hist, a->hists, b->hist, b->hists, sizeof(*a->hist)) &&
		same_list(a->apart, a->aparts, b->apart, b->aparts, sizeof(*a->apart));
}

typedef int read_fn(const void *p, size_t len, int64_t first, int64_t cnt, struct block_sums *ret, struct err *err);

static bool same(read_fn *read, struct block_bytes a, struct block_bytes b, int64_t first, int64_t cnt, struct err *err)
{
	struct block_sums x, y = { .partial = true };
	const bool is = read(a.p, a.len, first, cnt, &x, err) == 0 && read(b.p, b.len, first, cnt, &y, err) == 0 &&
		same_numbers(&x, &y);

	block_sums_fini(&x);
	block_sums_fini(&y);
	return is;
}

bool block_sums_same(struct block_bytes a, struct block_bytes b, int64_t first, int64_t cnt, struct err *err)
{
	return same(block_sums_read, a, b, first, cnt, err);
}

bool block_book_same(struct block_bytes a, struct block_bytes b, int64_t first, int64_t cnt, struct err *err)
{
	return same(block_book_read, a, b, first, cnt, err);
}

bool block_days_same(struct block_bytes a, struct block_bytes b, int64_t first, int64_t cnt, struct err *err)
{
	return same(block_days_read, a, b, first, cnt, err);
}
