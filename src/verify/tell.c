/* Findings of a verification: counted by class and handed to the caller; of records, neighbours with one finding
 * are told as one (AUDIT A-808).  Called by every step, in the thread of the verification. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "verify_int.h"

/* The run of neighbours with one finding, by code, not told yet. */
struct verify_runs { struct { struct audit_finding f; bool open; } of[AUDIT_FINDING_COUNT]; };

void verify_tell(struct verify *v, const struct audit_finding *f)
{
	if (audit_finding_bad(f->code) && !f->gap)
		v->sum->bad++;
	else
		v->sum->gaps++;
	v->found(v->arg, f);
}

void verify_tell_store(struct verify *v, enum audit_finding_code code, const char *origin, const char *detail)
{
	verify_tell(v, &(struct audit_finding){ .code = code, .origin = origin, .from = -1, .to = -1, .detail = detail });
}

static void end_run(struct verify_log *c, enum audit_finding_code code)
{
	if (c->runs->of[code].open)
		verify_tell(c->v, &c->runs->of[code].f);
	c->runs->of[code].open = false;
}

void verify_tell_record(struct verify_log *c, enum audit_finding_code code, int64_t from, int64_t to)
{
	struct audit_finding *run;

	if (!c->runs)
		c->runs = mem_zalloc(sizeof(*c->runs));
	run = &c->runs->of[code].f;
	if (c->runs->of[code].open && run->to + 1 == from) {
		run->to = to;
		return;
	}
	end_run(c, code);
	*run = (struct audit_finding){ .code = code, .origin = c->head->origin, .from = from, .to = to };
	c->runs->of[code].open = true;
}

void verify_tell_read(struct verify_log *c, const struct audit_read *got)
{
	static const struct { unsigned bit; enum audit_finding_code code; } bits[] = {
		{ AUDIT_FOUND_TYPE, AUDIT_FINDING_TYPE }, { AUDIT_FOUND_DICT, AUDIT_FINDING_DICT },
		{ AUDIT_FOUND_ENCODING, AUDIT_FINDING_ENCODING }, { AUDIT_FOUND_LEAF, AUDIT_FINDING_LEAF },
	};

	for (size_t i = 0; i < NELEMS(bits); i++)
		if (got->findings & bits[i].bit)
			verify_tell_record(c, bits[i].code, got->idx, got->idx);
}

static int compare_numbers(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

void verify_sort(int64_t *v, size_t n)
{
	if (n > 0)
		qsort(v, n, sizeof(*v), compare_numbers);
}

static void tell_all(struct verify_log *c)
{
	for (int code = 0; c->runs && code < AUDIT_FINDING_COUNT; code++)
		end_run(c, (enum audit_finding_code)code);
	free(c->runs);
	c->runs = NULL;
}

/* Those that wait for neighbours. */
static void save(const struct verify_log *c, struct str *to)
{
	uint64_t n = 0;

	for (int code = 0; c->runs && code < AUDIT_FINDING_COUNT; code++)
		n += c->runs->of[code].open;
	pack_u64(to, n);
	for (int code = 0; c->runs && code < AUDIT_FINDING_COUNT; code++) {
		const struct audit_finding *f = &c->runs->of[code].f;
		const char *name = audit_finding_name(f->code);

		if (!c->runs->of[code].open)
			continue;
		pack_text(to, name, strlen(name));
		pack_u64(to, (uint64_t)f->from);
		pack_u64(to, (uint64_t)f->to);
	}
}

static void load(struct verify_log *c, struct unpack *in)
{
	for (size_t n = unpack_count(in, 24); n > 0 && !in->bad; n--) {
		char name[32];
		uint64_t from, to;
		int code = 0;

		unpack_name(in, name, sizeof(name));
		from = unpack_u64(in);
		to = unpack_u64(in);
		while (code < AUDIT_FINDING_COUNT && strcmp(audit_finding_name((enum audit_finding_code)code), name) != 0)
			code++;
		in->bad |= code == AUDIT_FINDING_COUNT || from > to || to > INT64_MAX;
		if (!in->bad)
			verify_tell_record(c, (enum audit_finding_code)code, (int64_t)from, (int64_t)to);
	}
}

void verify_tell_runs(struct verify_log *c, struct str *to, struct unpack *in)
{
	if (to)
		save(c, to);
	else if (in)
		load(c, in);
	else
		tell_all(c);
}
