/* Blocks of records: what comes out is what went in, to the leaf, and no two blocks say the same (SCALE 5). */

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

#include "block_parts.h"
#include "block_rig.h"
#include "suite.h"

#define OK(expr) do { if ((expr) != 0) fail_msg("%s: %s: %s", #expr, f->err.where, f->err.msg); } while (0)

struct fix {
	struct rig rig;
	struct block_maker *maker;
	struct block_reader *reader;
	struct err err;
	struct block b;
	struct parts parts;
};

static int set_up(void **state)
{
	struct fix *f = mem_zalloc(sizeof(*f));

	rig_init(&f->rig, 1);
	f->maker = block_maker_new();
	f->reader = block_reader_new(&f->rig.of);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	parts_free(&f->parts);
	block_maker_free(&f->maker);
	block_reader_free(&f->reader);
	rig_fini(&f->rig);
	free(f);
	return 0;
}

/* The block of the rig's rows. */
static void make(struct fix *f)
{
	for (size_t i = 0; i < f->rig.n; i++)
		OK(block_maker_add(f->maker, &f->rig.row[i], &f->err));
	assert_int_equal(block_maker_count(f->maker), f->rig.n);
	block_maker_end(f->maker, &f->b);
	assert_int_equal(block_maker_count(f->maker), 0);
	parts_free(&f->parts);
	parts_take(&f->parts, &f->b);
}

static void same_row(const struct audit_row *a, const struct audit_row *b)
{
	for (unsigned col = 0; col < COL_COUNT; col++) {
		const struct audit_value *x = &a->v[col], *y = &b->v[col];

		if (x->present != y->present || x->n != y->n || x->len != y->len ||
		    (x->len > 0 && memcmp(x->p, y->p, x->len) != 0))
			fail_msg("column %s of record %lld", audit_columns[col].name, (long long)b->v[COL_IDX].n);
	}
}

static void gives_all_back(struct fix *f)
{
	struct audit_row row;

	OK(block_check(f->reader, &f->b, (const uint8_t (*)[TREE_HASH])f->rig.leaf, &f->err));
	assert_int_equal(block_count(f->reader), f->rig.n);
	for (size_t i = 0; i < f->rig.n; i++) {
		OK(block_row(f->reader, (int64_t)i, &row, &f->err));
		same_row(&row, &f->rig.row[i]);
	}
}

static void sc102_a_block_of_calls_gives_back_rows_and_leaves(void **state)
{
	static const size_t sizes[] = { 1, 2, 7, 8, 9, 300, BLOCK_RECORDS_MAX };
	struct fix *f = *state;

	for (size_t i = 0; i < NELEMS(sizes); i++) {
		rig_calls(&f->rig, 1000 * (int64_t)i, sizes[i]);
		make(f);
		gives_all_back(f);
		assert_int_equal(f->b.first, 1000 * i);
	}
	/* less than half of what rows take, and most of that is random */
	assert_true(f->b.cols.len < 30 * BLOCK_RECORDS_MAX && f->b.hash.len < 60 * BLOCK_RECORDS_MAX);
}

/* What block_maker_add() says of a row. */
static void sc203_random_blocks_give_back_every_leaf(void **state)
{
	struct fix *f = *state;

	for (unsigned seed = 0; seed < 150; seed++) {
		f->rig.seed = seed;
		rig_any(&f->rig, seed % 3 ? (int64_t)rig_below(&f->rig, 1u << 20) : 0, 1 + rig_below(&f->rig, 60), 200);
		make(f);
		gives_all_back(f);
	}
}

static void sc203_a_leaf_that_differs_is_said_with_its_index(void **state)
{
	struct fix *f = *state;

	rig_calls(&f->rig, 500, 100);
	make(f);
	f->rig.leaf[42][31] ^= 1;
	assert_int_equal(block_check(f->reader, &f->b, (const uint8_t (*)[TREE_HASH])f->rig.leaf, &f->err), ERR_CORRUPT);
	assert_string_equal(f->err.where, "idx/542");
}

/* Each column of the encoding in all records, in none, in some, with the ends of its range. */
static void each_column_is_there_or_not(void **state)
{
	static const int64_t edges[] = { 0, 1, 127, 128, INT64_MAX, 0, INT64_MAX, 5 };
	struct fix *f = *state;

	for (unsigned col = COL_CALL; col < COL_COUNT; col++) {
		for (unsigned in = 0; in <= 0xFF; in += in == 0 ? 1 : in == 1 ? 0x54 : in == 0x55 ? 0x2B : in == 0x80 ? 0x7F : 1) {
			rig_any(&f->rig, 40, 8, 10);
			for (unsigned i = 0; i < 8; i++) {
				struct audit_row *row = &f->rig.row[i];
				const char *text;
				size_t len = audit_columns[col].size;

				rig_least(&f->rig, row, 40 + i);
				if (!(in >> i & 1))
					continue;
				if (audit_columns[col].form == FORM_INT) {
					audit_row_int(row, (enum audit_column)col, edges[i]);
				} else if (audit_columns[col].form == FORM_DICT) {
					assert_int_equal(rig_text(&f->rig, audit_columns[col].tag, edges[i], &text, &len, NULL), 1);
					audit_row_text(row, (enum audit_column)col, edges[i], text, len);
				} else {
					len = len ? len : col == COL_CM ? 34 * i : i;
					audit_row_blob(row, (enum audit_column)col, rig_bytes(&f->rig, len), len);
				}
			}
			rig_leaves(&f->rig);
			make(f);
			gives_all_back(f);
		}
	}
}

static void clocks_that_step_and_begins_from_anywhere(void **state)
{
	static const int64_t ts[] = { 0, INT64_MAX, 0, 1767225600000000, 1767225500000000, INT64_MAX, INT64_MAX };
	static const int64_t beg[] = { 0, INT64_MAX, 100, 106, 7, 105, 104 };
	struct fix *f = *state;

	rig_any(&f->rig, 100, NELEMS(ts), 10);
	for (size_t i = 0; i < NELEMS(ts); i++) {
		audit_row_int(&f->rig.row[i], COL_TS, ts[i]);
		audit_row_int(&f->rig.row[i], COL_MONO, ts[NELEMS(ts) - 1 - i]);
		audit_row_int(&f->rig.row[i], COL_BEG, beg[i]);
		audit_row_blob(&f->rig.row[i], COL_CALL, "0123456789abcdef", 16);
	}
	rig_leaves(&f->rig);
	make(f);
	gives_all_back(f);
	assert_int_equal(f->b.ts_min, 0);
	assert_true(f->b.ts_max == INT64_MAX);
}

/* A call stands once where an end names its begin before it in the block. */
static void call_ids_are_shared_with_their_begins(void **state)
{
	struct fix *f = *state;

	rig_any(&f->rig, 10, 4, 0);
	for (unsigned i = 0; i < 4; i++) {
		rig_least(&f->rig, &f->rig.row[i], 10 + i);
		audit_row_blob(&f->rig.row[i], COL_CALL, "0123456789abcdef", 16);
	}
	audit_row_int(&f->rig.row[1], COL_BEG, 10);     /* shared */
	audit_row_int(&f->rig.row[2], COL_BEG, 11);     /* with one that is shared itself */
	audit_row_int(&f->rig.row[3], COL_BEG, 9);      /* in the block before */
	rig_leaves(&f->rig);
	make(f);
	gives_all_back(f);
	assert_int_equal(f->b.hash.len, 2 * 10);
	audit_row_blob(&f->rig.row[1], COL_CALL, "0123456789abcdeF", 16);       /* another */
	rig_leaves(&f->rig);
	make(f);
	gives_all_back(f);
	assert_int_equal(f->b.hash.len, 4 * 10);
}

static void sc202_making_is_deterministic(void **state)
{
	struct fix *f = *state;
	struct parts first;

	rig_calls(&f->rig, 0, 700);
	make(f);
	parts_take(&first, &f->b);
	for (unsigned i = 0; i < 2; i++) {
		make(f);
		assert_true(parts_same(&first, &f->parts));
	}
	parts_free(&first);
}

/* --- what it cannot carry */

static void refuses(struct fix *f, const struct audit_row *row, const char *column)
{
	int64_t had = block_maker_count(f->maker);
	char where[40];

	assert_int_equal(block_maker_add(f->maker, row, &f->err), ERR_INVALID);
	snprintf(where, sizeof(where), "idx/%lld", (long long)row->v[COL_IDX].n);
	assert_string_equal(f->err.where, where);
	if (!strstr(f->err.msg, column))
		fail_msg("%s: %s", column, f->err.msg);
	assert_int_equal(block_maker_count(f->maker), had);
}

static void sc204_what_cannot_be_carried_is_said_and_nothing_lost(void **state)
{
	static const enum audit_column must[] = { COL_LOG, COL_IDX, COL_TS, COL_KIND };
	static const uint8_t bytes[BLOCK_BLOB_MAX + 1];
	struct fix *f = *state;
	struct audit_row row;

	rig_calls(&f->rig, 5, 21);
	f->rig.n = 20;
	for (size_t i = 0; i < 20; i++)
		OK(block_maker_add(f->maker, &f->rig.row[i], &f->err));
	for (unsigned col = 0; col < COL_COUNT; col++) {
		row = f->rig.row[20];
		if (audit_columns[col].form == FORM_BLOB) {
			audit_row_blob(&row, (enum audit_column)col, bytes, BLOCK_BLOB_MAX + 1);
			refuses(f, &row, audit_columns[col].name);
			audit_row_blob(&row, (enum audit_column)col, bytes, audit_columns[col].size - 1u);
			if (audit_columns[col].size)
				refuses(f, &row, audit_columns[col].name);
		} else if (col != COL_LOG) {
			audit_row_int(&row, (enum audit_column)col, -1);
			refuses(f, &row, audit_columns[col].name);
		}
	}
	row = f->rig.row[20];
	audit_row_blob(&row, COL_CM, bytes, 33);
	refuses(f, &row, "cm");
	for (size_t i = 0; i < NELEMS(must); i++) {
		row = f->rig.row[20];
		row.v[must[i]].present = false;
		refuses(f, &row, audit_columns[must[i]].name);
	}
	row = f->rig.row[20];
	row.v[COL_IDX].n = 26;
	assert_int_equal(block_maker_add(f->maker, &row, &f->err), ERR_INTERNAL);
	row.v[COL_IDX].n = INT64_MAX - BLOCK_RECORDS_MAX + 1;
	refuses(f, &row, "idx");
	block_maker_end(f->maker, &f->b);
	gives_all_back(f);
}

static void sc204_the_largest_values_are_carried(void **state)
{
	struct fix *f = *state;

	rig_any(&f->rig, INT64_MAX - BLOCK_RECORDS_MAX, 1, 0);
	audit_row_blob(&f->rig.row[0], COL_EXT, rig_bytes(&f->rig, BLOCK_BLOB_MAX), BLOCK_BLOB_MAX);
	audit_row_blob(&f->rig.row[0], COL_CM, rig_bytes(&f->rig, 34 * 1927), 34 * 1927);
	rig_leaves(&f->rig);
	make(f);
	gives_all_back(f);
}

/* --- bounds of a block */

static void sc201_a_block_has_4096_records_at_most(void **state)
{
	struct fix *f = *state;

	rig_calls(&f->rig, 0, BLOCK_RECORDS_MAX + 1);
	f->rig.n = BLOCK_RECORDS_MAX;
	for (size_t i = 0; i < BLOCK_RECORDS_MAX; i++)
		OK(block_maker_add(f->maker, &f->rig.row[i], &f->err));
	assert_int_equal(block_maker_add(f->maker, &f->rig.row[BLOCK_RECORDS_MAX], &f->err), 1);
	block_maker_end(f->maker, &f->b);
	gives_all_back(f);
	OK(block_maker_add(f->maker, &f->rig.row[BLOCK_RECORDS_MAX], &f->err));
	f->b.cnt = BLOCK_RECORDS_MAX + 1;
	assert_int_equal(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err), ERR_CORRUPT);
	assert_string_equal(f->err.where, "cnt");
	f->b.cnt = 0;
	assert_int_equal(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err), ERR_CORRUPT);
	assert_int_equal(block_count(f->reader), 0);
}

/* Of a column whose values are of any length, 4 MiB: the maker stops before, the reader takes that much and not a byte more. */
static void sc201_four_mebibytes_come_out_of_a_stream(void **state)
{
	struct fix *f = *state;
	struct part *ext;
	size_t n = 0;

	rig_any(&f->rig, 0, 80, 0);
	for (size_t i = 0; i < f->rig.n; i++)
		audit_row_blob(&f->rig.row[i], COL_EXT, memset(arena_alloc(f->rig.arena, 65536), (int)i, 65536), 65536);
	rig_leaves(&f->rig);
	while (n < 80 && block_maker_add(f->maker, &f->rig.row[n], &f->err) == 0)
		n++;
	assert_int_equal(n, (BLOCK_STREAM_MAX - 600) / 65539);
	f->rig.n = n;
	block_maker_end(f->maker, &f->b);
	parts_take(&f->parts, &f->b);
	gives_all_back(f);
	ext = &f->parts.col[COL_EXT - 2];
	for (unsigned more = 0; more < 2; more++) {
		ext->p = realloc(ext->p, BLOCK_STREAM_MAX + more);
		memset(ext->p + ext->len, 0, BLOCK_STREAM_MAX + more - ext->len);
		ext->len = BLOCK_STREAM_MAX + more;
		assert_int_equal(block_open(f->reader, parts_join(&f->parts), BLOCK_COLUMN(COL_EXT), &f->err), ERR_CORRUPT);
		assert_true((strstr(f->err.msg, "more comes out") != NULL) == more);
		ext->deflate = false;
		assert_int_equal(block_open(f->reader, parts_join(&f->parts), BLOCK_COLUMN(COL_EXT), &f->err), ERR_CORRUPT);
		assert_true((strstr(f->err.msg, "than") != NULL) == more);
		ext->deflate = true;
	}
}

static void sc201_four_mebibytes_do_not_compress(void **state)
{
	struct fix *f = *state;
	const uint8_t *cm;
	size_t n = 0;

	rig_any(&f->rig, 0, 80, 0);
	cm = rig_bytes(&f->rig, 34 * 1927);
	for (size_t i = 0; i < f->rig.n; i++) {
		rig_least(&f->rig, &f->rig.row[i], (int64_t)i);
		audit_row_blob(&f->rig.row[i], COL_CM, cm, 34 * 1927);
	}
	rig_leaves(&f->rig);
	while (n < 80 && block_maker_add(f->maker, &f->rig.row[n], &f->err) == 0)
		n++;
	assert_int_equal(n, BLOCK_STREAM_MAX / (32 * 1927));
	f->rig.n = n;
	block_maker_end(f->maker, &f->b);
	gives_all_back(f);
	assert_true(f->b.hash.len <= BLOCK_STREAM_MAX && f->b.hash.len + 32 * 1927 > BLOCK_STREAM_MAX);
	f->b.hash.len = BLOCK_STREAM_MAX + 1;
	assert_int_equal(block_open(f->reader, &f->b, BLOCK_COLUMN(COL_KIND), &f->err), ERR_CORRUPT);
	assert_string_equal(f->err.where, "hash");
}

/* A column of numbers has no room for 4 MiB: of what a bomb says no more is inflated than so many records can have. */
static void sc201_a_bomb_costs_no_more_than_its_records(void **state)
{
	struct fix *f = *state;
	uint8_t *zeros = mem_zalloc(4 << 20);

	rig_calls(&f->rig, 0, 3);
	make(f);
	part_set(&f->parts.col[COL_TS - 2], zeros, 4 << 20);
	f->parts.col[COL_TS - 2].deflate = true;
	(void)parts_join(&f->parts);
	mem_fail_above(4096);
	assert_int_equal(block_open(f->reader, &f->parts.b, BLOCK_COLUMN(COL_TS), &f->err), ERR_CORRUPT);
	assert_string_equal(f->err.where, "ts");
	mem_fail_above(0);
	part_set(&f->parts.col[COL_TS - 2], f->parts.col[COL_KIND - 2].p, f->parts.col[COL_KIND - 2].len);
	part_set(&f->parts.col[COL_EXT - 2], zeros, 4 << 20);
	f->parts.col[COL_EXT - 2].deflate = true;
	f->parts.n = PART_COLUMNS;
	(void)parts_join(&f->parts);
	mem_fail_above(4096);
	assert_int_equal(block_open(f->reader, &f->parts.b, BLOCK_COLUMN(COL_EXT), &f->err), ERR_LIMIT);
	mem_fail_above(SIZE_MAX);
	free(zeros);
}

/* --- reading parts */

static void sc206_only_what_is_asked_for_is_read(void **state)
{
	struct fix *f = *state;
	uint64_t asked = BLOCK_COLUMN(COL_KIND) | BLOCK_COLUMN(COL_TOOL);
	int64_t n = 0;
	struct audit_row row;
	uint8_t leaf[TREE_HASH];

	rig_calls(&f->rig, 0, 500);
	make(f);
	/* No other column can be read. */
	for (unsigned i = 0; i < f->parts.n; i++)
		if (!(asked >> (i + 2) & 1) && f->parts.col[i].here)
			part_set(&f->parts.col[i], "\7no column", 10), f->parts.col[i].deflate = false;
	part_set(&f->parts.hash, "", 0);
	OK(block_open(f->reader, parts_join(&f->parts), asked, &f->err));
	assert_true(block_columns(f->reader) == asked);
	assert_int_equal(block_first(f->reader), 0);
	for (int64_t i = 0; i < 500; i++) {
		const struct audit_value *v = f->rig.row[i].v;

		assert_true(block_number(f->reader, COL_KIND, i, &n) && n == v[COL_KIND].n);
		assert_int_equal(block_number(f->reader, COL_TOOL, i, &n), v[COL_TOOL].present);
		assert_false(block_number(f->reader, COL_TS, i, &n));
	}
	OK(block_row(f->reader, 7, &row, &f->err));
	assert_true(row.v[COL_KIND].present && row.v[COL_LOG].present && row.v[COL_IDX].n == 7 && !row.v[COL_TS].present);
	assert_int_equal(block_leaf(f->reader, 7, leaf, &f->err), ERR_INTERNAL);
	assert_int_equal(block_derived(f->reader, &f->err), ERR_INTERNAL);
	assert_int_equal(block_row(f->reader, 500, &row, &f->err), ERR_INTERNAL);
	assert_int_equal(block_row(f->reader, -1, &row, &f->err), ERR_INTERNAL);
	assert_int_equal(block_open(f->reader, &f->parts.b, BLOCK_ALL_COLUMNS, &f->err), ERR_CORRUPT);
	/* Nothing is open then. */
	assert_int_equal(block_row(f->reader, 7, &row, &f->err), ERR_INTERNAL);
	assert_int_equal(block_columns(f->reader), 0);
}

/* Each column by itself gives what it gives with the others. */
static void sc206_each_column_can_be_asked_for_alone(void **state)
{
	struct fix *f = *state;

	rig_calls(&f->rig, 0, 300);
	make(f);
	for (unsigned col = COL_CALL; col < COL_COUNT; col++) {
		OK(block_open(f->reader, &f->b, BLOCK_COLUMN(col), &f->err));
		for (int64_t i = 0; i < 300; i++) {
			const struct audit_value *want = &f->rig.row[i].v[col];
			struct audit_row row;

			OK(block_row(f->reader, i, &row, &f->err));
			assert_int_equal(row.v[col].present, want->present);
			assert_true(row.v[col].n == want->n && row.v[col].len == want->len);
			if (want->len > 0)
				assert_memory_equal(row.v[col].p, want->p, want->len);
			for (unsigned other = COL_CALL; other < COL_COUNT; other++)
				assert_true(other == col || !row.v[other].present);
		}
	}
}

/* Who has a value is said by the columns; what stands in hash is read for values of those columns alone. */
static void sc206_hash_is_for_what_stands_there(void **state)
{
	struct fix *f = *state;
	struct block without;

	rig_any(&f->rig, 77, 60, 200);
	make(f);
	without = f->b;
	without.hash = (struct block_bytes){ "", 0 };
	OK(block_open_present(f->reader, &without, BLOCK_ALL_COLUMNS, &f->err));
	for (unsigned col = COL_CALL; col < COL_COUNT; col++)
		for (size_t i = 0; i < f->rig.n; i++)
			assert_int_equal(block_has(f->reader, col, (int64_t)i), f->rig.row[i].v[col].present);
	OK(block_open(f->reader, &without, BLOCK_ALL_COLUMNS & ~BLOCK_HASHED, &f->err));
	for (unsigned col = COL_CALL; col < COL_COUNT; col++) {
		bool any = false;

		for (size_t i = 0; i < f->rig.n; i++)
			any |= f->rig.row[i].v[col].present;
		if (any && (BLOCK_HASHED >> col & 1))
			assert_int_equal(block_open(f->reader, &without, BLOCK_COLUMN(col), &f->err), ERR_CORRUPT);
	}
}

static void sc201_ids_have_texts_or_there_is_no_row(void **state)
{
	struct fix *f = *state;
	struct audit_row row;

	rig_calls(&f->rig, 0, 2);
	audit_row_text(&f->rig.row[1], COL_SCOPE, RIG_NO_TEXT, "nobody knows", 12);
	make(f);
	OK(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err));
	OK(block_row(f->reader, 0, &row, &f->err));
	for (unsigned twice = 0; twice < 2; twice++) {
		assert_int_equal(block_row(f->reader, 1, &row, &f->err), ERR_CORRUPT);
		assert_string_equal(f->err.where, "scope/999");
	}
}

/* --- strictness: no other bytes say what a block says */

static void is_bad(struct fix *f, const char *where)
{
	if (block_open(f->reader, parts_join(&f->parts), BLOCK_ALL_COLUMNS, &f->err) != ERR_CORRUPT)
		fail_msg("%s: it is taken", where);
	assert_string_equal(f->err.where, where);
}

struct change { enum audit_column col; const char *bytes; size_t len; };
#define BYTES(s) s, sizeof(s) - 1

/* Three records from index 8 on: kind 1001, 1002, 1002; the second has beg 8, all the same call. */
static void three(struct fix *f)
{
	rig_any(&f->rig, 8, 3, 0);
	for (unsigned i = 0; i < 3; i++) {
		rig_least(&f->rig, &f->rig.row[i], 8 + i);
		audit_row_int(&f->rig.row[i], COL_TS, 5);
		audit_row_int(&f->rig.row[i], COL_KIND, i ? 1002 : 1001);
		audit_row_blob(&f->rig.row[i], COL_CALL, "0123456789abcdef", 16);
	}
	audit_row_int(&f->rig.row[1], COL_BEG, 8);
	audit_row_blob(&f->rig.row[2], COL_CM, "\0\1""0123456789abcdef0123456789abcdef", 34);
	audit_row_blob(&f->rig.row[2], COL_EXT, "ext", 3);
	audit_row_blob(&f->rig.row[0], COL_SH, "0123456789abcdef", 16);
	rig_leaves(&f->rig);
	make(f);
}

static void sc201_decoding_is_strict(void **state)
{
	static const struct change changes[] = {
		{ COL_TS, BYTES("") }, { COL_TS, BYTES("\2\12\0\0") }, { COL_TS, BYTES("\0\7\12\0\0") }, { COL_TS, BYTES("\1\12\0") },
		{ COL_TS, BYTES("\1\12\0\0\0") }, { COL_TS, BYTES("\1\212\0\0\0") }, { COL_TS, BYTES("\1\11\0\0") },
		{ COL_TS, BYTES("\1\12\0\13") }, { COL_TS, BYTES("\1\12\0\200") },
		{ COL_TS, BYTES("\1\376\377\377\377\377\377\377\377\377\1\2\0") }, { COL_TS, BYTES("\0\3\12\0") },
		{ COL_KIND, BYTES("\1\377\377\377\377\377\377\377\377\377\1\1\1") },
		{ COL_KIND, BYTES("\1\377\377\377\377\377\377\377\377\377\2\1\1") },
		{ COL_KIND, BYTES("\1\377\377\377\377\377\377\377\377\377\377\1\1\1") },
		{ COL_BEG, BYTES("\0\0") }, { COL_BEG, BYTES("\0\12\2") }, { COL_BEG, BYTES("\0\202\2") }, { COL_BEG, BYTES("\0") },
		{ COL_BEG, BYTES("\0\2\24") }, { COL_BEG, BYTES("\0\2\2\0") },
		{ COL_BEG, BYTES("\0\2\377\377\377\377\377\377\377\377\377\1") },
		{ COL_CALL, BYTES("\1\0""012345""\1\2") }, { COL_CALL, BYTES("\1\1""\1\0""012345") },
		{ COL_CALL, BYTES("\1\0""012345""\1\0""01234") }, { COL_CALL, BYTES("\1\0""012345""\1\1") },
		{ COL_CALL, BYTES("\1\0""012345""\0""012345""\0""012345") },
		{ COL_CM, BYTES("\0\4\1") }, { COL_CM, BYTES("\0\4\1\200\200\4") }, { COL_CM, BYTES("\0\4\1\1\0") },
		{ COL_CM, BYTES("\0\4\210\17") }, { COL_CM, BYTES("\0\4\2\1\1") }, { COL_CM, BYTES("\0\4") },
		{ COL_EXT, BYTES("\0\4\4ext") }, { COL_EXT, BYTES("\0\4\2ext") }, { COL_EXT, BYTES("\0\4\203\0ext") },
		{ COL_EXT, BYTES("\0\4\201\200\4""ext") },
		{ COL_SH, BYTES("\1") }, { COL_SH, BYTES("\0\1\0") }, { COL_SH, BYTES("\0\3") },
	};
	struct fix *f = *state;

	three(f);
	gives_all_back(f);
	for (size_t i = 0; i < NELEMS(changes); i++) {
		const struct change *c = &changes[i];
		const bool of_hash = (c->col == COL_SH && c->len == 1) || (c->col == COL_SH && c->bytes[1] == 3) ||
			(c->col == COL_CALL && c->len == 22);

		three(f);
		part_set(&f->parts.col[c->col - 2], c->bytes, c->len);
		if (of_hash)
			is_bad(f, c->col == COL_SH ? "hash" : "call");
		else
			is_bad(f, audit_columns[c->col].name);
	}
}

static void sc201_hash_is_used_to_the_last_byte(void **state)
{
	struct fix *f = *state;

	three(f);
	for (size_t len = f->parts.hash.len; len-- > 0; ) {
		three(f);
		f->parts.hash.len = len;
		if (block_open(f->reader, parts_join(&f->parts), BLOCK_ALL_COLUMNS, &f->err) != ERR_CORRUPT)
			fail_msg("%zu bytes of hash will do", len);
	}
	three(f);
	f->parts.hash.p = realloc(f->parts.hash.p, f->parts.hash.len + 1);
	f->parts.hash.p[f->parts.hash.len++] = 0;
	is_bad(f, "hash");
}

/* The list of columns ends with one that has values, and knows no others. */
static void sc201_columns_are_listed_once(void **state)
{
	struct fix *f = *state;
	uint8_t cols[4096];

	three(f);
	f->parts.n++;
	if (f->parts.n <= PART_COLUMNS)
		is_bad(f, "cols");
	three(f);
	memcpy(cols, f->b.cols.p, f->b.cols.len);
	f->b.cols.p = cols;
	for (size_t len = f->b.cols.len; len-- > 0; ) {
		struct block cut = f->b;

		cut.cols.len = len;
		assert_int_equal(block_open(f->reader, &cut, BLOCK_ALL_COLUMNS, &f->err), ERR_CORRUPT);
		assert_true(block_open(f->reader, &cut, BLOCK_COLUMN(COL_KIND), &f->err) == ERR_CORRUPT);
	}
	cols[f->b.cols.len++] = 0;
	assert_int_equal(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err), ERR_CORRUPT);
	cols[0] = PART_COLUMNS + 1;
	assert_int_equal(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err), ERR_INVALID);
	cols[0] = 0;
	f->b.cols.len = 1;
	assert_int_equal(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err), ERR_CORRUPT);
	three(f);
	f->b.fmt = 2;
	assert_int_equal(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err), ERR_INVALID);
	three(f);
	f->b.first = -1;
	assert_int_equal(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err), ERR_CORRUPT);
	f->b.first = INT64_MAX - BLOCK_RECORDS_MAX - 2;         /* it has three records */
	OK(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err));
	f->b.first++;
	assert_int_equal(block_open(f->reader, &f->b, BLOCK_ALL_COLUMNS, &f->err), ERR_CORRUPT);
}

/* A record that has kind and time alone leaves no room for a column without them. */
static void sc201_each_record_has_a_kind_and_a_time(void **state)
{
	static const enum audit_column must[] = { COL_TS, COL_KIND };
	struct fix *f = *state;

	for (size_t i = 0; i < NELEMS(must); i++) {
		three(f);
		f->parts.col[must[i] - 2].here = false;
		f->parts.col[must[i] - 2].len = 0;
		is_bad(f, audit_columns[must[i]].name);
	}
}

/* --- streams */

/* One column of numbers as these bytes of a zlib stream. */
static int open_stream(struct fix *f, const uint8_t *p, size_t len)
{
	uint8_t cols[8192];
	size_t at = part_number(cols, COL_KIND - 1);
	struct block b = { .first = 0, .cnt = 200, .fmt = BLOCK_FORMAT };

	for (unsigned col = COL_CALL; col < COL_KIND; col++)
		at += part_number(cols + at, 0);
	at += part_number(cols + at, (uint64_t)len << 1);
	memcpy(cols + at, p, len);
	b.cols.p = cols;
	b.cols.len = at + len;
	return block_open(f->reader, &b, BLOCK_COLUMN(COL_KIND), &f->err);
}

static void with_stream(struct fix *f, const uint8_t *p, size_t len, bool good)
{
	assert_int_equal(open_stream(f, p, len), good ? 0 : ERR_CORRUPT);
}

static size_t deflate_with(uint8_t *to, const uint8_t *p, size_t len, int level, const char *dictionary)
{
	z_stream s = { 0 };

	assert_int_equal(deflateInit(&s, level), Z_OK);
	if (dictionary)
		assert_int_equal(deflateSetDictionary(&s, (const uint8_t *)dictionary, (unsigned)strlen(dictionary)), Z_OK);
	s.next_in = p;
	s.avail_in = (unsigned)len;
	s.next_out = to;
	s.avail_out = 4096;
	assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
	deflateEnd(&s);
	return (size_t)s.total_out;
}

static void sc201_a_stream_is_whole_and_nothing_stands_behind_it(void **state)
{
	struct fix *f = *state;
	uint8_t column[201], stream[4096];
	int64_t kind;
	size_t n;

	memset(column, 5, sizeof(column));
	column[0] = 1;
	n = deflate_with(stream, column, sizeof(column), 9, NULL);
	with_stream(f, stream, n, true);
	with_stream(f, stream, n - 1, false);
	stream[n] = 0;
	with_stream(f, stream, n + 1, false);
	for (size_t i = 0; i < 8 * n; i++) {            /* its own sum sees to that */
		stream[i / 8] ^= (uint8_t)(1u << i % 8);
		if (open_stream(f, stream, n) == 0)
			for (int64_t k = 0; k < 200; k++)
				assert_true(block_number(f->reader, COL_KIND, k, &kind) && kind == 5);
		stream[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	n = deflate_with(stream, column, sizeof(column), 1, NULL);      /* another level says the same */
	with_stream(f, stream, n, true);
	n = deflate_with(stream, column, sizeof(column), 0, NULL);      /* is longer so */
	assert_true(n > sizeof(column));
	with_stream(f, stream, n, false);
	n = deflate_with(stream, column, sizeof(column), 9, "\5\5\5\5");
	with_stream(f, stream, n, false);
	with_stream(f, stream, 0, false);
}

static void sc202_short_columns_are_not_deflated(void **state)
{
	struct fix *f = *state;

	for (size_t n = BLOCK_DEFLATE_MIN - 2; n <= BLOCK_DEFLATE_MIN; n++) {  /* and one byte before them */
		rig_any(&f->rig, 0, n, 0);
		for (size_t i = 0; i < n; i++) {
			rig_least(&f->rig, &f->rig.row[i], (int64_t)i);
			audit_row_int(&f->rig.row[i], COL_CLK, 1);
		}
		rig_leaves(&f->rig);
		make(f);
		gives_all_back(f);
		assert_int_equal(f->parts.col[COL_CLK - 2].deflate, n + 1 >= BLOCK_DEFLATE_MIN);
		f->parts.col[COL_CLK - 2].deflate = true;
		if (n + 1 < BLOCK_DEFLATE_MIN)
			is_bad(f, "clk");
	}
}

SINGLE_THREAD_SUITE(block)
{
#define WITH_BLOCKS(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		WITH_BLOCKS(sc102_a_block_of_calls_gives_back_rows_and_leaves),
		WITH_BLOCKS(sc203_random_blocks_give_back_every_leaf),
		WITH_BLOCKS(sc203_a_leaf_that_differs_is_said_with_its_index),
		WITH_BLOCKS(each_column_is_there_or_not),
		WITH_BLOCKS(clocks_that_step_and_begins_from_anywhere),
		WITH_BLOCKS(call_ids_are_shared_with_their_begins),
		WITH_BLOCKS(sc202_making_is_deterministic),
		WITH_BLOCKS(sc204_what_cannot_be_carried_is_said_and_nothing_lost),
		WITH_BLOCKS(sc204_the_largest_values_are_carried),
		WITH_BLOCKS(sc201_a_block_has_4096_records_at_most),
		WITH_BLOCKS(sc201_four_mebibytes_come_out_of_a_stream),
		WITH_BLOCKS(sc201_four_mebibytes_do_not_compress),
		WITH_BLOCKS(sc201_a_bomb_costs_no_more_than_its_records),
		WITH_BLOCKS(sc206_only_what_is_asked_for_is_read),
		WITH_BLOCKS(sc206_each_column_can_be_asked_for_alone),
		WITH_BLOCKS(sc206_hash_is_for_what_stands_there),
		WITH_BLOCKS(sc201_ids_have_texts_or_there_is_no_row),
		WITH_BLOCKS(sc201_decoding_is_strict),
		WITH_BLOCKS(sc201_hash_is_used_to_the_last_byte),
		WITH_BLOCKS(sc201_columns_are_listed_once),
		WITH_BLOCKS(sc201_each_record_has_a_kind_and_a_time),
		WITH_BLOCKS(sc201_a_stream_is_whole_and_nothing_stands_behind_it),
		WITH_BLOCKS(sc202_short_columns_are_not_deflated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
