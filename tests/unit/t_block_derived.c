/* What is derived from blocks, counted here once more the long way, and payloads in groups (SCALE 5). */

#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "block/zone.h"

#include "block_rig.h"
#include "suite.h"

#define OK(expr) do { if ((expr) != 0) fail_msg("%s: %s: %s", #expr, f->err.where, f->err.msg); } while (0)
#define HOUR_US INT64_C(3600000000)
#define DAY_US (24 * HOUR_US)

struct fix {
	struct rig rig;
	struct block_maker *maker;
	struct block_reader *reader;
	struct block_zoner *zoner;
	struct block_summer *summer;
	struct block_zones *zones;
	struct audit_bytes out, again;
	struct err err;
	struct block b;
};

static int set_up(void **state)
{
	struct fix *f = mem_zalloc(sizeof(*f));

	rig_init(&f->rig, 1);
	f->maker = block_maker_new();
	f->reader = block_reader_new(&f->rig.of);
	f->zoner = block_zoner_new();
	f->summer = block_summer_new();
	f->zones = mem_zalloc(sizeof(*f->zones));
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	block_maker_free(&f->maker);
	block_reader_free(&f->reader);
	block_zoner_free(&f->zoner);
	block_summer_free(&f->summer);
	free(f->zones);
	free(f->out.p);
	free(f->again.p);
	rig_fini(&f->rig);
	free(f);
	return 0;
}

/* A block of these rows, open. */
static void make(struct fix *f, size_t from, size_t n)
{
	for (size_t i = from; i < from + n; i++)
		OK(block_maker_add(f->maker, &f->rig.row[i], &f->err));
	block_maker_end(f->maker, &f->b);
	OK(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err));
	OK(block_derived(f->reader, &f->err));
}

/* --- zones */

/* How many rows have that id. */
static int64_t have(const struct fix *f, enum audit_column col, int64_t id)
{
	int64_t n = 0;

	for (size_t i = 0; i < f->rig.n; i++)
		n += f->rig.row[i].v[col].present && f->rig.row[i].v[col].n == id;
	return n;
}

static void sc206_a_zone_lists_each_id_with_its_count(void **state)
{
	struct fix *f = *state;

	for (unsigned seed = 0; seed < 20; seed++) {
		if (seed % 2)
			rig_calls(&f->rig, 0, 300);
		else
			rig_any(&f->rig, 0, 100, 10);
		make(f, 0, f->rig.n);
		OK(block_zones_read(f->b.zone.p, f->b.zone.len, (int64_t)f->rig.n, f->zones, &f->err));
		for (unsigned z = 0; z < ZONE_COUNT; z++) {
			const struct block_zone *zone = &f->zones->of[z];
			int64_t sum = 0, present = 0;

			for (unsigned i = 0; i < zone->n; i++) {
				assert_int_equal(zone->v[i].count, have(f, block_zone_columns[z], zone->v[i].id));
				assert_true(block_zone_may_have(f->zones, (enum block_zone_column)z, zone->v[i].id));
				assert_true(i == 0 || zone->v[i].id > zone->v[i - 1].id);
				sum += zone->v[i].count;
			}
			for (size_t i = 0; i < f->rig.n; i++)
				present += f->rig.row[i].v[block_zone_columns[z]].present;
			assert_int_equal(sum, present);
			assert_false(block_zone_may_have(f->zones, (enum block_zone_column)z, 123456789));
		}
	}
}

/* So many ids of one column. */
static void many(struct fix *f, size_t ids)
{
	rig_any(&f->rig, 0, 2000, 0);
	for (size_t i = 0; i < f->rig.n; i++) {
		rig_least(&f->rig, &f->rig.row[i], (int64_t)i);
		audit_row_int(&f->rig.row[i], COL_KEY, (int64_t)(i * 7919 % ids));
	}
	rig_leaves(&f->rig);
	make(f, 0, f->rig.n);
	OK(block_zones_read(f->b.zone.p, f->b.zone.len, (int64_t)f->rig.n, f->zones, &f->err));
}

static void sc206_a_zone_names_1024_ids_at_most(void **state)
{
	struct fix *f = *state;

	many(f, BLOCK_ZONE_IDS_MAX);
	assert_false(f->zones->of[ZONE_KEY].many);
	assert_int_equal(f->zones->of[ZONE_KEY].n, BLOCK_ZONE_IDS_MAX);
	assert_false(block_zone_may_have(f->zones, ZONE_KEY, BLOCK_ZONE_IDS_MAX));
	many(f, BLOCK_ZONE_IDS_MAX + 1);
	assert_true(f->zones->of[ZONE_KEY].many);
	assert_int_equal(f->zones->of[ZONE_KEY].n, 0);
	assert_true(block_zone_may_have(f->zones, ZONE_KEY, 99999));
	assert_false(f->zones->of[ZONE_KIND].many);
	/* Of a chapter too, and it stays so. */
	block_zoner_add_zones(f->zoner, f->zones);
	many(f, 3);
	block_zoner_add_zones(f->zoner, f->zones);
	block_zoner_end(f->zoner, &f->out);
	OK(block_zones_read(f->out.p, f->out.len, 4000, f->zones, &f->err));
	assert_true(f->zones->of[ZONE_KEY].many);
	assert_int_equal(f->zones->of[ZONE_KIND].v[0].count, 4000);
}

static void the_zone_of_a_chapter_is_that_of_its_blocks(void **state)
{
	struct fix *f = *state;
	struct block_zoner *rows = block_zoner_new();

	rig_calls(&f->rig, 0, 1000);
	for (size_t i = 0; i < 1000; i += 250) {
		make(f, i, 250);
		OK(block_zones_read(f->b.zone.p, f->b.zone.len, 250, f->zones, &f->err));
		block_zoner_add_zones(f->zoner, f->zones);
		block_zoner_add_block(rows, f->reader);
	}
	block_zoner_end(f->zoner, &f->out);
	block_zoner_end(rows, &f->again);
	assert_int_equal(f->out.len, f->again.len);
	assert_memory_equal(f->out.p, f->again.p, f->out.len);
	block_zoner_free(&rows);
}

/* Each byte of it, and what a reader would miss then (SCALE 10, T44). */
static void sc207_a_zone_that_lies_is_found(void **state)
{
	struct fix *f = *state;
	uint8_t zone[4096];

	rig_calls(&f->rig, 0, 60);
	make(f, 0, 60);
	memcpy(zone, f->b.zone.p, f->b.zone.len);
	f->b.zone.p = zone;
	for (size_t i = 0; i < f->b.zone.len; i++) {
		zone[i] ^= 1;
		OK(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err));
		assert_int_equal(block_derived(f->reader, &f->err), ERR_CORRUPT);
		assert_string_equal(f->err.where, "zone");
		assert_int_equal(block_check(f->reader, &f->b, (const uint8_t (*)[TREE_HASH])f->rig.leaf, &f->err), ERR_CORRUPT);
		zone[i] ^= 1;
	}
	f->b.ts_max++;
	OK(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err));
	assert_int_equal(block_derived(f->reader, &f->err), ERR_CORRUPT);
	assert_string_equal(f->err.where, "ts");
	f->b.ts_max--;
	f->b.ts_min--;
	OK(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err));
	assert_int_equal(block_derived(f->reader, &f->err), ERR_CORRUPT);
}

static void sc201_zones_are_read_strictly(void **state)
{
	/* of kind, then nothing of seven columns; of at most 5 records */
	static const struct { const char *p; size_t len; int rc; } cases[] = {
#define ZONE_CASE(s, rc) { s "\0\0\0\0\0\0\0", sizeof(s) + 6, rc }
		ZONE_CASE("\0", 0), ZONE_CASE("\1\0\5", 0), ZONE_CASE("\2\1\2\1\3", 0), ZONE_CASE("\201\10", 0),
		ZONE_CASE("\1\1\0", ERR_CORRUPT), ZONE_CASE("\1\1\6", ERR_CORRUPT), ZONE_CASE("\2\1\2\0\3", ERR_CORRUPT),
		ZONE_CASE("\2\1\2\1\4", ERR_CORRUPT), ZONE_CASE("\202\10", ERR_CORRUPT), ZONE_CASE("\201\0\1\1", ERR_CORRUPT),
		ZONE_CASE("\1\201\0\1", ERR_CORRUPT), ZONE_CASE("\1\377\377\377\377\377\377\377\377\177\5", 0),
		ZONE_CASE("\1\377\377\377\377\377\377\377\377\377\1\5", ERR_CORRUPT),
		ZONE_CASE("\2\377\377\377\377\377\377\377\377\177\1\1\1", ERR_CORRUPT), ZONE_CASE("\0\0", ERR_CORRUPT),
		{ "\0\0\0\0\0\0\0", 7, ERR_CORRUPT }, { "", 0, ERR_CORRUPT },
	};
	struct fix *f = *state;

	for (size_t i = 0; i < NELEMS(cases); i++)
		if (block_zones_read(cases[i].p, cases[i].len, 5, f->zones, &f->err) != cases[i].rc)
			fail_msg("case %zu", i);
	assert_int_equal(block_zones_read(cases[0].p, cases[0].len, 0, f->zones, &f->err), ERR_CORRUPT);
	OK(block_zones_read(cases[0].p, cases[0].len, BLOCK_CHAPTER_MAX, f->zones, &f->err));
	assert_int_equal(block_zones_read(cases[0].p, cases[0].len, BLOCK_CHAPTER_MAX + 1, f->zones, &f->err), ERR_CORRUPT);
}

/* --- sums */

static int64_t word(const struct audit_row *row, enum audit_column col)
{
	return row->v[col].present ? row->v[col].n : -1;
}

static bool of_entry(const struct audit_row *row, const struct block_sum *e)
{
	const int64_t ts = row->v[COL_TS].n, hour = ts / HOUR_US % 24;

	if (row->v[COL_KIND].n == 1001 || ts / DAY_US != e->day || (hour < 6 || hour >= 22) != e->night)
		return false;
	if (row->v[COL_CALL].present != e->called)
		return false;
	for (unsigned k = 0; k < SUM_KEYS; k++)
		if (word(row, block_sum_columns[k]) != e->key[k])
			return false;
	return true;
}

static void counts_are_right(const struct fix *f, const struct block_sum *e)
{
	struct block_sum want = { .idx_min = -1 };

	for (size_t i = 0; i < f->rig.n; i++) {
		const struct audit_row *row = &f->rig.row[i];
		const int64_t ts = row->v[COL_TS].n, dur = word(row, COL_DUR);

		if (!of_entry(row, e))
			continue;
		want.ts_min = want.count == 0 || ts < want.ts_min ? ts : want.ts_min;
		want.ts_max = ts > want.ts_max ? ts : want.ts_max;
		want.idx_min = want.count++ ? want.idx_min : row->v[COL_IDX].n;
		want.idx_max = row->v[COL_IDX].n;
		want.timed += dur >= 0;
		want.dur += dur >= 0 ? dur : 0;
		want.dur_max = dur > want.dur_max ? dur : want.dur_max;
		want.n_req += row->v[COL_N_REQ].present ? row->v[COL_N_REQ].n : 0;
		want.n_res += row->v[COL_N_RES].present ? row->v[COL_N_RES].n : 0;
	}
	want.day = e->day;
	want.night = e->night;
	want.called = e->called;
	memcpy(want.key, e->key, sizeof(want.key));
	assert_memory_equal(&want, e, sizeof(want));
}

/* Rows of few combinations over three days. */
static void some_calls(struct fix *f, size_t n)
{
	static const uint8_t outcomes[] = { 0, 0, 0, 1, 2, 5, 7, 8, 10 };

	rig_any(&f->rig, 70, n, 0);
	for (size_t i = 0; i < n; i++) {
		struct audit_row *row = &f->rig.row[i];

		rig_least(&f->rig, row, 70 + (int64_t)i);
		audit_row_int(row, COL_TS, 20000 * DAY_US + (int64_t)rig_below(&f->rig, 3 * DAY_US));
		audit_row_int(row, COL_KIND, 1001 + (int64_t)rig_below(&f->rig, 3));
		audit_row_int(row, COL_PRN, 5 + (int64_t)rig_below(&f->rig, 2));
		audit_row_int(row, COL_TOOL, 9);
		if (row->v[COL_KIND].n != 1002)
			continue;
		audit_row_blob(row, COL_CALL, "0123456789abcdef", 16);
		audit_row_int(row, COL_OUTCOME, outcomes[rig_below(&f->rig, NELEMS(outcomes))]);
		audit_row_int(row, COL_DUR, (int64_t)(rig_next(&f->rig) >> (20 + rig_below(&f->rig, 44))));
		audit_row_int(row, COL_N_REQ, (int64_t)i);
	}
}

static void sum_up(struct fix *f, size_t blocks, struct block_sums *ret)
{
	const size_t n = f->rig.n / blocks;

	for (size_t i = 0; i < blocks; i++) {
		make(f, i * n, n);
		block_summer_add(f->summer, f->reader);
	}
	block_summer_end(f->summer, &f->out);
	OK(block_sums_read(f->out.p, f->out.len, f->rig.row[0].v[COL_IDX].n, (int64_t)f->rig.n, ret, &f->err));
}

static void sums_are_what_the_records_come_to(void **state)
{
	struct fix *f = *state;
	struct block_sums sums;
	int64_t count = 0, steps = 0, ended = 0;

	some_calls(f, 4000);
	sum_up(f, 4, &sums);
	assert_false(sums.partial);
	for (size_t i = 0; i < sums.sums; i++) {
		counts_are_right(f, &sums.sum[i]);
		count += sums.sum[i].count;
	}
	assert_int_equal(count, 4000 - have(f, COL_KIND, 1001));
	for (size_t i = 0; i < sums.hists; i++)
		steps += sums.hist[i].count;
	ended = have(f, COL_KIND, 1002);
	assert_int_equal(steps, ended);
	/* What was read says the same again. */
	block_summer_add_sums(f->summer, 70, &sums);
	block_summer_end(f->summer, &f->again);
	assert_int_equal(f->out.len, f->again.len);
	assert_memory_equal(f->out.p, f->again.p, f->out.len);
	block_sums_fini(&sums);
}

/* What an end does not say its begin does, as in v_calls; without its begin it stands apart. */
static void sums_of_ends_are_those_of_their_begins(void **state)
{
	struct fix *f = *state;
	struct block_sums sums;

	some_calls(f, 80);
	for (size_t i = 0; i < 80; i++) {
		struct audit_row *row = &f->rig.row[i];
		const bool begin = i % 2 == 0;

		rig_least(&f->rig, row, 70 + (int64_t)i);
		audit_row_int(row, COL_KIND, begin ? 1001 : 1002);
		audit_row_int(row, COL_TPORT, begin ? 4 : 3);
		audit_row_int(row, COL_REV, begin ? 11 : 12);
		if (begin) {
			audit_row_int(row, COL_CLIENT, 13);
			audit_row_int(row, COL_TOOL, 14);
			audit_row_int(row, COL_N_REQ, 100);
		} else if (i != 1) {
			audit_row_int(row, COL_BEG, i == 3 ? 7 : 70 + (int64_t)i - 1);
		}
	}
	sum_up(f, 4, &sums);
	assert_false(sums.partial);
	assert_int_equal(sums.sums, 2);         /* the one that names no begin is the other */
	assert_int_equal(sums.aparts, 1);
	assert_int_equal(sums.apart[0], 73);
	assert_int_equal(sums.sum[0].key[SUM_CLIENT], -1);
	assert_int_equal(sums.sum[0].key[SUM_TPORT], -1);
	assert_int_equal(sums.sum[0].count, 1);
	assert_int_equal(sums.sum[1].key[SUM_CLIENT], 13);
	assert_int_equal(sums.sum[1].key[SUM_TPORT], 4);
	assert_int_equal(sums.sum[1].key[SUM_REV], 12);
	assert_int_equal(sums.sum[1].key[SUM_TOOL], -1);
	assert_int_equal(sums.sum[1].count, 38);
	assert_int_equal(sums.sum[1].n_req, 3800);
	block_sums_fini(&sums);
}

/* The ends of steps as stats has them: an eighth of a power of two. */
static void durations_fall_into_steps(void **state)
{
	static const struct { int64_t us, step; } cases[] = {
		{ 0, 0 }, { 1, 1 }, { 15, 15 }, { 16, 16 }, { 17, 16 }, { 18, 17 }, { 31, 23 }, { 32, 24 }, { 1000, 63 },
		{ INT64_C(1) << 42, 319 }, { INT64_C(1) << 41, 312 }, { INT64_MAX, 319 },
	};
	struct fix *f = *state;
	struct block_sums sums;

	for (size_t c = 0; c < NELEMS(cases); c++) {
		some_calls(f, 16);
		for (size_t i = 0; i < 16; i++) {
			rig_least(&f->rig, &f->rig.row[i], 70 + (int64_t)i);
			audit_row_int(&f->rig.row[i], COL_KIND, 1002);
			if (i == 0)
				audit_row_int(&f->rig.row[i], COL_DUR, cases[c].us);
			audit_row_blob(&f->rig.row[i], COL_CALL, "0123456789abcdef", 16);
		}
		sum_up(f, 1, &sums);
		assert_false(sums.partial);
		assert_int_equal(sums.sum[0].timed, 1);
		assert_int_equal(sums.hist[sums.hists - 1].step, cases[c].step);
		assert_int_equal(sums.hist[0].class, CLASS_OTHER);
		block_sums_fini(&sums);
	}
}

/* An eighth as many entries as records, and no more. */
static void sums_that_are_not_worth_it_are_partial(void **state)
{
	struct fix *f = *state;
	struct block_sums sums;

	for (unsigned more = 0; more < 2; more++) {
		some_calls(f, 80);
		for (size_t i = 0; i < 80; i++) {
			rig_least(&f->rig, &f->rig.row[i], 70 + (int64_t)i);
			audit_row_int(&f->rig.row[i], COL_TOOL, (int64_t)i % (10 + more));
		}
		sum_up(f, 1, &sums);
		assert_int_equal(sums.partial, more);
		assert_int_equal(sums.sums, more ? 0 : 10);
		block_sums_fini(&sums);
	}
	/* Nor are sums that no number holds. */
	some_calls(f, 80);
	for (size_t i = 0; i < 80; i++) {
		rig_least(&f->rig, &f->rig.row[i], 70 + (int64_t)i);
		if (i < 2)
			audit_row_int(&f->rig.row[i], COL_N_RES, i ? INT64_MAX : 0);
	}
	sum_up(f, 1, &sums);
	assert_false(sums.partial);
	block_sums_fini(&sums);
	audit_row_int(&f->rig.row[0], COL_N_RES, 1);
	sum_up(f, 1, &sums);
	assert_true(sums.partial);
	block_sums_fini(&sums);
	/* Of begins there is nothing to say, and that is whole. */
	for (size_t i = 0; i < 80; i++)
		audit_row_int(&f->rig.row[i], COL_KIND, 1001);
	sum_up(f, 1, &sums);
	assert_true(!sums.partial && sums.sums == 0 && sums.hists == 0);
	block_sums_fini(&sums);
}

/* No byte of them can be another, and none be missing or too much (T45). */
static void sc207_sums_that_lie_are_found(void **state)
{
	struct fix *f = *state;
	struct block_sums sums;
	uint8_t *lie;

	some_calls(f, 800);
	sum_up(f, 1, &sums);
	block_sums_fini(&sums);
	lie = mem_dup(f->out.p, f->out.len + 1);
	for (size_t i = 0; i < 8 * f->out.len; i++) {
		lie[i / 8] ^= (uint8_t)(1u << i % 8);
		if (block_sums_read(lie, f->out.len, 70, 800, &sums, &f->err) == 0 && !sums.partial) {
			/* As much as can be said of them alone; a count of the records gives other bytes. */
			block_summer_add_sums(f->summer, 70, &sums);
			block_summer_end(f->summer, &f->again);
			assert_true(f->again.len > 0);
		}
		block_sums_fini(&sums);
		lie[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	for (size_t len = 0; len <= f->out.len + 1; len++) {
		const int rc = block_sums_read(lie, len, 70, 800, &sums, &f->err);

		assert_true(rc == (len == f->out.len ? 0 : ERR_CORRUPT));
		block_sums_fini(&sums);
	}
	free(lie);
}

static void sc201_sums_are_read_strictly(void **state)
{
	/* One entry of kind 3 on day 0 by night, of eight records; words are streams of one byte. */
#define HEAD "\1\1\41\1"
#define WORDS(kind, count, timed) "\3\0\3\1\3\0\3" kind "\3" count "\3" timed "\3\0\3\0\3\0\3\0\3\0\3\7\3\0\3\0"
	static const struct { const char *p; size_t len; int rc; } cases[] = {
#define SUMS_CASE(s, rc) { s, sizeof(s) - 1, rc }
		SUMS_CASE("\0", 0), SUMS_CASE("\1\0\0\0\0", 0), SUMS_CASE(HEAD WORDS("\4", "\10", "\0") "\0\0", 0),
		SUMS_CASE("", ERR_CORRUPT), SUMS_CASE("\0\0", ERR_CORRUPT), SUMS_CASE("\2", ERR_INVALID),
		SUMS_CASE("\1\1\42\0\0", ERR_CORRUPT), SUMS_CASE("\1\1\7\0\0", ERR_INVALID),
		SUMS_CASE("\1\2\41\42\1" WORDS("\4\3\0", "\10", "\0") "\0\0", ERR_CORRUPT),       /* a name without values */
		SUMS_CASE("\1\2\42\41\1", ERR_CORRUPT), SUMS_CASE("\1\2\41\41\1", ERR_CORRUPT),
		SUMS_CASE(HEAD WORDS("\0", "\10", "\0") "\0\0", ERR_CORRUPT), SUMS_CASE(HEAD WORDS("\4", "\7", "\0") "\0\0", ERR_CORRUPT),
		SUMS_CASE(HEAD WORDS("\4", "\11", "\0") "\0\0", ERR_CORRUPT), SUMS_CASE(HEAD WORDS("\4", "\10", "\11") "\0\0", ERR_CORRUPT),
		SUMS_CASE("\1\1\41\2" WORDS("\4", "\10", "\0") "\0\0", ERR_CORRUPT), SUMS_CASE("\1\0\0\0\1", ERR_CORRUPT),
		SUMS_CASE(HEAD WORDS("\4", "\10", "\0") "\0\1\3\0", ERR_CORRUPT),     /* nine of eight */
		SUMS_CASE(HEAD WORDS("\4", "\10", "\0") "\0\2\5\0\1", ERR_CORRUPT), SUMS_CASE(HEAD WORDS("\4", "\10", "\0") "\0", ERR_CORRUPT),
	};
	struct fix *f = *state;
	struct block_sums sums;

	for (size_t i = 0; i < NELEMS(cases); i++) {
		const int rc = block_sums_read(cases[i].p, cases[i].len, 0, 8, &sums, &f->err);

		if (rc != cases[i].rc)
			fail_msg("case %zu: %d %s", i, rc, f->err.msg);
		block_sums_fini(&sums);
	}
	assert_int_equal(block_sums_read("", 1, 0, BLOCK_CHAPTER_MAX + 1, &sums, &f->err), ERR_CORRUPT);
	OK(block_sums_read("", 1, 0, BLOCK_CHAPTER_MAX, &sums, &f->err));
	OK(block_sums_read("", 1, INT64_MAX - BLOCK_RECORDS_MAX - 4, 5, &sums, &f->err));
	assert_int_equal(block_sums_read("", 1, INT64_MAX - BLOCK_RECORDS_MAX - 3, 5, &sums, &f->err), ERR_CORRUPT);
}

/* --- payloads */

static const struct block_bytes none;

static struct block_bytes text(const char *z)
{
	return (struct block_bytes){ z, strlen(z) };
}

static bool same(const struct block_bytes *a, const struct block_bytes *b)
{
	return !a->p == !b->p && a->len == b->len && (a->len == 0 || memcmp(a->p, b->p, a->len) == 0);
}

static void payloads_come_back(void **state)
{
	struct fix *f = *state;
	struct block_payload in[BLOCK_PAYLOADS_MAX + 1], out[BLOCK_PAYLOADS_MAX];
	size_t n;

	for (size_t i = 0; i < NELEMS(in); i++)
		in[i] = (struct block_payload){
			i % 3 ? text("0123456789abcdef") : none, i % 3 == 1 ? text("nonce") : none, i % 3 == 2 ? text("") : none };
	in[4].ct = text("ciphertext");
	OK(block_payloads_write(in, NELEMS(in), &f->out, &n, &f->err));
	assert_int_equal(n, BLOCK_PAYLOADS_MAX);
	OK(block_payloads_read(f->out.p, f->out.len, out, &n, &f->err));
	assert_int_equal(n, BLOCK_PAYLOADS_MAX);
	for (size_t i = 0; i < n; i++)
		assert_true(same(&in[i].salt, &out[i].salt) && same(&in[i].nonce, &out[i].nonce) && same(&in[i].ct, &out[i].ct));
	/* Erased: the group without what goes (SC-804). */
	out[4] = (struct block_payload){ none, none, none };
	OK(block_payloads_write(out, n, &f->again, &n, &f->err));
	assert_null(memmem(f->again.p, f->again.len, "ciphertext", 10));
	assert_true(f->again.len == f->out.len - 16 - 10 - 5);
}

static void sc204_a_group_has_4_mib_at_most(void **state)
{
	struct fix *f = *state;
	const size_t half = BLOCK_BODY_MAX / 2, room = BLOCK_BODY_MAX - 7682;
	struct block_payload in[3], out[BLOCK_PAYLOADS_MAX];
	uint8_t *ct = mem_zalloc(BLOCK_BODY_MAX);
	size_t n;

	for (unsigned i = 0; i < 3; i++)
		in[i] = (struct block_payload){ text("salt"), none, { ct, half } };
	OK(block_payloads_write(in, 3, &f->out, &n, &f->err));
	assert_int_equal(n, 1);
	in[1].ct.len = half - 7682 - 8;
	OK(block_payloads_write(in, 3, &f->out, &n, &f->err));
	assert_int_equal(n, 2);
	OK(block_payloads_read(f->out.p, f->out.len, out, &n, &f->err));
	in[1].ct.len++;
	OK(block_payloads_write(in, 3, &f->out, &n, &f->err));
	assert_int_equal(n, 1);
	in[0].ct.len = room - 4;
	OK(block_payloads_write(in, 1, &f->out, &n, &f->err));
	in[0].ct.len++;
	assert_int_equal(block_payloads_write(in, 1, &f->out, &n, &f->err), ERR_INVALID);
	/* Not the first: its own group's time will come. */
	in[1] = in[0];
	in[0].ct.len = 5;
	OK(block_payloads_write(in, 2, &f->out, &n, &f->err));
	assert_int_equal(n, 1);
	in[0].salt = none;
	assert_int_equal(block_payloads_write(in, 1, &f->out, &n, &f->err), ERR_INVALID);
	ct = realloc(ct, BLOCK_BODY_MAX + 1);
	assert_int_equal(block_payloads_read(ct, BLOCK_BODY_MAX + 1, out, &n, &f->err), ERR_CORRUPT);
	free(ct);
}

static void sc201_payloads_are_read_strictly(void **state)
{
	static const struct { const char *p; size_t len; int rc; } cases[] = {
#define PAY_CASE(s, rc) { s, sizeof(s) - 1, rc }
		PAY_CASE("\1\0\0\0", 0), PAY_CASE("\1\2\1\0s", 0), PAY_CASE("\2\0\0\0\1\1\1", 0), PAY_CASE("", ERR_CORRUPT),
		PAY_CASE("\0", ERR_CORRUPT), PAY_CASE("\1\0\1\0", ERR_CORRUPT), PAY_CASE("\1\0\0\1", ERR_CORRUPT),
		PAY_CASE("\1\2\0\0", ERR_CORRUPT), PAY_CASE("\1\1\0\0s", ERR_CORRUPT), PAY_CASE("\1\201\0\0\0", ERR_CORRUPT),
		PAY_CASE("\1\377\377\377\377\377\377\377\377\377\1\0\0", ERR_CORRUPT), PAY_CASE("\201\2", ERR_CORRUPT),
		PAY_CASE("\2\2\0\0\2\0\0s", ERR_CORRUPT), PAY_CASE("\1\0\0", ERR_CORRUPT),
	};
	struct fix *f = *state;
	struct block_payload v[BLOCK_PAYLOADS_MAX];
	uint8_t more[3 + 3 * 257] = { 0x80, 2 };
	size_t n;

	for (size_t i = 0; i < NELEMS(cases); i++)
		if (block_payloads_read(cases[i].p, cases[i].len, v, &n, &f->err) != cases[i].rc)
			fail_msg("case %zu", i);
	OK(block_payloads_read(more, 2 + 3 * 256, v, &n, &f->err));
	more[0] = 0x81;
	assert_int_equal(block_payloads_read(more, 2 + 3 * 257, v, &n, &f->err), ERR_CORRUPT);
}

SINGLE_THREAD_SUITE(block_derived)
{
#define WITH_BLOCKS(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		WITH_BLOCKS(sc206_a_zone_lists_each_id_with_its_count),
		WITH_BLOCKS(sc206_a_zone_names_1024_ids_at_most),
		WITH_BLOCKS(the_zone_of_a_chapter_is_that_of_its_blocks),
		WITH_BLOCKS(sc207_a_zone_that_lies_is_found),
		WITH_BLOCKS(sc201_zones_are_read_strictly),
		WITH_BLOCKS(sums_are_what_the_records_come_to),
		WITH_BLOCKS(sums_of_ends_are_those_of_their_begins),
		WITH_BLOCKS(durations_fall_into_steps),
		WITH_BLOCKS(sums_that_are_not_worth_it_are_partial),
		WITH_BLOCKS(sc207_sums_that_lie_are_found),
		WITH_BLOCKS(sc201_sums_are_read_strictly),
		WITH_BLOCKS(payloads_come_back),
		WITH_BLOCKS(sc204_a_group_has_4_mib_at_most),
		WITH_BLOCKS(sc201_payloads_are_read_strictly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
