/*
 * Large results take the loop's time: to measure, to commit to, to encode.  What a tenant's results take in one turn of the
 * loop is bounded (SEC S-820); its next steps wait for the turns that follow, and other tenants' come in between.
 */

#include "config.h"

#include "base/mem.h"
#include "call_int.h"
#include "ev/ev.h"
#include "limit/limit.h"

enum { TURN_BYTES = 65536 };            /* one result more than fits is taken whole */

static bool is_full(const struct call *c)
{
	return limit_turn_bytes(c->ticket, ev_now_us(c->eng->env.loop), 0) >= TURN_BYTES;
}

void call_pace(struct call *c, ev_fn *step)
{
	if (!c->ticket || !is_full(c)) {
		step(c);
		return;
	}
	c->step = step;
	list_push_back(&c->eng->paced, &c->paced);
	ev_timer_start(c->eng->pace, 0);
}

void call_took(const struct call *c, size_t bytes)
{
	(void)limit_turn_bytes(c->ticket, ev_now_us(c->eng->env.loop), bytes);
}

static void on_turn(void *arg)
{
	struct call_engine *eng = arg;
	struct list due;

	list_init(&due);
	LIST_FOREACH_SAFE(n, tmp, &eng->paced) {
		list_unlink(n);
		list_push_back(&due, n);
	}
	while (!list_empty(&due)) {
		struct call *c = CONTAINER_OF(due.next, struct call, paced);

		list_unlink(&c->paced);
		call_pace(c, c->step);
	}
}

void call_pace_init(struct call_engine *eng)
{
	list_init(&eng->paced);
	eng->pace = ev_timer_new(eng->env.loop, on_turn, eng);
}

void call_pace_fini(struct call_engine *eng)
{
	ev_timer_free(&eng->pace);
}
