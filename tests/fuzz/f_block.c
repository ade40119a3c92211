/* Fuzz target: blocks of records and what is derived from them (SC-908).  The first byte says what the rest is:
 *	b  a block: how many records and bytes of hash and of zone (two bytes each, low first), hash, zone, cols
 *	c  the same, but cols as it is inflated: of each column its length in two bytes, 0 for none, and the bytes
 *	e  the same, where indexes end
 *	z  how many records (three bytes), a zone	s  the same with sums	p  a group of payloads
 *	g  a seed (four bytes): blocks that somebody was at, made here
 * What is taken is written again, and must be the same: nothing says in two ways what one record has.  And a block that
 * somebody was at does not give the leaves that it had, unless it has the content that it had. */

#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "block/zone.h"

#include "../unit/block_mutants.h"
#include "fuzz.h"

enum { FIRST = 1000, MUTANTS = 6 };
struct input { const uint8_t *p; size_t len; };

static const uint8_t *take(struct input *in, size_t n)
{
	const uint8_t *p = in->p;

	n = n < in->len ? n : in->len;
	in->p += n;
	in->len -= n;
	return p;
}

static size_t number(struct input *in, unsigned bytes)
{
	size_t v = 0;

	for (unsigned i = 0; i < bytes && in->len > 0; i++)
		v |= (size_t)*take(in, 1) << 8 * i;
	return v;
}

/* Each id has one, which belongs to nobody. */
static int text_of(void *arg, uint16_t kind, int64_t id, const char **ret, size_t *ret_len, struct err *err)
{
	static const char texts[][3] = { "a", "bc", "" };
	const size_t which = ((uint64_t)id + kind) % 3;

	(void)arg;
	(void)err;
	*ret = texts[which];
	*ret_len = strlen(texts[which]);
	return id != RIG_NO_TEXT;
}

static const struct block_texts of = { .log = 7, .origin = RIG_ORIGIN, .fn = text_of };

/* --- blocks */

/* Its rows into a maker.  0: all of them.  Else: ids have no texts, or the maker, who is careful, has no room. */
static int rows_again(struct block_reader *r, struct block_maker *m, struct block *ret)
{
	struct audit_row row;
	struct err err;
	int rc = 0;

	for (int64_t i = 0; i < block_count(r) && rc == 0; i++) {
		if (block_row(r, i, &row, &err) < 0)
			return -1;
		rc = block_maker_add(m, &row, &err);
		FUZZ_CHECK(rc >= 0);
	}
	block_maker_end(m, ret);
	return rc;
}

static void sums_again(const struct block_reader *r)
{
	struct block_summer *s = block_summer_new();
	struct audit_bytes bytes = { 0 }, again = { 0 };
	struct block_sums sums;
	struct err err;

	block_summer_add(s, r);
	block_summer_end(s, &bytes);
	FUZZ_CHECK(block_sums_read(bytes.p, bytes.len, block_first(r), block_count(r), &sums, &err) == 0);
	if (!sums.partial) {
		block_summer_add_sums(s, block_first(r), &sums);
		block_summer_end(s, &again);
		FUZZ_CHECK(again.len == bytes.len && memcmp(again.p, bytes.p, again.len) == 0);
	}
	block_sums_fini(&sums);
	block_summer_free(&s);
	free(bytes.p);
	free(again.p);
}

static void same_columns(const struct block *a, const struct block *b)
{
	struct parts x, y;

	parts_take(&x, a);
	parts_take(&y, b);
	FUZZ_CHECK(parts_same(&x, &y));
	for (unsigned i = 0; i < x.n; i++)
		FUZZ_CHECK(!x.col[i].deflate || x.col[i].len >= BLOCK_DEFLATE_MIN);
	parts_free(&x);
	parts_free(&y);
}

/* A block that was taken. */
static void taken(struct block_reader *r, const struct block *b)
{
	struct block_maker *m = block_maker_new();
	struct block again;
	struct err err;

	if (rows_again(r, m, &again) == 0) {
		const bool derived = again.ts_min == b->ts_min && again.ts_max == b->ts_max && again.zone.len == b->zone.len &&
			memcmp(again.zone.p, b->zone.p, again.zone.len) == 0;

		FUZZ_CHECK(again.first == b->first && again.cnt == b->cnt);
		same_columns(b, &again);
		FUZZ_CHECK((block_derived(r, &err) == 0) == derived);
		sums_again(r);
	}
	for (unsigned col = COL_CALL; col < COL_COUNT; col++)
		FUZZ_CHECK(block_open(r, b, BLOCK_COLUMN(col), &err) == 0);
	block_maker_free(&m);
}

/* Who has a value, by columns alone; of a block that can be read, whole: its reader. */
static void present(const struct block *b, const struct block_reader *whole)
{
	struct block_reader *r = block_reader_new(&of);
	struct block without = *b;
	struct err err;
	bool read;

	without.hash = (struct block_bytes){ "", 0 };
	read = block_open_present(r, &without, BLOCK_ALL_COLUMNS, &err) == 0;
	FUZZ_CHECK(read || !whole);
	for (unsigned col = COL_CALL; col < COL_COUNT && whole; col++)
		for (int64_t i = 0; i < block_count(whole); i++)
			FUZZ_CHECK(block_has(r, col, i) == block_has(whole, col, i));
	block_reader_free(&r);
}

static void block(const struct block *b)
{
	struct block_reader *r = block_reader_new(&of);
	struct err err;

	if (block_open(r, b, BLOCK_ALL_COLUMNS, &err) == 0) {
		present(b, r);
		taken(r, b);
	} else {
		present(b, NULL);
		FUZZ_CHECK(block_count(r) == 0 && block_columns(r) == 0);
	}
	block_reader_free(&r);
}

/* Columns as an encoder puts them, in place of bytes. */
static void put_columns(struct input *in, struct parts *parts)
{
	while (in->len > 0 && parts->n < PART_COLUMNS) {
		struct part *c = &parts->col[parts->n++];
		const size_t asked = number(in, 2), len = asked < in->len ? asked : in->len;
		uLongf deflated = compressBound(len);
		uint8_t *to = malloc(deflated);

		if (len > 0)
			part_set(c, take(in, len), len);
		c->deflate = len >= BLOCK_DEFLATE_MIN && compress2(to, &deflated, c->p, len, 9) == Z_OK && deflated < len;
		free(to);
	}
}

static void block_of(struct input *in, int64_t first, bool inflated)
{
	struct parts parts = { .b = { .first = first, .fmt = BLOCK_FORMAT, .ts_min = 5, .ts_max = 5 } };
	const struct block *b = &parts.b;
	size_t hash, zone;

	parts.b.cnt = (int64_t)number(in, 2);
	hash = number(in, 2);
	zone = number(in, 2);
	part_set(&parts.hash, in->p, hash < in->len ? hash : in->len);
	(void)take(in, hash);
	parts.b.zone.p = in->p;
	parts.b.zone.len = zone < in->len ? zone : in->len;
	(void)take(in, zone);
	if (inflated) {
		put_columns(in, &parts);
		b = parts_join(&parts);
	} else {
		parts.b.cols = (struct block_bytes){ in->p, in->len };
		parts.b.hash = (struct block_bytes){ parts.hash.p, parts.hash.len };
	}
	block(b);
	parts_free(&parts);
}

/* --- what is derived */

static void zone_of(struct input *in)
{
	struct block_zones *zones = mem_zalloc(sizeof(*zones));
	struct block_zoner *z = block_zoner_new();
	struct audit_bytes again = { 0 };
	struct err err;
	const int64_t cnt = (int64_t)number(in, 3);

	if (block_zones_read(in->p, in->len, cnt, zones, &err) == 0) {
		block_zoner_add_zones(z, zones);
		block_zoner_end(z, &again);
		FUZZ_CHECK(again.len == in->len && memcmp(again.p, in->p, in->len) == 0);
	}
	block_zoner_free(&z);
	free(zones);
	free(again.p);
}

static bool same_sums(const struct block_sums *a, const struct block_sums *b)
{
	return a->partial == b->partial && a->sums == b->sums && a->hists == b->hists &&
		(a->sums == 0 || memcmp(a->sum, b->sum, a->sums * sizeof(*a->sum)) == 0) &&
		(a->hists == 0 || memcmp(a->hist, b->hist, a->hists * sizeof(*a->hist)) == 0);
}

/* Days of what a chapter comes to can be read, and are as many records. */
static void days_of(const struct block_sums *sums, int64_t cnt)
{
	struct block_summer *s = block_summer_new_days();
	struct audit_bytes bytes = { 0 };
	struct block_sums days;
	struct err err;
	int64_t n = 0;

	block_summer_add_sums(s, FIRST, sums);
	block_summer_end(s, &bytes);
	FUZZ_CHECK(block_days_read(bytes.p, bytes.len, FIRST, cnt, &days, &err) == 0);
	for (size_t i = 0; i < sums->sums; i++)
		n += sums->sum[i].count;
	for (size_t i = 0; i < days.sums; i++)
		n -= days.sum[i].count;
	FUZZ_CHECK(days.partial || n == 0);
	block_sums_fini(&days);
	block_summer_free(&s);
	free(bytes.p);
}

static void sums_of(struct input *in)
{
	const int64_t cnt = (int64_t)number(in, 3);
	struct block_summer *s = block_summer_new();
	struct audit_bytes bytes = { 0 };
	struct block_sums sums, again;
	struct err err;

	if (block_sums_read(in->p, in->len, FIRST, cnt, &sums, &err) == 0 && !sums.partial) {
		block_summer_add_sums(s, FIRST, &sums);
		block_summer_end(s, &bytes);
		FUZZ_CHECK(block_sums_read(bytes.p, bytes.len, FIRST, cnt, &again, &err) == 0 && same_sums(&sums, &again));
		block_sums_fini(&again);
		days_of(&sums, cnt);
	}
	block_sums_fini(&sums);
	if (block_days_read(in->p, in->len, FIRST, cnt, &sums, &err) == 0 && !sums.partial)
		days_of(&sums, cnt);
	block_sums_fini(&sums);
	FUZZ_CHECK(block_book_read(in->p, in->len, FIRST, cnt, &sums, &err) <= 0);
	block_sums_fini(&sums);
	block_summer_free(&s);
	free(bytes.p);
}

static void payloads_of(struct input *in)
{
	struct block_payload v[BLOCK_PAYLOADS_MAX];
	struct audit_bytes again = { 0 };
	struct err err;
	size_t n = 0, wrote = 0;

	if (block_payloads_read(in->p, in->len, v, &n, &err) == 0) {
		FUZZ_CHECK(block_payloads_write(v, n, &again, &wrote, &err) == 0 && wrote == n);
		FUZZ_CHECK(again.len == in->len && memcmp(again.p, in->p, in->len) == 0);
	}
	free(again.p);
}

/* --- blocks that somebody was at */

/* NULL: it is not taken, or an id has no text. */
static uint8_t *leaves_of(struct block_reader *r, const struct block *b)
{
	uint8_t *leaves;
	struct err err;

	if (block_open(r, b, BLOCK_ALL_COLUMNS, &err) < 0)
		return NULL;
	leaves = mem_calloc((size_t)b->cnt, TREE_HASH);
	for (int64_t i = 0; i < b->cnt; i++)
		if (block_leaf(r, i, leaves + i * TREE_HASH, &err) < 0) {
			free(leaves);
			return NULL;
		}
	return leaves;
}

static void mutants_of(struct rig *rig, const struct block *b)
{
	struct block_reader *r = block_reader_new(&rig->of);
	uint8_t *leaves = leaves_of(r, b), *others;

	FUZZ_CHECK(leaves);
	for (unsigned i = 0; i < MUTANTS; i++) {
		struct mutant m;

		mutant_make(&m, rig, b);
		others = leaves_of(r, &m.b);
		if (others && m.b.first == b->first && m.b.cnt == b->cnt &&
		    memcmp(leaves, others, (size_t)b->cnt * TREE_HASH) == 0)
			same_columns(b, &m.b);
		free(others);
		block(&m.b);
		mutant_free(&m);
	}
	free(leaves);
	block_reader_free(&r);
}

static void made(struct input *in)
{
	struct block_maker *m = block_maker_new();
	struct rig rig;
	struct block b;
	struct err err;

	rig_init(&rig, number(in, 4));
	if (rig_below(&rig, 2))
		rig_calls(&rig, FIRST, 1 + rig_below(&rig, 100));
	else
		rig_any(&rig, FIRST, 1 + rig_below(&rig, 20), 200);
	for (size_t i = 0; i < rig.n; i++)
		FUZZ_CHECK(block_maker_add(m, &rig.row[i], &err) == 0);
	block_maker_end(m, &b);
	mutants_of(&rig, &b);
	rig_fini(&rig);
	block_maker_free(&m);
}

FUZZ_TARGET(block)
{
	struct input in = { data, size };

	switch (number(&in, 1)) {
	case 'b':
		block_of(&in, FIRST, false);
		break;
	case 'c':
		block_of(&in, FIRST, true);
		break;
	case 'e':
		block_of(&in, INT64_MAX - BLOCK_RECORDS_MAX - 1, true);
		break;
	case 'z':
		zone_of(&in);
		break;
	case 's':
		sums_of(&in);
		break;
	case 'p':
		payloads_of(&in);
		break;
	case 'g':
		made(&in);
		break;
	default:
		break;
	}
	return 0;
}
