/* Sums of a chapter: what its records come to by day, half of the day and combination of what reports group by, and
 * how long calls took.  Derived from blocks and counted anew by who checks them (SC-207); too many to be worth it
 * are not kept. */

#include "config.h"

#include <stdlib.h>

#include "base/crypto.h"
#include "base/id.h"
#include "base/mem.h"
#include "block/zone.h"

#include "block_int.h"

enum { PARTIAL, FULL };
enum { KIND_BEGIN = 1001, KIND_END = 1002 };
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
enum { SUM_KEY = 2 + SUM_KEYS, HIST_KEY = 5, HIST_GROUP = 4 };
_Static_assert(WORDS(block_hist) == HIST_KEY + 1, "numbers");

struct table {
	int64_t *v;
	size_t words, key, n, cap, most;
	uint32_t *slot;                 /* places in v, from 1 on; twice as many as entries at most */
	size_t slots;
	uint8_t seed[DIGEST_SHORT_KEY];
};

struct block_summer {
	struct table sum, hist;
	bool over;                      /* too many, or too large */
	int64_t first, records;         /* records: that are no begin */
	bool begun;
	struct block_zlib *zlib;
	struct audit_bytes one;
};

static void table_init(struct table *t, size_t words, size_t key, size_t most)
{
	*t = (struct table){ .words = words, .key = key, .most = most };
	id_random(t->seed, sizeof(t->seed));
}

struct block_summer *block_summer_new(void)
{
	struct block_summer *s = mem_zalloc(sizeof(*s));

	table_init(&s->sum, WORDS(block_sum), SUM_KEY, BLOCK_CHAPTER_MAX / BLOCK_SUMS_SHARE);
	table_init(&s->hist, WORDS(block_hist), HIST_KEY, BLOCK_CHAPTER_MAX);
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
	block_zlib_free(&s->zlib);
	free(s->one.p);
	free(s);
}

/* --- entries */

static uint32_t *slot_of(struct table *t, const int64_t *key)
{
	size_t at = digest_short(t->seed, key, t->key * sizeof(*key)) % t->slots;

	while (t->slot[at] && memcmp(t->v + (t->slot[at] - 1) * t->words, key, t->key * sizeof(*key)) != 0)
		at = (at + 1) % t->slots;
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

static enum block_class class_of(int64_t outcome)
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
static int64_t step_of(uint64_t us)
{
	unsigned power, n;

	if (us < 2 * BLOCK_HIST_SUB)
		return (int64_t)us;
	power = 63 - (unsigned)__builtin_clzll(us);
	n = (power - 3) * BLOCK_HIST_SUB + (unsigned)(us >> (power - 3) & (BLOCK_HIST_SUB - 1)) + BLOCK_HIST_SUB;
	return n < BLOCK_HIST_STEPS ? n : BLOCK_HIST_STEPS - 1;
}

static int64_t is_night(int64_t ts)
{
	const int64_t hour = ts % DAY_US / HOUR_US;

	return hour < NIGHT_TO_H || hour >= NIGHT_FROM_H;
}

/* false: more than 63 bits. */
static bool sum_up(int64_t *sum, const struct block_reader *r, enum audit_column col, int64_t i)
{
	int64_t v = 0;

	return !block_number(r, col, i, &v) || !__builtin_add_overflow(*sum, v, sum);
}

static bool add_sum(struct block_summer *s, const struct block_reader *r, int64_t i, const struct block_sum *key,
		    int64_t ts)
{
	struct block_sum *e = (struct block_sum *)entry(&s->sum, &key->day);
	const int64_t idx = block_first(r) + i;
	int64_t dur = 0;

	if (!e)
		return false;
	e->ts_min = e->count == 0 || ts < e->ts_min ? ts : e->ts_min;
	e->ts_max = ts > e->ts_max ? ts : e->ts_max;
	e->idx_min = e->count == 0 ? idx : e->idx_min;
	e->idx_max = idx;
	e->count++;
	if (block_number(r, COL_DUR, i, &dur)) {
		e->timed++;
		e->dur_max = dur > e->dur_max ? dur : e->dur_max;
	}
	return sum_up(&e->dur, r, COL_DUR, i) && sum_up(&e->n_req, r, COL_N_REQ, i) && sum_up(&e->n_res, r, COL_N_RES, i);
}

static bool add_hist(struct block_summer *s, const struct block_reader *r, int64_t i, const struct block_sum *key)
{
	int64_t dur = 0, k[HIST_KEY] = { key->day, key->night, key->key[SUM_TOOL], class_of(key->key[SUM_OUTCOME]) };
	struct block_hist *e;

	if (key->key[SUM_KIND] != KIND_END)
		return true;
	k[HIST_GROUP] = block_number(r, COL_DUR, i, &dur) ? step_of((uint64_t)dur) : 0;
	e = (struct block_hist *)entry(&s->hist, k);
	if (e)
		e->count++;
	return e != NULL;
}

void block_summer_add(struct block_summer *s, const struct block_reader *r)
{
	if (!s->begun)
		s->first = block_first(r);
	s->begun = true;
	for (int64_t i = 0; i < block_count(r) && !s->over; i++) {
		struct block_sum key = { 0 };
		int64_t ts = 0;

		for (unsigned k = 0; k < SUM_KEYS; k++)
			(void)block_number(r, block_sum_columns[k], i, &key.key[k]);
		if (key.key[SUM_KIND] == KIND_BEGIN)
			continue;
		(void)block_number(r, COL_TS, i, &ts);
		key.day = ts / DAY_US;
		key.night = is_night(ts);
		s->records++;
		s->over = !add_sum(s, r, i, &key, ts) || !add_hist(s, r, i, &key);
	}
}

static bool merge_sum(struct block_sum *to, const struct block_sum *e)
{
	if (!to)
		return false;
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

void block_summer_add_sums(struct block_summer *s, int64_t first, const struct block_sums *sums)
{
	if (!s->begun)
		s->first = first;
	s->begun = true;
	for (size_t i = 0; i < sums->sums && !s->over; i++) {
		s->records += sums->sum[i].count;
		s->over = !merge_sum((struct block_sum *)entry(&s->sum, &sums->sum[i].day), &sums->sum[i]);
	}
	for (size_t i = 0; i < sums->hists && !s->over; i++) {
		struct block_hist *e = (struct block_hist *)entry(&s->hist, &sums->hist[i].day);

		s->over = !e;
		if (e)
			e->count += sums->hist[i].count;
	}
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
enum { DAY = 0, NIGHT = 1, KEYS = 2 };
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
	for (size_t word = 0; word < t->words && t->n > 0; word++) {
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
	if (s->over || !few(s->sum.n, s->records) || !few(groups_of(&s->hist), s->records))
		return false;
	for (size_t i = 0; i < s->sum.n; i++)
		for (unsigned k = 0; k < SUM_KEYS; k++)
			named[k] |= s->sum.v[i * s->sum.words + KEYS + k] >= 0;
	for (unsigned k = 0; k < SUM_KEYS; k++)
		n += named[k];
	block_put(out, FULL);
	block_put(out, n);
	for (unsigned k = 0; k < SUM_KEYS; k++)
		if (named[k])
			block_put(out, audit_columns[block_sum_columns[k]].tag);
	put_streams(s, &s->sum, named, out);
	put_streams(s, &s->hist, NULL, out);
	return true;
}

void block_summer_end(struct block_summer *s, struct audit_bytes *out)
{
	struct table *tables[] = { &s->sum, &s->hist };

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
}

/* --- reading */

struct reading {
	const uint8_t *p, *end;
	int64_t first, cnt;
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
	*ret = mem_try_realloc(NULL, (size_t)n * words * sizeof(**ret));
	if (!*ret)
		return err_set(err, ERR_LIMIT, "sums", "there is no memory for the sums of a chapter");
	*ret_n = (size_t)n;
	for (size_t word = 0; word < words && rc == 0; word++) {
		const bool absent = named && word >= KEYS && word < SUM_KEY && !named[word - KEYS];

		for (size_t i = 0; absent && i < n; i++)
			(*ret)[i * words + word] = -1;
		rc = absent ? 0 : read_stream(in, *ret, words, (size_t)n, word, !named, err);
	}
	return rc;
}

static bool sum_is_sound(const struct block_sum *e, int64_t first, int64_t cnt)
{
	return e->count > 0 && e->count <= cnt && e->timed <= e->count &&
		e->dur_max <= e->dur && (e->timed > 0 || e->dur == 0) &&
		e->idx_max < first + cnt && e->idx_max - e->idx_min >= e->count - 1 && e->key[SUM_KIND] != KIND_BEGIN &&
		e->key[SUM_KIND] >= 0 && e->ts_max / DAY_US == e->day && is_night(e->ts_min) == e->night &&
		is_night(e->ts_max) == e->night;
}

static int look_at_sums(const struct block_sums *s, const bool *named, const struct reading *in, int64_t *ret_count,
			struct err *err)
{
	bool seen[SUM_KEYS] = { false };
	int64_t count = 0;

	for (size_t i = 0; i < s->sums; i++) {
		const struct block_sum *e = &s->sum[i];

		if (!sum_is_sound(e, in->first, in->cnt) || (i > 0 && by_sum(e - 1, e) >= 0))
			return bad(err, "entries do not ascend, or contradict themselves");
		for (unsigned k = 0; k < SUM_KEYS; k++)
			seen[k] |= e->key[k] >= 0;
		count += e->count;
	}
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

static int read_full(struct reading *in, struct block_sums *ret, struct err *err)
{
	bool named[SUM_KEYS] = { false };
	int64_t count = 0, *sum = NULL, *hist = NULL;
	int rc = read_named(in, named, err);

	if (rc == 0)
		rc = read_list(in, (size_t)in->cnt / BLOCK_SUMS_SHARE, named, WORDS(block_sum), &sum, &ret->sums, err);
	ret->sum = (struct block_sum *)sum;
	if (rc == 0)
		rc = look_at_sums(ret, named, in, &count, err);
	if (rc == 0)
		rc = read_list(in, (size_t)count, NULL, WORDS(block_hist), &hist, &ret->hists, err);
	ret->hist = (struct block_hist *)hist;
	return rc == 0 ? look_at_hists(ret, count, err) : rc;
}

int block_sums_read(const void *p, size_t len, int64_t first, int64_t cnt, struct block_sums *ret, struct err *err)
{
	struct reading in = { .p = p, .first = first, .cnt = cnt };
	uint64_t form = 0;
	int rc = 0;

	*ret = (struct block_sums){ .partial = true };
	in.end = in.p + len;
	if (cnt < 1 || cnt > BLOCK_CHAPTER_MAX || first < 0 || first > BLOCK_IDX_MAX - (cnt - 1))
		return bad(err, "it is one of no records, of more than 262144, or of such as no block has");
	in.p = len > 0 ? get_varint(in.p, in.end, &form) : NULL;
	if (in.p && form > FULL)
		return err_set(err, ERR_INVALID, "sums", "the sums are of a form that only a later release knows");
	if (in.p && form == FULL) {
		ret->partial = false;
		rc = read_full(&in, ret, err);
	}
	if (rc == 0 && (!in.p || in.p != in.end))
		rc = bad(err, "it is cut off, or something stands behind it");
	block_zlib_free(&in.zlib);
	free(in.one.p);
	return rc;
}

void block_sums_fini(struct block_sums *sums)
{
	free(sums->sum);
	free(sums->hist);
	*sums = (struct block_sums){ .partial = true };
}
