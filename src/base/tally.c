/* Counts with a label.  The rooms call and mcp count, on the loop's thread; the room ops reads, on a lane of the pool:
 * a slot is appended to an array whose length is published behind it, and goes only while nobody reads. */
#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/tally.h"

/* --- bounds of buckets */

static const char *const call_text[] = {
	"0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "10.0", "60.0",
};
static const uint64_t call_us[] = {
	1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 10000000, 60000000,
};
/* those of the conventions for MCP (OpenTelemetry) */
static const char *const method_text[] = {
	"0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1.0", "2.0", "5.0", "10.0", "30.0", "60.0", "120.0", "300.0",
};
static const uint64_t method_us[] = {
	10000, 20000, 50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000, 30000000, 60000000, 120000000,
	300000000,
};
static const char *const turn_text[] = {
	"0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0",
};
static const uint64_t turn_us[] = {
	100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000,
};
static const struct bounds { size_t n; const char *const *text; const uint64_t *us; } bounds[TALLY_KINDS] = {
	[TALLY_TENANT] = { NELEMS(call_us), call_text, call_us },
	[TALLY_TOOL] = { NELEMS(call_us), call_text, call_us },
	[TALLY_METHOD] = { NELEMS(method_us), method_text, method_us },
	[TALLY_UPSTREAM] = { NELEMS(call_us), call_text, call_us },
	[TALLY_COMMIT] = { NELEMS(call_us), call_text, call_us },
	[TALLY_TURN] = { NELEMS(turn_us), turn_text, turn_us },
};
_Static_assert(NELEMS(call_text) == NELEMS(call_us) && NELEMS(call_us) <= TALLY_BUCKETS_MAX, "a text, and a bucket");
_Static_assert(NELEMS(turn_text) == NELEMS(turn_us) && NELEMS(turn_us) <= TALLY_BUCKETS_MAX, "likewise");
_Static_assert(NELEMS(method_text) == NELEMS(method_us) && NELEMS(method_us) <= TALLY_BUCKETS_MAX, "likewise");

/* --- slots */

enum { NEAR_SETS = 512 };
enum { MARK_WORDS = sizeof(struct tally_mark) / sizeof(uint64_t) };

/* Written by one thread, read by others: odd while it is written, 0 when it never was. */
struct mark {
	_Atomic uint32_t version;
	_Atomic uint64_t word[MARK_WORDS];
};

struct tally {
	enum tally_kind kind;
	char *name;
	_Atomic uint64_t outcome[TALLY_OUTCOMES], in[TALLY_PLACES], sum_us;
	_Atomic uint64_t bucket[TALLY_BUCKETS_MAX + 1];
	struct mark *_Atomic marks;     /* one for each bucket; NULL: nobody has traced anything */
	uint64_t gone_us;               /* since when its name is not there; 0 = it is */
};

static struct table {
	struct tally *_Atomic *slots;   /* max of them; NULL: all are other */
	_Atomic size_t n;
	size_t max;
	struct map *by_name;
	struct near *near;              /* some of them */
} tables[TALLY_KINDS];

static char other_name[] = TALLY_OTHER;
static struct tally others[TALLY_KINDS] = {
	[TALLY_TENANT] = { .kind = TALLY_TENANT, .name = other_name },
	[TALLY_TOOL] = { .kind = TALLY_TOOL, .name = other_name },
	[TALLY_METHOD] = { .kind = TALLY_METHOD, .name = other_name },
	[TALLY_UPSTREAM] = { .kind = TALLY_UPSTREAM, .name = other_name },
	[TALLY_COMMIT] = { .kind = TALLY_COMMIT, .name = other_name },
	[TALLY_TURN] = { .kind = TALLY_TURN, .name = other_name },
};
static unsigned readers;                /* loop thread */

void tally_bound(enum tally_kind kind, size_t max)
{
	struct table *t = &tables[kind];

	if (t->slots || max == 0)
		return;
	t->slots = mem_calloc(max, sizeof(*t->slots));
	t->max = max;
	t->by_name = map_new();
	t->near = near_new(NEAR_SETS);
}

static struct tally *look_up(const struct table *t, const char *name)
{
	const uint64_t tag = near_tag(0, name, strlen(name));
	struct tally *slot = near_get(t->near, tag);

	if (slot && strcmp(slot->name, name) == 0)
		return slot;
	slot = map_get_z(t->by_name, name);
	if (slot)
		near_put(t->near, tag, slot);
	return slot;
}

struct tally *tally_get(enum tally_kind kind, const char *name)
{
	struct table *t = &tables[kind];
	struct tally *slot = t->slots ? look_up(t, name) : NULL;
	size_t n = atomic_load_explicit(&t->n, memory_order_relaxed);

	if (slot)
		return slot;
	if (!t->slots || strcmp(name, TALLY_OTHER) == 0)
		return &others[kind];
	if (n == t->max) {
		metric_inc(METRIC_labels_summed);
		return &others[kind];
	}
	slot = mem_zalloc(sizeof(*slot));
	slot->kind = kind;
	slot->name = mem_strdup(name);
	(void)map_set_z(t->by_name, name, slot);
	atomic_store_explicit(&t->slots[n], slot, memory_order_relaxed);
	atomic_store_explicit(&t->n, n + 1, memory_order_release);
	return slot;
}

static void slot_free(struct tally *slot)
{
	free(atomic_load(&slot->marks));
	free(slot->name);
	free(slot);
}

void tally_hold(void)
{
	readers++;
}

void tally_release(void)
{
	readers--;
}

static bool is_empty(struct tally *slot)
{
	return atomic_load(&slot->in[TALLY_RUNNING]) == 0 && atomic_load(&slot->in[TALLY_WAITING]) == 0;
}

void tally_sweep(enum tally_kind kind, bool (*is_there)(void *arg, const char *name), void *arg, uint64_t now_us)
{
	struct table *t = &tables[kind];
	size_t n = atomic_load(&t->n);

	for (size_t i = n; i-- > 0;) {
		struct tally *slot = atomic_load(&t->slots[i]);

		if (is_there(arg, slot->name))
			slot->gone_us = 0;
		else if (slot->gone_us == 0)
			slot->gone_us = now_us;
		else if (readers == 0 && now_us - slot->gone_us >= TALLY_GONE_US && is_empty(slot)) {
			near_del(t->near, near_tag(0, slot->name, strlen(slot->name)), slot);
			(void)map_del_z(t->by_name, slot->name);
			atomic_store(&t->slots[i], atomic_load(&t->slots[--n]));
			atomic_store(&t->n, n);
			slot_free(slot);
		}
	}
}

/* --- counting */

void tally_enter(struct tally *t, enum tally_place place)
{
	atomic_fetch_add_explicit(&t->in[place], 1, memory_order_relaxed);
}

void tally_leave(struct tally *t, enum tally_place place)
{
	atomic_fetch_sub_explicit(&t->in[place], 1, memory_order_relaxed);
}

void tally_count(struct tally *t, unsigned outcome)
{
	if (outcome < TALLY_OUTCOMES)
		atomic_fetch_add_explicit(&t->outcome[outcome], 1, memory_order_relaxed);
}

static void put_mark(struct tally *t, size_t bucket, const struct tally_mark *mark)
{
	struct mark *marks = atomic_load_explicit(&t->marks, memory_order_relaxed), *m;
	uint64_t word[MARK_WORDS];
	uint32_t version;

	if (!marks) {
		marks = mem_calloc(bounds[t->kind].n + 1, sizeof(*marks));
		atomic_store_explicit(&t->marks, marks, memory_order_release);
	}
	m = &marks[bucket];
	version = atomic_load_explicit(&m->version, memory_order_relaxed);
	memcpy(word, mark, sizeof(word));
	atomic_store_explicit(&m->version, version + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < MARK_WORDS; i++)
		atomic_store_explicit(&m->word[i], word[i], memory_order_relaxed);
	atomic_store_explicit(&m->version, version + 2, memory_order_release);
}

void tally_observe(struct tally *t, uint64_t us, const struct tally_mark *mark)
{
	const struct bounds *b = &bounds[t->kind];
	size_t i = 0;

	while (i < b->n && us > b->us[i])
		i++;
	atomic_fetch_add_explicit(&t->bucket[i], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&t->sum_us, us, memory_order_relaxed);
	if (mark)
		put_mark(t, i, mark);
}

/* --- reading */

static struct tally *slot_at(enum tally_kind kind, size_t i)
{
	struct table *t = &tables[kind];

	return i < atomic_load_explicit(&t->n, memory_order_acquire) ?
		atomic_load_explicit(&t->slots[i], memory_order_relaxed) : &others[kind];
}

bool tally_is_bounded(enum tally_kind kind)
{
	return tables[kind].slots != NULL;
}

size_t tally_slots(enum tally_kind kind)
{
	return atomic_load_explicit(&tables[kind].n, memory_order_acquire);
}

const char *tally_name(enum tally_kind kind, size_t i)
{
	return slot_at(kind, i)->name;
}

void tally_see(enum tally_kind kind, size_t i, struct tally_view *ret)
{
	struct tally *t = slot_at(kind, i);

	ret->name = t->name;
	for (size_t k = 0; k < TALLY_OUTCOMES; k++)
		ret->outcome[k] = atomic_load_explicit(&t->outcome[k], memory_order_relaxed);
	for (size_t k = 0; k <= TALLY_BUCKETS_MAX; k++)
		ret->bucket[k] = atomic_load_explicit(&t->bucket[k], memory_order_relaxed);
	for (size_t k = 0; k < TALLY_PLACES; k++)
		ret->in[k] = atomic_load_explicit(&t->in[k], memory_order_relaxed);
	ret->sum_us = atomic_load_explicit(&t->sum_us, memory_order_relaxed);
}

bool tally_see_mark(enum tally_kind kind, size_t i, size_t bucket, struct tally_mark *ret)
{
	struct tally *t = slot_at(kind, i);
	struct mark *marks = atomic_load_explicit(&t->marks, memory_order_acquire);
	uint64_t word[MARK_WORDS];
	uint32_t version;

	if (!marks)
		return false;
	version = atomic_load_explicit(&marks[bucket].version, memory_order_acquire);
	if (version == 0 || version % 2 != 0)
		return false;
	for (size_t k = 0; k < MARK_WORDS; k++)
		word[k] = atomic_load_explicit(&marks[bucket].word[k], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&marks[bucket].version, memory_order_relaxed) != version)
		return false;           /* another one is being written */
	memcpy(ret, word, sizeof(word));
	return true;
}

size_t tally_bounds(enum tally_kind kind, const char *const **ret)
{
	*ret = bounds[kind].text;
	return bounds[kind].n;
}

static _Atomic uint64_t records[TALLY_RECORD_CODES];

void tally_record(unsigned code)
{
	if (code < TALLY_RECORD_CODES)
		atomic_fetch_add_explicit(&records[code], 1, memory_order_relaxed);
}

uint64_t tally_records(unsigned code)
{
	return code < TALLY_RECORD_CODES ? atomic_load_explicit(&records[code], memory_order_relaxed) : 0;
}

void tally_reset(void)
{
	for (size_t kind = 0; kind < TALLY_KINDS; kind++) {
		struct table *t = &tables[kind];
		struct tally *o = &others[kind];

		for (size_t i = 0; i < atomic_load(&t->n); i++)
			slot_free(atomic_load(&t->slots[i]));
		free(t->slots);
		map_free(&t->by_name);
		near_free(&t->near);
		*t = (struct table){ .slots = NULL };
		free(atomic_load(&o->marks));
		*o = (struct tally){ .kind = (enum tally_kind)kind, .name = other_name };
	}
	readers = 0;
}
