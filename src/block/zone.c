/* Zones: which ids of eight columns a block or a chapter has, and how many records have each.  Made by the maker of
 * a block, counted anew by who checks it; read by who looks for an id (SC-206, SC-207). */

#include "config.h"

#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "block/zone.h"

#include "block_int.h"

enum { SLOTS = 4096, FEW = 64, MANY = BLOCK_ZONE_IDS_MAX + 1 };   /* MANY: the number that says many */

const enum audit_column block_zone_columns[ZONE_COUNT] = {
#define ZONE_COLUMN(col) COL_##col,
	BLOCK_ZONES(ZONE_COLUMN)
#undef ZONE_COLUMN
};

/* By id: places in v, from 1 on. */
struct counted {
	struct block_zone zone;
	uint16_t slot[SLOTS], taken[FEW];       /* taken: which of them the first ids have */
	int64_t last_id;
	unsigned last;                  /* its place and one; 0: none */
};

struct block_zoner { uint64_t odd; struct counted of[ZONE_COUNT]; };

struct block_zoner *block_zoner_new(void)
{
	struct block_zoner *z = mem_zalloc(sizeof(*z));

	id_random(&z->odd, sizeof(z->odd));
	z->odd |= 1;
	return z;
}

void block_zoner_free(struct block_zoner **z)
{
	free(*z);
	*z = NULL;
}

/* --- counting */

/* Where the id is, or would be.  Which ids fall together nobody can know, so that no list of them makes this slow. */
static uint16_t *slot_of(struct block_zoner *z, struct counted *c, int64_t id)
{
	uint64_t at = (uint64_t)id * z->odd >> 52;

	while (c->slot[at] && c->zone.v[c->slot[at] - 1].id != id)
		at = (at + 1) % SLOTS;
	return &c->slot[at];
}

static void add(struct block_zoner *z, struct counted *c, int64_t id, int64_t n)
{
	uint16_t *slot;

	if (c->zone.many)
		return;
	if (!c->last || c->last_id != id) {
		slot = slot_of(z, c, id);
		if (!*slot && c->zone.n == BLOCK_ZONE_IDS_MAX) {
			c->zone.many = true;
			return;
		}
		if (!*slot) {
			if (c->zone.n < FEW)
				c->taken[c->zone.n] = (uint16_t)(slot - c->slot);
			*slot = (uint16_t)++c->zone.n;
			c->zone.v[*slot - 1].id = id;
			c->zone.v[*slot - 1].count = 0;
		}
		c->last = *slot;
		c->last_id = id;
	}
	c->zone.v[c->last - 1].count += n;
}

void block_zoner_add(struct block_zoner *z, enum block_zone_column col, int64_t id)
{
	add(z, &z->of[col], id, 1);
}

void block_zoner_add_zones(struct block_zoner *z, const struct block_zones *zones)
{
	for (unsigned col = 0; col < ZONE_COUNT; col++) {
		z->of[col].zone.many |= zones->of[col].many;
		for (unsigned i = 0; i < zones->of[col].n; i++)
			add(z, &z->of[col], zones->of[col].v[i].id, zones->of[col].v[i].count);
	}
}

/* --- bytes */

static int by_id(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void write_one(struct block_zone *zone, struct audit_bytes *out)
{
	int64_t last = 0;

	block_put(out, zone->many ? MANY : zone->n);
	if (zone->many)
		return;
	if (zone->n > 0)
		qsort(zone->v, zone->n, sizeof(zone->v[0]), by_id);
	for (unsigned i = 0; i < zone->n; i++) {
		block_put(out, (uint64_t)(zone->v[i].id - last));
		block_put(out, (uint64_t)zone->v[i].count);
		last = zone->v[i].id;
	}
}

/* A block of few records has few ids, and the table is much larger. */
static void empty_slots(struct counted *c)
{
	if (c->zone.n > FEW)
		memset(c->slot, 0, sizeof(c->slot));
	else
		for (unsigned i = 0; i < c->zone.n; i++)
			c->slot[c->taken[i]] = 0;
}

void block_zoner_end(struct block_zoner *z, struct audit_bytes *out)
{
	out->len = 0;
	for (unsigned col = 0; col < ZONE_COUNT; col++) {
		struct counted *c = &z->of[col];

		write_one(&c->zone, out);
		empty_slots(c);
		c->zone.n = c->last = 0;
		c->zone.many = false;
	}
}

static const uint8_t *read_one(const uint8_t *p, const uint8_t *end, int64_t cnt, struct block_zone *zone)
{
	uint64_t n = 0, id = 0, count = 0;
	int64_t last = 0;

	zone->n = 0;
	p = get_up_to(p, end, MANY, &n);
	zone->many = n == MANY;
	for (uint64_t i = 0; p && i < n && !zone->many; i++) {
		p = get_up_to(p, end, (uint64_t)(INT64_MAX - last), &id);
		p = p && (id > 0 || i == 0) ? get_up_to(p, end, (uint64_t)cnt, &count) : NULL;
		if (!p || count == 0)
			return NULL;
		cnt -= (int64_t)count;
		last += (int64_t)id;
		zone->v[zone->n].id = last;
		zone->v[zone->n++].count = (int64_t)count;
	}
	return p;
}

int block_zones_read(const void *p, size_t len, int64_t cnt, struct block_zones *ret, struct err *err)
{
	const uint8_t *at = p, *end = at + len;

	if (cnt < 1 || cnt > BLOCK_CHAPTER_MAX)
		return block_bad(err, "zone", "it is one of no records, or of more than 262144");
	for (unsigned col = 0; col < ZONE_COUNT; col++) {
		at = read_one(at, end, cnt, &ret->of[col]);
		if (!at)
			return block_bad(err, "zone", "ids do not ascend, or more records have them than there are");
	}
	return at == end ? 0 : block_bad(err, "zone", "something stands behind the last id");
}

int block_zones_turn(struct block_zones *zones, block_id_fn *id, void *arg, struct err *err)
{
	for (unsigned z = 0; z < ZONE_COUNT; z++) {
		const struct audit_column_info *col = &audit_columns[block_zone_columns[z]];

		for (unsigned i = 0; i < zones->of[z].n && col->form == FORM_DICT; i++) {
			int rc = id(arg, col->tag, zones->of[z].v[i].id, &zones->of[z].v[i].id, err);

			if (rc != 1)
				return rc < 0 ? rc : block_bad(err, "zone", "an id has no text");
		}
		if (zones->of[z].n > 0)
			qsort(zones->of[z].v, zones->of[z].n, sizeof(zones->of[z].v[0]), by_id);
	}
	return 0;
}

bool block_zone_may_have(const struct block_zones *zones, enum block_zone_column col, int64_t id)
{
	const struct block_zone *zone = &zones->of[col];

	return zone->many || (zone->n > 0 && bsearch(&id, zone->v, zone->n, sizeof(zone->v[0]), by_id));
}
