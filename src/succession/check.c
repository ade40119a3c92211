/* What a verification has to know of logs that went on behind a restore (succession/succession.h).  Called by the steps
 * of verify/ on checkpoints, in their thread. */

#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/audit.h"
#include "audit/record.h"
#include "base/mem.h"
#include "succession/succession.h"
#include "tlog/signer.h"

struct successions {
	struct said { struct succession s; bool seen; } *v;
	size_t n;
	int64_t first;                  /* record of the system's log that was read first; -1: none */
	audit_found_fn *found;
	void *arg;
};

static int add(void *arg, const struct succession *s, struct err *err)
{
	struct successions *all = arg;

	(void)err;
	all->v = mem_realloc(all->v, (all->n + 1) * sizeof(*all->v));
	all->v[all->n++] = (struct said){ *s, false };
	return 0;
}

int successions_open(struct db *db, audit_found_fn *found, void *arg, struct successions **ret, struct err *err)
{
	*ret = mem_zalloc(sizeof(**ret));
	(*ret)->first = -1;
	(*ret)->found = found;
	(*ret)->arg = arg;
	return succession_each(db, add, *ret, err);
}

void successions_free(struct successions **sp)
{
	if (*sp)
		free((*sp)->v);
	free(*sp);
	*sp = NULL;
}

static void tell(const struct successions *all, enum audit_finding_code code, const char *origin, int64_t from,
		 int64_t to, const char *detail)
{
	const struct audit_finding f = { .code = code, .origin = origin, .from = from, .to = to, .detail = detail };

	all->found(all->arg, &f);
}

/* --- names */

/* The row of a name, and the one that ended it; NULL: there is none. */
static void find(const struct successions *all, const char *name, const struct succession **ret_is,
		 const struct succession **ret_next)
{
	uint64_t number;
	size_t len = succession_split(name, &number);

	*ret_is = *ret_next = NULL;
	for (size_t i = 0; i < all->n; i++) {
		const struct succession *s = &all->v[i].s;

		if (strlen(s->origin) != len || memcmp(s->origin, name, len) != 0)
			continue;
		if (s->n == number)
			*ret_is = s;
		if (s->n > number && !*ret_next)        /* by origin and n */
			*ret_next = s;
	}
}

bool successions_fit(const struct successions *all, const char *name, const char *origin, uint64_t size)
{
	const struct succession *is, *next;
	uint64_t number;

	(void)succession_split(name, &number);
	find(all, name, &is, &next);
	return succession_is(name, origin) && (number == 0 || (is && size >= is->size)) && (!next || size <= next->size);
}

enum succession_word successions_word(const struct successions *all, const char *name, uint64_t size,
				      const uint8_t root[TREE_HASH])
{
	const struct succession *is, *next;
	uint64_t number;

	(void)succession_split(name, &number);
	find(all, name, &is, &next);
	if (!next)
		return number == 0 || is ? SUCCESSION_HOLDS : SUCCESSION_BEYOND;
	if (size <= next->size && (number == 0 || is))
		return SUCCESSION_HOLDS;
	if (size < next->lost || (size == next->lost && (next->n > number + 1 ||
							 memcmp(root, next->lost_root, TREE_HASH) == 0)))
		return SUCCESSION_LOST;
	return SUCCESSION_BEYOND;
}

bool successions_hold(const struct successions *all, enum audit_finding_code code, const char *name, uint64_t size,
		      const uint8_t root[TREE_HASH])
{
	const enum succession_word word = successions_word(all, name, size, root);
	char detail[NOTE_NAME_MAX + 100], origin[NOTE_NAME_MAX + 1];
	uint64_t n;

	if (word == SUCCESSION_BEYOND) {
		snprintf(origin, sizeof(origin), "%.*s", (int)succession_split(name, &n), name);
		snprintf(detail, sizeof(detail), "records were signed that are not there, at %" PRIu64 " as %s", size, name);
		tell(all, code, origin, -1, -1, detail);
	}
	return word == SUCCESSION_HOLDS && size > 0;
}

bool successions_epochs(const struct successions *all, uint64_t after, uint64_t before)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct succession *s = &all->v[i].s;

		if (s->epoch_from <= after + 1 && before <= s->epoch_to + 1 && s->epoch_from <= s->epoch_to)
			return true;
	}
	return false;
}

/* --- records and rows */

static bool is_same(const struct succession *a, const struct succession *b)
{
	return a->n == b->n && a->size == b->size && a->lost == b->lost && a->epoch_from == b->epoch_from &&
	       a->epoch_to == b->epoch_to && a->idx == b->idx && memcmp(a->root, b->root, TREE_HASH) == 0 &&
	       memcmp(a->lost_root, b->lost_root, TREE_HASH) == 0 && strcmp(a->origin, b->origin) == 0;
}

void successions_record(struct successions *all, const struct audit_row *row, int64_t idx, const char *system)
{
	const struct audit_value *ext = &row->v[COL_EXT];
	struct succession said = { .idx = idx };
	bool fits = false;
	size_t len = 0;
	const uint8_t *p;

	if (all->first < 0)
		all->first = idx;
	if (!row->v[COL_KIND].present || row->v[COL_KIND].n != AUDIT_STORE_RESTORE)
		return;
	p = ext->present ? audit_field_find(ext->p, ext->len, AUDIT_TAG_LOST, &len) : NULL;
	if (p && succession_parse(p, len, &said) == 0)
		for (size_t i = 0; i < all->n; i++)
			if (is_same(&all->v[i].s, &said))
				fits = all->v[i].seen = true;
	if (!fits || (strcmp(said.origin, system) == 0 && (uint64_t)idx < said.size))
		tell(all, AUDIT_FINDING_REGISTRY, system, idx, idx, NULL);
}

static void tell_lost(const struct successions *all, const struct succession *s)
{
	char name[NOTE_NAME_MAX + 1], detail[NOTE_NAME_MAX + 160];

	succession_name(s->origin, s->n, name);
	snprintf(detail, sizeof(detail), "signed, and lost by a restore: the log goes on as %s; record %" PRId64
		 " of the system's log says so", name, s->idx);
	tell(all, AUDIT_FINDING_RESTORED, s->origin, (int64_t)s->size, (int64_t)(s->lost > s->size ? s->lost - 1 : s->size),
	     detail);
}

void successions_end(struct successions *all, const char *origin)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct said *said = &all->v[i];

		if (!origin || strcmp(said->s.origin, origin) == 0)
			tell_lost(all, &said->s);
		if (!origin && !said->seen && all->first >= 0 && said->s.idx >= all->first)
			tell(all, AUDIT_FINDING_REGISTRY, said->s.origin, -1, -1, "a row of succession that no record knows");
	}
}
