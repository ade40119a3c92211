/*
 * Calls that wait for their slots: nothing of them is recorded as begun.  Turns are handed out from a timer, never from the
 * end of another call.
 */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "call_int.h"
#include "ev/ev.h"
#include "limit/limit.h"

static void on_turns(void *arg)
{
	struct call_engine *eng = arg;

	limit_turns(eng->env.limiter, ev_now_us(eng->env.loop));
	call_queue_soon(eng);
}

void call_queue_init(struct call_engine *eng)
{
	eng->turns = ev_timer_new(eng->env.loop, on_turns, eng);
}

void call_queue_fini(struct call_engine *eng)
{
	ev_timer_free(&eng->turns);
}

void call_queue_soon(struct call_engine *eng)
{
	uint64_t next = limit_next_us(eng->env.limiter), now = ev_now_us(eng->env.loop);

	if (next != UINT64_MAX)
		ev_timer_start(eng->turns, next > now ? next - now : 0);
}

/* These are borrowed for call_start() alone. */
static void keep_texts(struct call *c)
{
	const char **text[] = { &c->peer, &c->client, &c->request };
	size_t len = 0;
	char *to;

	for (size_t i = 0; i < NELEMS(text); i++)
		len += *text[i] ? strlen(*text[i]) + 1 : 0;
	c->kept = to = mem_alloc(len + 1);
	for (size_t i = 0; i < NELEMS(text); i++) {
		len = *text[i] ? strlen(*text[i]) + 1 : 0;
		if (len)
			*text[i] = memcpy(to, *text[i], len);
		to += len;
	}
}

void call_wait(struct call *c)
{
	keep_texts(c);
	call_set_state(c, CALL_QUEUED);
	call_queue_soon(c->eng);
}

static void deny(struct call *c, enum call_refusal refusal, const char *rule)
{
	struct call_trouble *t = call_trouble(c);

	t->refusal = refusal;
	(void)snprintf(t->rule, sizeof t->rule, "%s", rule); /* fits */
	call_deny(c);
	call_said_begin(c);
}

void call_unqueue(struct call *c)
{
	call_say_cancelled(c);
	deny(c, REFUSE_CANCELLED, "queue/cancelled");
}

void call_on_turn(void *arg, bool granted)
{
	struct call *c = arg;

	if (c->eng->closed)
		return;
	if (!granted) {
		(void)err_set(&call_trouble(c)->err, ERR_RATE, "queue/wait", "too many calls are running, and its turn did not come in time");
		c->trouble->err.retry_ms = LIMIT_SLOT_RETRY_MS;
		deny(c, REFUSE_RATE, "queue/wait");
	} else {
		if (call_admit_turn(c) < 0)
			call_deny(c);
		else
			call_begin(c);
		call_said_begin(c);
	}
}
