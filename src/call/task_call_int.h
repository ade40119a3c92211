#ifndef TASK_CALL_INT_H
#define TASK_CALL_INT_H

#include "call_int.h"

/* Inside of src/call: calls that wait, for slots or as tasks. */

/* These are borrowed for call_start() alone. */
static inline void call_keep_texts(struct call *c)
{
	const char **text[] = { &c->peer, &c->client, &c->model, &c->request };
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

/* promote.c: calls that become tasks */
/* Before its run, or as it asks: it shall be one at once.  Then not now. */
bool call_task_first(struct call *c, bool asks);
/* Of its run. */
static inline uint64_t call_task_deadline(const struct call *c)
{
	uint64_t ms = c->compiled->timeout_ms;

	if (c->task && c->far)
		ms = c->ttl_ms;
	else if (c->task || c->may_task)
		ms = c->compiled->task.timeout_ms < c->ttl_ms ? c->compiled->task.timeout_ms : c->ttl_ms;
	return c->started_us + ms * 1000;
}
/* Of the life of its task, when its run begins. */
static inline uint64_t call_task_left_ms(const struct call *c)
{
	const uint64_t now = clock_wall_us();

	if (!c->task)
		return c->compiled->task.ttl_ms;
	return c->task->ends_us > now ? (c->task->ends_us - now) / 1000 : 0;
}
void call_task_arm(struct call *c);                     /* its timer, until it is one, or too long */
void call_task_long(struct call *c);                    /* its run says that it takes long (TK-23): now, if it may */
/* What it says of itself: of what is a task, or may become one. */
static inline void call_task_note(struct call *c, const char *note)
{
	if (c->task && note) {
		task_says(c->eng->env.tasks, c->task, note);
	} else if (c->may_task && note) {
		free(c->note);
		c->note = mem_strdup(note);
	}
}
bool call_task_due(struct call *c);                     /* that was for its becoming one, which begins */
/* Its end, that of a round that was refused too; or its questions: then it is parked. */
int call_task_end(struct call *c, const struct audit_event *ev, writer_audit_fn *done);
/* What it does goes on elsewhere: far() of its sink.  Then it needs no slots, once it is a task. */
void call_far(void *call, const void *state, size_t len);
static inline void call_far_rest(struct call *c)
{
	if (c->far && c->task)
		limit_release(c->eng->env.limiter, &c->ticket, ev_now_us(c->eng->env.loop));
}
void call_far_leave(const struct call *c, const void *state, size_t len);      /* nobody follows it any more */
/* park.c: tasks that are parked */
void call_task_body(const struct call *c, struct str *ret);     /* what another round of it needs */
void call_task_later(struct call_engine *eng);          /* there was no room: those that wait, after a while */
void call_task_turns(void *eng);                        /* an ev_fn: those that wait for a round */
size_t call_task_cancel_where(struct call_engine *eng, const struct call_where *where);
/* Another round was refused: for good, or it waits for its turn again. */
static inline bool call_task_over(const struct call *c)
{
	const enum call_refusal why = c->trouble->refusal;

	if (why == REFUSE_APPROVAL && c->trouble->approval_id)
		return false;           /* it goes on waiting */
	return why == REFUSE_CANCELLED ? c->why != CANCEL_SHUTDOWN :
		why != REFUSE_RATE && why != REFUSE_BUSY && why != REFUSE_AUDIT && why != REFUSE_UNDECIDED;
}
static inline void call_task_unbegun(struct call *c)    /* no round of it runs; later, unless it has ended */
{
	c->task->run = NULL;
	c->task->stop = NULL;
	call_task_later(c->eng);
}

#endif
