/* Findings of a verification: counted by class and handed to the caller; of records, neighbours with one finding
 * are told as one (AUDIT A-808).  Called by every step, in the thread of the verification. */

#include "config.h"

#include <stdlib.h>

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

void verify_tell_close(struct verify_log *c)
{
	for (int code = 0; c->runs && code < AUDIT_FINDING_COUNT; code++)
		end_run(c, (enum audit_finding_code)code);
	free(c->runs);
	c->runs = NULL;
}
