/* Rows into a block of format 1.  Each value goes to its column's bytes as it comes; at the end columns are put
 * together and deflated.  What cannot be carried is refused before anything of the row is taken (SC-204). */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "block/zone.h"

#include "block_int.h"

struct column {
	struct audit_bytes v, hash;     /* the present values; what of them does not compress */
	uint8_t bits[BLOCK_RECORDS_MAX / 8];
	unsigned present;
	int64_t last;                   /* of which the next one is told as a difference */
};

struct block_maker {
	struct column col[COL_COUNT];
	uint8_t call[BLOCK_RECORDS_MAX][BLOCK_CALL_SIZE];
	unsigned cnt;
	int64_t first, ts_min, ts_max;
	size_t hashed;                  /* bytes of all hash */
	struct block_zoner *zoner;
	struct block_zlib *zlib;
	struct audit_bytes one, cols, hash, zone;
};

struct block_maker *block_maker_new(void)
{
	struct block_maker *m = mem_zalloc(sizeof(*m));

	m->zoner = block_zoner_new();
	return m;
}

void block_maker_free(struct block_maker **mp)
{
	struct block_maker *m = *mp;

	if (!m)
		return;
	*mp = NULL;
	for (unsigned col = 0; col < COL_COUNT; col++) {
		free(m->col[col].v.p);
		free(m->col[col].hash.p);
	}
	block_zoner_free(&m->zoner);
	block_zlib_free(&m->zlib);
	free(m->one.p);
	free(m->cols.p);
	free(m->hash.p);
	free(m->zone.p);
	free(m);
}

int64_t block_maker_count(const struct block_maker *m)
{
	return m->cnt;
}

/* --- what format 1 can carry */

static const char *why_not(enum audit_column col, const struct audit_value *v)
{
	const struct audit_column_info *info = &audit_columns[col];

	if (!v->present)
		return block_must_have(col) ? "it is NULL" : NULL;
	if (info->form != FORM_BLOB)
		return v->n < 0 ? "it is below 0" : col == COL_IDX && v->n > BLOCK_IDX_MAX ? "it is too large" : NULL;
	if (v->len > BLOCK_BLOB_MAX)
		return "it is longer than 65536 bytes";
	if (info->size && v->len != info->size)
		return "it has another length";
	return col == COL_CM && v->len % BLOCK_CM_SIZE != 0 ? "it is no sequence of commitments" : NULL;
}

static int look(const struct block_maker *m, const struct audit_row *row, struct err *err)
{
	const int64_t idx = row->v[COL_IDX].n;
	char where[40];

	(void)snprintf(where, sizeof(where), "idx/%" PRId64, idx);
	for (unsigned col = 0; col < COL_COUNT; col++) {
		const char *why = why_not((enum audit_column)col, &row->v[col]);

		if (why)
			return err_set(err, ERR_INVALID, where, "block format 1 cannot carry column %s of the record: %s",
				       audit_columns[col].name, why);
	}
	if (m->cnt > 0 && (idx < m->first || (uint64_t)idx - (uint64_t)m->first != m->cnt))
		return err_set(err, ERR_INTERNAL, where, "a block has no gaps: the next record of this one has another index");
	return 0;
}

/* --- values */

/* The i-th row before this one has this call too, and the end names it as its begin. */
static bool shared(const struct block_maker *m, const struct audit_row *row)
{
	const struct audit_value *beg = &row->v[COL_BEG];
	size_t i;

	if (!beg->present || m->cnt == 0 || beg->n < m->first || beg->n >= row->v[COL_IDX].n)
		return false;
	i = (size_t)(beg->n - m->first);
	return bit_at(m->col[COL_CALL].bits, i) && memcmp(m->call[i], row->v[COL_CALL].p, BLOCK_CALL_SIZE) == 0;
}

static size_t hash_size(const struct block_maker *m, enum audit_column col, const struct audit_row *row)
{
	const struct audit_value *v = &row->v[col];

	if (!v->present)
		return 0;
	switch (block_form(col)) {
	case BLOCK_CALL:
		return shared(m, row) ? 0 : BLOCK_CALL_SIZE - BLOCK_CALL_TIME;
	case BLOCK_CM:
		return v->len / BLOCK_CM_SIZE * BLOCK_COMMITMENT;
	case BLOCK_HASH:
		return v->len;
	case BLOCK_PLACE:
	case BLOCK_NUMBER:
	case BLOCK_DIFFERENCE:
	case BLOCK_BEGIN:
	case BLOCK_BLOB:
		break;
	}
	return 0;
}

static bool fits(const struct block_maker *m, const struct audit_row *row)
{
#define IN_HASH(col) COL_##col,
	static const enum audit_column hashed[] = { BLOCK_HASH_ORDER(IN_HASH) };
	const size_t head = 1 + BLOCK_RECORDS_MAX / 8 + VARINT_MAX;
	size_t more = 0;

	for (size_t i = 0; i < NELEMS(hashed); i++)
		more += hash_size(m, hashed[i], row);
	return m->cnt < BLOCK_RECORDS_MAX && m->hashed + more <= BLOCK_STREAM_MAX &&
		head + m->col[COL_EXT].v.len + row->v[COL_EXT].len <= BLOCK_STREAM_MAX &&
		head + m->col[COL_CM].v.len + row->v[COL_CM].len / BLOCK_CM_SIZE * VARINT_MAX <= BLOCK_STREAM_MAX;
}

static void put_hash(struct block_maker *m, enum audit_column col, const uint8_t *p, size_t n)
{
	struct audit_bytes *to = &m->col[col].hash;

	memcpy(block_room(to, n), p, n);
	to->len += n;
	m->hashed += n;
}

static void put_bytes(struct audit_bytes *to, const void *p, size_t n)
{
	if (n > 0)
		memcpy(block_room(to, n), p, n);
	to->len += n;
}

static void put_call(struct block_maker *m, const struct audit_row *row)
{
	const uint8_t *call = row->v[COL_CALL].p;
	struct audit_bytes *v = &m->col[COL_CALL].v;
	const uint8_t same = shared(m, row);

	put_bytes(v, &same, 1);
	memcpy(m->call[m->cnt], call, BLOCK_CALL_SIZE);
	if (same)
		return;
	put_bytes(v, call, BLOCK_CALL_TIME);
	put_hash(m, COL_CALL, call + BLOCK_CALL_TIME, BLOCK_CALL_SIZE - BLOCK_CALL_TIME);
}

static void put_commitments(struct block_maker *m, const uint8_t *p, size_t len)
{
	struct audit_bytes *v = &m->col[COL_CM].v;

	block_put(v, len / BLOCK_CM_SIZE);
	for (size_t at = 0; at < len; at += BLOCK_CM_SIZE) {
		block_put(v, (uint64_t)p[at] << 8 | p[at + 1]);
		put_hash(m, COL_CM, p + at + 2, BLOCK_COMMITMENT);
	}
}

static void put_value(struct block_maker *m, enum audit_column col, const struct audit_row *row)
{
	const struct audit_value *v = &row->v[col];
	struct column *c = &m->col[col];

	switch (block_form(col)) {
	case BLOCK_PLACE:
		return;
	case BLOCK_NUMBER:
		block_put(&c->v, (uint64_t)v->n);
		break;
	case BLOCK_DIFFERENCE:
		block_put(&c->v, zigzag(v->n - c->last));
		c->last = v->n;
		break;
	case BLOCK_BEGIN:
		block_put(&c->v, zigzag(row->v[COL_IDX].n - v->n));
		break;
	case BLOCK_CALL:
		put_call(m, row);
		break;
	case BLOCK_CM:
		put_commitments(m, v->p, v->len);
		break;
	case BLOCK_HASH:
		put_hash(m, col, v->p, v->len);
		break;
	case BLOCK_BLOB:
		block_put(&c->v, v->len);
		put_bytes(&c->v, v->p, v->len);
		break;
	}
	c->bits[m->cnt >> 3] |= (uint8_t)(1u << (m->cnt & 7));
	c->present++;
}

int block_maker_add(struct block_maker *m, const struct audit_row *row, struct err *err)
{
	const int64_t ts = row->v[COL_TS].n;
	int rc = look(m, row, err);

	if (rc < 0)
		return rc;
	if (!fits(m, row))
		return 1;
	if (m->cnt == 0)
		m->first = row->v[COL_IDX].n;
	m->ts_min = m->cnt == 0 || ts < m->ts_min ? ts : m->ts_min;
	m->ts_max = m->cnt == 0 || ts > m->ts_max ? ts : m->ts_max;
	for (unsigned col = 0; col < COL_COUNT; col++)
		if (row->v[col].present)
			put_value(m, (enum audit_column)col, row);
	for (unsigned z = 0; z < ZONE_COUNT; z++)
		if (row->v[block_zone_columns[z]].present)
			block_zoner_add(m->zoner, (enum block_zone_column)z, row->v[block_zone_columns[z]].n);
	m->cnt++;
	return 0;
}

/* --- putting it together */

static void end_column(struct block_maker *m, struct column *c)
{
	const uint8_t all = c->present == m->cnt;

	if (c->present == 0) {
		block_put(&m->cols, 0);
		return;
	}
	m->one.len = 0;
	put_bytes(&m->one, &all, 1);
	if (!all)
		put_bytes(&m->one, c->bits, ((size_t)m->cnt + 7) / 8);
	put_bytes(&m->one, c->v.p, c->v.len);
	block_stream_put(&m->zlib, m->one.p, m->one.len, &m->cols);
	put_bytes(&m->hash, c->hash.p, c->hash.len);
}

static void begin_anew(struct block_maker *m)
{
	for (unsigned col = 0; col < COL_COUNT; col++) {
		struct column *c = &m->col[col];

		c->v.len = c->hash.len = 0;
		memset(c->bits, 0, sizeof(c->bits));
		c->present = 0;
		c->last = 0;
	}
	m->cnt = 0;
	m->hashed = 0;
}

void block_maker_end(struct block_maker *m, struct block *ret)
{
	unsigned n = COL_COUNT;

	m->cols.len = m->hash.len = 0;
	while (m->col[n - 1].present == 0)
		n--;
	block_put(&m->cols, n - BLOCK_FIRST_COLUMN);
	for (unsigned col = 0; col < n; col++)
		if (block_form((enum audit_column)col) != BLOCK_PLACE)
			end_column(m, &m->col[col]);
	block_zoner_end(m->zoner, &m->zone);
	*ret = (struct block){
		.first = m->first, .cnt = m->cnt, .fmt = BLOCK_FORMAT, .ts_min = m->ts_min, .ts_max = m->ts_max,
		.cols = { m->cols.p, m->cols.len }, .hash = { m->hash.p, m->hash.len }, .zone = { m->zone.p, m->zone.len },
	};
	begin_anew(m);
}
