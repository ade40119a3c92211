/* How full the process is, in steps (SEC S-807). */

#include "config.h"

#include "base/mem.h"
#include "limit_int.h"

static const unsigned reached_at[LIMIT_STEPS] = { [LIMIT_NEARLY_FULL] = 80, [LIMIT_FULL] = 95 };      /* percent */

/* Where calls may wait it is no trouble when all that may run do. */
static enum limit_pool first_pool(const struct limiter *l)
{
	return l->conf.wait_ms == 0 ? LIMIT_CALLS : LIMIT_PLACES;
}

static unsigned percent(const struct limiter *l, unsigned pool)
{
	return l->conf.ceiling[pool] ? (unsigned)(l->used[pool] * 100 / l->conf.ceiling[pool]) : 0;
}

unsigned limit_pressure(const struct limiter *l)
{
	unsigned most = 0;

	for (unsigned i = first_pool(l); i < LIMIT_POOLS; i++)
		if (percent(l, i) > most)
			most = percent(l, i);
	return most;
}

bool limit_shed(const struct limiter *l, int64_t tenant_id, unsigned from)
{
	struct entry *e = NULL;

	for (unsigned i = first_pool(l); i < LIMIT_POOLS; i++) {
		if (percent(l, i) < from || l->conf.ceiling[i] == 0)
			continue;
		if (!e)
			e = entry_find(l, tenant_id, LIMIT_TENANT, 0);
		if (e && CONTAINER_OF(e, struct account, e)->used[i] > l->share[i])
			return true;
	}
	return false;
}

void step_look(struct limiter *l)
{
	unsigned percent = limit_pressure(l), step = l->step;

	while (step + 1 < LIMIT_STEPS && percent >= reached_at[step + 1])
		step++;
	while (step > 0 && percent + LIMIT_SLACK < reached_at[step])
		step--;
	if (step == l->step)
		return;
	l->step = (enum limit_step)step;
	if (l->on_step)
		l->on_step(l->on_step_arg, l->step);
}

void limiter_on_step(struct limiter *l, limit_step_fn *fn, void *arg)
{
	l->on_step = fn;
	l->on_step_arg = arg;
}

bool limit_crowds(const struct limiter *l, int64_t tenant_id)
{
	return l->step != LIMIT_CALM && limit_shed(l, tenant_id, reached_at[LIMIT_NEARLY_FULL] - LIMIT_SLACK);
}
