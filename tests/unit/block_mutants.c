/* Blocks that somebody was at. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "block_mutants.h"

/* Numbers as their writers may not write them, and such as few write. */
static const struct { const char *p; size_t len; } numbers[] = {
#define NUMBER(s) { s, sizeof(s) - 1 }
	NUMBER("\0"), NUMBER("\1"), NUMBER("\177"), NUMBER("\200\1"), NUMBER("\200\0"), NUMBER("\201\0"), NUMBER("\347\7"),
	NUMBER("\377\377\377\377\377\377\377\377\177"), NUMBER("\200\200\200\200\200\200\200\200\200\1"),
	NUMBER("\376\377\377\377\377\377\377\377\377\1"), NUMBER("\377\377\377\377\377\377\377\377\377\1"),
	NUMBER("\377\377\377\377\377\377\377\377\377\2"), NUMBER("\377\377\377\377\377\377\377\377\377\377\1"),
};

/* gone bytes at `at` give way to these. */
static void splice(struct part *part, size_t at, size_t gone, const void *p, size_t len)
{
	uint8_t *to = malloc(part->len - gone + len + 1);

	memcpy(to, part->p, at);
	if (len > 0)
		memcpy(to + at, p, len);
	memcpy(to + at + len, part->p + at + gone, part->len - at - gone);
	free(part->p);
	part->p = to;
	part->len += len - gone;
}

void mutant_bytes(struct rig *rig, struct part *part)
{
	const size_t at = rig_below(rig, part->len + 1), left = part->len - at, n = rig_below(rig, NELEMS(numbers));
	const size_t gone = 1 + rig_below(rig, 3);
	uint8_t byte = (uint8_t)rig_next(rig);

	switch (rig_below(rig, 7)) {
	case 0:
		if (left > 0)
			part->p[at] ^= (uint8_t)(1u << byte % 8);
		break;
	case 1:
		splice(part, at, left < gone ? left : gone, "", 0);
		break;
	case 2:
		splice(part, at, 0, &byte, 1);
		break;
	case 3:
		splice(part, at, left > 0, numbers[n].p, numbers[n].len);
		break;
	case 4:
		splice(part, part->len, 0, numbers[n].p, 1);
		break;
	case 5:
		if (left > 1) {
			byte = part->p[at];
			part->p[at] = part->p[at + 1];
			part->p[at + 1] = byte;
		}
		break;
	default:
		if (left > 0)
			part->p[at] = part->p[rig_below(rig, part->len)];
		break;
	}
}

/* --- blocks */

static int64_t near_by(struct rig *rig, int64_t n, int64_t cnt)
{
	static const int64_t edges[] = { 0, -1, 1, 4096, 4097, INT64_MAX, INT64_MAX - 4096, INT64_MAX - 4095, INT64_MIN };
	const uint64_t which = rig_below(rig, 5);

	if (which == 0)         /* the last places that a block can have */
		return INT64_MAX - BLOCK_RECORDS_MAX - cnt + 1 + (int64_t)rig_below(rig, 2);
	if (which < 3)
		return edges[rig_below(rig, NELEMS(edges))];
	return (int64_t)((uint64_t)n + rig_below(rig, 5) - 2);
}

static void beside_the_columns(struct mutant *m, struct rig *rig)
{
	int64_t *numbers_of[] = { &m->b.first, &m->b.cnt, &m->b.fmt, &m->b.ts_min, &m->b.ts_max };
	int64_t *n = numbers_of[rig_below(rig, NELEMS(numbers_of))];

	*n = near_by(rig, *n, m->parts.b.cnt);
}

static struct part *some_column(struct mutant *m, struct rig *rig)
{
	unsigned col;

	do
		col = (unsigned)rig_below(rig, m->parts.n);
	while (!m->parts.col[col].here);
	return &m->parts.col[col];
}

/* Those that have a value, one by one, though all have. */
static void list_all(struct mutant *m, struct part *c)
{
	uint8_t bits[1 + BLOCK_RECORDS_MAX / 8] = { 0 };

	if (m->b.cnt < 1 || m->b.cnt > BLOCK_RECORDS_MAX || c->len == 0 || c->p[0] != 1)
		return;
	for (int64_t i = 0; i < m->b.cnt; i++)
		bits[1 + i / 8] |= (uint8_t)(1u << i % 8);
	splice(c, 0, 1, bits, 1 + ((size_t)m->b.cnt + 7) / 8);
}

static void change_columns(struct mutant *m, struct rig *rig)
{
	struct part *c = some_column(m, rig), *other = some_column(m, rig), kept;

	switch (rig_below(rig, 10)) {
	case 8:
		list_all(m, c);
		break;
	case 9:
		c->behind = 1;
		break;
	case 0:
		c->deflate = !c->deflate;
		break;
	case 1:
		kept = *c;
		*c = *other;
		*other = kept;
		break;
	case 2:
		c->here = false;
		break;
	case 3:
		m->parts.n += rig_below(rig, 2) || m->parts.n == 1 ? 1 : UINT32_MAX;
		if (m->parts.n > PART_COLUMNS)
			m->parts.n = PART_COLUMNS;
		break;
	default:
		mutant_bytes(rig, c);
		if (c->len < BLOCK_DEFLATE_MIN)
			c->deflate = false;
		break;
	}
}

/* The bytes of cols as they stand, streams and all. */
static void change_streams(struct mutant *m, struct rig *rig)
{
	struct part cols = { 0 };

	part_set(&cols, m->b.cols.p, m->b.cols.len);
	if (rig_below(rig, 4) == 0)
		cols.p[0] = (uint8_t)(38 + rig_below(rig, 5));
	else
		mutant_bytes(rig, &cols);
	free(m->parts.cols);
	m->parts.cols = cols.p;
	m->b.cols = (struct block_bytes){ cols.p, cols.len };
}

void mutant_make(struct mutant *m, struct rig *rig, const struct block *b)
{
	*m = (struct mutant){ .b = *b };
	parts_take(&m->parts, b);
	part_set(&m->zone, b->zone.p, b->zone.len);
	for (unsigned changes = 1 + (rig_below(rig, 8) == 0); changes > 0; changes--) {
		const uint64_t where = rig_below(rig, 16);
		const struct block *joined;

		if (where == 0)
			beside_the_columns(m, rig);
		else if (where == 1)
			mutant_bytes(rig, &m->zone);
		else if (where == 2)
			mutant_bytes(rig, &m->parts.hash);
		else if (where > 3)
			change_columns(m, rig);
		joined = parts_join(&m->parts);
		m->b.cols = joined->cols;
		m->b.hash = joined->hash;
		if (where == 3)
			change_streams(m, rig);
	}
	m->b.zone = (struct block_bytes){ m->zone.p, m->zone.len };
}

void mutant_free(struct mutant *m)
{
	free(m->zone.p);
	parts_free(&m->parts);
}
